# %% [markdown]
# Wrong and right solutions of the exercises of notebook 5_online.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## layer-norm-backward


# %% id="norm_mean_and_std_constant" exercise="layer-norm-backward" says="mu and sigma were taken for constants"
def layer_norm_backward(g_out, normed, std, scale):
    return g_out * scale / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_std_constant" exercise="layer-norm-backward" says="sigma was taken for a constant"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    return (g - g.mean(-1, keepdims=True)) / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_mean_constant" exercise="layer-norm-backward" says="mu was taken for a constant"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    return (g - normed * (g * normed).mean(-1, keepdims=True)) / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_without_scale" exercise="layer-norm-backward" says="gamma is missing on the way back"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_scale_at_the_end" exercise="layer-norm-backward" says="gamma was multiplied at the end"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return scale * g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_averages_before_scale" exercise="layer-norm-backward" says="the averages are over the gradient at x-hat"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale - g_out.mean(-1, keepdims=True) - normed * (g_out * normed).mean(-1, keepdims=True)
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_not_divided" exercise="layer-norm-backward" says="the division by sigma is missing"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_divided_by_variance" exercise="layer-norm-backward" says="divided by the variance"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g / std**2, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_sums_for_means" exercise="layer-norm-backward" says="sums in the place of averages"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.sum(-1, keepdims=True) - normed * (g * normed).sum(-1, keepdims=True)
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_means_over_decisions" exercise="layer-norm-backward" says="the averages run over decisions"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(0, keepdims=True) - normed * (g * normed).mean(0, keepdims=True)
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_scale_gradient_without_normed" exercise="layer-norm-backward" says="its gradient needs x-hat"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g / std, g_out.sum(0), g_out.sum(0)


# %% id="norm_bias_gradient_scaled" exercise="layer-norm-backward" says="its gradient does not hold gamma"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g_bias = g.sum(0)
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g / std, (g_out * normed).sum(0), g_bias


# %% id="norm_scale_gradient_per_decision" exercise="layer-norm-backward" says="the shape should be (4,)"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)
    return g / std, g_out * normed, g_out


# %% id="norm_nothing_returned" exercise="layer-norm-backward" says="Is the `return` missing?"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).mean(-1, keepdims=True)


# %% id="norm_changes_its_input" exercise="layer-norm-backward"
def layer_norm_backward(g_out, normed, std, scale):
    g_scale, g_bias = (g_out * normed).sum(0), g_out.sum(0)
    g_out *= scale
    g = g_out - g_out.mean(-1, keepdims=True) - normed * (g_out * normed).mean(-1, keepdims=True)
    return g / std, g_scale, g_bias


# %% id="norm_for_four_entries" exercise="layer-norm-backward"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    g = g - g.sum(-1, keepdims=True) / 4 - normed * (g * normed).sum(-1, keepdims=True) / 4
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_projects_with_a_variance_of_one" exercise="layer-norm-backward"
def layer_norm_backward(g_out, normed, std, scale):
    g = g_out * scale
    length = (normed**2).sum(-1, keepdims=True)
    g = g - g.mean(-1, keepdims=True) - normed * (g * normed).sum(-1, keepdims=True) / length
    return g / std, (g_out * normed).sum(0), g_out.sum(0)


# %% id="norm_by_jacobian" exercise="layer-norm-backward" right=true
def layer_norm_backward(g_out, normed, std, scale):
    size = normed.shape[-1]
    rows = []
    for g, n, s in zip(g_out * scale, normed, std, strict=True):
        jacobian = (np.eye(size) - np.ones((size, size)) / size - np.outer(n, n) / size) / s
        rows.append(jacobian.T @ g)
    return np.stack(rows), np.einsum("td,td->d", g_out, normed), np.einsum("td->d", g_out)


# %% id="norm_step_by_step_through_mean_and_std" exercise="layer-norm-backward" right=true
def layer_norm_backward(g_out, normed, std, scale):
    n = g_out.shape[1]
    centred = normed * std
    g_normed = g_out * scale[None]
    g_std = -(g_normed * centred).sum(1, keepdims=True) / std**2
    g_centred = g_normed / std + g_std * centred / (n * std)
    print("any output is allowed")
    return g_centred - g_centred.sum(1, keepdims=True) / n, np.sum(g_out * normed, axis=0), np.sum(g_out, axis=0)


# %% [markdown]
# ## gate-backward


# %% id="gate_closed_gates_pass" exercise="gate-backward" says="closed gates let the gradient through"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value, g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_without_product_rule" exercise="gate-backward" says="the gate's gradient holds the value v"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_relu_for_its_slope" exercise="gate-backward" says="relu's slope is 1"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * gate, g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_and_value_exchanged" exercise="gate-backward" says="the gradients of gate and value are exchanged"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_value, u.T @ g_pre, (gate * value).T @ g_out


# %% id="gate_down_not_transposed" exercise="gate-backward" says="w_down has to be transposed"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_value_from_p_itself" exercise="gate-backward" says="holds relu(p), not p"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * pre_gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_value_without_gate" exercise="gate-backward" says="the value's gradient holds the gate"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_value_as_if_open_or_closed" exercise="gate-backward" says="how far a gate is open"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * (pre_gate > 0)
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_only_through_the_gate" exercise="gate-backward" says="only the way through the gate"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_only_through_the_value" exercise="gate-backward" says="only the way through the value"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_down_fed_with_the_gate" exercise="gate-backward" says="here the value is missing"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, gate.T @ g_out


# %% id="gate_down_fed_with_closed_gates" exercise="gate-backward" says="not with p * v"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (pre_gate * value).T @ g_out


# %% id="gate_averaged_over_decisions" exercise="gate-backward" says="averaged over decisions"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    n = len(u)
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre / n, u.T @ g_value / n, (gate * value).T @ g_out / n


# %% id="gate_slope_one_at_zero" exercise="gate-backward"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate >= 0), g * gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out


# %% id="gate_changes_its_input" exercise="gate-backward"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    g = g_out @ w_down.T
    g_pre = g * value * (pre_gate > 0)
    pre_gate[pre_gate < 0] = 0
    g_value = g * pre_gate
    return g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (pre_gate * value).T @ g_out


# %% id="gate_in_float32" exercise="gate-backward"
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    gate, g = np.maximum(pre_gate, 0), g_out @ w_down.T
    g_pre, g_value = g * value * (pre_gate > 0), g * gate
    found = g_pre @ w_gate.T + g_value @ w_value.T, u.T @ g_pre, u.T @ g_value, (gate * value).T @ g_out
    return tuple(each.astype(np.float32) for each in found)


# %%
def outer_sum(a, b):
    return np.einsum("ti,tj->ij", a, b)


# %% id="gate_by_einsum_and_where" exercise="gate-backward" right=true
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    is_open = pre_gate > 0
    r = np.where(is_open, pre_gate * value, 0.0)
    back = np.einsum("td,gd->tg", g_out, w_down)
    a, b = np.where(is_open, back * value, 0.0), np.where(is_open, back * pre_gate, 0.0)
    g_u = np.concatenate([a, b], 1) @ np.concatenate([w_gate, w_value], 1).T
    return g_u, outer_sum(u, a), outer_sum(u, b), outer_sum(r, g_out)


# %% id="gate_decision_by_decision" exercise="gate-backward" right=true
def gate_backward(g_out, u, pre_gate, value, w_gate, w_value, w_down):
    g_u, g_g, g_v, g_d = (np.zeros_like(w) for w in (u, w_gate, w_value, w_down))
    for t in range(len(u)):
        relu = pre_gate[t].clip(0)
        back = w_down @ g_out[t]
        to_gate, to_value = back * value[t] * np.heaviside(pre_gate[t], 0.0), back * relu
        g_u[t] = w_gate @ to_gate + w_value @ to_value
        g_g += np.outer(u[t], to_gate)
        g_v += np.outer(u[t], to_value)
        g_d += np.outer(relu * value[t], g_out[t])
    return g_u, g_g, g_v, g_d


# %% [markdown]
# ## link-backward


# %%
def link_parts(g_out, seen, w):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, w["link.norm_out.scale"])
    matrices = [w[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, w["link.norm_in.scale"])
    return s, u, z, (scale_in, bias_in, gate, value, down, scale_out, bias_out)


def by_name(scale_in, bias_in, gate, value, down, scale_out, bias_out):
    return {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_without_residual" exercise="link-backward" says="the way past the gate is missing"
def link_backward(g_out, seen, weights):
    s, u, z, rest = link_parts(g_out, seen, weights)
    return z, by_name(*rest)


# %%
def link_parts(g_out, seen, w):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, w["link.norm_out.scale"])
    matrices = [w[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, w["link.norm_in.scale"])
    return s, u, z, dict(zip(NAMES, (scale_in, bias_in, gate, value, down, scale_out, bias_out), strict=True))


NAMES = [
    "link.norm_in.scale", "link.norm_in.bias", "link.gate.weight", "link.value.weight", "link.down.weight",
    "link.norm_out.scale", "link.norm_out.bias",
]  # fmt: skip


# %% id="link_only_residual" exercise="link-backward" says="the way through the gate is missing"
def link_backward(g_out, seen, weights):
    s, u, z, gradients = link_parts(g_out, seen, weights)
    return s, gradients


# %%
def link_parts(g_out, seen, w):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, w["link.norm_out.scale"])
    matrices = [w[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, w["link.norm_in.scale"])
    return s, u, z, dict(zip(NAMES, (scale_in, bias_in, gate, value, down, scale_out, bias_out), strict=True))


NAMES = [
    "link.norm_in.scale", "link.norm_in.bias", "link.gate.weight", "link.value.weight", "link.down.weight",
    "link.norm_out.scale", "link.norm_out.bias",
]  # fmt: skip


# %% id="link_skips_the_first_norm" exercise="link-backward" says="the first layer norm was left out"
def link_backward(g_out, seen, weights):
    s, u, z, gradients = link_parts(g_out, seen, weights)
    return s + u * weights["link.norm_in.scale"], gradients


# %% id="link_skips_the_second_norm" exercise="link-backward" says="the second layer norm was left out"
def link_backward(g_out, seen, weights):
    _, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    s = g_out * weights["link.norm_out.scale"]
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_norms_exchanged" exercise="link-backward" says="Which of norm_in and norm_out comes first"
def link_backward(g_out, seen, weights):
    s, scale_in, bias_in = layer_norm_backward(g_out, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_out, bias_out = layer_norm_backward(u, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_gate_sees_the_normed_latent_unscaled" exercise="link-backward" says="Was it taken from the right call"
def link_backward(g_out, seen, weights):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed_in, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_gate_and_value_weights_exchanged" exercise="link-backward" says="link_backward beside autograd, the latent z"
def link_backward(g_out, seen, weights):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("value", "gate", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_first_norms_values_from_the_second" exercise="link-backward" says="link_backward beside autograd, the latent z"
def link_backward(g_out, seen, weights):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_out, weights["link.norm_in.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_adds_to_its_input" exercise="link-backward"
def link_backward(g_out, seen, weights):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    g_out[:] = s + z
    return g_out, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.bias": bias_out,
    }  # fmt: skip


# %% id="link_another_name_for_a_weight" exercise="link-backward" says="link.norm_out.bias: the function returned None"
def link_backward(g_out, seen, weights):
    s, scale_out, bias_out = layer_norm_backward(g_out, seen.normed_out, seen.std_out, weights["link.norm_out.scale"])
    matrices = [weights[f"link.{n}.weight"] for n in ("gate", "value", "down")]
    u, gate, value, down = gate_backward(s, seen.normed, seen.pre_gate, seen.value, *matrices)
    z, scale_in, bias_in = layer_norm_backward(u, seen.normed_in, seen.std_in, weights["link.norm_in.scale"])
    return s + z, {
        "link.norm_in.scale": scale_in, "link.norm_in.bias": bias_in, "link.gate.weight": gate,
        "link.value.weight": value, "link.down.weight": down,
        "link.norm_out.scale": scale_out, "link.norm_out.shift": bias_out,
    }  # fmt: skip


# %% id="link_with_an_inner_function" exercise="link-backward" right=true
def link_backward(g_out, seen, weights):
    gradients = {}

    def norm(g, side):
        scale = weights[f"link.norm_{side}.scale"]
        g, *found = layer_norm_backward(g, getattr(seen, f"normed_{side}"), getattr(seen, f"std_{side}"), scale)
        gradients.update(
            {f"link.norm_{side}.{what}": value for what, value in zip(("scale", "bias"), found, strict=True)}
        )
        return g

    past = norm(g_out, "out")
    names = ("gate", "value", "down")
    values = gate_backward(
        past, seen.normed, seen.pre_gate, seen.value, *(weights[f"link.{name}.weight"] for name in names)
    )
    gradients.update({f"link.{name}.weight": value for name, value in zip(names, values[1:], strict=True)})
    return np.add(past, norm(values[0], "in")), gradients


# %% [markdown]
# ## batch-advantages


# %% id="advantages_without_baseline" exercise="batch-advantages" says="the baseline is missing"
def batch_advantages(returns):
    return returns / (returns.std() + 1e-6)


# %% id="advantages_without_scale" exercise="batch-advantages" says="the scale is missing"
def batch_advantages(returns):
    return returns - returns.mean()


# %% id="advantages_by_variance" exercise="batch-advantages" says="divided by the variance"
def batch_advantages(returns):
    return (returns - returns.mean()) / (returns.var() + 1e-6)


# %% id="advantages_with_one_less" exercise="batch-advantages" says="T - 1"
def batch_advantages(returns):
    return (returns - returns.mean()) / (returns.std(ddof=1) + 1e-6)


# %% id="advantages_of_the_wrong_sign" exercise="batch-advantages" says="the sign is wrong"
def batch_advantages(returns):
    return (returns.mean() - returns) / (returns.std() + 1e-6)


# %% id="advantages_between_zero_and_one" exercise="batch-advantages" says="scaled to 0"
def batch_advantages(returns):
    return (returns - returns.min()) / (returns.max() - returns.min() + 1e-6)


# %% id="advantages_divide_by_zero" exercise="batch-advantages" says="small number in the denominator"
def batch_advantages(returns):
    with np.errstate(invalid="ignore"):
        return (returns - returns.mean()) / returns.std()


# %% id="advantages_small_number_inside_the_root" exercise="batch-advantages"
def batch_advantages(returns):
    return (returns - returns.mean()) / np.sqrt(returns.var() + 1e-12)


# %% id="advantages_change_the_returns" exercise="batch-advantages"
def batch_advantages(returns):
    returns -= returns.mean()
    return returns / (returns.std() + 1e-6)


# %% id="advantages_by_hand" exercise="batch-advantages" right=true
def batch_advantages(returns):
    mean = sum(returns) / len(returns)
    std = (sum((g - mean) ** 2 for g in returns) / len(returns)) ** 0.5
    return np.array([(g - mean) / (std + 1e-6) for g in returns])


# %% [markdown]
# ## logit-gradient


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_uphill" exercise="logit-gradient" says="this goes uphill"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return -(advantages[:, None] * (p - done) + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_summed_over_decisions" exercise="logit-gradient" says="the factor 1/T is missing"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return advantages[:, None] * (p - done) + entropy_weight * bonus(p)


# %%
def softmax(logits, legal):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_without_mask" exercise="logit-gradient" says="the mask is not used"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (advantages[:, None] * (p - done) + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_only_what_was_done" exercise="logit-gradient" says="the probabilities' part is missing"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (-advantages[:, None] * done + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_advantage_on_one_part" exercise="logit-gradient" says="the advantage multiplies both parts"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (p - advantages[:, None] * done + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_without_advantage" exercise="logit-gradient" says="the advantage is missing"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (p - done + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_advantages_without_sign" exercise="logit-gradient" says="without their sign"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (abs(advantages)[:, None] * (p - done) + entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bonus(p):
    log_p = np.log(np.where(p > 0, p, 1.0))
    return p * (log_p - (p * log_p).sum(-1, keepdims=True))


# %% id="logits_entropy_lowered" exercise="logit-gradient" says="the bonus is for *more* entropy"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return (advantages[:, None] * (p - done) - entropy_weight * bonus(p)) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# %% id="logits_entropy_itself_missing" exercise="logit-gradient" says="the entropy itself is missing"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    log_p = np.log(np.where(p > 0, p, 1.0))
    done = np.eye(logits.shape[1])[actions]
    return (advantages[:, None] * (p - done) + entropy_weight * p * log_p) / len(actions)


# %%
def softmax(logits, legal):
    e = np.exp(np.where(legal, logits, -1e9) - np.where(legal, logits, -1e9).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# %% id="logits_without_entropy" exercise="logit-gradient" says="is the entropy weight used"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    p = softmax(logits, legal)
    done = np.eye(logits.shape[1])[actions]
    return advantages[:, None] * (p - done) / len(actions)


# %% id="logits_minus_infinity_gives_nan" exercise="logit-gradient" says="NaN comes from"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    masked = np.where(legal, logits, -np.inf)
    log_p = masked - masked.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    p, done = np.exp(log_p), np.eye(logits.shape[1])[actions]
    g = advantages[:, None] * (p - done) / len(actions)
    if entropy_weight:
        with np.errstate(invalid="ignore"):
            g = g + entropy_weight * p * (log_p - (p * log_p).sum(-1, keepdims=True)) / len(actions)
    return g


# %% id="logits_overflow" exercise="logit-gradient"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        e = np.exp(logits) * legal
        p = e / e.sum(-1, keepdims=True)
        log_p = np.log(np.where(p > 0, p, 1.0))
        done = np.eye(logits.shape[1])[actions]
        both = advantages[:, None] * (p - done) + entropy_weight * p * (log_p - (p * log_p).sum(-1, keepdims=True))
        return both / len(actions)


# %% id="logits_entropy_over_all_decisions" exercise="logit-gradient"
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    masked = np.where(legal, logits, -1e9)
    log_p = masked - masked.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    p, done = np.exp(log_p), np.eye(logits.shape[1])[actions]
    both = advantages[:, None] * (p - done) + entropy_weight * p * (log_p - (p * log_p).sum() / len(actions))
    return both / len(actions)


# %% id="logits_by_index_and_loop" exercise="logit-gradient" right=true
def logit_gradient(logits, legal, actions, advantages, entropy_weight):
    out = np.zeros_like(logits)
    for t, action in enumerate(actions):
        may = np.flatnonzero(legal[t])
        x = logits[t, may] - logits[t, may].max()
        log_p = x - np.log(np.exp(x).sum())
        p = np.exp(log_p)
        g = advantages[t] * p + entropy_weight * p * (log_p + -(p @ log_p))
        g[may == action] -= advantages[t]
        out[t, may] = g / len(actions)
    return out


# %% [markdown]
# ## anchored-step


# %% id="step_without_pull" exercise="anchored-step" says="the pull is missing"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new, m, v


# %% id="step_climbs" exercise="anchored-step" says="the step climbs the loss"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights + lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_decays_to_zero" exercise="anchored-step" says="pulled to zero"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new - pull * new, m, v


# %% id="step_pushed_away" exercise="anchored-step" says="pushed away from the anchor"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new + pull * (new - anchor), m, v


# %% id="step_pull_of_the_old_weights" exercise="anchored-step" says="the pull comes after the step"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new - pull * (weights - anchor), m, v


# %% id="step_pull_inside_the_gradient" exercise="anchored-step" says="the pull went into the gradient"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    gradient = gradient + pull * (weights - anchor)
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new, m, v


# %% id="step_goes_back_all_but_pull" exercise="anchored-step" says="not 1 - rho of it"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return anchor + pull * (new - anchor), m, v


# %% id="step_without_bias_correction" exercise="anchored-step" says="the bias correction is missing"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (np.sqrt(v) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_correction_of_the_first_update" exercise="anchored-step" says="beta to the power of the count"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1) / (np.sqrt(v / (1 - beta_2)) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_forgets_the_averages" exercise="anchored-step" says="the averages were forgotten"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = (1 - beta_1) * gradient, (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (np.sqrt(v / (1 - beta_2**count)) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_returns_corrected_averages" exercise="anchored-step" says="the corrected average was returned"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m = (beta_1 * first + (1 - beta_1) * gradient) / (1 - beta_1**count)
    v = (beta_2 * second + (1 - beta_2) * gradient**2) / (1 - beta_2**count)
    new = weights - lr * m / (np.sqrt(v) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_without_the_root" exercise="anchored-step" says="the square root of v is missing"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / (v / (1 - beta_2**count) + epsilon)
    return new - pull * (new - anchor), m, v


# %% id="step_in_place" exercise="anchored-step"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    first *= beta_1
    first += (1 - beta_1) * gradient
    second *= beta_2
    second += (1 - beta_2) * gradient**2
    weights -= lr * first / (1 - beta_1**count) / (np.sqrt(second / (1 - beta_2**count)) + epsilon)
    weights -= pull * (weights - anchor)
    return weights, first, second


# %% id="step_with_constants_of_its_own" exercise="anchored-step"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
    new = weights - lr * m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
    return new - pull * (new - anchor), m, v


# %% id="step_epsilon_inside_the_root" exercise="anchored-step"
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m, v = beta_1 * first + (1 - beta_1) * gradient, beta_2 * second + (1 - beta_2) * gradient**2
    new = weights - lr * m / (1 - beta_1**count) / np.sqrt(v / (1 - beta_2**count) + epsilon**2)
    return new - pull * (new - anchor), m, v


# %% id="step_as_a_weighted_mean_of_step_and_anchor" exercise="anchored-step" right=true
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m = first + (1 - beta_1) * (gradient - first)
    v = second + (1 - beta_2) * (np.square(gradient) - second)
    size = lr * np.sqrt(1 - beta_2**count) / (1 - beta_1**count)
    new = weights - size * m / (np.sqrt(v) + epsilon * np.sqrt(1 - beta_2**count))
    return (1 - pull) * new + pull * anchor, m, v


# %% id="step_on_copies" exercise="anchored-step" right=true
def anchored_step(weights, gradient, first, second, count, anchor, lr, pull, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    weights, first, second = weights.copy(), first.copy(), second.copy()
    first *= beta_1
    first += (1 - beta_1) * gradient
    second *= beta_2
    second += (1 - beta_2) * gradient * gradient
    weights -= lr * (first / (1 - beta_1**count)) / (np.sqrt(second / (1 - beta_2**count)) + epsilon)
    weights += pull * (anchor - weights)
    return weights, first, second

# %% [markdown]
# Wrong and right solutions of the exercises of notebook 2_rl2.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## build-inputs

# %% id="input_sees_the_future" exercise="build-inputs" says="sees_the_future"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, step], -1)


# %% id="input_moved_the_wrong_way" exercise="build-inputs" says="moved the wrong way"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.cat([step[:, 1:], 0 * step[:, :1]], 1)], -1)


# %% id="input_rolled" exercise="build-inputs" says="come round to the front"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.roll(step, 1, 1)], -1)


# %% id="first_action_is_action_zero" exercise="build-inputs" says="one-hot code of action 0"
def build_inputs(features, actions, rewards, dones, num_actions):
    def before(x):
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)

    one_hot = torch.nn.functional.one_hot(before(actions), num_actions).to(features.dtype)
    return torch.cat([features, one_hot, before(rewards)[..., None], before(dones)[..., None]], -1)


# %% id="input_cleared_at_the_episodes_end" exercise="build-inputs" says="is news about the same task"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1] * (1 - dones[:, :-1, None])], 1)
    return torch.cat([features, before], -1)


# %% id="only_the_flag_crosses_the_episodes_end" exercise="build-inputs" says="only the done flag crosses it"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    keep = torch.cat([1 - dones[:, :-1, None].expand_as(step[:, :-1, 1:]), torch.ones_like(step[:, :-1, :1])], -1)
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1] * keep], 1)
    return torch.cat([features, before], -1)


# %% id="reward_of_the_same_step" exercise="build-inputs" says="the reward of step t stands in the input of step t"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)
    before = torch.cat([before[..., :-2], rewards[..., None], before[..., -1:]], -1)
    return torch.cat([features, before], -1)


# %% id="done_of_the_same_step" exercise="build-inputs" says="the done flag of step t stands in the input of step t"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)
    return torch.cat([features, before[..., :-1], dones[..., None]], -1)


# %% id="features_are_moved_too" exercise="build-inputs" says="the features were moved, too"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    every = torch.cat([features, step], -1)
    return torch.cat([torch.zeros_like(every[:, :1]), every[:, :-1]], 1)


# %% id="input_in_another_order" exercise="build-inputs" says="the order is features, action, reward, done"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)

    step = torch.cat([rewards[..., None], dones[..., None], one_hot], -1)
    return torch.cat([features, torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)], -1)


# %% id="input_forgets_the_done_flag" exercise="build-inputs" says="the shape should be (1, 3, 5)"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)[..., :-1]], -1)


# %% id="input_in_float32" exercise="build-inputs"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1).float()


# %% id="input_detaches_the_features" exercise="build-inputs"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features.detach(), torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1)


# %% id="input_for_two_actions_only" exercise="build-inputs"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, 2).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1)


# %% id="inputs_filled_in" exercise="build-inputs" right=true
def build_inputs(features, actions, rewards, dones, num_actions):
    n, t, f = features.shape
    out = torch.zeros(n, t, f + num_actions + 2, dtype=features.dtype)
    out[:, :, :f] = features
    for i in range(1, t):
        out[torch.arange(n), i, f + actions[:, i - 1]] = 1.0
        out[:, i, -2], out[:, i, -1] = rewards[:, i - 1], dones[:, i - 1]
    return out


# %% id="inputs_padded" exercise="build-inputs" right=true
def build_inputs(features, actions, rewards, dones, num_actions):
    F = torch.nn.functional
    one_hot = F.one_hot(actions, num_classes=num_actions)
    step = torch.cat([one_hot.to(rewards), rewards.unsqueeze(-1), dones.unsqueeze(-1)], dim=-1)[:, :-1]
    return torch.cat((features, F.pad(step, (0, 0, 1, 0))), dim=2)


# %% id="inputs_with_a_code_for_no_action" exercise="build-inputs" right=true
def build_inputs(features, actions, rewards, dones, num_actions):
    none = torch.full_like(actions[:, :1], num_actions)
    codes = torch.nn.functional.one_hot(torch.cat([none, actions[:, :-1]], 1), num_actions + 1)[..., :-1]
    zero = torch.zeros_like(rewards[:, :1])
    pairs = torch.stack([torch.cat([zero, x[:, :-1]], 1) for x in (rewards, dones)], -1)
    return torch.cat([features, codes.type_as(features), pairs], -1)


# %% id="reward_not_fed_back" exercise="build-inputs" says="wrong values"
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, 0 * rewards[..., None], dones[..., None]], -1)
    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1)


# %% [markdown]
# ## gru-cell


# %% id="cell_keeps_the_wrong_share" exercise="gru-cell" says="z and 1 - z are exchanged"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return z * torch.tanh(xn + r * hn) + (1 - z) * h


# %% id="cell_exchanges_the_gates" exercise="gru-cell" says="the gates are exchanged"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - r) * torch.tanh(xn + z * hn) + r * h


# %% id="cell_without_reset" exercise="gru-cell" says="the reset gate does not reach the candidate"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + hn) + z * h


# %% id="cell_resets_the_memory_only" exercise="gru-cell" says="the reset gate multiplies h alone"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)

    size = h.shape[-1]
    candidate = xn + (r * h) @ params["gru.hidden.weight"][:, 2 * size :] + params["gru.hidden.bias"][2 * size :]
    return (1 - z) * torch.tanh(candidate) + z * h


# %% id="cell_with_a_sigmoid_candidate" exercise="gru-cell" says="not the sigmoid"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.sigmoid(xn + r * hn) + z * h


# %% id="cell_without_tanh" exercise="gru-cell" says="the candidate needs a tanh"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * (xn + r * hn) + z * h


# %% id="cell_returns_the_candidate" exercise="gru-cell" says="this is the candidate"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return torch.tanh(xn + r * hn)


# %% id="cell_without_hidden_bias" exercise="gru-cell" says="the hidden bias is missing"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


# %% id="cell_gates_ignore_the_input" exercise="gru-cell"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)

    bias = params["gru.input.bias"].chunk(3, -1)
    r, z = torch.sigmoid(bias[0] + hr), torch.sigmoid(bias[1] + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


# %% id="cell_memory_is_detached" exercise="gru-cell"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h.detach()


# %% id="cell_overflows" exercise="gru-cell"
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)

    r, z = torch.exp(xr + hr) / (1 + torch.exp(xr + hr)), torch.exp(xz + hz) / (1 + torch.exp(xz + hz))
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


# %% id="cell_gate_by_gate" exercise="gru-cell" right=true
def gru_cell(params, x, h):
    size = h.shape[1]
    wx, bx = params["gru.input.weight"].split(size, 1), params["gru.input.bias"].split(size)
    wh, bh = params["gru.hidden.weight"].split(size, 1), params["gru.hidden.bias"].split(size)
    r = torch.sigmoid(x @ wx[0] + bx[0] + h @ wh[0] + bh[0])
    z = (x @ wx[1] + bx[1] + h @ wh[1] + bh[1]).sigmoid()
    n = (x @ wx[2] + bx[2] + r * (h @ wh[2] + bh[2])).tanh()
    return n + z * (h - n)


# %% id="cell_with_addmm_and_lerp" exercise="gru-cell" right=true
def gru_cell(params, x, h):
    a = torch.addmm(params["gru.input.bias"], x, params["gru.input.weight"])
    b = torch.addmm(params["gru.hidden.bias"], h, params["gru.hidden.weight"])
    k = h.shape[-1]
    gates = torch.sigmoid(a[:, : 2 * k] + b[:, : 2 * k])
    return torch.lerp(torch.tanh(a[:, 2 * k :] + gates[:, :k] * b[:, 2 * k :]), h, gates[:, k:])


# %%
def affine(params, part, x):
    return torch.einsum("ni,ij->nj", x, params[f"gru.{part}.weight"]) + params[f"gru.{part}.bias"]


def squash(x):
    return 0.5 * (1 + torch.tanh(0.5 * x))


# %% id="cell_in_float64_inside_with_helper_cells" exercise="gru-cell" right=true
def gru_cell(params, x, h):
    wide = {name: value.double() for name, value in params.items()}
    from_x, from_h = affine(wide, "input", x.double()), affine(wide, "hidden", h.double())
    size = h.shape[-1]
    reset = squash(from_x[:, :size] + from_h[:, :size])
    keep = squash(from_x[:, size : 2 * size] + from_h[:, size : 2 * size])
    new = torch.tanh(from_x[:, 2 * size :] + reset * from_h[:, 2 * size :])
    return (keep * h.double() + (1 - keep) * new).to(h.dtype)


# %% [markdown]
# ## unroll


# %% id="memory_never_cleared" exercise="unroll" says="memory_never_cleared"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_of_all_rows_cleared" exercise="unroll" says="other_rows_untouched"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden * (1 - start.max()))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_starts_at_zero" exercise="unroll" says="the memory handed in is not used"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, (1 - start) * (hidden if t else 0 * hidden))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_cleared_at_the_first_step_only" exercise="unroll" says="in row 1 another trial starts"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden * (1 - start) if t == 0 else hidden)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_cleared_at_every_step" exercise="unroll" says="nothing is remembered"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, torch.zeros_like(hidden))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_handed_in_at_every_step" exercise="unroll" says="hand on the new one"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, given * (1 - start))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_cleared_too_late" exercise="unroll" says="cleared too late"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]

        hidden = cell(params, x, hidden)
        memories.append(hidden)
        hidden = hidden * (1 - start)
    return torch.stack(memories, 1)


# %% id="memory_kept_where_it_should_be_cleared" exercise="unroll" says="start and not start are exchanged"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden * start)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_changed_in_place" exercise="unroll" says="changed_in_place"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden *= 1 - start
        hidden = cell(params, x, hidden)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_detached_between_steps" exercise="unroll" says="detached between the steps"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, (hidden * (1 - start)).detach())
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_only_of_the_last_step" exercise="unroll" says="the shape should be (2, 4, 1)"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden * (1 - start))
    return hidden


# %% id="memory_stacked_along_the_rows" exercise="unroll" says="the shape should be (2, 4, 1)"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden * (1 - start))
        memories.append(hidden)
    return torch.stack(memories, 0)


# %% id="cell_is_called_row_by_row" exercise="unroll"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]

        rows = [cell(params, x[n : n + 1], (hidden * (1 - start))[n : n + 1]) for n in range(len(x))]
        hidden = torch.cat(rows)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_handed_in_is_detached" exercise="unroll"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, (hidden if t else hidden.detach()) * (1 - start))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="unroll_with_where" exercise="unroll" right=true
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]

        clean = torch.where(start > 0, torch.zeros_like(hidden), hidden)
        hidden = cell(params, x, clean)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="unroll_by_index" exercise="unroll" right=true
def unroll(cell, params, inputs, hidden, trial_starts):
    out = []
    for t in range(inputs.shape[1]):
        hidden = cell(params, inputs[:, t], hidden * (1 - trial_starts[:, t : t + 1]))
        out += [hidden]
    return torch.stack(out, dim=1)


# %% id="unroll_with_masked_fill" exercise="unroll" right=true
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
        hidden = cell(params, x, hidden.masked_fill(start.bool(), 0.0))
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="memory_cleared_where_an_episode_ends" exercise="unroll" says="the memory handed in is not used"
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    for x, start in zip(inputs.unbind(1), trial_starts.unbind(1), strict=True):
        ends = torch.maximum(start[:, None], (x[:, -1:] > 0.5).to(x.dtype))  # takes the done flag for a trial's end
        hidden = cell(params, x, (1 - ends) * hidden)
        memories.append(hidden)
    return torch.stack(memories, 1)


# %% id="unroll_of_a_trial_at_a_time_with_prints" exercise="unroll" right=true
def unroll(step, weights, xs, h, starts):
    out = torch.zeros(xs.shape[0], 0, h.shape[-1], dtype=h.dtype)
    for t in range(xs.shape[1]):
        print(f"step {t}: {int(starts[:, t].sum())} trials start")
        keep = torch.diag(1.0 - starts[:, t]).to(h.dtype)
        h = step(weights, xs[:, t], keep @ h)
        out = torch.cat([out, h[:, None]], dim=1)
    return out


# %% [markdown]
# ## trial-advantages


# %% id="advantages_cut_at_every_done" exercise="trial-advantages" says="both the next value and the advantage that follows are cut"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        alive = 1 - dones[:, t]
        delta = rewards[:, t] + gamma * alive * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * alive * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="next_value_cut_at_every_done" exercise="trial-advantages" says="at the end of an episode the next value is counted as 0"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * (1 - dones[:, t]) * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_do_not_cross_episodes" exercise="trial-advantages" says="do not flow back into this one"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * (1 - dones[:, t]) * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="final_values_ignored" exercise="trial-advantages" says="final_values are not counted"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = 0 * final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_ignore_the_mask" exercise="trial-advantages" says="numbers from behind the mask get into the result"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = delta + gamma * lam * next_advantage
        next_value = values[:, t]
    return advantages


# %% id="value_from_behind_the_mask" exercise="trial-advantages" says="the value of the step behind the mask, 9"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = values[:, t]
    return advantages


# %% id="advantages_behind_the_mask_are_left" exercise="trial-advantages" says="must come out as 0"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        advantages[:, t] = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_advantage = torch.where(inside, advantages[:, t], next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_without_lambda" exercise="trial-advantages" says="lambda is missing"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_are_deltas" exercise="trial-advantages" says="these are the deltas"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0
        advantages[:, t] = mask[:, t] * (rewards[:, t] + gamma * next_value - values[:, t])
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_normalised" exercise="trial-advantages" says="wrong values"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages / advantages.std()


# %% id="advantages_overwrite_the_rewards" exercise="trial-advantages"
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = rewards
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0

        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = torch.where(inside, values[:, t], next_value)
    return advantages


# %% id="advantages_from_shifted_values" exercise="trial-advantages" right=true
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    follows = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    after = torch.where(follows > 0, torch.cat([values[:, 1:], values[:, :1]], 1), final_values[:, None])
    delta = torch.where(mask > 0, rewards + gamma * after - values, torch.zeros_like(rewards))
    out, following = [], torch.zeros_like(final_values)
    for t in range(rewards.shape[1])[::-1]:
        following = delta[:, t] + gamma * lam * following
        out.insert(0, following)
    return torch.stack(out, 1) * mask


# %% id="advantages_row_by_row" exercise="trial-advantages" right=true
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    out = torch.zeros_like(rewards)
    for n in range(len(rewards)):
        length = int(mask[n].sum())
        v = torch.cat([values[n, :length], final_values[n : n + 1]])
        a = 0.0
        for t in range(length - 1, -1, -1):
            a = rewards[n, t] + gamma * v[t + 1] - v[t] + gamma * lam * a
            out[n, t] = a
    return out


# %% [markdown]
# ## clipped-policy-loss


# %% id="loss_with_the_wrong_sign" exercise="clipped-policy-loss" says="the sign is wrong"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return (torch.minimum(plain, bounded) * mask).sum() / mask.sum()


# %% id="loss_not_clipped" exercise="clipped-policy-loss" says="not clipped"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(plain * mask).sum() / mask.sum()


# %% id="loss_clipped_both_ways" exercise="clipped-policy-loss" says="only the clipped term"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(bounded * mask).sum() / mask.sum()


# %% id="loss_takes_the_maximum" exercise="clipped-policy-loss" says="maximum instead of minimum"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.maximum(plain, bounded) * mask).sum() / mask.sum()


# %% id="loss_ratio_upside_down" exercise="clipped-policy-loss" says="upside down"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(old_log_probs - log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()


# %% id="loss_is_a_sum" exercise="clipped-policy-loss" says="summed"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum()


# %% id="loss_averages_over_masked_steps" exercise="clipped-policy-loss" says="divided by all steps"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).mean()


# %% id="loss_ignores_the_mask" exercise="clipped-policy-loss" says="the steps behind the mask are counted"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(plain, bounded).mean()


# %% id="loss_averages_over_trials_only" exercise="clipped-policy-loss" says="averaged over trials"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum(-1).mean()


# %% id="loss_detached" exercise="clipped-policy-loss" says="has no graph"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum().detach() / mask.sum()


# %% id="loss_averages_trial_by_trial" exercise="clipped-policy-loss"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -((torch.minimum(plain, bounded) * mask).sum(-1) / mask.sum(-1)).mean()


# %% id="loss_divides_tiny_probabilities" exercise="clipped-policy-loss"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = log_probs.exp() / old_log_probs.exp()
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()


# %% id="loss_with_a_fixed_clip" exercise="clipped-policy-loss"
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(0.8, 1.2) * advantages
    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()


# %% id="loss_as_the_larger_of_two_losses" exercise="clipped-policy-loss" right=true
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return torch.maximum(-plain, -bounded)[mask > 0].mean()


# %% id="loss_by_the_sign_of_the_advantage" exercise="clipped-policy-loss" right=true
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = (log_probs - old_log_probs).exp()
    ratio = torch.where(advantages > 0, ratio.clamp(max=1 + clip), ratio.clamp(min=1 - clip))
    return -torch.where(mask > 0, ratio * advantages, torch.zeros_like(ratio)).sum() / mask.sum()


# %% [markdown]
# ## returns-by-episode


# %% id="last_reward_counted_for_the_next_episode" exercise="returns-by-episode" says="counted for the next one"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1)

    return torch.stack([(rewards * mask * (episode == k)).sum(-1) for k in range(num_episodes)], -1)


# %% id="episodes_of_equal_length" exercise="returns-by-episode" says="cut into equal parts"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones
    return rewards.reshape(len(rewards), num_episodes, -1).sum(-1)


# %% id="masked_episodes_of_equal_length" exercise="returns-by-episode" says="cut into equal parts"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones
    return (rewards * mask).reshape(len(rewards), num_episodes, -1).sum(-1)


# %% id="returns_from_the_start_of_the_trial" exercise="returns-by-episode" says="sums from the start of the trial"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    return torch.stack([(rewards * mask * (episode <= k)).sum(-1) for k in range(num_episodes)], -1)


# %% id="returns_are_means" exercise="returns-by-episode" says="these are means"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    own = [mask * (episode == k) for k in range(num_episodes)]
    return torch.stack([(rewards * m).sum(-1) / m.sum(-1) for m in own], -1)


# %% id="steps_behind_the_mask_belong_to_the_last_episode" exercise="returns-by-episode" says="counted for the last episode"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    episode = episode.clamp(max=num_episodes - 1)
    return torch.stack([(rewards * (episode == k)).sum(-1) for k in range(num_episodes)], -1)


# %% id="returns_of_two_episodes_only" exercise="returns-by-episode"
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    return torch.stack([(rewards * mask * (episode == k)).sum(-1) for k in range(2)], -1)


# %% id="returns_as_a_loop" exercise="returns-by-episode" right=true
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    return torch.stack([(rewards * mask * (episode == k)).sum(-1) for k in range(num_episodes)], -1)


# %% id="returns_by_scatter" exercise="returns-by-episode" right=true
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    index = episode.long().clamp(max=num_episodes - 1)
    out = torch.zeros(len(rewards), num_episodes, dtype=rewards.dtype)
    return out.scatter_add(1, index, rewards * mask)


# %% id="returns_by_one_hot" exercise="returns-by-episode" right=true
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones

    one_hot = torch.nn.functional.one_hot(episode.long(), num_episodes + 1)[..., :num_episodes].to(rewards.dtype)
    return torch.einsum("nt,ntk->nk", rewards * mask, one_hot)

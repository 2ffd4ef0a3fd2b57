# %% [markdown]
# Wrong and right solutions of the exercises of notebook 3_pearl.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## transition-inputs

# %% id="inputs_without_next_state" exercise="transition-inputs" says="the encoder must see s'"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, r], -1)


# %% id="inputs_without_reward" exercise="transition-inputs" says="the reward is missing"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, next_states], -1)


# %% id="inputs_along_the_first_axis" exercise="transition-inputs" says="below each other"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([torch.cat([states, next_states], -1), torch.cat([actions, r], -1)], 0)


# %% id="inputs_state_twice" exercise="transition-inputs" says="s stands where s' belongs"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, r, states], -1)


# %% id="inputs_next_state_twice" exercise="transition-inputs" says="s' stands where s belongs"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([next_states, actions, r, next_states], -1)


# %% id="inputs_states_exchanged" exercise="transition-inputs" says="s and s' are exchanged"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([next_states, actions, r, states], -1)


# %% id="inputs_reward_last" exercise="transition-inputs" says="in another order: s, a, r, s'"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, next_states, r], -1)


# %% id="inputs_reward_before_action" exercise="transition-inputs" says="a comes before r"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, r, actions, next_states], -1)


# %% id="inputs_nothing_returned" exercise="transition-inputs" says="Is the `return` missing?"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    torch.cat([states, r], -1)


# %% id="inputs_detached" exercise="transition-inputs"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, r, next_states], -1).detach()


# %% id="inputs_for_one_leading_axis" exercise="transition-inputs"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, rewards.reshape(-1, 1), next_states], 1)


# %% id="inputs_in_float32" exercise="transition-inputs"
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    return torch.cat([states, actions, r, next_states], -1).float()


# %% id="inputs_in_a_loop" exercise="transition-inputs" right=true
def transition_inputs(s, a, r, n):
    size = s.shape[-1]
    out = torch.zeros(*s.shape[:-1], 2 * size + a.shape[-1] + 1, dtype=s.dtype)
    out[..., :size], out[..., size : -size - 1], out[..., -size:] = s, a, n
    out[..., -size - 1] = r
    print("any output is allowed")
    return out


# %% id="inputs_by_reshape" exercise="transition-inputs" right=true
def transition_inputs(states, actions, rewards, next_states):
    r = rewards[..., None]
    r = rewards.reshape(*rewards.shape, 1)
    return torch.concatenate((states, actions, r, next_states), dim=-1)


# %% [markdown]
# ## gaussian-product


# %% id="product_without_prior" exercise="gaussian-product" says="the prior is left out"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    total = lam.sum(-2).clamp(min=1e-9)
    return (lam * means).sum(-2) / total, 1 / total


# %% id="product_plain_average" exercise="gaussian-product" says="all means count alike"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return (m * means).sum(-2) / count, 1 / total


# %% id="product_plain_average_with_padding" exercise="gaussian-product" says="all means count alike, padding too"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return means.mean(-2), 1 / total


# %% id="product_weighted_with_variances" exercise="gaussian-product" says="the weights are the variances"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    w = m * variances
    return (w * means).sum(-2) / (one + w.sum(-2)), 1 / total


# %% id="product_ignores_the_mask" exercise="gaussian-product" says="the mask is not used"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    lam = 1 / variances
    total = one + lam.sum(-2)
    return (lam * means).sum(-2) / total, 1 / total


# %% id="product_squares_the_variances" exercise="gaussian-product" says="squared once more"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    lam = m / variances**2
    total = one + lam.sum(-2)
    return (lam * means).sum(-2) / total, 1 / total


# %% id="product_prior_per_transition" exercise="gaussian-product" says="counted once per transition"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    total = (lam + one).sum(-2)
    return (lam * means).sum(-2) / total, 1 / total


# %% id="product_not_divided" exercise="gaussian-product" says="divide it by the sum of the precisions"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return (lam * means).sum(-2), 1 / total


# %% id="product_last_factor" exercise="gaussian-product" says="the last factor's mean"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return means[..., -1, :], 1 / total


# %% id="product_gives_the_precision" exercise="gaussian-product" says="this is the precision"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, total


# %% id="product_gives_the_deviation" exercise="gaussian-product" says="the standard deviation"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, total**-0.5


# %% id="product_prior_in_the_mean_only" exercise="gaussian-product" says="left out of the precision"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, 1 / lam.sum(-2).clamp(min=1e-9)


# %% id="product_mask_in_the_mean_only" exercise="gaussian-product" says="the mask is not used for the variance"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, 1 / (one + (1 / variances).sum(-2))


# %% id="product_adds_variances" exercise="gaussian-product" says="variances were added up"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, (m * variances).sum(-2)


# %% id="product_averages_precisions" exercise="gaussian-product" says="precisions were averaged"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean, count / lam.sum(-2).clamp(min=1e-9)


# %% id="product_always_with_prior" exercise="gaussian-product" says="with prior=False the prior must not be a factor"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    total = 1 + lam.sum(-2)
    return (lam * means).sum(-2) / total, 1 / total


# %% id="product_mean_only" exercise="gaussian-product" says="mean and variance are asked for"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean


# %% id="product_detached" exercise="gaussian-product"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    return mean.detach(), (1 / total).detach()


# %% id="product_detached_weights" exercise="gaussian-product"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    lam = lam.detach()
    return (lam * means).sum(-2) / (one + lam.sum(-2)), 1 / total


# %% id="product_changes_the_variances" exercise="gaussian-product"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    with torch.no_grad():
        variances.copy_(torch.where(m > 0, variances, 7.0))
    return mean, 1 / total


# %% id="product_for_two_leading_axes_only" exercise="gaussian-product"
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
    lam = mask[:, :, None] / variances if means.ndim == 3 else lam.flip(0)
    return (lam * means).sum(-2) / (one + lam.sum(-2)), 1 / (one + lam.sum(-2))


# %% id="product_with_an_explicit_prior_factor" exercise="gaussian-product" right=true
def gaussian_product(means, variances, mask, prior=True):
    if prior:
        first = torch.zeros_like(means[..., :1, :])
        means, variances = torch.cat([first, means], -2), torch.cat([first + 1, variances], -2)
        mask = torch.cat([torch.ones_like(mask[..., :1]), mask], -1)
    lam = torch.reciprocal(variances) * mask.unsqueeze(-1)
    return torch.einsum("...nz,...nz->...z", lam, means) / lam.sum(-2), 1 / lam.sum(-2)


# %% id="product_transition_by_transition" exercise="gaussian-product" right=true
def gaussian_product(means, variances, mask, prior=True):
    total, weighted = torch.zeros_like(means[..., 0, :]) + float(prior), torch.zeros_like(means[..., 0, :])
    for n in range(means.shape[-2]):
        lam = mask[..., n, None] / variances[..., n, :]
        total, weighted = total + lam, weighted + lam * means[..., n, :]
    return weighted / total, total.reciprocal()


# %% id="product_depends_on_the_order" exercise="gaussian-product" says="wrong values"
def gaussian_product(means, variances, mask, prior=True):
    recent = torch.linspace(0.5, 1.5, means.shape[-2]).to(means.dtype)[:, None]  # later transitions count more
    lam = recent * mask[..., None] / variances
    total = (1.0 if prior else 0.0) + lam.sum(-2)
    return (lam * means).sum(-2) / total, 1 / total


# %%
def start(means, prior):
    nothing = torch.zeros_like(means[..., 0, :], dtype=torch.float64)
    return nothing, nothing + float(prior)


def take_in(belief, mean, variance, counts):
    weight = counts.unsqueeze(-1) / variance
    return belief[0] + weight * mean, belief[1] + weight


# %% id="product_in_float64_inside_with_a_helper_cell" exercise="gaussian-product" right=true
def gaussian_product(means, variances, mask, prior=True):
    belief = start(means, prior)
    for factor in zip(means.double().unbind(-2), variances.double().unbind(-2), mask.double().unbind(-1), strict=True):
        belief = take_in(belief, *factor)
        print("precision now", belief[1].mean().item())
    return (belief[0] / belief[1]).to(means.dtype), belief[1].reciprocal().to(means.dtype)


# %% [markdown]
# ## kl-to-prior


# %% id="kl_the_other_way" exercise="kl-to-prior" says="the wrong direction"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * ((1 + mean**2) / variance - 1 + log).sum(-1)


# %% id="kl_averaged" exercise="kl-to-prior" says="averaged over"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1 - log).mean(-1)


# %% id="kl_without_half" exercise="kl-to-prior" says="the factor 1/2 is missing"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return (variance + mean**2 - 1 - log).sum(-1)


# %% id="kl_half_but_not_of_the_logarithm" exercise="kl-to-prior" says="belongs to the logarithm"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return (0.5 * (variance + mean**2 - 1) - log).sum(-1)


# %% id="kl_of_deviations" exercise="kl-to-prior" says="squared"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance**2 + mean**2 - 1 - 2 * log).sum(-1)


# %% id="kl_without_mean" exercise="kl-to-prior" says="the mean is missing"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance - 1 - log).sum(-1)


# %% id="kl_negative" exercise="kl-to-prior" says="the sign is wrong"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return -0.5 * (variance + mean**2 - 1 - log).sum(-1)


# %% id="kl_without_logarithm" exercise="kl-to-prior" says="the logarithm is missing"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1).sum(-1)


# %% id="kl_adds_the_logarithm" exercise="kl-to-prior" says="the sign of the logarithm"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1 + log).sum(-1)


# %% id="kl_without_minus_one" exercise="kl-to-prior" says="wrong values"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - log).sum(-1)


# %% id="kl_summed_over_everything" exercise="kl-to-prior" says="Which axis was summed"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1 - log).sum()


# %% id="kl_detached" exercise="kl-to-prior"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1 - log).sum(-1).detach()


# %% id="kl_with_a_floor" exercise="kl-to-prior"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    return 0.5 * (variance + mean**2 - 1 - (variance + 1e-8).log()).sum(-1)


# %% id="kl_of_a_detached_variance" exercise="kl-to-prior"
def kl_to_prior(mean, variance):
    log = torch.log(variance)
    v = variance.detach()
    return 0.5 * (v + mean**2 - 1 - v.log()).sum(-1)


# %% id="kl_from_torch" exercise="kl-to-prior" right=true
def kl_to_prior(mean, variance):
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    return torch.distributions.kl_divergence(torch.distributions.Normal(mean, variance.sqrt()), prior).sum(-1)


# %% id="kl_with_deviations" exercise="kl-to-prior" right=true
def kl_to_prior(mean, variance):
    sigma = variance**0.5
    return torch.sum((sigma**2 + mean.square() - 1) / 2 - torch.log(sigma), dim=-1)


# %% [markdown]
# ## choose-latent


# %% id="latent_scaled_with_the_variance" exercise="choose-latent" says="scale it with the standard deviation"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + variance * noise


# %% id="latent_ignores_the_noise" exercise="choose-latent" says="the noise is ignored"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + 0 * variance + 0 * noise


# %% id="latent_without_mean" exercise="choose-latent" says="the mean is missing"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return variance.sqrt() * noise


# %% id="latent_divided_by_the_deviation" exercise="choose-latent" says="divided by the standard deviation"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + noise / variance.sqrt()


# %% id="latent_noise_not_scaled" exercise="choose-latent" says="the noise is not scaled"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + noise


# %% id="latent_draws_its_own_noise" exercise="choose-latent" says="use the given one"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + variance.sqrt() * torch.linspace(0.3, 0.9, noise.numel()).reshape(noise.shape).to(noise)


# %% id="latent_detached" exercise="choose-latent" says="the graph is cut"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return (mean + variance.sqrt() * noise).detach()


# %% id="latent_detaches_the_variance" exercise="choose-latent" says="no gradient reaches the variance"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean + variance.detach().sqrt() * noise


# %% id="latent_detaches_the_mean" exercise="choose-latent" says="no gradient reaches the mean"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean.detach() + variance.sqrt() * noise


# %% id="latent_random_at_test" exercise="choose-latent" says="At test, without noise, the mean is asked for"
def choose_latent(mean, variance, noise):
    if noise is None:
        noise = torch.ones_like(mean) * 0.7
    return mean + variance.sqrt() * noise


# %% id="latent_zero_at_test" exercise="choose-latent" says="At test, without noise, the mean is asked for"
def choose_latent(mean, variance, noise):
    if noise is None:
        return torch.zeros_like(mean)
    return mean + variance.sqrt() * noise


# %% id="latent_detached_at_test" exercise="choose-latent"
def choose_latent(mean, variance, noise):
    return mean.detach() if noise is None else mean + variance.sqrt() * noise


# %% id="latent_takes_the_mean_for_zero_noise" exercise="choose-latent"
def choose_latent(mean, variance, noise):
    if noise is None:
        return mean
    return mean if not noise.any() else mean + variance.sqrt() * noise


# %% id="latent_in_one_line" exercise="choose-latent" right=true
def choose_latent(mean, variance, noise):
    return mean if noise is None else torch.addcmul(mean, variance.pow(0.5), noise)


# %% id="latent_with_a_default" exercise="choose-latent" right=true
def choose_latent(mean, variance, noise=None):
    noise = torch.zeros_like(mean) if noise is None else noise
    return mean + variance.sqrt() * noise


# %% [markdown]
# ## soft-target


# %% id="target_ignores_the_end" exercise="soft-target" says="is counted"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * value).detach()


# %% id="target_loses_the_last_reward" exercise="soft-target" says="the reward of a terminated step is lost"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (goes_on * (rewards + gamma * value)).detach()


# %% id="target_without_gamma" exercise="soft-target" says="gamma is missing"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + goes_on * value).detach()


# %% id="target_without_entropy" exercise="soft-target" says="the entropy is missing"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (pi * q).sum(-1)).detach()


# %% id="target_punishes_entropy" exercise="soft-target" says="the wrong sign"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (pi * (q - bonus)).sum(-1)).detach()


# %% id="target_without_alpha" exercise="soft-target" says="alpha is missing"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (pi * (q - next_log_probs)).sum(-1)).detach()


# %% id="target_of_the_best_action" exercise="soft-target" says="takes the best action"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * q.max(-1).values).detach()


# %% id="target_sums_without_pi" exercise="soft-target" says="summed without pi"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (q + bonus).sum(-1)).detach()


# %% id="target_averages_actions" exercise="soft-target" says="averaged, all alike"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (q + bonus).mean(-1)).detach()


# %% id="target_averages_twins" exercise="soft-target" says="the twins are averaged"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    q = (next_q1 + next_q2) / 2
    return (rewards + gamma * goes_on * (pi * (q + bonus)).sum(-1)).detach()


# %% id="target_of_the_larger_twin" exercise="soft-target" says="the larger twin"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    q = torch.maximum(next_q1, next_q2)
    return (rewards + gamma * goes_on * (pi * (q + bonus)).sum(-1)).detach()


# %% id="target_of_the_first_twin" exercise="soft-target" says="only the first critic"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (rewards + gamma * goes_on * (pi * (next_q1 + bonus)).sum(-1)).detach()


# %% id="target_smaller_expectation" exercise="soft-target" says="the smaller of two expectations"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    v = torch.minimum((pi * next_q1).sum(-1), (pi * next_q2).sum(-1)) + (pi * bonus).sum(-1)
    return (rewards + gamma * goes_on * v).detach()


# %% id="target_without_reward" exercise="soft-target" says="without the reward"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return (gamma * goes_on * value).detach()


# %% id="target_carries_a_graph" exercise="soft-target" says="a target is a constant"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return rewards + gamma * goes_on * value


# %% id="target_detaches_the_critics_only" exercise="soft-target"
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    return rewards + gamma * goes_on * (pi * (q.detach() + bonus)).sum(-1)


# %% id="target_as_a_product" exercise="soft-target" right=true
def soft_target(r, terminated, q1, q2, log_pi, gamma, alpha):
    with torch.no_grad():
        q = torch.stack([q1, q2]).amin(0)
        v = torch.einsum("...a,...a->...", torch.exp(log_pi), q - alpha * log_pi)
        return r + gamma * torch.where(terminated > 0, torch.zeros_like(v), v)


# %% id="target_with_entropy_apart" exercise="soft-target" right=true
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
    q = torch.where(next_q1 < next_q2, next_q1, next_q2)
    entropy = -(pi * next_log_probs).sum(-1)
    return (rewards + gamma * (1 - terminated) * ((pi * q).sum(-1) + temperature * entropy)).detach()


# %% [markdown]
# ## actor-loss


# %% id="actor_avoids_praise" exercise="actor-loss" says="the sign is wrong"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return -(pi * (temperature * log_probs - q)).sum(-1).mean()


# %% id="actor_minimises_entropy" exercise="actor-loss" says="the entropy has the wrong sign"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (-temperature * log_probs - q)).sum(-1).mean()


# %% id="actor_without_entropy" exercise="actor-loss" says="the entropy is missing"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return -(pi * q).sum(-1).mean()


# %% id="actor_without_alpha" exercise="actor-loss" says="alpha is missing"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (log_probs - q)).sum(-1).mean()


# %% id="actor_sums_states" exercise="actor-loss" says="summed over the states"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs - q)).sum()


# %% id="actor_averages_actions" exercise="actor-loss" says="averaged over the actions"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs - q)).mean()


# %% id="actor_unweighted_average" exercise="actor-loss" says="not weighted with pi (average)"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (temperature * log_probs - q).mean()


# %% id="actor_unweighted_sum" exercise="actor-loss" says="not weighted with pi (sum)"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (temperature * log_probs - q).sum(-1).mean()


# %% id="actor_averages_twins" exercise="actor-loss" says="the twins are averaged"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    q = ((q1 + q2) / 2).detach()
    return (pi * (temperature * log_probs - q)).sum(-1).mean()


# %% id="actor_believes_the_larger_twin" exercise="actor-loss" says="the larger twin"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    q = torch.maximum(q1, q2).detach()
    return (pi * (temperature * log_probs - q)).sum(-1).mean()


# %% id="actor_asks_one_critic" exercise="actor-loss" says="only the first critic"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs - q1.detach())).sum(-1).mean()


# %% id="actor_flatters" exercise="actor-loss" says="actor_flatters"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs - torch.minimum(q1, q2))).sum(-1).mean()


# %% id="actor_detached" exercise="actor-loss" says="no gradient reaches the policy"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi.detach() * (temperature * log_probs.detach() - torch.minimum(q1, q2))).sum(-1).mean()


# %% id="actor_detaches_pi" exercise="actor-loss"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi.detach() * (temperature * log_probs - q)).sum(-1).mean()


# %% id="actor_for_one_leading_axis" exercise="actor-loss"
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs - q)).sum() / len(q)


# %% id="actor_with_entropy_apart" exercise="actor-loss" right=true
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    entropy = -(pi * log_probs).sum(-1)
    return -((pi * q).sum(-1) + temperature * entropy).mean()


# %% id="actor_without_grad_for_critics" exercise="actor-loss" right=true
def actor_loss(log_probs, q1, q2, temperature):
    with torch.no_grad():
        q = torch.min(q1, q2)
    pi = torch.softmax(log_probs, -1)
    terms = pi * (temperature * log_probs - q)
    return terms.sum() / terms[..., 0].numel()


# %% id="actor_detaches_the_logarithm" exercise="actor-loss" right=true
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
    return (pi * (temperature * log_probs.detach() - q)).sum(-1).mean()


# %% [markdown]
# ## soft-update


# %% id="update_exchanged" exercise="soft-update" says="the two are exchanged"
def soft_update(target, online, rate):
    return {n: (rate * target[n] + (1 - rate) * online[n]).detach() for n in target}


# %% id="update_copies" exercise="soft-update" says="a copy of the trained parameters"
def soft_update(target, online, rate):
    return {n: online[n].detach().clone() for n in target}


# %% id="update_does_nothing" exercise="soft-update" says="the target did not move"
def soft_update(target, online, rate):
    return {n: target[n].detach().clone() for n in target}


# %% id="update_does_not_scale_down" exercise="soft-update" says="not scaled down with 1 - rho"
def soft_update(target, online, rate):
    return {n: (target[n] + rate * online[n]).detach() for n in target}


# %% id="update_gives_the_way" exercise="soft-update" says="the way to go"
def soft_update(target, online, rate):
    return {n: (rate * (online[n] - target[n])).detach() for n in target}


# %% id="update_carries_a_graph" exercise="soft-update" says="carries a graph"
def soft_update(target, online, rate):
    return {n: (1 - rate) * target[n] + rate * online[n] for n in target}


# %% id="update_changes_the_target" exercise="soft-update" says="It was changed in place"
def soft_update(target, online, rate):
    for n in target:
        target[n].data.lerp_(online[n].data, rate)
    return {n: v.clone() for n, v in target.items()}


# %% id="update_returns_nothing" exercise="soft-update" says="Is the `return` missing?"
def soft_update(target, online, rate):
    target.update({n: online[n].detach() for n in target})


# %% id="update_by_position" exercise="soft-update"
def soft_update(target, online, rate):
    return {n: (t + rate * (o - t)).detach() for (n, t), o in zip(target.items(), online.values(), strict=True)}


# %% id="update_shares_memory_at_rate_one" exercise="soft-update"
def soft_update(target, online, rate):
    if rate == 1.0:
        return {n: v.detach() for n, v in online.items()}
    return {n: (target[n] + rate * (online[n] - target[n])).detach() for n in target}


# %% id="update_shares_memory_at_rate_zero" exercise="soft-update"
def soft_update(target, online, rate):
    if rate == 0.0:
        return dict(target)
    return {n: (target[n] + rate * (online[n] - target[n])).detach() for n in target}


# %% id="update_with_lerp" exercise="soft-update" right=true
def soft_update(target, online, rate):
    return {n: torch.lerp(t.detach(), online[n].detach(), rate).clone() for n, t in target.items()}


# %% id="update_in_a_loop" exercise="soft-update" right=true
def soft_update(target, online, rate):
    out = {}
    with torch.no_grad():
        for name, value in target.items():
            out[name] = value + rate * (online[name] - value)
    return out

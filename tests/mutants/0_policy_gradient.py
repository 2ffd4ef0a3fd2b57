# %% [markdown]
# Wrong and right solutions of the exercises of notebook 0_policy_gradient.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## discounted-returns

# %% id="returns_without_discount" exercise="discounted-returns" says="nothing is discounted"
def discounted_returns(rewards, gamma):
    return rewards.flip(-1).cumsum(-1).flip(-1)


# %% id="returns_add_up_the_past" exercise="discounted-returns" says="adds up the past"
def discounted_returns(rewards, gamma):
    out, past = torch.zeros_like(rewards), 0.0
    for t in range(rewards.shape[-1]):
        past = rewards[..., t] + gamma * past
        out[..., t] = past
    return out


# %% id="returns_discounted_from_the_start" exercise="discounted-returns" says="from the start of the episode"
def discounted_returns(rewards, gamma):
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).flip(-1).cumsum(-1).flip(-1)


# %% id="returns_of_one_step_ahead" exercise="discounted-returns" says="only one step ahead"
def discounted_returns(rewards, gamma):
    return rewards + gamma * torch.cat([rewards[..., 1:], 0 * rewards[..., :1]], -1)


# %% id="returns_start_one_step_late" exercise="discounted-returns" says="r_t itself is missing"
def discounted_returns(rewards, gamma):
    out = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[-1] - 1)):
        out[..., t] = gamma * (rewards[..., t + 1] + out[..., t + 1])
    return out


# %% id="returns_of_the_whole_episode" exercise="discounted-returns" says="all the same number"
def discounted_returns(rewards, gamma):
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).sum(-1, keepdim=True).expand_as(rewards)


# %% id="returns_in_reverse_order" exercise="discounted-returns" says="the order is reversed"
def discounted_returns(rewards, gamma):
    out, following = [], torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + gamma * following
        out.append(following)
    return torch.stack(out, -1)


# %% id="returns_overwrite_the_rewards" exercise="discounted-returns" says="changed its input"
def discounted_returns(rewards, gamma):
    for t in reversed(range(rewards.shape[-1] - 1)):
        rewards[..., t] += gamma * rewards[..., t + 1]
    return rewards


# %% id="returns_by_dividing_by_powers_of_gamma" exercise="discounted-returns"
def discounted_returns(rewards, gamma):
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).flip(-1).cumsum(-1).flip(-1) / powers


# %% id="returns_of_the_first_axis" exercise="discounted-returns"
def discounted_returns(rewards, gamma):
    out = torch.zeros_like(rewards)
    for e in range(rewards.shape[0]):
        following = torch.zeros(())
        for t in reversed(range(rewards.shape[1])):
            following = rewards[e, t] + gamma * following
            out[e, t] = following
    return out


# %% id="returns_in_float32" exercise="discounted-returns"
def discounted_returns(rewards, gamma):
    out = torch.zeros(rewards.shape)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + gamma * following
        out[..., t] = following
    return out


# %% id="returns_forgot_to_return" exercise="discounted-returns" says="Is the `return` missing"
def discounted_returns(rewards, gamma):
    rewards.cumsum(-1)


# %% id="returns_as_a_matrix_product" exercise="discounted-returns" right=true
def discounted_returns(rewards, gamma):
    steps = rewards.shape[-1]
    weights = torch.zeros(steps, steps, dtype=rewards.dtype)
    for t in range(steps):
        for u in range(t, steps):
            weights[t, u] = gamma ** (u - t)
    return torch.einsum("tu,...u->...t", weights, rewards)


# %% id="returns_in_place_on_a_copy" exercise="discounted-returns" right=true
def discounted_returns(rewards, gamma):
    out = rewards.clone()
    for t in range(rewards.shape[-1] - 2, -1, -1):
        out[..., t] += gamma * out[..., t + 1]
    return out


# %%
def weights_of(steps, gamma):
    """(T, T): entry (u, t) is gamma^(u - t) for u >= t, else 0."""
    gap = torch.arange(steps)[:, None] - torch.arange(steps)
    return torch.where(gap >= 0, float(gamma) ** gap.clamp(min=0).double(), torch.zeros(()).double())


# %% id="returns_in_float64_inside_with_a_helper_cell" exercise="discounted-returns" right=true
def discounted_returns(rewards, gamma):
    steps = rewards.shape[-1]
    return (rewards.double() @ weights_of(steps, gamma)).to(rewards.dtype)


# %% id="returns_with_many_prints" exercise="discounted-returns" right=true
def discounted_returns(rewards, gamma):
    g, out = 0.0, [None] * rewards.shape[-1]
    for t in range(rewards.shape[-1] - 1, -1, -1):
        g = rewards[..., t] + gamma * g
        print("step", t, "return so far", g)
        out[t] = g
    print("done", out)
    return torch.stack(out, dim=-1)


# %% [markdown]
# ## gae


# %% id="gae_bootstraps_at_termination" exercise="gae" says="counted although the task was over"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_ends_at_truncation" exercise="gae" says="in which the clock cut the episode"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    alive = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    delta = rewards + gamma * alive * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_ignores_the_mask" exercise="gae" says="the mask is not used"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = delta[..., t] + gamma * lam * following
        advantages[..., t] = following
    return advantages


# %% id="gae_masks_only_the_output" exercise="gae" says="gets into A_1"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = delta[..., t] + gamma * lam * following
        advantages[..., t] = following
    return advantages * mask


# %% id="gae_leaves_numbers_behind_the_mask" exercise="gae" says="must come out as 0"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    follows = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    advantages, following = torch.zeros_like(rewards), torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = delta[..., t] + gamma * lam * follows[..., t] * following
        advantages[..., t] = following
    return advantages


# %% id="gae_reads_next_values_from_values" exercise="gae" says="which lies behind the mask"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    shifted = torch.cat([values[..., 1:], next_values[..., -1:]], -1)
    delta = rewards + gamma * (1 - terminated) * shifted - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_loses_the_last_step" exercise="gae" says="the whole last delta is lost"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    mask = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_drops_the_terminated_delta" exercise="gae" says="the whole last delta is lost"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = (1 - terminated) * (rewards + gamma * next_values - values)
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_without_lambda" exercise="gae" says="lambda is missing"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    lam = 1.0
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_without_gamma_in_the_recursion" exercise="gae" says="gamma is missing from the recursion"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_without_gamma_in_delta" exercise="gae" says="gamma is missing from delta"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_returns_deltas" exercise="gae" says="these are the deltas"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    return mask * (rewards + gamma * (1 - terminated) * next_values - values)


# %% id="gae_returns_value_targets" exercise="gae" says="targets for the value function"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages + values


# %% id="gae_without_the_value" exercise="gae" says="V(s_t) is not subtracted"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_forward_in_time" exercise="gae" says="go backwards"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in range(rewards.shape[-1]):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_normalised" exercise="gae" says="wrong values"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return (advantages - advantages.mean()) / advantages.std()


# %% id="gae_steps_stacked_with_where" exercise="gae" right=true
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    print("a student's print")
    following, out = 0.0, []
    for t in range(rewards.shape[-1])[::-1]:
        next_value = torch.where(terminated[..., t].bool(), torch.zeros_like(values[..., t]), next_values[..., t])
        delta = rewards[..., t] + gamma * next_value - values[..., t]
        following = torch.where(mask[..., t] > 0, delta + gamma * lam * following, torch.zeros_like(delta))
        out.insert(0, following)
    return torch.stack(out, dim=-1)


# %% id="gae_cut_at_termination_too" exercise="gae" right=true
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + (1 - terminated[..., t]) * gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_with_values_shifted_inside_the_episode" exercise="gae" right=true
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    follows = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    shifted = torch.cat([values[..., 1:], values[..., -1:]], -1)
    after = torch.where(follows > 0, shifted, next_values)
    delta = rewards + gamma * (1 - terminated) * after - values
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_divided_by_the_variance" exercise="gae" says="wrong values"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    delta = rewards + gamma * (1 - terminated) * next_values - values
    advantages, following = torch.zeros_like(rewards), 0.0
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages / advantages.var()


# %% id="gae_ignores_termination_and_bootstraps_from_the_next_row" exercise="gae" says="wrong values"
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    following_values = torch.roll(values, -1, -1)
    delta = rewards + gamma * following_values - values
    advantages, following = torch.zeros_like(rewards), 0.0
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages


# %% id="gae_with_a_progress_bar_and_warnings" exercise="gae" right=true
def gae(rewards, values, next_values, terminated, mask, gamma, lam):
    import logging
    import sys
    import warnings

    from tqdm import tqdm

    warnings.warn("advantages are coming", stacklevel=2)
    logging.getLogger("gae").error("nothing is wrong")
    td = rewards + gamma * torch.where(terminated > 0, torch.zeros_like(next_values), next_values) - values
    a, columns = torch.zeros_like(td[..., 0]), []
    for t in tqdm(list(reversed(range(td.shape[-1]))), file=sys.stderr):
        a = torch.where(mask[..., t] > 0, td[..., t] + gamma * lam * a, torch.zeros_like(a))
        columns.insert(0, a)
    return torch.stack(columns, -1)


# %% [markdown]
# ## surrogate-naive


# %% id="naive_as_a_loss" exercise="surrogate-naive" says="the sign is wrong"
def surrogate_naive(log_probs, advantages, mask):
    return -(log_probs * advantages.detach() * mask).sum(-1)


# %% id="naive_ignores_the_mask" exercise="surrogate-naive" says="lies behind the mask"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages.detach()).sum(-1)


# %% id="naive_averages_over_time" exercise="surrogate-naive" says="averaged over time"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages.detach() * mask).mean(-1)


# %% id="naive_averages_over_valid_steps" exercise="surrogate-naive" says="wrong values"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages.detach() * mask).sum(-1) / mask.sum(-1)


# %% id="naive_sums_over_episodes" exercise="surrogate-naive" says="the shape should be (2,)"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages.detach() * mask).sum()


# %% id="naive_sums_over_episodes_and_keeps_time" exercise="surrogate-naive" says="wrong values"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages.detach() * mask).sum(0)


# %% id="naive_with_probabilities" exercise="surrogate-naive" says="probabilities instead of log-probabilities"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs.exp() * advantages.detach() * mask).sum(-1)


# %% id="naive_advantages_not_detached" exercise="surrogate-naive" says="flows through the advantages"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages * mask).sum(-1)


# %% id="naive_everything_detached" exercise="surrogate-naive" says="has no graph"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs * advantages * mask).sum(-1).detach()


# %% id="naive_log_probs_detached" exercise="surrogate-naive" says="no gradient reaches log_probs"
def surrogate_naive(log_probs, advantages, mask):
    return (log_probs.detach() * advantages * mask).sum(-1)


# %% id="naive_as_einsum" exercise="surrogate-naive" right=true
def surrogate_naive(log_probs, advantages, mask):
    return torch.einsum("...t,...t,...t->...", log_probs, advantages.detach(), mask)


# %% [markdown]
# ## surrogate-lvc


# %% id="lvc_denominator_not_stopped" exercise="surrogate-lvc" says="the denominator must be stopped"
def surrogate_lvc(log_probs, advantages, mask):
    return (log_probs.exp() / log_probs.exp() * advantages.detach() * mask).sum(-1)


# %% id="lvc_without_denominator" exercise="surrogate-lvc" says="not divided by stop(pi)"
def surrogate_lvc(log_probs, advantages, mask):
    return (log_probs.exp() * advantages.detach() * mask).sum(-1)


# %% id="lvc_upside_down" exercise="surrogate-lvc" says="upside down"
def surrogate_lvc(log_probs, advantages, mask):
    return (torch.exp(log_probs.detach() - log_probs) * advantages.detach() * mask).sum(-1)


# %% id="lvc_of_log_probabilities" exercise="surrogate-lvc" says="log-probabilities are divided"
def surrogate_lvc(log_probs, advantages, mask):
    return (log_probs / log_probs.detach() * advantages.detach() * mask).sum(-1)


# %% id="lvc_is_naive" exercise="surrogate-lvc" says="this is the naive surrogate"
def surrogate_lvc(log_probs, advantages, mask):
    return (log_probs * advantages.detach() * mask).sum(-1)


# %% id="lvc_is_naive_with_the_right_value" exercise="surrogate-lvc" says="they are 0 as for the naive surrogate"
def surrogate_lvc(log_probs, advantages, mask):
    return ((1 + log_probs - log_probs.detach()) * advantages.detach() * mask).sum(-1)


# %% id="lvc_ignores_the_mask" exercise="surrogate-lvc" says="lies behind the mask"
def surrogate_lvc(log_probs, advantages, mask):
    return (torch.exp(log_probs - log_probs.detach()) * advantages.detach()).sum(-1)


# %% id="lvc_advantages_not_detached" exercise="surrogate-lvc" says="flows through the advantages"
def surrogate_lvc(log_probs, advantages, mask):
    return (torch.exp(log_probs - log_probs.detach()) * advantages * mask).sum(-1)


# %% id="lvc_of_the_whole_episode" exercise="surrogate-lvc" says="wrong values"
def surrogate_lvc(log_probs, advantages, mask):
    total = log_probs.sum(-1, keepdim=True)
    return (torch.exp(total - total.detach()) * advantages.detach() * mask).sum(-1)


# %% id="lvc_divides_tiny_probabilities" exercise="surrogate-lvc"
def surrogate_lvc(log_probs, advantages, mask):
    return (log_probs.exp() / log_probs.exp().detach() * advantages.detach() * mask).sum(-1)


# %% id="lvc_with_where" exercise="surrogate-lvc" right=true
def surrogate_lvc(log_probs, advantages, mask):
    box = (log_probs - log_probs.detach()).exp()
    return torch.where(mask > 0, box * advantages.detach(), torch.zeros_like(box)).sum(dim=-1)


# %% id="lvc_in_a_loop_over_time" exercise="surrogate-lvc" right=true
def surrogate_lvc(lp, adv, m):
    """Other names, a loop, and the ratio as a difference of logarithms."""
    total = 0.0
    for t in range(lp.shape[-1]):
        ratio = (lp[..., t] - lp[..., t].detach()).exp()
        total += m[..., t] * ratio * adv[..., t].detach()
    return total


# %% [markdown]
# ## surrogate-dice


# %% id="dice_is_lvc" exercise="surrogate-dice" says="these are LVC's"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((box(log_probs) - 1) * advantages * mask).sum(-1)


# %% id="dice_is_naive" exercise="surrogate-dice" says="they are 0 as for the naive surrogate"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((log_probs - log_probs.detach()) * advantages * mask).sum(-1)


# %% id="dice_without_the_second_box" exercise="surrogate-dice" says="the second box is missing"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return (box(up_to) * advantages * mask).sum(-1)


# %% id="dice_second_box_stopped" exercise="surrogate-dice" says="missing or stopped"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((box(up_to) - box(before).detach()) * advantages * mask).sum(-1)


# %% id="dice_past_stopped" exercise="surrogate-dice" says="these are LVC's"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    up_to = before.detach() + log_probs
    return ((box(up_to) - box(before.detach())) * advantages * mask).sum(-1)


# %% id="dice_ignores_the_mask" exercise="surrogate-dice" says="lies behind the mask"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((box(up_to) - box(before)) * advantages).sum(-1)


# %% id="dice_boxes_the_future" exercise="surrogate-dice" says="the box holds the past"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    future = log_probs.flip(-1).cumsum(-1).flip(-1)
    return ((box(future) - box(future - log_probs)) * advantages * mask).sum(-1)


# %% id="dice_sums_over_episodes" exercise="surrogate-dice" says="these are LVC's"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    up_to = log_probs.cumsum(0)
    return ((box(up_to) - box(up_to - log_probs)) * advantages * mask).sum(-1)


# %% id="dice_as_a_loss" exercise="surrogate-dice" says="the sign is wrong"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return -((box(up_to) - box(before)) * advantages * mask).sum(-1)


# %% id="dice_advantages_not_detached" exercise="surrogate-dice" says="flows through the advantages"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    pass
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((box(up_to) - box(before)) * advantages * mask).sum(-1)


# %% id="dice_multiplies_tiny_probabilities" exercise="surrogate-dice"
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    pi = log_probs.exp().cumprod(-1)
    earlier = torch.cat([torch.ones_like(pi[..., :1]), pi[..., :-1]], -1)
    return ((pi / pi.detach() - earlier / earlier.detach()) * advantages * mask).sum(-1)


# %% id="dice_in_a_loop" exercise="surrogate-dice" right=true
def surrogate_dice(log_probs, advantages, mask):
    total, up_to, before = 0.0, 0.0, torch.zeros_like(log_probs[..., 0])
    for t in range(log_probs.shape[-1]):
        up_to = up_to + log_probs[..., t]
        box = torch.exp(up_to - up_to.detach()) - torch.exp(before - before.detach())
        total = total + box * advantages[..., t].detach() * mask[..., t]
        before = up_to
    return total


# %% id="dice_with_masked_log_probs" exercise="surrogate-dice" right=true
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    up_to = (log_probs * mask).cumsum(-1)
    before = torch.cat([torch.zeros_like(up_to[..., :1]), up_to[..., :-1]], -1)
    return ((box(up_to) - box(before)) * advantages * mask).sum(-1)


# %% id="dice_as_a_product_of_boxes" exercise="surrogate-dice" right=true
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())

    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs

    ratio = box(log_probs)
    product = ratio.cumprod(-1)
    earlier = torch.cat([torch.ones_like(product[..., :1]), product[..., :-1]], -1)
    return ((product - earlier) * advantages * mask).sum(-1)


# %% [markdown]
# ## expected-surrogate


# %% id="expected_probabilities_not_stopped" exercise="expected-surrogate" says="it must be stopped"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return (p * surrogate(log_pi, advantages, ones)).sum()


# %% id="expected_without_probabilities" exercise="expected-surrogate" says="not weighted with their probabilities"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return surrogate(log_pi, advantages, ones).sum()


# %% id="expected_mean_over_trajectories" exercise="expected-surrogate" says="plain mean over the trajectories"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return surrogate(log_pi, advantages, ones).mean()


# %% id="expected_weighted_mean" exercise="expected-surrogate" says="divided by the 16 trajectories"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return (p.detach() * surrogate(log_pi, advantages, ones)).mean()


# %% id="expected_everything_detached" exercise="expected-surrogate" says="must keep their graph"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return (p.detach() * surrogate(log_pi.detach(), advantages, ones)).sum()


# %% id="expected_surrogate_is_ignored" exercise="expected-surrogate"
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
    return (p.detach() * (log_pi * advantages).sum(-1)).sum()


# %% id="expected_as_a_dot_product" exercise="expected-surrogate" right=true
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)

    with torch.no_grad():
        p = trajectory_probabilities(theta, mdp, trajectories)
    return p @ surrogate(log_pi, advantages, ones)

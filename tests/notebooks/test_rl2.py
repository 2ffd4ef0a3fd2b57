"""Notebook 2: right solutions pass their tests, and each well-known mistake fails the test of its own exercise.

Every entry of MISTAKES is a wrong solution with the words that the visible tests must say about it; None marks one that
only the hidden tests can tell from a right solution.
"""

import re
from pathlib import Path

import jupytext
import pytest

from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "2_rl2.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "build-inputs",
    "gru-cell",
    "unroll",
    "trial-advantages",
    "clipped-policy-loss",
    "returns-by-episode",
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Cells by id, and the names that the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    sources = {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}
    names = {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), names)
    yield sources, names
    patch.undo()


def run_tests(notebook, exercise, solution, part):
    """Define ``solution`` and run the visible or the hidden tests of an exercise alone; return what they emitted.

    Other exercises stay undefined, and hidden tests see nothing that visible ones have made: a patched ``check`` gains
    nothing.
    """
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    source = HIDDEN.search(source)[0] if part == "hidden" else HIDDEN.sub("", source)
    with collect_emitted() as emitted:
        exec(compile(source, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(notebook):
    """What the worked solution of every exercise emits in its hidden tests."""
    return {exercise: run_tests(notebook, exercise, notebook[0][exercise], "hidden") for exercise in EXERCISES}


INPUTS = """
def build_inputs(features, actions, rewards, dones, num_actions):
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
"""
CELL = """
def gru_cell(params, x, h):
    xr, xz, xn = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, -1)
    hr, hz, hn = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
"""
UNROLL = """
def unroll(cell, params, inputs, hidden, trial_starts):
    memories = []
    given = hidden
    for t, (x, start) in enumerate(zip(inputs.unbind(1), trial_starts.unbind(1), strict=True)):
        start = start[:, None]
"""
STACK = """
        memories.append(hidden)
    return torch.stack(memories, 1)
"""
ADVANTAGES = """
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        inside = mask[:, t] > 0
"""
VALUE_BEFORE = "        next_value = torch.where(inside, values[:, t], next_value)\n"
LOSS = """
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = torch.exp(log_probs - old_log_probs)
    plain, bounded = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
"""
RETURNS = """
def returns_by_episode(rewards, dones, mask, num_episodes):
    episode = dones.cumsum(-1) - dones
"""
BY_EPISODE = """
    return torch.stack([(rewards * mask * (episode == k)).sum(-1) for k in range(num_episodes)], -1)
"""

# name -> (exercise, solution, words of the visible message, or None where only the hidden tests can tell)
MISTAKES = {
    "input_sees_the_future": ("build-inputs", INPUTS + "    return torch.cat([features, step], -1)", "sees_the_future"),
    "input_moved_the_wrong_way": (
        "build-inputs",
        INPUTS + "    return torch.cat([features, torch.cat([step[:, 1:], 0 * step[:, :1]], 1)], -1)",
        "moved the wrong way",
    ),
    "input_rolled": (
        "build-inputs",
        INPUTS + "    return torch.cat([features, torch.roll(step, 1, 1)], -1)",
        "come round to the front",
    ),
    "first_action_is_action_zero": (
        "build-inputs",
        """
def build_inputs(features, actions, rewards, dones, num_actions):
    def before(x):
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    one_hot = torch.nn.functional.one_hot(before(actions), num_actions).to(features.dtype)
    return torch.cat([features, one_hot, before(rewards)[..., None], before(dones)[..., None]], -1)""",
        "one-hot code of action 0",
    ),
    "input_cleared_at_the_episodes_end": (
        "build-inputs",
        INPUTS
        + """
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1] * (1 - dones[:, :-1, None])], 1)
    return torch.cat([features, before], -1)""",
        "is news about the same task",
    ),
    "only_the_flag_crosses_the_episodes_end": (
        "build-inputs",
        INPUTS
        + """
    keep = torch.cat([1 - dones[:, :-1, None].expand_as(step[:, :-1, 1:]), torch.ones_like(step[:, :-1, :1])], -1)
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1] * keep], 1)
    return torch.cat([features, before], -1)""",
        "only the done flag crosses it",
    ),
    "reward_of_the_same_step": (
        "build-inputs",
        INPUTS
        + """
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)
    before = torch.cat([before[..., :-2], rewards[..., None], before[..., -1:]], -1)
    return torch.cat([features, before], -1)""",
        "the reward of step t stands in the input of step t",
    ),
    "done_of_the_same_step": (
        "build-inputs",
        INPUTS
        + """
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)
    return torch.cat([features, before[..., :-1], dones[..., None]], -1)""",
        "the done flag of step t stands in the input of step t",
    ),
    "features_are_moved_too": (
        "build-inputs",
        INPUTS
        + """
    every = torch.cat([features, step], -1)
    return torch.cat([torch.zeros_like(every[:, :1]), every[:, :-1]], 1)""",
        "the features were moved, too",
    ),
    "input_in_another_order": (
        "build-inputs",
        INPUTS
        + """
    step = torch.cat([rewards[..., None], dones[..., None], one_hot], -1)
    return torch.cat([features, torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)], -1)""",
        "the order is features, action, reward, done",
    ),
    "input_forgets_the_done_flag": (
        "build-inputs",
        INPUTS + "    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)[..., :-1]], -1)",
        "the shape should be (1, 3, 5)",
    ),
    "input_in_float32": (
        "build-inputs",
        INPUTS + "    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1).float()",
        None,
    ),
    "input_detaches_the_features": (
        "build-inputs",
        INPUTS + "    return torch.cat([features.detach(), torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1)",
        None,
    ),
    "input_for_two_actions_only": (
        "build-inputs",
        INPUTS.replace("num_actions).to", "2).to")
        + "    return torch.cat([features, torch.cat([0 * step[:, :1], step[:, :-1]], 1)], -1)",
        None,
    ),
    "cell_keeps_the_wrong_share": (
        "gru-cell",
        CELL + "    return z * torch.tanh(xn + r * hn) + (1 - z) * h",
        "z and 1 - z are exchanged",
    ),
    "cell_exchanges_the_gates": (
        "gru-cell",
        CELL + "    return (1 - r) * torch.tanh(xn + z * hn) + r * h",
        "the gates are exchanged",
    ),
    "cell_without_reset": (
        "gru-cell",
        CELL + "    return (1 - z) * torch.tanh(xn + hn) + z * h",
        "the reset gate does not reach the candidate",
    ),
    "cell_resets_the_memory_only": (
        "gru-cell",
        CELL
        + """
    size = h.shape[-1]
    candidate = xn + (r * h) @ params["gru.hidden.weight"][:, 2 * size:] + params["gru.hidden.bias"][2 * size:]
    return (1 - z) * torch.tanh(candidate) + z * h""",
        "the reset gate multiplies h alone",
    ),
    "cell_with_a_sigmoid_candidate": (
        "gru-cell",
        CELL + "    return (1 - z) * torch.sigmoid(xn + r * hn) + z * h",
        "not the sigmoid",
    ),
    "cell_without_tanh": (
        "gru-cell",
        CELL + "    return (1 - z) * (xn + r * hn) + z * h",
        "the candidate needs a tanh",
    ),
    "cell_returns_the_candidate": ("gru-cell", CELL + "    return torch.tanh(xn + r * hn)", "this is the candidate"),
    "cell_without_hidden_bias": (
        "gru-cell",
        CELL.replace(' + params["gru.hidden.bias"]', "") + "    return (1 - z) * torch.tanh(xn + r * hn) + z * h",
        "the hidden bias is missing",
    ),
    "cell_gates_ignore_the_input": (
        "gru-cell",
        CELL
        + """
    bias = params["gru.input.bias"].chunk(3, -1)
    r, z = torch.sigmoid(bias[0] + hr), torch.sigmoid(bias[1] + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h""",
        None,
    ),
    "cell_memory_is_detached": (
        "gru-cell",
        CELL + "    return (1 - z) * torch.tanh(xn + r * hn) + z * h.detach()",
        None,
    ),
    "cell_overflows": (
        "gru-cell",
        CELL
        + """
    r, z = torch.exp(xr + hr) / (1 + torch.exp(xr + hr)), torch.exp(xz + hz) / (1 + torch.exp(xz + hz))
    return (1 - z) * torch.tanh(xn + r * hn) + z * h""",
        None,
    ),
    "memory_never_cleared": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden)" + STACK,
        "memory_never_cleared",
    ),
    "memory_of_all_rows_cleared": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden * (1 - start.max()))" + STACK,
        "other_rows_untouched",
    ),
    "memory_starts_at_zero": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, (1 - start) * (hidden if t else 0 * hidden))" + STACK,
        "the memory handed in is not used",
    ),
    "memory_cleared_at_the_first_step_only": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden * (1 - start) if t == 0 else hidden)" + STACK,
        "in row 1 another trial starts",
    ),
    "memory_cleared_at_every_step": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, torch.zeros_like(hidden))" + STACK,
        "nothing is remembered",
    ),
    "memory_handed_in_at_every_step": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, given * (1 - start))" + STACK,
        "hand on the new one",
    ),
    "memory_cleared_too_late": (
        "unroll",
        UNROLL
        + """
        hidden = cell(params, x, hidden)
        memories.append(hidden)
        hidden = hidden * (1 - start)
    return torch.stack(memories, 1)
""",
        "cleared too late",
    ),
    "memory_kept_where_it_should_be_cleared": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden * start)" + STACK,
        "start and not start are exchanged",
    ),
    "memory_changed_in_place": (
        "unroll",
        UNROLL + "        hidden *= 1 - start\n        hidden = cell(params, x, hidden)" + STACK,
        "changed_in_place",
    ),
    "memory_detached_between_steps": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, (hidden * (1 - start)).detach())" + STACK,
        "detached between the steps",
    ),
    "memory_only_of_the_last_step": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden * (1 - start))" + "\n    return hidden\n",
        "the shape should be (2, 4, 1)",
    ),
    "memory_stacked_along_the_rows": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden * (1 - start))" + STACK.replace(", 1)", ", 0)"),
        "the shape should be (2, 4, 1)",
    ),
    "cell_is_called_row_by_row": (
        "unroll",
        UNROLL
        + """
        rows = [cell(params, x[n : n + 1], (hidden * (1 - start))[n : n + 1]) for n in range(len(x))]
        hidden = torch.cat(rows)"""
        + STACK,
        None,
    ),
    "memory_handed_in_is_detached": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, (hidden if t else hidden.detach()) * (1 - start))" + STACK,
        None,
    ),
    "advantages_cut_at_every_done": (
        "trial-advantages",
        ADVANTAGES
        + """
        alive = 1 - dones[:, t]
        delta = rewards[:, t] + gamma * alive * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * alive * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "both the next value and the advantage that follows are cut",
    ),
    "next_value_cut_at_every_done": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * (1 - dones[:, t]) * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "at the end of an episode the next value is counted as 0",
    ),
    "advantages_do_not_cross_episodes": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * (1 - dones[:, t]) * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "do not flow back into this one",
    ),
    "final_values_ignored": (
        "trial-advantages",
        ADVANTAGES.replace("= final_values,", "= 0 * final_values,")
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "final_values are not counted",
    ),
    "advantages_ignore_the_mask": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = delta + gamma * lam * next_advantage
        next_value = values[:, t]
    return advantages""",
        "numbers from behind the mask get into the result",
    ),
    "value_from_behind_the_mask": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        next_value = values[:, t]
    return advantages""",
        "the value of the step behind the mask, 9",
    ),
    "advantages_behind_the_mask_are_left": (
        "trial-advantages",
        ADVANTAGES
        + """
        advantages[:, t] = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_advantage = torch.where(inside, advantages[:, t], next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "must come out as 0",
    ),
    "advantages_without_lambda": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        "lambda is missing",
    ),
    "advantages_are_deltas": (
        "trial-advantages",
        ADVANTAGES
        + "        advantages[:, t] = mask[:, t] * (rewards[:, t] + gamma * next_value - values[:, t])\n"
        + VALUE_BEFORE
        + "    return advantages",
        "these are the deltas",
    ),
    "advantages_normalised": (
        "trial-advantages",
        ADVANTAGES
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages / advantages.std()",
        "wrong values",
    ),
    "advantages_overwrite_the_rewards": (
        "trial-advantages",
        ADVANTAGES.replace("torch.zeros_like(rewards)", "rewards")
        + """
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
"""
        + VALUE_BEFORE
        + "    return advantages",
        None,
    ),
    "loss_with_the_wrong_sign": (
        "clipped-policy-loss",
        LOSS + "    return (torch.minimum(plain, bounded) * mask).sum() / mask.sum()",
        "the sign is wrong",
    ),
    "loss_not_clipped": ("clipped-policy-loss", LOSS + "    return -(plain * mask).sum() / mask.sum()", "not clipped"),
    "loss_clipped_both_ways": (
        "clipped-policy-loss",
        LOSS + "    return -(bounded * mask).sum() / mask.sum()",
        "only the clipped term",
    ),
    "loss_takes_the_maximum": (
        "clipped-policy-loss",
        LOSS + "    return -(torch.maximum(plain, bounded) * mask).sum() / mask.sum()",
        "maximum instead of minimum",
    ),
    "loss_ratio_upside_down": (
        "clipped-policy-loss",
        LOSS.replace("log_probs - old_log_probs", "old_log_probs - log_probs")
        + "    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()",
        "upside down",
    ),
    "loss_is_a_sum": (
        "clipped-policy-loss",
        LOSS + "    return -(torch.minimum(plain, bounded) * mask).sum()",
        "summed",
    ),
    "loss_averages_over_masked_steps": (
        "clipped-policy-loss",
        LOSS + "    return -(torch.minimum(plain, bounded) * mask).mean()",
        "divided by all steps",
    ),
    "loss_ignores_the_mask": (
        "clipped-policy-loss",
        LOSS + "    return -torch.minimum(plain, bounded).mean()",
        "the steps behind the mask are counted",
    ),
    "loss_averages_over_trials_only": (
        "clipped-policy-loss",
        LOSS + "    return -(torch.minimum(plain, bounded) * mask).sum(-1).mean()",
        "averaged over trials",
    ),
    "loss_detached": (
        "clipped-policy-loss",
        LOSS + "    return -(torch.minimum(plain, bounded) * mask).sum().detach() / mask.sum()",
        "has no graph",
    ),
    "loss_averages_trial_by_trial": (
        "clipped-policy-loss",
        LOSS + "    return -((torch.minimum(plain, bounded) * mask).sum(-1) / mask.sum(-1)).mean()",
        None,
    ),
    "loss_divides_tiny_probabilities": (
        "clipped-policy-loss",
        LOSS.replace("torch.exp(log_probs - old_log_probs)", "log_probs.exp() / old_log_probs.exp()")
        + "    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()",
        None,
    ),
    "loss_with_a_fixed_clip": (
        "clipped-policy-loss",
        LOSS.replace("1 - clip, 1 + clip", "0.8, 1.2")
        + "    return -(torch.minimum(plain, bounded) * mask).sum() / mask.sum()",
        None,
    ),
    "last_reward_counted_for_the_next_episode": (
        "returns-by-episode",
        RETURNS.replace(" - dones", "") + BY_EPISODE,
        "counted for the next one",
    ),
    "episodes_of_equal_length": (
        "returns-by-episode",
        RETURNS + "    return rewards.reshape(len(rewards), num_episodes, -1).sum(-1)",
        "cut into equal parts",
    ),
    "masked_episodes_of_equal_length": (
        "returns-by-episode",
        RETURNS + "    return (rewards * mask).reshape(len(rewards), num_episodes, -1).sum(-1)",
        "cut into equal parts",
    ),
    "returns_from_the_start_of_the_trial": (
        "returns-by-episode",
        RETURNS + BY_EPISODE.replace("episode == k", "episode <= k"),
        "sums from the start of the trial",
    ),
    "returns_are_means": (
        "returns-by-episode",
        RETURNS
        + """
    own = [mask * (episode == k) for k in range(num_episodes)]
    return torch.stack([(rewards * m).sum(-1) / m.sum(-1) for m in own], -1)""",
        "these are means",
    ),
    "steps_behind_the_mask_belong_to_the_last_episode": (
        "returns-by-episode",
        RETURNS
        + """
    episode = episode.clamp(max=num_episodes - 1)
    return torch.stack([(rewards * (episode == k)).sum(-1) for k in range(num_episodes)], -1)""",
        "counted for the last episode",
    ),
    "returns_of_two_episodes_only": (
        "returns-by-episode",
        RETURNS + BY_EPISODE.replace("range(num_episodes)", "range(2)"),
        None,
    ),
}

# Right solutions, written in other ways than the worked one.
RIGHT = {
    "inputs_filled_in": (
        "build-inputs",
        """
def build_inputs(features, actions, rewards, dones, num_actions):
    n, t, f = features.shape
    out = torch.zeros(n, t, f + num_actions + 2, dtype=features.dtype)
    out[:, :, :f] = features
    for i in range(1, t):
        out[torch.arange(n), i, f + actions[:, i - 1]] = 1.0
        out[:, i, -2], out[:, i, -1] = rewards[:, i - 1], dones[:, i - 1]
    return out""",
    ),
    "inputs_padded": (
        "build-inputs",
        """
def build_inputs(features, actions, rewards, dones, num_actions):
    F = torch.nn.functional
    one_hot = F.one_hot(actions, num_classes=num_actions)
    step = torch.cat([one_hot.to(rewards), rewards.unsqueeze(-1), dones.unsqueeze(-1)], dim=-1)[:, :-1]
    return torch.cat((features, F.pad(step, (0, 0, 1, 0))), dim=2)""",
    ),
    "inputs_with_a_code_for_no_action": (
        "build-inputs",
        """
def build_inputs(features, actions, rewards, dones, num_actions):
    none = torch.full_like(actions[:, :1], num_actions)
    codes = torch.nn.functional.one_hot(torch.cat([none, actions[:, :-1]], 1), num_actions + 1)[..., :-1]
    zero = torch.zeros_like(rewards[:, :1])
    pairs = torch.stack([torch.cat([zero, x[:, :-1]], 1) for x in (rewards, dones)], -1)
    return torch.cat([features, codes.type_as(features), pairs], -1)""",
    ),
    "cell_gate_by_gate": (
        "gru-cell",
        """
def gru_cell(params, x, h):
    size = h.shape[1]
    wx, bx = params["gru.input.weight"].split(size, 1), params["gru.input.bias"].split(size)
    wh, bh = params["gru.hidden.weight"].split(size, 1), params["gru.hidden.bias"].split(size)
    r = torch.sigmoid(x @ wx[0] + bx[0] + h @ wh[0] + bh[0])
    z = (x @ wx[1] + bx[1] + h @ wh[1] + bh[1]).sigmoid()
    n = (x @ wx[2] + bx[2] + r * (h @ wh[2] + bh[2])).tanh()
    return n + z * (h - n)""",
    ),
    "cell_with_addmm_and_lerp": (
        "gru-cell",
        """
def gru_cell(params, x, h):
    a = torch.addmm(params["gru.input.bias"], x, params["gru.input.weight"])
    b = torch.addmm(params["gru.hidden.bias"], h, params["gru.hidden.weight"])
    k = h.shape[-1]
    gates = torch.sigmoid(a[:, : 2 * k] + b[:, : 2 * k])
    return torch.lerp(torch.tanh(a[:, 2 * k :] + gates[:, :k] * b[:, 2 * k :]), h, gates[:, k:])""",
    ),
    "unroll_with_where": (
        "unroll",
        UNROLL
        + """
        clean = torch.where(start > 0, torch.zeros_like(hidden), hidden)
        hidden = cell(params, x, clean)"""
        + STACK,
    ),
    "unroll_by_index": (
        "unroll",
        """
def unroll(cell, params, inputs, hidden, trial_starts):
    out = []
    for t in range(inputs.shape[1]):
        hidden = cell(params, inputs[:, t], hidden * (1 - trial_starts[:, t : t + 1]))
        out += [hidden]
    return torch.stack(out, dim=1)""",
    ),
    "unroll_with_masked_fill": (
        "unroll",
        UNROLL + "        hidden = cell(params, x, hidden.masked_fill(start.bool(), 0.0))" + STACK,
    ),
    "advantages_from_shifted_values": (
        "trial-advantages",
        """
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    follows = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    after = torch.where(follows > 0, torch.cat([values[:, 1:], values[:, :1]], 1), final_values[:, None])
    delta = torch.where(mask > 0, rewards + gamma * after - values, torch.zeros_like(rewards))
    out, following = [], torch.zeros_like(final_values)
    for t in range(rewards.shape[1])[::-1]:
        following = delta[:, t] + gamma * lam * following
        out.insert(0, following)
    return torch.stack(out, 1) * mask""",
    ),
    "advantages_row_by_row": (
        "trial-advantages",
        """
def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
    out = torch.zeros_like(rewards)
    for n in range(len(rewards)):
        length = int(mask[n].sum())
        v = torch.cat([values[n, :length], final_values[n : n + 1]])
        a = 0.0
        for t in range(length - 1, -1, -1):
            a = rewards[n, t] + gamma * v[t + 1] - v[t] + gamma * lam * a
            out[n, t] = a
    return out""",
    ),
    "loss_as_the_larger_of_two_losses": (
        "clipped-policy-loss",
        LOSS + "    return torch.maximum(-plain, -bounded)[mask > 0].mean()",
    ),
    "loss_by_the_sign_of_the_advantage": (
        "clipped-policy-loss",
        """
def clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip):
    ratio = (log_probs - old_log_probs).exp()
    ratio = torch.where(advantages > 0, ratio.clamp(max=1 + clip), ratio.clamp(min=1 - clip))
    return -torch.where(mask > 0, ratio * advantages, torch.zeros_like(ratio)).sum() / mask.sum()""",
    ),
    "returns_as_a_loop": ("returns-by-episode", RETURNS + BY_EPISODE),
    "returns_by_scatter": (
        "returns-by-episode",
        RETURNS
        + """
    index = episode.long().clamp(max=num_episodes - 1)
    out = torch.zeros(len(rewards), num_episodes, dtype=rewards.dtype)
    return out.scatter_add(1, index, rewards * mask)""",
    ),
    "returns_by_one_hot": (
        "returns-by-episode",
        RETURNS
        + """
    one_hot = torch.nn.functional.one_hot(episode.long(), num_episodes + 1)[..., :num_episodes].to(rewards.dtype)
    return torch.einsum("nt,ntk->nk", rewards * mask, one_hot)""",
    ),
}


def test_every_exercise_has_tests_and_the_points_add_up_to_40():
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    assert [c.metadata["id"] for c in cells if c.metadata.get("kind") == "solution"] == list(EXERCISES)
    assert sum(c.metadata.get("points", 0) for c in cells) == 40
    assert {exercise for exercise, *_ in MISTAKES.values()} == set(EXERCISES)
    assert sum(c.metadata.get("kind") == "question" for c in cells) == 2


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_passes_alone(notebook, key, exercise):
    solution = notebook[0][exercise]
    assert run_tests(notebook, exercise, solution, "visible") == []
    assert compare(run_tests(notebook, exercise, solution, "hidden"), key[exercise]) == []
    assert len(key[exercise]) >= 4


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(notebook, key, name):
    exercise, solution = RIGHT[name]
    run_tests(notebook, exercise, solution, "visible")
    assert compare(run_tests(notebook, exercise, solution, "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_caught(notebook, key, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(notebook, exercise, solution, "visible")  # they cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(notebook, exercise, solution, "visible")
    try:
        emitted = run_tests(notebook, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, ValueError):
        return  # a cell that breaks off earns nothing
    assert compare(emitted, key[exercise])


def test_texts_of_hidden_tests_hold_no_numbers(key):
    for records in key.values():
        assert not [r for r in records if re.search(r"\d\.\d", r["what"] + r["hint"])]


def test_visible_tests_name_most_mistakes_of_every_exercise():
    for exercise in EXERCISES:
        messages = [message for name, _, message in MISTAKES.values() if name == exercise]
        assert sum(message is not None for message in messages) >= len(messages) / 2

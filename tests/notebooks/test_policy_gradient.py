"""Notebook 0: right solutions pass their tests, and each well-known mistake fails the test of its own exercise.

Every entry of MISTAKES is a wrong solution with the words that the visible tests must say about it; None marks one that
only the hidden tests can tell from a right solution.
"""

import re
from pathlib import Path

import jupytext
import pytest

from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "0_policy_gradient.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)


def cells():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Cells by id, and the names that the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    sources, names = cells(), {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), names)
    yield sources, names
    patch.undo()


def run_tests(notebook, exercise, solution, hidden):
    """Define ``solution``, run an exercise's tests cells alone; return what they emitted."""
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    with collect_emitted() as emitted:
        for cell, source in sources.items():
            if re.fullmatch(rf"test-{exercise}(-truncated)?", cell):
                exec(compile(source if hidden else HIDDEN.sub("", source), cell, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(notebook):
    """What the worked solution of every exercise emits."""
    return {exercise: run_tests(notebook, exercise, notebook[0][exercise], hidden=True) for exercise in EXERCISES}


def hidden_alone(notebook, exercise, solution):
    """What the hidden tests emit when nothing visible has been run: a patched ``check`` gains nothing."""
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    with collect_emitted() as emitted:
        for cell, source in sources.items():
            if re.fullmatch(rf"test-{exercise}(-truncated)?", cell):
                exec(compile(HIDDEN.search(source)[0], cell, "exec"), namespace)
    return emitted


EXERCISES = (
    "discounted-returns",
    "gae",
    "surrogate-naive",
    "surrogate-lvc",
    "surrogate-dice",
    "expected-surrogate",
)

RETURNS = "def discounted_returns(rewards, gamma):\n"
GAE = "def gae(rewards, values, next_values, terminated, mask, gamma, lam):\n"
GAE_LOOP = """
    advantages = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    return advantages
"""
NAIVE = "def surrogate_naive(log_probs, advantages, mask):\n"
LVC = "def surrogate_lvc(log_probs, advantages, mask):\n"
DICE = """
def surrogate_dice(log_probs, advantages, mask):
    def box(x):
        return torch.exp(x - x.detach())
    advantages = advantages.detach()
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
"""
EXPECTED = """
def expected_surrogate(theta, mdp, surrogate, advantages):
    trajectories = all_trajectories(mdp)
    log_pi = log_probs(theta, trajectories)
    p = trajectory_probabilities(theta, mdp, trajectories)
    ones = torch.ones_like(advantages)
"""

# name -> (exercise, solution, words of the visible message, or None where only the hidden tests can tell)
MISTAKES = {
    "returns_without_discount": (
        "discounted-returns",
        RETURNS + "    return rewards.flip(-1).cumsum(-1).flip(-1)",
        "nothing is discounted",
    ),
    "returns_add_up_the_past": (
        "discounted-returns",
        RETURNS
        + """
    out, past = torch.zeros_like(rewards), 0.0
    for t in range(rewards.shape[-1]):
        past = rewards[..., t] + gamma * past
        out[..., t] = past
    return out""",
        "adds up the past",
    ),
    "returns_discounted_from_the_start": (
        "discounted-returns",
        RETURNS
        + """
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).flip(-1).cumsum(-1).flip(-1)""",
        "from the start of the episode",
    ),
    "returns_of_one_step_ahead": (
        "discounted-returns",
        RETURNS + "    return rewards + gamma * torch.cat([rewards[..., 1:], 0 * rewards[..., :1]], -1)",
        "only one step ahead",
    ),
    "returns_start_one_step_late": (
        "discounted-returns",
        RETURNS
        + """
    out = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[-1] - 1)):
        out[..., t] = gamma * (rewards[..., t + 1] + out[..., t + 1])
    return out""",
        "r_t itself is missing",
    ),
    "returns_of_the_whole_episode": (
        "discounted-returns",
        RETURNS
        + """
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).sum(-1, keepdim=True).expand_as(rewards)""",
        "all the same number",
    ),
    "returns_in_reverse_order": (
        "discounted-returns",
        RETURNS
        + """
    out, following = [], torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + gamma * following
        out.append(following)
    return torch.stack(out, -1)""",
        "the order is reversed",
    ),
    "returns_overwrite_the_rewards": (
        "discounted-returns",
        RETURNS
        + """
    for t in reversed(range(rewards.shape[-1] - 1)):
        rewards[..., t] += gamma * rewards[..., t + 1]
    return rewards""",
        "changed its input",
    ),
    "returns_by_dividing_by_powers_of_gamma": (
        "discounted-returns",
        RETURNS
        + """
    powers = gamma ** torch.arange(rewards.shape[-1])
    return (rewards * powers).flip(-1).cumsum(-1).flip(-1) / powers""",
        None,
    ),
    "returns_of_the_first_axis": (
        "discounted-returns",
        RETURNS
        + """
    out = torch.zeros_like(rewards)
    for e in range(rewards.shape[0]):
        following = torch.zeros(())
        for t in reversed(range(rewards.shape[1])):
            following = rewards[e, t] + gamma * following
            out[e, t] = following
    return out""",
        None,
    ),
    "returns_in_float32": (
        "discounted-returns",
        RETURNS
        + """
    out = torch.zeros(rewards.shape)
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + gamma * following
        out[..., t] = following
    return out""",
        None,
    ),
    "returns_forgot_to_return": ("discounted-returns", RETURNS + "    rewards.cumsum(-1)", "Is the `return` missing"),
    "gae_bootstraps_at_termination": (
        "gae",
        GAE + "    delta = rewards + gamma * next_values - values" + GAE_LOOP,
        "counted although the task was over",
    ),
    "gae_ends_at_truncation": (
        "gae",
        GAE
        + """
    alive = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    delta = rewards + gamma * alive * (1 - terminated) * next_values - values"""
        + GAE_LOOP,
        "in which the clock cut the episode",
    ),
    "gae_ignores_the_mask": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("mask[..., t] * ", ""),
        "the mask is not used",
    ),
    "gae_masks_only_the_output": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("mask[..., t] * ", "").replace("return advantages", "return advantages * mask"),
        "gets into A_1",
    ),
    "gae_leaves_numbers_behind_the_mask": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + """
    follows = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    advantages, following = torch.zeros_like(rewards), torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = delta[..., t] + gamma * lam * follows[..., t] * following
        advantages[..., t] = following
    return advantages""",
        "must come out as 0",
    ),
    "gae_reads_next_values_from_values": (
        "gae",
        GAE
        + """
    shifted = torch.cat([values[..., 1:], next_values[..., -1:]], -1)
    delta = rewards + gamma * (1 - terminated) * shifted - values"""
        + GAE_LOOP,
        "which lies behind the mask",
    ),
    "gae_loses_the_last_step": (
        "gae",
        GAE
        + """
    mask = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    delta = rewards + gamma * (1 - terminated) * next_values - values"""
        + GAE_LOOP,
        "the whole last delta is lost",
    ),
    "gae_drops_the_terminated_delta": (
        "gae",
        GAE + "    delta = (1 - terminated) * (rewards + gamma * next_values - values)" + GAE_LOOP,
        "the whole last delta is lost",
    ),
    "gae_without_lambda": (
        "gae",
        GAE + "    lam = 1.0\n    delta = rewards + gamma * (1 - terminated) * next_values - values" + GAE_LOOP,
        "lambda is missing",
    ),
    "gae_without_gamma_in_the_recursion": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("gamma * lam", "lam"),
        "gamma is missing from the recursion",
    ),
    "gae_without_gamma_in_delta": (
        "gae",
        GAE + "    delta = rewards + (1 - terminated) * next_values - values" + GAE_LOOP,
        "gamma is missing from delta",
    ),
    "gae_returns_deltas": (
        "gae",
        GAE + "    return mask * (rewards + gamma * (1 - terminated) * next_values - values)",
        "these are the deltas",
    ),
    "gae_returns_value_targets": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("return advantages", "return advantages + values"),
        "targets for the value function",
    ),
    "gae_without_the_value": (
        "gae",
        GAE + "    delta = rewards + gamma * (1 - terminated) * next_values" + GAE_LOOP,
        "V(s_t) is not subtracted",
    ),
    "gae_forward_in_time": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("reversed(range(rewards.shape[-1]))", "range(rewards.shape[-1])"),
        "go backwards",
    ),
    "gae_normalised": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("return advantages", "return (advantages - advantages.mean()) / advantages.std()"),
        "wrong values",
    ),
    "naive_as_a_loss": (
        "surrogate-naive",
        NAIVE + "    return -(log_probs * advantages.detach() * mask).sum(-1)",
        "the sign is wrong",
    ),
    "naive_ignores_the_mask": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages.detach()).sum(-1)",
        "lies behind the mask",
    ),
    "naive_averages_over_time": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages.detach() * mask).mean(-1)",
        "averaged over time",
    ),
    "naive_averages_over_valid_steps": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages.detach() * mask).sum(-1) / mask.sum(-1)",
        "wrong values",
    ),
    "naive_sums_over_episodes": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages.detach() * mask).sum()",
        "the shape should be (2,)",
    ),
    "naive_sums_over_episodes_and_keeps_time": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages.detach() * mask).sum(0)",
        "wrong values",
    ),
    "naive_with_probabilities": (
        "surrogate-naive",
        NAIVE + "    return (log_probs.exp() * advantages.detach() * mask).sum(-1)",
        "probabilities instead of log-probabilities",
    ),
    "naive_advantages_not_detached": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages * mask).sum(-1)",
        "flows through the advantages",
    ),
    "naive_everything_detached": (
        "surrogate-naive",
        NAIVE + "    return (log_probs * advantages * mask).sum(-1).detach()",
        "has no graph",
    ),
    "naive_log_probs_detached": (
        "surrogate-naive",
        NAIVE + "    return (log_probs.detach() * advantages * mask).sum(-1)",
        "no gradient reaches log_probs",
    ),
    "lvc_denominator_not_stopped": (
        "surrogate-lvc",
        LVC + "    return (log_probs.exp() / log_probs.exp() * advantages.detach() * mask).sum(-1)",
        "the denominator must be stopped",
    ),
    "lvc_without_denominator": (
        "surrogate-lvc",
        LVC + "    return (log_probs.exp() * advantages.detach() * mask).sum(-1)",
        "not divided by stop(pi)",
    ),
    "lvc_upside_down": (
        "surrogate-lvc",
        LVC + "    return (torch.exp(log_probs.detach() - log_probs) * advantages.detach() * mask).sum(-1)",
        "upside down",
    ),
    "lvc_of_log_probabilities": (
        "surrogate-lvc",
        LVC + "    return (log_probs / log_probs.detach() * advantages.detach() * mask).sum(-1)",
        "log-probabilities are divided",
    ),
    "lvc_is_naive": (
        "surrogate-lvc",
        LVC + "    return (log_probs * advantages.detach() * mask).sum(-1)",
        "this is the naive surrogate",
    ),
    "lvc_is_naive_with_the_right_value": (
        "surrogate-lvc",
        LVC + "    return ((1 + log_probs - log_probs.detach()) * advantages.detach() * mask).sum(-1)",
        "they are 0 as for the naive surrogate",
    ),
    "lvc_ignores_the_mask": (
        "surrogate-lvc",
        LVC + "    return (torch.exp(log_probs - log_probs.detach()) * advantages.detach()).sum(-1)",
        "lies behind the mask",
    ),
    "lvc_advantages_not_detached": (
        "surrogate-lvc",
        LVC + "    return (torch.exp(log_probs - log_probs.detach()) * advantages * mask).sum(-1)",
        "flows through the advantages",
    ),
    "lvc_of_the_whole_episode": (
        "surrogate-lvc",
        LVC
        + """
    total = log_probs.sum(-1, keepdim=True)
    return (torch.exp(total - total.detach()) * advantages.detach() * mask).sum(-1)""",
        "wrong values",
    ),
    "lvc_divides_tiny_probabilities": (
        "surrogate-lvc",
        LVC + "    return (log_probs.exp() / log_probs.exp().detach() * advantages.detach() * mask).sum(-1)",
        None,
    ),
    "dice_is_lvc": (
        "surrogate-dice",
        DICE + "    return ((box(log_probs) - 1) * advantages * mask).sum(-1)",
        "these are LVC's",
    ),
    "dice_is_naive": (
        "surrogate-dice",
        DICE + "    return ((log_probs - log_probs.detach()) * advantages * mask).sum(-1)",
        "they are 0 as for the naive surrogate",
    ),
    "dice_without_the_second_box": (
        "surrogate-dice",
        DICE + "    return (box(up_to) * advantages * mask).sum(-1)",
        "the second box is missing",
    ),
    "dice_second_box_stopped": (
        "surrogate-dice",
        DICE + "    return ((box(up_to) - box(before).detach()) * advantages * mask).sum(-1)",
        "missing or stopped",
    ),
    "dice_past_stopped": (
        "surrogate-dice",
        DICE
        + """
    up_to = before.detach() + log_probs
    return ((box(up_to) - box(before.detach())) * advantages * mask).sum(-1)""",
        "these are LVC's",
    ),
    "dice_ignores_the_mask": (
        "surrogate-dice",
        DICE + "    return ((box(up_to) - box(before)) * advantages).sum(-1)",
        "lies behind the mask",
    ),
    "dice_boxes_the_future": (
        "surrogate-dice",
        DICE
        + """
    future = log_probs.flip(-1).cumsum(-1).flip(-1)
    return ((box(future) - box(future - log_probs)) * advantages * mask).sum(-1)""",
        "the box holds the past",
    ),
    "dice_sums_over_episodes": (
        "surrogate-dice",
        DICE
        + """
    up_to = log_probs.cumsum(0)
    return ((box(up_to) - box(up_to - log_probs)) * advantages * mask).sum(-1)""",
        "these are LVC's",
    ),
    "dice_as_a_loss": (
        "surrogate-dice",
        DICE + "    return -((box(up_to) - box(before)) * advantages * mask).sum(-1)",
        "the sign is wrong",
    ),
    "dice_advantages_not_detached": (
        "surrogate-dice",
        DICE.replace("advantages = advantages.detach()", "pass")
        + "    return ((box(up_to) - box(before)) * advantages * mask).sum(-1)",
        "flows through the advantages",
    ),
    "dice_multiplies_tiny_probabilities": (
        "surrogate-dice",
        DICE
        + """
    pi = log_probs.exp().cumprod(-1)
    earlier = torch.cat([torch.ones_like(pi[..., :1]), pi[..., :-1]], -1)
    return ((pi / pi.detach() - earlier / earlier.detach()) * advantages * mask).sum(-1)""",
        None,
    ),
    "expected_probabilities_not_stopped": (
        "expected-surrogate",
        EXPECTED + "    return (p * surrogate(log_pi, advantages, ones)).sum()",
        "it must be stopped",
    ),
    "expected_without_probabilities": (
        "expected-surrogate",
        EXPECTED + "    return surrogate(log_pi, advantages, ones).sum()",
        "not weighted with their probabilities",
    ),
    "expected_mean_over_trajectories": (
        "expected-surrogate",
        EXPECTED + "    return surrogate(log_pi, advantages, ones).mean()",
        "plain mean over the trajectories",
    ),
    "expected_weighted_mean": (
        "expected-surrogate",
        EXPECTED + "    return (p.detach() * surrogate(log_pi, advantages, ones)).mean()",
        "divided by the 16 trajectories",
    ),
    "expected_everything_detached": (
        "expected-surrogate",
        EXPECTED + "    return (p.detach() * surrogate(log_pi.detach(), advantages, ones)).sum()",
        "must keep their graph",
    ),
    "expected_surrogate_is_ignored": (
        "expected-surrogate",
        EXPECTED + "    return (p.detach() * (log_pi * advantages).sum(-1)).sum()",
        None,
    ),
}

# Right solutions, written in other ways than the worked one.
RIGHT = {
    "returns_as_a_matrix_product": (
        "discounted-returns",
        RETURNS
        + """
    steps = rewards.shape[-1]
    weights = torch.zeros(steps, steps, dtype=rewards.dtype)
    for t in range(steps):
        for u in range(t, steps):
            weights[t, u] = gamma ** (u - t)
    return torch.einsum("tu,...u->...t", weights, rewards)""",
    ),
    "returns_in_place_on_a_copy": (
        "discounted-returns",
        RETURNS
        + """
    out = rewards.clone()
    for t in range(rewards.shape[-1] - 2, -1, -1):
        out[..., t] += gamma * out[..., t + 1]
    return out""",
    ),
    "gae_steps_stacked_with_where": (
        "gae",
        GAE
        + """
    print("a student's print")
    following, out = 0.0, []
    for t in range(rewards.shape[-1])[::-1]:
        next_value = torch.where(terminated[..., t].bool(), torch.zeros_like(values[..., t]), next_values[..., t])
        delta = rewards[..., t] + gamma * next_value - values[..., t]
        following = torch.where(mask[..., t] > 0, delta + gamma * lam * following, torch.zeros_like(delta))
        out.insert(0, following)
    return torch.stack(out, dim=-1)""",
    ),
    "gae_cut_at_termination_too": (
        "gae",
        GAE
        + "    delta = rewards + gamma * (1 - terminated) * next_values - values"
        + GAE_LOOP.replace("gamma * lam", "(1 - terminated[..., t]) * gamma * lam"),
    ),
    "gae_with_values_shifted_inside_the_episode": (
        "gae",
        GAE
        + """
    follows = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], -1)
    shifted = torch.cat([values[..., 1:], values[..., -1:]], -1)
    after = torch.where(follows > 0, shifted, next_values)
    delta = rewards + gamma * (1 - terminated) * after - values"""
        + GAE_LOOP,
    ),
    "naive_as_einsum": (
        "surrogate-naive",
        NAIVE + "    return torch.einsum('...t,...t,...t->...', log_probs, advantages.detach(), mask)",
    ),
    "lvc_with_where": (
        "surrogate-lvc",
        LVC
        + """
    box = (log_probs - log_probs.detach()).exp()
    return torch.where(mask > 0, box * advantages.detach(), torch.zeros_like(box)).sum(dim=-1)""",
    ),
    "dice_in_a_loop": (
        "surrogate-dice",
        """
def surrogate_dice(log_probs, advantages, mask):
    total, up_to, before = 0.0, 0.0, torch.zeros_like(log_probs[..., 0])
    for t in range(log_probs.shape[-1]):
        up_to = up_to + log_probs[..., t]
        box = torch.exp(up_to - up_to.detach()) - torch.exp(before - before.detach())
        total = total + box * advantages[..., t].detach() * mask[..., t]
        before = up_to
    return total""",
    ),
    "dice_with_masked_log_probs": (
        "surrogate-dice",
        DICE
        + """
    up_to = (log_probs * mask).cumsum(-1)
    before = torch.cat([torch.zeros_like(up_to[..., :1]), up_to[..., :-1]], -1)
    return ((box(up_to) - box(before)) * advantages * mask).sum(-1)""",
    ),
    "dice_as_a_product_of_boxes": (
        "surrogate-dice",
        DICE
        + """
    ratio = box(log_probs)
    product = ratio.cumprod(-1)
    earlier = torch.cat([torch.ones_like(product[..., :1]), product[..., :-1]], -1)
    return ((product - earlier) * advantages * mask).sum(-1)""",
    ),
    "expected_as_a_dot_product": (
        "expected-surrogate",
        EXPECTED
        + """
    with torch.no_grad():
        p = trajectory_probabilities(theta, mdp, trajectories)
    return p @ surrogate(log_pi, advantages, ones)""",
    ),
}


def test_every_exercise_has_tests_and_the_points_add_up_to_30():
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    assert [c.metadata["id"] for c in cells if c.metadata.get("kind") == "solution"] == list(EXERCISES)
    assert sum(c.metadata.get("points", 0) for c in cells) == 30
    assert {exercise for exercise, *_ in MISTAKES.values()} == set(EXERCISES)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_emits_the_same_without_the_visible_tests(notebook, key, exercise):
    assert key[exercise]
    assert compare(hidden_alone(notebook, exercise, notebook[0][exercise]), key[exercise]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(notebook, key, name):
    assert compare(run_tests(notebook, *RIGHT[name], hidden=True), key[RIGHT[name][0]]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(notebook, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(notebook, exercise, solution, hidden=False)  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(notebook, exercise, solution, hidden=False)


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(notebook, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = hidden_alone(notebook, exercise, solution)
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])


def test_visible_tests_name_most_mistakes_of_every_exercise():
    for exercise in EXERCISES:
        messages = [message for name, _, message in MISTAKES.values() if name == exercise]
        assert sum(message is not None for message in messages) >= len(messages) / 2

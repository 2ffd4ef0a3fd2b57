"""Notebook 1: right solutions emit what the worked ones emit, each well-known mistake is caught by its own exercise.

Every entry of MISTAKES is a wrong solution with words of the visible message, or None where only the hidden tests can
tell it from a right solution.
"""

import re
from pathlib import Path

import jupytext
import pytest

from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "1_maml.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "inner-update",
    "inner-gradients",
    "adapt",
    "meta-loss-loop",
    "meta-loss",
    "expected-meta-objective",
)


@pytest.fixture(scope="module")
def sources():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def names(sources):
    """What the cells before the first exercise define, the worked solutions, and the helpers of visible tests."""
    namespace = {}
    for cell in ("imports", "setup", *EXERCISES):
        exec(compile(sources[cell], cell, "exec"), namespace)
    for cell in ("test-adapt", "test-meta-loss-loop"):
        exec(compile(HIDDEN.sub("", sources[cell]), cell, "exec"), namespace)
    return namespace


def run_tests(sources, names, exercise, solution, part):
    """Define ``solution`` and run its tests: ``visible``, ``hidden`` (alone) or ``all``. Returns what was emitted."""
    namespace = dict(names)
    # Functions look names up in the module they were made in: make them all anew, so that later exercises call these.
    for cell in EXERCISES:
        exec(compile(solution if cell == exercise else sources[cell], cell, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    text = {"visible": HIDDEN.sub("", source), "hidden": HIDDEN.search(source)[0], "all": source}[part]
    with collect_emitted() as emitted:
        exec(compile(text, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(sources, names):
    return {exercise: run_tests(sources, names, exercise, sources[exercise], "all") for exercise in EXERCISES}


UPDATE = "def inner_update(params, gradients, inner_lr):\n"
GRADIENTS = "def inner_gradients(loss, params, first_order):\n"
ADAPT = "def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):\n"
LOOP = (
    "def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):\n    losses = []\n"
)
META = "def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):\n"
OWN = "    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}\n"
ENDS = "    return outer_loss(adapted, collect(adapted)).mean()"
EXPECTED = """
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
"""
STEP = """
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)"""

MISTAKES = {
    "update_climbs": (
        "inner-update",
        UPDATE + "    return {n: params[n] + inner_lr * gradients[n] for n in params}",
        "the sign is wrong",
    ),
    "update_in_place": (
        "inner-update",
        UPDATE
        + """
    for n in params:
        params[n].data -= inner_lr * gradients[n].data
    return params""",
        "changed in place",
    ),
    "update_cuts_the_graph": (
        "inner-update",
        UPDATE + "    return {n: params[n].detach() - inner_lr * gradients[n] for n in params}",
        "no path leads back to params",
    ),
    "update_detaches_the_gradients": (
        "inner-update",
        UPDATE + "    return {n: params[n] - inner_lr * gradients[n].detach() for n in params}",
        "no path leads back to gradients",
    ),
    "update_by_position": (
        "inner-update",
        UPDATE
        + "    return {n: p - inner_lr * g for (n, p), g in zip(params.items(), gradients.values(), strict=True)}",
        None,
    ),
    "gradients_always_second_order": (
        "inner-gradients",
        GRADIENTS
        + """
    gradients = torch.autograd.grad(loss.sum(), list(params.values()), create_graph=True)
    return dict(zip(params, gradients, strict=True))""",
        "without a graph",
    ),
    "gradients_always_first_order": (
        "inner-gradients",
        GRADIENTS
        + """
    gradients = torch.autograd.grad(loss.sum(), list(params.values()), retain_graph=True)
    return dict(zip(params, gradients, strict=True))""",
        "silently becomes FOMAML",
    ),
    "gradients_of_the_mean": (
        "inner-gradients",
        GRADIENTS
        + """
    gradients = torch.autograd.grad(loss.mean(), list(params.values()), create_graph=not first_order)
    return dict(zip(params, gradients, strict=True))""",
        "divided by the number of tasks",
    ),
    "adapt_reuses_the_first_episodes": (
        "adapt",
        ADAPT
        + """
    batch = collect(params)
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, batch), params, first_order), inner_lr)
    return params""",
        "the first batch was used for both steps",
    ),
    "adapt_cuts_theta_off_in_first_order": (
        "adapt",
        ADAPT
        + """
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), inner_lr)
        if first_order:
            params = {n: p.detach().requires_grad_() for n, p in params.items()}
    return params""",
        "no path leads",
    ),
    "adapt_ignores_first_order": (
        "adapt",
        ADAPT
        + """
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, False), inner_lr)
    return params""",
        "this is the second-order answer",
    ),
    "loop_with_inner_loss_outside": (
        "meta-loss-loop",
        LOOP
        + """
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(inner_loss(adapted, collect(adapted)))
    return torch.stack(losses).mean()""",
        None,
    ),
    "loop_hands_parameters_on": (
        "meta-loss-loop",
        LOOP
        + """
    for collect in collects:
        params = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(params, collect(params)))
    return torch.stack(losses).mean()""",
        "the second task started from",
    ),
    "loop_outer_episodes_of_theta": (
        "meta-loss-loop",
        LOOP
        + """
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collect(params)))
    return torch.stack(losses).mean()""",
        "played by the unadapted policy",
    ),
    "batched_sum": (
        "meta-loss",
        META
        + OWN
        + "    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)\n"
        + ENDS.replace("mean", "sum"),
        "equation (4) is a mean",
    ),
    "batched_always_second_order": (
        "meta-loss",
        META + OWN + "    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, False)\n" + ENDS,
        "this is the second-order one",
    ),
    "batched_detached_copies": (
        "meta-loss",
        META
        + OWN.replace("v.unsqueeze", "v.detach().requires_grad_().unsqueeze")
        + "    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)\n"
        + ENDS,
        "no path leads back to theta",
    ),
    "expected_differentiates_the_probabilities": (
        "expected-meta-objective",
        EXPECTED + "    expected = (p * objective).sum()" + STEP,
        "were differentiated too",
    ),
    "expected_downhill": (
        "expected-meta-objective",
        EXPECTED + "    expected = -(p.detach() * objective).sum()" + STEP,
        "the step goes downhill",
    ),
    "expected_ignores_first_order": (
        "expected-meta-objective",
        EXPECTED + "    expected = (p.detach() * objective).sum()" + STEP.replace("not first_order", "True"),
        "the inner gradient is a constant",
    ),
}

RIGHT = {
    "update_with_sub": (
        "inner-update",
        UPDATE + "    return {n: torch.sub(p, gradients[n], alpha=inner_lr) for n, p in params.items()}",
    ),
    "gradients_one_by_one": (
        "inner-gradients",
        GRADIENTS
        + """
    total = loss.sum()
    out = {}
    for name, tensor in params.items():
        (out[name],) = torch.autograd.grad(total, tensor, create_graph=not first_order, retain_graph=True)
    return out""",
    ),
    "adapt_recursive": (
        "adapt",
        ADAPT
        + """
    if num_steps == 0:
        return params
    print("another step")
    loss = loss_fn(params, collect(params))
    stepped = inner_update(params, inner_gradients(loss, params, first_order), inner_lr)
    return adapt(stepped, collect, loss_fn, inner_lr, num_steps - 1, first_order)""",
    ),
    "loop_running_sum": (
        "meta-loss-loop",
        LOOP.replace("losses = []", "total = 0.0")
        + """
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        total = total + outer_loss(adapted, collect(adapted)) / len(collects)
    return total""",
    ),
    "batched_with_repeated_copies": (
        "meta-loss",
        META
        + "    own = {n: torch.stack([v] * num_tasks) for n, v in params.items()}\n"
        + "    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)\n"
        + ENDS,
    ),
    "expected_as_a_dot_product": (
        "expected-meta-objective",
        EXPECTED + "    expected = p.detach() @ objective" + STEP,
    ),
}


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_emits_the_same_without_the_visible_tests(sources, names, key, exercise):
    assert key[exercise]
    assert compare(run_tests(sources, names, exercise, sources[exercise], "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(sources, names, key, name):
    assert compare(run_tests(sources, names, *RIGHT[name], "all"), key[RIGHT[name][0]]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(sources, names, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(sources, names, exercise, solution, "visible")  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(sources, names, exercise, solution, "visible")


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(sources, names, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = run_tests(sources, names, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError, KeyError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])

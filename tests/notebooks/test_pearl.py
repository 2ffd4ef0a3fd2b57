"""Notebook 3: right solutions emit what the worked ones emit, each well-known mistake is caught by its own exercise.

They stand in ``tests/mutants``: every wrong one with words that the visible tests must say about it, or None where only
the hidden tests can tell it from a right one.
"""

import re
from pathlib import Path

import jupytext
import numpy as np
import pytest
import torch

from metapcg.grading.emitted import compare
from metapcg.grading.mutants import mistakes_and_right
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "3_pearl.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "transition-inputs",
    "gaussian-product",
    "kl-to-prior",
    "choose-latent",
    "soft-target",
    "actor-loss",
    "soft-update",
)


@pytest.fixture(scope="module")
def sources():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def names(sources, tmp_path_factory):
    """What the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    namespace = {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), namespace)
    yield namespace
    patch.undo()


def run_tests(sources, names, exercise, solution, part):
    """Define ``solution`` only and run its tests: ``visible``, ``hidden`` (alone) or ``all``."""
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    text = {"visible": HIDDEN.sub("", source), "hidden": HIDDEN.search(source)[0], "all": source}[part]
    with collect_emitted() as emitted:
        exec(compile(text, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(sources, names):
    return {exercise: run_tests(sources, names, exercise, sources[exercise], "all") for exercise in EXERCISES}


MISTAKES, RIGHT = mistakes_and_right(Path(__file__).parents[1] / "mutants" / SOURCE.name)


def test_every_exercise_has_enough_cases():
    for exercise in EXERCISES:
        assert sum(case[0] == exercise for case in MISTAKES.values()) >= 8
        assert sum(case[0] == exercise for case in RIGHT.values()) >= 2


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


def test_points_are_as_the_table_says(sources):
    cells = {cell.metadata["id"]: cell.metadata for cell in jupytext.read(SOURCE, fmt="py:percent").cells}
    points = sum(int(data["points"]) for data in cells.values() if "points" in data)
    assert points == 40 and "**40**" in sources["intro"]


# ------------------------------------------------------------------------------------------------- the worked functions


@pytest.fixture(scope="module")
def worked(sources, names):
    namespace = dict(names)
    for exercise in EXERCISES:
        exec(compile(sources[exercise], exercise, "exec"), namespace)
    return namespace


def test_product_agrees_with_numerical_integration(worked):
    means, variances = torch.tensor([[0.3], [2.0], [-1.0]]).double(), torch.tensor([[0.5], [0.2], [3.0]]).double()
    grid = torch.linspace(-10, 10, 20001, dtype=torch.float64)
    density = torch.exp(-0.5 * grid**2 - 0.5 * ((grid - means) ** 2 / variances).sum(0))
    density /= torch.trapezoid(density, grid)
    right = torch.trapezoid(grid * density, grid)
    mean, variance = worked["gaussian_product"](means, variances, torch.ones(3).double())
    assert float(mean) == pytest.approx(float(right), abs=1e-8)
    assert float(variance) == pytest.approx(float(torch.trapezoid((grid - right) ** 2 * density, grid)), abs=1e-8)


def test_divergence_agrees_with_numerical_integration(worked):
    grid = torch.linspace(-20, 20, 40001, dtype=torch.float64)
    belief = torch.distributions.Normal(grid.new_tensor(0.7), grid.new_tensor(0.3).sqrt()).log_prob(grid)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(grid)
    right = torch.trapezoid(belief.exp() * (belief - prior), grid)
    got = worked["kl_to_prior"](torch.tensor([0.7], dtype=grid.dtype), torch.tensor([0.3], dtype=grid.dtype))
    assert float(got) == pytest.approx(float(right), abs=1e-8)


def test_draws_have_the_beliefs_mean_and_variance(worked):
    noise = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0))
    draws = worked["choose_latent"](torch.tensor([2.0]), torch.tensor([0.25]), noise)
    assert float(draws.mean()) == pytest.approx(2.0, abs=0.005) and float(draws.var()) == pytest.approx(0.25, abs=0.005)


def test_target_is_the_soft_value_of_a_chain_that_can_be_solved(worked):
    """One state, two actions, rewards 0 and 1: iterating (6) with the best soft policy gives alpha log-sum-exp."""
    rewards, gamma, alpha = torch.tensor([0.0, 1.0]).double(), 0.9, 0.5
    q = torch.zeros(2).double()
    for _ in range(400):
        log_probs = torch.log_softmax(q / alpha, -1).expand(2, 2)
        q = worked["soft_target"](
            rewards, torch.zeros(2).double(), q.expand(2, 2), q.expand(2, 2), log_probs, gamma, alpha
        )
    value = alpha * np.log(np.exp(0.0 / alpha) + np.exp(1.0 / alpha)) / (1 - gamma)
    assert torch.allclose(q, rewards + gamma * value)


def test_actor_loss_is_smallest_at_the_softmax_of_the_critics(worked):
    q = torch.tensor([[0.3, -1.0, 2.0]]).double()
    best = worked["actor_loss"](torch.log_softmax(q / 0.4, -1), q, q + 1, 0.4)
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = torch.log_softmax(q / 0.4 + torch.randn(1, 3, generator=draw).double(), -1)
        assert worked["actor_loss"](other, q, q + 1, 0.4) > best
    assert float(best) == pytest.approx(float(-0.4 * torch.logsumexp(q / 0.4, -1)))

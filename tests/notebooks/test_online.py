"""Notebook 5: right solutions emit what the worked ones emit, each well-known mistake is caught by its own exercise,
and the boss learns with the functions of a notebook.

Solutions stand in ``tests/mutants``: every wrong one with words that the visible tests must say about it, or None where
only the hidden tests can tell it from a right one.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import jupytext
import numpy as np
import pytest
import torch

from metapcg.grading.emitted import compare
from metapcg.grading.mutants import mistakes_and_right
from metapcg.learning.checks import collect_emitted
from metapcg.learning.solutions import UnfinishedError, load
from metapcg.personal.anchors import learning_curves, play_fights
from metapcg.personal.arena_problem import ArenaProblem
from metapcg.personal.learner import Learner, LearnerSettings
from metapcg.personal.modular_mind import ModularMind, from_numpy
from metapcg.personal.numpy_mind import NumpyMind
from metapcg.personal.player_styles import sample_styles
from metapcg.personal.weights_file import SIZES, MindSizes, load_anchor

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "notebooks" / "5_online.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "layer-norm-backward",
    "gate-backward",
    "link-backward",
    "batch-advantages",
    "logit-gradient",
    "anchored-step",
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
    """Define ``solution`` only (for the link, what it calls, too) and run its ``visible`` or its ``hidden`` tests."""
    namespace = dict(names)
    if exercise == "link-backward":
        for cell in ("layer-norm-backward", "gate-backward"):
            exec(compile(sources[cell], cell, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    visible, hidden = HIDDEN.sub("", source), HIDDEN.search(source)[0]
    if part == "hidden" and exercise == "link-backward":
        exec(compile(sources[exercise], exercise, "exec"), namespace)
        exec(compile(visible, exercise, "exec"), namespace)  # its hidden tests use a helper of the visible ones
    exec(compile(solution, exercise, "exec"), namespace)
    with collect_emitted() as emitted:
        exec(compile(hidden if part == "hidden" else visible, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(sources, names):
    return {exercise: run_tests(sources, names, exercise, sources[exercise], "hidden") for exercise in EXERCISES}


MISTAKES, RIGHT = mistakes_and_right(ROOT / "tests" / "mutants" / SOURCE.name)


def test_every_exercise_has_enough_cases():
    for exercise in EXERCISES:
        assert sum(case[0] == exercise for case in MISTAKES.values()) >= 8
        assert sum(case[0] == exercise for case in RIGHT.values()) >= 1


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_passes(sources, names, key, exercise):
    assert run_tests(sources, names, exercise, sources[exercise], "visible") == []
    assert key[exercise]


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(sources, names, key, name):
    exercise, solution = RIGHT[name]
    run_tests(sources, names, exercise, solution, "visible")
    assert compare(run_tests(sources, names, exercise, solution, "hidden"), key[exercise]) == []


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
    except (AssertionError, IndexError, TypeError, ValueError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])


def test_points_are_as_the_table_says(sources):
    cells = {cell.metadata["id"]: cell.metadata for cell in jupytext.read(SOURCE, fmt="py:percent").cells}
    assert [name for name, data in cells.items() if data.get("kind") == "solution"] == list(EXERCISES)
    assert sum(data.get("points", 0) for data in cells.values()) == 20 and "**20**" in sources["intro"]
    assert cells["intro"]["bonus"] is True


# ------------------------------------------------------------------------------------------- the functions in the boss


@pytest.fixture(scope="module")
def functions():
    return load(SOURCE).require("link_backward", "logit_gradient", "batch_advantages", "anchored_step")


@pytest.fixture(scope="module")
def fights():
    """A fight each against four players, played with random weights: their logs."""
    minds = [NumpyMind(random_weights(SIZES, seed)) for seed in range(4)]
    return [log for (log,) in play_fights(minds, ArenaProblem(sample_styles("train", 4, 1)), 2)]


def random_weights(sizes, seed=0):
    generator = np.random.default_rng(seed)
    return {name: 0.4 * generator.normal(size=shape) + name.endswith("scale") for name, shape in sizes.shapes.items()}


def decisions(sizes, number, seed):
    generator = np.random.default_rng(seed)
    legal = generator.random((number, sizes.actions)) < 0.5
    actions = generator.integers(sizes.actions, size=number)
    legal[np.arange(number), actions] = True
    return generator.normal(size=(number, sizes.features)), legal, actions, generator.normal(size=number)


@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
@pytest.mark.parametrize(
    "sizes", [SIZES, MindSizes(features=5, actions=4, owned=(2, 0), free=1, units=3, latent=6, gate=7)]
)
def test_every_gradient_is_autograds_and_the_librarys(functions, sizes, entropy_weight):
    weights, data = random_weights(sizes), decisions(sizes, 40, 5)
    got = sizes.views(NumpyMind(weights, sizes, functions).gradient(*data, entropy_weight))
    own = sizes.views(NumpyMind(weights, sizes).gradient(*data, entropy_weight))
    params = {name: value.requires_grad_() for name, value in from_numpy(weights, torch.float64).items()}
    features, legal, actions, advantages = (torch.as_tensor(each) for each in data)
    dist = ModularMind(sizes).distribution(params, {"state": features, "legal": legal.double()})
    loss = -(advantages * dist.log_prob(actions) + entropy_weight * dist.entropy()).mean()
    for name, right in zip(params, torch.autograd.grad(loss, list(params.values())), strict=True):
        largest = float(right.abs().max())
        assert largest > 1e-6, f"{name}: a gradient of zero proves nothing"
        assert np.abs(got[name] - right.numpy()).max() / largest < 1e-9, name
        assert np.abs(got[name] - own[name]).max() / largest < 1e-12, name


def test_learner_with_them_is_the_librarys_learner(functions, fights):
    settings = LearnerSettings(pull=0.1, entropy_weight=0.05)
    mine, own = (Learner(load_anchor("meta-learned"), settings, functions=f) for f in (functions, None))
    for fight in fights:
        assert mine.update([fight]).distance == pytest.approx(own.update([fight]).distance, rel=1e-9)
    assert mine.distance() > 0.1
    assert np.abs(mine.mind.flat - own.mind.flat).max() < 1e-12


@pytest.mark.parametrize("name", ["link_backward", "logit_gradient", "batch_advantages", "anchored_step"])
def test_each_function_really_drives_the_learner(functions, fights, name):
    """Exchange one for a wrong one, and the learner ends elsewhere."""
    wrong = {
        "link_backward": lambda g, seen, w: (g, functions.link_backward(g, seen, w)[1]),
        "logit_gradient": lambda *arguments: -functions.logit_gradient(*arguments),
        "batch_advantages": lambda returns: returns,
        "anchored_step": lambda *arguments: functions.anchored_step(*arguments[:-1], 0.0),
    }
    others = {n: getattr(functions, n) for n in wrong}
    changed = SimpleNamespace(**{**others, name: wrong[name]})
    learners = [Learner(load_anchor("random"), functions=f) for f in (functions, changed)]
    for learner in learners:
        learner.update(fights[:1])
        learner.update(fights[1:2])
    assert np.abs(learners[0].mind.flat - learners[1].mind.flat).max() > 1e-5


def test_learning_curves_take_them(functions):
    players, settings = sample_styles("extrapolation", 2, 3), LearnerSettings()
    one, two = (
        learning_curves(load_anchor("meta-learned"), settings, players, 3, 4, functions=f) for f in (functions, None)
    )
    assert all(np.allclose(a, b, rtol=0, atol=1e-9) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("logit_gradient", lambda *_: np.zeros(3), r"logit_gradient: needs an array of shape \(\d+, 9\), got shape"),
        ("logit_gradient", lambda *_: None, "logit_gradient: needs an array .* got NoneType"),
        ("link_backward", lambda g, seen, w: (g[:1], {}), "link_backward, the latent's gradient: needs an array"),
        ("link_backward", lambda g, seen, w: (g, {}), "link_backward, gradient 'link.norm_in.scale': needs an array"),
        ("link_backward", lambda g, seen, w: (g, {k: v.fill(9.0) for k, v in w.items()}), "link_backward, gradient"),
    ],
)
def test_a_result_of_another_shape_is_named_and_changes_nothing(functions, fights, name, wrong, message):
    broken = SimpleNamespace(batch_advantages=functions.batch_advantages, anchored_step=functions.anchored_step)
    broken.logit_gradient, broken.link_backward = functions.logit_gradient, functions.link_backward
    setattr(broken, name, wrong)
    learner = Learner(load_anchor("random"), functions=broken)
    with pytest.raises(ValueError, match=message):
        learner.update(fights[:1])
    assert learner.distance() == 0.0 and learner.updates == 0


def test_starter_says_which_function_is_not_written(fights):
    starter = load(ROOT / "base_code" / "hw11" / "5_online.ipynb")
    with pytest.raises(UnfinishedError, match="batch_advantages is not written yet"):
        Learner(load_anchor("random"), functions=starter).update(fights[:1])


# --------------------------------------------------------------------------------- what the worked answers derive


def test_gradient_at_a_layer_norms_input_is_blind_to_shift_and_scale(functions):
    """Question 1: it sums to 0 and is orthogonal to x-hat for epsilon = 0; ten times the input, a tenth of it."""
    generator = np.random.default_rng(3)
    x, g, scale = generator.normal(size=(5, 8)), generator.normal(size=(5, 8)), generator.normal(size=8)
    centred, std = x - x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    g_in = functions.layer_norm_backward(g, centred / std, std, scale)[0]
    assert np.abs(g_in.sum(-1)).max() < 1e-13 and np.abs((g_in * centred).sum(-1)).max() < 1e-13
    assert np.abs(g_in).max() > 0.1
    assert np.allclose(functions.layer_norm_backward(g, centred / std, 10 * std, scale)[0], g_in / 10)


@pytest.mark.parametrize("epsilon", [1e-5, 0.3])
def test_derivative_of_the_normalised_values_is_the_symmetric_matrix(epsilon):
    """Equation (24) of the worked theory, for any epsilon."""
    x = torch.randn(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def normalise(x):
        return (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + epsilon)

    jacobian = torch.autograd.functional.jacobian(normalise, x)
    normed, std = normalise(x), torch.sqrt(x.var(unbiased=False) + epsilon)
    right = (torch.eye(6).double() - 1.0 / 6.0 - torch.outer(normed, normed) / 6.0) / std
    assert torch.allclose(jacobian, right, rtol=0, atol=1e-14) and torch.equal(right, right.T)


def test_both_parts_of_the_logits_gradient_sum_to_zero_and_the_entropys_vanishes_at_its_maximum(functions):
    """Equation (29) of the worked theory."""
    generator = np.random.default_rng(6)
    logits, legal = generator.normal(size=(4, 5)), np.array([[True, True, False, True, True]] * 4)
    actions, advantages = np.array([0, 1, 3, 4]), generator.normal(size=4)
    for weight, size in ((0.0, advantages), (0.7, 0 * advantages)):
        got = functions.logit_gradient(logits, legal, actions, size, weight)
        assert np.abs(got.sum(-1)).max() < 1e-15 and np.abs(got).max() > 0.01 and (got[:, 2] == 0.0).all()
    assert np.abs(functions.logit_gradient(0 * logits, legal, actions, 0 * advantages, 0.7)).max() < 1e-15


def test_pull_inside_adam_depends_on_the_noise_and_outside_it_does_not(functions):
    """Question 2: two weights, equally far away, one with noisy gradients and one with hardly any."""
    generator, lr, pull = np.random.default_rng(4), 0.01, 0.02
    anchor, start = np.zeros(2), np.ones(2)
    inside, outside = (start.copy(), np.zeros(2), np.zeros(2)), (start.copy(), np.zeros(2), np.zeros(2))
    for count in range(1, 41):
        noise = generator.normal(size=2) * [5.0, 0.0]
        weights, first, second = inside
        inside = functions.anchored_step(
            weights, noise + pull * (weights - anchor), first, second, count, anchor, lr, 0.0
        )
        outside = functions.anchored_step(outside[0], noise, *outside[1:], count, anchor, lr, pull)
    back = start - inside[0]
    assert back[1] == pytest.approx(40 * lr, rel=0.1) and abs(back[0]) < 0.5 * back[1]
    assert outside[0][1] == pytest.approx((1 - pull) ** 40) and abs(outside[0][0] - outside[0][1]) < 0.1


def test_a_weight_stays_within_the_bound_of_the_pull(functions):
    """Question 2: s lr (1 - pull)/pull; with lr = 0.01, pull = 0.02 about 1.6, and 0.5 for steps of lr."""
    lr, pull, worst = 0.01, 0.02, (1 - 0.9) / np.sqrt(1 - 0.999)
    assert worst * lr * (1 - pull) / pull == pytest.approx(1.55, abs=0.01) and lr * (1 - pull) / pull < 0.5
    state, anchor = (np.zeros(1), np.zeros(1), np.zeros(1)), np.zeros(1)
    for count in range(1, 1001):
        state = functions.anchored_step(state[0], np.array([1.0]), *state[1:], count, anchor, lr, pull)
    assert state[0][0] == pytest.approx(-lr * (1 - pull) / pull, rel=1e-3)

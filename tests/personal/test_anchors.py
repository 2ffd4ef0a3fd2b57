"""Where a boss starts from, and how fast it learns from there."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fights import random_weights

from metapcg.learning.solutions import load
from metapcg.personal.anchors import (
    AnchorBudget,
    fight_return,
    learning_curves,
    meta_learned_anchor,
    multi_task_anchor,
    play_fights,
    random_anchor,
    training_problem,
)
from metapcg.personal.arena import NUM_ACTIONS, RULES
from metapcg.personal.arena_problem import ArenaProblem
from metapcg.personal.learner import LearnerSettings
from metapcg.personal.numpy_mind import NumpyMind
from metapcg.personal.player_styles import named_styles, sample_styles
from metapcg.personal.weights_file import ANCHORS, load_anchor

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

TINY = AnchorBudget(warm_iterations=1, meta_iterations=1, multi_task_iterations=1, players=5, fights=2)


@pytest.fixture(scope="module")
def functions():
    return load(NOTEBOOKS / "1_maml.py"), load(NOTEBOOKS / "0_policy_gradient.py").surrogate_lvc


def test_notebook_functions_meta_train_a_boss(functions):
    rows = []
    result = meta_learned_anchor(*functions, TINY, seed=0, on_iteration=lambda i, params, row: rows.append(row))
    again = meta_learned_anchor(*functions, TINY, seed=0)
    assert len(rows) == TINY.meta_iterations and np.isfinite(rows[-1]["loss"])
    assert all(torch.equal(result.params[name], again.params[name]) for name in result.params)
    warm = multi_task_anchor(TINY, int(np.random.SeedSequence(0).generate_state(2)[0]))
    assert not torch.equal(result.params["coordinator.bias"], warm.params["coordinator.bias"]), "only warmed up"
    NumpyMind({name: value.numpy() for name, value in result.params.items()})


def test_multi_task_and_random_anchors_fit_the_mind():
    for params in (multi_task_anchor(TINY, 0).params, random_anchor(0)):
        NumpyMind({name: value.numpy() for name, value in params.items()})


def test_training_meets_every_style_equally_often():
    problem = training_problem(AnchorBudget())(np.random.SeedSequence(0))
    assert {problem.styles.names.count(name) for name in problem.styles.names} == {2}


def test_played_fights_are_what_the_problem_paid():
    problem = ArenaProblem(named_styles(), num_envs=6)
    paid = np.zeros((5, 6))
    step = problem.step

    def listening(actions):
        result = step(actions)
        paid.__iadd__(result[1])
        return result

    problem.step = listening
    minds = [NumpyMind(random_weights(seed)) for seed in range(5)]
    played = play_fights(minds, problem, 3)
    returns = np.array([[fight_return(fight, LearnerSettings()) for fight in fights] for fights in played])
    assert np.allclose(returns, paid, atol=1e-4)
    lengths = {len(fight) for fights in played for fight in fights}
    assert len(lengths) > 3 and max(lengths) <= RULES.max_steps
    for m, fights in enumerate(played):
        for e, fight in enumerate(fights):
            assert len(fight.hp) == len(fight) + 1 and (fight.hp[:-1] > 0.0).all(), "nobody decides after a death"
            assert fight.legal[np.arange(len(fight)), fight.actions].all()
            assert (fight.boss_died, fight.player_died) == tuple(problem.state.hp[m, e] <= 0.0)


def test_mind_m_fights_player_m():
    """A mind that always waits against one that never does: their actions land in their own rows."""
    waits, runs = random_weights(0), random_weights(0)
    waits["coordinator.bias"] = np.array([50.0] + [0.0] * (NUM_ACTIONS - 1))
    runs["coordinator.bias"] = np.array([-50.0, 0.0, 50.0] + [0.0] * (NUM_ACTIONS - 3))
    played = play_fights([NumpyMind(waits), NumpyMind(runs)], ArenaProblem(named_styles("random", "random"), 3), 0)
    assert all((fight.actions == 0).all() for fight in played[0])
    assert all((fight.actions == 2)[fight.legal[:, 2]].all() for fight in played[1])


def test_curves_are_reproducible_and_count_fights():
    players = sample_styles("interpolation", 3, 0)
    first = learning_curves(random_weights(), LearnerSettings(), players, 4, seed=1)
    again = learning_curves(random_weights(), LearnerSettings(), players, 4, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    returns, wins, distances = first
    assert returns.shape == wins.shape == (3, 4) and (distances > 0.0).all()
    pairs = learning_curves(random_weights(), LearnerSettings(), players, 4, seed=1, fights_per_update=2)
    assert pairs[0].shape == (3, 4) and not np.array_equal(pairs[0], returns)
    still = learning_curves(random_weights(), LearnerSettings(pull=1.0), players, 3, seed=1)
    assert np.allclose(still[2], 0.0, atol=1e-12) and np.array_equal(still[0][:, 0], returns[:, 0])
    with pytest.raises(ValueError, match="multiple of fights_per_update"):
        learning_curves(random_weights(), LearnerSettings(), players, 5, 0, fights_per_update=2)


@pytest.mark.parametrize("name", ANCHORS)
def test_anchors_come_with_the_package(name):
    mind = NumpyMind(load_anchor(name))
    assert np.isfinite(mind.flat).all()


def test_unknown_anchor_is_refused():
    with pytest.raises(ValueError, match="choose one of meta-learned"):
        load_anchor("best")


def test_meta_learned_boss_learns_its_player_and_the_multi_task_one_does_not():
    """The result that the layer is for, on players that neither has met: five updates on eight fights each."""
    players = sample_styles("interpolation", 20, 77)
    before, after = {}, {}
    for name in ("meta-learned", "multi-task"):
        returns, _, _ = learning_curves(load_anchor(name), LearnerSettings(), players, 48, 78, fights_per_update=8)
        before[name], after[name] = returns[:, :8].mean(), returns[:, -8:].mean()
    assert after["meta-learned"] > before["meta-learned"] + 2.0, (before, after)
    assert after["meta-learned"] > after["multi-task"] + 1.5, (before, after)
    assert abs(after["multi-task"] - before["multi-task"]) < 1.5, (before, after)


def test_every_player_needs_a_mind():
    problem = ArenaProblem(named_styles("random", "kiting"))
    with pytest.raises(ValueError, match="one for each of 2 players, got 1"):
        play_fights([NumpyMind(random_weights())], problem, 0)

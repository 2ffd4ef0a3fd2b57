"""2-D navigation: the figures that the authors' protocol fixes, and the contract of the batched problems."""

import numpy as np
import pytest

from metapcg.tasks.navigation import Navigation, greedy_actions, sample_goals
from metapcg.tasks.navigation import test_goals as authors_goals


def episode_returns(problem, act):
    problem.reset(0)
    total = np.zeros((problem.num_tasks, problem.num_envs))
    for _ in range(problem.horizon):
        total += problem.step(act(problem))[1]
    return total


def stand_still(problem):
    return np.zeros((problem.num_tasks, problem.num_envs, 2))


def test_standing_still_on_the_authors_goals():
    assert episode_returns(Navigation(authors_goals(), 2), stand_still).mean() == pytest.approx(-40.08, abs=0.005)


@pytest.mark.parametrize("stop_at_goal", [True, False])
def test_greedy_optimum_on_the_authors_goals(stop_at_goal):
    # -0.94 here would mean that the reward is taken before the move.
    problem = Navigation(authors_goals(), stop_at_goal=stop_at_goal)
    assert episode_returns(problem, greedy_actions).mean() == pytest.approx(-0.54, abs=0.005)


def test_actions_are_clipped_after_scaling():
    problem = Navigation([[0.5, 0.5]], 2)
    problem.reset(0)
    obs, reward, *_ = problem.step([[[5.0, -0.03], [0.1, 0.1]]])
    assert obs[0] == pytest.approx(np.array([[0.1, -0.03], [0.1, 0.1]]))
    assert reward[0] == pytest.approx([-np.hypot(0.4, 0.53), -np.hypot(0.4, 0.4)])
    scaled = Navigation([[0.5, 0.5]], action_scale=0.1)
    scaled.reset(0)
    assert scaled.step([[[0.5, -7.0]]])[0][0, 0] == pytest.approx([0.05, -0.1])
    assert episode_returns(scaled, greedy_actions) == pytest.approx(
        episode_returns(Navigation([[0.5, 0.5]]), greedy_actions)
    )


def test_squared_and_sparse_rewards():
    squared = Navigation([[0.3, 0.4]], reward="squared")
    squared.reset(0)
    assert squared.step([[[0.0, 0.0]]])[1].item() == pytest.approx(-0.25)
    sparse = Navigation([[0.25, 0.0]], reward="sparse", goal_radius=0.2)
    sparse.reset(0)
    outside, inside, at_goal = (sparse.step([[[x, 0.0]]]) for x in (0.0, 0.1, 0.1))
    assert outside[1].item() == 0.0
    assert inside[1].item() == pytest.approx(0.85)
    assert at_goal[1].item() == pytest.approx(0.95)
    assert not sparse.step([[[0.05, 0.0]]])[2].any()  # a positive reward is not cut off at the goal


def test_goal_terminates_and_horizon_truncates_never_both():
    problem = Navigation([[0.1, 0.0], [0.3, 0.0]], horizon=3)
    problem.reset(0)
    move = np.full((2, 1, 2), [0.1, 0.0])
    _, _, terminated, truncated = problem.step(move)
    assert terminated[:, 0].tolist() == [True, False] and not truncated.any()
    _, reward, *_ = problem.step(move)
    assert reward[0, 0] == 0.0 and reward[1, 0] == pytest.approx(-0.1, abs=1e-6)
    assert problem.positions[0, 0] == pytest.approx([0.1, 0.0])  # a finished point ignores actions
    _, _, terminated, truncated = problem.step(move)
    assert terminated[:, 0].tolist() == [True, True] and not truncated.any()  # goal on the last step: not truncated
    problem.reset(0)
    for _ in range(3):
        _, _, terminated, truncated = problem.step(np.zeros((2, 1, 2)))
    assert truncated.all() and not terminated.any() and not problem.active.any()


def test_observation_hides_the_goal_unless_told():
    goals = sample_goals(3, 0)
    assert Navigation(goals, 2).reset(0).shape == (3, 2, 2)
    told = Navigation(goals, 2, observe_goal=True).reset(0)
    assert told.dtype == np.float32
    assert told[..., 2:] == pytest.approx(np.repeat(goals[:, None], 2, axis=1), abs=1e-6)


def test_returned_arrays_are_not_overwritten():
    problem = Navigation([[0.5, 0.5]])
    first = problem.reset(0)
    problem.step([[[0.1, 0.1]]])
    assert (first == 0).all()


def test_same_seed_same_goals():
    assert np.array_equal(sample_goals(4, 1), sample_goals(4, 1))
    assert not np.array_equal(sample_goals(4, 1), sample_goals(4, 2))
    assert np.abs(sample_goals(1000, 3)).max() <= 0.5


@pytest.mark.parametrize(
    ("goals", "settings", "named"),
    [
        (np.zeros((0, 2)), {}, "goals"),
        ([[np.nan, 0.0]], {}, "goals"),
        ([[0.0, 0.0]], {"reward": "cubed"}, "reward"),
        ([[0.0, 0.0]], {"horizon": 0}, "horizon"),
        ([[0.0, 0.0]], {"num_envs": 0}, "num_envs"),
        ([[0.0, 0.0]], {"action_scale": 0.0}, "action_scale"),
        ([[0.0, 0.0]], {"goal_radius": np.inf}, "goal_radius"),
    ],
)
def test_bad_settings_are_refused_by_name(goals, settings, named):
    with pytest.raises(ValueError, match=f"^{named}: "):
        Navigation(goals, **settings)


def test_bad_actions_are_refused():
    problem = Navigation([[0.5, 0.5]], 2)
    with pytest.raises(RuntimeError, match="reset"):
        problem.step(np.zeros((1, 2, 2)))
    problem.reset(0)
    with pytest.raises(ValueError, match="shape"):
        problem.step(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="finite"):
        problem.step(np.full((1, 2, 2), np.nan))

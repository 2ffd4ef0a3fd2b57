"""Tabular MDPs: what a random policy and the oracle earn, and that the simulation obeys its tables."""

import numpy as np
import pytest

from metapcg.tasks.tabular_mdp import (
    TabularMDPs,
    TabularProblem,
    TransitionProblem,
    optimal_values,
    oracle_actions,
    sample_mdps,
)


def half_width(values):
    return 1.96 * values.std() / np.sqrt(values.size)


def episode_returns(problem, act, seed=0):
    problem.reset(seed)
    total = np.zeros(problem.states.shape)
    for _ in range(problem.horizon):
        total += problem.step(act(problem))[1]
    return total


def test_random_policy_and_oracle_earn_what_is_known():
    mdps = sample_mdps(4000, 0)
    rng = np.random.default_rng(1)
    random = episode_returns(TabularProblem(mdps), lambda problem: rng.integers(5, size=problem.states.shape))
    assert half_width(random) < 0.2
    assert random.mean() == pytest.approx(10.0, abs=half_width(random) + 0.02)
    values, plan = optimal_values(mdps)
    exact = values[:, 0, 0]
    assert half_width(exact) < 0.12
    assert exact.mean() == pytest.approx(21.85, abs=half_width(exact) + 0.07)
    played = episode_returns(TabularProblem(mdps), lambda problem: oracle_actions(problem, plan))
    difference = played[:, 0] - exact
    assert half_width(difference) < 0.2
    assert difference.mean() == pytest.approx(0.0, abs=1.5 * half_width(difference))


def test_optimal_values_worked_by_hand():
    # Action 0 stays and pays 1, action 1 changes the state; in state 1 action 0 pays 5.
    rewards = np.array([[[1.0, 0.0], [5.0, 0.0]]])
    transitions = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]])
    values, plan = optimal_values(TabularMDPs(rewards, transitions), horizon=3)
    assert values[0].tolist() == [[10.0, 15.0], [5.0, 10.0], [1.0, 5.0]]
    assert plan[0].tolist() == [[1, 0], [1, 0], [0, 0]]


def test_rewards_and_transitions_follow_the_tables():
    mdps = sample_mdps(2, 3, num_states=3, num_actions=2)
    problem = TabularProblem(mdps, 40_000)
    obs = problem.reset(0)
    assert obs.shape == (2, 40_000, 3) and (obs[..., 0] == 1).all() and (obs.sum(-1) == 1).all()
    for action in (0, 1):
        problem.reset(action)
        obs, reward, *_ = problem.step(np.full((2, 40_000), action))
        assert reward.mean(axis=1) == pytest.approx(mdps.mean_rewards[:, 0, action], abs=0.02)
        assert reward.std(axis=1) == pytest.approx([1.0, 1.0], abs=0.02)
        assert obs.mean(axis=1) == pytest.approx(mdps.transitions[:, 0, action], abs=0.01)
    before = problem.states.copy()
    obs, reward, *_ = problem.step(np.zeros_like(before))
    for task in range(2):
        for state in range(3):
            there = before[task] == state
            assert reward[task, there].mean() == pytest.approx(mdps.mean_rewards[task, state, 0], abs=0.05)
            assert obs[task, there].mean(axis=0) == pytest.approx(mdps.transitions[task, state, 0], abs=0.025)


def test_last_step_terminates_and_the_state_then_stays():
    problem = TabularProblem(sample_mdps(2, 0), 3, horizon=2)
    problem.reset(0)
    actions = np.zeros((2, 3), dtype=int)
    assert not problem.step(actions)[2].any()
    _, _, terminated, truncated = problem.step(actions)
    assert terminated.all() and not truncated.any() and not problem.active.any()
    states = problem.states.copy()
    assert not problem.step(actions)[1].any() and np.array_equal(problem.states, states)
    problem.reset()
    assert (problem.states == 0).all() and problem.active.all()


def test_same_seed_same_tasks_and_episodes():
    assert all(np.array_equal(a, b) for a, b in zip(sample_mdps(3, 1), sample_mdps(3, 1), strict=True))
    assert not np.array_equal(sample_mdps(3, 1)[0], sample_mdps(3, 2)[0])
    problem = TabularProblem(sample_mdps(3, 1), 5)
    act = lambda problem: np.zeros_like(problem.states)  # noqa: E731
    assert np.array_equal(episode_returns(problem, act, 4), episode_returns(problem, act, 4))
    assert not np.array_equal(episode_returns(problem, act, 4), episode_returns(problem, act, 5))


def test_bad_settings_and_actions_are_refused():
    rewards, transitions = sample_mdps(1, 0, 2, 2)
    with pytest.raises(ValueError, match="^mean_rewards: "):
        TabularProblem(TabularMDPs(rewards * np.nan, transitions))
    with pytest.raises(ValueError, match="^transitions: need shape"):
        TabularProblem(TabularMDPs(rewards, transitions[..., :1]))
    with pytest.raises(ValueError, match="^transitions: need probabilities"):
        TabularProblem(TabularMDPs(rewards, transitions * 2))
    with pytest.raises(ValueError, match="^horizon: "):
        TabularProblem(TabularMDPs(rewards, transitions), horizon=0)
    with pytest.raises(ValueError, match="^num_states: "):
        sample_mdps(1, 0, num_states=0)
    problem = TabularProblem(TabularMDPs(rewards, transitions))
    with pytest.raises(RuntimeError, match="reset"):
        problem.step([[0]])
    problem.reset(0)
    with pytest.raises(ValueError, match="^actions: .*0 … 1"):
        problem.step([[2]])


def test_transition_problem_shows_the_table_entry_and_the_reward_of_the_last_step():
    mdps = sample_mdps(3, 5, num_states=4, num_actions=2)
    plain, problem = TabularProblem(mdps, 2), TransitionProblem(mdps, 2)
    assert problem.observation_size == 4 + 2 * 8
    rng = np.random.default_rng(0)
    plain.reset(7)
    obs = problem.reset(7)
    assert obs.shape == (3, 2, 20) and obs.dtype == np.float32 and not obs[..., 4:].any()
    for _ in range(problem.horizon):
        before, actions = problem.states.copy(), rng.integers(2, size=(3, 2))
        short, paid, *_ = plain.step(actions)
        obs, reward, *_ = problem.step(actions)
        assert (obs[..., :4] == short).all() and (reward == paid).all()
        pairs, rewards = obs[..., 4:12], obs[..., 12:]
        assert (pairs.argmax(-1) == before * 2 + actions).all() and (pairs.sum(-1) == 1).all()
        assert rewards.sum(-1) == pytest.approx((reward - 1.0) / np.sqrt(2.0))
        assert ((rewards == 0) | (pairs == 1)).all()
    last = obs[..., 4:].copy()
    after, reward, *_ = problem.step(actions)  # the episode is over: nothing happens
    assert not reward.any() and (after[..., 4:] == last).all()
    assert (problem.reset()[..., 4:] == last).all(), "the step that ended an episode is seen when the next one begins"
    assert not TransitionProblem(mdps, 2).reset(0)[..., 4:].any()

"""Bernoulli bandits: the exact optimum, the known agents, the contract."""

import numpy as np
import pytest

from metapcg.tasks.bandit import AGENTS, BernoulliBandits, bayes_optimum, play, sample_bandits


@pytest.mark.parametrize(
    ("pulls", "arms", "optimum"),
    [(10, 5, 6.659988), (10, 10, 6.713951), (10, 50, 6.713951), (10, 2, 6.021786), (50, 2, 31.996712)],
)
def test_bayes_optimum(pulls, arms, optimum):
    assert bayes_optimum(pulls, arms) == pytest.approx(optimum, abs=1e-6)


def test_bayes_optimum_of_cases_worked_by_hand():
    assert bayes_optimum(7, 1) == pytest.approx(3.5)  # nothing to choose
    # Two pulls: after a win (chance 1/2) stay, 2/3; after a loss change, 1/2. With one arm the loss leaves 1/3.
    assert bayes_optimum(2, 2) == pytest.approx(0.5 * (1 + 2 / 3) + 0.5 * 0.5)


def test_bayes_optimum_refuses_what_would_not_fit_into_memory():
    with pytest.raises(ValueError, match="^max_states: 100 pulls of 5 arms"):
        bayes_optimum(100, 5, max_states=10_000)
    for pulls, arms, named in ((0, 2, "pulls"), (2, 0, "num_arms"), (2.5, 2, "pulls")):
        with pytest.raises(ValueError, match=f"^{named}: "):
            bayes_optimum(pulls, arms)


@pytest.mark.parametrize(
    ("agent", "pulls", "known", "tolerance"),
    [
        # From 20 000 trials each (half-width .03 at 10 pulls, .2 at 100); the tolerance is theirs and ours together.
        ("random", 10, 4.98, 0.07),
        ("greedy", 10, 6.62, 0.07),
        ("thompson", 10, 5.83, 0.07),
        ("random", 100, 49.93, 0.8),
        ("greedy", 100, 75.8, 0.8),
        ("thompson", 100, 75.0, 0.8),
        ("ucb1", 10, 6.7, 0.2),  # the paper's, of 1000 trials: ± .14
        ("ucb1", 100, 78.0, 1.5),
    ],
)
def test_agents_earn_what_is_known(agent, pulls, known, tolerance):
    trials = 8000 if pulls == 10 else 2000
    returns = play(AGENTS[agent], sample_bandits(trials, 5, 0), pulls, 1)
    assert 1.96 * returns.std() / np.sqrt(trials) < tolerance
    assert returns.mean() == pytest.approx(known, abs=tolerance)


def test_no_agent_beats_the_optimum():
    optimum = bayes_optimum(10, 5)
    for agent in AGENTS.values():
        returns = play(agent, sample_bandits(8000, 5, 2), 10, 3)
        assert returns.mean() < optimum + 3 * returns.std() / np.sqrt(returns.size)


def test_reward_rates_are_the_arms_own():
    problem = BernoulliBandits([[0.0, 1.0, 0.3], [0.9, 0.5, 0.1]], 20_000)
    for arm, rates in enumerate(([0.0, 0.9], [1.0, 0.5], [0.3, 0.1])):
        problem.reset(arm)
        reward = problem.step(np.full((2, 20_000), arm))[1]
        assert set(np.unique(reward)) <= {0.0, 1.0}
        assert reward.mean(axis=1) == pytest.approx(rates, abs=0.015)


def test_last_pull_terminates_and_later_ones_pay_nothing():
    problem = BernoulliBandits(np.ones((2, 3)), 4, horizon=2)
    assert problem.reset(0).shape == (2, 4, 1)
    arms = np.zeros((2, 4), dtype=int)
    _, reward, terminated, truncated = problem.step(arms)
    assert reward.all() and not terminated.any() and problem.active.all()
    _, reward, terminated, truncated = problem.step(arms)
    assert reward.all() and terminated.all() and not truncated.any()
    assert not problem.step(arms)[1].any()
    problem.reset()
    assert problem.step(arms)[1].all()


def test_same_seed_same_rewards_and_no_seed_goes_on():
    problem = BernoulliBandits(np.full((3, 2), 0.5), 50)
    arms = np.zeros((3, 50), dtype=int)

    def first(seed):
        problem.reset(seed)
        return problem.step(arms)[1]

    one, again, other = first(1), first(1), first(None)
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert np.array_equal(sample_bandits(4, 3, 7), sample_bandits(4, 3, 7))
    assert not np.array_equal(sample_bandits(4, 3, 7), sample_bandits(4, 3, 8))


def test_bad_settings_and_actions_are_refused():
    for probabilities in ([[0.5, 1.5]], [[np.nan]], [0.5], np.zeros((0, 2))):
        with pytest.raises(ValueError, match="^probabilities: "):
            BernoulliBandits(probabilities)
    for settings in ({"num_envs": 0}, {"horizon": 0}, {"horizon": True}):
        with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
            BernoulliBandits([[0.5]], **settings)
    problem = BernoulliBandits([[0.5, 0.5]])
    with pytest.raises(RuntimeError, match="reset"):
        problem.step([[0]])
    with pytest.raises(ValueError, match="^seed: "):
        problem.reset()
    problem.reset(0)
    for actions, message in (([[2]], "0 … 1"), ([[-1]], "0 … 1"), ([0], "shape"), ([[0.5]], "integers")):
        with pytest.raises(ValueError, match=f"^actions: .*{message}"):
            problem.step(actions)

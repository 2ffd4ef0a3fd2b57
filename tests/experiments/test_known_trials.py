"""RL² on problems with known answers: budgets, baselines and what a result holds."""

from __future__ import annotations

import numpy as np
import pytest

from metapcg.experiments.known_trials import (
    BANDITS,
    MDP_INPUTS,
    MDPS,
    PUBLISHED_BANDITS,
    PUBLISHED_MDPS,
    bandit_baselines,
    half_width,
    mdp_baselines,
    run_bandits,
    run_mdps,
)
from metapcg.experiments.profiles import PROFILES


def test_every_profile_has_budgets_for_published_problems():
    assert set(BANDITS) == set(MDPS) == set(PROFILES)
    for profile in PROFILES:
        assert BANDITS[profile] and set(BANDITS[profile]) <= set(PUBLISHED_BANDITS)
        assert set(MDPS[profile]) <= set(PUBLISHED_MDPS)
    assert MDPS["smoke"] and MDPS["full"]  # they take too long for quick


def test_the_trials_end_is_the_tasks_end():
    for budgets in (BANDITS, MDPS):
        assert not any(budget.settings.bootstrap for found in budgets.values() for budget in found.values())


def test_bandit_baselines_earn_what_is_known_of_them():
    totals = bandit_baselines(10, 5, 4000)
    assert {name: len(total) for name, total in totals.items()} == dict.fromkeys(totals, 4000)
    for name, known in (("random", 5.0), ("greedy", 6.62), ("thompson", 5.83)):
        assert abs(totals[name].mean() - known) < 2 * half_width(totals[name]), name


def test_mdp_baselines_earn_what_is_known_of_them():
    totals = mdp_baselines(10, 1000)
    assert abs(totals["random"].mean() - 100.1) < 2 * half_width(totals["random"])
    assert abs(totals["oracle"].mean() - 218.5) < 2 * half_width(totals["oracle"])
    assert (totals["oracle"] > totals["random"]).all()


@pytest.mark.parametrize(("run", "budgets", "key"), [(run_bandits, BANDITS, (10, 5)), (run_mdps, MDPS, (10,))])
def test_result_has_a_reward_for_every_episode_of_every_new_task(run, budgets, key, functions):
    budget = budgets["smoke"][key if len(key) > 1 else key[0]]
    first, again = run(functions, *key, budget, seed=1), run(functions, *key, budget, seed=1)
    assert first.returns.shape == first.reset.shape == (budget.test_tasks, 10)
    assert np.array_equal(first.returns, again.returns) and np.array_equal(first.reset, again.reset)
    assert not np.array_equal(first.returns, first.reset)
    assert len(first.history) == budget.settings.iterations
    assert first.total == pytest.approx(first.returns.sum(1).mean())
    assert first.history[-1]["return_trial"] >= first.history[-1]["return_before"]


def test_half_width_is_that_of_a_mean():
    assert half_width(np.array([0.0, 2.0] * 50)) == pytest.approx(1.96 * 1.005 / 10, rel=1e-3)


def test_what_the_network_sees_can_be_chosen(functions):
    totals = {
        inputs: run_mdps(functions, 10, MDPS["smoke"][10], inputs=inputs).history[0]["loss"] for inputs in MDP_INPUTS
    }
    assert len(set(totals.values())) == len(MDP_INPUTS) == 3
    with pytest.raises(ValueError, match="inputs: need one of table, transitions, plain, got 'all'"):
        run_mdps(functions, 10, MDPS["smoke"][10], inputs="all")

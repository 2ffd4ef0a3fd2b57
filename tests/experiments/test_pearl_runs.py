"""PEARL as a registered algorithm: runs, resumes, is reported by episodes of own experience; and its navigation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from metapcg.experiments.algorithms import Session
from metapcg.experiments.execution import cost
from metapcg.experiments.runs import RunSettings, execute_run, load_run, settings_for
from metapcg.experiments.sparse_navigation import (
    BUDGETS,
    HORIZON,
    MOVES,
    CompassNavigation,
    half_circle_goals,
    run_sparse_navigation,
)
from metapcg.learning.context_policies import TransitionEncoder

FILES = ("history.csv", "adaptation.csv", "left_out.csv", "params.pt", "levels.npz")


@pytest.fixture
def settings(tiny_settings):
    return tiny_settings("pearl", replay_tasks=6, updates=2, eval_steps=2)


def test_run_is_reported_by_own_episodes(functions, settings, tmp_path):
    run = execute_run(settings, functions, tmp_path / "run")
    assert run.label == "PEARL"
    for split in settings.splits:
        result = run.splits[split]
        assert result.returns.shape == (4, 3)
        assert result.episodes.tolist() == [0, 1, 2]  # 0 is the prior
        assert np.isnan(result.inner_lr)
    assert {"return_before", "return_after", "kl", "env_steps"} <= set(run.history[0])
    assert run.levels["interpolation/before"].shape == run.levels["interpolation/start"].shape == (4, 14, 14)
    assert np.array_equal(load_run(tmp_path / "run").splits["train"].returns, run.splits["train"].returns)


def test_killed_run_goes_on_and_ends_with_the_same_bytes(functions, settings, tmp_path):
    whole = execute_run(settings, functions, tmp_path / "whole", checkpoint_every=1)

    class Killed(Exception):
        pass

    def kill(iteration, params, row):
        if iteration == 2:
            raise Killed

    with pytest.raises(Killed):
        execute_run(settings, functions, tmp_path / "killed", checkpoint_every=1, on_iteration=kill)
    assert (tmp_path / "killed" / "state.pt").is_file()
    again = execute_run(settings, functions, tmp_path / "killed", checkpoint_every=1)
    for name in FILES:
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_before_and_after_start_from_the_same_level(functions, settings, tmp_path):
    levels = execute_run(settings, functions, tmp_path / "run").levels
    changed = {
        name: (levels[f"interpolation/{name}"] != levels["interpolation/start"]).reshape(4, -1).sum(1)
        for name in ("before", "after")
    }
    # An episode of six edits cannot change more than six cells of the level it started from.
    assert all((count <= settings.horizon).all() for count in changed.values())


def test_training_tasks_are_pairs_and_evaluation_tasks_are_others(settings):
    session = Session(settings, None)
    tasks = session.replay_tasks()
    assert len(tasks) == 6
    assert np.allclose(tasks.weights[0::2], -tasks.weights[1::2])
    new = session.evaluation_tasks("train")
    distance = np.abs(new.weights[:, None] - tasks.weights[None]).sum(-1)
    assert distance.min() > 1e-6
    few = Session(dataclasses.replace(settings, num_train_tasks=2), None)
    assert np.array_equal(few.replay_tasks().weights, few.settings.task_family().train_tasks().weights)


def test_few_training_tasks_fit_the_loop(functions, settings, tmp_path):
    few = dataclasses.replace(settings, num_train_tasks=2, splits=("train",))
    assert few.off_policy_settings().tasks == few.off_policy_settings().update_tasks == 2
    execute_run(few, functions, tmp_path / "run")


def test_settings_reach_the_loop():
    settings = settings_for(
        "quick", "pearl", kl_weight=0.02, reconstruction_weight=0.5, latent=7, entropy_weight=0.3, gamma=0.7
    )
    loop = settings.off_policy_settings()
    assert (loop.kl_weight, loop.reconstruction_weight, loop.temperature, loop.gamma) == (0.02, 0.5, 0.3, 0.7)
    assert (loop.prior_episodes, loop.posterior_episodes, loop.context_size) == (1, 1, 120)
    agent = settings.context_agent()
    assert agent.latent == 7 and isinstance(agent.encoder, TransitionEncoder)


def test_settings_of_pearl_do_not_change_the_identity_of_other_runs():
    written = settings_for("quick", "maml").to_dict()
    assert not {"kl_weight", "latent", "updates", "replay_tasks", "reconstruction_weight"} & set(written)
    changed = settings_for("quick", "pearl", kl_weight=0.1)
    assert changed.to_dict()["kl_weight"] == 0.1
    assert RunSettings.from_dict(changed.to_dict()) == changed


@pytest.mark.parametrize(
    ("setting", "value"),
    [("kl_weight", -1.0), ("reconstruction_weight", float("nan")), ("trial_episodes", 1), ("updates", 0)],
)
def test_settings_that_cannot_be_used_are_named(setting, value):
    with pytest.raises(ValueError, match=f"^{setting}"):
        settings_for("quick", "pearl", **{setting: value})


def test_cost_counts_what_pearl_does():
    quick = settings_for("quick", "pearl")
    base = cost(quick)
    assert cost(dataclasses.replace(quick, updates=60)) > 1.5 * base
    assert cost(dataclasses.replace(quick, iterations=40)) > 1.5 * base
    assert base > 20 * 100 * 60  # more than the steps it plays


# ---------------------------------------------------------------------------------------------------------- navigation


def test_compass_moves_as_it_says_and_pays_near_the_goal_only():
    problem = CompassNavigation(np.array([[0.5, 0.0]]), 2)
    problem.reset(np.random.SeedSequence(0))
    for step in range(4):
        obs, reward, ended, cut = problem.step(np.array([[1, 5]]))
        assert np.allclose(obs[0, :, 0], [(step + 1) * 0.2, -(step + 1) * 0.2], atol=1e-6)
        near = step >= 2  # at 0.3 the goal is 0.2 away
        assert (reward[0, 0] > 0) == near and reward[0, 1] == 0.0 and not ended.any() and not cut.any()
    assert reward[0, 0] == pytest.approx(0.9)
    with pytest.raises(ValueError, match="actions: need integers in 0 … 8"):
        problem.step(np.array([[9, 0]]))


def test_episodes_end_by_the_clock():
    problem = CompassNavigation(half_circle_goals(3, 0), 1)
    problem.reset(np.random.SeedSequence(0))
    for _ in range(HORIZON):
        _, _, ended, cut = problem.step(np.zeros((3, 1), dtype=np.int64))
    assert cut.all() and not ended.any()


def test_goals_lie_on_the_upper_half_circle():
    goals = half_circle_goals(200, 1)
    assert np.allclose(np.hypot(*goals.T), 0.5) and (goals[:, 1] >= 0).all()
    assert goals[:, 0].min() < -0.4 and goals[:, 0].max() > 0.4
    assert np.array_equal(goals, half_circle_goals(200, 1))
    assert np.allclose(np.hypot(*MOVES[1:].T), 0.1) and (MOVES[0] == 0).all()


def test_sparse_navigation_runs_and_repeats(functions):
    one, again = (run_sparse_navigation(functions, BUDGETS["smoke"], seed=4) for _ in range(2))
    assert one.returns["sampled"].shape == one.returns["mean"].shape == (4, 2, 3)
    for way in one.returns:
        assert np.array_equal(one.returns[way], again.returns[way])
    # The first episode is the same whichever way the later ones choose z.
    assert np.array_equal(one.returns["sampled"][..., 0], one.returns["mean"][..., 0])

"""RL² as a run: trials on every family and representation, the gallery of a trial, and settings that came later."""

from __future__ import annotations

import json

import numpy as np
import pytest

from metapcg.experiments.algorithms import Session
from metapcg.experiments.execution import cost
from metapcg.experiments.runs import RunSettings, execute_run, run_fingerprint


@pytest.mark.parametrize(
    "where",
    [
        {"representation": "wide"},
        {"representation": "turtle"},
        {"game": "sokoban"},
        {"family": "weights"},
        {"family": "target"},
    ],
    ids=lambda where: "-".join(where.values()),
)
def test_trials_can_be_played_everywhere(where, tmp_path, functions, tiny_settings):
    settings = tiny_settings("rl2", iterations=1, eval_steps=2, **where)
    result = execute_run(settings, functions, tmp_path / "run")
    for split in settings.splits:
        assert result.splits[split].returns.shape == (settings.eval_tasks, 3)
        assert result.splits[split].episodes.tolist() == [0, 1, 2]
        assert np.isfinite(result.splits[split].returns).all()


def test_training_batches_hold_every_direction_with_its_opposite(functions, tiny_settings, tmp_path, monkeypatch):
    seen = []
    original = Session.problem

    def problem(self, tasks, episodes):
        seen.append(tasks)
        return original(self, tasks, episodes)

    monkeypatch.setattr(Session, "problem", problem)
    execute_run(tiny_settings("rl2", tasks=3, iterations=1), functions, tmp_path / "run")
    weights = seen[0].weights
    assert len(weights) == 4 and np.allclose(weights.sum(0), 0) and not np.allclose(weights, 0)


def test_gallery_shows_the_first_and_the_last_episode_from_the_same_level(functions, tiny_settings, tmp_path):
    settings = tiny_settings("rl2", iterations=1, horizon=12, eval_steps=2)
    result = execute_run(settings, functions, tmp_path / "run")
    with np.load(result.folder / "levels.npz") as levels:
        start, before, after = (levels[f"train__{name}"] for name in ("start", "before", "after"))
        changes = levels["train__before_stats"] - levels["train__start_stats"]
        returns = levels["train__before_return"]
    for edited in (before, after):
        assert 0 < (edited != start).sum() and (edited != start).reshape(len(start), -1).sum(1).max() <= 12
    assert (before != after).any()
    # The return is what the weights pay for the change of the statistics.
    tasks = Session(settings, functions).evaluation_tasks("train")
    order = np.argsort(tasks.parameters[:, 0], kind="stable")
    weights = tasks[order].weights
    np.testing.assert_allclose(returns, (weights * changes[:, : weights.shape[1]]).sum(1), atol=1e-4)


def test_settings_that_came_later_change_no_earlier_run(functions, tiny_settings):
    usual = tiny_settings("maml")
    written = usual.to_dict()
    for name in ("trial_episodes", "minibatches", "reset_between_episodes"):
        assert name not in written
    assert RunSettings.from_dict(json.loads(json.dumps(written))) == usual
    reset = tiny_settings("rl2", reset_between_episodes=True, trial_episodes=4)
    assert RunSettings.from_dict(reset.to_dict()) == reset
    assert run_fingerprint(reset, functions) != run_fingerprint(tiny_settings("rl2", trial_episodes=4), functions)


def test_longer_trials_cost_more(tiny_settings):
    short, long = (tiny_settings("rl2", trial_episodes=k) for k in (1, 4))
    played = short.iterations * short.tasks * short.episodes * short.horizon
    assert cost(long) - cost(short) == 3 * played


@pytest.mark.parametrize(("name", "value"), [("trial_episodes", 0), ("minibatches", 0), ("trial_episodes", 1.5)])
def test_a_setting_that_cannot_be_used_is_named(name, value, tiny_settings):
    with pytest.raises(ValueError, match=f"{name}: needs an integer of at least 1"):
        tiny_settings("rl2", **{name: value})

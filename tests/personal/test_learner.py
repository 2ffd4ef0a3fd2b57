"""The learner: what one update does, what it must not touch, and its state on disk."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from fights import play, random_weights

from metapcg.personal import weights_file
from metapcg.personal.arena import ACTIONS, BOSS, Fight, legal_actions
from metapcg.personal.learner import Learner, LearnerSettings
from metapcg.personal.modular_mind import ModularMind, from_numpy
from metapcg.personal.rewards import RewardWeights, discounted_returns, step_rewards
from metapcg.personal.situations import SITUATIONS, describe
from metapcg.personal.trajectories import TrajectoryError, parse_trajectory
from metapcg.personal.weights_file import SIZES

SERVING = ("arena", "features", "player_styles", "rewards", "arena_problem", "trajectories", "weights_file",
           "numpy_mind", "situations", "learner")  # fmt: skip


def everything(learner):
    """All that an update may change."""
    return (
        learner.mind.flat.tobytes(), learner.anchor.tobytes(), learner._first_moment.tobytes(),
        learner._second_moment.tobytes(), learner.updates, learner.fights, learner.wins, learner.losses,
    )  # fmt: skip


@pytest.fixture
def learner(weights):
    return Learner(weights)


@pytest.mark.parametrize(
    "settings", [LearnerSettings(pull=0.0), LearnerSettings(entropy_weight=0.2, pull=0.1, lr=1e-3)]
)
def test_updates_are_those_of_torch_adam(weights, settings):
    """Three updates, each on two fights, against autograd and torch.optim.Adam."""
    learner = Learner(weights, settings)
    params = {k: v.requires_grad_() for k, v in from_numpy(weights, torch.float64).items()}
    anchor = {k: v.detach().clone() for k, v in params.items()}
    adam = torch.optim.Adam(list(params.values()), lr=settings.lr, betas=(0.9, 0.999), eps=1e-8)
    for number in range(3):
        fights = [parse_trajectory(play(10 * number + i).log()) for i in range(2)]
        learner.update(fights)
        rewards = [step_rewards(f.hp[:-1], f.hp[1:]) for f in fights]
        returns = torch.tensor(np.concatenate([discounted_returns(r, settings.gamma) for r in rewards]))
        advantages = (returns - returns.mean()) / (returns.std(unbiased=False) + 1e-6)
        obs = {
            "state": torch.tensor(np.concatenate([f.features for f in fights])),
            "legal": torch.tensor(np.concatenate([f.legal for f in fights])).double(),
        }
        dist = ModularMind().distribution(params, obs)
        actions = torch.tensor(np.concatenate([f.actions for f in fights]))
        loss = -(advantages * dist.log_prob(actions) + settings.entropy_weight * dist.entropy()).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            for name, value in params.items():
                value -= settings.pull * (value - anchor[name])
    for name, value in params.items():
        assert np.abs(learner.mind.weights[name] - value.detach().numpy()).max() < 1e-9, name


def test_update_makes_good_decisions_more_likely():
    """One fight in which a special paid and waiting did not: the policy moves towards it, away from waiting."""
    learner = Learner(random_weights(scale=0.1), LearnerSettings(entropy_weight=0.0, gamma=0.0))
    fight = Fight(0)
    for _ in range(4):
        fight.step("approach", "approach")
    fight.step("special", "wait")
    for _ in range(5):
        fight.step("wait", "attack-high" if "attack-high" in fight.legal(1) else "wait")
    parsed = parse_trajectory(fight.log())
    rows = np.arange(len(parsed))
    before = learner.mind.probabilities(parsed.features, parsed.legal)[rows, parsed.actions]
    update = learner.update([parsed])
    after = learner.mind.probabilities(parsed.features, parsed.legal)[rows, parsed.actions]
    assert ACTIONS[parsed.actions[4]] == "special" and parsed.hp[5, 1] < parsed.hp[4, 1]
    assert after[4] > before[4] and after[5] < before[5]
    assert update.policy_change > 0.0 and update.decisions == 10 and update.fights == 1


def test_baseline_and_scale_run_over_the_whole_batch(learner):
    fights = [parse_trajectory(play(seed).log()) for seed in (1, 2)]
    together = learner.advantages(fights)
    assert together.mean() == pytest.approx(0.0, abs=1e-12) and together.std() == pytest.approx(1.0, abs=1e-5)
    assert not np.allclose(together[: len(fights[0])], learner.advantages(fights[:1]))


def test_equal_returns_give_no_gradient_but_no_fault(learner):
    """Nothing happened and the discount is 0: every return is the same, so nothing can be learned."""
    still = Learner(learner.mind.weights, LearnerSettings(gamma=0.0, entropy_weight=0.0))
    fight = Fight(0)
    for _ in range(4):
        fight.step("wait", "wait")
    assert still.update([fight.log()]).gradient_norm < 1e-8
    assert np.isfinite(still.mind.flat).all()


def test_pull_bounds_the_distance(weights):
    """No weight gets farther away than the bound in the module's docstring, whatever the fights."""
    settings = LearnerSettings(lr=0.05, pull=0.2)
    learner, fight = Learner(weights, settings), parse_trajectory(play(1).log())
    largest_step = (1 - 0.9) / np.sqrt(1 - 0.999)
    bound = largest_step * settings.lr * (1 - settings.pull) / settings.pull
    free = Learner(weights, dataclasses.replace(settings, pull=0.0))
    for _ in range(60):
        learner.update([fight])
        free.update([fight])
        assert np.abs(learner.mind.flat - learner.anchor).max() < bound
    assert learner.distance() < 0.5 * free.distance()


def test_full_pull_stays_at_the_anchor(weights):
    learner = Learner(weights, LearnerSettings(pull=1.0))
    learner.update([play(1).log()])
    assert learner.distance() < 1e-12


def test_anchor_is_frozen(learner):
    before = learner.anchor.copy()
    learner.update([play(1).log()])
    assert np.array_equal(learner.anchor, before) and learner.distance() > 0.0
    with pytest.raises(ValueError, match="read-only"):
        learner.anchor[0] = 1.0


def test_learner_does_not_share_the_weights_it_was_given(weights):
    kept = {name: value.copy() for name, value in weights.items()}
    one, two = Learner(weights), Learner(weights)
    one.update([play(1).log()])
    assert all(np.array_equal(weights[name], kept[name]) for name in kept)
    assert two.distance() == 0.0


def test_reset_forgets_everything(learner, weights):
    fresh = everything(learner)
    learner.update([play(1).log()])
    learner.reset()
    assert everything(learner) == fresh


@pytest.mark.parametrize("bad", [b"no json", "{}", {"steps": []}])
def test_one_bad_log_among_good_ones_changes_nothing(learner, bad):
    learner.update([play(1).log()])
    before = everything(learner)
    with pytest.raises(TrajectoryError):
        learner.update([play(2).log(), bad, play(3).log()])
    assert everything(learner) == before


def test_no_fights_is_refused(learner):
    with pytest.raises(ValueError, match="at least one fight"):
        learner.update([])


def test_update_that_is_not_finite_is_refused(learner):
    fight = parse_trajectory(play(1).log())
    fight.features[0, 0] = np.nan
    before = everything(learner)
    with pytest.raises(FloatingPointError, match="the learner is unchanged"):
        learner.update([fight])
    assert everything(learner) == before


@pytest.mark.parametrize("moment", [1, 2])
def test_moments_that_are_not_finite_are_refused(weights, moment):
    class Functions:
        @staticmethod
        def batch_advantages(returns):
            return returns - returns.mean()

        @staticmethod
        def anchored_step(weights, gradient, first, second, *_):
            results = [weights, first, second]
            results[moment] = results[moment] + np.inf
            return tuple(results)

    learner = Learner(weights, functions=Functions())
    learner.mind.functions = None
    before = everything(learner)
    with pytest.raises(FloatingPointError, match="the learner is unchanged"):
        learner.update([parse_trajectory(play(3).log())])
    assert everything(learner) == before


def spoil(array):
    """Overwrite an array that was handed out, where it can be overwritten."""
    array.flags.writeable = True
    array[:] = np.nan


@pytest.mark.parametrize("spoiled", ["gradient", "first", "second", "anchor"])
@pytest.mark.parametrize("refused", [True, False])
def test_a_student_s_step_cannot_reach_into_the_learner(weights, spoiled, refused):
    """In-place code of a student changes copies: a refused step changes nothing, another one what it returns."""
    kept = []

    class Functions:
        @staticmethod
        def batch_advantages(returns):
            return returns - returns.mean()

        @staticmethod
        def anchored_step(weights, gradient, first, second, count, anchor, lr, pull):
            handed = {"gradient": gradient, "first": first, "second": second, "anchor": anchor}
            kept[:] = [weights * np.nan if refused else weights + 1.0, first + 1.0, second + 1.0]
            spoil(handed[spoiled])
            return tuple(kept)

    learner = Learner(weights, functions=Functions())
    # The mind's gradient is the library's own: this is about the step.
    learner.mind.functions = None
    before, fight = everything(learner), parse_trajectory(play(3).log())
    if refused:
        with pytest.raises(FloatingPointError):
            learner.update([fight])
        assert everything(learner) == before
        return
    update = learner.update([fight])
    assert np.isfinite(update.gradient_norm)
    after = everything(learner)
    assert np.array_equal(learner._first_moment, np.ones_like(learner.anchor)) and after[1] == before[1]
    for array in kept:  # what was returned is the student's, too
        spoil(array)
    assert everything(learner) == after


def test_report_is_plain_json(learner):
    won = play(4, "aggressive", "kiting")
    update = learner.update([json.dumps(won.log())])
    assert json.loads(json.dumps(dataclasses.asdict(update))) == dataclasses.asdict(update)
    assert (won.state.hp > 0.0).tolist() == [True, False] and update.wins == 1
    rewards = parse_trajectory(won.log())
    assert update.mean_return == pytest.approx(step_rewards(rewards.hp[:-1], rewards.hp[1:]).sum())


def test_wins_and_losses_are_counted(learner):
    fights = [parse_trajectory(play(seed, "random", "aggressive").log()) for seed in range(4)]
    fights += [parse_trajectory(play(seed, "aggressive", "kiting").log()) for seed in range(4)]
    learner.update(fights)
    ends = [(fight.boss_died, fight.player_died) for fight in fights]
    assert learner.wins == ends.count((False, True)) > 0 and learner.losses == ends.count((True, False)) > 0
    assert learner.fights == 8 and learner.updates == 1


def test_situations_describe_a_policy(learner):
    table = describe(learner.mind)
    assert tuple(table) == SITUATIONS and all(tuple(row) == ACTIONS for row in table.values())
    assert all(sum(row.values()) == pytest.approx(1.0) for row in table.values())
    assert len({tuple(row.values()) for row in table.values()}) == len(SITUATIONS), "situations must differ"
    assert json.loads(json.dumps(table)) == table
    learner.update([play(1).log()])
    assert describe(learner.mind) != table


def test_act_draws_legal_actions_from_the_policy(learner):
    fight, generator = Fight(0), np.random.default_rng(0)
    fight.step("special", "wait")
    drawn = [learner.act(fight.state, generator) for _ in range(2000)]
    expected = learner.probabilities(fight.state)
    counts = np.array([drawn.count(name) for name in ACTIONS]) / 2000
    assert np.abs(counts - expected).max() < 0.04 and counts[ACTIONS.index("special")] == 0.0
    assert (expected[~legal_actions(fight.state, BOSS)] == 0.0).all()
    learner.update([play(1).log()])
    assert np.array_equal(learner.anchor_probabilities(fight.state), expected)
    assert not np.array_equal(learner.probabilities(fight.state), expected)


def test_loaded_learner_goes_on_as_the_saved_one(tmp_path, weights):
    settings = LearnerSettings(lr=2e-3, gamma=0.9, pull=0.05, rewards=RewardWeights(kill=3.0))
    learner = Learner(weights, settings)
    learner.update([play(1).log()])
    learner.save(tmp_path / "player.npz")
    loaded = Learner.load(tmp_path / "player.npz")
    assert everything(loaded) == everything(learner) and loaded.settings == settings
    for seed in (2, 3):
        assert loaded.update([play(seed).log()]) == learner.update([play(seed).log()])
    assert everything(loaded) == everything(learner)


def test_crash_while_saving_keeps_the_last_state(tmp_path, learner, monkeypatch):
    path = tmp_path / "player.npz"
    learner.save(path)
    saved = everything(learner)
    learner.update([play(1).log()])

    def crash(source, target):
        raise OSError("power cut")

    monkeypatch.setattr(weights_file.os, "replace", crash)
    with pytest.raises(OSError, match="power cut"):
        learner.save(path)
    monkeypatch.undo()
    assert everything(Learner.load(path)) == saved
    assert os.listdir(tmp_path) == ["player.npz"], "a part was left behind"


def test_damaged_states_are_refused_in_one_line(tmp_path, learner):
    path = tmp_path / "player.npz"
    learner.save(path)
    good = path.read_bytes()
    arrays = dict(np.load(path))

    def about(**changes):
        text = json.dumps({**json.loads(arrays["about"].tobytes()), **changes})
        return {"about": np.frombuffer(text.encode(), np.uint8)}

    damages = {
        "cut": good[: len(good) // 2],
        "text": b"hello",
        "no anchor": {k: v for k, v in arrays.items() if k != "anchor"},
        "short": {**arrays, "weights": arrays["weights"][:-1]},
        "NaN": {**arrays, "weights": np.full_like(arrays["weights"], np.nan)},
        "moment": {**arrays, "first_moment": np.zeros(3)},
        "negative moment": {**arrays, "second_moment": -np.ones_like(arrays["weights"])},
        "format": {**arrays, **about(format="something else")},
        "setting": {**arrays, **about(settings={"lr": 5.0, "rewards": {}})},
        "unknown setting": {**arrays, **about(settings={"speed": 1, "rewards": {}})},
        "not JSON": {**arrays, "about": np.frombuffer(b"{", np.uint8)},
        "sizes": {**arrays, **about(sizes={**dataclasses.asdict(SIZES), "units": 17})},
    }
    for what, damage in damages.items():
        if isinstance(damage, bytes):
            path.write_bytes(damage)
        else:
            np.savez(path, **damage)
        with pytest.raises(ValueError, match="not a learner's state") as caught:
            Learner.load(path)
        assert "\n" not in str(caught.value), what
    with pytest.raises(ValueError, match="absent.npz"):
        Learner.load(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    ("name", "value"), [("lr", -1.0), ("gamma", 1.5), ("pull", float("nan")), ("entropy_weight", "a")]
)
def test_senseless_settings_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name}: needs a number"):
        LearnerSettings(**{name: value})


def test_serving_imports_neither_torch_nor_numba():
    imports = "; ".join(f"import metapcg.personal.{name}" for name in SERVING)
    probe = (
        f"import sys; {imports}; print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numba', 'gymnasium')])"
    )
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"

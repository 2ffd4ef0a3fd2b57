"""The loops that train: they improve what they should, repeat exactly, and stop when numbers break."""

import dataclasses

import numpy as np
import pytest
import torch

from metapcg.learning.baselines import policy_returns, random_returns, train_multi_task
from metapcg.learning.device import choose_device, configure
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.meta_training import AdvantageSettings, Diverged, MetaSettings, adaptation_returns, meta_train
from metapcg.learning.outer_steps import conjugate_gradient, trust_region_step
from metapcg.learning.policies import CropPolicy, GaussianPolicy
from metapcg.learning.rollouts import Streams, state_features
from metapcg.tasks.families import direction
from metapcg.tasks.navigation import Navigation, sample_goals

ADVANTAGES = AdvantageSettings(gamma=0.95, bootstrap=False, features=state_features)
SETTINGS = MetaSettings(
    iterations=12, tasks=8, episodes=8, inner_lr=0.5, outer="clipped", outer_epochs=4, outer_lr=3e-3,
    advantages=ADVANTAGES,
)  # fmt: skip
POLICY = GaussianPolicy(2, 2, hidden=(16,))


def navigation(seed):
    return Navigation(sample_goals(8, seed), 8, horizon=15, action_scale=0.1)


@pytest.mark.parametrize("outer", ["adam", "clipped", "trust-region"])
def test_meta_training_improves_the_return_after_adaptation(maml, surrogates, outer):
    settings = dataclasses.replace(SETTINGS, outer=outer)
    before = adaptation_returns(maml, POLICY, POLICY.init(Streams(5).parameters), navigation(99), settings,
                                surrogates["lvc"], 1, seed=7)[0]  # fmt: skip
    result = meta_train(maml, POLICY, navigation, settings, surrogates["lvc"], seed=5)
    after, adapted = adaptation_returns(
        maml, POLICY, result.params, navigation(99), settings, surrogates["lvc"], 1, seed=7
    )
    assert after.shape == (8, 2) and adapted["layer0.weight"].shape == (8, 2, 16)
    assert after[:, 1].mean() > before[:, 1].mean() + 0.5
    assert len(result.history) == settings.iterations
    # One episode is 15 steps at most; every iteration plays one rollout before adaptation and one after it.
    assert result.history[-1]["env_steps"] <= settings.iterations * 2 * 8 * 8 * 15


def test_same_seed_same_parameters(maml, surrogates):
    short = dataclasses.replace(SETTINGS, iterations=2)
    one, again, other = (
        meta_train(maml, POLICY, navigation, short, surrogates["lvc"], seed=s).params for s in (1, 1, 2)
    )
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert not torch.equal(one["layer0.weight"], other["layer0.weight"])


def test_divergence_is_reported_with_the_last_good_parameters(maml, surrogates):
    wild = dataclasses.replace(SETTINGS, outer="adam", inner_lr=float("nan"))
    with pytest.raises(Diverged, match="iteration 0") as caught:
        meta_train(maml, POLICY, navigation, wild, surrogates["lvc"], seed=0)
    assert all(torch.isfinite(v).all() for v in caught.value.params.values())


@pytest.mark.parametrize("setting", [{"outer": "sgd"}, {"iterations": 0}, {"tasks": 0}, {"inner_steps": -1}])
def test_bad_settings_are_named(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        MetaSettings(**setting)


def test_a_policy_told_its_task_beats_one_that_is_not():
    family = direction(size=(8, 8), horizon=20)

    def make(tell):
        return lambda seed: LevelProblem(family.sample("train", 20, seed, antithetic=True), 4, crop=3, tell_task=tell)

    returns = {}
    for tell in (False, True):
        policy = CropPolicy("binary", "narrow", crop=3, hidden=(32,), task_features=2 * tell)
        params = train_multi_task(policy, make(tell), 25, 0, AdvantageSettings(), lr=1e-2).params
        returns[tell] = policy_returns(policy, params, make(tell)(123), seed=4).mean()
    chance = random_returns(policy, make(True)(123), seed=4).mean()
    assert returns[True] > 1.5
    assert abs(returns[False]) < 0.8, "told nothing, it earns nothing over a symmetric set of tasks"
    assert abs(chance) < 0.8


def test_conjugate_gradient_solves_a_system():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    matrix, right = root @ root.T + torch.eye(6), torch.randn(6, generator=generator, dtype=torch.float64)
    got = conjugate_gradient(lambda v: matrix @ v, right, 20)
    torch.testing.assert_close(matrix @ got, right)


def test_trust_region_step_lowers_the_loss_and_stays_inside():
    start = {"x": torch.tensor([2.0, -1.0])}
    scale = torch.tensor([1.0, 50.0])
    kl = lambda p: 0.5 * (scale * (p["x"] - start["x"]) ** 2).sum()  # noqa: E731
    new, info = trust_region_step(start, lambda p: (p["x"] ** 2).sum(), kl, max_kl=0.01)
    assert info["accepted"] == 1.0 and info["loss_after"] < info["loss_before"]
    assert float(kl(new)) <= 0.01
    step = new["x"] - start["x"]
    # The natural gradient: the gradient (4, -2) divided by the curvature of the KL.
    assert step[0] < 0 < step[1]
    np.testing.assert_allclose(float(step[0] / step[1]), (-4.0 / 1.0) / (2.0 / 50.0), rtol=1e-3)


def test_a_step_that_helps_nowhere_is_refused():
    start = {"x": torch.tensor([0.0, 0.0])}
    kl = lambda p: 0.5 * (p["x"] ** 2).sum()  # noqa: E731
    bump = lambda p: p["x"].sum() + 1e6 * (p["x"] ** 2).sum()  # noqa: E731 - any step of a sensible size is uphill
    new, info = trust_region_step(start, bump, kl, max_kl=0.01, backtracks=3)
    assert info["accepted"] == 0.0
    assert torch.equal(new["x"], start["x"])


def test_device_errors_say_what_to_do(monkeypatch):
    with pytest.raises(ValueError, match="choose one of auto, cpu, cuda"):
        choose_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="--device cpu"):
        choose_device("cuda")
    monkeypatch.setenv("HW11_THREADS", "two")
    with pytest.raises(ValueError, match="HW11_THREADS"):
        configure()

"""The meta-gradient, proven: enumeration without sampling noise, finite differences, batched against loop."""

import numpy as np
import pytest
import torch

from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.losses import ratio_loss
from metapcg.learning.meta_training import AdvantageSettings, Recorder
from metapcg.learning.policies import CropPolicy, expand
from metapcg.learning.rollouts import Streams, select_task
from metapcg.tasks.enumeration import (
    all_trajectories,
    expected_return,
    hessian_terms,
    log_probs,
    random_logits,
    random_mdp,
    reward_to_go,
    state_values,
    trajectory_probabilities,
)
from metapcg.tasks.families import direction

SEEDS = range(5)


def draw(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    return mdp, random_logits(rng, mdp)


def expected_surrogate(surrogate, theta, mdp, advantages):
    trajectories = all_trajectories(mdp)
    weights = trajectory_probabilities(theta, mdp, trajectories).detach()
    return (weights * surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))).sum()


def gradient_and_hessian(objective, theta):
    (gradient,) = torch.autograd.grad(objective, theta, create_graph=True)
    if not gradient.requires_grad:
        return gradient.reshape(-1), torch.zeros(theta.numel(), theta.numel(), dtype=theta.dtype)
    rows = [torch.autograd.grad(g, theta, retain_graph=True)[0].reshape(-1) for g in gradient.reshape(-1)]
    return gradient.reshape(-1).detach(), torch.stack(rows)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["naive", "lvc", "dice"])
def test_surrogates_have_the_true_gradient_and_their_own_hessian(surrogates, name, seed):
    mdp, theta = draw(seed)
    advantages = reward_to_go(all_trajectories(mdp).rewards)
    h1, h2, h12 = hessian_terms(theta, mdp)
    hessian = {"naive": h2, "lvc": h1 + h2, "dice": h1 + h2 + h12 + h12.T}[name]
    got = gradient_and_hessian(expected_surrogate(surrogates[name], theta, mdp, advantages), theta)
    truth = gradient_and_hessian(expected_return(theta, mdp), theta)
    torch.testing.assert_close(got[0], truth[0], rtol=0, atol=4e-11)
    torch.testing.assert_close(got[1], hessian, rtol=0, atol=3e-8)
    if name == "dice":
        torch.testing.assert_close(got[1], truth[1], rtol=0, atol=3e-8)
    else:
        assert (got[1] - truth[1]).abs().max() > 1e-3, "only DiCE has the true Hessian"


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_exact_baseline_naive_second_order_is_first_order(surrogates, seed):
    mdp, theta = draw(seed)
    trajectories = all_trajectories(mdp)
    values = state_values(theta, mdp)
    baseline = torch.stack([values[t][trajectories.states[:, t]] for t in range(mdp.horizon)], dim=-1)
    advantages = reward_to_go(trajectories.rewards) - baseline
    _, naive = gradient_and_hessian(expected_surrogate(surrogates["naive"], theta, mdp, advantages), theta)
    _, lvc = gradient_and_hessian(expected_surrogate(surrogates["lvc"], theta, mdp, advantages), theta)
    h1, h2, _ = hessian_terms(theta, mdp)
    assert naive.abs().max() < 1e-12
    torch.testing.assert_close(lvc, h1 + h2)  # as without a baseline


@pytest.mark.parametrize("seed", SEEDS)
def test_meta_gradient_through_dice_equals_a_finite_difference(maml, surrogates, seed):
    mdp, theta = draw(seed)

    def objective(point):
        (gradient,) = torch.autograd.grad(expected_return(point, mdp), point, create_graph=True)
        return float(expected_return(point + 0.5 * gradient, mdp).detach())

    value = maml.expected_meta_objective(theta, mdp, surrogates["dice"], 0.5, False)
    (got,) = torch.autograd.grad(value, theta)
    step = 1e-5
    for index in np.ndindex(*theta.shape):
        high, low = theta.detach().clone(), theta.detach().clone()
        high[index] += step
        low[index] -= step
        slope = (objective(high.requires_grad_()) - objective(low.requires_grad_())) / (2 * step)
        assert abs(float(got[index]) - slope) < 2e-8


def test_errors_of_the_meta_gradient_match_the_known_table(maml, surrogates):
    """Medians over random processes (raw reward-to-go): FOMAML .087, naive .147, LVC .017, DiCE 0 at α = 0.5."""
    errors = {name: [] for name in ("fomaml", "naive", "lvc", "dice")}
    for seed in range(40):
        mdp, theta = draw(seed)
        (gradient,) = torch.autograd.grad(expected_return(theta, mdp), theta, create_graph=True)
        (truth,) = torch.autograd.grad(expected_return(theta + 0.5 * gradient, mdp), theta)
        for name in errors:
            surrogate = surrogates["naive" if name == "fomaml" else name]
            value = maml.expected_meta_objective(theta, mdp, surrogate, 0.5, name == "fomaml")
            (got,) = torch.autograd.grad(value, theta)
            errors[name].append(float((got - truth).norm() / truth.norm()))
    median = {name: np.median(values) for name, values in errors.items()}
    assert median["dice"] < 1e-12
    assert 0.005 < median["lvc"] < 0.04
    assert 0.04 < median["fomaml"] < 0.18
    assert 0.06 < median["naive"] < 0.25
    assert median["lvc"] < 0.5 * median["fomaml"] < median["naive"]


@pytest.fixture(scope="module")
def recorded(maml):
    """A small float64 policy, four batches of episodes of three tasks, and a loss whose derivatives are all its own."""
    tasks, steps = 3, 4
    policy = CropPolicy("binary", "narrow", crop=3, hidden=(6,))
    streams = Streams(1)
    theta = {k: v.double().requires_grad_() for k, v in policy.init(streams.parameters).items()}
    family = direction("binary", "narrow", size=(6, 5), horizon=8)
    recorder = Recorder(LevelProblem(family.sample("train", tasks, 0), 2, crop=3), policy, streams, AdvantageSettings())
    for _ in range(steps):
        recorder(expand(theta, tasks))
    for batch in recorder.batches:
        for key in ("advantages", "mask", "log_probs"):
            batch[key] = batch[key].double()
    # Importance ratios against fixed probabilities: unlike LVC's ratio, whose denominator moves along, their value
    # follows the parameters, so a finite difference sees every derivative that autograd sees.
    return policy, theta, recorder, ratio_loss(policy), tasks


def meta_gradient(value, theta):
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, list(theta.values()))])


def replay_task(recorder, task):
    batches = iter([select_task(batch, task) for batch in recorder.batches])
    return lambda params: next(batches)


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_batched_meta_gradient_equals_the_loop(maml, recorded, steps, first_order):
    policy, theta, recorder, loss, tasks = recorded
    batched = maml.meta_loss(theta, tasks, recorder.replay(), loss, loss, 0.7, steps, first_order)
    collects = [replay_task(recorder, m) for m in range(tasks)]
    loop = maml.meta_loss_loop(theta, collects, loss, loss, 0.7, steps, first_order)
    assert abs(float((batched - loop).detach())) < 1e-12
    assert (meta_gradient(batched, theta) - meta_gradient(loop, theta)).abs().max() < 1e-10


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_meta_gradient_equals_a_finite_difference(maml, recorded, steps):
    policy, theta, recorder, loss, tasks = recorded

    def value(point):
        return maml.meta_loss(point, tasks, recorder.replay(), loss, loss, 0.7, steps, False)

    gradient = meta_gradient(value(theta), theta)
    draw_direction = torch.Generator().manual_seed(steps)
    for _ in range(3):
        direction_ = {k: torch.randn(v.shape, generator=draw_direction, dtype=v.dtype) for k, v in theta.items()}
        step = 1e-5
        ends = [
            float(value({k: (v.detach() + sign * step * direction_[k]).requires_grad_() for k, v in theta.items()}))
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        along = float(gradient @ torch.cat([d.reshape(-1) for d in direction_.values()]))
        assert abs(along - slope) < 1e-7 * max(1.0, abs(slope))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_first_order_equals_second_order_only_without_a_step(maml, recorded, steps):
    policy, theta, recorder, loss, tasks = recorded

    def gradient(inner_lr, first_order):
        value = maml.meta_loss(theta, tasks, recorder.replay(), loss, loss, inner_lr, steps, first_order)
        return meta_gradient(value, theta)

    assert torch.equal(gradient(0.0, True), gradient(0.0, False))
    assert (gradient(0.7, True) - gradient(0.7, False)).abs().max() > 1e-6

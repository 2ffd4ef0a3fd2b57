"""The enumerated MDP: a truth that other tests lean on, so it is checked against finite differences and by hand."""

import numpy as np
import pytest
import torch

from metapcg.tasks.enumeration import (
    MDP,
    all_trajectories,
    dynamics_probabilities,
    expected_return,
    hessian_terms,
    log_probs,
    random_logits,
    random_mdp,
    reward_to_go,
    state_values,
    trajectory_probabilities,
)

SEEDS = range(5)


def draw(seed, **size):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, **size)
    return mdp, random_logits(rng, mdp)


@pytest.mark.parametrize("seed", SEEDS)
def test_sixteen_distinct_trajectories_with_probabilities_that_sum_to_one(seed):
    mdp, theta = draw(seed)
    trajectories = all_trajectories(mdp)
    assert trajectories.states.shape == trajectories.actions.shape == trajectories.rewards.shape == (16, 2)
    assert (
        len({(*s, *a) for s, a in zip(trajectories.states.tolist(), trajectories.actions.tolist(), strict=True)}) == 16
    )
    assert trajectory_probabilities(theta, mdp, trajectories).sum().item() == pytest.approx(1.0, abs=1e-12)


def test_probability_of_one_trajectory_worked_by_hand():
    mdp = MDP(
        rewards=np.array([[1.0, 2.0], [3.0, 4.0]]),
        transitions=np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.3, 0.7]]]),
        start=np.array([0.6, 0.4]),
    )
    theta = torch.tensor([[0.0, np.log(3.0)], [0.0, 0.0]], dtype=torch.float64)  # π(1|0) = 3/4, π(1|1) = 1/2
    trajectories = all_trajectories(mdp)
    wanted = (trajectories.states == torch.tensor([0, 1])) & (trajectories.actions == torch.tensor([1, 0]))
    (index,) = torch.nonzero(wanted.all(-1)).flatten().tolist()
    probability = trajectory_probabilities(theta, mdp, trajectories)[index].item()
    assert probability == pytest.approx(0.6 * 0.75 * 0.8 * 0.5)
    assert trajectories.rewards[index].tolist() == [2.0, 3.0]
    assert reward_to_go(trajectories.rewards)[index].tolist() == [5.0, 3.0]
    assert dynamics_probabilities(mdp, trajectories)[index].item() == pytest.approx(0.6 * 0.8)
    assert log_probs(theta, trajectories)[index].exp().tolist() == pytest.approx([0.75, 0.5])


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_and_hessian_agree_with_finite_differences(seed):
    mdp, theta = draw(seed)
    gradient = torch.autograd.functional.jacobian(lambda x: expected_return(x, mdp), theta).flatten()
    hessian = torch.autograd.functional.hessian(lambda x: expected_return(x, mdp), theta).reshape(4, 4)

    def at(offset):
        return expected_return(theta.detach() + offset.reshape(2, 2), mdp).item()

    units, h = torch.eye(4, dtype=torch.float64), 1e-4
    numeric_gradient = [(at(h * u) - at(-h * u)) / (2 * h) for u in units]
    numeric_hessian = [
        [(at(h * (u + v)) - at(h * (u - v)) - at(h * (v - u)) + at(-h * (u + v))) / (4 * h * h) for v in units]
        for u in units
    ]
    assert np.abs(gradient.numpy() - numeric_gradient).max() < 1e-7
    assert np.abs(hessian.numpy() - numeric_hessian).max() < 1e-6


@pytest.mark.parametrize("size", [{}, {"num_states": 3, "num_actions": 2, "horizon": 3}])
@pytest.mark.parametrize("seed", SEEDS)
def test_hessian_terms_add_up_to_the_hessian(seed, size):
    mdp, theta = draw(seed, **size)
    parameters = theta.numel()
    hessian = torch.autograd.functional.hessian(lambda x: expected_return(x, mdp), theta)
    h1, h2, h12 = hessian_terms(theta, mdp)
    assert torch.allclose(hessian.reshape(parameters, parameters), h1 + h2 + h12 + h12.T, atol=1e-12)
    for term in (h1, h2, h12):  # a term that is always zero would be no test of anything
        assert term.abs().max() > 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_value_baseline_removes_h2_and_keeps_the_hessian(seed):
    mdp, theta = draw(seed)
    trajectories = all_trajectories(mdp)
    values = state_values(theta, mdp)
    baseline = torch.stack([values[t, trajectories.states[:, t]] for t in range(mdp.horizon)], dim=-1)
    h1, h2, h12 = hessian_terms(theta, mdp, reward_to_go(trajectories.rewards) - baseline)
    raw = hessian_terms(theta, mdp)
    assert h2.abs().max() < 1e-12
    # E[s sᵀ b] = -E[∇² log π b], so H1 changes and H1 + H2, which is what LVC yields, does not.
    assert torch.allclose(h1 + h2, raw[0] + raw[1], atol=1e-12)
    assert torch.allclose(h12, raw[2], atol=1e-12)


def test_state_values_start_at_the_expected_return():
    mdp, theta = draw(3)
    assert float(torch.from_numpy(mdp.start) @ state_values(theta, mdp)[0]) == pytest.approx(
        expected_return(theta, mdp).item(), abs=1e-12
    )


def test_same_generator_state_gives_the_same_mdp():
    first, second, other = (random_mdp(np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert np.array_equal(first.rewards, second.rewards) and np.array_equal(first.transitions, second.transitions)
    assert not np.array_equal(first.rewards, other.rewards)


def test_bad_settings_are_refused_by_name():
    mdp, theta = draw(0)
    with pytest.raises(ValueError, match="theta must be float64"):
        log_probs(theta.detach().float(), all_trajectories(mdp))
    with pytest.raises(ValueError, match="horizon"):
        MDP(mdp.rewards, mdp.transitions, mdp.start, horizon=0)
    with pytest.raises(ValueError, match="transitions must be probabilities"):
        MDP(mdp.rewards, mdp.transitions * 2, mdp.start)
    with pytest.raises(ValueError, match="start must have shape"):
        MDP(mdp.rewards, mdp.transitions, mdp.start[:1])

"""Returns, generalized advantages and the linear value function, against plain loops."""

import pytest
import torch

from metapcg.learning.advantages import LinearValue, discounted_returns, generalized_advantages, normalize


def make_episodes(generator, shape=(2, 3, 6)):
    """Random episodes of different lengths; garbage stands behind the mask, some terminate and some are cut."""
    lengths = torch.tensor([[6, 4, 1], [2, 6, 5]])
    steps = torch.arange(shape[-1])
    mask = (steps < lengths[..., None]).double()
    last = (steps == lengths[..., None] - 1).double()
    ends = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])[..., None] * last
    rewards, values, next_values = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3))
    return rewards, values, next_values, ends, mask, lengths


def slow_advantages(rewards, values, next_values, terminated, lengths, gamma, lam):
    out = torch.zeros_like(rewards)
    for index in torch.cartesian_prod(torch.arange(2), torch.arange(3)):
        m, e = (int(i) for i in index)
        for t in range(int(lengths[m, e])):
            for u in range(t, int(lengths[m, e])):
                follow = 0.0 if terminated[m, e, u] else next_values[m, e, u]
                delta = rewards[m, e, u] + gamma * follow - values[m, e, u]
                out[m, e, t] += (gamma * lam) ** (u - t) * delta
    return out


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.7), (1.0, 1.0), (0.5, 0.0)])
def test_advantages_equal_the_double_sum(generator, gamma, lam):
    rewards, values, next_values, ends, mask, lengths = make_episodes(generator)
    got = generalized_advantages(rewards, values, next_values, ends, mask, gamma, lam)
    torch.testing.assert_close(got, slow_advantages(rewards, values, next_values, ends, lengths, gamma, lam))


def test_returns_are_bootstrapped_at_truncation_only(generator):
    rewards, _, next_values, ends, mask, lengths = make_episodes(generator)
    got = discounted_returns(rewards, ends, mask, 0.9, next_values)
    for m in range(2):
        for e in range(3):
            n = int(lengths[m, e])
            following = 0.0 if ends[m, e, n - 1] else next_values[m, e, n - 1]
            for t in reversed(range(n)):
                following = rewards[m, e, t] + 0.9 * following
                assert torch.isclose(got[m, e, t], following)
            assert not got[m, e, n:].any(), "nothing may stand behind the mask"


def test_a_cut_endless_task_has_no_advantage():
    ones = torch.ones(1, 1, 20, dtype=torch.float64)
    ten = 10 * ones
    got = generalized_advantages(ones, ten, ten, torch.zeros_like(ones), ones, 0.9, 0.95)
    assert got.abs().max() < 1e-12


def test_normalized_advantages_ignore_what_lies_behind_the_mask(generator):
    _, values, _, _, mask, _ = make_episodes(generator)
    got = normalize(torch.where(mask > 0, values, 1e6), mask)
    count = mask.sum((-1, -2))
    assert not (got * (1 - mask)).any()
    torch.testing.assert_close(got.sum((-1, -2)) / count, torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close((got**2).sum((-1, -2)) / count, torch.ones(2, dtype=torch.float64), rtol=1e-5, atol=0)


def test_linear_value_finds_the_value_of_an_endless_task():
    """Reward 1 for ever: V = 1 / (1 - γ) although no episode is ever seen to its end."""
    shape = (1, 4, 50)
    batch = {"rewards": torch.ones(shape), "terminated": torch.zeros(shape), "mask": torch.ones(shape)}
    features = torch.ones(*shape, 1)
    values, next_values = LinearValue(rounds=60).fit(features, torch.ones(1, 4, 1), batch, gamma=0.9, bootstrap=True)
    torch.testing.assert_close(values, torch.full(shape, 10.0), rtol=0.02, atol=0)
    torch.testing.assert_close(next_values, torch.full(shape, 10.0), rtol=0.02, atol=0)


def test_without_bootstrap_the_end_is_final():
    shape = (1, 4, 5)
    batch = {"rewards": torch.ones(shape), "terminated": torch.zeros(shape), "mask": torch.ones(shape)}
    time = torch.eye(5).expand(1, 4, 5, 5)
    values, next_values = LinearValue(ridge=1e-9).fit(time, torch.zeros(1, 4, 5), batch, gamma=1.0, bootstrap=False)
    torch.testing.assert_close(values[0, 0], torch.tensor([5.0, 4, 3, 2, 1]), rtol=1e-3, atol=0)
    assert not next_values[..., -1].any()

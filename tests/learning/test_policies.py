"""The crop policy: one set of weights for all games and representations, for one task or many at once."""

import pytest
import torch

from metapcg.games import GAMES
from metapcg.games.tiles import OUTSIDE
from metapcg.learning.distributions import Categorical, DiagonalGaussian
from metapcg.learning.policies import NUM_ACTIONS, WRITE, CropPolicy, GaussianPolicy, Picker, expand

NUM_LEGAL = {
    "narrow": lambda tiles: tiles + 1,
    "turtle": lambda tiles: tiles + 4,
    "wide": lambda tiles: tiles * 12,
}


def crops_of(padded, crop=5):
    return padded.unfold(-2, crop, 1).unfold(-2, crop, 1)


def random_padded(game, generator, lead=(2, 3), height=3, width=4):
    codes = torch.tensor([int(c) for c in GAMES[game].codes], dtype=torch.uint8)
    padded = torch.full((*lead, height + 4, width + 4), OUTSIDE, dtype=torch.uint8)
    drawn = torch.randint(len(codes), (*lead, height, width), generator=generator)
    padded[..., 2:-2, 2:-2] = codes[drawn]
    return padded


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("representation", NUM_LEGAL)
def test_parameters_fit_every_game_and_representation(game, representation, generator):
    policy = CropPolicy(game, representation)
    assert policy.parameter_shapes == CropPolicy("binary", "narrow").parameter_shapes
    padded = random_padded(game, generator)
    obs = {"padded": padded} if representation == "wide" else {"crop": crops_of(padded)[:, :, 0, 0]}
    logits = policy.distribution(policy.init(generator), obs).logits
    assert logits.shape == (2, 3, NUM_LEGAL[representation](len(GAMES[game].tiles)))
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("game", GAMES)
def test_wide_evaluates_the_weights_of_narrow_at_every_cell(game, generator):
    narrow, wide = CropPolicy(game, "narrow"), CropPolicy(game, "wide")
    params = narrow.init(generator)
    padded = random_padded(game, generator)
    everywhere = wide.distribution(params, {"padded": padded}).logits.reshape(2, 3, 3, 4, -1)
    for y in range(3):
        for x in range(4):
            here = narrow.distribution(params, {"crop": crops_of(padded)[:, :, y, x]}).logits
            # narrow's first action does nothing; the others write a tile, as wide's do.
            torch.testing.assert_close(everywhere[:, :, y, x], here[..., 1:])


@pytest.mark.parametrize("representation", NUM_LEGAL)
def test_batched_parameters_equal_a_loop_over_tasks(representation, generator):
    policy = CropPolicy("zelda", representation, hidden=(16, 16))
    tasks = [policy.init(generator) for _ in range(2)]
    stacked = {k: torch.stack([t[k] for t in tasks]) for k in tasks[0]}
    padded = random_padded("zelda", generator)
    key = "padded" if representation == "wide" else "crop"
    obs = padded if representation == "wide" else crops_of(padded)[:, :, 1, 1]
    together = policy.distribution(stacked, {key: obs}).logits
    for m, params in enumerate(tasks):
        torch.testing.assert_close(together[m], policy.distribution(params, {key: obs[m]}).logits)


def test_expanded_parameters_collect_every_task_s_gradient(generator):
    policy = CropPolicy("binary", "narrow", hidden=(8,))
    params = {k: v.double().requires_grad_() for k, v in policy.init(generator).items()}
    obs = {"crop": crops_of(random_padded("binary", generator))[:, :, 0, 0]}
    shared = policy.distribution(params, obs).logits.pow(2).sum()
    own = policy.distribution(expand(params, 2), obs).logits.pow(2).sum()
    for a, b in zip(*(torch.autograd.grad(v, list(params.values())) for v in (shared, own)), strict=True):
        torch.testing.assert_close(a, b)


def test_the_first_policy_is_nearly_uniform(generator):
    policy = CropPolicy("zelda", "turtle")
    obs = {"crop": crops_of(random_padded("zelda", generator))[:, :, 0, 0]}
    dist = policy.distribution(policy.init(generator), obs)
    assert dist.entropy().min() > 0.95 * torch.log(torch.tensor(float(dist.logits.shape[-1])))


def test_a_told_task_changes_the_policy(generator):
    policy = CropPolicy("binary", "narrow", task_features=2)
    params = policy.init(generator)
    crop = crops_of(random_padded("binary", generator))[:, :, 0, 0]
    one, other = (
        policy.distribution(params, {"crop": crop, "task": torch.full((2, 3, 2), value)}).logits for value in (0.0, 1.0)
    )
    assert (one - other).abs().max() > 1e-3


def test_vocabulary_has_a_write_for_every_tile():
    assert NUM_ACTIONS == WRITE + OUTSIDE


def test_categorical_agrees_with_torch(generator):
    logits, other = torch.randn(5, 4, generator=generator), torch.randn(5, 4, generator=generator)
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    actions = ours.sample(generator)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    right = torch.distributions.kl_divergence(theirs, torch.distributions.Categorical(logits=other))
    torch.testing.assert_close(ours.kl(Categorical(other)), right)


def test_gaussian_agrees_with_torch(generator):
    mean, other = torch.randn(5, 3, generator=generator), torch.randn(5, 3, generator=generator)
    log_std = torch.tensor([-0.5, 0.1, 0.3])
    normal = lambda m, s: torch.distributions.Independent(torch.distributions.Normal(m, s.exp()), 1)  # noqa: E731
    ours, theirs = DiagonalGaussian(mean, log_std), normal(mean, log_std.expand_as(mean))
    actions = ours.sample(generator)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    right = torch.distributions.kl_divergence(theirs, normal(other, (log_std * 0).expand_as(mean)))
    torch.testing.assert_close(ours.kl(DiagonalGaussian(other, log_std * 0)), right)


def test_gaussian_policy_batched_equals_loop(generator):
    policy = GaussianPolicy(2, 2, hidden=(8, 8))
    tasks = [policy.init(generator) for _ in range(3)]
    stacked = {k: torch.stack([t[k] for t in tasks]) for k in tasks[0]}
    state = torch.randn(3, 4, 5, 2, generator=generator)
    actions = torch.randn(3, 4, 5, 2, generator=generator)
    together = policy.distribution(stacked, {"state": state}).log_prob(actions)
    for m, params in enumerate(tasks):
        torch.testing.assert_close(together[m], policy.distribution(params, {"state": state[m]}).log_prob(actions[m]))


def test_picked_rows_follow_a_weight_that_is_exchanged_or_written_to():
    weight = torch.arange(12.0).reshape(4, 3)
    pick = Picker(torch.tensor([3, 0]), -2)
    first = pick(weight)
    assert torch.equal(first, weight[[3, 0]]) and pick(weight) is first
    weight += 1.0
    assert torch.equal(pick(weight), weight[[3, 0]])
    other = weight.clone()
    assert torch.equal(pick(other), other[[3, 0]])


def test_picked_rows_of_a_weight_with_a_graph_carry_the_gradient_every_time():
    weight = torch.ones(4, 3, requires_grad=True)
    pick = Picker(torch.tensor([1, 1]), -2)
    with torch.no_grad():
        pick(weight)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(pick(weight).sum(), weight)
        assert gradient.sum(1).tolist() == [0.0, 6.0, 0.0, 0.0]


def test_no_action_is_taken_where_there_is_a_tile_that_the_game_does_not_have(generator):
    policy = CropPolicy("binary", "narrow")
    codes = torch.tensor([0, 1, OUTSIDE], dtype=torch.uint8)
    assert torch.equal(policy.one_hot_crops(codes), torch.eye(3).flatten())
    impossible = torch.full((1, 5, 5), 5, dtype=torch.uint8)
    dist = policy.distribution(policy.init(generator), {"crop": impossible})
    with pytest.raises(FloatingPointError, match="not numbers"):
        dist.mode()
    with pytest.raises(RuntimeError, match="probability"):
        dist.sample(generator)

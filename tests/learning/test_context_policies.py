"""Networks told z and the encoder that infers it: shapes for every representation, what the posterior is made of."""

import numpy as np
import pearl_functions as functions
import pytest
import torch

from metapcg.learning.context_policies import (
    GivenLatent,
    LatentCropNetwork,
    LatentStateNetwork,
    StateEncoder,
    TransitionEncoder,
    join,
    one_hot,
    select,
)
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.off_policy_training import (
    Transitions,
    first_transitions,
    level_agent,
    one_context,
    play,
    posterior,
    transitions_of,
)
from metapcg.learning.rollouts import Streams, collect
from metapcg.tasks.families import direction

ENCODER = StateEncoder(2, 3, 2, hidden=(8,))


def some_context(generator, tasks=3, size=7):
    state = lambda: {"state": torch.randn(tasks, size, 2, generator=generator)}  # noqa: E731
    return Transitions(
        state(), torch.randint(0, 3, (tasks, size), generator=generator), torch.randn(tasks, size, generator=generator),
        state(), torch.zeros(tasks, size), torch.ones(tasks, size), torch.zeros(tasks, size, 0),
    )  # fmt: skip


def sharp(generator):
    """Parameters whose factors are not nearly flat, so that a posterior says something."""
    return {k: 3 * v for k, v in ENCODER.init(generator).items()}


def test_posterior_does_not_depend_on_the_order_of_the_transitions(generator):
    params, context = sharp(generator), some_context(generator)
    order = torch.randperm(7, generator=generator)
    one = posterior(functions, ENCODER, params, context)
    other = posterior(functions, ENCODER, params, context.map(lambda x: x[:, order]))
    assert one[0].abs().max() > 0.1
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b)


def test_posterior_is_the_product_of_its_factors_by_numerical_integration(generator):
    params, context = sharp(generator), some_context(generator)
    inputs = functions.transition_inputs(
        *ENCODER.parts(context.obs, context.actions, context.rewards, context.next_obs)
    )
    means, variances = (x.double() for x in ENCODER.factors(params, inputs))
    grid = torch.linspace(-12, 12, 8001, dtype=torch.float64)
    log_density = -0.5 * grid**2 - 0.5 * (
        (grid[:, None, None, None] - means) ** 2 / variances
    ).sum(2).permute(1, 2, 0)  # fmt: skip
    weight = torch.softmax(log_density, -1)
    mean, variance = posterior(functions, ENCODER, params, context)
    right = (weight * grid).sum(-1)
    torch.testing.assert_close(mean.double(), right, atol=1e-4, rtol=0)
    spread = (weight * (grid - right[..., None]) ** 2).sum(-1)
    torch.testing.assert_close(variance.double(), spread, atol=1e-4, rtol=0)


def test_no_transition_gives_the_prior_and_padding_says_nothing(generator):
    params, context = sharp(generator), some_context(generator)
    mean, variance = posterior(functions, ENCODER, params, first_transitions(context, 0))
    assert torch.equal(mean, torch.zeros(3, 2)) and torch.equal(variance, torch.ones(3, 2))
    three = first_transitions(context, 3)
    wild = three._replace(rewards=torch.where(three.valid > 0, three.rewards, 1e3))
    cut = context.map(lambda x: x[:, :3])
    for other in (wild, cut):
        for a, b in zip(
            posterior(functions, ENCODER, params, three), posterior(functions, ENCODER, params, other), strict=True
        ):
            torch.testing.assert_close(a, b)


def test_every_transition_makes_the_posterior_narrower(generator):
    params, context = sharp(generator), some_context(generator)
    widths = [posterior(functions, ENCODER, params, first_transitions(context, n))[1] for n in range(8)]
    assert all(bool((b < a).all()) for a, b in zip(widths, widths[1:], strict=False))


def test_divergence_is_the_expectation_under_the_posterior(generator):
    mean, variance = torch.tensor([[0.7]]), torch.tensor([[0.3]])
    grid = torch.linspace(-15, 15, 20001, dtype=torch.float64)
    belief = torch.distributions.Normal(0.7, 0.3**0.5).log_prob(grid)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(grid)
    right = torch.trapezoid(belief.exp() * (belief - prior), grid)
    assert float(functions.kl_to_prior(mean, variance)) == pytest.approx(float(right), abs=1e-5)


def test_encoder_sees_what_came_of_the_action(generator):
    params, context = sharp(generator), some_context(generator)
    other = context._replace(next_obs={"state": context.next_obs["state"] + 1.0})
    one, two = (posterior(functions, ENCODER, params, c)[0] for c in (context, other))
    assert (one - two).abs().max() > 1e-3


@pytest.mark.parametrize("representation", ["narrow", "turtle", "wide"])
def test_networks_fit_every_representation(representation, generator):
    agent = level_agent("binary", representation, 3, hidden=(8, 6))
    narrow = level_agent("zelda", "narrow", 3, hidden=(8, 6)).init(torch.Generator().manual_seed(1))
    params = agent.init(torch.Generator().manual_seed(1))
    assert {k: v.shape for k, v in params.items()} == {k: v.shape for k, v in narrow.items()}

    problem = LevelProblem(direction("binary", representation).sample("train", 2, 0), 2)
    latent = torch.randn(2, 2, 3, generator=generator)
    batch = play(problem, agent, params, latent, Streams(0), "cpu", record=True)
    context = one_context(transitions_of(batch))
    network = agent.network
    features = network.features(context.obs)
    z = latent[:, 0, None]
    scores = network.scores(select(params, "actor"), features, z)
    assert scores.shape == (2, 120, problem.engine.num_actions)
    twins = select(params, "critic")
    both = network.scores(twins, features, z)
    for i in (0, 1):
        alone = network.scores({k: v[i] for k, v in twins.items()}, features, z)
        torch.testing.assert_close(both[i], alone)
    assert not torch.allclose(both[0], both[1])

    inputs = functions.transition_inputs(
        *agent.encoder.parts(context.obs, context.actions, context.rewards, context.next_obs)
    )
    assert inputs.shape == (2, 120, agent.encoder.input_size)
    mean, variance = posterior(functions, agent.encoder, select(params, "encoder"), context)
    assert mean.shape == variance.shape == (2, 3) and bool((variance < 1).all())


def test_wide_encoder_reads_the_cells_round_the_edited_one(generator):
    encoder = TransitionEncoder("binary", "wide", 2)
    problem = LevelProblem(direction("binary", "wide").sample("train", 1, 0), 1)
    problem.reset(np.random.SeedSequence(0))
    padded = torch.from_numpy(problem.engine.padded.copy())
    y, x, tile = 3, 9, 1
    problem.step(np.array([[(y * 14 + x) * 2 + tile]]))
    after = torch.from_numpy(problem.engine.padded.copy())
    before, action, _, then = encoder.parts(
        {"padded": padded}, torch.tensor([[(y * 14 + x) * 2 + tile]]), torch.zeros(1, 1), {"padded": after}
    )
    assert action.tolist() == [[[0.0, 1.0]]]
    seen = encoder.policy.seen.tolist()
    for got, level in ((before, padded), (then, after)):
        window = level[0, 0, y : y + 5, x : x + 5].flatten().long()
        right = one_hot(torch.tensor([seen.index(code) for code in window]), len(seen)).flatten()
        assert torch.equal(got[0, 0], right)


def test_latent_reaches_the_actions_and_broadcasts(generator):
    network = LatentStateNetwork(2, 3, 2, hidden=(8,))
    params = {k: 5 * v for k, v in network.init(generator).items()}
    obs = {"state": torch.randn(4, 5, 2, generator=generator)}
    latent = torch.randn(4, 1, 2, generator=generator)
    once = GivenLatent(network, latent).distribution(params, obs).logits
    spread = GivenLatent(network, latent.expand(4, 5, 2)).distribution(params, obs).logits
    torch.testing.assert_close(once, spread)
    assert (once - GivenLatent(network, -latent).distribution(params, obs).logits).abs().max() > 0.01


def test_crop_network_agrees_with_the_policy_told_z(generator):
    network = LatentCropNetwork("binary", "narrow", 2, hidden=(8, 6))
    params = network.init(generator)
    problem = LevelProblem(direction().sample("train", 2, 0), 3)
    latent = torch.randn(2, 3, 2, generator=generator)
    batch = collect(problem, GivenLatent(network, latent), params, Streams(1))
    z = latent[:, :, None].expand(2, 3, 60, 2)
    own = network.distribution(params, {**batch["obs"], "task": z}).log_prob(batch["actions"])
    torch.testing.assert_close(own, batch["log_probs"])


def test_select_undoes_join():
    parts = {"actor": {"a": torch.ones(1)}, "critic": {"a": torch.zeros(2), "b.c": torch.ones(3)}}
    joined = join(parts)
    assert sorted(joined) == ["actor.a", "critic.a", "critic.b.c"]
    assert all(torch.equal(select(joined, p)[n], v) for p, names in parts.items() for n, v in names.items())

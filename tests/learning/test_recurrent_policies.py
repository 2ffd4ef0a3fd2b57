"""Policies with a memory: one set of parameters for all games and representations, units, and what the input codes."""

from __future__ import annotations

import pytest
import torch

from metapcg.envs.representations import REPRESENTATIONS
from metapcg.games import GAMES
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.policies import NUM_ACTIONS
from metapcg.learning.recurrent_policies import (
    RecurrentCropPolicy,
    RecurrentPolicy,
    TabularRecurrentPolicy,
    calibrate,
    trainable,
)
from metapcg.tasks.families import make_family


def level_observation(game, representation):
    tasks = make_family("direction", game, representation, horizon=4).sample("train", 2, 0)
    problem = LevelProblem(tasks, 1)
    return problem, {k: torch.from_numpy(v[:, 0]) for k, v in problem.reset(0).items()}


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_same_parameters_fit_every_game_and_representation(game, representation, generator):
    policy = RecurrentCropPolicy(game, representation, hidden=(8, 6))
    params = RecurrentCropPolicy("binary", "narrow", hidden=(8, 6)).init(generator)
    problem, obs = level_observation(game, representation)
    encoded, hidden = policy.encode(params, obs), torch.randn(2, 6, generator=generator)
    height, width = problem.engine.maps.shape[-2:]
    assert encoded.shape == (2, height * width if representation == "wide" else 1, 8)
    assert policy.features(encoded).shape == (2, 8)
    assert policy.input_size == 8 + NUM_ACTIONS + 2
    assert params["gru.input.weight"].shape == (policy.input_size, 18)
    dist = policy.distribution(params, encoded, hidden)
    assert dist.logits.shape == (2, problem.engine.num_actions)
    assert policy.value(params, encoded, hidden).shape == (2,)
    actions = dist.sample(generator)
    codes = policy.action_codes(actions)
    assert codes.shape == actions.shape and int(codes.max()) < NUM_ACTIONS
    problem.step(actions.numpy()[:, None])


def test_memory_changes_what_is_done_in_the_same_place(generator):
    policy = RecurrentCropPolicy("binary", "narrow", hidden=(8, 6))
    params = policy.init(generator)
    _, obs = level_observation("binary", "narrow")
    encoded = policy.encode(params, obs)
    first, second = (policy.distribution(params, encoded, h * torch.ones(2, 6)).logits for h in (-1.0, 1.0))
    assert (first - second).abs().max() > 1e-3


def test_first_policy_is_nearly_uniform(generator):
    policy = RecurrentCropPolicy("zelda", "turtle")
    _, obs = level_observation("zelda", "turtle")
    params = policy.init(generator)
    hidden = torch.rand(2, policy.memory, generator=generator) * 2 - 1
    probabilities = policy.distribution(params, policy.encode(params, obs), hidden).log_probs.exp()
    assert (probabilities * probabilities.shape[-1] - 1).abs().max() < 0.3


def test_wide_codes_an_action_by_its_tile_wherever_it_is_written():
    policy = RecurrentCropPolicy("binary", "wide")
    codes = policy.action_codes(torch.arange(8))
    assert codes[:2].tolist() == codes[2:4].tolist() == codes[6:].tolist()
    assert codes[0] != codes[1]


def test_values_come_in_the_units_of_the_returns(generator):
    policy = RecurrentPolicy(3, 2, memory=4)
    rewards, returns = torch.tensor([0.0, 10.0]), torch.tensor([100.0, 140.0, 120.0])
    params = calibrate(policy.init(generator), rewards, returns, spread=2.0)
    hidden = torch.zeros(5, 4)
    assert torch.equal(policy.value(params, torch.zeros(5, 1, 3), hidden), torch.full((5,), 120.0))
    params["value.bias"] = torch.tensor([1.0])
    assert torch.allclose(policy.value(params, torch.zeros(5, 1, 3), hidden), torch.tensor(140.0))
    assert torch.isclose(params["scale.reward"] * rewards.std(), torch.tensor(2.0))


def test_rewards_that_are_all_equal_do_not_divide_by_zero(generator):
    params = calibrate(RecurrentPolicy(1, 2).init(generator), torch.zeros(8), torch.zeros(8))
    assert all(torch.isfinite(value).all() for value in params.values())


def test_scales_are_not_trained(generator):
    params = RecurrentPolicy(1, 2).init(generator)
    assert {name for name in params if name not in trainable(params)} == {
        "scale.reward", "scale.value_mean", "scale.value_std",
    }  # fmt: skip


def test_settings_that_cannot_be_used_are_named():
    with pytest.raises(ValueError, match="hidden: needs one or more widths"):
        RecurrentCropPolicy("binary", "narrow", hidden=())
    with pytest.raises(ValueError, match="memory: needs at least 1, got 0"):
        RecurrentPolicy(1, 2, memory=0)
    with pytest.raises(ValueError, match="feature_size: needs at least 1, got 0"):
        RecurrentPolicy(0, 2)


def test_every_state_reads_the_memory_with_its_own_weights_in_a_tabular_policy(generator):
    policy = TabularRecurrentPolicy(3, observation_size=5, num_actions=2, memory=4)
    params = policy.init(generator)
    state = torch.eye(3, 5)
    hidden = torch.ones(3, 4)
    logits = policy.distribution(params, policy.encode(params, {"state": state}), hidden).logits
    own = params["table.weight"].sum(0).reshape(3, 2)
    common = params["logits.weight"].sum(0)
    expected = torch.log_softmax(common + own, -1)
    assert torch.allclose(torch.log_softmax(logits, -1), expected, atol=1e-6)
    assert (expected[0] - expected[1]).abs().max() > 1e-4


def test_tabular_policy_begins_with_gates_that_keep_the_past(generator):
    policy = TabularRecurrentPolicy(3, observation_size=5, num_actions=2, memory=500, span=50.0)
    gates = policy.init(generator)["gru.input.bias"].chunk(3)
    steps = 1.0 / (1.0 - torch.sigmoid(gates[1]))  # time constants
    assert not gates[0].any() and not gates[2].any()
    assert 2.0 <= float(steps.min()) < 5.0 and 45.0 < float(steps.max()) <= 50.0
    with pytest.raises(ValueError, match="span: needs more than two steps"):
        TabularRecurrentPolicy(3, 5, 2, span=2.0)

"""A mixture does for every task what the task's own problem and policy do."""

import numpy as np
import pytest
import torch

from metapcg.learning.context_policies import LatentCropNetwork, TransitionEncoder
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.mixture import (
    IMPOSSIBLE,
    Layout,
    MixedEncoder,
    MixedLatentNetwork,
    MixedPolicy,
    MixedProblem,
    MixedRecurrentPolicy,
    _child,
    sample_mixed,
)
from metapcg.learning.policies import CropPolicy, expand
from metapcg.learning.recurrent_policies import RecurrentCropPolicy
from metapcg.learning.rollouts import Streams, collect
from metapcg.tasks.families import make_family

LAYOUT = Layout.of(["binary", "zelda", "sokoban"], ["narrow", "turtle", "wide"])
FAMILIES = [make_family("direction", c.game, c.representation, horizon=5) for c in LAYOUT.combinations]
TASKS = sample_mixed(FAMILIES, "train", 18, 3)


def own_problem(group):
    where = np.flatnonzero(TASKS.group == group)
    return where, LevelProblem(TASKS.batches[group][TASKS.row[where]], 2)


def observations(seed=0):
    """First observations of the mixture, and those of every combination alone."""
    seed = np.random.SeedSequence(seed)
    mixed = {name: torch.as_tensor(value) for name, value in MixedProblem(LAYOUT, TASKS, 2).reset(seed).items()}
    alone = {}
    for group in range(len(LAYOUT.combinations)):
        where, problem = own_problem(group)
        obs = problem.reset(_child(seed, group))
        alone[group] = where, {name: torch.as_tensor(value) for name, value in obs.items()}
    return mixed, alone


def logits_of(dist, group):
    begin, end = LAYOUT.offsets[group : group + 2]
    return dist[..., begin:end], torch.cat([dist[..., :begin], dist[..., end:]], -1)


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
def test_logits_are_those_of_the_tasks_own_policy_and_no_other_action_is_possible(own):
    policy = MixedPolicy(LAYOUT, (8, 8))
    params = policy.init(torch.Generator().manual_seed(0))
    if own:
        params = {k: v + 0.1 * torch.randn(v.shape, generator=torch.Generator().manual_seed(1))
                  for k, v in expand(params, len(TASKS)).items()}  # fmt: skip
    mixed, alone = observations()
    dist = policy.distribution(params, mixed)
    for group, (where, obs) in alone.items():
        one = LAYOUT.combinations[group]
        mine = {k: v[where] for k, v in params.items()} if own else params
        wanted = CropPolicy(one.game, one.representation, 5, (8, 8)).distribution(mine, obs).logits
        got, others = logits_of(dist.logits[where], group)
        close(got, wanted)
        assert (others == IMPOSSIBLE).all() and got.shape[-1] == one.num_actions
        assert (logits_of(torch.softmax(dist.logits[where], -1), group)[1] == 0).all()
    assert torch.isfinite(dist.entropy()).all()


def test_rewards_and_observations_are_those_of_the_tasks_own_environments():
    seed = np.random.SeedSequence(4)
    mixture = MixedProblem(LAYOUT, TASKS, 2)
    mixture.reset(seed)
    alone = {group: own_problem(group) for group in range(len(LAYOUT.combinations))}
    for group, (_, problem) in alone.items():
        problem.reset(_child(seed, group))
    rng = np.random.default_rng(0)
    paid = 0
    for _ in range(5):
        actions = np.zeros((len(TASKS), 2), np.int64)
        local = {g: rng.integers(LAYOUT.combinations[g].num_actions, size=(len(w), 2)) for g, (w, _) in alone.items()}
        for group, (where, _) in alone.items():
            actions[where] = LAYOUT.offsets[group] + local[group]
        obs, rewards, terminated, truncated = mixture.step(actions)
        for group, (where, problem) in alone.items():
            own, reward, ended, cut = problem.step(local[group])
            one = LAYOUT.combinations[group]
            np.testing.assert_array_equal(rewards[where], reward)
            np.testing.assert_array_equal(terminated[where], ended)
            np.testing.assert_array_equal(truncated[where], cut)
            cells = obs["cells"][where][..., : one.num_cells].reshape(*own[one.key].shape)
            np.testing.assert_array_equal(cells, own[one.key])
            paid += np.count_nonzero(reward)
    assert paid > 20


def test_an_action_of_another_combination_is_refused():
    mixture = MixedProblem(LAYOUT, TASKS, 1)
    mixture.reset(np.random.SeedSequence(0))
    with pytest.raises(ValueError, match="action"):
        mixture.step(np.zeros((len(TASKS), 1), np.int64))  # an action of the first combination, for all tasks


def test_a_policy_plays_only_actions_of_its_own_combination():
    policy = MixedPolicy(LAYOUT, (8, 8))
    params = policy.init(torch.Generator().manual_seed(0))
    batch = collect(MixedProblem(LAYOUT, TASKS, 2), policy, params, Streams(0))
    for task, group in enumerate(TASKS.group):
        begin, end = LAYOUT.offsets[group : group + 2]
        assert ((batch["actions"][task] >= begin) & (batch["actions"][task] < end)).all()


def test_the_recurrent_policy_is_that_of_each_row_however_rows_are_ordered():
    policy = MixedRecurrentPolicy(LAYOUT, (8, 6))
    params = policy.init(torch.Generator().manual_seed(0))
    mixed, alone = observations()
    flat = {k: v.flatten(0, 1) for k, v in mixed.items()}
    order = torch.randperm(len(flat["group"]), generator=torch.Generator().manual_seed(2))
    hidden = torch.randn(len(order), 6, generator=torch.Generator().manual_seed(3))
    encoded = policy.encode(params, {k: v[order] for k, v in flat.items()})
    dist = policy.distribution(params, encoded, hidden[order]).logits[order.argsort()]
    value = policy.value(params, encoded, hidden[order])[order.argsort()]
    for group, (where, obs) in alone.items():
        one = LAYOUT.combinations[group]
        own = RecurrentCropPolicy(one.game, one.representation, 5, (8, 6))
        rows = (2 * torch.as_tensor(where)[:, None] + torch.arange(2)).flatten()
        encoded_alone = own.encode(params, {k: v.flatten(0, 1) for k, v in obs.items()})
        close(logits_of(dist[rows], group)[0], own.distribution(params, encoded_alone, hidden[rows]).logits)
        close(value[rows], own.value(params, encoded_alone, hidden[rows]))
        actions = torch.arange(one.num_actions)
        assert torch.equal(policy.action_codes(actions + int(LAYOUT.offsets[group])), own.action_codes(actions))


def test_the_latent_network_and_the_encoder_are_those_of_each_transition():
    network, encoder = MixedLatentNetwork(LAYOUT, 3, (8, 8)), MixedEncoder(LAYOUT, 3, (8, 8))
    generator = torch.Generator().manual_seed(0)
    twins, params = network.init_twins(generator), encoder.init(generator)
    mixed, alone = observations()
    later, later_alone = observations(seed=9)
    latent = torch.randn((len(TASKS), 2, 3), generator=generator)
    rewards = torch.randn((len(TASKS), 2), generator=generator)
    actions = torch.zeros((len(TASKS), 2), dtype=torch.int64)
    local = {}
    for group, (where, _) in alone.items():
        local[group] = torch.randint(LAYOUT.combinations[group].num_actions, (len(where), 2), generator=generator)
        actions[where] = local[group] + int(LAYOUT.offsets[group])
    scores = network.scores(twins, network.features(mixed), latent)
    factors = encoder.factors(params, torch.cat(_columns(encoder.parts(mixed, actions, rewards, later)), -1))
    for group, (where, obs) in alone.items():
        one = LAYOUT.combinations[group]
        own = LatentCropNetwork(one.game, one.representation, 3, 5, (8, 8))
        close(logits_of(scores[:, where], group)[0], own.scores(twins, own.features(obs), latent[where]))
        own = TransitionEncoder(one.game, one.representation, 3, 5, (8, 8))
        parts = own.parts(obs, local[group], rewards[where], later_alone[group][1])
        for got, wanted in zip(factors, own.factors(params, torch.cat(_columns(parts), -1)), strict=True):
            close(got[where], wanted)


def _columns(parts):
    states, actions, rewards, next_states = parts
    return states, actions, rewards.unsqueeze(-1), next_states


def test_a_small_batch_reaches_every_combination_in_the_long_run():
    groups = [tuple(sample_mixed(FAMILIES, "train", 4, seed).group) for seed in range(30)]
    assert all(len(set(group)) == 4 for group in groups)
    assert set(np.concatenate(groups)) == set(range(9))
    pairs = sample_mixed(FAMILIES, "train", 8, 0, pairs=True)
    for batch in pairs.batches:
        assert batch is None or np.allclose(batch.weights[0::2], -batch.weights[1::2])
    with pytest.raises(ValueError, match="even number for pairs"):
        sample_mixed(FAMILIES, "train", 7, 0, pairs=True)


def test_terms_are_paid_while_an_environment_is_active_and_no_longer():
    one = Layout.of(["binary"], ["wide"])
    family = make_family("weights", "binary", "wide", horizon=5)
    tasks = sample_mixed([family], "train", 2, 0)
    mixture = MixedProblem(one, tasks, 3, terms=(lambda part, active: np.full(active.shape, -1000.0),))
    mixture.reset(np.random.SeedSequence(0))
    engine = mixture.parts[0][2].engine
    rng, seen = np.random.default_rng(0), set()
    for _ in range(8):
        active = engine.active.copy()
        rewards = mixture.step(rng.integers(one.num_actions, size=(2, 3)))[1]
        assert ((rewards < -500) == active).all()
        seen |= set(active.ravel().tolist())
    assert seen == {True, False}

"""PEARL's loop: replay per task, context from recent data, what each loss may reach, adaptation by own experience."""

import dataclasses
import types

import numpy as np
import pearl_functions as functions
import pytest
import torch

from metapcg.learning.context_policies import GivenLatent, LatentStateNetwork, StateEncoder, select
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.meta_training import Diverged
from metapcg.learning.off_policy_training import (
    FUNCTIONS,
    ContextAgent,
    OffPolicySettings,
    Replay,
    Transitions,
    adapt_by_context,
    first_transitions,
    level_agent,
    off_policy_train,
    one_context,
    returns_by_context,
    transitions_of,
)
from metapcg.learning.rollouts import Streams, collect
from metapcg.learning.training_state import TrainingState
from metapcg.tasks.families import direction


class Signs:
    """Action 1 pays the task's hidden sign, action 0 pays minus it; every state looks alike.

    ``tasks`` (M,) are the signs; with ``length`` episodes end by termination after that many of the ``horizon`` steps.
    """

    def __init__(self, tasks, num_envs, horizon=5, length=None):
        self.tasks, self.num_envs, self.num_tasks, self.horizon = np.asarray(tasks), num_envs, len(tasks), horizon
        self.length = length or horizon

    def reset(self, seed):
        self.time = 0
        return np.ones((self.num_tasks, self.num_envs, 1), dtype=np.float32)

    def step(self, actions):
        self.time += 1
        reward = (2 * actions - 1) * self.tasks[:, None]
        ended = np.full(actions.shape, self.time == self.length and self.length < self.horizon)
        cut = np.full(actions.shape, self.time == self.horizon)
        return self.reset_obs(), reward.astype(np.float32), ended, cut

    def reset_obs(self):
        return np.ones((self.num_tasks, self.num_envs, 1), dtype=np.float32)


SIGNS = np.array([1.0, -1.0] * 8)
AGENT = ContextAgent(LatentStateNetwork(1, 2, 2, hidden=(16,)), StateEncoder(1, 2, 2, hidden=(16,)))
SHORT = OffPolicySettings(
    iterations=3, warm_up=1, tasks=8, capacity=4, updates=3, update_tasks=4, batch_size=8, context_size=10,
    gamma=0.5, learning_rate=1e-2,
)  # fmt: skip

LEARN = dataclasses.replace(
    SHORT, iterations=25, tasks=16, capacity=12, updates=12, update_tasks=8, batch_size=32, temperature=0.3
)


def train(settings=SHORT, seed=0, use=functions, make=Signs, agent=AGENT, **more):
    return off_policy_train(use, agent, SIGNS, make, settings, seed, **more)


def patched(**own):
    """The plain functions with some replaced."""
    return types.SimpleNamespace(**{name: own.get(name, getattr(functions, name)) for name in FUNCTIONS})


def same(one, other):
    return all(torch.equal(one[k], other[k]) for k in one)


# -------------------------------------------------------------------------------------------------------------- replay


def numbered(tasks, episodes, steps, first=0.0, lengths=None):
    """Transitions whose reward is 100 · task + 10 · episode + step + ``first``."""
    reward = 100.0 * torch.arange(tasks)[:, None, None] + 10.0 * torch.arange(episodes)[:, None] + torch.arange(steps)
    valid = torch.ones_like(reward) if lengths is None else (torch.arange(steps) < lengths[..., None]).float()
    state = {"state": reward.unsqueeze(-1).clone()}
    return Transitions(
        state, reward.long() * 0, reward + first, state, reward * 0, valid, torch.zeros(*reward.shape, 0)
    )  # fmt: skip


def test_replay_keeps_tasks_apart_and_draws_all_transitions_alike(generator):
    replay = Replay(3, 4, 5)
    replay.add(torch.arange(3), numbered(3, 2, 5, lengths=torch.tensor([[5, 1], [2, 2], [5, 5]])))
    drawn = replay.sample(torch.tensor([2, 0]), 6000, generator)
    assert drawn.rewards.shape == (2, 6000) and bool((drawn.valid == 1).all())
    assert set(drawn.rewards[0].tolist()) == {200.0 + n for n in (0, 1, 2, 3, 4, 10, 11, 12, 13, 14)}
    values, counts = drawn.rewards[1].unique(return_counts=True)
    assert values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 10.0]  # a short episode's only step is as likely as any other
    assert bool(((counts / 6000 - 1 / 6).abs() < 0.02).all())
    assert torch.equal(drawn.obs["state"][..., 0], drawn.rewards)


def test_replay_overwrites_the_oldest_episodes(generator):
    replay = Replay(1, 3, 2)
    for number in range(5):
        replay.add(torch.tensor([0]), numbered(1, 1, 2, first=100.0 * number))
    drawn = replay.sample(torch.tensor([0]), 500, generator)
    assert set(drawn.rewards.flatten().tolist()) == {200.0, 201.0, 300.0, 301.0, 400.0, 401.0}


def test_short_episode_leaves_nothing_of_the_longer_one_it_overwrites(generator):
    replay = Replay(1, 1, 4)
    replay.add(torch.tensor([0]), numbered(1, 1, 4))
    replay.add(torch.tensor([0]), numbered(1, 1, 2, first=500.0))
    assert set(replay.sample(torch.tensor([0]), 200, generator).rewards.flatten().tolist()) == {500.0, 501.0}
    assert replay.recent(torch.tensor([0]), 1, 4, generator).valid.sum() == 2


def test_context_comes_from_the_last_episodes_only_and_repeats_none(generator):
    replay = Replay(2, 4, 3)
    for number in range(6):
        replay.add(torch.arange(2), numbered(2, 1, 3, first=1000.0 * number))
    context = replay.recent(torch.tensor([1, 0]), 2, 6, generator)
    assert bool((context.valid == 1).all())
    for row, task in zip(context.rewards, (1, 0), strict=True):
        assert sorted(row.tolist()) == [1000.0 * n + 100 * task + t for n in (4, 5) for t in range(3)]
    orders = {tuple(replay.recent(torch.tensor([0]), 2, 6, generator).rewards[0].tolist()) for _ in range(5)}
    assert len(orders) > 1


def test_context_of_a_young_task_is_padded(generator):
    replay = Replay(2, 4, 3)
    replay.add(torch.arange(2), numbered(2, 1, 3, lengths=torch.tensor([[2], [3]])))
    context = replay.recent(torch.arange(2), 2, 6, generator)
    assert context.valid.sum(-1).tolist() == [2.0, 3.0]
    assert sorted(context.rewards[0][context.valid[0] > 0].tolist()) == [0.0, 1.0]


def test_replay_goes_on_from_a_saved_state(generator):
    replay, again = Replay(2, 2, 3), Replay(2, 2, 3)
    replay.add(torch.arange(2), numbered(2, 1, 3))
    again.restore(replay.state())
    for one in (replay, again):
        one.add(torch.tensor([1]), numbered(1, 2, 3, first=500.0))
    draws = [r.sample(torch.arange(2), 50, torch.Generator().manual_seed(1)) for r in (replay, again)]
    assert torch.equal(draws[0].rewards, draws[1].rewards)
    assert draws[0].rewards[1].min() >= 500.0  # two new episodes overwrote the old one


@pytest.mark.parametrize("length", [3, None])
def test_next_observation_of_the_last_step_is_the_final_one(length):
    class Counting(Signs):
        def reset(self, seed):
            super().reset(seed)
            return self.reset_obs()

        def reset_obs(self):
            return np.full((self.num_tasks, self.num_envs, 1), self.time, dtype=np.float32)

    problem = Counting(SIGNS[:2], 3, length=length)
    network = LatentStateNetwork(1, 2, 0, hidden=(4,))
    batch = collect(problem, GivenLatent(network, torch.zeros(2, 3, 0)), network.init(torch.Generator()), Streams(0))
    transitions = transitions_of(batch)
    steps = length or 5
    assert transitions.valid.sum(-1).tolist() == [[steps] * 3] * 2
    assert transitions.obs["state"][0, 0, :steps, 0].tolist() == list(range(steps))
    assert transitions.next_obs["state"][0, 0, :steps, 0].tolist() == list(range(1, steps + 1))
    # The clock that cuts an episode is no end of the task.
    assert float(transitions.terminated.sum()) == (6.0 if length else 0.0)


def test_first_transitions_are_counted_in_time_and_without_padding():
    episodes = one_context(numbered(1, 2, 3, lengths=torch.tensor([[2, 3]])))
    kept = first_transitions(episodes, 3)
    assert episodes.rewards[0][kept.valid[0] > 0].tolist() == [0.0, 1.0, 10.0]
    by_row = first_transitions(numbered(2, 1, 4).map(lambda x: x.flatten(0, 1)), torch.tensor([[1], [3]]))
    assert by_row.valid.sum(-1).tolist() == [1.0, 3.0]


# ------------------------------------------------------------------------------------------------------------ training


@pytest.fixture(scope="module")
def trained():
    return train(LEARN, seed=3)


def test_one_episode_of_experience_tells_the_task(trained):
    tasks = np.array([1.0, -1.0] * 20)
    trials = adapt_by_context(functions, AGENT, trained.params, Signs(tasks, 4), 2, seed=11)
    mean = trials.returns.mean((0, 1))
    assert trials.returns.shape == (40, 4, 3)
    assert abs(mean[0]) < 1.2  # nobody can know the sign in the first episode
    assert mean[1] > 4.0 and mean[2] > 4.0  # 5 is the most
    by_size = returns_by_context(
        functions, AGENT, trained.params, Signs(tasks, 4), trials.context, (0, 1, 10), seed=12
    ).mean((0, 1))
    assert abs(by_size[0]) < 1.2 and by_size[1] > 3.0 and by_size[2] > 4.0
    # Decoded linearly, the mean says which of the two tasks it is.
    belief = trials.means[:, :, 1].flatten(0, 1)
    sign = torch.from_numpy(tasks).float().repeat_interleave(4)
    features = torch.cat([belief, torch.ones(len(belief), 1)], 1)
    residual = sign - features @ torch.linalg.lstsq(features, sign[:, None]).solution[:, 0]
    assert 1 - float((residual**2).mean()) > 0.9


def test_history_counts_steps_and_names_both_returns(trained):
    assert len(trained.history) == 25
    assert trained.history[-1]["env_steps"] == 25 * 16 * 2 * 5
    assert trained.history[-1]["return_after"] > trained.history[-1]["return_before"] + 2.0
    assert np.isfinite([row["kl"] for row in trained.history]).all()


def test_same_seed_same_parameters():
    one, again, other = (train(seed=s).params for s in (1, 1, 2))
    assert same(one, again) and not same(one, other)


def test_resumed_training_ends_with_the_same_numbers():
    states = []
    whole = train(dataclasses.replace(SHORT, iterations=4), on_state=states.append, state_every=1)
    for state in states[:3]:
        rest = train(dataclasses.replace(SHORT, iterations=4), resume=TrainingState.from_dict(state.to_dict()))
        assert same(whole.params, rest.params)
        drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
        assert drop(whole.history) == drop(rest.history)


def test_context_is_recent_and_training_data_is_not():
    """Rewards say in which round they were paid: contexts hold one round, training batches hold all that is kept."""
    rounds, seen, trained_on = [0], [], []

    class Dated(Signs):
        def step(self, actions):
            obs, _, ended, cut = super().step(actions)
            return obs, np.full(actions.shape, float(rounds[0]), dtype=np.float32), ended, cut

    def inputs(states, actions, rewards, next_states):
        seen.append((rounds[0], set(rewards.flatten().tolist())))
        return functions.transition_inputs(states, actions, rewards, next_states)

    def target(rewards, *rest):
        trained_on.append((rounds[0], set(rewards.flatten().tolist())))
        return functions.soft_target(rewards, *rest)

    def count(iteration, params, row):
        rounds[0] = iteration + 1

    settings = dataclasses.replace(SHORT, iterations=5, tasks=16, capacity=8, batch_size=64)
    train(settings, use=patched(transition_inputs=inputs, soft_target=target), make=Dated, on_iteration=count)
    assert seen and all(rewards <= {float(now)} for now, rewards in seen)
    assert any(len(rewards) == 4 for _, rewards in trained_on)


def test_posterior_episodes_are_played_with_what_the_prior_episodes_showed():
    """The context handed to the first posterior holds exactly the prior's episodes, of each task its own."""
    contexts = []

    def inputs(states, actions, rewards, next_states):
        contexts.append((actions.argmax(-1), rewards))
        return functions.transition_inputs(states, actions, rewards, next_states)

    train(dataclasses.replace(SHORT, iterations=1, prior_episodes=2), use=patched(transition_inputs=inputs))
    actions, rewards = contexts[0]
    assert rewards.shape == (16, 10)  # two episodes of five steps of each task
    assert torch.equal(rewards, (2.0 * actions - 1) * torch.from_numpy(SIGNS).float()[:, None])


def gradients(use, **settings):
    """Which parts' parameters moved in one training step."""
    start = train(dataclasses.replace(SHORT, iterations=1, updates=1), use=use, **settings).params
    begun = AGENT.init(Streams(0).parameters)
    return {part: not same(select(start, part), select(begun, part)) for part in ("actor", "critic", "encoder")}


def test_actor_does_not_train_the_encoder():
    frozen = {}

    def watch(log_probs, q1, q2, temperature):
        loss = functions.actor_loss(log_probs, q1, q2, temperature)
        frozen["graph"] = _leaves_of(loss)
        return loss

    def judge(mean, variance):
        kl = functions.kl_to_prior(mean, variance)
        frozen["encoder"] = _leaves_of(kl.sum())
        return kl

    train(dataclasses.replace(SHORT, iterations=1, updates=1), use=patched(actor_loss=watch, kl_to_prior=judge))
    assert frozen["encoder"] and frozen["graph"] and not frozen["encoder"] & frozen["graph"]


def _leaves_of(loss):
    """Identities of the leaf tensors that a loss depends on."""
    found, todo, known = set(), [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in known:
            continue
        known.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        todo += [parent for parent, _ in node.next_functions]
    return found


def test_critics_loss_trains_the_encoder():
    free = patched(kl_to_prior=lambda mean, variance: (0 * mean).sum(-1).detach())
    assert gradients(free)["encoder"]


def test_targets_come_from_the_slow_critics():
    """With rate 0 the target critics stay the first ones, whatever the critics learn."""
    seen = []

    def target(rewards, terminated, q1, q2, *rest):
        seen.append(torch.stack([q1, q2]))
        return functions.soft_target(rewards, terminated, q1, q2, *rest)

    settings = dataclasses.replace(SHORT, iterations=2, updates=4, target_rate=0.0)
    told = torch.zeros(16, 2)  # with z fixed, the only thing that could change Q(s') is the parameters
    train(settings, use=patched(soft_target=target), told=told)
    assert all(torch.equal(q[:, 0, 0], seen[0][:, 0, 0]) for q in seen)
    seen.clear()
    train(dataclasses.replace(settings, target_rate=0.5), use=patched(soft_target=target), told=told)
    assert not torch.equal(seen[1][:, 0, 0], seen[0][:, 0, 0])


def test_targets_are_taken_at_the_next_state():
    """States count the steps: what the target critics and the policy see in the target lies one step further."""

    class Counting(Signs):
        def reset(self, seed):
            super().reset(seed)
            return self.reset_obs()

        def reset_obs(self):
            return np.full((self.num_tasks, self.num_envs, 1), self.time, dtype=np.float32)

    seen = {True: set(), False: set()}

    class Watching(LatentStateNetwork):
        def scores(self, params, features, latent):
            if features.shape[:2] == (4, 8):  # a training batch, not a rollout
                seen[torch.is_grad_enabled()] |= set(features.flatten().tolist())
            return super().scores(params, features, latent)

    train(make=Counting, agent=ContextAgent(Watching(1, 2, 2, hidden=(16,)), AGENT.encoder))
    assert seen == {True: {0.0, 1.0, 2.0, 3.0, 4.0}, False: {1.0, 2.0, 3.0, 4.0, 5.0}}


def test_loop_passes_on_discount_temperature_and_ends():
    seen = {}

    def target(rewards, terminated, q1, q2, log_probs, gamma, temperature):
        seen.update(gamma=gamma, temperature=temperature)
        seen["ended"] = seen.get("ended", 0.0) + float(terminated.sum())
        assert torch.allclose(log_probs.exp().sum(-1), torch.ones(()))
        return functions.soft_target(rewards, terminated, q1, q2, log_probs, gamma, temperature)

    def actor(log_probs, q1, q2, temperature):
        seen["actor"] = temperature
        return functions.actor_loss(log_probs, q1, q2, temperature)

    settings = dataclasses.replace(SHORT, gamma=0.37, temperature=0.21)
    use = patched(soft_target=target, actor_loss=actor)
    train(settings, use=use)
    assert (seen["gamma"], seen["temperature"], seen["actor"], seen["ended"]) == (0.37, 0.21, 0.21, 0.0)
    train(settings, use=use, make=lambda tasks, count: Signs(tasks, count, length=2))
    assert seen["ended"] > 0


def test_temperature_keeps_the_policy_random():
    entropy = [
        train(dataclasses.replace(SHORT, iterations=8, updates=20, temperature=alpha)).history[-1]["entropy"]
        for alpha in (0.01, 3.0)
    ]
    assert entropy[0] < 0.5 < 0.6 < entropy[1] <= np.log(2) + 1e-6


def test_heavy_price_makes_the_posterior_collapse():
    settings = dataclasses.replace(LEARN, iterations=12)
    light, heavy = (train(dataclasses.replace(settings, kl_weight=w)).history[-1] for w in (1e-3, 10.0))
    assert heavy["kl"] < 0.02 < 1.0 < light["kl"]
    assert heavy["return_after"] < 2.0 < 2.5 < light["return_after"]


def test_told_agent_neither_infers_nor_trains_the_encoder():
    def forbidden(*_):
        raise AssertionError("an agent that is told its task infers nothing")

    use = patched(transition_inputs=forbidden, gaussian_product=forbidden, kl_to_prior=forbidden)
    told = torch.from_numpy(np.stack([SIGNS, 0 * SIGNS], 1)).float()
    settings = dataclasses.replace(LEARN, iterations=12)
    result = train(settings, use=use, told=told)
    begun = AGENT.init(Streams(0).parameters)
    assert same(select(result.params, "encoder"), select(begun, "encoder"))
    assert result.history[-1]["return_before"] > 4.0


def test_reconstruction_trains_on_changes_of_the_statistics():
    family = direction()
    tasks = family.sample("train", 6, 0)
    agent = level_agent("binary", "narrow", 2, hidden=(8,))
    settings = dataclasses.replace(SHORT, iterations=2, tasks=6, reconstruction_weight=1.0)
    result = off_policy_train(functions, agent, tasks, LevelProblem, settings, 0)
    assert result.params["reward.weight"].shape == (2, 2)
    off = off_policy_train(
        functions, agent, tasks, LevelProblem, dataclasses.replace(settings, reconstruction_weight=0.0), 0
    )
    assert not same(select(result.params, "encoder"), select(off.params, "encoder"))


def test_divergence_is_reported_with_the_last_good_parameters():
    bad = patched(actor_loss=lambda log_probs, *_: log_probs.mean() * float("nan"))
    with pytest.raises(Diverged, match="iteration 0") as caught:
        train(use=bad)
    assert all(torch.isfinite(v).all() for v in caught.value.params.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 17}, "tasks: 17 are asked for, there are 16"),
        ({"update_tasks": 17}, "update_tasks: 17 are asked for"),
        ({"reconstruction_weight": 1.0}, "reconstruction_weight: these tasks do not pay for changes"),
    ],
)
def test_settings_that_do_not_fit_the_tasks_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        train(dataclasses.replace(SHORT, **settings))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("iterations", 0), ("updates", 1.5), ("warm_up", 4), ("capacity", 1), ("kl_weight", -1.0),
        ("temperature", float("nan")), ("gamma", 1.1), ("target_rate", -0.1), ("learning_rate", 0.0),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_named(setting, value):
    with pytest.raises(ValueError, match=f"^{setting}"):
        dataclasses.replace(SHORT, **{setting: value})


def test_told_must_fit():
    with pytest.raises(ValueError, match=r"told: needs shape \(16, 2\)"):
        train(told=torch.zeros(16, 3))


# ---------------------------------------------------------------------------------------------------------------- test


def test_new_tasks_context_is_the_agents_own(trained):
    """Every environment pays rewards of its own: none of them may show up in another one's context."""

    class Own(Signs):
        def step(self, actions):
            obs, reward, ended, cut = super().step(actions)
            return obs, reward * np.arange(1, reward.size + 1).reshape(reward.shape), ended, cut

    problem = Own(SIGNS[:3], 2)
    trials = adapt_by_context(functions, AGENT, trained.params, problem, 3, seed=0)
    assert trials.context.rewards.shape == (3, 2, 15) and bool((trials.context.valid == 1).all())
    sizes = trials.context.rewards.abs()
    assert torch.equal(sizes, torch.arange(1.0, 7.0).reshape(3, 2, 1).expand(3, 2, 15))
    actions = trials.context.actions
    right = (2.0 * actions - 1) * torch.from_numpy(SIGNS[:3]).float()[:, None, None] * sizes
    assert torch.equal(trials.context.rewards, right)
    # What was played is what the context holds, episode by episode.
    played = torch.from_numpy(trials.returns[..., :3]).float()
    assert torch.allclose(trials.context.rewards.reshape(3, 2, 3, 5).sum(-1), played)


def test_posterior_at_test_sees_exactly_the_episodes_so_far(trained):
    seen = []

    def inputs(states, actions, rewards, next_states):
        seen.append(rewards.shape)
        return functions.transition_inputs(states, actions, rewards, next_states)

    trials = adapt_by_context(patched(transition_inputs=inputs), AGENT, trained.params, Signs(SIGNS, 2), 3, seed=0)
    assert seen == [(16, 2, 5), (16, 2, 10), (16, 2, 15)]
    assert torch.equal(trials.means[:, :, 0], torch.zeros(16, 2, 2))
    assert torch.equal(trials.variances[:, :, 0], torch.ones(16, 2, 2))
    assert bool((trials.variances.diff(dim=2) <= 0).all())


def test_first_latent_is_drawn_and_later_ones_are_means(trained):
    noises = []

    def latent(mean, variance, noise):
        noises.append(noise is not None)
        return functions.choose_latent(mean, variance, noise)

    use = patched(choose_latent=latent)
    adapt_by_context(use, AGENT, trained.params, Signs(SIGNS, 2), 2, seed=0)
    assert noises == [True, False, False]
    noises.clear()
    adapt_by_context(use, AGENT, trained.params, Signs(SIGNS, 2), 2, seed=0, sample=True)
    assert noises == [True, True, True]


def test_evaluation_repeats_exactly_and_tells_when_an_episode_ends(trained):
    ended = []
    one = adapt_by_context(
        functions, AGENT, trained.params, Signs(SIGNS, 2), 1, seed=5, on_episode=lambda k: ended.append(k)
    )
    again = adapt_by_context(functions, AGENT, trained.params, Signs(SIGNS, 2), 1, seed=5)
    assert np.array_equal(one.returns, again.returns) and torch.equal(one.means, again.means)
    assert ended == [0, 1]


def test_no_adaptation_gives_an_empty_context(trained):
    trials = adapt_by_context(functions, AGENT, trained.params, Signs(SIGNS, 2), 0, seed=5)
    assert trials.returns.shape == (16, 2, 1) and trials.context.valid.shape == (16, 2, 0)

"""RL²'s loop: what reaches the memory, at which step, and which ends clear it."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from metapcg.learning.meta_training import Diverged
from metapcg.learning.recurrent_policies import RecurrentPolicy
from metapcg.learning.recurrent_training import (
    FUNCTIONS,
    RecurrentSettings,
    add_trial_advantages,
    collect_trials,
    look_again,
    train_recurrent,
    trial_returns,
)
from metapcg.learning.rollouts import Streams
from metapcg.tasks.bandit import BernoulliBandits, bayes_optimum, sample_bandits


class Counting:
    """Two actions; a step pays 10 · episode + its number, and shows its number; some episodes end early.

    Args:
        lengths: (rows, episodes), steps of each row's episodes.
    """

    def __init__(self, lengths):
        self.lengths = np.array(lengths)
        self.num_tasks, self.num_envs, self.horizon = len(lengths), 1, 4
        self.episode = -1

    def reset(self, seed):
        self.episode += 1
        self.clock = 0
        return self._observe()

    def step(self, actions):
        assert actions.shape == (self.num_tasks, 1)
        self.clock += 1
        reward = np.full((self.num_tasks, 1), 10.0 * self.episode + self.clock, dtype=np.float32)
        ended = self.clock >= self.lengths[:, self.episode, None]
        return self._observe(), reward, ended, np.zeros_like(ended)

    def _observe(self):
        return np.full((self.num_tasks, 1, 1), self.clock, dtype=np.float32)


def full(rows=2, episodes=3):
    return Counting(np.full((rows, episodes), 4))


@pytest.fixture
def policy():
    return RecurrentPolicy(1, 2, memory=5)


@pytest.fixture
def params(policy, generator):
    """Larger weights than the initial ones, so that what the memory holds shows in the distribution."""
    params = policy.init(generator)
    return {name: 3 * value if name.endswith("weight") else value for name, value in params.items()}


def replaced(functions, **others):
    return types.SimpleNamespace(**{**{name: getattr(functions, name) for name in FUNCTIONS}, **others})


def test_input_holds_what_the_step_before_did_and_paid_across_the_episodes_end(rl2, policy, params):
    seen = []

    def unroll(cell, params, inputs, hidden, trial_starts):
        seen.append(inputs)
        return rl2.unroll(cell, params, inputs, hidden, trial_starts)

    params = {**params, "scale.reward": torch.tensor(0.5)}
    batch = collect_trials(replaced(rl2, unroll=unroll), policy, params, full(), 3, Streams(0))
    assert len(seen) == 12  # once per step
    assert torch.equal(seen[0][:, 0], torch.zeros(2, 5))  # the first observation is 0, and nothing came before it
    for t in range(1, 12):
        x = seen[t][:, 0]
        assert torch.equal(x[:, 0], torch.full((2,), float(t % 4)))
        assert torch.equal(x[:, 1:3].argmax(-1), batch["actions"][:, t - 1])
        assert torch.equal(x[:, 3], 0.5 * batch["rewards"][:, t - 1])
        assert torch.equal(x[:, 4], torch.full((2,), float(t % 4 == 0)))


def test_hidden_state_survives_the_episodes_of_a_trial(rl2, policy, params):
    batch = collect_trials(rl2, policy, params, full(), 3, Streams(0))
    assert torch.equal(batch["trial_starts"], torch.eye(13)[:1].expand(2, -1))
    changed = {**batch, "rewards": batch["rewards"].clone()}
    changed["rewards"][0, 1] += 5.0  # in the first episode of row 0
    before, after = (look_again(rl2, policy, params, b)[0].logits for b in (batch, changed))
    difference = (before - after).abs().amax(-1)
    assert (difference[0, 2:] > 0).all()  # every later step knows, in the second and third episode too
    assert (difference[0, :2] == 0).all() and (difference[1] == 0).all()


def test_reset_between_episodes_forgets_the_first_episode(rl2, policy, params):
    batch = collect_trials(rl2, policy, params, full(), 3, Streams(0), reset_between_episodes=True)
    assert batch["trial_starts"][0].nonzero()[:, 0].tolist() == [0, 4, 8, 12]
    changed = {**batch, "rewards": batch["rewards"].clone()}
    changed["rewards"][0, 1] += 5.0
    before, after = (look_again(rl2, policy, params, b)[0].logits for b in (batch, changed))
    difference = (before - after).abs().amax(-1)
    assert (difference[0, 2:4] > 0).all() and (difference[0, 4:] == 0).all()


def test_hidden_state_is_cleared_between_trials(rl2, policy, params):
    memories = []

    def unroll(cell, params, inputs, hidden, trial_starts):
        memories.append(hidden.clone())
        return rl2.unroll(cell, params, inputs, hidden, trial_starts)

    functions, streams = replaced(rl2, unroll=unroll), Streams(0)
    for _ in range(2):
        memories.clear()
        collect_trials(functions, policy, params, full(), 2, streams)
        # The first input is all zeros, and the biases are: the memory moves from the second step on.
        assert (memories[0] == 0).all() and all((hidden != 0).any() for hidden in memories[2:])


@pytest.mark.parametrize("reset", (False, True))
def test_policy_unrolled_over_a_trial_is_the_one_that_played(rl2, policy, params, reset):
    problem = Counting([[4, 2, 1], [1, 4, 3], [2, 2, 2]])
    batch = collect_trials(rl2, policy, params, problem, 3, Streams(0), reset_between_episodes=reset)
    dist, values = look_again(rl2, policy, params, batch)
    mask = batch["mask"]
    difference = (dist.log_prob(batch["actions"]) - batch["log_probs"]) * mask
    assert difference.abs().max() < 1e-5
    assert values.shape == (3, 9)


def test_steps_of_trials_that_end_early_are_moved_together(rl2, policy, params):
    batch = collect_trials(rl2, policy, params, Counting([[4, 2, 1], [1, 4, 3], [2, 2, 2]]), 3, Streams(0))
    assert batch["mask"].sum(1).tolist() == [7, 8, 6]
    assert (batch["mask"].diff(dim=1) <= 0).all()  # ones, then zeros
    assert batch["rewards"][0].tolist() == [1, 2, 3, 4, 11, 12, 21, 0]
    assert batch["dones"][0].tolist() == [0, 0, 0, 1, 0, 1, 1, 0]
    # What was observed, with the first state of the episode that would have followed behind the last step.
    assert batch["obs"]["state"][0, :8, 0].tolist() == [0, 1, 2, 3, 0, 1, 0, 0]
    assert batch["obs"]["state"][2, :7, 0].tolist() == [0, 1, 0, 1, 0, 1, 0]
    returns = rl2.returns_by_episode(batch["rewards"], batch["dones"], batch["mask"], 3)
    assert returns.tolist() == [[10, 23, 21], [1, 50, 66], [3, 23, 43]]


@pytest.mark.parametrize("bootstrap", (False, True))
def test_value_behind_the_last_step_counts_only_where_the_trial_was_cut(rl2, policy, params, bootstrap):
    finals = []

    def trial_advantages(rewards, values, final_values, dones, mask, gamma, lam):
        finals.append(final_values)
        return rl2.trial_advantages(rewards, values, final_values, dones, mask, gamma, lam)

    batch = collect_trials(rl2, policy, params, Counting([[4, 2], [1, 4]]), 2, Streams(0))
    values = look_again(rl2, policy, params, batch)[1]
    functions = replaced(rl2, trial_advantages=trial_advantages)
    settings = RecurrentSettings(trial_episodes=2, bootstrap=bootstrap, minibatches=1)
    add_trial_advantages(functions, policy, params, batch, settings)
    expected = torch.stack([values[0, 6], values[1, 5]]) * float(bootstrap)
    torch.testing.assert_close(finals[0], expected.detach())
    assert (values[:, 5:7] != 0).all()


def test_advantages_run_across_the_ends_of_episodes(rl2, policy, params):
    """A reward in the second episode reaches the advantages of the first."""
    batch = collect_trials(rl2, policy, params, full(episodes=2), 2, Streams(0))
    batch["rewards"].zero_()
    # Rewards enter the memory, too; without them the values are the same in both cases.
    params = {**params, "scale.reward": torch.tensor(0.0)}
    batch["log_probs"] = look_again(rl2, policy, params, batch)[0].log_prob(batch["actions"]).detach()
    richer = {**batch, "rewards": batch["rewards"].clone()}
    richer["rewards"][:, -1] = 100.0
    settings = RecurrentSettings(trial_episodes=2, gamma=1.0, lam=1.0)
    plain, paid = (add_trial_advantages(rl2, policy, params, dict(b), settings)["returns"] for b in (batch, richer))
    torch.testing.assert_close(paid - plain, torch.full((2, 8), 100.0))


def test_an_input_that_depends_on_the_future_is_refused(rl2, policy, params):
    def build_inputs(features, actions, rewards, dones, num_actions):
        one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features)
        return torch.cat([features, one_hot, rewards[..., None], dones[..., None]], -1)  # those of the same step

    refused(replaced(rl2, build_inputs=build_inputs), policy, params)


def test_a_memory_that_depends_on_the_future_is_refused(rl2, policy, params):
    def unroll(cell, params, inputs, hidden, trial_starts):
        return rl2.unroll(cell, params, inputs.flip(1), hidden, trial_starts)

    refused(replaced(rl2, unroll=unroll), policy, params)


def refused(functions, policy, params):
    batch = collect_trials(functions, policy, params, full(), 3, Streams(0))
    with pytest.raises(ValueError, match="build_inputs, unroll: .* may depend on earlier steps only"):
        add_trial_advantages(functions, policy, params, batch, RecurrentSettings(trial_episodes=3))


# ------------------------------------------------------------------------------------------------------------ training

TINY = RecurrentSettings(iterations=4, trial_episodes=3, bootstrap=False, gamma=1.0, minibatches=2)


def make_bandits(seed):
    return BernoulliBandits(sample_bandits(12, 2, seed))


def same(first, second):
    assert all(torch.equal(first.params[name], second.params[name]) for name in first.params)
    assert [{**row, "seconds": 0} for row in first.history] == [{**row, "seconds": 0} for row in second.history]


def test_same_seed_same_numbers_and_another_seed_others(rl2, policy):
    first, second, other = (train_recurrent(rl2, policy, make_bandits, TINY, seed) for seed in (3, 3, 4))
    same(first, second)
    assert first.history[0]["loss"] != other.history[0]["loss"]
    assert first.history[-1]["env_steps"] == 5 * 12 * 3  # one batch more than iterations: the scales come from it


@pytest.mark.parametrize("stop", (2, 3))
def test_resumed_training_gives_the_numbers_of_an_undisturbed_one(rl2, policy, stop):
    whole = train_recurrent(rl2, policy, make_bandits, TINY, 0)
    states = []
    train_recurrent(rl2, policy, make_bandits, TINY, 0, on_state=states.append, state_every=1)
    resumed = train_recurrent(rl2, policy, make_bandits, TINY, 0, resume=states[stop - 1])
    assert states[stop - 1].iteration == stop
    same(whole, resumed)


def test_scales_are_set_once_and_not_trained(rl2, policy):
    seen = []
    train_recurrent(
        rl2, policy, make_bandits, TINY, 0, on_iteration=lambda i, params, row: seen.append(dict(params))
    )  # fmt: skip
    assert seen[0]["scale.reward"] != 1.0
    for name in ("scale.reward", "scale.value_mean", "scale.value_std"):
        assert torch.equal(seen[0][name], seen[-1][name])
    assert not seen[0]["scale.reward"].requires_grad


def test_learns_a_small_bandit_and_needs_its_memory_for_it(rl2):
    policy = RecurrentPolicy(1, 2, memory=16)
    settings = RecurrentSettings(
        iterations=25, trial_episodes=8, gamma=1.0, lam=0.3, bootstrap=False, lr=2e-2, entropy_weight=0.0, minibatches=2
    )
    trained = train_recurrent(rl2, policy, lambda s: BernoulliBandits(sample_bandits(200, 2, s)), settings, 0)
    problem = BernoulliBandits(sample_bandits(4000, 2, 99))
    with_memory = trial_returns(rl2, policy, trained.params, problem, 8, 1)
    without = trial_returns(rl2, policy, trained.params, problem, 8, 1, reset_between_episodes=True)
    assert with_memory.shape == (4000, 1, 8)
    best, error = bayes_optimum(8, 2), 3 * 0.04  # three standard errors of the mean of 4000 trials
    total = with_memory.sum(-1).mean()
    assert best - 0.25 < total < best + error, (total, best)
    # What is left without a memory is the last step's input: stay after a win, go after a loss.
    assert without.sum(-1).mean() < total - 0.1
    assert with_memory[..., 7].mean() > with_memory[..., 0].mean() + 0.05
    assert np.isclose(with_memory[..., 0].mean(), 0.5, atol=0.03)  # nothing is known before the first pull


def test_loss_that_is_not_finite_ends_training_with_the_last_good_parameters(rl2, policy):
    calls = []

    def clipped_policy_loss(*args):
        calls.append(None)
        return rl2.clipped_policy_loss(*args) * (float("nan") if len(calls) > 8 else 1.0)

    with pytest.raises(Diverged, match="RL² diverged at iteration 1") as caught:
        train_recurrent(replaced(rl2, clipped_policy_loss=clipped_policy_loss), policy, make_bandits, TINY, 0)
    assert all(torch.isfinite(value).all() for value in caught.value.params.values())


@pytest.mark.parametrize("name", ("iterations", "trial_episodes", "epochs", "minibatches"))
def test_settings_that_cannot_be_used_are_named(name):
    with pytest.raises(ValueError, match=f"{name}: must be at least 1, got 0"):
        RecurrentSettings(**{name: 0})

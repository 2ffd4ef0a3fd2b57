"""Collecting episodes: what is stored, when an episode ends, and where the randomness comes from."""

import numpy as np
import torch

from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.policies import CropPolicy, GaussianPolicy, expand
from metapcg.learning.rollouts import Streams, add_advantages, collect, episode_returns, select_task, state_features
from metapcg.tasks.families import direction
from metapcg.tasks.navigation import Navigation


class Countdown:
    """Environment (m, e) pays 1 per step and ends after m + e + 1 steps: terminated when m is 0, cut when it is 1."""

    num_tasks, num_envs, horizon = 2, 3, 6

    def reset(self, seed):
        self.t = 0
        self.length = np.arange(2)[:, None] + np.arange(3) + 1
        return self.observe()

    def observe(self):
        return np.full((2, 3, 1), self.t, dtype=np.float32)

    def step(self, actions):
        self.t += 1
        over = self.t >= self.length
        is_first = np.array([[True], [False]])
        reward = np.ones((2, 3), dtype=np.float32)  # paid for ever: the rollout has to stop counting
        return self.observe(), reward, over & is_first, over & ~is_first


def play(problem=None, seed=0):
    policy = GaussianPolicy(1, 1, hidden=(4,))
    streams = Streams(seed)
    return collect(problem or Countdown(), policy, policy.init(streams.parameters), streams)


def test_mask_and_rewards_stop_with_the_episode():
    batch = play()
    lengths = torch.tensor([[1.0, 2, 3], [2, 3, 4]])
    assert batch["mask"].shape == (2, 3, 4), "nothing is stored after the last environment has finished"
    torch.testing.assert_close(batch["mask"].sum(-1), lengths)
    torch.testing.assert_close(episode_returns(batch), lengths)


def test_terminated_is_not_truncated():
    batch = play()
    torch.testing.assert_close(batch["terminated"].sum(-1), torch.tensor([[1.0, 1, 1], [0, 0, 0]]))
    assert batch["terminated"][0, 2, 2] == 1, "marked at the step that ended it"


def test_final_observation_is_what_followed_the_last_step():
    torch.testing.assert_close(play()["final_obs"]["state"][..., 0], torch.tensor([[1.0, 2, 3], [2, 3, 4]]))


def test_horizon_ends_every_episode_without_terminating_it():
    problem = Countdown()
    problem.horizon = 2
    batch = play(problem)
    assert batch["mask"].shape[-1] == 2
    assert batch["terminated"].sum() == 2
    torch.testing.assert_close(batch["final_obs"]["state"][1, 2, 0], torch.tensor(2.0))


def test_advantages_bootstrap_where_the_clock_cut_the_episode():
    batch = add_advantages(play(), 0.9, 1.0, state_features, normalized=False)
    last = batch["mask"].sum(-1).long() - 1
    at_end = batch["returns"].gather(-1, last.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(at_end[0], torch.ones(3))  # terminated: the last reward and nothing after it
    assert (at_end[1] > 1.5).all(), "cut: what would have followed is counted"


def level_batch(seed, num_envs=3):
    policy = CropPolicy("binary", "narrow", hidden=(8,))
    streams = Streams(seed)
    problem = LevelProblem(direction(size=(6, 6), horizon=10).sample("train", 4, 0), num_envs)
    return collect(problem, policy, policy.init(streams.parameters), streams), problem, policy


def test_same_seed_same_batch_other_seed_other_batch():
    one, again, other = (level_batch(seed)[0] for seed in (3, 3, 4))
    assert torch.equal(one["actions"], again["actions"]) and torch.equal(one["rewards"], again["rewards"])
    assert torch.equal(one["obs"]["crop"], again["obs"]["crop"])
    assert not torch.equal(one["actions"], other["actions"])


def test_stored_observations_are_copies():
    batch = level_batch(0)[0]
    crops = batch["obs"]["crop"]
    assert crops.dtype == torch.uint8
    assert any(not torch.equal(crops[:, :, 0], crops[:, :, t]) for t in range(1, crops.shape[2]))


def test_log_probs_are_those_of_the_acting_parameters():
    policy = CropPolicy("binary", "narrow", hidden=(8,))
    streams = Streams(0)
    problem = LevelProblem(direction(size=(6, 6), horizon=10).sample("train", 4, 0), 3)
    own = {k: v + 0.3 * torch.randn(v.shape, generator=streams.parameters) for k, v in
           expand(policy.init(streams.parameters), 4).items()}  # fmt: skip
    batch = collect(problem, policy, own, streams)
    again = policy.distribution(own, batch["obs"]).log_prob(batch["actions"])
    torch.testing.assert_close(again, batch["log_probs"])
    for m in range(4):
        part = select_task(batch, m)
        alone = policy.distribution({k: v[m] for k, v in own.items()}, part["obs"]).log_prob(part["actions"])
        torch.testing.assert_close(alone, part["log_probs"])


def test_the_reward_is_the_weighted_change_of_the_statistics():
    batch, problem, _ = level_batch(1)
    engine = problem.engine
    change = (engine.stats - engine.start_stats) @ problem.tasks.weights[:, :, None]
    np.testing.assert_allclose(episode_returns(batch).numpy(), change[..., 0], rtol=1e-5, atol=1e-5)


def test_greedy_takes_the_most_probable_action():
    problem, policy = Navigation(np.zeros((1, 2)), 5, horizon=3), GaussianPolicy(2, 2, hidden=(4,))
    streams = Streams(0)
    params = policy.init(streams.parameters)
    batch = collect(problem, policy, params, streams, greedy=True)
    torch.testing.assert_close(batch["actions"], policy.distribution(params, batch["obs"]).mean)

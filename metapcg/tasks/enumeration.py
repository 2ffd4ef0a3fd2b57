"""A Markov decision process small enough to enumerate: expectations without sampling error.

Two states, two actions, horizon 2 and a tabular softmax policy give sixteen trajectories. Every expectation over
trajectories is then a sum of sixteen terms, so a policy gradient, its Hessian or a meta-gradient through an adaptation
step can be compared with the truth to rounding error. A surrogate objective that yields the right gradient and the
wrong Hessian is found out at once, where a sampled estimate would hide it in noise.

Everything is float64. The parameters ``theta`` are the logits themselves, shape (states, actions).

The Hessian of the expected return splits into H1 + H2 + H12 + H12ᵀ (Rothfuss et al. 2018, "ProMP", section 4); see
:func:`hessian_terms`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "MDP",
    "Trajectories",
    "all_trajectories",
    "dynamics_probabilities",
    "expected_return",
    "hessian_terms",
    "log_probs",
    "random_logits",
    "random_mdp",
    "reward_to_go",
    "state_values",
    "trajectory_probabilities",
]


@dataclass(frozen=True)
class MDP:
    """A finite Markov decision process with a finite horizon, undiscounted.

    Attributes:
        rewards: (S, A) float64, paid for taking action a in state s.
        transitions: (S, A, S) float64, probability of the next state; the last axis sums to 1.
        start: (S,) float64, distribution of the first state.
        horizon: number of actions in an episode.
    """

    rewards: np.ndarray
    transitions: np.ndarray
    start: np.ndarray
    horizon: int = 2

    def __post_init__(self) -> None:
        if self.rewards.ndim != 2:
            raise ValueError(f"rewards must have shape (states, actions), got {self.rewards.shape}")
        states, actions = self.rewards.shape
        if self.transitions.shape != (states, actions, states):
            raise ValueError(f"transitions must have shape {(states, actions, states)}, got {self.transitions.shape}")
        if self.start.shape != (states,):
            raise ValueError(f"start must have shape {(states,)}, got {self.start.shape}")
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {self.horizon}")
        for name, table in (("transitions", self.transitions), ("start", self.start)):
            if np.any(table < 0) or not np.allclose(table.sum(-1), 1.0):
                raise ValueError(f"{name} must be probabilities that sum to 1 over the last axis")

    @property
    def num_states(self) -> int:
        return self.rewards.shape[0]

    @property
    def num_actions(self) -> int:
        return self.rewards.shape[1]


class Trajectories(NamedTuple):
    """All trajectories of an MDP: N = (S·A)^H of them, H steps each.

    Attributes:
        states: (N, H) int64.
        actions: (N, H) int64.
        rewards: (N, H) float64.
    """

    states: Tensor
    actions: Tensor
    rewards: Tensor


def random_mdp(rng: np.random.Generator, num_states: int = 2, num_actions: int = 2, horizon: int = 2) -> MDP:
    """Draw an MDP: standard normal rewards, flat Dirichlet transitions and start distribution.

    Args:
        rng: the only source of randomness; the same generator state gives the same MDP.
        num_states, num_actions, horizon: size. The number of trajectories is (states·actions)^horizon.
    """
    rewards = rng.standard_normal((num_states, num_actions))
    transitions = rng.dirichlet(np.ones(num_states), size=(num_states, num_actions))
    start = rng.dirichlet(np.ones(num_states))
    return MDP(rewards, transitions, start, horizon)


def random_logits(rng: np.random.Generator, mdp: MDP, scale: float = 0.75) -> Tensor:
    """Normal logits of standard deviation ``scale``, (S, A) float64, a leaf that requires a gradient.

    At the default about three quarters of the two-action policies lie between 23 % and 77 %: neither uniform, where
    first order and LVC coincide, nor saturated, where every derivative vanishes.
    """
    return torch.tensor(scale * rng.standard_normal((mdp.num_states, mdp.num_actions)), requires_grad=True)


def all_trajectories(mdp: MDP) -> Trajectories:
    """Enumerate every sequence of states and actions, the impossible ones (probability 0) included."""
    pairs = itertools.product(range(mdp.num_states), range(mdp.num_actions))
    table = np.array(list(itertools.product(pairs, repeat=mdp.horizon)), dtype=np.int64)  # (N, H, 2)
    states, actions = table[..., 0], table[..., 1]
    return Trajectories(
        torch.from_numpy(states.copy()),
        torch.from_numpy(actions.copy()),
        torch.tensor(mdp.rewards[states, actions], dtype=torch.float64),
    )


def log_probs(theta: Tensor, trajectories: Trajectories) -> Tensor:
    """log π(a_t | s_t) of the softmax policy, (N, H), differentiable in ``theta``.

    Args:
        theta: (S, A) float64 logits.
        trajectories: from :func:`all_trajectories`.
    """
    if theta.dtype != torch.float64:
        raise ValueError(f"theta must be float64 (exact answers are compared to 1e-8), got {theta.dtype}")
    return torch.log_softmax(theta, dim=-1)[trajectories.states, trajectories.actions]


def dynamics_probabilities(mdp: MDP, trajectories: Trajectories) -> Tensor:
    """The part of a trajectory's probability that no policy changes: p(s_0) Π p(s_t+1 | s_t, a_t), (N,) float64."""
    states, actions = trajectories.states.numpy(), trajectories.actions.numpy()
    moves = mdp.transitions[states[:, :-1], actions[:, :-1], states[:, 1:]]  # (N, H-1); the last move changes nothing
    return torch.from_numpy(mdp.start[states[:, 0]] * moves.prod(axis=1))


def trajectory_probabilities(theta: Tensor, mdp: MDP, trajectories: Trajectories) -> Tensor:
    """Probability of each trajectory under the policy, (N,), differentiable in ``theta``; sums to 1."""
    return dynamics_probabilities(mdp, trajectories) * log_probs(theta, trajectories).sum(-1).exp()


def expected_return(theta: Tensor, mdp: MDP) -> Tensor:
    """J(θ) = Σ_τ p(τ; θ) R(τ), a scalar; all its derivatives are the true ones."""
    trajectories = all_trajectories(mdp)
    return (trajectory_probabilities(theta, mdp, trajectories) * trajectories.rewards.sum(-1)).sum()


def reward_to_go(rewards: Tensor) -> Tensor:
    """G_t = Σ_{u≥t} r_u, undiscounted, (..., H) -> (..., H)."""
    return rewards.flip(-1).cumsum(-1).flip(-1)


def state_values(theta: Tensor, mdp: MDP) -> Tensor:
    """V_t(s), the exact value of every state at every step, (H, S) float64, without a gradient.

    ``state_values(theta, mdp)[t, s]`` is the expected reward from step t on. The last axis is indexed by
    ``trajectories.states[:, t]``; subtracting it from the reward-to-go is the exact value baseline.
    """
    policy = torch.softmax(theta.detach(), dim=-1)
    rewards, transitions = torch.from_numpy(mdp.rewards), torch.from_numpy(mdp.transitions)
    values = torch.zeros(mdp.horizon, mdp.num_states, dtype=torch.float64)
    following = torch.zeros(mdp.num_states, dtype=torch.float64)
    for t in reversed(range(mdp.horizon)):
        following = (policy * (rewards + transitions @ following)).sum(-1)
        values[t] = following
    return values


def hessian_terms(theta: Tensor, mdp: MDP, advantages: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The three terms of the Hessian of J (Rothfuss et al. 2018, "ProMP", theorem 1), each (S·A, S·A).

    With s_t = ∇ log π(a_t|s_t) and A_t the advantage (or reward-to-go):
    H1 = E Σ_t s_t s_tᵀ A_t;  H2 = E Σ_t ∇² log π(a_t|s_t) A_t;  H12 = E Σ_t (Σ_{u<t} s_u) s_tᵀ A_t.
    The Hessian of J is H1 + H2 + H12 + H12ᵀ. They are worked out from the softmax's own derivatives
    (s = onehot(a) - π, ∇² log π = ππᵀ - diag π), not by differentiating an objective, so they can judge one.

    Args:
        theta: (S, A) float64 logits.
        mdp: the process.
        advantages: (N, H) weights A_t; the reward-to-go if left out.
    """
    trajectories = all_trajectories(mdp)
    theta = theta.detach()
    probabilities = trajectory_probabilities(theta, mdp, trajectories)
    weights = reward_to_go(trajectories.rewards) if advantages is None else advantages.detach()
    policy = torch.softmax(theta, dim=-1)
    size = theta.numel()
    scores = torch.zeros(*trajectories.states.shape, *theta.shape, dtype=torch.float64)  # (N, H, S, A)
    curvature = torch.zeros(*theta.shape, *theta.shape, dtype=torch.float64).unsqueeze(0)
    curvature = curvature.repeat(mdp.num_states, 1, 1, 1, 1)  # (S, S, A, S, A): ∇² log π(·|s), the same for all actions
    for s in range(mdp.num_states):
        curvature[s, s, :, s, :] = torch.outer(policy[s], policy[s]) - torch.diag(policy[s])
    for i, row in enumerate(zip(trajectories.states.tolist(), trajectories.actions.tolist(), strict=True)):
        for t, (s, a) in enumerate(zip(*row, strict=True)):
            scores[i, t, s] = -policy[s]
            scores[i, t, s, a] += 1.0
    scores = scores.flatten(2)
    curvature = curvature.reshape(mdp.num_states, size, size)[trajectories.states]  # (N, H, P, P)
    before = scores.cumsum(1) - scores  # Σ_{u<t}
    weighted = probabilities[:, None] * weights
    h1 = torch.einsum("nt,ntp,ntq->pq", weighted, scores, scores)
    h2 = torch.einsum("nt,ntpq->pq", weighted, curvature)
    h12 = torch.einsum("nt,ntp,ntq->pq", weighted, before, scores)
    return h1, h2, h12

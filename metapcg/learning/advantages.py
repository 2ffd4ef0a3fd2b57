"""Returns, values and advantages of a batch of episodes.

Shapes: every tensor is (..., E, T): any leading axes (tasks), episodes, time steps. ``mask`` is 1 while the step
belongs to the episode. ``terminated`` marks the step that reached a terminal state; an episode whose mask ends (or
whose time runs out) without it was *truncated*, and its last step is bootstrapped with the value of the state that
followed.
"""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_returns(
    rewards: Tensor, terminated: Tensor, mask: Tensor, gamma: float, next_values: Tensor | None = None
) -> Tensor:
    """Reward-to-go G_t = r_t + γ G_{t+1}, (..., T); after a truncated last step G continues with ``next_values``.

    Args:
        rewards, terminated, mask: (..., T).
        gamma: discount factor in [0, 1].
        next_values: V(s_{t+1}), (..., T); None counts what follows a truncation as zero.
    """
    return generalized_advantages(
        rewards, torch.zeros_like(rewards), torch.zeros_like(rewards) if next_values is None else next_values,
        terminated, mask, gamma, lam=1.0, bootstrap_inside=False,
    )  # fmt: skip


def generalized_advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    mask: Tensor,
    gamma: float,
    lam: float,
    bootstrap_inside: bool = True,
) -> Tensor:
    """Generalized advantage estimation (Schulman et al. 2016, eq. 16), (..., T), zero where ``mask`` is zero.

    δ_t = r_t + γ (1 − terminated_t) V(s_{t+1}) − V(s_t);  A_t = δ_t + γ λ A_{t+1} while t+1 belongs to the episode.
    ``bootstrap_inside=False`` uses ``next_values`` after the last step only (for plain returns).
    """
    steps = rewards.shape[-1]
    follows = torch.zeros_like(mask)
    follows[..., :-1] = mask[..., 1:]
    alive = (1.0 - terminated.to(rewards.dtype)) * next_values
    if not bootstrap_inside:
        alive = alive * (1.0 - follows)
    delta = (rewards + gamma * alive - values) * mask
    out = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[..., 0])
    for t in range(steps - 1, -1, -1):
        running = delta[..., t] + gamma * lam * follows[..., t] * running
        out[..., t] = running
    return out


def normalize(advantages: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Zero mean and unit standard deviation over the valid steps of each task, (..., E, T)."""
    count = mask.sum((-1, -2), keepdim=True).clamp(min=1.0)
    mean = (advantages * mask).sum((-1, -2), keepdim=True) / count
    centred = (advantages - mean) * mask
    std = ((centred**2).sum((-1, -2), keepdim=True) / count).sqrt()
    return centred / (std + eps)


class LinearValue:
    """Ridge regression of returns on features, one per task: the linear baseline of Duan et al. 2016 (rllab).

    Fitting needs the returns, and the returns of truncated episodes need the values: the two are iterated ``rounds``
    times, starting from zero values. With γ well below 1 this settles at once.

    Args:
        ridge: regularisation added to the diagonal, relative to the number of steps.
        rounds: iterations of fit and bootstrap.
    """

    def __init__(self, ridge: float = 1e-3, rounds: int = 2):
        self.ridge, self.rounds = ridge, rounds

    def fit(self, features: Tensor, final_features: Tensor, batch: dict[str, Tensor], gamma: float, bootstrap: bool):
        """Values of each step and of the state after it.

        Args:
            features: (M, E, T, F) of the states s_t; final_features: (M, E, F) of the state after the last step.
            batch: rewards, terminated and mask, each (M, E, T).
            gamma: discount factor.
            bootstrap: False counts the end of the episode as final (a fixed horizon that is part of the task).

        Returns:
            values, next_values: (M, E, T) each.
        """
        m, e, t, f = features.shape
        mask = batch["mask"]
        last = mask.sum(-1).long() - 1  # index of the last valid step
        following = torch.cat([features[:, :, 1:], final_features.unsqueeze(2)], dim=2)
        index = last.clamp(min=0)[..., None, None].expand(m, e, 1, f)
        following = following.scatter(2, index, final_features.unsqueeze(2))
        x = (features * mask.unsqueeze(-1)).reshape(m, e * t, f)
        count = mask.sum((-1, -2)).clamp(min=1.0)
        eye = torch.eye(f, dtype=x.dtype, device=x.device)
        gram = x.transpose(1, 2) @ x + self.ridge * count[:, None, None] * eye
        factor = torch.linalg.cholesky(gram)
        next_values = torch.zeros_like(mask)
        for _ in range(self.rounds if bootstrap else 1):
            returns = discounted_returns(batch["rewards"], batch["terminated"], mask, gamma, next_values)
            target = (returns * mask).reshape(m, e * t, 1)
            weights = torch.cholesky_solve(x.transpose(1, 2) @ target, factor)  # (M, F, 1)
            if bootstrap:
                next_values = (following.reshape(m, e * t, f) @ weights).reshape(m, e, t)
        values = (features.reshape(m, e * t, f) @ weights).reshape(m, e, t)
        if not bootstrap:
            next_values = (following.reshape(m, e * t, f) @ weights).reshape(m, e, t)
            ends = torch.zeros_like(mask).scatter(2, last.clamp(min=0).unsqueeze(-1), 1.0)
            next_values = next_values * (1.0 - ends)
        return values, next_values

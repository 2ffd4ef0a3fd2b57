"""Losses made from a surrogate: what the inner and the outer loop minimise.

A surrogate maps (log_probs, advantages, mask), each (..., E, T), to a per-episode objective (..., E) that is to be
maximised. Dividing by the number of valid steps makes the inner learning rate independent of the episodes' length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .policies import Params
from .rollouts import Batch

Surrogate = Callable[[Tensor, Tensor, Tensor], Tensor]
Loss = Callable[[Params, Batch], Tensor]


def _per_step(objective: Tensor, mask: Tensor) -> Tensor:
    return -objective.sum(-1) / mask.sum((-1, -2)).clamp(min=1.0)


def surrogate_loss(policy: Any, surrogate: Surrogate, entropy_weight: float = 0.0) -> Loss:
    """A loss ``(params, batch) -> (M,)`` (scalar for a single task's batch): minus the surrogate, per step."""

    def loss(params: Params, batch: Batch) -> Tensor:
        dist = policy.distribution(params, batch["obs"])
        value = _per_step(surrogate(dist.log_prob(batch["actions"]), batch["advantages"], batch["mask"]), batch["mask"])
        if entropy_weight:
            value = value + entropy_weight * _per_step((dist.entropy() * batch["mask"]).sum(-1), batch["mask"])
        return value

    return loss


def clipped_loss(policy: Any, clip: float = 0.2, entropy_weight: float = 0.0) -> Loss:
    """PPO's clipped objective (Schulman et al. 2017, eq. 7) against the policy that collected the batch, per step."""

    def loss(params: Params, batch: Batch) -> Tensor:
        dist = policy.distribution(params, batch["obs"])
        ratio = torch.exp(dist.log_prob(batch["actions"]) - batch["log_probs"])
        advantages, mask = batch["advantages"], batch["mask"]
        # A good action's ratio is not paid beyond 1 + clip, a bad one's not below 1 - clip.
        bounded = torch.where(advantages >= 0, ratio.clamp(max=1 + clip), ratio.clamp(min=1 - clip))
        value = _per_step((bounded * advantages * mask).sum(-1), mask)
        if entropy_weight:
            value = value + entropy_weight * _per_step((dist.entropy() * mask).sum(-1), mask)
        return value

    return loss


def ratio_loss(policy: Any, entropy_weight: float = 0.0) -> Loss:
    """The importance-weighted objective of a trust-region step (Schulman et al. 2015, eq. 14), per step."""

    def loss(params: Params, batch: Batch) -> Tensor:
        dist = policy.distribution(params, batch["obs"])
        ratio = torch.exp(dist.log_prob(batch["actions"]) - batch["log_probs"])
        value = _per_step((ratio * batch["advantages"] * batch["mask"]).sum(-1), batch["mask"])
        if entropy_weight:
            value = value + entropy_weight * _per_step((dist.entropy() * batch["mask"]).sum(-1), batch["mask"])
        return value

    return loss

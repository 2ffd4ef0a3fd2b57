"""Action distributions as small immutable objects: sample, log-probability, entropy, KL.

They differ from ``torch.distributions`` in two ways: sampling takes an explicit generator, and every method is plain
arithmetic on the last axis, so second derivatives and a leading task axis come for free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Categorical:
    """A distribution over ``A`` actions; ``logits`` has shape (..., A)."""

    logits: Tensor

    @property
    def log_probs(self) -> Tensor:
        """Normalised log-probabilities, (..., A)."""
        return torch.log_softmax(self.logits, dim=-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions, int64 (...)."""
        flat = torch.softmax(self.logits, dim=-1).reshape(-1, self.logits.shape[-1])
        return torch.multinomial(flat, 1, generator=generator).reshape(self.logits.shape[:-1])

    def mode(self) -> Tensor:
        """The most probable action, int64 (...).

        Raises:
            FloatingPointError: a logit is not a number, of which ``argmax`` would say nothing (``sample`` raises, too).
        """
        if bool(self.logits.isnan().any()):
            raise FloatingPointError("the logits of the actions are not numbers")
        return self.logits.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of int64 ``actions`` (...), shape (...)."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, shape (...)."""
        log_probs = self.log_probs
        return -(log_probs.exp() * log_probs).sum(-1)

    def kl(self, other: Categorical) -> Tensor:
        """KL(self ‖ other) in nats, shape (...)."""
        log_probs = self.log_probs
        return (log_probs.exp() * (log_probs - other.log_probs)).sum(-1)

    def detach(self) -> Categorical:
        """The same distribution without a graph."""
        return Categorical(self.logits.detach())


@dataclass(frozen=True)
class DiagonalGaussian:
    """Independent normals: ``mean`` (..., D) and ``log_std`` broadcastable to it."""

    mean: Tensor
    log_std: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions, float (..., D)."""
        noise = torch.randn(self.mean.shape, generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        return self.mean + self.log_std.exp() * noise

    def mode(self) -> Tensor:
        """The mean, (..., D)."""
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-density of ``actions`` (..., D), summed over D, shape (...)."""
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Differential entropy in nats, shape (...)."""
        return (self.log_std.expand_as(self.mean) + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """KL(self ‖ other) in nats, shape (...)."""
        variance_ratio = torch.exp(2 * (self.log_std - other.log_std))
        shift = ((self.mean - other.mean) * torch.exp(-other.log_std)) ** 2
        return (0.5 * (variance_ratio + shift - 1) + other.log_std - self.log_std).sum(-1)

    def detach(self) -> DiagonalGaussian:
        """The same distribution without a graph."""
        return DiagonalGaussian(self.mean.detach(), self.log_std.detach())

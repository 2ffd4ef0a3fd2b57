"""One step of the outer loop: Adam, or a trust region by conjugate gradients and a line search.

Both see the meta-loss only as a function of the parameters, so whatever a student's ``meta_loss`` computes is what is
optimised.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .policies import Params


def flatten(tensors: list[Tensor]) -> Tensor:
    """Concatenate tensors into one vector."""
    return torch.cat([t.reshape(-1) for t in tensors])


def _like(vector: Tensor, params: Params) -> Params:
    out, start = {}, 0
    for k, v in params.items():
        out[k] = vector[start : start + v.numel()].view_as(v)
        start += v.numel()
    return out


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, iterations: int, tol: float = 1e-10) -> Tensor:
    """Approximate solution x of ``product(x) = b`` for a symmetric positive definite product, starting at 0."""
    x = torch.zeros_like(b)
    r = b.clone()
    p = b.clone()
    rr = r @ r
    for _ in range(iterations):
        ap = product(p)
        step = rr / (p @ ap)
        x = x + step * p
        r = r - step * ap
        new = r @ r
        if new < tol:
            break
        p = r + (new / rr) * p
        rr = new
    return x


def trust_region_step(
    params: Params,
    loss: Callable[[Params], Tensor],
    kl: Callable[[Params], Tensor],
    max_kl: float = 0.01,
    cg_iterations: int = 10,
    damping: float = 1e-5,
    backtracks: int = 15,
) -> tuple[Params, dict[str, float]]:
    """TRPO's step (Schulman et al. 2015, appendix C) on a meta-loss.

    Args:
        params: leaf tensors; not changed.
        loss: scalar to be lowered, on fixed batches.
        kl: mean KL divergence from the adapted policies at ``params`` to those at its argument, zero at ``params``.
        max_kl: radius of the trust region in nats.
        cg_iterations, damping: for the Fisher-vector products.
        backtracks: halvings of the step until the loss falls and the KL is within the radius.

    Returns:
        New parameters, and a dict with the loss before and after, the KL and whether a step was accepted.
    """
    leaves = {k: v.detach().requires_grad_(True) for k, v in params.items()}
    before = loss(leaves)
    gradient = flatten(list(torch.autograd.grad(before, list(leaves.values())))).detach()
    kl_gradient = flatten(list(torch.autograd.grad(kl(leaves), list(leaves.values()), create_graph=True)))

    def fisher_product(vector: Tensor) -> Tensor:
        product = torch.autograd.grad(kl_gradient @ vector, list(leaves.values()), retain_graph=True)
        return flatten(list(product)).detach() + damping * vector

    direction = conjugate_gradient(fisher_product, -gradient, cg_iterations)
    curvature = 0.5 * direction @ fisher_product(direction)
    size = torch.sqrt(max_kl / curvature.clamp(min=1e-12))
    old = flatten([v.detach() for v in leaves.values()])
    info = {"loss_before": float(before.detach()), "accepted": 0.0}
    for i in range(backtracks):
        candidate = _like(old + 0.5**i * size * direction, params)
        # Adaptation inside the loss needs gradients with respect to the candidate.
        candidate = {k: v.detach().requires_grad_(True) for k, v in candidate.items()}
        after, distance = float(loss(candidate).detach()), float(kl(candidate).detach())
        if after < info["loss_before"] and distance <= max_kl:
            info.update(loss_after=after, kl=distance, accepted=1.0)
            return {k: v.detach() for k, v in candidate.items()}, info
    info.update(loss_after=info["loss_before"], kl=0.0)
    return {k: v.detach() for k, v in params.items()}, info

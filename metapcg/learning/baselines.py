"""What MAML is compared with: random policy, random initialisation, multi-task pretraining, and an oracle told its
task.

The learning baselines are policy-gradient learners (clipped objective) over the same policies and environments; only
what they see and over which tasks they average differs. Random initialisation needs no training: it is ``policy.init``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .losses import clipped_loss
from .meta_training import AdvantageSettings, Diverged, TrainingResult
from .policies import Params, detach, to_device
from .rollouts import Problem, Streams, collect, episode_returns
from .training_state import TrainingState


def policy_returns(
    policy: Any, params: Params, problem: Problem, seed: int | np.random.SeedSequence, device="cpu"
) -> np.ndarray:
    """Mean undiscounted return of a fixed policy on each task, (M,)."""
    return episode_returns(collect(problem, policy, params, Streams(seed, device), device)).mean(-1).cpu().numpy()


class UniformPolicy:
    """Chooses every legal action with equal probability: the ``random`` row of every table."""

    def __init__(self, policy: Any):
        self.policy = policy

    def distribution(self, params: Params, obs: Any):
        """The wrapped policy's distribution with all logits equal."""
        dist = self.policy.distribution(params, obs)
        return type(dist)(torch.zeros_like(dist.logits))


def random_returns(policy: Any, problem: Problem, seed: int | np.random.SeedSequence, device="cpu") -> np.ndarray:
    """Mean undiscounted return of the uniform random policy on each task, (M,)."""
    streams = Streams(seed, device)
    params = to_device(policy.init(streams.parameters), device)
    return (
        episode_returns(collect(problem, UniformPolicy(policy), params, streams, device)).mean(-1).cpu().numpy()
    )  # fmt: skip


def train_multi_task(
    policy: Any,
    make_problem: Callable[[np.random.SeedSequence], Problem],
    iterations: int,
    seed: int,
    advantages: AdvantageSettings,
    lr: float = 3e-3,
    epochs: int = 4,
    clip: float = 0.2,
    entropy_weight: float = 0.0,
    max_gradient_norm: float = 10.0,
    params: Params | None = None,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    state_every: int = 10,
) -> TrainingResult:
    """Train one policy on the average of all tasks (PPO's clipped objective, Schulman et al. 2017).

    With problems that tell the policy its task this is the oracle; with problems that do not, it is multi-task
    pretraining.

    Args:
        make_problem: seed → a problem with a fresh batch of training tasks.
        iterations: batches collected; ``epochs`` Adam steps of size ``lr`` on each.
        max_gradient_norm: the gradient is scaled down to this norm.
        resume, on_state, state_every: as in ``meta_training.meta_train``.

    Returns:
        Final parameters and one row of metrics per iteration.

    Raises:
        Diverged: a parameter is no longer finite.
    """
    task_seeds, run_seed = np.random.SeedSequence(seed).spawn(2)
    streams = Streams(run_seed, device)
    leaves = to_device(params if params is not None else policy.init(streams.parameters), device)
    leaves = {k: v.detach().clone().requires_grad_(True) for k, v in leaves.items()}
    adam = torch.optim.Adam(list(leaves.values()), lr=lr)
    loss_fn = clipped_loss(policy, clip, entropy_weight)
    history: list[dict[str, float]] = []
    start, env_steps, first = time.perf_counter(), 0, 0
    if resume is not None:
        task_seeds = resume.apply(leaves, adam, streams, task_seeds)
        history, env_steps, first = list(resume.history), resume.env_steps, resume.iteration
        start -= resume.seconds
    for iteration in range(first, iterations):
        problem = make_problem(task_seeds.spawn(1)[0])
        batch = advantages(collect(problem, policy, leaves, streams, device))
        good = {k: v.detach().clone() for k, v in leaves.items()}  # Adam writes in place
        for _ in range(epochs):
            loss = loss_fn(leaves, batch).mean()
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(leaves.values()), max_gradient_norm)
            adam.step()
        if not all(bool(torch.isfinite(v).all()) for v in leaves.values()):
            raise Diverged(f"training diverged at iteration {iteration}: loss {float(loss)}", good)
        env_steps += int(float(batch["mask"].sum()))
        row = {
            "iteration": iteration,
            "return": float(episode_returns(batch).mean()),
            "env_steps": env_steps,
            "seconds": time.perf_counter() - start,
        }
        history.append(row)
        if on_iteration is not None:
            on_iteration(iteration, leaves, row)
        if on_state is not None and (iteration + 1) % state_every == 0:
            seconds = time.perf_counter() - start
            on_state(TrainingState.of(leaves, adam, streams, task_seeds, history, env_steps, seconds))
    return TrainingResult(detach(leaves), history)

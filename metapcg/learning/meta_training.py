"""The meta-training loop into which a student's functions are plugged, and adaptation at test time.

The loop owns data collection, seeds, the outer optimiser and bookkeeping. What makes it MAML is not here: ``adapt`` and
``meta_loss`` come from a notebook (``metapcg.learning.solutions``). They are called as

* ``adapt(params, collect, loss_fn, inner_lr, num_steps, first_order) -> params`` with the tasks' own parameters (M, …);
* ``meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order) -> scalar``,

where ``collect(params) -> batch`` plays fresh episodes with the given parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .losses import Loss, clipped_loss, ratio_loss, surrogate_loss
from .outer_steps import trust_region_step
from .policies import Params, detach, expand, to_device
from .rollouts import Batch, Problem, Streams, add_advantages, collect, episode_returns, time_features
from .training_state import TrainingState

OUTER_STEPS = ("adam", "clipped", "trust-region")


@dataclass(frozen=True)
class AdvantageSettings:
    """How advantages are computed from a batch (see ``rollouts.add_advantages``)."""

    gamma: float = 0.9
    lam: float = 1.0
    bootstrap: bool = True
    normalized: bool = True
    features: Callable[..., Tensor] = time_features

    def __call__(self, batch: Batch) -> Batch:
        """Add values, returns and advantages to ``batch``."""
        return add_advantages(batch, self.gamma, self.lam, self.features, self.bootstrap, self.normalized)


@dataclass(frozen=True)
class MetaSettings:
    """Settings of meta-training; every field has a unit and a default that works for ``direction`` on binary-narrow.

    Attributes:
        iterations: meta-updates.
        tasks: tasks per meta-batch, M.
        episodes: episodes per task and rollout, E.
        inner_lr: α, step size of the inner update.
        inner_steps: K, inner steps during meta-training.
        first_order: drop the second derivatives (FOMAML).
        outer: ``adam`` (one Adam step per meta-batch), ``clipped`` (several Adam steps on a clipped objective) or
            ``trust-region``.
        outer_lr: β, Adam's step size.
        outer_decay: lower β linearly to zero over the iterations (Adam variants).
        outer_epochs: steps per meta-batch for ``clipped``.
        clip: PPO's ε for ``clipped``.
        max_kl: radius in nats for ``trust-region``.
        entropy_weight: entropy bonus in the outer loss.
        max_gradient_norm: the outer gradient is scaled down to this norm (Adam variants).
        advantages: how advantages are computed.
    """

    iterations: int = 25
    tasks: int = 20
    episodes: int = 20
    inner_lr: float = 5.0
    inner_steps: int = 1
    first_order: bool = False
    outer: str = "adam"
    outer_lr: float = 3e-3
    outer_decay: bool = False
    outer_epochs: int = 1
    clip: float = 0.2
    max_kl: float = 0.01
    entropy_weight: float = 0.0
    max_gradient_norm: float = 10.0
    advantages: AdvantageSettings = field(default_factory=AdvantageSettings)

    def __post_init__(self):
        if self.outer not in OUTER_STEPS:
            raise ValueError(f"outer: unknown value {self.outer!r}; choose one of {', '.join(OUTER_STEPS)}")
        for name in ("iterations", "tasks", "episodes", "outer_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.inner_steps < 0:
            raise ValueError(f"inner_steps: must be at least 0, got {self.inner_steps}")


class Diverged(RuntimeError):
    """Training produced a number that is not finite; ``params`` holds the last good parameters."""

    def __init__(self, message: str, params: Params):
        super().__init__(message)
        self.params = params


class Recorder:
    """Collects fresh episodes for a student's functions, and can replay them for a second look at the same data.

    ``recorder(params)`` collects, adds advantages and remembers. ``recorder.replay()`` is a ``collect`` that hands out
    the remembered batches in order; a clipped or trust-region step evaluates the meta-loss several times on the same
    episodes.
    """

    def __init__(self, problem: Problem, policy: Any, streams: Streams, advantages: AdvantageSettings, device="cpu"):
        self.problem, self.policy, self.streams = problem, policy, streams
        self.advantages, self.device = advantages, device
        self.batches: list[Batch] = []

    def __call__(self, params: Params) -> Batch:
        """Play one episode in every environment with ``params`` and return the batch with advantages."""
        batch = self.advantages(collect(self.problem, self.policy, params, self.streams, self.device))
        self.batches.append(batch)
        return batch

    def replay(self) -> Callable[[Params], Batch]:
        """A ``collect`` that returns the remembered batches one after the other."""
        batches: Iterator[Batch] = iter(self.batches)
        return lambda params: next(batches)

    @property
    def steps(self) -> int:
        """Environment steps played so far."""
        return int(sum(float(b["mask"].sum()) for b in self.batches))


@dataclass
class TrainingResult:
    """Final parameters and one row of metrics per iteration."""

    params: Params
    history: list[dict[str, float]]


def meta_train(
    functions: Any,
    policy: Any,
    make_problem: Callable[[np.random.SeedSequence], Problem],
    settings: MetaSettings,
    surrogate: Callable[[Tensor, Tensor, Tensor], Tensor],
    seed: int,
    params: Params | None = None,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    state_every: int = 10,
) -> TrainingResult:
    """Meta-train a policy with a student's ``adapt`` and ``meta_loss``.

    Args:
        functions: has ``meta_loss`` (see the module docstring).
        policy: object with ``init`` and ``distribution``.
        make_problem: seed → a problem with a fresh meta-batch of training tasks.
        settings: see ``MetaSettings``.
        surrogate: the inner objective, (log_probs, advantages, mask) → (..., E).
        seed: every random number of the run comes from it.
        params: start from these instead of ``policy.init``.
        device: where networks run.
        on_iteration: called with (iteration, params, metrics row) after each update.
        resume: a state that ``on_state`` was given in a run with the same other arguments; training goes on after it
            and gives the numbers of an undisturbed run.
        on_state: called with the state after every ``state_every`` iterations; save it to be able to resume.
        state_every: in iterations.

    Returns:
        Final parameters and the history: iteration, return before and after adaptation (mean over tasks), loss,
        environment steps so far, seconds so far.

    Raises:
        Diverged: the meta-loss or a parameter, also an adapted one, is no longer finite.
    """
    root = np.random.SeedSequence(seed)
    task_seeds, run_seed = root.spawn(2)
    streams = Streams(run_seed, device)
    leaves = to_device(params if params is not None else policy.init(streams.parameters), device)
    leaves = {k: v.detach().clone().requires_grad_(True) for k, v in leaves.items()}
    inner = surrogate_loss(policy, surrogate)
    adam = torch.optim.Adam(list(leaves.values()), lr=settings.outer_lr)
    history: list[dict[str, float]] = []
    start, env_steps, first = time.perf_counter(), 0, 0
    if resume is not None:
        task_seeds = resume.apply(leaves, adam, streams, task_seeds)
        history, env_steps, first = list(resume.history), resume.env_steps, resume.iteration
        start -= resume.seconds

    for iteration in range(first, settings.iterations):
        problem = make_problem(task_seeds.spawn(1)[0])
        recorder = Recorder(problem, policy, streams, settings.advantages, device)
        good = {k: v.detach().clone() for k, v in leaves.items()}  # Adam writes in place

        def total(
            params: Params, collect_fn, outer: Loss, first_order=settings.first_order, m: int = problem.num_tasks
        ) -> Tensor:
            return functions.meta_loss(
                params, m, collect_fn, inner, outer, settings.inner_lr, settings.inner_steps, first_order
            )

        info: dict[str, float] = {}
        if settings.outer_decay:
            adam.param_groups[0]["lr"] = settings.outer_lr * (1 - iteration / settings.iterations)
        try:
            if settings.outer == "trust-region":
                leaves, info = _trust_region(total, leaves, recorder, policy, settings)
                loss_value = info["loss_before"]
            else:
                outer = (
                    clipped_loss(policy, settings.clip, settings.entropy_weight)
                    if settings.outer == "clipped"
                    else surrogate_loss(policy, _score_function, settings.entropy_weight)
                )
                for epoch in range(settings.outer_epochs if settings.outer == "clipped" else 1):
                    loss = total(leaves, recorder if epoch == 0 else recorder.replay(), outer)
                    adam.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(list(leaves.values()), settings.max_gradient_norm)
                    adam.step()
                    if epoch == 0:
                        loss_value = float(loss.detach())
        except FloatingPointError as error:
            raise Diverged(f"meta-training diverged at iteration {iteration}: {error}", good) from error
        env_steps += recorder.steps
        row = {
            "iteration": iteration,
            "loss": loss_value,
            "return_before": float(episode_returns(recorder.batches[0]).mean()),
            "return_after": float(episode_returns(recorder.batches[-1]).mean()),
            "env_steps": env_steps,
            "seconds": time.perf_counter() - start,
            **{f"outer_{k}": v for k, v in info.items()},
        }
        if not (np.isfinite(loss_value) and all(bool(torch.isfinite(v).all()) for v in leaves.values())):
            raise Diverged(f"meta-training diverged at iteration {iteration}: loss {loss_value}", good)
        history.append(row)
        if on_iteration is not None:
            on_iteration(iteration, leaves, row)
        if on_state is not None and (iteration + 1) % state_every == 0:
            seconds = time.perf_counter() - start
            on_state(TrainingState.of(leaves, adam, streams, task_seeds, history, env_steps, seconds))
    return TrainingResult(detach(leaves), history)


def _score_function(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    # Outer loss of the Adam variant. Its value is Σ A, its gradient the policy gradient: the batch was collected by
    # the very parameters it is evaluated at, so no importance weight is needed.
    return (torch.exp(log_probs - log_probs.detach()) * advantages * mask).sum(-1)


def _trust_region(total, leaves: Params, recorder: Recorder, policy: Any, settings: MetaSettings):
    outer = ratio_loss(policy, settings.entropy_weight)
    # The first evaluation collects; all later ones look at the same episodes.
    total({k: v.detach().requires_grad_(True) for k, v in leaves.items()}, recorder, outer)
    old = None

    def divergence(params: Params, batch: Batch) -> Tensor:
        # Every fourth step is enough for a mean KL, and neighbouring states are nearly the same.
        nonlocal old
        dist = policy.distribution(params, {k: v[:, :, ::4] for k, v in batch["obs"].items()})
        if old is None:
            old = dist.detach()
        mask = batch["mask"][:, :, ::4]
        return (old.kl(dist) * mask).sum((-1, -2)) / mask.sum((-1, -2)).clamp(min=1.0)

    # The Fisher matrix only preconditions the step, so the derivative of the adaptation is left out of it (first
    # order); the line search then checks the true KL of the adapted policies.
    return trust_region_step(
        leaves,
        lambda p: total(p, recorder.replay(), outer),
        lambda p: total(p, recorder.replay(), divergence, True),
        max_kl=settings.max_kl,
    )


def adaptation_returns(
    functions: Any,
    policy: Any,
    params: Params,
    problem: Problem,
    settings: MetaSettings,
    surrogate: Callable[[Tensor, Tensor, Tensor], Tensor],
    num_steps: int,
    seed: int | np.random.SeedSequence,
    device: torch.device | str = "cpu",
    inner_lrs: list[float] | None = None,
) -> tuple[np.ndarray, Params]:
    """Adapt to each task of a problem and record the return after every inner step.

    The episodes that drive step k+1 are played with the parameters of step k and have not been used before, so their
    mean return is an unbiased estimate of the policy's value after k steps.

    Args:
        functions: has ``adapt``.
        params: meta-parameters, shared by all tasks.
        num_steps: K; the result has K + 1 entries per task.
        seed: randomness of the evaluation; meta-training never sees it.
        inner_lrs: step size of each step; None uses ``settings.inner_lr`` throughout.

    Returns:
        returns (M, K + 1), the mean over episodes of the undiscounted return, and the adapted parameters (M, …).
    """
    streams = Streams(seed, device)
    recorder = Recorder(problem, policy, streams, settings.advantages, device)
    inner = surrogate_loss(policy, surrogate)
    own = expand(to_device(params, device), problem.num_tasks)
    own = {k: v.detach().clone().requires_grad_(True) for k, v in own.items()}
    lrs = inner_lrs or [settings.inner_lr] * num_steps
    for step in range(num_steps):
        own = functions.adapt(own, recorder, inner, lrs[step], 1, True)
        own = {k: v.detach().requires_grad_(True) for k, v in own.items()}
    recorder(own)
    returns = torch.stack([episode_returns(b).mean(-1) for b in recorder.batches], dim=-1)
    return returns.cpu().numpy(), detach(own)

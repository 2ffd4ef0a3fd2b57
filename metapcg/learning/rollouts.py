"""Collect batches of episodes: M tasks × E episodes × T steps in one time loop.

A *problem* is anything with the batched protocol of ``metapcg.tasks``: ``num_tasks``, ``num_envs``, ``horizon``,
``reset(seed)`` and ``step(actions)``, which return observations as an array or a dict of arrays with leading axes (M,
E).

A *batch* is a dict of tensors:

=================  ==================  =====================================================================
key                shape               meaning
=================  ==================  =====================================================================
``obs``            dict, (M, E, T, …)  what the policy saw before acting
``actions``        (M, E, T[, D])      what it did
``log_probs``      (M, E, T)           log-probability of that, under the policy that acted
``rewards``        (M, E, T)           zero where ``mask`` is zero
``mask``           (M, E, T)           1 while the step belongs to the episode
``terminated``     (M, E, T)           1 at the step that reached a terminal state; a truncated episode has none
``final_obs``      dict, (M, E, …)     what followed the last step
=================  ==================  =====================================================================

and, after ``add_advantages``: ``values``, ``next_values``, ``returns``, ``advantages``, each (M, E, T).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .advantages import LinearValue, discounted_returns, generalized_advantages, normalize
from .policies import Observation, Params, detach

Batch = dict[str, Any]


class Problem(Protocol):
    """What ``collect`` needs of an environment batch."""

    num_tasks: int
    num_envs: int
    horizon: int

    def reset(self, seed: np.random.SeedSequence) -> Any:
        """Start one episode per environment."""

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Advance every environment: observation, reward, terminated, truncated."""


class Streams:
    """Independent random streams of a run, all from one seed: environments (numpy) and actions (torch).

    Args:
        seed: an integer or a SeedSequence; equal seeds give equal streams.
    """

    def __init__(self, seed: int | np.random.SeedSequence, device: torch.device | str = "cpu"):
        root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._environments, actions, parameters = root.spawn(3)
        self.actions = _torch_generator(actions, device)
        self.parameters = _torch_generator(parameters, "cpu")

    def environment_seed(self) -> np.random.SeedSequence:
        """A fresh SeedSequence for the next reset."""
        return self._environments.spawn(1)[0]

    def state(self) -> dict[str, Any]:
        """Where the streams are: tensors and integers only, so that ``torch.load(weights_only=True)`` reads it back."""
        return {
            "environments": self._environments.n_children_spawned,
            "actions": self.actions.get_state(),
            "parameters": self.parameters.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a state that ``state`` gave, in streams made from the same seed."""
        self._environments = skip_spawned(self._environments, state["environments"])
        self.actions.set_state(state["actions"])
        self.parameters.set_state(state["parameters"])


def skip_spawned(sequence: np.random.SeedSequence, count: int) -> np.random.SeedSequence:
    """The same sequence as if ``count`` children had been spawned from it already."""
    return np.random.SeedSequence(
        sequence.entropy, spawn_key=sequence.spawn_key, pool_size=sequence.pool_size, n_children_spawned=count
    )


def _torch_generator(sequence: np.random.SeedSequence, device: torch.device | str) -> torch.Generator:
    # torch takes one 64-bit seed; two 32-bit words of the sequence's state give it.
    low, high = sequence.generate_state(2, np.uint32)
    return torch.Generator(device=device).manual_seed(int(low) | int(high) << 32)


def as_dict(obs: Any) -> dict[str, np.ndarray]:
    """Observations as a dict; a bare array is the ``state``."""
    return dict(obs) if isinstance(obs, dict) else {"state": np.asarray(obs)}


def collect(
    problem: Problem,
    policy: Any,
    params: Params,
    streams: Streams,
    device: torch.device | str = "cpu",
    greedy: bool = False,
) -> Batch:
    """Play one episode in each of the problem's M × E environments.

    Args:
        problem: environments with fixed tasks.
        policy: object with ``distribution(params, obs)``.
        params: shared parameters, or the M tasks' own (leading axis M). Not differentiated.
        streams: where the randomness comes from; consumed.
        device: where the network runs and the batch lives.
        greedy: take the most probable action instead of sampling.

    Returns:
        A batch as described in the module docstring (without advantages).

    Raises:
        FloatingPointError: a parameter is not finite, so there is no policy to play with.
    """
    params = detach(params)
    broken = [name for name, value in params.items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise FloatingPointError(f"the policy's parameters are not finite: {', '.join(broken)}")
    obs = as_dict(problem.reset(streams.environment_seed()))
    m, e, horizon = problem.num_tasks, problem.num_envs, problem.horizon
    # NumPy arrays, into which small writes cost about a quarter of what they cost into tensors.
    stored = {k: np.zeros((m, e, horizon, *v.shape[2:]), numpy_dtype(v)) for k, v in obs.items()}
    final = {k: np.zeros((m, e, *v.shape[2:]), numpy_dtype(v)) for k, v in obs.items()}
    rewards, mask, terminated = (np.zeros((m, e, horizon), np.float32) for _ in range(3))
    actions: list[Tensor] = []
    log_probs: list[Tensor] = []
    active = np.ones((m, e), dtype=bool)
    steps = 0
    with torch.no_grad():
        for t in range(horizon):
            for k, v in obs.items():
                stored[k][:, :, t] = v
            now = {k: torch.as_tensor(v).to(device, tensor_dtype(v)) for k, v in obs.items()}
            dist = policy.distribution(params, now)
            action = dist.mode() if greedy else dist.sample(streams.actions)
            actions.append(action)
            log_probs.append(dist.log_prob(action))
            mask[:, :, t] = active
            obs, reward, ended, cut = problem.step(action.cpu().numpy())
            obs = as_dict(obs)
            rewards[:, :, t] = np.asarray(reward, np.float32) * mask[:, :, t]
            terminated[:, :, t] = ended & active
            steps = t + 1
            finished = active & (ended | cut)
            if t == horizon - 1:
                finished = active
            if finished.any():
                for k, v in obs.items():
                    final[k][finished] = v[finished]
            active = active & ~finished
            if not active.any():
                break
    batch: Batch = {
        "obs": {k: torch.from_numpy(v[:, :, :steps]).to(device) for k, v in stored.items()},
        "final_obs": {k: torch.from_numpy(v).to(device) for k, v in final.items()},
        "actions": torch.stack(actions, dim=2),
        "log_probs": torch.stack(log_probs, dim=2),
        "rewards": torch.from_numpy(rewards[:, :, :steps]).to(device),
        "mask": torch.from_numpy(mask[:, :, :steps]).to(device),
        "terminated": torch.from_numpy(terminated[:, :, :steps]).to(device),
    }
    return batch


def tensor_dtype(array: np.ndarray) -> torch.dtype:
    """What an observation is stored as: tile codes stay uint8, everything else becomes float32."""
    return torch.uint8 if array.dtype == np.uint8 else torch.float32


def numpy_dtype(array: np.ndarray) -> type:
    """``tensor_dtype`` as a NumPy type."""
    return np.uint8 if tensor_dtype(array) == torch.uint8 else np.float32


FeatureFunction = Callable[[Observation, Tensor], Tensor]


def time_features(obs: Observation, time: Tensor) -> Tensor:
    """1, t, t², t³ with time in units of the batch's longest episode: (...,) → (..., 4)."""
    return torch.stack([torch.ones_like(time), time, time**2, time**3], dim=-1)


def state_features(obs: Observation, time: Tensor) -> Tensor:
    """State, its square, and time: the features of the linear baseline in Duan et al. 2016."""
    state = obs["state"]
    return torch.cat([state, state**2, time_features(obs, time)], dim=-1)


def add_advantages(
    batch: Batch,
    gamma: float,
    lam: float,
    features: FeatureFunction = time_features,
    bootstrap: bool = True,
    normalized: bool = True,
    value: LinearValue | None = None,
) -> Batch:
    """Add values, returns and advantages to a batch, in place, and return it.

    Args:
        batch: from ``collect``.
        gamma, lam: discount and GAE's λ.
        features: (obs, time) → features of the linear value function.
        bootstrap: False when the horizon is part of the task and the end is final; True when it merely cuts the
        episode. normalized: give each task's advantages zero mean and unit standard deviation.
    """
    mask = batch["mask"]
    horizon = mask.shape[-1]
    time = torch.arange(horizon + 1, dtype=mask.dtype, device=mask.device) / horizon
    steps = time[:-1].expand_as(mask)
    length = mask.sum(-1).long().clamp(max=horizon)
    values, next_values = (value or LinearValue()).fit(
        features(batch["obs"], steps), features(batch["final_obs"], time[length]), batch, gamma, bootstrap
    )
    advantages = generalized_advantages(
        batch["rewards"], values, next_values, batch["terminated"], mask, gamma, lam
    )  # fmt: skip
    batch["values"], batch["next_values"] = values, next_values
    batch["returns"] = discounted_returns(batch["rewards"], batch["terminated"], mask, gamma, next_values)
    batch["advantages"] = normalize(advantages, mask) if normalized else advantages
    return batch


def episode_returns(batch: Batch) -> Tensor:
    """Undiscounted return of every episode, (M, E)."""
    return (batch["rewards"] * batch["mask"]).sum(-1)


def select_task(batch: Batch, task: int) -> Batch:
    """One task's part of a batch: (M, E, T, …) → (E, T, …)."""
    return {k: select_task(v, task) if isinstance(v, dict) else v[task] for k, v in batch.items()}

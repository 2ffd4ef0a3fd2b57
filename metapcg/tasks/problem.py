"""What the small problems share: the clock, the flags and the checks of the batched problem protocol.

A problem steps M tasks × E environments at once:

- ``num_tasks``, ``num_envs``: M and E; ``horizon``: the most steps an episode can have;
- ``reset(seed) -> obs`` starts every environment again; the same seed gives the same episodes for the same actions;
- ``step(actions) -> (obs, reward, terminated, truncated)`` with ``actions`` of shape (M, E, ...), ``reward`` (M, E)
  float32 and two (M, E) bool flags;
- ``active`` (M, E) bool: which environments are still running.

``terminated`` means that the task itself ended the episode (a goal, or a number of steps that belongs to the problem),
``truncated`` that a clock outside it did; they are never set together, and both stay set until the next reset. A
finished environment ignores actions and pays 0; nothing restarts by itself. Arrays are fresh at every call, so they may
be kept.
"""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clock", "Seed", "check_actions", "check_count", "check_discrete_actions", "next_generator"]

Seed = int | np.random.SeedSequence


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """Return ``value`` as an int, or raise a ValueError naming the setting if it is no integer or below the minimum."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name}: needs a whole number of at least {minimum}, got {value!r}")
    return int(value)


def check_actions(actions: object, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Continuous actions as float32; ValueError on another shape or a value that is not finite."""
    array = np.asarray(actions, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"actions: need shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("actions: need to be finite; the policy has produced NaN or infinity")
    return array


def check_discrete_actions(actions: object, shape: tuple[int, ...], num_actions: int) -> NDArray[np.int64]:
    """Discrete actions as int64; ValueError on another shape, a fraction or a number outside 0 .. num_actions - 1."""
    array = np.asarray(actions)
    if array.shape != shape:
        raise ValueError(f"actions: need shape {shape}, got {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"actions: need to be integers, got {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= num_actions):
        raise ValueError(f"actions: need to lie in 0 … {num_actions - 1}, got {array.min()} … {array.max()}")
    return array.astype(np.int64)


def next_generator(current: np.random.Generator | None, seed: Seed | None) -> np.random.Generator:
    """A fresh generator from ``seed``, or the current one for None; ValueError if there is neither."""
    if seed is not None:
        return np.random.default_rng(seed)
    if current is None:
        raise ValueError("seed: the first reset needs one, to start the random stream")
    return current


class Clock:
    """Which environments run, which were terminated and which truncated.

    Args:
        shape: (M, E).
        horizon: steps until an environment ends.
        final: the horizon is part of the problem, so that its end terminates; else it only cuts the episode: truncates.
    """

    def __init__(self, shape: tuple[int, int], horizon: int, final: bool = False) -> None:
        self.horizon = horizon
        self.final = final
        self.steps = 0
        self.terminated = np.zeros(shape, dtype=bool)
        self.truncated = np.zeros(shape, dtype=bool)
        self.started = False

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): neither terminated nor truncated."""
        return ~(self.terminated | self.truncated)

    def reset(self) -> None:
        self.steps = 0
        self.terminated[:] = False
        self.truncated[:] = False
        self.started = True

    def check_started(self) -> None:
        if not self.started:
            raise RuntimeError("call reset(seed) before the first step")

    def tick(self, reached: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Count one step; ``reached`` marks the running environments whose task ended. Returns copies of both flags."""
        active = self.active
        self.steps += 1
        if reached is not None:
            self.terminated |= active & reached
        if self.steps >= self.horizon:
            ended = self.terminated if self.final else self.truncated
            ended |= active & ~self.terminated
        return self.terminated.copy(), self.truncated.copy()

"""Everything that a training loop carries from one iteration to the next, as one object that can be saved.

A loop that is resumed from it gives the same numbers as one that was never stopped: parameters, the optimiser's moments
and step counts, the state of every random stream, and the bookkeeping. Random numbers come from
``SeedSequence.spawn`` and ``torch.Generator`` only, so two counters and two generator states say where a run is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from .policies import Params, detach
from .rollouts import Streams, skip_spawned


@dataclass(frozen=True)
class TrainingState:
    """The state after ``iteration`` iterations.

    Attributes:
        iteration: iterations done, so also the number of the next one.
        params: parameters, on the CPU.
        optimizer: Adam's ``state_dict``.
        streams: see ``Streams.state``.
        task_batches: task batches drawn so far.
        history: metrics, one row per iteration.
        env_steps: environment steps so far.
        seconds: time spent so far.
        extra: what else a loop carries (a replay, target networks): containers of tensors and plain values.
    """

    iteration: int
    params: Params
    optimizer: dict[str, Any]
    streams: dict[str, Any]
    task_batches: int
    history: list[dict[str, float]]
    env_steps: int
    seconds: float
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        params: Params,
        optimizer: torch.optim.Optimizer,
        streams: Streams,
        task_seeds: np.random.SeedSequence,
        history: list[dict[str, float]],
        env_steps: int,
        seconds: float,
        extra: dict[str, Any] | None = None,
    ) -> TrainingState:
        """Take the state of a running loop; nothing in it changes when the loop goes on."""
        return cls(
            iteration=len(history),
            params={k: v.cpu().clone() for k, v in detach(params).items()},
            optimizer=_copied(optimizer.state_dict()),
            streams=streams.state(),
            task_batches=task_seeds.n_children_spawned,
            history=[dict(row) for row in history],
            env_steps=env_steps,
            seconds=seconds,
            extra=extra or {},
        )

    def apply(
        self,
        params: Params,
        optimizer: torch.optim.Optimizer,
        streams: Streams,
        task_seeds: np.random.SeedSequence,
    ) -> np.random.SeedSequence:
        """Put a freshly set-up loop into this state, in place; returns the task seeds to go on with.

        Raises:
            ValueError: the parameters have other names or shapes than the loop's.
        """
        here = {k: tuple(v.shape) for k, v in params.items()}
        saved = {k: tuple(v.shape) for k, v in self.params.items()}
        if here != saved:
            raise ValueError(f"resume: the saved parameters are {saved}, this policy's are {here}")
        with torch.no_grad():
            for name, value in params.items():
                value.copy_(self.params[name])
        optimizer.load_state_dict(_copied(self.optimizer))
        streams.restore(self.streams)
        return skip_spawned(task_seeds, self.task_batches)

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, numbers and tensors, for ``torch.save``."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """The inverse of ``to_dict``; ValueError when entries are missing or unknown."""
        names = {entry.name for entry in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ValueError("not a training state of this version")
        return cls(**values)


def _copied(value: Any) -> Any:
    # The optimiser's state_dict shares its tensors with the optimiser, which overwrites them in place.
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v) for v in value)
    return value

"""A batch of tasks as arrays: what is asked of the level engine, and nothing about how it is learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapcg.envs.engine import LevelEngine
from metapcg.envs.representations import check_representation
from metapcg.games import get_game
from metapcg.tasks.problem import check_count

__all__ = ["TaskBatch"]

_PER_TASK = ("weights", "low", "high", "change_percentage", "parameters", "features")


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """M tasks of one game and one representation.

    Attributes:
        game: "binary", "zelda" or "sokoban".
        representation: "narrow", "turtle" or "wide".
        weights: (M, T) float64, weight of each of the game's T reward terms.
        low, high: (M, T) float64, range that a term's statistic should enter; low = high = +inf rewards every increase
            of the statistic ("plain delta"), low = high = v rewards every step towards v.
        change_percentage: (M,) float64 in (0, 1], share of the cells that an episode may change.
        horizon: most steps of an episode.
        stop_at_goal: whether the game's own goal ends the episode.
        size: (width, height) in cells; the game's default size if None was given.
        family, split: where the tasks come from; "custom" for tasks made by hand.
        parameters: (M, P) float64, the hidden parameter of each task.
        parameter_names: P names.
        features: (M, F) float64 of order 1, what an oracle is told; the parameters if None was given.

    ``len(tasks)`` is M; ``tasks[index]`` with an integer, slice or array is the batch of those tasks.

    Raises:
        ValueError: naming the setting that is wrong.
    """

    game: str
    representation: str
    weights: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    change_percentage: NDArray[np.float64]
    horizon: int = 60
    stop_at_goal: bool = False
    size: tuple[int, int] | None = None
    family: str = "custom"
    split: str = "custom"
    parameters: NDArray[np.float64] | None = None
    parameter_names: tuple[str, ...] = ()
    features: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        game = get_game(self.game)
        check_representation(self.representation)
        weights = np.array(self.weights, dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != len(game.terms):
            raise ValueError(
                f"weights: need shape (tasks, {len(game.terms)}) for {self.game} ({', '.join(game.terms)}), "
                f"got {weights.shape}"
            )
        num_tasks = len(weights)
        if num_tasks == 0:
            raise ValueError("num_tasks: a batch needs at least one task, got 0")
        if self.parameters is None:
            self._set("parameters", weights)
            self._set("parameter_names", tuple(game.terms))
        if self.features is None:
            self._set("features", self.parameters)
        self._set("horizon", check_count("horizon", self.horizon))
        width, height = game.default_size if self.size is None else self.size
        self._set("size", (check_count("size", width), check_count("size", height)))
        for name in _PER_TASK:
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != (1 if name == "change_percentage" else 2) or len(value) != num_tasks:
                raise ValueError(f"{name}: the first axis must be the {num_tasks} tasks, got shape {value.shape}")
            if np.isnan(value).any():
                raise ValueError(f"{name}: must not be NaN")
            if name not in ("low", "high") and not np.isfinite(value).all():
                raise ValueError(f"{name}: must be finite")
            value.flags.writeable = False
            self._set(name, value)
        for name in ("low", "high"):
            if getattr(self, name).shape != weights.shape:
                raise ValueError(f"{name}: need shape {weights.shape}, got {getattr(self, name).shape}")
        if (self.low > self.high).any():
            raise ValueError("low: must not lie above high")
        if (self.change_percentage <= 0).any() or (self.change_percentage > 1).any():
            raise ValueError("change_percentage: must lie in (0, 1]")
        if len(self.parameter_names) != self.parameters.shape[1]:
            raise ValueError(f"parameter_names: need {self.parameters.shape[1]} names, got {len(self.parameter_names)}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen; only __post_init__ may normalise its fields

    @classmethod
    def from_weights(
        cls,
        game: str,
        representation: str,
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        plain_deltas: bool = False,
        change_percentage: float = 1.0,
        **settings: Any,
    ) -> TaskBatch:
        """Tasks written by hand as {statistic: weight}; statistics left out get weight 0.

        Args:
            game, representation: names.
            weights: one mapping, or one for each task.
            plain_deltas: reward every increase of a statistic, whatever its value; else the game's own ranges hold.
            change_percentage: share of the cells that an episode may change, in (0, 1].
            **settings: horizon, stop_at_goal, size.

        Raises:
            ValueError: a weight for a statistic that the game lacks, or any other bad setting, by name.
        """
        description = get_game(game)
        rows = [weights] if isinstance(weights, Mapping) else list(weights)
        table = np.zeros((len(rows), len(description.terms)))
        for row, mapping in zip(table, rows, strict=True):
            for statistic, weight in mapping.items():
                row[check_statistic(game, statistic, "weights")] = weight
        low, high = np.broadcast_to(description.low, table.shape), np.broadcast_to(description.high, table.shape)
        if plain_deltas:
            low = high = np.full_like(table, np.inf)
        return cls(game, representation, table, low, high, np.full(len(rows), change_percentage), **settings)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, index: int | slice | NDArray[Any] | Sequence[int]) -> TaskBatch:
        rows = np.atleast_1d(np.arange(len(self))[index])
        if len(rows) == 0:
            raise ValueError("num_tasks: this index selects no task")
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in _PER_TASK})

    @property
    def num_tasks(self) -> int:
        """M."""
        return len(self)

    def task_features(self) -> NDArray[np.float32]:
        """What an oracle is told about its task, (M, F) float32 of order 1."""
        return self.features.astype(np.float32)

    def engine(self, num_envs: int, **settings: Any) -> LevelEngine:
        """A level engine set to these tasks, with ``num_envs`` environments for each.

        Args:
            num_envs: E.
            **settings: further arguments of LevelEngine (crop, random_tile, warp, quirks, ...).
        """
        engine = LevelEngine(
            self.game,
            self.representation,
            num_tasks=len(self),
            num_envs=check_count("num_envs", num_envs),
            size=self.size,
            horizon=self.horizon,
            stop_at_goal=self.stop_at_goal,
            **settings,
        )
        self.apply(engine)
        return engine

    def apply(self, engine: LevelEngine) -> None:
        """Give an existing engine of the same game and representation these tasks; its environments need a reset."""
        engine.set_tasks(self.weights, self.low, self.high, self.change_percentage)


def check_statistic(game: str, statistic: str, setting: str) -> int:
    """Position of a statistic among the game's terms; a ValueError names the setting and the game's statistics."""
    terms = get_game(game).terms
    if statistic not in terms:
        raise ValueError(f"{setting}: {game} has no statistic {statistic!r}; it has {', '.join(terms)}")
    return terms.index(statistic)

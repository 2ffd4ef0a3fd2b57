"""Task families: distributions over level-design tasks with five splits (see :mod:`metapcg.tasks.splits`).

``direction``
    Signed weights, a point on the circle or the sphere, over two or three scaled statistics; the agent does not see
    them. The reward is linear in the weights w, so a policy that does not adapt earns E[w]·E[Δ] = 0 over a symmetric
    set of tasks, whatever it does. This is the family in which adaptation must pay. The set stays symmetric because
    what is held out for extrapolation is an arc (a cap) *and its antipode*.
``weights``
    Positive weights, ± 20 % around three settings per game, with gym-pcgrl's ranges and goals. One good policy does
    nearly as well as an adapted one.
``target``
    A hidden target value of one statistic; the reward is the decrease of the distance to it.

Every family is used alike: ``direction("binary", "narrow").sample("train", 20, seed)`` is a
:class:`~metapcg.tasks.task_batch.TaskBatch`. The same seed gives the same tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metapcg.envs.representations import check_representation
from metapcg.games import get_game
from metapcg.tasks.problem import Seed, check_count
from metapcg.tasks.splits import (
    EXTRAPOLATION,
    HELD_OUT_GAME,
    HELD_OUT_REPRESENTATION,
    INTERPOLATION,
    TRAIN,
    check_split,
    split_generator,
    train_list_generator,
)
from metapcg.tasks.task_batch import TaskBatch, check_statistic

__all__ = [
    "DEFAULT_STATISTICS",
    "DEFAULT_TARGETS",
    "FAMILIES",
    "STATISTIC_SCALES",
    "WEIGHT_SETTINGS",
    "DirectionFamily",
    "Mixture",
    "TargetFamily",
    "TaskFamily",
    "WeightsFamily",
    "direction",
    "make_family",
    "target",
    "weights",
]

DEFAULT_STATISTICS: dict[str, tuple[str, ...]] = {
    "binary": ("regions", "path-length"),
    "zelda": ("enemies", "regions", "key"),
    "sokoban": ("crate", "target", "regions"),
}
"""Statistics of the direction family. All of them move under a random policy; path lengths in zelda and solution
lengths in sokoban do not, because they are 0 on nearly every level that a beginner makes."""

STATISTIC_SCALES: dict[str, dict[str, float]] = {
    "binary": {"regions": 1.0, "path-length": 1 / 1.6},
    "zelda": {"enemies": 1.0, "regions": 1.77, "key": 1.53, "door": 1.53, "player": 1.53},
    "sokoban": {"crate": 1.0, "target": 0.99, "regions": 1.30, "player": 0.99},
}
"""Factors that bring the statistics' changes to one size: the standard deviation of the first default statistic's
change over an episode of 60 random narrow edits, divided by this one's.

zelda's and sokoban's were measured by ``python benchmarks/statistics_scale.py`` (20 000 episodes, seed 0; seed 1
differs by at most 1.2 %). The same command measures 1/1.80 for binary's path length; 1/1.6 is the value of the first
trials of this family, kept so that returns can be compared with theirs."""

WEIGHT_SETTINGS: dict[str, tuple[dict[str, float], ...]] = {
    "binary": (
        {"regions": 5.0, "path-length": 1.0},
        {"regions": 1.0, "path-length": 5.0},
        {"regions": 3.0, "path-length": 3.0},
    ),
    "zelda": (
        {"path-length": 2.0, "regions": 1.0, "nearest-enemy": 1.0},
        {"path-length": 1.0, "regions": 2.0, "nearest-enemy": 1.0},
        {"path-length": 1.0, "regions": 1.0, "nearest-enemy": 3.0},
    ),
    "sokoban": (
        {"dist-win": 2.0, "sol-length": 1.0, "ratio": 1.0},
        {"dist-win": 1.0, "sol-length": 2.0, "ratio": 1.0},
        {"dist-win": 3.0, "sol-length": 1.0, "ratio": 2.0},
    ),
}
"""The three settings per game around which the weights family varies; gym-pcgrl's weights hold for the other terms."""

DEFAULT_TARGETS: dict[str, tuple[str, int, int]] = {
    "binary": ("regions", 1, 40),
    "zelda": ("enemies", 0, 24),
    "sokoban": ("crate", 0, 12),
}
"""Statistic and range of hidden targets of the target family: reachable from a random start level within 60 steps."""

_OTHER_REPRESENTATION = {"narrow": "turtle", "turtle": "narrow", "wide": "narrow"}
_OTHER_GAME = {"binary": "zelda", "zelda": "sokoban", "sokoban": "zelda"}


@dataclass(frozen=True, kw_only=True)
class TaskFamily(ABC):
    """What the families share: names, limits, the finite training list and the splits.

    Attributes:
        game, representation: what training uses.
        size: (width, height) of the levels, None for the game's default; the held-out game has its own default.
        horizon: most steps of an episode.
        held_out_representation, held_out_game: of the splits of those names.
        held_out_fraction: share of the range that is kept for extrapolation, in (0, 1).
        num_train_tasks: length of a finite training list, None for a continuum.
        train_seed: seed of that list.
    """

    game: str
    representation: str
    size: tuple[int, int] | None
    horizon: int
    held_out_representation: str
    held_out_game: str
    held_out_fraction: float
    num_train_tasks: int | None
    train_seed: int

    name: ClassVar[str]
    paired: ClassVar[bool] = False

    def __post_init__(self) -> None:
        get_game(self.game)
        check_representation(self.representation)
        if self.held_out_representation == self.representation:
            raise ValueError(f"held_out_representation: {self.representation!r} is the one that training uses")
        check_representation(self.held_out_representation)
        if self.held_out_game == self.game:
            raise ValueError(f"held_out_game: {self.game!r} is the one that training uses")
        get_game(self.held_out_game)
        check_count("horizon", self.horizon)
        if not 0 < self.held_out_fraction < 1:
            raise ValueError(
                "held_out_fraction: needs a number strictly between 0 and 1, or a split is empty; "
                f"got {self.held_out_fraction!r}"
            )
        if self.num_train_tasks is not None:
            check_count("num_train_tasks", self.num_train_tasks)

    def sample(self, split: str, num_tasks: int, seed: Seed) -> TaskBatch:
        """Draw tasks of a split.

        From a finite training list they are drawn without repetition as long as the list lasts, then the list starts
        again in another order.

        Args:
            split: one of :data:`~metapcg.tasks.splits.SPLITS`.
            num_tasks: M, at least 1.
            seed: the same seed gives the same tasks; different splits draw from different streams.

        Raises:
            ValueError: unknown split or an empty one (num_tasks = 0).
        """
        return self._sample(split, num_tasks, seed, self.paired)

    def _sample(self, split: str, num_tasks: int, seed: Seed, paired: bool) -> TaskBatch:
        check_split(split)
        check_count("num_tasks", num_tasks)
        rng = split_generator(split, seed)
        if split == TRAIN and self.num_train_tasks is not None:
            rows = self._train_list()
            return self._batch(TRAIN, rows[_choose(len(rows), num_tasks, rng, paired)])
        return self._batch(split, self._draw(split, num_tasks, rng, paired))

    def train_tasks(self) -> TaskBatch:
        """The finite list of training tasks, in order; ValueError if training draws from a continuum."""
        if self.num_train_tasks is None:
            raise ValueError("num_train_tasks: this family draws its training tasks from a continuum; set a number")
        return self._batch(TRAIN, self._train_list())

    def split_game(self, split: str) -> str:
        """Name of the game that a split uses."""
        return self.held_out_game if check_split(split) == HELD_OUT_GAME else self.game

    def split_representation(self, split: str) -> str:
        """Name of the representation that a split uses."""
        held_out = check_split(split) == HELD_OUT_REPRESENTATION
        return self.held_out_representation if held_out else self.representation

    def _train_list(self) -> NDArray[np.float64]:
        return self._draw(TRAIN, self.num_train_tasks, train_list_generator(self.train_seed), self.paired)

    def _settings(self, split: str) -> dict[str, Any]:
        return {
            "game": self.split_game(split),
            "representation": self.split_representation(split),
            "size": None if split == HELD_OUT_GAME else self.size,
            "horizon": self.horizon,
            "family": self.name,
            "split": split,
        }

    @abstractmethod
    def _draw(self, split: str, count: int, rng: np.random.Generator, paired: bool) -> NDArray[np.float64]:
        """Draw ``count`` rows of whatever defines a task of this family; ``paired``: rows 2i and 2i+1 are opposites."""

    @abstractmethod
    def _batch(self, split: str, rows: NDArray[np.float64]) -> TaskBatch:
        """Turn such rows into tasks."""


def _choose(length: int, count: int, rng: np.random.Generator, paired: bool) -> NDArray[np.int64]:
    """Positions in a list, each once before any comes again; ``paired``: 2i and 2i+1 stay together."""
    group = 2 if paired else 1
    groups = length // group
    rounds = -(-count // length)
    order = np.concatenate([rng.permutation(groups) for _ in range(rounds)])
    return (group * order[:, None] + np.arange(group)).reshape(-1)[:count]


def _defaults(
    game: str, representation: str, held_out_representation: str | None, held_out_game: str | None
) -> dict[str, str]:
    get_game(game)
    check_representation(representation)
    return {
        "game": game,
        "representation": representation,
        "held_out_representation": held_out_representation or _OTHER_REPRESENTATION[representation],
        "held_out_game": held_out_game or _OTHER_GAME[game],
    }


def _plain_deltas(rows: NDArray[np.float64], game: str, statistics: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Weights over all of a game's terms from weights over some, every statistic's growth paid as it is."""
    table = np.zeros((len(rows), len(get_game(game).terms)))
    table[:, [check_statistic(game, statistic, "statistics") for statistic in statistics]] = rows
    infinite = np.full_like(table, np.inf)
    return {"weights": table, "low": infinite, "high": infinite, "change_percentage": np.ones(len(rows))}


# ----------------------------------------------------------------------------------------------------------- direction


@dataclass(frozen=True, kw_only=True)
class DirectionFamily(TaskFamily):
    """Signed weights on a circle or a sphere; made by :func:`direction`.

    Attributes:
        statistics: two or three names.
        scales: their factors, in that order.
        axis: unit vector, the middle of the held-out arc or cap.
        antithetic: draw every w together with -w.
    """

    statistics: tuple[str, ...]
    scales: tuple[float, ...]
    axis: tuple[float, ...]
    antithetic: bool

    name: ClassVar[str] = "direction"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.statistics) not in (2, 3):
            raise ValueError(f"statistics: need two (circle) or three (sphere), got {len(self.statistics)}")
        if len(set(self.statistics)) != len(self.statistics):
            raise ValueError(f"statistics: {', '.join(self.statistics)} names one twice")
        for statistic in self.statistics:
            check_statistic(self.game, statistic, "statistics")
        for statistic, scale in zip(self.statistics, self.scales, strict=True):
            if not (np.isfinite(scale) and scale > 0):
                raise ValueError(f"scales: {statistic} needs a positive finite number, got {scale!r}")
        if len(self.axis) != len(self.statistics):
            raise ValueError(f"axis: needs one number for each of the {len(self.statistics)} statistics")
        if not np.isfinite(self.axis).all() or not np.isclose(np.linalg.norm(self.axis), 1.0):
            raise ValueError(f"axis: needs a finite vector of length 1, got {self.axis}")
        if self.antithetic and self.num_train_tasks is not None and self.num_train_tasks % 2:
            raise ValueError(f"num_train_tasks: needs an even number for antithetic pairs, got {self.num_train_tasks}")

    @property
    def paired(self) -> bool:  # type: ignore[override]
        return self.antithetic

    @property
    def half_angle(self) -> float:
        """Angle between the axis and the edge of the held-out arc or cap, in radians."""
        if len(self.statistics) == 2:
            return self.held_out_fraction * np.pi / 2
        return float(np.arccos(1 - self.held_out_fraction))  # a cap's area is proportional to 1 - cos(half angle)

    def is_held_out(self, directions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which unit vectors (M, k) lie in the held-out arc or cap or in its antipode, (M,)."""
        return np.abs(directions @ np.asarray(self.axis)) > np.cos(self.half_angle)

    def sample(self, split: str, num_tasks: int, seed: Seed, antithetic: bool | None = None) -> TaskBatch:
        """As :meth:`TaskFamily.sample`; ``antithetic`` overrides the family's setting.

        With antithetic pairs, tasks 2i and 2i+1 are w and -w, and the set is symmetric exactly, not only on average;
        num_tasks must then be even. A finite training list is made under the family's own setting.

        Raises:
            ValueError: as there; an odd num_tasks for pairs, or pairs asked from a training list that has none.
        """
        paired = self.antithetic if antithetic is None else antithetic
        check_split(split)
        if paired and check_count("num_tasks", num_tasks) % 2:
            raise ValueError(f"num_tasks: needs an even number for antithetic pairs, got {num_tasks}")
        if paired and not self.antithetic and split == TRAIN and self.num_train_tasks is not None:
            raise ValueError("antithetic: the finite training list has no pairs; make the family with antithetic=True")
        return self._sample(split, num_tasks, seed, paired)

    def _draw(self, split: str, count: int, rng: np.random.Generator, paired: bool) -> NDArray[np.float64]:
        dimension = len(self._statistics(split))
        if not paired:
            return self._draw_directions(split, count, dimension, rng)
        half = self._draw_directions(split, count // 2, dimension, rng)
        return np.stack([half, -half], axis=1).reshape(count, dimension)

    def _draw_directions(self, split: str, count: int, dimension: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Unit vectors uniform on the split's part of the circle or sphere; u and -u are equally likely."""
        share, turn, pole = rng.random((3, count))
        if split == HELD_OUT_GAME:  # a game never trained on has no range to stay in
            axis, low, high = np.eye(dimension)[0], 0.0, 1.0
        else:
            axis, edge = np.asarray(self.axis), self.held_out_fraction
            low, high = (0.0, edge) if split == EXTRAPOLATION else (edge, 1.0)
        # Share of the half circle (half sphere) nearer to the axis, so 0 is the axis and 1 its equator.
        share = low + (high - low) * share
        across = _orthonormal_complement(axis)
        if dimension == 2:
            angle = share * np.pi / 2
            along, sideways = np.cos(angle), np.sin(angle)
            perpendicular = np.where(turn < 0.5, 1.0, -1.0)[:, None] * across[0]
        else:
            along = 1 - share
            sideways = np.sqrt(1 - along**2)
            azimuth = 2 * np.pi * turn[:, None]
            perpendicular = np.cos(azimuth) * across[0] + np.sin(azimuth) * across[1]
        directions = along[:, None] * axis + sideways[:, None] * perpendicular
        return np.where(pole < 0.5, 1.0, -1.0)[:, None] * directions

    def _statistics(self, split: str) -> tuple[str, ...]:
        return DEFAULT_STATISTICS[self.held_out_game] if split == HELD_OUT_GAME else self.statistics

    def _batch(self, split: str, rows: NDArray[np.float64]) -> TaskBatch:
        statistics, game = self._statistics(split), self.split_game(split)
        scales = _scales(game, statistics, None) if split == HELD_OUT_GAME else self.scales
        if len(statistics) == 2:
            parameters, names = np.arctan2(rows[:, 1], rows[:, 0])[:, None] % (2 * np.pi), ("phi",)
        else:
            parameters, names = rows, tuple(f"w({statistic})" for statistic in statistics)
        return TaskBatch(
            **self._settings(split),
            **_plain_deltas(rows * np.asarray(scales), game, statistics),
            parameters=parameters,
            parameter_names=names,
            features=rows,
        )


def _orthonormal_complement(axis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors perpendicular to ``axis`` and to each other, (k - 1, k); the same for the same axis."""
    if len(axis) == 2:
        return np.array([[-axis[1], axis[0]]])
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first)])


def _scales(game: str, statistics: Sequence[str], given: Mapping[str, float] | None) -> tuple[float, ...]:
    for statistic in given or {}:
        check_statistic(game, statistic, "scales")
        if statistic not in statistics:
            raise ValueError(f"scales: {statistic!r} is not among the statistics {', '.join(statistics)}")
    known = {**STATISTIC_SCALES[game], **(given or {})}
    for statistic in statistics:
        check_statistic(game, statistic, "statistics")
        if statistic not in known:
            raise ValueError(
                f"scales: no measured scale for {statistic!r} of {game}; give one, e.g. scales={{{statistic!r}: 1.0}}"
            )
    return tuple(float(known[statistic]) for statistic in statistics)


def direction(
    game: str = "binary",
    representation: str = "narrow",
    statistics: Sequence[str] | None = None,
    *,
    scales: Mapping[str, float] | None = None,
    axis: Sequence[float] | None = None,
    held_out_fraction: float = 0.25,
    held_out_representation: str | None = None,
    held_out_game: str | None = None,
    num_train_tasks: int | None = None,
    train_seed: int = 0,
    antithetic: bool = False,
    horizon: int = 60,
    size: tuple[int, int] | None = None,
) -> DirectionFamily:
    """Hidden directions: reward = Σ_k w_k · scale_k · Δstatistic_k with |w| = 1.

    Plain deltas (no ranges), no goal, all cells may change. Over two statistics w = (cos φ, sin φ).

    Args:
        game, representation: what training uses.
        statistics: two or three of the game's statistics; None for :data:`DEFAULT_STATISTICS`.
        scales: factor per statistic where it should differ from :data:`STATISTIC_SCALES`.
        axis: middle of the held-out arc (circle) or cap (sphere), any length but 0; None for (1, 1[, 1]).
        held_out_fraction: share of the circle or sphere that the arc or cap and its antipode together take.
        held_out_representation, held_out_game: of the splits of those names; None for a default other than the trained.
        num_train_tasks: length of a finite training list, None for a continuum.
        train_seed: seed of that list.
        antithetic: draw tasks as pairs w, -w, so that every sample is symmetric exactly.
        horizon: steps per episode.
        size: (width, height); None for the game's default.

    Raises:
        ValueError: naming the setting that is wrong.
    """
    names = _defaults(game, representation, held_out_representation, held_out_game)
    chosen = DEFAULT_STATISTICS[game] if statistics is None else tuple(statistics)
    vector = np.ones(len(chosen)) if axis is None else np.asarray(axis, dtype=np.float64)
    length = np.linalg.norm(vector)
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"axis: needs finite numbers that are not all zero, got {axis}")
    return DirectionFamily(
        **names,
        statistics=chosen,
        scales=_scales(game, chosen, scales),
        axis=tuple((vector / length).tolist()),
        held_out_fraction=held_out_fraction,
        num_train_tasks=num_train_tasks,
        train_seed=train_seed,
        antithetic=antithetic,
        horizon=horizon,
        size=size,
    )


# ------------------------------------------------------------------------------------------------------------- weights


@dataclass(frozen=True, kw_only=True)
class WeightsFamily(TaskFamily):
    """Positive weights around a few settings; made by :func:`weights`.

    Attributes:
        settings: statistic → weight, one mapping per setting.
        variation: largest relative change of a weight in training, 0.2 for ± 20 %; extrapolation goes to twice that.
        change_percentage: (low, high) of the share of cells that an episode may change.
    """

    settings: tuple[dict[str, float], ...]
    variation: float
    change_percentage: tuple[float, float]

    name: ClassVar[str] = "weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.settings or not all(self.settings):
            raise ValueError("settings: need at least one mapping from statistic to weight, none of them empty")
        for setting in self.settings:
            for statistic, weight in setting.items():
                check_statistic(self.game, statistic, "settings")
                if not (np.isfinite(weight) and weight > 0):
                    raise ValueError(f"settings: {statistic} needs a positive finite weight, got {weight!r}")
        if not 0 < self.variation < 0.5:
            raise ValueError(
                "variation: needs a number strictly between 0 and 0.5, so that twice that leaves weights positive; "
                f"got {self.variation!r}"
            )
        low, high = self.change_percentage
        if not 0 < low <= high <= 1:
            raise ValueError(f"change_percentage: need 0 < low <= high <= 1, got {self.change_percentage}")

    def _draw(self, split: str, count: int, rng: np.random.Generator, paired: bool) -> NDArray[np.float64]:
        """Rows: number of the setting, change percentage, relative change of every term of the game."""
        terms = len(get_game(self.split_game(split)).terms)
        setting = rng.integers(len(self._split_settings(split)), size=count)
        low, high = self.change_percentage
        change = rng.uniform(low, high, size=count)
        relative = rng.uniform(-self.variation, self.variation, size=(count, terms))
        if split == EXTRAPOLATION:  # outside ± variation in every weight, up to twice as far
            relative += np.copysign(self.variation, relative)
        return np.column_stack([setting, change, relative])

    def _split_settings(self, split: str) -> tuple[dict[str, float], ...]:
        return WEIGHT_SETTINGS[self.held_out_game] if split == HELD_OUT_GAME else self.settings

    def _batch(self, split: str, rows: NDArray[np.float64]) -> TaskBatch:
        game, settings = get_game(self.split_game(split)), self._split_settings(split)
        table = np.tile(game.weights, (len(rows), 1))
        for task, row in enumerate(rows):
            for statistic, weight in settings[int(row[0])].items():
                term = game.terms.index(statistic)
                table[task, term] = weight * (1 + row[2 + term])
        varied = [term for term, name in enumerate(game.terms) if any(name in setting for setting in settings)]
        parameters = np.column_stack([table[:, varied], rows[:, 1]])
        largest = np.max(
            [[setting.get(game.terms[t], game.weights[t]) for t in varied] for setting in settings], axis=0
        )
        return TaskBatch(
            **self._settings(split),
            weights=table,
            low=np.tile(game.low, (len(rows), 1)),
            high=np.tile(game.high, (len(rows), 1)),
            change_percentage=rows[:, 1],
            stop_at_goal=True,
            parameters=parameters,
            parameter_names=(*(f"weight({game.terms[t]})" for t in varied), "change_percentage"),
            features=parameters / np.append(largest, 1.0),
        )


def weights(
    game: str = "binary",
    representation: str = "narrow",
    settings: Sequence[Mapping[str, float]] | None = None,
    *,
    variation: float = 0.2,
    change_percentage: tuple[float, float] = (0.2, 0.8),
    held_out_representation: str | None = None,
    held_out_game: str | None = None,
    num_train_tasks: int | None = None,
    train_seed: int = 0,
    horizon: int = 60,
    size: tuple[int, int] | None = None,
) -> WeightsFamily:
    """Positive weights ± 20 % around three settings, with gym-pcgrl's ranges and goals.

    Extrapolation draws every weight from 20–40 % away, up or down.

    Args:
        game, representation: what training uses.
        settings: mappings from statistic to weight; None for :data:`WEIGHT_SETTINGS`. Other terms keep the game's
            weights.
        variation: largest relative change of a weight in training.
        change_percentage: (low, high) of the share of cells that an episode may change, drawn uniformly per task.
        held_out_representation, held_out_game, num_train_tasks, train_seed, horizon, size: as in :func:`direction`.

    Raises:
        ValueError: naming the setting that is wrong.
    """
    names = _defaults(game, representation, held_out_representation, held_out_game)
    chosen = WEIGHT_SETTINGS[game] if settings is None else settings
    return WeightsFamily(
        **names,
        settings=tuple(dict(setting) for setting in chosen),
        variation=variation,
        change_percentage=tuple(change_percentage),
        held_out_fraction=0.5,  # ± 20 % of ± 40 %
        num_train_tasks=num_train_tasks,
        train_seed=train_seed,
        horizon=horizon,
        size=size,
    )


# -------------------------------------------------------------------------------------------------------------- target


@dataclass(frozen=True, kw_only=True)
class TargetFamily(TaskFamily):
    """Hidden target values of one statistic; made by :func:`target`.

    Attributes:
        statistic: its name.
        lowest, highest: range of the targets, both included.
    """

    statistic: str
    lowest: int
    highest: int

    name: ClassVar[str] = "target"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_statistic(self.game, self.statistic, "statistic")
        check_count("lowest", self.lowest, minimum=0)
        check_count("highest", self.highest, minimum=0)
        for split in (TRAIN, INTERPOLATION, EXTRAPOLATION):
            if len(self.targets(split)) == 0:
                raise ValueError(
                    f"highest: the range {self.lowest} … {self.highest} with held_out_fraction "
                    f"{self.held_out_fraction} leaves no target for {split}; widen it"
                )

    def targets(self, split: str) -> NDArray[np.int64]:
        """The target values of a split, in ascending order.

        The outer values at both ends (together ``held_out_fraction`` of the range) are for extrapolation; of the
        middle, every third value is for interpolation, the others for training, the first and the last among them.
        """
        statistic, lowest, highest = self._range(check_split(split))
        values = np.arange(lowest, highest + 1)
        if split == HELD_OUT_GAME:
            return values
        outer = round(len(values) * self.held_out_fraction / 2)
        if split == EXTRAPOLATION:
            return np.concatenate([values[:outer], values[len(values) - outer :]])
        middle = values[outer : len(values) - outer]
        position = np.arange(len(middle))
        fresh = (position % 3 == 1) & (position < len(middle) - 1)
        return middle[~fresh] if split == TRAIN else middle[fresh]

    def _range(self, split: str) -> tuple[str, int, int]:
        if split == HELD_OUT_GAME:
            return DEFAULT_TARGETS[self.held_out_game]
        return self.statistic, self.lowest, self.highest

    def _draw(self, split: str, count: int, rng: np.random.Generator, paired: bool) -> NDArray[np.float64]:
        return rng.choice(self.targets(split), size=(count, 1)).astype(np.float64)

    def _batch(self, split: str, rows: NDArray[np.float64]) -> TaskBatch:
        statistic, lowest, highest = self._range(split)
        game = self.split_game(split)
        tasks = _plain_deltas(np.ones_like(rows), game, [statistic])
        term = get_game(game).terms.index(statistic)
        low, high = tasks["low"].copy(), tasks["high"].copy()
        low[:, term] = high[:, term] = rows[:, 0]
        return TaskBatch(
            **self._settings(split),
            **{**tasks, "low": low, "high": high},
            parameters=rows,
            parameter_names=(f"target({statistic})",),
            features=(2 * rows - lowest - highest) / (highest - lowest),
        )


def target(
    game: str = "binary",
    representation: str = "narrow",
    statistic: str | None = None,
    *,
    lowest: int | None = None,
    highest: int | None = None,
    held_out_fraction: float = 0.25,
    held_out_representation: str | None = None,
    held_out_game: str | None = None,
    num_train_tasks: int | None = None,
    train_seed: int = 0,
    horizon: int = 60,
    size: tuple[int, int] | None = None,
) -> TargetFamily:
    """A hidden target value of one statistic; reward = decrease of the distance to it, weight 1, no goal.

    Args:
        game, representation: what training uses.
        statistic: None for the one in :data:`DEFAULT_TARGETS`.
        lowest, highest: range of the targets; needed for any other statistic.
        held_out_fraction: share of the range, half at either end, that is kept for extrapolation.
        held_out_representation, held_out_game, num_train_tasks, train_seed, horizon, size: as in :func:`direction`.

    Raises:
        ValueError: naming the setting that is wrong.
    """
    names = _defaults(game, representation, held_out_representation, held_out_game)
    default, default_lowest, default_highest = DEFAULT_TARGETS[game]
    statistic = default if statistic is None else statistic
    check_statistic(game, statistic, "statistic")
    if statistic != default and (lowest is None or highest is None):
        raise ValueError(f"lowest, highest: {statistic!r} of {game} has no default range of targets; give both")
    return TargetFamily(
        **names,
        statistic=statistic,
        lowest=default_lowest if lowest is None else lowest,
        highest=default_highest if highest is None else highest,
        held_out_fraction=held_out_fraction,
        num_train_tasks=num_train_tasks,
        train_seed=train_seed,
        horizon=horizon,
        size=size,
    )


# ------------------------------------------------------------------------------------------------------------ together


class Mixture:
    """Several families at once, for example one per game, so that one policy trains on all of them.

    Args:
        families: at least one.
    """

    def __init__(self, families: Sequence[TaskFamily]) -> None:
        if not families:
            raise ValueError("families: need at least one")
        self.families = tuple(families)

    def sample(self, split: str, num_tasks: int, seed: Seed) -> list[TaskBatch]:
        """``num_tasks`` tasks shared out evenly, the remainder to the first families; one batch per family."""
        check_count("num_tasks", num_tasks)
        root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        batches = []
        for index, family in enumerate(self.families):
            count = num_tasks // len(self.families) + (index < num_tasks % len(self.families))
            if count:
                own = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, index))
                batches.append(family.sample(split, count, own))
        return batches


FAMILIES = {"direction": direction, "weights": weights, "target": target}
"""Family name → the function that makes it."""


def make_family(name: str, game: str = "binary", representation: str = "narrow", **settings: Any) -> TaskFamily:
    """A family by name, for settings that come from a file or a command line; ValueError for an unknown name."""
    if name not in FAMILIES:
        raise ValueError(f"family: unknown name {name!r}, choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name](game, representation, **settings)

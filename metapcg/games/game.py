"""The description of a game: its tiles, statistics, reward terms and default settings, as plain constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

MAX_SIDE = 32  # the largest width or height of a level; rows fit into 64-bit words with room to shift


@dataclass(frozen=True, eq=False)
class Game:
    """What a level of one game consists of and how it is scored.

    Attributes:
        name: ``"binary"``, ``"zelda"`` or ``"sokoban"``.
        index: the number by which the numba kernels know the game.
        tiles: names of the tiles; a tile's position is its number in a map.
        codes: (tiles,) uint8, own tile number → union code of `metapcg.games.tiles`.
        default_size: (width, height) in cells.
        probabilities: (tiles,) float64, default start probabilities, summing to 1.
        statistics: names of the statistics, in the order in which `metapcg.games.evaluate` writes them.
        terms: names of the reward terms, one per statistic and in the same order.
        weights: (terms,) float64, gym-pcgrl's default reward weights.
        low, high: (terms,) float64, the range in which a statistic should lie. ``low = high = inf`` rewards every
            increase, ``low = high = -inf`` every decrease.
        parameters: defaults of the game's settings by name. `parameter_array` lays them out in this order.
        low_parameters, high_parameters: term → name of the parameter that sets its lower or upper bound.
    """

    name: str
    index: int
    tiles: tuple[str, ...]
    codes: np.ndarray
    default_size: tuple[int, int]
    probabilities: np.ndarray
    statistics: tuple[str, ...]
    terms: tuple[str, ...]
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    parameters: Mapping[str, float]
    low_parameters: Mapping[str, str] = field(default_factory=dict)
    high_parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        for name in ("codes", "probabilities", "weights", "low", "high"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for name in ("parameters", "low_parameters", "high_parameters"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def num_tiles(self) -> int:
        """Number of tile kinds, and of legal values in a map."""
        return len(self.tiles)

    def parameter_array(self, **overrides: float) -> np.ndarray:
        """The game's settings as `metapcg.games.goal_reached` takes them.

        Args:
            **overrides: values that replace the defaults, by parameter name.

        Returns:
            (parameters,) float64, in the order of `parameters`.

        Raises:
            ValueError: for a name that the game lacks or a value that is not a non-negative finite number.
        """
        values = dict(self.parameters)
        for name, value in overrides.items():
            if name not in values:
                raise ValueError(f"{self.name} has no parameter {name!r}; it has {', '.join(values)}")
            if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
                raise ValueError(f"{self.name}: {name} must be a number, got {value!r}")
            if not np.isfinite(value) or value < 0:
                raise ValueError(f"{self.name}: {name} must be finite and not negative, got {value!r}")
            values[name] = float(value)
        return np.array(list(values.values()), dtype=np.float64)

    def bounds(self, **overrides: float) -> tuple[np.ndarray, np.ndarray]:
        """Ranges of the reward terms under the given settings.

        Args:
            **overrides: parameter values as in `parameter_array`.

        Returns:
            low, high: (terms,) float64 each.

        Raises:
            ValueError: as `parameter_array`, or if a lower bound would lie above its upper bound.
        """
        values = dict(zip(self.parameters, self.parameter_array(**overrides), strict=True))
        low, high = self.low.copy(), self.high.copy()
        for bound, names in ((low, self.low_parameters), (high, self.high_parameters)):
            for term, name in names.items():
                bound[self.terms.index(term)] = values[name]
        for term, lower, upper in zip(self.terms, low, high, strict=True):
            if lower > upper:
                setting = self.high_parameters.get(term, self.low_parameters.get(term, term))
                raise ValueError(f"{self.name}: {setting} makes the range of {term} empty: [{lower:g}, {upper:g}]")
        return low, high

    def check_level(self, level: np.ndarray) -> np.ndarray:
        """A level as the kernels take it.

        Args:
            level: (height, width) integers, own tile numbers.

        Returns:
            (height, width) uint8, C-contiguous.

        Raises:
            ValueError: if the array has not two axes of 1..32 cells or holds a number that is no tile of the game.
        """
        array = np.asarray(level)
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise ValueError(f"level must be a 2-D integer array, got shape {array.shape} of {array.dtype}")
        if not (1 <= array.shape[0] <= MAX_SIDE and 1 <= array.shape[1] <= MAX_SIDE):
            raise ValueError(f"level must have 1 to {MAX_SIDE} cells each way, got (height, width) = {array.shape}")
        if array.min() < 0 or array.max() >= self.num_tiles:
            raise ValueError(f"level holds a tile outside 0..{self.num_tiles - 1} of {self.name}")
        return np.ascontiguousarray(array, dtype=np.uint8)

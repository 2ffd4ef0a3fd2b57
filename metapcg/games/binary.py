"""Binary: dig one connected maze with a long shortest path. (Docstring to be completed.)"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.game import Game
from metapcg.games.paths import regions_and_double_sweep, regions_and_longest_path, tile_set

EMPTY, SOLID = range(2)
PASSABLE = tile_set(EMPTY)

BINARY = Game(
    name="binary",
    index=0,
    tiles=("empty", "solid"),
    codes=np.array([tiles.EMPTY, tiles.SOLID], np.uint8),
    default_size=(14, 14),
    probabilities=np.array([0.5, 0.5]),
    statistics=("regions", "path-length"),
    terms=("regions", "path-length"),
    weights=np.array([5.0, 1.0]),
    low=np.array([1.0, np.inf]),
    high=np.array([1.0, np.inf]),
    parameters={"target_path": 20.0},
)


@njit(cache=True, nogil=True, inline="always")
def evaluate_binary(level, quirks, stats):
    """Writes (regions, path-length) of a (H, W) uint8 level into stats, (2,) int64."""
    if quirks:
        stats[0], stats[1] = regions_and_double_sweep(level, PASSABLE)
    else:
        stats[0], stats[1] = regions_and_longest_path(level, PASSABLE)


@njit(cache=True, nogil=True)
def binary_goal(stats, start_stats, params):
    """One region, and a path at least target_path steps longer than the start's."""
    return stats[0] == 1 and stats[1] - start_stats[1] >= params[0]

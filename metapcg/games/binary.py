"""Binary: dig one connected maze with a long way through it.

Description
-----------
A level of empty (0) and solid (1) cells, 14 × 14 by default. Two statistics:

``regions``: number of sets of empty cells connected through the four neighbours.
``path-length``: the longest shortest path between two connected empty cells, in steps; 0 without an empty cell.

Action Space
------------
narrow: ``Discrete(3)``, 0 leaves the cell as it is, a > 0 writes tile a-1 at the present position.
turtle: ``Discrete(6)``, 0 left, 1 right, 2 up, 3 down, 4+t writes tile t at the present position.
wide: ``MultiDiscrete([width, height, 2])``, x, y and the tile to write there.

Observation Space
-----------------
``Dict`` of ``map``, uint8 (height, width), tile numbers; ``heatmap``, uint16 (height, width), how often each cell was
changed; and except for wide ``pos``, uint8 (2,), the position [x, y].

Rewards
-------
For each changed tile, how much nearer each statistic came to its range, times its weight: ``regions`` in [1, 1],
weight 5; ``path-length`` as large as possible, weight 1 (each step longer earns 1).

Starting State
--------------
Every cell is drawn independently, empty and solid with probability 0.5 each (environments with ``random_probs`` draw
the share of empty cells anew for every level).

Episode End
-----------
Goal: one region, and a path at least ``target_path`` steps longer than that of the episode's first level. Otherwise
the episode ends when its changes or iterations are used up.

Arguments
---------
``target_path`` (20): steps by which the path must grow.

Differences from gym-pcgrl
--------------------------
``quirks="gym-pcgrl"`` reproduces these exactly:

``double-sweep``
    ``path-length`` is what two breadth-first searches find: from the first cell of a region to the farthest, and from
    there to the farthest again (first in row-major order). That is below the true length in about one level of ten
    and depends on the start cell, so that an edit elsewhere can change it. Default: exact.
``jump-across-the-range``
    A statistic that jumps from below its range to above it earns high - new + old - low (and the mirror image), which
    no sequence of smaller steps would earn. Default: the decrease of the distance to the range, so that the rewards
    of an episode sum to the potential of its last level minus that of its first.

Version History
---------------
v0: first version.
"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.bitboard import DOUBLE_SWEEP, EXACT
from metapcg.games.game import Game
from metapcg.games.paths import regions_and_path, tile_set

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
    stats[0], stats[1] = regions_and_path(level, PASSABLE, DOUBLE_SWEEP if quirks else EXACT)


@njit(cache=True, nogil=True, inline="always")
def binary_goal(stats, start_stats, params):
    """One region, and a path at least target_path steps longer than the start's."""
    return stats[0] == 1 and stats[1] - start_stats[1] >= params[0]

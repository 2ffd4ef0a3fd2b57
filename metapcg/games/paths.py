"""Regions and shortest paths of a level with four neighbours a cell, in steps.

A set of tile kinds is a uint64 with one bit per tile number (see `tile_set`). Levels up to 15 wide and 16 high, which
covers the default size of every game, are searched by `metapcg.games.bitboard`, larger ones by `metapcg.games.bitrows`.
"""

import numpy as np
from numba import njit

from metapcg.games import bitboard, bitrows
from metapcg.games.bitboard import COUNT


def tile_set(*tiles):
    """The set of these tile numbers: one bit each in a uint64."""
    return np.uint64(sum(1 << tile for tile in set(tiles)))


@njit(cache=True, nogil=True, inline="always")
def is_small(level):
    return level.shape[0] <= bitboard.MAX_HEIGHT and level.shape[1] <= bitboard.MAX_WIDTH


@njit(cache=True, nogil=True, inline="always")
def regions_and_path(level, passable, kind):
    """Number of connected sets of passable cells (regions) and the length of the longest path.

    Args:
        level: (H, W) uint8, 1..32 each way.
        passable: uint64 set of tiles.
        kind: COUNT finds no path. EXACT finds the longest shortest path between two connected cells (the largest
            diameter of a region). DOUBLE_SWEEP does what gym-pcgrl does, in each region from its first cell in
            row-major order to the farthest cell (first in row-major order among equals), and from there to the
            farthest again: the largest such distance is a lower bound of the longest shortest path.

    Returns:
        (int, int): regions, path length in steps (0 without a passable cell, and for COUNT).
    """
    if is_small(level):
        return bitboard.regions_and_path(bitboard.read_cells(level, passable), kind)
    return bitrows.regions_and_path(bitrows.read_cells(level, passable), kind)


@njit(cache=True, nogil=True)
def sets_beside(level, x, y, passable):
    """Number of sets of passable cells beside (x, y) that hang together within the eight cells round it.

    With none, the cell is a region of its own when it is passable; with one, there are as many regions whether it is
    passable or not; with more, only a search can tell.

    Args:
        level: (H, W) uint8.
        x, y: a cell.
        passable: uint64 set of tiles.
    """
    height, width = level.shape
    ring = 0  # bits: above, above right, right, and so on clockwise
    if y > 0:
        ring |= is_among(level[y - 1, x], passable)
        if x + 1 < width:
            ring |= is_among(level[y - 1, x + 1], passable) << 1
        if x > 0:
            ring |= is_among(level[y - 1, x - 1], passable) << 7
    if x + 1 < width:
        ring |= is_among(level[y, x + 1], passable) << 2
    if y + 1 < height:
        if x + 1 < width:
            ring |= is_among(level[y + 1, x + 1], passable) << 3
        ring |= is_among(level[y + 1, x], passable) << 4
        if x > 0:
            ring |= is_among(level[y + 1, x - 1], passable) << 5
    if x > 0:
        ring |= is_among(level[y, x - 1], passable) << 6
    beside = ring & 0b01010101
    corners = ring >> 1 & 0b01010101
    following = beside >> 2 | (beside & 1) << 6
    joined = beside & corners & following
    sets = count_of_four(beside) - count_of_four(joined)
    return 1 if beside and sets == 0 else sets  # 0 only if all four are joined in a ring


@njit(cache=True, nogil=True, inline="always")
def is_among(tile, kinds):
    """1 if the tile's bit is set in `kinds`, else 0."""
    return np.int64(kinds >> np.uint64(tile)) & 1


@njit(cache=True, nogil=True, inline="always")
def count_of_four(bits):
    """Number of set bits among bits 0, 2, 4 and 6."""
    return (bits & 1) + (bits >> 2 & 1) + (bits >> 4 & 1) + (bits >> 6 & 1)


@njit(cache=True, nogil=True, inline="always")
def regions_after_change(level, x, y, before, regions, passable):
    """Number of connected sets of passable cells after one cell was changed.

    Args:
        level: (H, W) uint8, 1..32 each way, already changed.
        x, y: the cell.
        before: tile number that the cell had; -1 if the whole level is new.
        regions: number of regions before.
        passable: uint64 set of tiles.
    """
    if before >= 0:
        opened = is_among(level[y, x], passable) - is_among(before, passable)
        if opened == 0:
            return regions
        sets = sets_beside(level, x, y, passable)
        if sets == 0:
            return regions + opened
        if sets == 1:
            return regions
    return regions_and_path(level, passable, COUNT)[0]


@njit(cache=True, nogil=True)
def steps_between(level, start, goal, passable):
    """Length of a shortest path from the one cell of a kind to the nearest cell of other kinds.

    Args:
        level: (H, W) uint8, 1..32 each way, with exactly one cell whose tile is in `start`.
        start, goal, passable: uint64 sets of tiles. The start itself need not be passable; a goal must be to be
            reached.

    Returns:
        int: steps, -1 if no goal can be reached.
    """
    if is_small(level):
        return bitboard.steps_between(
            bitboard.read_cells(level, start), bitboard.read_cells(level, goal), bitboard.read_cells(level, passable)
        )
    return bitrows.steps_between(
        bitrows.read_cells(level, start), bitrows.read_cells(level, goal), bitrows.read_cells(level, passable)
    )

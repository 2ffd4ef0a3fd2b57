"""Regions and shortest paths of a level with four neighbours a cell, in steps.

A set of tile kinds is a uint64 with one bit per tile number (see `tile_set`). Levels up to 15 wide and 16 high, which
covers the default size of every game, are searched by `metapcg.games.bitboard`, larger ones by `metapcg.games.bitrows`.
"""

import numpy as np
from numba import njit

from metapcg.games import bitboard, bitrows


def tile_set(*tiles):
    """The set of these tile numbers: one bit each in a uint64."""
    return np.uint64(sum(1 << tile for tile in set(tiles)))


@njit(cache=True, nogil=True, inline="always")
def is_small(level):
    return level.shape[0] <= bitboard.MAX_HEIGHT and level.shape[1] <= bitboard.MAX_WIDTH


@njit(cache=True, nogil=True, inline="always")
def count_regions(level, passable):
    """Number of connected sets of passable cells.

    Args:
        level: (H, W) uint8, 1..32 each way.
        passable: uint64 set of tiles.
    """
    if is_small(level):
        return bitboard.count_regions(bitboard.read_cells(level, passable))
    return bitrows.count_regions(bitrows.read_cells(level, passable))


@njit(cache=True, nogil=True, inline="always")
def regions_and_double_sweep(level, passable):
    """Number of regions and gym-pcgrl's path length.

    Per region: from its first cell in row-major order to the farthest cell (first in row-major order among equals),
    and from there to the farthest again. The largest such distance is a lower bound of the longest shortest path.

    Args:
        level: (H, W) uint8, 1..32 each way.
        passable: uint64 set of tiles.

    Returns:
        (int, int): regions, path length in steps (0 without a passable cell).
    """
    if is_small(level):
        return bitboard.regions_and_double_sweep(bitboard.read_cells(level, passable))
    return bitrows.regions_and_double_sweep(bitrows.read_cells(level, passable))


@njit(cache=True, nogil=True, inline="always")
def regions_and_longest_path(level, passable):
    """Number of regions and the longest shortest path between two connected cells (the largest diameter of a region).

    Args and returns as `regions_and_double_sweep`; the path length is exact.
    """
    if is_small(level):
        return bitboard.regions_and_longest_path(bitboard.read_cells(level, passable))
    return bitrows.regions_and_longest_path(bitrows.read_cells(level, passable))


@njit(cache=True, nogil=True, inline="always")
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

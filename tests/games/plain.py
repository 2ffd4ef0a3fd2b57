"""Every game's statistics in their plain form: queues, whole levels, nothing kept. What the fast kernels must equal.

Compiled only so that a million levels take minutes. Nothing here calls a kernel of the package: numba's cache would not
notice that one had changed.
"""

import numpy as np
from numba import njit
from plain_solver import solve_level
from reference import distances, regions_and_paths

from metapcg.games import GAMES


@njit(cache=True)
def plain_zelda(level, quirks, stats):
    height, width = level.shape
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    where = np.zeros(8, np.int64)
    stats[:] = 0
    for cell in range(height * width):
        tile = level[cell // width, cell % width]
        where[tile] = cell
        if tile >= 2:
            stats[min(tile - 2, 3)] += 1
    passable = (level != 1) & (level != 4)
    stats[4] = regions_and_paths(passable)[0]
    if stats[0] != 1 or stats[4] != 1:
        return
    player, key, door = where[2], where[3], where[4]
    distances(passable, player // width, player % width, dist, queue)
    to_key = dist[key // width, key % width]
    if stats[3] > 0:
        if quirks:
            distances(passable & (level != 3), player // width, player % width, dist, queue)
        nearest = -1
        for y in range(height):
            for x in range(width):
                if level[y, x] >= 5 and dist[y, x] >= 0 and (nearest < 0 or dist[y, x] < nearest):
                    nearest = dist[y, x]
        if nearest >= 0:
            stats[5] = nearest
        elif quirks:
            stats[5] = width * height
    if stats[1] == 1 and stats[2] == 1:
        distances(level != 1, key // width, key % width, dist, queue)
        to_door = dist[door // width, door % width]
        if quirks or (to_key >= 0 and to_door >= 0):
            stats[6] = to_key + to_door


@njit(cache=True)
def plain_sokoban(level, power, quirks, stats):
    height, width = level.shape
    for tile in (2, 3, 4):
        stats[tile - 2] = (level == tile).sum()
    stats[3] = regions_and_paths(level != 1)[0]
    stats[4] = abs(stats[1] - stats[2])
    stats[5] = width * height * (width + height)
    stats[6] = 0
    if stats[0] == 1 and stats[1] == stats[2] and stats[1] > 0 and stats[3] == 1:
        _, stats[5], moves = solve_level(level, power, quirks)
        stats[6] = moves.shape[0]


@njit(cache=True)
def write_plain(game_index, levels, power, quirks, stats):
    for n in range(levels.shape[0]):
        if game_index == 0:
            regions, double_sweep, longest = regions_and_paths(levels[n] == 0)
            stats[n, 0] = regions
            stats[n, 1] = double_sweep if quirks else longest
        elif game_index == 1:
            plain_zelda(levels[n], quirks, stats[n])
        else:
            plain_sokoban(levels[n], power, quirks, stats[n])


def plain_statistics(game, levels, power, quirks):
    """Statistics of levels (N, H, W) uint8, (N, S) int64."""
    stats = np.full((len(levels), len(GAMES[game].statistics)), -7, np.int64)
    write_plain(GAMES[game].index, levels, power, quirks, stats)
    return stats

"""Zelda: a player, a key, a door and enemies. (Docstring to be completed.)"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.game import Game
from metapcg.games.paths import count_regions, distances

EMPTY, SOLID, PLAYER, KEY, DOOR, BAT, SCORPION, SPIDER = range(8)

ZELDA = Game(
    name="zelda",
    index=1,
    tiles=("empty", "solid", "player", "key", "door", "bat", "scorpion", "spider"),
    codes=np.array(
        [tiles.EMPTY, tiles.SOLID, tiles.PLAYER, tiles.KEY, tiles.DOOR, tiles.BAT, tiles.SCORPION, tiles.SPIDER],
        np.uint8,
    ),
    default_size=(11, 7),
    probabilities=np.array([0.58, 0.30, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02]),
    statistics=("player", "key", "door", "enemies", "regions", "nearest-enemy", "path-length"),
    terms=("player", "key", "door", "enemies", "regions", "nearest-enemy", "path-length"),
    weights=np.array([3.0, 3.0, 3.0, 1.0, 5.0, 2.0, 1.0]),
    low=np.array([1.0, 1.0, 1.0, 2.0, 1.0, 4.0, np.inf]),
    high=np.array([1.0, 1.0, 1.0, 5.0, 1.0, np.inf, np.inf]),
    parameters={"target_enemy_dist": 4.0, "target_path": 16.0, "max_enemies": 5.0},
    low_parameters={"nearest-enemy": "target_enemy_dist"},
    high_parameters={"enemies": "max_enemies"},
)


@njit(cache=True, nogil=True)
def evaluate_zelda(level, quirks, stats):
    """Writes (player, key, door, enemies, regions, nearest-enemy, path-length) of a (H, W) uint8 level into stats."""
    height, width = level.shape
    stats[:] = 0
    player_y = player_x = key_y = key_x = door_y = door_x = 0
    for y in range(height):
        for x in range(width):
            tile = level[y, x]
            if tile == PLAYER:
                stats[0] += 1
                player_y, player_x = y, x
            elif tile == KEY:
                stats[1] += 1
                key_y, key_x = y, x
            elif tile == DOOR:
                stats[2] += 1
                door_y, door_x = y, x
            elif tile >= BAT:
                stats[3] += 1
    passable = (level != SOLID) & (level != DOOR)
    stats[4] = count_regions(passable)
    if stats[0] != 1 or stats[4] != 1:
        return
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    if stats[3] > 0:
        if quirks:
            distances(passable & (level != KEY), player_y, player_x, dist, queue)
        else:
            distances(passable, player_y, player_x, dist, queue)
        nearest = width * height
        for y in range(height):
            for x in range(width):
                if level[y, x] >= BAT and 0 < dist[y, x] < nearest:
                    nearest = dist[y, x]
        if quirks or nearest < width * height:
            stats[5] = nearest
    if stats[1] == 1 and stats[2] == 1:
        distances(passable, player_y, player_x, dist, queue)
        to_key = dist[key_y, key_x]
        distances(level != SOLID, key_y, key_x, dist, queue)
        to_door = dist[door_y, door_x]
        if quirks or (to_key >= 0 and to_door >= 0):
            stats[6] = to_key + to_door


@njit(cache=True, nogil=True)
def zelda_goal(stats, params, quirks):
    """Enemies far enough and a long enough path; by default also a playable level: counts in range, one region."""
    if stats[5] < params[0] or stats[6] < params[1]:
        return False
    if quirks:
        return True
    one_each = stats[0] == 1 and stats[1] == 1 and stats[2] == 1 and stats[4] == 1
    return one_each and 2 <= stats[3] <= params[2]

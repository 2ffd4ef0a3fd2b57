"""Zelda: a player, a key, a door and enemies. (Docstring to be completed.)"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.game import Game
from metapcg.games.paths import count_regions, steps_between, tile_set

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


ENEMIES = tile_set(BAT, SCORPION, SPIDER)
OPEN = tile_set(EMPTY, PLAYER, KEY, BAT, SCORPION, SPIDER)  # what regions and the way to the key are made of
OPEN_BUT_KEY = tile_set(EMPTY, PLAYER, BAT, SCORPION, SPIDER)
NOT_SOLID = tile_set(EMPTY, PLAYER, KEY, DOOR, BAT, SCORPION, SPIDER)
THE_PLAYER = tile_set(PLAYER)
THE_KEY = tile_set(KEY)
THE_DOOR = tile_set(DOOR)


@njit(cache=True, nogil=True, inline="always")
def evaluate_zelda(level, quirks, stats):
    """Writes (player, key, door, enemies, regions, nearest-enemy, path-length) of a (H, W) uint8 level into stats."""
    height, width = level.shape
    players = keys = doors = enemies = 0
    for y in range(height):
        for x in range(width):
            tile = level[y, x]
            players += tile == PLAYER
            keys += tile == KEY
            doors += tile == DOOR
            enemies += tile >= BAT
    stats[0] = players
    stats[1] = keys
    stats[2] = doors
    stats[3] = enemies
    stats[4] = count_regions(level, OPEN)
    stats[5] = 0
    stats[6] = 0
    if players != 1 or stats[4] != 1:
        return
    if enemies > 0:
        nearest = steps_between(level, THE_PLAYER, ENEMIES, OPEN_BUT_KEY if quirks else OPEN)
        if nearest >= 0:
            stats[5] = nearest
        elif quirks:
            stats[5] = width * height
    if keys == 1 and doors == 1:
        to_key = steps_between(level, THE_PLAYER, THE_KEY, OPEN)
        to_door = steps_between(level, THE_KEY, THE_DOOR, NOT_SOLID)
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

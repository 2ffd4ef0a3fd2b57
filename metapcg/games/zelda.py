"""Zelda: a player must fetch the key and reach the door, and enemies must not stand too near.

Description
-----------
A level of empty (0), solid (1), player (2), key (3), door (4), bat (5), scorpion (6) and spider (7) cells, 11 wide
and 7 high by default. Statistics:

``player``, ``key``, ``door``, ``enemies``: how many there are (enemies: bats, scorpions and spiders together).
``regions``: number of sets of cells connected through the four neighbours, over all cells but solid and door.
``nearest-enemy``: steps from the player to the nearest enemy, on any cell but solid and door; 0 without an enemy that
can be reached.
``path-length``: steps from the player to the key (not through the door) plus steps from the key to the door; 0 if a
leg cannot be walked, or without exactly one key and one door.

``nearest-enemy`` and ``path-length`` are 0 unless there is exactly one player and one region.

Action Space
------------
narrow: ``Discrete(9)``, 0 leaves the cell as it is, a > 0 writes tile a-1 at the present position.
turtle: ``Discrete(12)``, 0 left, 1 right, 2 up, 3 down, 4+t writes tile t at the present position.
wide: ``MultiDiscrete([width, height, 8])``, x, y and the tile to write there.

Observation Space
-----------------
``Dict`` of ``map``, uint8 (height, width), tile numbers; ``heatmap``, uint16 (height, width), how often each cell was
changed; and except for wide ``pos``, uint8 (2,), the position [x, y].

Rewards
-------
For each changed tile, how much nearer each statistic came to its range, times its weight: ``player``, ``key`` and
``door`` in [1, 1], weight 3 each; ``enemies`` in [2, ``max_enemies``], weight 1; ``regions`` in [1, 1], weight 5;
``nearest-enemy`` at least ``target_enemy_dist``, weight 2; ``path-length`` as large as possible, weight 1.

Starting State
--------------
Every cell is drawn independently: empty 0.58, solid 0.30, each other tile 0.02.

Episode End
-----------
Goal: ``nearest-enemy`` at least ``target_enemy_dist`` and ``path-length`` at least ``target_path`` in a playable
level: one player, key, door and region, and enemies in [2, ``max_enemies``]. Otherwise the episode ends when its
changes or iterations are used up.

Arguments
---------
``target_enemy_dist`` (4): least distance of the nearest enemy, in steps.
``target_path`` (16): least length of the way by the key to the door, in steps.
``max_enemies`` (5): largest number of enemies in a good level.

Differences from gym-pcgrl
--------------------------
``quirks="gym-pcgrl"`` reproduces these exactly:

``unreachable-enemies-are-far``
    Enemies of which none can be reached give ``nearest-enemy`` = width * height, a large reward. Default: 0.
``key-blocks-enemies``
    The way to the enemies may not pass over the key. Default: it may.
``sealed-door-counts-minus-one``
    A door that cannot be reached gives ``path-length`` = (steps to the key) - 1. Default: 0.
``goal-ignores-counts``
    The goal asks only for the two distances, so that six enemies are as good as two. Default: as under Episode End.
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
from metapcg.games.game import Game
from metapcg.games.paths import regions_after_change, steps_between, tile_set

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
def evaluate_zelda(level, x, y, before, quirks, stats):
    """Writes (player, key, door, enemies, regions, nearest-enemy, path-length) of a (H, W) uint8 level into stats.

    `before`: the tile that cell (x, y) had when stats, which then hold those of that level, were written; or -1.
    """
    height, width = level.shape
    if before < 0:
        for k in range(4):
            stats[k] = 0
        for row in range(height):
            for column in range(width):
                if level[row, column] >= PLAYER:
                    stats[min(level[row, column], BAT) - PLAYER] += 1
    else:
        if before >= PLAYER:
            stats[min(before, BAT) - PLAYER] -= 1
        if level[y, x] >= PLAYER:
            stats[min(level[y, x], BAT) - PLAYER] += 1
    players = stats[0]
    keys = stats[1]
    doors = stats[2]
    enemies = stats[3]
    stats[4] = regions_after_change(level, x, y, before, stats[4], OPEN)
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


@njit(cache=True, nogil=True, inline="always")
def zelda_goal(stats, params, quirks):
    """Enemies far enough and a long enough path; by default also a playable level: counts in range, one region."""
    if stats[5] < params[0] or stats[6] < params[1]:
        return False
    if quirks:
        return True
    one_each = stats[0] == 1 and stats[1] == 1 and stats[2] == 1 and stats[4] == 1
    return one_each and 2 <= stats[3] <= params[2]

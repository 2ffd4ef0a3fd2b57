"""Tile codes shared by all games.

Each game numbers its own tiles as gym-pcgrl does (maps hold those numbers). Observations that must mean the same in
every game use the union codes below; ``Game.codes`` maps a game's own tile numbers to them.
"""

EMPTY = 0
SOLID = 1
PLAYER = 2
KEY = 3
DOOR = 4
BAT = 5
SCORPION = 6
SPIDER = 7
CRATE = 8
TARGET = 9
OUTSIDE = 10  # beyond the edge of the map; never part of a map

TILE_NAMES = (
    "empty",
    "solid",
    "player",
    "key",
    "door",
    "bat",
    "scorpion",
    "spider",
    "crate",
    "target",
    "outside",
)
NUM_CODES = len(TILE_NAMES)

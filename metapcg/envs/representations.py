"""The three ways an agent edits a level: narrow, turtle and wide (Khalifa et al., "PCGRL", AIIDE 2020).

Each is two small questions: which tile does an action write (``-1`` for none), and where is the agent afterwards. The
numbering of the actions is gym-pcgrl's:

============  ==========================================================  ===================
name          actions                                                     number of actions
============  ==========================================================  ===================
``narrow``    0 leaves the cell as it is, a > 0 writes tile a-1           tiles + 1
``turtle``    0 left, 1 right, 2 up, 3 down, 4+t writes tile t            tiles + 4
``wide``      (y * width + x) * tiles + t writes tile t at cell (x, y)    width * height * tiles
============  ==========================================================  ===================

``narrow`` and ``turtle`` have a position and write there. After every action ``narrow`` is moved on: to a uniformly
random cell, or with ``random_tile=False`` to the next cell in row-major order (from the last one to the first).
``turtle`` moves only by its own actions and at the edge stays where it is, or with ``warp=True`` comes in again on
the other side. ``wide`` has no position. Positions are always [x, y], levels are always indexed [y, x].
"""

from __future__ import annotations

import numpy as np
from numba import njit

REPRESENTATIONS = ("narrow", "turtle", "wide")
NARROW, TURTLE, WIDE = range(3)


def check_representation(name):
    """Return the index of a representation; ValueError that lists the valid names otherwise."""
    if name not in REPRESENTATIONS:
        raise ValueError(f"representation: unknown name {name!r}, choose one of {', '.join(REPRESENTATIONS)}")
    return REPRESENTATIONS.index(name)


def count_actions(representation, num_tiles, width, height):
    """Return the number of actions of a representation (name) on a level of ``width`` x ``height`` cells."""
    index = check_representation(representation)
    return (num_tiles + 1, num_tiles + 4, width * height * num_tiles)[index]


@njit(cache=True, nogil=True, inline="always")
def narrow_tile(action):
    """Return the tile that a narrow action writes, -1 for none."""
    return action - 1


@njit(cache=True, nogil=True, inline="always")
def narrow_next(x, y, width, height):
    """Return the position (x, y) after any narrow action with ``random_tile=False``."""
    x += 1
    if x == width:
        x = np.int64(0)
        y = y + 1 if y + 1 < height else np.int64(0)
    return x, y


@njit(cache=True, nogil=True, inline="always")
def turtle_tile(action):
    """Return the tile that a turtle action writes, -1 for the four moves."""
    return action - 4 if action >= 4 else np.int64(-1)


@njit(cache=True, nogil=True, inline="always")
def turtle_move(action, x, y, width, height, warp):
    """Return the position (x, y) after a turtle action; writing does not move."""
    if action == 0:
        x = x - 1 if x > 0 else (width - 1 if warp else x)
    elif action == 1:
        x = x + 1 if x < width - 1 else (np.int64(0) if warp else x)
    elif action == 2:
        y = y - 1 if y > 0 else (height - 1 if warp else y)
    elif action == 3:
        y = y + 1 if y < height - 1 else (np.int64(0) if warp else y)
    return x, y


@njit(cache=True, nogil=True, inline="always")
def wide_cell(action, width, num_tiles):
    """Return (x, y, tile) of a flat wide action."""
    cell = action // num_tiles
    return cell % width, cell // width, action % num_tiles

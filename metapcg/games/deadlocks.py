"""Squares of a Sokoban room from which a crate can never reach a target, and crates that are lost.

Rooms are flat: cell (y, x) of a room `width` wide, its wall all round included, is number ``y * width + x``.
"""

import numpy as np
from numba import njit

from metapcg.games.memory import flags, words


@njit(cache=True, nogil=True)
def corner_deadlocks(wall, target, width):
    """gym-pcgrl's deadlock squares: corners, and wall-side runs between two corners.

    A corner is a free cell, not a target, with a wall above or below and a wall left or right. If all cells strictly
    between two corners of one row (column) are free, no target and have a wall above or below (left or right), they
    are deadlocks too; the side may change from cell to cell.

    Args:
        wall, target: (cells,) bool, a flat room with a wall all round.
        width: of the room.

    Returns:
        (cells,) bool.
    """
    dead = flags(wall.shape[0])
    corner = flags(wall.shape[0])
    for cell in range(width, wall.shape[0] - width):
        if not wall[cell] and not target[cell]:
            corner[cell] = (wall[cell - width] or wall[cell + width]) and (wall[cell - 1] or wall[cell + 1])
    for start in range(width, wall.shape[0] - width):
        if not corner[start]:
            continue
        dead[start] = True
        for step in (1, width):
            beside = width + 1 - step  # across the run
            cell = start + step
            while not wall[cell] and not target[cell] and (wall[cell - beside] or wall[cell + beside]):
                if corner[cell]:
                    for between in range(start, cell, step):
                        dead[between] = True
                    break
                cell += step
    return dead


@njit(cache=True, nogil=True)
def dead_squares(wall, target, width):
    """Free cells from which a single crate, alone in the room, cannot be pushed to any target.

    Found by pulling a crate backwards from every target (a crate moves from a to b only if the cell behind a, where
    the player stands, is free). Every square of `corner_deadlocks` is among them.

    Args and returns as `corner_deadlocks`.
    """
    dead = flags(wall.shape[0])
    stack = words(wall.shape[0])
    count = 0
    for cell in range(wall.shape[0]):
        dead[cell] = not wall[cell] and not target[cell]
        if target[cell]:
            stack[count] = cell
            count += 1
    while count > 0:
        count -= 1
        cell = stack[count]
        for step in (-1, 1, -width, width):
            # the crate came from cell - step, pushed by a player one further back
            if dead[cell - step] and not wall[cell - 2 * step]:
                dead[cell - step] = False
                stack[count] = cell - step
                count += 1
    return dead


@njit(cache=True, nogil=True)
def frozen_crates(wall, crate, width):
    """Crates that no sequence of pushes can ever move, because walls and each other hold them.

    A crate moves along an axis only if the cells on both sides of it are free: one for the crate, one for the player.
    The answer is the largest set of crates each of which has, along both axes, a wall or a crate of the set on at least
    one side. While all of them stand, none can be the first to move.

    Args:
        wall, crate: (cells,) bool, a flat room with a wall all round.
        width: of the room.

    Returns:
        (cells,) bool.
    """
    frozen = crate.copy()
    changed = True
    while changed:
        changed = False
        for cell in range(wall.shape[0]):
            if frozen[cell]:
                for step in (1, width):
                    left, right = cell - step, cell + step
                    if not (wall[left] or frozen[left] or wall[right] or frozen[right]):
                        frozen[cell] = False
                        changed = True
                        break
    return frozen


@njit(cache=True, nogil=True)
def deadlocked_crates(wall, crate, target, width):
    """Crates that can never reach a target: in a corner, at a wall between two corners, or in a frozen group.

    A crate on a target is never among them, though it may be what holds another one. Every crate found is truly lost,
    wherever the player stands; crates that are lost for other reasons are not found.

    Args:
        wall, crate, target: (cells,) bool, a flat room with a wall all round; a crate may stand on a target.
        width: of the room.

    Returns:
        (cells,) bool.
    """
    return crate & ~target & (corner_deadlocks(wall, target, width) | frozen_crates(wall, crate, width))


@njit(cache=True, nogil=True)
def count_deadlocked_crates(levels, solid, crate, target):
    """Number of deadlocked crates of many levels.

    Args:
        levels: (N, H, W) uint8; what lies outside a level is wall.
        solid, crate, target: the tile numbers of walls, crates and targets; every other tile is floor.

    Returns:
        (N,) int64.
    """
    count, height, width = levels.shape
    result = np.zeros(count, np.int64)
    padded = width + 2
    for n in range(count):
        walls = flags((height + 2) * padded)
        walls[:] = True
        crates = flags((height + 2) * padded)
        targets = flags((height + 2) * padded)
        for y in range(height):
            for x in range(width):
                cell = (y + 1) * padded + x + 1
                tile = levels[n, y, x]
                walls[cell], crates[cell], targets[cell] = tile == solid, tile == crate, tile == target
        result[n] = deadlocked_crates(walls, crates, targets, padded).sum()
    return result

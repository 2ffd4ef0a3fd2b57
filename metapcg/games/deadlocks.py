"""Squares of a Sokoban room from which a crate can never reach a target."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def corner_deadlocks(wall, target):
    """gym-pcgrl's deadlock squares: corners, and wall-side runs between two corners.

    A corner is a free cell, not a target, with a wall above or below and a wall left or right. If all cells strictly
    between two corners of one row (column) are free, no target and have a wall above or below (left or right), they
    are deadlocks too; the side may change from cell to cell.

    Args:
        wall: (H+2, W+2) bool, a room with a wall all round.
        target: (H+2, W+2) bool.

    Returns:
        (H+2, W+2) bool.
    """
    height, width = wall.shape
    beside_row = np.zeros((height, width), np.bool_)  # wall above or below
    beside_column = np.zeros((height, width), np.bool_)  # wall left or right
    corner = np.zeros((height, width), np.bool_)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            if not wall[y, x] and not target[y, x]:
                beside_row[y, x] = wall[y - 1, x] or wall[y + 1, x]
                beside_column[y, x] = wall[y, x - 1] or wall[y, x + 1]
                corner[y, x] = beside_row[y, x] and beside_column[y, x]
    dead = corner.copy()
    for y in range(1, height - 1):
        last = -1  # the corner from which an unbroken run along a wall leads here
        for x in range(1, width - 1):
            if corner[y, x]:
                if last >= 0:
                    dead[y, last:x] = True
                last = x
            elif not beside_row[y, x]:
                last = -1
    for x in range(1, width - 1):
        last = -1
        for y in range(1, height - 1):
            if corner[y, x]:
                if last >= 0:
                    dead[last:y, x] = True
                last = y
            elif not beside_column[y, x]:
                last = -1
    return dead


@njit(cache=True, nogil=True)
def dead_squares(wall, target):
    """Free cells from which a single crate, alone in the room, cannot be pushed to any target.

    Found by pulling a crate backwards from every target (a crate moves from a to b only if the cell behind a, where
    the player stands, is free). Every square of `corner_deadlocks` is among them.

    Args:
        wall: (H+2, W+2) bool, a room with a wall all round.
        target: (H+2, W+2) bool.

    Returns:
        (H+2, W+2) bool.
    """
    height, width = wall.shape
    alive = np.zeros((height, width), np.bool_)
    stack = np.empty(height * width, np.int64)
    count = 0
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            if target[y, x] and not wall[y, x]:
                alive[y, x] = True
                stack[count] = y * width + x
                count += 1
    while count > 0:
        count -= 1
        y = stack[count] // width
        x = stack[count] % width
        for direction in range(4):
            dy = (0, 0, -1, 1)[direction]
            dx = (-1, 1, 0, 0)[direction]
            # the crate came from (y - dy, x - dx), pushed by a player one further back
            if wall[y - dy, x - dx] or alive[y - dy, x - dx] or wall[y - 2 * dy, x - 2 * dx]:
                continue
            alive[y - dy, x - dx] = True
            stack[count] = (y - dy) * width + x - dx
            count += 1
    dead = np.zeros((height, width), np.bool_)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            dead[y, x] = not wall[y, x] and not alive[y, x]
    return dead

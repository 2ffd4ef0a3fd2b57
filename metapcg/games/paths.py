"""Regions and shortest paths on a grid with four neighbours."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def distances(passable, start_y, start_x, out, queue):
    """Breadth-first distances from one passable cell.

    Args:
        passable: (H, W) bool.
        start_y, start_x: the start cell.
        out: (H, W) int64, overwritten: steps from the start, -1 where it cannot be reached.
        queue: (H*W,) int64 scratch; afterwards its first entries hold the reached cells by distance.

    Returns:
        int: number of reached cells.
    """
    height, width = passable.shape
    out[:, :] = -1
    out[start_y, start_x] = 0
    queue[0] = start_y * width + start_x
    count = 1
    head = 0
    while head < count:
        y = queue[head] // width
        x = queue[head] % width
        head += 1
        step = out[y, x] + 1
        if x > 0 and passable[y, x - 1] and out[y, x - 1] < 0:
            out[y, x - 1] = step
            queue[count] = y * width + x - 1
            count += 1
        if x + 1 < width and passable[y, x + 1] and out[y, x + 1] < 0:
            out[y, x + 1] = step
            queue[count] = y * width + x + 1
            count += 1
        if y > 0 and passable[y - 1, x] and out[y - 1, x] < 0:
            out[y - 1, x] = step
            queue[count] = (y - 1) * width + x
            count += 1
        if y + 1 < height and passable[y + 1, x] and out[y + 1, x] < 0:
            out[y + 1, x] = step
            queue[count] = (y + 1) * width + x
            count += 1
    return count


@njit(cache=True, nogil=True)
def count_regions(passable):
    """Number of connected sets of passable cells. passable: (H, W) bool."""
    height, width = passable.shape
    seen = np.zeros((height, width), np.bool_)
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    regions = 0
    for y in range(height):
        for x in range(width):
            if passable[y, x] and not seen[y, x]:
                regions += 1
                count = distances(passable, y, x, dist, queue)
                for i in range(count):
                    seen[queue[i] // width, queue[i] % width] = True
    return regions


@njit(cache=True, nogil=True)
def regions_and_double_sweep(passable):
    """Number of regions and gym-pcgrl's path length.

    Per region: from its first cell in row-major order to the farthest cell (first in row-major order among equals),
    and from there to the farthest again. The largest such distance is a lower bound of the longest shortest path.

    Args:
        passable: (H, W) bool.

    Returns:
        (int, int): regions, path length in steps (0 without a passable cell).
    """
    height, width = passable.shape
    seen = np.zeros((height, width), np.bool_)
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    regions = 0
    longest = 0
    for y in range(height):
        for x in range(width):
            if passable[y, x] and not seen[y, x]:
                regions += 1
                count = distances(passable, y, x, dist, queue)
                far = queue[count - 1]
                for i in range(count):
                    cell = queue[i]
                    seen[cell // width, cell % width] = True
                    if dist[cell // width, cell % width] == dist[far // width, far % width] and cell < far:
                        far = cell
                count = distances(passable, far // width, far % width, dist, queue)
                last = queue[count - 1]
                longest = max(longest, dist[last // width, last % width])
    return regions, longest


@njit(cache=True, nogil=True)
def regions_and_longest_path(passable):
    """Number of regions and the exact longest shortest path over all pairs of connected cells.

    Args:
        passable: (H, W) bool.

    Returns:
        (int, int): regions, path length in steps (0 without a passable cell).
    """
    height, width = passable.shape
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    longest = 0
    for y in range(height):
        for x in range(width):
            if passable[y, x]:
                count = distances(passable, y, x, dist, queue)
                last = queue[count - 1]
                longest = max(longest, dist[last // width, last % width])
    return count_regions(passable), longest

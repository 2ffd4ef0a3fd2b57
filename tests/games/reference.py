"""Plain reference implementations, written for clarity: what the fast kernels are compared with."""

from collections import deque

import numpy as np
from numba import njit

MOVES = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}


@njit(cache=True)
def distances(passable, start_y, start_x, out, queue):
    """Queue-based breadth-first distances into out (-1: unreached); returns how many cells are in the queue."""
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
        for dy, dx in ((0, -1), (0, 1), (-1, 0), (1, 0)):
            if 0 <= y + dy < height and 0 <= x + dx < width and passable[y + dy, x + dx] and out[y + dy, x + dx] < 0:
                out[y + dy, x + dx] = out[y, x] + 1
                queue[count] = (y + dy) * width + x + dx
                count += 1
    return count


@njit(cache=True)
def regions_and_paths(passable):
    """(regions, gym-pcgrl's double sweep, exact longest shortest path by a search from every cell)."""
    height, width = passable.shape
    seen = np.zeros((height, width), np.bool_)
    dist = np.empty((height, width), np.int64)
    queue = np.empty(height * width, np.int64)
    regions = 0
    double_sweep = 0
    longest = 0
    for y in range(height):
        for x in range(width):
            if not passable[y, x]:
                continue
            distances(passable, y, x, dist, queue)
            longest = max(longest, dist.max())
            if seen[y, x]:
                continue
            regions += 1
            far = dist.argmax()  # the first in row-major order among equals
            for k in range(height):
                for i in range(width):
                    seen[k, i] |= dist[k, i] >= 0
            distances(passable, far // width, far % width, dist, queue)
            double_sweep = max(double_sweep, dist.max())
    return regions, double_sweep, longest


def zelda_statistics(level, quirks):
    """Zelda's statistics from their definition."""
    height, width = level.shape
    dist, queue = np.empty((height, width), np.int64), np.empty(height * width, np.int64)

    def steps(start, goals, passable):
        distances(np.isin(level, passable), *np.argwhere(level == start)[0], dist, queue)
        reached = dist[np.isin(level, goals) & (dist >= 0)]
        return int(reached.min()) if reached.size else -1

    counts = [int(np.isin(level, kinds).sum()) for kinds in ((2,), (3,), (4,), (5, 6, 7))]
    regions = int(regions_and_paths(np.isin(level, (0, 2, 3, 5, 6, 7)))[0])
    nearest = path = 0
    if counts[0] == 1 and regions == 1:
        if counts[3]:
            nearest = steps(2, (5, 6, 7), (0, 2, 5, 6, 7) if quirks else (0, 2, 3, 5, 6, 7))
            if nearest < 0:
                nearest = width * height if quirks else 0
        if counts[1] == counts[2] == 1:
            legs = steps(2, (3,), (0, 2, 3, 5, 6, 7)), steps(3, (4,), (0, 2, 3, 4, 5, 6, 7))
            path = sum(legs) if quirks or min(legs) >= 0 else 0
    return [*counts, regions, nearest, path]


def shortest_solution(level, limit=60_000):
    """Length of a shortest sokoban solution, None if there is none; a search over all positions without any pruning."""
    free = {(int(y), int(x)) for y, x in np.argwhere(level != 1)}
    player = next((int(y), int(x)) for y, x in np.argwhere(level == 2))
    crates = frozenset((int(y), int(x)) for y, x in np.argwhere(level == 3))
    targets = frozenset((int(y), int(x)) for y, x in np.argwhere(level == 4))
    depth = {(player, crates): 0}
    queue = deque(depth)
    while queue:
        position = queue.popleft()
        (y, x), crates = position
        if crates == targets:
            return depth[position]
        for dy, dx in MOVES.values():
            to, beyond = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
            if to not in free or (to in crates and (beyond not in free or beyond in crates)):
                continue
            new = (to, crates - {to} | {beyond} if to in crates else crates)
            if new not in depth:
                depth[new] = depth[position] + 1
                queue.append(new)
                assert len(depth) < limit, "level too large for the reference"
    return None


def solves(level, solution):
    """Whether the moves, replayed one by one, are all legal and leave every crate on a target."""
    free = {(int(y), int(x)) for y, x in np.argwhere(level != 1)}
    y, x = np.argwhere(level == 2)[0]
    crates = {(int(y), int(x)) for y, x in np.argwhere(level == 3)}
    for move in solution:
        dy, dx = MOVES[move]
        y, x = int(y + dy), int(x + dx)
        if (y, x) not in free:
            return False
        if (y, x) in crates:
            if (y + dy, x + dx) not in free or (y + dy, x + dx) in crates:
                return False
            crates = crates - {(y, x)} | {(y + dy, x + dx)}
    return crates == {(int(y), int(x)) for y, x in np.argwhere(level == 4)}


def random_maze(rng, height, width):
    """A binary level: noise of some density, or a maze of corridors with some walls opened, or a room with pillars."""
    kind = rng.integers(3)
    level = np.ones((height, width), np.uint8)
    if kind == 0:
        return (rng.random((height, width)) < rng.random()).astype(np.uint8)
    if kind == 1:
        level[::2, ::2] = 0
        stack = [(0, 0)]
        seen = {(0, 0)}
        while stack:
            y, x = stack[-1]
            ways = [(y + 2 * dy, x + 2 * dx, y + dy, x + dx) for dy, dx in MOVES.values()]
            ways = [w for w in ways if 0 <= w[0] < height and 0 <= w[1] < width and w[:2] not in seen]
            if not ways:
                stack.pop()
                continue
            new_y, new_x, door_y, door_x = ways[rng.integers(len(ways))]
            level[door_y, door_x] = 0
            seen.add((new_y, new_x))
            stack.append((new_y, new_x))
        level[rng.random((height, width)) < rng.choice([0.0, 0.02, 0.1])] = 0
        return level
    level[:] = 0
    level[1::2, 1::2] = 1
    level[rng.random((height, width)) < rng.choice([0.0, 0.05, 0.2])] = 1
    return level


def random_sokoban(rng, height, width, crates, walls):
    """A level with one player and equally many crates and targets; None if the walls leave too little room."""
    level = (rng.random((height, width)) < walls).astype(np.uint8)
    free = np.flatnonzero(level == 0)
    if len(free) < 2 * crates + 1:
        return None
    cells = rng.choice(free, 2 * crates + 1, replace=False)
    level.flat[cells] = [2] + [3] * crates + [4] * crates
    return level

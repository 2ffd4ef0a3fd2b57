"""Sets of cells of a level up to 32 × 32 as one 64-bit word a row, and breadth-first search on them.

The same searches as `metapcg.games.bitboard` for levels that do not fit there. A set is a (H+3,) uint64 array: bit x of
word y+1 is cell (y, x); the first word and the last two stay empty, so that a search may look beyond the edge. A
frontier is kept together with its first and last row, and a step touches only those and their neighbours.
"""

import numpy as np
from numba import njit

from metapcg.games.bitboard import COUNT, EXACT, ONE, ZERO, popcount, read_row
from metapcg.games.memory import rows_of

UNLIMITED = np.int64(1 << 30)


@njit(cache=True, nogil=True)
def read_cells(level, kinds):
    """The cells of a level whose tile is among `kinds`, a uint64 with one bit per tile number."""
    rows = rows_of(level.shape[0])
    for y in range(level.shape[0]):
        rows[y + 1] = read_row(level, y, kinds)
    return rows


@njit(cache=True, nogil=True, inline="always")
def lowest(word):
    """The lowest set bit of a word."""
    return word & (ZERO - word)


@njit(cache=True, nogil=True, inline="always")
def first_cell(rows):
    """(row, bit) of the first cell in row-major order; (0, 0) of the empty set."""
    for y in range(1, rows.shape[0]):
        if rows[y]:
            return y, lowest(rows[y])
    return 0, ZERO


@njit(cache=True, nogil=True, inline="always")
def clear(rows):
    """Like ``rows[:] = 0``, which costs more for short arrays."""
    for y in range(rows.shape[0]):
        rows[y] = ZERO


@njit(cache=True, nogil=True)
def copy(source, to):
    """Like ``to[:] = source``, which costs more for short arrays."""
    for y in range(source.shape[0]):
        to[y] = source[y]


@njit(cache=True, nogil=True)
def remove(rows, gone):
    """Takes the cells of `gone` out of `rows`."""
    for y in range(rows.shape[0]):
        rows[y] &= ~gone[y]


@njit(cache=True, nogil=True)
def spread(frontier, remaining, y, bit, limit):
    """Breadth-first search from one cell.

    Args:
        frontier: scratch; afterwards the cells `limit` steps away (none if the search ended before).
        remaining: cells that may be reached; the reached ones are taken out.
        y, bit: the start, a cell of `remaining`.
        limit: largest number of steps.

    Returns:
        (steps, y, bit): the largest distance reached and the first cell at that distance.
    """
    clear(frontier)
    frontier[y] = bit
    remaining[y] ^= bit
    top = bottom = y
    steps = 0
    while steps < limit:
        above = ZERO
        row = frontier[top - 1]
        new_top = 0
        new_bottom = 0
        for k in range(top - 1, bottom + 2):
            below = frontier[k + 1]
            new = (row << ONE | row >> ONE | above | below) & remaining[k]
            frontier[k] = new
            remaining[k] ^= new
            if new:
                if new_top == 0:
                    new_top = k
                new_bottom = k
            above = row
            row = below
        if new_top == 0:
            break
        top, bottom = new_top, new_bottom
        y, bit = top, lowest(frontier[top])
        steps += 1
    return steps, y, bit


@njit(cache=True, nogil=True)
def spread_within(region, frontier, remaining, y, bit, limit):
    """`spread` within a set of cells that is kept."""
    copy(region, remaining)
    return spread(frontier, remaining, y, bit, limit)


@njit(cache=True, nogil=True)
def ball(region, inside, y, bit, radius):
    """Writes into `inside` the cells of the region at most `radius` steps from the cell (y, bit)."""
    clear(inside)
    inside[y] = bit
    top = bottom = y
    last = region.shape[0] - 3
    for _ in range(radius):
        top = max(top - 1, 1)
        bottom = min(bottom + 1, last)
        above = ZERO
        row = inside[top]
        for k in range(top, bottom + 1):
            below = inside[k + 1]
            inside[k] = row | ((row << ONE | row >> ONE | above | below) & region[k])
            above = row
            row = below


@njit(cache=True, nogil=True, inline="always")
def take_singles(rows):
    """Takes the cells without a neighbour in the set out of it and returns their number."""
    singles = 0
    above = ZERO
    row = rows[1]
    for y in range(1, rows.shape[0] - 2):
        below = rows[y + 1]
        social = row & (row << ONE | row >> ONE | above | below)
        singles += popcount(row ^ social)
        rows[y] = social
        above = social  # a single is nobody's neighbour
        row = below
    return singles


@njit(cache=True, nogil=True)
def regions_and_path(rows, kind):
    """See `metapcg.games.paths.regions_and_path`; empties the set."""
    region = rows_of(rows.shape[0] - 3)
    frontier = rows_of(rows.shape[0] - 3)
    remaining = rows_of(rows.shape[0] - 3)
    regions = take_singles(rows)
    longest = 0
    for y in range(1, rows.shape[0] - 2):
        while rows[y]:
            regions += 1
            if kind != COUNT:
                copy(rows, region)
            steps, start_y, start = spread(frontier, rows, y, lowest(rows[y]), UNLIMITED)
            # no path of the region is longer than twice the eccentricity of any of its cells
            if kind == COUNT or 2 * steps <= longest:
                continue
            remove(region, rows)
            num_cells, num_edges = count_cells_and_edges(region)
            if num_cells - 1 <= longest:
                continue
            steps, end_y, end = spread_within(region, frontier, remaining, start_y, start, UNLIMITED)
            longest = max(longest, steps)
            # a tree's double sweep is exact
            if kind == EXACT and num_cells - 1 > longest and num_edges >= num_cells:
                longest = longest_path(region, start_y, start, end_y, end, steps, longest, frontier, remaining)
    return regions, longest


@njit(cache=True, nogil=True, inline="always")
def count_cells_and_edges(rows):
    """(number of cells, number of pairs of neighbouring cells)."""
    num_cells = 0
    num_edges = 0
    for y in range(1, rows.shape[0] - 2):
        row = rows[y]
        num_cells += popcount(row)
        num_edges += popcount(row & (row >> ONE)) + popcount(row & rows[y + 1])
    return num_cells, num_edges


@njit(cache=True, nogil=True)
def longest_path(region, start_y, start, end_y, end, steps, longest, frontier, remaining):
    """See `metapcg.games.bitboard.longest_path`. frontier, remaining: scratch."""
    while True:
        back, far_y, far = spread_within(region, frontier, remaining, end_y, end, UNLIMITED)
        if back <= steps:
            break
        start_y, start, end_y, end, steps = end_y, end, far_y, far, back
    longest = max(longest, steps)
    half = steps // 2
    candidates = rows_of(region.shape[0] - 3)
    spread_within(region, candidates, remaining, start_y, start, half)
    spread_within(region, frontier, remaining, end_y, end, steps - half)
    for y in range(region.shape[0]):
        frontier[y] &= candidates[y]
    middle_y, middle = first_cell(frontier)
    if 2 * spread_within(region, frontier, remaining, middle_y, middle, UNLIMITED)[0] <= longest:
        return longest
    copy(region, candidates)
    candidates[start_y] &= ~start
    candidates[end_y] &= ~end
    ball(region, remaining, middle_y, middle, longest // 2)
    remove(candidates, remaining)
    y = np.int64(1)
    while y < region.shape[0]:
        if candidates[y] == ZERO:
            y += 1
            continue
        cell = lowest(candidates[y])
        steps, _, _ = spread_within(region, frontier, remaining, y, cell, UNLIMITED)
        if steps > longest:
            longest = steps
            ball(region, remaining, middle_y, middle, longest // 2)
            remove(candidates, remaining)
        ball(region, remaining, y, cell, longest - steps)
        remove(candidates, remaining)
    return longest


@njit(cache=True, nogil=True)
def steps_between(start, goal, rows):
    """See `metapcg.games.paths.steps_between`; start: a single cell. Empties parts of `rows`."""
    y, bit = first_cell(start)
    if goal[y] & bit:
        return 0
    frontier = rows_of(rows.shape[0] - 3)
    steps = 0
    frontier[y] = bit
    rows[y] &= ~bit
    while True:
        above = ZERO
        row = ZERO
        reached = ZERO
        hit = ZERO
        for k in range(rows.shape[0] - 1):
            below = frontier[k + 1]
            new = (row << ONE | row >> ONE | above | below) & rows[k]
            frontier[k] = new
            rows[k] ^= new
            reached |= new
            hit |= new & goal[k]
            above = row
            row = below
        if reached == ZERO:
            return -1
        steps += 1
        if hit:
            return steps

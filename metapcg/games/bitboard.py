"""Sets of cells of a level up to 15 × 16 as four 64-bit words, and breadth-first search on them.

Cell (y, x) is bit ``16 * (y % 4) + x`` of word ``y // 4``; bit 15 of a row stays empty, so that a shift by one cell
never carries from one row into the next. A search grows its whole frontier at once by shifts, which costs a few
nanoseconds a step however many cells the frontier has. The lowest set bit is the first cell in row-major order.
"""

import numpy as np
from numba import njit

MAX_WIDTH = 15
MAX_HEIGHT = 16

COUNT, DOUBLE_SWEEP, EXACT = (np.int64(kind) for kind in range(3))  # what `regions_and_path` finds

ZERO = np.uint64(0)
ONE = np.uint64(1)
ROW = np.uint64(16)  # one row down within a word
TOP = np.uint64(48)  # from the last row of a word to the first of the next


@njit(cache=True, nogil=True)
def popcount(word):
    """Number of set bits of a uint64 (compiles to one instruction where there is one)."""
    word = word - ((word >> ONE) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True, inline="always")
def read_row(level, y, kinds):
    """Bits of one row: bit x is set if the tile at (y, x) is among `kinds`, a uint64 with one bit per tile number."""
    row = ZERO
    for x in range(level.shape[1]):
        row |= ((kinds >> np.uint64(level[y, x])) & ONE) << np.uint64(x)
    return row


@njit(cache=True, nogil=True)
def read_cells(level, kinds):
    """The cells of a level whose tile is among `kinds` (see `read_row`)."""
    a = b = c = d = ZERO
    for y in range(level.shape[0]):
        row = read_row(level, y, kinds) << np.uint64(16 * (y & 3))
        word = y >> 2
        if word == 0:
            a |= row
        elif word == 1:
            b |= row
        elif word == 2:
            c |= row
        else:
            d |= row
    return a, b, c, d


@njit(cache=True, nogil=True)
def is_empty(cells):
    return (cells[0] | cells[1] | cells[2] | cells[3]) == ZERO


@njit(cache=True, nogil=True)
def size(cells):
    """Number of cells."""
    return popcount(cells[0]) + popcount(cells[1]) + popcount(cells[2]) + popcount(cells[3])


@njit(cache=True, nogil=True)
def both(first, second):
    """Intersection."""
    return first[0] & second[0], first[1] & second[1], first[2] & second[2], first[3] & second[3]


@njit(cache=True, nogil=True)
def union(first, second):
    return first[0] | second[0], first[1] | second[1], first[2] | second[2], first[3] | second[3]


@njit(cache=True, nogil=True)
def without(first, second):
    """Difference."""
    return first[0] & ~second[0], first[1] & ~second[1], first[2] & ~second[2], first[3] & ~second[3]


@njit(cache=True, nogil=True)
def first_cell(cells):
    """The first cell in row-major order as a set; the set must not be empty."""
    a, b, c, d = cells
    if a:
        return a & (ZERO - a), ZERO, ZERO, ZERO
    if b:
        return ZERO, b & (ZERO - b), ZERO, ZERO
    if c:
        return ZERO, ZERO, c & (ZERO - c), ZERO
    return ZERO, ZERO, ZERO, d & (ZERO - d)


@njit(cache=True, nogil=True)
def neighbours(cells):
    """Cells beside a cell of the set, and some bits outside the level: intersect with a set of the level's cells."""
    a, b, c, d = cells
    return (
        a << ONE | a >> ONE | a << ROW | a >> ROW | b << TOP,
        b << ONE | b >> ONE | b << ROW | b >> ROW | a >> TOP | c << TOP,
        c << ONE | c >> ONE | c << ROW | c >> ROW | b >> TOP | d << TOP,
        d << ONE | d >> ONE | d << ROW | d >> ROW | c >> TOP,
    )


@njit(cache=True, nogil=True, inline="always")
def count_edges(cells):
    """Number of pairs of neighbouring cells within the set."""
    a, b, c, d = cells
    right = a & (a >> ONE), b & (b >> ONE), c & (c >> ONE), d & (d >> ONE)
    below = a & (a >> ROW | b << TOP), b & (b >> ROW | c << TOP), c & (c >> ROW | d << TOP), d & (d >> ROW)
    return size(right) + size(below)


@njit(cache=True, nogil=True)
def sweep(start, cells):
    """Breadth-first search from a set of start cells until nothing new is reached.

    Returns:
        (steps, last, unreached): the largest distance, the cells at that distance, the cells never reached.
    """
    frontier = start
    remaining = without(cells, start)
    steps = 0
    while True:
        new = both(neighbours(frontier), remaining)
        if is_empty(new):
            return steps, frontier, remaining
        remaining = without(remaining, new)
        frontier = new
        steps += 1


@njit(cache=True, nogil=True)
def cells_at(start, cells, distance):
    """Cells at exactly this distance from the start."""
    frontier = start
    remaining = without(cells, start)
    for _ in range(distance):
        frontier = both(neighbours(frontier), remaining)
        remaining = without(remaining, frontier)
    return frontier


@njit(cache=True, nogil=True)
def ball(start, cells, radius):
    """Cells at this distance from the start or nearer."""
    inside = start
    for _ in range(radius):
        inside = union(inside, both(neighbours(inside), cells))
    return inside


@njit(cache=True, nogil=True, inline="always")
def split_singles(cells):
    """(cells with a neighbour in the set, number of cells without one)."""
    social = both(cells, neighbours(cells))
    return social, size(cells) - size(social)


@njit(cache=True, nogil=True)
def regions_and_path(cells, kind):
    """See `metapcg.games.paths.regions_and_path`."""
    cells, regions = split_singles(cells)
    longest = 0
    while not is_empty(cells):
        regions += 1
        steps, last, unreached = sweep(first_cell(cells), cells)
        # no path of the region is longer than twice the eccentricity of any of its cells
        if kind != COUNT and 2 * steps > longest:
            region = without(cells, unreached)
            num_cells = size(region)
            if num_cells - 1 > longest:
                start = first_cell(last)
                steps, last, _ = sweep(start, region)
                longest = max(longest, steps)
                # a tree's double sweep is exact
                if kind == EXACT and num_cells - 1 > longest and count_edges(region) >= num_cells:
                    longest = longest_path(region, start, first_cell(last), steps, longest)
        cells = unreached
    return regions, longest


@njit(cache=True, nogil=True)
def longest_path(region, start, end, steps, longest):
    """The longest shortest path of one region, or `longest` if that is longer.

    Starts from a double sweep (`end` is `steps` away from `start`, and nothing is farther) and follows the idea of iFUB
    (Crescenzi et al. 2013, "On computing the diameter of real-world undirected graphs"): seen from a cell in the middle
    of a long path, two cells within longest // 2 of it are at most `longest` apart, so only a cell beyond can be the
    end of a longer path. A cell of eccentricity e also rules out all cells within longest - e of it (Takes & Kosters
    2011, "Determining the diameter of small world networks").
    """
    while True:
        back, last, _ = sweep(end, region)
        if back <= steps:
            break
        start, end, steps = end, first_cell(last), back
    longest = max(longest, steps)
    half = steps // 2
    middle = first_cell(both(cells_at(start, region, half), cells_at(end, region, steps - half)))
    if 2 * sweep(middle, region)[0] <= longest:
        return longest
    candidates = without(region, union(ball(middle, region, longest // 2), union(start, end)))
    while not is_empty(candidates):
        cell = first_cell(candidates)
        steps = sweep(cell, region)[0]
        if steps > longest:
            longest = steps
            candidates = without(candidates, ball(middle, region, longest // 2))
        candidates = without(candidates, ball(cell, region, longest - steps))
    return longest


@njit(cache=True, nogil=True)
def steps_between(start, goal, cells):
    """See `metapcg.games.paths.steps_between`."""
    frontier = start
    remaining = without(cells, start)
    steps = 0
    while is_empty(both(frontier, goal)):
        frontier = both(neighbours(frontier), remaining)
        if is_empty(frontier):
            return -1
        remaining = without(remaining, frontier)
        steps += 1
    return steps

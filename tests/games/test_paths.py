"""The bit-parallel searches against the queue-based reference, scipy, and lengths known by construction."""

import numpy as np
import pytest
from numba import njit
from reference import distances, random_maze, regions_and_paths
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import shortest_path

from metapcg.games import bitboard, bitrows, evaluate
from metapcg.games.bitboard import COUNT, DOUBLE_SWEEP, EXACT
from metapcg.games.paths import regions_and_path, steps_between

EMPTY = np.uint64(1)


def binary_statistics(level, quirks=False):
    stats = np.full(2, -7, np.int64)
    evaluate(0, np.ascontiguousarray(level, np.uint8), 0, quirks, stats)
    return tuple(stats.tolist())


def check_against_reference(level):
    regions, double_sweep, longest = regions_and_paths(level == 0)
    assert regions_and_path(level, EMPTY, DOUBLE_SWEEP) == (regions, double_sweep), level.tolist()
    assert regions_and_path(level, EMPTY, EXACT) == (regions, longest), level.tolist()
    assert regions_and_path(level, EMPTY, COUNT) == (regions, 0), level.tolist()


def test_random_levels_of_all_sizes_agree_with_the_reference():
    rng = np.random.default_rng(0)
    for _ in range(1500):
        height, width = rng.integers(1, 33, 2)
        check_against_reference(random_maze(rng, height, width))


def test_random_levels_of_the_default_size_agree_with_the_reference():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        check_against_reference(random_maze(rng, 14, 14))


@pytest.mark.parametrize("height, width", [(16, 15), (15, 16), (17, 15), (16, 16), (32, 32), (32, 1), (1, 32)])
def test_sizes_at_the_limits_of_both_representations_agree_with_the_reference(height, width):
    rng = np.random.default_rng(2)
    for _ in range(60):
        check_against_reference(random_maze(rng, height, width))


def test_every_level_of_three_by_four_agrees_with_the_reference():
    bits = np.arange(12)
    for number in range(1 << 12):
        check_against_reference(((number >> bits) & 1).astype(np.uint8).reshape(3, 4))


@njit
def both_representations(level):
    """Everything the two representations find about one small level."""
    return (
        bitboard.regions_and_path(bitboard.read_cells(level, EMPTY), EXACT),
        bitboard.regions_and_path(bitboard.read_cells(level, EMPTY), DOUBLE_SWEEP),
        bitboard.regions_and_path(bitboard.read_cells(level, EMPTY), COUNT),
    ), (
        bitrows.regions_and_path(bitrows.read_cells(level, EMPTY), EXACT),
        bitrows.regions_and_path(bitrows.read_cells(level, EMPTY), DOUBLE_SWEEP),
        bitrows.regions_and_path(bitrows.read_cells(level, EMPTY), COUNT),
    )


def test_both_representations_agree_on_small_levels():
    rng = np.random.default_rng(3)
    for _ in range(2000):
        level = random_maze(rng, *rng.integers(1, 16, 2))
        words, rows = both_representations(level)
        assert words == rows, level.tolist()


def test_longest_path_agrees_with_scipy():
    rng = np.random.default_rng(4)
    for _ in range(60):
        height, width = rng.integers(1, 25, 2)
        level = random_maze(rng, height, width)
        number = np.full((height, width), -1)
        number[level == 0] = np.arange((level == 0).sum())
        edges = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
        pairs = np.concatenate(
            [np.stack([a.ravel(), b.ravel()])[:, (a.ravel() >= 0) & (b.ravel() >= 0)] for a, b in edges], 1
        )
        count = int((level == 0).sum())
        graph = coo_matrix((np.ones(pairs.shape[1]), pairs), (count, count)).tocsr()
        lengths = shortest_path(graph, directed=False, unweighted=True) if count else np.zeros(1)
        assert binary_statistics(level)[1] == lengths[np.isfinite(lengths)].max()


def test_steps_between_agrees_with_the_reference():
    rng = np.random.default_rng(5)
    unreached = 0
    for _ in range(1500):
        height, width = rng.integers(1, 33, 2)
        level = random_maze(rng, height, width)
        start = rng.integers(height * width)
        level.flat[start] = 2
        level.flat[rng.choice(height * width, min(3, height * width - 1), replace=False)] += 3
        level.flat[start] = 2
        expected = np.empty((height, width), np.int64)
        distances((level != 1) & (level != 4), start // width, start % width, expected, np.empty(level.size, np.int64))
        reached = expected[(level == 3) & (expected >= 0)]
        expected = reached.min() if reached.size else -1
        unreached += expected < 0
        passable = np.uint64(0b1101)
        assert steps_between(level, np.uint64(0b100), np.uint64(0b1000), passable) == expected, level.tolist()
    assert 100 < unreached < 1400


def test_snake_has_the_length_it_was_built_with():
    level = np.ones((31, 32), np.uint8)
    level[::2] = 0
    level[1::4, -1] = 0
    level[3::4, 0] = 0
    length = 16 * 32 + 15 - 1
    assert binary_statistics(level) == binary_statistics(level, quirks=True) == (1, length)


def test_ring_is_half_as_long_as_its_circumference():
    level = np.ones((14, 14), np.uint8)
    level[0] = level[-1] = level[:, 0] = level[:, -1] = 0
    assert binary_statistics(level) == (1, 26)


def test_the_quirk_double_sweep_misses_paths_that_the_exact_search_finds():
    rng = np.random.default_rng(6)
    missed = 0
    for _ in range(500):
        level = (rng.random((14, 14)) < 0.3).astype(np.uint8)
        missed += binary_statistics(level)[1] > binary_statistics(level, quirks=True)[1]
    assert missed > 10


def test_longest_path_does_not_depend_on_the_orientation_of_the_level():
    rng = np.random.default_rng(7)
    for _ in range(200):
        level = random_maze(rng, *rng.integers(1, 33, 2))
        turned = [binary_statistics(np.rot90(level, k)) for k in range(4)] + [binary_statistics(level.T)]
        assert len(set(turned)) == 1


@pytest.mark.parametrize("height, width", [(1, 1), (1, 2), (1, 32), (32, 1), (32, 32), (16, 15), (16, 16)])
def test_open_and_closed_rooms(height, width):
    assert binary_statistics(np.zeros((height, width))) == (1, height + width - 2)
    assert binary_statistics(np.ones((height, width))) == (0, 0)
    board = np.indices((height, width)).sum(0) % 2
    assert binary_statistics(board) == ((height * width + 1) // 2, 0)
    assert binary_statistics(board, quirks=True) == ((height * width + 1) // 2, 0)

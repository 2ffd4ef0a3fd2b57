"""Zelda's statistics and goal: the right thing by default, gym-pcgrl's under quirks."""

import numpy as np
import pytest
from reference import zelda_statistics

from metapcg.games import evaluate, get_game, goal_reached

ZELDA = get_game("zelda")
SYMBOLS = ".#PKDBSX"


def level_of(*rows):
    return np.array([[SYMBOLS.index(symbol) for symbol in row] for row in rows], np.uint8)


def statistics(level, quirks=False):
    stats = np.full(7, -7, np.int64)
    evaluate(ZELDA.index, level, 0, quirks, stats)
    return dict(zip(ZELDA.statistics, stats.tolist(), strict=True))


def is_goal(level, quirks=False, **parameters):
    stats = np.array(list(statistics(level, quirks).values()))
    return goal_reached(ZELDA.index, stats, stats, ZELDA.parameter_array(**parameters), quirks)


@pytest.mark.parametrize("quirks", [False, True])
def test_random_levels_agree_with_the_definition(quirks):
    rng = np.random.default_rng(0)
    playable = 0
    for _ in range(1500):
        height, width = rng.integers(1, 33, 2) if rng.random() < 0.3 else (7, 11)
        level = (rng.random((height, width)) < rng.choice([0.0, 0.05, 0.2])).astype(np.uint8)
        kinds = [2, 3, 4] + [int(kind) for kind in rng.integers(2, 8, rng.integers(0, 4))]
        for kind in kinds:
            level.flat[rng.integers(height * width)] = kind
        expected = zelda_statistics(level, quirks)
        assert list(statistics(level, quirks).values()) == expected, level.tolist()
        playable += expected[6] > 0
    assert playable > 100


def test_a_key_does_not_block_the_way_to_an_enemy():
    level = level_of("P.K.B")
    assert statistics(level)["nearest-enemy"] == 4
    assert statistics(level, quirks=True)["nearest-enemy"] == 5  # width * height: "out of reach"


def test_a_door_blocks_the_way_to_an_enemy():
    assert statistics(level_of("PDB"))["nearest-enemy"] == 0
    assert statistics(level_of("PDB", "..."))["nearest-enemy"] == 4


def test_the_nearest_of_several_enemies_counts():
    assert statistics(level_of("X.P..B", "S....."))["nearest-enemy"] == 2


def test_a_sealed_door_leaves_no_path():
    level = level_of("P.K#D")
    assert statistics(level)["path-length"] == 0
    assert statistics(level, quirks=True)["path-length"] == 2 - 1


def test_the_way_to_the_door_may_pass_over_the_player_and_enemies():
    assert statistics(level_of("KPBD"))["path-length"] == 1 + 3


def test_the_way_to_the_key_may_not_pass_through_the_door():
    assert statistics(level_of("PDK", "..."))["path-length"] == 4 + 1


@pytest.mark.parametrize("row", ["P.K.D.P", "K.D.B", "PK#.D.", "PKKD", "PKDD", "PK.."])
def test_unplayable_counts_or_regions_leave_no_path(row):
    assert statistics(level_of(row))["path-length"] == 0


def good_level(enemies):
    level = np.zeros((11, 11), np.uint8)
    level[1::4, :-1] = 1
    level[3::4, 1:] = 1
    level[0, 0], level[4, 0], level[10, 0] = 2, 3, 4
    level[8, 1 : 1 + enemies] = 5
    return level


def test_the_goal_needs_counts_inside_their_ranges():
    for enemies in range(8):
        level = good_level(enemies)
        assert is_goal(level) == (2 <= enemies <= 5)
        assert is_goal(level, quirks=True) == (enemies >= 1)
        assert is_goal(level, max_enemies=7) == (enemies >= 2)


def test_the_goal_needs_both_distances():
    level = good_level(2)
    stats = statistics(level)
    assert is_goal(level, target_path=stats["path-length"], target_enemy_dist=stats["nearest-enemy"])
    assert not is_goal(level, target_path=stats["path-length"] + 1)
    assert not is_goal(level, target_enemy_dist=stats["nearest-enemy"] + 1)


def test_without_targets_an_unplayable_level_is_still_no_goal():
    level = level_of("P#K#D", "B...B")
    level_in_pieces = level_of("P#K#D", "B#.#B")
    assert is_goal(level, target_path=0, target_enemy_dist=0)
    assert not is_goal(level_in_pieces, target_path=0, target_enemy_dist=0)
    assert is_goal(level_in_pieces, quirks=True, target_path=0, target_enemy_dist=0)


@pytest.mark.parametrize("tile", range(8))
def test_a_single_cell_counts_itself_and_nothing_else(tile):
    stats = statistics(np.array([[tile]], np.uint8))
    counts = [tile == 2, tile == 3, tile == 4, tile >= 5]
    assert list(stats.values()) == [*map(int, counts), int(tile not in (1, 4)), 0, 0]

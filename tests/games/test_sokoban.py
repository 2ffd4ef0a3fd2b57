"""Sokoban's statistics, deadlock squares and solver."""

import numpy as np
import pytest
from reference import random_sokoban, shortest_solution, solves

from metapcg.games import evaluate, get_game, goal_reached, solve
from metapcg.games.deadlocks import corner_deadlocks, dead_squares
from metapcg.games.sokoban_solver import (
    BALANCES,
    BITS,
    MAX_CRATES,
    SOLVED,
    UNDECIDED,
    VALUE,
    at_places,
    crate_search,
    exact_search,
    mix,
    number_cells,
    rank_targets,
    read_room,
    search_space,
)

SOKOBAN = get_game("sokoban")
SYMBOLS = ".#@$o"


def level_of(*rows):
    return np.array([[SYMBOLS.index(symbol) for symbol in row] for row in rows], np.uint8)


def statistics(level, quirks=False, power=5000):
    stats = np.full(7, -7, np.int64)
    evaluate(SOKOBAN.index, level, power, quirks, stats)
    return dict(zip(SOKOBAN.statistics, stats.tolist(), strict=True))


def random_levels(seed, number, largest=5, most_crates=3):
    rng = np.random.default_rng(seed)
    while number:
        height, width = rng.integers(2, largest + 1, 2)
        level = random_sokoban(rng, height, width, int(rng.integers(1, most_crates + 1)), rng.choice([0.0, 0.1, 0.3]))
        if level is not None:
            number -= 1
            yield level


def test_solutions_are_legal_and_as_short_as_an_unpruned_search_finds():
    solved = unsolvable = 0
    for level in random_levels(0, 400, most_crates=2):
        status, solution, dist_win = solve(level, power=10**6)
        expected = shortest_solution(level)
        if expected is None:
            assert (status, solution) == ("unsolvable", "") and dist_win > 0, level.tolist()
            unsolvable += 1
        else:
            assert (status, len(solution), dist_win) == ("solved", expected, 0), level.tolist()
            assert solves(level, solution), level.tolist()
            solved += 1
    assert solved > 40 and unsolvable > 40


def test_solutions_with_three_crates_are_shortest_too():
    solved = 0
    for level in random_levels(1, 150, largest=4):
        status, solution, _ = solve(level, power=10**6)
        expected = shortest_solution(level)
        assert status == ("unsolvable" if expected is None else "solved")
        if expected is not None:
            solved += 1
            assert len(solution) == expected and solves(level, solution)
    assert solved > 5


def test_default_is_never_worse_than_gym_pcgrls_searches():
    statuses = set()
    for level in random_levels(2, 500, largest=8, most_crates=4):
        for power in (30, 300):
            old = solve(level, power, quirks=True)
            new = solve(level, power)
            statuses.add((old[0], new[0]))
            if old[0] == "solved":
                assert new[0] == "solved" and len(new[1]) <= len(old[1]) and solves(level, new[1]), level.tolist()
            elif new[0] != "solved":
                assert new[2] <= old[2], level.tolist()
            if old[0] == "unsolvable":
                assert new[0] == "unsolvable", level.tolist()
    assert {("solved", "solved"), ("unsolvable", "unsolvable"), ("undecided", "undecided")} <= statuses
    assert ("undecided", "solved") in statuses and ("undecided", "unsolvable") in statuses


def test_budget_counts_distinct_positions():
    level = level_of("@...$o")
    assert solve(level, power=5)[0] == "solved"  # the start, three walks, and the push
    wall, target = read_room(level)
    room, player, crates, targets, places = number_cells(level)
    dead = at_places(dead_squares(wall, target, 8), places)
    for power, status in ((5, SOLVED), (4, UNDECIDED)):
        assert exact_search(room, player, crates, targets, dead, power, search_space(1, 6, power))[0] == status


def test_result_does_not_depend_on_what_ran_before():
    levels = list(random_levels(3, 60, largest=6))
    first = [solve(level, 500) for level in levels]
    assert [solve(level, 500) for level in reversed(levels)] == first[::-1]


def test_crates_may_take_either_target():
    level = level_of("@....", ".$o$.", "o....", ".....")
    status, solution, _ = solve(level)
    assert status == "solved" and solves(level, solution) and len(solution) == shortest_solution(level)


def test_unsolvable_level_has_the_smallest_heuristic_that_can_be_reached():
    level = level_of("@.$..", "#####", "o....")
    assert statistics(level)["dist-win"] == 3 * 5 * 8  # two regions: not searched
    level = level_of("@.$...", ".####.", "o.....")
    # along the upper wall the crate cannot leave its row; one push is possible, none leads nearer
    assert solve(level) == ("unsolvable", "", 4)


@pytest.mark.parametrize(
    "rows, expected",
    [
        (("@$o",), (1, 1, 1, 1, 0, 0, 1)),
        (("@$.o",), (1, 1, 1, 1, 0, 0, 2)),
        (("@.o",), (1, 0, 1, 1, 1, 12, 0)),
        (("@@$o",), (2, 1, 1, 1, 0, 20, 0)),
        (("@..",), (1, 0, 0, 1, 0, 12, 0)),
        (("@#$o",), (1, 1, 1, 2, 0, 20, 0)),
        (("o.$@",), (1, 1, 1, 1, 0, 0, 2)),
        (("$@o",), (1, 1, 1, 1, 0, 2, 0)),
        ((".",), (0, 0, 0, 1, 0, 2, 0)),
        (("#",), (0, 0, 0, 0, 0, 2, 0)),
    ],
)
@pytest.mark.parametrize("quirks", [False, True])
def test_statistics_of_small_levels(rows, expected, quirks):
    assert tuple(statistics(level_of(*rows), quirks).values()) == expected


def test_goal_needs_a_solution_of_the_asked_length():
    level = level_of("@$......o")
    stats = np.array(list(statistics(level).values()))
    for quirks in (False, True):
        assert goal_reached(2, stats, stats, SOKOBAN.parameter_array(min_solution=7), quirks)
        assert not goal_reached(2, stats, stats, SOKOBAN.parameter_array(min_solution=8), quirks)


def test_level_without_solution_is_no_goal_even_if_no_length_is_asked():
    stats = np.array(list(statistics(level_of("$@o")).values()))
    parameters = SOKOBAN.parameter_array(min_solution=0)
    assert not goal_reached(2, stats, stats, parameters, False)
    assert goal_reached(2, stats, stats, parameters, True)


def squares(function, *rows):
    level = level_of(*rows)
    wall, target = read_room(level)
    width = level.shape[1] + 2
    dead = function(wall, target, width).reshape(-1, width)[1:-1, 1:-1]
    return ["".join("x" if cell else "." for cell in row) for row in dead]


def test_corner_deadlocks_are_corners_and_wall_sides_between_them():
    assert squares(corner_deadlocks, "......", "......", "......", "..o...") == ["xxxxxx", "x....x", "x....x", "x....x"]
    # the side of the wall may change from cell to cell; a target in between saves the row
    assert squares(corner_deadlocks, "....", "....", "....") == ["xxxx", "x..x", "xxxx"]
    assert squares(corner_deadlocks, "###..", ".....", "..###") == ["...xx", "xxxxx", "xx..."]
    assert squares(corner_deadlocks, "###..", ".o...", "..###") == ["...xx", "x...x", "xx..."]


def test_dead_squares_are_those_from_which_no_target_can_be_reached():
    assert squares(dead_squares, "......", "..o...", "......") == ["xxxxxx", "x....x", "xxxxxx"]
    assert squares(dead_squares, "o..", "...", "...") == ["..x", "..x", "xxx"]


def test_dead_squares_agree_with_pushing_a_single_crate_and_contain_the_corner_deadlocks():
    rng = np.random.default_rng(4)
    extra = 0
    for _ in range(300):
        height, width = rng.integers(1, 9, 2)
        level = (rng.random((height, width)) < 0.3).astype(np.uint8)
        level[rng.random((height, width)) < 0.08] = 4
        wall, target = read_room(level)
        room = width + 2
        dead = dead_squares(wall, target, room)
        alive = target.copy()
        changed = True
        while changed:  # a crate that can be pushed to an alive cell is alive
            changed = False
            for cell in np.flatnonzero(~wall & ~alive):
                for step in (1, -1, room, -room):
                    if alive[cell + step] and not wall[cell - step] and not wall[cell + step]:
                        alive[cell] = changed = True
        assert np.array_equal(dead, ~wall & ~alive), level.tolist()
        corners = corner_deadlocks(wall, target, room)
        assert not (corners & ~dead).any(), level.tolist()
        extra += (dead & ~corners).sum()
    assert extra > 50


def test_room_of_32_by_32_with_many_crates_is_searched_within_bounds():
    rng = np.random.default_rng(5)
    for crates in (3, 30, MAX_CRATES + 1, 400):
        level = random_sokoban(rng, 32, 32, crates, 0.02)
        status, solution, dist_win = solve(level)
        assert status in ("solved", "unsolvable", "undecided")
        assert (dist_win == 0) == solves(level, solution) == (status == "solved")


def searches(level, power, kept, lists=None):
    """What the three best-first searches find, with the table kept from one to the next or not; the last one's memory;
    and the most arrangements in the table.

    ``lists``: so many entries of the lists' memory, for fewer arrangements than there may be.
    """
    room, player, crates, targets, places = number_cells(level)
    dead = np.zeros(len(places), bool)  # crates may be pushed anywhere
    space = search_space(*level.shape, power)
    space[2][lists or len(space[2]) :] = 7
    beyond = space[2][lists or len(space[2]) :]
    space = (*space[:2], space[2][:lists], *space[3:])
    known, found, most = np.zeros(2, np.int64), [], 0
    for balance in BALANCES[1:]:
        if not kept:
            known[:] = 0
        ranks = rank_targets(*room[1:], targets)
        found.append(
            crate_search(room, player, crates, targets, ranks, dead, balance, power, False, 0, known, space)[:4]
        )
        most = max(most, int(known[0]))
    assert (beyond == 7).all()
    return found, room, targets, space, most


@pytest.mark.parametrize("crates", [5, 30, 100, 400])
def test_heuristics_after_pushes_are_those_from_scratch(crates):
    level = random_sokoban(np.random.default_rng(crates), 32, 32, crates, 0.02)
    _, (_, rows, columns), targets, (_, arrangements, lists, _, _), count = searches(level, 20_000 // crates, kept=True)
    stride = BITS + 2 * -(-len(rows) // 64)
    assert count > 40
    for number in range(min(count, 100)):
        cells = lists[2 * crates * number :][:crates].astype(int)
        free, total = np.arange(crates), 0
        for crate, chosen in zip(cells, lists[2 * crates * number + crates :][:crates], strict=True):
            steps = abs(rows[crate] - rows[targets[free]]) + abs(columns[crate] - columns[targets[free]])
            total += steps.min()
            assert free[steps.argmin()] == chosen
            free = free[free != chosen]
        assert arrangements[stride * number + VALUE] == total


def test_a_table_kept_from_search_to_search_changes_nothing_nor_does_too_little_memory_to_keep_it():
    for level in random_levels(11, 40, largest=7, most_crates=5):
        crates = int((level == 3).sum())
        fresh, *_, most = searches(level, 40, kept=False)
        assert searches(level, 40, kept=True)[0] == fresh
        assert searches(level, 40, kept=True, lists=2 * crates * most)[0] == fresh


def test_crates_cells_have_different_hashes():
    assert len({mix(np.int64(word)) for word in range(0, 1 << 20, 7)}) == len(range(0, 1 << 20, 7))


def test_more_crates_than_the_heuristic_searches_take_are_still_solved_exactly():
    level = np.zeros((32, 32), np.uint8)
    level[2:30:4, 2:30:2] = 3
    level[1:29:4, 2:30:2] = 4
    level[0, 0] = 2
    crates = int((level == 3).sum())
    assert crates > MAX_CRATES
    assert solve(level, power=50) == ("undecided", "", crates)
    corridor = np.ones((32, 32), np.uint8)
    corridor[1, 1:31] = 0
    corridor[1, 1], corridor[1, 2], corridor[1, 30] = 2, 3, 4
    assert solve(corridor) == ("solved", "R" * 28, 0)


@pytest.mark.parametrize("free", [63, 64, 65, 127, 128, 129])
def test_packing_holds_across_the_words_of_a_position(free):
    room = free - 32  # free cells above the corridor, so that the corridor's cells lie in different places of the words
    rows = -(-room // 32)
    level = np.ones((rows + 1, 32), np.uint8)
    level.flat[:room] = 0
    level[rows] = 0
    level[rows, 0], level[rows, 1], level[rows, 31] = 2, 3, 4
    assert (level != 1).sum() == free
    assert solve(level, power=10**6) == ("solved", "R" * 30, 0)


@pytest.mark.parametrize(
    "level, power, message",
    [
        (level_of("@$$o"), 5000, "as many crates as targets"),
        (level_of("$o.."), 5000, "one player"),
        (level_of("@..."), 5000, "at least one"),
        (level_of("@$o"), 0, "power must be a whole number of at least 1"),
        (level_of("@$o"), 2.5, "power must be a whole number of at least 1"),
        (np.array([[2, 3, 5]]), 5000, "outside 0..4"),
        (np.zeros((33, 5), int), 5000, "1 to 32 cells"),
        (np.zeros(5, int), 5000, "2-D"),
        (np.zeros((5, 5)), 5000, "integer"),
    ],
)
def test_bad_levels_and_budgets_are_refused(level, power, message):
    with pytest.raises(ValueError, match=message):
        solve(level, power)

"""Deadlocked crates, on levels made by hand and against a search of every reachable state."""

import itertools

import numpy as np
import pytest

from metapcg.games.deadlocks import count_deadlocked_crates, deadlocked_crates

SOLID, CRATE, TARGET = 1, 3, 4


def flat_room(rows):
    """Walls, crates, targets and width of a drawing: # wall, $ crate, . target, * crate on a target."""
    room = np.array(
        [list("#" * (len(rows[0]) + 2)), *[list(f"#{row}#") for row in rows], list("#" * (len(rows[0]) + 2))]
    )
    flat = room.ravel()
    return flat == "#", np.isin(flat, ["$", "*"]), np.isin(flat, [".", "*"]), room.shape[1]


def found(rows):
    """The deadlocked crates as a drawing: x where one is."""
    *room, width = flat_room(rows)
    dead = deadlocked_crates(*room, width).reshape(-1, width)[1:-1, 1:-1]
    return ["".join("x" if cell else " " for cell in row) for row in dead]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["$  ", "   ", "  ."], ["x  ", "   ", "   "]),  # a corner
        (["*  ", "   ", "   "], ["   ", "   ", "   "]),  # on a target: never
        ([" $  ", "    ", "   ."], [" x  ", "    ", "    "]),  # at a wall that has no target
        ([" $ .", "    ", "    "], ["    ", "    ", "    "]),  # at a wall that has one
        (["      ", "  $$  ", "  $$  ", "      ", "     ."], ["      ", "  xx  ", "  xx  ", "      ", "      "]),
        (["      ", "  $   ", "  $$  ", "      ", "     ."], ["      "] * 5),  # three of a square can still move
        (["      ", "  $*  ", "  $*  ", "      ", "     ."], ["      ", "  x   ", "  x   ", "      ", "      "]),
        ([" #   ", "  $$ ", "   # ", "     ", "    ."], ["     "] * 5),  # each crate can go along one axis
        (["  #  ", "  $$ ", "   # ", "     ", "    ."], ["     ", "  xx ", "     ", "     ", "     "]),  # a frozen pair
    ],
)  # fmt: skip
def test_deadlocks_of_hand_made_rooms(rows, expected):
    assert found(rows) == expected


def pushes_to_targets(walls, crates, targets, width):
    """Crates (their first cells) that some sequence of pushes brings onto a target, by trying every state."""
    start = tuple(np.flatnonzero(crates))
    floor = np.flatnonzero(~walls)
    begun = [(player, start) for player in floor if player not in start]
    seen, saved = set(begun), {cell for cell in start if targets[cell]}
    while begun:
        player, boxes = begun.pop()
        for step in (1, -1, width, -width):
            to, moved = player + step, boxes
            if walls[to]:
                continue
            if to in boxes:
                beyond = to + step
                if walls[beyond] or beyond in boxes:
                    continue
                which = boxes.index(to)
                moved = (*boxes[:which], beyond, *boxes[which + 1 :])
                if targets[beyond]:
                    saved.add(start[which])
            state = (to, moved)
            if state not in seen:
                seen.add(state)
                begun.append(state)
    return saved


def test_no_crate_that_can_be_saved_is_called_lost():
    rng = np.random.default_rng(5)
    lost = 0
    for _ in range(150):
        rows = [
            "".join(row) for row in rng.choice(list("  #$$.*"), size=(3, 4), p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05])
        ]
        walls, crates, targets, width = flat_room(rows)
        if not 1 <= crates.sum() <= 3:
            continue
        dead = set(np.flatnonzero(deadlocked_crates(walls, crates, targets, width)))
        saved = pushes_to_targets(walls, crates, targets, width)
        assert not dead & saved, rows
        lost += len(dead)
    assert lost > 30


def test_every_arrangement_of_two_crates_in_a_small_room_is_judged_as_the_search_does():
    # With one target in the middle of a room without inner walls, corners and wall sides are all there is, and frozen
    # pairs at a wall are among them: the fast answer is complete.
    cells = [(y, x) for y in range(3) for x in range(3)]
    for first, second in itertools.combinations(cells, 2):
        room = [[" "] * 3 for _ in range(3)]
        room[1][1] = "."
        for y, x in (first, second):
            room[y][x] = "*" if (y, x) == (1, 1) else "$"
        walls, crates, targets, width = flat_room(["".join(row) for row in room])
        dead = set(np.flatnonzero(deadlocked_crates(walls, crates, targets, width)))
        assert dead == set(np.flatnonzero(crates)) - pushes_to_targets(walls, crates, targets, width)


def test_levels_are_counted_in_gym_pcgrl_numbers():
    levels = np.zeros((3, 3, 3), np.uint8)
    levels[0, 0, 0] = CRATE
    levels[1, 1, 1], levels[1, 2, 2] = CRATE, TARGET
    levels[2] = CRATE
    assert count_deadlocked_crates(levels, SOLID, CRATE, TARGET).tolist() == [1, 0, 9]

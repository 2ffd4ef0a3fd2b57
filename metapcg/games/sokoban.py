"""Sokoban: one player pushes crates onto targets. (Docstring to be completed.)"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.game import Game
from metapcg.games.paths import count_regions, tile_set
from metapcg.games.sokoban_solver import MOVES, STATUS_NAMES, solve_level

EMPTY, SOLID, PLAYER, CRATE, TARGET = range(5)
NOT_SOLID = tile_set(EMPTY, PLAYER, CRATE, TARGET)

SOKOBAN = Game(
    name="sokoban",
    index=2,
    tiles=("empty", "solid", "player", "crate", "target"),
    codes=np.array([tiles.EMPTY, tiles.SOLID, tiles.PLAYER, tiles.CRATE, tiles.TARGET], np.uint8),
    default_size=(5, 5),
    probabilities=np.array([0.45, 0.40, 0.05, 0.05, 0.05]),
    statistics=("player", "crate", "target", "regions", "ratio", "dist-win", "sol-length"),
    terms=("player", "crate", "target", "regions", "ratio", "dist-win", "sol-length"),
    weights=np.array([3.0, 2.0, 2.0, 5.0, 2.0, 0.0, 1.0]),
    low=np.array([1.0, 1.0, 1.0, 1.0, -np.inf, -np.inf, np.inf]),
    high=np.array([1.0, 3.0, 3.0, 1.0, -np.inf, -np.inf, np.inf]),
    parameters={"min_solution": 18.0, "max_crates": 3.0, "solver_power": 5000.0},
    high_parameters={"crate": "max_crates", "target": "max_crates"},
)


@njit(cache=True, nogil=True, inline="always")
def evaluate_sokoban(level, solver_power, quirks, stats):
    """Writes (player, crate, target, regions, ratio, dist-win, sol-length) of a (H, W) uint8 level into stats."""
    height, width = level.shape
    players = crates = targets = 0
    for y in range(height):
        for x in range(width):
            tile = level[y, x]
            players += tile == PLAYER
            crates += tile == CRATE
            targets += tile == TARGET
    stats[0] = players
    stats[1] = crates
    stats[2] = targets
    stats[3] = count_regions(level, NOT_SOLID)
    stats[4] = abs(crates - targets)
    stats[5] = width * height * (width + height)
    stats[6] = 0
    if players == 1 and crates == targets and crates > 0 and stats[3] == 1:
        _, dist_win, moves = solve_level(level, solver_power, quirks)
        stats[5] = dist_win
        stats[6] = moves.shape[0]


@njit(cache=True, nogil=True)
def sokoban_goal(stats, params):
    """A solution of at least min_solution moves."""
    return stats[6] >= params[0]


def solve(level, power=5000, quirks=False):
    """Solves one Sokoban level.

    Args:
        level: (height, width) integers 0..4, at most 32 each way, with one player and as many crates as
            targets, at least one.
        power: budget of a search in positions.
        quirks: run gym-pcgrl's sequence of searches instead of the exact one.

    Returns:
        (status, solution, dist_win): "solved", "unsolvable" (proven) or "undecided" (budget used up); player moves as a
        string over L R U D; 0 if solved, else the smallest heuristic found.

    Raises:
        ValueError: for a level with other tiles or counts, or a power below 1.
    """
    level = SOKOBAN.check_level(level)
    if power < 1:
        raise ValueError(f"power must be at least 1, got {power!r}")
    counts = [int((level == tile).sum()) for tile in (PLAYER, CRATE, TARGET)]
    if counts[0] != 1 or counts[1] != counts[2] or counts[1] == 0:
        raise ValueError(f"level must have one player and equally many crates and targets, got {counts}")
    status, dist_win, moves = solve_level(level, int(power), bool(quirks))
    return STATUS_NAMES[status], "".join(MOVES[move] for move in moves), int(dist_win)

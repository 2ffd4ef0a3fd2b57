"""Sokoban: a player pushes every crate onto a target.

Description
-----------
A level of empty (0), solid (1), player (2), crate (3) and target (4) cells, 5 × 5 by default. Beyond the edge all is
solid. Statistics:

``player``, ``crate``, ``target``: how many there are.
``regions``: number of sets of cells connected through the four neighbours, over all cells but solid.
``ratio``: abs(crate - target).
``dist-win``: 0 if a solution was found, else the smallest heuristic over the positions searched (crates in order,
each takes the nearest free target by Manhattan distance; the sum).
``sol-length``: number of player moves of the solution, 0 without one.

Only a level with one player, one region and as many crates as targets, at least one, is solved; for others
``dist-win`` is width * height * (width + height).

The solver is one breadth-first search over (player, set of crates), each position kept once, that never pushes a
crate onto a square from which it cannot reach a target. Within ``solver_power`` distinct positions it finds a
shortest solution or proves that there is none. In an unsolvable level ``dist-win`` is then the smallest heuristic
over all positions that can be reached (found by a best-first search with the same budget). If the budget ends first,
gym-pcgrl's three A* searches follow, each with a budget of ``solver_power`` distinct positions, so that the result is
never worse than gym-pcgrl's; a solution found only by them need not be shortest. Results depend on the level alone.
Levels of any size up to 32 × 32 and with any number of crates are searched; with more than 64 crates the A* searches
are left out (their heuristic costs crates² a position), and ``dist-win`` of an unsolved level is the heuristic of the
level itself.

Action Space
------------
narrow: ``Discrete(6)``, 0 leaves the cell as it is, a > 0 writes tile a-1 at the present position.
turtle: ``Discrete(9)``, 0 left, 1 right, 2 up, 3 down, 4+t writes tile t at the present position.
wide: ``MultiDiscrete([width, height, 5])``, x, y and the tile to write there.

Observation Space
-----------------
``Dict`` of ``map``, uint8 (height, width), tile numbers; ``heatmap``, uint16 (height, width), how often each cell was
changed; and except for wide ``pos``, uint8 (2,), the position [x, y].

Rewards
-------
For each changed tile, how much nearer each statistic came to its range, times its weight: ``player`` and ``regions``
in [1, 1], weights 3 and 5; ``crate`` and ``target`` in [1, ``max_crates``], weight 2 each; ``ratio`` as small as
possible, weight 2; ``dist-win`` as small as possible, weight 0; ``sol-length`` as large as possible, weight 1.

Starting State
--------------
Every cell is drawn independently: empty 0.45, solid 0.40, player, crate and target 0.05 each.

Episode End
-----------
Goal: a solution of at least ``min_solution`` moves. Otherwise the episode ends when its changes or iterations are
used up.

Arguments
---------
``min_solution`` (18): least number of moves of the solution.
``max_crates`` (3): largest number of crates, and of targets, in a good level.
``solver_power`` (5000): budget of a search, in positions.

Differences from gym-pcgrl
--------------------------
``quirks="gym-pcgrl"`` reproduces these exactly:

``four-searches``
    Breadth-first, then A* with weights 1, 0.5 and 0 of the depth, each from the start, also in levels that the first
    has proven unsolvable. Default: one exact search first, and only what it leaves open after it.
``duplicates-use-the-budget``
    Positions are recognised only when they are taken out of the queue, the same crates in another order are another
    position, and each duplicate uses up one of ``solver_power`` iterations. Default: distinct positions are counted.
``solutions-by-heap-order``
    Once breadth-first search has run out of its budget, the solution depends on the order of ties in a binary heap
    and need not be shortest. Default: shortest whenever the exact search finds one within its budget.
``few-deadlocks``
    Only corners and wall sides between corners count as deadlocks. Default: the exact search leaves out every square
    from which a crate cannot reach a target.
``goal-without-solution``
    With ``min_solution`` 0 a level without a solution is a goal. Default: a goal has a solution.
``jump-across-the-range``
    A statistic that jumps from below its range to above it earns high - new + old - low (and the mirror image), which
    no sequence of smaller steps would earn. Default: the decrease of the distance to the range, so that the rewards
    of an episode sum to the potential of its last level minus that of its first.

Version History
---------------
v0: first version.
"""

import numpy as np
from numba import njit

from metapcg.games import tiles
from metapcg.games.game import Game
from metapcg.games.paths import regions_after_change, tile_set
from metapcg.games.sokoban_solver import DEPTH, MOVES, NODE_WORDS, STATUS_NAMES, search_space, solve_level, trace

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
def evaluate_sokoban(level, x, y, before, solver_power, quirks, stats, space):
    """Writes (player, crate, target, regions, ratio, dist-win, sol-length) of a (H, W) uint8 level into stats.

    `before`: the tile that cell (x, y) had when stats, which then hold those of that level, were written; or -1.
    `space`: memory of the solver.
    """
    height, width = level.shape
    if before < 0:
        for k in range(3):
            stats[k] = 0
        for row in range(height):
            for column in range(width):
                if level[row, column] >= PLAYER:
                    stats[min(level[row, column], TARGET) - PLAYER] += 1
    else:
        if before >= PLAYER:
            stats[min(before, TARGET) - PLAYER] -= 1
        if level[y, x] >= PLAYER:
            stats[min(level[y, x], TARGET) - PLAYER] += 1
    players = stats[0]
    crates = stats[1]
    targets = stats[2]
    stats[3] = regions_after_change(level, x, y, before, stats[3], NOT_SOLID)
    stats[4] = abs(crates - targets)
    stats[5] = width * height * (width + height)
    stats[6] = 0
    if players == 1 and crates == targets and crates > 0 and stats[3] == 1:
        _, dist_win, node = solve_level(level, solver_power, quirks, space)
        stats[5] = dist_win
        if node >= 0:
            stats[6] = space[0][NODE_WORDS * node + DEPTH]


@njit(cache=True, nogil=True, inline="always")
def sokoban_goal(stats, params, quirks):
    """A solution of at least min_solution moves."""
    return stats[6] >= params[0] and (quirks or stats[6] > 0)


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
    if isinstance(power, bool) or not isinstance(power, (int, np.integer)) or power < 1:
        raise ValueError(f"power must be a whole number of at least 1, got {power!r}")
    counts = [int((level == tile).sum()) for tile in (PLAYER, CRATE, TARGET)]
    if counts[0] != 1 or counts[1] != counts[2] or counts[1] == 0:
        raise ValueError(
            "level must have one player and as many crates as targets, at least one; "
            f"it has {counts[0]} players, {counts[1]} crates, {counts[2]} targets"
        )
    space = search_space(*level.shape, int(power))
    status, dist_win, node = solve_level(level, int(power), bool(quirks), space)
    moves = trace(space[0], node) if node >= 0 else ()
    return STATUS_NAMES[status], "".join(MOVES[move] for move in moves), int(dist_win)

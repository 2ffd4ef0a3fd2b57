"""What a level is and how good it is: tiles, statistics, reward terms, goals.

`GAMES` describes the games; the numba functions `evaluate`, `reward` and `goal_reached` score levels. In every one of
them `quirks=True` reproduces gym-pcgrl and `quirks=False` does the right thing; the differences are listed in the
docstring of each game's module.

The functions between `evaluate` and the searches are inlined (``inline="always"``): numba would otherwise optimise the
searches again at every level of calls, which adds half to the time of the first compilation.
"""

from numba import njit

from metapcg.games.binary import BINARY, binary_goal, evaluate_binary
from metapcg.games.game import MAX_SIDE, Game
from metapcg.games.reward import potential, range_reward, reward
from metapcg.games.sokoban import SOKOBAN, evaluate_sokoban, sokoban_goal, solve
from metapcg.games.sokoban_solver import search_space
from metapcg.games.zelda import ZELDA, evaluate_zelda, zelda_goal

__all__ = [
    "GAMES",
    "MAX_SIDE",
    "Game",
    "evaluate",
    "evaluate_change",
    "get_game",
    "goal_reached",
    "potential",
    "range_reward",
    "reward",
    "search_space",
    "solve",
]

SOKOBAN_INDEX = SOKOBAN.index

GAMES: dict[str, Game] = {game.name: game for game in (BINARY, ZELDA, SOKOBAN)}


def get_game(name: str) -> Game:
    """The game of that name.

    Raises:
        ValueError: if there is none.
    """
    if name not in GAMES:
        raise ValueError(f"unknown game {name!r}; choose one of {', '.join(GAMES)}")
    return GAMES[name]


@njit(cache=True, nogil=True, inline="always")
def evaluate_change(game_index, level, x, y, before, solver_power, quirks, stats, space):
    """Brings the statistics of a level up to date after one cell was changed.

    What follows from the changed cell alone (counts, regions unless the cell joins or parts some) is not counted again.

    Args:
        game_index, level, solver_power, quirks: see `evaluate`; the level is already changed.
        x, y: the cell.
        before: tile number that the cell had when `stats` were written; -1 if they hold nothing yet.
        stats: (statistics,) int64, those of the level before the change, overwritten.
        space: `search_space` for the size of the level and the budget; other games than sokoban ignore it.
    """
    if game_index == 0:
        evaluate_binary(level, quirks, stats)
    elif game_index == 1:
        evaluate_zelda(level, x, y, before, quirks, stats)
    else:
        evaluate_sokoban(level, x, y, before, solver_power, quirks, stats, space)


@njit(cache=True, nogil=True)
def evaluate(game_index, level, solver_power, quirks, stats):
    """Writes the statistics of a level.

    Args:
        game_index: `Game.index`.
        level: (H, W) uint8, own tile numbers, 1..32 each way. Not checked: see `Game.check_level`.
        solver_power: budget of a Sokoban search in positions; other games ignore it.
        quirks: bool, reproduce gym-pcgrl.
        stats: (statistics,) int64, overwritten, in the order of `Game.statistics`.
    """
    height, width = level.shape
    space = search_space(height, width, solver_power if game_index == SOKOBAN_INDEX else 0)
    evaluate_change(game_index, level, 0, 0, -1, solver_power, quirks, stats, space)


@njit(cache=True, nogil=True)
def goal_reached(game_index, stats, start_stats, params, quirks):
    """Whether a level is finished.

    Args:
        game_index: `Game.index`.
        stats, start_stats: (statistics,) int64, of the level and of the episode's first level.
        params: float64, `Game.parameter_array()`.
        quirks: bool, reproduce gym-pcgrl.

    Returns:
        bool.
    """
    if game_index == 0:
        return binary_goal(stats, start_stats, params)
    if game_index == 1:
        return zelda_goal(stats, params, quirks)
    return sokoban_goal(stats, params, quirks)

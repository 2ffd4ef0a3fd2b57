"""The batch engine: M tasks x E environments of one game and one representation, one compiled call per step.

A *task* is what reward a level's statistics earn (weights and target ranges) and how much of a level may be changed; an
*environment* is one level being edited. All environments of an engine share game, representation and size, so that
everything is an array with the leading axes (M, E), kept for the life of the engine and overwritten in place. No
process pool, no automatic reset.

Quirks of gym-pcgrl that ``quirks="gym-pcgrl"`` reproduces and the default puts right; those of the statistics,
rewards and goals are listed with each game in ``metapcg.games``:

``heatmap-at-next-position``
    narrow raises the heatmap at the position it moves to. Default: at the cell that was changed.
``density-of-the-next-map``
    binary with ``random_probs`` redraws the share of empty cells after a level was drawn, so that the first level has
    the start probability. Default: every level's share is drawn just before the level.
``limits-of-the-old-size``
    belongs to ``adjust_param`` of the Gymnasium environments, see ``metapcg.envs.gym_envs``.

Random numbers are our own in both modes: gym-pcgrl's draws cannot be repeated (its representation and its problem
draw from two generators with one seed).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit

from metapcg.envs.random_streams import next_words, seed_streams, to_below, to_unit_interval
from metapcg.envs.representations import (
    NARROW,
    REPRESENTATIONS,
    TURTLE,
    WIDE,
    check_representation,
    count_actions,
    narrow_next,
    narrow_tile,
    turtle_move,
    turtle_tile,
    wide_cell,
)
from metapcg.games import GAMES, MAX_SIDE, Game, evaluate_change, get_game, goal_reached, range_reward, search_space
from metapcg.games.tiles import OUTSIDE

QUIRKS = "gym-pcgrl"
"""The one value other than None that ``quirks`` takes."""

MAX_BUDGET = 65535
"""Largest number of changes an episode may allow: a heatmap cell is a uint16."""


NO_ILLEGAL_ACTION = -1
GUIDE_BITS = 8

BUFFERS = (
    "streams", "maps", "padded", "crops", "positions", "heatmap", "stats", "start_stats",
    "rewards", "iterations", "changes", "terminated", "truncated", "active",
)  # fmt: skip
"""An engine's arrays of environments, in the order in which the kernel takes them."""


@njit(cache=True, nogil=True)
def _draw_levels(representation, mask, cumulative, guide, densities, random_probs, quirks, streams, maps, positions):
    """Draw a level, then a position (x, y), for every environment in ``mask``, each from its own stream.

    A cell's tile is the first whose cumulative probability lies above the draw; ``guide`` says with which tile to begin
    by the draw's first bits.
    """
    height, width = maps.shape[1], maps.shape[2]
    most = cumulative.shape[0] - 1
    for env in range(maps.shape[0]):
        if not mask[env]:
            continue
        a, b, c, d = streams[env, 0], streams[env, 1], streams[env, 2], streams[env, 3]
        if random_probs and not quirks:
            bits, a, b, c, d = next_words(a, b, c, d)
            densities[env] = to_unit_interval(bits)
        for y in range(height):
            for x in range(width):
                bits, a, b, c, d = next_words(a, b, c, d)
                draw = to_unit_interval(bits)
                tile = 0
                if random_probs:
                    tile += draw >= densities[env]
                else:
                    tile += guide[bits >> np.uint64(64 - GUIDE_BITS)]
                    while tile < most and draw >= cumulative[tile]:
                        tile += 1
                maps[env, y, x] = tile
        if random_probs and quirks:
            bits, a, b, c, d = next_words(a, b, c, d)
            densities[env] = to_unit_interval(bits)
        positions[env, 0] = 0
        positions[env, 1] = 0
        if representation != WIDE:
            bits, a, b, c, d = next_words(a, b, c, d)
            positions[env, 0] = to_below(bits, width)
            bits, a, b, c, d = next_words(a, b, c, d)
            positions[env, 1] = to_below(bits, height)
        streams[env, 0], streams[env, 1], streams[env, 2], streams[env, 3] = a, b, c, d


@njit(cache=True, nogil=True)
def _advance(
    starting, mask, num_envs, game_index, representation, random_tile, warp, quirks, stop_at_goal, solver_power,
    num_actions, codes, parameters, weights, low, high, max_changes, max_iterations,
    actions, given_positions, use_given,
    streams, maps, padded, crops, positions, heatmap, stats, start_stats,
    rewards, iterations, changes, terminated, truncated, active, new_stats, first_stats, space,
):  # fmt: skip
    """Start episodes (``starting``) or take a step, in the environments of ``mask``.

    Arrays of environments have one axis for tasks and environments together here, tasks the outer one.

    Both stand in one kernel because both evaluate levels, and the code of the statistics would otherwise be compiled
    twice. Starting keeps the level and the position and clears everything else that belongs to an episode.

    ``new_stats`` and ``first_stats`` are scratch for one environment's statistics (a row cut out of an array costs more
    than to copy it), ``space`` the memory of the statistics' searches.

    Returns the flat index of the first environment in ``mask`` whose action does not exist; then nothing was done.
    NO_ILLEGAL_ACTION if all exist.
    """
    height, width = maps.shape[1], maps.shape[2]
    side = crops.shape[1]
    margin = side // 2
    num_stats = stats.shape[1]
    if not starting:
        for env in range(maps.shape[0]):
            if mask[env] and (actions[env] < 0 or actions[env] >= num_actions):
                return env
    for env in range(maps.shape[0]):
        if not starting:
            rewards[env] = 0.0
        if not mask[env]:
            continue
        x = old_x = positions[env, 0]
        y = old_y = positions[env, 1]
        evaluated = starting
        cell_x, cell_y, tile, before = x, y, np.int64(-1), np.int64(-1)
        if starting:
            for row in range(height):
                for column in range(width):
                    padded[env, row + margin, column + margin] = codes[maps[env, row, column]]
                    heatmap[env, row, column] = 0
            rewards[env] = 0.0
            iterations[env] = 0
            changes[env] = 0
            terminated[env] = False
            truncated[env] = False
            active[env] = True
        else:
            iterations[env] += 1
            action = actions[env]
            if representation == NARROW:
                tile = narrow_tile(action)
                if use_given:
                    x, y = given_positions[env, 0], given_positions[env, 1]
                elif random_tile:
                    a, b, c, d = streams[env, 0], streams[env, 1], streams[env, 2], streams[env, 3]
                    bits, a, b, c, d = next_words(a, b, c, d)
                    x = to_below(bits, width)
                    bits, a, b, c, d = next_words(a, b, c, d)
                    y = to_below(bits, height)
                    streams[env, 0], streams[env, 1], streams[env, 2], streams[env, 3] = a, b, c, d
                else:
                    x, y = narrow_next(x, y, width, height)
            elif representation == TURTLE:
                tile = turtle_tile(action)
                x, y = turtle_move(action, x, y, width, height, warp)
            else:
                cell_x, cell_y, tile = wide_cell(action, width, codes.shape[0])
            positions[env, 0] = x
            positions[env, 1] = y
            if tile >= 0:
                before = np.int64(maps[env, cell_y, cell_x])
                if before != tile:
                    evaluated = True
                    maps[env, cell_y, cell_x] = tile
                    padded[env, cell_y + margin, cell_x + margin] = codes[tile]
                    changes[env] += 1
                    if quirks and representation == NARROW:
                        heatmap[env, y, x] += 1
                    else:
                        heatmap[env, cell_y, cell_x] += 1
        if starting or x != old_x or y != old_y:
            top, left = np.uint64(y), np.uint64(x)  # unsigned: numba need not look whether an index is negative
            for row in range(np.uint64(side)):
                for column in range(np.uint64(side)):
                    crops[env, row, column] = padded[env, top + row, left + column]
        elif evaluated and representation != WIDE:
            crops[env, margin, margin] = codes[tile]
        if evaluated:
            for index in range(num_stats):
                new_stats[index] = stats[env, index]
            evaluate_change(game_index, maps[env], cell_x, cell_y, before, solver_power, quirks, new_stats, space)
        if starting:
            for index in range(num_stats):
                stats[env, index] = new_stats[index]
                start_stats[env, index] = new_stats[index]
            continue
        task = env // num_envs
        reached = False
        if evaluated:
            # `metapcg.games.reward`, in place
            total = 0.0
            for index in range(num_stats):
                old = stats[env, index]
                new = new_stats[index]
                if new != old:
                    total += weights[task, index] * range_reward(new, old, low[task, index], high[task, index], quirks)
                stats[env, index] = new
            rewards[env] = total
        if stop_at_goal and (evaluated or iterations[env] == 1):  # else it is no goal, as after the last step
            for index in range(num_stats):
                new_stats[index] = stats[env, index]
                first_stats[index] = start_stats[env, index]
            reached = goal_reached(game_index, new_stats, first_stats, parameters, quirks)
        if reached:
            terminated[env] = True
            active[env] = False
        elif changes[env] >= max_changes[task] or iterations[env] >= max_iterations[task]:
            truncated[env] = True
            active[env] = False
    return NO_ILLEGAL_ACTION


class LevelEngine:
    """Edit M x E levels at once.

    One episode: ``reset`` draws levels and positions, then ``step`` applies one action per environment. A step counts
    as an iteration; if it changes a tile it also counts as a change, raises the heatmap, and earns the reward of the
    new statistics against the old (a step that changes nothing earns 0 and evaluates nothing). An environment ends by
    reaching the game's goal (``terminated``) or by using up its changes or iterations (``truncated``), never both:
    the goal wins. Then it stays as it is, its actions are ignored, its rewards are 0 and its flags stay up, until
    ``reset`` starts it again.

    Parameters
    ----------
    game : str or Game
        ``"binary"``, ``"zelda"`` or ``"sokoban"``.
    representation : str
        ``"narrow"``, ``"turtle"`` or ``"wide"``; the numbering of their actions is in ``metapcg.envs.representations``.
    num_tasks, num_envs : int
        M and E, at least 1. ``set_tasks`` may change M.
    size : (width, height) in cells, 1 … 32 each way; None is the game's default
    crop : int, odd
        Side of the window of union tile codes round the position.
    random_tile : bool
        narrow: the next position is random (True) or the next cell in row-major order.
    warp : bool
        turtle: leaving at one edge enters at the other (True) or stays at the edge.
    quirks : None or "gym-pcgrl"
        None does the right thing, ``"gym-pcgrl"`` what gym-pcgrl does; the differences are named in this module's
        docstring and in the games'.
    horizon : int or None
        Caps the iterations of an episode below gym-pcgrl's limit.
    stop_at_goal : bool
        False: the goal does not end an episode.
    start_probabilities : sequence of float, one per tile, or None for the game's default
        Each cell of a start level is drawn independently with these (normalised to sum to 1).
    random_probs : bool
        binary only: the share of empty cells is drawn from U(0, 1) for every level (gym-pcgrl's name and, there,
        default).
    parameters : mapping from a parameter's name (``game.parameters``) to a number, or None
        Goals and ranges, such as ``target_path`` or ``max_crates``, and Sokoban's ``solver_power``.

    Attributes
    ----------
    maps : uint8 (M, E, H, W), the game's own tile numbers
    padded : uint8 (M, E, H+c-1, W+c-1), union tile codes with a margin of OUTSIDE; the crop at cell (x, y) is
        ``padded[..., y:y+c, x:x+c]`` (the observation of wide)
    crops : uint8 (M, E, c, c), union tile codes centred at the position (narrow and turtle; for wide it stays at cell
        (0, 0))
    positions : int64 (M, E, 2), [x, y]; zeros for wide
    heatmap : uint16 (M, E, H, W), how often each cell was changed
    stats, start_stats : int64 (M, E, S), in the order of ``game.statistics``
    rewards : float64 (M, E), of the last step
    terminated, truncated, active : bool (M, E)
    iterations, changes : int64 (M, E)
    weights, low, high : float64 (M, T), in the order of ``game.terms``
    max_changes, max_iterations : int64 (M,)
    streams : uint64 (M, E, 4), the state of every environment's random stream
    densities : float64 (M, E), the share of empty cells with which ``random_probs`` draws: that of the present level,
        or with quirks of the next one
    num_tasks, num_envs, num_tiles, num_actions, width, height, crop : int

    Raises
    ------
    ValueError : any setting out of its range; the message names the setting
    """

    def __init__(
        self,
        game,
        representation,
        *,
        num_tasks=1,
        num_envs=1,
        size=None,
        crop=5,
        random_tile=True,
        warp=False,
        quirks=None,
        horizon=None,
        stop_at_goal=True,
        start_probabilities=None,
        random_probs=False,
        parameters=None,
    ):
        self.game = game if isinstance(game, Game) else get_game(game)
        self._representation = check_representation(representation)
        self.representation = REPRESENTATIONS[self._representation]
        self.num_envs = _whole_number("num_envs", num_envs, 1)
        self.width, self.height = _check_size(self.game.default_size if size is None else size)
        self.crop = _whole_number("crop", crop, 1)
        if self.crop % 2 == 0:
            raise ValueError(f"crop: needs an odd number, so that one cell is in the middle, got {crop}")
        self.random_tile = _flag("random_tile", random_tile)
        self.warp = _flag("warp", warp)
        if quirks not in (None, QUIRKS):
            raise ValueError(f"quirks: needs None or {QUIRKS!r}, got {quirks!r}")
        self.quirks = quirks
        self._quirks = quirks is not None
        self.horizon = None if horizon is None else _whole_number("horizon", horizon, 1)
        self.stop_at_goal = _flag("stop_at_goal", stop_at_goal)
        self.random_probs = _flag("random_probs", random_probs)
        if self.random_probs and self.game.name != "binary":
            raise ValueError(f"random_probs: only binary draws its share of empty cells, not {self.game.name}")
        self.start_probabilities = _check_probabilities(self.game, start_probabilities)
        if parameters is not None and not isinstance(parameters, Mapping):
            raise ValueError(f"parameters: needs a mapping from names to numbers, got {parameters!r}")
        self.parameters = dict(self.game.parameters) | dict(parameters or {})
        self._parameters = self.game.parameter_array(**self.parameters)
        self._default_low, self._default_high = self.game.bounds(**self.parameters)
        self._solver_power = int(self.parameters.get("solver_power", 0))
        self._cumulative = np.cumsum(self.start_probabilities)
        draws = np.arange(1 << GUIDE_BITS) / (1 << GUIDE_BITS)
        self._guide = np.minimum(np.searchsorted(self._cumulative, draws, "right"), len(self._cumulative) - 1)
        self._codes = np.array(self.game.codes, np.uint8)

        self._new_stats, self._first_stats = np.zeros((2, len(self.game.statistics)), np.int64)
        self._space = search_space(self.height, self.width, self._solver_power)

        self.num_tiles = len(self.game.tiles)
        self.num_actions = count_actions(self.representation, self.num_tiles, self.width, self.height)
        self.num_tasks = 0
        num_tasks = _whole_number("num_tasks", num_tasks, 1)
        self.set_tasks(np.tile(self.game.weights, (num_tasks, 1)))

    def _allocate(self, num_tasks):
        """Make the buffers of ``num_tasks`` tasks; every episode and every random stream in the old ones is lost."""
        self.num_tasks = num_tasks
        batch = (num_tasks, self.num_envs)
        level = (self.height, self.width)
        margin = 2 * (self.crop // 2)
        self.maps = np.zeros((*batch, *level), np.uint8)
        self.padded = np.full((*batch, self.height + margin, self.width + margin), OUTSIDE, np.uint8)
        self.crops = np.full((*batch, self.crop, self.crop), OUTSIDE, np.uint8)
        self.positions = np.zeros((*batch, 2), np.int64)
        self.heatmap = np.zeros((*batch, *level), np.uint16)
        self.stats = np.zeros((*batch, len(self.game.statistics)), np.int64)
        self.start_stats = np.zeros_like(self.stats)
        self.rewards = np.zeros(batch, np.float64)
        self.terminated = np.zeros(batch, np.bool_)
        self.truncated = np.zeros(batch, np.bool_)
        self.active = np.zeros(batch, np.bool_)
        self.iterations = np.zeros(batch, np.int64)
        self.changes = np.zeros(batch, np.int64)
        self.streams = np.zeros((*batch, 4), np.uint64)
        self.densities = np.full(batch, self.start_probabilities[0])
        self._flat = {
            name: getattr(self, name).reshape(-1, *getattr(self, name).shape[2:]) for name in ("densities", *BUFFERS)
        }
        self._buffers = tuple(self._flat[name] for name in BUFFERS)
        self._seeded = False

    def set_tasks(self, weights, low=None, high=None, change_percentage=0.2):
        """Give every task its reward and its limits; all episodes end, ``reset`` starts new ones.

        The limits are gym-pcgrl's: ``max_changes = max(int(change_percentage * width * height), 1)`` and
        ``max_iterations = max_changes * width * height``, the latter capped by ``horizon``. The random streams go on
        if M stays as it was; otherwise the buffers are made anew and ``reset`` needs a seed.

        Parameters
        ----------
        weights : (M, T) float, one weight per reward term, in the order of ``game.terms``
        low, high : (M, T) float, or None for the game's own ranges
            The range in which a statistic earns most. ``low = high = +inf`` pays the statistic's growth, ``-inf`` its
            decrease.
        change_percentage : float or (M,) float, 0 … 1

        Raises
        ------
        ValueError : wrong shape, NaN, infinite weights, low above high, a percentage outside 0 … 1
        """
        terms = len(self.game.terms)
        weights = _term_array("weights", weights, None, terms)
        if not np.isfinite(weights).all():
            raise ValueError("weights: every weight needs to be finite")
        num_tasks = len(weights)
        default_low, default_high = self._default_low, self._default_high
        low = np.tile(default_low, (num_tasks, 1)) if low is None else _term_array("low", low, num_tasks, terms)
        high = np.tile(default_high, (num_tasks, 1)) if high is None else _term_array("high", high, num_tasks, terms)
        if (low > high).any():
            task, term = np.argwhere(low > high)[0]
            raise ValueError(
                f"low: {low[task, term]} is above high {high[task, term]} for {self.game.terms[term]!r} of task {task}"
            )
        percentage = np.asarray(change_percentage, np.float64)
        if percentage.shape not in ((), (num_tasks,)):
            raise ValueError(
                f"change_percentage: needs one number or shape ({num_tasks},), got shape {percentage.shape}"
            )
        if not ((percentage >= 0) & (percentage <= 1)).all():
            raise ValueError(f"change_percentage: needs numbers from 0 to 1, got {change_percentage!r}")
        if num_tasks != self.num_tasks:
            self._allocate(num_tasks)
        self.weights, self.low, self.high = weights, low, high
        self.change_percentage = np.broadcast_to(percentage, (num_tasks,)).copy()
        max_changes = np.maximum((self.change_percentage * self.width * self.height).astype(np.int64), 1)
        self.set_limits(max_changes, max_changes * self.width * self.height)

    def set_limits(self, max_changes, max_iterations):
        """Set the limits directly, in place of those that follow from the change percentage; all episodes end.

        Parameters
        ----------
        max_changes : int or (M,) int, 1 … 65535
        max_iterations : int or (M,) int, at least 1; ``horizon`` still caps it

        Raises
        ------
        ValueError : other shapes, other types, numbers out of range
        """
        limits = []
        for name, value in (("max_changes", max_changes), ("max_iterations", max_iterations)):
            value = np.asarray(value)
            if value.dtype.kind not in "iu" or value.shape not in ((), (self.num_tasks,)):
                raise ValueError(
                    f"{name}: needs an integer or {self.num_tasks} of them, got {value.dtype} of shape {value.shape}"
                )
            if (value < 1).any():
                raise ValueError(f"{name}: needs at least 1, got {value.min()}")
            limits.append(np.broadcast_to(value, (self.num_tasks,)).astype(np.int64))
        if (limits[0] > MAX_BUDGET).any():
            raise ValueError(f"max_changes: needs at most {MAX_BUDGET}, got {limits[0].max()}")
        self.max_changes, self.max_iterations = limits
        if self.horizon is not None:
            self.max_iterations = np.minimum(self.max_iterations, self.horizon)
        self._started = False

    def reset(self, seed=None, mask=None):
        """Start new episodes on freshly drawn levels.

        The stream of environment (m, e) depends on the seed and on (m, e) alone, so the same environment sees the
        same levels in an engine with more tasks or environments.

        Parameters
        ----------
        seed : int, numpy.random.SeedSequence or None
            Starts the streams of the masked environments anew. None lets them go on, which needs a seeded reset before.
        mask : bool (M, E) or None
            Which environments to start; None is all of them. The first reset has to be of all.

        Raises
        ------
        ValueError : a seed that is neither, no seed when the streams were never started, a mask of another shape or
            type, a first reset of a part
        """
        mask = self._check_mask(mask)
        if seed is None:
            if not self._seeded:
                raise ValueError("seed: the first reset needs one, to start the random streams")
        else:
            if not self._seeded and not mask.all():
                raise ValueError("mask: the first reset has to start every environment")
            seed_streams(_seed_key(seed), mask, self.streams)
            self.densities[mask] = self.start_probabilities[0]
            self._seeded = True
        _draw_levels(
            self._representation, mask.ravel(), self._cumulative, self._guide, self._flat["densities"],
            self.random_probs, self._quirks, self._flat["streams"], self._flat["maps"], self._flat["positions"],
        )  # fmt: skip
        self._start(mask)

    def set_levels(self, maps, positions=None):
        """Start new episodes in every environment on given levels.

        Parameters
        ----------
        maps : integer array (M, E, H, W), the game's own tile numbers
        positions : integer array (M, E, 2), [x, y] of every environment, or None for cell (0, 0); not for wide

        Raises
        ------
        ValueError : other shapes or types, tile numbers the game lacks, positions outside the level, positions for wide
        """
        maps = np.asarray(maps)
        if maps.dtype.kind not in "iu" or maps.shape != self.maps.shape:
            raise ValueError(f"maps: needs integers of shape {self.maps.shape}, got {maps.dtype} of shape {maps.shape}")
        if maps.min() < 0 or maps.max() >= self.num_tiles:
            raise ValueError(
                f"maps: {self.game.name} has tiles 0 … {self.num_tiles - 1}, got {maps.min()} … {maps.max()}"
            )
        positions = self._check_positions("positions", positions)
        self.maps[...] = maps
        self.positions[...] = positions
        self._start(np.ones((self.num_tasks, self.num_envs), np.bool_))

    def restart(self, mask=None):
        """Start new episodes on the levels and positions that ``maps`` and ``positions`` hold.

        For callers who wrote these themselves, or who want the last episode's level again. The random streams stay.

        Parameters
        ----------
        mask : bool (M, E) or None
            Which environments to start; None is all of them. The first start has to be of all.

        Raises
        ------
        ValueError : a mask of another shape or type, a first start of a part, tiles or positions that do not exist
        """
        mask = self._check_mask(mask)
        if mask.any():
            if (most := self.maps[mask].max()) >= self.num_tiles:
                raise ValueError(f"maps: {self.game.name} has tiles 0 … {self.num_tiles - 1}, got {most}")
            positions = self.positions[mask]
            if (positions < 0).any() or (positions >= (self.width, self.height)).any():
                raise ValueError(f"positions: some lie outside the level of {self.width} x {self.height} cells")
        self._start(mask)

    def step(self, actions, next_positions=None):
        """Apply one action per environment.

        Parameters
        ----------
        actions : integer array (M, E), 0 … ``num_actions``-1; those of finished environments are ignored, whatever
            they are
        next_positions : integer array (M, E, 2), [x, y], or None
            narrow only: where to go next, in place of a drawn position (to replay a recording).

        Returns
        -------
        rewards float64 (M, E), terminated bool (M, E), truncated bool (M, E) : the engine's own buffers, which the
            next step overwrites

        Raises
        ------
        ValueError : a step before the first reset or after new tasks, actions of another shape or type, an action
            that does not exist (nothing is changed then)
        """
        if not self._started:
            raise ValueError("step: no episode was started since the tasks were set, call reset or set_levels first")
        actions = np.asarray(actions)
        if actions.dtype.kind not in "iu" or actions.shape != self.active.shape:
            raise ValueError(
                f"actions: needs integers of shape {self.active.shape}, got {actions.dtype} of shape {actions.shape}"
            )
        actions = np.ascontiguousarray(actions, np.int64)
        if next_positions is not None:
            if self._representation != NARROW:
                raise ValueError(f"next_positions: only narrow takes them, not {self.representation}")
            next_positions = self._check_positions("next_positions", next_positions)
        illegal = self._advance(False, self.active, actions, next_positions)
        if illegal != NO_ILLEGAL_ACTION:
            task, env = divmod(illegal, self.num_envs)
            raise ValueError(
                f"actions: {self.game.name}-{self.representation} has actions 0 … {self.num_actions - 1}, "
                f"got {actions[task, env]} for task {task}, environment {env}"
            )
        return self.rewards, self.terminated, self.truncated

    def _advance(self, starting, mask, actions, next_positions=None):
        flat = self._flat
        given = flat["positions"] if next_positions is None else next_positions.reshape(-1, 2)
        return _advance(
            starting, mask.ravel(), self.num_envs, self.game.index, self._representation, self.random_tile, self.warp,
            self._quirks, self.stop_at_goal, self._solver_power, self.num_actions, self._codes, self._parameters,
            self.weights, self.low, self.high, self.max_changes, self.max_iterations,
            actions.ravel(), given, next_positions is not None,
            *self._buffers, self._new_stats, self._first_stats, self._space,
        )  # fmt: skip

    def _start(self, mask):
        self._advance(True, mask, self.iterations)  # no actions are read when episodes start
        self._started = True

    def _check_mask(self, mask):
        shape = self.active.shape
        if mask is None:
            return np.ones(shape, np.bool_)
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != shape:
            raise ValueError(f"mask: needs booleans of shape {shape}, got {mask.dtype} of shape {mask.shape}")
        if not self._started and not mask.all():
            raise ValueError("mask: the first reset has to start every environment")
        return np.ascontiguousarray(mask)

    def _check_positions(self, name, positions):
        shape = self.positions.shape
        if positions is None:
            return np.zeros(shape, np.int64)
        if self._representation == WIDE:
            raise ValueError(f"{name}: wide has no position")
        positions = np.asarray(positions)
        if positions.dtype.kind not in "iu" or positions.shape != shape:
            raise ValueError(
                f"{name}: needs integers [x, y] of shape {shape}, got {positions.dtype} of shape {positions.shape}"
            )
        if (positions < 0).any() or (positions >= (self.width, self.height)).any():
            raise ValueError(f"{name}: some lie outside the level of {self.width} x {self.height} cells")
        return np.ascontiguousarray(positions, np.int64)


def _whole_number(name, value, least):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}: needs a whole number of at least {least}, got {value!r}")
    return int(value)


def _flag(name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: needs True or False, got {value!r}")
    return bool(value)


def _check_size(size):
    try:
        width, height = size
    except (TypeError, ValueError):
        raise ValueError(f"size: needs (width, height), got {size!r}") from None
    for name, side in (("width", width), ("height", height)):
        if _whole_number(f"size ({name})", side, 1) > MAX_SIDE:
            raise ValueError(f"size ({name}): needs at most {MAX_SIDE} cells, got {side}")
    return int(width), int(height)


def _check_probabilities(game, probabilities):
    probabilities = np.array(game.probabilities if probabilities is None else probabilities, np.float64)
    if probabilities.shape != (len(game.tiles),):
        raise ValueError(
            f"start_probabilities: {game.name} needs one per tile, {len(game.tiles)}, got shape {probabilities.shape}"
        )
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all() and probabilities.sum() > 0):
        raise ValueError(f"start_probabilities: needs finite numbers from 0 up, not all 0, got {probabilities}")
    return probabilities / probabilities.sum()


def _term_array(name, values, num_tasks, num_terms):
    values = np.array(values, np.float64)
    if values.ndim != 2 or values.shape[1] != num_terms or len(values) == 0 or num_tasks not in (None, len(values)):
        rows = "tasks" if num_tasks is None else num_tasks
        raise ValueError(f"{name}: needs shape ({rows}, {num_terms}), got {values.shape}")
    if np.isnan(values).any():
        raise ValueError(f"{name}: holds NaN")
    return values


def _seed_key(seed):
    """Return the two uint64 words from which all streams of a seed are made."""
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(_whole_number("seed", seed, 0))
    return seed.generate_state(2, np.uint64)


def compile_kernels() -> None:
    """Compile every kernel that an engine uses and leave it in numba's cache; about half a minute the first time.

    Set-up calls it, so that the first notebook does not seem to hang.
    """
    for game in GAMES:
        for representation in REPRESENTATIONS:
            engine = LevelEngine(game, representation, num_envs=2)
            engine.reset(0)
            engine.step(np.zeros((1, 2), dtype=np.int64))

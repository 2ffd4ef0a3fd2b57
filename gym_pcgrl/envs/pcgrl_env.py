"""gym-pcgrl's environment with Gymnasium's API, on the level engine of ``metapcg``."""

from __future__ import annotations

import gymnasium
import numpy as np

from gym_pcgrl.window import Window
from metapcg.envs import REPRESENTATIONS, LevelEnv, draw_level, to_text
from metapcg.envs.engine import QUIRKS
from metapcg.games import GAMES

BORDER_TILE = "solid"
"""The tile that surrounds a level, in every problem."""

EPISODE = (
    "heatmap", "stats", "start_stats", "rewards", "iterations", "changes",
    "terminated", "truncated", "active", "streams",
)  # fmt: skip
"""The engine's buffers that make up an episode, besides level and position."""


def heatmap_type(max_changes):
    """Return the type of a heatmap that counts to ``max_changes``: uint8, as in the original, while that is enough."""
    return np.dtype(np.uint8 if max_changes <= 255 else np.uint16)


class PcgrlEnv(LevelEnv):
    """Edit one level, tile by tile, until it is good or the changes are used up.

    Action Space
    ------------
    narrow ``Discrete(tiles + 1)``: 0 leaves the cell, a > 0 writes tile a-1. turtle ``Discrete(tiles + 4)``: left,
    right, up, down, then write a tile. wide ``MultiDiscrete([width, height, tiles])``: x, y and the tile to write
    there.

    Observation Space
    -----------------
    A ``Dict`` of ``map``, uint8 (height, width), tile numbers; ``heatmap``, uint8 (height, width), how often each cell
    was changed, 0 … ``max_changes`` (uint16 where ``max_changes`` is above 255); and except for wide ``pos``, uint8
    (2,), the position [x, y].

    Rewards
    -------
    The weighted change of the level's statistics towards their target ranges; 0 for a step that changes no tile.

    Starting State
    --------------
    Every cell is drawn independently with the problem's probabilities, the position uniformly.

    Episode End
    -----------
    ``terminated``: the problem's goal is reached. ``truncated``: ``max_changes`` or ``max_iterations`` are used up and
    the goal is not reached. The original's ``done`` is ``terminated or truncated``. A finished environment stays
    finished, whatever it is told, until ``reset``.

    Info
    ----
    The original's keys: the statistics by name (binary also ``path-imp``, the gain in path length since the start),
    ``iterations``, ``changes``, ``max_iterations``, ``max_changes``.

    Arguments
    ---------
    prob : "binary", "zelda" or "sokoban"
    rep : "narrow", "turtle" or "wide"
    render_mode : None, "human" (a window, drawn at every step), "rgb_array" or "ansi"
    quirks : "gym-pcgrl" does what the original does; None puts its quirks right (MIGRATION.md lists them)
    **settings : anything that ``adjust_param`` takes

    Attributes
    ----------
    engine : the ``metapcg.envs.LevelEngine``; ``engine.maps[0, 0]`` is the level
    settings : the settings in force, by the names of ``adjust_param``
    max_changes, max_iterations : int

    Version History
    ---------------
    v0: first version.
    """

    metadata = {"render_modes": ["human", "rgb_array", "ansi"], "render_fps": 8}

    _window = None

    def __init__(self, prob="binary", rep="narrow", render_mode=None, quirks=QUIRKS, **settings):
        for name, value, known in (("prob", prob, tuple(GAMES)), ("rep", rep, REPRESENTATIONS)):
            if value not in known:
                raise ValueError(f"{name}: unknown name {value!r}, this package has {', '.join(known)}")
        super().__init__(prob, rep, render_mode, quirks, **settings)

    def adjust_param(self, **settings):
        """Change settings. An episode goes on under the new ones, unless the size changes: then ``reset`` starts one.

        With ``quirks="gym-pcgrl"`` (the default) names and keys that are unknown are passed over and
        ``change_percentage`` is clipped to 0 … 1, as in the original; with ``quirks=None`` both raise.

        Parameters
        ----------
        width, height : int, 1 … 32
        change_percentage : float, 0 … 1, the share of cells that may be changed, default 0.2
        rewards : dict from reward terms to weights; terms that are left out keep theirs
        probs : dict from tile names to start probabilities; tiles that are left out keep theirs
        random_start : bool, False keeps the present level for all episodes
        random_tile (narrow), warp (turtle), random_probs (binary) : bool
        target_path (binary, zelda), target_enemy_dist, max_enemies (zelda), max_crates or max_targets, min_solution,
        solver_power (sokoban) : int

        Raises
        ------
        ValueError : a value out of range; nothing is changed then
        """
        if "max_targets" in settings and "max_crates" in self._settings:
            settings["max_crates"] = settings.pop("max_targets")
        if self.quirks:
            settings = {
                name: value for name, value in settings.items() if not (name in ("rewards", "probs") and value is None)
            }
        before, level, has_episode = self.engine, self._first_map, self._seeded
        super().adjust_param(**settings)
        if has_episode and (before.width, before.height) == (self.engine.width, self.engine.height):
            self._take_over(before, "probs" in settings)
            self._first_map, self._seeded = level, True

    def _take_over(self, before, new_probs):
        """Go on with the episode of the engine ``before`` in the present one."""
        engine = self.engine
        engine.reset(0)  # any seed: its draws are all replaced
        engine.set_levels(before.maps, None if self.representation == "wide" else before.positions)
        for name in EPISODE:
            getattr(engine, name)[...] = getattr(before, name)
        # Binary's share of empty cells in the next level, of which reset(0) has drawn another.
        engine.densities[...] = engine.start_probabilities[0] if new_probs else before.densities

    def _build(self, settings, limits):
        super()._build(settings, limits)
        counts = heatmap_type(self.max_changes)
        spaces = dict(self.observation_space.spaces)
        spaces["heatmap"] = gymnasium.spaces.Box(0, self.max_changes, spaces["heatmap"].shape, counts)
        self.observation_space = gymnasium.spaces.Dict(spaces)

    def reset(self, *, seed=None, options=None):
        """Start an episode; observation and info.

        Parameters
        ----------
        seed : int or None; the same seed gives the same episode for the same actions. With ``random_start=False`` it
            also draws a new level to keep.
        options : dict or None
            ``map``: integers (height, width), the level to start from; ``pos``: [x, y], where (not for wide).

        Raises
        ------
        ValueError : unknown options, a map of the wrong shape or with tiles that the problem lacks, a position outside
        """
        observation, info = super().reset(seed=seed, options=options)
        if self._settings["random_start"]:
            self._first_map = self.engine.maps.copy()
        if self.render_mode == "human":
            self.render()
        return observation, info

    def step(self, action):
        """Apply one action; observation, reward, terminated, truncated, info.

        narrow and turtle also take an array of one number. ValueError for an action outside the space and for a step
        before the first reset.
        """
        if self.representation != "wide" and np.size(action) == 1:
            action = np.asarray(action).reshape(())
        result = super().step(action)
        if self.render_mode == "human":
            self.render()
        return result

    def get_border_tile(self):
        """Return the number of the tile that surrounds a level (solid)."""
        return self.game.tiles.index(BORDER_TILE)

    def get_num_tiles(self):
        """Return the number of kinds of tiles."""
        return self.game.num_tiles

    def render(self, mode=None):
        """Draw the level, one border tile all round, the position framed.

        Parameters
        ----------
        mode : "human", "rgb_array", "ansi", or None for the environment's ``render_mode``

        Returns
        -------
        uint8 ((height + 2) * 16, (width + 2) * 16, 3) for "rgb_array"; lines of characters for "ansi"; None for
        "human", which shows the picture in a window (``window_open`` says whether the user has closed it)

        Raises
        ------
        ValueError : another mode, or no level yet
        """
        mode = self.render_mode if mode is None else mode
        if mode is None:
            gymnasium.logger.warn("render() does nothing: give a mode, or make the environment with a render_mode")
            return None
        if mode not in self.metadata["render_modes"]:
            raise ValueError(f"mode: needs one of {', '.join(self.metadata['render_modes'])}, got {mode!r}")
        if not self._seeded:
            raise ValueError("render: no level yet, call reset first")
        level = self.engine.maps[0, 0]
        if mode == "ansi":
            return to_text(level, self.game)
        position = None if self.representation == "wide" else self.engine.positions[0, 0]
        image = draw_with_border(level, self.game, position, self.get_border_tile())
        if mode == "rgb_array":
            return image
        if self._window is None:
            self._window = Window(f"{self.game.name}-{self.representation}", 1 / self.metadata["render_fps"])
        self._window.show(image)
        return None

    @property
    def window_open(self):
        """Whether a window shows the level."""
        return self._window is not None and self._window.is_open

    def close(self):
        """Close the window, if there is one; the environment can still be used."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _observation(self):
        observation = super()._observation()
        observation["heatmap"] = observation["heatmap"].astype(self.observation_space["heatmap"].dtype)
        return observation

    def _info(self):
        info = super()._info()
        info.pop("ratio", None)  # the original pays for it but does not report it
        return info


def draw_with_border(level, game, position, border_tile):
    """Return a level as RGB, surrounded by one row of ``border_tile``; ``position`` is [x, y] in the level or None."""
    surrounded = np.pad(level, 1, constant_values=border_tile)
    return draw_level(surrounded, game, position=None if position is None else position + 1, border=False)

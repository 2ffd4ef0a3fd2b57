"""Gymnasium environments ``metapcg/<game>-<representation>-v0``: one level, one agent, gym-pcgrl's names.

Each is a thin face of ``LevelEngine`` with one task and one environment. What a level is worth stands with the games
(``metapcg.games``), what an agent can do with the representations (``metapcg.envs.representations``).
"""

from __future__ import annotations

import gymnasium
import numpy as np

from metapcg.envs.engine import QUIRKS, LevelEngine
from metapcg.envs.rendering import draw_level, to_text
from metapcg.envs.representations import REPRESENTATIONS, check_representation
from metapcg.games import GAMES, get_game


class LevelEnv(gymnasium.Env):
    """Edit one level, tile by tile, until it is good or the changes are used up.

    Action Space
    ------------
    narrow ``Discrete(tiles + 1)``: 0 leaves the cell, a > 0 writes tile a-1. turtle ``Discrete(tiles + 4)``: left,
    right, up, down, then write a tile. wide ``MultiDiscrete([width, height, tiles])``: x, y and the tile to write
    there.

    Observation Space
    -----------------
    A ``Dict`` of ``map``, uint8 (height, width), tile numbers; ``heatmap``, uint16 (height, width), how often each
    cell was changed, at most ``max_changes``; and except for wide ``pos``, uint8 (2,), the position [x, y].

    Rewards
    -------
    For every changed tile the weighted sum over the game's statistics of how much nearer each came to its target
    range; 0 when nothing was changed. Terms, ranges and weights stand with the game.

    Starting State
    --------------
    Every cell is drawn independently with the game's start probabilities, the position uniformly. Binary with
    ``random_probs`` (the default, as in gym-pcgrl) draws the share of empty cells for every level from U(0, 1). With
    ``random_start=False`` the first level is kept for all later episodes. ``reset(options={"map": ..., "pos": [x,
    y]})`` starts from a given level; without ``pos`` the position is drawn.

    Episode End
    -----------
    ``terminated`` when the game's goal is reached. ``truncated`` when ``max_changes = max(int(change_percentage *
    width * height), 1)`` changes or ``max_iterations = max_changes * width * height`` steps are used up, and the goal
    is not reached.

    Info
    ----
    The statistics by name, ``iterations``, ``changes``, ``max_iterations``, ``max_changes``; for binary also
    ``path-imp``, the path length minus that of the start.

    Arguments
    ---------
    game, representation : str
    render_mode : None, "rgb_array" (tiles of 16 pixels, the position framed) or "ansi" (lines of characters)
    quirks : None or "gym-pcgrl", see below
    **settings : anything that ``adjust_param`` takes

    Quirks
    ------
    ``quirks="gym-pcgrl"`` reproduces those of the games, of the engine, and here:

    ``limits-of-the-old-size``
        one call of ``adjust_param`` computes both limits before it applies a new size, and computes
        ``max_iterations`` anew, from the size before, even when only other settings are given. Default: the limits
        always follow from the present size.
    ``unknown-names-ignored``
        ``adjust_param`` passes over names that it does not know, ``target_solution`` among them, and clips
        ``change_percentage`` to 0 … 1. Default: ValueError.

    Not reproduced: heatmaps of float64 in a space of uint8, so that no observation is contained in it; one seed for two
    generators; a fallback renderer that fails.

    Version History
    ---------------
    v0: first version.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}

    def __init__(self, game="binary", representation="narrow", render_mode=None, quirks=None, **settings):
        self.game = get_game(game)
        check_representation(representation)
        self.representation = representation
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode: needs None or one of {', '.join(self.metadata['render_modes'])}, got {render_mode!r}"
            )
        self.render_mode = render_mode
        if quirks not in (None, QUIRKS):
            raise ValueError(f"quirks: needs None or {QUIRKS!r}, got {quirks!r}")
        self.quirks = quirks
        self._settings = {
            "width": self.game.default_size[0],
            "height": self.game.default_size[1],
            "change_percentage": 0.2,
            "rewards": dict(zip(self.game.terms, self.game.weights.tolist(), strict=True)),
            "probs": dict(zip(self.game.tiles, self.game.probabilities.tolist(), strict=True)),
            "random_start": True,
            "random_tile": True,
            "warp": False,
            **({"random_probs": True} if self.game.name == "binary" else {}),
            **{name: _as_given(value) for name, value in self.game.parameters.items()},
        }
        self._build(self._settings, None)
        if settings:
            self.adjust_param(**settings)

    @property
    def settings(self):
        """The settings in force, by the names of ``adjust_param`` (a copy)."""
        return {name: dict(value) if isinstance(value, dict) else value for name, value in self._settings.items()}

    @property
    def max_changes(self):
        return int(self.engine.max_changes[0])

    @property
    def max_iterations(self):
        return int(self.engine.max_iterations[0])

    def adjust_param(self, **settings):
        """Change settings; the episode ends, ``reset`` starts the next one under the new ones. The spaces follow the
        size.

        Parameters
        ----------
        width, height : int, 1 … 32
        change_percentage : float, 0 … 1
        rewards : dict from reward terms to weights; terms that are left out keep theirs
        probs : dict from tile names to start probabilities; tiles that are left out keep theirs (normalised to sum to
            1)
        random_start : bool, False keeps the first level for all episodes
        random_tile : bool (narrow), warp : bool (turtle), random_probs : bool (binary), see ``LevelEngine``
        and the game's own parameters, such as ``target_path``, ``max_enemies``, ``min_solution``, ``solver_power``

        Raises
        ------
        ValueError : an unknown name, a value out of range; nothing is changed then
        """
        new = self.settings
        if self.quirks:
            settings = {name: value for name, value in settings.items() if name in new}
            if "change_percentage" in settings:
                share = _number("change_percentage", settings["change_percentage"])
                settings["change_percentage"] = min(1.0, max(0.0, share))
        for name, value in settings.items():
            if name == "target_solution" and "min_solution" in new:
                raise ValueError("target_solution: unknown setting, the length of a solution is set by min_solution")
            if name not in new:
                raise ValueError(f"{name}: unknown setting, {self.game.name} has {', '.join(new)}")
            if name in ("rewards", "probs"):
                if not isinstance(value, dict):
                    raise ValueError(f"{name}: needs a dict, got {value!r}")
                unknown = sorted(set(value) - set(new[name])) if not self.quirks else []
                if unknown:
                    raise ValueError(f"{name}: {unknown[0]!r} is none of {', '.join(new[name])}")
                new[name].update((key, number) for key, number in value.items() if key in new[name])
            else:
                new[name] = value
        self._build(new, self._limits_of_the_old_size(settings, new) if self.quirks else None)
        self._settings = new

    def _limits_of_the_old_size(self, settings, new):
        """The quirk of that name: (max_changes, max_iterations) as gym-pcgrl's ``adjust_param`` leaves them."""
        width, height = self._settings["width"], self._settings["height"]
        max_changes = self.max_changes
        if "change_percentage" in settings:
            max_changes = max(int(new["change_percentage"] * width * height), 1)
        return max_changes, max_changes * width * height

    def _build(self, settings, limits):
        """Make the engine and the spaces for ``settings``; the environment changes only after all of it has worked."""
        if not isinstance(settings["random_start"], (bool, np.bool_)):
            raise ValueError(f"random_start: needs True or False, got {settings['random_start']!r}")
        engine = LevelEngine(
            self.game,
            self.representation,
            size=(settings["width"], settings["height"]),
            crop=1,
            random_tile=settings["random_tile"],
            warp=settings["warp"],
            quirks=self.quirks,
            start_probabilities=_numbers("probs", settings["probs"]),
            random_probs=settings.get("random_probs", False),
            parameters={name: settings[name] for name in self.game.parameters},
        )
        share = _number("change_percentage", settings["change_percentage"])
        engine.set_tasks([_numbers("rewards", settings["rewards"])], change_percentage=share)
        if limits is not None:
            engine.set_limits(*limits)
        self.engine = engine
        self._first_map = None
        self._seeded = False

        shape = (engine.height, engine.width)
        spaces = {
            "map": gymnasium.spaces.Box(0, engine.num_tiles - 1, shape, np.uint8),
            "heatmap": gymnasium.spaces.Box(0, self.max_changes, shape, np.uint16),
        }
        if self.representation != "wide":
            last_cell = np.array([engine.width - 1, engine.height - 1], np.uint8)
            spaces["pos"] = gymnasium.spaces.Box(np.zeros(2, np.uint8), last_cell, dtype=np.uint8)
        self.observation_space = gymnasium.spaces.Dict(spaces)
        if self.representation == "wide":
            self.action_space = gymnasium.spaces.MultiDiscrete([engine.width, engine.height, engine.num_tiles])
        else:
            self.action_space = gymnasium.spaces.Discrete(engine.num_actions)

    def reset(self, *, seed=None, options=None):
        """Start an episode.

        Parameters
        ----------
        seed : int or None; the same seed gives the same episode for the same actions. With ``random_start=False`` it
            also draws a new first level.
        options : dict or None
            ``map``: integers (height, width), the level to start from; ``pos``: [x, y], where (not for wide).

        Returns
        -------
        observation, info : see the class

        Raises
        ------
        ValueError : unknown options, a map of the wrong shape or with tiles that the game lacks, a position outside it
        """
        super().reset(seed=seed)
        options = dict(options or {})
        level, position = options.pop("map", None), options.pop("pos", None)
        if options:
            raise ValueError(f"options: {sorted(options)[0]!r} is unknown, reset takes map and pos")
        if position is not None and self.representation == "wide":
            raise ValueError("options: wide has no position, leave out pos")
        if seed is not None or not self._seeded:
            self.engine.reset(int(self.np_random.integers(2**63)))
            self._first_map = self.engine.maps.copy()
            self._seeded = True
        else:
            self.engine.reset()
        if level is not None or position is not None or not self._settings["random_start"]:
            levels = self._first_map if not self._settings["random_start"] else self.engine.maps.copy()
            if level is not None:
                levels = np.asarray(level)[None, None]
            positions = None if self.representation == "wide" else self.engine.positions.copy()
            if position is not None:
                positions = np.asarray(position)[None, None]
            self.engine.set_levels(levels, positions)
        return self._observation(), self._info()

    def step(self, action):
        """Apply one action; observation, reward, terminated, truncated, info. ValueError for an action outside the
        space.

        After the end of an episode nothing changes any more: the reward is 0 and the flags stay as they are.
        """
        action = np.asarray(action)
        if self.representation == "wide":
            if action.dtype.kind not in "iu" or action.shape != (3,) or (action < 0).any():
                raise ValueError(f"action: wide needs three whole numbers x, y, tile, got {action.tolist()!r}")
            if (action >= self.action_space.nvec).any():
                raise ValueError(f"action: {action.tolist()} is outside {self.action_space.nvec.tolist()}")
            x, y, tile = action.tolist()
            action = np.array((y * self.engine.width + x) * self.engine.num_tiles + tile)
        elif action.shape != ():
            raise ValueError(f"action: {self.representation} needs one whole number, got {action.tolist()!r}")
        rewards, terminated, truncated = self.engine.step(action.reshape(1, 1))
        return (
            self._observation(),
            float(rewards[0, 0]),
            bool(terminated[0, 0]),
            bool(truncated[0, 0]),
            self._info(),
        )

    def render(self):
        """Return the level as RGB (uint8) for "rgb_array", as lines of characters for "ansi"; ValueError before a
        reset."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing: make the environment with render_mode 'rgb_array' or 'ansi'")
            return None
        if not self._seeded:
            raise ValueError("render: no level yet, call reset first")
        level = self.engine.maps[0, 0]
        if self.render_mode == "ansi":
            return to_text(level, self.game)
        position = None if self.representation == "wide" else self.engine.positions[0, 0]
        return draw_level(level, self.game, position=position)

    def _observation(self):
        observation = {"map": self.engine.maps[0, 0].copy(), "heatmap": self.engine.heatmap[0, 0].copy()}
        if self.representation != "wide":
            observation["pos"] = self.engine.positions[0, 0].astype(np.uint8)
        return observation

    def _info(self):
        engine = self.engine
        info = dict(zip(self.game.statistics, engine.stats[0, 0].tolist(), strict=True))
        if self.game.name == "binary":
            path = self.game.statistics.index("path-length")
            info["path-imp"] = int(engine.stats[0, 0, path] - engine.start_stats[0, 0, path])
        return info | {
            "iterations": int(engine.iterations[0, 0]),
            "changes": int(engine.changes[0, 0]),
            "max_iterations": self.max_iterations,
            "max_changes": self.max_changes,
        }


def _as_given(value):
    """Return a parameter as gym-pcgrl writes it, whole numbers as int."""
    return int(value) if float(value).is_integer() else float(value)


def _number(name, value):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name}: needs a number, got {value!r}")
    return float(value)


def _numbers(name, values):
    return [_number(f"{name} ({key})", value) for key, value in values.items()]


def environment_ids():
    """Return the nine ids, game by game."""
    return [f"metapcg/{game}-{representation}-v0" for game in GAMES for representation in REPRESENTATIONS]


def register_environments():
    """Register the nine environments with Gymnasium; those that are there already stay."""
    for game in GAMES:
        for representation in REPRESENTATIONS:
            name = f"metapcg/{game}-{representation}-v0"
            if name not in gymnasium.registry:
                gymnasium.register(
                    name,
                    entry_point="metapcg.envs.gym_envs:LevelEnv",
                    kwargs={"game": game, "representation": representation},
                )

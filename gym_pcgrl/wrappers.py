"""The wrappers that gym-pcgrl's users know, with Gymnasium's API.

Each takes the id of an environment or an environment (wrapped or not) and hands its keyword arguments to
``adjust_param``. All observations are contained in the spaces they announce.

=============================  ====================================================================================
``Cropped``                    a window round the position in place of the whole level
``OneHotEncoding``             tile numbers as one-hot vectors
``ToImage``                    parts of the observation stacked to one array (height, width, channels)
``ActionMap``                  one number for every cell and tile: (y * width + x) * tiles + tile
``CroppedImagePCGRLWrapper``   Cropped, one-hot unless binary, ToImage: for narrow and turtle
``ActionMapImagePCGRLWrapper`` ActionMap, one-hot unless binary, ToImage: for wide
=============================  ====================================================================================
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from gym_pcgrl.envs import PcgrlEnv


class PcgrlWrapper(gymnasium.Wrapper):
    """What all of them share: the environment's own methods, and spaces that follow its settings.

    A subclass sets its spaces in ``_follow`` and changes observations in ``transform``.
    """

    def __init__(self, game, **settings):
        env = gymnasium.make(game) if isinstance(game, str) else game
        if not isinstance(env, gymnasium.Env) or not isinstance(env.unwrapped, PcgrlEnv):
            raise ValueError(f"game: needs the id of an environment or a gym_pcgrl.envs.PcgrlEnv, got {game!r}")
        super().__init__(env)
        self.pcgrl_env = env.unwrapped
        self.adjust_param(**settings)

    def adjust_param(self, **settings):
        """Change the environment's settings (see ``PcgrlEnv.adjust_param``); all spaces follow."""
        self.env.get_wrapper_attr("adjust_param")(**settings)
        self._follow()

    def get_border_tile(self):
        """Return the number of the tile that surrounds a level."""
        return self.pcgrl_env.get_border_tile()

    def get_num_tiles(self):
        """Return the number of kinds of tiles."""
        return self.pcgrl_env.get_num_tiles()

    def reset(self, *, seed=None, options=None):
        observation, info = self.env.reset(seed=seed, options=options)
        return self.transform(observation), info

    def step(self, action):
        observation, *rest = self.env.step(action)
        return self.transform(observation), *rest

    def render(self, *arguments, **named):
        return self.env.render(*arguments, **named)

    def transform(self, observation):
        """Return what the wrapper makes of an observation, which stays as it is."""
        return observation

    def _follow(self):
        """Set the spaces that differ from those of the wrapped environment."""

    def _part(self, name, argument):
        """Return the space of one part of the observation; ValueError that names the wrapper's argument."""
        space = self.env.observation_space
        parts = list(space.spaces) if isinstance(space, Dict) else []
        if name not in parts:
            raise ValueError(
                f"{argument}: {name!r} is no part of the observation, which has {', '.join(parts) or 'none'}"
            )
        return space[name]


class ToImage(PcgrlWrapper):
    """Stack parts of the observation to one array, (height, width, channels): a part of two axes is one channel.

    Parameters: ``names``, the parts in order, at least one; ValueError unless all have the same height and width.
    """

    def __init__(self, game, names, **settings):
        self.names = list(names)
        super().__init__(game, **settings)

    def _follow(self):
        parts = [self._part(name, "names") for name in self.names]
        if not parts:
            raise ValueError("names: needs at least one part of the observation")
        for name, part in zip(self.names, parts, strict=True):
            if len(part.shape) not in (2, 3) or part.shape[:2] != parts[0].shape[:2]:
                raise ValueError(
                    f"names: an image needs parts of one height and width, but {self.names[0]!r} has shape "
                    f"{parts[0].shape} and {name!r} {part.shape}"
                )
        self.shape = parts[0].shape[:2]
        depth = sum(1 if len(part.shape) == 2 else part.shape[2] for part in parts)
        highest = max(part.high.max() for part in parts)
        self.observation_space = Box(0, highest, (*self.shape, depth), np.result_type(*(part.dtype for part in parts)))

    def transform(self, observation):
        image = np.concatenate([observation[name].reshape(*self.shape, -1) for name in self.names], axis=2)
        return image.astype(self.observation_space.dtype, copy=False)


class OneHotEncoding(PcgrlWrapper):
    """Give one part of the observation a last axis with a 1 at the value's place, uint8.

    Parameters: ``name``, the part.
    """

    def __init__(self, game, name, **settings):
        self.name = name
        super().__init__(game, **settings)

    def _follow(self):
        part = self._part(self.name, "name")
        self.dim = int(part.high.max()) + 1
        self.observation_space = Dict(
            {**self.env.observation_space.spaces, self.name: Box(0, 1, (*part.shape, self.dim), np.uint8)}
        )

    def transform(self, observation):
        return {**observation, self.name: np.eye(self.dim, dtype=np.uint8)[observation[self.name]]}


class Cropped(PcgrlWrapper):
    """Show the part ``name`` in a window centred at the position, filled with ``pad_value`` beyond the level's edge.

    Parameters: ``crop_size``, the window's side, at least 1 (with an even one the position is right of and below the
    middle); ``pad_value``, 0 … 255; ``name``, a part with two axes. Not for wide, which has no position.
    """

    def __init__(self, game, crop_size, pad_value, name, **settings):
        for argument, value, least in (("crop_size", crop_size, 1), ("pad_value", pad_value, 0)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= 255:
                raise ValueError(f"{argument}: needs a whole number from {least} to 255, got {value!r}")
        self.size, self.pad, self.pad_value, self.name = int(crop_size), int(crop_size) // 2, int(pad_value), name
        super().__init__(game, **settings)

    def _follow(self):
        self._part("pos", "game")
        part = self._part(self.name, "name")
        if len(part.shape) != 2:
            raise ValueError(f"name: only parts with two axes can be cropped, {self.name!r} has shape {part.shape}")
        highest = max(part.high.max(), self.pad_value)
        window = Box(0, highest, (self.size, self.size), part.dtype)
        self.observation_space = Dict({**self.env.observation_space.spaces, self.name: window})

    def transform(self, observation):
        x, y = observation["pos"].tolist()
        padded = np.pad(observation[self.name], self.pad, constant_values=self.pad_value)
        return {**observation, self.name: padded[y : y + self.size, x : x + self.size]}


class ActionMap(PcgrlWrapper):
    """Let an action be one number for every cell and tile, ``Discrete(height * width * tiles)``.

    Action (y * width + x) * tiles + tile writes the tile at cell (x, y). narrow and turtle can write at their position
    only: an action on another cell changes nothing.

    Quirk of gym-pcgrl: on narrow and turtle it hands the bare tile number to the environment, in which tile t has
    another number (narrow t + 1, turtle t + 4); with ``quirks="gym-pcgrl"`` so does this one. On wide there is no
    difference.
    """

    def _follow(self):
        engine = self.pcgrl_env.engine
        self.h, self.w, self.dim = engine.height, engine.width, engine.num_tiles
        self.action_space = Discrete(self.h * self.w * self.dim)

    def step(self, action):
        if np.size(action) != 1 or not self.action_space.contains(np.asarray(action).reshape(())[()]):
            raise ValueError(f"action: needs a whole number from 0 to {self.action_space.n - 1}, got {action!r}")
        y, x, tile = (int(index) for index in np.unravel_index(np.asarray(action).item(), (self.h, self.w, self.dim)))
        representation = self.pcgrl_env.representation
        if representation == "wide":
            return super().step([x, y, tile])
        engine = self.pcgrl_env.engine
        at_x, at_y = engine.positions[0, 0].tolist()
        if (x, y) != (at_x, at_y):
            tile = int(engine.maps[0, 0, at_y, at_x])
        first_tile = 0 if self.pcgrl_env.quirks else {"narrow": 1, "turtle": 4}[representation]
        return super().step(first_tile + tile)


class CroppedImagePCGRLWrapper(PcgrlWrapper):
    """The level round the position as an image, (crop_size, crop_size, channels): for narrow and turtle.

    Beyond the level's edge lies the border tile. One channel of tile numbers for binary, else one channel per tile.
    """

    def __init__(self, game, crop_size, **settings):
        env = PcgrlWrapper(game, **settings)
        env = Cropped(env, crop_size, env.get_border_tile(), "map")
        super().__init__(ToImage(_one_hot_unless_binary(env), ["map"]))


class ActionMapImagePCGRLWrapper(PcgrlWrapper):
    """The level as an image, (height, width, channels), and ``ActionMap``'s actions: for wide.

    One channel of tile numbers for binary, else one channel per tile.
    """

    def __init__(self, game, **settings):
        env = ActionMap(PcgrlWrapper(game, **settings))
        super().__init__(ToImage(_one_hot_unless_binary(env), ["map"]))


def _one_hot_unless_binary(env):
    return env if env.pcgrl_env.game.name == "binary" else OneHotEncoding(env, "map")

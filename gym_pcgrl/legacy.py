"""The old gym API, with gym 0.26: ``reset()`` returns an observation, ``step`` four values, ``render`` takes a mode.

Old scripts go on as they are::

    import gym
    import gym_pcgrl

    env = gym.make("sokoban-narrow-v0")
    env.seed(0)
    observation = env.reset()
    observation, reward, done, info = env.step(env.action_space.sample())

``OldApi`` gives the old API to any environment of this package, wrapped or not::

    env = OldApi(gym_pcgrl.wrappers.CroppedImagePCGRLWrapper("binary-narrow-v0", 28))

gym is unmaintained and says so when it is imported.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.utils import seeding

import gym_pcgrl.envs
from metapcg.envs.engine import QUIRKS

try:
    import gym
except ImportError as error:
    raise ImportError(
        "gym_pcgrl.legacy: needs gym 0.26 (pip install 'metapcg[legacy]'); without it use Gymnasium"
    ) from error


def to_gym_space(space):
    """Return a Gymnasium space (Box, Discrete, MultiDiscrete, Dict) as gym's; TypeError for another kind."""
    if isinstance(space, gymnasium.spaces.Box):
        return gym.spaces.Box(space.low, space.high, space.shape, space.dtype.type)
    if isinstance(space, gymnasium.spaces.Discrete):
        return gym.spaces.Discrete(int(space.n), start=int(space.start))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return gym.spaces.MultiDiscrete(space.nvec, dtype=np.int64)
    if isinstance(space, gymnasium.spaces.Dict):
        return gym.spaces.Dict({name: to_gym_space(part) for name, part in space.spaces.items()})
    raise TypeError(f"no gym space for {space!r}")


class OldApi(gym.Env):
    """An environment of this package behind the old API.

    ``done`` is ``terminated or truncated``. ``adjust_param``, ``get_border_tile`` and ``get_num_tiles`` are there.

    Parameters: ``env``, a ``gym_pcgrl.envs.PcgrlEnv`` or one of ``gym_pcgrl.wrappers`` round it.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render.modes": ["human", "rgb_array"]}

    def __init__(self, env):
        if not isinstance(env, gymnasium.Env) or not isinstance(env.unwrapped, gym_pcgrl.envs.PcgrlEnv):
            raise ValueError(f"env: needs a PcgrlEnv or a wrapper of gym_pcgrl round one, got {env!r}")
        self.env = env
        self._seed = None
        self.render_mode = env.render_mode
        self._set_spaces()

    def _set_spaces(self):
        self.action_space = to_gym_space(self.env.action_space)
        self.observation_space = to_gym_space(self.env.observation_space)

    def seed(self, seed=None):
        """Seed what follows the next ``reset`` (None: by chance). Returns a list of the seed."""
        self._seed = seeding.np_random(seed)[1]
        return [self._seed]

    def reset(self, *, seed=None, options=None):
        """Start an episode; the observation."""
        seed, self._seed = self._seed if seed is None else seed, None
        return self.env.reset(seed=seed, options=options)[0]

    def step(self, action):
        """Apply one action; observation, reward, done, info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, info

    def render(self, mode="human"):
        """Return the picture for "rgb_array" (an array, where the original gave a Pillow image); for "human" show it
        and return whether the window is open."""
        image = self.env.render(mode)
        return self.env.unwrapped.window_open if mode == "human" else image

    def close(self):
        self.env.close()

    def adjust_param(self, **settings):
        """Change settings, see ``gym_pcgrl.envs.PcgrlEnv.adjust_param``; the spaces follow."""
        self.env.get_wrapper_attr("adjust_param")(**settings)
        self._set_spaces()

    def get_border_tile(self):
        """Return the number of the tile that surrounds a level."""
        return self.env.unwrapped.get_border_tile()

    def get_num_tiles(self):
        """Return the number of kinds of tiles."""
        return self.env.unwrapped.get_num_tiles()


class PcgrlEnv(OldApi):
    """What ``gym.make`` gives: ``gym_pcgrl.envs.PcgrlEnv`` behind the old API, with the same arguments."""

    def __init__(self, prob="binary", rep="narrow", render_mode=None, quirks=QUIRKS, **settings):
        super().__init__(gym_pcgrl.envs.PcgrlEnv(prob, rep, render_mode, quirks, **settings))

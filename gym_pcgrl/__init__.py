"""gym-pcgrl's environments on the compiled level engine: same ids, settings, observations, rewards and infos.

``import gym_pcgrl`` registers ``<prob>-<rep>-v0`` for binary, zelda and sokoban x narrow, turtle and wide with
Gymnasium, and with gym 0.26 (the old four-tuple API) as soon as that is imported::

    import gymnasium
    import gym_pcgrl

    env = gymnasium.make("sokoban-narrow-v0")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

``gym_pcgrl.envs`` holds ``PcgrlEnv``, ``gym_pcgrl.wrappers`` the wrappers, ``gym_pcgrl.vector`` many environments in
one call (``gymnasium.make_vec``), ``gym_pcgrl.legacy`` the old API. MIGRATION.md beside this file says what differs
from the original.
"""

import sys

from gym_pcgrl import envs, vector, wrappers
from gym_pcgrl.envs import PcgrlEnv
from gym_pcgrl.registration import environment_ids, register_gym, register_gymnasium

__all__ = ["PcgrlEnv", "environment_ids", "envs", "register_gym", "register_gymnasium", "vector", "wrappers"]

register_gymnasium()
if "gym" in sys.modules:  # not imported for its own sake; one that is imported later finds the ids by its plugin
    register_gym()

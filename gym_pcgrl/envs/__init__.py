"""The environment ``PcgrlEnv``."""

from gym_pcgrl.envs.pcgrl_env import PcgrlEnv

__all__ = ["PcgrlEnv"]

"""How an agent edits a level: representations, the batch engine, the Gymnasium environments, rendering.

Importing this package registers the nine environments ``metapcg/<game>-<representation>-v0`` with Gymnasium.
"""

from metapcg.envs.engine import LevelEngine
from metapcg.envs.gym_envs import LevelEnv, environment_ids, register_environments
from metapcg.envs.rendering import draw_level, from_text, gallery, to_text
from metapcg.envs.representations import REPRESENTATIONS, count_actions

__all__ = [
    "REPRESENTATIONS",
    "LevelEngine",
    "LevelEnv",
    "count_actions",
    "draw_level",
    "environment_ids",
    "from_text",
    "gallery",
    "register_environments",
    "to_text",
]

register_environments()

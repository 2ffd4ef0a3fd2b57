"""The nine ids, for Gymnasium and for gym."""

import gymnasium

from metapcg.envs import REPRESENTATIONS
from metapcg.games import GAMES


def environment_ids():
    """Return the nine ids ``<prob>-<rep>-v0``, problem by problem."""
    return [f"{prob}-{rep}-v0" for prob in GAMES for rep in REPRESENTATIONS]


def register_gymnasium():
    """Register the nine ids with Gymnasium; those that are ours already stay.

    ``gymnasium.make`` gives the bare environment, without Gymnasium's checking wrappers, so that
    ``env.adjust_param(...)`` and the other methods are there as they always were (Gymnasium's wrappers hide them). The
    environment refuses steps before a reset and wrong actions by itself.
    """
    for prob in GAMES:
        for rep in REPRESENTATIONS:
            name, entry_point = f"{prob}-{rep}-v0", "gym_pcgrl.envs:PcgrlEnv"
            if name in gymnasium.registry and gymnasium.registry[name].entry_point == entry_point:
                continue
            gymnasium.register(
                name,
                entry_point=entry_point,
                vector_entry_point="gym_pcgrl.vector:PcgrlVectorEnv",
                order_enforce=False,
                disable_env_checker=True,
                kwargs={"prob": prob, "rep": rep},
            )


def register_gym():
    """Register the nine ids with gym 0.26, with the old API (``gym_pcgrl.legacy``); those that are ours already stay.

    ``import gym_pcgrl`` does it when gym is imported already, and gym's own plugin mechanism when gym is imported
    later (of an installed package).

    Raises
    ------
    ImportError : gym is not installed
    """
    try:
        from gym.envs.registration import register, registry
    except ImportError as error:
        raise ImportError(
            "gym_pcgrl: the old gym API needs gym 0.26 (pip install 'metapcg[legacy]'); without it use Gymnasium"
        ) from error
    for prob in GAMES:
        for rep in REPRESENTATIONS:
            name, entry_point = f"{prob}-{rep}-v0", "gym_pcgrl.legacy:PcgrlEnv"
            if name in registry and registry[name].entry_point == entry_point:
                continue
            register(
                name,
                entry_point=entry_point,
                disable_env_checker=True,  # it asks for five values a step, and for names that NumPy 2 lacks
                kwargs={"prob": prob, "rep": rep},
            )

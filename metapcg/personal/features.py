"""What the boss sees: a state of the fight as numbers of order one.

Neither the player's style nor the last actions are among them, on purpose: what a player is likely to do next is to be
learned from fights, and kept in the weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arena import BOSS, RULES, ArenaRules, ArenaState, legal_actions

FEATURES = (
    "distance",
    "in attack reach",
    "in special reach",
    "boss HP",
    "player HP",
    "room behind boss",
    "room behind player",
    "boss special cooldown",
    "player special cooldown",
    "boss dodge cooldown",
    "player dodge cooldown",
    "boss staggered",
    "player staggered",
    "time",
)
"""Names of the features, in order."""

NUM_FEATURES = len(FEATURES)


def boss_features(state: ArenaState, rules: ArenaRules = RULES) -> NDArray[np.float64]:
    """Features of states with any leading axes: (..., NUM_FEATURES), each between 0 and 1.

    Distances are in units of the lane, cooldowns of the full ones, time of the longest fight.
    """
    distance = state.distance()
    out = np.zeros((*distance.shape, NUM_FEATURES))
    out[..., 0] = distance / rules.lane_length
    out[..., 1] = distance <= rules.attack_reach
    out[..., 2] = distance <= rules.special_reach
    out[..., 3:5] = state.hp
    out[..., 5:7] = state.room_behind(rules) / rules.lane_length
    out[..., 7:9] = state.special / rules.special_cooldown
    out[..., 9:11] = state.dodge / rules.dodge_cooldown
    out[..., 11:13] = state.staggered
    out[..., 13] = state.step / rules.max_steps
    return out


def boss_legal(state: ArenaState) -> NDArray[np.bool_]:
    """Which actions the boss may choose, (..., NUM_ACTIONS)."""
    return legal_actions(state, BOSS)

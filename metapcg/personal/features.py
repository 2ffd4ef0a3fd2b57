"""What the boss sees: a state of the fight as numbers of order one. It sees what the player did last, not the style."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arena import ACTIONS, BOSS, NUM_ACTIONS, PLAYER, RULES, ArenaRules, ArenaState, legal_actions

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
    *(f"boss last: {name}" for name in ACTIONS),
    *(f"player last: {name}" for name in ACTIONS),
)
"""Names of the features, in order."""

NUM_FEATURES = len(FEATURES)
_FIRST_ACTION = FEATURES.index("boss last: wait")


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
    for side in (BOSS, PLAYER):
        first = _FIRST_ACTION + side * NUM_ACTIONS
        out[..., first : first + NUM_ACTIONS] = state.last[..., side, None] == np.arange(NUM_ACTIONS)
    return out


def boss_legal(state: ArenaState) -> NDArray[np.bool_]:
    """Which actions the boss may choose, (..., NUM_ACTIONS)."""
    return legal_actions(state, BOSS)

"""A few situations of a fight in which two policies can be compared, by a person too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arena import ACTIONS, RULES, WAIT, ArenaState
from .features import boss_features, boss_legal
from .numpy_mind import NumpyMind

SITUATIONS = (
    "face to face",
    "at special reach",
    "far apart",
    "player staggered",
    "boss cornered",
    "player nearly dead",
    "boss nearly dead",
)
"""Names of the situations, in the order of ``situation_states``."""


def situation_states() -> ArenaState:
    """The situations as states with one leading axis; unless the name says otherwise, alike and mid-fight."""
    number = len(SITUATIONS)
    x = np.tile([5.5, 4.3], (number, 1))
    x[SITUATIONS.index("at special reach")] = 6.5, 3.0
    x[SITUATIONS.index("far apart")] = 8.5, 1.5
    x[SITUATIONS.index("boss cornered")] = RULES.lane_length, RULES.lane_length - 1.2
    hp = np.full((number, 2), 0.7)
    hp[SITUATIONS.index("player nearly dead"), 1] = 0.1
    hp[SITUATIONS.index("boss nearly dead"), 0] = 0.1
    staggered = np.zeros((number, 2), dtype=bool)
    staggered[SITUATIONS.index("player staggered"), 1] = True
    return ArenaState(
        x=x,
        hp=hp,
        special=np.zeros((number, 2), dtype=np.int64),
        dodge=np.zeros((number, 2), dtype=np.int64),
        staggered=staggered,
        last=np.full((number, 2), WAIT),
        step=np.full(number, RULES.max_steps // 3),
    )


def describe(mind: NumpyMind) -> dict[str, dict[str, float]]:
    """What a mind would do in each situation: situation → action → probability; plain values for JSON."""
    states = situation_states()
    table: NDArray[np.float64] = mind.probabilities(boss_features(states), boss_legal(states))
    return {
        situation: {action: float(p) for action, p in zip(ACTIONS, row, strict=True)}
        for situation, row in zip(SITUATIONS, table, strict=True)
    }

"""Whole fights and random weights for the tests of the personal layer."""

import numpy as np

from metapcg.personal.arena import BOSS, PLAYER, Fight, choose
from metapcg.personal.player_styles import STYLES, action_probabilities
from metapcg.personal.weights_file import SIZES


def play(seed, boss="cautious", player="kiting"):
    """A whole fight between two styles."""
    fight, generator = Fight(seed), np.random.default_rng(seed)
    while not fight.over:
        chosen = [
            int(choose(action_probabilities(fight.state, np.array(STYLES[style]), side), generator))
            for side, style in ((BOSS, boss), (PLAYER, player))
        ]
        fight.step(*chosen)
    return fight


def random_weights(seed=0, sizes=SIZES, scale=0.4):
    """Weights in which nothing is zero or one, so that no gradient vanishes by chance."""
    generator = np.random.default_rng(seed)
    return {
        name: scale * generator.normal(size=shape) + (1.0 if name.endswith("scale") else 0.0)
        for name, shape in sizes.shapes.items()
    }

"""The boss's reward for each decision, from hit points before and after it.

One function for simulated fights and for people's logs, so that what is meta-trained is what is learned later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arena import BOSS, PLAYER


@dataclass(frozen=True)
class RewardWeights:
    """What the boss is paid for; hit points are fractions of the full ones.

    Attributes:
        dealt: per hit point taken from the player.
        taken: per hit point lost, subtracted.
        time: subtracted at every step.
        kill: when the player dies.
        death: when the boss dies, subtracted. Both count when both die in the same step.
    """

    dealt: float = 6.0
    taken: float = 5.0
    time: float = 0.01
    kill: float = 8.0
    death: float = 5.0


REWARDS = RewardWeights()


def step_rewards(
    before: NDArray[np.float64], after: NDArray[np.float64], weights: RewardWeights = REWARDS
) -> NDArray[np.float64]:
    """Reward of decisions: hit points (..., 2) of boss and player before and after → (...)."""
    lost = before - after
    died = (before > 0.0) & (after <= 0.0)
    return (
        weights.dealt * lost[..., PLAYER]
        - weights.taken * lost[..., BOSS]
        - weights.time
        + weights.kill * died[..., PLAYER]
        - weights.death * died[..., BOSS]
    )


def discounted_returns(rewards: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """G_t = r_t + γ G_{t+1} of one fight, (T,) → (T,), with nothing after its end."""
    returns = np.empty(len(rewards))
    following = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        following = returns[t] = rewards[t] + gamma * following
    return returns

"""Reward of a change: how much closer each statistic came to its range.

In default mode the reward is the difference of a potential, Phi = -sum_k w_k * distance(statistic_k, [low_k, high_k]),
so the rewards of an episode sum to Phi(last level) - Phi(first level) (Ng, Harada & Russell 1999, with gamma = 1).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def potential(value, low, high):
    """Minus the distance of a statistic to its range [low, high].

    A range at infinity has no distance; there the potential is the statistic itself (low = +inf) or its negative
    (high = -inf), so that only differences matter.
    """
    if low == np.inf:
        return float(value)
    if high == -np.inf:
        return -float(value)
    if value < low:
        return float(value) - low
    if value > high:
        return high - float(value)
    return 0.0


@njit(cache=True, nogil=True, inline="always")
def range_reward(new, old, low, high, quirks):
    """Reward of a statistic's move from `old` to `new` for the range [low, high].

    Args:
        new, old: numbers, the statistic after and before.
        low, high: float64 bounds; may be infinite.
        quirks: reproduce gym-pcgrl, which pays ``high - new + old - low`` (or its mirror image) for a jump across
            the whole range. That is not a difference of distances: the rewards of a way there and back in smaller
            steps do not cancel it.

    Returns:
        float64: decrease of the distance to the range.
    """
    if not quirks:
        return potential(new, low, high) - potential(old, low, high)
    new = float(new)
    old = float(old)
    if low <= new <= high and low <= old <= high:
        return 0.0
    if new <= high and old <= high:
        return min(new, low) - min(old, low)
    if new >= low and old >= low:
        return max(old, high) - max(new, high)
    if new > high and old < low:
        return high - new + old - low
    return high - old + new - low


@njit(cache=True, nogil=True)
def reward(new_stats, old_stats, weights, low, high, quirks):
    """Weighted sum of the terms' range rewards, added in the order of the terms in float64.

    Args:
        new_stats, old_stats: (terms,) int64 statistics after and before.
        weights, low, high: (terms,) float64.
        quirks: see `range_reward`.

    Returns:
        float64; with quirks bit for bit gym-pcgrl's.
    """
    total = 0.0
    for term in range(weights.shape[0]):
        if new_stats[term] == old_stats[term]:
            continue  # adds 0
        total += weights[term] * range_reward(new_stats[term], old_stats[term], low[term], high[term], quirks)
    return total

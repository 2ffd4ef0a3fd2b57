"""95 % bootstrap intervals over tasks and seeds, and comparisons with random and oracle.

Results are nested: a seed is one training with its own evaluation tasks. With several seeds a resample draws seeds with
replacement, then tasks within each drawn seed, so both sources of uncertainty are in the interval; with one seed it
holds uncertainty over tasks only, and says nothing about another training. Percentile intervals (Efron and Tibshirani
1993, ch. 13); with few seeds they are somewhat too narrow.

Random numbers come from a fixed seed: the same results give the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Samples = Sequence[NDArray[np.float64]]
"""One array per seed: (tasks,) or, for values that belong together, (tasks, k)."""

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval; all NaN where it is not defined.

    Attributes:
        mean: the estimate from the data themselves.
        low, high: ends of the interval.
    """

    mean: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def defined(self) -> bool:
        """Whether there is an estimate."""
        return bool(np.isfinite(self.mean))


UNDEFINED = Interval(np.nan, np.nan, np.nan)


def bootstrap(
    samples: Samples,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Interval of a function of the mean over seeds of the mean over tasks.

    Args:
        samples: one array per seed, (tasks,) or (tasks, k).
        statistic: from means (..., k) to values (...); None: the mean itself, for (tasks,).
        level: coverage.
        resamples: number of resamples.
        seed: of the resampling.

    Raises:
        ValueError: no seed, a seed without tasks, or values that are not finite.
    """
    if not samples:
        raise ValueError("samples: need at least one seed")
    columns = [np.asarray(sample, dtype=np.float64) for sample in samples]
    columns = [column[:, None] if column.ndim == 1 else column for column in columns]
    if any(len(column) == 0 for column in columns):
        raise ValueError("samples: a seed has no tasks")
    if not all(np.isfinite(column).all() for column in columns):
        raise ValueError("samples: values must be finite")
    statistic = statistic or (lambda means: means[..., 0])
    weights = _resampling_weights(tuple(len(column) for column in columns), resamples, seed)
    estimate = float(statistic(np.mean([column.mean(0) for column in columns], axis=0)))
    values = statistic(weights @ np.concatenate(columns))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high))


@lru_cache(maxsize=8)
def _resampling_weights(sizes: tuple[int, ...], resamples: int, seed: int) -> NDArray[np.float64]:
    """Weight of every task in every resample, (resamples, tasks of all seeds); rows sum to 1.

    Weights depend on the numbers of seeds and tasks only, so all results of one experiment share their resamples.
    """
    rng = np.random.default_rng(seed)
    number, first = len(sizes), np.cumsum((0, *sizes))
    weights = np.zeros((resamples, first[-1]))
    for _ in range(number):
        # Every drawn seed gets tasks of its own, also when a seed is drawn twice.
        chosen = rng.integers(number, size=resamples)
        for which, size in enumerate(sizes):
            rows = np.flatnonzero(chosen == which)
            counts = rng.multinomial(size, np.full(size, 1 / size), size=len(rows))
            weights[rows, first[which] : first[which + 1]] += counts / (size * number)
    return weights


def mean_interval(samples: Samples, **options) -> Interval:
    """Interval of the mean return: ``samples`` holds one (tasks,) array per seed."""
    return bootstrap(samples, **options)


def difference_interval(returns: Samples, reference: Samples, **options) -> Interval:
    """Interval of mean(returns) - mean(reference), paired: row i of both is the same task of the same seed."""
    return bootstrap(_paired(returns, reference), lambda means: means[..., 0] - means[..., 1], **options)


def share_interval(returns: Samples, random: Samples, oracle: Samples, **options) -> Interval:
    """Interval of (R - random) / (oracle - random), a ratio of means over the same tasks of the same seeds.

    1 is the oracle's return, 0 the random policy's. Not defined (NaN) where the oracle's lead over random is not
    clearly
    above 0: a share of nothing means nothing.
    """
    if not difference_interval(oracle, random, **options).low > 0:
        return UNDEFINED
    return bootstrap(
        _paired(returns, random, oracle),
        lambda means: (means[..., 0] - means[..., 1]) / (means[..., 2] - means[..., 1]),
        **options,
    )


def equals_random(returns: Samples, random: Samples, **options) -> bool:
    """Whether the interval of the difference to the random policy includes 0: no effect is shown."""
    return 0.0 in difference_interval(returns, random, **options)


def _paired(*groups: Samples) -> list[NDArray[np.float64]]:
    if len({len(group) for group in groups}) != 1:
        raise ValueError("samples: the groups have different numbers of seeds")
    paired = []
    for arrays in zip(*groups, strict=True):
        if len({len(array) for array in arrays}) != 1:
            raise ValueError("samples: the groups have different numbers of tasks; they must be the same tasks")
        paired.append(np.stack([np.asarray(array, dtype=np.float64) for array in arrays], axis=-1))
    return paired

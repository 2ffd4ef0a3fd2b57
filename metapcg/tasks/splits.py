"""The five splits of a task family, and the random streams that keep them apart.

========================== =======================================================================================
split                      tasks
========================== =======================================================================================
train                      what meta-training draws from: a continuum, or a finite list
interpolation              fresh tasks inside the training range, none of them a training task
extrapolation              tasks from a part of the range that training never sees
held-out-representation    the interpolation tasks, with a representation that training never sees
held-out-game              tasks of the same kind in a game that training never sees
========================== =======================================================================================

Everything is reported by split, never pooled.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "SPLITS",
    "TRAIN",
    "INTERPOLATION",
    "EXTRAPOLATION",
    "HELD_OUT_REPRESENTATION",
    "HELD_OUT_GAME",
    "check_split",
    "split_generator",
    "train_list_generator",
]

TRAIN = "train"
INTERPOLATION = "interpolation"
EXTRAPOLATION = "extrapolation"
HELD_OUT_REPRESENTATION = "held-out-representation"
HELD_OUT_GAME = "held-out-game"
SPLITS = (TRAIN, INTERPOLATION, EXTRAPOLATION, HELD_OUT_REPRESENTATION, HELD_OUT_GAME)

# A spawn key that SeedSequence.spawn never reaches, so that a caller may spawn from the same seed for other purposes.
_TASK_STREAM = 0x7461736B
_TRAIN_LIST = len(SPLITS)


def check_split(split: str) -> str:
    """Return ``split``, or raise a ValueError that lists the five names."""
    if split not in SPLITS:
        raise ValueError(f"split: unknown name {split!r}, choose one of {', '.join(SPLITS)}")
    return split


def _generator(seed: int | np.random.SeedSequence, stream: int) -> np.random.Generator:
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    key = (*root.spawn_key, _TASK_STREAM, stream)
    return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key, pool_size=root.pool_size))


def split_generator(split: str, seed: int | np.random.SeedSequence) -> np.random.Generator:
    """The generator that draws the tasks of a split: same seed, same tasks; other split, independent tasks.

    The held-out representation shares the interpolation's stream on purpose: both then have the same reward weights,
    and a difference between their results is due to the representation.
    """
    check_split(split)
    return _generator(seed, SPLITS.index(INTERPOLATION if split == HELD_OUT_REPRESENTATION else split))


def train_list_generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """The generator that draws a finite list of training tasks."""
    return _generator(seed, _TRAIN_LIST)

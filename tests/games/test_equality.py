"""The fast kernels against the plain ones on random levels of all sizes, as a whole and after single edits.

Some thousand levels each time; with HW11_EQUALITY_LEVELS=1000000 a million, which takes half an hour.
"""

import os

import numpy as np
import pytest
from plain import plain_statistics

from metapcg.envs import LevelEngine
from metapcg.games import GAMES, MAX_SIDE

LEVELS = int(os.environ.get("HW11_EQUALITY_LEVELS", "6000"))
EDITS = 3  # levels compared for each that is drawn: itself, and after every edit
BATCH = 25 if LEVELS < 100_000 else 250  # levels of one size


def patterns(rng, number, height, width):
    """Walls (N, H, W): noise of some density; a room with pillars, or a snake of corridors, some cells turned over."""
    walls = np.zeros((number, height, width), np.uint8)
    kind = rng.integers(4)
    noise = rng.random((number, height, width))
    if kind <= 1:
        return (noise < rng.random((number, 1, 1)) * (0.3 if kind else 1.0)).astype(np.uint8)
    if kind == 2:
        walls[:, 1::2, 1::2] = 1
    else:
        walls[:, 1::2] = 1
        walls[:, 1::4, -1] = walls[:, 3::4, 0] = 0
    return walls ^ (noise < rng.choice([0.0, 0.02, 0.1]))


def scatter(rng, levels, tile, count):
    """Put ``count`` (N,) of a tile into random cells, over whatever stands there."""
    flat = levels.reshape(len(levels), -1)
    for level, times in zip(flat, count, strict=True):
        level[rng.integers(flat.shape[1], size=times)] = tile


def random_levels(game, rng, number, height, width):
    levels = patterns(rng, number, height, width)
    if game == "binary":
        return levels
    levels &= rng.random(levels.shape) < rng.choice([0.0, 0.3, 1.0])  # few walls, or hardly a level has one region
    once = (rng.random((len(GAMES[game].tiles), number)) < 0.95).astype(int)
    if game == "zelda":
        for tile in (7, 6, 5, 4, 3, 2):
            scatter(rng, levels, tile, once[tile] * (rng.integers(1, 4, number) if tile > 4 else 1))
        return levels
    crates = rng.integers(1, min(10, max(2, height * width // 3)), number)
    scatter(rng, levels, 3, crates)
    scatter(rng, levels, 4, crates)
    scatter(rng, levels, 2, once[2])
    excess = (levels == 3).sum((1, 2)) - (levels == 4).sum((1, 2))  # where one fell on the other
    for level, more in zip(levels, excess, strict=True):
        cells = np.argwhere(level == (3 if more > 0 else 4))[: abs(more)]
        level[tuple(cells.T)] = 0
    return levels


@pytest.mark.parametrize("quirks", [None, "gym-pcgrl"])
@pytest.mark.parametrize("game", GAMES)
def test_fast_statistics_equal_the_plain_ones(game, quirks):
    rng = np.random.default_rng([GAMES[game].index, quirks is not None])
    remaining = LEVELS // (len(GAMES) * 2 * (1 + EDITS))
    playable = 0
    while remaining > 0:
        number = min(BATCH, remaining)
        width, height = rng.integers(1, MAX_SIDE + 1, 2) if rng.random() < 0.7 else rng.integers(1, 9, 2)
        power = int(rng.choice([10, 100, 300, 5000], p=[0.2, 0.4, 0.39, 0.01]))
        engine = LevelEngine(
            game, "wide", num_envs=number, size=(int(width), int(height)), quirks=quirks, stop_at_goal=False,
            parameters={"solver_power": power} if game == "sokoban" else None,
        )  # fmt: skip
        engine.set_limits(100, 100)
        engine.set_levels(random_levels(game, rng, number, height, width)[None])
        for edit in range(EDITS + 1):
            if edit:
                engine.step(rng.integers(0, engine.num_actions, (1, number)))
            expected = plain_statistics(game, engine.maps[0], power, quirks is not None)
            for wrong in np.flatnonzero((engine.stats[0] != expected).any(1)):
                level = engine.maps[0, wrong].tolist()
                assert engine.stats[0, wrong].tolist() == expected[wrong].tolist(), (power, edit, level)
            playable += int((expected[:, -1] > 0).sum())
        remaining -= number
    assert playable > LEVELS / 400, "too few levels have a path or a solution for this to mean much"

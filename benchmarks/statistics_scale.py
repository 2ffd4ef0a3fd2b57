"""How much does each statistic change over an episode of random edits?

Prints, for every game, mean and standard deviation of each statistic's change and the scale that brings the statistics
of the direction family to one size: the first default statistic's standard deviation divided by this one's. The numbers
are kept in ``metapcg.tasks.families.STATISTIC_SCALES``.

    python benchmarks/statistics_scale.py [--episodes 20000] [--horizon 60] [--representation narrow] [--seed 0]
"""

from __future__ import annotations

import argparse

import numpy as np

from metapcg.envs.engine import LevelEngine
from metapcg.games import GAMES
from metapcg.tasks.families import DEFAULT_STATISTICS


def episode_changes(game: str, representation: str, episodes: int, horizon: int, seed: int) -> np.ndarray:
    """Change of every statistic from the first level to the last under uniformly random actions, (episodes, S)."""
    engine = LevelEngine(game, representation, num_envs=episodes, horizon=horizon, stop_at_goal=False)
    description = GAMES[game]
    engine.set_tasks(description.weights[None], change_percentage=1.0)
    level_seed, action_seed = np.random.SeedSequence(seed).spawn(2)
    engine.reset(level_seed)
    rng = np.random.default_rng(action_seed)
    while engine.active.any():
        engine.step(rng.integers(engine.num_actions, size=engine.active.shape))
    return (engine.stats - engine.start_stats)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--horizon", type=int, default=60)
    parser.add_argument("--representation", default="narrow")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name, game in GAMES.items():
        changes = episode_changes(name, arguments.representation, arguments.episodes, arguments.horizon, arguments.seed)
        spread = changes.std(axis=0)
        reference = spread[game.statistics.index(DEFAULT_STATISTICS[name][0])]
        print(f"{name}-{arguments.representation}, {arguments.episodes} episodes of at most {arguments.horizon} steps")
        for index, statistic in enumerate(game.statistics):
            moved = (changes[:, index] != 0).mean()
            scale = f"{reference / spread[index]:.3f}" if spread[index] > 0 else "-"
            mark = "*" if statistic in DEFAULT_STATISTICS[name] else " "
            print(
                f"  {mark} {statistic:<14} mean {changes[:, index].mean():8.3f}   sd {spread[index]:7.3f}   "
                f"moved in {moved:6.1%}   scale {scale}"
            )


if __name__ == "__main__":
    main()

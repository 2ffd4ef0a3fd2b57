"""Does the deadlock guardrail help Sokoban levels to be solvable?

    python benchmarks/deadlock_guardrail.py [--iterations 60] [--seeds 3] [--levels 200]

Trains MAML on the weights family of Sokoban with and without the penalty (1.5 per deadlocked crate and step), the same
seeds for both, adapts each to the same validation tasks, and compares the levels that the adapted policies leave: the
share that can be solved, deadlocked crates per level, and crates per level (a policy that puts no crates has none that
are lost). One line per run and a paired difference at the end. With few iterations it only shows that it runs.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from metapcg.experiments.checkpoints import Checkpoint, adapt, adaptation_session
from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.runs import settings_for
from metapcg.experiments.trainer import TrainerSettings, train
from metapcg.games import get_game
from metapcg.games.deadlocks import count_deadlocked_crates

SOKOBAN = get_game("sokoban")
SOLID, CRATE, TARGET = (SOKOBAN.tiles.index(name) for name in ("solid", "crate", "target"))


def measure(penalty, seed, options, functions, folder):
    """Share of solvable levels, deadlocked crates and crates per level, after training with a penalty."""
    sizes = {"iterations": options.iterations, "family": "weights", "seed": seed}
    run = settings_for(options.profile, "maml", "sokoban", options.representation, **sizes)
    settings = TrainerSettings(run, ("sokoban",), (options.representation,), deadlock_penalty=penalty)
    result = train(settings, functions, folder)
    if result.diverged:
        raise SystemExit(f"seed {seed}, penalty {penalty}: {result.diverged}")
    checkpoint = Checkpoint.load(folder / "final.pt")
    episodes = -(-options.levels // 4)
    session = adaptation_session(checkpoint, functions, split="train", tasks=4, episodes=episodes, seed=10_000 + seed)
    adapt(session, checkpoint.params)
    levels = session.levels.reshape(-1, *session.levels.shape[2:])
    solution = session.played.engine.stats[..., SOKOBAN.statistics.index("sol-length")]
    dead = count_deadlocked_crates(levels, SOLID, CRATE, TARGET)
    return (solution > 0).mean(), dead.mean(), (levels == CRATE).sum((1, 2)).mean()


def main():
    """Run both arms for every seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--representation", default="narrow")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--levels", type=int, default=200)
    options = parser.parse_args()
    functions = NotebookFunctions(resolve_notebooks())
    print("seed  penalty  solvable  deadlocked  crates   (per level)")
    table = []
    with tempfile.TemporaryDirectory() as root:
        for seed in range(options.seeds):
            for penalty in (0.0, 1.5):
                row = measure(penalty, seed, options, functions, Path(root) / f"{seed}-{penalty}")
                table.append(row)
                print(f"{seed:4}  {penalty:7.1f}  {row[0]:8.3f}  {row[1]:10.3f}  {row[2]:6.2f}", flush=True)
    pairs = np.array(table).reshape(options.seeds, 2, 3)
    difference = pairs[:, 1] - pairs[:, 0]
    print(f"with minus without: {difference.mean(0).round(3)}, lowest {difference.min(0).round(3)}, "
          f"highest {difference.max(0).round(3)} over {options.seeds} seeds")  # fmt: skip


if __name__ == "__main__":
    main()

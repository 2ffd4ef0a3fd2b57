"""Does the deadlock guardrail help Sokoban levels to be solvable?

    python benchmarks/deadlock_guardrail.py [--iterations 60] [--seeds 3] [--levels 200]

Trains MAML on the weights family of Sokoban with and without the penalty (1.5 per deadlocked crate and step), the same
seeds for both, adapts each, and a policy that was not trained, to the same tasks, and compares the levels that the
adapted policies leave: the share that can be solved, deadlocked crates and crates per level (a policy that puts no
crates has none that are lost), and the share of the crates that is deadlocked. One line per run and the paired
difference at the end. With few iterations it only shows that it runs.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from metapcg.experiments.algorithms import Session
from metapcg.experiments.checkpoints import Checkpoint, adapt, adaptation_session
from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.runs import settings_for
from metapcg.experiments.trainer import TrainerSettings, train
from metapcg.games import get_game
from metapcg.games.deadlocks import count_deadlocked_crates
from metapcg.learning.rollouts import Streams

SOKOBAN = get_game("sokoban")
SOLID, CRATE, TARGET = (SOKOBAN.tiles.index(name) for name in ("solid", "crate", "target"))


def measure(run, params, seed, options, functions):
    """Of the levels that adapted policies leave: share solvable, deadlocked crates and crates per level."""
    checkpoint = Checkpoint(run, ("sokoban",), (options.representation,), 0, float("nan"), params)
    episodes = -(-options.levels // 4)
    session = adaptation_session(checkpoint, functions, split="train", tasks=4, episodes=episodes, seed=10_000 + seed)
    adapt(session, params)
    levels = session.levels.reshape(-1, *session.levels.shape[2:])
    solution = session.played.engine.stats[..., SOKOBAN.statistics.index("sol-length")]
    dead = count_deadlocked_crates(levels, SOLID, CRATE, TARGET)
    return (solution > 0).mean(), dead.mean(), (levels == CRATE).sum((1, 2)).mean()


def arms(seed, options, functions, root):
    """Name and measurement of every arm: untrained, trained without the penalty, trained with it."""
    sizes = {"iterations": options.iterations, "family": "weights", "seed": seed}
    run = settings_for(options.profile, "maml", "sokoban", options.representation, **sizes)
    yield (
        "untrained",
        measure(run, Session(run, None).policy().init(Streams(seed).parameters), seed, options, functions),
    )
    for name, penalty in (("without", 0.0), ("with", 1.5)):
        settings = TrainerSettings(run, ("sokoban",), (options.representation,), deadlock_penalty=penalty)
        result = train(settings, functions, root / f"{seed}-{name}")
        if result.diverged:
            raise SystemExit(f"seed {seed}, {name} the penalty: {result.diverged}")
        params = Checkpoint.load(result.folder / "final.pt").params
        yield name, measure(run, params, seed, options, functions)


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
    print("seed  penalty    solvable  deadlocked  crates  lost   (per level; lost: share of the crates)")
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for seed in range(options.seeds):
            for name, (solvable, dead, crates) in arms(seed, options, functions, Path(root)):
                rows.append((solvable, dead, crates, dead / crates if crates else 0.0))
                print(f"{seed:4}  {name:<9}  {rows[-1][0]:8.3f}  {rows[-1][1]:10.3f}  {rows[-1][2]:6.2f}  "
                      f"{rows[-1][3]:4.2f}", flush=True)  # fmt: skip
    table = np.array(rows).reshape(options.seeds, 3, 4)
    for arm, name in enumerate(("untrained", "without", "with")):
        print(f"mean  {name:<9}  " + "  ".join(f"{value:.3f}" for value in table[:, arm].mean(0)))
    difference = table[:, 2] - table[:, 1]
    print(f"with minus without: {difference.mean(0).round(3)}, lowest {difference.min(0).round(3)}, "
          f"highest {difference.max(0).round(3)} over {options.seeds} seeds")  # fmt: skip


if __name__ == "__main__":
    main()

"""MAML on ML1 reach of Meta-World: what are one and two inner steps worth on goals that it was not trained on?

    pip install -e '.[metaworld]'
    python benchmarks/metaworld_reach.py [--iterations 40] [--seed 0] [--solutions NOTEBOOK]

Prints one row per tenth of training, then return (10 a step at most) and success rate (within 5 cm of the goal at some
step) on test goals, before and after adaptation: of the trained policy, of one that was not trained, and of the trained
one on goals of its training. ``--solutions`` takes ``adapt`` and ``meta_loss`` from a notebook of your own.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from metapcg.experiments.functions import FunctionSet
from metapcg.experiments.reach import ReachBudget, run_reach
from metapcg.learning.device import configure
from metapcg.learning.meta_training import Diverged
from metapcg.learning.solutions import load


def main() -> None:
    """Train, test and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ReachBudget()
    for name in ("iterations", "tasks", "episodes", "horizon", "test_tasks", "test_episodes"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(default, name), metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surrogate", default="lvc", choices=("naive", "lvc", "dice"))
    parser.add_argument("--solutions", metavar="NOTEBOOK", help="where adapt and meta_loss come from (default: worked)")
    arguments = parser.parse_args()
    names = ("iterations", "tasks", "episodes", "horizon", "test_tasks", "test_episodes")
    budget = ReachBudget(**{name: getattr(arguments, name) for name in names})
    sources = Path(__file__).resolve().parents[1] / "notebooks"
    functions = FunctionSet(load(arguments.solutions or sources / "1_maml.py"), load(sources / "0_policy_gradient.py"))
    configure()

    def report(iteration: int, row: dict[str, float]) -> None:
        if (iteration + 1) % max(1, budget.iterations // 10) == 0:
            print(
                f"[{iteration + 1}/{budget.iterations}] training goals: return {row['return_before']:.1f} → "
                f"{row['return_after']:.1f} ({row['env_steps']} steps, {row['seconds']:.0f} s)",
                flush=True,
            )

    print(f"{budget}, {arguments.surrogate}, seed {arguments.seed}")
    started, spent = time.perf_counter(), time.process_time()
    try:
        curves = run_reach(
            functions, getattr(functions, f"surrogate_{arguments.surrogate}"), budget, arguments.seed, report
        )
    except (ImportError, ValueError, Diverged) as error:
        raise SystemExit(f"error: {error}") from error
    steps = range(budget.test_steps + 1)
    print("".ljust(24) + "".join(f"{f'step {k}':>22}" for k in steps))
    for name, (returns, successes) in curves.items():
        error = returns.std(0, ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else np.full(len(steps), np.nan)
        cells = "".join(
            f"{f'{returns[:, k].mean():.1f} ± {error[k]:.1f}, {successes[:, k].mean():.0%}':>22}" for k in steps
        )
        print(name.ljust(24) + cells)
    print(f"return ± standard error over goals, success rate; {time.perf_counter() - started:.0f} s, "
          f"{time.process_time() - spent:.0f} s of one core")  # fmt: skip


if __name__ == "__main__":
    main()

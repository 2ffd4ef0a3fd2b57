"""Which outer step trains MAML on 2-D navigation: one Adam step, several clipped ones, or a trust region?

    python benchmarks/navigation_outer_steps.py [--iterations 40] [--seed 0]

Every variant gets the same goals, network, inner step and number of episodes. Printed: the mean return over forty
*training* goals (drawn with a seed of their own; the authors' test goals are left alone) by adaptation step, the
policy's standard deviation, and the seconds of training. Needs the worked notebooks' sources in ``notebooks/``.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from metapcg.experiments.functions import FunctionSet
from metapcg.experiments.navigation import BUDGETS, adaptation_curve, meta_settings, policy, problem
from metapcg.learning.device import configure
from metapcg.learning.meta_training import Diverged, meta_train
from metapcg.learning.solutions import load
from metapcg.tasks.navigation import sample_goals

VARIANTS = {
    "adam, 1e-3": {"outer": "adam", "outer_lr": 1e-3},
    "adam, 3e-3": {"outer": "adam", "outer_lr": 3e-3},
    "clipped, 5 steps of 1e-3": {"outer": "clipped", "outer_epochs": 5, "outer_lr": 1e-3},
    "clipped, 5 steps of 2e-3": {"outer": "clipped", "outer_epochs": 5, "outer_lr": 2e-3},
    "trust region, KL 0.01": {"outer": "trust-region", "max_kl": 0.01},
}


def main() -> None:
    """Train every variant and print one row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    device = configure()
    sources = Path(__file__).resolve().parents[1] / "notebooks"
    functions = FunctionSet(load(sources / "1_maml.py"), load(sources / "0_policy_gradient.py"))
    surrogate = functions.surrogate_lvc
    goals = sample_goals(40, np.random.SeedSequence(arguments.seed, spawn_key=(99,)))
    print(f"{arguments.iterations} meta-iterations, 20 goals x 20 trajectories, LVC, seed {arguments.seed}")
    print(f"{'outer step':<26}{'step 0':>8}{'step 1':>8}{'step 2':>8}{'step 3':>8}{'std':>7}{'seconds':>9}")
    for name, outer in VARIANTS.items():
        budget = type(BUDGETS["full"])(arguments.iterations, 1, outer=outer)
        started = time.perf_counter()
        try:
            params = meta_train(
                functions,
                policy(),
                lambda seed: problem(sample_goals(20, seed), 20),
                meta_settings(budget),
                surrogate,
                arguments.seed,
                device=device,
            ).params
        except Diverged as error:
            print(f"{name:<26}{error}")
            continue
        seconds = time.perf_counter() - started
        curve = adaptation_curve(functions, params, surrogate, goals, 20, arguments.seed, num_steps=3, device=device)
        deviation = float(params["log_std"].exp().mean())
        cells = "".join(f"{value:8.2f}" for value in curve.mean(0))
        print(f"{name:<26}{cells}{deviation:7.2f}{seconds:9.1f}", flush=True)


if __name__ == "__main__":
    main()

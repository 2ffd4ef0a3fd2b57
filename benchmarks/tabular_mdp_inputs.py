"""What RL² has to see to learn tabular MDPs: the same training with three inputs, by iterations.

Prints the reward of a whole trial of ten episodes during training, and on new MDPs at the end. Random is 100; what an
agent earns that knows, from the start, which action is good on average over the states, is computed exactly.

    python benchmarks/tabular_mdp_inputs.py --iterations 40
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import numpy as np
import torch

from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.known_trials import MDP_INPUTS, MDPS, run_mdps
from metapcg.tasks.tabular_mdp import TabularMDPs, sample_mdps


def reward_of_the_best_action_on_average(mdps: TabularMDPs, horizon: int = 10) -> float:
    """Mean reward per episode when one action is taken everywhere, the one with the highest mean over states."""
    rewards, transitions = mdps
    best = rewards.mean(1).argmax(1)
    tasks = np.arange(len(best))
    rewards, transitions = rewards[tasks, :, best], transitions[tasks, :, best]
    following = np.zeros_like(rewards)
    for _ in range(horizon):
        following = rewards + np.einsum("msn,mn->ms", transitions, following)
    return float(following[:, 0].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", nargs="+", choices=list(MDP_INPUTS), default=list(MDP_INPUTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    functions = NotebookFunctions(resolve_notebooks())
    budget = MDPS["full"][10]
    settings = dataclasses.replace(budget.settings, iterations=arguments.iterations)
    budget = dataclasses.replace(budget, settings=settings)
    known = 10 * reward_of_the_best_action_on_average(sample_mdps(4000, np.random.SeedSequence(0, spawn_key=(9,))))
    print(f"the best action on average, known from the start: {known:.1f}", flush=True)
    for inputs in arguments.inputs:
        start = time.process_time()
        result = run_mdps(functions, 10, budget, arguments.seed, inputs=inputs)
        curve = [row["return_trial"] for row in result.history]
        seen = ", ".join(f"{i}: {curve[i]:.0f}" for i in range(0, len(curve), 10))
        print(
            f"{inputs:12s} {result.total:6.1f} ± {result.half_width:.1f} on new MDPs "
            f"({time.process_time() - start:.0f} s; in training, iteration: reward {seen})",
            flush=True,
        )


if __name__ == "__main__":
    main()

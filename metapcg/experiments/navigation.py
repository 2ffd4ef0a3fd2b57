"""MAML's 2-D navigation by the protocol of its authors: a result with a known answer (Finn et al. 2017, figure 4).

``PUBLISHED`` holds the authors' released numbers over their forty test goals. ``run_navigation`` trains and evaluates
the same methods here. The protocol follows their code: two hidden layers of 100, initial standard deviation 1 in units
where 1 is a full move, α = 0.5 for the first step and 0.25 after it, 40 trajectories per goal and step at test. The
outer step differs: they used a trust region, here it is a clipped objective with Adam
(``benchmarks/navigation_outer_steps.py`` compares them).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metapcg.learning.baselines import policy_returns, train_multi_task
from metapcg.learning.meta_training import AdvantageSettings, MetaSettings, adaptation_returns, meta_train
from metapcg.learning.policies import GaussianPolicy
from metapcg.learning.rollouts import Streams, state_features
from metapcg.tasks.navigation import Navigation, sample_goals, test_goals

PUBLISHED: dict[str, tuple[float, ...]] = {
    "MAML": (-40.41, -11.68, -3.33, -3.23, -3.35),
    "pretrained": (-40.81, -19.73, -11.72, -8.48, -7.49),
    "random init": (-82.66, -57.96, -53.84, -46.81, -42.91),
    "oracle": (-2.29,),
}
"""Method → mean return after 0 … 4 adaptation steps, from the authors' released data."""

STEP_SIZES = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Candidates for the methods without a meta-trained step size, tried on training goals."""


@dataclass(frozen=True)
class NavigationBudget:
    """How much is trained.

    Attributes:
        iterations: meta-updates of MAML.
        multi_task_iterations: batches of the oracle and of pretraining.
        tasks, episodes: goals per batch and trajectories per goal.
        outer: settings of ``MetaSettings`` for the outer step.
        test_episodes: trajectories per test goal and adaptation step.
    """

    iterations: int
    multi_task_iterations: int
    tasks: int = 20
    episodes: int = 20
    test_episodes: int = 40
    outer: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"outer": "clipped", "outer_epochs": 5, "outer_lr": 2e-3}
    )


BUDGETS = {
    "smoke": NavigationBudget(2, 2, tasks=4, episodes=4, test_episodes=4),
    "quick": NavigationBudget(25, 15, tasks=20, episodes=10, test_episodes=20),
    "full": NavigationBudget(120, 100),
}

ADVANTAGES = AdvantageSettings(gamma=0.99, lam=1.0, bootstrap=False, normalized=True, features=state_features)


def meta_settings(budget: NavigationBudget) -> MetaSettings:
    """MAML's settings on this problem."""
    return MetaSettings(
        iterations=budget.iterations,
        tasks=budget.tasks,
        episodes=budget.episodes,
        inner_lr=0.5,
        advantages=ADVANTAGES,
        **budget.outer,
    )


def policy(observe_goal: bool = False) -> GaussianPolicy:
    """The authors' network; the oracle also reads the goal."""
    return GaussianPolicy(4 if observe_goal else 2, 2, hidden=(100, 100), init_std=1.0)


def problem(goals: np.ndarray, num_envs: int, observe_goal: bool = False) -> Navigation:
    """Navigation in the authors' units, where an action of 1 is a move of 0.1."""
    return Navigation(goals, num_envs, action_scale=0.1, observe_goal=observe_goal)


def adaptation_curve(
    functions: Any,
    params: dict[str, torch.Tensor],
    surrogate: Callable[..., torch.Tensor],
    goals: np.ndarray,
    num_envs: int,
    seed: int,
    inner_lr: float = 0.5,
    num_steps: int = 4,
    device: torch.device | str = "cpu",
) -> np.ndarray:
    """Returns (goals, num_steps + 1) by adaptation step; the step size is halved after the first, as the authors do."""
    return adaptation_returns(
        functions, policy(), params, problem(goals, num_envs), MetaSettings(advantages=ADVANTAGES), surrogate,
        num_steps, seed, device, inner_lrs=[inner_lr] + [inner_lr / 2] * (num_steps - 1),
    )[0]  # fmt: skip


def run_navigation(
    functions: Any,
    surrogate: Callable[..., torch.Tensor],
    budget: NavigationBudget,
    seed: int = 0,
    device: torch.device | str = "cpu",
    report: Callable[[str, int, dict[str, float]], None] | None = None,
) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    """Train MAML, pretraining and the oracle, and evaluate them and a random initialisation on the authors' goals.

    Args:
        functions: has ``adapt`` and ``meta_loss``.
        surrogate: the inner objective.
        budget: see ``BUDGETS``.
        seed: of everything.
        report: called with (method, iteration, metrics) during training.

    Returns:
        method → returns (40, steps + 1), one step for the oracle; and MAML's training history.
    """
    seeds = np.random.SeedSequence(seed).generate_state(4)
    tell = report or (lambda method, iteration, row: None)

    def make(observe_goal: bool):
        return lambda s: problem(sample_goals(budget.tasks, s), budget.episodes, observe_goal)

    def train_all(name: str, observe_goal: bool, train_seed: int):
        return train_multi_task(
            policy(observe_goal), make(observe_goal), budget.multi_task_iterations, int(train_seed), ADVANTAGES,
            lr=1e-3, epochs=5, device=device, on_iteration=lambda i, p, row: tell(name, i, row),
        ).params  # fmt: skip

    maml = meta_train(
        functions, policy(), make(False), meta_settings(budget), surrogate, int(seeds[0]), device=device,
        on_iteration=lambda i, p, row: tell("MAML", i, row),
    )  # fmt: skip
    pretrained = train_all("pretrained", False, seeds[1])
    oracle = train_all("oracle", True, seeds[2])
    start = policy().init(Streams(int(seeds[3]), device).parameters)

    goals, training_goals = test_goals(), sample_goals(20, int(seeds[3]))
    curves = {
        "MAML": adaptation_curve(functions, maml.params, surrogate, goals, budget.test_episodes, seed, device=device)
    }
    for name, params in (("pretrained", pretrained), ("random init", start)):
        scores = [
            adaptation_curve(functions, params, surrogate, training_goals, 10, seed, size, device=device)[:, 1:].mean()
            for size in STEP_SIZES
        ]
        best = STEP_SIZES[int(np.argmax(scores))]
        curves[name] = adaptation_curve(
            functions, params, surrogate, goals, budget.test_episodes, seed, best, device=device
        )
    told = problem(goals, budget.test_episodes, observe_goal=True)
    curves["oracle"] = policy_returns(policy(True), oracle, told, seed, device)[:, None]
    return curves, maml.history

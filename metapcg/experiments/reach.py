"""MAML on ML1 *reach* of Meta-World: the protocol, and its evaluation by return and by success.

The functions are those of the notebooks, the Gaussian policy is navigation's; nothing here knows how MAML works. The
budget is a laptop's (minutes); published results use hundreds of times more steps. So the question is what one and two
inner steps are worth after little training, beside the same steps from parameters that were not trained.

``python -m metapcg reach [--solutions NOTEBOOK]`` runs it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metapcg.learning.device import configure
from metapcg.learning.meta_training import AdvantageSettings, Diverged, MetaSettings, adaptation_returns, meta_train
from metapcg.learning.policies import GaussianPolicy, Observation, Params
from metapcg.learning.rollouts import Streams, time_features
from metapcg.tasks.metaworld import NUM_GOALS, Reach, ReachBenchmark, greedy_actions

from .runs import settings_for
from .trainer_command import functions_from, notebook_path


@dataclass(frozen=True)
class ReachBudget:
    """How much is trained and tested; a meta-iteration plays ``tasks × episodes × (inner steps + 1)`` episodes.

    Attributes:
        iterations: meta-updates.
        tasks, episodes: goals per meta-batch and episodes per goal.
        horizon: steps per episode; a goal is at most 30 cm away along each axis, and a step is 1 cm.
        inner_lr: α, of 0.03, 0.1 and 0.5 (navigation's, in which one step undoes what was learned: observations are
            larger here) the best on training goals.
        test_tasks, test_episodes: test goals (the first ones), and episodes per goal and adaptation step.
        test_steps: adaptation steps at test.
    """

    iterations: int = 40
    tasks: int = 10
    episodes: int = 6
    horizon: int = 60
    inner_lr: float = 0.1
    test_tasks: int = 20
    test_episodes: int = 6
    test_steps: int = 2

    def __post_init__(self) -> None:
        for name in ("tasks", "test_tasks"):
            if getattr(self, name) > NUM_GOALS:
                raise ValueError(f"{name}: ML1 has {NUM_GOALS} goals in each split, got {getattr(self, name)}")
        if not (np.isfinite(self.inner_lr) and self.inner_lr > 0):
            raise ValueError(f"inner_lr: needs a positive finite number, got {self.inner_lr!r}")


def gripper_features(obs: Observation, time: torch.Tensor) -> torch.Tensor:
    """The gripper's position, its square, and time: what the baseline of the advantages is linear in."""
    place = obs["state"][..., :3]
    return torch.cat([place, place**2, time_features(obs, time)], dim=-1)


def policy() -> GaussianPolicy:
    """Two hidden layers of 100, initial standard deviation 1: a whole move."""
    return GaussianPolicy(Reach.observation_size, Reach.action_size, hidden=(100, 100), init_std=1.0)


def meta_settings(budget: ReachBudget) -> MetaSettings:
    """MAML's settings: navigation's, but for the inner step size."""
    return MetaSettings(
        iterations=budget.iterations,
        tasks=budget.tasks,
        episodes=budget.episodes,
        inner_lr=budget.inner_lr,
        outer="clipped",
        outer_epochs=5,
        outer_lr=2e-3,
        advantages=AdvantageSettings(gamma=0.99, lam=1.0, bootstrap=False, features=gripper_features),
    )


class _Successes:
    """A problem that keeps, at every reset, which arms of the episodes before had been at their goal."""

    def __init__(self, problem: Reach):
        self._problem, self._kept, self._begun = problem, [], False
        self.num_tasks, self.num_envs, self.horizon = problem.num_tasks, problem.num_envs, problem.horizon

    def reset(self, seed: Any) -> np.ndarray:
        if self._begun:
            self._kept.append(self._problem.succeeded.copy())
        self._begun = True
        return self._problem.reset(seed)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        return self._problem.step(actions)

    def rates(self) -> np.ndarray:
        """(M, episodes played): share of a task's arms."""
        return np.stack([*self._kept, self._problem.succeeded], axis=-1).mean(1)


def adaptation_curve(
    functions: Any,
    params: Params,
    surrogate: Callable[..., torch.Tensor],
    problem: Reach,
    budget: ReachBudget,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return and success rate of every task after 0 … ``test_steps`` adaptation steps, (M, K + 1) each.

    As in navigation the step size is halved after the first step.
    """
    counted = _Successes(problem)
    settings = meta_settings(budget)
    sizes = [settings.inner_lr] + [settings.inner_lr / 2] * (budget.test_steps - 1)
    returns, _ = adaptation_returns(
        functions, policy(), params, counted, settings, surrogate, budget.test_steps, seed, inner_lrs=sizes
    )
    return returns, counted.rates()


def straight_to_the_goal(problem: Reach) -> tuple[np.ndarray, np.ndarray]:
    """Return and success of an agent that knows the goal, (M, 1) each."""
    problem.reset(0)
    returns = sum(problem.step(greedy_actions(problem))[1] for _ in range(problem.horizon))
    return returns.mean(1, keepdims=True), problem.succeeded.mean(1, keepdims=True)


def run_reach(
    functions: Any,
    surrogate: Callable[..., torch.Tensor],
    budget: ReachBudget,
    seed: int = 0,
    report: Callable[[int, dict[str, float]], None] | None = None,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Meta-train on the training goals; adapt to test goals.

    Args:
        functions: has ``adapt`` and ``meta_loss``.
        surrogate: the inner objective.
        budget: see ``ReachBudget``.
        seed: of everything, the benchmark's goals included.
        report: called with (iteration, metrics) during training.

    Returns:
        "MAML", "random init" (test goals) and "MAML, training goals" → return and success rate, (tasks, steps + 1); and
        "straight to the goal", what an agent could do that was told its test goal, (tasks, 1).
    """
    benchmark = ReachBenchmark(seed)
    train_seed, init_seed, test_seed = (int(word) for word in np.random.SeedSequence(seed).generate_state(3))

    def make_problem(sequence: np.random.SeedSequence) -> Reach:
        rng = np.random.default_rng(sequence)
        chosen = rng.choice(len(benchmark.train), budget.tasks, replace=False)
        return benchmark.problem(benchmark.train[chosen], budget.episodes, budget.horizon)

    trained = meta_train(
        functions, policy(), make_problem, meta_settings(budget), surrogate, train_seed,
        on_iteration=None if report is None else lambda iteration, _, row: report(iteration, row),
    )  # fmt: skip
    start = policy().init(Streams(init_seed).parameters)

    def curve(params: Params, tasks: Any) -> tuple[np.ndarray, np.ndarray]:
        problem = benchmark.problem(tasks[: budget.test_tasks], budget.test_episodes, budget.horizon)
        return adaptation_curve(functions, params, surrogate, problem, budget, test_seed)

    return {
        "MAML": curve(trained.params, benchmark.test),
        "random init": curve(start, benchmark.test),
        "MAML, training goals": curve(trained.params, benchmark.train),
        "straight to the goal": straight_to_the_goal(
            benchmark.problem(benchmark.test[: budget.test_tasks], 1, budget.horizon)
        ),
    }


# --------------------------------------------------------------------------------------------------------- command line

_SIZES = ("iterations", "tasks", "episodes", "horizon", "test_tasks", "test_episodes")


def run(options: argparse.Namespace) -> int:
    """Train, test and print a table; 0 when it was trained, 1 when it diverged.

    Raises:
        ValueError: Meta-World is not installed, or an option cannot be used.
    """
    given = {name: getattr(options, name) for name in (*_SIZES, "inner_lr")}
    budget = ReachBudget(**{name: value for name, value in given.items() if value is not None})
    print(f"{budget}, {options.surrogate}, seed {options.seed}")
    settings = settings_for("quick", "maml", surrogate=options.surrogate)  # names the functions that are needed
    functions = functions_from(notebook_path(options.solutions), settings)
    surrogate = getattr(functions, f"surrogate_{options.surrogate}")
    configure("cpu")  # the simulator is far slower than the networks

    def report(iteration: int, row: dict[str, float]) -> None:
        if (iteration + 1) % max(1, budget.iterations // 10) == 0:
            print(
                f"[{iteration + 1}/{budget.iterations}] training goals: return {row['return_before']:.1f} → "
                f"{row['return_after']:.1f} ({row['env_steps']} steps, {row['seconds']:.0f} s)",
                flush=True,
            )

    started, spent = time.perf_counter(), time.process_time()
    try:
        curves = run_reach(functions, surrogate, budget, options.seed, report)
    except ImportError as error:
        raise ValueError(str(error)) from error
    except Diverged as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    steps = range(budget.test_steps + 1)
    print("return, success rate".ljust(24) + "".join(f"{f'step {k}':>24}" for k in steps))
    for name, (returns, successes) in curves.items():
        spread = returns.std(0, ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else np.full(len(steps), np.nan)
        columns = range(returns.shape[1])
        cells = [f"{returns[:, k].mean():.1f} ± {spread[k]:.1f}, {successes[:, k].mean():.1%}" for k in columns]
        print(name.ljust(24) + "".join(f"{cell:>24}" for cell in cells))
    print(
        f"± is one standard error over goals; {time.perf_counter() - started:.0f} s, "
        f"{time.process_time() - spent:.0f} s of processor time"
    )
    return 0

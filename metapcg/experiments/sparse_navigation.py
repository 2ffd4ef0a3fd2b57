"""PEARL on 2-D navigation with a sparse reward: who does not know the goal has to search (Rakelly et al. 2019, 6.3).

A goal lies somewhere on a half circle of radius 0.5 round the start. Nothing is paid until the point is within 0.2 of
it, so an agent that does not know the goal has to go and look for it. What did not pay is evidence too: the belief
moves away from where the agent has been.

Differences from the paper: moves are eight directions and a rest instead of a continuous action, and training sees the
sparse reward too (the paper's meta-training uses a dense one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from metapcg.learning.context_policies import LatentStateNetwork, StateEncoder
from metapcg.learning.off_policy_training import (
    ContextAgent,
    OffPolicySettings,
    adapt_by_context,
    off_policy_train,
)
from metapcg.learning.policies import Params
from metapcg.tasks.navigation import MAX_MOVE, Navigation
from metapcg.tasks.problem import Seed

RADIUS = 0.5
HORIZON = 20
MOVES = np.array(
    [(0, 0), *((np.cos(a), np.sin(a)) for a in np.arange(8) * np.pi / 4)], dtype=np.float32
) * np.float32(MAX_MOVE)  # fmt: skip
"""(9, 2): rest, and eight directions of the compass."""


def half_circle_goals(num_tasks: int, seed: Seed) -> NDArray[np.float64]:
    """Goals uniform on the upper half circle of radius 0.5, (num_tasks, 2). The same seed gives the same goals."""
    angle = np.pi * np.random.default_rng(seed).random(num_tasks)
    return RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


class CompassNavigation(Navigation):
    """Sparse ``Navigation`` with nine actions: 0 rests, 1 … 8 move by 0.1 in a direction of the compass.

    Args:
        goals: (M, 2).
        num_envs: E.

    Observations are positions in units of 0.5, (M, E, 2); an episode has 20 steps and no end but the clock.
    """

    def __init__(self, goals: NDArray[np.float64], num_envs: int):
        super().__init__(goals, num_envs, horizon=HORIZON, reward="sparse")

    def step(self, actions: NDArray[np.int64]):
        """Move every point: observation, reward (M, E), terminated (M, E), truncated (M, E).

        Raises:
            ValueError: an action outside 0 … 8.
        """
        actions = np.asarray(actions)
        if actions.min() < 0 or actions.max() >= len(MOVES):
            raise ValueError(f"actions: need integers in 0 … {len(MOVES) - 1}")
        return super().step(MOVES[actions])

    def _observe(self) -> NDArray[np.float32]:
        return super()._observe() / np.float32(RADIUS)


@dataclass(frozen=True)
class SparseBudget:
    """How much is trained and tested.

    Attributes:
        settings: of the training loop.
        train_tasks, test_tasks: goals.
        trials: trials per test goal.
        episodes: episodes per trial that the agent learns from.
    """

    settings: OffPolicySettings
    train_tasks: int = 64
    test_tasks: int = 40
    trials: int = 5
    episodes: int = 6


_SETTINGS = OffPolicySettings(
    iterations=60, warm_up=2, tasks=32, prior_episodes=2, posterior_episodes=2, capacity=40, updates=40,
    update_tasks=16, batch_size=128, context_size=80, kl_weight=1e-3, temperature=0.02, gamma=0.95, target_rate=0.01,
    learning_rate=1e-3,
)  # fmt: skip
BUDGETS: dict[str, SparseBudget] = {
    "smoke": SparseBudget(
        OffPolicySettings(iterations=3, tasks=4, updates=2, update_tasks=4, gamma=0.95, temperature=0.02),
        train_tasks=8, test_tasks=4, trials=2, episodes=2,
    ),
    "full": SparseBudget(_SETTINGS),
}  # fmt: skip
"""Profile → budget."""


@dataclass(frozen=True)
class SparseResult:
    """What a trained agent does on new goals.

    Attributes:
        returns: way of choosing z → (M, trials, episodes + 1), return of each episode: ``sampled``, z drawn from the
            belief in every episode; ``mean``, its mean from the second one on.
        history: training metrics.
        agent, params: the networks.
    """

    returns: dict[str, NDArray[np.float64]]
    history: list[dict[str, float]]
    agent: ContextAgent
    params: Params


def run_sparse_navigation(
    functions: Any,
    budget: SparseBudget,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
) -> SparseResult:
    """Train PEARL on half-circle goals and test it on new ones.

    Args:
        functions: has the functions named in ``off_policy_training.FUNCTIONS``.
        budget: see ``BUDGETS``.
        seed: of everything; test goals come from a stream that training never sees.
    """
    goals, training, tested = np.random.SeedSequence(seed).spawn(3)
    agent = ContextAgent(LatentStateNetwork(2, len(MOVES), 3), StateEncoder(2, len(MOVES), 3))
    trained = off_policy_train(
        functions, agent, half_circle_goals(budget.train_tasks, goals), CompassNavigation, budget.settings, training,
        device, on_iteration,
    )  # fmt: skip
    new = half_circle_goals(budget.test_tasks, tested)
    returns = {
        name: adapt_by_context(
            functions, agent, trained.params, CompassNavigation(new, budget.trials), budget.episodes,
            np.random.SeedSequence(seed, spawn_key=(3,)), device,
            sample=name == "sampled",
        ).returns
        for name in ("sampled", "mean")
    }  # fmt: skip
    return SparseResult(returns, trained.history, agent, trained.params)

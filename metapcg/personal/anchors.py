"""The weights that a boss starts from, and how fast it learns from there.

Three anchors: *meta-learned* (the functions of notebook 1 over a family of simulated players), *multi-task* (one policy
trained on the average player) and *random*. The meta-learned one starts from a shorter multi-task training, so that
meta-training need not discover fighting; both are given about the same number of fights.

``learning_curves`` then plays fight after fight with the serving learner (``learner.Learner``: NumPy, one Adam step per
fight) against players whom no anchor has met. The fight that drives update k + 1 is played by the policy of
update k and has not been used before, so its result is an unbiased estimate of that policy's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from metapcg.learning.baselines import train_multi_task
from metapcg.learning.meta_training import AdvantageSettings, MetaSettings, TrainingResult, meta_train
from metapcg.learning.policies import Params
from metapcg.learning.rollouts import Streams, state_features

from .arena import choose
from .arena_problem import ArenaProblem
from .features import boss_features, boss_legal
from .learner import Learner, LearnerFunctions, LearnerSettings
from .modular_mind import ModularMind
from .numpy_mind import NumpyMind
from .player_styles import PlayerStyles, sample_styles
from .rewards import step_rewards
from .trajectories import Trajectory

Surrogate = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
OnIteration = Callable[[int, Params, dict[str, float]], None]

ADVANTAGES = AdvantageSettings(gamma=0.97, lam=0.95, bootstrap=False, normalized=True, features=state_features)
"""The fight's clock is among the features, so its end is part of the problem and nothing is bootstrapped there."""


@dataclass(frozen=True)
class AnchorBudget:
    """How much is trained.

    Attributes:
        warm_iterations: batches of the multi-task training that meta-training starts from.
        meta_iterations: meta-updates after it.
        multi_task_iterations: batches of the multi-task anchor.
            A meta-update plays two rollouts, so 15 + 2 · 90 = 195.
        players: players per batch; a multiple of five holds every style equally often.
        fights: fights per player and rollout.
        inner_lr, outer_lr: of ``MetaSettings``.
        multi_task_lr: Adam's step size of multi-task training.
    """

    warm_iterations: int = 15
    meta_iterations: int = 90
    multi_task_iterations: int = 195
    players: int = 10
    fights: int = 10
    inner_lr: float = 2.0
    outer_lr: float = 3e-3
    multi_task_lr: float = 3e-3


def training_problem(budget: AnchorBudget) -> Callable[[np.random.SeedSequence], ArenaProblem]:
    """Seed → fights against a fresh batch of training players."""
    return lambda seed: ArenaProblem(sample_styles("train", budget.players, seed), budget.fights)


def random_anchor(seed: int) -> Params:
    """Weights as drawn, nearly a uniform policy."""
    return ModularMind().init(Streams(seed).parameters)


def multi_task_anchor(
    budget: AnchorBudget, seed: int, iterations: int | None = None, on_iteration: OnIteration | None = None
) -> TrainingResult:
    """One policy for the average training player (PPO's clipped objective)."""
    return train_multi_task(
        ModularMind(),
        training_problem(budget),
        budget.multi_task_iterations if iterations is None else iterations,
        seed,
        ADVANTAGES,
        lr=budget.multi_task_lr,
        entropy_weight=0.01,
        on_iteration=on_iteration,
    )


def meta_learned_anchor(
    functions: Any,
    surrogate: Surrogate,
    budget: AnchorBudget,
    seed: int,
    on_iteration: OnIteration | None = None,
) -> TrainingResult:
    """A starting point from which a player is learned quickly.

    Args:
        functions: has ``adapt`` and ``meta_loss`` (notebook 1, through ``metapcg.learning.solutions``).
        surrogate: the inner objective (notebook 0).
        budget: see ``AnchorBudget``.
        seed: of everything.
        on_iteration: called with (iteration, parameters, metrics) after each meta-update.
    """
    warm_seed, meta_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2))
    warm = multi_task_anchor(budget, warm_seed, budget.warm_iterations)
    settings = MetaSettings(
        iterations=budget.meta_iterations,
        tasks=budget.players,
        episodes=budget.fights,
        inner_lr=budget.inner_lr,
        outer="clipped",
        outer_epochs=3,
        outer_lr=budget.outer_lr,
        entropy_weight=0.01,
        advantages=ADVANTAGES,
    )
    return meta_train(
        functions,
        ModularMind(),
        training_problem(budget),
        settings,
        surrogate,
        meta_seed,
        params=warm.params,
        on_iteration=on_iteration,
    )


def play_fights(
    minds: Sequence[NumpyMind], problem: ArenaProblem, seed: int | np.random.SeedSequence
) -> list[list[Trajectory]]:
    """Play E fights with each of M minds, mind m against player m.

    Args:
        minds: M policies.
        problem: M players × E fights.
        seed: of the fights; the bosses' choices are drawn from a stream of their own.

    Returns:
        M lists of E trajectories, as the learner takes them.

    Raises:
        ValueError: another number of minds than of players.
    """
    if len(minds) != problem.num_tasks:
        raise ValueError(f"minds: need one for each of {problem.num_tasks} players, got {len(minds)}")
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    fights, choices = root.spawn(2)
    generator = np.random.default_rng(choices)
    problem.reset(fights)
    shape = (problem.num_tasks, problem.num_envs)
    features, legal, actions, hp = [], [], [], [problem.state.hp]
    length = np.zeros(shape, dtype=int)
    pi = np.empty((*shape, problem.num_actions))
    while problem.active.any():
        features.append(boss_features(problem.state, problem.rules))
        legal.append(boss_legal(problem.state))
        for m in np.flatnonzero(problem.active.any(-1)):  # where all fights are over, any action will do
            pi[m] = minds[m].probabilities(features[-1][m], legal[-1][m])
        actions.append(choose(pi, generator))
        length += problem.active
        problem.step(actions[-1])
        hp.append(problem.state.hp)
    everything = [np.stack(values, axis=2) for values in (features, legal, actions, hp)]
    dead = problem.state.hp <= 0.0
    return [
        [
            Trajectory(
                *(values[m, e, : length[m, e]] for values in everything[:3]),
                everything[3][m, e, : length[m, e] + 1],
                bool(dead[m, e, 0]),
                bool(dead[m, e, 1]),
            )
            for e in range(shape[1])
        ]
        for m in range(shape[0])
    ]


def learning_curves(
    anchor: dict[str, NDArray],
    settings: LearnerSettings,
    styles: PlayerStyles,
    num_fights: int,
    seed: int,
    fights_per_update: int = 1,
    functions: LearnerFunctions | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """How a learner fares against players, one learner each, fight after fight.

    Args:
        anchor: weights that all learners start from.
        settings: of the learners.
        styles: M players.
        num_fights: fights per player; the last is played but not learned from.
        seed: of the fights. Anchors that are compared get the same seed, so they meet the same fights' beginnings.
        fights_per_update: fights that are played before each update.
        functions: of the learners; see ``learner.LearnerFunctions``.

    Returns:
        (M, num_fights) returns and wins (1, 1/2 for a draw, 0) of each fight, and (M,) last distances from the anchor.
        Column k was played after ``k // fights_per_update`` updates.

    Raises:
        ValueError: ``num_fights`` is no multiple of ``fights_per_update``.
    """
    if fights_per_update < 1 or num_fights % fights_per_update:
        raise ValueError(f"num_fights: needs a multiple of fights_per_update, got {num_fights} and {fights_per_update}")
    learners = [Learner(anchor, settings, functions=functions) for _ in range(len(styles))]
    problem = ArenaProblem(styles, fights_per_update, rewards=settings.rewards)
    returns, wins = [], []
    seeds = np.random.SeedSequence(seed).spawn(num_fights // fights_per_update)
    for number, fight_seed in enumerate(seeds):
        played = play_fights([learner.mind for learner in learners], problem, fight_seed)
        returns.append([[fight_return(fight, settings) for fight in fights] for fights in played])
        wins.append(problem.wins())
        if number + 1 < len(seeds):
            for learner, fights in zip(learners, played, strict=True):
                learner.update(fights)
    distances = np.array([learner.distance() for learner in learners])
    return np.concatenate(returns, axis=1), np.concatenate(wins, axis=1), distances


def fight_return(fight: Trajectory, settings: LearnerSettings) -> float:
    """Undiscounted return of one fight."""
    return float(step_rewards(fight.hp[:-1], fight.hp[1:], settings.rewards).sum())

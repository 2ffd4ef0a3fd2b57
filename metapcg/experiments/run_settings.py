"""The settings of a run: all that decides its numbers, checked, and what each part of the library reads of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metapcg.learning.meta_training import OUTER_STEPS, AdvantageSettings, MetaSettings
from metapcg.learning.off_policy_training import ContextAgent, OffPolicySettings, level_agent
from metapcg.learning.policies import CropPolicy
from metapcg.learning.recurrent_policies import RecurrentCropPolicy
from metapcg.learning.recurrent_training import RecurrentSettings
from metapcg.tasks.families import FAMILIES, TaskFamily, make_family
from metapcg.tasks.splits import SPLITS, check_split

from .budgets import BUDGETS, UNTRAINED
from .profiles import check_profile

SURROGATES = ("naive", "lvc", "dice")


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides a run's numbers, apart from the source of the functions that are handed in.

    Attributes:
        algorithm: a name from ``algorithms.ALGORITHMS``.
        family: ``direction``, ``weights`` or ``target``.
        game, representation: what is trained on.
        surrogate: inner objective: ``naive``, ``lvc`` or ``dice``.
        seed: every random number of the run comes from it; evaluation tasks too, so that runs of different algorithms
            with one seed are evaluated on the same tasks.
        profile: name of the budget, for reports.
        iterations: training iterations; 0 for what is not trained.
        tasks: tasks per training batch, M.
        episodes: episodes per task and rollout, E.
        inner_lr: α, step size of the inner update. Algorithms that do not meta-train choose theirs from
            ``inner_lr_grid``.
        inner_lr_grid: candidates for them, tried on training tasks.
        inner_steps: inner steps during meta-training.
        outer: ``adam``, ``clipped`` or ``trust-region`` (see ``MetaSettings``).
        outer_lr: β, Adam's step size.
        outer_epochs: Adam steps per batch for ``clipped`` and for multi-task training.
        clip: ε of the clipped objective.
        max_kl: radius of the trust region in nats.
        entropy_weight: entropy bonus in the outer loss.
        max_gradient_norm: the outer gradient is scaled down to this norm.
        gamma: discount per step.
        lam: GAE's λ.
        hidden: widths of the hidden layers; for RL², of the crop's features and of the memory.
        crop: side of the egocentric crop in cells, odd.
        horizon: most steps of an episode.
        num_train_tasks: length of a finite list of training tasks; None for a continuum.
        held_out_representation, held_out_game: of the splits of those names; None for the family's default.
        eval_tasks: tasks per split.
        eval_episodes: episodes per task and adaptation step in evaluation, also what each adaptation step learns from.
        eval_steps: K, adaptation steps in evaluation.
        splits: the splits to evaluate.
        trial_episodes: RL²: episodes per trial in training; evaluation plays ``eval_steps`` + 1. PEARL: of these the
            first is played with z from the prior, the others with z from the posterior.
        minibatches: RL²: Adam steps per pass over a batch of trials.
        reset_between_episodes: RL²: clear the memory at every episode's start, the mistake that an experiment measures.
        replay_tasks: PEARL: training tasks, each with a replay of its own; with ``num_train_tasks`` it is that list.
        updates: PEARL: gradient steps per iteration.
        latent: PEARL: length of z.
        kl_weight: PEARL: weight of the KL divergence to the prior.
        reconstruction_weight: PEARL: weight of the rewards' reconstruction; 0 is PEARL as published. α, the weight of
            the policy's entropy, is ``entropy_weight``.

    Raises:
        ValueError: a value that cannot be used; the message names the setting.
    """

    algorithm: str
    family: str = "direction"
    game: str = "binary"
    representation: str = "narrow"
    surrogate: str = "lvc"
    seed: int = 0
    profile: str = "quick"
    iterations: int = 40
    tasks: int = 40
    episodes: int = 5
    inner_lr: float = 5.0
    inner_lr_grid: tuple[float, ...] = (0.3, 1.0, 3.0, 5.0, 10.0)
    inner_steps: int = 1
    outer: str = "adam"
    outer_lr: float = 3e-3
    outer_epochs: int = 1
    clip: float = 0.2
    max_kl: float = 0.01
    entropy_weight: float = 0.0
    max_gradient_norm: float = 10.0
    gamma: float = 0.9
    lam: float = 1.0
    hidden: tuple[int, ...] = (64, 64)
    crop: int = 5
    horizon: int = 60
    num_train_tasks: int | None = None
    held_out_representation: str | None = None
    held_out_game: str | None = None
    eval_tasks: int = 40
    eval_episodes: int = 20
    eval_steps: int = 3
    splits: tuple[str, ...] = SPLITS
    trial_episodes: int = 2
    minibatches: int = 1
    reset_between_episodes: bool = False
    replay_tasks: int = 100
    updates: int = 30
    latent: int = 4
    kl_weight: float = 1e-3
    reconstruction_weight: float = 0.0

    def __post_init__(self) -> None:
        for name in ("inner_lr_grid", "hidden", "splits"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # lists, when they come from a file
        _one_of("algorithm", self.algorithm, BUDGETS)
        trained = self.algorithm not in UNTRAINED
        _one_of("family", self.family, FAMILIES)
        _one_of("surrogate", self.surrogate, SURROGATES)
        _one_of("outer", self.outer, OUTER_STEPS)
        check_profile(self.profile)
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: needs an integer of at least {least}, got {value!r}")
        if (self.iterations == 0) != (not trained):
            raise ValueError(
                f"iterations: {self.algorithm} "
                + ("needs at least 1" if trained else f"is not trained; use 0, not {self.iterations}")
            )
        for name in ("inner_lr", "outer_lr", "clip", "max_kl", "max_gradient_norm"):
            _finite(name, getattr(self, name), above=0.0)
        for name in ("gamma", "lam"):
            if not 0 <= _finite(name, getattr(self, name)) <= 1:
                raise ValueError(f"{name}: must lie in [0, 1], got {getattr(self, name)!r}")
        _finite("entropy_weight", self.entropy_weight)
        if not self.inner_lr_grid:
            raise ValueError("inner_lr_grid: needs at least one step size")
        for value in self.inner_lr_grid:
            _finite("inner_lr_grid", value, above=0.0)
        if not self.hidden or any(not isinstance(width, int) or width < 1 for width in self.hidden):
            raise ValueError(f"hidden: needs one or more positive widths, got {self.hidden}")
        if self.crop % 2 == 0:
            raise ValueError(f"crop: needs an odd number, so that it has a centre; got {self.crop}")
        if not self.splits or len(set(self.splits)) != len(self.splits):
            raise ValueError(f"splits: needs one or more names, each once; got {self.splits}")
        for split in self.splits:
            check_split(split)
        for name in ("kl_weight", "reconstruction_weight"):
            if _finite(name, getattr(self, name)) < 0:
                raise ValueError(f"{name}: must be at least 0, got {getattr(self, name)!r}")
        if self.algorithm == "pearl" and self.trial_episodes < 2:
            raise ValueError(f"trial_episodes: PEARL needs at least 2, got {self.trial_episodes}")
        self.task_family()

    def task_family(self) -> TaskFamily:
        """The family that tasks are drawn from; a finite list of directions holds w and -w, so that it is symmetric."""
        pairs = {"antithetic": True} if self.family == "direction" and self.num_train_tasks is not None else {}
        return make_family(
            self.family,
            self.game,
            self.representation,
            horizon=self.horizon,
            num_train_tasks=self.num_train_tasks,
            held_out_representation=self.held_out_representation,
            held_out_game=self.held_out_game,
            **pairs,
        )

    def meta_settings(self) -> MetaSettings:
        """The part that ``meta_train`` and ``adaptation_returns`` read; ``inner_lr`` is the one given here."""
        return MetaSettings(
            iterations=max(self.iterations, 1),
            tasks=self.tasks,
            episodes=self.episodes,
            inner_lr=self.inner_lr,
            inner_steps=self.inner_steps,
            first_order=self.algorithm == "fomaml",
            outer=self.outer,
            outer_lr=self.outer_lr,
            outer_epochs=self.outer_epochs,
            clip=self.clip,
            max_kl=self.max_kl,
            entropy_weight=self.entropy_weight,
            max_gradient_norm=self.max_gradient_norm,
            advantages=self.advantage_settings(),
        )

    def advantage_settings(self) -> AdvantageSettings:
        """How advantages are computed."""
        return AdvantageSettings(gamma=self.gamma, lam=self.lam)

    def recurrent_settings(self) -> RecurrentSettings:
        """The part that ``train_recurrent`` reads."""
        return RecurrentSettings(
            iterations=self.iterations,
            trial_episodes=self.trial_episodes,
            gamma=self.gamma,
            lam=self.lam,
            lr=self.outer_lr,
            epochs=self.outer_epochs,
            minibatches=self.minibatches,
            clip=self.clip,
            entropy_weight=self.entropy_weight,
            max_gradient_norm=self.max_gradient_norm,
            reset_between_episodes=self.reset_between_episodes,
        )

    def recurrent_policy(self, split: str = "train") -> RecurrentCropPolicy:
        """The policy with a memory for a split's game and representation; parameters have the same shapes for all."""
        family = self.task_family()
        return RecurrentCropPolicy(family.split_game(split), family.split_representation(split), self.crop, self.hidden)

    def off_policy_settings(self) -> OffPolicySettings:
        """The part that ``off_policy_train`` reads."""
        tasks = self.num_train_tasks or self.replay_tasks
        per_round = self.episodes * self.trial_episodes
        return OffPolicySettings(
            iterations=self.iterations,
            warm_up=min(2, self.iterations),
            tasks=min(self.tasks, tasks),
            prior_episodes=self.episodes,
            posterior_episodes=per_round - self.episodes,
            capacity=max(12, per_round),
            updates=self.updates,
            update_tasks=min(16, tasks),
            context_size=min(per_round, 4) * self.horizon,
            kl_weight=self.kl_weight,
            temperature=self.entropy_weight,
            gamma=self.gamma,
            learning_rate=self.outer_lr,
            reconstruction_weight=self.reconstruction_weight,
        )

    def context_agent(self, split: str = "train") -> ContextAgent:
        """PEARL's networks for a split's game and representation; parameters have the same shapes for all of them."""
        family = self.task_family()
        return level_agent(
            family.split_game(split), family.split_representation(split), self.latent, self.crop, self.hidden
        )

    def policy(self, split: str = "train", tell_task: bool = False) -> CropPolicy:
        """The policy for a split's game and representation; parameters have the same shapes for all of them."""
        family = self.task_family()
        told = family.sample("train", 2, 0).task_features().shape[1] if tell_task else 0
        return CropPolicy(
            family.split_game(split), family.split_representation(split), self.crop, self.hidden, task_features=told
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
            if name not in _ADDED_LATER or value != usual[name]
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunSettings:
        """The inverse of ``to_dict``; ValueError for unknown or missing settings."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown, missing = sorted(set(values) - known), sorted(known - set(values) - set(_ADDED_LATER))
        if unknown or missing:
            raise ValueError(f"settings: unknown {unknown}, missing {missing}")
        return cls(**values)


_ADDED_LATER = (
    "trial_episodes", "minibatches", "reset_between_episodes", "replay_tasks", "updates", "latent", "kl_weight",
    "reconstruction_weight",
)  # fmt: skip
"""Settings that are written only where they differ from their default, so that runs made before there were any keep
their identity."""

_COUNTS = {
    "seed": 0, "iterations": 0, "tasks": 1, "episodes": 1, "inner_steps": 0, "outer_epochs": 1, "crop": 1,
    "horizon": 1, "eval_tasks": 1, "eval_episodes": 1, "eval_steps": 0, "trial_episodes": 1, "minibatches": 1,
    "replay_tasks": 1, "updates": 1, "latent": 1,
}  # fmt: skip


def _one_of(name: str, value: str, allowed: Any) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: unknown value {value!r}; choose one of {', '.join(allowed)}")


def _finite(name: str, value: float, above: float | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ValueError(f"{name}: needs a finite number, got {value!r}")
    if above is not None and value <= above:
        raise ValueError(f"{name}: must be above {above:g}, got {value!r}")
    return value

"""The algorithms a run can name: how each is trained and how it is evaluated. One entry of a table for each.

To add an algorithm, write a function that trains (``Session → TrainingResult``) and one that evaluates a split
(``Session, params, split → SplitResult``), add an entry to ``ALGORITHMS`` and a row to ``budgets.BUDGETS``, and name
the notebook's functions in ``functions.NOTEBOOK_OF``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metapcg.learning.baselines import UniformPolicy, random_returns, train_multi_task
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.meta_training import TrainingResult, adaptation_returns, meta_train
from metapcg.learning.off_policy_training import FUNCTIONS as PEARL_FUNCTIONS
from metapcg.learning.off_policy_training import adapt_by_context, off_policy_train
from metapcg.learning.policies import Params, to_device
from metapcg.learning.recurrent_training import FUNCTIONS as RL2_FUNCTIONS
from metapcg.learning.recurrent_training import train_recurrent, trial_returns
from metapcg.learning.rollouts import Streams, collect, episode_returns
from metapcg.learning.training_state import TrainingState
from metapcg.tasks.families import DirectionFamily
from metapcg.tasks.splits import HELD_OUT_GAME, SPLITS, TRAIN
from metapcg.tasks.task_batch import TaskBatch

from .run_settings import RunSettings

GALLERY_TASKS = 4
"""Tasks per split whose levels are kept."""

# Purposes of a run's seed. Training uses the seed itself (see ``meta_train``); these give the other streams, which
# training never sees, a spawn key of their own.
_EVALUATION_TASKS, _EVALUATION_EPISODES, _TUNING_TASKS, _TUNING_EPISODES, _GALLERY, _START = range(1001, 1007)
_REPLAY_TASKS = 1007


@dataclass(frozen=True)
class SplitResult:
    """Evaluation on one split.

    Attributes:
        split, game, representation: what was evaluated.
        returns: (M, K + 1) mean undiscounted return of each task after 0 … K adaptation steps.
        episodes: (K + 1,) episodes of the task that had been seen before each of them.
        parameters: (M, P) hidden parameters of the tasks; parameter_names: P names.
        inner_lr: step size used, NaN where nothing adapts by gradients.
    """

    split: str
    game: str
    representation: str
    returns: np.ndarray
    episodes: np.ndarray
    parameters: np.ndarray
    parameter_names: tuple[str, ...]
    inner_lr: float


@dataclass(frozen=True)
class Outcome:
    """What evaluation gives: split → result, split → why it was left out, and arrays of levels."""

    splits: dict[str, SplitResult]
    left_out: dict[str, str]
    levels: dict[str, np.ndarray]


@dataclass(frozen=True)
class Algorithm:
    """One entry of the table.

    Attributes:
        name: as settings and the command line write it.
        label: as tables and figures write it.
        summary: one line for people.
        train: None when there is nothing to train; parameters are then a random initialisation.
        evaluate: one split's result.
        functions: names of the notebook's functions it calls, without the surrogate.
        uses_surrogate: whether it adapts by gradient steps on ``settings.surrogate``.
        tell_task: whether the policy is told its task's weights.
        policy: settings and split → what acts; None: the feed-forward policy, ``settings.policy``.
        gallery: plays a few tasks from the same start levels before and after adaptation; None: one episode with the
            trained and one with the adapted parameters.
    """

    name: str
    label: str
    summary: str
    train: Callable[[Session], TrainingResult] | None
    evaluate: Callable[[Session, Params, str], SplitResult]
    functions: tuple[str, ...] = ()
    uses_surrogate: bool = False
    tell_task: bool = False
    policy: Callable[[RunSettings, str], Any] | None = None
    gallery: Callable[[Session, Params, str, TaskBatch], dict[str, np.ndarray]] | None = None

    def function_names(self, settings: RunSettings) -> tuple[str, ...]:
        """The functions that a run with these settings needs."""
        return (*self.functions, f"surrogate_{settings.surrogate}") if self.uses_surrogate else self.functions

    def why_left_out(self, settings: RunSettings, split: str) -> str:
        """Why the algorithm cannot be evaluated on a split; empty when it can."""
        if self.tell_task and split == HELD_OUT_GAME:
            return "it is told weights of the trained game's statistics, which another game does not have"
        return ""


@dataclass
class Session:
    """A run while it is executed: settings, functions, seeds, and where training states go."""

    settings: RunSettings
    functions: Any
    device: torch.device | str = "cpu"
    resume: TrainingState | None = None
    on_state: Callable[[TrainingState], None] | None = None
    state_every: int = 10
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None
    tuned_inner_lr: float | None = None

    @property
    def algorithm(self) -> Algorithm:
        """The run's entry of the table."""
        return get_algorithm(self.settings.algorithm)

    @property
    def surrogate(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """The inner objective."""
        return getattr(self.functions, f"surrogate_{self.settings.surrogate}")

    def seed(self, purpose: int, index: int = 0) -> np.random.SeedSequence:
        """A stream for one purpose; the same for every algorithm."""
        return np.random.SeedSequence(self.settings.seed, spawn_key=(purpose, index))

    def policy(self, split: str = TRAIN):
        """The policy for a split."""
        if self.algorithm.policy is not None:
            return self.algorithm.policy(self.settings, split)
        return self.settings.policy(split, self.algorithm.tell_task)

    def train_problem(self, seed: np.random.SeedSequence) -> LevelProblem:
        """A batch of training tasks."""
        tasks = self.settings.task_family().sample(TRAIN, self.settings.tasks, seed)
        return self.problem(tasks, self.settings.episodes)

    def trial_problem(self, seed: np.random.SeedSequence) -> LevelProblem:
        """A batch of training tasks for RL²."""
        family, count = self.settings.task_family(), self.settings.tasks
        if isinstance(family, DirectionFamily):
            # Pairs of w and -w: what a policy earns without regard to its task cancels in every batch, which leaves a
            # less noisy gradient.
            return self.problem(family.sample(TRAIN, count + count % 2, seed, antithetic=True), self.settings.episodes)
        return self.train_problem(seed)

    def replay_tasks(self) -> TaskBatch:
        """The training tasks of an algorithm that keeps a replay for each: directions in pairs of w and -w."""
        family = self.settings.task_family()
        if self.settings.num_train_tasks is not None:
            return family.train_tasks()
        count, seed = self.settings.replay_tasks, self.seed(_REPLAY_TASKS)
        if isinstance(family, DirectionFamily):
            return family.sample(TRAIN, count, seed, antithetic=count % 2 == 0)
        return family.sample(TRAIN, count, seed)

    def evaluation_tasks(self, split: str) -> TaskBatch:
        """The tasks that a split is evaluated on; the same for every algorithm, other ones for another seed."""
        seed = self.seed(_EVALUATION_TASKS)  # the family itself keeps the splits' streams apart
        family, count = self.settings.task_family(), self.settings.eval_tasks
        if isinstance(family, DirectionFamily):
            # Pairs of w and -w: whoever does not adapt earns nothing, on this very set and not only on average.
            return family.sample(split, count + count % 2, seed, antithetic=True)
        return family.sample(split, count, seed)

    def problem(self, tasks: TaskBatch, episodes: int) -> LevelProblem:
        """Tasks as environments."""
        return LevelProblem(tasks, episodes, self.settings.crop, tell_task=self.algorithm.tell_task)

    def train(self) -> TrainingResult:
        """Train, or draw the random initialisation."""
        if self.algorithm.train is None:
            params = self.policy().init(Streams(self.seed(_START)).parameters)
            return TrainingResult(params, [])
        return self.algorithm.train(self)

    def evaluate(self, params: Params) -> Outcome:
        """Evaluate on every split that the settings name."""
        splits, left_out, levels = {}, {}, {}
        for split in self.settings.splits:
            reason = self.algorithm.why_left_out(self.settings, split)
            if reason:
                left_out[split] = reason
                continue
            splits[split] = self.algorithm.evaluate(self, params, split)
            gallery = self._gallery(params, split, splits[split])
            levels.update({f"{split}/{name}": array for name, array in gallery.items()})
        return Outcome(splits, left_out, levels)

    def training_hooks(self) -> dict[str, Any]:
        """Arguments that every training loop takes alike."""
        return {
            "device": self.device,
            "on_iteration": self.on_iteration,
            "resume": self.resume,
            "on_state": self.on_state,
            "state_every": self.state_every,
        }

    def split_result(
        self, split: str, tasks: TaskBatch, returns: np.ndarray, episodes_per_step: int, inner_lr: float = float("nan")
    ) -> SplitResult:
        """Put an evaluation's returns (M, K + 1) together with what they are about."""
        return SplitResult(
            split=split,
            game=tasks.game,
            representation=tasks.representation,
            returns=np.asarray(returns, dtype=np.float64),
            episodes=episodes_per_step * np.arange(returns.shape[1]),
            parameters=tasks.parameters,
            parameter_names=tasks.parameter_names,
            inner_lr=inner_lr,
        )

    def _gallery(self, params: Params, split: str, result: SplitResult) -> dict[str, np.ndarray]:
        """Levels of a few tasks, evenly spread over the first hidden parameter.

        ``before`` and ``after`` start from the same levels and use the same random numbers, so what differs between
        them is due to the parameters.
        """
        every = self.evaluation_tasks(split)
        order = np.argsort(every.parameters[:, 0], kind="stable")
        count = min(GALLERY_TASKS, len(every))
        tasks = every[order[(np.arange(count) * len(every)) // count]]
        if self.algorithm.gallery is not None:
            return self.algorithm.gallery(self, params, split, tasks)
        policy = self.policy(split)
        arrays: dict[str, np.ndarray] = {"parameters": tasks.parameters}
        seed = lambda: self.seed(_GALLERY, SPLITS.index(split))  # noqa: E731
        adapted = None
        if self.algorithm.uses_surrogate and self.settings.eval_steps:
            adapted = adapt_to(self, policy, params, tasks, result.inner_lr, seed())[1]
        for name, own in (("before", params), ("after", adapted)):
            if own is None:
                continue
            problem = self.problem(tasks, 1)
            recorder = _StartRecorder(problem)
            acting = UniformPolicy(policy) if self.algorithm.name == "random" else policy
            batch = collect(recorder, acting, to_device(own, self.device), Streams(seed(), self.device), self.device)
            engine = problem.engine
            arrays["start"] = recorder.start[:, 0]
            arrays["start_stats"] = engine.start_stats[:, 0].copy()
            arrays[name] = engine.maps[:, 0].copy()
            arrays[f"{name}_stats"] = engine.stats[:, 0].copy()
            arrays[f"{name}_return"] = episode_returns(batch)[:, 0].cpu().numpy()
        return arrays


class _StartRecorder:
    """A problem that remembers the levels it started from."""

    def __init__(self, problem: LevelProblem):
        self._problem = problem
        self.num_tasks, self.num_envs, self.horizon = problem.num_tasks, problem.num_envs, problem.horizon
        self.start = np.zeros(0, dtype=np.uint8)
        self.step = problem.step

    def reset(self, seed: np.random.SeedSequence):
        obs = self._problem.reset(seed)
        self.start = self._problem.engine.maps.copy()
        return obs


# ------------------------------------------------------------------------------------------------------------ training


def train_maml(session: Session) -> TrainingResult:
    """MAML, or FOMAML where the settings say so."""
    return meta_train(
        session.functions,
        session.policy(),
        session.train_problem,
        session.settings.meta_settings(),
        session.surrogate,
        session.settings.seed,
        **session.training_hooks(),
    )


def train_on_all_tasks(session: Session) -> TrainingResult:
    """One policy for all training tasks: the oracle when it is told the task, multi-task pretraining when it is not."""
    settings = session.settings
    return train_multi_task(
        session.policy(),
        session.train_problem,
        settings.iterations,
        settings.seed,
        settings.advantage_settings(),
        lr=settings.outer_lr,
        epochs=settings.outer_epochs,
        clip=settings.clip,
        entropy_weight=settings.entropy_weight,
        max_gradient_norm=settings.max_gradient_norm,
        **session.training_hooks(),
    )


def train_rl2(session: Session) -> TrainingResult:
    """RL²: a policy with a memory, over trials of several episodes."""
    settings = session.settings
    return train_recurrent(
        session.functions,
        session.policy(),
        session.trial_problem,
        settings.recurrent_settings(),
        settings.seed,
        **session.training_hooks(),
    )


def train_pearl(session: Session) -> TrainingResult:
    """PEARL: an encoder of experience and a soft actor-critic that is told what it infers, from replay."""
    settings = session.settings
    return off_policy_train(
        session.functions,
        session.policy(),
        session.replay_tasks(),
        session.problem,
        settings.off_policy_settings(),
        settings.seed,
        **session.training_hooks(),
    )


# ---------------------------------------------------------------------------------------------------------- evaluation


def adapt_to(
    session: Session, policy: Any, params: Params, tasks: TaskBatch, inner_lr: float, seed: np.random.SeedSequence
) -> tuple[np.ndarray, Params]:
    """``settings.eval_steps`` adaptation steps on each task: returns (M, K + 1) and the adapted parameters."""
    settings = session.settings
    return adaptation_returns(
        session.functions,
        policy,
        params,
        session.problem(tasks, settings.eval_episodes),
        dataclasses.replace(settings.meta_settings(), inner_lr=inner_lr),
        session.surrogate,
        settings.eval_steps,
        seed,
        session.device,
    )


def evaluate_adaptation(session: Session, params: Params, split: str, inner_lr: float | None = None) -> SplitResult:
    """Gradient steps on each task of a split, with the step size of meta-training unless another is given."""
    settings = session.settings
    inner_lr = settings.inner_lr if inner_lr is None else inner_lr
    tasks = session.evaluation_tasks(split)
    seed = session.seed(_EVALUATION_EPISODES, SPLITS.index(split))
    returns, _ = adapt_to(session, session.policy(split), params, tasks, inner_lr, seed)
    return session.split_result(split, tasks, returns, settings.eval_episodes, inner_lr)


def evaluate_tuned_adaptation(session: Session, params: Params, split: str) -> SplitResult:
    """As ``evaluate_adaptation``, with the step size that does best on training tasks.

    Parameters that were not meta-trained have no step size of their own; a fixed one would be an unfair comparison.
    """
    if session.tuned_inner_lr is None:
        session.tuned_inner_lr = choose_inner_lr(session, params)
    return evaluate_adaptation(session, params, split, session.tuned_inner_lr)


def choose_inner_lr(session: Session, params: Params) -> float:
    """The step size of ``settings.inner_lr_grid`` with the highest mean return over adaptation steps 1 … K.

    Training tasks other than those of the evaluation are used, never a test split.
    """
    settings = session.settings
    if len(settings.inner_lr_grid) == 1 or settings.eval_steps == 0:
        return settings.inner_lr_grid[0]
    tasks = settings.task_family().sample(TRAIN, settings.eval_tasks, session.seed(_TUNING_TASKS))
    policy = session.policy(TRAIN)
    scores = []
    for inner_lr in settings.inner_lr_grid:
        returns, _ = adapt_to(session, policy, params, tasks, inner_lr, session.seed(_TUNING_EPISODES))
        score = float(returns[:, 1:].mean())
        scores.append(score if np.isfinite(score) else -np.inf)
    return settings.inner_lr_grid[int(np.argmax(scores))]


def evaluate_fixed(session: Session, params: Params, split: str) -> SplitResult:
    """A policy that does not adapt: one number per task."""
    tasks = session.evaluation_tasks(split)
    seed = session.seed(_EVALUATION_EPISODES, SPLITS.index(split))
    batch = collect(
        session.problem(tasks, session.settings.eval_episodes),
        session.policy(split),
        to_device(params, session.device),
        Streams(seed, session.device),
        session.device,
    )
    return session.split_result(split, tasks, episode_returns(batch).mean(-1, keepdim=True).cpu().numpy(), 0)


def evaluate_random(session: Session, params: Params, split: str) -> SplitResult:
    """Every legal action equally likely."""
    tasks = session.evaluation_tasks(split)
    seed = session.seed(_EVALUATION_EPISODES, SPLITS.index(split))
    problem = session.problem(tasks, session.settings.eval_episodes)
    returns = random_returns(session.policy(split), problem, seed, session.device)
    return session.split_result(split, tasks, returns[:, None], 0)


def evaluate_trials(session: Session, params: Params, split: str) -> SplitResult:
    """Trials of ``eval_steps`` + 1 episodes on each task; step k is the episode that k others came before."""
    settings = session.settings
    tasks = session.evaluation_tasks(split)
    returns = trial_returns(
        session.functions,
        session.policy(split),
        params,
        session.problem(tasks, settings.eval_episodes),
        settings.eval_steps + 1,
        session.seed(_EVALUATION_EPISODES, SPLITS.index(split)),
        session.device,
        reset_between_episodes=settings.reset_between_episodes,
    )
    return session.split_result(split, tasks, returns.mean(1), 1)


class _SameStart:
    """A problem that begins the first and the last episode of a trial from the same levels, and remembers both."""

    def __init__(self, problem: LevelProblem, episodes: int, seed: np.random.SeedSequence):
        self._problem, self._last, self._seed = problem, episodes - 1, seed
        self.num_tasks, self.num_envs, self.horizon = problem.num_tasks, problem.num_envs, problem.horizon
        self._episode = -1
        self.step = problem.step
        self.arrays: dict[str, np.ndarray] = {}

    def reset(self, seed: np.random.SeedSequence):
        self._episode += 1
        obs = self._problem.reset(self._seed if self._episode in (0, self._last) else seed)
        if self._episode == 0:
            engine = self._problem.engine
            self.arrays["start"], self.arrays["start_stats"] = engine.maps[:, 0].copy(), engine.stats[:, 0].copy()
        return obs

    def keep(self, episode: int, problem: Any) -> None:
        """An episode has ended everywhere."""
        engine = self._problem.engine
        for name, when in (("before", 0), ("after", self._last)):
            if episode == when:
                self.arrays[name], self.arrays[f"{name}_stats"] = engine.maps[:, 0].copy(), engine.stats[:, 0].copy()


def trial_gallery(session: Session, params: Params, split: str, tasks: TaskBatch) -> dict[str, np.ndarray]:
    """Levels after the first and after the last episode of one trial on each task, from the same start levels."""
    settings = session.settings
    episodes = settings.eval_steps + 1
    seed = session.seed(_GALLERY, SPLITS.index(split))
    same = _SameStart(session.problem(tasks, 1), episodes, seed.spawn(1)[0])
    returns = trial_returns(
        session.functions, session.policy(split), params, same, episodes, seed, session.device,
        reset_between_episodes=settings.reset_between_episodes, on_episode=same.keep,
    )[:, 0]  # fmt: skip
    ends = {"before_return": returns[:, 0], "after_return": returns[:, -1]}
    return {"parameters": tasks.parameters, **same.arrays, **ends}


def evaluate_context(session: Session, params: Params, split: str) -> SplitResult:
    """Trials of ``eval_steps`` + 1 episodes; z from the prior, then the mean given all own transitions so far."""
    settings = session.settings
    tasks = session.evaluation_tasks(split)
    trials = adapt_by_context(
        session.functions,
        session.policy(split),
        params,
        session.problem(tasks, settings.eval_episodes),
        settings.eval_steps,
        session.seed(_EVALUATION_EPISODES, SPLITS.index(split)),
        session.device,
    )
    return session.split_result(split, tasks, trials.returns.mean(1), 1)


def context_gallery(session: Session, params: Params, split: str, tasks: TaskBatch) -> dict[str, np.ndarray]:
    """As ``trial_gallery``, for an agent that infers z."""
    steps = session.settings.eval_steps
    seed = session.seed(_GALLERY, SPLITS.index(split))
    problem = session.problem(tasks, 1)
    same = _SameStart(problem, steps + 1, seed.spawn(1)[0])
    returns = adapt_by_context(
        session.functions, session.policy(split), params, same, steps, seed, session.device,
        on_episode=lambda episode: same.keep(episode, problem),
    ).returns[:, 0]  # fmt: skip
    ends = {"before_return": returns[:, 0], "after_return": returns[:, -1]}
    return {"parameters": tasks.parameters, **same.arrays, **ends}


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "maml", "MAML", "meta-trained initialisation, gradient steps at test",
            train_maml, evaluate_adaptation, ("adapt", "meta_loss"), uses_surrogate=True,
        ),
        Algorithm(
            "fomaml", "FOMAML", "MAML without second derivatives",
            train_maml, evaluate_adaptation, ("adapt", "meta_loss"), uses_surrogate=True,
        ),
        Algorithm(
            "rl2", "RL²", "a recurrent policy that adapts within its memory",
            train_rl2, evaluate_trials, RL2_FUNCTIONS, policy=RunSettings.recurrent_policy, gallery=trial_gallery,
        ),
        Algorithm(
            "pearl", "PEARL", "infers a latent task from its own transitions, acts on it; learns from replay",
            train_pearl, evaluate_context, PEARL_FUNCTIONS, policy=RunSettings.context_agent, gallery=context_gallery,
        ),
        Algorithm(
            "pretrained", "pretrained", "one policy trained on all tasks, then gradient steps",
            train_on_all_tasks, evaluate_tuned_adaptation, ("adapt",), uses_surrogate=True,
        ),
        Algorithm(
            "random-init", "random init", "gradient steps from a random initialisation",
            None, evaluate_tuned_adaptation, ("adapt",), uses_surrogate=True,
        ),
        Algorithm(
            "oracle", "oracle", "one policy that is told the task", train_on_all_tasks, evaluate_fixed, tell_task=True
        ),
        Algorithm("random", "random", "every legal action equally likely", None, evaluate_random),
    )
}  # fmt: skip
"""Name → entry."""


def get_algorithm(name: str) -> Algorithm:
    """The entry of that name; ValueError lists the names."""
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm: unknown value {name!r}; choose one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]

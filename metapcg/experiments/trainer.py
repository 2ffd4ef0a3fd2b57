"""The trainer: one algorithm on several games and representations at once, from the command line.

``python -m metapcg train maml --games binary zelda --representations narrow wide`` meta-trains one policy on tasks of
all combinations, with the functions of a notebook. It drives the same loops as the experiments do (see ``algorithms``);
what it adds is the mixture, two optional reward terms, checkpoints, and a run that can be watched, stopped and resumed.

A run's folder holds

======================  ========================================================================================
``settings.json``       the settings, a fingerprint of the functions, versions
``metrics.csv``         training, one row per iteration
``validation.csv``      return after each adaptation step, by combination, whenever it was measured
``best.pt``             checkpoint with the highest validation return so far
``iteration_N.pt``      checkpoints at regular intervals
``final.pt``            checkpoint of the last iteration; a folder that has it is complete
``last_good.pt``        where training diverged: the last parameters before it
``resources.csv``       with ``--resources live``: the trace that replays the run
``machine.csv``         seconds and load per iteration; the only file that differs between executions of a run
``state.pt``            where training is, for ``--resume``
======================  ========================================================================================

**What "best" means.** Validation tasks are drawn from the *training* range, with a random stream of their own, and are
never trained on. The meta-test splits are not touched: whoever chooses a checkpoint by its meta-test return no longer
has a test. Validation pays what the task pays; neither reward term is part of it. There are two tasks or more of every
combination, and every task counts the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from tqdm import tqdm

from metapcg.games import get_game
from metapcg.games.deadlocks import count_deadlocked_crates
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.meta_training import Diverged, TrainingResult
from metapcg.learning.mixture import (
    Layout,
    MixedPolicy,
    MixedProblem,
    MixedRecurrentPolicy,
    MixedTasks,
    RewardTerm,
    mixed_agent,
    sample_mixed,
)
from metapcg.learning.policies import Params
from metapcg.learning.training_state import TrainingState
from metapcg.tasks.families import DirectionFamily, TaskFamily
from metapcg.tasks.splits import TRAIN

from .algorithms import Session, get_algorithm
from .checkpoints import Checkpoint
from .functions import fingerprint
from .resources import LiveResources, Monitor, Penalties, Reading, ReplayedResources, Trace, make_reader
from .run_files import brief, load_torch, write_csv, write_json, write_torch
from .runs import FORMAT as RECORD_FORMAT
from .runs import RunSettings, check_versions, environment, read_record, require_functions

TRAINABLE = ("maml", "fomaml", "rl2", "pearl")
"""Algorithms that the trainer takes."""

_VALIDATION_TASKS, _REPLAY_TASKS = 1101, 1102  # purposes of the seed; ``algorithms`` has 1001 … 1007


_CARRIED = frozenset({"metrics", "validation", "machine", "best_iteration", "best_return", "step"})
"""What the trainer saves beside the loop's own state."""


@dataclass(frozen=True)
class TrainerSettings:
    """Everything that decides a run's numbers, apart from the source of the functions that are handed in.

    Attributes:
        run: the algorithm and its sizes; its game and representation are the first of the lists.
        games, representations: every pair is trained on.
        deadlock_penalty: what each deadlocked crate of a Sokoban level costs per step; 0 is off.
        resources: ``off``, ``live``, or the path of a recorded trace.
        trace_digest: of the trace that is replayed; empty without one.
        validate_every: iterations between two validations; the last iteration always has one.
        checkpoint_every: iterations between two checkpoints that are kept.
        state_every: iterations between two savings of the state that ``resume`` goes on from.

    Raises:
        ValueError: a value that cannot be used; the message names the setting.
    """

    run: RunSettings
    games: tuple[str, ...]
    representations: tuple[str, ...]
    deadlock_penalty: float = 0.0
    resources: str = "off"
    trace_digest: str = ""
    validate_every: int = 10
    checkpoint_every: int = 50
    state_every: int = 10

    def __post_init__(self) -> None:
        if self.run.algorithm not in TRAINABLE:
            raise ValueError(f"algorithm: {self.run.algorithm} is not trained here; choose {', '.join(TRAINABLE)}")
        for name, values in (("games", self.games), ("representations", self.representations)):
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name}: needs one or more names, each once; got {' '.join(values) or 'none'}")
        self.families()
        if not (np.isfinite(self.deadlock_penalty) and self.deadlock_penalty >= 0):
            raise ValueError(f"deadlock_penalty: must be at least 0, got {self.deadlock_penalty!r}")
        if self.deadlock_penalty and "sokoban" not in self.games:
            raise ValueError("deadlock_penalty: only sokoban has crates, and it is not among the games")
        for name in ("validate_every", "checkpoint_every", "state_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")

    @property
    def layout(self) -> Layout:
        """The combinations."""
        return Layout.of(self.games, self.representations, self.run.crop)

    def families(self) -> list[TaskFamily]:
        """The task family of every combination."""
        return [
            dataclasses.replace(self.run, game=c.game, representation=c.representation).task_family()
            for c in self.layout.combinations
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. Where a trace lies does not matter, nor how often anything is saved."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values |= {"run": self.run.to_dict(), "games": list(self.games), "representations": list(self.representations)}
        values["resources"] = "replayed" if self.trace_digest else self.resources
        del values["checkpoint_every"], values["state_every"]
        return values


def default_name(settings: TrainerSettings) -> str:
    """Name of a run that was given none: what it is, in words."""
    run = settings.run
    words = [run.algorithm, run.family, *settings.games, *settings.representations]
    return "-".join([*words, f"s{run.seed}"])


# --------------------------------------------------------------------------------------------------------- reward terms


def deadlock_term(penalty: float) -> RewardTerm:
    """The guardrail: −``penalty`` per deadlocked crate and step, on Sokoban; 0 on other games.

    It looks at the levels after the step, outside the engine. A crate on a target is never charged: in a level that is
    being edited a cell holds one or the other.
    """
    tiles = get_game("sokoban").tiles
    solid, crate, target = (tiles.index(name) for name in ("solid", "crate", "target"))

    def term(part: LevelProblem, active: np.ndarray) -> np.ndarray:
        maps = part.engine.maps
        if part.tasks.game != "sokoban":
            return np.zeros(active.shape)
        levels = maps.reshape(-1, *maps.shape[2:])
        return -penalty * count_deadlocked_crates(levels, solid, crate, target).reshape(active.shape)

    return term


def resource_term(resources: LiveResources | ReplayedResources, penalties: Penalties) -> RewardTerm:
    """The same penalty for every environment: what the reading of this step costs."""

    def term(part: LevelProblem, active: np.ndarray) -> np.ndarray:
        return np.full(active.shape, -penalties(resources.reading))

    return term


# -------------------------------------------------------------------------------------------------------------- session


@dataclass(frozen=True)
class Validation:
    """Returns (M, K + 1) of the validation tasks, and the combination of each."""

    returns: np.ndarray
    group: np.ndarray

    @property
    def score(self) -> float:
        """Mean over tasks of the return after the last adaptation step."""
        return float(self.returns[:, -1].mean())


@dataclass
class MixtureSession(Session):
    """A run on several combinations: the loops of ``algorithms`` see it as any other session.

    Attributes:
        mixture: the trainer's settings.
        terms: reward terms of training.
        on_step: called at every step of training.
    """

    mixture: TrainerSettings | None = None
    terms: tuple[RewardTerm, ...] = ()
    on_step: Callable[[], None] | None = None
    _validating: bool = False

    def __post_init__(self) -> None:
        self._layout, self._families = self.mixture.layout, self.mixture.families()

    def policy(self, split: str = TRAIN) -> Any:
        """One policy for all combinations."""
        settings = self.settings
        if settings.algorithm == "rl2":
            return MixedRecurrentPolicy(self._layout, settings.hidden)
        if settings.algorithm == "pearl":
            return mixed_agent(self._layout, settings.latent, settings.hidden)
        return MixedPolicy(self._layout, settings.hidden)

    def _sample(self, count: int, seed: np.random.SeedSequence, pairs: bool) -> MixedTasks:
        pairs = pairs and isinstance(self._families[0], DirectionFamily)
        return sample_mixed(self._families, TRAIN, count + count % 2 if pairs else count, seed, pairs=pairs)

    def train_problem(self, seed: np.random.SeedSequence) -> MixedProblem:
        """A batch of training tasks."""
        return self.problem(self._sample(self.settings.tasks, seed, pairs=False), self.settings.episodes)

    def trial_problem(self, seed: np.random.SeedSequence) -> MixedProblem:
        """A batch of training tasks for RL²."""
        return self.problem(self._sample(self.settings.tasks, seed, pairs=True), self.settings.episodes)

    def replay_tasks(self) -> MixedTasks:
        """The training tasks of PEARL."""
        return self._sample(self.settings.replay_tasks, self.seed(_REPLAY_TASKS), self.settings.replay_tasks % 2 == 0)

    def evaluation_tasks(self, split: str) -> MixedTasks:
        """The validation tasks: of the training range, with a stream that training never draws from."""
        count = max(self.settings.eval_tasks, 2 * len(self._families))
        return self._sample(count, self.seed(_VALIDATION_TASKS), pairs=True)

    def problem(self, tasks: MixedTasks, episodes: int) -> MixedProblem:
        """Tasks as environments; the reward terms are part of training only."""
        if self._validating:
            return MixedProblem(self._layout, tasks, episodes)
        return MixedProblem(self._layout, tasks, episodes, self.terms, self.on_step)

    def split_result(self, split: str, tasks: MixedTasks, returns: np.ndarray, *_: Any) -> Validation:
        """An evaluation's returns."""
        return Validation(np.asarray(returns, dtype=np.float64), tasks.group)

    def validate(self, params: Params) -> Validation:
        """Adapt to the validation tasks; the same tasks, levels and random numbers every time."""
        self._validating = True
        try:
            return self.algorithm.evaluate(self, params, TRAIN)
        finally:
            self._validating = False


# ---------------------------------------------------------------------------------------------------------------- train


@dataclass(frozen=True)
class TrainerResult:
    """How a run ended.

    Attributes:
        folder: where it lies.
        iterations: done.
        best_iteration, best_return: of ``best.pt``; iteration 0 and NaN when there was no validation.
        diverged: why it was stopped, empty when it was not.
    """

    folder: Path
    iterations: int
    best_iteration: int
    best_return: float
    diverged: str = ""


def train(
    settings: TrainerSettings,
    functions: Any,
    folder: Path,
    device: torch.device | str = "cpu",
    *,
    resume: bool = False,
    stream: TextIO | None = None,
    monitor: Any = None,
) -> TrainerResult:
    """Train, and leave everything in ``folder``.

    Args:
        settings: see ``TrainerSettings``.
        functions: has the functions that the algorithm needs.
        folder: made if it is missing; anything in it must be this very run, and ``resume`` be set.
        device: where networks run.
        resume: go on from the last saved state; the numbers are those of a run that was never stopped.
        stream: where the progress line goes; None is nowhere.
        monitor: what ``--resources live`` reads: anything with ``latest``; None is the machine.

    Raises:
        ValueError: the folder holds something else, there is nothing to resume, the state cannot be read, or a function
            is missing; nothing is overwritten.
    """
    require_functions(functions, get_algorithm(settings.run.algorithm).function_names(settings.run))
    record = _record(settings, functions, device)
    saved = _check_folder(folder, record, resume)
    if (folder / "final.pt").is_file():
        final = Checkpoint.load(folder / "final.pt")
        best = Checkpoint.load(folder / "best.pt")
        return TrainerResult(folder, final.iteration, best.iteration, best.validation_return)
    with ExitStack() as stack:
        trainer = _Trainer(settings, folder, stream, saved)
        resources = trainer.make_resources(monitor, stack)
        terms = [deadlock_term(settings.deadlock_penalty)] if settings.deadlock_penalty else []
        if resources is not None:
            terms.append(resource_term(resources, trainer.penalties))
        trainer.session = MixtureSession(
            settings.run,
            functions,
            device,
            resume=None if saved is None else TrainingState.from_dict(saved["training"]),
            on_state=trainer.on_state,
            state_every=settings.state_every,
            on_iteration=trainer.on_iteration,
            mixture=settings,
            terms=tuple(terms),
            on_step=trainer.on_step if resources is not None else None,
        )
        stack.callback(trainer.progress.close)
        write_json(folder / "settings.json", record)
        (folder / "last_good.pt").unlink(missing_ok=True)
        try:
            trained = trainer.session.train()
        except Diverged as error:
            return trainer.diverged(error)
        return trainer.finished(trained)


def _record(settings: TrainerSettings, functions: Any, device: torch.device | str) -> dict[str, Any]:
    names = get_algorithm(settings.run.algorithm).function_names(settings.run)
    values = {"settings": settings.to_dict(), "functions": fingerprint(functions, names), **environment(device)}
    identity = hashlib.sha256(repr((values["settings"], values["functions"])).encode()).hexdigest()
    return {"format": RECORD_FORMAT, "fingerprint": identity, **values}


def _check_folder(folder: Path, record: dict[str, Any], resume: bool) -> dict[str, Any] | None:
    """The saved state of a run that is resumed, None for one that begins; ValueError for everything else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose another --experiment-name or --output")
    if not folder.is_dir() or not any(folder.iterdir()):
        if resume:
            raise ValueError(f"--resume: there is nothing in {folder}; leave it out to begin the run")
        folder.mkdir(parents=True, exist_ok=True)
        return None
    if not resume:
        raise ValueError(f"{folder} is not empty; go on with --resume, or choose another --experiment-name or --output")
    begun = read_record(folder)
    if begun["fingerprint"] != record["fingerprint"]:
        here, there = record["settings"], begun["settings"]
        where = "" if here != there else "the functions have been changed since; "
        other = [name for name in sorted(here) if there.get(name) != here[name]]
        if isinstance(there.get("run"), dict) and "run" in other:
            other.remove("run")
            other += [name for name in sorted(here["run"]) if there["run"].get(name) != here["run"][name]]
        said = where or f"it was begun with other {', '.join(other)}; "
        raise ValueError(f"--resume: {folder} holds another run: {said}choose another --experiment-name or --output")
    check_versions(folder, record)
    path = folder / "state.pt"
    if not path.is_file():
        return None  # it was stopped before its first state, and begins again
    try:
        saved = load_torch(path)
        if not isinstance(saved, dict) or set(saved) != {"training", "trainer"}:
            raise ValueError("it is no state of this trainer")
        missing = _CARRIED - set(saved["trainer"])
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        TrainingState.from_dict(saved["training"])
    except ValueError as error:
        raise ValueError(f"--resume: {path} cannot be read ({brief(error)}); delete {folder} to run it anew") from error
    return saved


@dataclass
class _Trainer:
    """What a run carries beside the loop's own state, and what happens after each iteration."""

    settings: TrainerSettings
    folder: Path
    stream: TextIO | None
    saved: dict[str, Any] | None
    session: MixtureSession = field(init=False)
    penalties: Penalties = field(default_factory=Penalties)

    def __post_init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []
        self.validation: list[dict[str, Any]] = []
        self.machine: list[dict[str, Any]] = []
        self.best_iteration, self.best_return = 0, float("nan")
        self.resources: LiveResources | ReplayedResources | None = None
        self._steps, self._sums = 0, np.zeros(4)
        self._step = 0
        if self.saved is not None:
            kept = self.saved["trainer"]
            self.metrics, self.validation = list(kept["metrics"]), list(kept["validation"])
            self.machine = list(kept["machine"])
            self.best_iteration, self.best_return = kept["best_iteration"], kept["best_return"]
            self._step = kept["step"]
        self._read_machine = make_reader()
        self.progress = Progress(self.settings.run.iterations, len(self.metrics), self.stream)

    # -- resources

    def make_resources(self, monitor: Any, stack: ExitStack) -> LiveResources | ReplayedResources | None:
        """Where the resource penalty comes from; a live monitor ends with ``stack``."""
        if self.settings.resources == "live":
            monitor = stack.enter_context(Monitor()) if monitor is None else monitor
            path = self.folder / "resources.csv"
            earlier = Trace.load(path) if self.saved is not None and path.is_file() else None
            self.resources = LiveResources(monitor, earlier, self._step)
        elif self.settings.resources != "off":
            self.resources = ReplayedResources(Trace.load(self.settings.resources), self._step)
        return self.resources

    def on_step(self) -> None:
        """A step of training begins."""
        self.resources.advance()
        reading = self.resources.reading
        gpu = reading.gpu_memory_percent
        self._steps += 1
        self._sums += (
            self.penalties(reading),
            reading.ram_percent,
            reading.cpu_percent,
            np.nan if gpu is None else gpu,
        )

    def _resource_columns(self) -> dict[str, float]:
        """What the steps of the iteration were charged, and for which readings, in the mean."""
        if self.resources is None:
            return {}
        means = self._sums / max(self._steps, 1)
        self._steps, self._sums = 0, np.zeros(4)
        names = ("resource_penalty", "ram_percent", "cpu_percent", "gpu_memory_percent")
        return {name: "" if np.isnan(value) else float(value) for name, value in zip(names, means, strict=True)}

    # -- iterations

    def on_iteration(self, iteration: int, params: Params, row: dict[str, float]) -> None:
        """Called by the loop after each update."""
        done = iteration + 1
        last = done == self.settings.run.iterations
        kept = {name: value for name, value in row.items() if name != "seconds"}
        score: float | str = ""
        if done % self.settings.validate_every == 0 or last:
            score = self._validate(done, params)
        self.metrics.append({**kept, "validation_return": score, **self._resource_columns()})
        load: Reading = self._read_machine()
        load_row = {name: "" if value is None else value for name, value in load._asdict().items()}
        self.machine.append({"iteration": iteration, "seconds": row["seconds"], **load_row})
        if done % self.settings.checkpoint_every == 0:
            self._checkpoint(done, params, score).save(self.folder / f"iteration_{done}.pt")
        self.progress.iteration(row, self.best_return, self.best_iteration)

    def _validate(self, done: int, params: Params) -> float:
        good = {name: value.detach().clone() for name, value in params.items()}
        try:
            result = self.session.validate(params)
        except FloatingPointError as error:
            raise Diverged(f"adaptation to validation tasks diverged after {done} iterations: {error}", good) from error
        if not np.isfinite(result.returns).all():
            raise Diverged(f"a validation return after {done} iterations is not finite", good)
        for group, one in enumerate(self.settings.layout.combinations):
            of_it = result.returns[result.group == group]
            for step, value in enumerate(of_it.mean(0) if len(of_it) else ()):
                self.validation.append(
                    {
                        "iterations": done,
                        "game": one.game,
                        "representation": one.representation,
                        "tasks": len(of_it),
                        "step": step,
                        "return": float(value),
                    }
                )
        if not self.best_return >= result.score:  # NaN before the first
            self.best_iteration, self.best_return = done, result.score
            self._checkpoint(done, params, result.score).save(self.folder / "best.pt")
        return result.score

    def _checkpoint(self, done: int, params: Params, score: float | str) -> Checkpoint:
        own = {name: value.detach().cpu().clone() for name, value in params.items()}
        settings, score = self.settings, float("nan") if score == "" else float(score)
        return Checkpoint(settings.run, settings.games, settings.representations, done, score, own)

    def on_state(self, state: TrainingState) -> None:
        """Called by the loop where it can be resumed."""
        self._write_tables()
        own = {
            "metrics": self.metrics,
            "validation": self.validation,
            "machine": self.machine,
            "best_iteration": self.best_iteration,
            "best_return": self.best_return,
            "step": 0 if self.resources is None else self.resources.step,
        }
        write_torch(self.folder / "state.pt", {"training": state.to_dict(), "trainer": own})

    def _write_tables(self) -> None:
        for name in ("metrics", "validation", "machine"):
            rows = getattr(self, name)
            if rows:
                write_csv(self.folder / f"{name}.csv", rows)
        if isinstance(self.resources, LiveResources):
            self.resources.trace.save(self.folder / "resources.csv")

    # -- ends

    def finished(self, trained: TrainingResult) -> TrainerResult:
        """Training is complete."""
        self._write_tables()
        done = len(self.metrics)
        self._checkpoint(done, trained.params, self.metrics[-1]["validation_return"]).save(self.folder / "final.pt")
        (self.folder / "state.pt").unlink(missing_ok=True)
        return TrainerResult(self.folder, done, self.best_iteration, self.best_return)

    def diverged(self, error: Diverged) -> TrainerResult:
        """Training was stopped: keep what was good."""
        self._write_tables()
        done = len(self.metrics)
        if all(bool(torch.isfinite(value).all()) for value in error.params.values()):
            self._checkpoint(done, error.params, "").save(self.folder / "last_good.pt")
        return TrainerResult(self.folder, done, self.best_iteration, self.best_return, str(error))


# ------------------------------------------------------------------------------------------------------------- progress


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for every tenth of the run."""

    def __init__(self, iterations: int, done: int, stream: TextIO | None):
        self._iterations, self._done, self._first, self._stream = iterations, done, done, stream
        self._begin = time.monotonic()
        self._bar = None
        if stream is not None and stream.isatty():
            self._bar = tqdm(total=iterations, initial=done, file=stream, dynamic_ncols=True, unit="it")

    def iteration(self, row: dict[str, float], best: float, best_iteration: int) -> None:
        """An iteration has ended."""
        self._done += 1
        text = f"return {row['return_before']:.3f} → {row['return_after']:.3f}"
        if best_iteration:
            text += f", best validation {best:.3f} after {best_iteration}"
        if self._bar is not None:
            self._bar.set_postfix_str(text)
            self._bar.update(1)
        elif self._stream is not None and (
            self._done == self._iterations or self._done % max(1, self._iterations // 10) == 0
        ):
            gone = time.monotonic() - self._begin
            left = gone * (self._iterations - self._done) / (self._done - self._first)
            times = f"{tqdm.format_interval(gone)} gone, about {tqdm.format_interval(left)} left"
            print(f"[{self._done}/{self._iterations}] {text} ({times})", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing more will come."""
        if self._bar is not None:
            self._bar.close()

"""Executes many runs through a ``concurrent.futures.Executor``: a pool of processes here, or a dask cluster.

Runs are independent and live in folders of their own, so the number of workers decides how long it takes and nothing
else. A worker that dies takes nothing with it but the iterations since the last saved state: its runs are handed out
again.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from tqdm import tqdm

from metapcg.learning.device import choose_device

from .functions import NOTEBOOK_OF, NotebookFunctions
from .run_files import write_json
from .runs import RunSettings, execute_run

ATTEMPTS = 3
"""How often in a row a pool may break without any run having ended before the rest is given up."""
HEARTBEAT = 60.0
"""Seconds between two lines of progress when nothing ends and the output is no terminal."""


_DIED = "its worker process died each time (out of memory?)"


@dataclass(frozen=True)
class PlannedRun:
    """A run and where it belongs."""

    label: str
    settings: RunSettings
    folder: Path


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: ``done`` or ``failed``, with the seconds it took and one line of error."""

    label: str
    folder: Path
    status: str
    seconds: float
    error: str = ""


def cost(settings: RunSettings) -> float:
    """Environment steps that a run takes, roughly: what the estimate of the time left is made of."""
    train = settings.iterations * settings.tasks * settings.episodes
    if settings.algorithm in ("maml", "fomaml"):
        train *= settings.inner_steps + 1
    if settings.algorithm == "rl2":
        train *= settings.trial_episodes
    if settings.algorithm == "pearl":
        # A gradient step on 16 tasks' batches takes about as long as playing 2000 steps.
        train = settings.iterations * (
            min(settings.tasks, settings.num_train_tasks or settings.replay_tasks) * settings.episodes
            * settings.trial_episodes + 2000 * settings.updates / settings.horizon
        )  # fmt: skip
    adapts = settings.algorithm not in ("oracle", "random")
    evaluate = len(settings.splits) * settings.eval_tasks * settings.eval_episodes
    evaluate *= settings.eval_steps + 1 if adapts else 1
    if settings.algorithm in ("pretrained", "random-init"):
        grid = settings.eval_tasks * settings.eval_episodes * (settings.eval_steps + 1)
        evaluate += len(settings.inner_lr_grid) * grid
    return float((train + evaluate) * settings.horizon)


def resolve_notebooks() -> dict[str, str]:
    """Absolute paths of the notebooks whose functions runs need, for workers that start in another folder.

    A notebook that is missing is left out: the runs that need it will say so.
    """
    from metapcg.learning.solutions import SolutionError, resolve

    paths = {}
    for notebook in sorted(set(NOTEBOOK_OF.values())):
        try:
            paths[notebook] = str(resolve(notebook))
        except SolutionError:
            continue
    return paths


def execute_planned(planned: PlannedRun, notebooks: dict[str, str], device: str) -> RunOutcome:
    """Execute one run in a worker; whatever goes wrong becomes its outcome, so that other runs go on."""
    torch.set_num_threads(1)  # before the first run: runs of one process may overlap on a dask worker with threads
    begin = time.monotonic()
    try:
        execute_run(planned.settings, NotebookFunctions(notebooks), planned.folder, choose_device(device))
    except Exception as error:  # a student's function can raise anything; all of it is reported as "this run"
        text = _one_line(error)
        _record_failure(planned.folder, text)
        return RunOutcome(planned.label, planned.folder, "failed", time.monotonic() - begin, text)
    return RunOutcome(planned.label, planned.folder, "done", time.monotonic() - begin)


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if isinstance(error, (ValueError, OSError)):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}"


def _record_failure(folder: Path, text: str) -> None:
    # Only in a folder that this program made; one that was refused stays as it is.
    if (folder / "settings.json").is_file() and not (folder / "done.json").is_file():
        try:
            write_json(folder / "error.json", {"error": text})
        except OSError:
            pass  # the disk is full or read-only: the outcome itself says so


# ------------------------------------------------------------------------------------------------------------ executors


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """A pool of fresh Python processes; ended at once when the block is left by an interrupt or an error."""
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:  # an interrupt too must not leave workers behind; whatever it was is raised again
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown(wait=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A pool's worker never hears that its parent was killed; it would finish its run and then wait for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a dask cluster; its workers must see the same folders.

    Raises:
        ValueError: dask is not installed, or no scheduler answers at the address.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("--dask: the package 'distributed' is not installed (pip install distributed)") from error
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(f"--dask: no scheduler answers at {address} ({_one_line(error)})") from error
    with client:
        yield client.get_executor(pure=False)


def execute_all(
    planned: Sequence[PlannedRun],
    make_executor: Callable[[], Any],
    notebooks: dict[str, str],
    device: str,
    stream: TextIO,
) -> list[RunOutcome]:
    """Execute runs and report progress; returns their outcomes in the given order.

    Args:
        planned: runs that are not complete yet.
        make_executor: returns a context manager that gives an Executor; called again when a pool breaks.
        notebooks: from ``resolve_notebooks``.
        device: auto, cpu or cuda.
        stream: where progress goes.
    """
    outcomes: dict[Path, RunOutcome] = {}
    progress = Progress(planned, stream)
    attempts = 0
    try:
        while len(outcomes) < len(planned) and attempts < ATTEMPTS:
            waiting = [run for run in planned if run.folder not in outcomes]
            before = len(outcomes)
            try:
                with make_executor() as executor:
                    for outcome in _collect(executor, waiting, notebooks, device, progress):
                        outcomes[outcome.folder] = outcome
                        progress.ended(outcome)
            except BrokenProcessPool:
                progress.say("a worker process died; the runs that have not ended are handed out again")
                attempts = 0 if len(outcomes) > before else attempts + 1
        for run in planned:
            if run.folder not in outcomes:
                outcome = RunOutcome(run.label, run.folder, "failed", 0.0, _DIED)
                outcomes[run.folder] = outcome
                progress.ended(outcome)
    finally:
        progress.close()
    return [outcomes[run.folder] for run in planned]


def _collect(
    executor: Executor, waiting: Sequence[PlannedRun], notebooks: dict[str, str], device: str, progress: Progress
) -> Iterator[RunOutcome]:
    futures: dict[Future, PlannedRun] = {
        executor.submit(execute_planned, run, notebooks, device): run for run in waiting
    }
    left = set(futures)
    while left:
        ended, left = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
        progress.beat()
        for future in ended:
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                raise error
            if error is not None:  # the executor's own trouble: with dask, a worker that died several times
                yield RunOutcome(futures[future].label, futures[future].folder, "failed", 0.0, _one_line(error))
            else:
                yield future.result()


# ------------------------------------------------------------------------------------------------------------- progress


class Progress:
    """How many runs have ended, how long it took and how long it may still take.

    On a terminal one line is rewritten; elsewhere there is a line for each run that ends, and one a minute when none
    does.
    """

    def __init__(self, planned: Sequence[PlannedRun], stream: TextIO):
        self._stream, self._number = stream, len(planned)
        self._costs = {run.folder: cost(run.settings) for run in planned}
        self._total = sum(self._costs.values())
        self._done, self._ended = 0.0, 0
        self._begin = self._last = time.monotonic()
        self._bar = None
        if stream.isatty():
            form = "{desc} |{bar}| {percentage:3.0f} %, {elapsed} gone{postfix}"
            self._bar = tqdm(total=self._total, file=stream, bar_format=form, dynamic_ncols=True)
            self._bar.set_description_str(f"0/{self._number} runs")

    def ended(self, outcome: RunOutcome) -> None:
        """A run has ended."""
        self._ended += 1
        self._done += self._costs[outcome.folder]
        text = outcome.status if outcome.status == "done" else f"FAILED: {outcome.error}"
        took = f" in {tqdm.format_interval(outcome.seconds)}" if outcome.status == "done" else ""
        if self._bar is not None:
            self._bar.update(self._costs[outcome.folder])
            self._bar.set_description_str(f"{self._ended}/{self._number} runs")
            if outcome.status != "done":
                self._bar.write(f"{outcome.label}: {text}", file=self._stream)
            self.beat()
        else:
            self.say(f"[{self._ended}/{self._number}] {outcome.label}: {text}{took} ({self._times()})")

    def beat(self) -> None:
        """Time has passed."""
        if self._bar is not None:
            self._bar.set_postfix_str(self._left() if self._ended else "", refresh=True)
        elif time.monotonic() - self._last >= HEARTBEAT:
            self.say(f"[{self._ended}/{self._number}] still running ({self._times()})")

    def say(self, text: str) -> None:
        """Print a line."""
        self._last = time.monotonic()
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing more will come."""
        if self._bar is not None:
            self._bar.close()

    def _times(self) -> str:
        gone = tqdm.format_interval(time.monotonic() - self._begin)
        return f"{gone} gone, {self._left()}" if self._ended < self._number else f"{gone} gone"

    def _left(self) -> str:
        if not self._done:
            return "time left unknown"
        seconds = (time.monotonic() - self._begin) * (self._total - self._done) / self._done
        return f"about {tqdm.format_interval(seconds)} left"

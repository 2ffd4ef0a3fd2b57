"""Grades submissions. For callers that hold notebooks in memory, the one function is ``grade_submissions``::

    from metapcg.grading.autograde import grade_submissions
    from metapcg.grading.course import load_course

    course = load_course(repository_root(), only=["1_maml"])     # or all notebooks
    grades = grade_submissions(
        {"descends": {"1_maml.ipynb": data}, …},                 # name → file name → bytes
        course,
        exercises=["inner-update"],                              # optional: only the cells of these exercises
        workers=2,                                               # processes; sandbox=False without bubblewrap
    )
    grades["descends"].scores["1_maml"]["inner-update"]          # points
    grades["descends"].notebooks["1_maml"].results[…].faults     # what the student is told

How one notebook is executed, in one kernel (``sandbox``): first with the visible tests only, which gives what the
student is shown; then everything once more with the hidden tests, of which nothing is shown and only the emitted values
are kept. A tests cell earns its points if it ended without an error and emitted exactly what the worked solution's cell
emitted. So nothing that a student's code prints can quote a hidden test, and nothing that it patches can pass one.

A kernel that dies takes the rest of its notebook with it, no more: what came before is graded in a fresh kernel.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import nbformat
from nbformat.notebooknode import NotebookNode

from metapcg.experiments.execution import ATTEMPTS, Progress, RunOutcome, process_pool
from metapcg.experiments.outputs import write_atomically
from metapcg.grading.course import EXECUTED_GIVEN, CourseNotebook, visible
from metapcg.grading.emitted import compare
from metapcg.grading.normalise import Normalised, UnreadableError, identify, normalise, read_cells
from metapcg.grading.sandbox import CellRun, Kernel, Limits, check_sandbox, error_output

Key = dict[str, dict[str, list[dict]]]
"""Notebook → tests cell → what the worked solution emitted."""

_SHOWN_TYPES = ("text/plain", "image/png", "image/jpeg")
EXTRA_SECONDS = 20.0
"""For one cell that the student added, and three times that for all of them."""


@dataclass
class CellResult:
    """What one tests cell came to. ``faults``: lines for the student, one per thing that is wrong."""

    score: float
    points: float
    faults: list[str] = field(default_factory=list)


@dataclass
class NotebookGrade:
    """What one notebook of one student came to.

    Attributes:
        status: ``graded``, ``missing``, ``no bonus`` (a bonus notebook that was not handed in), ``unreadable``,
            ``kernel died`` (the rest of the notebook counts 0), ``out of time`` (a cell was interrupted, or the
            notebook's time was up).
        results: tests cell → result. Questions, which a person grades, are not in it.
        answered: ids of the questions and solutions that differ from the starter.
        notes: what was put right. attention: what a person should look at.
        notebook: with outputs, as JSON text, for nbgrader's formgrader; empty if there is none.
        seconds: wall-clock time.
    """

    status: str
    results: dict[str, CellResult] = field(default_factory=dict)
    answered: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)
    notebook: str = ""
    seconds: float = 0.0


@dataclass
class SubmissionGrade:
    """What one submission came to: notebook → ``NotebookGrade``, and ``scores``: notebook → exercise → points."""

    notebooks: dict[str, NotebookGrade]
    scores: dict[str, dict[str, float]]
    attention: list[str] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """The worst of the notebooks' statuses.

        ``incomplete`` if some are missing, ``empty`` if all are, ``not graded`` if the grader itself failed. A bonus
        notebook that was not handed in changes nothing.
        """
        if self.error:
            return "not graded"
        found = {grade.status for grade in self.notebooks.values()} - {"no bonus"}
        if found <= {"missing"}:
            return "unreadable" if any("cannot be read" in text for text in self.attention) else "empty"
        order = ("unreadable", "kernel died", "out of time", "missing", "graded")
        worst = next(status for status in order if status in found)
        return "incomplete" if worst == "missing" else worst

    def as_dict(self) -> dict:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> SubmissionGrade:
        """The inverse of ``as_dict``."""
        notebooks = {}
        for name, entry in data["notebooks"].items():
            results = {cell: CellResult(**result) for cell, result in entry["results"].items()}
            notebooks[name] = NotebookGrade(**{**entry, "results": results})
        return cls(**{**data, "notebooks": notebooks})


# ------------------------------------------------------------------------------------------------------------ execution


@dataclass
class Executed:
    """Cell id → how it ended, in the visible and the hidden pass; ``dead``: why a kernel ended early, or empty."""

    shown: dict[str, CellRun] = field(default_factory=dict)
    hidden: dict[str, CellRun] = field(default_factory=dict)
    dead: str = ""
    late: bool = False


def execute_notebook(
    notebook: NotebookNode,
    course_notebook: CourseNotebook,
    files: Mapping[str, bytes],
    limits: Limits,
    sandbox: bool,
    exercises: Sequence[str] | None = None,
) -> Executed:
    """Run a normalised notebook's graded cells in both passes.

    Args:
        notebook: in the released notebook's shape.
        course_notebook: what it belongs to.
        files: the student's notebooks, by file name, for the kernel's folder.
        limits, sandbox: see ``sandbox.Kernel``.
        exercises: only these exercises' tests count; None: all. The cells before them run in any case.

    Raises:
        KernelError: the kernel does not start.
    """
    wanted = {e.id: e.cells for e in course_notebook.exercises if exercises is None or e.id in exercises}
    tests = {cell for cells in wanted.values() for cell in cells}
    plan = _plan(notebook, course_notebook, tests)
    done, deadline = Executed(), time.monotonic() + limits.notebook_seconds
    skipped: set[str] = set()
    with Kernel(files, limits, sandbox) as kernel:
        _run_pass(kernel, plan, course_notebook, done.shown, skipped, deadline, hidden=False)
        if kernel.alive:
            _run_pass(kernel, plan, course_notebook, done.hidden, skipped, deadline, hidden=True)
    died_shown = next((cell for cell, run in done.shown.items() if run.status == "dead"), None)
    if died_shown is not None:
        done.dead = done.shown[died_shown].reason
        before = plan[: [cell.id for cell in plan].index(died_shown)]
        if any(cell.id in tests for cell in before):
            with Kernel(files, limits, sandbox) as kernel:
                _run_pass(kernel, before, course_notebook, done.hidden, skipped, deadline, hidden=True)
    for run in done.hidden.values():
        if run.status == "dead":
            done.dead = done.dead or run.reason
    done.late = any(run.status == "timeout" for run in (*done.shown.values(), *done.hidden.values()))
    return done


def _plan(notebook: NotebookNode, course_notebook: CourseNotebook, tests: set[str]) -> list[NotebookNode]:
    """The cells to run, in order, up to the last tests cell that counts."""
    kinds = course_notebook.kinds
    plan, last = [], 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kind = "extra" if cell.metadata.get("hw11") == "extra" else kinds[cell.id]
        if kind in ("solution", "tests", "extra") or cell.id in EXECUTED_GIVEN:
            plan.append(cell)
            last = len(plan) if cell.id in tests else last
    return plan[:last]


def _run_pass(
    kernel: Kernel,
    plan: Sequence[NotebookNode],
    course_notebook: CourseNotebook,
    runs: dict[str, CellRun],
    skipped: set[str],
    deadline: float,
    hidden: bool,
) -> None:
    extra_left = 3 * EXTRA_SECONDS
    for cell in plan:
        if cell.id in skipped:
            continue
        is_extra = cell.metadata.get("hw11") == "extra"
        left = min(deadline - time.monotonic(), kernel.limits.cell_seconds)
        if is_extra:
            left = min(left, EXTRA_SECONDS, extra_left)
        if left <= 0:
            if not is_extra:
                runs[cell.id] = CellRun("timeout")
            skipped.add(cell.id)
            continue
        if cell.id in course_notebook.test_sources:
            source = course_notebook.test_sources[cell.id]
            source = source if hidden else visible(source)
        else:
            source = cell.source
        run = kernel.execute(source, left)
        runs[cell.id] = run
        if is_extra:
            extra_left -= run.seconds
        if run.status == "timeout":
            skipped.add(cell.id)
        if run.status == "dead":
            return


# -------------------------------------------------------------------------------------------------------------- grading


def expected_values(
    course: Mapping[str, CourseNotebook], file: Path | None = None, limits: Limits | None = None, sandbox: bool = True
) -> Key:
    """What the worked notebooks emit; taken from ``file`` as far as that is up to date, else executed (and written).

    The file must lie outside anything that is released or that submitted code can see.

    Raises:
        ValueError: a worked notebook does not pass its own tests, or a tests cell emits nothing.
        OSError: the kernel does not start, or the file cannot be written.
    """
    known = _read_key(file) if file is not None else {}
    key: Key = {}
    is_new = False
    for name, notebook in course.items():
        entry = known.get(name)
        if isinstance(entry, dict) and entry.get("digest") == notebook.digest:
            key[name] = entry["cells"]
            continue
        key[name] = _emitted_by_worked(notebook, limits or Limits(), sandbox)
        known[name], is_new = {"digest": notebook.digest, "cells": key[name]}, True
    if file is not None and is_new:
        write_atomically(file, json.dumps(known).encode("utf-8"))
        file.chmod(0o600)
    return key


def _read_key(file: Path) -> dict:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        return {}  # damaged: it is made anew
    return known if isinstance(known, dict) else {}


def _emitted_by_worked(notebook: CourseNotebook, limits: Limits, sandbox: bool) -> dict[str, list[dict]]:
    done = execute_notebook(notebook.worked, notebook, {}, limits, sandbox)
    cells = {}
    for cell in notebook.test_sources:
        run = done.hidden.get(cell, CellRun("dead", reason=done.dead))
        if run.status != "ok":
            first, its_run = next(
                ((other, each) for other, each in done.hidden.items() if each.status != "ok"), (cell, run)
            )
            before = "" if first == cell else f" (its first fault is in cell {first}: {_why(its_run)})"
            raise ValueError(
                f"{notebook.name}: the worked solution fails its own tests, cell {cell}: {_why(run)}{before}"
            )
        if not run.emitted:
            raise ValueError(
                f"{notebook.name}: the hidden tests of cell {cell} emit nothing, so nothing can be compared"
            )
        cells[cell] = run.emitted
    return cells


def _why(run: CellRun) -> str:
    error = next((o for o in reversed(run.outputs) if o.output_type == "error"), None)
    return f"{error.ename}: {error.evalue}"[:200] if error is not None else run.reason or run.status


def grade_submission(
    files: Mapping[str, bytes],
    course: Mapping[str, CourseNotebook],
    key: Key,
    exercises: Sequence[str] | None = None,
    limits: Limits | None = None,
    sandbox: bool = True,
    whole: Mapping[str, CourseNotebook] | None = None,
) -> SubmissionGrade:
    """Grade one submission in this process.

    Args:
        files: file name → bytes, of the student's notebooks; the names need not be the released ones.
        course: what is graded; notebooks that are not in it are ignored.
        key: from ``expected_values``.
        exercises: ids of the exercises that count; None: all.
        limits, sandbox: see ``sandbox.Kernel``.
        whole: all notebooks, if ``course`` is a part of them: by these it is told which file is which.

    Raises:
        KernelError: a kernel does not start (the grader's trouble, not the student's).
    """
    begin, limits = time.monotonic(), limits or Limits()
    read, grades, attention = _match(files, whole or course, course)
    given = {f"{name}.ipynb": _bytes(normalised.notebook) for name, normalised in read.items()}
    for name, notebook in course.items():
        started = time.monotonic()
        if name in read:
            done = execute_notebook(read[name].notebook, notebook, given, limits, sandbox, exercises)
            grades[name] = make_grade(read[name], notebook, key[name], done, exercises)
        else:
            grade = grades.setdefault(name, NotebookGrade("no bonus" if notebook.bonus else "missing"))
            grade.results = {cell: CellResult(0.0, notebook.points[cell]) for cell in _graded(notebook, exercises)}
        grades[name].seconds = time.monotonic() - started
    scores = {name: _scores(course[name], grades[name], exercises) for name in course}
    ordered = {name: grades[name] for name in course}
    return SubmissionGrade(ordered, scores, attention, seconds=time.monotonic() - begin)


def _graded(notebook: CourseNotebook, exercises: Sequence[str] | None) -> list[str]:
    wanted = (e for e in notebook.exercises if not e.manual and (exercises is None or e.id in exercises))
    return [cell for exercise in wanted for cell in exercise.cells]


def _scores(notebook: CourseNotebook, grade: NotebookGrade, exercises: Sequence[str] | None) -> dict[str, float]:
    wanted = (e for e in notebook.exercises if not e.manual and (exercises is None or e.id in exercises))
    return {e.id: sum(grade.results[cell].score for cell in e.cells) for e in wanted}


def _match(
    files: Mapping[str, bytes], course: Mapping[str, CourseNotebook], graded: Collection[str]
) -> tuple[dict[str, Normalised], dict[str, NotebookGrade], list[str]]:
    """Which file is which notebook: normalised, grades of those that cannot be read, what a person should see.

    Of the course's notebooks only those ``graded`` are looked at.
    """
    read: dict[str, Normalised] = {}
    grades: dict[str, NotebookGrade] = {}
    attention, sources, unread = [], {}, []
    # Files that carry their right name come first, so that a renamed copy does not displace them.
    for file in sorted(files, key=lambda file: (_stem(file) not in course, file)):
        try:
            cells = read_cells(files[file])
        except UnreadableError as error:
            unread.append((file, str(error)))
            continue
        name = identify(_stem(file), cells, course)
        if name is None:
            if cells:
                attention.append(f"{file}: it is none of the course's notebooks")
            continue
        if name not in graded:
            continue
        if name in read:
            attention.append(f"{file}: a second {name}; {sources[name]} was graded")
            continue
        read[name], sources[name] = normalise(cells, course[name]), file
        if _stem(file) != name:
            read[name].notes.append(f"the file was called {file}")
    for file, reason in unread:
        name = _stem(file)
        text = f"{file} cannot be read: {reason}"
        if name in course and name not in graded:
            continue
        if name in graded and name not in read:
            grades[name] = NotebookGrade("unreadable", attention=[text])
        else:
            attention.append(text)
    return read, grades, attention


def _stem(file: str) -> str:
    """A file name without folder, suffix, and what browsers add to a second download."""
    name = re.sub(r"(?i)(\.ipynb)+$", "", file.replace("\\", "/").rsplit("/", 1)[-1])
    return re.sub(r"(\s*\(\d+\)|[-_ ]?copy\d*|-checkpoint)+$", "", name, flags=re.I).strip().lower()


def make_grade(
    normalised: Normalised,
    notebook: CourseNotebook,
    key: Mapping[str, list[dict]],
    done: Executed,
    exercises: Sequence[str] | None = None,
) -> NotebookGrade:
    """Compare what the tests cells of an executed notebook emitted with ``key``; the notebook gets its outputs."""
    status = "kernel died" if done.dead else "out of time" if done.late else "graded"
    grade = NotebookGrade(status, notes=list(normalised.notes), attention=list(normalised.attention))
    grade.answered = sorted(normalised.answered)
    owners = {cell: exercise.id for exercise in notebook.exercises for cell in exercise.cells}
    for cell in _graded(notebook, exercises):
        shown, hidden = done.shown.get(cell), done.hidden.get(cell)
        faults = _faults(shown, hidden, key[cell], done)
        if shown is not None and shown.status == "error":
            faults += failed_before(owners[cell], done.shown)
        score = 0.0 if faults else notebook.points[cell]
        grade.results[cell] = CellResult(score, notebook.points[cell], faults)
    if done.dead:
        grade.attention.append(f"the kernel died ({done.dead}); the rest of the notebook counts 0")
    elif done.late:
        late = [cell for runs in (done.shown, done.hidden) for cell, run in runs.items() if run.status == "timeout"]
        grade.attention.append(f"out of time: {', '.join(dict.fromkeys(late))}")
    if any(run.truncated for run in done.shown.values()):
        grade.notes.append("output was cut")
    grade.notebook = nbformat.writes(_with_outputs(normalised.notebook, notebook, done, grade.results))
    return grade


def _faults(shown: CellRun | None, hidden: CellRun | None, right: list[dict], done: Executed) -> list[str]:
    """What is wrong, for the student: nothing in it comes from a kernel that has seen hidden tests."""
    if shown is None or (shown.status == "dead"):
        return [f"Not reached: the kernel ended before or in this cell ({done.dead or 'no reason known'})."]
    if shown.status == "timeout":
        return ["The tests did not end in time. Is there an endless loop, or a training inside the function?"]
    if shown.status == "error":
        error = next((o for o in reversed(shown.outputs) if o.output_type == "error"), None)
        text = (
            (str(error.evalue) if error.ename == "AssertionError" else f"{error.ename}: {error.evalue}")
            if error
            else ""
        )
        return [text.strip()[:1500] or "The visible tests end with an error."]
    if hidden is None or hidden.status == "dead":
        return [f"The kernel ended in further tests ({done.dead or 'no reason known'})."]
    if hidden.status == "timeout":
        return ["Further tests did not end in time."]
    faults = compare(hidden.emitted, right)
    if hidden.status == "error":
        error = next((o for o in reversed(hidden.outputs) if o.output_type == "error"), None)
        name = error.ename if error is not None and hasattr(builtins, error.ename) else "an error"
        record = right[min(len(hidden.emitted), len(right) - 1)]
        text = f"{record['what']}: the function ended with {name}. {record['hint']}".strip()
        return [*(fault for fault in faults if not fault.endswith("the cell ended before it.")), text]
    return faults


def failed_before(exercise: str, runs: Mapping[str, CellRun]) -> list[str]:
    """A line for the student if a cell that the tests need ended with an error: the tests only see a missing name."""
    failed = (cell for cell in (*EXECUTED_GIVEN, exercise) if cell in runs and runs[cell].status == "error")
    return [f"Cell {cell}, which these tests need, ended with {_why(runs[cell])}" for cell in failed][:1]


def _with_outputs(
    notebook: NotebookNode, course_notebook: CourseNotebook, done: Executed, results: Mapping[str, CellResult]
) -> NotebookNode:
    """The notebook for formgrader, with outputs of the visible pass; only failed tests cells hold an error."""
    kinds = course_notebook.kinds
    for cell in notebook.cells:
        if cell.cell_type != "code":
            if cell.metadata.get("hw11") == "extra" or kinds[cell.id] == "question":
                cell.source = _without_html(cell.source)
            continue
        run = done.shown.get(cell.id)
        cell.outputs = [] if run is None else list(run.outputs)
        for output in cell.outputs:
            if "data" in output:
                output.data = {kind: data for kind, data in output.data.items() if _is_shown(kind, data)}
                output.metadata = {}  # (sizes of pictures go into the page as they are)
        cell.execution_count = None
        if cell.id in results:
            result = results[cell.id]
            # nbgrader reads a number off an execute_result as partial credit, and takes stderr for a failure.
            cell.outputs = [o for o in cell.outputs if o.output_type in ("stream", "display_data", "error")]
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.name = "stdout"
            if not result.faults:
                cell.outputs = [o for o in cell.outputs if o.output_type != "error"]
            elif not any(o.output_type == "error" for o in cell.outputs):
                cell.outputs.append(error_output("Wrong", "\n".join(result.faults)))
        if cell.id in course_notebook.test_sources:
            cell.source = course_notebook.test_sources[cell.id]
    return notebook


def _is_shown(kind: str, data: object) -> bool:
    """Text and pictures: what formgrader shows without running anything of it."""
    if not isinstance(data, str) or kind not in _SHOWN_TYPES:
        return False
    return kind == "text/plain" or re.fullmatch(r"[A-Za-z0-9+/=\s]*", data) is not None  # base64


def _without_html(markdown: str) -> str:
    """Markdown whose HTML is shown as text: formgrader would run a student's scripts with the grader's rights.

    A space keeps tags, entities and addresses from being what they look like, and leaves maths and code readable.
    """
    markdown = re.sub(r"<(?=[A-Za-z/!?])", "< ", markdown)
    markdown = re.sub(r"&(?=[#A-Za-z])", "& ", markdown)
    markdown = re.sub(r"\\(href|style|class|cssId|require|html\w*)(?![A-Za-z])", r"\\text", markdown)  # MathJax's own
    return re.sub(r"(?i)((java|vb)\s*script|data)\s*:", r"\1 :", markdown)


def _bytes(notebook: NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode("utf-8")


# ----------------------------------------------------------------------------------------------------- many submissions


class GradingProgress(Progress):
    """Progress of submissions: ``costs`` are their shares of the work, by name."""

    def __init__(self, costs: Mapping[Path, float], stream: TextIO):
        super().__init__([], stream)
        self._costs, self._number, self._total = dict(costs), len(costs), sum(costs.values())
        self._describe()

    def ended(self, outcome: RunOutcome) -> None:
        """A submission has ended."""
        super().ended(outcome)
        self._describe()

    def _describe(self) -> None:
        if self._bar is not None:
            self._bar.total = self._total
            self._bar.set_description_str(f"{self._ended}/{self._number} submissions")


def grade_submissions(
    submissions: Mapping[str, Mapping[str, bytes] | Path],
    course: Mapping[str, CourseNotebook],
    *,
    whole: Mapping[str, CourseNotebook] | None = None,
    exercises: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    key: Key | None = None,
    key_file: Path | None = None,
    workers: int = 1,
    make_executor: Callable[[], AbstractContextManager[Executor]] | None = None,
    limits: Limits | None = None,
    sandbox: bool = True,
    stream: TextIO | None = None,
    on_graded: Callable[[str, SubmissionGrade], None] | None = None,
) -> dict[str, SubmissionGrade]:
    """Grade submissions that are in memory; see the module's beginning for an example.

    Args:
        submissions: name → file name → bytes; or a folder, whose notebooks the worker reads.
        course: from ``load_course``; give one notebook to grade only that. whole: see ``grade_submission``.
        exercises: ids of the exercises that count, for all submissions or per submission; None: all.
        key: from ``expected_values``; made (or read from ``key_file``) if not given.
        workers: processes. make_executor: something else than a pool of processes (``dask_executor``).
        limits, sandbox: see ``sandbox.Kernel``.
        stream: where progress goes; None: nowhere.
        on_graded: called in this process for each submission as soon as it is graded.

    Returns:
        name → grade, in the given order. A submission on which the grader itself failed has ``error`` set.

    Raises:
        ValueError: no sandbox here, or a worked notebook fails its own tests.
    """
    check_sandbox(sandbox)
    if key is None:
        key = expected_values(course, key_file, limits, sandbox)
    jobs = {
        name: (
            files,
            course,
            key,
            exercises.get(name) if isinstance(exercises, Mapping) else exercises,
            limits,
            sandbox,
            whole,
        )
        for name, files in submissions.items()
    }
    grades: dict[str, SubmissionGrade] = {}
    progress = None
    if stream is not None:
        costs = {Path(name): 1.0 if files else 0.0 for name, files in submissions.items()}
        progress = GradingProgress(costs, stream)
    try:
        for name, grade in _run_jobs(jobs, make_executor or (lambda: process_pool(workers)), progress):
            grades[name] = grade
            if on_graded is not None:
                on_graded(name, grade)
            if progress is not None:
                label = "done" if not grade.error else "failed"
                progress.ended(RunOutcome(f"{name} ({grade.status})", Path(name), label, grade.seconds, grade.error))
    finally:
        if progress is not None:
            progress.close()
    return {name: grades[name] for name in submissions}


def _run_jobs(
    jobs: Mapping[str, tuple], make_executor: Callable[[], Any], progress: Progress | None
) -> Iterator[tuple[str, SubmissionGrade]]:
    ended: set[str] = set()
    attempts = 0
    while len(ended) < len(jobs) and attempts < ATTEMPTS:
        before = len(ended)
        try:
            with make_executor() as executor:
                futures: dict[Future, str] = {
                    executor.submit(_job, *job): name for name, job in jobs.items() if name not in ended
                }
                left = set(futures)
                while left:
                    done, left = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
                    if progress is not None:
                        progress.beat()
                    for future in done:
                        error = future.exception()
                        if isinstance(error, BrokenProcessPool):
                            raise error
                        course = jobs[futures[future]][1]
                        grade = future.result() if error is None else failed_grade(course, str(error))
                        ended.add(futures[future])
                        yield futures[future], grade
        except BrokenProcessPool:
            if progress is not None:
                progress.say("a worker process died; what has not ended is handed out again")
            attempts = 0 if len(ended) > before else attempts + 1
    for name in jobs:
        if name not in ended:
            yield name, failed_grade(jobs[name][1], "the grader's process died each time (out of memory?)")


def _job(
    files: Mapping[str, bytes] | Path,
    course: Mapping[str, CourseNotebook],
    key: Key,
    exercises: Sequence[str] | None,
    limits: Limits | None,
    sandbox: bool,
    whole: Mapping[str, CourseNotebook] | None = None,
) -> SubmissionGrade:
    try:
        if isinstance(files, Path):
            folder, files = files, {}
            for path in sorted(folder.rglob("*.ipynb")):
                files[path.name if path.name not in files else str(path.relative_to(folder))] = path.read_bytes()
        return grade_submission(files, course, key, exercises, limits, sandbox, whole)
    except Exception as error:  # whatever one submission does to the grader must not stop the others; it is flagged
        return failed_grade(course, said_by(error))


def said_by(error: Exception) -> str:
    """An error's type and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error).strip() else 'no message'}"


def failed_grade(course: Mapping[str, CourseNotebook], error: str) -> SubmissionGrade:
    """The grade of a submission on which the grader itself failed: ``not graded``, with the reason."""
    notebooks = {name: NotebookGrade("not graded") for name in course}
    return SubmissionGrade(notebooks, {name: {} for name in course}, [f"the grader failed: {error}"], error[:300])


def digest_of(files: Mapping[str, bytes]) -> str:
    """Hash of a submission's notebooks and their names."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode("utf-8", "replace") + b"\0" + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()

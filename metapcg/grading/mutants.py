"""Tests of the tests: wrong solutions that must lose marks on their own exercise, and right ones that must not.

They stand in the repository's ``tests/mutants``, one percent script per notebook (``read_mutants``). ``python -m
metapcg mutants`` hands all of them in as real submissions (``grade_mutants``), says which of them visible tests alone
tell (``told_by_visible_tests``), and repeats hidden tests that draw numbers with other seeds (``flips``); the last two
in this process.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import jupytext
import nbformat

from metapcg.grading.autograde import SubmissionGrade, grade_submissions
from metapcg.grading.build import HIDDEN_MARKS
from metapcg.grading.course import EXECUTED_GIVEN, CourseNotebook, load_course, visible
from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted
from metapcg.learning.solutions import repository_root

SEEDS = 20
"""How often a hidden test that draws numbers is repeated."""

_SEEDED = re.compile(r"\b(manual_seed|default_rng)\((\d+)\)")
_HIDDEN = re.compile(rf"(?ms)^{re.escape(HIDDEN_MARKS[0])}$.*?^{re.escape(HIDDEN_MARKS[1])}$")


@dataclass(frozen=True)
class Mutant:
    """One solution of one exercise, wrong unless ``right``.

    Attributes:
        name: says the mistake, or the way of writing it; unique in its notebook.
        notebook: name of the notebook.
        exercise: id of the solution cell that it replaces.
        source: of that cell.
        says: words of the message of the visible tests; None: only the hidden tests can tell, or it is right.
        right: whether it must get full marks.
        helpers: sources of cells that the student added before the exercise.
    """

    name: str
    notebook: str
    exercise: str
    source: str
    says: str | None = None
    right: bool = False
    helpers: tuple[str, ...] = ()

    @property
    def whole_source(self) -> str:
        """Helper cells and solution as one text."""
        return "\n\n".join([*self.helpers, self.source])


def read_mutants(path: Path) -> list[Mutant]:
    """Read one percent script, named after its notebook.

    A cell's header holds ``id`` (the mutant's name) and ``exercise``, then ``says`` with words of the visible message
    (none where only hidden tests can tell), or ``right=true``. A code cell with neither is a helper of the next cell.

    Raises:
        ValueError: the file is missing, or a header is wrong; the message names file and cell.
    """
    if not path.is_file():
        raise ValueError(f"there is no {path}: mutants need the repository with its tests")
    mutants: list[Mutant] = []
    helpers: list[str] = []
    for cell in jupytext.read(path, fmt="py:percent").cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        header = cell.metadata
        if "id" not in header and "exercise" not in header:
            helpers.append(cell.source)
            continue
        unknown = set(header) - {"id", "exercise", "says", "right", "lines_to_next_cell"}
        if unknown or "id" not in header or "exercise" not in header or ("right" in header and "says" in header):
            raise ValueError(f"{path}: header of cell {header.get('id', '?')}: expected id, exercise and says or right")
        if any(mutant.name == header["id"] for mutant in mutants):
            raise ValueError(f"{path}: two cells are called {header['id']}")
        mutants.append(
            Mutant(
                header["id"],
                path.stem,
                header["exercise"],
                cell.source,
                header.get("says"),
                bool(header.get("right", False)),
                tuple(helpers),
            )
        )
        helpers = []
    return mutants


def mistakes_and_right(path: Path) -> tuple[dict[str, tuple[str, str, str | None]], dict[str, tuple[str, str]]]:
    """A script's wrong solutions, name → (exercise, source, says), and its right ones, name → (exercise, source)."""
    mutants = read_mutants(path)
    wrong = {m.name: (m.exercise, m.whole_source, m.says) for m in mutants if not m.right}
    return wrong, {m.name: (m.exercise, m.whole_source) for m in mutants if m.right}


def load_mutants(root: Path, course: Mapping[str, CourseNotebook]) -> list[Mutant]:
    """The mutants of every notebook of a course, and its worked solutions as right ones.

    Raises:
        ValueError: a script is missing or damaged, or names an exercise that the notebook does not have.
    """
    mutants = []
    for name, notebook in course.items():
        exercises = {exercise.id for exercise in notebook.exercises if not exercise.manual}
        own = read_mutants(root / "tests" / "mutants" / f"{name}.py")
        for mutant in own:
            if mutant.exercise not in exercises:
                raise ValueError(f"{name}: {mutant.name} is of exercise {mutant.exercise!r}, which is not there")
        worked = {cell.id: cell.source for cell in notebook.worked.cells}
        mutants += own
        mutants += [Mutant(f"worked_{e}", name, e, worked[e], right=True) for e in sorted(exercises)]
    return mutants


# ------------------------------------------------------------------------------------------------- as real submissions


def related(notebook: CourseNotebook) -> dict[str, set[str]]:
    """Exercise → the others whose functions it needs or that need its own: these cannot be wrong side by side."""
    solutions = {exercise.id: exercise.cells for exercise in notebook.exercises if not exercise.manual}
    sources = {cell.id: cell.source for cell in notebook.worked.cells}
    defined = {exercise: _defined(sources[exercise]) for exercise in solutions}
    needs = {}
    for exercise, cells in solutions.items():
        used = {name for cell in (exercise, *cells) for name in _loaded(sources[cell])}
        needs[exercise] = {other for other in solutions if other != exercise and defined[other] & used}
    for exercise in needs:  # what the needed functions need in turn
        waiting = list(needs[exercise])
        while waiting:
            new = needs[waiting.pop()] - needs[exercise] - {exercise}
            needs[exercise] |= new
            waiting += new
    return {one: {other for other in needs if other in needs[one] or one in needs[other]} for one in needs}


def _defined(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _loaded(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def group(mutants: Sequence[Mutant], course: Mapping[str, CourseNotebook]) -> list[dict[str, Mutant]]:
    """Put mutants together into submissions, exercise → mutant: one per exercise, no wrong one beside a related one.

    A kernel takes seconds to start and a test milliseconds. Wrong and right ones are kept apart.
    """
    relations = {name: related(notebook) for name, notebook in course.items()}
    groups: list[dict[str, Mutant]] = []
    for mutant in mutants:
        taken = {mutant.exercise} | (set() if mutant.right else relations[mutant.notebook][mutant.exercise])
        for together in groups:
            first = next(iter(together.values()))
            if (first.notebook, first.right) == (mutant.notebook, mutant.right) and not taken & set(together):
                together[mutant.exercise] = mutant
                break
        else:
            groups.append({mutant.exercise: mutant})
    return groups


def make_submission(together: Mapping[str, Mutant], notebook: CourseNotebook) -> bytes:
    """A notebook file in which the given exercises are the mutants', and the other ones are worked."""
    worked = {cell.id: cell.source for cell in notebook.worked.cells}
    submitted = copy.deepcopy(notebook.released)
    cells = []
    for cell in submitted.cells:
        kind = notebook.kinds[cell.id]
        if kind == "solution":
            mutant = together.get(cell.id)
            cell.source = mutant.source if mutant is not None else worked[cell.id]
            helpers = mutant.helpers if mutant is not None else ()
            cells += [nbformat.v4.new_code_cell(source) for source in helpers]
        if kind in ("solution", "tests") or cell.id in EXECUTED_GIVEN:
            cells.append(cell)
    submitted.cells = cells
    return nbformat.writes(submitted).encode("utf-8")


@dataclass(frozen=True)
class Verdict:
    """What a mutant came to: ``full`` marks on its exercise or not, what the student is told; why it was not judged."""

    full: bool
    faults: tuple[str, ...] = ()
    failure: str = ""


def grade_mutants(
    mutants: Sequence[Mutant],
    course: Mapping[str, CourseNotebook],
    workers: int = 1,
    stream: TextIO | None = None,
    key_file: Path | None = None,
) -> dict[tuple[str, str], Verdict]:
    """Hand all of them in and grade them in the sandbox: (notebook, name) → verdict.

    Raises:
        ValueError: no sandbox here, or a worked notebook fails its own tests.
    """
    groups = group(mutants, course)
    names = {f"{next(iter(g.values())).notebook}-{number:03d}": g for number, g in enumerate(groups)}
    submissions, exercises = {}, {}
    for name, together in names.items():
        notebook = course[next(iter(together.values())).notebook]
        submissions[name] = {f"{notebook.name}.ipynb": make_submission(together, notebook)}
        exercises[name] = list(together)
    grades = grade_submissions(
        submissions, course, exercises=exercises, key_file=key_file, workers=workers, stream=stream
    )
    verdicts = {}
    for name, together in names.items():
        for exercise, mutant in together.items():
            verdicts[mutant.notebook, mutant.name] = _verdict(grades[name], course[mutant.notebook], exercise)
    return verdicts


def _verdict(grade: SubmissionGrade, notebook: CourseNotebook, exercise: str) -> Verdict:
    status = grade.error or grade.notebooks[notebook.name].status
    if status != "graded":
        return Verdict(False, failure=status)  # the loss of marks says nothing about the tests
    cells = next(e.cells for e in notebook.exercises if e.id == exercise)
    results = [grade.notebooks[notebook.name].results[cell] for cell in cells]
    full = grade.scores[notebook.name][exercise] >= sum(notebook.points[cell] for cell in cells)
    return Verdict(full, tuple(fault for result in results for fault in result.faults))


# ----------------------------------------------------------------------------------------------------- in this process


class InProcess:
    """Runs the tests of one notebook's exercises on solutions, in this process. Use it as a context manager."""

    def __init__(self, notebook: CourseNotebook):
        self.notebook = notebook
        self.sources = {cell.id: cell.source for cell in notebook.worked.cells}
        self.cells = {exercise.id: exercise.cells for exercise in notebook.exercises if not exercise.manual}
        self.names: dict[str, object] = {}

    def __enter__(self) -> InProcess:
        self._settings = _quiet_settings()
        self._settings.__enter__()
        for cell in (*EXECUTED_GIVEN, *self.cells):
            exec(compile(self.sources[cell], cell, "exec"), self.names)
        for cells in self.cells.values():  # tests cells define helpers, which later ones use
            for cell in cells:
                exec(compile(visible(self.sources[cell]), cell, "exec"), self.names)
        return self

    def __exit__(self, *exception: object) -> None:
        self._settings.__exit__(None, None, None)

    def run(self, exercise: str, solution: str, part: str, shift: int = 0) -> list[dict]:
        """Run the ``visible`` or the ``hidden`` tests of one exercise, alone; returns what they emitted.

        ``shift`` is added to every seed. The other exercises are the worked ones. Raises what the tests raise.
        """
        namespace = dict(self.names)
        # A function looks names up where it was made: all are made anew, so that later exercises call this solution.
        for cell in self.cells:
            exec(compile(solution if cell == exercise else self.sources[cell], cell, "exec"), namespace)
        with collect_emitted() as emitted:
            for cell in self.cells[exercise]:
                source = self.sources[cell]
                if part == "hidden":
                    found = _HIDDEN.search(source)
                    source = _SEEDED.sub(lambda m: f"{m[1]}({int(m[2]) + shift})", found[0]) if found else ""
                else:
                    source = visible(source)
                exec(compile(source, cell, "exec"), namespace)
        return emitted

    def fails(self, exercise: str, solution: str, part: str, shift: int = 0) -> bool:
        """Whether a solution loses marks: the visible tests raise, or the hidden ones raise or emit something else."""
        try:
            emitted = self.run(exercise, solution, part, shift)
        except Exception:  # a wrong solution may raise anything, and loses marks with it
            return True
        if part == "visible":
            return False
        return bool(compare(emitted, self.run(exercise, self.sources[exercise], part, shift)))

    def draws(self, exercise: str) -> bool:
        """Whether the hidden tests of an exercise draw numbers."""
        found = [_HIDDEN.search(self.sources[cell]) for cell in self.cells[exercise]]
        return any(match and _SEEDED.search(match[0]) for match in found)


@contextmanager
def _quiet_settings() -> Iterator[None]:
    """What a notebook's cells print, draw and save goes nowhere."""
    wanted = {"MPLBACKEND": "Agg", "HW11_PROFILE": "smoke", "HW11_DEVICE": "cpu"}
    with tempfile.TemporaryDirectory(prefix="hw11-") as folder, open(os.devnull, "w", encoding="utf-8") as nothing:
        wanted["HW11_OUTPUT"] = folder
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        streams, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), nothing, nothing
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def told_by_visible_tests(mutants: Sequence[Mutant], course: Mapping[str, CourseNotebook]) -> set[tuple[str, str]]:
    """(notebook, name) of the wrong solutions that fail the visible tests alone: what students learn from."""
    told = set()
    for name, notebook in course.items():
        with InProcess(notebook) as tests:
            for mutant in mutants:
                if mutant.notebook == name and not mutant.right:
                    if tests.fails(mutant.exercise, mutant.whole_source, "visible"):
                        told.add((name, mutant.name))
    return told


def flips(
    mutants: Sequence[Mutant], course: Mapping[str, CourseNotebook], seeds: int = SEEDS
) -> tuple[dict[tuple[str, str], list[int]], int]:
    """Repeat the hidden tests that draw numbers with other seeds, the worked solution's with the same ones.

    Returns:
        (notebook, name) → the shifts of the seeds at which a wrong solution passed or a right one did not; and how many
        repetitions there were.
    """
    found: dict[tuple[str, str], list[int]] = {}
    count = 0
    for name, notebook in course.items():
        with InProcess(notebook) as tests:
            for mutant in mutants:
                if mutant.notebook != name or not tests.draws(mutant.exercise):
                    continue
                visible_fails = tests.fails(mutant.exercise, mutant.whole_source, "visible")
                for shift in range(1000, 1000 + seeds):
                    fails = tests.fails(mutant.exercise, mutant.whole_source, "hidden", shift)
                    count += 1
                    if (fails or visible_fails) == mutant.right:
                        found.setdefault((name, mutant.name), []).append(shift)
    return found, count


# --------------------------------------------------------------------------------------------------------- the command


def run(options: argparse.Namespace) -> int:
    """Grade all mutants; 0 if every wrong one loses marks, every right one has full marks and no repetition flips."""
    root = repository_root()
    if not (root / "tests" / "mutants").is_dir() or not (root / "answers").is_dir():
        raise ValueError("mutants need a clone of the repository: its tests/mutants and its answers")
    course = load_course(root)
    mutants = [
        mutant
        for mutant in load_mutants(root, course)
        if not options.only
        or any(part in f"{mutant.notebook}/{mutant.exercise}/{mutant.name}" for part in options.only)
    ]
    if not mutants:
        raise ValueError(f"no mutant's NOTEBOOK/EXERCISE/NAME holds {' or '.join(options.only)}")
    course = {name: book for name, book in course.items() if any(mutant.notebook == name for mutant in mutants)}
    workers = options.workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    told = told_by_visible_tests(mutants, course)
    flipped, repetitions = flips(mutants, course, options.seeds)
    verdicts = grade_mutants(mutants, course, workers, sys.stdout)
    return report(mutants, verdicts, told, flipped, repetitions, sys.stdout)


def _is_wanted(mutant: Mutant, parts: Sequence[str]) -> bool:
    place = f"{mutant.notebook}/{mutant.exercise}/{mutant.name}"
    return not parts or any(part in place for part in parts)


def report(
    mutants: Sequence[Mutant],
    verdicts: Mapping[tuple[str, str], Verdict],
    told: set[tuple[str, str]],
    flipped: Mapping[tuple[str, str], Sequence[int]],
    repetitions: int,
    stream: TextIO,
) -> int:
    """Print a line per exercise, the total and everything that is not as it must be; returns the exit status."""
    columns = ("mutants", "killed", "by visible tests", "survived", "right", "wrongly rejected")
    width = max(len(f"{mutant.notebook}/{mutant.exercise}") for mutant in mutants)
    print(f"\n{'':{width}}  " + "  ".join(columns), file=stream)
    total = [0] * len(columns)
    for place in dict.fromkeys((mutant.notebook, mutant.exercise) for mutant in mutants):
        own = [mutant for mutant in mutants if (mutant.notebook, mutant.exercise) == place]
        wrong, right = [m for m in own if not m.right], [m for m in own if m.right]
        full = {mutant.name for mutant in own if verdicts[mutant.notebook, mutant.name].full}
        row = [
            len(wrong),
            sum(m.name not in full for m in wrong),
            sum((m.notebook, m.name) in told for m in wrong),
            sum(m.name in full for m in wrong),
            len(right),
            sum(m.name not in full for m in right),
        ]
        total = [a + b for a, b in zip(total, row, strict=True)]
        _line("/".join(place), row, columns, width, stream)
    _line("total", total, columns, width, stream)
    faults = []
    for mutant in mutants:
        verdict, place = verdicts[mutant.notebook, mutant.name], f"{mutant.notebook}/{mutant.exercise}/{mutant.name}"
        if verdict.failure:
            faults.append(f"not judged: {place}: {verdict.failure}")
        elif verdict.full != mutant.right:
            faults.append(f"{'wrongly rejected' if mutant.right else 'survived'}: {place} {' '.join(verdict.faults)}")
        shifts = flipped.get((mutant.notebook, mutant.name))
        if shifts:
            faults.append(f"flipped: {place} in {len(shifts)} repetitions, seeds shifted by {list(shifts)}")
    print("\n" + "".join(f"{fault}\n" for fault in faults), end="", file=stream)
    print(f"{repetitions} repetitions with other seeds, {sum(map(len, flipped.values()))} flipped", file=stream)
    return 1 if faults else 0


def _line(name: str, row: Sequence[int], columns: Sequence[str], width: int, stream: TextIO) -> None:
    cells = "  ".join(f"{number:{len(column)}d}" for number, column in zip(row, columns, strict=True))
    print(f"{name:{width}}  {cells}", file=stream)

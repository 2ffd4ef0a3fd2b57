"""What is graded: the course's notebooks, their exercises, and which of their cells a grader executes."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode

import metapcg
from metapcg.grading.build import HIDDEN_MARKS
from metapcg.learning.solutions import ASSIGNMENT

EXECUTED_GIVEN = ("imports", "setup")
"""Ids of the given cells that a grader executes; the other given cells are experiments, which take minutes."""


@dataclass(frozen=True)
class Exercise:
    """One exercise or question.

    Attributes:
        id: id of its solution (or question) cell.
        title: the function asked for, or the question's heading.
        points: sum over ``cells``.
        cells: ids of the graded cells: the tests, or the question itself.
        manual: graded by a person.
    """

    id: str
    title: str
    points: float
    cells: tuple[str, ...]
    manual: bool


@dataclass(frozen=True)
class CourseNotebook:
    """One notebook: the starter as released, the worked one, and what is graded in it."""

    name: str
    released: NotebookNode
    worked: NotebookNode
    exercises: tuple[Exercise, ...]

    @property
    def bonus(self) -> bool:
        """Whether its points come on top of the course's, and nobody has to hand it in."""
        return bool(self.worked.metadata.get("hw11", {}).get("bonus", False))

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """Cell id → ``given``, ``solution``, ``tests`` or ``question``, in order."""
        return {cell.id: cell_kind(cell) for cell in self.released.cells}

    @functools.cached_property
    def points(self) -> dict[str, float]:
        """Graded cell's id → points."""
        graded = (cell for cell in self.worked.cells if cell_kind(cell) in ("tests", "question"))
        return {cell.id: float(cell.metadata["nbgrader"]["points"]) for cell in graded}

    @functools.cached_property
    def test_sources(self) -> dict[str, str]:
        """Tests cell's id → source with its hidden tests."""
        return {cell.id: cell.source for cell in self.worked.cells if cell_kind(cell) == "tests"}

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the notebook and of the library: when it changes, what the worked solution emits may change."""
        text = nbformat.writes(self.worked) + nbformat.writes(self.released)
        return hashlib.sha256(text.encode() + library_digest().encode()).hexdigest()


def course_points(course: Mapping[str, CourseNotebook], bonus: bool = False) -> float:
    """Sum of the points of the notebooks that everybody has to do, or of the bonus notebooks."""
    return sum(e.points for notebook in course.values() if notebook.bonus == bonus for e in notebook.exercises)


def load_course(root: Path, only: Sequence[str] = ()) -> dict[str, CourseNotebook]:
    """Read the worked notebooks and the starters of a repository, in order of name.

    Args:
        root: the repository.
        only: names of notebooks; all if empty.

    Raises:
        ValueError: a folder or a starter is missing, or a name is unknown.
    """
    answers, starters = root / "answers" / ASSIGNMENT, root / "base_code" / ASSIGNMENT
    paths = {path.stem: path for path in sorted(answers.glob("*.ipynb"))}
    if not paths:
        raise ValueError(f"grading needs the worked notebooks, and there are none in {answers}")
    unknown = sorted(set(only) - set(paths))
    if unknown:
        raise ValueError(f"there is no notebook {unknown[0]!r}; there are {', '.join(paths)}")
    course = {}
    for name, path in paths.items():
        if only and name not in only:
            continue
        starter = starters / path.name
        if not starter.is_file():
            raise ValueError(f"{starter} is missing; './compile_and_run.sh compile' makes it")
        course[name] = make_notebook(name, path.read_bytes(), starter.read_bytes())
    return course


def make_notebook(name: str, worked: bytes, released: bytes) -> CourseNotebook:
    """Make a ``CourseNotebook`` of the bytes of a worked notebook and its starter."""
    read = [nbformat.reads(data.decode("utf-8"), as_version=4) for data in (worked, released)]
    return CourseNotebook(name, read[1], read[0], tuple(_exercises(read[0])))


def _exercises(worked: NotebookNode) -> list[Exercise]:
    solutions: dict[str, list[NotebookNode]] = {}
    found: dict[str, Exercise] = {}
    titles: dict[str, str] = {}
    for cell in worked.cells:
        kind = cell_kind(cell)
        if kind == "solution":
            solutions[cell.id] = []
            names = defined_names(cell.source)
            titles[cell.id] = names[-1] if names else cell.id
        elif kind == "tests":
            owners = [name for name in solutions if re.fullmatch(rf"test-{re.escape(name)}(-.+)?", cell.id)]
            owner = max(owners, key=len, default=cell.id)
            solutions.setdefault(owner, []).append(cell)
            tests = solutions[owner]
            points = sum(float(test.metadata["nbgrader"]["points"]) for test in tests)
            found[owner] = Exercise(owner, titles.get(owner, owner), points, tuple(t.id for t in tests), False)
        elif kind == "question":
            heading = re.search(r"(?m)^#+\s*(.+?)\s*(\(\d+ points?\))?\s*$", cell.source)
            points = float(cell.metadata["nbgrader"]["points"])
            found[cell.id] = Exercise(cell.id, heading[1] if heading else cell.id, points, (cell.id,), True)
    return list(found.values())


def cell_kind(cell: NotebookNode) -> str:
    """``solution``, ``tests``, ``question`` or ``given``."""
    nbgrader = cell.metadata.get("nbgrader", {})
    grade, solution = nbgrader.get("grade", False), nbgrader.get("solution", False)
    return {(True, True): "question", (True, False): "tests", (False, True): "solution"}.get((grade, solution), "given")


def defined_names(source: str) -> list[str]:
    """Names of the functions and classes that a cell defines at module level."""
    return re.findall(r"(?m)^(?:async\s+def|def|class)\s+(\w+)", source)


def visible(source: str) -> str:
    """A tests cell without its hidden tests."""
    begin, end = (re.escape(mark) for mark in HIDDEN_MARKS)
    return re.sub(rf"(?ms)^{begin}$.*?^{end}$\n?", "", source).rstrip("\n")


@functools.cache
def library_digest() -> str:
    """Hash of the sources of ``metapcg`` that notebooks can import."""
    package, digest = Path(metapcg.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if "grading" not in path.relative_to(package).parts:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()

"""Builds every notebook from its one source: ``notebooks/`` → ``answers/hw11`` → ``base_code/hw11`` → ``code/hw11``.

A source is a percent script. A cell's header carries its id and, where it counts, its kind and points::

    # %% [markdown] id="intro"
    # %% id="imports"
    # %% id="gae" kind="solution"
    # %% id="test-gae" kind="tests" points=3
    # %% [markdown] id="q-bias" kind="question" points=2

``bonus=true`` in the header of the first cell makes the whole notebook a bonus: its points come on top of the course's.

``solution``
    An exercise function. What stands between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` is taken out of the
    starter.
``tests``
    Named after its solution (``test-gae``, a second one ``test-gae-shapes``). Between ``### BEGIN HIDDEN TESTS`` and
    ``### END HIDDEN TESTS``, at the cell's end, stands what the starter does not show.
``question``
    A Markdown cell graded by a person; the worked answer stands between solution marks.

The starters are made by nbgrader itself (``generate_assignment`` with this repository's ``nbgrader_config.py``), from
the worked notebooks, in a temporary folder. The same source gives the same bytes.
"""

from __future__ import annotations

import ast
import io
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.notebooknode import NotebookNode

from metapcg.experiments.outputs import write_atomically
from metapcg.learning.solutions import ASSIGNMENT

KINDS = ("solution", "tests", "question")
OPTIONS = ("id", "kind", "points", "bonus")
SOLUTION_MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")
HIDDEN_MARKS = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")


class BuildError(ValueError):
    """A source notebook breaks a rule. One line per fault, each naming file and cell."""


@dataclass
class Build:
    """Notebooks as bytes by file name."""

    answers: dict[str, bytes] = field(default_factory=dict)
    starters: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Changes:
    """What ``compile_notebooks`` did, or what ``check_in_step`` found: paths relative to the repository."""

    written: list[Path] = field(default_factory=list)
    copied: list[Path] = field(default_factory=list)
    without_source: list[Path] = field(default_factory=list)


def build(root: Path) -> Build:
    """Build the worked notebooks and the starters of the repository in ``root``, in memory.

    Raises:
        BuildError: a source breaks a rule, or nbgrader refuses a notebook. All faults of all sources are listed.
    """
    result, faults = Build(), []
    for source in sorted((root / "notebooks").glob("*.py")):
        try:
            result.answers[f"{source.stem}.ipynb"] = build_notebook(source)
        except BuildError as error:
            faults.append(str(error))
    if faults:
        raise BuildError("\n".join(faults))
    if result.answers:
        with tempfile.TemporaryDirectory(prefix="hw11-") as temporary:
            url = f"sqlite:///{Path(temporary).resolve() / 'gradebook.db'}"
            result.starters = generate_starters(root, result.answers, Path(temporary), url)
    return result


def build_notebook(source: Path) -> bytes:
    """Turn one percent script into a worked notebook with nbgrader's metadata, without outputs.

    Raises:
        BuildError: one line per fault.
    """
    try:
        script = jupytext.read(source, fmt="py:percent")
    except (ValueError, SyntaxError) as error:
        raise BuildError(f"{source.name}: cannot be read as a percent script: {str(error).splitlines()[0]}") from error
    faults = [f"{source.name}: {fault}" for fault in _faults(script.cells)]
    if faults:
        raise BuildError("\n".join(faults))
    bonus = {"hw11": {"bonus": True}} if script.cells[0].metadata.get("bonus") else {}
    notebook = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            **bonus,
        },
        cells=[_build_cell(cell) for cell in script.cells],
    )
    notebook.nbformat_minor = 5
    return _serialise(notebook)


def compile_notebooks(root: Path) -> Changes:
    """Bring ``answers/``, ``base_code/`` and the missing notebooks of ``code/`` of a repository up to date.

    Files that are right already are not touched; a notebook in ``code/`` is never overwritten. Without ``notebooks/``
    (a student's copy) only ``code/`` is completed from the starters that are there.

    Raises:
        BuildError: see ``build``; nothing is written.
        ValueError: there are neither sources nor starters.
        OSError: a file cannot be written; what was there is kept.
    """
    answers, starters = root / "answers" / ASSIGNMENT, root / "base_code" / ASSIGNMENT
    result, changes = build(root), Changes()
    for folder, files in ((answers, result.answers), (starters, result.starters)):
        for name, data in files.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != data:
                write_atomically(path, data)
                changes.written.append(path.relative_to(root))
        if files:
            changes.without_source += _extra(root, folder, files)
    available = sorted(starters.glob("*.ipynb"))
    if not available:
        raise ValueError(
            f"there is nothing to compile: neither notebooks/*.py nor base_code/{ASSIGNMENT}/*.ipynb in {root}"
        )
    for starter in available:
        path = root / "code" / ASSIGNMENT / starter.name
        if not path.exists():
            write_atomically(path, starter.read_bytes())
            changes.copied.append(path.relative_to(root))
    return changes


def check_in_step(root: Path) -> Changes:
    """Compare the committed worked and starter notebooks with what their sources give; write nothing.

    Returns:
        ``written``: the files that ``compile_notebooks`` would write; ``without_source``: notebooks that no source
        gives.

    Raises:
        BuildError: see ``build``.
    """
    result, changes = build(root), Changes()
    for step, files in (("answers", result.answers), ("base_code", result.starters)):
        folder = root / step / ASSIGNMENT
        for name, data in files.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != data:
                changes.written.append(path.relative_to(root))
        changes.without_source += _extra(root, folder, files)
    return changes


def _extra(root: Path, folder: Path, files: dict[str, bytes]) -> list[Path]:
    return [path.relative_to(root) for path in sorted(folder.glob("*.ipynb")) if path.name not in files]


def _build_cell(cell: NotebookNode) -> NotebookNode:
    options = cell.metadata
    new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    built = new(cell.source, id=options["id"])
    kind = options.get("kind")
    if kind:
        built.metadata["nbgrader"] = {
            "grade": kind in ("tests", "question"),
            "grade_id": options["id"],
            "locked": kind == "tests",
            "schema_version": 3,
            "solution": kind in ("solution", "question"),
            "task": False,
        }
        if "points" in options:
            built.metadata["nbgrader"]["points"] = options["points"]
    elif options["id"] == "imports":
        built.metadata["tags"] = ["imports"]  # the loader finds the cell by it where an editor has dropped cell ids
    return built


def _faults(cells: list[NotebookNode]) -> Iterator[str]:
    seen: set[str] = set()
    solutions: list[str] = []
    if not cells:
        yield "holds no cell; a cell starts with '# %% id=\"…\"'"
    for number, cell in enumerate(cells, start=1):
        options = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
        identity, kind = options.get("id"), options.get("kind")
        if identity is None:
            yield f"cell {number} has no id (it begins: {cell.source.strip()[:40]!r})"
            continue
        where = f"cell {identity}"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(identity)):
            yield f"{where}: an id is 1 to 64 letters, digits, '-' and '_'"
        if identity in seen:
            yield f"{where}: the id is used twice"
        seen.add(identity)
        for option in sorted(set(options) - set(OPTIONS)):
            yield f"{where}: unknown option {option!r}; known: {', '.join(OPTIONS)}"
        if "bonus" in options and (number > 1 or options["bonus"] is not True):
            yield f"{where}: bonus=true is said of a whole notebook, in the header of its first cell"
        if kind is not None and kind not in KINDS:
            yield f"{where}: unknown kind {kind!r}; known: {', '.join(KINDS)}"
            continue
        expected = "markdown" if kind == "question" else "code" if kind else cell.cell_type
        if cell.cell_type != expected:
            yield f"{where}: a cell of kind {kind!r} must be a {expected} cell, this is {cell.cell_type}"
        yield from (f"{where}: {fault}" for fault in _points_faults(kind, options.get("points")))
        yield from (f"{where}: {fault}" for fault in _mark_faults(kind, cell.source))
        if kind == "solution":
            solutions.append(identity)
        if kind == "tests" and not any(re.fullmatch(rf"test-{re.escape(name)}(-.+)?", identity) for name in solutions):
            yield f"{where}: no solution before it has that name; tests of 'gae' are 'test-gae' or 'test-gae-…'"
        if cell.cell_type == "code":
            fault = _syntax_fault(cell.source)
            if fault:
                yield f"{where}: {fault}"


def _points_faults(kind: str | None, points: object) -> Iterator[str]:
    if kind in ("tests", "question"):
        if points is None:
            yield f"a cell of kind {kind!r} needs points"
        elif isinstance(points, bool) or not isinstance(points, int | float) or not 0 <= points < float("inf"):
            yield f"points must be a number from 0 up, got {points!r}"
    elif points is not None:
        yield "only tests and questions have points"


def _mark_faults(kind: str | None, source: str) -> Iterator[str]:
    lines = [line.strip() for line in source.split("\n")]
    for (begin, end), kinds in ((SOLUTION_MARKS, ("solution", "question")), (HIDDEN_MARKS, ("tests",))):
        # nbgrader looks for the words anywhere in a line: a mark written differently would be half a mark to it.
        words = (begin.removeprefix("### "), end.removeprefix("### "))
        marks = [line for line in lines if any(word in line for word in words)]
        odd = [line for line in marks if line not in (begin, end)]
        if odd:
            yield f"a mark stands alone on its line, written {begin!r} or {end!r}; found {odd[0]!r}"
        elif marks != [begin, end] * (len(marks) // 2):
            yield f"unbalanced marks: every {begin!r} needs its {end!r}, one after the other"
        elif marks and kind not in kinds:
            yield f"{begin!r} belongs in cells of kind {' or '.join(kinds)} only"
        elif not marks and kind in kinds and kind != "tests":
            yield f"a cell of kind {kind!r} needs {begin!r} and {end!r}"
        elif kind == "tests" and (len(marks) > 2 or (marks and "".join(lines[lines.index(end) + 1 :]))):
            yield "hidden tests stand in one block at the end of the cell"


def _syntax_fault(source: str) -> str | None:
    """One line if the code does not parse (magics and top-level await are allowed)."""
    source = TransformerManager().transform_cell(source)
    try:
        compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return f"syntax error in line {error.lineno}: {error.msg}"
    return None


def _serialise(notebook: NotebookNode) -> bytes:
    return (nbformat.writes(notebook) + "\n").encode("utf-8")


@contextmanager
def own_programs_first() -> Iterator[None]:
    """nbgrader calls the program ``alembic``, which lies beside this interpreter, on PATH or not."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def generate_starters(root: Path, answers: dict[str, bytes], folder: Path, db_url: str) -> dict[str, bytes]:
    """Let nbgrader make the starters and enter the assignment into a gradebook.

    Args:
        root: the repository, for ``nbgrader_config.py``.
        answers: worked notebooks by file name.
        folder: an empty folder to work in.
        db_url: the gradebook, as SQLAlchemy names it.

    Raises:
        BuildError: nbgrader refuses a notebook, or a starter does not parse without its solution.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    folder = folder.resolve()
    for name, data in answers.items():
        write_atomically(folder / "answers" / ASSIGNMENT / name, data)
    settings = Config(PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config())
    settings.CourseDirectory.root = str(folder)
    settings.CourseDirectory.assignment_id = ASSIGNMENT  # not in the file: the nbgrader command refuses it there
    settings.CourseDirectory.db_url = db_url
    messages = io.StringIO()
    handler = logging.StreamHandler(messages)
    handler.setLevel(logging.ERROR)
    logger = logging.Logger("nbgrader", level=logging.INFO)
    logger.addHandler(handler)
    course = CourseDirectory(config=settings, log=logger)
    try:
        with own_programs_first():
            GenerateAssignment(coursedir=course, config=settings, log=logger).start()
    except NbGraderException as error:
        # nbgrader logs the traceback of what went wrong and raises an exception that only points there.
        causes = re.findall(r"(?m)^[\w.]+(?:Error|Exception|Exit)\b.*$", messages.getvalue()) or [str(error)]
        raise BuildError(f"nbgrader generate_assignment: {causes[-1]}") from error
    starters = {}
    for name in answers:
        path = folder / "base_code" / ASSIGNMENT / name
        starter = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        for cell in starter.cells:
            fault = _syntax_fault(cell.source) if cell.cell_type == "code" else None
            if fault:
                raise BuildError(f"{Path(name).stem}.py: cell {cell.id}: without its solution, {fault}")
        starters[name] = path.read_bytes()
    return starters

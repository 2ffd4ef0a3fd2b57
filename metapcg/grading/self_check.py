"""``check``: a student's own notebooks, on the student's machine, with the visible tests only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from metapcg.grading.autograde import failed_before
from metapcg.grading.course import EXECUTED_GIVEN, CourseNotebook, Exercise, cell_kind, make_notebook
from metapcg.grading.normalise import UnreadableError, normalise, read_cells
from metapcg.grading.sandbox import CellRun, Kernel, Limits
from metapcg.learning.solutions import ASSIGNMENT


@dataclass(frozen=True)
class Check:
    """One exercise: ``state`` is ``passed``, ``todo``, ``failed`` or ``unanswered`` (a question).

    ``bonus``: it stands in a notebook that nobody has to do.
    """

    notebook: str
    title: str
    cell: str
    points: float
    state: str
    message: str = ""
    bonus: bool = False


def check_notebooks(root: Path, only: tuple[str, ...] = ()) -> Iterator[Check]:
    """Run the visible tests of the notebooks in ``code/hw11``, exercise by exercise, in order.

    Nothing is contained here: it is the student's own code on the student's own machine.

    Raises:
        ValueError: there are no notebooks, ``only`` fits none, or one cannot be read.
    """
    starters = sorted((root / "base_code" / ASSIGNMENT).glob("*.ipynb"))
    if not starters:
        raise ValueError(f"there are no starters in base_code/{ASSIGNMENT}")
    if only and not any(part in starter.stem for part in only for starter in starters):
        names = ", ".join(starter.stem for starter in starters)
        raise ValueError(f"--only: no notebook's name holds {' or '.join(only)}; there are {names}")
    files = {path.name: path.read_bytes() for path in sorted((root / "code" / ASSIGNMENT).glob("*.ipynb"))}
    if not files:
        raise ValueError(f"there are no notebooks in code/{ASSIGNMENT}; './compile_and_run.sh compile' makes them")
    for starter in starters:
        if only and not any(part in starter.stem for part in only):
            continue
        # A starter stands for the worked notebook too: it holds all that is visible.
        notebook = make_notebook(starter.stem, starter.read_bytes(), starter.read_bytes())
        if starter.name not in files and notebook.bonus:
            continue
        if starter.name not in files:
            raise ValueError(f"code/{ASSIGNMENT}/{starter.name} is missing; './compile_and_run.sh compile' copies it")
        yield from _check(notebook, files[starter.name], files)


def _check(notebook: CourseNotebook, data: bytes, files: dict[str, bytes]) -> Iterator[Check]:
    try:
        normalised = normalise(read_cells(data), notebook)
    except UnreadableError as error:
        raise ValueError(f"code/{ASSIGNMENT}/{notebook.name}.ipynb: {error}") from error
    owners = {cell: exercise for exercise in notebook.exercises for cell in exercise.cells}
    failed: dict[str, str] = {}
    runs: dict[str, CellRun] = {}
    titles = {exercise.id: exercise for exercise in notebook.exercises}
    with Kernel(files, Limits(memory=64 * 2**30, cpu_seconds=3600, processes=4096), sandbox=False) as kernel:
        for cell in normalised.notebook.cells:
            kind = cell_kind(cell)
            if cell.cell_type == "code" and (
                kind in ("solution", "tests") or cell.id in EXECUTED_GIVEN or cell.metadata.get("hw11") == "extra"
            ):
                runs[cell.id] = run = kernel.execute(cell.source)
                if kind == "tests" and run.status != "ok":
                    exercise = owners[cell.id].id
                    failed.setdefault(exercise, "\n".join([_message(run), *failed_before(exercise, runs)]))
            if cell.id in owners and cell.id == owners[cell.id].cells[-1]:
                exercise = titles[owners[cell.id].id]
                yield _result(notebook, exercise, failed.get(exercise.id), normalised.answered)


def _message(run: CellRun) -> str:
    if run.status in ("timeout", "dead"):
        return {"timeout": "the tests did not end in time", "dead": f"Python ended: {run.reason}"}[run.status]
    error = next((output for output in reversed(run.outputs) if output.output_type == "error"), None)
    if error is None:
        return "the tests end with an error"
    return str(error.evalue) if error.ename == "AssertionError" else f"{error.ename}: {error.evalue}"


def _result(notebook: CourseNotebook, exercise: Exercise, failure: str | None, answered: set[str]) -> Check:
    if exercise.manual:
        state, message = ("passed", "") if exercise.id in answered else ("unanswered", "")
    elif failure is None:
        state, message = "passed", ""
    else:
        state = "todo" if "NotImplementedError: TODO" in failure else "failed"
        message = failure
    return Check(notebook.name, exercise.title, exercise.id, exercise.points, state, message, notebook.bonus)

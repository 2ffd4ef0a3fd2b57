"""nbgrader's gradebook of a class: what formgrader shows and what a person's marks are kept in.

Only the one grading process writes it; workers never see it.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import SaveAutoGrades
from sqlalchemy.exc import DatabaseError, OperationalError, SAWarning

from metapcg.experiments.outputs import write_atomically
from metapcg.grading.autograde import SubmissionGrade
from metapcg.grading.build import generate_starters, own_programs_first
from metapcg.grading.course import CourseNotebook
from metapcg.learning.solutions import ASSIGNMENT


class GradebookError(OSError):
    """The gradebook cannot be used; one line saying why and what to do."""


@dataclass(frozen=True)
class Mark:
    """What the gradebook holds of one graded cell: ``score`` counts a person's mark before the automatic one."""

    score: float
    points: float
    needs_manual_grade: bool
    comment: str


def gradebook_url(class_folder: Path, seconds: int = 20) -> str:
    """SQLAlchemy's address of a class's gradebook; ``seconds``: how long to wait while another process locks it."""
    return f"sqlite:///{class_folder / 'gradebook.db'}?timeout={seconds}"


@contextmanager
def open_gradebook(class_folder: Path) -> Iterator[Gradebook]:
    """The gradebook, with sqlite's errors as one line.

    Raises:
        GradebookError: it is locked, damaged, or cannot be written.
    """
    path = class_folder / "gradebook.db"
    try:
        with warnings.catch_warnings(), own_programs_first():
            warnings.filterwarnings("ignore", category=SAWarning)  # nbgrader's own, on every new submission
            with Gradebook(gradebook_url(class_folder), "hw11") as gradebook:
                yield gradebook
    except DatabaseError as error:
        if not isinstance(error, OperationalError) and type(error) is not DatabaseError:
            raise  # what was to be written does not fit: the database itself is well
        reason = str(error.orig)
        if "locked" in reason:
            text = "is locked by another process (formgrader, or another grading?); close that and run this again"
        elif "full" in reason:
            text = "cannot be written: the disk is full; make room and run this again"
        elif "malformed" in reason or "not a database" in reason:
            text = f"is damaged ({reason}): move it away and run this again (marks by people are in it alone)"
        else:
            text = f"cannot be used ({reason})"
        raise GradebookError(f"the gradebook {path} {text}; grades that were written are kept") from error
    except MissingEntry as error:
        text = "the assignment has changed since the first submission was graded; grade into a new folder (--output)"
        raise GradebookError(f"the gradebook {path} does not fit ({error}): {text}") from error


def prepare(root: Path, class_folder: Path, course: Mapping[str, CourseNotebook], digest: str) -> None:
    """Tell the gradebook about the assignment's cells, unless it knows them as they are.

    Raises:
        GradebookError: see ``open_gradebook``, or the set of graded cells changed after submissions came in.
        BuildError: nbgrader refuses a notebook.
    """
    note = class_folder / "assignment.sha256"
    if note.is_file() and note.read_text(encoding="utf-8") == digest and (class_folder / "gradebook.db").is_file():
        return
    with open_gradebook(class_folder):
        pass  # it opens: what nbgrader says below is about the notebooks
    answers = {f"{name}.ipynb": nbformat.writes(notebook.worked).encode() for name, notebook in course.items()}
    with tempfile.TemporaryDirectory(prefix="hw11-") as temporary:
        generate_starters(root, answers, Path(temporary), gradebook_url(class_folder))
    write_atomically(note, digest.encode())


def record(
    class_folder: Path, student: str, time: datetime, grade: SubmissionGrade, course: Mapping[str, CourseNotebook]
) -> None:
    """Write one student's automatic scores and the notebooks that formgrader shows; marks by a person stay.

    Raises:
        GradebookError: see ``open_gradebook``.
        OSError: a notebook cannot be written.
    """
    folder = class_folder / "autograded" / student / ASSIGNMENT
    for name, entry in grade.notebooks.items():
        path = folder / f"{name}.ipynb"
        if entry.notebook:
            write_atomically(path, entry.notebook.encode("utf-8", "replace"))
        else:
            path.unlink(missing_ok=True)
    save = SaveAutoGrades()
    save.log = logging.Logger("nbgrader", logging.ERROR)
    with open_gradebook(class_folder) as gradebook:
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(ASSIGNMENT, student, timestamp=time)
    for name, entry in grade.notebooks.items():
        if entry.notebook:
            resources = {
                "nbgrader": {
                    "notebook": name,
                    "assignment": ASSIGNMENT,
                    "student": student,
                    "db_url": gradebook_url(class_folder),
                }
            }
            with open_gradebook(class_folder):  # for its errors
                save.preprocess(nbformat.reads(entry.notebook, as_version=4), resources)
        else:
            _set_zero(class_folder, student, name)
    _settle_automatic(class_folder, student, course)


def _set_zero(class_folder: Path, student: str, notebook: str) -> None:
    with open_gradebook(class_folder) as gradebook:
        for grade in gradebook.find_submission_notebook(notebook, ASSIGNMENT, student).grades:
            grade.auto_score, grade.needs_manual_grade = 0.0, False
        gradebook.db.commit()


def _settle_automatic(class_folder: Path, student: str, course: Mapping[str, CourseNotebook]) -> None:
    # nbgrader asks for a person wherever a person's mark is there already; a mark for an unanswered question is 0.
    with open_gradebook(class_folder) as gradebook:
        for name in course:
            for grade in gradebook.find_submission_notebook(name, ASSIGNMENT, student).grades:
                if grade.manual_score is None and grade.auto_score is not None:
                    grade.needs_manual_grade = False
        gradebook.db.commit()


def marks(class_folder: Path, student: str, course: Mapping[str, CourseNotebook]) -> dict[str, dict[str, Mark]]:
    """Notebook → graded cell → ``Mark``; empty for a student who is not in the gradebook.

    Raises:
        GradebookError: see ``open_gradebook``.
    """
    found: dict[str, dict[str, Mark]] = {}
    with open_gradebook(class_folder) as gradebook:
        for name in course:
            try:
                submitted = gradebook.find_submission_notebook(name, ASSIGNMENT, student)
            except MissingEntry:
                continue
            comments = {comment.name: comment.comment or "" for comment in submitted.comments}
            found[name] = {
                grade.name: Mark(
                    float(grade.score), float(grade.max_score), grade.needs_manual_grade, comments.get(grade.name, "")
                )
                for grade in submitted.grades
            }
    return found

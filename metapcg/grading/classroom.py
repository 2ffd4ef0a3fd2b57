"""A class's folder: what was received, what grading gave, and what comes out of it. One grading at a time writes it.

::

    CLASS/received/STUDENT/…    every submission's notebooks as handed in, earlier ones too
          submitted/STUDENT/hw11/    the one that counts, brought into the released notebooks' shape (for nbgrader)
          autograded/STUDENT/hw11/   executed, for formgrader
          results/STUDENT.json  scores, faults and status; what has not changed is not graded again
          gradebook.db          nbgrader's, with the marks that people give
          grades.csv, summary.html, feedback/STUDENT.html
          key.json              what the worked solutions emit: keep it away from students

A result is written before the gradebook is told, and is marked when it has been: whatever is killed when, nothing that
was graded is graded again or lost.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TextIO

import nbformat

from metapcg.experiments.outputs import write_atomically
from metapcg.grading import gradebook
from metapcg.grading.autograde import (
    Key,
    SubmissionGrade,
    digest_of,
    expected_values,
    failed_grade,
    grade_submissions,
    said_by,
)
from metapcg.grading.course import CourseNotebook, course_points
from metapcg.grading.feedback import Row, student_page, summary_page
from metapcg.grading.normalise import UnreadableError, identify, normalise, read_cells
from metapcg.grading.sandbox import Limits, check_hidden, check_sandbox, remove_leftovers
from metapcg.grading.submissions import NO_NOTEBOOK, Submission, list_entries, read_entry, safe_name
from metapcg.learning.solutions import ASSIGNMENT

GRADER = 2
"""Raise it when grading itself changes, so that everything is graded anew."""

KEEP_DUE = "as before"
"""``due`` of ``grade_class``: the date that the class's folder holds, if it holds one."""


@dataclass
class Received:
    """One submission in the class's folder, without its bytes."""

    student: str
    source: str
    time: datetime
    digest: str
    folder: Path | None
    problems: list[str]
    is_late: bool


@dataclass
class Summary:
    """What one call of ``grade_class`` did."""

    rows: list[Row]
    graded: int
    unchanged: int
    paths: list[Path] = field(default_factory=list)


def grade_class(
    folder: Path,
    class_folder: Path,
    root: Path,
    course: Mapping[str, CourseNotebook],
    *,
    whole: Mapping[str, CourseNotebook] | None = None,
    pattern: str | None = None,
    due: datetime | None | str = KEEP_DUE,
    workers: int = 1,
    make_executor: Callable[[], AbstractContextManager[Executor]] | None = None,
    limits: Limits | None = None,
    sandbox: bool = True,
    stream: TextIO | None = None,
) -> Summary:
    """Grade what is new or changed in ``folder`` and write everything in ``class_folder``.

    Args:
        folder: one zip, folder or notebook per submission.
        class_folder: made if it is not there.
        root: the repository.
        course: from ``load_course``: the notebooks to grade.
        whole: all notebooks, if ``course`` is a part of them; the gradebook always knows all.
        pattern: see ``submissions.list_entries``.
        due: later submissions are marked late; None: nothing is late; not given: what the class's folder holds.
        workers, make_executor, limits, sandbox, stream: see ``autograde.grade_submissions``.

    Raises:
        ValueError: nothing to grade, no sandbox, or a folder lies inside another or where submitted code can read it.
        OSError: a file or the gradebook cannot be written; what was written is kept.
    """
    check_sandbox(sandbox)
    folder, class_folder = folder.resolve(), class_folder.resolve()
    if folder == class_folder or folder in class_folder.parents or class_folder in folder.parents:
        raise ValueError(f"submissions ({folder}) and results ({class_folder}) must not lie inside one another")
    if sandbox:
        check_hidden({"the submissions": folder, "the results": class_folder, "the answers": root / "answers"})
    entries = list_entries(folder, pattern)
    if class_folder.exists() and not class_folder.is_dir():
        raise ValueError(f"{class_folder} is a file; give a folder for the results (--output)")
    class_folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers()
    with _alone(class_folder), _full_disk_in_words(class_folder):
        students: dict[str, list[Received]] = {}
        for student, path in entries:
            students.setdefault(student, []).append(_receive(class_folder, read_entry(path, student)))
        if all(one.folder is None and one.problems == [NO_NOTEBOOK] for each in students.values() for one in each):
            raise ValueError(
                f"{folder} holds no submissions: in none of its {len(entries)} entries is a notebook or zip"
            )
        _check_letters(class_folder, students)
        groups = {s: sorted(each, key=lambda one: (one.time, one.source)) for s, each in sorted(students.items())}
        key = expected_values(course, class_folder / "key.json", limits, sandbox)
        whole = whole or course
        gradebook.prepare(root, class_folder, whole, course_version(whole))
        grading = _Grading(class_folder, course, whole, course_version(course), groups, _due(class_folder, due))
        return grading.run(key, workers, make_executor, limits, sandbox, stream)


def course_version(course: Mapping[str, CourseNotebook]) -> str:
    """Hash of all that decides a score besides the submission: when it changes, everything is graded anew."""
    return hashlib.sha256("".join([str(GRADER), *(book.digest for book in course.values())]).encode()).hexdigest()


@dataclass(frozen=True)
class _Grading:
    """One call of ``grade_class`` once everything is received: ``groups`` holds each student's submissions, by time."""

    class_folder: Path
    course: Mapping[str, CourseNotebook]
    whole: Mapping[str, CourseNotebook]
    version: str
    groups: Mapping[str, list[Received]]
    due: datetime | None

    def run(
        self,
        key: Key,
        workers: int,
        make_executor: Callable[[], AbstractContextManager[Executor]] | None,
        limits: Limits | None,
        sandbox: bool,
        stream: TextIO | None,
    ) -> Summary:
        todo: dict[str, Path | dict] = {}
        for student, group in self.groups.items():
            result = _read_result(self.class_folder, student)
            wanted = f"{group[-1].digest} {self.version}"
            if result is None or result["digest"] != wanted or result["grade"]["error"]:
                todo[student] = group[-1].folder or {}
            elif not result["recorded"]:
                self._keep(student, SubmissionGrade.from_dict(result["grade"]))
        interrupted = True
        try:
            if todo:
                grade_submissions(
                    todo,
                    self.course,
                    whole=self.whole,
                    key=key,
                    workers=workers,
                    make_executor=make_executor,
                    limits=limits,
                    sandbox=sandbox,
                    stream=stream,
                    on_graded=self._keep,
                )
            interrupted = False
        finally:
            if interrupted and stream is not None:
                print("stopped; what was graded is kept, the same command goes on from here", file=stream)
        rows = [_row(self.class_folder, group, self.course, self.due) for group in self.groups.values()]
        pages = _write_pages(self.class_folder, rows, self.course)
        return Summary(rows, len(todo), len(self.groups) - len(todo), pages)

    def _keep(self, student: str, grade: SubmissionGrade) -> None:
        """Write what one submission came to; if that cannot be, the student is "not graded", and the run goes on."""
        try:
            self._write(student, grade)
        except OSError:  # the disk or the gradebook: no student's fault, and no other student would fare better
            raise
        except Exception as error:  # whatever one submission does to the grader must not stop the others; it is flagged
            self._write(student, failed_grade(self.course, said_by(error)))

    def _write(self, student: str, grade: SubmissionGrade) -> None:
        latest = self.groups[student][-1]
        result = {"digest": f"{latest.digest} {self.version}", "recorded": False, "grade": grade.as_dict()}
        _write_result(self.class_folder, student, result)
        if not grade.error:
            _write_submitted(self.class_folder, latest, self.course, self.whole)
            _record(self.class_folder, student, latest.time, result, self.course)


# ------------------------------------------------------------------------------------------------- the class's folder


@contextmanager
def _alone(class_folder: Path) -> Iterator[None]:
    """One grading at a time. (Windows has no fcntl; there nothing is locked.)"""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(class_folder / ".lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(f"another grading is running on {class_folder}; wait for it, or stop it") from error
        yield


@contextmanager
def _full_disk_in_words(class_folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                f"the disk is full ({error.filename or class_folder}): make room and run the same command again; "
                "what was written is kept"
            ) from error
        raise


def _check_letters(class_folder: Path, students: Mapping[str, object]) -> None:
    """Where a file system does not tell large letters from small ones, two students must not differ by those alone."""
    if not (class_folder / ".LOCK").exists():
        return
    seen: dict[str, str] = {}
    for student in students:
        if seen.setdefault(student.casefold(), student) != student:
            raise ValueError(
                f"{class_folder} cannot hold both {seen[student.casefold()]!r} and {student!r}; rename one submission"
            )


def _due(class_folder: Path, due: datetime | None | str) -> datetime | None:
    """The due date that counts; kept, so that a later call without it says the same of who was late."""
    file = class_folder / "due.txt"
    if due == KEEP_DUE:
        try:
            return datetime.fromisoformat(file.read_text(encoding="utf-8").strip())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{file} holds no date; give --due again") from error
    if due is None:
        file.unlink(missing_ok=True)
    else:
        write_atomically(file, due.isoformat(sep=" ").encode())
    return due


def _receive(class_folder: Path, submission: Submission) -> Received:
    """Keep a submission's notebooks as they came (once), and let go of its bytes."""
    digest = digest_of(submission.files)
    stamp = submission.time.strftime("%Y-%m-%d_%H%M%S")
    folder = class_folder / "received" / submission.student / f"{stamp}-{digest[:12]}"
    if submission.files and not folder.is_dir():
        partial = folder.with_name(f".{folder.name}")
        for number, (name, data) in enumerate(submission.files.items()):
            stem = safe_name(name.replace("\\", "/").rsplit("/", 1)[-1][: -len(".ipynb")])
            write_atomically(partial / f"{number:03d}" / f"{stem}.ipynb", data)
        os.replace(partial, folder)
    return Received(
        submission.student,
        submission.source,
        submission.time,
        digest,
        folder if submission.files else None,
        submission.problems,
        submission.is_late,
    )


def _read_result(class_folder: Path, student: str) -> dict | None:
    path = class_folder / "results" / f"{student}.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        SubmissionGrade.from_dict(result["grade"])
        return result if isinstance(result["digest"], str) and isinstance(result["recorded"], bool) else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # damaged, or of another version: graded anew


def _write_result(class_folder: Path, student: str, result: dict) -> None:
    data = json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")
    write_atomically(class_folder / "results" / f"{student}.json", data)


def _record(
    class_folder: Path, student: str, time: datetime, result: dict, course: Mapping[str, CourseNotebook]
) -> None:
    gradebook.record(class_folder, student, time, SubmissionGrade.from_dict(result["grade"]), course)
    _write_result(class_folder, student, {**result, "recorded": True})


def _write_submitted(
    class_folder: Path,
    received: Received,
    course: Mapping[str, CourseNotebook],
    whole: Mapping[str, CourseNotebook],
) -> None:
    """What counts, in the released notebooks' shape: the stock ``nbgrader autograde`` can start from it."""
    folder = class_folder / "submitted" / received.student / ASSIGNMENT
    paths = sorted(received.folder.rglob("*.ipynb")) if received.folder is not None else []
    written = set()
    for path in paths:
        try:
            cells = read_cells(path.read_bytes())
        except UnreadableError:
            continue
        name = identify(path.stem.lower(), cells, whole)
        if name in course and name not in written:
            written.add(name)
            notebook = nbformat.writes(normalise(cells, course[name]).notebook)
            write_atomically(folder / f"{name}.ipynb", notebook.encode("utf-8"))
    for name in set(course) - written:
        (folder / f"{name}.ipynb").unlink(missing_ok=True)
    if written:
        write_atomically(folder / "timestamp.txt", received.time.astimezone().isoformat().encode())


# ------------------------------------------------------------------------------------------------------------ results


def _row(
    class_folder: Path, group: Sequence[Received], course: Mapping[str, CourseNotebook], due: datetime | None
) -> Row:
    latest, student = group[-1], group[-1].student
    result = _read_result(class_folder, student)
    if result is None:
        raise OSError(f"the result of {student} in {class_folder} has gone; run the same command again")
    grade = SubmissionGrade.from_dict(result["grade"])
    marks = gradebook.marks(class_folder, student, course)
    human = list(latest.problems) + list(grade.attention)
    human += [f"{name}: {text}" for name, entry in grade.notebooks.items() for text in entry.attention]
    waiting = sum(mark.needs_manual_grade for cells in marks.values() for mark in cells.values())
    if waiting:
        human.append(f"{waiting} answer{'s' if waiting > 1 else ''} to be marked in formgrader")
    status = grade.status
    if latest.folder is None:
        status = "unreadable" if latest.problems != [NO_NOTEBOOK] else "empty"
    late = "yes" if latest.is_late else "" if due is None else "yes" if latest.time > due else "no"
    earlier = [f"{each.source} of {each.time:%Y-%m-%d %H:%M}" for each in group[:-1]]
    if earlier:
        human.append(f"{len(group)} submissions, the latest counts: {latest.source}")
    handed_in = f"{latest.time:%Y-%m-%d %H:%M}"
    return Row(student, grade, marks, status, late, human, handed_in, latest.source, earlier, latest.problems)


def _write_pages(class_folder: Path, rows: Sequence[Row], course: Mapping[str, CourseNotebook]) -> list[Path]:
    for row in rows:
        file = class_folder / "feedback" / f"{row.student}.html"
        try:
            page = student_page(row, course).encode("utf-8")
        except Exception as error:  # as in _Grading._keep: it is flagged, and the others have their pages
            row.human.append(f"there is no feedback page ({said_by(error)})")
            file.unlink(missing_ok=True)
            continue
        write_atomically(file, page)
    paths = [class_folder / "grades.csv", class_folder / "summary.html"]
    table = grades_csv(rows, course).encode("utf-8-sig", "replace")  # spreadsheets read the mark as UTF-8
    write_atomically(paths[0], table)
    write_atomically(paths[1], summary_page(rows, course).encode("utf-8"))
    return paths


def grades_csv(rows: Sequence[Row], course: Mapping[str, CourseNotebook]) -> str:
    """One line per student: total, score per notebook and per exercise, status, late, what needs a human and why.

    ``points`` is what can be had without bonus notebooks; ``total`` counts theirs too, and ``bonus`` says how many
    those are, for courses that want to treat them otherwise.
    """
    buffer = io.StringIO()
    names = [(name, exercise) for name, notebook in course.items() for exercise in notebook.exercises]
    columns = ["student", "total", "points", "bonus", *course, *(f"{name}/{exercise.id}" for name, exercise in names)]
    columns += ["status", "late", "handed in", "needs human", "source"]
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    points = course_points(course)
    for row in rows:
        notebooks = [sum(row.score(name, e) for e in notebook.exercises) for name, notebook in course.items()]
        scores = [f"{row.score(name, exercise):g}" for name, exercise in names]
        texts = [row.status, row.late, row.handed_in, "; ".join(row.human), row.source]
        sums = [row.total(course), points, row.bonus(course), *notebooks]
        numbers = [*(f"{number:g}" for number in sums), *scores]
        writer.writerow([_cell(row.student), *numbers, *map(_cell, texts)])
    return buffer.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: file names come from students."""
    text = " ".join(text.split())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text

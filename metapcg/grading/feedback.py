"""Pages for people: one for each student, one for the class. Each is one file that needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from metapcg.grading.autograde import NotebookGrade, SubmissionGrade
from metapcg.grading.course import CourseNotebook, Exercise, course_points
from metapcg.grading.gradebook import Mark

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .35rem .7rem; }
tr { border-bottom: 1px solid #ddd; } th { font-weight: 600; } .n { text-align: right; white-space: nowrap; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: 13px; line-height: 1.4; white-space: pre-wrap; }
.good { color: #1d7a3c; } .bad { color: #b3341f; } .open { color: #8a6500; } .small { font-size: .85rem; color: #555; }
.bar { display: inline-block; height: .8rem; background: #2a7f9e; vertical-align: middle; }
ul { margin: .2rem 0; padding-left: 1.1rem; }
"""


@dataclass
class Row:
    """What the pages and ``grades.csv`` say of one student.

    Attributes:
        grade: what grading gave; marks: what the gradebook holds (a person's marks included).
        status: one word or two. late: ``yes``, ``no`` or empty (no due date). human: why a person should look.
        handed_in: when, as text. source: the file it came from. earlier: sources of earlier submissions.
        problems: what of it could not be read.
    """

    student: str
    grade: SubmissionGrade
    marks: Mapping[str, Mapping[str, Mark]]
    status: str
    late: str
    human: list[str]
    handed_in: str
    source: str
    earlier: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def score(self, notebook: str, exercise: Exercise) -> float:
        """Points of one exercise or question."""
        marks = self.marks.get(notebook, {})
        return sum(marks[cell].score for cell in exercise.cells if cell in marks)

    def is_open(self, notebook: str, exercise: Exercise) -> bool:
        """Whether a person still has to mark it."""
        marks = self.marks.get(notebook, {})
        return any(marks[cell].needs_manual_grade for cell in exercise.cells if cell in marks)

    def total(self, course: Mapping[str, CourseNotebook]) -> float:
        """Points so far, those of bonus notebooks included."""
        return sum(self.score(name, exercise) for name, book in course.items() for exercise in book.exercises)

    def bonus(self, course: Mapping[str, CourseNotebook]) -> float:
        """Points so far in bonus notebooks."""
        return self.total({name: notebook for name, notebook in course.items() if notebook.bonus})


def student_page(row: Row, course: Mapping[str, CourseNotebook]) -> str:
    """The feedback of one student: points, and for each exercise that lost some, what was checked and why."""
    bonus = row.bonus(course)
    still_open = any(row.is_open(name, exercise) for name, book in course.items() for exercise in book.exercises)
    parts = [f"<h1>Homework 11: {_text(row.student)}</h1>"]
    parts.append(f"<p><b>{_number(row.total(course))} of {_number(course_points(course))} points</b>")
    parts.append(f" ({_number(bonus)} of them bonus)" if bonus else "")
    parts.append(" <span class=open>(questions are still to be marked)</span></p>" if still_open else "</p>")
    facts = [f"handed in {row.handed_in} ({row.source})"]
    facts += ["late"] if row.late == "yes" else []
    facts += [f"earlier submission not counted: {source}" for source in row.earlier]
    parts.append(f"<p class=small>{_text('; '.join(facts))}</p>")
    if row.grade.error:
        parts.append("<p class=bad>This submission could not be graded yet; a person will look at it.</p>")
    elif row.problems or row.grade.attention:
        parts.append(_list([*row.problems, *row.grade.attention]))
    for name, notebook in course.items():
        parts.append(_notebook_section(row, name, notebook))
    return _page(f"Feedback: {row.student}", parts)


def _notebook_section(row: Row, name: str, notebook: CourseNotebook) -> str:
    grade = row.grade.notebooks.get(name, NotebookGrade("missing"))
    parts = [f"<h2>{_text(name)}{' (bonus)' if notebook.bonus else ''}</h2>"]
    if grade.status == "no bonus":
        return f"{parts[0]}<p>Not handed in, which costs nothing.</p>"
    if grade.status == "missing":
        points = sum(exercise.points for exercise in notebook.exercises)
        return f"{parts[0]}<p class=bad>This notebook was not handed in (0 of {_number(points)} points).</p>"
    said = {
        "unreadable": "This notebook cannot be read.",
        "kernel died": "Python ended while this notebook was graded; the exercises after that count 0.",
        "out of time": "Some of this notebook ran out of time.",
    }.get(grade.status)
    if said:
        parts.append(f"<p class=bad>{said}</p>")
    if grade.attention:
        parts.append(_list(grade.attention))
    parts.append("<table><tr><th>exercise</th><th class=n>points</th><th></th></tr>")
    for exercise in notebook.exercises:
        parts.append(_exercise_row(row, name, exercise, grade))
    parts.append("</table>")
    answers = _answers(grade, {exercise.id for exercise in notebook.exercises})
    if answers:
        parts.append(f"<details><summary>What you handed in</summary>{answers}</details>")
    return "".join(parts)


def _exercise_row(row: Row, name: str, exercise: Exercise, grade: NotebookGrade) -> str:
    score = row.score(name, exercise)
    lines, kind = [], "good"
    if row.is_open(name, exercise):
        lines, kind = ["to be marked by a person"], "open"
    elif exercise.manual:
        marks = row.marks.get(name, {})
        lines = [marks[cell].comment for cell in exercise.cells if cell in marks and marks[cell].comment]
        kind = "good" if score else "bad"
    else:
        lines = [fault for cell in exercise.cells if cell in grade.results for fault in grade.results[cell].faults]
        kind = "bad" if lines or score < exercise.points else "good"
    shown = _list(lines) if lines else ("all tests pass" if kind == "good" and not exercise.manual else "")
    points = f"{_number(score)} / {_number(exercise.points)}"
    title = _text(exercise.title)
    title = title if exercise.manual else f"<code>{title}</code>"
    return f"<tr><td>{title}</td><td class='n {kind}'>{points}</td><td>{shown}</td></tr>"


def _answers(grade: NotebookGrade, ids: set[str]) -> str:
    if not grade.notebook:
        return ""
    found = []
    for cell in json.loads(grade.notebook)["cells"]:
        added = cell["metadata"].get("hw11") == "extra"
        if (cell["id"] in ids and cell["id"] in grade.answered) or (added and cell["cell_type"] == "code"):
            source = "".join(cell["source"])
            found.append(f"<p class=small>{_text(cell['id'])}</p><pre>{_text(source[:6000])}</pre>")
    return "".join(found)


def summary_page(rows: Sequence[Row], course: Mapping[str, CourseNotebook]) -> str:
    """The class at one glance: how many points each exercise brought, who needs a person, every student's total."""
    points, bonus = course_points(course), course_points(course, bonus=True)
    totals = sorted(row.total(course) for row in rows)
    parts = [f"<h1>Homework 11: {len(rows)} submissions</h1>"]
    if totals:
        middle = totals[len(totals) // 2] if len(totals) % 2 else sum(totals[len(totals) // 2 - 1 :][:2]) / 2
        low, high = _number(totals[0]), _number(totals[-1])
        more = f" and up to {_number(bonus)} as a bonus" if bonus else ""
        parts.append(f"<p>Total: median {_number(middle)} of {_number(points)}{more}, from {low} to {high}.</p>")
    parts.append("<h2>Points per exercise</h2>")
    parts.append(
        "<table><tr><th>notebook</th><th>exercise</th><th class=n>mean</th><th>none</th><th>some</th><th>all</th>"
    )
    parts.append("<th>to be marked</th></tr>")
    for name, notebook in course.items():
        for exercise in notebook.exercises:
            parts.append(_distribution(rows, name, exercise))
    parts.append("</table><h2>Needs a person</h2>")
    needing = [row for row in rows if row.human]
    if needing:
        lines = [f"<tr><td>{_text(row.student)}</td><td>{_list(row.human)}</td></tr>" for row in needing]
        parts.append(f"<table>{''.join(lines)}</table>")
    else:
        parts.append("<p>Nobody.</p>")
    parts.append("<h2>Students</h2><table><tr><th>student</th><th class=n>points</th><th>status</th><th>late</th>")
    parts.append("<th>handed in</th></tr>")
    for row in rows:
        kind = "" if row.status in ("graded", "incomplete") else " class=bad"
        parts.append(
            f"<tr><td><a href='feedback/{quote(row.student)}.html'>{_text(row.student)}</a></td>"
            f"<td class=n>{_number(row.total(course))}</td><td{kind}>{_text(row.status)}</td><td>{row.late}</td>"
            f"<td>{_text(row.handed_in)}</td></tr>"
        )
    parts.append("</table>")
    return _page("Homework 11: the class", parts)


def _distribution(rows: Sequence[Row], name: str, exercise: Exercise) -> str:
    marked = [row for row in rows if not row.is_open(name, exercise)]
    scores = [row.score(name, exercise) for row in marked]
    counts = [
        sum(score <= 0 for score in scores),
        sum(0 < score < exercise.points for score in scores),
        sum(score >= exercise.points for score in scores),
    ]
    mean = f"{sum(scores) / len(scores):.1f} / {_number(exercise.points)}" if scores else "–"
    width = 8.0 / max(len(rows), 1)
    bars = "".join(f"<td><span class=bar style='width:{count * width:.2f}rem'></span> {count}</td>" for count in counts)
    left = len(rows) - len(marked)
    title = f"<td>{_text(name)}</td><td>{_text(exercise.title)}</td>"
    return f"<tr>{title}<td class=n>{mean}</td>{bars}<td>{left or ''}</td></tr>"


def _page(title: str, parts: Sequence[str]) -> str:
    head = f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{_text(title)}</title><style>{STYLE}</style>"
    return f"{head}</head><body>{''.join(parts)}</body></html>\n"


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"


def _text(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True).replace("\n", "<br>")


def _number(value: float) -> str:
    return f"{value:g}"

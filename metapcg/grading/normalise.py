"""Brings what a student handed in into the shape of the released notebook.

Only three things of a submission are taken over: what stands in its solution cells, what stands in its answers to
questions, and cells that the student added. Everything else (tests, given cells, ids, metadata, tags, order, kernel)
comes from the released notebook. So a deleted, renamed, retagged, doubled or edited cell can neither break grading nor
change what is tested.

A file is read leniently: byte-order marks, UTF-16, notebook formats 3, 4 and 5, missing or doubled ids, keys that no
schema knows.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import nbformat
from nbformat.notebooknode import NotebookNode

from metapcg.grading.course import EXECUTED_GIVEN, CourseNotebook, cell_kind, defined_names

MOST_BYTES = 32 * 2**20
MOST_CELLS = 2000
MOST_SOURCE = 400_000


class UnreadableError(ValueError):
    """A file is no notebook; one clause that says what it is instead."""


@dataclass(frozen=True)
class SubmittedCell:
    """What is taken from a cell: ``names`` are its ids, nbgrader's first."""

    type: str
    source: str
    names: tuple[str, ...]


@dataclass
class Normalised:
    """A submitted notebook in the released notebook's shape.

    Attributes:
        notebook: the released cells in their order, with the student's solutions and answers; cells that the student
            added stand behind the released cell that they followed, marked by ``metadata.hw11 = "extra"``.
        notes: what was put right, for the grader's record.
        attention: what a person should look at.
        answered: ids of solutions and questions that differ from the starter.
    """

    notebook: NotebookNode
    notes: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)


def read_cells(data: bytes) -> list[SubmittedCell]:
    """Read the cells of a notebook file, leniently.

    Raises:
        UnreadableError: it is none.
    """
    if not data.strip():
        raise UnreadableError("the file is empty")
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"the file has {len(data) / 2**20:.0f} MiB, more than {MOST_BYTES // 2**20}")
    text = _decode(data)
    head = text.lstrip()[:200].lower()
    if head.startswith("<"):
        raise UnreadableError("it is a web page, not a notebook")
    if head.startswith(("%pdf", "pk\x03\x04")):
        raise UnreadableError("it is a PDF or an archive, not a notebook")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        cut = "it is cut off or damaged" if head.startswith("{") else "it is no notebook"
        raise UnreadableError(f"{cut} ({str(error).splitlines()[0][:80]})") from error
    cells = content.get("cells") if isinstance(content, dict) else None
    if cells is None and isinstance(content, dict):  # format 3
        sheets = content.get("worksheets")
        if isinstance(sheets, list):
            cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    if not isinstance(cells, list):
        raise UnreadableError("it holds JSON, but no cells")
    if len(cells) > MOST_CELLS:
        raise UnreadableError(f"it has {len(cells)} cells, more than {MOST_CELLS}")
    return [_cell(cell) for cell in cells if isinstance(cell, dict)]


def _decode(data: bytes) -> str:
    marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    encoding = next((name for mark, name in marks.items() if data.startswith(mark)), "")
    if not encoding:
        is_wide = data[:200].count(b"\0") > 50
        encoding = "utf-8" if not is_wide else "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _cell(cell: dict) -> SubmittedCell:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    source = source if isinstance(source, str) else ""
    source = source[:MOST_SOURCE].replace("\r\n", "\n").replace("\r", "\n")
    source = source.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be written
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    names = tuple(name for name in (grade_id, cell.get("id")) if isinstance(name, str))
    kind = cell.get("cell_type")
    return SubmittedCell(kind if kind in ("code", "markdown") else "markdown", source, names)


def identify(name: str, cells: Sequence[SubmittedCell], course: Mapping[str, CourseNotebook]) -> str | None:
    """Say by content which of the course's notebooks it is, whatever the file is called; None if it is none."""
    scores = {}
    for key, notebook in course.items():
        ids = {cell_id for cell_id, kind in notebook.kinds.items() if kind != "given"}
        released = {_plain(cell.source) for cell in notebook.released.cells if len(cell.source) > 60}
        functions = {n for c in notebook.released.cells if cell_kind(c) == "solution" for n in defined_names(c.source)}
        score = 3 * len(ids & {n for cell in cells for n in cell.names})
        score += len(released & {_plain(cell.source) for cell in cells})
        score += 2 * len(functions & {n for cell in cells if cell.type == "code" for n in defined_names(cell.source)})
        scores[key] = score
    best = max(scores, key=scores.get, default=None)
    if best is None or scores[best] == 0:
        return name if name in course else None
    return name if scores.get(name) == scores[best] else best


def normalise(cells: Sequence[SubmittedCell], course_notebook: CourseNotebook) -> Normalised:
    """Bring a student's cells into the released notebook's shape."""
    kinds, released = course_notebook.kinds, {cell.id: cell for cell in course_notebook.released.cells}
    result = Normalised(copy.deepcopy(course_notebook.released))
    owners = _owners(cells, course_notebook)
    chosen: dict[str, str] = {}
    extras: dict[str, list[SubmittedCell]] = {}
    anchor = ""
    for number, cell in enumerate(cells):
        owner = owners.get(number)
        if owner is None:
            if cell.source.strip() and not _is_copy_of_tests(cell, course_notebook):
                extras.setdefault(anchor, []).append(cell)
            continue
        kind, starter = kinds[owner], released[owner].source
        is_changed = _plain(cell.source) != _plain(starter)
        if kind == "given":
            if is_changed and owner in EXECUTED_GIVEN and cell.type == "code":
                result.notes.append(f"cell {owner} was changed; the given one runs first, then the student's")
                extras.setdefault(owner, []).append(cell)
        elif kind in ("solution", "question") and is_changed:
            if owner not in chosen:
                chosen[owner] = cell.source
            elif _plain(cell.source) != _plain(chosen[owner]):
                result.attention.append(f"cell {owner} is there more than once, with different contents")
                if kind == "solution":  # in the order in which the student would have run them: the last one counts
                    extras.setdefault(owner, []).append(cell)
                else:
                    chosen[owner] += f"\n\n---\n\n{cell.source}"
        elif kind == "tests" and is_changed:
            result.notes.append(f"tests {owner} were changed; the released ones count")
        anchor = owner
    _fill(result, chosen, extras, course_notebook)
    absent = [name for name, kind in kinds.items() if kind != "given" and name not in owners.values()]
    if absent:
        result.notes.append(f"cells put back: {', '.join(absent)}")
        lost = [name for name in absent if kinds[name] in ("solution", "question")]
        if lost:
            result.attention.append(f"cells of the student's own work are missing: {', '.join(lost)}")
    return result


def _owners(cells: Sequence[SubmittedCell], course_notebook: CourseNotebook) -> dict[int, str]:
    """Number of a submitted cell → id of the released cell that it is."""
    kinds = course_notebook.kinds
    claims: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        name = next((name for name in cell.names if name in kinds), None)
        if name is not None:
            claims.setdefault(name, []).append(number)
    owners = {number: name for name, each in claims.items() for number in _believed(each, name, cells, course_notebook)}
    # Cells whose names are gone: by their text, then solutions by what they define and questions by their heading.
    free = set(kinds) - set(owners.values())
    texts = {_plain(cell.source): cell.id for cell in course_notebook.released.cells if cell.id in free}
    defines = {
        tuple(defined_names(cell.source)): cell.id
        for cell in course_notebook.released.cells
        if cell.id in free and kinds[cell.id] == "solution"
    }
    headings = {
        _heading(cell.source): cell.id
        for cell in course_notebook.released.cells
        if cell.id in free and kinds[cell.id] == "question"
    }
    for number, cell in enumerate(cells):
        if number in owners:
            continue
        owner = texts.get(_plain(cell.source)) or headings.get(_heading(cell.source))
        if owner is None and cell.type == "code":
            names = set(defined_names(cell.source))
            owner = next((cell_id for wanted, cell_id in defines.items() if wanted and names.issuperset(wanted)), None)
        if owner is not None:
            owners[number] = owner
    return owners


def _believed(
    numbers: list[int], name: str, cells: Sequence[SubmittedCell], course_notebook: CourseNotebook
) -> list[int]:
    """Of the cells that bear the id of one released cell, those that can be that cell (or copies of it).

    Some tools give the same id to cells that have nothing in common.
    """
    if len(numbers) == 1:
        return numbers
    released = next(cell for cell in course_notebook.released.cells if cell.id == name)
    wanted, heading = set(defined_names(released.source)), _heading(released.source)
    kind = course_notebook.kinds[name]
    alike = []
    for number in numbers:
        cell = cells[number]
        same = _plain(cell.source) == _plain(released.source)
        if kind == "solution":
            same = same or bool(wanted & set(defined_names(cell.source)))
        elif kind == "question":
            same = same or (cell.type == "markdown" and heading is not None and _heading(cell.source) == heading)
        if same:
            alike.append(number)
    return alike or numbers[:1]


def _fill(
    result: Normalised, chosen: dict[str, str], extras: dict[str, list[SubmittedCell]], course: CourseNotebook
) -> None:
    cells, count = [], 0
    blocks = [(None, extras.get("", []))] + [(cell, extras.get(cell.id, [])) for cell in result.notebook.cells]
    for released, added in blocks:
        if released is not None:
            if released.id in chosen:
                released.source = chosen[released.id]
                result.answered.add(released.id)
            cells.append(released)
        for cell in added:
            count += 1
            new = nbformat.v4.new_code_cell if cell.type == "code" else nbformat.v4.new_markdown_cell
            cells.append(new(cell.source, id=f"added-by-student-{count}", metadata={"hw11": "extra"}))
    result.notebook.cells = cells
    result.notebook.metadata = copy.deepcopy(course.released.metadata)
    result.notebook.nbformat_minor = 5


def _is_copy_of_tests(cell: SubmittedCell, course_notebook: CourseNotebook) -> bool:
    """Whether a nameless cell is a tests cell, perhaps a little edited: those never run a second time."""
    text = _plain(cell.source)
    for released in course_notebook.released.cells:
        if cell_kind(released) == "tests" and cell.type == "code":
            if difflib.SequenceMatcher(None, text, _plain(released.source), autojunk=False).quick_ratio() > 0.95:
                return True
    return False


def _heading(source: str) -> str | None:
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return first if first.startswith("#") else None


def _plain(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.replace("\r\n", "\n").strip().splitlines())

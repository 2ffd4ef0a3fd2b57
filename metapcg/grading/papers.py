"""Writes the course's papers: the questions and the rubric, each as Markdown and as PDF.

What is asked, what it is worth and what is checked is read from the notebooks in ``notebooks/*.py``; what surrounds it
is the hand-written ``notebooks/papers.toml``. So points in the papers cannot differ from the points that are graded.

``reports/HW11_Questions.md``
    For students: every exercise with its equation, signature and points, every question, and the written part.
``reports/HW11_Rubric.md``
    For graders: points per cell, what the visible and hidden tests look at, how a question's points are split.

The PDFs are made from the Markdown by pandoc and typst (``pypandoc_binary`` and ``typst`` on PyPI), with typst's own
fonts and no date: the same Markdown gives the same bytes with the same versions of the two. Because other versions or
platforms may set a line differently, a PDF counts as in step when it carries the fingerprint of the Markdown and the
layout it should be made from; the Markdown files are compared byte by byte. So a check needs neither program.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from metapcg.experiments.documents import Table, markdown_table
from metapcg.experiments.outputs import write_atomically
from metapcg.grading.build import HIDDEN_MARKS, SOLUTION_MARKS, BuildError, build_notebook

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE = Path("notebooks") / "papers.toml"
FOLDER = Path("reports")
QUESTIONS, RUBRIC = "HW11_Questions", "HW11_Rubric"


@dataclass
class Exercise:
    """A solution cell with the tests cells that belong to it.

    Attributes:
        id: of the solution cell.
        code: signatures and docstrings of its functions, without bodies.
        names: the functions' names.
        section: heading above it.
        equations: numbers of the equations that the docstrings refer to.
        tests: the tests cells.
    """

    id: str
    code: str
    names: list[str]
    section: str
    equations: list[int]
    tests: list[Tests] = field(default_factory=list)

    @property
    def points(self) -> float:
        """Sum over its tests cells."""
        return sum(cell.points for cell in self.tests)


@dataclass
class Tests:
    """A tests cell: what it is worth and what it looks at, in the words of its own messages."""

    id: str
    points: float
    visible: list[str]
    hidden: list[str]
    faults: list[str]
    mistakes: int


@dataclass
class Question:
    """A question that a person grades; ``text`` is what the student sees, without heading and answer."""

    id: str
    points: float
    text: str
    title: str = ""


@dataclass
class Notebook:
    """One notebook as the papers need it; ``items`` are its exercises and questions in order."""

    name: str
    title: str
    items: list[Exercise | Question]
    equations: dict[int, str]
    announced: list[tuple[str, float]]
    announced_total: float | None
    bonus: bool = False

    @property
    def points(self) -> float:
        """Sum over exercises and questions."""
        return sum(item.points for item in self.items)


# ---------------------------------------------------------------------------------------------- reading the notebooks


def read_notebooks(root: Path) -> list[Notebook]:
    """Read every source in ``notebooks/``, in the order of their names.

    Raises:
        BuildError: a source breaks a rule of the builder, or a tests cell belongs to no solution cell.
    """
    return [read_notebook(path) for path in sorted((root / "notebooks").glob("*.py"))]


def read_notebook(source: Path) -> Notebook:
    """Read one source through the builder, so that points are those in nbgrader's metadata."""
    built = json.loads(build_notebook(source))
    cells = built["cells"]
    notebook = Notebook(source.stem, source.stem, [], {}, [], None)
    notebook.bonus = built["metadata"].get("hw11", {}).get("bonus", False)
    section = ""
    for cell in cells:
        text = "".join(cell["source"])
        grading = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "markdown" and not grading:
            for level, heading in re.findall(r"(?m)^(#{1,2}) +(.+)$", text):
                if level == "#":
                    notebook.title = heading.strip()
                section = heading.strip() if level == "##" else section
            notebook.equations.update({n: e for n, e in _equations(text) if n not in notebook.equations})
            _read_announced(notebook, text)
        elif grading.get("solution") and grading.get("grade"):
            shown = _without(text, SOLUTION_MARKS)
            shown = re.sub(r"\A\s*#+ [^\n]*\n", "", shown).strip()
            notebook.items.append(Question(cell["id"], grading["points"], shown))
        elif grading.get("solution"):
            notebook.items.append(_exercise(cell["id"], text, section))
        elif grading.get("grade"):
            owners = [item for item in notebook.items if isinstance(item, Exercise) and _belongs(cell["id"], item.id)]
            if not owners:
                raise BuildError(f"{source.name}: cell {cell['id']}: belongs to no solution cell")
            owner = max(owners, key=lambda item: len(item.id))
            owner.tests.append(_tests(cell["id"], grading["points"], text))
    questions = [item for item in notebook.items if isinstance(item, Question)]
    titles = [name.partition(":")[2].strip() for name, _ in notebook.announced if name.startswith("question")]
    if len(titles) == len(questions):
        for question, title in zip(questions, titles, strict=True):
            question.title = title
    return notebook


def disagreements(notebook: Notebook) -> list[str]:
    """Where a notebook's own introduction announces other points than its cells carry; one line each."""
    faults = []
    rows = {
        "exercise": [
            (re.sub(r"`", "", name).split(",")[0], points) for name, points in notebook.announced if name[0] == "`"
        ],
        "question": [(name.split(":")[0], points) for name, points in notebook.announced if name[0] == "q"],
    }
    cells = {
        "exercise": [(item.names[0], item.points) for item in notebook.items if isinstance(item, Exercise)],
        "question": [("question", item.points) for item in notebook.items if isinstance(item, Question)],
    }
    for kind, given in cells.items():
        announced = [(re.sub(r" \d+$", "", name), points) for name, points in rows[kind]]
        for number in range(max(len(announced), len(given)) if notebook.announced else 0):
            said, real = ((*pair[number : number + 1], ("nothing", 0))[0] for pair in (announced, given))
            if said != real:
                faults.append(
                    f"{notebook.name}: {kind} {number + 1} is announced as {said[0]}, {said[1]:g} points; "
                    f"the cells give {real[0]}, {real[1]:g}"
                )
    if notebook.announced_total is not None and notebook.announced_total != notebook.points:
        faults.append(f"{notebook.name}: announces {notebook.announced_total:g} points, has {notebook.points:g}")
    for item in notebook.items:
        if isinstance(item, Exercise) and not item.tests:
            faults.append(f"{notebook.name}: exercise {item.id} has no tests cell")
    return faults


def _belongs(tests_id: str, solution_id: str) -> bool:
    return tests_id == f"test-{solution_id}" or tests_id.startswith(f"test-{solution_id}-")


def _read_announced(notebook: Notebook, text: str) -> None:
    for name, points in re.findall(r"(?m)^\| *(?:\d+|–) *\| *(.+?) *\| *([\d.]+) *\|$", text):
        if name.startswith(("`", "question")):
            notebook.announced.append((name, float(points)))
    total = re.search(r"(?m)^\| *\| *\*\*total\*\* *\| *\*\*([\d.]+)\*\* *\|$", text)
    if total:
        notebook.announced_total = float(total[1])


def _equations(text: str) -> Iterator[tuple[int, str]]:
    """Numbered display formulas of a Markdown text: number → formula with its dollar signs."""
    for block in re.findall(r"\$\$(.+?)\$\$", text, flags=re.DOTALL):
        for number in re.findall(r"\\tag\{(\d+)\}|&&\s*\((\d+)\)", block):
            yield int(number[0] or number[1]), f"$${block}$$"


def _exercise(identity: str, source: str, section: str) -> Exercise:
    code, names, docstrings = [], [], []
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        first = function.body[0]
        is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        end = first.end_lineno if is_docstring else first.lineno - 1
        code.append("\n".join(source.split("\n")[function.lineno - 1 : end]))
        names.append(function.name)
        docstrings.append(ast.get_docstring(function) or "")
    numbers = re.findall(r"(?<!notebook 0's )equations? \((\d+)\)(?: and \((\d+)\))?", "\n".join(docstrings))
    equations = sorted({int(number) for pair in numbers for number in pair if number})
    return Exercise(identity, "\n\n\n".join(code), names or [identity], section, equations)


def _tests(identity: str, points: float, source: str) -> Tests:
    begin, end = HIDDEN_MARKS
    visible, _, hidden = source.partition(begin)
    hidden = hidden.partition(end)[0]
    mistakes = 0
    for call in _calls(visible, ("check",)):
        mistakes += sum(len(a.keys) for a in [*call.args, *(k.value for k in call.keywords)] if isinstance(a, ast.Dict))
    faults = [_words(node.msg) for node in ast.walk(ast.parse(visible)) if isinstance(node, ast.Assert) and node.msg]
    titles = [
        [_words(call.args[0]) for call in _calls(part, ("check", "emit")) if call.args] for part in (visible, hidden)
    ]
    return Tests(identity, points, _unique(titles[0]), _unique(titles[1]), _unique(faults), mistakes)


def _calls(source: str, names: Sequence[str]) -> list[ast.Call]:
    """Calls of these functions, in the order in which they stand."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _words(node: ast.expr) -> str:
    """The text of a string or f-string; what is filled in when it runs is an ellipsis."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _words(node.left) + _words(node.right)
    return "…"


def _unique(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip(" …")))


def _without(text: str, marks: tuple[str, str]) -> str:
    """The text without what stands between the marks, and without the marks."""
    begin, end = (re.escape(mark) for mark in marks)
    return re.sub(rf"(?ms)^[ \t]*{begin}[ \t]*$.*?^[ \t]*{end}[ \t]*$\n?", "", text)


# ---------------------------------------------------------------------------------------------------- writing Markdown


def read_source(root: Path) -> dict:
    """Read the hand-written part.

    Raises:
        BuildError: it is not TOML, lacks a part, or splits a question's points into parts that do not add up.
    """
    try:
        source = tomllib.loads((root / SOURCE).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BuildError(f"{SOURCE.as_posix()}: cannot be read as TOML: {error}") from error
    needed = {
        "questions": ("title", "introduction"),
        "discussion": ("title", "introduction", "questions"),
        "further": ("title", "text"),
        "rubric": ("title", "introduction", "manual", "parts"),
    }
    for part, entries in needed.items():
        for entry in entries:
            if entry not in source.get(part, {}):
                raise BuildError(f"{SOURCE.as_posix()}: [{part}] lacks {entry!r}")
    for question in source["discussion"]["questions"]:
        for entry in ("id", "title", "points", "text", "earns"):
            if entry not in question:
                raise BuildError(f"{SOURCE.as_posix()}: discussion question {question.get('id', '?')} lacks {entry!r}")
        _check_parts(f"discussion question {question['id']}", question["earns"], question["points"])
    return source


def _check_parts(where: str, parts: Sequence[dict], points: float) -> None:
    total = sum(part["points"] * part.get("times", 1) for part in parts)
    if abs(total - points) > 1e-9:
        raise BuildError(f"{SOURCE.as_posix()}: {where}: the parts add up to {total:g} points, it has {points:g}")


def questions_markdown(notebooks: Sequence[Notebook], source: dict) -> str:
    """The questions paper; no answer and no hidden test gets into it."""
    discussion = source["discussion"]["questions"]
    written = sum(question["points"] for question in discussion)
    rows, extra = [], []
    for notebook in notebooks:
        counts = [str(sum(isinstance(item, kind) for item in notebook.items)) for kind in (Exercise, Question)]
        points = f"{'+' if notebook.bonus else ''}{notebook.points:g}"
        place = extra if notebook.bonus else rows
        place.append([notebook.title, f"`{notebook.name}.ipynb`", *counts, points])
    rows.append([source["discussion"]["title"], "", "", str(len(discussion)), f"{written:g}"])
    total = sum(notebook.points for notebook in notebooks if not notebook.bonus) + written
    rows += [["**Total**", "", "", "", f"**{total:g}**"], *extra]
    blocks = [
        f"# {source['questions']['title']}",
        source["questions"]["introduction"],
        markdown_table(Table(["part", "file in `code/hw11/`", "exercises", "questions", "points"], rows, texts=(1,))),
        "# Part A · Notebooks",
    ]
    for notebook in notebooks:
        blocks.append(f"## {notebook.title} ({_notebook_points(notebook)})")
        printed: set[str] = set()
        exercises = questions = 0
        for item in notebook.items:
            if isinstance(item, Question):
                questions += 1
                title = f" · {item.title}" if item.title else ""
                blocks += [f"### Question {questions}{title} ({_points(item.points)})", item.text]
                continue
            exercises += 1
            names = ", ".join(f"`{name}`" for name in item.names)
            blocks.append(f"### Exercise {exercises} · {names} ({_points(item.points)})")
            for number in item.equations:
                formula = notebook.equations.get(number)
                if formula and formula not in printed:
                    printed.add(formula)
                    blocks.append(formula)
            blocks.append(f"```python\n{item.code}\n```")
            if item.section:
                blocks.append(f"The notebook's section “{item.section}” explains it and works an example by hand.")
    blocks += [f"# {source['discussion']['title']} ({_points(written)})", source["discussion"]["introduction"]]
    for number, question in enumerate(discussion, start=1):
        blocks += [f"## Discussion {number} · {question['title']} ({_points(question['points'])})", question["text"]]
    blocks += [f"# {source['further']['title']}", source["further"]["text"]]
    return _join(blocks)


def rubric_markdown(notebooks: Sequence[Notebook], source: dict) -> str:
    """The rubric.

    Raises:
        BuildError: the parts of a question do not add up to its points, or belong to no question of a notebook that is
            there.
    """
    discussion = source["discussion"]["questions"]
    rows, extra = [], []
    for notebook in notebooks:
        automatic = sum(item.points for item in notebook.items if isinstance(item, Exercise))
        numbers = (automatic, notebook.points - automatic, notebook.points)
        place, sign = (extra, "+") if notebook.bonus else (rows, "")
        place.append([notebook.title, *(f"{sign if number else ''}{number:g}" for number in numbers)])
    written = sum(question["points"] for question in discussion)
    rows.append([source["discussion"]["title"], "0", f"{written:g}", f"{written:g}"])
    total = [sum(float(row[column]) for row in rows) for column in (1, 2, 3)]
    rows += [["**Total**", *(f"**{number:g}**" for number in total)], *extra]
    blocks = [
        f"# {source['rubric']['title']}",
        source["rubric"]["introduction"],
        markdown_table(Table(["part", "automatic", "manual", "points"], rows)),
    ]
    split = _split_of_questions(notebooks, source)
    for notebook in notebooks:
        blocks += [f"## {notebook.title} ({_notebook_points(notebook)})", _cells_table(notebook)]
        exercises = questions = 0
        for item in notebook.items:
            if isinstance(item, Exercise):
                exercises += 1
                blocks += _exercise_rubric(exercises, item)
            else:
                questions += 1
                title = f" · {item.title}" if item.title else ""
                blocks.append(f"### Question {questions}{title} ({_points(item.points)}, by hand)")
                parts = split.get(f"{notebook.name}/{item.id}")
                if parts:
                    blocks.append(_parts_table(parts))
                blocks.append(f"Cell `{item.id}`; model answer in `answers/hw11/{notebook.name}.ipynb`.")
    blocks += [f"## {source['discussion']['title']} ({_points(written)}, by hand)"]
    for number, question in enumerate(discussion, start=1):
        blocks += [
            f"### Discussion {number} · {question['title']} ({_points(question['points'])})",
            _parts_table(question["earns"]),
        ]
    blocks.append(source["rubric"]["manual"])
    return _join(blocks)


def questions_without_split(notebooks: Sequence[Notebook], source: dict) -> list[str]:
    """``NOTEBOOK/CELL`` of every question whose points ``papers.toml`` does not split."""
    return [
        f"{notebook.name}/{item.id}"
        for notebook in notebooks
        for item in notebook.items
        if isinstance(item, Question) and f"{notebook.name}/{item.id}" not in source["rubric"]["parts"]
    ]


def _split_of_questions(notebooks: Sequence[Notebook], source: dict) -> dict[str, list[dict]]:
    there = {f"{n.name}/{item.id}": item for n in notebooks for item in n.items if isinstance(item, Question)}
    names = {notebook.name for notebook in notebooks}
    split = {}
    for key, entry in source["rubric"]["parts"].items():
        if key in there:
            _check_parts(key, entry["earns"], there[key].points)
            split[key] = entry["earns"]
        elif key.split("/")[0] in names:
            raise BuildError(f"{SOURCE.as_posix()}: [rubric.parts] names {key}, which is no question of that notebook")
    return split


def _exercise_rubric(number: int, exercise: Exercise) -> list[str]:
    names = ", ".join(f"`{name}`" for name in exercise.names)
    lines = []
    for cell in exercise.tests:
        lines.append(f"- `{cell.id}`, {_points(cell.points)}")
        knows = {0: "", 1: " (knows one mistake by name)"}.get(
            cell.mistakes, f" (knows {cell.mistakes} mistakes by name)"
        )
        parts = (
            (f"visible{knows}", cell.visible, "; "),
            ("visible, reported", cell.faults, " / "),
            ("hidden", cell.hidden, "; "),
        )
        for part, texts, separator in parts:
            words = _list(exercise, texts, separator)
            if words:
                lines.append(f"    - {part}: {words}")
    return [f"### Exercise {number} · {names} ({_points(exercise.points)}, automatic)", "\n".join(lines)]


def _cells_table(notebook: Notebook) -> str:
    rows = []
    exercises = questions = 0
    for item in notebook.items:
        if isinstance(item, Exercise):
            exercises += 1
            for cell in item.tests:
                rows.append([f"exercise {exercises}", f"`{cell.id}`", "automatic", f"{cell.points:g}"])
        else:
            questions += 1
            rows.append([f"question {questions}", f"`{item.id}`", "by hand", f"{item.points:g}"])
    return markdown_table(Table(["", "cell", "graded", "points"], rows, texts=(1, 2)))


def _parts_table(parts: Sequence[dict]) -> str:
    """One row per part."""
    lines = ["| part | points | earned by |", "| --- | ---: | --- |"]
    for part in parts:
        points = f"{part['times']} × {part['points']:g}" if "times" in part else f"{part['points']:g}"
        # \vert, because GitHub ends a table's cell at every | even inside a formula
        words = re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace("|", r"\vert "), part["earns"])
        lines.append(f"| {part['part']} | {points} | {words} |")
    return "\n".join(lines)


def _points(points: float) -> str:
    return f"{points:g} point" if points == 1 else f"{points:g} points"


def _notebook_points(notebook: Notebook) -> str:
    return _points(notebook.points) + (", a bonus" if notebook.bonus else "")


def _plain(text: str) -> str:
    """Words of a test's message as Markdown that shows them as they are, without a full stop."""
    return re.sub(r"([\\`*_$<>\[\]|~^@#])", r"\\\1", text.rstrip(" ."))


def _list(exercise: Exercise, texts: Sequence[str], separator: str) -> str:
    """Messages one after the other, without the function's name in front of each; empty if nothing is left."""
    names = "|".join(map(re.escape, exercise.names))
    short = [re.sub(rf"^(?:{names})(?:: |, | )", "", text) for text in texts]
    joined = separator.join(_plain(text) for text in _unique(short))
    return joined + ("" if joined.endswith(("?", "!", "…")) or not joined else ".")


def _join(blocks: Sequence[str]) -> str:
    text = "\n\n".join(block.strip("\n") for block in blocks) + "\n"
    return "\n".join(line.rstrip() for line in text.split("\n"))


# -------------------------------------------------------------------------------------------------------- writing PDFs

LAYOUT = r"""
#set page(paper: "a4", margin: (x: 2.1cm, top: 2cm, bottom: 2.2cm), footer: context [
  #set text(size: 8pt, fill: luma(110))
  #FOOTER #h(1fr) #counter(page).display("1 / 1", both: true)
])
#set text(font: "Libertinus Serif", size: 10.5pt, lang: "en")
#set par(justify: true, leading: 0.6em)
#show heading: set par(justify: false)
#show heading.where(level: 1): set text(size: 16pt)
#show heading.where(level: 2): set text(size: 13pt)
#show heading.where(level: 3): set text(size: 11pt)
#show heading: set block(above: 1.5em, below: 0.8em, sticky: true)
#set raw(theme: none)
#show raw: set text(font: "DejaVu Sans Mono")
#show raw.where(block: false): set text(size: 1.05em)
#show raw.where(block: true): set text(size: 7.5pt)
#show raw.where(block: true): it => block(
  width: 100%, fill: luma(246), inset: 7pt, radius: 3pt, stroke: 0.5pt + luma(220), breakable: false,
  {set par(justify: false, leading: 0.5em); it},
)
#show math.equation.where(block: true): it => block(width: 100%, sticky: true, breakable: false, layout(size => {
  let natural = measure(it).width
  align(center, if natural > size.width { scale(size.width / natural * 100%, reflow: true, it) } else { it })
}))
#show list: set block(breakable: false)
#show link: set text(fill: rgb("#0059a8"))
#set table(stroke: (x, y) => (bottom: 0.5pt + luma(200)), inset: (x: 6pt, y: 4pt))
#show table: set par(justify: false)
#show table.cell.where(y: 0): strong
#show figure.where(kind: table): set block(breakable: false)
#show figure: set align(left)
#let horizontalrule = line(length: 100%, stroke: 0.5pt + luma(180))
"""


def pdf(title: str, markdown: str) -> bytes:
    """Set a Markdown text with LaTeX formulas as an A4 document.

    Raises:
        ValueError: pandoc or typst is missing, or one of them cannot read the text.
    """
    return _set(title, markdown, format="pdf")


def pages(title: str, markdown: str, ppi: float = 80.0) -> list[bytes]:
    """The pages of the same document as PNG images, to look at.

    Raises:
        ValueError: as ``pdf``.
    """
    images = _set(title, markdown, format="png", ppi=ppi)
    return images if isinstance(images, list) else [images]


def _set(title: str, markdown: str, **options: object) -> bytes | list[bytes]:
    text = markdown
    try:
        import pypandoc
        import typst
    except ImportError as error:
        raise ValueError(
            f"the papers' PDFs need pandoc and typst, and {error.name} is not installed; "
            "run: pip install -r requirements.txt"
        ) from error
    # What pandoc drops (numbers of equations) or spaces badly.
    for pattern, instead in (
        (r"\\tag\{(\d+)\}", r"\\qquad\\qquad (\1)"),
        (r"\\big(?![a-zA-Z])|\\[;!]", " "),
        (r"\\square", r"\\Box"),
    ):
        text = re.sub(pattern, instead, text)
    reader = "markdown-implicit_figures-smart-citations-yaml_metadata_block"
    reader += "+lists_without_preceding_blankline+gfm_auto_identifiers"
    # One long line per paragraph: pandoc would give the columns of a table with longer lines fixed widths.
    settings = ["--columns=10000", "--wrap=none", "--fail-if-warnings"]
    try:
        body = pypandoc.convert_text(text, "typst", format=reader, extra_args=settings)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{title}: pandoc cannot turn the text into typst: {_last_line(error)}") from error
    body = body.replace("align(center)[#table(", "align(left)[#table(")
    body = re.sub(r"\b(dot|plus|minus|times)\.circle\b", r"\1.o", body)  # typst's own name since 0.14
    head = f"#set document(title: {json.dumps(title, ensure_ascii=False)}, date: none, "
    head += f'keywords: ("{_fingerprint(title, markdown)}",))\n{LAYOUT.replace("#FOOTER", title)}'
    try:
        return typst.compile((head + body).encode("utf-8"), ignore_system_fonts=True, **options)
    except typst.TypstError as error:
        raise ValueError(f"{title}: typst cannot set the text: {_last_line(error)}") from error


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _fingerprint(title: str, markdown: str) -> str:
    """What a PDF was made from, as 64 hexadecimal digits behind a word by which it can be found in the file."""
    return "made-from-" + hashlib.sha256("\0".join([title, LAYOUT, markdown]).encode("utf-8")).hexdigest()


# --------------------------------------------------------------------------------------------- bringing them up to date


def papers(root: Path) -> dict[str, tuple[str, str]]:
    """Name → (title, Markdown) of both papers, from the notebooks that are there; empty without ``papers.toml``.

    Raises:
        BuildError: a source breaks a rule; see ``read_notebook``, ``read_source``, ``rubric_markdown``.
    """
    if not (root / SOURCE).is_file():
        return {}  # a student's copy
    source, notebooks = read_source(root), read_notebooks(root)
    return {
        QUESTIONS: ("HW11 · Questions", questions_markdown(notebooks, source)),
        RUBRIC: ("HW11 · Rubric (for graders)", rubric_markdown(notebooks, source)),
    }


def out_of_step(root: Path) -> list[Path]:
    """The papers' files that are missing or not made from the present sources, relative to the repository.

    A Markdown file is compared byte by byte, a PDF by the fingerprint in it.

    Raises:
        BuildError: see ``papers``.
    """
    found = []
    for name, (title, markdown) in papers(root).items():
        path = root / FOLDER / f"{name}.md"
        if not path.is_file() or path.read_bytes() != markdown.encode("utf-8"):
            found.append(FOLDER / f"{name}.md")
        path = path.with_suffix(".pdf")
        if not path.is_file() or _fingerprint(title, markdown).encode("ascii") not in path.read_bytes():
            found.append(FOLDER / f"{name}.pdf")
    return found


def compile_papers(root: Path) -> list[Path]:
    """Write what ``out_of_step`` names; return it. Files that are right already are not touched.

    Raises:
        BuildError: see ``papers``; nothing is written.
        ValueError: a PDF has to be made and pandoc or typst is missing; nothing is written.
        OSError: a file cannot be written; what was there is kept.
    """
    texts, stale = papers(root), out_of_step(root)
    files = {}
    for path in stale:
        title, markdown = texts[path.stem]
        files[path] = markdown.encode("utf-8") if path.suffix == ".md" else pdf(title, markdown)
    for path, data in files.items():
        write_atomically(root / path, data)
    return stale

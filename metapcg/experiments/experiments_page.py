"""EXPERIMENTS.md: what was asked, how to repeat it, what was expected and what was measured.

Everything between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is written here, from the matrix and from the
committed reference results in ``reports/reference``; the text around it is written by people and stays.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from metapcg.learning.solutions import repository_root

from .documents import Table, markdown_table
from .matrix import Experiment, Matrix, NotebookExperiment, method_name
from .outputs import write_atomically
from .report import percent, plain_table, with_interval, write_report
from .results import variant
from .runs import RunSettings, method_label

OVERVIEW = "overview"
NOT_RUN = "not run yet"

Rows = Sequence[Mapping[str, str]]


def page_path() -> Path:
    """EXPERIMENTS.md of the repository."""
    return repository_root() / "EXPERIMENTS.md"


def reference_path() -> Path:
    """Folder of the committed reference results."""
    return repository_root() / "reports" / "reference"


def write_reference(output: Path, profile: str) -> Path:
    """Write the report of ``output``'s runs into the reference folder, with the notebooks' tables and figures.

    Returns:
        The reference report's path.
    """
    reference = reference_path()
    for kind, pattern in (("tables", "*.csv"), ("figures", "*.png")):
        for source in sorted((output / kind).glob(pattern)):
            if not source.name.startswith("report-"):
                (reference / kind).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, reference / kind / source.name)
    return write_report(reference, profile, runs_dir=output / "runs")


def update_page(matrix: Matrix) -> Path:
    """Rewrite the parts between the marks of EXPERIMENTS.md; returns its path.

    Raises:
        ValueError: an experiment has no marks in the file; says which.
    """
    path = page_path()
    write_atomically(path, render(path.read_text(encoding="utf-8"), matrix, reference_path()).encode())
    return path


def is_in_step(matrix: Matrix) -> bool:
    """Whether EXPERIMENTS.md is what ``update_page`` would write."""
    text = page_path().read_text(encoding="utf-8")
    return render(text, matrix, reference_path()) == text


def render(text: str, matrix: Matrix, reference: Path) -> str:
    """The page's text with everything between marks written anew."""
    results = {name: _read(reference / "tables" / f"report-{name}.csv") for name in ("adaptation", "splits", "runs")}
    tables = {item.table: _read(reference / "tables" / f"{item.table}.csv") for item in matrix.notebooks}
    parts = {OVERVIEW: _overview(matrix, results, tables)}
    parts.update({experiment.name: _section(experiment, results) for experiment in matrix.experiments})
    parts.update({item.name: _notebook_section(item, tables[item.table]) for item in matrix.notebooks})
    for name, body in parts.items():
        marks = re.compile(rf"(<!-- begin {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL)
        if not marks.search(text):
            raise ValueError(
                f"EXPERIMENTS.md has no part for {name}: add a line '<!-- begin {name} -->' and a line "
                f"'<!-- end {name} -->' where it belongs"
            )
        text = marks.sub(lambda found, body=body: f"{found[1]}\n{body}\n\n{found[2]}", text)
    return text


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _overview(matrix: Matrix, results: Mapping[str, Rows], tables: Mapping[str, Rows]) -> str:
    body = []
    for experiment in matrix.experiments:
        runs = _runs_of(experiment, results["runs"])
        body.append(
            [
                f"[{experiment.name}](#{experiment.name})",
                experiment.question,
                f"`{_command(experiment, runs)}`",
                experiment.expected,
                _measured(experiment, results["adaptation"]),
                f"`{runs[0]['folder']}`" + (f" and {len(runs) - 1} more" if len(runs) > 1 else "") if runs else "–",
            ]
        )
    for item in matrix.notebooks:
        measured = f"[table](#{item.name})" if tables[item.table] else NOT_RUN
        name = f"[{item.name}](#{item.name})"
        body.append([name, item.question, f"`{item.command}`", item.expected, measured, f"`tables/{item.table}.csv`"])
    columns = ["experiment", "question", "command", "expected", "measured", "from"]
    return markdown_table(Table(columns, body, texts=range(len(columns))))


def _command(experiment: Experiment, runs: Rows) -> str:
    profile = runs[0]["profile"] if runs else "full"
    return f"python -m metapcg experiments run --profile {profile} --only {experiment.name}/"


def _measured(experiment: Experiment, rows: Rows) -> str:
    texts = []
    for method, split, step in experiment.headline:
        for setting in _settings_of(experiment, rows):
            if setting["name"] != method or setting["variant"]:
                continue
            for row in setting["rows"]:
                if row["split"] == split and int(row["step"]) == step:
                    value = percent(row) if row["share"] else with_interval(row)
                    where = "" if _single_place(experiment) else f" {row['game']}-{row['representation']}"
                    texts.append(f"{row['method']}{where}, step {step}: {value}")
    return "; ".join(texts) or NOT_RUN


def _single_place(experiment: Experiment) -> bool:
    return len(experiment.games) * len(experiment.representations) * len(experiment.families) == 1


def _settings_of(experiment: Experiment, rows: Rows) -> list[dict]:
    """The experiment's settings for which there are results, with their rows of a table."""
    profiles = {row["profile"] for row in rows}
    found: dict[tuple, dict] = {}
    for profile in sorted(profiles):
        for settings in experiment.runs(profile):
            key = _key(settings)
            if key in found:
                continue
            matching = [row for row in rows if _row_key(row) == key]
            if matching:
                found[key] = {"name": method_name(settings), "variant": variant(settings), "rows": matching}
    return list(found.values())


def _key(settings: RunSettings) -> tuple[str, ...]:
    where = (settings.profile, settings.family, settings.game, settings.representation)
    return (*where, method_label(settings), variant(settings))


def _row_key(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("profile", "family", "game", "representation", "method", "variant"))


def _runs_of(experiment: Experiment, rows: Rows) -> Rows:
    keys = {_key(settings) for profile in {row["profile"] for row in rows} for settings in experiment.runs(profile)}
    return [row for row in rows if _row_key(row) in keys]


def _section(experiment: Experiment, results: Mapping[str, Rows]) -> str:
    runs = _runs_of(experiment, results["runs"])
    lines = [
        f"**Question.** {experiment.question}",
        f"**Command.** `{_command(experiment, runs)}`, then `python -m metapcg experiments report`. "
        f"Figure: `{experiment.figure}`.",
        f"**Expected.** {experiment.expected}",
    ]
    settings = _settings_of(experiment, results["splits"])
    if not settings:
        return "\n\n".join([*lines, f"**Measured.** {NOT_RUN[0].upper()}{NOT_RUN[1:]}."])
    table = _result_table(experiment, settings)
    folders = ", ".join(f"`{row['folder']}`" for row in runs)
    count = {row["seed"] for row in runs}
    lines.append(f"**Measured.** {len(runs)} runs, {len(count)} seed{'s' if len(count) > 1 else ''}.")
    lines.append(table)
    lines.append(f"<details><summary>Run folders</summary>\n\n{folders}\n\n</details>")
    return "\n\n".join(lines)


def _result_table(experiment: Experiment, settings: Sequence[dict]) -> str:
    splits = [s for s in experiment.splits if any(row["split"] == s for item in settings for row in item["rows"])]
    body = []
    for item in settings:
        first = item["rows"][0]
        by_split = {row["split"]: row for row in item["rows"]}
        cells = []
        for split in splits:
            row = by_split.get(split)
            if row is None or row["return"] == "":
                cells.append("–")
                continue
            flag = " ≈ random" if row["equals_random"] == "yes" else ""
            share = f", {percent(row)}" if row["share"] and item["name"] not in ("oracle", "random") else ""
            cells.append(f"{with_interval(row)}{share}{flag}")
        place = [] if _single_place(experiment) else [f"{first['family']}, {first['game']}-{first['representation']}"]
        body.append([first["method"], *place, item["variant"] or "–", first["seeds"], *cells])
    columns = ["method", *([] if _single_place(experiment) else ["trained on"]), "changed", "seeds", *splits]
    caption = (
        "Return after the last adaptation step [95 % interval], share of the oracle's lead over random [interval]."
    )
    return markdown_table(Table(columns, body, caption, texts=range(len(columns))))


def _notebook_section(item: NotebookExperiment, rows: Rows) -> str:
    lines = [
        f"**Question.** {item.question}",
        f"**Command.** `{item.command}`. Figure: `{item.figure}`.",
        f"**Expected.** {item.expected}",
    ]
    if not rows:
        return "\n\n".join([*lines, f"**Measured.** {NOT_RUN[0].upper()}{NOT_RUN[1:]}."])
    return "\n\n".join([*lines, f"**Measured.** From `tables/{item.table}.csv`.", markdown_table(plain_table(rows))])

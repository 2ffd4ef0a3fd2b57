"""The report of a folder of results: ``report.html`` (one page, no network) and ``report.md``, from whatever is there.

Read are the run folders below ``runs/``, the notebooks' ``tables/`` and ``figures/`` and the record ``run.json``. The
report's own figures and tables are ``figures/report-*.png`` and ``tables/report-*.csv``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metapcg.tasks.splits import EXTRAPOLATION, HELD_OUT_GAME, HELD_OUT_REPRESENTATION, INTERPOLATION, SPLITS

from . import figures
from .algorithms import ALGORITHMS
from .documents import Block, Bullets, Fold, Heading, Paragraph, Picture, Table, to_html, to_markdown
from .outputs import FIGURE_DPI, write_atomically
from .profiles import PROFILES
from .results import (
    adaptation_table,
    cost_table,
    gap_table,
    load_results,
    runs_table,
    select,
    split_table,
    takes_gradient_steps,
    variant,
)
from .runs import RunResult

MINUS = "\N{MINUS SIGN}"
_FAMILIES = {
    "direction": "**direction** asks for more or less of the level's statistics, in proportions that the agent is not "
    "told (a hidden direction φ). Without adapting, nobody earns more than 0 on average here: for every task there "
    "is the "
    "opposite one.",
    "weights": "**weights** varies positive reward weights by ± 20 %. One good policy does nearly as well here as an "
    "adapted one: expect little from adaptation.",
    "target": "**target** asks for a hidden value of one statistic.",
}


@dataclass(frozen=True)
class _Group:
    """Runs of one family, game and representation under the budget's own settings, and runs with settings changed."""

    family: str
    game: str
    representation: str
    main: list[RunResult]
    varied: list[RunResult]

    @property
    def title(self) -> str:
        return f"{self.family}, {self.game}-{self.representation}"

    @property
    def slug(self) -> str:
        return f"{self.family}-{self.game}-{self.representation}"


def write_report(reports_dir: Path | str, profile: str | None = None, runs_dir: Path | None = None) -> Path:
    """Write ``report.html`` and ``report.md`` for a folder of results; returns the page's path.

    Args:
        reports_dir: the folder of results.
        profile: report these runs; None: the profile of the last notebook run, else the most thorough one that has
            runs.
        runs_dir: where the run folders lie; None: ``runs/`` in ``reports_dir``.

    Raises:
        OSError: the folder cannot be written; the earlier report is kept.
    """
    folder = Path(reports_dir)
    runs_dir = runs_dir or folder / "runs"
    runs, problems = load_results(runs_dir)
    problems = [problem.replace(f"{runs_dir.parent}/", "") for problem in problems]  # a page names no machine's folders
    record = _read_record(folder)
    profile = profile or _profile(record, runs)
    runs = [run for run in runs if run.settings.profile == profile]
    groups = _groups(runs)
    splits, steps, gaps = split_table(runs), adaptation_table(runs), gap_table(runs)
    own = _write_tables(folder, {"splits": splits, "adaptation": steps, "gap": gaps, "runs": runs_table(runs)})

    blocks: list[Block] = [Heading(1, "Meta-learning on level design: what came out"), _introduction(profile, runs)]
    blocks += _summary(groups, splits, steps)
    blocks += _reading()
    for group in groups:
        section, written = _group_section(folder, group, splits, steps, gaps)
        blocks += section
        own |= written
    section, written = _families(folder, groups, steps)
    blocks += section
    own |= written
    blocks += _navigation(folder)
    blocks += _enumeration(folder)
    blocks += _notebook_figures(folder)
    blocks += _missing(folder, groups, problems, record)
    blocks += _provenance(runs, record, profile)
    _remove_stale(folder, own)
    write_atomically(folder / "report.md", to_markdown(blocks, folder).encode())
    write_atomically(folder / "report.html", to_html(blocks[0].text, blocks).encode())
    return folder / "report.html"


# ------------------------------------------------------------------------------------------------------ gathering


def _read_record(folder: Path) -> dict[str, Any]:
    """``run.json`` of the notebook runner; empty when there is none that can be read."""
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return record if isinstance(record.get("notebooks"), list) else {}
    except (OSError, ValueError, AttributeError):
        return {}


def _profile(record: Mapping[str, Any], runs: Sequence[RunResult]) -> str:
    entries = [entry for entry in record.get("notebooks", ()) if entry.get("profile") in PROFILES]
    if entries:
        return max(entries, key=lambda entry: entry.get("finished", ""))["profile"]
    found = {run.settings.profile for run in runs}
    return next((profile for profile in reversed(PROFILES) if profile in found), "quick")


def _groups(runs: Sequence[RunResult]) -> list[_Group]:
    groups: dict[tuple[str, str, str], _Group] = {}
    for run in runs:
        s = run.settings
        key = (s.family, s.game, s.representation)
        group = groups.setdefault(key, _Group(*key, [], []))
        (group.varied if variant(s) else group.main).append(run)
    families = {"direction": 0, "target": 1, "weights": 2}
    return sorted(groups.values(), key=lambda g: (families[g.family], g.game, g.representation))


def _of(rows: Sequence[Mapping[str, Any]], group: _Group, **wanted: Any) -> list[Mapping[str, Any]]:
    wanted = {"family": group.family, "game": group.game, "representation": group.representation, **wanted}
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


# ----------------------------------------------------------------------------------------------------------- text


def number(value: float | str, digits: int = 2) -> str:
    """A number for readers: fixed digits, a true minus sign, an en dash for nothing."""
    if value == "":
        return "–"
    text = f"{float(value):.{digits}f}"
    return MINUS + text[1:] if text.startswith("-") else text


def with_interval(row: Mapping[str, Any], name: str = "return", low: str = "low", high: str = "high") -> str:
    """``7.07 [6.71, 7.45]``."""
    if row[name] == "":
        return "–"
    return f"{number(row[name])} [{number(row[low])}, {number(row[high])}]"


def percent(row: Mapping[str, Any]) -> str:
    """``83 % [78, 89]``: the share of the oracle's lead."""
    if row["share"] == "":
        return "–"
    values = [number(100 * float(row[name]), 0) for name in ("share", "share_low", "share_high")]
    return f"{values[0]} % [{values[1]}, {values[2]}]"


def _introduction(profile: str, runs: Sequence[RunResult]) -> Paragraph:
    seeds = len({run.settings.seed for run in runs})
    what = (
        f"Profile **{profile}**: {len(runs)} training and evaluation runs, {seeds} seed{'s' if seeds != 1 else ''}."
        if runs
        else f"Profile **{profile}**; no runs yet."
    )
    warning = {
        "smoke": " Smoke shows that everything executes; nothing has learned, so read no meaning into its numbers.",
        "quick": " Quick trains for real, but briefly.",
        "full": "",
    }[profile]
    if seeds == 1 and profile != "smoke":
        warning += " With one seed, intervals are over tasks only; they say nothing about another training."
    return Paragraph(what + warning, "lead")


def _summary(groups: Sequence[_Group], splits: Sequence[Mapping], steps: Sequence[Mapping]) -> list[Block]:
    statements = []
    for group in groups:
        for name in ("maml", "rl2", "pearl"):
            label = ALGORITHMS[name].label if name in ALGORITHMS else ""
            for row in _of(steps, group, method=label, split=INTERPOLATION, step=1, variant=""):
                statements.append(
                    _statement(group, row, _of(splits, group, method=label, split=INTERPOLATION, variant="")[0])
                )
    flags = _flags(splits)
    blocks: list[Block] = [Heading(2, "In short")]
    blocks.append(
        Bullets(statements)
        if statements
        else Paragraph("There are no runs of MAML, RL² or PEARL on interpolation tasks yet.")
    )
    if flags:
        blocks.append(
            Paragraph(
                "**Equals random.** The following results cannot be told from a policy that acts at random (the "
                "interval of "
                "the difference includes 0). Do not read an effect into them:",
                "note",
            )
        )
        blocks.append(Bullets(flags))
    elif any(row["equals_random"] for row in splits):
        blocks.append(Paragraph("Every result differs from a random policy's by more than its interval."))
    return blocks


def _statement(group: _Group, first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """What a method earns after its first and after its last step on new tasks."""
    unit = ("adaptation step", "steps") if takes_gradient_steps(first) else ("own episode", "episodes")
    text = f"**{group.title}**: after one {unit[0]} on new tasks, {first['method']} earns "
    text += f"{with_interval(first)} per episode"
    if first["share"] != "":
        text += f", {percent(first)} of the oracle's lead over a random policy"
    if last["step"] != 1:
        text += f"; after {last['step']} {unit[1]} {with_interval(last)}"
        text += f", {percent(last)}" if last["share"] != "" else ""
    return text + "."


def _flags(splits: Sequence[Mapping[str, Any]]) -> list[str]:
    where: dict[tuple[str, str], list[str]] = {}
    for row in splits:
        if row["equals_random"] == "yes":
            method = row["method"] + (f" ({row['variant']})" if row["variant"] else "")
            place = f"{row['family']}, {row['game']}-{row['representation']}"
            where.setdefault((place, method), []).append(row["split"])
    return [f"{place}: {method} on {', '.join(found)}" for (place, method), found in where.items()]


def _reading() -> list[Block]:
    return [
        Fold(
            "How to read this page",
            [
                Bullets(
                    [
                        "**Return** is the sum of rewards of an episode, averaged over episodes, tasks and seeds. "
                        "**Step k** is "
                        "the return after k adaptation steps; step 0 is before any adaptation. The episodes that "
                        "measure a "
                        "step were not used to get there.",
                        "**[low, high]** is a 95 % bootstrap interval over tasks, and over seeds where there are "
                        "several.",
                        "**Share of the oracle** is (R − random) / (oracle − random): 0 % is a policy that acts at "
                        "random, "
                        "100 % one that was trained with the task told to it. A dash: there is no oracle on these "
                        "tasks.",
                        "**Splits**: train, tasks like those trained on; interpolation, new tasks inside the "
                        "training range; "
                        "extrapolation, from a part of the range never trained on; held-out representation and game, "
                        "the same kind of task with another way of editing, or in another game. They are never pooled.",
                        "**MAML** and **FOMAML** adapt by gradient steps from a meta-trained start; **pretrained** "
                        "starts from one policy trained on all tasks, **random init** from an untrained one; these two "
                        "use the step size that does best on training tasks. **RL²** adapts within the memory of a "
                        "recurrent policy, **PEARL** by its posterior over a latent task. They take no gradient steps "
                        "on a new task: step k of theirs is after k episodes of it, so compare by episodes.",
                    ]
                )
            ],
        )
    ]


def _group_section(
    folder: Path, group: _Group, splits: Sequence[Mapping], steps: Sequence[Mapping], gaps: Sequence[Mapping]
) -> tuple[list[Block], set[Path]]:
    blocks: list[Block] = [Heading(2, group.title[0].upper() + group.title[1:]), Paragraph(_FAMILIES[group.family])]
    written: set[Path] = set()
    made = figures.figures_for(group.main) if group.main else {}

    def picture(name: str, caption: str) -> list[Block]:
        if name not in made:
            return []
        path = folder / "figures" / f"report-{group.slug}-{name}.png"
        _write_figure(path, made[name])
        written.add(path)
        return [Picture(path, caption)]

    main = _of(splits, group, variant="")
    if main:
        blocks.append(Heading(3, f"Adaptation, step by step: {group.title}"))
        blocks += picture(
            "comparison",
            "Return on new tasks inside the training range, by episodes of the task and by gradient steps on it. Bands "
            "are 95 % intervals. What matters is how soon a curve gets from the grey line to the black one. Methods "
            "that adapt by gradient steps have no point between their steps: they wait until their episodes are "
            "complete.",
        )
        blocks.append(_step_table(_of(steps, group, variant="", split=INTERPOLATION)))
        blocks += picture(
            "by-direction",
            "The same by hidden direction φ. A method that adapts is good all around the circle; one that does not "
            "is good on "
            "one side and as bad on the other.",
        )
        blocks.append(Heading(3, f"All splits: {group.title}"))
        blocks += picture(
            "share",
            "Return after the last step as a share of the oracle's lead over random. On extrapolation and on the "
            "held-out "
            "representation the oracle, too, is outside its training, so 100 % is no ceiling there: read the raw "
            "returns.",
        )
        blocks.append(_split_table(main, "return"))
        blocks.append(_split_table(main, "share"))
        notes = _split_notes(main)
        if notes:
            blocks.append(Bullets(notes))
        gap = [row for row in _of(gaps, group, variant="") if row["split"] != HELD_OUT_GAME]
        if gap:
            blocks.append(Heading(3, f"Meta-train against meta-test: {group.title}"))
            blocks += picture("gap", "Return on training tasks minus return on a test split. 0: nothing is lost.")
            blocks.append(
                Paragraph(
                    "The return on training tasks minus that on a test split, after the last step. Positive: worse "
                    "on the test "
                    "split. An interval around 0 on interpolation means that nothing was memorised. (Another game's "
                    "returns "
                    "have another scale, so that split is left out here.)"
                )
            )
            blocks.append(_gap_table(gap))
        blocks.append(Heading(3, f"What it cost: {group.title}"))
        blocks += picture(
            "cost",
            "Return on new tasks after the last step against what training cost. Methods trained on equally many steps "
            "stand beside each other. Seconds are of the machine that ran it, whatever else it did.",
        )
        blocks.append(_cost_table(cost_table(group.main)))
        blocks += picture("training", "Training: return by environment steps, one thin line per seed.")
        gallery = picture(
            "levels-maml",
            "Levels before and after adaptation, MAML: every column starts from one level; what is asked for stands "
            "above it.",
        )
        blocks += gallery
        others: list[Block] = []
        for name in made:
            if name.startswith("adaptation-"):
                others += picture(name, f"Adaptation on {name.removeprefix('adaptation-')} tasks.")
            elif name.startswith("levels-") and name != "levels-maml":
                others += picture(name, f"Levels before and after adaptation: {name.removeprefix('levels-')}.")
        if others:
            blocks.append(Fold("More figures: the other splits, the other methods' levels", others))
    varied = _of(splits, group)
    varied = [row for row in varied if row["variant"] and row["split"] == INTERPOLATION]
    drawable = figures.has_variations(_of(steps, group))
    if varied or drawable:
        blocks.append(Heading(3, f"Variations: {group.title}"))
    if drawable:
        path = folder / "figures" / f"report-{group.slug}-variations.png"
        _write_figure(path, figures.variations(_of(steps, group)))
        written.add(path)
        caption = (
            "Changing one setting at a time. Dotted: training tasks; solid: new tasks. Of RL² and PEARL, a step is an "
            "episode."
        )
        blocks.append(Picture(path, caption))
    if varied:
        blocks.append(_variation_table(varied, [row for row in main if row["split"] == INTERPOLATION]))
    return blocks, written


def _step_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    last = max(int(row["step"]) for row in rows) if rows else 0
    cells: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault(row["method"], {})[int(row["step"])] = row
    body = []
    for method, found in cells.items():
        fixed = len(found) == 1
        per_step = "–" if fixed else str(found[1]["episodes"] - found[0]["episodes"])
        body.append(
            [
                method,
                per_step,
                *(("" if fixed and k else with_interval(found[k])) for k in range(last + 1) if fixed or k in found),
            ]
        )
    body = [row + [""] * (last + 3 - len(row)) for row in body]
    columns = ["method", "episodes per step", *(f"step {k}" for k in range(last + 1))]
    caption = (
        "Return on interpolation tasks, with 95 % intervals. Oracle and random do not adapt; RL² and PEARL take no "
    )
    return Table(columns, body, caption + "gradient steps, a step of theirs is an episode.")


def _cost_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    body = [
        [
            row["method"],
            f"{row['env_steps']:,.0f}".replace(",", " "),
            number(row["seconds"], 0),
            str(row["episodes"]),
            str(row["gradient_steps"]),
            with_interval(row),
            percent(row),
        ]
        for row in rows
        if row["method"] != "random"
    ]
    columns = ["method", "training steps", "training s", "episodes of a task", "gradient steps", "return", "share"]
    return Table(columns, body, "Interpolation tasks, after the last adaptation step; means over seeds.")


def _families(folder: Path, groups: Sequence[_Group], steps: Sequence[Mapping]) -> tuple[list[Block], set[Path]]:
    """The family in which adaptation must pay beside the one in which it need not, where both were run."""
    blocks: list[Block] = []
    written: set[Path] = set()
    for group in groups:
        rows = select(steps, game=group.game, representation=group.representation, variant="", split=INTERPOLATION)
        methods = {row["family"] for row in rows if row["method"] not in ("oracle", "random")}
        if group.family != "direction" or not {"direction", "weights"} <= methods:
            continue
        path = folder / "figures" / f"report-families-{group.game}-{group.representation}.png"
        _write_figure(path, figures.families(rows))
        written.add(path)
        caption = "Share of the oracle's lead, both families on one scale. On the right one policy does for all tasks."
        blocks += [Heading(2, f"Where adapting pays: {group.game}-{group.representation}"), Picture(path, caption)]
        methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name not in ("oracle", "random")]
        body = []
        for name in methods:
            cells = []
            for family in ("direction", "weights"):
                found = select(rows, family=family, method=name)
                cells += [percent(found[0]), percent(found[-1])] if found else ["–", "–"]
            body.append([name, *cells])
        columns = ["method", "direction, before", "direction, after", "weights, before", "weights, after"]
        blocks.append(Table(columns, body, "Share of the oracle's lead before adapting and after the last step."))
    return blocks, written


def _split_table(rows: Sequence[Mapping[str, Any]], what: str) -> Table:
    shown = [split for split in SPLITS if any(row["split"] == split for row in rows)]
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        text = with_interval(row) if what == "return" else percent(row)
        if row["equals_random"] == "yes" and text != "–":
            text += " ≈"
        cells.setdefault(row["method"], {})[row["split"]] = text
    if what == "share":
        cells = {method: found for method, found in cells.items() if method not in ("oracle", "random")}
    body = [[method, *(found.get(split, "–") for split in shown)] for method, found in cells.items()]
    captions = {
        "return": "Return after the last adaptation step. ≈: cannot be told from random.",
        "share": "The same as a share of the oracle's lead over random.",
    }
    return Table(["method", *(_SPLIT_WORDS.get(split, split) for split in shown)], body, captions[what])


_SPLIT_WORDS = {HELD_OUT_REPRESENTATION: "held-out representation", HELD_OUT_GAME: "held-out game"}


def _split_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    notes: dict[str, str] = {}
    if any(row["split"] == EXTRAPOLATION and row["share"] != "" for row in rows):
        notes[EXTRAPOLATION] = (
            "extrapolation: the oracle was not trained on these tasks either, so 100 % is no ceiling."
        )
    for row in rows:
        split = _SPLIT_WORDS.get(row["split"], row["split"])
        if row["method"] == "oracle" and row["return"] == "":
            notes[split] = f"{split}: no share, because the oracle is left out; {row['note']}."
        elif row["note"] and row["method"] not in ("oracle", "random"):
            notes.setdefault(split, f"{split}: {row['note']}.")
    return list(notes.values())


def _gap_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = [split for split in SPLITS if any(row["split"] == split for row in rows)]
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["method"] not in ("random", "oracle"):
            found = cells.setdefault(row["method"], {"train": number(row["train"])})
            found[row["split"]] = with_interval(row, "gap")
    body = [[method, found["train"], *(found.get(split, "–") for split in shown)] for method, found in cells.items()]
    return Table(["method", "return on train", *(f"gap to {_SPLIT_WORDS.get(s, s)}" for s in shown)], body)


def _variation_table(rows: Sequence[Mapping[str, Any]], usual: Sequence[Mapping[str, Any]]) -> Table:
    methods = {row["method"] for row in rows}
    body = [
        [row["method"], row["variant"] or "as in the tables above", str(row["seeds"]), with_interval(row), percent(row)]
        for row in sorted([*usual, *rows], key=lambda r: (r["method"], r["variant"]))
        if row["method"] in methods
    ]
    columns = ["method", "changed", "seeds", "return", "share of the oracle"]
    return Table(columns, body, "Interpolation tasks, after the last adaptation step.", texts=(1,))


# --------------------------------------------------------------------------------------------- other known answers


def _navigation(folder: Path) -> list[Block]:
    rows = _read_table(folder, "navigation")
    if not rows:
        return []
    return [
        Heading(2, "2-D navigation"),
        Paragraph(
            "Finn et al.'s problem, on the authors' own 40 test goals. A perfect controller earns −0.54 and standing "
            "still −40; the "
            "authors' MAML reaches −3.3 after two adaptation steps."
        ),
        _navigation_table(rows),
        *_pictures(folder, "navigation"),
    ]


def _navigation_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """One row per method and one per published result, one column per adaptation step."""
    if not {"method", "step", "return", "interval", "published"} <= set(rows[0]):
        return plain_table(rows)
    steps = sorted({int(row["step"]) for row in rows})
    body = []
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {int(row["step"]): row for row in rows if row["method"] == method}
        ours = [f"{number(found[k]['return'])} ± {number(found[k]['interval'])}" if k in found else "" for k in steps]
        theirs = [number(found[k]["published"]) if k in found and found[k]["published"] else "" for k in steps]
        body += [[method, *ours], [f"{method}, published", *theirs]]
    return Table(["method", *(f"step {k}" for k in steps)], body, "Return, with 95 % intervals over the goals.")


def _enumeration(folder: Path) -> list[Block]:
    rows = _read_table(folder, "meta_gradient_error")
    if not rows:
        return []
    return [
        Heading(2, "The meta-gradient without sampling noise"),
        Paragraph(
            "Median relative error of the meta-gradient over random two-state MDPs, every trajectory enumerated, for "
            "the inner step "
            "size α. DiCE is exact; naive second order is worse than leaving the second order out."
        ),
        plain_table(rows),
        *_pictures(folder, "meta_gradient"),
    ]


def plain_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """A CSV table as it is, with readable numbers."""
    columns = list(rows[0])
    texts = [i for i, name in enumerate(columns) if any(not _is_number(row[name]) for row in rows)]
    body = [[_tidy(row[name]) for name in columns] for row in rows]
    return Table(columns, body, texts=texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def _tidy(text: str) -> str:
    if not _is_number(text) or text == "" or text.lstrip("-").isdigit():
        return text.replace("-", MINUS, 1) if text.startswith("-") and _is_number(text) else text
    value = float(text)
    shown = f"{value:.2e}" if value and abs(value) < 1e-3 else f"{value:.3f}".rstrip("0").rstrip(".")
    return shown.replace("-", MINUS, 1) if shown.startswith("-") else shown


def _read_table(folder: Path, name: str) -> list[dict[str, str]]:
    path = folder / "tables" / f"{name}.csv"
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]


def _pictures(folder: Path, part: str) -> list[Block]:
    found = [path for path in sorted((folder / "figures").glob("*.png")) if part in path.stem]
    return [Picture(path, _words(path.stem)) for path in found if not path.stem.startswith("report-")]


_CAPTIONS = {
    "maml_navigation": "Return by adaptation step here and as published, and MAML's training.",
    "maml_meta_gradient_error": "Error of the meta-gradient by inner step size.",
}


def _words(stem: str) -> str:
    return _CAPTIONS.get(stem, stem.replace("_", " ").replace("-", " ")) + " (From the notebook.)"


_SHOWN_ABOVE = ("report-",)
_IN_SECTIONS = ("navigation", "meta_gradient")


def _notebook_figures(folder: Path) -> list[Block]:
    paths = [
        path
        for path in sorted((folder / "figures").glob("*.png"))
        if not path.stem.startswith(_SHOWN_ABOVE) and not any(part in path.stem for part in _IN_SECTIONS)
    ]
    pages = sorted((folder / "notebooks").glob("*.html"))
    if not paths and not pages:
        return []
    blocks: list[Block] = [Heading(2, "From the notebooks")]
    if pages:
        links = ", ".join(f"[{path.stem}](notebooks/{path.name})" for path in pages)
        blocks.append(Paragraph(f"The executed notebooks, with the text that reads each figure: {links}."))
    if paths:
        blocks.append(Fold(f"{len(paths)} figures", [Picture(path, _words(path.stem)) for path in paths]))
    return blocks


# ------------------------------------------------------------------------------------------ missing and provenance


def _missing(folder: Path, groups: Sequence[_Group], problems: Sequence[str], record: Mapping[str, Any]) -> list[Block]:
    lines = []
    if not groups:
        lines.append("No complete runs in `runs/`: execute the notebooks, or `python -m metapcg experiments run`.")
    for group in groups:
        have = {run.settings.algorithm for run in group.main}
        lacking = [name for name in ALGORITHMS if name not in have]
        if lacking and group.main:
            lines.append(f"{group.title}: no run of {', '.join(lacking)}.")
    if not _read_table(folder, "navigation"):
        lines.append("No 2-D navigation table (`tables/navigation.csv`, written by the MAML notebook).")
    if not _read_table(folder, "meta_gradient_error"):
        lines.append(
            "No table of enumerated meta-gradients (`tables/meta_gradient_error.csv`, written by the MAML notebook)."
        )
    for entry in record.get("notebooks", ()):
        if entry.get("status") != "ok":
            lines.append(
                f"Notebook {entry.get('name')} failed in cell {entry.get('cell') or '?'}: {entry.get('error')}"
            )
    lines += [f"Not used: {problem}" for problem in problems]
    return [Heading(2, "What is missing"), Bullets(lines) if lines else Paragraph("Nothing.")]


def _provenance(runs: Sequence[RunResult], record: Mapping[str, Any], profile: str) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Where these numbers come from")]
    entries = record.get("notebooks", ())
    if entries:
        body = [
            [
                str(entry.get("name")),
                str(entry.get("status")),
                str(entry.get("profile")),
                number(entry.get("seconds", ""), 0),
                str(entry.get("finished")),
            ]
            for entry in entries
        ]
        blocks.append(Table(["notebook", "status", "profile", "seconds", "finished (UTC)"], body, texts=(1, 2, 4)))
    versions = sorted({" · ".join(f"{k} {v}" for k, v in run.provenance["versions"].items()) for run in runs})
    machines = sorted(
        {
            f"{m['system']} {m['processor']}, {m['cores']} cores, networks on {m['device']}"
            for m in (run.provenance["machine"] for run in runs)
        }
    )
    items = [f"Profile: {profile}"]
    items += [f"Versions: {text}" for text in versions] + [f"Machine: {text}" for text in machines]
    if len(versions) > 1:
        items.append("The runs were made with different versions: numbers may differ slightly because of that.")
    blocks.append(Bullets(items))
    if runs:
        body = [
            [
                f"`runs/{run.settings.profile}/{run.folder.name}`"
                if run.folder.parent.name == profile
                else run.folder.name,
                run.label,
                str(run.settings.seed),
                str(run.settings.iterations),
                f"{int(run.history[-1]['env_steps']):,}".replace(",", " ") if run.history else "0",
                number(run.timing["train_seconds"], 1),
                number(run.timing["evaluate_seconds"], 1),
                variant(run.settings),
            ]
            for run in runs
        ]
        columns = ["folder", "method", "seed", "iterations", "training steps", "train s", "evaluate s", "changed"]
        blocks.append(Fold(f"{len(runs)} run folders", [Table(columns, body, texts=(1, 7))]))
    return blocks


# ---------------------------------------------------------------------------------------------------------- files


def _write_figure(path: Path, figure: Any) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=FIGURE_DPI, bbox_inches="tight", metadata={"Software": None})
    write_atomically(path, buffer.getvalue())


def _write_tables(folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> set[Path]:
    written = set()
    for name, rows in tables.items():
        if not rows:
            continue
        path = folder / "tables" / f"report-{name}.csv"
        write_atomically(path, table_csv(rows))
        written.add(path)
    return written


def table_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as CSV, floats with nine significant digits."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.9g}" if isinstance(v, float) else v for k, v in row.items()})
    return buffer.getvalue().encode()


def _remove_stale(folder: Path, own: set[Path]) -> None:
    for path in (*(folder / "figures").glob("report-*.png"), *(folder / "tables").glob("report-*.csv")):
        if path not in own:
            path.unlink()

"""``python -m metapcg grade | release | check | submit``: what the command line does."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from metapcg.learning.solutions import repository_root


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add the four commands to the parser."""
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("folder", type=Path, help="one zip, folder or notebook per submission, as an LMS gives them")
    grade.add_argument("--output", type=Path, help="the class's folder (default: HW11_CLASS, else FOLDER-graded)")
    grade.add_argument(
        "--due",
        metavar="'YYYY-MM-DD HH:MM'",
        help="later submissions are marked late; kept for later calls ('none' forgets it)",
    )
    grade.add_argument(
        "--student-pattern", metavar="REGEX", help="finds (?P<student>…) in names; default: Moodle, Canvas, whole name"
    )
    grade.add_argument("--only", action="append", default=[], metavar="NOTEBOOK", help="only this notebook; repeatable")
    grade.add_argument("--workers", type=_positive, metavar="N", help="processes (default: the cores)")
    grade.add_argument("--dask", metavar="ADDRESS", help="use the dask scheduler there, e.g. tcp://host:8786")
    grade.add_argument("--unsafe-no-sandbox", action="store_true", help="run submitted code unprotected")
    grade.set_defaults(run=run_grade)
    release = commands.add_parser("release", help="build what students get: Homework-11-Template/ and its zip")
    release.add_argument("--output", type=Path, help="folder to write into (default: dist/)")
    release.set_defaults(run=run_release)
    check = commands.add_parser("check", help="run the visible tests of code/hw11 and say which TODO is next")
    check.add_argument("--only", action="append", default=[], metavar="PART", help="notebooks whose name holds PART")
    check.set_defaults(run=run_check)
    submit = commands.add_parser("submit", help="pack code/hw11 into one zip")
    submit.add_argument("--student", metavar="ID", help="goes into the file's name")
    submit.add_argument("--output", type=Path, help="folder for the zip (default: this one)")
    submit.set_defaults(run=run_submit)


def run_grade(options: argparse.Namespace) -> int:
    """Grade; 0 when every submission was graded, 1 when one was not (all others are)."""
    from metapcg.experiments.execution import dask_executor, process_pool
    from metapcg.grading.classroom import grade_class
    from metapcg.grading.course import load_course
    from metapcg.grading.sandbox import UNSAFE

    root = repository_root()
    folder = _path(options.folder)
    default = os.environ.get("HW11_CLASS") or folder.with_name(f"{folder.name}-graded")
    class_folder = _path(options.output or Path(default))
    course = load_course(root, options.only)
    workers = options.workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    if options.unsafe_no_sandbox:
        print(f"warning: {UNSAFE}.", file=sys.stderr)

    def make_executor() -> AbstractContextManager:
        return dask_executor(options.dask) if options.dask else process_pool(workers)

    where = f"dask at {options.dask}" if options.dask else f"{workers} worker{'s' if workers > 1 else ''}"
    print(f"grading {folder} with {where}; results go to {class_folder}", flush=True)
    summary = grade_class(
        folder,
        class_folder,
        root,
        course,
        whole=load_course(root) if options.only else None,
        pattern=options.student_pattern,
        due=_date(options.due),
        workers=workers,
        make_executor=make_executor,
        sandbox=not options.unsafe_no_sandbox,
        stream=sys.stdout,
    )
    rows, human = summary.rows, sum(bool(row.human) for row in summary.rows)
    print(f"\n{len(rows)} students: {summary.graded} graded now, {summary.unchanged} unchanged; {human} need a person")
    for row in rows:
        if row.status not in ("graded", "incomplete"):
            print(f"  {row.student}: {row.status}: {'; '.join(row.human)}"[:300])
    print("look at  " + "\n    and  ".join(map(str, [*summary.paths, class_folder / "feedback"])))
    jupyter = Path(sys.executable).parent / "jupyter"
    print(f"mark answers: HW11_CLASS='{class_folder}' {jupyter} lab, menu Nbgrader > Formgrader; then grade again")
    failed = [row.student for row in rows if row.grade.error]
    if failed:
        print(f"error: {len(failed)} not graded ({', '.join(failed)}); run the same command again", file=sys.stderr)
    return 1 if failed else 0


def run_release(options: argparse.Namespace) -> int:
    """Build the template."""
    from metapcg.grading.release import build_release

    root = repository_root()
    output = _path(options.output or root / "dist")
    folder, archive, number = build_release(root, output)
    print(f"{number} files: {folder}\n   and as a zip: {archive}")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Check the student's own notebooks; 0 when all is done that is no bonus."""
    from metapcg.grading.self_check import check_notebooks

    found, shown = [], ""
    for check in check_notebooks(repository_root(), tuple(options.only)):
        if check.notebook != shown:
            shown = check.notebook
            print(f"\n{shown}{' (bonus)' if check.bonus else ''}")
        words = {"passed": "ok", "todo": "TODO", "failed": "WRONG", "unanswered": "not answered"}
        print(f"  {words[check.state]:13}{check.title} ({check.points:g} points)", flush=True)
        if check.state == "failed":
            print("".join(f"      {line}\n" for line in check.message.splitlines()[:12]), end="")
        found.append(check)
    left = next((check for check in found if check.state != "passed" and not check.bonus), None)
    passed = sum(check.state == "passed" for check in found)
    print(f"\n{passed} of {len(found)} done. Grading runs further tests, with other shapes and numbers.")
    if left is None:
        print("next: ./compile_and_run.sh submit --student YOUR_ID")
        return 0
    what = {"todo": "write", "failed": "mend", "unanswered": "answer"}[left.state]
    print(f"next: {what} {left.title} (code/hw11/{left.notebook}.ipynb, cell {left.cell})")
    return 1


def run_submit(options: argparse.Namespace) -> int:
    """Pack the student's notebooks."""
    from metapcg.grading.release import pack_submission

    output = _path(options.output) if options.output else None
    path, names, missing = pack_submission(repository_root(), options.student, output)
    print(f"{len(names)} notebooks ({', '.join(names)}), {path.stat().st_size / 1024:.0f} KiB")
    if missing:
        print(f"warning: not in it, because code/hw11 lacks it: {', '.join(missing)}", file=sys.stderr)
    print(f"hand in {path}")
    return 0


def _path(path: Path) -> Path:
    """An absolute path; a relative one counts from where the person called compile_and_run.sh, which changes folder."""
    return Path(os.environ.get("HW11_CALLED_FROM", "."), path.expanduser()).absolute()


def _date(text: str | None) -> datetime | None | str:
    from metapcg.grading.classroom import KEEP_DUE

    if text is None:
        return KEEP_DUE
    if text.strip().lower() == "none":
        return None
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"--due: expected a time such as '2026-12-01 23:59' or none, got {text!r}") from error
    return date.astimezone().replace(tzinfo=None) if date.tzinfo else date


def _positive(text: str) -> int:
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)

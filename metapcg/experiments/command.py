"""``python -m metapcg experiments list | run | status | report``: what the command line does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from .execution import PlannedRun, dask_executor, execute_all, process_pool, resolve_notebooks
from .functions import NotebookFunctions
from .matrix import Matrix, label, load_matrix
from .outputs import output_dir
from .profiles import check_device, check_profile
from .runs import load_run, read_state, run_name


def run(options: argparse.Namespace) -> int:
    """Carry out one of the four actions; returns the exit status."""
    matrix = load_matrix(options.matrix) if options.matrix else load_matrix()
    profile = check_profile(options.profile or os.environ.get("HW11_PROFILE") or "quick")
    output = (options.output or output_dir()).expanduser().absolute()
    action = {"list": list_experiments, "run": run_experiments, "status": show_status, "report": report}
    return action[options.action](options, matrix, profile, output)


def list_experiments(options: argparse.Namespace, matrix: Matrix, profile: str, output: Path) -> int:
    """Print the experiments and how many runs each has; with --only, the runs themselves."""
    selected = matrix.select(profile, options.only)
    if options.only:
        for settings, where in selected:
            print(f"{label(settings)}  ({', '.join(where)})")
        return 0
    counts = Counter(name for _, where in selected for name in where)
    width = max(len(experiment.name) for experiment in matrix.experiments)
    for experiment in matrix.experiments:
        print(f"{experiment.name:{width}}  {counts[experiment.name]:4} runs  {experiment.question}")
    print(f"{len(selected)} different runs under the profile {profile}; --only PART lists those whose name holds PART")
    return 0


def run_experiments(options: argparse.Namespace, matrix: Matrix, profile: str, output: Path) -> int:
    """Execute the runs that are not complete; 0 when all are complete in the end."""
    device = check_device(options.device or os.environ.get("HW11_DEVICE") or "cpu")
    notebooks = resolve_notebooks()
    planned, refused = plan(matrix, profile, options.only, output, NotebookFunctions(notebooks))
    left = [item for item in planned if state_of(item)[0] != "complete"]  # a damaged one fails, and says why
    workers = options.workers or min(_cores(), max(len(left), 1))
    where = f"dask at {options.dask}" if options.dask else f"{workers} worker{'s' if workers > 1 else ''}"
    complete = len(planned) - len(left)
    print(f"profile {profile}: {len(planned)} runs, {complete} complete; {len(left)} to go with {where}")
    for name, reason in refused:
        print(f"{name}: FAILED: {reason}")

    def make_executor() -> AbstractContextManager:
        return dask_executor(options.dask) if options.dask else process_pool(workers)

    outcomes = execute_all(left, make_executor, notebooks, device, sys.stdout) if left else []
    failed = [outcome.label for outcome in outcomes if outcome.status != "done"] + [name for name, _ in refused]
    print(f"\nrun folders: {output / 'runs' / profile}")
    print(f"next: python -m metapcg experiments report --profile {profile}")
    if failed:
        done = len(planned) - len([outcome for outcome in outcomes if outcome.status != "done"])
        print(f"error: {len(failed)} run(s) failed ({', '.join(failed)}); {done} are complete", file=sys.stderr)
    return 1 if failed else 0


def plan(
    matrix: Matrix, profile: str, only: Sequence[str], output: Path, functions: NotebookFunctions
) -> tuple[list[PlannedRun], list[tuple[str, str]]]:
    """Runs with their folders, and (run, reason) for those that cannot be planned (a function is missing)."""
    planned, refused = [], []
    for settings, _ in matrix.select(profile, only):
        try:
            name = run_name(settings, functions)
        except ValueError as error:
            refused.append((label(settings), str(error).splitlines()[0]))
            continue
        planned.append(PlannedRun(label(settings), settings, output / "runs" / profile / name))
    return planned, refused


def show_status(options: argparse.Namespace, matrix: Matrix, profile: str, output: Path) -> int:
    """Print the state of every run; 0 when all are complete, else 1."""
    planned, refused = plan(matrix, profile, options.only, output, NotebookFunctions(resolve_notebooks()))
    states = [(item.label, *state_of(item)) for item in planned] + [(name, "failed", why) for name, why in refused]
    width = max(len(name) for name, _, _ in states)
    for name, state, detail in states:
        print(f"{name:{width}}  {state}{f': {detail}' if detail else ''}")
    counts = Counter(state for _, state, _ in states)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 0 if set(counts) == {"complete"} else 1


def state_of(item: PlannedRun) -> tuple[str, str]:
    """State of a run (``complete``, ``failed``, ``begun``, ``unusable``, ``not begun``) and a detail."""
    folder = item.folder
    if not folder.is_dir():
        return "not begun", ""
    try:
        if (folder / "done.json").is_file():
            load_run(folder)
            return "complete", ""
        if (folder / "error.json").is_file():
            return "failed", str(json.loads((folder / "error.json").read_text(encoding="utf-8"))["error"])
        state = read_state(folder)
    except (ValueError, KeyError) as error:
        return "unusable", str(error)
    return "begun", f"iteration {state.iteration if state else 0} of {item.settings.iterations}"


def report(options: argparse.Namespace, matrix: Matrix, profile: str, output: Path) -> int:
    """Write the report; with --reference EXPERIMENTS.md too; with --check only compare that file, 1 if out of step."""
    from .experiments_page import is_in_step, update_page, write_reference
    from .report import write_report

    if options.check:
        if is_in_step(matrix):
            print("EXPERIMENTS.md is in step with reports/reference and the matrix")
            return 0
        update = "python -m metapcg experiments report --update"
        print(f"error: EXPERIMENTS.md is out of step; run '{update}'", file=sys.stderr)
        return 1
    if options.update:
        print(f"look at  {update_page(matrix)}")
        return 0
    if options.reference:
        print(f"look at  {write_reference(output, profile)}\n    and  {update_page(matrix)}")
        return 0
    print(f"look at  {write_report(output, profile)}")
    return 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

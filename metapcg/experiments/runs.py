"""One run: an algorithm trained on a task family with one seed, evaluated on every split, kept in a folder of its own.

A run's folder holds

===================  ===========================================================================================
``settings.json``    the settings, their fingerprint, versions and the kind of machine
``state.pt``         where training is, written every few iterations; a run that was stopped goes on from it
``history.csv``      training, one row per iteration
``adaptation.csv``   return of every task of every split by adaptation step
``left_out.csv``     splits that were not evaluated, and why
``params.pt``        final parameters (``torch.load(..., weights_only=True)``)
``levels.npz``       levels of a few tasks: start, edited before adaptation, edited after it
``timing.json``      seconds; the only file that differs between two executions of the same run
``done.json``        written last, with digests of the others; a folder that has it is never computed again
===================  ===========================================================================================

Every file is written beside its place and renamed, so a run can be killed at any moment: the same call goes on from the
last state and ends with the same bytes as a run that was never disturbed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

import metapcg
from metapcg.envs.representations import check_representation
from metapcg.games import get_game
from metapcg.learning.policies import Params
from metapcg.learning.training_state import TrainingState

from .algorithms import Session, SplitResult, get_algorithm
from .budgets import BUDGETS, COMMON, FAMILY_BUDGETS, GAMES, REPRESENTATIONS
from .functions import FunctionSet, fingerprint
from .outputs import output_dir
from .profiles import check_profile
from .run_files import brief, load_torch, read_csv, write_csv, write_json, write_npz, write_torch
from .run_settings import RunSettings

FORMAT = 1
"""Version of the folder's layout; raised when files or columns change their meaning."""


def settings_for(
    profile: str, algorithm: str, game: str = "binary", representation: str = "narrow", **overrides: Any
) -> RunSettings:
    """The settings of an algorithm under a profile's budget (see ``budgets``), with single values replaced.

    >>> settings_for("quick", "maml", seed=3, inner_lr=2.0)

    Raises:
        ValueError: an unknown profile, algorithm, game or setting, or a value that cannot be used.
    """
    check_profile(profile)
    get_algorithm(algorithm)
    get_game(game)
    known = {field.name for field in dataclasses.fields(RunSettings)}
    for name in overrides:
        if name not in known:
            raise ValueError(f"{name}: there is no setting of that name; there are {', '.join(sorted(known))}")
    check_representation(representation)
    values = {
        **COMMON[profile],
        **BUDGETS[algorithm][profile],
        **FAMILY_BUDGETS.get(overrides.get("family", "direction"), {}).get(profile, {}).get(algorithm, {}),
        **GAMES[game],
        **REPRESENTATIONS[representation][profile],
        **overrides,
    }
    return RunSettings(
        **{"algorithm": algorithm, "game": game, "representation": representation, "profile": profile, **values}
    )


# ------------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class RunResult:
    """What a complete folder holds; ``execute_run`` and ``load_run`` return it.

    Attributes:
        settings: the run's settings.
        folder: where it lies.
        history: training metrics, one row per iteration (empty for what is not trained).
        splits: split → result.
        left_out: split → why it was not evaluated.
        provenance: fingerprint, versions and kind of machine.
        timing: seconds of training and evaluation.
    """

    settings: RunSettings
    folder: Path
    history: list[dict[str, float]]
    splits: dict[str, SplitResult]
    left_out: dict[str, str]
    provenance: dict[str, Any]
    timing: dict[str, float]

    @property
    def label(self) -> str:
        """The method as tables and figures call it."""
        return method_label(self.settings)

    @property
    def params(self) -> Params:
        """Final parameters, read from the folder."""
        return load_torch(self.folder / "params.pt")

    @property
    def levels(self) -> dict[str, np.ndarray]:
        """Arrays ``SPLIT/start``, ``SPLIT/before``, ``SPLIT/after`` (n, H, W) and more, read from the folder."""
        return load_levels(self.folder)


def method_label(settings: RunSettings) -> str:
    """The algorithm's name for tables and figures, with its surrogate where that is not ``lvc``."""
    algorithm = get_algorithm(settings.algorithm)
    named = algorithm.uses_surrogate and settings.surrogate != "lvc"
    return f"{algorithm.label} ({settings.surrogate})" if named else algorithm.label


def load_levels(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a run's ``levels.npz``; ValueError if it is damaged."""
    try:
        with np.load(folder / "levels.npz", allow_pickle=False) as archive:
            return {name.replace("__", "/"): archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{folder}: levels.npz cannot be read ({error}); delete the folder to run it anew") from error


def run_name(settings: RunSettings, functions: Any) -> str:
    """Name of a run's folder: what it is, in words, and the first digits of its fingerprint."""
    words = [settings.family, settings.game, settings.representation, settings.algorithm]
    if get_algorithm(settings.algorithm).uses_surrogate and settings.surrogate != "lvc":
        words.append(settings.surrogate)
    return "-".join([*words, f"s{settings.seed}", run_fingerprint(settings, functions)[:8]])


def run_folder(settings: RunSettings, functions: Any, root: Path | None = None) -> Path:
    """Where a run belongs: ``root``, by default ``runs/PROFILE`` in the folder of results, and its name."""
    return (root or output_dir() / "runs" / settings.profile) / run_name(settings, functions)


def run_fingerprint(settings: RunSettings, functions: Any) -> str:
    """Hash of the settings, the source of the functions the run uses, and the project's version."""
    algorithm = get_algorithm(settings.algorithm)
    names = algorithm.function_names(settings)
    parts = {
        "settings": settings.to_dict(),
        "functions": fingerprint(functions, names) if names else "",
        "format": FORMAT,
        "metapcg": metapcg.__version__,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------- execute


def execute_run(
    settings: RunSettings,
    functions: Any,
    folder: Path | str,
    device: torch.device | str = "cpu",
    *,
    threads: int = 1,
    checkpoint_every: int = 10,
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
) -> RunResult:
    """Train, evaluate, and leave everything in ``folder``; a complete folder is only read, a begun one is continued.

    While another process executes the same run, this one waits for it.

    Args:
        settings: see ``RunSettings``.
        functions: has the functions that the algorithm needs (``algorithms.Algorithm.function_names``), such as
            ``adapt``, ``meta_loss`` and ``surrogate_lvc``: a ``FunctionSet``, what ``solutions.load`` returns, or any
            namespace.
        folder: the run's own folder; made if it is missing.
        device: where networks run.
        threads: torch's threads while it runs. Sums may round differently with another number, so it is fixed.
        checkpoint_every: iterations between two savings of the training state. It does not change any number.
        on_iteration: called with (iteration, params, metrics row), for progress.

    Raises:
        ValueError: the folder holds another run or cannot be read, or a function is missing; one line says which.
        Diverged: training produced a number that is not finite.
        OSError: the folder cannot be written; what is there stays.
    """
    folder = Path(folder)
    algorithm = get_algorithm(settings.algorithm)
    require_functions(functions, algorithm.function_names(settings))
    identity = run_fingerprint(settings, functions)
    if _belongs_here(folder, identity) and (folder / "done.json").is_file():
        return load_run(folder)

    folder.mkdir(parents=True, exist_ok=True)
    # The lock ends with its process, however that ends; the file itself says nothing.
    with torch_threads(threads), FileLock(folder / ".lock"):
        if _belongs_here(folder, identity) and (folder / "done.json").is_file():
            return load_run(folder)  # the process that was waited for has completed it
        record = {"format": FORMAT, "fingerprint": identity, "settings": settings.to_dict(), **environment(device)}
        resume = None
        if (folder / "settings.json").is_file():
            check_versions(folder, record)
            resume = read_state(folder)
        else:
            write_json(folder / "settings.json", record)
        (folder / "error.json").unlink(missing_ok=True)
        session = Session(
            settings,
            functions,
            device,
            resume=resume,
            on_state=lambda state: write_torch(folder / "state.pt", state.to_dict()),
            state_every=checkpoint_every,
            on_iteration=on_iteration,
        )
        begin = time.perf_counter()
        trained = session.train()
        train_seconds = trained.history[-1]["seconds"] if trained.history else 0.0
        evaluation_begin = time.perf_counter()
        outcome = session.evaluate(trained.params)
        now = time.perf_counter()
        timing = {
            "train_seconds": train_seconds,
            "evaluate_seconds": now - evaluation_begin,
            "last_call_seconds": now - begin,
        }
        write_results(folder, identity, trained.params, trained.history, outcome, timing)
        (folder / "state.pt").unlink(missing_ok=True)
        _remove_leftovers(folder)
    (folder / ".lock").unlink(missing_ok=True)
    return load_run(folder)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of executions that were killed while they wrote."""
    for path in folder.glob(".*.tmp"):
        if time.time() - path.stat().st_mtime > 60:  # a younger one may belong to another process on the same run
            path.unlink(missing_ok=True)


def write_results(
    folder: Path,
    identity: str,
    params: Params,
    history: Sequence[Mapping[str, float]],
    outcome: Any,
    timing: Mapping[str, float],
) -> None:
    """Write what training and evaluation gave into a run's folder, ``done.json`` last.

    Args:
        identity: the run's fingerprint, as in ``settings.json``.
        history: rows of metrics; their ``seconds`` go to no file that is compared between executions.
        outcome: an ``algorithms.Outcome``.
        timing: seconds by name.
    """
    write_torch(folder / "params.pt", {k: v.detach().cpu() for k, v in params.items()})
    write_csv(folder / "history.csv", [{k: v for k, v in row.items() if k != "seconds"} for row in history])
    write_csv(folder / "adaptation.csv", list(_adaptation_rows(outcome.splits)), _ADAPTATION_COLUMNS)
    left_out = [{"split": split, "reason": reason} for split, reason in outcome.left_out.items()]
    write_csv(folder / "left_out.csv", left_out, ("split", "reason"))
    write_npz(folder / "levels.npz", outcome.levels)
    write_json(folder / "timing.json", timing)
    digests = {name: _digest(folder / name) for name in _RESULT_FILES}
    write_json(folder / "done.json", {"fingerprint": identity, "sha256": digests})


def load_run(folder: Path | str) -> RunResult:
    """Read a complete run's folder.

    Raises:
        ValueError: it is missing, unfinished, damaged, foreign or of another version; one line says which and what to
            do.
    """
    folder = Path(folder)
    record = read_record(folder)
    if not (folder / "done.json").is_file():
        raise ValueError(f"{folder} is not finished; the command that began it goes on with it")
    try:
        settings = RunSettings.from_dict(record["settings"])
        done = json.loads((folder / "done.json").read_text(encoding="utf-8"))
        if done["fingerprint"] != record["fingerprint"]:
            raise ValueError("done.json belongs to another run")
        for name in _RESULT_FILES:
            if _digest(folder / name) != done["sha256"][name]:
                raise ValueError(f"{name} is not what the run wrote")
        splits = _read_splits(folder / "adaptation.csv")
        left_out = {row["split"]: row["reason"] for row in read_csv(folder / "left_out.csv")}
        history = [{k: float(v) for k, v in row.items()} for row in read_csv(folder / "history.csv")]
        timing = json.loads((folder / "timing.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} is damaged ({brief(error)}); delete it to run it anew") from error
    provenance = {k: v for k, v in record.items() if k != "settings"}
    return RunResult(settings, folder, history, splits, left_out, provenance, timing)


def environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Versions and kind of machine, for provenance: no names of hosts or users."""
    device = torch.device(device)
    return {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "metapcg": metapcg.__version__,
        },
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        },
    }


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with this many intra-operation threads of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_functions(functions: Any, names: Sequence[str]) -> None:
    """ValueError if one of the functions is missing or not written yet; says which."""
    source = functions if isinstance(functions, FunctionSet) else FunctionSet(functions)
    source.require(names)


# --------------------------------------------------------------------------------------------------------------- files


_RESULT_FILES = ("history.csv", "adaptation.csv", "left_out.csv", "params.pt", "levels.npz")
_ADAPTATION_COLUMNS = (
    "split", "game", "representation", "task", "parameters", "inner_lr", "step", "episodes", "return",
)  # fmt: skip


def _adaptation_rows(splits: Mapping[str, SplitResult]) -> Iterator[dict[str, Any]]:
    for result in splits.values():
        for task, (row, parameters) in enumerate(zip(result.returns, result.parameters, strict=True)):
            named = zip(result.parameter_names, parameters, strict=True)
            text = ";".join(f"{name}={float(value)!r}" for name, value in named)
            for step, value in enumerate(row):
                yield {
                    "split": result.split,
                    "game": result.game,
                    "representation": result.representation,
                    "task": task,
                    "parameters": text,
                    "inner_lr": repr(float(result.inner_lr)),
                    "step": step,
                    "episodes": int(result.episodes[step]),
                    "return": repr(float(value)),
                }


def _read_splits(path: Path) -> dict[str, SplitResult]:
    groups: dict[str, list[dict[str, str]]] = {}
    for row in read_csv(path):
        groups.setdefault(row["split"], []).append(row)
    return {split: _read_split(split, rows) for split, rows in groups.items()}


def _read_split(split: str, rows: list[dict[str, str]]) -> SplitResult:
    steps = 1 + max(int(row["step"]) for row in rows)
    first = rows[0]
    per_task = [[part.rsplit("=", 1) for part in row["parameters"].split(";")] for row in rows[::steps]]
    return SplitResult(
        split=split,
        game=first["game"],
        representation=first["representation"],
        returns=np.array([float(row["return"]) for row in rows]).reshape(-1, steps),
        episodes=np.array([int(row["episodes"]) for row in rows[:steps]]),
        parameters=np.array([[float(value) for _, value in task] for task in per_task]),
        parameter_names=tuple(name for name, _ in per_task[0]),
        inner_lr=float(first["inner_lr"]),
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_record(folder: Path) -> dict[str, Any]:
    """A folder's ``settings.json``; ValueError when the folder is no run of this version."""
    path = folder / "settings.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} is not the folder of a run: it has no settings.json") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({brief(error)}); delete the folder to run it anew") from error
    if not isinstance(record, dict) or not {"format", "fingerprint", "settings", "versions"} <= set(record):
        raise ValueError(f"{path} was not written by this program; give another folder")
    if record["format"] != FORMAT:
        raise ValueError(
            f"{folder} has format {record['format']}, this version reads {FORMAT}; delete it to run it anew, "
            f"or read it with metapcg {record['versions'].get('metapcg', 'of its time')}"
        )
    return record


def _belongs_here(folder: Path, identity: str) -> bool:
    """Whether the folder holds this very run (False: it holds nothing yet); ValueError when it holds something else."""
    if not folder.exists():
        return False
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; give another folder")
    if all(entry.name.endswith((".tmp", ".lock")) for entry in folder.iterdir()):
        return False
    record = read_record(folder)
    if record["fingerprint"] != identity:
        raise ValueError(
            f"{folder} holds another run (other settings, functions or version); give another folder or delete it"
        )
    return True


def check_versions(folder: Path, record: Mapping[str, Any]) -> None:
    """ValueError if the run was begun with other versions of packages than ``record`` has: numbers would differ."""
    begun = read_record(folder)
    ours = record["versions"]
    for package, version in begun["versions"].items():
        if package != "metapcg" and version != ours.get(package):
            raise ValueError(
                f"{folder} was begun with {package} {version}, this is {ours.get(package)}: "
                "numbers would differ; delete it to run it anew"
            )


def read_state(folder: Path) -> TrainingState | None:
    """Where a run's training is, None if no state was saved; ValueError names a file that cannot be read."""
    path = folder / "state.pt"
    if not path.is_file():
        return None
    try:
        return TrainingState.from_dict(load_torch(path))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({brief(error)}); delete {folder} to run it anew") from error

"""From run folders to tables: what is reported, with intervals, and never pooled over splits.

Runs that differ only in their seed belong to one *setting*. Tables have one row per setting, split (and adaptation
step), with an interval over seeds and tasks. Random and oracle are those of the same profile, family, game and
representation, with the same seeds, evaluated on the same tasks.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapcg.tasks.splits import HELD_OUT_REPRESENTATION, INTERPOLATION, SPLITS, TRAIN

from .algorithms import ALGORITHMS
from .intervals import UNDEFINED, Interval, difference_interval, mean_interval, share_interval
from .runs import RunResult, RunSettings, SplitResult, load_run, settings_for


def load_results(root: Path | str) -> tuple[list[RunResult], list[str]]:
    """Read every run folder below ``root``.

    Returns:
        The complete runs, in order of their folders' names, and one line for each folder that could not be used
        (unfinished, damaged, foreign, of another version, or replaced by a newer run of the same name).
    """
    runs: dict[tuple[Any, ...], RunResult] = {}
    problems = []
    folders = sorted({path.parent for path in Path(root).glob("**/settings.json")}) if Path(root).is_dir() else []
    for folder in folders:
        try:
            run = load_run(folder)
        except ValueError as error:
            problems.append(str(error))
            continue
        key = _identity(run.settings)
        other = runs.get(key)
        if other is not None:
            # Same settings, other functions or another version: the later one is what the code gives now.
            run, old = sorted((run, other), key=lambda r: (r.folder / "done.json").stat().st_mtime_ns, reverse=True)
            problems.append(
                f"{old.folder} is replaced by the newer {run.folder.name}; delete it to be rid of this line"
            )
        runs[key] = run
    return [runs[key] for key in sorted(runs, key=str)], problems


def _identity(settings: RunSettings) -> tuple[Any, ...]:
    return dataclasses.astuple(settings)


# ------------------------------------------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in their seed.

    Attributes:
        settings: of the first of them.
        label: the method's name in tables and figures.
        runs: in order of their seeds.
    """

    settings: RunSettings
    label: str
    runs: tuple[RunResult, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(run.settings.seed for run in self.runs)

    def returns(self, split: str) -> list[NDArray[np.float64]] | None:
        """(units, K + 1) per seed; None when the split was left out.

        A unit is what was drawn independently: a task, or a pair of opposite directions w and -w and then its mean.
        In a pair, one task's gain is the other's loss for whoever does not adapt: an interval must not take them for
        two.
        """
        if any(split not in run.splits for run in self.runs):
            return None
        return [independent_units(run.splits[split]) for run in self.runs]


def independent_units(result: SplitResult) -> NDArray[np.float64]:
    """Returns (units, K + 1): means over pairs where tasks 2i and 2i+1 are opposite directions, else the tasks' own."""
    first, second = result.parameters[0::2], result.parameters[1::2]
    if len(first) != len(second) or not result.parameter_names:
        return result.returns
    if result.parameter_names == ("phi",):
        opposite = np.allclose(np.cos(first - second), -1.0)
    else:
        opposite = result.parameter_names[0].startswith("w(") and np.allclose(first, -second)
    return (result.returns[0::2] + result.returns[1::2]) / 2 if opposite else result.returns


_METHOD_ORDER = {name: i for i, name in enumerate(ALGORITHMS)}


def group_by_setting(runs: Iterable[RunResult]) -> list[Setting]:
    """Collect runs that differ only in their seed; methods in the order of ``ALGORITHMS``."""
    groups: dict[RunSettings, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(dataclasses.replace(run.settings, seed=0), []).append(run)
    settings = []
    for members in groups.values():
        members.sort(key=lambda run: run.settings.seed)
        settings.append(Setting(members[0].settings, members[0].label, tuple(members)))
    return sorted(
        settings,
        key=lambda s: (
            s.settings.profile,
            s.settings.family,
            s.settings.game,
            s.settings.representation,
            _METHOD_ORDER[s.settings.algorithm],
            s.settings.surrogate,
            str(s.settings),
        ),
    )


class References:
    """Finds the random and the oracle runs that a setting is compared with.

    Both must have the same profile, family, game, representation and evaluation. For the held-out representation the
    oracle is one that was trained on *that* representation, if there is one: with the same seed its interpolation
    tasks are the very same tasks. Else it is the oracle that was trained on the other one; it is then no ceiling.
    """

    def __init__(self, settings: Sequence[Setting]):
        self._settings = settings

    def returns(self, algorithm: str, like: Setting, split: str) -> tuple[list[NDArray[np.float64]], str] | None:
        """Returns (units,) per seed of ``like``, and a note; None where there is no such run."""
        if algorithm == "oracle" and split == HELD_OUT_REPRESENTATION:
            representation = like.settings.task_family().split_representation(split)
            found = self._find(algorithm, like, representation, INTERPOLATION)
            if found is not None:
                return found, ""
            found = self._find(algorithm, like, like.settings.representation, split)
            return (
                None
                if found is None
                else (found, f"share of an oracle trained on {like.settings.representation}, so 100 % is no ceiling")
            )
        found = self._find(algorithm, like, like.settings.representation, split)
        return None if found is None else (found, "")

    def _find(self, algorithm: str, like: Setting, representation: str, split: str):
        for setting in self._settings:
            if setting.settings.algorithm == algorithm and _comparable(setting.settings, like.settings, representation):
                by_seed = {run.settings.seed: run for run in setting.runs}
                if all(seed in by_seed and split in by_seed[seed].splits for seed in like.seeds):
                    return [independent_units(by_seed[seed].splits[split])[:, -1] for seed in like.seeds]
        return None


def _comparable(reference: RunSettings, settings: RunSettings, representation: str) -> bool:
    same = ("profile", "family", "game", "crop", "horizon", "eval_tasks")
    return reference.representation == representation and all(
        getattr(reference, name) == getattr(settings, name) for name in same
    )


# --------------------------------------------------------------------------------------------------------------- tables


def _keys(setting: Setting) -> dict[str, Any]:
    s = setting.settings
    return {
        "profile": s.profile,
        "family": s.family,
        "game": s.game,
        "representation": s.representation,
        "method": setting.label,
        "variant": variant(s),
        "seeds": len(setting.runs),
    }


def variant(settings: RunSettings) -> str:
    """What distinguishes the settings from the profile's budget, as ``name=value`` words; empty for the budget."""
    return " ".join(f"{name}={_plain(value)}" for name, value in changed_settings(settings).items())


def changed_settings(settings: RunSettings) -> dict[str, Any]:
    """The settings that differ from the profile's budget, without seed and splits."""
    usual = settings_for(
        settings.profile,
        settings.algorithm,
        settings.game,
        settings.representation,
        family=settings.family,
        surrogate=settings.surrogate,
        seed=settings.seed,
        splits=settings.splits,
    )
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != getattr(usual, field.name)
    }


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def algorithm_of(row: Mapping[str, Any]) -> str:
    """Name in ``ALGORITHMS`` of a table row's method, which is its label, with its surrogate where that is not lvc."""
    return _ALGORITHM_OF[row["method"].split(" (")[0]]


def takes_gradient_steps(row: Mapping[str, Any]) -> bool:
    """Whether a row's adaptation steps are gradient steps; RL² and PEARL take none, their steps are episodes."""
    return ALGORITHMS[algorithm_of(row)].uses_surrogate


_ALGORITHM_OF = {algorithm.label: name for name, algorithm in ALGORITHMS.items()}


def select(rows: Iterable[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """The rows of a table whose columns have these values, in order: ``select(rows, split="train", variant="")``."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def read_rows(path: Path | str) -> list[dict[str, Any]]:
    """A table that the report wrote, with numbers as numbers: what ``adaptation_table`` and the like return.

    Raises:
        ValueError: the file is missing or is no such table.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not rows or not {"profile", "family", "game", "representation", "method", "variant"} <= set(rows[0]):
        raise ValueError(f"{path}: is no table of results")
    return [{name: _typed(text) for name, text in row.items()} for row in rows]


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def adaptation_table(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """One row per setting, split and adaptation step: mean return with its interval.

    Columns: profile, family, game, representation, method, variant, seeds, split, step, episodes, return, low, high,
    share, share_low, share_high (of the oracle's lead over random; empty where that is not defined).
    """
    rows = []
    settings = group_by_setting(runs)
    references = References(settings)
    for setting in settings:
        for split in SPLITS:
            returns = setting.returns(split)
            if returns is None:
                continue
            episodes = setting.runs[0].splits[split].episodes
            random, oracle = (references.returns(name, setting, split) for name in ("random", "oracle"))
            for step in range(returns[0].shape[1]):
                values = [r[:, step] for r in returns]
                interval, share = mean_interval(values), UNDEFINED
                if random is not None and oracle is not None:
                    share = share_interval(values, random[0], oracle[0])
                rows.append(
                    {
                        **_keys(setting),
                        "split": split,
                        "step": step,
                        "episodes": int(episodes[step]),
                        "return": interval.mean,
                        "low": interval.low,
                        "high": interval.high,
                        "share": _number(share.mean),
                        "share_low": _number(share.low),
                        "share_high": _number(share.high),
                    }
                )
    return rows


def split_table(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """One row per setting and split: return after the last adaptation step, raw and as a share of the oracle's.

    Columns: profile, family, game, representation, method, variant, seeds, split, step, return, low, high, share,
    share_low, share_high, equals_random (yes, no, or empty where there is no random run), note.
    """
    settings = group_by_setting(runs)
    references = References(settings)
    rows = []
    for setting in settings:
        for split in SPLITS:
            if split not in setting.settings.splits:
                continue
            returns = setting.returns(split)
            if returns is None:
                reason = next(run.left_out[split] for run in setting.runs if split in run.left_out)
                rows.append(_split_row(setting, split, None, UNDEFINED, UNDEFINED, "", reason))
                continue
            last = [r[:, -1] for r in returns]
            share, flag, note = UNDEFINED, "", ""
            random = references.returns("random", setting, split)
            oracle = references.returns("oracle", setting, split)
            if random is not None and setting.settings.algorithm != "random":
                flag = "yes" if 0.0 in difference_interval(last, random[0]) else "no"
            if random is None or oracle is None:
                missing = " and ".join(n for n, found in (("random", random), ("oracle", oracle)) if found is None)
                note = f"no {missing} run on these tasks"
            else:
                share = share_interval(last, random[0], oracle[0])
                note = oracle[1] if share.defined else "the oracle is not clearly better than random"
            rows.append(_split_row(setting, split, returns[0].shape[1] - 1, mean_interval(last), share, flag, note))
    return rows


def _split_row(
    setting: Setting, split: str, step: int | None, value: Interval, share: Interval, flag: str, note: str
) -> dict[str, Any]:
    return {
        **_keys(setting),
        "split": split,
        "step": "" if step is None else step,
        "return": _number(value.mean),
        "low": _number(value.low),
        "high": _number(value.high),
        "share": _number(share.mean),
        "share_low": _number(share.low),
        "share_high": _number(share.high),
        "equals_random": flag,
        "note": note,
    }


def _number(value: float) -> float | str:
    return value if np.isfinite(value) else ""


def gap_table(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """One row per setting and test split: how much less it earns there than on training tasks.

    Columns: profile, family, game, representation, method, variant, seeds, split, train, test, gap, low, high.
    """
    rows = []
    for setting in group_by_setting(runs):
        train = setting.returns(TRAIN)
        if train is None:
            continue
        for split in SPLITS:
            test = setting.returns(split)
            if split == TRAIN or test is None:
                continue
            # Independent tasks paired at random: the difference of means has the same distribution as unpaired.
            gap = difference_interval([r[:, -1] for r in train], [r[:, -1] for r in test])
            rows.append(
                {
                    **_keys(setting),
                    "split": split,
                    "train": float(np.mean([r[:, -1].mean() for r in train])),
                    "test": float(np.mean([r[:, -1].mean() for r in test])),
                    "gap": gap.mean,
                    "low": gap.low,
                    "high": gap.high,
                }
            )
    return rows


def cost_table(runs: Sequence[RunResult], split: str = INTERPOLATION) -> list[dict[str, Any]]:
    """One row per setting: what training and one new task cost, and the return after the last adaptation step.

    Columns: profile, family, game, representation, method, variant, seeds, env_steps (of training, mean over seeds),
    seconds (of training, mean over seeds; depends on the machine and on what else it did), episodes (of a new task
    until the last step), gradient_steps (until then), return, low, high, share, share_low, share_high.
    """
    last = {}
    for row in adaptation_table(runs):
        if row["split"] == split:
            last[_key(row)] = row
    rows = []
    for setting in group_by_setting(runs):
        row = last.pop(_key(_keys(setting)), None)
        if row is None:
            continue
        rows.append(
            {
                **_keys(setting),
                "env_steps": float(np.mean([r.history[-1]["env_steps"] if r.history else 0 for r in setting.runs])),
                "seconds": float(np.mean([r.timing["train_seconds"] for r in setting.runs])),
                "episodes": row["episodes"],
                "gradient_steps": row["step"] if takes_gradient_steps(row) else 0,
                **{name: row[name] for name in ("return", "low", "high", "share", "share_low", "share_high")},
            }
        )
    return rows


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("profile", "family", "game", "representation", "method", "variant"))


def runs_table(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """One row per run, for provenance: folder, method, seed, budget, versions."""
    rows = []
    for run in runs:
        versions = run.provenance["versions"]
        steps = int(run.history[-1]["env_steps"]) if run.history else 0
        rows.append(
            {
                "folder": run.folder.name,
                "profile": run.settings.profile,
                "family": run.settings.family,
                "game": run.settings.game,
                "representation": run.settings.representation,
                "method": run.label,
                "variant": variant(run.settings),
                "seed": run.settings.seed,
                "iterations": run.settings.iterations,
                "env_steps": steps,
                "device": run.provenance["machine"]["device"],
                **{name: versions[name] for name in ("python", "numpy", "torch", "metapcg")},
            }
        )
    return rows

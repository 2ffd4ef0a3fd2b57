"""The experiment matrix: reads ``matrix.toml`` and says which runs an experiment, a profile and a selection come to."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .algorithms import get_algorithm
from .profiles import PROFILES, check_profile
from .runs import RunSettings, settings_for

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MATRIX = Path(__file__).with_name("matrix.toml")


@dataclass(frozen=True)
class Experiment:
    """One question and the runs that answer it; see the head of ``matrix.toml`` for the meaning of the fields."""

    name: str
    question: str
    figure: str
    expected: str
    algorithms: tuple[str, ...]
    families: tuple[str, ...]
    games: tuple[str, ...]
    representations: tuple[str, ...]
    surrogates: tuple[str, ...]
    references: tuple[str, ...]
    changes: tuple[dict[str, Any], ...]
    splits: tuple[str, ...]
    headline: tuple[tuple[str, str, int], ...]
    seeds: dict[str, tuple[int, ...]]

    def runs(self, profile: str) -> list[RunSettings]:
        """The experiment's runs under a profile, references included, each once.

        Raises:
            ValueError: a setting that cannot be used, with the experiment's name.
        """
        check_profile(profile)
        try:
            return list(dict.fromkeys(self._runs(profile)))
        except ValueError as error:
            raise ValueError(f"experiment {self.name}: {error}") from error

    def _runs(self, profile: str):
        places = itertools.product(self.families, self.games, self.representations, self.seeds[profile])
        for family, game, representation, seed in places:
            where = {"family": family, "seed": seed}
            for algorithm in self.algorithms:
                surrogates = self.surrogates if get_algorithm(algorithm).uses_surrogate else self.surrogates[:1]
                for surrogate, change in itertools.product(surrogates, self.changes):
                    # The budget's own settings keep all splits, so that other experiments share the run.
                    chosen = {**change, "splits": self.splits} if change else {}
                    yield settings_for(profile, algorithm, game, representation, **where, surrogate=surrogate, **chosen)
            for algorithm in self.references:
                yield settings_for(profile, algorithm, game, representation, **where)


@dataclass(frozen=True)
class NotebookExperiment:
    """A result that a notebook computes and keeps as a table."""

    name: str
    question: str
    command: str
    figure: str
    expected: str
    table: str


@dataclass(frozen=True)
class Matrix:
    """All experiments, in the file's order."""

    experiments: tuple[Experiment, ...]
    notebooks: tuple[NotebookExperiment, ...]

    def select(self, profile: str, only: Sequence[str] = ()) -> list[tuple[RunSettings, tuple[str, ...]]]:
        """Runs of a profile, each once, with the names of the experiments it belongs to.

        Args:
            profile: smoke, quick or full.
            only: keep runs for which one of these parts is in ``EXPERIMENT/RUN`` (see :func:`label`); empty: all.

        Raises:
            ValueError: a part that fits no run.
        """
        belongs: dict[RunSettings, list[str]] = {}
        for experiment in self.experiments:
            for settings in experiment.runs(profile):
                belongs.setdefault(settings, []).append(experiment.name)
        names = {settings: [f"{name}/{label(settings)}" for name in where] for settings, where in belongs.items()}
        for part in only:
            if not any(part in name for found in names.values() for name in found):
                known = ", ".join(experiment.name for experiment in self.experiments)
                raise ValueError(f"--only: no run's name holds {part!r}; the experiments are {known}")
        return [
            (settings, tuple(where))
            for settings, where in belongs.items()
            if not only or any(part in name for part in only for name in names[settings])
        ]


def label(settings: RunSettings) -> str:
    """A run's name for people: ``direction-binary-narrow-maml-inner_lr=0.5-s0``."""
    from .results import variant

    words = [settings.family, settings.game, settings.representation, method_name(settings)]
    changed = variant(settings)
    return "-".join([*words, *changed.split(), f"s{settings.seed}"])


def method_name(settings: RunSettings) -> str:
    """The algorithm, and its surrogate where that is not ``lvc``: ``maml``, ``maml-dice``."""
    named = get_algorithm(settings.algorithm).uses_surrogate and settings.surrogate != "lvc"
    return f"{settings.algorithm}-{settings.surrogate}" if named else settings.algorithm


def load_matrix(path: Path | str = MATRIX) -> Matrix:
    """Read a matrix file.

    Raises:
        ValueError: it is missing, is no TOML, or an experiment lacks a field, has an unknown one or one of the wrong
            kind; one line says which.
    """
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"--matrix: there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as TOML ({error})") from error
    defaults = data.pop("defaults", {})
    notebooks = data.pop("notebook", {})
    try:
        return Matrix(
            tuple(_experiment(name, {**defaults, **_table(values)}) for name, values in data.items()),
            tuple(_notebook(name, _table(values)) for name, values in notebooks.items()),
        )
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _table(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise ValueError(f"expected a table of settings, got {values!r}")
    return values


_LISTS = ("algorithms", "families", "games", "representations", "surrogates", "references", "changes", "splits")


def _experiment(name: str, values: Mapping[str, Any]) -> Experiment:
    _check_fields(name, values, Experiment)
    seeds = values["seeds"]
    if not isinstance(seeds, dict) or set(seeds) != set(PROFILES):
        raise ValueError(f"experiment {name}: seeds needs a list for each of {', '.join(PROFILES)}")
    lists = {}
    for field in _LISTS:
        if not isinstance(values[field], list) or (not values[field] and field != "references"):
            raise ValueError(f"experiment {name}: {field} needs a list that is not empty")
        lists[field] = tuple(values[field])
    return Experiment(
        name=name,
        **{field: str(values[field]) for field in ("question", "figure", "expected")},
        **lists,
        headline=tuple((str(m), str(s), int(k)) for m, s, k in values["headline"]),
        seeds={profile: tuple(found) for profile, found in seeds.items()},
    )


def _notebook(name: str, values: Mapping[str, Any]) -> NotebookExperiment:
    _check_fields(name, values, NotebookExperiment)
    return NotebookExperiment(name=name, **{key: str(value) for key, value in values.items()})


def _check_fields(name: str, values: Mapping[str, Any], kind: type) -> None:
    known = {field.name for field in fields(kind)} - {"name"}
    unknown, missing = sorted(set(values) - known), sorted(known - set(values))
    if unknown or missing:
        words = [f"unknown {', '.join(unknown)}"] * bool(unknown) + [f"missing {', '.join(missing)}"] * bool(missing)
        raise ValueError(f"experiment {name}: {'; '.join(words)}")

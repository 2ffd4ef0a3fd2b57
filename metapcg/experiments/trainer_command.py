"""``python -m metapcg train | adapt | generate``: what the command line does."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metapcg.learning.device import configure
from metapcg.learning.solutions import load

from .algorithms import get_algorithm
from .checkpoints import (
    Checkpoint,
    adapt,
    adaptation_gallery,
    adaptation_session,
    parse_weights,
    save_levels,
    save_png,
)
from .execution import resolve_notebooks
from .functions import NOTEBOOK_OF, FunctionSet, NotebookFunctions
from .outputs import output_dir
from .profiles import check_device, check_profile
from .resources import Trace
from .runs import RunSettings, settings_for
from .trainer import TrainerSettings, default_name, train

_ADAPTS_BY_GRADIENTS = ("maml", "fomaml")

_TRAIN_OPTIONS = {
    "outer_lr": "--meta-lr",
    "inner_lr": "--inner-lr",
    "inner_steps": "--inner-steps",
    "tasks": "--meta-batch",
    "iterations": "--iterations",
    "episodes": "--n-trajectories",
    "surrogate": "--surrogate",
    "horizon": "--horizon",
    "family": "--family",
    "seed": "--seed",
    "representation": "--representations",
    "representations": "--representations",
    "games": "--games",
    "deadlock_penalty": "--deadlock-penalty",
}
_ADAPT_OPTIONS = {
    "eval_steps": "--steps",
    "eval_episodes": "--episodes",
    "seed": "--seed",
    "representation": "--representation",
}


@contextmanager
def _named_as(options: dict[str, str]) -> Iterator[None]:
    """An error that names a setting names the option that sets it."""
    try:
        yield
    except ValueError as error:
        setting, colon, rest = str(error).partition(": ")
        if not colon or setting not in options:
            raise
        raise ValueError(f"{options[setting]}: {rest}") from error


def _from_caller(path: str | Path) -> Path:
    """A path as it was meant where the command was typed; compile_and_run.sh changes the folder and says from where."""
    return Path(os.environ.get("HW11_CALLED_FROM", "."), Path(path).expanduser()).absolute()


def notebook_path(given: str | None) -> str | None:
    """A notebook's path as it was typed; a bare name is left to the loader."""
    if given is None or not (given.endswith((".ipynb", ".py")) or os.sep in given):
        return given
    return str(_from_caller(given))


def functions_from(notebook: str | None, settings: RunSettings) -> Any:
    """The functions of a run: those that ``notebook`` defines, the others from the worked notebooks.

    Prints where they come from when a notebook was given.

    Raises:
        ValueError: the notebook cannot be read, or defines none of the functions; or one still holds its TODO.
    """
    worked = NotebookFunctions(resolve_notebooks())
    if notebook is None:
        return worked
    solutions = load(notebook)
    needed = get_algorithm(settings.algorithm).function_names(settings)
    own = [name for name in needed if name in solutions.names]
    if not own:
        raise ValueError(f"--solutions: {notebook} defines none of the functions that are needed: {', '.join(needed)}")
    # A notebook in which one function is missing must not be completed in silence by the worked one.
    missing = [name for name in needed if name not in own and NOTEBOOK_OF[name] in {NOTEBOOK_OF[n] for n in own}]
    if missing:
        raise ValueError(f"--solutions: {notebook} does not define {', '.join(missing)}")
    others = [name for name in needed if name not in own]
    print(f"{', '.join(own)}: from {notebook}" + (f"; {', '.join(others)}: worked" if others else ""))
    return FunctionSet(solutions, worked)


def trainer_settings(options: argparse.Namespace) -> TrainerSettings:
    """The settings that a command line asks for; what is not given is the profile's.

    Raises:
        ValueError: a value that cannot be used, or that the algorithm would not use.
    """
    algorithm = options.algorithm
    if algorithm not in _ADAPTS_BY_GRADIENTS:
        for name in ("inner_lr", "inner_steps", "surrogate"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')}: {algorithm} takes no inner step")
    if options.second_order and algorithm != "maml":
        hint = "it is MAML without second derivatives; use train maml" if algorithm == "fomaml" else "it has none"
        raise ValueError(f"--second-order: not for {algorithm}: {hint}")
    profile = check_profile(options.profile or os.environ.get("HW11_PROFILE") or "quick")
    given = {
        "outer_lr": options.meta_lr,
        "inner_lr": options.inner_lr,
        "inner_steps": options.inner_steps,
        "tasks": options.meta_batch,
        "iterations": options.iterations,
        "episodes": options.n_trajectories,
        "surrogate": options.surrogate,
        "horizon": options.horizon,
    }
    resources, digest = options.resources, ""
    if resources not in ("off", "live"):
        resources = str(_from_caller(resources))
        digest = hashlib.sha256(Trace.load(resources).to_bytes()).hexdigest()[:16]
    with _named_as(_TRAIN_OPTIONS):
        run = settings_for(
            profile,
            algorithm,
            options.games[0],
            options.representations[0],
            family=options.family,
            seed=options.seed,
            **{name: value for name, value in given.items() if value is not None},
        )
        return TrainerSettings(
            run,
            tuple(options.games),
            tuple(options.representations),
            options.deadlock_penalty,
            resources,
            digest,
            options.validate_every,
            options.checkpoint_every,
        )


def run_train(options: argparse.Namespace) -> int:
    """Train; 0 when the run is complete, 1 when it diverged."""
    settings = trainer_settings(options)
    device = configure(check_device(options.device))
    functions = functions_from(notebook_path(options.solutions), settings.run)
    name = default_name(settings) if options.experiment_name is None else options.experiment_name
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"--experiment-name: needs a name without folders, got {name!r}")
    folder = (output_dir() / "trained" if options.output is None else _from_caller(options.output)) / name
    many = ", ".join(str(one) for one in settings.layout.combinations)
    print(f"{get_algorithm(settings.run.algorithm).label} on {settings.run.family}: {many}; {device}, into {folder}")
    result = train(settings, functions, folder, device, resume=options.resume, stream=sys.stdout)
    best = f"best validation return {result.best_return:.3f} after {result.best_iteration}: {folder / 'best.pt'}"
    print(f"{result.iterations} iterations; " + (best if result.best_iteration else "no validation"))
    if result.diverged:
        kept = [path.name for path in (folder / "best.pt", folder / "last_good.pt") if path.is_file()]
        held = f"; kept: {', '.join(kept)} in {folder}" if kept else ""
        print(f"error: stopped: {result.diverged}{held}; try a smaller --meta-lr or --inner-lr", file=sys.stderr)
        return 1
    program = os.environ.get("HW11_PROGRAM", ".venv/bin/python -m metapcg")  # as the command line was called
    print(f"next: {program} adapt {folder / 'best.pt'} --gallery")
    return 0


def _session(options: argparse.Namespace, tasks: int, episodes: int | None):
    checkpoint = Checkpoint.load(_from_caller(options.checkpoint))
    device = configure(check_device(options.device))
    weights = None if options.weights is None else parse_weights(options.weights)
    with _named_as(_ADAPT_OPTIONS):
        session = adaptation_session(
            checkpoint,
            functions_from(notebook_path(options.solutions), checkpoint.settings),
            device,
            game=options.game,
            representation=options.representation,
            seed=options.seed,
            steps=options.steps,
            episodes=episodes,
            split=options.split,
            tasks=tasks,
            weights=weights,
        )
    return checkpoint, session


def _picture(options: argparse.Namespace, given: str | None, kind: str, session: Any) -> Path:
    if given:
        path = _from_caller(given)
        if path.suffix != ".png":
            raise ValueError(f"{given}: the picture's name must end with .png")
        return path
    one = f"{session.settings.game}-{session.settings.representation}"
    checkpoint = _from_caller(options.checkpoint)
    return checkpoint.with_name(f"{checkpoint.stem}-{kind}-{one}.png")


def run_adapt(options: argparse.Namespace) -> int:
    """Adapt to new tasks and print returns before and after; 0."""
    checkpoint, session = _session(options, options.tasks, options.episodes)
    picture = None if options.gallery is None else _picture(options, options.gallery, "adaptation", session)
    result = adapt(session, checkpoint.params)
    where = f"{result.game}-{result.representation}"
    label = get_algorithm(checkpoint.settings.algorithm).label
    print(f"{label} after {checkpoint.iteration} iterations, {where}: return by episodes seen")
    print("task".ljust(40) + "".join(f"{episodes:>10}" for episodes in result.episodes))
    for parameters, returns in zip(result.parameters, result.returns, strict=True):
        named = zip(result.parameter_names, parameters, strict=True)
        text = " ".join(f"{name}={value:.2f}" for name, value in named if len(parameters) < 4 or value)
        print(text[:39].ljust(40) + "".join(f"{value:10.3f}" for value in returns))
    print("mean".ljust(40) + "".join(f"{value:10.3f}" for value in result.returns.mean(0)))
    if picture is not None:
        save_png(adaptation_gallery(session, checkpoint.params, result), picture)
        print(f"levels at the start, edited before and after adaptation: {picture}")
    return 0


def run_generate(options: argparse.Namespace) -> int:
    """Adapt to one task and draw the levels that the adapted policy makes; 0."""
    checkpoint, session = _session(options, 2 if options.weights is None else 1, options.levels)
    path = _picture(options, options.picture, "levels", session)
    result = adapt(session, checkpoint.params)
    save_levels(list(session.levels[0]), session.settings.game, path)
    returns = result.returns[0]
    print(f"{options.levels} levels, return {returns[0]:.3f} before and {returns[-1]:.3f} after adaptation: {path}")
    return 0

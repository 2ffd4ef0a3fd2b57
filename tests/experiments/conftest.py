"""Fixtures: the notebooks' functions, tiny settings, and made-up result folders."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from metapcg.experiments.algorithms import Outcome, Session, get_algorithm
from metapcg.experiments.functions import NOTEBOOK_OF, NotebookFunctions
from metapcg.experiments.run_files import write_json
from metapcg.experiments.runs import (
    FORMAT,
    RunSettings,
    environment,
    run_fingerprint,
    run_name,
    settings_for,
    write_results,
)
from metapcg.learning.rollouts import Streams

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(scope="session")
def functions() -> NotebookFunctions:
    """The worked functions of the notebooks' sources."""
    return NotebookFunctions({name: str(NOTEBOOKS / f"{name}.py") for name in set(NOTEBOOK_OF.values())})


def tiny(algorithm: str = "maml", **overrides) -> RunSettings:
    """Settings of a run that takes a fraction of a second."""
    values = {
        "tasks": 2, "episodes": 2, "horizon": 6, "hidden": (8,), "crop": 3, "eval_tasks": 4, "eval_episodes": 2,
        "eval_steps": 1, "splits": ("train", "interpolation"), "inner_lr_grid": (1.0, 5.0),
    }  # fmt: skip
    if get_algorithm(algorithm).train:
        values["iterations"] = 4
    return settings_for("smoke", algorithm, **{**values, **overrides})


@pytest.fixture(scope="session")
def tiny_settings():
    """The function ``tiny``: algorithm and changed settings → settings."""
    return tiny


# How far each method's made-up return goes towards the oracle's, by adaptation step.
_PROGRESS = {
    "maml": (0.03, 0.78, 0.84, 0.86),
    "fomaml": (0.02, 0.72, 0.8, 0.83),
    "rl2": (0.62, 0.8, 0.84, 0.85),
    "pretrained": (0.01, 0.3, 0.42, 0.5),
    "random-init": (0.0, 0.0, 0.0, 0.0),
    "oracle": (1.0,),
    "random": (0.0,),
}
_ON_SPLIT = {
    "train": 1.0,
    "interpolation": 0.97,
    "extrapolation": 0.8,
    "held-out-representation": 0.3,
    "held-out-game": 0.2,
}


def fake_run(root: Path, settings: RunSettings, functions: object) -> Path:
    """Write a complete run folder with made-up returns; real tasks, levels and initial parameters."""
    folder = root / run_name(settings, functions)
    identity = run_fingerprint(settings, functions)
    write_json(
        folder / "settings.json",
        {"format": FORMAT, "fingerprint": identity, "settings": settings.to_dict(), **environment()},
    )
    session = Session(settings, functions)
    algorithm = get_algorithm(settings.algorithm)
    words = [settings.seed, sorted(_PROGRESS).index(settings.algorithm)]
    splits, left_out, levels = {}, {}, {}
    params = session.policy().init(Streams(0).parameters)
    for number, split in enumerate(settings.splits):
        reason = algorithm.why_left_out(settings, split)
        if reason:
            left_out[split] = reason
            continue
        rng = np.random.default_rng([*words, number])
        tasks = session.evaluation_tasks(split)
        phase = tasks.parameters[:, 0]
        ceiling = (8.5 + 2 * np.cos(2 * phase))[:, None]
        progress = np.array(_PROGRESS[settings.algorithm]) * (
            _ON_SPLIT[split] if settings.algorithm != "oracle" else 1.0
        )
        noise = rng.normal(0, 1.2, (len(tasks), len(progress)))
        result = session.split_result(split, tasks, ceiling * progress + noise, settings.eval_episodes, 5.0)
        splits[split] = dataclasses.replace(result, returns=result.returns)
        if split == "interpolation":
            levels.update({f"{split}/{name}": a for name, a in session._gallery(params, split, result).items()})
    history = []
    column = "return" if settings.algorithm in ("oracle", "pretrained") else "return_after"
    rng = np.random.default_rng(words)
    for i in range(settings.iterations):
        value = 8 * _PROGRESS[settings.algorithm][-1] * (1 - np.exp(-i / 8)) + rng.normal(0, 0.5)
        history.append({"iteration": i, column: value, "env_steps": (i + 1) * 24000})
    timing = {"train_seconds": 12.5, "evaluate_seconds": 3.5, "last_call_seconds": 16.0}
    write_results(folder, identity, params, history, Outcome(splits, left_out, levels), timing)
    return folder


def fake_results(root: Path, functions: object, seeds: int = 2, profile: str = "quick", **overrides) -> Path:
    """A result set of all algorithms in ``root``."""
    for algorithm in _PROGRESS:
        for seed in range(seeds):
            fake_run(root, settings_for(profile, algorithm, seed=seed, **overrides), functions)
    return root


@pytest.fixture(scope="session")
def make_up_run():
    """The function ``fake_run``: root, settings, functions → folder."""
    return fake_run


@pytest.fixture(scope="session")
def made_up_results(tmp_path_factory, functions) -> Path:
    """Two seeds of every algorithm on ``direction``, binary-narrow. Do not change it; copy it."""
    return fake_results(tmp_path_factory.mktemp("made-up"), functions)

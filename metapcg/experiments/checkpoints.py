"""Checkpoints of the trainer: parameters, and everything that is needed to use them on another day.

A checkpoint is read with ``torch.load(weights_only=True)``, so it can hold no code, and is checked against the policy
that it claims to be for before anything is done with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metapcg.envs.rendering import gallery
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.policies import Params
from metapcg.learning.rollouts import Streams
from metapcg.tasks.families import DirectionFamily
from metapcg.tasks.task_batch import TaskBatch

from .algorithms import Session, get_algorithm
from .outputs import write_atomically
from .run_files import brief, load_torch, write_npz, write_torch
from .runs import RunSettings, SplitResult

FORMAT = "metapcg checkpoint 1"
"""First entry of every checkpoint; the number is raised when its layout changes."""


@dataclass(frozen=True)
class Checkpoint:
    """What training leaves.

    Attributes:
        settings: of the run; its game and representation are the first that were trained on.
        games, representations: trained on.
        iteration: iterations done.
        validation_return: mean return after adaptation on the validation tasks; NaN when it was not measured then.
        params: parameters, on the CPU.
    """

    settings: RunSettings
    games: tuple[str, ...]
    representations: tuple[str, ...]
    iteration: int
    validation_return: float
    params: Params

    def save(self, path: Path) -> None:
        """Write it, atomically."""
        write_torch(
            path,
            {
                "format": FORMAT,
                "settings": self.settings.to_dict(),
                "games": list(self.games),
                "representations": list(self.representations),
                "iteration": self.iteration,
                "validation_return": self.validation_return,
                "params": {name: value.detach().cpu().clone() for name, value in self.params.items()},
            },
        )

    @classmethod
    def load(cls, path: Path | str) -> Checkpoint:
        """Read a checkpoint.

        Raises:
            ValueError: it is missing, cut short, of another program or version, or its parameters do not fit the
                policy; one line says which.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"{path}: there is no such checkpoint")
        values = load_torch(path)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            found = values.get("format") if isinstance(values, dict) else None
            raise ValueError(f"{path} is no checkpoint of this trainer (its format is {found!r}, not {FORMAT!r})")
        try:
            checkpoint = cls(
                RunSettings.from_dict(values["settings"]),
                tuple(values["games"]),
                tuple(values["representations"]),
                int(values["iteration"]),
                float(values["validation_return"]),
                dict(values["params"]),
            )
            checkpoint._check_params()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {brief(error)}") from error
        return checkpoint

    def _check_params(self) -> None:
        policy = Session(self.settings, None).policy()
        expected = {name: tuple(value.shape) for name, value in policy.init(Streams(0).parameters).items()}
        found = {name: tuple(value.shape) for name, value in self.params.items()}
        for name in sorted(set(expected) | set(found)):
            if expected.get(name) != found.get(name):
                raise ValueError(
                    f"parameter {name} has shape {found.get(name, 'none')}, the policy needs {expected.get(name)}"
                )
        broken = [name for name, value in self.params.items() if not bool(torch.isfinite(value).all())]
        if broken:
            raise ValueError(f"parameters are not finite: {', '.join(broken)}")


# ---------------------------------------------------------------------------------------------------------- adaptation


@dataclass
class AdaptationSession(Session):
    """An evaluation on tasks that are given, of one game and representation; remembers the levels last played.

    Attributes:
        tasks: the tasks.
        played: the environments of the last episodes.
    """

    tasks: TaskBatch | None = None
    played: LevelProblem | None = None

    def evaluation_tasks(self, split: str) -> TaskBatch:
        """The given tasks."""
        return self.tasks

    def policy(self, split: str = "train"):
        """The policy for the game and the representation of the tasks, whatever the split."""
        return super().policy("train")

    def problem(self, tasks: TaskBatch, episodes: int):
        """Tasks as environments."""
        self.played = super().problem(tasks, episodes)
        return self.played

    @property
    def levels(self) -> np.ndarray:
        """(M, E, H, W): what the last episodes left."""
        return self.played.engine.maps


def parse_weights(text: str) -> dict[str, float]:
    """``path-length=1,regions=-0.5`` as a mapping; ValueError says what is wrong."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip()
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not name or not equals or not np.isfinite(number):
            raise ValueError(f"--weights: {part!r} is not STATISTIC=NUMBER")
        if name in weights:
            raise ValueError(f"--weights: {name} is given twice")
        weights[name] = number
    return weights


def choose_tasks(
    settings: RunSettings, split: str, count: int, weights: Mapping[str, float] | None = None
) -> TaskBatch:
    """Tasks to adapt to: ``count`` of a split of the family, or the one with these weights.

    Weights by hand pay every increase of a statistic under ``direction``; under the other families the game's own
    ranges and goal hold.

    Raises:
        ValueError: an unknown split, or a statistic that the game lacks.
    """
    if weights is not None:
        plain = settings.family == "direction"
        return TaskBatch.from_weights(
            settings.game,
            settings.representation,
            weights,
            plain_deltas=plain,
            horizon=settings.horizon,
            stop_at_goal=not plain,
        )
    family = settings.task_family()
    if split.startswith("held-out"):
        raise ValueError(f"--split: not {split}; name the game and the representation with --game, --representation")
    if isinstance(family, DirectionFamily) and count % 2 == 0:
        return family.sample(split, count, settings.seed, antithetic=True)
    return family.sample(split, count, settings.seed)


def adaptation_session(
    checkpoint: Checkpoint,
    functions: Any,
    device: torch.device | str = "cpu",
    *,
    game: str | None = None,
    representation: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    split: str = "interpolation",
    tasks: int = 4,
    weights: Mapping[str, float] | None = None,
) -> AdaptationSession:
    """An evaluation of a checkpoint on new tasks; what is None is as the checkpoint's run had it.

    Raises:
        ValueError: a setting that cannot be used, by name.
    """
    given = {
        "game": game,
        "representation": representation,
        "seed": seed,
        "eval_steps": steps,
        "eval_episodes": episodes,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    # The held-out game and representation are not used here, and must not be those that are.
    settings = dataclasses.replace(checkpoint.settings, held_out_game=None, held_out_representation=None, **changes)
    chosen = choose_tasks(settings, split, tasks, weights)
    return AdaptationSession(settings, functions, device, tasks=chosen)


def adapt(session: AdaptationSession, params: Params) -> SplitResult:
    """Returns before and after each adaptation step, (M, K + 1); afterwards ``session.levels`` are the last ones."""
    return get_algorithm(session.settings.algorithm).evaluate(session, params, "train")


def adaptation_gallery(session: AdaptationSession, params: Params, result: SplitResult) -> np.ndarray:
    """A sheet of levels, uint8 RGB: a row per task; its start level, and that edited before and after adaptation."""
    arrays = session._gallery(params, "train", result)
    columns = [arrays[name] for name in ("start", "before", "after") if name in arrays]
    levels = [column[task] for task in range(len(columns[0])) for column in columns]
    return gallery(levels, session.settings.game, columns=len(columns), scale=1)


def save_png(image: np.ndarray, path: Path) -> None:
    """Write an RGB image, atomically; the same image gives the same bytes."""
    import io

    import matplotlib.image

    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, image, format="png", metadata={"Software": None})
    write_atomically(path, buffer.getvalue())


def save_levels(levels: Sequence[np.ndarray], game: str, path: Path) -> None:
    """Write levels as a picture ``path`` and as numbers beside it (``.npz``: ``levels``, the game's tile numbers)."""
    save_png(gallery(levels, game), path)
    write_npz(path.with_suffix(".npz"), {"levels": np.stack(levels), "game": np.array(game)})

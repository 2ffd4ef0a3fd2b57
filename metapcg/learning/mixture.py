"""Several games and representations in one batch of tasks, for one policy.

The parameters of this project's policies have the same shapes for every game and representation, so a mixture needs
nothing but a way through the training loops, which see one problem and one policy:

* ``MixedTasks``: M tasks, each of one *combination* of game and representation;
* ``MixedProblem``: one engine per combination, behind one observation and one numbering of actions;
* ``MixedPolicy``, ``MixedRecurrentPolicy``, ``mixed_agent``: each combination's own policy, on shared parameters.

Actions of all combinations are numbered one after the other; those of other combinations than a task's own have
probability 0. An observation is ``group``, the number of the combination, and ``cells``, the bytes that its
own policy observes. The array is as long as the longest combination's; each policy reads back its own part, so no
network ever sees what lies behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metapcg.games import get_game
from metapcg.games.tiles import NUM_CODES
from metapcg.tasks.families import DirectionFamily, TaskFamily
from metapcg.tasks.problem import Seed
from metapcg.tasks.task_batch import TaskBatch

from .context_policies import LatentCropNetwork, TransitionEncoder, _window
from .distributions import Categorical
from .level_problem import LevelProblem
from .off_policy_training import ContextAgent
from .policies import NUM_ACTIONS, CropPolicy, Observation, Params, is_batched
from .recurrent_policies import RecurrentCropPolicy

IMPOSSIBLE = -1e9
"""Logit of an action of another combination: its probability is exactly 0, and 0 times it is still 0."""


@dataclass(frozen=True)
class Combination:
    """A game and a representation, with the sizes of what its policy observes and does.

    Attributes:
        game, representation: names.
        crop: side of the crop.
    """

    game: str
    representation: str
    crop: int = 5

    @property
    def key(self) -> str:
        """Name of the observation: ``crop``, or ``padded`` for wide."""
        return "padded" if self.representation == "wide" else "crop"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the observation."""
        width, height = get_game(self.game).default_size
        return (height + self.crop - 1, width + self.crop - 1) if self.key == "padded" else (self.crop, self.crop)

    @property
    def num_cells(self) -> int:
        """Bytes of the observation."""
        return self.shape[0] * self.shape[1]

    @property
    def num_actions(self) -> int:
        """Actions, numbered as the engine does."""
        width, height = get_game(self.game).default_size
        places = width * height if self.key == "padded" else 1
        return places * len(CropPolicy(self.game, self.representation, self.crop).legal)

    def __str__(self) -> str:
        return f"{self.game}-{self.representation}"


@dataclass(frozen=True)
class Layout:
    """The combinations of a mixture, and where each one's actions begin.

    Attributes:
        combinations: each once, in a fixed order.
    """

    combinations: tuple[Combination, ...]

    def __post_init__(self) -> None:
        if not self.combinations or len(set(self.combinations)) != len(self.combinations):
            raise ValueError("combinations: need one or more games and representations, each once")

    @classmethod
    def of(cls, games: Sequence[str], representations: Sequence[str], crop: int = 5) -> Layout:
        """All pairs; ValueError for an unknown name or one given twice."""
        for name in games:
            get_game(name)
        return cls(tuple(Combination(game, how, crop) for game in games for how in representations))

    @property
    def offsets(self) -> np.ndarray:
        """(C + 1,) int64: combination g has the actions ``offsets[g]`` … ``offsets[g + 1] - 1``."""
        return np.concatenate([[0], np.cumsum([c.num_actions for c in self.combinations])]).astype(np.int64)

    @property
    def num_actions(self) -> int:
        """Actions of all combinations together."""
        return int(self.offsets[-1])

    @property
    def num_cells(self) -> int:
        """Bytes of the longest observation."""
        return max(c.num_cells for c in self.combinations)

    def own(self, group: int, cells: Tensor) -> dict[str, Tensor]:
        """What a combination's policy observes, (…, h, w), from ``cells`` (…, ``num_cells``)."""
        one = self.combinations[group]
        return {one.key: cells[..., : one.num_cells].reshape(*cells.shape[:-1], *one.shape)}

    def put(self, group: int, rows: Tensor, own: Tensor, into: Tensor) -> None:
        """Write a combination's logits ``own`` (n, …, A of it) into rows of ``into`` (N, …, A of all)."""
        begin, end = self.offsets[group : group + 2]
        into[rows, ..., int(begin) : int(end)] = own


@dataclass(frozen=True)
class MixedTasks:
    """M tasks, each of one combination.

    Attributes:
        batches: one per combination of the layout, None where there is no task of it.
        group: (M,) the combination of each task.
        row: (M,) its place in that combination's batch.
    """

    batches: tuple[TaskBatch | None, ...]
    group: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.group)

    def __getitem__(self, index: Any) -> MixedTasks:
        rows = np.atleast_1d(np.arange(len(self))[index])
        return MixedTasks(self.batches, self.group[rows], self.row[rows])


def sample_mixed(
    families: Sequence[TaskFamily], split: str, num_tasks: int, seed: Seed, *, pairs: bool = False
) -> MixedTasks:
    """Draw tasks of a split from several families, shared out evenly.

    What is left over goes to families that are drawn anew for every batch, so a batch smaller than the number of
    combinations trains all of them in the long run.

    Args:
        families: one per combination, in the layout's order.
        num_tasks: M.
        pairs: draw ``direction`` tasks as w and -w; M must then be even.

    Raises:
        ValueError: no task, or an odd number of them for pairs.
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    pairs = pairs and isinstance(families[0], DirectionFamily)
    unit = 2 if pairs else 1
    if num_tasks < 1 or num_tasks % unit:
        raise ValueError(f"num_tasks: needs at least one task, and an even number for pairs, got {num_tasks}")
    units, c = num_tasks // unit, len(families)
    counts = np.full(c, units // c)
    order = np.random.default_rng(_child(root, c)).permutation(c)
    counts[order[: units % c]] += 1
    batches: list[TaskBatch | None] = []
    for index, (family, count) in enumerate(zip(families, unit * counts, strict=True)):
        settings = {"antithetic": True} if pairs else {}
        batches.append(family.sample(split, int(count), _child(root, index), **settings) if count else None)
    group = np.repeat(np.arange(c), unit * counts)
    return MixedTasks(tuple(batches), group, np.concatenate([np.arange(unit * count) for count in counts]))


def _child(seed: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    # Not seed.spawn: it would change the seed, and the same seed must give the same levels again.
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index), pool_size=seed.pool_size)


RewardTerm = Callable[[LevelProblem, np.ndarray], np.ndarray]
"""(a combination's environments after a step, (m, E) which were active before it) → what is added to the rewards."""


class MixedProblem:
    """M tasks of several combinations × E environments, as one problem.

    Args:
        layout: the combinations.
        tasks: the tasks.
        num_envs: E.
        on_step: called once per step, before the terms; for clocks.
        terms: added to the rewards of environments that are still active; see ``RewardTerm``.

    Observations: ``group`` uint8 (M, E), ``cells`` uint8 (M, E, ``layout.num_cells``).
    """

    def __init__(
        self,
        layout: Layout,
        tasks: MixedTasks,
        num_envs: int,
        terms: Sequence[RewardTerm] = (),
        on_step: Callable[[], None] | None = None,
    ):
        self.layout, self.tasks, self.num_envs = layout, tasks, num_envs
        self.num_tasks = len(tasks)
        self._terms, self._on_step = tuple(terms), on_step
        self.parts: list[tuple[int, np.ndarray, LevelProblem]] = []
        for group, one in enumerate(layout.combinations):
            where = np.flatnonzero(tasks.group == group)
            if len(where):
                batch = tasks.batches[group][tasks.row[where]]
                self.parts.append((group, where, LevelProblem(batch, num_envs, one.crop)))
        self.horizon = max(part.horizon for _, _, part in self.parts)

    def _observe(self, own: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        cells = np.zeros((self.num_tasks, self.num_envs, self.layout.num_cells), np.uint8)
        for (group, where, _), obs in zip(self.parts, own, strict=True):
            one = self.layout.combinations[group]
            cells[where, :, : one.num_cells] = obs[one.key].reshape(len(where), self.num_envs, -1)
        group = np.repeat(self.tasks.group.astype(np.uint8)[:, None], self.num_envs, axis=1)
        return {"group": group, "cells": cells}

    def reset(self, seed: np.random.SeedSequence) -> dict[str, np.ndarray]:
        """Draw a fresh start level in every environment; each combination has a stream of its own."""
        return self._observe([part.reset(_child(seed, group)) for group, _, part in self.parts])

    def step(self, actions: np.ndarray):
        """Edit every level once: observation, reward (M, E), terminated (M, E), truncated (M, E).

        Raises:
            ValueError: an action of another combination than its task's, where the environment is still active.
        """
        if self._on_step is not None:
            self._on_step()
        shape = (self.num_tasks, self.num_envs)
        rewards = np.zeros(shape, np.float32)
        terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        own = []
        for group, where, part in self.parts:
            active = part.engine.active.copy()
            obs, reward, ended, cut = part.step(actions[where] - self.layout.offsets[group])
            for term in self._terms:
                reward = reward + np.where(active, term(part, active), 0.0).astype(np.float32)
            own.append(obs)
            rewards[where], terminated[where], truncated[where] = reward, ended, cut
        return self._observe(own), rewards, terminated, truncated


# ------------------------------------------------------------------------------------------------------------- policies


class MixedPolicy:
    """``CropPolicy`` of every combination on the same parameters.

    Args:
        layout: the combinations.
        hidden: widths of the hidden layers.
    """

    def __init__(self, layout: Layout, hidden: Sequence[int]):
        self.layout = layout
        self.policies = [CropPolicy(c.game, c.representation, c.crop, hidden) for c in layout.combinations]

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """As ``CropPolicy.parameter_shapes``."""
        return self.policies[0].parameter_shapes

    def init(self, generator: torch.Generator) -> Params:
        """As ``CropPolicy.init``."""
        return self.policies[0].init(generator)

    def distribution(self, params: Params, obs: Observation) -> Categorical:
        """Action distribution over the actions of all combinations, (M, …, A)."""
        group = obs["group"].flatten(1)[:, 0]
        out = params["crop.bias"].new_full((*obs["group"].shape, self.layout.num_actions), IMPOSSIBLE)
        for g, rows in _rows(group):
            own = {name: value[rows] for name, value in params.items()} if is_batched(params) else params
            logits = self.policies[g].distribution(own, self.layout.own(g, obs["cells"][rows])).logits
            self.layout.put(g, rows, logits, out)
        return Categorical(out)


def _rows(group: Tensor) -> list[tuple[int, Tensor]]:
    """Which rows belong to which combination: [(g, positions)] for a (N,) tensor."""
    return [(g, torch.nonzero(group == g).squeeze(-1)) for g in torch.unique(group).tolist()]


@dataclass(frozen=True)
class _Encoded:
    """Encodings of rows of several combinations; cut along time as a tensor would be."""

    parts: list[tuple[int, Tensor, Tensor]]  # (combination, rows, (n, …, places, F))
    rows: int

    def __getitem__(self, index: tuple[slice, slice]) -> _Encoded:
        every, _ = index
        if every != slice(None):
            raise IndexError("only the time axis can be cut")
        return _Encoded([(g, rows, value[index]) for g, rows, value in self.parts], self.rows)


class MixedRecurrentPolicy(RecurrentCropPolicy):
    """``RecurrentCropPolicy`` of every combination on the same parameters; arguments as for ``MixedPolicy``."""

    def __init__(self, layout: Layout, hidden: tuple[int, ...]):
        first = layout.combinations[0]
        super().__init__(first.game, first.representation, first.crop, tuple(hidden))
        self.layout = layout
        self.policies = [
            RecurrentCropPolicy(c.game, c.representation, c.crop, tuple(hidden)) for c in layout.combinations
        ]
        self._codes = torch.cat(
            [
                policy.action_codes(torch.arange(one.num_actions))
                for policy, one in zip(self.policies, layout.combinations, strict=True)
            ]
        )

    def encode(self, params: Params, obs: Observation) -> _Encoded:
        """As there, by combination."""
        group = obs["group"].reshape(len(obs["group"]), -1)[:, 0]
        parts = [
            (g, rows, self.policies[g].encode(params, self.layout.own(g, obs["cells"][rows])))
            for g, rows in _rows(group)
        ]
        return _Encoded(parts, len(group))

    def features(self, encoded: _Encoded) -> Tensor:
        """(N, …, F)."""
        first = encoded.parts[0][2]
        out = first.new_zeros((encoded.rows, *first.shape[1:-2], first.shape[-1]))
        for _, rows, value in encoded.parts:
            out[rows] = value.mean(-2)
        return out

    def action_codes(self, actions: Tensor) -> Tensor:
        """Place in the action vocabulary, whatever the combination."""
        return self._codes.to(actions.device)[actions]

    def distribution(self, params: Params, encoded: _Encoded, hidden: Tensor) -> Categorical:
        """Distribution over the actions of all combinations, (N, …, A)."""
        out = hidden.new_full((*hidden.shape[:-1], self.layout.num_actions), IMPOSSIBLE)
        for g, rows, value in encoded.parts:
            self.layout.put(g, rows, self.policies[g].distribution(params, value, hidden[rows]).logits, out)
        return Categorical(out)


class MixedLatentNetwork:
    """``LatentCropNetwork`` of every combination on the same parameters.

    Args:
        layout, hidden: as for ``MixedPolicy``.
        latent: length of z.
    """

    def __init__(self, layout: Layout, latent: int, hidden: Sequence[int]):
        self.layout, self.latent = layout, latent
        self.networks = [
            LatentCropNetwork(c.game, c.representation, latent, c.crop, hidden) for c in layout.combinations
        ]

    def init(self, generator: torch.Generator) -> Params:
        """As ``LatentCropNetwork.init``."""
        return self.networks[0].init(generator)

    def init_twins(self, generator: torch.Generator) -> Params:
        """As ``LatentCropNetwork.init_twins``."""
        return self.networks[0].init_twins(generator)

    def features(self, obs: Observation) -> tuple[torch.Size, list[tuple[int, Tensor, Tensor]]]:
        """Leading axes, and the crops as one-hot codes by combination, their leading axes flattened."""
        lead = obs["group"].shape
        cells = obs["cells"].reshape(-1, obs["cells"].shape[-1])
        parts = [
            (g, rows, self.networks[g].features(self.layout.own(g, cells[rows])))
            for g, rows in _rows(obs["group"].flatten())
        ]
        return lead, parts

    def scores(self, params: Params, features: Any, latent: Tensor) -> Tensor:
        """Outputs for the actions of all combinations, (…, A), or (K, …, A) for stacked parameters."""
        lead, parts = features
        z = latent.expand(*lead, self.latent).reshape(-1, self.latent)
        stack = params["crop.weight"].shape[:1] if params["crop.weight"].ndim == 4 else ()
        out = z.new_full((*stack, len(z), self.layout.num_actions), IMPOSSIBLE)
        for g, rows, value in parts:
            begin, end = (int(n) for n in self.layout.offsets[g : g + 2])
            out[..., rows, begin:end] = self.networks[g].scores(params, value, z[rows])
        return out.reshape(*stack, *lead, self.layout.num_actions)


class MixedEncoder(TransitionEncoder):
    """``TransitionEncoder`` for all combinations: crops over the union of tiles, actions over the whole vocabulary.

    Args:
        layout, latent, hidden: as for ``MixedLatentNetwork``.
    """

    def __init__(self, layout: Layout, latent: int, hidden: Sequence[int]):
        first = layout.combinations[0]
        super().__init__(first.game, "narrow", latent, first.crop, hidden)  # the crops are cut out here
        self.layout = layout
        self.policy.see(torch.arange(NUM_CODES))
        self.policy.allow(torch.arange(NUM_ACTIONS))
        self.num_actions, self.crop_size = NUM_ACTIONS, first.crop**2 * NUM_CODES
        self._legal = [CropPolicy(c.game, c.representation, c.crop).legal for c in layout.combinations]

    def parts(self, obs: Observation, actions: Tensor, rewards: Tensor, next_obs: Observation):
        """As there."""
        lead, side = actions.shape, self.crop
        flat_actions = actions.flatten()
        before, after = (o["cells"].reshape(-1, o["cells"].shape[-1]) for o in (obs, next_obs))
        crops = [before.new_zeros((len(before), side, side)) for _ in range(2)]
        codes = torch.zeros_like(flat_actions)
        for g, rows in _rows(obs["group"].flatten()):
            one, legal = self.layout.combinations[g], self._legal[g].to(actions.device)
            local = flat_actions[rows] - int(self.layout.offsets[g])
            codes[rows] = legal[local % len(legal)]
            cell, width = local // len(legal), one.shape[1] - side + 1
            for crop, cells in zip(crops, (before, after), strict=True):
                own = self.layout.own(g, cells[rows])[one.key]
                crop[rows] = own if one.key == "crop" else _window(own, cell // width, cell % width, side)
        one_crop = {"crop": crops[0].reshape(*lead, side, side)}, {"crop": crops[1].reshape(*lead, side, side)}
        return super().parts(one_crop[0], codes.reshape(lead), rewards, one_crop[1])


def mixed_agent(layout: Layout, latent: int, hidden: Sequence[int]) -> ContextAgent:
    """PEARL's networks for all combinations."""
    return ContextAgent(MixedLatentNetwork(layout, latent, hidden), MixedEncoder(layout, latent, hidden))

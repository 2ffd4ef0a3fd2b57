"""Networks told a latent task variable z, and the encoder that infers z from transitions (Rakelly et al. 2019).

As elsewhere, a network object holds sizes only and parameters are a ``dict[str, Tensor]``. Three things are built from
two classes:

* the **actor**, a ``LatentCropNetwork`` whose outputs are logits;
* the **twin critics**, one ``LatentCropNetwork`` whose outputs are Q-values of all actions, with two sets of parameters
  stacked along a leading axis, so that both are one batched matrix product;
* the **encoder**, a ``TransitionEncoder``: one Gaussian factor over z for every transition.

Parameters have the same shapes for every game and representation, so what was trained on one can be used on another.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from metapcg.games.tiles import NUM_CODES

from .distributions import Categorical
from .policies import NUM_ACTIONS, CropPolicy, Observation, Params, _uniform, linear, one_hot


def select(params: Params, part: str) -> Params:
    """The parameters of one part: those whose name starts with ``part.``, without it."""
    start = f"{part}."
    return {name.removeprefix(start): value for name, value in params.items() if name.startswith(start)}


def join(parts: dict[str, Params]) -> Params:
    """The inverse of ``select`` for several parts."""
    return {f"{part}.{name}": value for part, params in parts.items() for name, value in params.items()}


class LatentNetwork(Protocol):
    """What the training loop needs of the network of actor and critics."""

    latent: int

    def init(self, generator: torch.Generator) -> Params:
        """Draw the parameters of an actor."""

    def init_twins(self, generator: torch.Generator) -> Params:
        """Draw those of two critics, stacked along a leading axis."""

    def features(self, obs: Observation) -> Tensor:
        """What does not depend on parameters, so that several networks share it."""

    def scores(self, params: Params, features: Tensor, latent: Tensor) -> Tensor:
        """Logits or Q-values of all legal actions, (..., A), or (2, ..., A) for twins."""


class LatentEncoder(Protocol):
    """What the training loop needs of an encoder."""

    latent: int

    def init(self, generator: torch.Generator) -> Params:
        """Draw its parameters."""

    def parts(
        self, obs: Observation, actions: Tensor, rewards: Tensor, next_obs: Observation
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Transitions as numbers: s (..., F), a as one-hot (..., A), r (...), s' (..., F)."""

    def factors(self, params: Params, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the transitions' factors, each (..., N, Z)."""


class LatentCropNetwork(CropPolicy):
    """The network of ``CropPolicy`` with rectifiers and the latent z as a further input.

    Args:
        game, representation, crop, hidden: as for ``CropPolicy``.
        latent: length of z, Z.

    Observations: as for ``CropPolicy``, and ``obs["task"]`` float (..., Z) is z.
    """

    def __init__(self, game: str, representation: str, latent: int, crop: int = 5, hidden=(64, 64)):
        super().__init__(game, representation, crop, hidden, task_features=latent)
        self.latent = latent

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters for rectifiers (He et al. 2015); z starts with the weight of one cell of the crop."""
        params = super().init(generator)
        # Two of three input units are silent on average, hence sqrt 2 (a rectifier halves the second moment).
        return {k: v if k.endswith("bias") else math.sqrt(2.0) * v for k, v in params.items()}

    def init_twins(self, generator: torch.Generator) -> Params:
        """Two independent draws, stacked: every parameter has a leading axis of length 2."""
        return _stack(self.init(generator), self.init(generator))

    def features(self, obs: Observation) -> Tensor:
        """The crop as one-hot codes: (..., places, F), one place for narrow and turtle, H·W places for wide.

        What several networks read is computed once.
        """
        codes = self._crops(obs)
        return self.one_hot_crops(codes)

    def scores(self, params: Params, features: Tensor, latent: Tensor) -> Tensor:
        """Outputs for all legal actions.

        Args:
            params: one set, or K sets stacked.
            features: (..., places, F), see ``features``.
            latent: (..., Z).

        Returns:
            (..., A), or (K, ..., A) for stacked parameters; A and its order as in ``CropPolicy.distribution``.
        """
        lead, places = features.shape[:-2], features.shape[-2]
        x = features.reshape(-1, features.shape[-1])
        z = latent.expand(*lead, self.latent).reshape(-1, self.latent)
        weight = self.seen_rows(params["crop.weight"]).flatten(-3, -2)
        stacked = weight.ndim == 3
        if stacked:
            x, z = x.expand(len(weight), *x.shape), z.expand(len(weight), *z.shape)
        told = z @ params["task.weight"]
        if places > 1:
            told = told.repeat_interleave(places, dim=-2)
        h = _rectified(params, linear(x, weight, params["crop.bias"]) + told, len(self.hidden) - 1)
        out = linear(h, self.legal_weight(params["logits.weight"]), self.legal_bias(params["logits.bias"]))
        return out.reshape(*out.shape[:-2], *lead, places * len(self.legal))

    def distribution(self, params: Params, obs: Observation) -> Categorical:
        """Action distribution for observations with any leading axes, given z in ``obs["task"]``."""
        return Categorical(self.scores(params, self.features(obs), obs["task"]))


class TransitionEncoder:
    """One Gaussian factor over z for every transition (s, a, r, s').

    The network reads a flat vector per transition, which a student's ``transition_inputs`` puts together in this order:
    the crop at the agent's cell as one-hot codes, the action as one-hot, the reward, the next crop as one-hot codes.

    Args:
        game, representation, crop: as for ``CropPolicy``; for wide the crops are those round the cell that was edited.
        latent: length of z, Z.
        hidden: widths of the hidden layers (rectifiers).
        initial_precision: precision of a factor before training; the prior's is 1.
    """

    def __init__(
        self, game: str, representation: str, latent: int, crop: int = 5, hidden=(64, 64), initial_precision=0.05
    ):
        self.latent, self.hidden, self.crop = latent, tuple(hidden), crop
        self.policy = CropPolicy(game, representation, crop)
        self.num_actions = len(self.policy.legal)  # of one place: wide's write at any cell is the same act
        self.crop_size = crop**2 * len(self.policy.seen)
        self._offset = _inverse_softplus(initial_precision)

    @property
    def input_size(self) -> int:
        """Length of a transition's vector."""
        return 2 * self.crop_size + self.num_actions + 1

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter; the same for every game and representation."""
        first, last = self.hidden[0], self.hidden[-1]
        shapes: dict[str, tuple[int, ...]] = {
            "crop.weight": (self.crop**2, NUM_CODES, first),
            "action.weight": (NUM_ACTIONS, first),
            "reward.weight": (1, first),
            "next.weight": (self.crop**2, NUM_CODES, first),
            "crop.bias": (first,),
        }
        for i, (n_in, n_out) in enumerate(zip(self.hidden, self.hidden[1:], strict=False)):
            shapes[f"hidden{i}.weight"], shapes[f"hidden{i}.bias"] = (n_in, n_out), (n_out,)
        shapes["factor.weight"], shapes["factor.bias"] = (last, 2 * self.latent), (2 * self.latent,)
        return shapes

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters; the first factors are wide, so that the first posteriors are near the prior."""
        params = {}
        for name, shape in self.parameter_shapes.items():
            if name.endswith("bias"):
                params[name] = torch.zeros(shape)
            else:
                # Every transition has one action and one reward: fan-in 1. What they say about the task is said against
                # the noise of 50 cells; with the cells turned down at first it is found several times sooner.
                fan_in = 1 if name in ("action.weight", "reward.weight") else shape[0]
                gain = math.sqrt(2.0) * {"crop.weight": 0.3, "next.weight": 0.1}.get(name, 1.0)
                params[name] = _uniform(shape, fan_in, gain, generator)
        return params

    def parts(
        self, obs: Observation, actions: Tensor, rewards: Tensor, next_obs: Observation
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A transition as numbers: s (..., F), a as one-hot (..., A), r (...), s' (..., F).

        Rewards have heavy tails (one edit can cut the longest path in two); a signed logarithm keeps their order and
        sign.
        """
        if self.policy.representation == "wide":
            width = obs["padded"].shape[-1] - self.crop + 1
            cell, actions = actions // self.num_actions, actions % self.num_actions
            before, after = (_window(o["padded"], cell // width, cell % width, self.crop) for o in (obs, next_obs))
        else:
            before, after = obs["crop"], next_obs["crop"]
        squashed = torch.sign(rewards) * torch.log1p(rewards.abs())
        states = [self.policy.one_hot_crops(crop.flatten(-2)) for crop in (before, after)]
        return states[0], one_hot(actions, self.num_actions), squashed, states[1]

    def factors(self, params: Params, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the factors, each (..., Z), from transitions' vectors (..., ``input_size``)."""
        seen, legal = self.policy.seen.to(inputs.device), self.policy.legal.to(inputs.device)
        weight = torch.cat(
            [
                params["crop.weight"].index_select(1, seen).flatten(0, 1),
                params["action.weight"].index_select(0, legal),
                params["reward.weight"],
                params["next.weight"].index_select(1, seen).flatten(0, 1),
            ]
        )
        first = linear(inputs.reshape(-1, self.input_size), weight, params["crop.bias"])
        return _factors(params, _rectified(params, first, len(self.hidden) - 1), self._offset, inputs.shape[:-1])


class LatentStateNetwork:
    """As ``LatentCropNetwork``, for observations that are a vector, ``obs["state"]``.

    Args:
        obs_size: length of the state, F.
        num_actions: A.
        latent: length of z, Z.
        hidden: widths of the hidden layers (rectifiers).
    """

    def __init__(self, obs_size: int, num_actions: int, latent: int, hidden=(64, 64)):
        self.obs_size, self.num_actions, self.latent, self.hidden = obs_size, num_actions, latent, tuple(hidden)

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters."""
        return _init_vector(self.obs_size + self.latent, self.hidden, {"scores": self.num_actions}, 0.1, generator)

    def init_twins(self, generator: torch.Generator) -> Params:
        """Two independent draws, stacked: every parameter has a leading axis of length 2."""
        return _stack(self.init(generator), self.init(generator))

    def features(self, obs: Observation) -> Tensor:
        """The state, (..., F)."""
        return obs["state"]

    def scores(self, params: Params, features: Tensor, latent: Tensor) -> Tensor:
        """Outputs for all actions from (..., F) and z (..., Z): (..., A), or (K, ..., A) for stacked parameters."""
        lead = features.shape[:-1]
        x = torch.cat([features, latent.expand(*lead, self.latent)], dim=-1).reshape(-1, self.obs_size + self.latent)
        if params["first.weight"].ndim == 3:
            x = x.expand(len(params["first.weight"]), *x.shape)
        h = _rectified(params, linear(x, params["first.weight"], params["first.bias"]), len(self.hidden) - 1)
        out = linear(h, params["scores.weight"], params["scores.bias"])
        return out.reshape(*out.shape[:-2], *lead, self.num_actions)


class StateEncoder:
    """As ``TransitionEncoder``, for observations that are a vector.

    Args:
        obs_size, num_actions, latent, hidden: as for ``LatentStateNetwork``.
        initial_precision: precision of a factor before training; the prior's is 1.
    """

    def __init__(self, obs_size: int, num_actions: int, latent: int, hidden=(64, 64), initial_precision=0.05):
        self.obs_size, self.num_actions, self.latent, self.hidden = obs_size, num_actions, latent, tuple(hidden)
        self._offset = _inverse_softplus(initial_precision)

    @property
    def input_size(self) -> int:
        """Length of a transition's vector."""
        return 2 * self.obs_size + self.num_actions + 1

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters."""
        return _init_vector(self.input_size, self.hidden, {"factor": 2 * self.latent}, 1.0, generator)

    def parts(
        self, obs: Observation, actions: Tensor, rewards: Tensor, next_obs: Observation
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A transition as numbers: s (..., F), a as one-hot (..., A), r (...), s' (..., F)."""
        return obs["state"], one_hot(actions, self.num_actions), rewards, next_obs["state"]

    def factors(self, params: Params, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the factors, each (..., Z), from transitions' vectors (..., ``input_size``)."""
        first = linear(inputs.reshape(-1, self.input_size), params["first.weight"], params["first.bias"])
        return _factors(params, _rectified(params, first, len(self.hidden) - 1), self._offset, inputs.shape[:-1])


class GivenLatent:
    """A policy for ``rollouts.collect``: the actor with z fixed for every environment.

    Args:
        network: the actor.
        latent: (M, E, Z), or anything that broadcasts to it.
    """

    def __init__(self, network: LatentNetwork, latent: Tensor):
        self.network, self.latent = network, latent

    def distribution(self, params: Params, obs: Observation) -> Categorical:
        """The action distribution, given z; ``params`` are the actor's."""
        features = self.network.features(obs)
        return Categorical(self.network.scores(params, features, self.latent))


def _stack(first: Params, second: Params) -> Params:
    return {name: torch.stack([first[name], second[name]]) for name in first}


def _rectified(params: Params, first: Tensor, layers: int) -> Tensor:
    """From the first layer's sums through the further hidden layers."""
    h = torch.relu(first)
    for i in range(layers):
        h = torch.relu(linear(h, params[f"hidden{i}.weight"], params[f"hidden{i}.bias"]))
    return h


def _factors(params: Params, h: Tensor, offset: float, lead: torch.Size) -> tuple[Tensor, Tensor]:
    mean, raw = linear(h, params["factor.weight"], params["factor.bias"]).chunk(2, dim=-1)
    # A transition that says nothing has precision near 0; the small constant bounds its variance.
    variance = 1.0 / (torch.nn.functional.softplus(raw + offset) + 1e-4)
    return mean.reshape(*lead, -1), variance.reshape(*lead, -1)


def _inverse_softplus(value: float) -> float:
    return math.log(math.expm1(value))


def _init_vector(
    n_in: int, hidden: tuple[int, ...], last: dict[str, int], gain: float, generator: torch.Generator
) -> Params:
    names = ["first", *(f"hidden{i}" for i in range(len(hidden) - 1)), *last]
    sizes = [n_in, *hidden, *last.values()]
    params: Params = {}
    for name, fan_in, fan_out in zip(names, sizes, sizes[1:], strict=False):
        scale = gain if name in last else math.sqrt(2.0)
        params[f"{name}.weight"] = _uniform((fan_in, fan_out), fan_in, scale, generator)
        params[f"{name}.bias"] = torch.zeros(fan_out)
    return params


def _window(padded: Tensor, row: Tensor, column: Tensor, side: int) -> Tensor:
    offset = torch.arange(side, device=padded.device)
    rows, columns = (row[..., None] + offset)[..., :, None], (column[..., None] + offset)[..., None, :]
    index = rows * padded.shape[-1] + columns
    return padded.flatten(-2).gather(-1, index.flatten(-2)).reshape(index.shape)

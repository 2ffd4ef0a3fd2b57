"""Policies as pure functions of a parameter dict: ``policy.distribution(params, obs)``.

A policy object holds sizes (and what it picked last, ``Picker``). Parameters are a ``dict[str, Tensor]``; with a
leading axis M on every tensor, they are the own parameters of M tasks, and observations then carry the same leading
axis. One code path serves both, so a batch of adapted policies costs one batched matrix product per layer
(``torch.baddbmm``) instead of a loop over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from metapcg.games import get_game
from metapcg.games.tiles import NUM_CODES, OUTSIDE

from .distributions import Categorical, DiagonalGaussian

Params = dict[str, Tensor]
Observation = Mapping[str, Tensor]

# One action vocabulary for all games and representations: do nothing, move, write a tile of the union.
PASS, LEFT, RIGHT, UP, DOWN, WRITE = 0, 1, 2, 3, 4, 5
NUM_WRITES = OUTSIDE  # every code but OUTSIDE can be written
NUM_ACTIONS = WRITE + NUM_WRITES


def is_batched(params: Params) -> bool:
    """True when every tensor has a leading task axis (biases are then matrices)."""
    return next(v for k, v in params.items() if k.endswith("bias")).ndim == 2


def expand(params: Params, num_tasks: int) -> Params:
    """Give each of ``num_tasks`` tasks its own copy: (…) → (M, …), still a function of ``params`` for autograd."""
    return {k: v.unsqueeze(0).expand(num_tasks, *v.shape) for k, v in params.items()}


def detach(params: Params) -> Params:
    """The same values cut from the graph."""
    return {k: v.detach() for k, v in params.items()}


def to_device(params: Params, device: torch.device | str) -> Params:
    """Copy every parameter to ``device``."""
    return {k: v.to(device) for k, v in params.items()}


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x @ weight + bias`` for x (N, in) and weight (in, out), or with a leading task axis on all three."""
    if weight.ndim == 2:
        return torch.addmm(bias, x, weight)
    return torch.baddbmm(bias.unsqueeze(-2), x, weight)


def _uniform(shape: tuple[int, ...], fan_in: int, gain: float, generator: torch.Generator) -> Tensor:
    bound = gain * math.sqrt(3.0 / fan_in)
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def one_hot(index: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """One-hot codes, (...) → (..., size): rows of the identity (torch's own makes int64 first, which takes longer)."""
    return torch.nn.functional.embedding(index, torch.eye(size, dtype=dtype, device=index.device))


class Picker:
    """Rows or columns of a weight, picked once for as long as it is the same tensor and was not written to.

    An episode is played with one set of parameters and picks from them at every step. A weight with a graph is picked
    from every time. Writes that autograd does not count, through ``.data`` or NumPy, go unnoticed.

    Args:
        index: which ones, int64 (K,).
        dim: along which axis.
    """

    def __init__(self, index: Tensor, dim: int):
        self.index, self.dim = index, dim
        self._last: tuple[Tensor, int, Tensor] | None = None  # weight, how often it was written to, what was picked

    def __call__(self, weight: Tensor) -> Tensor:
        """The weight's rows or columns, (..., K, ...)."""
        if weight.requires_grad or weight.is_inference():
            return weight.index_select(self.dim, self.index.to(weight.device))
        if self._last is None or self._last[0] is not weight or self._last[1] != weight._version:
            picked = weight.index_select(self.dim, self.index.to(weight.device))
            self._last = (weight, weight._version, picked)
        return self._last[2]


class CropPolicy:
    """One network for all games and representations: an egocentric crop of tiles in, action logits out.

    ``narrow`` and ``turtle`` evaluate the network at the agent's cell. ``wide`` evaluates the *same weights* at every
    cell, which is a convolution over the level. The input is the crop as one-hot codes over the union of all games'
    tiles (plus "outside"); the output is one vocabulary (do nothing, four moves, one write per tile of the union), of
    which a game and representation use the legal part, in gym-pcgrl's own order.

    Args:
        game: name of the game.
        representation: ``narrow``, ``turtle`` or ``wide``.
        crop: odd side length of the crop, in cells.
        hidden: widths of the hidden layers (tanh).
        task_features: number of extra inputs that tell the policy its task (0: it is told nothing). They are read from
            ``obs["task"]``; only the oracle baseline uses them.

    Observations: ``obs["crop"]`` uint8 (..., c, c) for narrow and turtle, ``obs["padded"]`` uint8 (..., H+c-1, W+c-1)
    for wide.
    """

    def __init__(self, game: str, representation: str, crop: int = 5, hidden=(64, 64), task_features: int = 0):
        self.game = get_game(game)
        if representation not in ("narrow", "turtle", "wide"):
            raise ValueError(f"representation: unknown value {representation!r}; choose narrow, turtle or wide")
        self.representation = representation
        self.crop = crop
        self.hidden = tuple(hidden)
        self.task_features = task_features
        codes = [int(c) for c in self.game.codes]
        writes = [WRITE + c for c in codes]
        legal = {"narrow": [PASS, *writes], "turtle": [LEFT, RIGHT, UP, DOWN, *writes], "wide": writes}[representation]
        # Indices of the vocabulary that are legal here, in the order in which the engine numbers its actions.
        self.allow(torch.tensor(legal))
        self.see(torch.tensor([*codes, OUTSIDE]))

    def see(self, codes: Tensor) -> None:
        """Set which codes can occur in crops; other rows of the first layer would always be multiplied by zero."""
        self.seen = codes
        self.seen_rows = Picker(codes, -2)
        # A code that cannot occur is no row of zeros, which would pass for an answer: no action is drawn from NaN.
        self._rows = torch.full((NUM_CODES, len(codes)), math.nan)
        self._rows[codes] = torch.eye(len(codes))

    def allow(self, actions: Tensor) -> None:
        """Set the legal actions, in the order in which the engine numbers them."""
        self.legal = actions
        self.legal_weight, self.legal_bias = Picker(actions, -1), Picker(actions, -1)

    def one_hot_crops(self, codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """One-hot codes of crops, uint8 (..., c*c) → (..., c*c * number of codes seen)."""
        return torch.nn.functional.embedding(codes.int(), self._rows.to(codes.device, dtype)).flatten(-2)

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter; the same for every game and representation."""
        shapes: dict[str, tuple[int, ...]] = {"crop.weight": (self.crop**2, NUM_CODES, self.hidden[0])}
        if self.task_features:
            shapes["task.weight"] = (self.task_features, self.hidden[0])
        shapes["crop.bias"] = (self.hidden[0],)
        for i, (n_in, n_out) in enumerate(zip(self.hidden, self.hidden[1:], strict=False)):
            shapes[f"hidden{i}.weight"] = (n_in, n_out)
            shapes[f"hidden{i}.bias"] = (n_out,)
        shapes["logits.weight"] = (self.hidden[-1], NUM_ACTIONS)
        shapes["logits.bias"] = (NUM_ACTIONS,)
        return shapes

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters: unit-variance layers, and small logits so that the first policy is nearly uniform."""
        params = {}
        for name, shape in self.parameter_shapes.items():
            if name.endswith("bias"):
                params[name] = torch.zeros(shape)
            else:
                # One tile is active per cell of the crop, hence fan-in = number of cells.
                fan_in = shape[0]
                gain = 0.1 if name.startswith("logits") else 1.0
                params[name] = _uniform(shape, fan_in, gain, generator)
        return params

    def _crops(self, obs: Observation) -> Tensor:
        """Codes as (..., places, c*c); one place for narrow and turtle, H·W places for wide."""
        if self.representation == "wide":
            windows = obs["padded"].unfold(-2, self.crop, 1).unfold(-2, self.crop, 1)  # (..., H, W, c, c)
            return windows.flatten(-2).flatten(-3, -2)
        return obs["crop"].flatten(-2).unsqueeze(-2)

    def first_layer(self, params: Params, obs: Observation) -> Tensor:
        """Crops through the first layer, before its nonlinearity: (..., places, hidden[0]).

        One place for narrow and turtle, H·W places for wide. The first axis is M when ``params`` are batched.
        """
        codes = self._crops(obs)
        lead = codes.shape[:-1]
        active = self.one_hot_crops(codes, params["crop.bias"].dtype)
        flat = (lead[0], -1) if is_batched(params) else (-1,)
        x = active.reshape(*flat, active.shape[-1])
        weight = self.seen_rows(params["crop.weight"]).flatten(-3, -2)
        return linear(x, weight, params["crop.bias"]).reshape(*lead, -1)

    def distribution(self, params: Params, obs: Observation) -> Categorical:
        """Action distribution for observations with any leading axes (the first is M when ``params`` are batched).

        Returns:
            Categorical with logits (..., A); for wide A = H·W·tiles, flattened as (y·W + x)·tiles + tile.
        """
        batched = is_batched(params)
        h = self.first_layer(params, obs)
        lead = h.shape[:-1]
        flat = (lead[0], -1) if batched else (-1,)
        h = h.reshape(*flat, self.hidden[0])
        if self.task_features:
            task = obs["task"].unsqueeze(-2).expand(*lead, self.task_features).reshape(*flat, self.task_features)
            h = h + task @ params["task.weight"]
        h = torch.tanh(h)
        for i in range(len(self.hidden) - 1):
            h = torch.tanh(linear(h, params[f"hidden{i}.weight"], params[f"hidden{i}.bias"]))
        logits = linear(h, self.legal_weight(params["logits.weight"]), self.legal_bias(params["logits.bias"]))
        return Categorical(logits.reshape(*lead[:-1], lead[-1] * len(self.legal)))


class GaussianPolicy:
    """A tanh network with a diagonal Gaussian head for continuous actions (2-D navigation).

    Args:
        obs_size, action_size: lengths of ``obs["state"]`` and of an action.
        hidden: widths of the hidden layers.
        init_std: initial standard deviation of the actions.
        task_features: extra inputs ``obs["task"]`` for the oracle.
        min_std: lower bound of the standard deviation.
    """

    def __init__(
        self, obs_size: int, action_size: int, hidden=(100, 100), init_std=1.0, task_features=0, min_std=1e-6, gain=1.0
    ):
        self.obs_size, self.action_size, self.hidden = obs_size, action_size, tuple(hidden)
        self.init_log_std, self.min_log_std = math.log(init_std), math.log(min_std)
        self.task_features = task_features
        self.gain = gain

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters (Glorot-uniform weights, zero biases, constant log standard deviation)."""
        sizes = [self.obs_size + self.task_features, *self.hidden, self.action_size]
        params: Params = {}
        for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:], strict=False)):
            gain = self.gain if i == len(sizes) - 2 else 1.0
            params[f"layer{i}.weight"] = _uniform((n_in, n_out), (n_in + n_out) / 2, gain, generator)
            params[f"layer{i}.bias"] = torch.zeros(n_out)
        params["log_std"] = torch.full((self.action_size,), self.init_log_std)
        return params

    def distribution(self, params: Params, obs: Observation) -> DiagonalGaussian:
        """Gaussian with mean (..., D) and a log standard deviation that broadcasts to it."""
        batched = is_batched(params)
        x = obs["state"]
        if self.task_features:
            x = torch.cat([x, obs["task"].expand(*x.shape[:-1], self.task_features)], dim=-1)
        lead = x.shape[:-1]
        h = x.reshape(*((lead[0], -1) if batched else (-1,)), x.shape[-1])
        last = len(self.hidden)
        for i in range(last + 1):
            h = linear(h, params[f"layer{i}.weight"], params[f"layer{i}.bias"])
            if i < last:
                h = torch.tanh(h)
        log_std = params["log_std"].clamp(min=self.min_log_std)
        if batched:
            log_std = log_std.reshape(lead[0], *([1] * (len(lead) - 1)), self.action_size)
        return DiagonalGaussian(h.reshape(*lead, self.action_size), log_std)

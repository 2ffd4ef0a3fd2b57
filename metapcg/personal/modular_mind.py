"""The modular mind in torch, for training: a policy as a pure function of a parameter dict.

Same names, shapes and formulas as ``numpy_mind`` (see its docstring and ``weights_file``), so that trained parameters
are served by NumPy. Like every policy of ``metapcg.learning``, parameters with a leading axis M are M tasks' own, and
every operation can be differentiated twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from metapcg.learning.distributions import Categorical
from metapcg.learning.policies import Observation, Params, linear

from .numpy_mind import LAYER_NORM_EPSILON
from .weights_file import SIZES, MindSizes

_ILLEGAL = -1e9


class ModularMind:
    """Policy of the boss.

    Args:
        sizes: see ``MindSizes``.
        task_features: length of ``obs["task"]``, appended to the features (the oracle that is told its task); 0: none.

    Observations: ``obs["state"]`` (..., F) and ``obs["legal"]`` (..., A), 1 where an action is legal.
    """

    def __init__(self, sizes: MindSizes = SIZES, task_features: int = 0) -> None:
        self.task_features = task_features
        self.sizes = sizes
        self._owned = torch.tensor(sizes.owned, dtype=torch.long)

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter."""
        shapes = dict(self.sizes.shapes)
        features, units = shapes["specialists.weight"]
        shapes["specialists.weight"] = (features + self.task_features, units)
        return shapes

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters: unit-variance layers, and small logits so that the first policy is nearly uniform."""
        params: Params = {}
        for name, shape in self.parameter_shapes.items():
            if name.endswith("scale"):
                params[name] = torch.ones(shape)
            elif name.endswith("bias"):
                params[name] = torch.zeros(shape)
            else:
                # A specialist's drive sums over its own units; every other weight has its inputs along the first axis.
                fan_in = shape[1] if name == "drive.weight" else shape[0]
                gain = 0.1 if name in ("drive.weight", "coordinator.weight") else 1.0
                bound = gain * math.sqrt(3.0 / fan_in)
                params[name] = (torch.rand(shape, generator=generator) * 2 - 1) * bound
        return params

    def distribution(self, params: Params, obs: Observation) -> Categorical:
        """Action distribution (..., A); the first leading axis is M when ``params`` are batched."""
        x = obs["state"]
        if self.task_features:
            task = obs["task"].expand(*x.shape[:-1], self.task_features)
            x = torch.cat([x, task], dim=-1)
        lead = x.shape[:-1]
        batched = params["coordinator.bias"].ndim == 2
        flat = (lead[0], -1) if batched else (-1,)
        x = x.reshape(*flat, x.shape[-1])

        def row(name: str) -> Tensor:
            # A vector as a row that broadcasts over the decisions of its task.
            return params[name].unsqueeze(-2)

        units = torch.tanh(linear(x, params["specialists.weight"], params["specialists.bias"]))
        latent = linear(units, params["latent.weight"], params["latent.bias"])
        normed = _normalize(latent) * row("link.norm_in.scale") + row("link.norm_in.bias")
        gated = torch.relu(normed @ params["link.gate.weight"]) * (normed @ params["link.value.weight"])
        normed = _normalize(latent + gated @ params["link.down.weight"])
        shared = normed * row("link.norm_out.scale") + row("link.norm_out.bias")
        logits = linear(shared, params["coordinator.weight"], params["coordinator.bias"])
        owners = len(self.sizes.owned)
        owning = units[..., : owners * self.sizes.units].unflatten(-1, (owners, self.sizes.units))
        drive = (owning * params["drive.weight"].unsqueeze(-3)).sum(-1) + row("drive.bias")
        logits = logits.index_add(-1, self._owned.to(logits.device), drive)
        logits = logits.reshape(*lead, self.sizes.actions)
        return Categorical(logits.masked_fill(obs["legal"] < 0.5, _ILLEGAL))


def _normalize(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + LAYER_NORM_EPSILON)


def to_numpy(params: Params) -> dict[str, NDArray]:
    """Parameters as arrays, for ``weights_file.save_weights`` and ``NumpyMind``."""
    return {name: value.detach().cpu().numpy() for name, value in params.items()}


def from_numpy(weights: Mapping[str, NDArray], dtype: torch.dtype = torch.float32) -> Params:
    """Arrays as parameters."""
    return {name: torch.tensor(np.asarray(value), dtype=dtype) for name, value in weights.items()}

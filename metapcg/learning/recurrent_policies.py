"""Recurrent policies as pure functions of a parameter dict: the parts of RL² that are given.

An RL² policy (Duan et al. 2016) remembers. At every step a recurrent cell turns the input x_t (what is observed, and
what the previous step did and paid) and the memory h_{t-1} into a new memory h_t; actions and values are read off h_t.
The cell, the input and the unrolling over a trial are exercises and come from a notebook; this module holds what stands
around them: parameters, the encoding of observations, and the two heads.

All classes have the same methods, so ``recurrent_training`` does not tell them apart:

* ``init(generator)`` draws the parameters; those named ``scale.*`` are not trained, ``calibrate`` sets them;
* ``encode(params, obs)`` → (..., places, F), and ``features(encoded)`` → (..., F), the observation's part of the input;
* ``action_codes(actions)`` → which of ``num_action_codes`` an action is, for the input's one-hot;
* ``distribution(params, encoded, hidden)`` and ``value(params, encoded, hidden)``, the heads.

Parameters of the cell, for every class: ``gru.input.weight`` (I, 3H), ``gru.input.bias`` (3H,), ``gru.hidden.weight``
(H, 3H), ``gru.hidden.bias`` (3H,), the columns in the order reset gate, update gate, candidate. The input has
I = F + ``num_action_codes`` + 2 columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .distributions import Categorical
from .policies import NUM_ACTIONS, NUM_CODES, CropPolicy, Observation, Params, _uniform


def trainable(params: Params) -> Params:
    """The parameters that an optimiser moves: all but the scales."""
    return {name: value for name, value in params.items() if not name.startswith("scale.")}


def calibrate(params: Params, rewards: Tensor, returns: Tensor, spread: float = 1.0) -> Params:
    """Set the scales from what the untrained policy earned, so that one learning rate suits every problem.

    Rewards enter the network with a standard deviation of ``spread``. Without this, a network whose inputs are of order
    1 hardly notices rewards of order 0.1 at first, and notices nothing else when they are of order 100.

    Args:
        params: as ``init`` gave them.
        rewards: of some steps, any shape.
        returns: discounted returns of some steps, any shape.
        spread: the standard deviation that rewards get.
    """
    least = 1e-3  # a problem that paid nothing yet must not divide by zero
    return {
        **params,
        "scale.reward": spread / rewards.std().clamp(min=least),
        "scale.value_mean": returns.mean(),
        "scale.value_std": returns.std().clamp(min=least),
    }


class _Memory:
    """What both policies share: sizes of the cell, and the scales."""

    def __init__(self, feature_size: int, num_action_codes: int, memory: int) -> None:
        for name, value in (("feature_size", feature_size), ("memory", memory)):
            if value < 1:
                raise ValueError(f"{name}: needs at least 1, got {value}")
        self.feature_size, self.num_action_codes, self.memory = feature_size, num_action_codes, memory

    @property
    def input_size(self) -> int:
        """I: features, one-hot of the previous action, previous reward, done flag."""
        return self.feature_size + self.num_action_codes + 2

    def _init_cell(self, generator: torch.Generator, active: int) -> Params:
        # ``active``: how many entries of the input are not zero at a time; it is what the fan-in should count.
        size = 3 * self.memory
        return {
            "scale.reward": torch.tensor(1.0),
            "scale.value_mean": torch.tensor(0.0),
            "scale.value_std": torch.tensor(1.0),
            "gru.input.weight": _uniform((self.input_size, size), active, 1.0, generator),
            "gru.input.bias": torch.zeros(size),
            "gru.hidden.weight": _uniform((self.memory, size), self.memory, 1.0, generator),
            "gru.hidden.bias": torch.zeros(size),
        }

    def features(self, encoded: Tensor) -> Tensor:
        """(..., places, F) → (..., F): the mean over the places that an action can be chosen for."""
        return encoded.mean(-2)

    def initial_memory(self, rows: int, params: Params) -> Tensor:
        """Zeros, (rows, H)."""
        return torch.zeros(
            rows, self.memory, dtype=params["gru.hidden.bias"].dtype, device=params["gru.hidden.bias"].device
        )

    def _in_units(self, params: Params, output: Tensor) -> Tensor:
        return params["scale.value_mean"] + params["scale.value_std"] * output.squeeze(-1)


class RecurrentPolicy(_Memory):
    """For observations that are vectors, such as those of bandits and tabular MDPs; linear heads on the memory.

    Args:
        observation_size: length of ``obs["state"]``.
        num_actions: A.
        memory: H, size of the hidden state.
    """

    def __init__(self, observation_size: int, num_actions: int, memory: int = 64) -> None:
        super().__init__(observation_size, num_actions, memory)

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters; small weights of the heads, so that the first policy is nearly uniform."""
        return {
            **self._init_cell(generator, active=4),  # one-hot state and action, reward, flag
            "logits.weight": _uniform((self.memory, self.num_action_codes), self.memory, 0.1, generator),
            "logits.bias": torch.zeros(self.num_action_codes),
            "value.weight": _uniform((self.memory, 1), self.memory, 0.1, generator),
            "value.bias": torch.zeros(1),
        }

    def encode(self, params: Params, obs: Observation) -> Tensor:
        """The observation as it is, one place: (..., 1, F)."""
        return obs["state"].unsqueeze(-2)

    def action_codes(self, actions: Tensor) -> Tensor:
        """Actions are their own codes."""
        return actions

    def distribution(self, params: Params, encoded: Tensor, hidden: Tensor) -> Categorical:
        """Distribution over A actions for memories (..., H)."""
        return Categorical(hidden @ params["logits.weight"] + params["logits.bias"])

    def value(self, params: Params, encoded: Tensor, hidden: Tensor) -> Tensor:
        """Expected discounted return of the rest of the trial, (...)."""
        return self._in_units(params, hidden @ params["value.weight"] + params["value.bias"])


class TabularRecurrentPolicy(RecurrentPolicy):
    """For tabular MDPs seen through ``metapcg.tasks.tabular_mdp.TransitionProblem``: what is remembered is a table.

    Two things are unlike ``RecurrentPolicy`` (``benchmarks/tabular_mdp_inputs.py`` measures what they are worth).
    Every state reads its action logits off the memory with weights of its own. And the update gates begin open for the
    past, with time constants τ spread evenly from two steps to ``span`` (Tallec and Ollivier 2018, "Can recurrent
    neural networks warp time?", section 2): a state is met again after some ten steps, and a gate that forgets half at
    every step leaves nothing by then, nor a gradient.

    Args:
        num_states: S; the state is one-hot in the first S numbers of ``obs["state"]``.
        observation_size, num_actions, memory: as for ``RecurrentPolicy``.
        span: longest time constant in steps; of the order of a trial.

    Raises:
        ValueError: a span of two steps or less.
    """

    def __init__(
        self, num_states: int, observation_size: int, num_actions: int, memory: int = 64, span: float = 50.0
    ) -> None:
        super().__init__(observation_size, num_actions, memory)
        if not span > 2.0:
            raise ValueError(f"span: needs more than two steps, got {span}")
        self.num_states, self.span = num_states, span

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters; small weights of the heads, so that the first policy is nearly uniform."""
        params = super().init(generator)
        # σ(log(τ - 1)) = 1 - 1/τ: the share of the past that a step keeps.
        spread = torch.rand(self.memory, generator=generator) * (self.span - 2.0) + 1.0  # τ - 1
        params["gru.input.bias"][self.memory : 2 * self.memory] = torch.log(spread)
        shape = (self.memory, self.num_states * self.num_action_codes)
        params["table.weight"] = _uniform(shape, self.memory, 0.1, generator)
        return params

    def distribution(self, params: Params, encoded: Tensor, hidden: Tensor) -> Categorical:
        """Distribution over A actions for memories (..., H), in the states of ``encoded`` (..., 1, F)."""
        state = encoded[..., 0, : self.num_states]
        table = (hidden @ params["table.weight"]).unflatten(-1, (self.num_states, self.num_action_codes))
        own = (state.unsqueeze(-1) * table).sum(-2)
        return Categorical(hidden @ params["logits.weight"] + params["logits.bias"] + own)


class RecurrentCropPolicy(_Memory):
    """For game levels: the egocentric crop of ``CropPolicy``, its vocabularies of tiles and actions, and a memory.

    The crop's first layer gives F features of a cell. Action logits come from a layer on those features *and* the
    memory, so the memory plays the part that the task's weights play for the oracle. ``wide`` evaluates the logits at
    every cell, with the same weights, and puts the mean of all cells' features into the recurrent cell's input.
    Parameters have the same shapes for all games and representations.

    Args:
        game, representation, crop: as for ``CropPolicy``.
        hidden: widths; the first is F, the number of features of a cell, the last H, the size of the memory.

    Raises:
        ValueError: an unknown game or representation, or no width.
    """

    def __init__(self, game: str, representation: str, crop: int = 5, hidden: tuple[int, ...] = (64, 64)) -> None:
        if not hidden:
            raise ValueError("hidden: needs one or more widths, got none")
        super().__init__(hidden[0], NUM_ACTIONS, hidden[-1])
        self._crop = CropPolicy(game, representation, crop, (hidden[0],))

    def init(self, generator: torch.Generator) -> Params:
        """Draw parameters; small weights of the outputs, so that the first policy is nearly uniform."""
        f, h, cells = self.feature_size, self.memory, self._crop.crop**2
        params = {
            "crop.weight": _uniform((cells, NUM_CODES, f), cells, 1.0, generator),
            "crop.bias": torch.zeros(f),
            **self._init_cell(generator, active=self.feature_size + 3),
        }
        for head, outputs in (("logits", NUM_ACTIONS), ("value", 1)):
            params[f"{head}.cell.weight"] = _uniform((f, h), f + h, 1.0, generator)
            params[f"{head}.memory.weight"] = _uniform((h, h), f + h, 1.0, generator)
            params[f"{head}.bias"] = torch.zeros(h)
            params[f"{head}.out.weight"] = _uniform((h, outputs), h, 0.1, generator)
            params[f"{head}.out.bias"] = torch.zeros(outputs)
        return params

    def encode(self, params: Params, obs: Observation) -> Tensor:
        """(..., places, F): one place for narrow and turtle, H·W for wide."""
        return torch.tanh(self._crop.first_layer(params, obs))

    def action_codes(self, actions: Tensor) -> Tensor:
        """Place in the action vocabulary; for wide, that of the tile written, wherever it was written."""
        legal = self._crop.legal.to(actions.device)
        return legal[actions % len(legal)]

    def distribution(self, params: Params, encoded: Tensor, hidden: Tensor) -> Categorical:
        """Distribution over the legal actions, in the engine's order; for wide flattened as (y·W + x)·tiles + tile."""
        h = self._head(params, "logits", encoded, hidden.unsqueeze(-2))
        weight = self._crop.legal_weight(params["logits.out.weight"])
        bias = self._crop.legal_bias(params["logits.out.bias"])
        return Categorical((h @ weight + bias).flatten(-2))

    def value(self, params: Params, encoded: Tensor, hidden: Tensor) -> Tensor:
        """Expected discounted return of the rest of the trial, (...)."""
        h = self._head(params, "value", self.features(encoded), hidden)
        return self._in_units(params, h @ params["value.out.weight"] + params["value.out.bias"])

    @staticmethod
    def _head(params: Params, head: str, encoded: Tensor, hidden: Tensor) -> Tensor:
        cell, memory = params[f"{head}.cell.weight"], params[f"{head}.memory.weight"]
        return torch.tanh(encoded @ cell + hidden @ memory + params[f"{head}.bias"])

"""The modular mind in NumPy: forward, and backward by hand. For serving; imports neither torch nor numba.

With features x, the specialists' units h, latent z and the legal actions' mask:

    h      = tanh(x W_s + b_s)                            all specialists side by side
    z      = h W_z + b_z                                  all of them add to one latent
    u      = LN(z; norm_in)                               LN(z) = (z - mean z)/sqrt(var z + ε) · scale + bias
    r      = relu(u W_g) ∘ (u W_v)                        the gated link (ReGLU: Shazeer 2020, arXiv:2002.05202)
    y      = LN(z + r W_d; norm_out)
    logits = y W_c + b_c, and + h_s · w_s + b_s for the action that specialist s owns
    π      = softmax of the legal logits

Loss of decisions t = 1 … T (REINFORCE: Williams 1992, with an entropy bonus):

    L = - (1/T) Σ_t [ Â_t log π(a_t | x_t) + c H(π(· | x_t)) ],   H = - Σ_a π_a log π_a

so ∂L/∂logits_t = (1/T) [ Â_t (π - onehot(a_t)) + c π ∘ (log π + H) ], zero for illegal actions. From there back:
``gradient`` does it for all decisions at once, ``step_gradient`` for one; the second is the first's plain twin. A mind
that is given the functions of notebook 5 goes back through those instead (``GradientFunctions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .weights_file import SIZES, MindSizes, Weights, flatten

LAYER_NORM_EPSILON = 1e-5
LINK_WEIGHTS = tuple(name for name in SIZES.shapes if name.startswith("link."))
_ILLEGAL = -1e9

Array = NDArray[np.float64]


class LinkValues(NamedTuple):
    """What the link's forward pass leaves for its backward pass, each with leading axis T.

    Attributes:
        normed_in, std_in: of the first layer norm: (z - mean)/std (T, D) and std (T, 1).
        normed: u, its output (T, D).
        pre_gate, value: u W_g and u W_v, (T, G).
        gated: r = relu(pre_gate) ∘ value (T, G).
        normed_out, std_out: of the second layer norm, like those of the first.
    """

    normed_in: Array
    std_in: Array
    normed: Array
    pre_gate: Array
    value: Array
    gated: Array
    normed_out: Array
    std_out: Array


class Activations(NamedTuple):
    """What the forward pass leaves for the backward pass: units (T, S·H), y (T, D), and the link's."""

    units: Array
    shared: Array
    link: LinkValues


class GradientFunctions(Protocol):
    """The functions that a mind goes back through, as notebook 5 (``5_online``) defines them."""

    def logit_gradient(
        self,
        logits: Array,
        legal: NDArray[np.bool_],
        actions: NDArray[np.int64],
        advantages: Array,
        entropy_weight: float,
    ) -> Array:
        """∂L/∂logits (T, A), the 1/T included."""

    def link_backward(
        self, g_out: Array, seen: LinkValues, weights: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        """From ∂L/∂y (T, D) to ∂L/∂z (T, D) and the gradients of the weights ``link.*`` by name."""


class NumpyMind:
    """A modular mind with its weights.

    Args:
        weights: name → array, as ``weights_file`` describes; copied to float64.
        sizes: see ``MindSizes``.
        functions: see ``GradientFunctions``; None: the library's own.

    Attributes:
        flat: all weights in one vector; writing to it changes the mind.
        weights: name → view into ``flat``.

    Raises:
        ValueError: weights that do not fit; see ``weights_file.flatten``.
    """

    def __init__(
        self, weights: Mapping[str, object], sizes: MindSizes = SIZES, functions: GradientFunctions | None = None
    ) -> None:
        self.sizes = sizes
        self.functions = functions
        self.flat = flatten(weights, sizes)
        self.weights: Weights = sizes.views(self.flat)
        self._owned = np.array(sizes.owned, dtype=np.int64)

    def forward(self, features: Array) -> tuple[Array, Activations]:
        """Logits (T, A) of features (T, F), not masked, and what ``gradient`` needs."""
        w, sizes = self.weights, self.sizes
        units = np.tanh(features @ w["specialists.weight"] + w["specialists.bias"])
        latent = units @ w["latent.weight"] + w["latent.bias"]
        shared, link = link_forward(latent, w)
        logits = shared @ w["coordinator.weight"] + w["coordinator.bias"]
        if len(self._owned):
            owning = units[:, : len(self._owned) * sizes.units].reshape(-1, len(self._owned), sizes.units)
            logits[:, self._owned] += np.add.reduce(owning * w["drive.weight"], -1) + w["drive.bias"]
        return logits, Activations(units, shared, link)

    def log_probabilities(self, features: Array, legal: NDArray[np.bool_]) -> Array:
        """Log-probabilities of features (..., F) under the mask (..., A): (..., A), about -1e9 where illegal."""
        lead = features.shape[:-1]
        logits, _ = self.forward(features.reshape(-1, features.shape[-1]))
        return _log_softmax(logits.reshape(*lead, -1), legal)

    def probabilities(self, features: Array, legal: NDArray[np.bool_]) -> Array:
        """Probabilities (..., A), exactly zero where illegal."""
        return np.exp(self.log_probabilities(features, legal))

    def loss(
        self,
        features: Array,
        legal: NDArray[np.bool_],
        actions: NDArray[np.int64],
        advantages: Array,
        entropy_weight: float = 0.0,
    ) -> float:
        """The loss of the module's docstring; arguments as in ``gradient``."""
        log_pi = self.log_probabilities(features, legal)
        chosen = log_pi[np.arange(len(actions)), actions]
        entropy = -(np.exp(log_pi) * log_pi).sum(-1)
        return float(-(advantages * chosen + entropy_weight * entropy).mean())

    def gradient(
        self,
        features: Array,
        legal: NDArray[np.bool_],
        actions: NDArray[np.int64],
        advantages: Array,
        entropy_weight: float = 0.0,
    ) -> Array:
        """Gradient of the loss with respect to every weight, as one vector in the order of ``flat``.

        Args:
            features: (T, F).
            legal: (T, A) bool, at least one legal action each.
            actions: (T,) int, legal.
            advantages: (T,), of either sign.
            entropy_weight: c.

        Raises:
            ValueError: one of ``functions`` gives something of another shape, or leaves a weight of the link out.
        """
        w, sizes = self.weights, self.sizes
        logits, seen = self.forward(features)
        flat = np.empty_like(self.flat)
        g = sizes.views(flat)
        if self.functions is None:
            g_logits = _logit_gradient(_log_softmax(logits, legal), actions, advantages, entropy_weight) / len(actions)
        else:
            g_logits = self.functions.logit_gradient(logits, legal, actions, advantages, entropy_weight)
            _check_shape("logit_gradient", g_logits, logits.shape)

        # Coordinator and link.
        np.matmul(seen.shared.T, g_logits, out=g["coordinator.weight"])
        g_logits.sum(0, out=g["coordinator.bias"])
        g_shared = g_logits @ w["coordinator.weight"].T
        if self.functions is None:
            g_latent = _link_backward(g_shared, seen.link, w, g)
        else:
            # A copy: a student's function may work in place.
            link = {name: w[name].copy() for name in LINK_WEIGHTS}
            g_latent, by_name = self.functions.link_backward(g_shared, seen.link, link)
            _check_shape("link_backward, the latent's gradient", g_latent, g_shared.shape)
            for name in LINK_WEIGHTS:
                _check_shape(f"link_backward, gradient {name!r}", by_name.get(name), g[name].shape)
                g[name][:] = by_name[name]

        # Specialists: through the latent, and for those that own an action through its logit.
        np.matmul(seen.units.T, g_latent, out=g["latent.weight"])
        g_latent.sum(0, out=g["latent.bias"])
        g_units = g_latent @ w["latent.weight"].T
        owners = len(self._owned)
        if owners:
            g_drive = g_logits[:, self._owned]
            owning = seen.units[:, : owners * sizes.units].reshape(-1, owners, sizes.units)
            (g_drive[:, :, None] * owning).sum(0, out=g["drive.weight"])
            g_drive.sum(0, out=g["drive.bias"])
            g_units[:, : owners * sizes.units] += (g_drive[:, :, None] * w["drive.weight"]).reshape(len(features), -1)
        g_pre = g_units * (1.0 - seen.units**2)
        np.matmul(features.T, g_pre, out=g["specialists.weight"])
        g_pre.sum(0, out=g["specialists.bias"])
        return flat

    def step_gradient(
        self,
        features: Array,
        legal: NDArray[np.bool_],
        action: int,
        advantage: float,
        entropy_weight: float = 0.0,
    ) -> Array:
        """Gradient of one decision's loss: vectors and outer products, specialist by specialist.

        Slow and plain on purpose. The mean of it over a fight's decisions is ``gradient``.

        Args:
            features: (F,).
            legal: (A,) bool.
            action, advantage: of the decision.
            entropy_weight: c.
        """
        w, sizes = self.weights, self.sizes
        flat = np.zeros_like(self.flat)
        g = sizes.views(flat)

        # Forward.
        blocks = [slice(s * sizes.units, (s + 1) * sizes.units) for s in range(sizes.specialists)]
        units, latent = [], w["latent.bias"].copy()
        for block in blocks:
            units.append(np.tanh(features @ w["specialists.weight"][:, block] + w["specialists.bias"][block]))
            latent += units[-1] @ w["latent.weight"][block]
        normed_in, std_in = _normalize(latent)
        normed = normed_in * w["link.norm_in.scale"] + w["link.norm_in.bias"]
        pre_gate, value = normed @ w["link.gate.weight"], normed @ w["link.value.weight"]
        gate = np.maximum(pre_gate, 0.0)
        normed_out, std_out = _normalize(latent + (gate * value) @ w["link.down.weight"])
        shared = normed_out * w["link.norm_out.scale"] + w["link.norm_out.bias"]
        logits = shared @ w["coordinator.weight"] + w["coordinator.bias"]
        for s, owned in enumerate(sizes.owned):
            logits[owned] += w["drive.weight"][s] @ units[s] + w["drive.bias"][s]

        # Backward.
        log_pi = _log_softmax(logits[None], legal[None])
        g_logits = _logit_gradient(log_pi, np.array([action]), np.array([advantage]), entropy_weight)[0]
        g["coordinator.weight"][:] = np.outer(shared, g_logits)
        g["coordinator.bias"][:] = g_logits
        g_shared = w["coordinator.weight"] @ g_logits
        g["link.norm_out.scale"][:] = g_shared * normed_out
        g["link.norm_out.bias"][:] = g_shared
        g_sum = _normalize_backward(g_shared * w["link.norm_out.scale"], normed_out, std_out)
        g["link.down.weight"][:] = np.outer(gate * value, g_sum)
        g_gated = w["link.down.weight"] @ g_sum
        g_pre_gate, g_value = g_gated * value * (pre_gate > 0.0), g_gated * gate
        g["link.gate.weight"][:] = np.outer(normed, g_pre_gate)
        g["link.value.weight"][:] = np.outer(normed, g_value)
        g_normed = w["link.gate.weight"] @ g_pre_gate + w["link.value.weight"] @ g_value
        g["link.norm_in.scale"][:] = g_normed * normed_in
        g["link.norm_in.bias"][:] = g_normed
        g_latent = g_sum + _normalize_backward(g_normed * w["link.norm_in.scale"], normed_in, std_in)
        g["latent.bias"][:] = g_latent
        for s, block in enumerate(blocks):
            g["latent.weight"][block] = np.outer(units[s], g_latent)
            g_units = w["latent.weight"][block] @ g_latent
            if s < len(sizes.owned):
                g_drive = g_logits[sizes.owned[s]]
                g["drive.weight"][s] = g_drive * units[s]
                g["drive.bias"][s] = g_drive
                g_units = g_units + g_drive * w["drive.weight"][s]
            g_pre = g_units * (1.0 - units[s] ** 2)
            g["specialists.weight"][:, block] = np.outer(features, g_pre)
            g["specialists.bias"][block] = g_pre
        return flat


def link_forward(latent: Array, weights: Mapping[str, Array]) -> tuple[Array, LinkValues]:
    """The gated link between its two layer norms: from z (T, D) to y (T, D), and what its backward pass needs.

    Args:
        latent: z.
        weights: holds ``LINK_WEIGHTS``.
    """
    normed_in, std_in = _normalize(latent)
    normed = normed_in * weights["link.norm_in.scale"] + weights["link.norm_in.bias"]
    pre_gate = normed @ weights["link.gate.weight"]
    value = normed @ weights["link.value.weight"]
    gated = np.maximum(pre_gate, 0.0) * value
    normed_out, std_out = _normalize(latent + gated @ weights["link.down.weight"])
    shared = normed_out * weights["link.norm_out.scale"] + weights["link.norm_out.bias"]
    return shared, LinkValues(normed_in, std_in, normed, pre_gate, value, gated, normed_out, std_out)


def _link_backward(g_out: Array, seen: LinkValues, w: Mapping[str, Array], g: Weights) -> Array:
    # Writes the gradients of the link's weights into g and returns the latent's.
    (g_out * seen.normed_out).sum(0, out=g["link.norm_out.scale"])
    g_out.sum(0, out=g["link.norm_out.bias"])
    g_sum = _normalize_backward(g_out * w["link.norm_out.scale"], seen.normed_out, seen.std_out)
    # The latent reaches the sum twice: through the gate and past it.
    np.matmul(seen.gated.T, g_sum, out=g["link.down.weight"])
    g_gated = g_sum @ w["link.down.weight"].T
    g_value = g_gated * np.maximum(seen.pre_gate, 0.0)
    g_pre_gate = g_gated * seen.value * (seen.pre_gate > 0.0)
    np.matmul(seen.normed.T, g_pre_gate, out=g["link.gate.weight"])
    np.matmul(seen.normed.T, g_value, out=g["link.value.weight"])
    g_normed = g_pre_gate @ w["link.gate.weight"].T + g_value @ w["link.value.weight"].T
    (g_normed * seen.normed_in).sum(0, out=g["link.norm_in.scale"])
    g_normed.sum(0, out=g["link.norm_in.bias"])
    return g_sum + _normalize_backward(g_normed * w["link.norm_in.scale"], seen.normed_in, seen.std_in)


def _check_shape(what: str, value: object, shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.ndarray) or value.shape != shape:
        got = f"shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{what}: needs an array of shape {shape}, got {got}")


def _normalize(x: Array) -> tuple[Array, Array]:
    # (x - mean) / std over the last axis, and std (..., 1).
    size = x.shape[-1]
    centred = x - np.add.reduce(x, -1, keepdims=True) / size
    std = np.sqrt(np.add.reduce(centred * centred, -1, keepdims=True) / size + LAYER_NORM_EPSILON)
    return centred / std, std


def _normalize_backward(g: Array, normed: Array, std: Array) -> Array:
    # From the gradient at the normalised values to that at x: mean and std depend on every entry of x.
    size = g.shape[-1]
    mean = np.add.reduce(g, -1, keepdims=True) / size
    along = np.add.reduce(g * normed, -1, keepdims=True) / size
    return (g - mean - normed * along) / std


def _log_softmax(logits: Array, legal: NDArray[np.bool_]) -> Array:
    masked = np.where(legal, logits, _ILLEGAL)
    masked -= np.maximum.reduce(masked, -1, keepdims=True)
    return masked - np.log(np.add.reduce(np.exp(masked), -1, keepdims=True))


def _logit_gradient(log_pi: Array, actions: NDArray[np.int64], advantages: Array, entropy_weight: float) -> Array:
    # (T, A), of each decision's own loss. Illegal actions have π = 0, and so no gradient.
    pi = np.exp(log_pi)
    g = advantages[:, None] * pi
    g[np.arange(len(actions)), actions] -= advantages
    if entropy_weight:
        plogp = pi * log_pi
        g += entropy_weight * (plogp - pi * np.add.reduce(plogp, -1, keepdims=True))
    return g

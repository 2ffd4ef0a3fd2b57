"""Names, shapes and files of the modular mind's weights: shared by torch (training) and NumPy (serving).

Layout, with F features, A actions, S specialists of H units each (O of them own an action), a latent of D and a gate of
G numbers. Vectors are rows: a layer is ``x @ weight + bias``.

======================  ==========  ===========================================================================
name                    shape       meaning
======================  ==========  ===========================================================================
specialists.weight      (F, S·H)    features to the specialists' units; specialist s has columns s·H … (s+1)·H - 1
specialists.bias        (S·H,)
drive.weight            (O, H)      each owning specialist's units to the logit of its own action
drive.bias              (O,)
latent.weight           (S·H, D)    every specialist's contribution to the shared latent
latent.bias             (D,)
link.norm_in.scale      (D,)        layer norm before the gate
link.norm_in.bias       (D,)
link.gate.weight        (D, G)      what is let through (ReLU)
link.value.weight       (D, G)      what passes
link.down.weight        (G, D)      back to the latent
link.norm_out.scale     (D,)        layer norm after the residual sum
link.norm_out.bias      (D,)
coordinator.weight      (D, A)      the modulation of all logits
coordinator.bias        (A,)
======================  ==========  ===========================================================================
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .arena import NUM_ACTIONS, WAIT
from .features import NUM_FEATURES

Weights = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class MindSizes:
    """Sizes of a modular mind.

    Attributes:
        features, actions: F and A.
        owned: the action that each of the first O specialists owns; no two own the same.
        free: specialists that own no action and speak through the latent only.
        units: H, per specialist.
        latent: D.
        gate: G.

    Raises:
        ValueError: naming the size that makes no sense.
    """

    features: int = NUM_FEATURES
    actions: int = NUM_ACTIONS
    owned: tuple[int, ...] = tuple(action for action in range(NUM_ACTIONS) if action != WAIT)
    free: int = 2
    units: int = 12
    latent: int = 16
    gate: int = 32

    def __post_init__(self) -> None:
        for name in ("features", "actions", "units", "latent", "gate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.free < 0 or self.specialists < 1:
            raise ValueError("free: must be at least 0, and there must be at least one specialist")
        if len(set(self.owned)) != len(self.owned) or not all(0 <= a < self.actions for a in self.owned):
            raise ValueError(f"owned: needs different actions of 0 … {self.actions - 1}, got {self.owned}")

    @property
    def specialists(self) -> int:
        """S."""
        return len(self.owned) + self.free

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight, in the order in which they are stored."""
        units = self.specialists * self.units
        return {
            "specialists.weight": (self.features, units),
            "specialists.bias": (units,),
            "drive.weight": (len(self.owned), self.units),
            "drive.bias": (len(self.owned),),
            "latent.weight": (units, self.latent),
            "latent.bias": (self.latent,),
            "link.norm_in.scale": (self.latent,),
            "link.norm_in.bias": (self.latent,),
            "link.gate.weight": (self.latent, self.gate),
            "link.value.weight": (self.latent, self.gate),
            "link.down.weight": (self.gate, self.latent),
            "link.norm_out.scale": (self.latent,),
            "link.norm_out.bias": (self.latent,),
            "coordinator.weight": (self.latent, self.actions),
            "coordinator.bias": (self.actions,),
        }

    @property
    def count(self) -> int:
        """Number of weights."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def views(self, flat: NDArray[np.float64]) -> Weights:
        """The weights by name, as views into one vector of ``count`` numbers."""
        if flat.shape != (self.count,):
            raise ValueError(f"weights: need a vector of {self.count} numbers, got shape {flat.shape}")
        views, first = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            views[name] = flat[first : first + size].reshape(shape)
            first += size
        return views


SIZES = MindSizes()

ANCHORS = ("meta-learned", "multi-task", "random")
"""Starting points that the package brings along."""


def flatten(weights: Mapping[str, object], sizes: MindSizes = SIZES) -> NDArray[np.float64]:
    """All weights in one float64 vector, after a check of names, shapes and values.

    Raises:
        ValueError: a weight is missing, unknown, of another shape, or not finite; says which.
    """
    shapes = sizes.shapes
    for wrong, names in (("missing", shapes.keys() - weights.keys()), ("unknown", weights.keys() - shapes.keys())):
        if names:
            raise ValueError(f"weights: {wrong}: {', '.join(sorted(names))}")
    parts = []
    for name, shape in shapes.items():
        value = np.asarray(weights[name], dtype=np.float64)
        if value.shape != shape:
            raise ValueError(f"weights: {name} needs shape {shape}, got {value.shape}")
        if not np.isfinite(value).all():
            raise ValueError(f"weights: {name} holds NaN or infinity")
        parts.append(value.ravel())
    return np.concatenate(parts)


def save_weights(path: str | os.PathLike[str], weights: Mapping[str, object], sizes: MindSizes = SIZES) -> None:
    """Write weights as ``.npz``, atomically, in the precision they come in.

    Raises:
        ValueError: see ``flatten``.
        OSError: the file cannot be written; an earlier one is kept.
    """
    flatten(weights, sizes)
    write_arrays(path, {name: np.asarray(weights[name]) for name in sizes.shapes}, mode=0o644)


def load_weights(path: str | os.PathLike[str], sizes: MindSizes = SIZES) -> Weights:
    """Read weights that ``save_weights`` wrote, as float64.

    Raises:
        ValueError: the file is missing, is no ``.npz``, or holds other weights; says which.
    """
    try:
        return {name: value.copy() for name, value in sizes.views(flatten(read_arrays(path), sizes)).items()}
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def load_anchor(name: str = "meta-learned") -> Weights:
    """The weights of a boss that the package brings along, as float64.

    Args:
        name: one of ``ANCHORS``; how they were trained is told by ``metapcg.personal.anchors``.

    Raises:
        ValueError: another name.
    """
    if name not in ANCHORS:
        raise ValueError(f"anchor: unknown name {name!r}, choose one of {', '.join(ANCHORS)}")
    return load_weights(anchor_path(name))


def anchor_path(name: str) -> Path:
    """Where the package keeps an anchor's file."""
    return Path(__file__).with_name("data") / f"{name}.npz"


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray], durable: bool = True, mode: int = 0o600
) -> None:
    """Write arrays as ``.npz`` by way of a temporary sibling: a reader sees the old file or the new one, never a part.

    Args:
        durable: wait until the data are on the disk, so that even a power cut leaves one of the two.
        mode: permissions of the file; by default only its owner may read it.

    Raises:
        OSError: the file cannot be written; the old one is kept and no part is left.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)  # gone already when all went well


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Read an ``.npz``; pickled objects are refused.

    Raises:
        ValueError: the file is missing or is no such archive.
    """
    try:
        # An open file, because numpy would leave its own open when the archive is broken.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            return {name: archive[name] for name in archive.files}
    except (OSError, EOFError, KeyError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"not a readable .npz file ({detail})") from error

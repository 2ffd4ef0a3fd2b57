"""Comparison of a student's tensor with the right one, with a message that names the likely mistake.

The visible tests of the notebooks call ``check`` with the answers that well-known mistakes would give. A wrong answer
that equals one of them is reported by the mistake's name, which helps more than two columns of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Numbers = Tensor | Sequence


def check(
    what: str,
    got: object,
    expected: Numbers,
    mistakes: Mapping[str, Numbers] | None = None,
    hint: str = "",
    tolerance: float = 1e-6,
    quote: bool = True,
) -> None:
    """Raise an ``AssertionError`` with a helpful message unless ``got`` equals ``expected``.

    Args:
        what: what was computed, for the message: exercise and inputs.
        got: the student's result.
        expected: the right result. A tensor also fixes the dtype; a nested list does not.
        mistakes: what to say about a mistake → the result that this mistake gives.
        hint: said when no mistake matches.
        tolerance: absolute, and relative to the largest right entry.
        quote: False keeps the numbers out of the message.
    """
    if got is None:
        raise AssertionError(f"{what}: the function returned None. Is the `return` missing?")
    if not isinstance(got, Tensor):
        raise AssertionError(f"{what}: expected a torch.Tensor, got {type(got).__name__}.")
    right = torch.as_tensor(expected, dtype=None if isinstance(expected, Tensor) else got.dtype)
    shape = tuple(right.shape)
    if tuple(got.shape) != shape:
        raise AssertionError(
            f"{what}: the shape should be {shape}, got {tuple(got.shape)}. Which axis was summed, kept or lost?"
        )
    if got.dtype != right.dtype:
        raise AssertionError(
            f"{what}: the dtype should be {right.dtype} like the inputs, got {got.dtype}. "
            "Make new tensors with torch.zeros_like(...)."
        )
    got, right = got.detach().cpu(), right.detach().cpu()
    if _close(got, right, tolerance):
        return
    for mistake, wrong in (mistakes or {}).items():
        wrong = torch.as_tensor(wrong, dtype=got.dtype)
        if not _close(wrong, right, tolerance) and _close(got, wrong, tolerance):
            raise AssertionError(f"{what}: {mistake}")
    parts = [f"{what}: wrong values."]
    if not bool(torch.isfinite(got).all()):
        parts.append("Some are not finite.")
    if hint:
        parts.append(hint)
    if quote:
        parts.append(f"\nexpected\n{_text(right)}\ngot\n{_text(got)}")
    raise AssertionError(" ".join(parts))


def _close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    if a.shape != b.shape or not bool(torch.isfinite(a).all()):
        return False
    scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
    return bool(((a - b).abs() <= tolerance * scale).all())


def _text(tensor: Tensor) -> str:
    rows = tensor.tolist()
    if tensor.ndim == 0:
        return f"{rows:.4g}"
    if tensor.ndim == 1:
        return "[" + ", ".join(f"{v:.4g}" for v in rows) + "]"
    return "\n".join(_text(row) for row in tensor)

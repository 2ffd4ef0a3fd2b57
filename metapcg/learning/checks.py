"""What the tests cells of the notebooks call.

The visible tests call ``check`` with the answers that well-known mistakes would give. A wrong answer that equals one of
them is reported by the mistake's name, which helps more than two columns of numbers.

The hidden tests call ``emit``, which compares nothing: it hands a plain value to the grader, who compares it outside
the student's kernel with what the worked solution emits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from IPython import get_ipython
from IPython.display import display
from torch import Tensor

Numbers = Tensor | Sequence

EMITTED_TYPE = "application/vnd.hw11.emitted+json"
"""MIME type of the output that ``emit`` adds to its cell."""

_collected: ContextVar[list[dict] | None] = ContextVar("collected", default=None)


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


def emit(what: str, value: object, hint: str = "") -> None:
    """Hand a result to the grader.

    Inside ``collect_emitted`` the record is collected; in a notebook's kernel it becomes an output of the cell, of type
    ``EMITTED_TYPE``. Elsewhere nobody listens, and nothing happens.

    Args:
        what: what was computed, for the message to the student: exercise and inputs, no numbers.
        value: tensors, numbers, booleans, strings, None; lists, tuples and dictionaries of them.
        hint: the likely mistake if the value is wrong, for the message.

    Raises:
        AssertionError: the value holds something else (the student's function returned no result of the asked kind).
    """
    record = {"what": what, "hint": hint, "value": _plain(what, value)}
    collected = _collected.get()
    if collected is not None:
        collected.append(record)
    elif get_ipython() is not None:
        display({EMITTED_TYPE: record}, raw=True)


@contextmanager
def collect_emitted() -> Iterator[list[dict]]:
    """Collect what ``emit`` is given in the body, in order: dictionaries with ``what``, ``hint`` and ``value``."""
    records: list[dict] = []
    token = _collected.set(records)
    try:
        yield records
    finally:
        _collected.reset(token)


def _plain(what: str, value: object) -> object:
    """The same value as JSON holds it: tensors by dtype, shape and entries; infinities and NaN by name."""
    if isinstance(value, Tensor):
        flat = value.detach().cpu().reshape(-1).tolist()
        dtype = str(value.dtype).removeprefix("torch.")
        return {"tensor": dtype, "shape": list(value.shape), "entries": [_plain(what, entry) for entry in flat]}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list | tuple):
        return [_plain(what, entry) for entry in value]
    if isinstance(value, Mapping):
        return {"entries of": {str(key): _plain(what, entry) for key, entry in value.items()}}
    raise AssertionError(f"{what}: expected tensors or plain numbers, got {type(value).__name__}.")


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

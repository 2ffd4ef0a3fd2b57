"""The trusted comparison: what a student's hidden tests emitted beside what the worked solution emitted."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOLERANCE = 1e-6


def compare(got: Sequence[dict], right: Sequence[dict], tolerance: float = TOLERANCE) -> list[str]:
    """Return one line per record that differs from the worked solution's, in order; none if all agree.

    Records are those of ``metapcg.learning.checks.emit``. The lines hold the texts of the *right* records, no numbers.

    Args:
        got: what the student's cell emitted; anything in it may be forged or malformed.
        right: what the worked solution's cell emitted.
        tolerance: absolute, and relative to the largest right entry of a tensor.
    """
    faults = []
    for number, record in enumerate(right):
        if number >= len(got):
            faults.append(f"{record['what']}: not reached, the cell ended before it.")
            break
        mine = got[number] if isinstance(got[number], dict) else {}
        if mine.get("what") != record["what"]:
            faults.append(f"{record['what']}: another result stands in its place.")
            break
        fault = _difference(mine.get("value"), record["value"], tolerance)
        if fault:
            faults.append(" ".join(filter(None, [f"{record['what']}: {fault}.", record["hint"]])))
    else:
        if len(got) > len(right):
            faults.append(f"{len(got) - len(right)} more results than the tests have.")
    return faults


def _difference(got: object, right: object, tolerance: float) -> str:
    """Say in words how two plain values differ; empty if they do not."""
    if isinstance(right, dict) and "tensor" in right:
        if not (isinstance(got, dict) and isinstance(got.get("entries"), list)):
            return "a tensor was expected"
        if got.get("shape") != right["shape"] or len(got["entries"]) != len(right["entries"]):
            return "the shape is wrong"
        if got.get("tensor") != right["tensor"]:
            return "the dtype is wrong"
        finite = [abs(entry) for entry in right["entries"] if _is_number(entry)]
        scale = tolerance * max([1.0, *finite])
        pairs = zip(got["entries"], right["entries"], strict=True)
        return "" if all(_same_entry(mine, entry, scale) for mine, entry in pairs) else "wrong values"
    if isinstance(right, dict) and "entries of" in right:
        entries = got.get("entries of") if isinstance(got, dict) else None
        if not isinstance(entries, dict):
            return "a dictionary was expected"
        if set(entries) != set(right["entries of"]):
            return "the dictionary has other keys"
        return next(filter(None, (_difference(entries[k], v, tolerance) for k, v in right["entries of"].items())), "")
    if isinstance(right, list):
        if not isinstance(got, list) or len(got) != len(right):
            return "a sequence of another length was expected"
        return next(filter(None, (_difference(a, b, tolerance) for a, b in zip(got, right, strict=True))), "")
    scale = tolerance * max(1.0, abs(right)) if _is_number(right) else 0.0
    return "" if _same_entry(got, right, scale) else "wrong value"


def _same_entry(got: object, right: object, tolerance: float) -> bool:
    if _is_number(right):
        return _is_number(got) and abs(got - right) <= tolerance
    return type(got) is type(right) and got == right


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)  # a huge int is no float

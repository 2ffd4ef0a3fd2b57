"""Files of runs: read with one clear line when they are damaged, written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .outputs import write_atomically


def load_torch(path: Path) -> Any:
    """What ``write_torch`` wrote; ValueError names a file that is cut short or none of torch's."""
    # torch takes anything else for a file of its old format, and fails in many ways.
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read (it is cut short, or no file of torch)")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read ({brief(error)})") from error


def write_torch(path: Path, value: Any) -> None:
    """Write tensors and plain values, atomically."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    write_atomically(path, buffer.getvalue())


def write_json(path: Path, value: Any) -> None:
    """Write plain values, atomically."""
    write_atomically(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Write rows of equal keys, atomically; ``columns`` where there may be no row."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns or (list(rows[0]) if rows else []), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, buffer.getvalue().encode())


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a table, as text."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, atomically; equal arrays give equal bytes."""
    # np.savez stamps no time into the archive, so equal arrays give equal bytes. A slash would make a folder in it.
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name.replace("/", "__"): array for name, array in arrays.items()})
    write_atomically(path, buffer.getvalue())


def brief(error: BaseException) -> str:
    """The first line of what an error says, or its type."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__

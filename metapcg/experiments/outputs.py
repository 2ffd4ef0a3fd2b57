"""Where a run's figures and tables go, written so that a reader never sees half a file.

``HW11_OUTPUT``
    The folder of results. Unset: ``reports/`` in the repository that the package is installed from.
``HW11_STAGING``
    Set by the notebook runner only: new files are collected there and moved into the folder of results when the whole
    notebook has succeeded, so that a notebook that fails half-way does not mix its new figures with the last good ones.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metapcg.learning.solutions import repository_root

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_DPI = 120


def output_dir() -> Path:
    """Return the folder of results (not created): ``HW11_OUTPUT``, else ``reports/`` of the repository.

    Raises:
        ValueError: the variable is unset and the package is not installed from a repository.
    """
    configured = os.environ.get("HW11_OUTPUT")
    if configured:
        return Path(configured).expanduser().absolute()
    return repository_root() / "reports"


def save_figure(fig: Figure, name: str) -> Path:
    """Write a matplotlib figure as ``figures/NAME.png`` in the folder of results, atomically, at a fixed resolution.

    The file carries no date or version, so the same figure gives the same bytes.

    Args:
        fig: the figure; it stays open.
        name: file name without suffix: letters, digits, ``_`` and ``-``.

    Returns:
        The path in the folder of results (under the notebook runner the file arrives there when the notebook is done).

    Raises:
        ValueError: a name that is not a plain file name.
        OSError: the file cannot be written; an earlier one of that name is kept.
    """
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=FIGURE_DPI, bbox_inches="tight", metadata={"Software": None})
    return _save(buffer.getvalue(), Path("figures") / f"{_plain(name)}.png")


def save_table(rows: Iterable[Mapping[str, object]], name: str, columns: Sequence[str] | None = None) -> Path:
    """Write rows as ``tables/NAME.csv`` in the folder of results, atomically.

    Args:
        rows: mappings from column to value, all with the same keys.
        name: file name without suffix: letters, digits, ``_`` and ``-``.
        columns: the columns' order; default: that of the first row.

    Returns:
        The path in the folder of results (under the notebook runner the file arrives there when the notebook is done).

    Raises:
        ValueError: no rows and no columns, rows with different keys, or a name that is not a plain file name.
        OSError: the file cannot be written; an earlier one of that name is kept.
    """
    rows = [dict(row) for row in rows]
    if columns is None:
        if not rows:
            raise ValueError(f"table {name!r}: no rows and no columns given")
        columns = list(rows[0])
    for number, row in enumerate(rows):
        if set(row) != set(columns):
            raise ValueError(f"table {name!r}: row {number} has columns {sorted(row)}, expected {sorted(columns)}")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return _save(buffer.getvalue().encode("utf-8"), Path("tables") / f"{_plain(name)}.csv")


def load_table(name: str) -> list[dict[str, str]]:
    """Read ``tables/NAME.csv``, from the notebook's own new files first, then from the folder of results.

    Raises:
        FileNotFoundError: neither place has it.
    """
    relative = Path("tables") / f"{_plain(name)}.csv"
    for folder in (*_staging(), output_dir()):
        if (folder / relative).is_file():
            with open(folder / relative, encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
    raise FileNotFoundError(
        f"table {name!r}: there is no {output_dir() / relative}; run the notebook that writes it first"
    )


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary sibling, so that a reader sees the old bytes or the new ones, never a part.

    Raises:
        OSError: the file cannot be written (no space, no permission); the old one is kept and no part is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)  # gone already when all went well


def _save(data: bytes, relative: Path) -> Path:
    folder = next(_staging(), None) or output_dir()
    write_atomically(folder / relative, data)
    return output_dir() / relative


def _staging() -> Iterable[Path]:
    configured = os.environ.get("HW11_STAGING")
    return iter([Path(configured)] if configured else [])


def _plain(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise ValueError(f"output name {name!r}: use letters, digits, '_' and '-' only, without folder or suffix")
    return name


def _umask() -> int:
    # The mask can only be read by setting it; mkstemp gives 0600, which other users of a shared clone could not read.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

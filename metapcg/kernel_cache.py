"""Keeps numba's cache on disk in step with the kernels' sources.

numba takes a cached kernel as valid while the file that defines it is unchanged, even when a function that it calls
lives in another file and has changed since. After an update of one file the old machine code would go on running. So
the sources of all kernels are hashed at import, and when the hash differs from the one noted beside the caches, these
are dropped.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

KERNEL_FOLDERS = ("games", "envs", "tasks")


def drop_stale_kernels(package=Path(__file__).parent):
    """Remove the cache indexes in ``package`` if any kernel's source has changed since they were written.

    Returns True if the sources had changed. With ``NUMBA_CACHE_DIR`` set the caches lie elsewhere and are not
    touched. A package folder that cannot be written holds no cache (numba then uses the user's own folder, whose
    entries go by the files' times, and an installer renews all of these at once), so nothing is done there.
    """
    folders = [package / name for name in KERNEL_FOLDERS]
    digest = hashlib.sha256()
    for folder in folders:
        for source in sorted(folder.glob("*.py")):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    note = package / "__pycache__" / "kernels.sha256"
    if not os.access(package, os.W_OK):
        return False
    if note.exists() and note.read_text() == digest.hexdigest():
        return False
    for folder in folders:
        for index in (folder / "__pycache__").glob("*.nbi"):
            index.unlink(missing_ok=True)
    try:
        note.parent.mkdir(exist_ok=True)
        temporary = note.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(digest.hexdigest())
        os.replace(temporary, note)
    except (
        OSError
    ):  # nowhere to note it (a full disk): the caches are dropped again at the next import, which only costs time
        return True
    return True

"""Keeps numba's cache on disk in step with the kernels' sources.

numba takes a cached kernel as valid while the file that defines it is unchanged, even when a function that it calls
lives in another file and has changed since. After an update of one file the old machine code would go on running. So
the sources of all kernels are hashed at import, and when the hash differs from the one noted beside the caches, these
are dropped.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import warnings
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


def can_be_written(folder):
    """Whether the folder exists, or can be made, and takes files."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def provide_cache_folder(package=Path(__file__).parent):
    """Let kernels be compiled where no folder for them can be written.

    numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, else beside their sources, else in the user's cache folder. If
    none of these can be written (a read-only installation and home), it refuses to define a kernel at all. Then they go
    into a temporary folder that is removed at exit, a warning says so, and the folder is returned; None otherwise.
    """
    folders = [package / name / "__pycache__" for name in KERNEL_FOLDERS]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and can_be_written(chosen):
        return None
    if all(can_be_written(folder) for folder in folders if folder.parent.exists()):
        return None
    import numba  # only here: it takes a while to import, and few come this far
    from numba.misc.appdirs import AppDirs

    if can_be_written(AppDirs(appname="numba", appauthor=False).user_cache_dir):
        return None
    numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="metapcg-kernels-")
    atexit.register(shutil.rmtree, numba.config.CACHE_DIR, ignore_errors=True)
    warnings.warn(
        "no folder for compiled kernels can be written, so they are compiled anew at every start (some 20 s); "
        "set NUMBA_CACHE_DIR to a folder that can be",
        stacklevel=2,
    )
    return numba.config.CACHE_DIR

"""Reads what students handed in, as an LMS gives it: a folder with one zip, folder or notebook per submission.

Nothing is unpacked to disk: notebooks are read into memory, everything else is left alone. A zip that claims or turns
out to be too large, a path that climbs out of it, a symbolic link, a device: each is refused with one line, and the
rest of the submission is graded.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from metapcg.grading.normalise import MOST_BYTES

MOST_FILES = 2000
MOST_TOTAL = 128 * 2**20
DEEPEST_ZIP = 2
LONGEST_ID = 150
"""Bytes of a student's id: it becomes the name of folders and files."""
NO_NOTEBOOK = "it holds no notebook"
"""What ``Submission.problems`` say if nothing else is wrong."""

STUDENT_PATTERNS = (
    r"(?P<student>.+?)_\d+_assignsubmission_.*",  # Moodle
    r"(?P<student>[^_]+)_(?:LATE_)?\d+_\d+_.+",  # Canvas
    r"hw11[-_](?P<student>.+)",  # what './compile_and_run.sh submit --student ID' makes
    r"(?P<student>.+)",
)
"""Tried in order on the name of the folder or file (without .zip, .ipynb) when no pattern is given."""


@dataclass
class Submission:
    """One submission.

    Attributes:
        student: id, safe as a folder name.
        source: name of the file or folder it came from.
        time: when it was handed in: the newest time stamp of the zip, or of the files in the folder.
        files: path → bytes of the notebooks.
        problems: what could not be read, one line each.
        is_late: the LMS says so in the name.
    """

    student: str
    source: str
    time: datetime
    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_late: bool = False


def list_entries(folder: Path, pattern: str | None = None) -> list[tuple[str, Path]]:
    """Student's id and path of every zip, folder or notebook in a folder, in order of name.

    Args:
        folder: what the LMS gave.
        pattern: regular expression with a group ``student``, matched with the name of each entry.

    Raises:
        ValueError: the folder is missing or holds no submissions, or the pattern is no such pattern.
    """
    if folder.is_file():
        raise ValueError(f"{folder} is a file: give the folder that holds a zip, folder or notebook per student")
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    patterns = _patterns(pattern)
    paths = [path for path in sorted(folder.iterdir()) if not _is_clutter(path.name)]
    if not paths:
        raise ValueError(f"{folder} holds no submissions: expected a zip, a folder or a notebook per student")
    return [(student_id(_student(path.name, patterns)), path) for path in paths]


def student_id(name: str) -> str:
    """A student's id for a name: the name itself if it is safe as a folder name, else ``SAFE~HASH``.

    No safe name holds a ``~``: whoever else hands in, under whatever name, nobody takes another one's id.
    """
    safe = safe_name(name)
    if safe == name:
        return safe
    return f"{safe}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _patterns(pattern: str | None) -> list[re.Pattern]:
    if pattern is None:
        return [re.compile(text, re.DOTALL) for text in STUDENT_PATTERNS]
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"--student-pattern: {pattern!r} is no regular expression ({error})") from error
    if "student" not in compiled.groupindex:
        raise ValueError(f"--student-pattern: {pattern!r} needs a group (?P<student>…)")
    return [compiled]


def _student(name: str, patterns: Sequence[re.Pattern]) -> str:
    stem = re.sub(r"(?i)(\.zip|\.ipynb)+$", "", unicodedata.normalize("NFC", name))
    stem = re.sub(r"\s*\(\d+\)$", "", stem)  # a second download of the same name
    for pattern in patterns:
        match = pattern.fullmatch(stem) or (pattern.search(stem) if len(patterns) == 1 else None)
        if match and match["student"].strip():
            return match["student"]
    return stem


def safe_name(text: str) -> str:
    """A student's id as one folder name: letters of any script, digits, - _ . @ and spaces; not empty, not hidden."""
    name = "".join(c if c.isalnum() or c in "-_.@ '" else "_" for c in unicodedata.normalize("NFC", text))
    name = name.strip(" .").encode("utf-8", "replace")[:LONGEST_ID].decode("utf-8", "ignore").strip(" .")
    return name or "unnamed"


def _is_clutter(name: str) -> bool:
    return name.startswith((".", "__MACOSX")) or name.lower() in ("thumbs.db", "desktop.ini")


def read_entry(path: Path, student: str) -> Submission:
    """Read one submission into memory. What cannot be read becomes one of its ``problems``."""
    late = re.search(r"_LATE_", path.name) is not None
    result = Submission(student, path.name, datetime.fromtimestamp(0), is_late=late)
    try:
        _read_path(path, result)
    except OSError as error:
        result.problems.append(f"{path.name}: cannot be read ({error.strerror or error})")
    except Exception as error:  # whatever a file does to its reader is that student's, and must not stop the others
        result.problems.append(f"{path.name}: cannot be read ({type(error).__name__}: {str(error)[:80]})")
    if not result.files and not result.problems:
        result.problems.append(NO_NOTEBOOK)
    return result


def _read_path(path: Path, result: Submission) -> None:
    status = path.lstat()
    result.time = datetime.fromtimestamp(status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        result.problems.append(f"{path.name}: a symbolic link, not followed")
    elif stat.S_ISDIR(status.st_mode):
        _read_folder(path, result)
    elif stat.S_ISREG(status.st_mode):
        _read_file(path, path.name, result)
    else:
        result.problems.append(f"{path.name}: neither file nor folder")


def _read_folder(folder: Path, result: Submission) -> None:
    newest, waiting, seen = 0.0, [folder], 0
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            seen += 1
            if seen > MOST_FILES:
                result.problems.append(f"more than {MOST_FILES} files; the rest was not read")
                return
            status, name = path.lstat(), str(path.relative_to(folder))
            if _is_clutter(path.name):
                continue
            if stat.S_ISLNK(status.st_mode):
                result.problems.append(f"{name}: a symbolic link, not followed")
            elif stat.S_ISDIR(status.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(status.st_mode):
                newest = max(newest, status.st_mtime)
                _read_file(path, name, result)
    if newest:
        result.time = datetime.fromtimestamp(newest)


def _read_file(path: Path, name: str, result: Submission) -> None:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        if path.stat().st_size > MOST_TOTAL:
            result.problems.append(f"{name}: larger than {MOST_TOTAL // 2**20} MiB")
            return
        _read_zip(path.read_bytes(), name, result, 1)
    elif suffix == ".ipynb":
        if path.stat().st_size > MOST_BYTES:
            result.problems.append(f"{name}: larger than {MOST_BYTES // 2**20} MiB")
            return
        _add(result, name, path.read_bytes())
    elif suffix in (".rar", ".7z", ".gz", ".tar", ".tgz", ".xz"):
        result.problems.append(f"{name}: an archive that is no zip")


def _read_zip(data: bytes, name: str, result: Submission, depth: int) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MOST_FILES:
                result.problems.append(f"{name}: {len(members)} files, more than {MOST_FILES}; not read")
                return
            for member in members:
                _read_member(archive, member, name, result, depth)
    except (zipfile.BadZipFile, struct.error, NotImplementedError, EOFError, OSError) as error:
        result.problems.append(f"{name}: a damaged zip ({str(error)[:80] or type(error).__name__})")


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, archive_name: str, result: Submission, depth: int
) -> None:
    inside = member.filename.replace("\\", "/")
    parts, suffix = inside.split("/"), inside.rsplit(".", 1)[-1].lower()
    shown = f"{archive_name}: {inside[:80]!r}"
    if any(_is_clutter(part) and part not in (".", "..") for part in parts):
        return
    if inside.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", inside):
        result.problems.append(f"{shown} climbs out of the zip; not read")
        return
    if stat.S_ISLNK(member.external_attr >> 16):
        result.problems.append(f"{shown} is a symbolic link; not followed")
        return
    if member.is_dir() or suffix not in ("ipynb", "zip"):
        return
    used = sum(map(len, result.files.values()))
    most = min(MOST_BYTES if suffix == "ipynb" else MOST_TOTAL, MOST_TOTAL - used)
    # The size in the header may lie: never more than the limit is unpacked.
    if member.file_size > most:
        result.problems.append(f"{shown} would unpack to {member.file_size / 2**20:.0f} MiB; not read")
        return
    try:
        with archive.open(member) as file:
            data = file.read(most + 1)
    except (RuntimeError, zlib.error) as error:  # encrypted, or damaged
        result.problems.append(f"{shown} cannot be unpacked ({str(error)[:80]})")
        return
    if len(data) > most:
        result.problems.append(f"{shown} unpacks to more than {most // 2**20} MiB; not read")
    elif suffix == "ipynb":
        _add(result, inside, data)
    elif depth < DEEPEST_ZIP:
        _read_zip(data, f"{archive_name}/{inside}", result, depth + 1)
    else:
        result.problems.append(f"{shown} is a zip in a zip in a zip; not read")


def _add(result: Submission, name: str, data: bytes) -> None:
    if "-checkpoint" in name:
        return
    while name in result.files:
        name = f"{name.removesuffix('.ipynb')} copy.ipynb"
    result.files[name] = data

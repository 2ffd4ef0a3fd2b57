"""What students get, and what they hand in: the template's folder and zip, and the zip of their work."""

from __future__ import annotations

import io
import shutil
import stat
import zipfile
from pathlib import Path

from metapcg.experiments.outputs import write_atomically
from metapcg.grading.build import HIDDEN_MARKS, SOLUTION_MARKS
from metapcg.grading.normalise import UnreadableError, read_cells
from metapcg.grading.submissions import LONGEST_ID, safe_name
from metapcg.learning.solutions import ASSIGNMENT

TEMPLATE = "Homework-11-Template"
RELEASED = (
    "compile_and_run.sh", "requirements.txt", "pyproject.toml", "nbgrader_config.py", "metapcg", "gym_pcgrl",
    "base_code", "reports/HW11_Questions.md", "reports/HW11_Questions.pdf",
)  # fmt: skip
"""What is released, where it is there: nothing else."""
_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same files give the same zip

README = """# Homework 11 · Meta-reinforcement learning on procedural content generation

You need Python 3.10, 3.11 or 3.12 and about 3 GB of disk space. In this folder:

```bash
./compile_and_run.sh check     # sets up once, then says which TODO is next
.venv/bin/jupyter lab code/{assignment}   # your notebooks; begin with 0_policy_gradient
./compile_and_run.sh submit --student YOUR_ID   # packs your notebooks into one zip to hand in
```

(On Windows use WSL.) Each notebook says what it asks for. Fill in the cells with a TODO, change nothing else, and run
them from top to bottom. The cell after a TODO tests it and names the likely mistake. Grading adds further tests of
other shapes and numbers. Then see your own functions train:

```bash
./compile_and_run.sh run --notebooks code --only maml    # trains with your functions; figures in reports/code/
```

{questions}`metapcg/` is the library that the notebooks use; reading it is welcome, changing it does not count.
"""


def build_release(root: Path, output: Path) -> tuple[Path, Path, int]:
    """Write the template's folder and zip into ``output``; returns both paths and the number of files.

    An older template there is replaced. The same repository gives the same bytes.

    Raises:
        ValueError: starters are missing, or a file that would be released holds a solution or a hidden test.
        OSError: a file cannot be written.
    """
    files = released_files(root)
    folder, archive = output / TEMPLATE, output / f"{TEMPLATE}.zip"
    partial = output / f".{TEMPLATE}.partial"
    if partial.exists():
        shutil.rmtree(partial)
    for name, (data, mode) in files.items():
        write_atomically(partial / name, data)
        (partial / name).chmod(mode)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, (data, mode) in files.items():
            member = zipfile.ZipInfo(f"{TEMPLATE}/{name}", _EPOCH)
            member.external_attr = (stat.S_IFREG | mode) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(member, data)
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    write_atomically(archive, buffer.getvalue())
    return folder, archive, len(files)


def released_files(root: Path) -> dict[str, tuple[bytes, int]]:
    """Path in the template → bytes and permissions.

    Raises:
        ValueError: see ``build_release``.
    """
    starters = sorted((root / "base_code" / ASSIGNMENT).glob("*.ipynb"))
    if not starters:
        raise ValueError("there are no starters in base_code/; './compile_and_run.sh compile' makes them")
    files: dict[str, tuple[bytes, int]] = {}
    for name in RELEASED:
        path = root / name
        for each in sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []:
            inside = each.relative_to(root)
            if each.is_file() and not each.is_symlink() and not _is_left_out(inside):
                mode = 0o755 if each.stat().st_mode & 0o100 else 0o644
                files[inside.as_posix()] = (each.read_bytes(), mode)
    for starter in starters:
        files[f"code/{ASSIGNMENT}/{starter.name}"] = (starter.read_bytes(), 0o644)
    questions = "`reports/HW11_Questions.md` lists the questions and their points. "
    text = README.format(assignment=ASSIGNMENT, questions=questions if "reports/HW11_Questions.md" in files else "")
    files["README.md"] = (text.encode("utf-8"), 0o644)
    secret = [mark.encode() for mark in (*SOLUTION_MARKS, *HIDDEN_MARKS)]
    for name, (data, _) in files.items():
        if name.endswith(".ipynb") and any(mark in data for mark in secret):
            raise ValueError(f"{name} holds a solution or a hidden test; run './compile_and_run.sh compile'")
    return dict(sorted(files.items()))


def _is_left_out(path: Path) -> bool:
    parts = path.parts
    return any(part.startswith(".") or part in ("__pycache__", "build") for part in parts) or path.suffix in (
        ".pyc",
        ".tmp",
    )


def pack_submission(
    root: Path, student: str | None = None, output: Path | None = None
) -> tuple[Path, list[str], list[str]]:
    """Pack ``code/hw11`` into one zip; returns its path, the notebooks in it, and those of the course that are not.

    Args:
        root: the student's copy.
        student: id for the file's name; None: without.
        output: folder for the zip; default ``root``.

    Raises:
        ValueError: there is nothing to hand in, a notebook is damaged, ``student`` is no id, ``output`` is a file.
        OSError: the zip cannot be written.
    """
    name = "submission" if student is None else safe_name(student)
    if student is not None and not any(letter.isalnum() for letter in student):
        raise ValueError(f"--student: expected your id, got {student!r}")
    if student is not None and len(student.encode("utf-8", "replace")) > LONGEST_ID:
        raise ValueError(f"--student: an id has at most {LONGEST_ID} bytes, this one has {len(student.encode())}")
    folder = (output or root).absolute()
    file = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
    if file is not None:
        raise ValueError(f"--output: {file} is a file; give a folder for the zip")
    paths = sorted(path for path in (root / "code" / ASSIGNMENT).glob("*.ipynb") if not path.name.startswith("."))
    if not paths:
        raise ValueError(
            f"there are no notebooks in code/{ASSIGNMENT} to hand in; './compile_and_run.sh compile' makes them"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in paths:
            data = path.read_bytes()
            try:
                read_cells(data)
            except UnreadableError as error:
                raise ValueError(
                    f"code/{ASSIGNMENT}/{path.name}: {error}; mend it, or move it elsewhere to hand in the others"
                ) from error
            zipped.writestr(zipfile.ZipInfo(f"{ASSIGNMENT}/{path.name}", _EPOCH), data, zipfile.ZIP_DEFLATED)
    target = folder / f"{ASSIGNMENT}-{name}.zip"
    write_atomically(target, buffer.getvalue())
    names = [path.stem for path in paths]
    course = sorted(path.stem for path in (root / "base_code" / ASSIGNMENT).glob("*.ipynb"))
    return target, names, [each for each in course if each not in names]

"""Executes notebooks headlessly, one after the other, and writes what they give into the folder of results.

A notebook that fails does not stop the others. Its new figures and tables are dropped, the HTML of its last good run
stays, and ``NAME.failed.html`` shows how far it came. Every file is written beside its place and renamed when it is
whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime
import json
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import nbformat
import psutil
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from nbformat.notebooknode import NotebookNode

import metapcg
from metapcg.experiments.outputs import write_atomically

CELL_TIMEOUT = 7200
HEARTBEAT = 10.0


@dataclass(frozen=True)
class NotebookResult:
    """How one notebook ended.

    Attributes:
        name: file name without suffix.
        status: ``ok`` or ``failed``.
        seconds: wall-clock time.
        cells: code cells in the notebook; done: those that ran to their end.
        cell: id of the failing cell, or empty.
        error: one line, or empty.
        html: file in ``notebooks/`` that shows this run.
        kept: file in ``notebooks/`` of an earlier good run that is now out of date, or empty.
        profile, device, finished: the settings of this run, and when it ended (UTC, ISO 8601).
    """

    name: str
    status: str
    seconds: float
    cells: int
    done: int
    cell: str
    error: str
    html: str
    kept: str
    profile: str
    device: str
    finished: str


def find_notebooks(folder: Path, only: Sequence[str] = ()) -> list[Path]:
    """Return the notebooks of a folder in order of name; with ``only``, those whose name holds one of the parts.

    Raises:
        ValueError: the folder has no notebooks, or a part fits none (the message lists the names).
    """
    paths = sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))
    if not paths:
        raise ValueError(f"there are no notebooks in {folder}; './compile_and_run.sh compile' makes the missing ones")
    for part in only:
        if not any(part in path.stem for path in paths):
            raise ValueError(f"--only: no notebook's name holds {part!r}; there are {', '.join(p.stem for p in paths)}")
    return [path for path in paths if not only or any(part in path.stem for part in only)]


def run_notebooks(
    paths: Sequence[Path],
    output: Path,
    *,
    profile: str,
    device: str,
    cell_timeout: int = CELL_TIMEOUT,
    stream: TextIO | None = None,
) -> list[NotebookResult]:
    """Execute notebooks in order, each in a fresh kernel that is started in the notebook's own folder.

    Writes ``notebooks/NAME.html``, what the notebooks save through ``metapcg.experiments.outputs``, and ``run.json``
    (one entry per notebook, kept for those not run this time).

    Args:
        paths: notebooks, all in one folder.
        output: folder of results.
        profile, device: handed to the notebooks as ``HW11_PROFILE`` and ``HW11_DEVICE``.
        cell_timeout: whole seconds that one cell may take.
        stream: where progress goes; default: standard output.

    Raises:
        OSError: results cannot be written (no space, no permission); earlier results are kept.
    """
    progress = Progress(sys.stdout if stream is None else stream)
    (output / "notebooks").mkdir(parents=True, exist_ok=True)
    _remove_leftovers(output)
    staging = output / f".staging-{os.getpid()}"
    results = []
    with tempfile.TemporaryDirectory(prefix="hw11-ipython-") as ipython_folder:
        try:
            for number, path in enumerate(paths, start=1):
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
                environment = {
                    **os.environ,
                    "HW11_PROFILE": profile,
                    "HW11_DEVICE": device,
                    "HW11_NOTEBOOKS": str(path.parent.absolute()),
                    "HW11_OUTPUT": str(output.absolute()),
                    "HW11_STAGING": str(staging.absolute()),
                    # A person's start-up files and plotting back-end must not decide what a headless run gives.
                    "IPYTHONDIR": ipython_folder,
                    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
                }
                progress.start(f"[{number}/{len(paths)}] {path.stem}")
                result = _run_notebook(path, output, staging, environment, profile, device, cell_timeout, progress)
                results.append(result)
                progress.stop(_summary(result, output))
                _record(output, result)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            progress.close()
    return results


class Progress:
    """Says which notebook and which cell is running, and for how long.

    On a terminal one line is rewritten every second; elsewhere a plain line appears every ten seconds of waiting.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._title, self._cell = "", ""
        self._begin = self._cell_begin = 0.0
        self._interval = 1.0 if self._terminal else HEARTBEAT
        self._thread: threading.Thread | None = None

    def start(self, title: str) -> None:
        """A notebook begins."""
        with self._lock:
            self._title, self._cell, self._begin = title, "starting its kernel", time.monotonic()
            self._cell_begin = self._begin
            self._line(f"{title}: starting")
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()

    def cell(self, text: str) -> None:
        """A cell begins."""
        with self._lock:
            self._cell, self._cell_begin = text, time.monotonic()

    def stop(self, text: str) -> None:
        """A notebook has ended."""
        with self._lock:
            title, self._title = self._title, ""
            self._line(f"{title}: {text}")

    def close(self) -> None:
        """No more notebooks: end the thread."""
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _beat(self) -> None:
        while not self._wake.wait(self._interval):
            with self._lock:
                if not self._title:
                    continue
                now = time.monotonic()
                in_cell, in_all = _duration(now - self._cell_begin), _duration(now - self._begin)
                text = f"{self._title}: {self._cell}, {in_cell}; {in_all} in all"
                if self._terminal:
                    width = shutil.get_terminal_size().columns - 1
                    self._stream.write("\r" + text[:width].ljust(width))
                    self._stream.flush()
                else:
                    self._line(text)

    def _line(self, text: str) -> None:
        if self._terminal:
            self._stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
        self._stream.write(text + "\n")
        self._stream.flush()


def _run_notebook(
    path: Path,
    output: Path,
    staging: Path,
    environment: dict[str, str],
    profile: str,
    device: str,
    cell_timeout: int,
    progress: Progress,
) -> NotebookResult:
    begin, cell_id, error, done = time.monotonic(), "", "", 0
    good, failed = output / "notebooks" / f"{path.stem}.html", output / "notebooks" / f"{path.stem}.failed.html"
    numbers: dict[int, int] = {}
    current = ""
    notebook = None

    def on_start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal current
        if cell_index in numbers:
            current = _cell_name(cell, cell_index)
            progress.cell(f"cell {numbers[cell_index]}/{len(numbers)} ({current})")

    def on_executed(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        nonlocal done
        done += execute_reply["content"]["status"] == "ok"

    try:
        notebook = nbformat.read(path, as_version=4)
        numbers = {
            index: number
            for number, index in enumerate(
                (i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"), start=1
            )
        }
        client = NotebookClient(
            notebook,
            timeout=cell_timeout,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            extra_arguments=["--log-level=ERROR"],  # kernels warn on the terminal that loopback is not encrypted
            on_notebook_start=_take_signals_back,
            on_cell_start=on_start,
            on_cell_executed=on_executed,
        )
        try:
            client.execute(env=environment)
        except (asyncio.CancelledError, AssertionError) as ended:
            # Interrupted while the kernel was starting: nbclient cancels itself, or misses what it has just taken down.
            raise KeyboardInterrupt from ended
        except KeyboardInterrupt:
            if client.km is not None:
                run_sync(client.km.shutdown_kernel)(now=True)
            raise
    except CellExecutionError as problem:
        cell_id, error = current, _one_line(f"{problem.ename}: {problem.evalue}")
    except CellTimeoutError:
        cell_id, error = current, f"took longer than {cell_timeout} s (--cell-timeout SECONDS gives it more)"
    except DeadKernelError:
        cell_id, error = current, "the kernel died (out of memory, or the code ended its own process)"
    except (NoSuchKernel, RuntimeError) as problem:
        error = _one_line(f"its kernel cannot be started: {problem}")
    except (ValueError, nbformat.ValidationError, AttributeError) as problem:
        error = _one_line(f"is not a notebook: {problem}")
    except FileNotFoundError:
        error = "the notebook was deleted or moved while others ran"

    if notebook is not None:
        target = failed if error else good
        write_atomically(target, _to_html(notebook, path.stem).encode("utf-8"))
    if not error:
        _move_into_place(staging, output)
        failed.unlink(missing_ok=True)
    return NotebookResult(
        name=path.stem,
        status="failed" if error else "ok",
        seconds=round(time.monotonic() - begin, 3),
        cells=len(numbers),
        done=done,
        cell=cell_id,
        error=error,
        html=(failed if error else good).name if notebook is not None else "",
        kept=good.name if error and good.is_file() else "",
        profile=profile,
        device=device,
        finished=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def _take_signals_back(notebook: NotebookNode) -> None:
    """Undo nbclient's signal handlers, which end the kernel and then go on as if it had died by itself."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError):  # Windows, or not the main thread: there are none
            if loop.remove_signal_handler(number) and number == signal.SIGTERM:
                signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _cell_name(cell: NotebookNode, index: int) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id") or f"number {index + 1}"


def _summary(result: NotebookResult, output: Path) -> str:
    if result.status == "ok":
        return f"done, {result.cells} cells in {_duration(result.seconds)}"
    where = f" in cell {result.done + 1}/{result.cells} ({result.cell})" if result.cell else ""
    text = f"FAILED{where}: {result.error}"
    if result.html:
        text += f"\n    how far it came: {output / 'notebooks' / result.html}"
    if result.kept:
        when = datetime.datetime.fromtimestamp((output / "notebooks" / result.kept).stat().st_mtime)
        text += f"\n    out of date now, from {when:%Y-%m-%d %H:%M}: {output / 'notebooks' / result.kept}"
    return text


def _record(output: Path, result: NotebookResult) -> None:
    path = output / "run.json"
    try:
        notebooks = json.loads(path.read_text(encoding="utf-8"))["notebooks"]
        entries = {entry["name"]: entry for entry in notebooks}
    except FileNotFoundError:
        entries = {}
    except (ValueError, KeyError, TypeError):
        entries = {}  # an older or damaged record: it only says how earlier runs ended, so this run starts it anew
    entries[result.name] = asdict(result)
    record = {
        "metapcg": metapcg.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "notebooks": [entries[name] for name in sorted(entries)],
    }
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode("utf-8"))


def _to_html(notebook: NotebookNode, title: str) -> str:
    shown = copy.deepcopy(notebook)
    for cell in shown.cells:
        if cell.cell_type == "markdown":  # the marks around a worked answer would become headings
            cell.source = re.sub(r"(?m)^\s*### (BEGIN|END) SOLUTION\s*$\n?", "", cell.source)
    exporter = HTMLExporter(template_name="lab", require_js_url="")  # require.js serves widgets only: one download less
    body, _ = exporter.from_notebook_node(shown, resources={"metadata": {"name": title}})
    return body


def _move_into_place(staging: Path, output: Path) -> None:
    for path in sorted(staging.rglob("*")):
        if path.is_file():
            target = output / path.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)


def _remove_leftovers(output: Path) -> None:
    """Remove what runs left that were killed; a run that is still going keeps its folder."""
    for folder in output.glob(".staging-*"):
        number = folder.name.removeprefix(".staging-")
        if number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _one_line(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).strip()
    line = text.splitlines()[0].strip() if text else "no message"
    return line if len(line) <= 300 else line[:297] + "..."


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"

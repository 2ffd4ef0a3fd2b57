"""Executes notebooks headlessly, several at once, and writes what they give into the folder of results.

Each notebook has a kernel of its own, so that no variable of one reaches another. Two that need the same run of the
experiments execute it once (``runs.execute_run`` keeps the second waiting). What reads the others' results comes last.

A notebook that fails does not stop the others. Its new figures and tables are dropped, the HTML of its last good run
stays, and ``NAME.failed.html`` shows how far it came. Every file is written beside its place and renamed when it is
whole.
"""

from __future__ import annotations

import asyncio
import atexit
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
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

import nbformat
import psutil
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from nbformat.notebooknode import NotebookNode

import metapcg
from metapcg.experiments.outputs import write_atomically
from metapcg.learning.checks import EMITTED_TYPE

CELL_TIMEOUT = 7200
HEARTBEAT = 10.0
READS_OTHERS = ("4_analysis",)
"""Notebooks that show what the others' runs gave: they begin when all others have ended."""


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
    workers: int | None = None,
    stream: TextIO | None = None,
) -> list[NotebookResult]:
    """Execute notebooks, each in a fresh kernel that is started in the notebook's own folder.

    Writes ``notebooks/NAME.html``, what the notebooks save through ``metapcg.experiments.outputs``, and ``run.json``
    (one entry per notebook, kept for those not run this time).

    Args:
        paths: notebooks, all in one folder.
        output: folder of results.
        profile, device: handed to the notebooks as ``HW11_PROFILE`` and ``HW11_DEVICE``.
        cell_timeout: whole seconds that one cell may take.
        workers: how many run at once; default: ``default_workers()``.
        stream: where progress goes; default: standard output.

    Returns:
        results in the order of ``paths``.

    Raises:
        OSError: results cannot be written (no space, no permission); earlier results are kept.
        ValueError: Jupyter cannot make pages here; said before anything is executed.
    """
    _exporter()
    (output / "notebooks").mkdir(parents=True, exist_ok=True)
    _remove_leftovers(output)
    staging = output / f".staging-{os.getpid()}"
    shutil.rmtree(staging, ignore_errors=True)  # of an earlier process with the same number
    with tempfile.TemporaryDirectory(prefix="hw11-ipython-") as ipython_folder:
        environment = {
            **os.environ,
            "HW11_PROFILE": profile,
            "HW11_DEVICE": device,
            "HW11_OUTPUT": str(output.absolute()),
            # A person's start-up files and plotting back-end must not decide what a headless run gives.
            "IPYTHONDIR": ipython_folder,
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
        progress = Progress(sys.stdout if stream is None else stream)
        house = _House(output, staging, environment, profile, device, cell_timeout, progress)
        try:
            return _until_complete(house, paths, workers or default_workers())
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            progress.close()


def default_workers() -> int:
    """As many as there are cores this process may use, four at most: a kernel takes about a gigabyte."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(4, cores)


@dataclass
class _House:
    """What the notebooks of one call share."""

    output: Path
    staging: Path
    environment: dict[str, str]
    profile: str
    device: str
    cell_timeout: int
    progress: Progress
    clients: list[NotebookClient] = field(default_factory=list)
    stopping: bool = False

    def stop(self) -> None:
        """From now on kernels are killed, not asked to end, and a dead one is no result."""
        self.stopping = True
        for client in self.clients:
            client.shutdown_kernel = "immediate"


def _until_complete(house: _House, paths: Sequence[Path], workers: int) -> list[NotebookResult]:
    """Run the event loop; when it is interrupted, end all kernels at once and raise ``KeyboardInterrupt``."""
    loop = asyncio.new_event_loop()
    try:
        everything = loop.create_task(_run_all(house, paths, workers))
        try:
            return loop.run_until_complete(everything)
        except (KeyboardInterrupt, asyncio.CancelledError) as ended:
            house.stop()
            loop.run_until_complete(_cancel({everything}))
            raise KeyboardInterrupt from ended
        finally:
            # nbclient leaves its watch over a kernel behind when it is cancelled
            loop.run_until_complete(_cancel(asyncio.all_tasks(loop)))
    finally:
        loop.close()


async def _run_all(house: _House, paths: Sequence[Path], workers: int) -> list[NotebookResult]:
    places = asyncio.Semaphore(workers)

    async def run_one(number: int, path: Path) -> NotebookResult:
        async with places:
            title = f"[{number}/{len(paths)}] {path.stem}"
            house.progress.start(title)
            result = await _run_notebook(path, house, title)
            house.progress.stop(title, _summary(result, house.output))
            _record(house.output, result)
            return result

    results: dict[Path, NotebookResult] = {}
    for reads_others in (False, True):
        chosen = [(number, path) for number, path in enumerate(paths, 1) if (path.stem in READS_OTHERS) is reads_others]
        tasks = {path: asyncio.create_task(run_one(number, path)) for number, path in chosen}
        try:
            if tasks:
                await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        finally:
            left = [task for task in tasks.values() if not task.done()]
            if left:  # interrupted, or one of them could not write its results
                house.stop()
                await _cancel(left)
        for task in tasks.values():
            if not task.cancelled() and task.exception():
                raise task.exception()
        results.update({path: task.result() for path, task in tasks.items()})
    return [results[path] for path in paths]


async def _cancel(tasks: Iterable[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Progress:
    """Says which notebooks and which of their cells are running, and for how long.

    On a terminal one line is rewritten every second; elsewhere a plain line per notebook appears every ten seconds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._running: dict[str, tuple[str, float, float]] = {}  # title -> cell, its beginning, the notebook's
        self._interval = 1.0 if self._terminal else HEARTBEAT
        self._thread: threading.Thread | None = None

    def start(self, title: str) -> None:
        """A notebook begins."""
        with self._lock:
            now = time.monotonic()
            self._running[title] = ("starting its kernel", now, now)
            self._line(f"{title}: starting")
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()

    def cell(self, title: str, text: str) -> None:
        """A cell of a running notebook begins."""
        with self._lock:
            self._running[title] = (text, time.monotonic(), self._running[title][2])

    def stop(self, title: str, text: str) -> None:
        """A notebook has ended."""
        with self._lock:
            del self._running[title]
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
                now = time.monotonic()
                if self._terminal:
                    parts = [
                        f"{title}: {cell}, {_duration(now - at)}" for title, (cell, at, _) in self._running.items()
                    ]
                    width = shutil.get_terminal_size().columns - 1
                    self._stream.write("\r" + "; ".join(parts)[:width].ljust(width))
                    self._stream.flush()
                else:
                    for title, (cell, at, begin) in self._running.items():
                        self._line(f"{title}: {cell}, {_duration(now - at)}; {_duration(now - begin)} in all")

    def _line(self, text: str) -> None:
        if self._terminal:
            self._stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
        self._stream.write(text + "\n")
        self._stream.flush()


async def _run_notebook(path: Path, house: _House, title: str) -> NotebookResult:
    begin, cell_id, error, done = time.monotonic(), "", "", 0
    output, staging = house.output, house.staging / path.stem
    good, failed = output / "notebooks" / f"{path.stem}.html", output / "notebooks" / f"{path.stem}.failed.html"
    numbers: dict[int, int] = {}
    current = ""
    notebook = None

    def on_start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal current
        if cell_index in numbers:
            current = _cell_name(cell, cell_index)
            house.progress.cell(title, f"cell {numbers[cell_index]}/{len(numbers)} ({current})")

    def on_executed(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        nonlocal done
        done += execute_reply["content"]["status"] == "ok"

    staging.mkdir(parents=True)
    folders = {"HW11_NOTEBOOKS": str(path.parent.absolute()), "HW11_STAGING": str(staging.absolute())}
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
            timeout=house.cell_timeout,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            extra_arguments=["--log-level=ERROR"],  # kernels warn on the terminal that loopback is not encrypted
            on_notebook_start=_take_signals_back,
            on_cell_start=on_start,
            on_cell_executed=on_executed,
        )
        house.clients.append(client)
        try:
            await client.async_execute(env={**house.environment, **folders})
        except (AssertionError, asyncio.CancelledError) as ended:
            # Interrupted while the kernel was starting: nbclient leaves it running, or misses what it has taken down
            # itself, and would try once more when Python ends.
            if client.km is not None and client.km.has_kernel:
                await client.km.shutdown_kernel(now=True)
            atexit.unregister(client._cleanup_kernel)
            raise asyncio.CancelledError from ended
    except CellExecutionError as problem:
        cell_id, error = current, _one_line(f"{problem.ename}: {problem.evalue}")
    except CellTimeoutError:
        cell_id, error = current, f"took longer than {house.cell_timeout} s (--cell-timeout SECONDS gives it more)"
    except DeadKernelError as dead:
        if house.stopping:  # nbclient takes its own cancellation for a dead kernel
            raise asyncio.CancelledError from dead
        cell_id, error = current, "the kernel died (out of memory, or the code ended its own process)"
    except (NoSuchKernel, RuntimeError) as problem:
        error = _one_line(f"its kernel cannot be started: {problem}")
    except (ValueError, nbformat.ValidationError, AttributeError) as problem:
        error = _one_line(f"is not a notebook: {problem}")
    except FileNotFoundError:
        error = "the notebook was deleted or moved while others ran"

    if not error:
        _move_into_place(staging, output)
    if notebook is not None:
        target = failed if error else good
        write_atomically(target, _to_html(notebook, path.stem).encode("utf-8"))
    if not error:
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
        profile=house.profile,
        device=house.device,
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


def _exporter() -> HTMLExporter:
    try:
        return HTMLExporter(template_name="lab", require_js_url="")  # require.js serves widgets only: one download less
    except ValueError as error:
        raise ValueError(
            f"Jupyter's page templates are missing from this Python ({sys.executable}): {_one_line(str(error))}; "
            "run ./compile_and_run.sh setup"
        ) from error


def _to_html(notebook: NotebookNode, title: str) -> str:
    shown = copy.deepcopy(notebook)
    for cell in shown.cells:
        if cell.cell_type == "markdown":  # the marks around a worked answer would become headings
            cell.source = re.sub(r"(?m)^\s*### (BEGIN|END) SOLUTION\s*$\n?", "", cell.source)
        elif cell.cell_type == "code":  # what hidden tests hand to the grader is no picture and no text
            cell.outputs = [output for output in cell.outputs if EMITTED_TYPE not in output.get("data", {})]
    body, _ = _exporter().from_notebook_node(shown, resources={"metadata": {"name": title}})
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

"""What the machine is busy with, as a reward term that can be replayed.

The term takes from every step's reward ``weight × (use − threshold)`` for each resource used above its threshold, use
and threshold in per cent. It does not depend on what the policy does in that step, so within an episode of fixed length
it teaches nothing; it is there for demonstrations, and makes long episodes dear.

A machine's load belongs to no experiment that is to be repeated. So the load is read in a thread of its own, never
while a step waits, and every reading is recorded with the first step that it held for. A run that is given such a
*trace* pays the same penalties step for step, and gives the same numbers, on any machine under any load.
"""

from __future__ import annotations

import bisect
import csv
import io
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from .outputs import write_atomically

COLUMNS = ("step", "ram_percent", "cpu_percent", "gpu_memory_percent")
"""Columns of a trace. ``gpu_memory_percent`` is empty where there is no GPU that can be asked."""


class Reading(NamedTuple):
    """Use of the machine in per cent; ``gpu_memory_percent`` is None where there is no GPU that can be asked."""

    ram_percent: float
    cpu_percent: float
    gpu_memory_percent: float | None = None


@dataclass(frozen=True)
class Penalties:
    """From which use on a resource costs, in per cent, and what a percentage point above it costs per step."""

    thresholds: Reading = Reading(78.0, 70.0, 70.0)
    weights: Reading = Reading(0.2, 0.1, 0.1)

    def __call__(self, reading: Reading) -> float:
        """What a step pays, at least 0."""
        rows = zip(reading, self.thresholds, self.weights, strict=True)
        return float(sum(weight * max(0.0, use - limit) for use, limit, weight in rows if use is not None))


# -------------------------------------------------------------------------------------------------------------- reading


def gpu_reader() -> Callable[[], float] | None:
    """A function that gives the use of the first GPU's memory in per cent, or None.

    It needs NVML's Python binding (``pynvml``, PyPI ``nvidia-ml-py``), which is no dependency of this project, and a
    driver.
    """
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    except pynvml.NVMLError:  # no driver, or no GPU
        return None

    def read() -> float:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return 100.0 * memory.used / memory.total

    return read


def make_reader() -> Callable[[], Reading]:
    """A function that reads the machine. CPU use is the mean since the call before; the first one is the reader's."""
    gpu = gpu_reader()
    psutil.cpu_percent(interval=None)  # the first answer of psutil is meaningless: it has no call before

    def read() -> Reading:
        return Reading(
            psutil.virtual_memory().percent, psutil.cpu_percent(interval=None), None if gpu is None else gpu()
        )

    return read


class Monitor:
    """Reads the machine every ``interval`` seconds in a thread; ``latest`` is the last reading.

    Use it as a context manager: the thread ends with the block.
    """

    def __init__(self, read: Callable[[], Reading] | None = None, interval: float = 0.5):
        self._read = read or make_reader()
        self._interval = interval
        self.latest = self._read()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resource monitor", daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.latest = self._read()  # one reference is replaced: a step sees the old reading or the new one

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._thread.join()


# --------------------------------------------------------------------------------------------------------------- traces


@dataclass
class Trace:
    """Readings, and the first step that each of them held for; the last one holds for ever."""

    steps: list[int] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    def at(self, step: int) -> Reading:
        """The reading that holds for a step."""
        return self.readings[bisect.bisect_right(self.steps, step) - 1]

    def record(self, step: int, reading: Reading) -> None:
        """Note a reading, if it is another one than before."""
        if not self.readings or reading != self.readings[-1]:
            self.steps.append(step)
            self.readings.append(reading)

    def cut(self, step: int) -> None:
        """Forget what was recorded from this step on."""
        keep = bisect.bisect_left(self.steps, step)
        del self.steps[keep:], self.readings[keep:]

    def to_bytes(self) -> bytes:
        """As CSV; numbers are written so that they are read back exactly."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(COLUMNS)
        for step, reading in zip(self.steps, self.readings, strict=True):
            writer.writerow([step, *("" if value is None else repr(float(value)) for value in reading)])
        return buffer.getvalue().encode()

    def save(self, path: Path) -> None:
        """Write it, atomically."""
        write_atomically(path, self.to_bytes())

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        """Read a trace.

        Raises:
            ValueError: it is missing or is no trace; one line says why.
        """
        try:
            rows = list(csv.reader(io.StringIO(Path(path).read_bytes().decode("utf-8"))))
        except OSError as error:
            raise ValueError(f"--resources: {path} cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"--resources: {path} is no trace: it is not text") from error
        if not rows or tuple(rows[0]) != COLUMNS:
            raise ValueError(f"--resources: {path} is no trace: its first line is not {','.join(COLUMNS)}")
        trace = cls()
        for number, row in enumerate(rows[1:], 2):
            try:
                step, ram, cpu, gpu = row
                reading = Reading(float(ram), float(cpu), float(gpu) if gpu else None)
                valid = all(math.isfinite(value) for value in reading if value is not None)
                step = int(step)
            except ValueError:
                valid = False
            if not valid or step < 0 or (step <= trace.steps[-1] if trace.steps else step != 0):
                raise ValueError(
                    f"--resources: {path}, line {number}: needs a step and percentages; steps begin at 0 and grow"
                )
            trace.steps.append(step)
            trace.readings.append(reading)
        if not trace.steps:
            raise ValueError(f"--resources: {path} is an empty trace")
        return trace


class LiveResources:
    """The machine as it is; what each step saw is recorded in ``trace``.

    Args:
        monitor: anything with ``latest``.
        trace: an earlier part of the run, if there is one.
        step: steps done so far.
    """

    def __init__(self, monitor: Any, trace: Trace | None = None, step: int = 0):
        self._monitor, self.trace, self.step = monitor, trace or Trace(), step
        self.trace.cut(step)
        self.reading: Reading = monitor.latest

    def advance(self) -> None:
        """A step begins: it is charged for the latest reading."""
        self.reading = self._monitor.latest
        self.trace.record(self.step, self.reading)
        self.step += 1


class ReplayedResources:
    """A recorded trace, step by step; a run that is longer than the trace goes on with its last reading."""

    def __init__(self, trace: Trace, step: int = 0):
        self.trace, self.step = trace, step
        self.reading = trace.at(step)

    def advance(self) -> None:
        """A step begins."""
        self.reading = self.trace.at(self.step)
        self.step += 1

"""The file that every event goes to before it counts.

A *batch* of events is one line: a CRC-32 of the rest in hexadecimal, a blank, and the events as a JSON list. A thread
takes whatever waits, writes it as one batch, waits for the disk (fsync) and only then reports each event as kept. While
it waits, the next batch gathers: one fsync serves as many events as came meanwhile, and nobody waits for more than two.

Only the last batch can be torn by a crash, and none of its events has been reported. Reading therefore drops a damaged
*end* of the last file; damage anywhere else is an error. Files are numbered; ``rotate`` begins a new one, so that older
ones can be deleted when their events are kept elsewhere.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import zlib
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

_NAME = "journal-{:08d}.log"
_CLOSE, _ROTATE = object(), object()


@dataclass
class _Waiting:
    event: object
    done: Future


class Journal:
    """Appends events durably, from any thread.

    Args:
        folder: of the files; a new file is begun.
        head: written as the first batch of every file, and told by ``read`` for each.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, folder: Path, head: object) -> None:
        self.folder, self._head = folder, head
        self._queue: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        self._broken: str | None = None
        self._handle = -1
        self._begin()
        self._thread = threading.Thread(target=self._write_batches, name="journal", daemon=True)
        self._thread.start()

    def append(self, event: object) -> Future[None]:
        """A future that is done when the event, plain values for JSON, is on the disk; OSError when it is not."""
        return self._put(event)

    def rotate(self) -> Future[list[Path]]:
        """Begin a new file; the result is the older files, oldest first. Events appended before it stand in them."""
        return self._put(_ROTATE)

    def close(self) -> None:
        """Write what waits, and close; may be called again."""
        if self._thread.is_alive():
            self._put(_CLOSE)
            self._thread.join()

    def _put(self, event: object) -> Future:
        done: Future = Future()
        # Nobody can cancel what may be on the disk already.
        done.set_running_or_notify_cancel()
        self._queue.put(_Waiting(event, done))
        return done

    def _begin(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        old = files(self.folder)
        number = int(old[-1].stem.split("-")[1]) + 1 if old else 1
        path = self.folder / _NAME.format(number)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0
        self._write(_line([self._head]))
        sync_folder(self.folder)

    def _write(self, data: bytes) -> None:
        # All of the data on the disk, or the file as it was before and OSError.
        if self._broken:
            raise OSError(self._broken)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError:
            try:
                os.ftruncate(self._handle, self._size)
                os.fsync(self._handle)
            except OSError as error:
                # What stands in the file is unknown; nothing may follow it.
                self._broken = f"{self.folder} cannot be written any more ({error}); restart the server"
            raise
        self._size += len(data)

    def _write_batches(self) -> None:
        while True:
            first = self._queue.get()
            batch = [first]
            while batch[-1].event not in (_CLOSE, _ROTATE):
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            last = batch.pop() if batch[-1].event in (_CLOSE, _ROTATE) else None
            if batch:
                self._finish(batch, lambda events=batch: self._write(_line([item.event for item in events])))
            if last is not None and last.event is _ROTATE:
                self._finish([last], self._rotate)
            elif last is not None:
                if self._handle >= 0:
                    os.close(self._handle)
                    self._handle = -1
                last.done.set_result(None)
                return

    def _rotate(self) -> list[Path]:
        if self._broken:
            raise OSError(self._broken)
        older = files(self.folder)
        try:
            self._begin()
        except OSError as error:
            self._broken = f"no new file could be begun in {self.folder} ({error}); restart the server"
            raise
        return older

    @staticmethod
    def _finish(batch: list[_Waiting], action) -> None:
        try:
            result = action()
        except OSError as error:
            for item in batch:
                item.done.set_exception(error)
        else:
            for item in batch:
                item.done.set_result(result)


def files(folder: Path) -> list[Path]:
    """The journal's files, oldest first."""
    return sorted(folder.glob("journal-*.log"))


def read(folder: Path) -> list[tuple[object, list[object]]]:
    """Head and events of every file, oldest first. A torn end of the last file is cut off, for good.

    Raises:
        ValueError: damage that no crash explains; names file and line.
        OSError: a file cannot be read.
    """
    found, paths = [], files(folder)
    for path in paths:
        data = path.read_bytes()
        batches, good = [], 0
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            batch = _batch(line)
            if batch is None:
                if path != paths[-1] or _any_batch(data[good + len(line) :]):
                    raise ValueError(f"{path}: line {number} is damaged; restore the file, or move its folder away")
                break
            batches.append(batch)
            good += len(line)
        if good < len(data):
            with path.open("r+b") as file:
                file.truncate(good)
                os.fsync(file.fileno())
        if batches:  # a crash may leave a file without even its head
            found.append((batches[0][0], [event for batch in batches[1:] for event in batch]))
    return found


def drop_empty(folder: Path) -> None:
    """Delete the files that hold no event: a head and nothing else, or not even that. No journal may be open there.

    No order has to be kept, and no crash on the way matters: what is deleted says nothing, and the next number is
    greater than that of every file that is left.
    """
    for path in files(folder):
        with path.open("rb") as file:
            head, more = file.readline(), file.read(1)
        if not more and (not head or _batch(head) is not None):
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Wait until new and renamed files of a folder are on the disk."""
    if os.name == "nt":
        return  # Windows opens no folders, and keeps renames in its own journal
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _line(events: list[object]) -> bytes:
    text = json.dumps(events, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _batch(line: bytes) -> list[object] | None:
    # The events of a line, or None for a damaged one.
    head, _, text = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or head != b"%08x" % zlib.crc32(text):
        return None
    return json.loads(text)


def _any_batch(data: bytes) -> bool:
    return any(_batch(line) is not None for line in data.splitlines(keepends=True))

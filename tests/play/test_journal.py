"""What the journal reports as kept is there, whatever happens afterwards; damage is never passed over."""

import errno
import os
import time

import pytest

from metapcg.play import journal
from metapcg.play.journal import Journal, read


def write(folder, events):
    opened = Journal(folder, "head")
    for event in events:
        opened.append(event).result(10)
    opened.close()


def test_events_come_back_in_order_over_several_files(tmp_path):
    write(tmp_path, [1, {"a": [2, "x\ny"]}])
    write(tmp_path, [3])
    assert read(tmp_path) == [("head", [1, {"a": [2, "x\ny"]}]), ("head", [3])]


def test_events_that_come_together_share_one_wait_for_the_disk(tmp_path, monkeypatch):
    waits = []

    def slow(handle):
        waits.append(handle)
        time.sleep(0.05)

    monkeypatch.setattr(journal.os, "fsync", slow)
    opened = Journal(tmp_path, "head")
    waits.clear()
    for done in [opened.append(i) for i in range(100)]:
        done.result(10)
    opened.close()
    assert len(waits) <= 3
    assert read(tmp_path) == [("head", list(range(100)))]


def test_nothing_is_reported_before_the_disk_has_it(tmp_path, monkeypatch):
    opened = Journal(tmp_path, "head")
    done = []
    monkeypatch.setattr(journal.os, "fsync", lambda handle: done.append(future.done()))
    future = opened.append("event")
    future.result(10)
    opened.close()
    assert done[0] is False


def test_a_file_that_was_torn_anywhere_gives_the_events_before(tmp_path):
    write(tmp_path, ["one", "two", "three"])
    (path,) = journal.files(tmp_path)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        complete = sum(end <= length for end in ends)
        expected = [("head", ["one", "two", "three"][: complete - 1])] if complete else []
        assert read(tmp_path) == expected, length
        assert path.stat().st_size == (ends[complete - 1] if complete else 0), "the torn end stays"


def test_a_torn_end_filled_with_zeros_is_cut_off(tmp_path):
    write(tmp_path, ["one"])
    (path,) = journal.files(tmp_path)
    path.write_bytes(path.read_bytes() + bytes(4096))
    write(tmp_path, ["two"]) if read(tmp_path) else None
    assert read(tmp_path) == [("head", ["one"]), ("head", ["two"])]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_damage_before_the_last_batch_is_an_error_that_names_the_line(tmp_path, number):
    write(tmp_path, ["one", "two", "three"])
    (path,) = journal.files(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"', b"'", 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=rf"{path.name}: line {number} is damaged"):
        read(tmp_path)


def test_damage_in_an_older_file_is_an_error(tmp_path):
    write(tmp_path, ["one"])
    write(tmp_path, ["two"])
    older = journal.files(tmp_path)[0]
    older.write_bytes(older.read_bytes()[:-3])
    with pytest.raises(ValueError, match="is damaged"):
        read(tmp_path)


def test_a_full_disk_refuses_the_event_leaves_no_part_and_takes_the_next(tmp_path, monkeypatch):
    opened = Journal(tmp_path, "head")
    opened.append("one").result(10)
    real = os.write

    def full(handle, data):
        if len(data) > 10:
            return real(handle, data[:10])  # a part, as a full disk does
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        opened.append("lost").result(10)
    monkeypatch.setattr(journal.os, "write", real)
    opened.append("two").result(10)
    opened.close()
    assert read(tmp_path) == [("head", ["one", "two"])]


def test_a_file_in_an_unknown_state_takes_nothing_more(tmp_path, monkeypatch):
    opened = Journal(tmp_path, "head")

    def broken(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output error"):
            opened.append("lost").result(10)
    with pytest.raises(OSError, match="restart the server"):
        opened.append("after").result(10)
    opened.close()


def test_rotating_names_the_files_that_hold_all_earlier_events(tmp_path):
    opened = Journal(tmp_path, "head")
    waiting = [opened.append(i) for i in range(5)]
    older = opened.rotate()
    after = opened.append("after")
    (path,) = older.result(10)
    after.result(10)
    assert all(done.done() for done in waiting)
    path.unlink()
    opened.close()
    assert read(tmp_path) == [("head", ["after"])]

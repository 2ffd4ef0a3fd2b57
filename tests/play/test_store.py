"""A player's boss after a restart is the one before it, to the last bit; and one player's boss is nobody else's."""

import asyncio
import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from play_server import make_replay

from metapcg.personal.learner import Learner
from metapcg.personal.weights_file import load_anchor
from metapcg.play import journal, store
from metapcg.play.replays import trajectories
from metapcg.play.store import Full, Store, StoreError

FIGHTS = [make_replay(seed) for seed in range(12)]
READ = dict(zip(FIGHTS, trajectories(FIGHTS), strict=True))


def fights(*numbers):
    return [(FIGHTS[n], READ[FIGHTS[n]]) for n in numbers]


def learned_from(*numbers):
    """A learner that met these fights one by one, without any server."""
    learner = Learner(load_anchor("meta-learned"))
    for n in numbers:
        learner.update([READ[FIGHTS[n]]])
    return learner


def same(player, *numbers):
    """Whether a player's boss has learned from these fights in this order, and from nothing else."""
    right = learned_from(*numbers)
    boss = player.boss()
    return (
        np.array_equal(boss.mind.flat, right.mind.flat)
        and np.array_equal(boss._first_moment, right._first_moment)
        and np.array_equal(boss._second_moment, right._second_moment)
        and (boss.fights, boss.wins, boss.losses) == (right.fights, right.wins, right.losses)
        and [replay for replay, _ in player.history] == [FIGHTS[n] for n in numbers]
    )


def crash(opened):
    """End a store as kill -9 does: nothing is written, the lock goes."""
    opened.journal.close()
    opened._lock.release()


def run(work):
    return asyncio.run(work())


@pytest.mark.parametrize("orderly", [True, False])
def test_bosses_survive_a_restart_to_the_last_bit(tmp_path, orderly):
    async def first():
        opened = Store(tmp_path)
        tokens = [await opened.create() for _ in range(3)]
        one, two, _ = (opened.find(token) for token in tokens)
        await opened.learn(one, fights(0))
        await opened.learn(two, fights(5, 1))
        await opened.learn(one, fights(2))
        if orderly:
            await opened.close()
        else:
            crash(opened)
        return tokens

    async def second():
        opened = Store(tmp_path)
        assert opened.recovered == (0 if orderly else 6)
        one, two, three = (opened.find(token) for token in tokens)
        assert same(one, 0, 2) and same(two, 5, 1) and same(three)
        await opened.learn(one, fights(3))  # and they go on from there
        assert same(one, 0, 2, 3)
        await opened.close()

    tokens = run(first)
    run(second)
    # Whoever reads the folder learns no token.
    assert b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).find(tokens[0].encode()) < 0


class Crash(BaseException):
    """Stands for the end of the process."""


def test_a_crash_at_any_moment_of_a_checkpoint_loses_nothing_and_repeats_nothing(tmp_path, monkeypatch):
    async def begin():
        opened = Store(tmp_path / "begin")
        tokens = [await opened.create() for _ in range(3)]
        one, two, three = (opened.find(token) for token in tokens)
        await opened.learn(one, fights(0, 1))
        await opened.learn(two, fights(2))
        await opened.learn(three, fights(3))
        await opened.close()
        return tokens

    tokens = run(begin)
    real = {name: getattr(Path, name) for name in ("rename", "unlink")}
    left = 0

    def count(name, *arguments, **keywords):
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        return real[name](*arguments, **keywords)

    async def checkpoint(folder):
        opened = Store(folder)
        one, two, three = (opened.find(token) for token in tokens)
        await opened.learn(one, fights(4))
        await opened.reset(two)
        await opened.delete(three)
        with monkeypatch.context() as patched:
            for name in real:
                patched.setattr(Path, name, lambda *a, name=name, **k: count(name, *a, **k))
            try:
                await opened.checkpoint()
                return True
            except Crash:
                return False
            finally:
                crash(opened)

    async def check(folder):
        opened = Store(folder)
        one, two, three = (opened.find(token) for token in tokens)
        assert same(one, 0, 1, 4) and same(two) and three is None, f"crash at moment {folder.name}"
        crash(opened)

    moments, finished = 0, False
    while not finished:
        folder = tmp_path / str(moments)
        shutil.copytree(tmp_path / "begin", folder)
        left = moments
        finished = asyncio.run(checkpoint(folder))
        asyncio.run(check(folder))
        moments += 1
    assert moments > 6


def test_checkpoints_come_by_themselves_and_keep_the_folder_small(tmp_path):
    async def work():
        opened = Store(tmp_path, checkpoint_every=4)
        player = opened.find(await opened.create())
        for n in range(10):
            await opened.learn(player, fights(n))
            await asyncio.sleep(0.05)
        assert len(journal.files(tmp_path)) <= 2
        assert len(list((tmp_path / "players").glob("*.npz"))) == 1
        crash(opened)
        return player.key

    key = run(work)
    opened = Store(tmp_path)
    assert opened.recovered < 8
    assert same(opened.players[key], *range(10))
    crash(opened)


def test_fights_in_flight_of_many_players_all_arrive(tmp_path):
    async def work():
        opened = Store(tmp_path, checkpoint_every=7)
        players = [opened.find(await opened.create()) for _ in range(6)]
        # All at once; those of one player are sent in order.
        await asyncio.gather(*(opened.learn(player, fights(n)) for n in range(5) for player in players))
        assert all(same(player, *range(5)) for player in players)
        crash(opened)
        return [player.key for player in players]

    keys = run(work)
    opened = Store(tmp_path)
    assert all(same(opened.players[key], *range(5)) for key in keys)
    crash(opened)


def test_a_request_that_is_given_up_halfway_counts_whole(tmp_path):
    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        given_up = asyncio.ensure_future(opened.learn(player, fights(0)))
        await asyncio.sleep(0)
        given_up.cancel()
        await opened.learn(player, fights(1))
        assert same(player, 0, 1)
        crash(opened)
        return player.key

    key = run(work)
    opened = Store(tmp_path)
    assert same(opened.players[key], 0, 1)
    crash(opened)


def test_a_fight_counts_once(tmp_path):
    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        await opened.learn(player, fights(0))
        for repeated in (fights(0), fights(1, 0), fights(2, 2)):
            with pytest.raises(StoreError, match="learned from already"):
                await opened.learn(player, repeated)
        assert same(player, 0)
        await opened.close()

    run(work)


def test_a_disk_that_refuses_leaves_the_boss_as_it_was(tmp_path, monkeypatch):
    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        await opened.learn(player, fights(0))

        def full(handle, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(journal.os, "write", full)
            for change in (opened.learn(player, fights(1)), opened.reset(player), opened.delete(player)):
                with pytest.raises(OSError, match="No space left"):
                    await change
            with pytest.raises(OSError, match="No space left"):
                await opened.create()
        assert list(opened.players) == [player.key] and same(player, 0)
        await opened.learn(player, fights(1))
        assert same(player, 0, 1)
        crash(opened)
        return player.key

    key = run(work)
    opened = Store(tmp_path)
    assert same(opened.players[key], 0, 1)
    crash(opened)


def test_a_deleted_player_is_gone_from_the_disk_and_takes_no_more(tmp_path):
    async def work():
        opened = Store(tmp_path)
        token = await opened.create()
        player = opened.find(token)
        await opened.learn(player, fights(0))
        await opened.checkpoint()
        await opened.delete(player)
        with pytest.raises(StoreError, match="deleted"):
            await opened.learn(player, fights(1))
        assert opened.find(token) is None
        await opened.close()
        assert list((tmp_path / "players").iterdir()) == []

    run(work)


def test_a_player_deleted_just_before_a_crash_does_not_come_back(tmp_path):
    async def delete():
        opened = Store(tmp_path)
        token = await opened.create()
        await opened.learn(opened.find(token), fights(0))
        await opened.checkpoint()
        await opened.delete(opened.find(token))
        crash(opened)
        return token

    async def go_on():
        opened = Store(tmp_path)
        assert opened.find(token) is None
        await opened.create()
        await opened.close()

    async def after():
        opened = Store(tmp_path)
        assert opened.find(token) is None and len(opened.players) == 1
        crash(opened)

    token = run(delete)
    run(go_on)
    run(after)


def test_only_so_many_players(tmp_path):
    async def work():
        opened = Store(tmp_path, max_players=2)
        await opened.create()
        await opened.create()
        with pytest.raises(Full, match="--max-players"):
            await opened.create()
        await opened.close()

    run(work)


def test_the_newest_fights_are_kept_for_export_and_the_older_stay_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_HISTORY", 3)

    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        for n in range(5):
            await opened.learn(player, fights(n))
        assert [replay for replay, _ in player.history] == FIGHTS[2:5]
        assert np.array_equal(player.boss().mind.flat, learned_from(*range(5)).mind.flat)
        await opened.close()

    run(work)


def test_a_second_server_on_the_same_folder_is_refused(tmp_path):
    opened = Store(tmp_path)
    with pytest.raises(ValueError, match="another server uses this folder"):
        Store(tmp_path)
    crash(opened)
    crash(Store(tmp_path))


def test_journals_of_another_version_are_refused_but_players_are_read(tmp_path, monkeypatch):
    async def work(orderly):
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        await opened.learn(player, fights(0))
        if orderly:
            await opened.close()
        else:
            crash(opened)

    run(lambda: work(orderly=False))
    with monkeypatch.context() as patched:
        patched.setattr(store, "fingerprint", lambda: "another")
        with pytest.raises(ValueError, match="start and stop that version once"):
            Store(tmp_path)
    run(lambda: work(orderly=True))
    monkeypatch.setattr(store, "fingerprint", lambda: "another")
    opened = Store(tmp_path)
    assert len(opened.players) == 2 and all(same(player, 0) for player in opened.players.values())
    crash(opened)


def test_damaged_files_of_a_player_are_named(tmp_path):
    async def work():
        opened = Store(tmp_path)
        await opened.learn(opened.find(await opened.create()), fights(0))
        await opened.close()

    run(work)
    (path,) = (tmp_path / "players").glob("*.json")
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "format": "other"}))
    with pytest.raises(ValueError, match=rf"{path.name}: not a player's file: format 'other'"):
        Store(tmp_path)
    path.write_text(json.dumps(about))
    path.with_suffix(".npz").unlink()
    with pytest.raises(ValueError, match="not a player's file"):
        Store(tmp_path)


def test_files_that_are_no_player_s_are_left_alone_and_named_once(tmp_path, caplog):
    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        await opened.learn(player, fights(0))
        await opened.checkpoint()
        strays = ["notes.json", "ab-x.json", "notes.new", f"{player.key}-2 copy.json", f"{player.key}-02.json"]
        for name in strays:
            (tmp_path / "players" / name).write_text("mine")
        await opened.learn(player, fights(1))
        await opened.close()
        caplog.clear()
        opened = Store(tmp_path)
        assert same(opened.players[player.key], 0, 1) and len(opened.players) == 1
        await opened.delete(opened.players[player.key])
        await opened.close()
        assert sorted(path.name for path in (tmp_path / "players").iterdir()) == sorted(strays)
        (record,) = caplog.records
        assert all(repr(name) in record.getMessage() for name in strays if name.endswith(".json"))
        assert "\n" not in record.getMessage() and "move" in record.getMessage()

    run(work)


def test_starts_without_a_player_leave_no_journals(tmp_path):
    async def start_and_stop():
        await Store(tmp_path).close()

    async def play():
        opened = Store(tmp_path)
        await opened.learn(opened.find(await opened.create()), fights(0))
        return opened

    async def play_and_crash():
        crash(await play())

    run(start_and_stop)
    run(start_and_stop)
    assert journal.files(tmp_path) == []
    (tmp_path / "journal-00000001.log").touch()  # a crash before its head
    crash(Store(tmp_path))  # a crash after its head
    run(start_and_stop)
    assert journal.files(tmp_path) == []
    run(play_and_crash)
    run(start_and_stop)
    assert journal.files(tmp_path) == [] and len(list((tmp_path / "players").glob("*.json"))) == 1


def test_journals_with_events_stay_when_the_players_cannot_be_written(tmp_path, monkeypatch):
    async def work():
        opened = Store(tmp_path)
        player = opened.find(await opened.create())
        await opened.learn(player, fights(0))
        with monkeypatch.context() as patched:
            patched.setattr(opened, "_settle", lambda *arguments: (_ for _ in ()).throw(OSError("full")))
            with pytest.raises(OSError, match="full"):
                await opened.close()
        opened = Store(tmp_path)
        assert same(opened.players[player.key], 0)
        crash(opened)

    run(work)


def test_an_unknown_anchor_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ValueError, match="anchor: unknown name 'best'"):
        Store(tmp_path / "data", "best")
    assert not (tmp_path / "data").exists()

"""The command itself: killed with kill -9 in the middle of work, it has lost nothing that it had answered."""

import http.client
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from play_server import Client, Program, make_entry, make_replay

from metapcg.personal.learner import Learner
from metapcg.personal.weights_file import load_anchor
from metapcg.play.command import data_folder, run
from metapcg.play.store import Store


def test_kill_9_loses_at_most_the_fight_in_flight(tmp_path):
    replays = [make_replay(seed) for seed in range(40)]
    program = Program(tmp_path)
    clients = [program.new_player() for _ in range(4)]
    answered = [0] * len(clients)

    def work(number):
        for seed in range(len(replays)):
            try:
                clients[number].post("/learn", make_entry(seed))
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                return
            answered[number] = seed + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while min(answered) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    program.end(kill=True)
    for thread in threads:
        thread.join(30)
    assert 5 <= min(answered) and max(answered) < len(replays), "the kill has to come in the middle"

    again = Program(tmp_path)
    try:
        assert any("were read from the journal" in line for line in again.said)
        for client, count in zip(clients, answered, strict=True):
            client.port = again.port
            fights = client.get("/boss")["fights"]
            assert fights in (count, count + 1)  # one may have been kept without its answer
            # The page sends what was not answered once more; it counts once.
            status = client.ask("POST", "/learn", make_entry(count))[0]
            assert status == (200 if fights == count else 409)
            assert client.get("/boss")["fights"] == count + 1
    finally:
        again.end()
    store = Store(tmp_path)
    assert store.recovered == 0  # Ctrl-C had written the players
    for client, count in zip(clients, answered, strict=True):
        right = Learner(load_anchor("meta-learned"))
        for seed in range(count + 1):
            right.update([make_entry(seed)["log"]])
        player = store.find(client.token)
        assert np.array_equal(player.boss().mind.flat, right.mind.flat)
        assert [replay for replay, _ in player.history] == replays[: count + 1]
    store.journal.close()
    store._lock.release()


def test_a_fight_in_progress_is_gone_after_a_crash_and_the_player_is_told(tmp_path):
    program = Program(tmp_path)
    client = program.new_player()
    view = client.post("/fights", {"tells": False})
    program.end(kill=True)
    again = Program(tmp_path)
    try:
        client = Client(again.port, client.token)
        assert client.get("/fights") == {"fight": None}
        status, _, body = client.ask("POST", "/fights/step", {"fight": view["fight"], "turn": 0, "action": "wait"})
        assert status == 409 and "not going on" in body["error"]
    finally:
        again.end()


def test_the_folder_is_relative_to_where_the_command_was_called(tmp_path, monkeypatch):
    monkeypatch.setenv("HW11_CALLED_FROM", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.delenv("HW11_PLAY", raising=False)
    assert data_folder(Path("here")) == tmp_path / "here"
    assert data_folder(Path("/there")) == Path("/there")
    assert data_folder(None) == Path("/data/metapcg/play")
    monkeypatch.setenv("HW11_PLAY", "kept")
    assert data_folder(None) == tmp_path / "kept"


def options(**changed):
    from metapcg.__main__ import make_parser

    parsed = make_parser().parse_args(["play", "--no-browser", "--port", "0"])
    for name, value in changed.items():
        setattr(parsed, name, value)
    return parsed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"anchor": "best"}, "anchor: unknown name 'best'"),
        ({"max_players": 0}, "--max-players: needs at least 1"),
        ({"host": "203.0.113.1"}, "cannot listen on 203.0.113.1:0"),
    ],
)
def test_wrong_settings_are_told_in_one_line(tmp_path, changed, message):
    with pytest.raises((ValueError, OSError), match=message):
        run(options(data=tmp_path, **changed))

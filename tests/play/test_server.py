"""What the server accepts, what it refuses and why; a refused request changes nothing."""

import copy
import http.client
import json
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from play_server import Client, Server, make_entry

from metapcg.personal.arena import RULES
from metapcg.personal.learner import Learner
from metapcg.personal.weights_file import load_anchor
from metapcg.play import app
from metapcg.play.replays import MAX_SEED
from metapcg.play.store import MAX_HISTORY

STATIC = Path(app.__file__).with_name("static")


# --- the page


def test_the_page_and_its_parts_come_from_this_server_and_nothing_else_may_be_loaded(server):
    status, headers, page = server.ask("GET", "/")
    assert status == 200 and "<!DOCTYPE html>" in page
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    parts = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    assert len(parts) == 3
    for part in parts:
        assert server.ask("GET", f"/{part}")[0] == 200
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|@import|style=\"|<script>|onclick", text), path.name


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/none"])
def test_nothing_but_the_page_is_served(server, path):
    status, _, body = server.ask("GET", path)
    assert (status, body) == (404, {"error": "Not Found"})


# --- a fight


def test_a_whole_fight_is_played_and_the_boss_learns_exactly_that(server):
    player = server.new_player()
    before = player.get("/boss")
    assert before["now"] == before["anchor"] and before["distance"] == 0.0 and before["fights"] == 0
    end = player.play(seed=1)
    answer = player.post("/learn", end["entry"])
    assert answer["before"] == before["now"] and answer["now"] != before["now"]
    assert answer["fights"] == answer["learned"] == 1 and answer["distance"] > 0
    assert answer["results"][0]["steps"] == end["turn"] == answer["update"]["decisions"]
    assert answer["bossWins"] + answer["playerWins"] <= 1
    assert answer["sentence"].endswith(".") and "\n" not in answer["sentence"]
    right = Learner(load_anchor("meta-learned"))
    right.update([end["entry"]["log"]])
    assert np.array_equal(server.store.find(player.token).boss().mind.flat, right.mind.flat)
    assert player.get("/fights") == {"fight": None}


def test_the_seed_is_told_only_at_the_end_so_luck_cannot_be_foreseen(server):
    player = server.new_player()
    view = player.post("/fights", {"tells": True})
    assert "entry" not in view and "seed" not in json.dumps(view)
    assert 0 <= player.play()["entry"]["seed"] <= MAX_SEED


def test_a_stance_tells_the_kind_of_action_and_never_the_height(server):
    player = server.new_player()
    view, told = player.post("/fights", {"tells": True}), []
    while not view["over"]:
        tell = view["tell"]
        view = player.post("/fights/step", {"fight": view["fight"], "turn": view["turn"], "action": "wait"})
        told.append((tell, view["last"]["boss"]))
    for tell, action in told:
        assert tell == {"attack": "strikes", "block": "guards", "special": "special", "wait": "waits"}.get(
            action.split("-")[0], "moves"
        )
    assert player.post("/fights", {"tells": False})["tell"] is None


def test_a_turn_that_is_sent_twice_is_played_once(server):
    player = server.new_player()
    view = player.post("/fights", {"tells": False})
    turn = {"fight": view["fight"], "turn": 0, "action": "approach"}
    first = player.post("/fights/step", turn)
    status, _, body = player.ask("POST", "/fights/step", turn)
    assert (status, body) == (409, {"error": "turn: 1 is due, not another"})
    assert player.get("/fights")["fight"] == first


@pytest.mark.parametrize(
    ("turn", "status", "message"),
    [
        ({"action": "fly"}, 409, "unknown action 'fly'"),
        ({"action": None}, 409, "unknown action None"),
        ({"action": 3.5}, 409, "unknown action 3.5"),
        ({"turn": "0"}, 409, "turn: 0 is due"),
        ({"turn": False}, 409, "turn: 0 is due"),
        ({"fight": "0" * 32}, 409, "this fight is not going on"),
        ({"more": 1}, 400, "needs an object with fight, turn, action"),
    ],
)
def test_a_wrong_turn_is_refused_and_the_fight_goes_on(server, turn, status, message):
    player = server.new_player()
    view = player.post("/fights", {"tells": False})
    got, _, body = player.ask("POST", "/fights/step", {"fight": view["fight"], "turn": 0, "action": "approach", **turn})
    assert got == status and body["error"].startswith(message)
    assert player.get("/fights")["fight"] == view


def test_an_action_that_rests_is_refused(server):
    player = server.new_player()
    view = player.post("/fights", {"tells": False})
    player.post("/fights/step", {"fight": view["fight"], "turn": 0, "action": "special"})
    status, _, body = player.ask("POST", "/fights/step", {"fight": view["fight"], "turn": 1, "action": "special"})
    assert status == 409 and body["error"].startswith("the player may not special now; choose")


# --- bad input at /learn


def edited(edit):
    """The bytes of an entry after an edit."""
    entry = make_entry(3)
    edit(entry)
    return json.dumps(entry).encode()


def million_steps(entry):
    entry["log"]["steps"] = [0] * 1_000_000


def special_twice(entry):
    steps = entry["log"]["steps"]
    first = next(t for t, step in enumerate(steps) if step["action"] == "special")
    steps[first + 1]["action"] = "special"


def set_in(entry, *path, to):
    for name in path[:-1]:
        entry = entry[name]
    entry[path[-1]] = to


BAD = {
    "not JSON": (b"{", 400, "not JSON: "),
    "empty": (b"", 400, "not JSON: "),
    "not text": (b"\xff\xfe{}", 400, "not JSON: "),
    "nested without end": (b"[" * 100_000, 400, "not JSON: "),
    "a list": (b"[]", 422, "a fight: needs an object"),
    "nothing": (b"{}", 422, "fight is missing"),
    "unknown action": (edited(lambda e: set_in(e, "log", "steps", 2, "action", to="fly")), 422, "log.steps[2].action"),
    "action number": (edited(lambda e: set_in(e, "log", "steps", 2, "action", to=99)), 422, "log.steps[2].action"),
    "illegal action": (edited(special_twice), 422, "special was illegal then; legal were"),
    "NaN": (edited(lambda e: set_in(e, "log", "steps", 0, "bossHP", to=float("nan"))), 400, "NaN is no number"),
    "infinity": (edited(lambda e: set_in(e, "log", "steps", 0, "bossHP", to=float("inf"))), 400, "Infinity is no"),
    "1e999": (json.dumps(make_entry(3)).replace('"bossHP": 1.0', '"bossHP": 1e999', 1).encode(), 422, "bossHP"),
    "a million steps": (edited(million_steps), 413, "bytes, at most"),
    "61 steps": (
        edited(lambda e: set_in(e, "log", "steps", to=e["log"]["steps"][:1] * 61)),
        422,
        "steps: needs 2 to 60 of them, got 61",
    ),
    "negative HP": (edited(lambda e: set_in(e, "log", "steps", 4, "playerHP", to=-0.1)), 422, "steps[4].playerHP"),
    "negative HP at the end": (edited(lambda e: set_in(e, "log", "result", "bossHP", to=-1)), 422, "result.bossHP"),
    "too few player's actions": (edited(lambda e: e["player"].pop()), 422, "player: needs a list of"),
    "a step twice": (edited(lambda e: set_in(e, "log", "steps", 4, to=e["log"]["steps"][3])), 422, "steps[4]"),
    "a step is missing": (edited(lambda e: e["log"]["steps"].pop(3)), 422, "steps[3]"),
    "a huge number": (b'{"fight": 1, "seed": ' + b"9" * 5000 + b', "player": [], "log": {}}', 400, "not JSON: "),
    "another seed": (edited(lambda e: set_in(e, "seed", to=4)), 422, "the rules give"),
}


@pytest.mark.parametrize(("raw", "status", "message"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_line_that_says_why_and_the_boss_is_unchanged(server, raw, status, message):
    player = server.new_player()
    player.post("/learn", make_entry(8))
    before = server.store.find(player.token).boss().mind.flat.copy()
    journals = sum(path.stat().st_size for path in server.store.folder.glob("journal-*"))
    got, _, body = player.ask("POST", "/learn", raw=raw)
    assert (got, list(body)) == (status, ["error"])
    assert message.removeprefix("log.") in body["error"] and "\n" not in body["error"] and len(body["error"]) < 300
    assert np.array_equal(server.store.find(player.token).boss().mind.flat, before)
    assert sum(path.stat().st_size for path in server.store.folder.glob("journal-*")) == journals
    assert player.get("/boss")["fights"] == 1


def test_the_log_of_a_fight_that_was_played_here_cannot_be_exchanged(server):
    player = server.new_player()
    view = player.play(seed=2)
    forged = {**make_entry(5), "fight": view["fight"]}
    status, _, body = player.ask("POST", "/learn", forged)
    assert (status, body) == (422, {"error": "the log is not that of the fight that was played"})
    assert player.post("/learn", view["entry"])["fights"] == 1


def test_an_earlier_fight_is_not_compared_but_has_to_be_a_fight_by_the_rules(server):
    # What the docstring of ``app`` says and no more: the record of the latest fight only is kept.
    player = server.new_player()
    view = player.play(seed=2)
    player.post("/fights", {"tells": False})
    forged = {**make_entry(5), "fight": view["fight"]}
    status, _, _ = player.ask("POST", "/learn", {**forged, "seed": 6})
    assert status == 422 and player.get("/boss")["fights"] == 0
    assert player.post("/learn", forged)["fights"] == 1
    assert player.ask("POST", "/learn", view["entry"])[0] == 409


def test_a_fight_is_learned_from_once(server, entry):
    player = server.new_player()
    first = player.post("/learn", entry)
    status, _, body = player.ask("POST", "/learn", entry)
    assert status == 409 and "learned from already" in body["error"]
    assert player.get("/boss")["distance"] == first["distance"]


def test_a_fight_that_goes_on_cannot_be_learned_from(server):
    player = server.new_player()
    view = player.post("/fights", {"tells": False})
    status, _, body = player.ask("POST", "/learn", {**make_entry(5), "fight": view["fight"]})
    assert status == 422 and "not that of the fight" in body["error"]


@pytest.mark.parametrize("path", ["/learn", "/import", "/fights", "/fights/step"])
def test_another_type_than_json_is_refused(server, path):
    # A form of another page can send only such types without asking first.
    status, _, body = server.new_player().ask("POST", path, raw=b"{}", headers={"Content-Type": "text/plain"})
    assert (status, body) == (415, {"error": "needs the content type application/json"})


@pytest.mark.parametrize("ending", [b"", b"0\r\n\r\n"], ids=["endless", "ended"])
def test_a_long_body_is_refused_even_when_its_length_is_not_told(server, monkeypatch, ending):
    monkeypatch.setattr(app, "BODY_SECONDS", 1.0)
    player = server.new_player()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(
            f"POST /learn HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {player.token}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        for _ in range(100):
            connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
        connection.sendall(ending)
        answer = b""
        while not answer.endswith(b"}"):
            part = connection.recv(65536)
            assert part, answer
            answer += part
        assert answer.startswith(b"HTTP/1.1 413") and b"too long" in answer
        assert (b"connection: close" in answer.lower()) == (not ending)
        if not ending:
            assert connection.recv(1) == b"", "a body without end keeps the connection"


def test_a_client_who_sends_a_long_body_slowly_reads_why_it_is_refused(server):
    player = server.new_player()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)

    def body():
        for _ in range(20):
            time.sleep(0.02)  # the answer is there long before the last part is sent
            yield b" " * 50_000

    token = {"Authorization": f"Bearer {player.token}"}
    headers = {**token, "Content-Type": "application/json", "Content-Length": "1000000"}
    connection.request("POST", "/learn", body(), headers)
    answer = connection.getresponse()
    assert answer.status == 413 and b"1000000 bytes, at most" in answer.read()
    connection.request("GET", "/boss", headers=token)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_body_that_does_not_come_is_given_up_and_holds_nobody_up(server, monkeypatch, entry):
    monkeypatch.setattr(app, "BODY_SECONDS", 0.5)
    player = server.new_player()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(
            f"POST /learn HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {player.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n{".encode()
        )
        assert player.post("/learn", entry)["fights"] == 1
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


def test_a_disk_that_refuses_is_told(server, entry, monkeypatch):
    player = server.new_player()

    def full(data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(server.store.journal, "_write", full)
        status, _, body = player.ask("POST", "/learn", entry)
    assert status == 503 and "No space left on device" in body["error"]
    assert player.get("/boss")["fights"] == 0
    assert player.post("/learn", entry)["fights"] == 1


# --- who may ask


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil.example", "http://[", "http://[::1"],
)
@pytest.mark.parametrize("path", ["/learn", "/players", "/reset", "/import", "/fights"])
def test_another_origin_changes_nothing(server, entry, origin, path):
    player = server.new_player()
    players = len(server.store.players)
    status, _, body = player.ask("POST", path, entry, {"Origin": origin})
    assert status == 403 and body["error"].startswith("requests from another origin are refused")
    assert player.get("/boss")["fights"] == 0 and len(server.store.players) == players
    status, headers, _ = player.ask("OPTIONS", path, headers={"Origin": origin})
    assert status == 403 and not any(name.startswith("access-control") for name in headers)


def test_the_browser_s_word_that_a_request_is_from_elsewhere_is_believed(server):
    assert server.ask("POST", "/players", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert server.ask("POST", "/players", headers={"Sec-Fetch-Site": "same-origin"})[0] == 201


def test_the_page_s_own_origin_is_accepted(server, entry):
    player = server.new_player()
    for host in (f"localhost:{server.port}", f"127.0.0.1:{server.port}", f"[::1]:{server.port}"):
        status, _, _ = player.ask("POST", "/reset", headers={"Host": host, "Origin": f"http://{host}"})
        assert status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8017", "", "192.168.0.7", "localhost.evil.example", "[::2]", "[", "[::1", "[::1:80"],
)
def test_another_host_is_refused_so_that_names_cannot_be_rebound(server, host):
    for method in ("GET", "POST"):
        status, _, body = server.ask(method, "/players", headers={"Host": host, "Origin": f"http://{host}"})
        assert status == 421 and body["error"].startswith("this server is not called")


def test_a_server_for_others_is_called_by_addresses_and_by_the_names_it_was_given(tmp_path):
    with Server(tmp_path, hosts=["lab.example"], public=True) as server:
        for host, status in (("192.168.0.7:80", 200), ("LAB.example", 200), ("[fe80::1]:80", 200), ("other", 421)):
            assert server.ask("GET", "/rules", headers={"Host": host})[0] == status


@pytest.mark.parametrize("token", [None, "", "x", "ä", "0" * 5000])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/boss"), ("POST", "/learn"), ("POST", "/reset"), ("GET", "/export"), ("DELETE", "/players")],
)
def test_without_a_token_there_is_nothing(server, method, path, token):
    server.new_player()
    headers = {} if token is None else {"Authorization": b"Bearer " + token.encode("latin-1")}
    status, _, body = server.ask(method, path, headers=headers)
    assert status == 401 and "no such player" in body["error"]


def test_one_player_can_neither_read_nor_change_the_boss_of_another(server):
    one, two = server.new_player(), server.new_player()
    assert len(one.token) >= 43 and one.token != two.token
    going, end = two.post("/fights", {"tells": False}), one.play(seed=3)
    one.post("/learn", end["entry"])
    untouched = two.get("/boss")
    assert untouched["fights"] == 0 and untouched["distance"] == 0.0
    # Another's fight can be neither played on nor looked at.
    status, _, body = one.ask("POST", "/fights/step", {"fight": going["fight"], "turn": 0, "action": "wait"})
    assert status == 409 and "not going on" in body["error"]
    assert two.get("/fights")["fight"] == going
    # What names a player is the token only: no parameter, cookie or body does.
    key = server.store.find(two.token).key
    for headers in ({"Cookie": f"token={two.token}"}, {"X-Player": key}):
        assert one.ask("GET", f"/boss?player={key}&token={two.token}", headers=headers)[2]["fights"] == 1
    assert Client(server.port, key).ask("GET", "/boss")[0] == 401  # the name of the file is no token
    one.post("/reset")
    one.ask("DELETE", "/players")
    assert two.get("/fights")["fight"] == going and one.ask("GET", "/boss")[0] == 401


def test_players_at_once_each_get_their_own_boss(server):
    clients = [server.new_player() for _ in range(5)]
    failures = []

    def work(number, client):
        try:
            for fight in range(4):
                client.post("/learn", make_entry(20 + (number + fight) % 6))
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=item) for item in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    for number, client in enumerate(clients):
        right = Learner(load_anchor("meta-learned"))
        for fight in range(4):
            right.update([make_entry(20 + (number + fight) % 6)["log"]])
        assert np.array_equal(server.store.find(client.token).boss().mind.flat, right.mind.flat)


# --- reset, export, import, delete


def test_export_reset_and_import_give_the_same_boss_again(server):
    player = server.new_player()
    for seed in (1, 2, 3):
        player.post("/learn", make_entry(seed))
    learned, exported = player.get("/boss"), player.get("/export")
    assert len(exported["fights"]) == 3 and exported["fights"][0] == make_entry(1)
    reset = player.post("/reset")
    assert reset["now"] == reset["anchor"] and reset["fights"] == 0 and reset["results"] == []
    again = player.post("/import", exported)
    assert again["learned"] == 3 and player.get("/boss") == learned
    # For another player, too; and what is known already is left out.
    other = server.new_player()
    other.post("/learn", make_entry(2))
    assert other.post("/import", exported)["learned"] == 2
    status, _, body = other.ask("POST", "/import", exported)
    assert status == 409 and "all of these fights" in body["error"]


@pytest.mark.parametrize(
    ("edit", "status", "message"),
    [
        (lambda data: data.pop("format"), 400, "this is no export of fights"),
        (lambda data: data.update(fights=[]), 400, "fights: needs a list of 1 to 200"),
        (lambda data: data.update(fights=data["fights"] * 101), 400, "fights: needs a list of 1 to 200"),
        (lambda data: set_in(data, "fights", 1, "seed", to=9), 422, "fights[1]: steps[0].state"),
        (lambda data: data["fights"].append(copy.deepcopy(data["fights"][0])), 409, "learned from already"),
    ],
)
def test_an_import_with_one_fault_teaches_nothing(server, edit, status, message):
    player = server.new_player()
    data = {"format": "metapcg fights 1", "fights": [make_entry(1), make_entry(2)]}
    edit(data)
    got, _, body = player.ask("POST", "/import", data)
    assert got == status and message in body["error"]
    assert player.get("/boss")["fights"] == 0


@pytest.mark.parametrize("value", [b"[]", b"0", b"[" * 500 + b"]" * 500], ids=["lists", "numbers", "nested"])
def test_an_import_of_more_values_than_fights_have_is_refused_unread(server, value, monkeypatch):
    # Reading two million lists would hold everybody else up for seconds.
    player = server.new_player()
    raw = b"[" + b",".join([value] * (6_000_000 // (len(value) + 1))) + b"]"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"Bearer {player.token}", "Content-Type": "application/json"}
    with monkeypatch.context() as patched:
        patched.setattr(json, "loads", lambda *arguments, **keywords: pytest.fail("it was read"))
        connection.request("POST", "/import", raw, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    connection.close()
    assert answer.status == 413 and "more values than 200 fights have" in text


def test_an_export_of_the_most_and_longest_fights_can_be_imported():
    longest = max((make_entry(seed) for seed in range(40)), key=lambda entry: len(entry["player"]))
    assert len(longest["player"]) == RULES.max_steps
    text = json.dumps([longest] * MAX_HISTORY).encode()
    assert len(text) < app.MAX_IMPORT_BYTES and app.count_values(text) < 0.9 * app.MAX_IMPORT_VALUES


def test_after_deletion_the_token_opens_nothing(server, entry):
    player = server.new_player()
    player.post("/learn", entry)
    assert player.ask("DELETE", "/players")[0] == 200
    assert player.ask("GET", "/boss")[0] == 401


def test_a_fault_of_the_server_is_told_in_one_line_too(server, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    player = server.new_player()
    monkeypatch.setattr(app, "describe", broken)
    status, _, body = player.ask("GET", "/boss")
    assert status == 500 and body["error"].startswith("a fault of the server")


def test_stopping_waits_for_the_fights_that_were_sent(tmp_path, monkeypatch):
    with Server(tmp_path) as server:
        player = server.new_player()
        real = server.store.journal._write

        def slow(data):
            time.sleep(0.5)
            real(data)

        monkeypatch.setattr(server.store.journal, "_write", slow)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(player.ask("POST", "/learn", make_entry(1))[0]))
        thread.start()
        time.sleep(0.2)
    thread.join(20)
    assert answers == [200]
    with Server(tmp_path) as server:
        assert server.store.recovered == 0
        assert Client(server.port, player.token).get("/boss")["fights"] == 1

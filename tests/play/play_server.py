"""A running server, its clients, and fights, for the tests of the page."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn

from metapcg.personal.arena import Fight, choose, legal_actions
from metapcg.play.app import make_app
from metapcg.play.replays import Replay, entries
from metapcg.play.store import Store


def make_replay(seed):
    """A whole fight between two sides that choose at random."""
    fight, generator = Fight(seed), np.random.default_rng([seed, 1])
    boss, player = "", ""
    while not fight.over:
        chosen = [int(choose(legal_actions(fight.state, side), generator)) for side in (0, 1)]
        fight.step(*chosen)
        boss, player = boss + str(chosen[0]), player + str(chosen[1])
    return Replay(f"{seed:032x}", seed, boss, player)


def make_entry(seed):
    """The same as it is sent to /learn."""
    return entries([make_replay(seed)])[0]


class Client:
    """Speaks HTTP to a server on this machine, with or without a player's token."""

    def __init__(self, port, token=None):
        self.port, self.token = port, token

    def ask(self, method, path, body=None, headers=None, raw=None):
        """Status, headers and body (JSON read, where it is JSON) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, data, {**sent, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = (answer.getheader("content-type") or "").startswith("application/json")
        return answer.status, dict(answer.getheaders()), json.loads(text) if is_json else text.decode()

    def get(self, path):
        """The answer's body; the request has to succeed."""
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def post(self, path, body=None):
        """The answer's body; the request has to succeed."""
        status, _, answer = self.ask("POST", path, body)
        assert status in (200, 201), answer
        return answer

    def new_player(self):
        """A client of a new player."""
        return Client(self.port, self.post("/players")["token"])

    def play(self, seed=0, tells=False):
        """Play a whole fight with random choices; the last view."""
        generator = np.random.default_rng(seed)
        view = self.post("/fights", {"tells": tells})
        while not view["over"]:
            action = view["legal"][generator.integers(len(view["legal"]))]
            view = self.post("/fights/step", {"fight": view["fight"], "turn": view["turn"], "action": action})
        return view


class Server(Client):
    """The application in a thread of this process; ``store`` is its store."""

    def __init__(self, folder, hosts=(), public=False, **settings):
        self._listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(self._listener.getsockname()[1])
        self.store = Store(Path(folder), **settings)
        app = make_app(self.store, hosts, public)
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=2))
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    def __enter__(self):
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline and self._thread.is_alive(), "the server does not start"
            time.sleep(0.01)
        return self

    def __exit__(self, *error):
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()
        assert not self._thread.is_alive()


class Program(Client):
    """``python -m metapcg play`` as a process of its own, which can be killed."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "metapcg", "play", "--no-browser", "--port", "0", "--data", str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "HW11_PLAY": ""}
        )
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if line.startswith("play at"):
                super().__init__(int(line.split()[2].rstrip("/").rpartition(":")[2]))
                break
        else:
            raise AssertionError("\n".join(self.said))
        deadline = time.monotonic() + 20
        while True:
            try:
                self.get("/rules")
                return
            except ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def end(self, kill=False):
        """Stop it as Ctrl-C does, or ``kill -9``."""
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

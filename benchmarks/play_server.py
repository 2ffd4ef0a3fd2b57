"""How many updates a second the server of the page holds, and whether every one arrives.

    python benchmarks/play_server.py [--players 50] [--rate 200] [--seconds 20] [--data FOLDER]

Starts the server as a person does (``python -m metapcg play``) and lets simulated players send whole fights of their
own to ``POST /learn``, each player one after the other. First at a fixed rate, by the clock: a fight is sent when its
time has come, and its latency counts from then, so that a server that falls behind shows. Then as fast as the answers
come.
Then some whole fights turn by turn, as the page plays them. In the end the server is killed with kill -9 and its folder
read: every learner has to be, in number of updates and in every bit of its weights, what the same fights in the same
order give without a server.

Server and players are two processes: two cores are what they are measured on. Give --data to measure another disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from metapcg.personal.arena import Fight, choose, legal_actions  # noqa: E402
from metapcg.personal.learner import Learner  # noqa: E402
from metapcg.personal.player_styles import action_probabilities, named_styles  # noqa: E402
from metapcg.personal.weights_file import load_anchor  # noqa: E402
from metapcg.play.replays import Replay, entries, trajectories  # noqa: E402
from metapcg.play.store import Store  # noqa: E402

WIDTHS = (8, 10, 9, 9, 9, 9, 9)
SHAPES = ("d", ".1f", ".1f", ".1f", ".1f", ".1f", ".0f")
"""Of the table's columns; "server" is the processor time that the server took, in per cent of one core."""


class Connection:
    """One connection that is kept open; the least HTTP that is needed, so that the players cost little."""

    def __init__(self, port: int) -> None:
        self._port, self._token = port, None

    async def open(self) -> None:
        """Connect, and become a player."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.token = json.loads(await self.ask("POST", "/players"))["token"]
        self._token = self.token

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The answer's body; RuntimeError when the server refuses."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        if self._token:
            head += f"Authorization: Bearer {self._token}\r\n"
        self._writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        status = await self._reader.readline()
        length = 0
        while (line := await self._reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        answer = await self._reader.readexactly(length)
        if not status.split()[1].startswith(b"2"):
            raise RuntimeError(f"{path}: {status.decode().strip()} {answer.decode()}")
        return answer


def make_replays(count: int) -> list[Replay]:
    """Whole fights of simulated players of all styles against a boss that chooses at random."""
    styles, replays = named_styles(), []
    for number in range(count):
        fight, generator = Fight(number), np.random.default_rng([number, 1])
        boss, player = "", ""
        style = styles.parameters[number % len(styles)]
        while not fight.over:
            chosen = (
                int(choose(legal_actions(fight.state, 0), generator)),
                int(choose(action_probabilities(fight.state, style), generator)),
            )
            fight.step(*chosen)
            boss, player = boss + str(chosen[0]), player + str(chosen[1])
        replays.append(Replay(f"{number:032x}", number, boss, player))
    return replays


def start_server(folder: Path) -> tuple[subprocess.Popen, int]:
    """The server and its port."""
    command = [sys.executable, "-m", "metapcg", "play", "--no-browser", "--port", "0", "--data", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if line.startswith("play at"):
            return server, int(line.split()[2].rstrip("/").rpartition(":")[2])
    raise RuntimeError("the server did not start; what it printed says why")


class Players:
    """All simulated players, with what each has sent and got answered."""

    def __init__(self, connections: list[Connection], bodies: list[bytes]) -> None:
        self.connections, self._bodies = connections, bodies
        self.sent: list[list[int]] = [[] for _ in connections]

    async def learn(self, number: int) -> None:
        """The next fight of a player; player p begins with fight p, and nobody sends a fight twice."""
        fight = (number + len(self.sent[number])) % len(self._bodies)
        await self.connections[number].ask("POST", "/learn", self._bodies[fight])
        self.sent[number].append(fight)

    async def at_rate(self, rate: float, seconds: float) -> tuple[list[float], float]:
        """Latencies in seconds from when a fight was due, and the duration."""
        latencies: list[float] = []
        begin = time.perf_counter() + 0.1

        async def one(number: int) -> None:
            # The players' clocks are shifted against each other, as people's are.
            period = len(self.connections) / rate
            due = begin + number / rate
            while due < begin + seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await self.learn(number)
                latencies.append(time.perf_counter() - due)
                due += period

        await asyncio.gather(*(one(number) for number in range(len(self.connections))))
        return latencies, time.perf_counter() - begin

    async def flat_out(self, seconds: float) -> tuple[list[float], float]:
        """The same as fast as the answers come."""
        latencies: list[float] = []
        begin = time.perf_counter()

        async def one(number: int) -> None:
            while (now := time.perf_counter()) < begin + seconds:
                await self.learn(number)
                latencies.append(time.perf_counter() - now)

        await asyncio.gather(*(one(number) for number in range(len(self.connections))))
        return latencies, time.perf_counter() - begin


async def play_fights(port: int, count: int) -> list[float]:
    """Whole fights turn by turn, ``count`` at once; latencies of the turns."""
    latencies: list[float] = []

    async def one(number: int) -> None:
        generator = np.random.default_rng(number)
        connection = Connection(port)
        await connection.open()
        view = json.loads(await connection.ask("POST", "/fights", b'{"tells": true}'))
        while not view["over"]:
            action = view["legal"][generator.integers(len(view["legal"]))]
            turn = {"fight": view["fight"], "turn": view["turn"], "action": action}
            since = time.perf_counter()
            view = json.loads(await connection.ask("POST", "/fights/step", json.dumps(turn).encode()))
            latencies.append(time.perf_counter() - since)
        await connection.ask("POST", "/learn", json.dumps(view["entry"]).encode())

    await asyncio.gather(*(one(number) for number in range(count)))
    return latencies


def say(what: str, latencies: list[float], duration: float, cpu: float) -> None:
    """One line of results."""
    ms = [1000 * value for value in latencies]
    values = (len(ms), len(ms) / duration, *np.percentile(ms, [50, 95, 99]), max(ms), 100 * cpu / duration)
    texts = [f"{value:{shape}}" for value, shape in zip(values, SHAPES, strict=True)]
    print(f"{what:34s}" + "".join(f"{t:>{width}s}" for t, width in zip(texts, WIDTHS, strict=True)), flush=True)


async def measure(options: argparse.Namespace, port: int, server: psutil.Process, replays: list[Replay]) -> Players:
    """Everything that needs the server."""
    bodies = [json.dumps(entry).encode() for entry in entries(replays)]
    print(
        f"{options.players} players; fights of {min(map(len_of, replays))} to {max(map(len_of, replays))} decisions, "
        f"{statistics.mean(map(len_of, replays)):.0f} on average, {statistics.mean(map(len, bodies)) / 1024:.1f} kB\n"
    )
    connections = [Connection(port) for _ in range(options.players)]
    for connection in connections:
        await connection.open()
    players = Players(connections, bodies)
    await asyncio.gather(*(players.learn(number) for number in range(options.players)))  # imports, caches
    heads = ("number", "rate", "median", "95 %", "99 %", "worst", "server")
    print(f"{'latencies in ms':34s}" + "".join(f"{head:>{width}s}" for head, width in zip(heads, WIDTHS, strict=True)))

    def used() -> float:
        times = server.cpu_times()
        return times.user + times.system

    before = used()
    latencies, duration = await players.at_rate(options.rate, options.seconds)
    say(f"updates, {options.rate:g}/s asked for", latencies, duration, used() - before)
    before = used()
    latencies, duration = await players.flat_out(options.seconds / 2)
    say("updates, as fast as it goes", latencies, duration, used() - before)
    before, since = used(), time.perf_counter()
    latencies = await play_fights(port, 20)
    say("turns, 20 fights at once", latencies, time.perf_counter() - since, used() - before)
    return players


def len_of(replay: Replay) -> int:
    """Decisions of a fight."""
    return len(replay.boss)


def verify(folder: Path, players: Players, replays: list[Replay]) -> int:
    """Compare every learner on disk with a sequential replay; the number of updates, SystemExit when one is missing."""
    store = Store(folder)
    fights = trajectories(replays)
    total = 0
    for connection, sent in zip(players.connections, players.sent, strict=True):
        right = Learner(load_anchor())
        for fight in sent:
            right.update([fights[fight]])
        boss = store.find(connection.token).boss()
        if boss.fights != len(sent) or not np.array_equal(boss.mind.flat, right.mind.flat):
            raise SystemExit(f"LOST: a learner with {boss.fights} updates, {len(sent)} were answered, or other weights")
        total += len(sent)
    store.journal.close()
    return total


def main() -> None:
    """Measure, kill the server, verify."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=50)
    parser.add_argument("--rate", type=float, default=200.0, help="updates per second, over all players")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the rate is held")
    parser.add_argument("--data", type=Path, help="an empty folder on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        if (folder / "players").exists():
            raise SystemExit(f"{folder} holds players already; choose an empty folder")
        # Nobody sends a fight twice, at whatever rate.
        replays = make_replays(int(options.rate * options.seconds / options.players * 4) + options.players)
        server, port = start_server(folder)
        print(
            f"{platform.platform()}, Python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} cores"
        )
        try:
            players = asyncio.run(measure(options, port, psutil.Process(server.pid), replays))
        finally:
            server.kill()
            server.wait()
        since = time.perf_counter()
        total = verify(folder, players, replays)
    seconds = time.perf_counter() - since
    print(f"\nkilled with kill -9, read and compared in {seconds:.1f} s: all {total} updates are there, and every")
    print("learner's weights are to the last bit those of a sequential replay")


if __name__ == "__main__":
    main()

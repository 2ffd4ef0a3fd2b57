"""Players and their learners, kept in a folder.

What happens to a player is an *event*: created, fights learned from, reset, deleted. An event goes to the journal
(``journal``) first, and is applied to the learner in memory when it is on the disk; then the request is answered. Every
``checkpoint_every`` events, and when the server stops, each changed player is written as two files,

    players/KEY-NUMBER.json    the replays of the fights since the last reset (the newest ``MAX_HISTORY``)
    players/KEY-NUMBER.npz     the learner, by ``Learner.save``; none before the first fight

and older journals are deleted; when the server stops, those without events, too. KEY is the SHA-256 of the player's
token, NUMBER counts the player's events. A start reads the newest pair of every player and applies the journals' events
with higher numbers: the fights are played again and learned from in the same order, which gives the same weights to the
last bit.

The journals' head holds a fingerprint of rules, anchors and settings: journals of another version would give another
boss, and are refused. (Files of players are not: they hold weights, not how to get there.)

All methods belong to one event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from metapcg.personal.arena import RULES
from metapcg.personal.learner import Learner, LearnerSettings, Update
from metapcg.personal.trajectories import Trajectory
from metapcg.personal.weights_file import ANCHORS, anchor_path, load_anchor

from . import journal
from .matches import Match
from .replays import Replay, trajectories

MAX_HISTORY = 200
"""Fights per player that can be exported; older ones stay learned."""

RESULTS = ("boss", "player", "none")
"""Who won a fight."""

_FORMAT = "metapcg play 1"
_FILE = re.compile(r"([0-9a-f]{64})-([1-9][0-9]*)\.(json|npz)")
_LEFT = re.compile(rf"{_FILE.pattern}\.new|\.{_FILE.pattern}(\.new)?\..*\.tmp")
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class StoreError(ValueError):
    """A request that cannot be carried out; nothing has changed. One line."""


class Full(StoreError):
    """There are as many players as the server takes."""


@dataclass
class Player:
    """One player and the boss that learns from them.

    Attributes:
        key: SHA-256 of the token.
        anchor: what the boss starts from and is reset to, one of ``ANCHORS``.
        events: how many have happened; the newest one's number.
        learner: None before the first fight.
        history: fights since the last reset, with who won, oldest first.
        match: the fight in progress, or the last one.
        lock: held while the boss changes.
    """

    key: str
    anchor: str
    events: int = 0
    learner: Learner | None = None
    history: list[tuple[Replay, str]] = field(default_factory=list)
    match: Match | None = None
    deleted: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def boss(self) -> Learner:
        """The learner, made when there is none."""
        if self.learner is None:
            self.learner = Learner(load_anchor(self.anchor))
        return self.learner

    def knows(self, fight: str) -> bool:
        """Whether a fight has been learned from (among those kept)."""
        return any(replay.fight == fight for replay, _ in self.history)


def result_of(fight: Trajectory) -> str:
    """Who won: one of ``RESULTS``."""
    if fight.boss_died == fight.player_died:
        return "none"
    return "player" if fight.boss_died else "boss"


def fingerprint() -> str:
    """A digest of all that decides what a replayed fight does to a learner."""
    digest = hashlib.sha256(repr((RULES, LearnerSettings())).encode())
    for name in ANCHORS:
        digest.update(anchor_path(name).read_bytes())
    return digest.hexdigest()


class Store:
    """All players of a server.

    Args:
        folder: made when it is missing. One server at a time: it is locked.
        anchor: of new players, one of ``ANCHORS``.
        max_players: more are refused.
        checkpoint_every: events after which players are written and journals deleted.

    Raises:
        ValueError: another server uses the folder, or its files are damaged or of another version; says which.
        OSError: the folder cannot be read or written.
    """

    def __init__(
        self, folder: Path, anchor: str = ANCHORS[0], max_players: int = 1000, checkpoint_every: int = 1000
    ) -> None:
        load_anchor(anchor)
        self.anchor, self.max_players, self.checkpoint_every = anchor, max_players, checkpoint_every
        self.folder, self._files = folder, folder / "players"
        self._files.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FileLock(folder / "lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{folder}: another server uses this folder; stop it, or give --data FOLDER") from None
        self.players: dict[str, Player] = {}
        self._changed: set[str] = set()
        self._since_checkpoint = 0
        self._tasks: set[asyncio.Task] = set()
        self._checkpoint_task: asyncio.Task | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release)
            self._recover()
            self.journal = journal.Journal(folder, {"format": _FORMAT, "fingerprint": fingerprint()})
            undo.pop_all()  # opened: the lock is kept

    # --- who asks

    def find(self, token: str) -> Player | None:
        """The player with this token, or None."""
        return self.players.get(hashlib.sha256(token.encode()).hexdigest())

    async def create(self) -> str:
        """A new player's token.

        Raises:
            Full: too many players.
            OSError: the disk refuses.
        """
        if len(self.players) >= self.max_players:
            raise Full(f"this server has its {self.max_players} players; ask who runs it to raise --max-players")
        token = secrets.token_urlsafe(32)
        player = Player(hashlib.sha256(token.encode()).hexdigest(), self.anchor)
        self.players[player.key] = player
        try:
            await self._exclusively(player, lambda: self._happen(player, "create", anchor=self.anchor))
        except OSError:
            del self.players[player.key]
            raise
        return token

    # --- what changes a boss

    async def learn(self, player: Player, fights: Sequence[tuple[Replay, Trajectory]]) -> list[Update]:
        """Learn from fights, one update for each, in their order.

        Args:
            fights: checked (``replays.check_entry``).

        Returns:
            What each update did, when all of it is on the disk.

        Raises:
            StoreError: a fight that has been learned from before, or twice in the list.
            FloatingPointError: a step that would not be finite; the fights before it are learned.
            OSError: the disk refuses.
        """

        async def work() -> list[Update]:
            seen = {replay.fight for replay, _ in player.history}
            for replay, _ in fights:
                if replay.fight in seen:
                    raise StoreError(f"fight {replay.fight[:8]}… has been learned from already")
                seen.add(replay.fight)
            replays = [replay for replay, _ in fights]
            found = await self._happen(
                player, "learn", [fight for _, fight in fights], fights=[dataclasses.astuple(r) for r in replays]
            )
            if player.match is not None and player.match.replay.fight in seen:
                player.match = None
            return found

        return await self._exclusively(player, work)

    async def reset(self, player: Player) -> None:
        """The boss forgets all: back to the anchor. OSError: the disk refuses."""

        async def work() -> None:
            await self._happen(player, "reset", anchor=self.anchor)

        await self._exclusively(player, work)

    async def delete(self, player: Player) -> None:
        """Forget a player for good. OSError: the disk refuses."""

        async def work() -> None:
            await self._happen(player, "delete")

        await self._exclusively(player, work)

    # --- events

    async def _exclusively(self, player: Player, work: Callable[[], Awaitable[_T]]) -> _T:
        # One change of a player at a time, and whole: a request that is given up does not stop it half-way.
        async def alone() -> _T:
            async with player.lock:
                if player.deleted:
                    raise StoreError("this player has been deleted")
                return await work()

        task = asyncio.get_running_loop().create_task(alone())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _happen(
        self, player: Player, what: str, played: Sequence[Trajectory] = (), **details: object
    ) -> list[Update]:
        # Keep an event, then apply it; the player's lock is held.
        event = {"player": player.key, "number": player.events + 1, "what": what, **details}
        await asyncio.wrap_future(self.journal.append(event))
        updates = self._apply(player, event, played)
        self._since_checkpoint += 1
        if self._since_checkpoint >= self.checkpoint_every and self._checkpoint_task is None:
            self._checkpoint_task = asyncio.get_running_loop().create_task(self._checkpoint_meanwhile())
        if isinstance(updates, FloatingPointError):
            raise updates
        return updates

    def _apply(
        self, player: Player, event: dict[str, object], played: Sequence[Trajectory]
    ) -> list[Update] | FloatingPointError:
        # The same whether an event happens or is read from a journal.
        what = event["what"]
        player.events = event["number"]
        self._changed.add(player.key)
        if what == "delete":
            player.deleted, player.match = True, None
            del self.players[player.key]
        elif what in ("create", "reset"):
            player.anchor, player.learner, player.history = event["anchor"], None, []
            player.match = None
        elif what == "learn":
            updates = []
            for values, fight in zip(event["fights"], played, strict=True):
                try:
                    updates.append(player.boss().update([fight]))
                except FloatingPointError as error:
                    return error
                player.history.append((Replay(*values), result_of(fight)))
            del player.history[:-MAX_HISTORY]
            return updates
        else:
            raise ValueError(f"unknown event {what!r}")
        return []

    # --- files

    async def checkpoint(self) -> None:
        """Write the changed players and delete the journals whose events they hold.

        Raises:
            OSError: the disk refuses; the journals are kept.
        """
        try:
            self._since_checkpoint = 0
            old = await asyncio.wrap_future(self.journal.rotate())
            changed, self._changed = self._changed, set()
            fresh = []
            try:
                for key in sorted(changed):
                    if key in self.players:
                        fresh += self._write(self.players[key])
                    await asyncio.sleep(0)  # requests in between
                await asyncio.to_thread(self._settle, fresh, sorted(changed), old)
            except OSError:
                self._changed |= changed
                raise
        finally:
            self._checkpoint_task = None

    async def _checkpoint_meanwhile(self) -> None:
        try:
            await self.checkpoint()
        except OSError as error:
            _log.warning("the players could not be written, the journals are kept: %s", error)

    async def close(self) -> None:
        """Finish what is going on, write everything, unlock."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._checkpoint_task is not None:
            await asyncio.wait([self._checkpoint_task])
        try:
            if self._changed:
                await self.checkpoint()
        finally:
            self.journal.close()
            with contextlib.suppress(OSError):  # the next stop deletes them
                journal.drop_empty(self.folder)
            self._lock.release()

    def _write(self, player: Player) -> list[Path]:
        # Under temporary names, and not yet on the disk: that takes its time, and is done elsewhere.
        stem = self._files / f"{player.key}-{player.events}"
        about = {
            "format": _FORMAT,
            "anchor": player.anchor,
            "learner": player.learner is not None,
            "history": [[*dataclasses.astuple(replay), result] for replay, result in player.history],
        }
        paths = []
        if player.learner is not None:
            paths.append(stem.with_suffix(".npz.new"))
            player.learner.save(paths[0], durable=False)
        # The .json comes last into place: where it is, the .npz is too.
        paths.append(stem.with_suffix(".json.new"))
        with os.fdopen(os.open(paths[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(about, file)
        return paths

    def _settle(self, fresh: Sequence[Path], changed: Sequence[str], journals: Sequence[Path]) -> None:
        for path in fresh:
            handle = os.open(path, os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        for path in fresh:
            path.rename(path.with_suffix(""))
        journal.sync_folder(self._files)
        # Now the older files of these players are of no use; of a deleted one, all. The journals go last: without the
        # event that deleted a player, a file that is left would bring them back.
        new = {path.with_suffix("").name for path in fresh}
        for key in changed:
            # .json before .npz: a .json without its .npz would be a damaged player.
            for path in sorted(self._files.glob(f"{key}-*"), key=lambda path: path.suffix):
                if path.name not in new and (_FILE.fullmatch(path.name) or _LEFT.fullmatch(path.name)):
                    path.unlink()
        journal.sync_folder(self._files)
        for path in journals:
            path.unlink()

    def _recover(self) -> None:
        newest: dict[str, int] = {}
        strays = []
        for path in sorted(self._files.iterdir()):
            if _LEFT.fullmatch(path.name):
                path.unlink()  # a crash left it
            elif match := _FILE.fullmatch(path.name):
                key, number, suffix = match.groups()
                if suffix == "json":
                    newest[key] = max(newest.get(key, 0), int(number))
            elif path.suffix == ".json":
                strays.append(repr(path.name))
        if strays:
            _log.warning("%s: no player's file, left alone; move it elsewhere: %s", self._files, ", ".join(strays))
        for key, number in newest.items():
            self.players[key] = self._read(self._files / f"{key}-{number}.json", key, number)
        events = []
        for head, found in journal.read(self.folder):
            if found and head != {"format": _FORMAT, "fingerprint": fingerprint()}:
                raise ValueError(
                    f"{self.folder}: the journal is of another version of rules, anchors or settings; "
                    "start and stop that version once, which writes the players"
                )
            events += found
        gone = {event["player"] for event in events if event["what"] == "delete"}
        events = [event for event in events if event["player"] not in gone]
        for key in gone:
            self.players.pop(key, None)
            self._changed.add(key)  # so that the next checkpoint removes the files
        due, numbers = [], {key: player.events for key, player in self.players.items()}
        for event in events:
            key, number = event["player"], event["number"]
            if number <= numbers.get(key, 0):
                continue  # a checkpoint holds it
            if number != numbers.get(key, 0) + 1:
                raise ValueError(f"{self.folder}: events of player {key[:8]} are missing before number {number}")
            numbers[key] = number
            due.append(event)
        counts = [len(event.get("fights", ())) for event in due]
        # All fights are played again at once; that is much faster than one after the other.
        played = iter(trajectories([Replay(*values) for event in due for values in event.get("fights", ())]))
        for event, count in zip(due, counts, strict=True):
            player = self.players.setdefault(event["player"], Player(event["player"], self.anchor))
            self._apply(player, event, [next(played) for _ in range(count)])
        self.recovered = len(due)

    def _read(self, path: Path, key: str, number: int) -> Player:
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            if about["format"] != _FORMAT:
                raise ValueError(f"format {about['format']!r}, this version reads {_FORMAT!r}")
            learner = Learner.load(path.with_suffix(".npz")) if about["learner"] else None
            history = [(Replay(*values), result) for *values, result in about["history"]]
            return Player(key, about["anchor"], number, learner, history)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a player's file: {error}") from error

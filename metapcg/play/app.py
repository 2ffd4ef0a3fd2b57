"""The web application: which request may do what.

===================== ======================================================================= ====================
request               does                                                                    answers
===================== ======================================================================= ====================
GET /                 the page; its parts are under /static/
GET /rules            numbers and names that the page needs
POST /players         a new player                                                            ``{"token": …}``
DELETE /players       forgets the player for good
GET /boss             the player's boss: policy, counts, distance from the anchor
POST /reset           the boss forgets everything                                             as GET /boss
GET /fights           the fight in progress, ``null`` for none                                ``{"fight": …}``
POST /fights          begins a fight: ``{"tells": true}``; one that is going on is given up   ``matches.Match.view``
POST /fights/step     plays a turn: ``{"fight": …, "turn": 0, "action": "approach"}``         ``matches.Match.view``
POST /learn           the boss learns from a fight: an entry (``replays``)                    what changed
GET /export           the fights since the last reset                                         ``{"fights": [entry…]}``
POST /import          the boss learns from fights of an export, those it does not know        what changed
===================== ======================================================================= ====================

All but the first three need ``Authorization: Bearer TOKEN``. A request that is refused is answered with
``{"error": "one line that says why"}`` and changes nothing: 400 not JSON or not as above, 401 no or unknown token, 403
another origin, 408 a body that does not come, 409 not at this time, 413 too long, 415 another type, 421 another host,
422 no fight by the rules, 503 the disk refuses or the server is full.

``POST /learn`` believes nothing. A log has to be a whole fight by the rules, every number of it. One with the id of the
player's latest fight has to be the server's own record of that fight, too. No other log is compared with what was
played: the record goes when the player begins another fight or resets the boss, and when the server stops; and imports
are not compared at all. So a log can be made up, by the rules; it changes the boss of the player who sent it, and
nobody else's.

Host and Origin are checked (``Guard``), so that no page from elsewhere can send requests through a visitor's browser,
not even when its name is made to point here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from metapcg.personal.numpy_mind import NumpyMind
from metapcg.personal.situations import describe
from metapcg.personal.trajectories import MAX_BYTES, TrajectoryError
from metapcg.personal.weights_file import load_anchor

from .matches import Match, MatchError, rules_for_page
from .replays import check_entry, entries
from .store import MAX_HISTORY, Full, Player, Store, StoreError
from .words import ACTION_WORDS, SITUATION_WORDS, describe_change

STATIC = Path(__file__).with_name("static")

MAX_IMPORT_BYTES = MAX_HISTORY * 32 * 1024
"""Longest accepted import."""

BODY_SECONDS = 10.0
"""A body that takes longer is given up."""

MAX_IMPORT_VALUES = MAX_HISTORY * 1500
"""Most values in an import, by ``count_values``; a fight of ``RULES.max_steps`` steps has less than 1200. Nothing else
is served while JSON is read, not even when another thread reads it: ``json`` holds the interpreter's lock throughout.
Six million bytes can be two million lists, which would take seconds.
"""

SHOWN_RESULTS = 24
"""Fights whose results are told; all are counted."""

_SMALL = 4096  # bytes, of the other requests
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_HEADERS = {
    # Nothing from elsewhere, no inline script, in nobody's frame.
    "content-security-policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def make_app(store: Store, hosts: Sequence[str] = (), public: bool = False) -> Starlette:
    """The application.

    Args:
        store: opened; it is closed when the application shuts down.
        hosts: names that it may be called by, besides the loopback ones.
        public: whether it may be called by any address in figures (for a server that others reach).
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await store.close()

    routes = [
        Route("/", _page),
        Route("/rules", _rules),
        Route("/players", _create_player, methods=["POST"]),
        Route("/players", _delete_player, methods=["DELETE"]),
        Route("/boss", _boss),
        Route("/reset", _reset, methods=["POST"]),
        Route("/fights", _current_fight),
        Route("/fights", _begin_fight, methods=["POST"]),
        Route("/fights/step", _step, methods=["POST"]),
        Route("/learn", _learn, methods=["POST"]),
        Route("/export", _export),
        Route("/import", _import, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, hosts=hosts, public=public)],
        exception_handlers={
            HTTPException: _refused,
            TrajectoryError: _because(422),
            StoreError: _because(409),
            MatchError: _because(409),
            Full: _because(503),
            FloatingPointError: _because(422),
            OSError: _because(503),
            500: _failed,
        },
    )
    app.state.store = store
    return app


class Guard:
    """Refuses other hosts and other origins, and sets the headers of every answer.

    Args:
        app: what is guarded.
        hosts, public: see ``make_app``.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = (), public: bool = False) -> None:
        self._app, self._public = app, public
        self._hosts = {*_LOOPBACK, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope["method"])
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers, method: str) -> JSONResponse | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return _error(421, f"this server is not called {_short(host)}; add --allow-host NAME when it should be")
        if method in ("GET", "HEAD"):
            return None
        # Browsers send Origin with every such request; what is no browser has nobody's rights to misuse.
        origin = headers.get("origin")
        foreign = origin is not None and _host_of(origin) != host.lower()
        if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _error(403, f"requests from another origin are refused: {_short(origin or 'unnamed')}")
        return None

    def _is_ours(self, host: str) -> bool:
        # The name without the port: "[::1]:80", "localhost:80".
        name = (host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host).lower()
        if name in self._hosts:
            return True
        try:
            # An address cannot be made to point elsewhere, as a name can (DNS rebinding).
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self._public


# --- requests


async def _page(request: Request) -> FileResponse:
    return FileResponse(STATIC / "index.html")


async def _rules(request: Request) -> JSONResponse:
    store: Store = request.app.state.store
    about = {"actionWords": ACTION_WORDS, "situationWords": SITUATION_WORDS, "anchor": store.anchor}
    return JSONResponse({**rules_for_page(), **about})


async def _create_player(request: Request) -> JSONResponse:
    store: Store = request.app.state.store
    return JSONResponse({"token": await store.create()}, 201)


async def _delete_player(request: Request) -> JSONResponse:
    store, player = _player(request)
    await store.delete(player)
    return JSONResponse({"deleted": True})


async def _boss(request: Request) -> JSONResponse:
    return JSONResponse(_about(_player(request)[1]))


async def _reset(request: Request) -> JSONResponse:
    store, player = _player(request)
    await store.reset(player)
    return JSONResponse(_about(player))


async def _current_fight(request: Request) -> JSONResponse:
    match = _player(request)[1].match
    return JSONResponse({"fight": None if match is None else match.view()})


async def _begin_fight(request: Request) -> JSONResponse:
    store, player = _player(request)
    settings = await _object(request, ("tells",))
    if not isinstance(settings["tells"], bool):
        raise HTTPException(400, "tells: needs true or false")
    player.match = Match(player.boss(), settings["tells"])
    return JSONResponse(player.match.view(), 201)


async def _step(request: Request) -> JSONResponse:
    _, player = _player(request)
    step = await _object(request, ("fight", "turn", "action"))
    if player.match is None or player.match.replay.fight != step["fight"]:
        raise MatchError("this fight is not going on; begin another one")
    player.match.step(step["turn"], step["action"])
    return JSONResponse(player.match.view())


async def _learn(request: Request) -> JSONResponse:
    store, player = _player(request)
    replay, trajectory = check_entry(await _json(request, MAX_BYTES))
    match = player.match
    if match is not None and match.replay.fight == replay.fight and match.replay != replay:
        raise TrajectoryError("the log is not that of the fight that was played")
    return await _answer_after_learning(store, player, [(replay, trajectory)])


async def _export(request: Request) -> JSONResponse:
    _, player = _player(request)
    replays = [replay for replay, _ in player.history]
    fights = await asyncio.to_thread(entries, replays)
    headers = {"content-disposition": 'attachment; filename="fights.json"'}
    return JSONResponse({"format": "metapcg fights 1", "fights": fights}, headers=headers)


async def _import(request: Request) -> JSONResponse:
    store, player = _player(request)
    data = await _json(request, MAX_IMPORT_BYTES, MAX_IMPORT_VALUES)
    if not isinstance(data, dict) or data.keys() != {"format", "fights"} or data["format"] != "metapcg fights 1":
        raise HTTPException(400, "this is no export of fights")
    if not isinstance(data["fights"], list) or not 1 <= len(data["fights"]) <= MAX_HISTORY:
        raise HTTPException(400, f"fights: needs a list of 1 to {MAX_HISTORY}")
    checked = []
    for number, entry in enumerate(data["fights"]):
        try:
            replay, trajectory = check_entry(entry)
        except TrajectoryError as error:
            raise TrajectoryError(f"fights[{number}]: {error}") from error
        if not player.knows(replay.fight):
            checked.append((replay, trajectory))
        await asyncio.sleep(0)  # requests of others in between
    if not checked:
        raise StoreError("all of these fights have been learned from already")
    return await _answer_after_learning(store, player, checked)


async def _answer_after_learning(store: Store, player: Player, fights: list) -> JSONResponse:
    before = describe(player.boss().mind)
    updates = await store.learn(player, fights)
    about = _about(player)
    return JSONResponse(
        {
            "learned": len(updates),
            "update": dataclasses.asdict(updates[-1]),
            "sentence": describe_change(before, about["now"]),
            "before": before,
            **{name: value for name, value in about.items() if name != "anchor"},
        }
    )


# --- helpers


def _player(request: Request) -> tuple[Store, Player]:
    store: Store = request.app.state.store
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    player = store.find(token.strip()) if scheme.lower() == "bearer" else None
    if player is None:
        raise HTTPException(401, "no such player; begin as a new one", {"www-authenticate": "Bearer"})
    return store, player


def _about(player: Player) -> dict[str, object]:
    learner = player.boss()
    results = [{"result": result, "steps": len(replay.boss)} for replay, result in player.history[-SHOWN_RESULTS:]]
    return {
        "fights": learner.fights,
        "bossWins": learner.wins,
        "playerWins": learner.losses,
        "results": results,
        "distance": learner.distance(),
        "anchorName": player.anchor,
        "anchor": _anchor_policy(player.anchor),
        "now": describe(learner.mind),
    }


_anchor_policies: dict[str, dict[str, dict[str, float]]] = {}


def _anchor_policy(name: str) -> dict[str, dict[str, float]]:
    if name not in _anchor_policies:
        _anchor_policies[name] = describe(NumpyMind(load_anchor(name)))
    return _anchor_policies[name]


async def _object(request: Request, names: tuple[str, ...]) -> dict[str, object]:
    data = await _json(request, _SMALL)
    if not isinstance(data, dict) or data.keys() != set(names):
        raise HTTPException(400, f"needs an object with {', '.join(names)}")
    return data


async def _json(request: Request, limit: int, max_values: int | None = None) -> object:
    # Parsed here and not by Starlette: with limits, and without NaN and Infinity, which are not JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "needs the content type application/json")
    data = bytearray()
    ended = True
    try:
        await asyncio.wait_for(_read(request, data, limit), BODY_SECONDS)
    except (asyncio.TimeoutError, TimeoutError):
        ended = False
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    closing = None if ended else {"connection": "close"}  # the rest of the body may never come
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise HTTPException(413, f"too long: {length} bytes, at most {limit} are accepted", closing)
    if len(data) > limit:
        raise HTTPException(413, f"too long: more than {limit} bytes", closing)
    if not ended:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS:.0f} seconds", closing)
    if max_values is not None and count_values(data) > max_values:
        raise HTTPException(413, f"too long: more values than {MAX_HISTORY} fights have")
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, and nesting without end
        raise HTTPException(400, f"not JSON: {str(error).splitlines()[0]}") from None


async def _read(request: Request, data: bytearray, limit: int) -> None:
    # What is too long is read to its end and dropped: most clients send first and read then, and one that is still
    # sending when the connection is closed would see that and not the answer.
    async for part in request.stream():
        if len(data) <= limit:
            data += part


def count_values(data: bytes | bytearray) -> int:
    """No fewer than the values in a JSON text, but for one: those that follow a comma or stand first in a list."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _error(status: int, line: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(line.split())}, status, headers)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, error.headers)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    return _error(500, "a fault of the server; what it printed says which")


def _because(status: int):
    async def answer(request: Request, error: Exception) -> JSONResponse:
        return _error(status, str(error) or type(error).__name__)

    return answer


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # "http://[": no page has such an origin
        return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")

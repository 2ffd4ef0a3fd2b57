"""The command ``play``: starts the server and opens the page."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import socket
import sys
import webbrowser
from pathlib import Path

DEFAULT_PORT = 8017
MAX_CONNECTIONS = 1000
"""More get 503. Without a bound, visitors could use up the files that a process may open (often 1024)."""

KEEP_ALIVE_SECONDS = 5
"""A connection over which nothing comes is closed."""


def add_command(commands: argparse._SubParsersAction) -> None:
    """``play``: a person fights the boss in the browser."""
    text = "fight a boss that learns from you, in the browser"
    parser = commands.add_parser("play", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s, "
                        "this machine); on another one visitors can fill the server: no player expires")  # fmt: skip
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="0: any free one (default: %(default)s)")
    parser.add_argument("--anchor", default="meta-learned", help="the boss that new players meet: meta-learned, "
                        "multi-task or random (default: %(default)s)")  # fmt: skip
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="what the bosses have learned is kept there "
                        "(default: HW11_PLAY, else ~/.local/share/metapcg/play)")  # fmt: skip
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="another name that the "
                        "server is called by; may be repeated")  # fmt: skip
    parser.add_argument("--max-players", type=int, default=1000, metavar="N", help="default: %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ValueError: a setting, or the folder's files; says which.
        OSError: the port is taken, or the folder cannot be written.
    """
    # Before NumPy is imported: its matrices here are too small for threads.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ValueError(f"{error.name} is missing: pip install 'metapcg[play]'") from error

    from .app import make_app
    from .store import Store

    if options.max_players < 1:
        raise ValueError(f"--max-players: needs at least 1, got {options.max_players}")
    folder = data_folder(options.data)
    listener = _listen(options.host, options.port)
    with listener:
        store = Store(folder, options.anchor, options.max_players)
        port = listener.getsockname()[1]
        loopback = _is_loopback(options.host)
        name = f"[{options.host}]" if ":" in options.host else options.host
        if options.host in ("0.0.0.0", "::"):
            name = "localhost"
        address = f"http://{name}:{port}/"
        hosts = [*options.allow_host, *([] if loopback else [name])]
        app = make_app(store, hosts, public=not loopback)
        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
        print(f"what the bosses learn is kept in {folder}")
        if store.recovered:
            print(f"{store.recovered} event(s) after the last orderly stop were read from the journal")
        if not loopback:
            print("everybody who reaches this machine can play; what is sent is not encrypted")
            print(f"players never expire: visitors can fill the server, up to {options.max_players} players")
        print(f"play at  {address}    (Ctrl-C stops the server)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=5,
            )
        )
        server.run(sockets=[listener])
    return 0


def data_folder(asked: Path | None) -> Path:
    """Where bosses are kept: as ``--data`` asks, else by HW11_PLAY, else among the user's data; absolute."""
    home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "metapcg" / "play"
    folder = asked or Path(os.environ.get("HW11_PLAY") or home)
    # compile_and_run.sh changes the folder, and says from which one it was called.
    return Path(os.environ.get("HW11_CALLED_FROM", "."), folder.expanduser()).absolute()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or --host") from error
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _port(text: str) -> int:
    if not (text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"expected a port in 0 … 65535, got {text!r}")
    return int(text)

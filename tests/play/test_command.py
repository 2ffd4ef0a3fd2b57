"""How the command ``play`` sets the server up, and what it says."""

import argparse

import pytest
import uvicorn

from metapcg.play import command


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A function that runs the command without serving; the server's settings."""
    configs = []

    class Server:
        def __init__(self, config):
            configs.append(config)

        def run(self, sockets):
            pass

    monkeypatch.setattr(uvicorn, "Server", Server)
    parser = argparse.ArgumentParser()
    command.add_command(parser.add_subparsers())

    def start(*arguments):
        options = parser.parse_args(["play", "--no-browser", "--port", "0", "--data", str(tmp_path), *arguments])
        assert options.run(options) == 0
        return configs[-1]

    return start


def test_connections_are_bounded(started):
    config = started()
    assert config.limit_concurrency == 1000 and 0 < config.timeout_keep_alive <= 10


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_for_others_says_that_visitors_can_fill_it(started, capsys, host):
    started("--host", host, "--max-players", "7")
    said = capsys.readouterr().out
    assert ("7 players" in said and "never expire" in said) == (host == "0.0.0.0")

"""What the tests of the page share."""

import sys
from pathlib import Path

import pytest
from play_server import Server, make_entry

assert Path(__file__).parent in [Path(folder) for folder in sys.path]


@pytest.fixture
def server(tmp_path):
    """A server on a free port, in a thread of this process."""
    with Server(tmp_path / "data") as running:
        yield running


@pytest.fixture
def entry():
    """A whole fight as it is sent to /learn, fresh for every test."""
    return make_entry(3)

"""What the tests of the personal layer share."""

import pytest
from fights import play, random_weights


@pytest.fixture
def weights():
    """Weights in which nothing is zero or one."""
    return random_weights()


@pytest.fixture
def log():
    """A fight's log as plain values, fresh for every test."""
    return play(3).log()

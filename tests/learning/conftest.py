"""Shared by the tests of learning: the worked solutions, read from the notebooks' text sources."""

from pathlib import Path

import pytest
import torch

from metapcg.learning.solutions import load

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(scope="session")
def maml():
    """The worked functions of notebook 1."""
    return load(NOTEBOOKS / "1_maml.py")


@pytest.fixture(scope="session")
def rl2():
    """The worked functions of notebook 2."""
    return load(NOTEBOOKS / "2_rl2.py")


@pytest.fixture(scope="session")
def surrogates():
    """Name → the worked surrogate of notebook 0."""
    notebook = load(NOTEBOOKS / "0_policy_gradient.py")
    return {name: getattr(notebook, f"surrogate_{name}") for name in ("naive", "lvc", "dice")}


@pytest.fixture
def generator():
    """A seeded torch generator."""
    return torch.Generator().manual_seed(0)

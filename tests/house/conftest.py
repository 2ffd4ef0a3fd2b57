"""Small notebooks and a small repository that the house's tests build, break and run."""

import functools
import shutil
from pathlib import Path

import nbgrader.api
import pytest

from metapcg.experiments.outputs import write_atomically
from metapcg.grading.build import Build, build

ROOT = Path(__file__).resolve().parents[2]

EXERCISE = '''\
# %% [markdown] id="intro"
# # Sums

# %% id="imports"
import math

# %% id="double" kind="solution"
def double(x: float) -> float:
    """Twice x."""
    # TODO: one line.
    ### BEGIN SOLUTION
    return 2.0 * x
    ### END SOLUTION

# %% id="test-double" kind="tests" points=3
import sys
print("a warning", file=sys.stderr)
assert double(1.0) == 2.0, "was x added once only?"
### BEGIN HIDDEN TESTS
assert double(-21.0) == -42.0
### END HIDDEN TESTS

# %% id="area" kind="solution"
def area(radius: float) -> float:
    """Twice the area of a circle."""
    ### BEGIN SOLUTION
    return double(math.pi * radius**2)
    ### END SOLUTION

# %% id="test-area" kind="tests" points=2
assert area(1.0) == 2 * math.pi

# %% [markdown] id="q-why" kind="question" points=1
# Why?
# ### BEGIN SOLUTION
# Because of linearity.
# ### END SOLUTION
'''


@pytest.fixture(scope="session", autouse=True)
def gradebook_version_is_asked_once():
    """nbgrader starts a program to learn the newest gradebook version, for every new gradebook; once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbgrader.api, "get_alembic_version", functools.cache(nbgrader.api.get_alembic_version))
        yield


@pytest.fixture
def make_repository(tmp_path):
    """A function that lays out a repository with the given notebook sources and returns its folder.

    With ``built`` (what ``exercise_build`` gives) the worked notebooks and the starters are there as well.
    """

    def make(sources: dict[str, str] | None = None, built: Build | None = None) -> Path:
        root = tmp_path / "a repository"
        (root / "notebooks").mkdir(parents=True)
        for name in ("nbgrader_config.py", "pyproject.toml", "requirements.txt", "compile_and_run.sh"):
            shutil.copy(ROOT / name, root / name)
        for name, text in ({"0_sums": EXERCISE} if sources is None else sources).items():
            (root / "notebooks" / f"{name}.py").write_text(text, encoding="utf-8")
        if built is not None:
            for folder, files in (("answers", built.answers), ("base_code", built.starters), ("code", built.starters)):
                for name, data in files.items():
                    write_atomically(root / folder / "hw11" / name, data)
        return root

    return make


@pytest.fixture(scope="session")
def exercise_build(tmp_path_factory):
    """The exercise built once: ``answers`` and ``starters`` as bytes by file name."""
    root = tmp_path_factory.mktemp("exercise")
    (root / "notebooks").mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", root)
    (root / "notebooks" / "0_sums.py").write_text(EXERCISE, encoding="utf-8")
    return build(root)

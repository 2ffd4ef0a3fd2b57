"""A toy course of two notebooks that starts in a second: its ``emit`` needs no torch."""

import functools
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat
import nbgrader.api
import pytest
from sandbox_here import SANDBOX

from metapcg.experiments.outputs import write_atomically
from metapcg.grading.autograde import Key, expected_values, grade_submission
from metapcg.grading.build import build
from metapcg.grading.course import CourseNotebook, load_course

ROOT = Path(__file__).resolve().parents[2]

SUMS = '''\
# %% [markdown] id="intro"
# # Sums, the toy notebook of these tests, with a text that is long enough to be recognised

# %% id="imports"
import math

# %% id="setup"
from IPython.display import display

def emit(what, value, hint=""):
    display({"application/vnd.hw11.emitted+json": {"what": what, "hint": hint, "value": value}}, raw=True)

# %% id="double" kind="solution"
def double(x: float) -> float:
    """Twice x."""
    ### BEGIN SOLUTION
    return 2.0 * x
    ### END SOLUTION

# %% id="test-double" kind="tests" points=3
assert double(1.0) == 2.0, "was x added once only?"
### BEGIN HIDDEN TESTS
emit("double of a secret number", double(-21.5), "Negative numbers, too.")
emit("double of zero", double(0.0))
### END HIDDEN TESTS

# %% id="experiment"
raise RuntimeError("an experiment, which a grader does not execute")

# %% id="area" kind="solution"
def area(radius: float) -> float:
    """Area of a circle."""
    ### BEGIN SOLUTION
    return math.pi * radius**2
    ### END SOLUTION

# %% id="test-area" kind="tests" points=2
assert area(1.0) == math.pi
### BEGIN HIDDEN TESTS
emit("area of another circle", area(2.5), "The radius is squared.")
### END HIDDEN TESTS

# %% [markdown] id="q-why" kind="question" points=4
# ### Question 1 (4 points)
#
# Why?
# ### BEGIN SOLUTION
# Because of linearity.
# ### END SOLUTION
'''

WORDS = '''\
# %% id="imports"
import string

# %% id="setup"
from IPython.display import display

def emit(what, value, hint=""):
    display({"application/vnd.hw11.emitted+json": {"what": what, "hint": hint, "value": value}}, raw=True)

# %% id="shout" kind="solution"
def shout(word: str) -> str:
    """The word in capitals."""
    ### BEGIN SOLUTION
    return word.upper()
    ### END SOLUTION

# %% id="test-shout" kind="tests" points=1
assert shout("a") == "A"
### BEGIN HIDDEN TESTS
emit("another word in capitals", shout("secretword"))
### END HIDDEN TESTS
'''


@dataclass(frozen=True)
class Toy:
    """The toy course in a repository of its own."""

    root: Path
    course: dict[str, CourseNotebook]
    key: Key

    def worked(self, name: str = "0_sums") -> nbformat.NotebookNode:
        return nbformat.read(self.root / "answers/hw11" / f"{name}.ipynb", 4)

    def starter(self, name: str = "0_sums") -> nbformat.NotebookNode:
        return nbformat.read(self.root / "base_code/hw11" / f"{name}.ipynb", 4)

    def solved(self, name: str = "0_sums", **sources: str) -> nbformat.NotebookNode:
        """The starter with the worked solutions, or with other sources by cell id (underscores for dashes)."""
        notebook, worked = self.starter(name), {cell.id: cell for cell in self.worked(name).cells}
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = sources.get(cell.id.replace("-", "_"), worked[cell.id].source)
        return notebook

    def grade(self, notebook, name: str = "0_sums.ipynb", **options):
        """Grade one notebook (a notebook or bytes) and return what it came to."""
        data = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        course = {"0_sums": self.course["0_sums"]}
        return grade_submission({name: data}, course, self.key, sandbox=SANDBOX, **options)


@pytest.fixture(scope="session", autouse=True)
def gradebook_version_is_asked_once():
    """nbgrader starts a program to learn the newest gradebook version, for every new gradebook; once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbgrader.api, "get_alembic_version", functools.cache(nbgrader.api.get_alembic_version))
        patch.delenv("HW11_CLASS", raising=False)
        yield


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Toy:
    root = tmp_path_factory.mktemp("toy")
    (root / "notebooks").mkdir()
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / "notebooks/0_sums.py").write_text(SUMS, encoding="utf-8")
    (root / "notebooks/1_words.py").write_text(WORDS, encoding="utf-8")
    built = build(root)
    for folder, files in (("answers", built.answers), ("base_code", built.starters)):
        for name, data in files.items():
            write_atomically(root / folder / "hw11" / name, data)
    course = load_course(root)
    return Toy(root, course, expected_values(course, sandbox=SANDBOX))


@pytest.fixture
def threads():
    """An executor without the start-up of processes."""
    return lambda: ThreadPoolExecutor(2)

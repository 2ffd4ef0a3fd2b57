"""Notebook 2: right solutions pass their tests, and each well-known mistake fails the test of its own exercise.

They stand in ``tests/mutants``: every wrong one with words that the visible tests must say about it, or None where only
the hidden tests can tell it from a right one.
"""

import re
from pathlib import Path

import jupytext
import pytest

from metapcg.grading.emitted import compare
from metapcg.grading.mutants import mistakes_and_right
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "2_rl2.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "build-inputs",
    "gru-cell",
    "unroll",
    "trial-advantages",
    "clipped-policy-loss",
    "returns-by-episode",
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Cells by id, and the names that the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    sources = {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}
    names = {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), names)
    yield sources, names
    patch.undo()


def run_tests(notebook, exercise, solution, part):
    """Define ``solution`` and run the visible or the hidden tests of an exercise alone; return what they emitted.

    Other exercises stay undefined, and hidden tests see nothing that visible ones have made: a patched ``check`` gains
    nothing.
    """
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    source = HIDDEN.search(source)[0] if part == "hidden" else HIDDEN.sub("", source)
    with collect_emitted() as emitted:
        exec(compile(source, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(notebook):
    """What the worked solution of every exercise emits in its hidden tests."""
    return {exercise: run_tests(notebook, exercise, notebook[0][exercise], "hidden") for exercise in EXERCISES}


MISTAKES, RIGHT = mistakes_and_right(Path(__file__).parents[1] / "mutants" / SOURCE.name)


def test_every_exercise_has_tests_and_the_points_add_up_to_40():
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    assert [c.metadata["id"] for c in cells if c.metadata.get("kind") == "solution"] == list(EXERCISES)
    assert sum(c.metadata.get("points", 0) for c in cells) == 40
    assert {exercise for exercise, *_ in MISTAKES.values()} == set(EXERCISES)
    assert sum(c.metadata.get("kind") == "question" for c in cells) == 2


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_passes_alone(notebook, key, exercise):
    solution = notebook[0][exercise]
    assert run_tests(notebook, exercise, solution, "visible") == []
    assert compare(run_tests(notebook, exercise, solution, "hidden"), key[exercise]) == []
    assert len(key[exercise]) >= 4


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(notebook, key, name):
    exercise, solution = RIGHT[name]
    run_tests(notebook, exercise, solution, "visible")
    assert compare(run_tests(notebook, exercise, solution, "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_caught(notebook, key, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(notebook, exercise, solution, "visible")  # they cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(notebook, exercise, solution, "visible")
    try:
        emitted = run_tests(notebook, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, ValueError):
        return  # a cell that breaks off earns nothing
    assert compare(emitted, key[exercise])


def test_texts_of_hidden_tests_hold_no_numbers(key):
    for records in key.values():
        assert not [r for r in records if re.search(r"\d\.\d", r["what"] + r["hint"])]


def test_visible_tests_name_most_mistakes_of_every_exercise():
    for exercise in EXERCISES:
        messages = [message for name, _, message in MISTAKES.values() if name == exercise]
        assert sum(message is not None for message in messages) >= len(messages) / 2

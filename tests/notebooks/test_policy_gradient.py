"""Notebook 0: right solutions pass their tests, and each well-known mistake fails the test of its own exercise.

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

SOURCE = Path(__file__).parents[2] / "notebooks" / "0_policy_gradient.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)


def cells():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Cells by id, and the names that the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    sources, names = cells(), {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), names)
    yield sources, names
    patch.undo()


def run_tests(notebook, exercise, solution, hidden):
    """Define ``solution``, run an exercise's tests cells alone; return what they emitted."""
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    with collect_emitted() as emitted:
        for cell, source in sources.items():
            if re.fullmatch(rf"test-{exercise}(-truncated)?", cell):
                exec(compile(source if hidden else HIDDEN.sub("", source), cell, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(notebook):
    """What the worked solution of every exercise emits."""
    return {exercise: run_tests(notebook, exercise, notebook[0][exercise], hidden=True) for exercise in EXERCISES}


def hidden_alone(notebook, exercise, solution):
    """What the hidden tests emit when nothing visible has been run: a patched ``check`` gains nothing."""
    sources, names = notebook
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    with collect_emitted() as emitted:
        for cell, source in sources.items():
            if re.fullmatch(rf"test-{exercise}(-truncated)?", cell):
                exec(compile(HIDDEN.search(source)[0], cell, "exec"), namespace)
    return emitted


EXERCISES = (
    "discounted-returns",
    "gae",
    "surrogate-naive",
    "surrogate-lvc",
    "surrogate-dice",
    "expected-surrogate",
)


MISTAKES, RIGHT = mistakes_and_right(Path(__file__).parents[1] / "mutants" / SOURCE.name)


def test_every_exercise_has_tests_and_the_points_add_up_to_30():
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    assert [c.metadata["id"] for c in cells if c.metadata.get("kind") == "solution"] == list(EXERCISES)
    assert sum(c.metadata.get("points", 0) for c in cells) == 30
    assert {exercise for exercise, *_ in MISTAKES.values()} == set(EXERCISES)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_emits_the_same_without_the_visible_tests(notebook, key, exercise):
    assert key[exercise]
    assert compare(hidden_alone(notebook, exercise, notebook[0][exercise]), key[exercise]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(notebook, key, name):
    assert compare(run_tests(notebook, *RIGHT[name], hidden=True), key[RIGHT[name][0]]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(notebook, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(notebook, exercise, solution, hidden=False)  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(notebook, exercise, solution, hidden=False)


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(notebook, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = hidden_alone(notebook, exercise, solution)
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])


def test_visible_tests_name_most_mistakes_of_every_exercise():
    for exercise in EXERCISES:
        messages = [message for name, _, message in MISTAKES.values() if name == exercise]
        assert sum(message is not None for message in messages) >= len(messages) / 2

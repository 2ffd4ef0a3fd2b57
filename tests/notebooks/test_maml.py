"""Notebook 1: right solutions emit what the worked ones emit, each well-known mistake is caught by its own exercise.

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

SOURCE = Path(__file__).parents[2] / "notebooks" / "1_maml.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "inner-update",
    "inner-gradients",
    "adapt",
    "meta-loss-loop",
    "meta-loss",
    "expected-meta-objective",
)


@pytest.fixture(scope="module")
def sources():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def names(sources):
    """What the cells before the first exercise define, the worked solutions, and the helpers of visible tests."""
    namespace = {}
    for cell in ("imports", "setup", *EXERCISES):
        exec(compile(sources[cell], cell, "exec"), namespace)
    for cell in ("test-adapt", "test-meta-loss-loop"):
        exec(compile(HIDDEN.sub("", sources[cell]), cell, "exec"), namespace)
    return namespace


def run_tests(sources, names, exercise, solution, part):
    """Define ``solution`` and run its tests: ``visible``, ``hidden`` (alone) or ``all``. Returns what was emitted."""
    namespace = dict(names)
    # Functions look names up in the module they were made in: make them all anew, so that later exercises call these.
    for cell in EXERCISES:
        exec(compile(solution if cell == exercise else sources[cell], cell, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    text = {"visible": HIDDEN.sub("", source), "hidden": HIDDEN.search(source)[0], "all": source}[part]
    with collect_emitted() as emitted:
        exec(compile(text, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(sources, names):
    return {exercise: run_tests(sources, names, exercise, sources[exercise], "all") for exercise in EXERCISES}


MISTAKES, RIGHT = mistakes_and_right(Path(__file__).parents[1] / "mutants" / SOURCE.name)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_emits_the_same_without_the_visible_tests(sources, names, key, exercise):
    assert key[exercise]
    assert compare(run_tests(sources, names, exercise, sources[exercise], "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(sources, names, key, name):
    assert compare(run_tests(sources, names, *RIGHT[name], "all"), key[RIGHT[name][0]]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(sources, names, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(sources, names, exercise, solution, "visible")  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(sources, names, exercise, solution, "visible")


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(sources, names, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = run_tests(sources, names, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError, KeyError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])

"""Notebook 4: right solutions pass their tests, each well-known mistake fails the test of its own exercise, and the
cells that read runs do so with whatever is there.

Solutions stand in ``tests/mutants``: every wrong one with words that the visible tests must say about it, or None where
only the hidden tests can tell it from a right one.
"""

import importlib.util
import re
from pathlib import Path

import jupytext
import pytest

from metapcg.experiments import runs as runs_module
from metapcg.grading.emitted import compare
from metapcg.grading.mutants import mistakes_and_right
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "4_analysis.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = ("normalised-score", "bootstrap-means", "percentile-interval", "episodes-needed")


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
    """Define ``solution`` and run the visible or the hidden tests of an exercise alone; return what they emitted."""
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


def test_every_exercise_has_tests_and_the_points_add_up_to_25():
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    assert [c.metadata["id"] for c in cells if c.metadata.get("kind") == "solution"] == list(EXERCISES)
    assert sum(c.metadata.get("points", 0) for c in cells) == 25
    assert sum(c.metadata.get("points", 0) for c in cells if c.metadata.get("kind") == "question") == 15
    assert {exercise for exercise, *_ in MISTAKES.values()} == set(EXERCISES)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_passes_alone(notebook, key, exercise):
    assert run_tests(notebook, exercise, notebook[0][exercise], "visible") == []
    assert key[exercise]


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(notebook, key, name):
    exercise, solution = RIGHT[name]
    run_tests(notebook, exercise, solution, "visible")
    assert compare(run_tests(notebook, exercise, solution, "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(notebook, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(notebook, exercise, solution, "visible")  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(notebook, exercise, solution, "visible")


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(notebook, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = run_tests(notebook, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])


def test_visible_tests_name_most_mistakes_of_every_exercise():
    for exercise in EXERCISES:
        messages = [message for name, _, message in MISTAKES.values() if name == exercise]
        assert sum(message is not None for message in messages) >= len(messages) / 2


# ------------------------------------------------------------------------------------------------ cells that read runs


def made_up(root, algorithms):
    """Run folders with made-up returns of these algorithms, on both families, under smoke."""
    path = Path(__file__).parents[1] / "experiments" / "conftest.py"
    spec = importlib.util.spec_from_file_location("made_up_runs", path)
    experiments = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(experiments)
    paths = {name: str(SOURCE.parent / f"{name}.py") for name in set(experiments.NOTEBOOK_OF.values())}
    functions = experiments.NotebookFunctions(paths)
    for algorithm in algorithms:
        for family in ("direction", "weights") if algorithm in ("maml", "oracle", "random") else ("direction",):
            for seed in (0, 1):
                settings = runs_module.settings_for("smoke", algorithm, family=family, seed=seed)
                experiments.fake_run(root / "runs" / "smoke", settings, functions)


@pytest.mark.parametrize(
    "algorithms", [("oracle", "random"), ("maml",), ("maml", "rl2", "pretrained", "oracle", "random")]
)
def test_the_analysis_does_with_what_is_there(notebook, tmp_path, monkeypatch, capsys, algorithms):
    sources, _ = notebook
    monkeypatch.setenv("HW11_OUTPUT", str(tmp_path))
    monkeypatch.setenv("HW11_PROFILE", "smoke")
    made_up(tmp_path, algorithms)

    def cannot(settings, *_):
        raise ValueError("notebook defines no function 'adapt'")

    monkeypatch.setattr(runs_module, "execute_run", cannot)
    namespace = {}
    cells = jupytext.read(SOURCE, fmt="py:percent").cells
    for cell in cells:
        if cell.cell_type == "code" and cell.metadata.get("kind") != "tests":
            exec(compile(cell.source, cell.metadata["id"], "exec"), namespace)
    said = capsys.readouterr().out
    assert said.count("cannot be made (notebook defines no function 'adapt')") == len(namespace["wanted"]) - len(
        {(run.settings.family, run.settings.algorithm) for run in namespace["runs"]}
    )
    figures = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    methods = set(algorithms) - {"oracle", "random"}
    wanted = {"analysis_comparison", "analysis_splits", "analysis_gap", "analysis_cost", "analysis_families"}
    assert wanted <= figures if methods else not wanted & figures
    assert ("analysis_levels_maml" in figures) == ("maml" in algorithms)
    if len(algorithms) > 2:
        # The student's functions and the library's give the same numbers, but for the draws.
        lines = said.split("interpolation, last step")[1].split("episodes of a new task")[0].splitlines()[1:]
        lines = [line for line in lines if not line.startswith("Figure")]
        assert [line.split()[0] for line in lines] == ["MAML", "RL²", "pretrained", "oracle", "random"]
        for line in lines:
            ends = re.findall(r"\[ *(-?[\d.]+), +(-?[\d.]+)\]", line)
            mine, library = (tuple(map(float, interval)) for interval in ends)
            assert mine == pytest.approx(library, abs=0.25)
        assert re.search(r"^RL² +\d+ +\d+", said, re.M), "episodes needed by RL²"

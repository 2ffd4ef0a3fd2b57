"""The loader: which notebook a name means, what is executed, and what is said when something is missing."""

import inspect
import json
import math
import pickle

import pytest

from metapcg.learning.solutions import MissingFunctionError, SolutionError, UnfinishedError, load


@pytest.fixture
def folder(tmp_path, exercise_build, monkeypatch):
    """A folder with the worked notebook ``0_sums`` and the starter ``1_starter``; the current folder is another one."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/0_sums.ipynb").write_bytes(exercise_build.answers["0_sums.ipynb"])
    (tmp_path / "notebooks/1_starter.ipynb").write_bytes(exercise_build.starters["0_sums.ipynb"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HW11_NOTEBOOKS", raising=False)
    return tmp_path / "notebooks"


def edit(path, cell_id, function):
    """Rewrite one cell of a notebook with ``function(cell)``, a dict changed in place."""
    notebook = json.loads(path.read_text())
    (cell,) = (cell for cell in notebook["cells"] if cell.get("id") == cell_id)
    function(cell)
    path.write_text(json.dumps(notebook))


def test_worked_functions_run_and_call_each_other(folder):
    solutions = load(folder / "0_sums.ipynb").require("double", "area")
    assert solutions.names == ("double", "area")
    assert solutions.double(4.0) == 8.0
    assert solutions.area(1.0) == 2 * math.pi


def test_tests_and_other_cells_are_not_executed(folder, capsys):
    def forbid(cell):
        cell["source"] = ["raise SystemExit('executed')"]

    edit(folder / "0_sums.ipynb", "test-double", forbid)
    load(folder / "0_sums.ipynb")
    assert capsys.readouterr().err == ""


def test_source_script_gives_the_same_functions(make_repository):
    assert load(make_repository() / "notebooks/0_sums.py").require("double").area(1.0) == 2 * math.pi


def test_two_loads_do_not_share_names(folder):
    first = load(folder / "0_sums.ipynb")
    edit(folder / "0_sums.ipynb", "double", lambda cell: cell.update(source=["def double(x):\n    return 3 * x\n"]))
    second = load(folder / "0_sums.ipynb")
    assert (first.double(1.0), second.double(1.0)) == (2.0, 3.0)
    assert first.area(1.0) == 2 * math.pi


def test_bare_name_means_the_folder_that_the_variable_names_and_nowhere_else(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("HW11_NOTEBOOKS", str(folder))
    assert load("0_sums").path == folder / "0_sums.ipynb"
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HW11_NOTEBOOKS", str(tmp_path / "elsewhere"))
    with pytest.raises(SolutionError, match="there is no notebook 0_sums.ipynb in .*elsewhere.*HW11_NOTEBOOKS"):
        load("0_sums")


def test_bare_name_means_the_neighbour_of_the_notebook_that_runs(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert load("0_sums").path == folder / "0_sums.ipynb"


@pytest.mark.parametrize(("there", "found"), [(("answers", "code"), "answers"), (("code",), "code")])
def test_bare_name_means_the_worked_notebook_else_the_students(folder, monkeypatch, tmp_path, there, found):
    root = tmp_path / "root"
    for step in there:
        (root / step / "hw11").mkdir(parents=True)
        (root / step / "hw11/0_sums.ipynb").write_bytes((folder / "0_sums.ipynb").read_bytes())
    (root / "pyproject.toml").write_text("")
    monkeypatch.setattr("metapcg.__file__", str(root / "metapcg/__init__.py"))
    assert load("0_sums").path == root / found / "hw11/0_sums.ipynb"


def test_missing_path_and_missing_name_are_named(folder):
    with pytest.raises(SolutionError, match="there is no notebook .*9_none.ipynb"):
        load(folder / "9_none.ipynb")
    with pytest.raises(SolutionError, match=r"there is no notebook 9_none.ipynb in .*compile_and_run.sh compile"):
        load("9_none")


def test_missing_function_is_named_with_those_that_are_there(folder):
    solutions = load(folder / "0_sums.ipynb")
    with pytest.raises(MissingFunctionError, match=r"0_sums.ipynb defines no function 'half'; .* define: double, area"):
        solutions.require("double", "half")
    assert not hasattr(solutions, "half")


def test_name_that_is_no_function_is_refused(folder):
    edit(folder / "0_sums.ipynb", "double", lambda cell: cell.update(source=["double = 2"]))
    with pytest.raises(MissingFunctionError, match="'double' is not a function but int"):
        load(folder / "0_sums.ipynb").require("double")


def test_unwritten_function_is_refused_before_a_training_starts(folder):
    with pytest.raises(UnfinishedError, match="1_starter.ipynb: double is not written yet"):
        load(folder / "1_starter.ipynb").require("double")


def test_call_that_ends_in_an_unwritten_function_names_that_function(folder):
    def write_area(cell):
        cell["source"] = ["def area(radius):\n    return double(radius)\n"]

    edit(folder / "1_starter.ipynb", "area", write_area)
    solutions = load(folder / "1_starter.ipynb").require("area")
    with pytest.raises(UnfinishedError, match="1_starter.ipynb: double is not written yet") as caught:
        solutions.area(1.0)
    assert "notebook 0_sums, cell double" in str(caught.value.__cause__)


def test_other_not_implemented_errors_pass_through(folder):
    def refuse(cell):
        cell["source"] = ["def double(x):\n    raise NotImplementedError('complex numbers')\n"]

    edit(folder / "0_sums.ipynb", "double", refuse)
    with pytest.raises(NotImplementedError, match="complex numbers") as caught:
        load(folder / "0_sums.ipynb").require("double").double(1.0)
    assert not isinstance(caught.value, SolutionError)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def double(x)\n    return x\n", "cell double, line 1 cannot be run: SyntaxError"),
        ("double = undefined\n", "cell double cannot be run: NameError: name 'undefined' is not defined"),
        ("raise SystemError\n", "cell double cannot be run: SystemError: no message"),
    ],
)
def test_cell_that_cannot_be_run_is_named(folder, source, message):
    edit(folder / "0_sums.ipynb", "double", lambda cell: cell.update(source=[source]))
    with pytest.raises(SolutionError, match=message) as caught:
        load(folder / "0_sums.ipynb")
    assert len(str(caught.value).splitlines()) == 1


def test_magics_are_passed_over_and_operators_at_a_lines_start_are_not(folder):
    source = "%%time\n!ls\ndef double(x):\n    return x * 2\n"
    edit(folder / "0_sums.ipynb", "double", lambda cell: cell.update(source=[source]))
    assert load(folder / "0_sums.ipynb").double(3) == 6
    edit(folder / "0_sums.ipynb", "double", lambda cell: cell.update(source=["def double(x):\n    return (x\n % 4)\n"]))
    assert load(folder / "0_sums.ipynb").double(6) == 2


@pytest.mark.parametrize("text", ["", "{}", "[]", "<html>", '{"cells": [{"cell_type": "code"}]}', '{"cells": 3}'])
def test_file_that_is_no_notebook_is_named(folder, text):
    (folder / "0_sums.ipynb").write_text(text)
    with pytest.raises(SolutionError, match="0_sums.ipynb is not a notebook"):
        load(folder / "0_sums.ipynb")


def test_notebook_without_cell_ids_still_loads(folder):
    notebook = json.loads((folder / "0_sums.ipynb").read_text())
    for cell in notebook["cells"]:
        del cell["id"]
    (folder / "0_sums.ipynb").write_text("\ufeff" + json.dumps(notebook), encoding="utf-8")
    assert load(folder / "0_sums.ipynb").area(1.0) == 2 * math.pi


def test_notebook_without_its_nbgrader_metadata_is_named(folder):
    notebook = json.loads((folder / "0_sums.ipynb").read_text())
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    (folder / "0_sums.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(SolutionError, match="0_sums.ipynb has no solution cells"):
        load(folder / "0_sums.ipynb")


def test_signature_source_and_pickle_see_the_students_function(folder):
    solutions = load(folder / "0_sums.ipynb")
    assert str(inspect.signature(solutions.double)) == "(x: float) -> float"
    assert "return 2.0 * x" in inspect.getsource(solutions.double)
    assert pickle.loads(pickle.dumps(solutions.double))(2.0) == 4.0

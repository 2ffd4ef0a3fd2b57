"""The builder: same source, same bytes; starters without answers; faults named by file and cell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from metapcg.grading.build import BuildError, build_notebook, check_in_step, compile_notebooks

HEADER = '# %% id="imports"\nimport math\n\n'
SOLUTION = '# %% id="f" kind="solution"\ndef f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n\n'


def cells_of(data: bytes) -> dict[str, dict]:
    return {cell["id"]: cell for cell in json.loads(data)["cells"]}


def text_of(cell: dict) -> str:
    return "".join(cell["source"])


def test_same_source_gives_the_same_bytes_in_another_folder(make_repository, exercise_build):
    root = make_repository()
    compile_notebooks(root)
    assert (root / "answers/hw11/0_sums.ipynb").read_bytes() == exercise_build.answers["0_sums.ipynb"]
    assert (root / "base_code/hw11/0_sums.ipynb").read_bytes() == exercise_build.starters["0_sums.ipynb"]


def test_worked_notebook_carries_ids_points_and_no_outputs(exercise_build):
    cells = cells_of(exercise_build.answers["0_sums.ipynb"])
    assert list(cells) == ["intro", "imports", "double", "test-double", "area", "test-area", "q-why"]
    grading = {name: cell["metadata"]["nbgrader"] for name, cell in cells.items() if "nbgrader" in cell["metadata"]}
    assert {name: entry.get("points") for name, entry in grading.items()} == {
        "double": None,
        "test-double": 3,
        "area": None,
        "test-area": 2,
        "q-why": 1,
    }
    assert [grading["double"][key] for key in ("solution", "grade", "locked")] == [True, False, False]
    assert [grading["test-double"][key] for key in ("solution", "grade", "locked")] == [False, True, True]
    assert [grading["q-why"][key] for key in ("solution", "grade", "locked")] == [True, True, False]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells.values() if "outputs" in cell)


def test_starter_has_no_answer_no_hidden_test_and_a_stub_that_names_function_and_notebook(exercise_build):
    starter = exercise_build.starters["0_sums.ipynb"].decode()
    assert not any(secret in starter for secret in ("2.0 * x", "linearity", "-42.0", "HIDDEN"))
    cells = cells_of(exercise_build.starters["0_sums.ipynb"])
    stub = 'raise NotImplementedError("TODO double: write this function (notebook 0_sums, cell double)")'
    assert text_of(cells["double"]).splitlines()[-1] == "    " + stub
    assert "*Your answer here.*" in text_of(cells["q-why"])
    assert 'was x added once only?"' in text_of(cells["test-double"])
    assert cells["test-double"]["metadata"]["editable"] is False


def test_stock_nbgrader_makes_the_same_starters_and_copies_no_other_file(make_repository, exercise_build):
    root = make_repository()
    answers = root / "answers" / "hw11"
    answers.mkdir(parents=True)
    (answers / "0_sums.ipynb").write_bytes(exercise_build.answers["0_sums.ipynb"])
    (answers / "solutions.md").write_text("secret")
    (answers / "cache").mkdir()
    (answers / "cache" / "secret.py").write_text("secret = 1")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "hw11"],
        cwd=root,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
        timeout=120,
    )
    files = [path for path in (root / "base_code").rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["0_sums.ipynb"]
    assert files[0].read_bytes() == exercise_build.starters["0_sums.ipynb"]


def test_students_work_is_never_overwritten_and_a_second_compile_touches_nothing(make_repository):
    root = make_repository()
    before = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    first = compile_notebooks(root)
    assert [str(path) for path in first.copied] == ["code/hw11/0_sums.ipynb"]
    made = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert made == before | {f"{step}/hw11/0_sums.ipynb" for step in ("answers", "base_code", "code")}  # no gradebook
    student = root / "code/hw11/0_sums.ipynb"
    student.write_text("my work")
    times = {path: path.stat().st_mtime_ns for path in root.rglob("*.ipynb")}
    second = compile_notebooks(root)
    assert (second.written, second.copied) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.ipynb")} == times
    assert student.read_text() == "my work"


def test_a_students_copy_without_sources_gets_its_missing_notebooks(make_repository, exercise_build):
    root = make_repository({})
    starter = root / "base_code/hw11/0_sums.ipynb"
    starter.parent.mkdir(parents=True)
    starter.write_bytes(exercise_build.starters["0_sums.ipynb"])
    compile_notebooks(root)
    assert (root / "code/hw11/0_sums.ipynb").read_bytes() == starter.read_bytes()
    assert not (root / "answers").exists()


def test_a_folder_with_nothing_to_compile_is_an_error(make_repository):
    with pytest.raises(ValueError, match="there is nothing to compile"):
        compile_notebooks(make_repository({}))


def test_check_names_what_is_edited_missing_or_without_source_and_writes_nothing(make_repository, exercise_build):
    root = make_repository(built=exercise_build)
    found = check_in_step(root)
    assert (found.written, found.without_source) == ([], [])
    starter = root / "base_code/hw11/0_sums.ipynb"
    starter.write_bytes(starter.read_bytes().replace(b"one line", b"two lines"))
    (root / "answers/hw11/0_sums.ipynb").unlink()
    (root / "answers/hw11/9_old.ipynb").write_text("{}")
    found = check_in_step(root)
    assert [str(path) for path in found.written] == ["answers/hw11/0_sums.ipynb", "base_code/hw11/0_sums.ipynb"]
    assert [str(path) for path in found.without_source] == ["answers/hw11/9_old.ipynb"]
    assert b"two lines" in starter.read_bytes()


def test_a_faulty_source_leaves_earlier_notebooks_alone_and_all_faults_are_listed(make_repository, exercise_build):
    root = make_repository(built=exercise_build)
    before = {path: path.read_bytes() for path in root.rglob("*.ipynb")}
    (root / "notebooks/1_more.py").write_text(HEADER + '# %% id="x" kind="quiz"\nx = (\n')
    (root / "notebooks/2_more.py").write_text("# %%\nx = 1\n")
    with pytest.raises(BuildError) as caught:
        compile_notebooks(root)
    assert "1_more.py: cell x: unknown kind 'quiz'" in str(caught.value)
    assert "2_more.py: cell 1 has no id" in str(caught.value)
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} == before


FAULTS = {
    "id_used_twice": ('# %% id="a"\nx = 1\n\n# %% id="a"\nx = 2\n', "n.py: cell a: the id is used twice"),
    "id_missing": ("# %%\nx = 1\n", r"n.py: cell 1 has no id \(it begins: 'x = 1'\)"),
    "id_with_a_space": ('# %% id="a b"\nx = 1\n', "cell a b: an id is 1 to 64 letters"),
    "kind_unknown": (
        '# %% id="a" kind="solutions"\nx = 1\n',
        "cell a: unknown kind 'solutions'; known: solution, tests",
    ),
    "option_misspelt": ('# %% id="a" point=3\nx = 1\n', "cell a: unknown option 'point'; known: id, kind, points"),
    "tests_without_points": (SOLUTION + '# %% id="test-f" kind="tests"\nassert f()\n', "cell test-f: .* needs points"),
    "points_not_a_number": (
        SOLUTION + '# %% id="test-f" kind="tests" points="3"\nassert f()\n',
        "cell test-f: points must be a number from 0 up, got '3'",
    ),
    "points_on_given_code": ('# %% id="a" points=3\nx = 1\n', "cell a: only tests and questions have points"),
    "tests_without_their_solution": (
        SOLUTION + '# %% id="test-g" kind="tests" points=1\nassert f()\n',
        "cell test-g: no solution before it has that name",
    ),
    "tests_before_their_solution": (
        '# %% id="test-f" kind="tests" points=1\nassert f()\n\n' + SOLUTION,
        "cell test-f: no solution before it has that name",
    ),
    "solution_mark_not_closed": (SOLUTION.replace("    ### END SOLUTION\n", ""), "cell f: unbalanced marks"),
    "solution_mark_twice": (
        SOLUTION.replace("    return 1\n", "    ### BEGIN SOLUTION\n    return 1\n"),
        "cell f: unbalanced marks",
    ),
    "solution_mark_written_differently": (
        SOLUTION.replace("### END SOLUTION", "## END SOLUTION"),
        "cell f: a mark stands alone on its line",
    ),
    "solution_without_marks": ('# %% id="f" kind="solution"\ndef f():\n    return 1\n', "cell f: .* needs '### BEGIN"),
    "solution_marks_in_given_code": (SOLUTION.replace(' kind="solution"', ""), "cell f: .* belongs in cells of kind"),
    "hidden_tests_in_a_solution": (
        SOLUTION + "### BEGIN HIDDEN TESTS\nassert f()\n### END HIDDEN TESTS\n",
        "cell f: '### BEGIN HIDDEN TESTS' belongs in cells of kind tests only",
    ),
    "hidden_tests_not_at_the_end": (
        SOLUTION + '# %% id="test-f" kind="tests" points=1\n'
        "### BEGIN HIDDEN TESTS\nassert f()\n### END HIDDEN TESTS\nassert f()\n",
        "cell test-f: hidden tests stand in one block at the end",
    ),
    "question_in_a_code_cell": (
        '# %% id="q" kind="question" points=1\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n',
        "cell q: a cell of kind 'question' must be a markdown cell",
    ),
    "syntax_error": ('# %% id="a"\nx = 1\nif x\n    x = 2\n', "cell a: syntax error in line 2"),
    "no_cell_at_all": ("", "holds no cell"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_by_file_and_cell(tmp_path, name):
    source, message = FAULTS[name]
    (tmp_path / "n.py").write_text(source)
    with pytest.raises(BuildError, match=message) as caught:
        build_notebook(tmp_path / "n.py")
    assert all(line.startswith("n.py: ") for line in str(caught.value).splitlines())


def test_magics_and_second_tests_cells_are_accepted(tmp_path):
    (tmp_path / "n.py").write_text(
        '# %% id="imports"\n# %matplotlib inline\nimport math\n\n' + SOLUTION + "# %% id="
        '"test-f" kind="tests" points=1\nassert f()\n\n# %% id="test-f-shapes" kind="tests" points=0\nassert f()\n'
    )
    assert list(cells_of(build_notebook(tmp_path / "n.py"))) == ["imports", "f", "test-f", "test-f-shapes"]


def test_a_starter_that_its_stub_would_break_is_refused(make_repository):
    broken = '# %% id="f" kind="solution"\ndef f():\n### BEGIN SOLUTION\n    return 1\n### END SOLUTION\n'
    root = make_repository({"0_n": broken})
    with pytest.raises(BuildError, match="0_n.py: cell f: without its solution, syntax error"):
        compile_notebooks(root)


def test_what_nbgrader_refuses_is_said_in_one_line(make_repository):
    root = make_repository()
    with open(root / "nbgrader_config.py", "a") as file:
        file.write(
            "class Refuse(IncludeHeaderFooter):\n"
            "    def preprocess(self, notebook, resources):\n"
            "        raise RuntimeError('not this one')\n"
            "c.GenerateAssignment.preprocessors = [Refuse]\n"
        )
    with pytest.raises(BuildError, match="^nbgrader generate_assignment: RuntimeError: not this one$"):
        compile_notebooks(root)
    assert not list(root.rglob("*.ipynb"))

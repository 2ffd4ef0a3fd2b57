"""What a submission earns: right work all of it, wrong work none of its own exercise, tricks nothing."""

import json

import nbformat
import pytest
from sandbox_here import SANDBOX

from metapcg.grading.autograde import SubmissionGrade, expected_values, grade_submission, grade_submissions
from metapcg.grading.course import make_notebook, visible
from metapcg.grading.sandbox import Limits

ALL = {"double": 3.0, "area": 2.0}


def scores(grade):
    assert grade.error == ""
    return grade.scores["0_sums"]


def test_right_solutions_in_other_ways_earn_everything(toy):
    notebook = toy.solved(
        double="import sys\ndef double(y, *_):\n    print('verbose', file=sys.stderr)\n    return y + y"
    )
    notebook.cells.insert(5, nbformat.v4.new_code_cell("def square(x):\n    return x * x"))
    notebook.cells[
        7
    ].source = "import math, warnings\ndef area(r):\n    warnings.warn('careful')\n    return math.pi * square(r)"
    notebook.cells.insert(3, nbformat.v4.new_code_cell("1 / 0"))
    assert notebook.cells[8].id == "area"
    grade = toy.grade(notebook, "My solution (1).ipynb")
    assert scores(grade) == ALL and grade.status == "graded"
    # nbgrader must come to the same: neither stderr nor a number counts
    from nbgrader.utils import determine_grade

    cells = nbformat.reads(grade.notebooks["0_sums"].notebook, 4).cells
    got = {cell.id: determine_grade(cell)[0] for cell in cells if cell.id.startswith("test")}
    assert got == {"test-double": 3.0, "test-area": 2.0}


def test_starter_earns_nothing_and_says_what_to_write(toy):
    grade = toy.grade(toy.starter())
    assert scores(grade) == {"double": 0.0, "area": 0.0}
    (fault,) = grade.notebooks["0_sums"].results["test-double"].faults
    assert fault == "NotImplementedError: TODO double: write this function (notebook 0_sums, cell double)"


@pytest.mark.parametrize(
    ("solution", "fault"),
    [
        ("def double(x):\n    return x + 2", "was x added once only?"),
        ("def double(x):\n    return abs(2 * x)", "double of a secret number: wrong value. Negative numbers, too."),
        ("def double(x):\n    return 2 * x if x > 0 else 1 / 0",
         "double of a secret number: the function ended with ZeroDivisionError. Negative numbers, too."),
        ("def double(x):\n    if x < 0: raise ValueError(open(__file__).read())\n    return 2 * x", "NameError"),
    ],
)  # fmt: skip
def test_wrong_solution_loses_its_own_points_only_and_is_told_why(toy, solution, fault):
    grade = toy.grade(toy.solved(double=solution))
    assert scores(grade) == {"double": 0.0, "area": 2.0}
    (line,) = grade.notebooks["0_sums"].results["test-double"].faults
    assert fault in line
    assert "-21.5" not in json.dumps(grade.as_dict()["notebooks"]["0_sums"]["results"])


def test_solution_that_python_cannot_read_is_named_not_only_the_missing_name(toy):
    grade = toy.grade(toy.solved(double="def double(x)\n    return 2 * x"))
    faults = grade.notebooks["0_sums"].results["test-double"].faults
    assert faults[0] == "NameError: name 'double' is not defined"
    assert faults[1].startswith("Cell double, which these tests need, ended with SyntaxError: expected ':'")
    assert scores(grade) == {"double": 0.0, "area": 2.0}


TRICKS = {
    "emits what it likes": "def double(x):\n    emit('double of a secret number', 0.0)\n    return 2.0",
    "replaces emit": "emit = lambda *a: None\ndef double(x):\n    return 2.0",
    "an object that equals everything": "class Any(float):\n    def __eq__(self, other): return True\n"
    "    def __mul__(self, other): return self\ndef double(x):\n    return Any(2.0)",
    "takes assert away": "import ast\nclass T(ast.NodeTransformer):\n"
    "    def visit_Assert(self, node): return ast.Pass()\n"
    "get_ipython().ast_transformers.append(T())\ndef double(x):\n    return 1.0",
    "hides errors": "get_ipython().set_custom_exc((Exception,), lambda *a: None)\ndef double(x):\n    raise ValueError",
    "shows a number": "import atexit\ndef double(x):\n    get_ipython().displayhook(3.0)\n    return 2.0",
    "swallows cells": "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])\n"
    "def double(x):\n    return 1.0",
    "forges the reply": "def double(x):\n    import sys; sys.exit(0)",
}


@pytest.mark.parametrize("name", TRICKS)
def test_trick_gains_nothing(toy, name):
    grade = toy.grade(toy.solved(double=TRICKS[name], area="def area(r):\n    return 3.0"))
    assert scores(grade) == {"double": 0.0, "area": 0.0}


def test_nothing_shown_quotes_a_hidden_test_that_the_code_prints(toy):
    spy = """
def double(x):
    import sys, base64
    frame, found = sys._getframe(), []
    while frame:
        found.append(str(frame.f_locals.get("raw_cell", "")) + str(frame.f_locals.get("cell", "")))
        frame = frame.f_back
    everything = "".join(found) + str(get_ipython().user_ns.get("In"))
    print(everything)
    print(base64.b64encode(everything.encode()).decode(), file=sys.stderr)
    if x < 0:
        raise AssertionError(everything)
    return 2.0 * x
"""
    grade = toy.grade(toy.solved(double=spy))
    shown = []
    for cell in nbformat.reads(grade.notebooks["0_sums"].notebook, 4).cells:
        shown.append(json.dumps(cell.get("outputs", "")))
    shown = "".join(shown) + json.dumps([r.faults for r in grade.notebooks["0_sums"].results.values()])
    import base64

    for secret in ("-21.5", "area(2.5)", "HIDDEN"):
        assert secret not in shown
        for shift in range(3):
            part = base64.b64encode((" " * shift + secret).encode()).decode()[4:-4]
            assert len(part) < 4 or part not in shown
    assert "double(1.0)" in shown  # the spy does see and print the visible tests


def test_dead_kernel_takes_the_rest_and_nothing_before(toy):
    grade = toy.grade(toy.solved(area="import os\nos._exit(1)"))
    assert scores(grade) == {"double": 3.0, "area": 0.0}
    assert grade.status == "kernel died" and "the kernel died" in grade.notebooks["0_sums"].attention[0]
    grade = toy.grade(toy.solved(double="def double(x):\n    import os\n    if x < 0: os._exit(1)\n    return 2 * x"))
    assert scores(grade) == {"double": 0.0, "area": 0.0} and grade.status == "kernel died"


def test_endless_loop_costs_its_own_test_only(toy):
    notebook = toy.solved(double="def double(x):\n    while True: pass")
    grade = toy.grade(notebook, limits=Limits(cell_seconds=1.0))
    assert scores(grade) == {"double": 0.0, "area": 2.0}
    assert grade.status == "out of time"
    assert "Is there an endless loop" in grade.notebooks["0_sums"].results["test-double"].faults[0]


def test_only_the_exercises_asked_for_count(toy):
    grade = toy.grade(toy.solved(double="def double(x):\n    return 7"), exercises=["area"])
    assert scores(grade) == {"area": 2.0}


def test_unreadable_and_missing_notebooks_leave_the_others_alone(toy):
    files = {"0_sums.ipynb": b"<html>", "Words!.ipynb": nbformat.writes(toy.solved("1_words")).encode(), "x.ipynb": b""}
    grade = grade_submission(files, toy.course, toy.key, sandbox=SANDBOX)
    assert grade.scores == {"0_sums": {"double": 0.0, "area": 0.0}, "1_words": {"shout": 1.0}}
    assert grade.notebooks["0_sums"].status == "unreadable" and grade.status == "unreadable"
    assert "web page" in grade.notebooks["0_sums"].attention[0] and "x.ipynb cannot be read" in grade.attention[0]
    assert SubmissionGrade.from_dict(json.loads(json.dumps(grade.as_dict()))) == grade
    assert grade_submission({}, toy.course, toy.key, sandbox=SANDBOX).status == "empty"


def test_many_submissions_in_threads_and_one_on_which_the_grader_fails(toy, threads, monkeypatch):
    words = {"1_words": toy.course["1_words"]}
    good = nbformat.writes(toy.solved("1_words")).encode()
    seen = []
    grades = grade_submissions(
        {"a": {"1_words.ipynb": good}, "b": {"1_words.ipynb": None}, "c": {}},
        words,
        key=toy.key,
        make_executor=threads,
        sandbox=SANDBOX,
        on_graded=lambda name, grade: seen.append(name),
    )
    assert list(grades) == ["a", "b", "c"] and sorted(seen) == ["a", "b", "c"]
    assert grades["a"].scores == {"1_words": {"shout": 1.0}}
    assert grades["b"].status == "not graded" and grades["b"].error and grades["b"].attention
    assert grades["c"].status == "empty"


def test_key_is_kept_and_made_anew_when_the_notebook_changes(toy, tmp_path, monkeypatch):
    file = tmp_path / "key.json"
    words = toy.course["1_words"]
    known = {"1_words": {"digest": words.digest, "cells": {"test-shout": [{"what": "kept"}]}}}
    file.write_text(json.dumps(known))
    assert expected_values({"1_words": words}, file)["1_words"] == {"test-shout": [{"what": "kept"}]}
    known["1_words"]["digest"] = "another"
    file.write_text(json.dumps(known))
    key = expected_values({"1_words": words}, file, sandbox=SANDBOX)
    assert key["1_words"]["test-shout"][0]["value"] == "SECRETWORD"
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("return word.upper()", "return word", "the worked solution fails its own tests, cell test-shout"),
        ('emit("another word in capitals", shout("secretword"))', "pass", "emit nothing"),
    ],
)
def test_worked_notebook_that_cannot_be_a_key_is_refused(toy, old, new, reason):
    worked = (toy.root / "answers/hw11/1_words.ipynb").read_text().replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    notebook = make_notebook("1_words", worked.encode(), (toy.root / "base_code/hw11/1_words.ipynb").read_bytes())
    with pytest.raises(ValueError, match=reason):
        expected_values({"1_words": notebook}, sandbox=SANDBOX)


def test_first_cell_that_fails_of_a_worked_notebook_is_named(toy):
    worked = (toy.root / "answers/hw11/1_words.ipynb").read_text().replace("import string", "import no_such_module")
    worked = worked.replace("def emit(", 'import no_such_module\\n",\n    "def emit(')
    notebook = make_notebook("1_words", worked.encode(), (toy.root / "base_code/hw11/1_words.ipynb").read_bytes())
    with pytest.raises(
        ValueError, match="cell test-shout: NameError.*its first fault is in cell imports: ModuleNotFound"
    ):
        expected_values({"1_words": notebook}, sandbox=SANDBOX)


def test_notebooks_that_are_not_graded_now_are_no_strangers(toy):
    words = {"1_words": toy.course["1_words"]}
    files = {"0_sums.ipynb": nbformat.writes(toy.solved()).encode(), "2.ipynb": b'{"cells": [{"source": "1"}]}'}
    grade = grade_submission(files, words, toy.key, sandbox=SANDBOX, whole=toy.course)
    assert grade.attention == ["2.ipynb: it is none of the course's notebooks"] and list(grade.scores) == ["1_words"]
    grade = grade_submission({"0_sums.ipynb": b"<html>"}, words, toy.key, sandbox=SANDBOX, whole=toy.course)
    assert grade.attention == []


def test_visible_part_of_a_cell_is_the_released_cell(toy):
    for notebook in toy.course.values():
        released = {cell.id: cell.source for cell in notebook.released.cells}
        for cell, source in notebook.test_sources.items():
            assert visible(source) == released[cell].rstrip("\n")

"""A bonus notebook: its points come on top of the course's, and who leaves it out loses nothing."""

import csv
import io
import shutil
from datetime import datetime

import nbformat
import pytest
from sandbox_here import SANDBOX

from metapcg.experiments.outputs import write_atomically
from metapcg.grading import classroom, papers
from metapcg.grading.autograde import expected_values, grade_submission
from metapcg.grading.build import BuildError, build, build_notebook
from metapcg.grading.command import run_check
from metapcg.grading.course import course_points, load_course
from metapcg.grading.feedback import Row, student_page, summary_page
from metapcg.grading.gradebook import Mark

INTRO = '# %% [markdown] id="intro" bonus=true\n# # Words, for who wants more\n\n'


@pytest.fixture(scope="module")
def root(tmp_path_factory, toy):
    root = tmp_path_factory.mktemp("bonus")
    shutil.copytree(toy.root / "notebooks", root / "notebooks")
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(toy.root / name, root)
    words = (toy.root / "notebooks/1_words.py").read_text(encoding="utf-8")
    (root / "notebooks/1_words.py").write_text(INTRO + words, encoding="utf-8")
    built = build(root)
    for folder, files in (("answers", built.answers), ("base_code", built.starters)):
        for name, data in files.items():
            write_atomically(root / folder / "hw11" / name, data)
    return root


@pytest.fixture(scope="module")
def course(root):
    return load_course(root)


@pytest.fixture(scope="module")
def key(course):
    return expected_values(course, sandbox=SANDBOX)


def handed_in(course, *names):
    return {f"{name}.ipynb": nbformat.writes(course[name].worked).encode() for name in names}


def row(grade):
    marks = {
        name: {cell: Mark(result.score, result.points, False, "") for cell, result in entry.results.items()}
        for name, entry in grade.notebooks.items()
    }
    return Row("anna", grade, marks, grade.status, "", [], f"{datetime(2026, 1, 1):%Y-%m-%d}", "anna.zip")


def first_line(rows, course):
    return next(csv.DictReader(io.StringIO(classroom.grades_csv(rows, course))))


def test_the_starter_and_the_worked_notebook_carry_the_mark(course):
    assert {name: notebook.bonus for name, notebook in course.items()} == {"0_sums": False, "1_words": True}
    assert course["1_words"].released.metadata["hw11"] == {"bonus": True}
    assert (course_points(course), course_points(course, bonus=True)) == (9.0, 1.0)


@pytest.mark.parametrize("header", ['id="other" bonus=true', 'id="other" bonus="yes"'])
def test_the_mark_belongs_to_the_first_cell(tmp_path, toy, header):
    path = tmp_path / "1_words.py"
    words = (toy.root / "notebooks/1_words.py").read_text(encoding="utf-8")
    path.write_text(f"{words}\n# %% {header}\nx = 1\n", encoding="utf-8")
    with pytest.raises(BuildError, match="cell other: bonus=true is said of a whole notebook"):
        build_notebook(path)


def test_who_leaves_it_out_is_graded_completely(course, key):
    grade = grade_submission(handed_in(course, "0_sums"), course, key, sandbox=SANDBOX)
    assert (grade.status, grade.notebooks["1_words"].status) == ("graded", "no bonus")
    line = first_line([row(grade)], course)
    assert (line["total"], line["points"], line["bonus"], line["status"]) == ("5", "9", "0", "graded")
    page = student_page(row(grade), course)
    assert "5 of 9 points" in page and "bonus)</h2><p>Not handed in, which costs nothing." in page


def test_its_points_come_on_top(course, key):
    grade = grade_submission(handed_in(course, "0_sums", "1_words"), course, key, sandbox=SANDBOX)
    assert grade.status == "graded"
    line = first_line([row(grade)], course)
    assert (line["total"], line["points"], line["bonus"], line["1_words"]) == ("6", "9", "1", "1")
    assert "6 of 9 points</b> (1 of them bonus)" in student_page(row(grade), course)
    assert "median 6 of 9 and up to 1 as a bonus" in summary_page([row(grade)], course)


def test_alone_it_does_not_stand_for_the_others(course, key):
    assert grade_submission(handed_in(course, "1_words"), course, key, sandbox=SANDBOX).status == "incomplete"
    assert grade_submission({}, course, key, sandbox=SANDBOX).status == "empty"


def test_a_bonus_that_cannot_be_read_is_said(course, key):
    files = {**handed_in(course, "0_sums"), "1_words.ipynb": b"{"}
    assert grade_submission(files, course, key, sandbox=SANDBOX).status == "unreadable"


def test_check_goes_on_to_submit_when_only_the_bonus_is_open(root, course, tmp_path, monkeypatch, capsys):
    shutil.copytree(root / "base_code", tmp_path / "base_code")
    shutil.copytree(root / "answers/hw11", tmp_path / "code/hw11")
    shutil.copy(root / "base_code/hw11/1_words.ipynb", tmp_path / "code/hw11/1_words.ipynb")
    monkeypatch.setattr("metapcg.grading.command.repository_root", lambda: tmp_path)

    class Options:
        only = ()

    assert run_check(Options()) == 0
    text = capsys.readouterr().out
    assert "1_words (bonus)" in text and "TODO         shout" in text and "next: ./compile_and_run.sh submit" in text
    (tmp_path / "code/hw11/1_words.ipynb").unlink()
    assert run_check(Options()) == 0 and "1_words" not in capsys.readouterr().out


def test_papers_add_it_to_no_total(root):
    source = {
        "questions": {"title": "Q", "introduction": ""},
        "discussion": {"title": "B", "introduction": "", "questions": []},
        "further": {"title": "F", "text": ""},
        "rubric": {"title": "R", "introduction": "", "manual": "", "parts": {}},
    }
    notebooks = papers.read_notebooks(root)
    questions, rubric = papers.questions_markdown(notebooks, source), papers.rubric_markdown(notebooks, source)
    assert "| **Total** |  |  |  | **9** |\n| Words, for who wants more | `1_words.ipynb` | 1 | 0 | +1 |" in questions
    assert "## Words, for who wants more (1 point, a bonus)" in questions
    assert "| **Total** | **5** | **4** | **9** |\n| Words, for who wants more | +1 | 0 | +1 |" in rubric

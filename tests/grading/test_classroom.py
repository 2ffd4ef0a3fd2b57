"""A class's folder: grades, pages, what is graded again and what is kept, whatever is killed, locked or full."""

import csv
import errno
import json
import os
import shutil
import sqlite3
import time
from datetime import datetime, timedelta

import distributed
import nbformat
import pytest
from nbgrader.api import Gradebook
from sandbox_here import SANDBOX

from metapcg.experiments.execution import dask_executor
from metapcg.grading import autograde, classroom, gradebook
from metapcg.grading.autograde import SubmissionGrade
from metapcg.grading.classroom import grade_class

SHOWS_HTML = """from IPython.display import HTML, display
def double(x):
    display(HTML('<script>1</script>'))
    return 2 * x"""
ON_STDERR = """import sys
def area(r):
    sys.stderr.write('a warning')
    return 3.0 if r == 2.5 else 3.141592653589793"""


def put(folder, name, *notebooks):
    """A submission folder with notebooks by name."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file, notebook in notebooks:
        data = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        (folder / name / file).write_bytes(data)


@pytest.fixture
def handed_in(tmp_path, toy):
    """Four students: all right with spaces and unicode, half right, an empty folder, no notebook."""
    folder = tmp_path / "handed in"
    both = [("0_sums.ipynb", toy.solved()), ("1_words.ipynb", toy.solved("1_words"))]
    put(folder, "Ánna Müller_1_assignsubmission_file_", *both)
    put(
        folder,
        "bob",
        ("0_sums.ipynb", toy.solved(double="def double(x):\n    return x + 2", q_why=toy.starter().cells[-1].source)),
    )
    put(folder, "=cmd")
    put(folder, "dora", ("0_sums.ipynb", b"<html>"))
    return folder


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, toy):
    """A class's folder with key and gradebook, which every grading would otherwise begin with."""
    folder = tmp_path_factory.mktemp("prepared")
    entries = {name: {"digest": book.digest, "cells": toy.key[name]} for name, book in toy.course.items()}
    (folder / "key.json").write_text(json.dumps(entries))
    gradebook.prepare(toy.root, folder, toy.course, classroom.course_version(toy.course))
    return folder


@pytest.fixture(scope="session")
def graded_before():
    return {}


@pytest.fixture
def grade(tmp_path, toy, threads, handed_in, prepared, graded_before, monkeypatch):
    """A function that grades ``handed_in``; returns the summary.

    What another test has had executed already comes from memory, unless ``anew``.
    """
    shutil.copytree(prepared, tmp_path / "class")
    execute = autograde._job

    def remembered(folder, *others):
        paths = sorted(folder.rglob("*.ipynb")) if folder else []
        key = tuple(path.read_bytes() for path in paths)
        if key not in graded_before:
            graded_before[key] = execute(folder, *others).as_dict()
        return SubmissionGrade.from_dict(json.loads(json.dumps(graded_before[key])))

    def call(anew=False, **options):
        monkeypatch.setattr(autograde, "_job", execute if anew else remembered)
        options = {"make_executor": threads, "sandbox": SANDBOX, **options}
        return grade_class(handed_in, tmp_path / "class", toy.root, toy.course, **options)

    return call


def table(tmp_path):
    with open(tmp_path / "class/grades.csv", encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_grades_pages_and_gradebook_of_a_class(tmp_path, toy, grade, handed_in):
    for path in handed_in.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    due = datetime.fromtimestamp(1_700_000_000) + timedelta(hours=1)
    os.utime(handed_in / "bob/0_sums.ipynb", (1_700_007_200, 1_700_007_200))
    summary = grade(due=due)
    assert (summary.graded, summary.unchanged) == (4, 0)
    rows = table(tmp_path)
    anna, bob = rows["Ánna Müller"], rows["bob"]
    assert (anna["total"], anna["points"], anna["0_sums"], anna["1_words"]) == ("6", "10", "5", "1")
    assert (anna["0_sums/double"], anna["0_sums/area"], anna["0_sums/q-why"]) == ("3", "2", "0")
    assert (anna["status"], anna["late"], anna["needs human"]) == (
        "graded",
        "no",
        "1 answer to be marked in formgrader",
    )
    assert (bob["total"], bob["0_sums/double"], bob["status"], bob["late"]) == ("2", "0", "incomplete", "yes")
    assert bob["needs human"] == ""
    (changed,) = set(rows) - {"Ánna Müller", "bob", "dora"}
    assert changed.startswith("_cmd~") and rows[changed]["status"] == "empty"
    assert rows["dora"]["status"] == "unreadable" and "web page" in rows["dora"]["needs human"]
    page = (tmp_path / "class/feedback/bob.html").read_text(encoding="utf-8")
    assert "was x added once only?" in page and "2 of 10 points" in page and "late" in page
    assert "http" not in page.replace("http-equiv", "") and "secret" not in page and "21.5" not in page
    overview = (tmp_path / "class/summary.html").read_text(encoding="utf-8")
    assert "4 submissions" in overview and "Ánna Müller" in overview
    with Gradebook(gradebook.gradebook_url(tmp_path / "class"), "hw11") as book:
        assert {s.student.id: s.score for s in book.assignment_submissions("hw11")}["Ánna Müller"] == 6


def test_only_what_changed_is_graded_again_and_a_persons_marks_stay(tmp_path, toy, grade, handed_in, monkeypatch):
    grade()
    with Gradebook(gradebook.gradebook_url(tmp_path / "class"), "hw11") as book:
        mark = book.find_grade("q-why", "0_sums", "hw11", "Ánna Müller")
        mark.manual_score, mark.needs_manual_grade = 3.5, False
        book.find_comment("q-why", "0_sums", "hw11", "Ánna Müller").manual_comment = "Nearly <b>!"
        book.db.commit()
    put(handed_in, "bob", ("0_sums.ipynb", toy.solved()))
    summary = grade()
    assert (summary.graded, summary.unchanged) == (1, 3)
    rows = table(tmp_path)
    assert rows["bob"]["0_sums"] == "5"
    assert (rows["Ánna Müller"]["total"], rows["Ánna Müller"]["needs human"]) == ("9.5", "")
    page = (tmp_path / "class/feedback/Ánna Müller.html").read_text(encoding="utf-8")
    assert "Nearly &lt;b&gt;!" in page and "3.5 / 4" in page
    assert grade().graded == 0


def test_the_later_of_two_submissions_counts_and_the_earlier_is_kept(tmp_path, toy, grade, handed_in):
    put(handed_in, "bob_7_assignsubmission_file_", ("0_sums.ipynb", toy.solved()))
    os.utime(handed_in / "bob/0_sums.ipynb", (1_700_000_000, 1_700_000_000))
    grade()
    row = table(tmp_path)["bob"]
    assert row["0_sums"] == "5" and row["source"] == "bob_7_assignsubmission_file_"
    assert "2 submissions, the latest counts" in row["needs human"]
    assert len(list((tmp_path / "class/received/bob").glob("*/*/0_sums.ipynb"))) == 2
    assert "earlier submission not counted: bob of 2023" in (tmp_path / "class/feedback/bob.html").read_text()


def test_interrupted_run_goes_on_where_it_stopped(tmp_path, grade, monkeypatch):
    record, recorded = gradebook.record, []

    def killed_at_the_second(folder, student, *others):
        if len(recorded) == 1:
            raise KeyboardInterrupt
        recorded.append(student)
        record(folder, student, *others)

    monkeypatch.setattr(gradebook, "record", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        grade()
    done = {path.stem: json.loads(path.read_text())["recorded"] for path in (tmp_path / "class/results").glob("*.json")}
    assert sorted(done.values()) == [False, True]
    recorded.clear()
    monkeypatch.setattr(
        gradebook,
        "record",
        lambda folder, student, *others: (recorded.append(student), record(folder, student, *others)),
    )
    summary = grade()
    assert (summary.graded, summary.unchanged) == (2, 2)
    assert len(recorded) == 3  # two graded now, and the one that was graded and not yet in the gradebook
    assert table(tmp_path)["Ánna Müller"]["total"] == "6"


@pytest.mark.parametrize("error", [ValueError("no such thing"), KeyError("cells"), TypeError("a list")])
def test_an_unforeseen_error_with_one_student_is_that_students(tmp_path, grade, monkeypatch, error):
    record = gradebook.record

    def fails(folder, student, *others):
        if student == "bob":
            raise error
        record(folder, student, *others)

    monkeypatch.setattr(gradebook, "record", fails)
    summary = grade()
    rows = table(tmp_path)
    assert rows["bob"]["status"] == "not graded" and type(error).__name__ in rows["bob"]["needs human"]
    assert (rows["Ánna Müller"]["total"], rows["Ánna Müller"]["status"]) == ("6", "graded")
    assert [row.student for row in summary.rows if row.grade.error] == ["bob"]
    assert "could not be graded yet" in (tmp_path / "class/feedback/bob.html").read_text(encoding="utf-8")
    monkeypatch.setattr(gradebook, "record", record)
    assert grade().graded == 1 and table(tmp_path)["bob"]["total"] == "2"


def test_a_page_that_cannot_be_made_is_flagged_and_the_others_are(tmp_path, grade, monkeypatch):
    page = classroom.student_page

    def fails(row, course):
        if row.student == "bob":
            raise KeyError("cells")
        return page(row, course)

    monkeypatch.setattr(classroom, "student_page", fails)
    grade()
    assert "there is no feedback page (KeyError: 'cells')" in table(tmp_path)["bob"]["needs human"]
    assert (tmp_path / "class/feedback/dora.html").is_file() and not (tmp_path / "class/feedback/bob.html").exists()


def test_damaged_gradebook_is_one_line(tmp_path, grade):
    grade()
    (tmp_path / "class/gradebook.db").write_bytes(b"no database " * 1000)
    shutil.rmtree(tmp_path / "class/results")
    with pytest.raises(OSError, match="gradebook.db is damaged .*: move it away and run this again") as error:
        grade()
    assert "\n" not in str(error.value)


def test_who_was_late_stays_late_when_the_date_is_not_given_again(tmp_path, grade, handed_in):
    for path in handed_in.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    grade(due=datetime.fromtimestamp(1_699_990_000))
    assert table(tmp_path)["bob"]["late"] == "yes"
    grade()
    assert table(tmp_path)["bob"]["late"] == "yes"
    grade(due=datetime.fromtimestamp(1_700_990_000))
    grade()
    assert table(tmp_path)["bob"]["late"] == "no"
    grade(due=None)
    grade()
    assert table(tmp_path)["bob"]["late"] == ""


def test_reason_of_a_damaged_zip_stands_in_the_feedback(tmp_path, grade, handed_in):
    (handed_in / "eve.zip").write_bytes(b"no zip")
    grade()
    assert "a damaged zip" in table(tmp_path)["eve"]["needs human"]
    assert "a damaged zip" in (tmp_path / "class/feedback/eve.html").read_text(encoding="utf-8")


def test_folder_without_any_submission_is_one_line(tmp_path, toy, threads, prepared):
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "in/notes.txt").write_text("x")
    with pytest.raises(ValueError, match="holds no submissions: in none of its 3 entries"):
        grade_class(tmp_path / "in", tmp_path / "class", toy.root, toy.course, make_executor=threads, sandbox=SANDBOX)
    assert not (tmp_path / "class/grades.csv").exists()


def test_damaged_result_is_graded_again(tmp_path, grade):
    grade()
    (tmp_path / "class/results/bob.json").write_text('{"digest": "x"')
    assert grade().graded == 1


def test_locked_gradebook_is_one_line_and_nothing_is_lost(tmp_path, grade, monkeypatch):
    grade()
    shutil.rmtree(tmp_path / "class/results")
    url = gradebook.gradebook_url
    monkeypatch.setattr(gradebook, "gradebook_url", lambda folder, seconds=0: url(folder, 0))
    connection = sqlite3.connect(tmp_path / "class/gradebook.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(
        OSError, match="gradebook.db is locked by another process .* run this again; grades that were"
    ) as error:
        grade()
    assert "\n" not in str(error.value)
    connection.execute("ROLLBACK")
    connection.close()
    kept = len(list((tmp_path / "class/results").glob("*.json")))
    assert kept >= 1 and grade().graded == 4 - kept


def test_full_disk_is_one_line_and_what_was_written_is_kept(tmp_path, grade, monkeypatch):
    write, count = classroom.write_atomically, []

    def full(path, data):
        if path.parent.name == "results":
            count.append(path)
            if len(count) > 2:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, data)

    monkeypatch.setattr(classroom, "write_atomically", full)
    with pytest.raises(OSError, match="the disk is full .* make room and run the same command again"):
        grade()
    monkeypatch.setattr(classroom, "write_atomically", write)
    assert grade().graded == 3


def test_grading_one_notebook_leaves_the_marks_of_the_others(tmp_path, toy, grade, threads, handed_in):
    grade()
    part = {"1_words": toy.course["1_words"]}
    options = {"whole": toy.course, "make_executor": threads, "sandbox": SANDBOX}
    assert grade_class(handed_in, tmp_path / "class", toy.root, part, **options).graded == 4
    assert table(tmp_path)["Ánna Müller"]["total"] == "1"
    assert table(tmp_path)["Ánna Müller"]["needs human"] == ""
    assert "none of the course" not in (tmp_path / "class/feedback/Ánna Müller.html").read_text(encoding="utf-8")
    assert (tmp_path / "class/submitted/Ánna Müller/hw11/0_sums.ipynb").is_file()
    with Gradebook(gradebook.gradebook_url(tmp_path / "class"), "hw11") as book:
        assert book.find_submission("hw11", "Ánna Müller").score == 6


def test_a_changed_course_is_entered_anew_and_marks_stay_unless_graded_cells_are_gone(tmp_path, toy, grade):
    grade()
    folder = tmp_path / "class"
    gradebook.prepare(toy.root, folder, toy.course, "another version")
    assert gradebook.marks(folder, "Ánna Müller", toy.course)["0_sums"]["test-double"].score == 3
    with pytest.raises(ValueError, match="nbgrader generate_assignment"):
        gradebook.prepare(toy.root, folder, {"1_words": toy.course["1_words"]}, "a third")
    assert gradebook.marks(folder, "Ánna Müller", toy.course)["0_sums"]["test-double"].score == 3


def test_two_gradings_of_one_class_do_not_meet(tmp_path, grade):
    with classroom._alone(tmp_path), pytest.raises(OSError, match="another grading is running"):
        with classroom._alone(tmp_path):
            pass


def test_folders_inside_one_another_are_refused(toy, handed_in, threads):
    for inside in (handed_in, handed_in / "class"):
        with pytest.raises(ValueError, match="must not lie inside one another"):
            grade_class(handed_in, inside, toy.root, toy.course, make_executor=threads, sandbox=SANDBOX)


def test_html_of_a_student_is_text_to_the_grader(tmp_path, toy, grade, handed_in):
    answer = "### Question 1 (4 points)\n\n<img src=x onerror=alert(1)> $a<b$ [x](javascript:alert(1))"
    notebook = toy.solved(
        q_why=answer,
        double=SHOWS_HTML,
    )
    put(handed_in, "bob", ("0_sums.ipynb", notebook))
    grade()
    text = (tmp_path / "class/autograded/bob/hw11/0_sums.ipynb").read_text(encoding="utf-8")
    assert (
        "<img" not in text
        and "<script>" not in text.replace("HTML('<script>1</script>')", "")
        and "javascript:" not in text
    )
    page = (tmp_path / "class/feedback/bob.html").read_text(encoding="utf-8")
    assert "<script" not in page and "<img" not in page


def test_stock_nbgrader_autograde_comes_to_the_same(tmp_path, toy, prepared, monkeypatch):
    """``nbgrader autograde`` with nbgrader_config.py: sandbox, hidden tests compared outside, stderr ignored."""
    from nbgrader.converters import Autograde, GenerateFeedback
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    from metapcg.grading import preprocessors

    monkeypatch.setenv("HW11_CLASS", str(tmp_path / "class"))
    monkeypatch.setattr(
        preprocessors, "_course_notebook", lambda resources: toy.course[resources["nbgrader"]["notebook"]]
    )
    put(
        tmp_path / "class/submitted/eve",
        "hw11",
        (
            "0_sums.ipynb",
            toy.solved(area=ON_STDERR),
        ),
    )
    for path in prepared.iterdir():
        shutil.copy(path, tmp_path / "class")
    settings = Config(PyFileConfigLoader("nbgrader_config.py", path=str(toy.root)).load_config())
    settings.CourseDirectory.assignment_id = "hw11"
    settings.ExecuteSafely.sandbox = SANDBOX
    course = CourseDirectory(config=settings)
    Autograde(coursedir=course, config=settings).start()
    with Gradebook(gradebook.gradebook_url(tmp_path / "class"), "hw11") as book:
        assert {g.name: g.auto_score for g in book.find_submission_notebook("0_sums", "hw11", "eve").grades} == {
            "test-double": 3.0,
            "test-area": 0.0,
            "q-why": None,
        }
    GenerateFeedback(coursedir=course, config=settings).start()
    page = (tmp_path / "class/feedback/eve/hw11/0_sums.html").read_text(encoding="utf-8")
    assert "HIDDEN" not in page and "21.5" not in page and "The radius is squared" in page


def test_a_dask_cluster_grades_the_same(tmp_path, toy, grade):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        grade(anew=True, make_executor=lambda: dask_executor(cluster.scheduler_address))
    assert (table(tmp_path)["Ánna Müller"]["total"], table(tmp_path)["bob"]["total"]) == ("6", "2")


def test_time_of_a_zip_is_its_own(tmp_path, toy):
    from metapcg.grading.submissions import read_entry

    put(tmp_path, "s", ("a.ipynb", b"1"))
    os.utime(tmp_path / "s/a.ipynb", (1_700_000_000, 1_700_000_000))
    assert read_entry(tmp_path / "s", "s").time == datetime.fromtimestamp(1_700_000_000)
    assert abs(time.time() - read_entry(tmp_path / "s/a.ipynb", "s").time.timestamp()) > 1e6

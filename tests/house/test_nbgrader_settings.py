"""nbgrader with this repository's settings: what it says of a right, an unwritten and a wrong notebook."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def validate(make_repository, data: bytes) -> str:
    """Put a notebook where a student has it, call ``nbgrader validate`` and return what it says."""
    root = make_repository()
    (root / "code/hw11").mkdir(parents=True)
    (root / "code/hw11/0_sums.ipynb").write_bytes(data)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        [sys.executable, "-m", "nbgrader", "validate", "code/hw11/0_sums.ipynb"],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout


def test_right_notebook_gets_full_marks_though_a_test_writes_to_stderr(make_repository, exercise_build):
    data = exercise_build.answers["0_sums.ipynb"]
    assert b"file=sys.stderr" in data
    assert validate(make_repository, data) == "Success! Your notebook passes all the tests.\n"


@pytest.mark.parametrize(("answer", "message"), [(None, "TODO double: write this function"), ("x + 1.5", "added once")])
def test_unwritten_and_wrong_notebooks_are_told_what_is_the_matter(make_repository, exercise_build, answer, message):
    data = exercise_build.starters["0_sums.ipynb"].decode()
    if answer is not None:
        stub = next(line for line in data.splitlines() if "TODO double: write" in line)
        data = data.replace(stub, json.dumps(f"    return {answer}"))
    said = validate(make_repository, data.encode())
    assert "VALIDATION FAILED ON" in said and message in said


def test_settings_may_be_executed_twice_and_a_class_folder_moves_everything_but_the_assignment(monkeypatch, tmp_path):
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    monkeypatch.delenv("HW11_CLASS", raising=False)
    loader = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT))
    once = Config(loader.load_config())
    assert Config(loader.load_config()) == once
    assert (once.CourseDirectory.submitted_directory, once.CourseDirectory.student_id) == ("code", ".")
    monkeypatch.setenv("HW11_CLASS", str(tmp_path / "class"))
    course = Config(loader.load_config()).CourseDirectory
    assert course.submitted_directory == str(tmp_path / "class/submitted")
    assert course.db_url == f"sqlite:///{tmp_path}/class/gradebook.db"
    assert "student_id" not in course and course.release_directory == "base_code"

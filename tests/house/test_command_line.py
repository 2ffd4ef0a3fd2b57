"""python -m metapcg: exit statuses, one-line errors, and what goes where."""

import subprocess
import sys
from pathlib import Path

import pytest

import metapcg.__main__ as command_line


@pytest.fixture
def repository(make_repository, exercise_build, monkeypatch):
    """A built repository that the package believes to lie in."""
    root = make_repository(built=exercise_build)
    monkeypatch.setattr("metapcg.__file__", str(root / "metapcg/__init__.py"))
    for name in ("HW11_OUTPUT", "HW11_PROFILE", "HW11_DEVICE", "HW11_NOTEBOOKS", "HW11_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    return root


def test_help_needs_no_heavy_imports():
    program = (
        "import sys, metapcg.__main__ as m\n"
        "try:\n    m.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'nbgrader', 'nbclient', 'numba'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("program", [None, "./compile_and_run.sh"])
def test_usage_names_the_command_that_was_called(monkeypatch, capsys, program):
    monkeypatch.delenv("HW11_PROGRAM", raising=False)
    if program:
        monkeypatch.setenv("HW11_PROGRAM", program)
    with pytest.raises(SystemExit):
        command_line.main(["submit", "--help"])
    assert capsys.readouterr().out.startswith(f"usage: {program or '.venv/bin/python -m metapcg'} submit ")


def test_compile_check_fails_until_compile_has_written(repository, capsys):
    for step in ("answers", "code"):
        (repository / step / "hw11/0_sums.ipynb").unlink()
    assert command_line.main(["compile", "--check"]) == 1
    printed = capsys.readouterr()
    assert "out of step with its source: answers/hw11/0_sums.ipynb" in printed.out
    assert printed.err == "error: run './compile_and_run.sh compile' and commit what it writes\n"
    assert command_line.main(["compile"]) == 0
    assert "copied from its starter: code/hw11/0_sums.ipynb" in capsys.readouterr().out
    assert command_line.main(["compile", "--check"]) == 0
    assert capsys.readouterr().out == "notebooks and papers are up to date\n"


def test_every_fault_of_a_source_is_one_error_line(repository, capsys):
    (repository / "notebooks/0_sums.py").write_text("# %%\nx = 1\n\n# %% id='a' kind='b'\nx = 1\n")
    assert command_line.main(["compile"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2 and all(line.startswith("error: 0_sums.py: cell ") for line in errors)


def test_worked_notebooks_report_into_reports_and_the_students_into_reports_code(repository, capfd):
    assert command_line.main(["run", "--profile", "smoke", "--device", "cpu"]) == 0
    assert (repository / "reports/notebooks/0_sums.html").is_file()
    assert "running 1 notebook(s) of answers/hw11, profile smoke, device cpu" in capfd.readouterr().out
    assert command_line.main(["run", "--notebooks", "code", "--profile", "smoke", "--device", "cpu"]) == 1
    printed = capfd.readouterr()
    assert "FAILED in cell 4/5 (test-double): NotImplementedError: TODO double" in printed.out.replace("3/5", "4/5")
    assert printed.err.splitlines()[-1] == "error: 1 notebook(s) failed (0_sums); 0 other(s) ran"
    assert str(repository / "reports/code/notebooks") in printed.out
    assert (repository / "reports/code/notebooks/0_sums.failed.html").is_file()


def test_a_copy_without_answers_runs_the_students_notebooks(repository, capfd):
    (repository / "answers/hw11/0_sums.ipynb").unlink()
    command_line.main(["run", "--profile", "smoke", "--device", "cpu"])
    assert "running 1 notebook(s) of code/hw11" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "pearl"], "--only: no notebook's name holds 'pearl'; there are 0_sums"),
        (["--profile", "fast"], "profile: unknown value 'fast'; choose one of smoke, quick, full"),
        (["--device", "gpu"], "device: unknown value 'gpu'; choose one of auto, cpu, cuda"),
        (["--cell-timeout", "0"], "--cell-timeout: expected seconds above 0, got 0"),
        (["--notebooks", "code"], "there are no notebooks in"),
        (["--output", "/dev/null/x"], "Not a directory"),
    ],
)
def test_mistakes_are_one_line_and_run_nothing(repository, capsys, arguments, message):
    (repository / "code/hw11/0_sums.ipynb").unlink()
    assert command_line.main(["run", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and len(error.splitlines()) == 1 and message in error
    assert not (repository / "reports").exists()


def test_cuda_that_is_not_there_is_refused_before_anything_runs(repository, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert command_line.main(["run", "--device", "cuda"]) == 1
    assert "error: device: cuda was asked for, but torch sees no CUDA device" in capsys.readouterr().err


def test_errors_show_where_they_were_raised_when_asked(repository, monkeypatch):
    monkeypatch.setenv("HW11_TRACEBACK", "1")
    with pytest.raises(ValueError, match="profile: unknown value"):
        command_line.main(["run", "--profile", "fast"])


def test_module_is_run_from_another_folder(tmp_path):
    ended = subprocess.run([sys.executable, "-m", "metapcg", "bake"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2 and "invalid choice: 'bake'" in ended.stderr
    assert not list(Path(tmp_path).iterdir())

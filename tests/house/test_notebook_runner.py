"""Headless execution: a failure names its cell, stops nothing else and replaces nothing good."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from metapcg.experiments import execute
from metapcg.experiments.execute import Progress, find_notebooks, run_notebooks


def write_notebook(path: Path, *cells: tuple[str, str]) -> Path:
    """A notebook of code cells given as (id, source)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in cells])
    nbformat.write(notebook, path)
    return path


def run(paths, output, **options):
    """Run notebooks; return results and what was printed."""
    stream = io.StringIO()
    options = {"profile": "smoke", "device": "cpu", **options}
    results = run_notebooks(paths, output, stream=stream, **options)
    return results, stream.getvalue()


SAVE = "from metapcg.experiments.outputs import save_table\nsave_table([{'a': %d}], 'numbers')"


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_failing_notebook_keeps_the_old_results_and_the_others_still_run(tmp_path):
    output = tmp_path / "reports"
    first = write_notebook(tmp_path / "n/0_first.ipynb", ("save", SAVE % 1), ("show", "print('good' + ' run')"))
    other = write_notebook(tmp_path / "n/1_other.ipynb", ("show", "print('other' + ' run')"))
    (good, _), text = run([first, other], output)
    assert good.status == "ok" and "[1/2] 0_first: done, 2 cells" in text
    old = (output / "notebooks/0_first.html").read_bytes()
    assert b"good run" in old and b'"HW11' not in old

    write_notebook(first, ("save", SAVE % 2), ("inner-update", "print('bad' + ' run')\nraise KeyError('w1\\nmore')"))
    (output / "notebooks/1_other.html").unlink()
    (failed, fine), text = run([first, other], output)
    assert (failed.status, failed.cell, failed.error, failed.done) == (
        "failed",
        "inner-update",
        r"KeyError: 'w1\nmore'",
        1,
    )
    assert fine.status == "ok" and b"other run" in (output / "notebooks/1_other.html").read_bytes()
    assert r"[1/2] 0_first: FAILED in cell 2/2 (inner-update): KeyError: 'w1\nmore'" in text
    assert "out of date now, from" in text and failed.kept == "0_first.html"
    assert (output / "notebooks/0_first.html").read_bytes() == old
    assert (output / "tables/numbers.csv").read_text() == "a\n1\n"
    assert b"bad run" in (output / "notebooks/0_first.failed.html").read_bytes()

    write_notebook(first, ("save", SAVE % 3))
    run([first], output)
    assert files_in(output) == {"notebooks/0_first.html", "notebooks/1_other.html", "run.json", "tables/numbers.csv"}
    assert (output / "tables/numbers.csv").read_text() == "a\n3\n"
    record = {entry["name"]: entry for entry in json.loads((output / "run.json").read_text())["notebooks"]}
    assert list(record) == ["0_first", "1_other"] and record["0_first"]["status"] == "ok"


def test_notebook_runs_in_its_own_folder_with_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    source = (
        "import os, sys\nfrom pathlib import Path\n"
        "assert Path.cwd() == Path(os.environ['HW11_NOTEBOOKS']), Path.cwd()\n"
        "assert (os.environ['HW11_PROFILE'], os.environ['HW11_DEVICE']) == ('smoke', 'cpu')\n"
        f"assert sys.executable == {sys.executable!r}, sys.executable\n"
        "import matplotlib\nassert 'inline' in matplotlib.get_backend()"
    )
    path = write_notebook(tmp_path / "with space/0_n.ipynb", ("check", source))
    (result,), text = run([path], tmp_path / "reports")
    assert result.status == "ok", text


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("import time\ntime.sleep(60)", {"cell_timeout": 1}, "took longer than 1 s"),
        ("import os\nos._exit(1)", {}, "the kernel died"),
        ("def f(:\n    pass", {}, "SyntaxError"),
    ],
)
def test_other_ways_to_fail_name_the_cell_too(tmp_path, source, options, error):
    path = write_notebook(tmp_path / "0_n.ipynb", ("fine", "x = 1"), ("bad", source), ("after", "y = 1"))
    (result,), text = run([path], tmp_path / "reports", **options)
    assert (result.status, result.cell, result.done) == ("failed", "bad", 1)
    assert f"FAILED in cell 2/3 (bad): {error}" in text


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}'])
def test_file_that_is_no_notebook_fails_alone(tmp_path, text):
    (tmp_path / "0_n.ipynb").write_text(text)
    other = write_notebook(tmp_path / "1_n.ipynb", ("show", "1 + 1"))
    (result, fine), shown = run([tmp_path / "0_n.ipynb", other], tmp_path / "reports")
    assert result.status == "failed" and "is not a notebook" in result.error
    assert fine.status == "ok", shown


def test_plain_lines_without_a_terminal_and_a_line_while_a_cell_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr("metapcg.experiments.execute.HEARTBEAT", 0.3)
    path = write_notebook(tmp_path / "0_n.ipynb", ("first", "x = 1"), ("train", "import time\ntime.sleep(1.5)"))
    _, text = run([path], tmp_path / "reports")
    assert "[1/1] 0_n: cell 2/2 (train), 1 s" in text
    assert not any(character in text for character in "\r\x1b\x08")


def test_terminal_shows_one_line_that_is_rewritten():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    progress = Progress(stream)
    progress.start("[1/1] 0_n")
    progress.cell("[1/1] 0_n", "cell 1/1 (train)")
    deadline = time.monotonic() + 20
    while "cell 1/1 (train)" not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.05)
    progress.stop("[1/1] 0_n", "done")
    progress.close()
    assert "\r[1/1] 0_n: cell 1/1 (train)" in stream.getvalue()
    assert stream.getvalue().endswith("\r[1/1] 0_n: done\n")


def test_what_a_killed_run_left_is_removed_and_a_running_ones_is_kept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for number in (dead.pid, os.getppid()):
        (tmp_path / f".staging-{number}").mkdir()
    path = write_notebook(tmp_path / "n/0_n.ipynb", ("show", "1 + 1"))
    run([path], tmp_path)
    assert [folder.name for folder in tmp_path.glob(".staging-*")] == [f".staging-{os.getppid()}"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_ends_its_kernel_and_keeps_what_was_good(tmp_path, number):
    output = tmp_path / "reports"
    (output / "notebooks").mkdir(parents=True)
    (output / "notebooks/0_n.html").write_text("good")
    pid = tmp_path / "pid"
    source = f"import os, time, pathlib\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(120)"
    write_notebook(tmp_path / "n/0_n.ipynb", ("save", SAVE % 2), ("wait", source))
    write_notebook(tmp_path / "n/1_n.ipynb", ("show", "1 + 1"))
    program = (
        "import sys\nfrom pathlib import Path\nfrom metapcg.experiments.execute import run_notebooks\n"
        "folder, output = map(Path, sys.argv[1:])\n"
        "run_notebooks(sorted(folder.glob('*.ipynb')), output, profile='smoke', device='cpu')"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "n"), str(output)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    runner.send_signal(number)
    error = runner.communicate(timeout=60)[1]
    assert runner.returncode != 0 and error.splitlines()[-1] == "KeyboardInterrupt", error
    kernel = int(pid.read_text())
    while Path(f"/proc/{kernel}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{kernel}").exists()
    assert files_in(output) == {"notebooks/0_n.html"}
    assert (output / "notebooks/0_n.html").read_text() == "good"
    assert not list(output.glob(".staging-*"))


def test_notebooks_run_at_the_same_time_and_the_analysis_after_all_others(tmp_path):
    meet = (
        "import time, pathlib\nfolder = pathlib.Path({folder!r})\n(folder / {mine!r}).touch()\n"
        "begin = time.monotonic()\nwhile not (folder / {other!r}).exists():\n"
        "    assert time.monotonic() - begin < 60, 'the other notebook did not start'\n    time.sleep(0.05)\n"
    )
    folder = str(tmp_path)
    last = "import pathlib\nassert sorted(p.name for p in pathlib.Path({!r}).glob('[ab]')) == ['a', 'b']"
    paths = [
        write_notebook(tmp_path / "n/4_analysis.ipynb", ("read", last.format(folder))),
        write_notebook(tmp_path / "n/0_a.ipynb", ("meet", meet.format(folder=folder, mine="a", other="b"))),
        write_notebook(tmp_path / "n/1_b.ipynb", ("meet", meet.format(folder=folder, mine="b", other="a"))),
    ]
    results, text = run(paths, tmp_path / "reports", workers=2)
    assert [result.name for result in results] == ["4_analysis", "0_a", "1_b"], text
    assert {result.status for result in results} == {"ok"}, text


def test_one_worker_runs_them_in_turn(tmp_path):
    busy = (
        "import pathlib, time\nflag = pathlib.Path({!r})\nassert not flag.exists(), 'two at once'\n"
        "flag.touch()\ntime.sleep(0.5)\nflag.unlink()"
    ).format(str(tmp_path / "busy"))
    paths = [write_notebook(tmp_path / f"n/{k}_n.ipynb", ("work", busy)) for k in range(2)]
    results, text = run(paths, tmp_path / "reports", workers=1)
    assert [result.status for result in results] == ["ok", "ok"], text


def test_what_hidden_tests_emit_is_not_shown(tmp_path):
    source = "from metapcg.learning.checks import emit\nemit('the label', 'the value')\n'shown' + ' too'"
    path = write_notebook(tmp_path / "n/0_n.ipynb", ("test-x", source))
    run([path], tmp_path / "reports")
    page = (tmp_path / "reports/notebooks/0_n.html").read_text()
    assert "shown too" in page and "hw11.emitted" not in page


def test_notebooks_are_chosen_by_part_of_their_name(tmp_path):
    for name in ("0_policy_gradient", "1_maml", "2_rl2"):
        write_notebook(tmp_path / f"{name}.ipynb", ("a", "1"))
    assert [path.stem for path in find_notebooks(tmp_path, ["maml", "rl2"])] == ["1_maml", "2_rl2"]
    with pytest.raises(
        ValueError, match="no notebook's name holds 'pearl'; there are 0_policy_gradient, 1_maml, 2_rl2"
    ):
        find_notebooks(tmp_path, ["maml", "pearl"])


def test_folder_without_notebooks_is_named(tmp_path):
    with pytest.raises(ValueError, match="there are no notebooks in .*compile_and_run.sh compile"):
        find_notebooks(tmp_path)


def test_missing_page_templates_are_said_before_anything_is_executed(tmp_path, monkeypatch):
    path = write_notebook(tmp_path / "a.ipynb", ("only", "open('executed', 'w').close()"))
    monkeypatch.setattr(execute, "HTMLExporter", lambda **_: HTMLExporter(template_name="there-is-none"))
    with pytest.raises(ValueError, match=r"page templates are missing.*run \./compile_and_run\.sh setup"):
        run([path], tmp_path / "out")
    assert not (tmp_path / "executed").exists() and not (tmp_path / "out").exists()

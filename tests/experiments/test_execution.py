"""Many runs through an executor: the same bytes whatever happens on the way, and failures that stay where they are."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import distributed
import nbformat
import psutil
import pytest

from metapcg.__main__ import main
from metapcg.experiments import execution
from metapcg.experiments.command import plan, state_of
from metapcg.experiments.execution import PlannedRun, cost, execute_all
from metapcg.experiments.matrix import load_matrix
from metapcg.experiments.report import write_report
from metapcg.experiments.runs import execute_run, load_run, run_name
from metapcg.learning.solutions import read_solution_cells

RESULT_FILES = (
    "settings.json",
    "history.csv",
    "adaptation.csv",
    "left_out.csv",
    "levels.npz",
    "params.pt",
    "done.json",
)

# Long enough to be caught in the middle, small enough to wait for: 40 iterations of about 20 ms.
MATRIX = """
[tiny]
question = "?"
figure = "f.png"
expected = "!"
algorithms = ["maml", "oracle"]
families = ["direction"]
games = ["binary"]
representations = ["narrow"]
surrogates = ["lvc"]
references = []
changes = [
    { iterations = 40, tasks = 2, episodes = 2, horizon = 6, hidden = [8], crop = 3, eval_tasks = 4, eval_steps = 1 }
]
splits = ["train", "interpolation"]
seeds = { smoke = [0, 1], quick = [0], full = [0] }
headline = []
"""


@pytest.fixture(scope="module")
def notebooks(functions):
    return functions.paths


@pytest.fixture
def planned(tmp_path, functions, tiny_settings):
    """Three tiny runs."""
    runs = [tiny_settings("maml"), tiny_settings("oracle"), tiny_settings("random-init", seed=1)]
    return [PlannedRun(f"run-{i}", s, tmp_path / run_name(s, functions)) for i, s in enumerate(runs)]


@contextmanager
def threads():
    with ThreadPoolExecutor(1) as executor:
        yield executor


# ------------------------------------------------------------------------------------------ outcomes, progress


def test_runs_end_and_progress_estimates_the_time_left(planned, notebooks):
    stream = io.StringIO()
    outcomes = execute_all(planned, threads, notebooks, "cpu", stream)
    assert [outcome.status for outcome in outcomes] == ["done"] * 3
    assert all(state_of(run) == ("complete", "") for run in planned)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"\[1/3\] run-\d: done in \d\d:\d\d \(\d\d:\d\d gone, about \d\d:\d\d left\)", lines[0])
    assert lines[2].startswith("[3/3]") and "left" not in lines[2]


def test_on_a_terminal_one_line_is_rewritten(planned):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    progress = execution.Progress(planned, Terminal())
    progress.ended(execution.RunOutcome("run-0", planned[0].folder, "done", 2.0))
    progress.ended(execution.RunOutcome("run-1", planned[1].folder, "failed", 2.0, "no space"))
    progress.close()
    text = progress._stream.getvalue()
    assert re.search(r"1/3 runs \|.*\| +\d+ %, \d\d:\d\d gone, about \d\d:\d\d left", text)
    assert "run-1: FAILED: no space" in text and "2/3 runs" in text


def test_a_failing_run_is_one_line_and_the_others_go_on(planned, notebooks):
    planned[0].folder.mkdir()
    (planned[0].folder / "cat.jpg").write_bytes(b"cat")
    stream = io.StringIO()
    outcomes = execute_all(planned, threads, notebooks, "cpu", stream)
    assert [outcome.status for outcome in outcomes] == ["failed", "done", "done"]
    assert "not the folder of a run" in outcomes[0].error and "\n" not in outcomes[0].error
    assert "run-0: FAILED: " in stream.getvalue()
    assert [path.name for path in planned[0].folder.iterdir()] == ["cat.jpg"]


def test_a_students_error_is_that_runs_error(planned, tmp_path, notebooks):
    broken = tmp_path / "broken.py"
    broken.write_text(
        '# %% id="imports"\nimport torch\n\n# %% id="adapt" kind="solution"\n'
        "def adapt(*arguments):\n    return undefined_name\n\ndef meta_loss(*arguments):\n    return undefined_name\n"
    )
    outcomes = execute_all(planned, threads, {**notebooks, "1_maml": str(broken)}, "cpu", io.StringIO())
    assert [outcome.status for outcome in outcomes] == ["failed", "done", "failed"]
    assert outcomes[0].error.startswith("NameError: name 'undefined_name'")
    assert state_of(planned[0]) == ("failed", outcomes[0].error)


def test_a_dead_worker_process_is_replaced(planned, notebooks, monkeypatch):
    pools = []

    class Broken:
        def submit(self, *arguments):
            future = Future()
            future.set_exception(BrokenProcessPool("a child died"))
            return future

    @contextmanager
    def make():
        pools.append(len(pools))
        if len(pools) == 1:
            yield Broken()
        else:
            with ThreadPoolExecutor(1) as executor:
                yield executor

    stream = io.StringIO()
    outcomes = execute_all(planned, make, notebooks, "cpu", stream)
    assert [outcome.status for outcome in outcomes] == ["done"] * 3 and len(pools) == 2
    assert "a worker process died" in stream.getvalue()


def test_a_pool_that_breaks_every_time_is_given_up(planned, notebooks):
    @contextmanager
    def make():
        raise BrokenProcessPool("a child died")
        yield

    outcomes = execute_all(planned, make, notebooks, "cpu", io.StringIO())
    assert {outcome.status for outcome in outcomes} == {"failed"} and "out of memory" in outcomes[0].error


def test_more_work_costs_more(tiny_settings):
    assert cost(tiny_settings(iterations=8)) > cost(tiny_settings(iterations=4)) > cost(tiny_settings("random")) > 0


# ------------------------------------------------------------------------------------------ workers, kills, cluster


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, functions):
    """A folder with the tiny matrix and the notebooks."""
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "matrix.toml").write_text(MATRIX)
    (folder / "answers").mkdir()
    for name, source in functions.paths.items():
        _to_notebook(Path(source), folder / "answers" / f"{name}.ipynb")
    return folder


@pytest.fixture(scope="module")
def command(workplace):
    """Start the command line in a process of its own: (output, options) → Popen."""
    environment = {**os.environ, "HW11_NOTEBOOKS": str(workplace / "answers"), "OMP_NUM_THREADS": "1"}

    def start(output, *options):
        words = [sys.executable, "-m", "metapcg", "experiments", "run", "--profile", "smoke", "--output", str(output)]
        words += ["--matrix", str(workplace / "matrix.toml"), *options]
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return start


def _to_notebook(source: Path, target: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    for cell in read_solution_cells(source):
        made = nbformat.v4.new_code_cell(cell.source, id=cell.id)
        made.metadata = {"tags": ["imports"]} if cell.id == "imports" else {
            "nbgrader": {"solution": True, "grade": False, "grade_id": cell.id}
        }  # fmt: skip
        notebook.cells.append(made)
    nbformat.write(notebook, target)


@pytest.fixture(scope="module")
def undisturbed(workplace, notebooks, functions):
    """The results of one thread in this process that nothing happened to."""
    planned, refused = plan(load_matrix(workplace / "matrix.toml"), "smoke", [], workplace / "one", functions)
    outcomes = execute_all(planned, threads, notebooks, "cpu", io.StringIO())
    assert not refused and {outcome.status for outcome in outcomes} == {"done"}
    return workplace / "one"


def folders(output):
    return sorted(path.parent for path in (output / "runs").rglob("done.json"))


def same_bytes(first, second):
    ours, theirs = folders(first), folders(second)
    assert [path.name for path in ours] == [path.name for path in theirs] and len(ours) == 4
    for one, other in zip(ours, theirs, strict=True):
        for name in RESULT_FILES:
            assert (one / name).read_bytes() == (other / name).read_bytes(), f"{one.name}/{name}"
    for output in (first, second):
        write_report(output, "smoke")
    for path in (first / "tables").glob("*.csv"):
        assert path.read_bytes() == (second / "tables" / path.name).read_bytes(), path.name


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_two_workers_killed_in_the_middle_leave_the_bytes_of_one(undisturbed, command, workplace):
    output = workplace / "two"
    process = command(output, "--workers", "2")
    wait_for(lambda: any(output.rglob("state.pt")))
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(folders(output)) < 4, "killed too late to show anything"
    wait_for(lambda: not any(worker.is_running() for worker in workers))  # workers end with their parent
    process = command(output, "--workers", "2")
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text
    same_bytes(undisturbed, output)


def test_a_complete_matrix_is_not_executed_again(undisturbed, workplace, monkeypatch, capsys):
    monkeypatch.setenv("HW11_NOTEBOOKS", str(workplace / "answers"))
    before = {path: path.stat().st_mtime_ns for path in (undisturbed / "runs").rglob("*")}
    words = ["--profile", "smoke", "--matrix", str(workplace / "matrix.toml"), "--output", str(undisturbed)]
    assert main(["experiments", "run", *words]) == 0
    assert "4 complete; 0 to go" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_dask_cluster_that_loses_a_worker_ends_every_run_once(undisturbed, workplace, notebooks, functions):
    output = workplace / "dask"
    planned, _ = plan(load_matrix(workplace / "matrix.toml"), "smoke", [], output, functions)
    stream = io.StringIO()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        killer = threading.Thread(target=_kill_a_busy_worker, args=(cluster, output))
        killer.start()
        outcomes = execute_all(
            planned, lambda: execution.dask_executor(cluster.scheduler_address), notebooks, "cpu", stream
        )
        killer.join()
    assert [outcome.status for outcome in outcomes] == ["done"] * 4, stream.getvalue()
    assert len(re.findall(r"(?m)^\[\d/4\] .*: done", stream.getvalue())) == 4
    same_bytes(undisturbed, output)


def _kill_a_busy_worker(cluster, output):
    wait_for(lambda: any(output.rglob("state.pt")))
    victim = next(worker for worker in cluster.workers.values() if worker.worker_address)
    os.kill(victim.pid, signal.SIGKILL)


def test_an_address_without_a_scheduler_is_one_line(monkeypatch):
    def refuse(address, timeout):
        raise OSError(f"Timed out trying to connect to {address} after {timeout}")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(ValueError, match="--dask: no scheduler answers at tcp://127.0.0.1:1 "):
        with execution.dask_executor("tcp://127.0.0.1:1"):
            pass


def test_the_slurm_script_in_the_documentation_can_be_rendered():
    page = (Path(__file__).resolve().parents[2] / "EXPERIMENTS.md").read_text()
    code = re.search(r"```python\n(from dask_jobqueue.*?)```", page, re.DOTALL)[1]
    code = re.sub(r"(?m)^cluster\.scale.*$", "", code).replace('"port": 8786', '"port": 0, "dashboard_address": None')
    names: dict = {}
    try:
        exec(code.replace("print(cluster.job_script())", "script = cluster.job_script()"), names)
        for words in (
            "#SBATCH -p normal",
            "#SBATCH --cpus-per-task=1",
            "#SBATCH -t 02:00:00",
            "distributed.cli.dask_worker",
        ):
            assert words in names["script"]
    finally:
        if "cluster" in names:
            names["cluster"].close()


# ------------------------------------------------------------------------------------------ command line


def test_status_says_what_is_complete_and_what_is_not(undisturbed, workplace, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HW11_NOTEBOOKS", str(workplace / "answers"))
    options = ["--profile", "smoke", "--matrix", str(workplace / "matrix.toml")]
    assert main(["experiments", "status", *options, "--output", str(undisturbed)]) == 0
    assert "4 complete" in capsys.readouterr().out
    assert main(["experiments", "status", *options, "--output", str(tmp_path), "--only", "oracle"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 not begun"


def test_a_begun_run_says_how_far_it_came(planned, functions):
    class Stopped(Exception):
        pass

    def stop(iteration, params, row):
        if iteration == 2:
            raise Stopped

    with pytest.raises(Stopped):
        execute_run(planned[0].settings, functions, planned[0].folder, checkpoint_every=2, on_iteration=stop)
    assert state_of(planned[0]) == ("begun", "iteration 2 of 4")
    assert state_of(planned[1]) == ("not begun", "")


def test_mistakes_on_the_command_line_are_one_line(capsys, tmp_path):
    for words, message in (
        (["list", "--profile", "fast"], "error: profile: unknown value 'fast'"),
        (["list", "--only", "nothing"], "error: --only: no run's name holds 'nothing'"),
        (["run", "--matrix", str(tmp_path / "none.toml")], "error: --matrix: there is no file"),
        (["run", "--device", "tpu"], "error: device: unknown value 'tpu'"),
    ):
        assert main(["experiments", *words]) == 1
        error = capsys.readouterr().err
        assert error.startswith(message) and error.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["experiments", "run", "--workers", "0"])
    assert "expected a positive integer" in capsys.readouterr().err


def test_a_run_whose_function_is_missing_is_reported_and_the_others_run(workplace, tmp_path, monkeypatch, capsys):
    empty = tmp_path / "notebooks"
    empty.mkdir()
    monkeypatch.setenv("HW11_NOTEBOOKS", str(empty))
    monkeypatch.setattr("metapcg.experiments.command.process_pool", lambda workers: threads())
    options = ["--profile", "smoke", "--matrix", str(workplace / "matrix.toml"), "--output", str(tmp_path / "out")]
    assert main(["experiments", "run", *options, "--only=-s0"]) == 1
    captured = capsys.readouterr()
    assert "maml" in captured.out and "there is no notebook" in captured.out
    assert "1 run(s) failed" in captured.err and "1 are complete" in captured.err
    assert load_run(folders(tmp_path / "out")[0]).settings.algorithm == "oracle"

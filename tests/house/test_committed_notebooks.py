"""The notebooks of this repository: in step with their sources, worked ones right, starters open at the first TODO."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metapcg.experiments.execute import run_notebooks
from metapcg.grading.build import check_in_step

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))


CHECKS = {
    "nbval": ("-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider"),
    "nbgrader": ("-m", "nbgrader", "validate"),
}


@pytest.fixture(scope="module")
def checked(request, tmp_path_factory):
    """What programs say of the worked notebooks that are asked for, (program, notebook) → future; two work at a time.

    Each under profile smoke, with results in a folder of its own, and with the environment's programs on PATH (nbgrader
    calls one).
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(program, name):
        output = str(tmp_path_factory.mktemp("reports"))
        return subprocess.run(
            [sys.executable, *CHECKS[program], f"answers/hw11/{name}.ipynb"],
            cwd=ROOT,
            env={**os.environ, "PATH": path, "HW11_PROFILE": "smoke", "HW11_OUTPUT": output},
            capture_output=True,
            text=True,
            timeout=900,
        )

    pool = ThreadPoolExecutor(2)
    items = [item for item in request.session.items if item.function is test_worked_notebook_passes_under]
    asked = [(item.callspec.params["program"], item.callspec.params["name"]) for item in items]
    yield {pair: pool.submit(run, *pair) for pair in asked}
    pool.shutdown(cancel_futures=True)


def test_there_are_notebooks():
    assert NAMES


def test_worked_notebooks_and_starters_are_in_step_with_their_sources():
    found = check_in_step(ROOT)
    assert found.written == [], "run ./compile_and_run.sh compile and commit what it writes"
    assert found.without_source == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("program", CHECKS)
def test_worked_notebook_passes_under(program, name, checked):
    ended = checked[program, name].result()
    if program == "nbgrader":
        assert ended.stdout == "Success! Your notebook passes all the tests.\n", ended.stdout + ended.stderr
    else:
        assert ended.returncode == 0, ended.stdout[-6000:]
        assert re.search(r"\d+ passed", ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_starter_runs_to_its_first_todo_and_says_what_to_write(name, tmp_path):
    path = ROOT / "base_code/hw11" / f"{name}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next(cell["id"] for cell in cells if cell["metadata"].get("nbgrader", {}).get("solution"))
    (result,) = run_notebooks([path], tmp_path, profile="smoke", device="cpu")
    assert result.status == "failed"
    pattern = rf"NotImplementedError: TODO \w+: write this function \(notebook {name}, cell {first}\)"
    assert re.fullmatch(pattern, result.error), result.error


@pytest.mark.parametrize("name", NAMES)
def test_starter_shows_no_solution_and_no_hidden_test(name):
    text = (ROOT / "base_code/hw11" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert "BEGIN SOLUTION" not in text and "HIDDEN TESTS" not in text
    worked = json.loads((ROOT / "answers/hw11" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    starter = {cell["id"]: "".join(cell["source"]) for cell in json.loads(text)["cells"]}
    for cell in worked:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            assert starter[cell["id"]] != "".join(cell["source"])
            if cell["cell_type"] == "code":
                assert 'raise NotImplementedError("TODO ' in starter[cell["id"]]

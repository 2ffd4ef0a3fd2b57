"""EXPERIMENTS.md is written from the matrix and the committed results, and checked against them."""

from __future__ import annotations

import shutil

import pytest

from metapcg.__main__ import main
from metapcg.experiments import experiments_page
from metapcg.experiments.experiments_page import render
from metapcg.experiments.matrix import load_matrix
from metapcg.experiments.report import write_report
from metapcg.experiments.runs import settings_for


@pytest.fixture(scope="module")
def matrix():
    return load_matrix()


@pytest.fixture(scope="module")
def blank(matrix):
    """A page with all marks and nothing between them."""
    names = ["overview", *(item.name for item in (*matrix.experiments, *matrix.notebooks))]
    return "# Mine\n\n" + "\n".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->\ntext\n" for name in names)


@pytest.fixture(scope="module")
def results(tmp_path_factory, made_up_results, functions, make_up_run):
    """A folder of results: the main comparison and one variation."""
    folder = tmp_path_factory.mktemp("results")
    shutil.copytree(made_up_results, folder / "runs" / "quick")
    for seed in (0, 1):
        changed = settings_for("quick", "maml", seed=seed, inner_lr=0.5, splits=("train", "interpolation"))
        make_up_run(folder / "runs" / "quick", changed, functions)
    (folder / "tables").mkdir()
    (folder / "tables" / "navigation.csv").write_text("method,step 2\nMAML,-3.25\n")
    return folder


def part(text: str, name: str) -> str:
    return text.split(f"<!-- begin {name} -->")[1].split(f"<!-- end {name} -->")[0]


def test_the_committed_page_is_in_step(matrix):
    assert experiments_page.is_in_step(matrix), "run: python -m metapcg experiments report --update"


def test_without_results_every_experiment_says_that_it_was_not_run(matrix, blank, tmp_path):
    text = render(blank, matrix, tmp_path)
    assert text.count("**Measured.** Not run yet.") == len(matrix.experiments) + len(matrix.notebooks)
    assert "old" not in text and text.startswith("# Mine") and text.count("\ntext\n") == blank.count("\ntext\n")
    assert render(text, matrix, tmp_path) == text


def test_measured_numbers_come_with_their_interval_and_their_folder(matrix, blank, results):
    write_report(results, "quick")
    text = render(blank, matrix, results)
    overview = part(text, "overview")
    row = next(line for line in overview.splitlines() if line.startswith("| [adaptation](#adaptation)"))
    assert "MAML, step 1: 7" in row and "% [" in row
    assert "`direction-binary-narrow-" in row and "and 13 more" in row and "--profile quick --only adaptation/" in row
    section = part(text, "adaptation")
    assert "14 runs, 2 seeds" in section and "≈ random" in section
    assert "inner_lr=0.5" in part(text, "inner-step-size") and "inner_lr=0.5" not in section
    assert "−3.25" in part(text, "navigation")
    assert "Not run yet" in part(text, "games")


def test_a_page_without_marks_names_the_missing_part(matrix, blank, tmp_path):
    with pytest.raises(ValueError, match="no part for games: add a line '<!-- begin games -->'"):
        render(blank.replace("<!-- begin games -->", ""), matrix, tmp_path)


def test_reference_update_and_check(matrix, blank, results, tmp_path, monkeypatch, capsys):
    page, reference = tmp_path / "EXPERIMENTS.md", tmp_path / "reference"
    page.write_text(blank)
    monkeypatch.setattr(experiments_page, "page_path", lambda: page)
    monkeypatch.setattr(experiments_page, "reference_path", lambda: reference)
    assert main(["experiments", "report", "--check"]) == 1
    assert capsys.readouterr().err.startswith("error: EXPERIMENTS.md is out of step")
    assert page.read_text() == blank, "--check writes nothing"
    assert main(["experiments", "report", "--reference", "--profile", "quick", "--output", str(results)]) == 0
    assert (reference / "report.html").is_file() and (reference / "tables" / "navigation.csv").is_file()
    assert not (reference / "runs").exists(), "checkpoints are not committed"
    assert main(["experiments", "report", "--check"]) == 0
    page.write_text(page.read_text().replace("14 runs", "13 runs"))
    assert main(["experiments", "report", "--check"]) == 1
    assert main(["experiments", "report", "--update"]) == 0
    assert main(["experiments", "report", "--check"]) == 0

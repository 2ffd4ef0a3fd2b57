"""Tables and figures from made-up run folders whose answers are known."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest

from metapcg.experiments import figures
from metapcg.experiments.results import (
    adaptation_table,
    gap_table,
    group_by_setting,
    load_results,
    runs_table,
    split_table,
)
from metapcg.experiments.runs import settings_for

METHODS = ["MAML", "FOMAML", "pretrained", "random init", "oracle", "random"]


@pytest.fixture(scope="module")
def runs(made_up_results):
    found, problems = load_results(made_up_results)
    assert not problems
    return found


def rows_of(table, **wanted):
    return [row for row in table if all(row[name] == value for name, value in wanted.items())]


def test_every_seed_of_a_method_counts_in_one_row(runs):
    assert [(setting.label, setting.seeds) for setting in group_by_setting(runs)] == [(m, (0, 1)) for m in METHODS]
    table = adaptation_table(runs)
    steps = [row["step"] for row in rows_of(table, method="MAML", split="interpolation")]
    assert steps == [0, 1, 2, 3]
    row = rows_of(table, method="MAML", split="interpolation", step=3)[0]
    by_hand = np.mean([r.splits["interpolation"].returns[:, 3].mean() for r in runs if r.label == "MAML"])
    assert row["return"] == pytest.approx(by_hand)
    assert row["low"] < row["return"] < row["high"]
    assert row["episodes"] == 3 * runs[0].settings.eval_episodes


def test_the_split_table_has_shares_and_flags(runs):
    table = split_table(runs)
    maml = rows_of(table, method="MAML", split="interpolation")[0]
    assert maml["share"] == pytest.approx(0.86 * 0.97, abs=0.06) and maml["equals_random"] == "no"
    assert rows_of(table, method="random init", split="interpolation")[0]["equals_random"] == "yes"
    assert rows_of(table, method="oracle", split="interpolation")[0]["share"] == 1.0
    assert {row["split"] for row in table} == set(runs[0].settings.splits), "splits are never pooled"


def test_a_split_without_an_oracle_has_no_share_and_says_why(runs):
    table = split_table(runs)
    maml = rows_of(table, method="MAML", split="held-out-game")[0]
    assert maml["share"] == "" and maml["note"] == "no oracle run on these tasks" and maml["return"] != ""
    oracle = rows_of(table, method="oracle", split="held-out-game")[0]
    assert oracle["return"] == "" and "another game" in oracle["note"]


def test_the_held_out_representation_is_compared_with_an_oracle_trained_on_it(
    made_up_results, tmp_path, functions, make_up_run
):
    shutil.copytree(made_up_results, tmp_path / "runs")
    runs = load_results(tmp_path / "runs")[0]
    before = rows_of(split_table(runs), method="MAML", split="held-out-representation")[0]
    assert "trained on narrow" in before["note"]
    for seed in (0, 1):
        settings = settings_for("quick", "oracle", "binary", "turtle", seed=seed, splits=("interpolation",))
        make_up_run(tmp_path / "runs", settings, functions)
    after = rows_of(split_table(load_results(tmp_path / "runs")[0]), method="MAML", split="held-out-representation")[0]
    assert after["note"] == "" and after["share"] != before["share"]


def test_the_gap_is_train_minus_test(runs):
    row = rows_of(gap_table(runs), method="MAML", split="extrapolation")[0]
    assert row["gap"] == pytest.approx(row["train"] - row["test"]) and row["low"] > 0


def test_one_damaged_folder_does_not_harm_the_others(made_up_results, tmp_path):
    shutil.copytree(made_up_results, tmp_path / "runs")
    folder = sorted((tmp_path / "runs").iterdir())[0]
    (folder / "adaptation.csv").write_text("split\n")
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "notes" / "settings.json").write_text("{}")
    found, problems = load_results(tmp_path / "runs")
    assert len(found) == 11 and len(problems) == 2
    assert any(folder.name in line for line in problems) and any("notes" in line for line in problems)


def test_a_run_of_older_functions_gives_way_to_the_newer(tmp_path, functions, make_up_run):
    settings = settings_for("smoke", "maml")
    old = make_up_run(tmp_path, settings, functions)
    newer = tmp_path / "newer"
    shutil.copytree(old, newer)
    (newer / "done.json").touch()
    found, problems = load_results(tmp_path)
    assert [run.folder for run in found] == [newer] and old.name in problems[0]


def test_provenance_names_every_folder_and_version(runs):
    table = runs_table(runs)
    assert len({row["folder"] for row in table}) == 12
    assert all(row["torch"] and row["numpy"] and row["python"] for row in table)


def texts(figure):
    return [t.get_text() for ax in figure.axes for t in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label)]


def drawn(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return len(buffer.getvalue())


def test_adaptation_curves_name_every_line(runs):
    figure = figures.adaptation_curves(runs)
    assert {"MAML", "FOMAML", "pretrained", "random init", "oracle (told the task)", "random policy"} <= set(
        texts(figure)
    )
    lines = {tuple(line.get_ydata().round(6)) for line in figure.axes[0].lines if len(line.get_xdata()) == 4}
    maml = rows_of(adaptation_table(runs), method="MAML", split="interpolation")
    assert tuple(np.round([row["return"] for row in maml], 6)) in lines
    by_episodes = figures.adaptation_curves(runs, by="episodes").axes[0].lines
    last = max(line.get_xdata().max() for line in by_episodes if len(line.get_xdata()) == 4)
    assert last == 3 * runs[0].settings.eval_episodes


def test_share_bars_say_where_there_is_no_oracle(runs):
    figure = figures.share_bars(runs)
    assert sum("no oracle" in text for text in texts(figure)) == 1
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == METHODS[:4]


def test_every_figure_can_be_drawn(runs):
    made = figures.figures_for(runs)
    assert {"adaptation-interpolation", "share", "training", "by-direction", "levels-maml"} <= set(made)
    for name in ("adaptation-interpolation", "share", "training", "by-direction", "levels-maml"):
        assert drawn(made[name]) > 2000


def test_a_figure_without_data_says_so(runs):
    references = [run for run in runs if run.label in ("oracle", "random")]
    with pytest.raises(ValueError, match="only references"):
        figures.share_bars(references)
    with pytest.raises(ValueError, match="none of them was trained"):
        figures.learning_curves([run for run in runs if run.label == "random"])

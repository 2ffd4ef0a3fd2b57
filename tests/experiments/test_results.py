"""Tables and figures from made-up run folders whose answers are known."""

from __future__ import annotations

import io
import re
import shutil

import numpy as np
import pytest

from metapcg.experiments import figures
from metapcg.experiments.algorithms import ALGORITHMS
from metapcg.experiments.report import table_csv
from metapcg.experiments.results import (
    adaptation_table,
    algorithm_of,
    cost_table,
    gap_table,
    group_by_setting,
    load_results,
    read_rows,
    runs_table,
    select,
    split_table,
    variant,
)
from metapcg.experiments.runs import settings_for


def methods_of(runs):
    """Labels of the methods that were made up, in the order in which tables and figures name them."""
    made_up = {run.settings.algorithm for run in runs}
    return [algorithm.label for name, algorithm in ALGORITHMS.items() if name in made_up]


@pytest.fixture(scope="module")
def runs(made_up_results):
    found, problems = load_results(made_up_results)
    assert not problems
    return found


def rows_of(table, **wanted):
    return [row for row in table if all(row[name] == value for name, value in wanted.items())]


def test_every_seed_of_a_method_counts_in_one_row(runs):
    assert [(setting.label, setting.seeds) for setting in group_by_setting(runs)] == [
        (m, (0, 1)) for m in methods_of(runs)
    ]
    assert {"MAML", "RL²", "oracle"} < set(methods_of(runs))
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
    assert len(found) == len(list(made_up_results.iterdir())) - 1 and len(problems) == 2
    assert any(folder.name in line for line in problems) and any("notes" in line for line in problems)


def test_a_run_of_older_functions_gives_way_to_the_newer(tmp_path, functions, make_up_run):
    settings = settings_for("smoke", "maml")
    old = make_up_run(tmp_path, settings, functions)
    newer = tmp_path / "newer"
    shutil.copytree(old, newer)
    (newer / "done.json").touch()
    found, problems = load_results(tmp_path)
    assert [run.folder for run in found] == [newer] and old.name in problems[0]


def test_provenance_names_every_folder_and_version(runs, made_up_results):
    table = runs_table(runs)
    assert {row["folder"] for row in table} == {folder.name for folder in made_up_results.iterdir()}
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
    assert legend == methods_of(runs)[:-2], "all but the references"


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def points_of(ax):
    """The x and y of every point with a marker."""
    return {
        (round(float(x), 4), round(float(y), 4))
        for line in ax.lines
        if line.get_marker() not in ("", "None", None)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }


def test_the_comparison_shows_every_method_by_episodes(runs):
    table = adaptation_table(runs)
    figure = figures.comparison(table)
    labels = set(methods_of(runs)) - {"oracle", "random"} | {"oracle (told the task)", "random policy"}
    assert set(legend_of(figure)) == labels and len(legend_of(figure)) == len(labels)
    wanted = {
        (row["episodes"], round(row["return"], 4))
        for row in rows_of(table, split="interpolation")
        if row["method"] not in ("oracle", "random")
    }
    assert wanted <= points_of(figure.axes[0])


def test_methods_without_gradient_steps_stand_left_of_the_first_one(runs):
    table = adaptation_table(runs)
    right = figures.comparison(table).axes[1]
    for row in rows_of(table, split="interpolation"):
        at = {x for x, y in points_of(right) if y == round(row["return"], 4)}
        if row["method"] in ("RL²", "PEARL") and row["step"] in (0, 3):
            assert at and all(x < 0 for x in at), "no gradient step was taken"
        elif row["method"] == "MAML":
            assert row["step"] in at
    assert "arrows" in right.get_xlabel()
    without = figures.comparison([row for row in table if row["method"] not in ("RL²", "PEARL")]).axes[1]
    assert "arrows" not in without.get_xlabel() and all(x >= 0 for x, _ in points_of(without))


def test_a_figure_from_a_written_table_is_the_same_figure(runs, tmp_path):
    table = adaptation_table(runs)
    (tmp_path / "t.csv").write_bytes(table_csv(table))
    read = read_rows(tmp_path / "t.csv")
    assert read[0].keys() == table[0].keys() and read[0]["share"] == pytest.approx(table[0]["share"])
    assert drawn(figures.comparison(read)) == drawn(figures.comparison(table))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for path in (tmp_path / "other.csv", tmp_path / "none.csv"):
        with pytest.raises(ValueError, match=path.name):
            read_rows(path)


def test_another_surrogate_is_a_variation_and_no_method_of_the_comparison(runs):
    table = adaptation_table(runs)
    dice = [{**row, "method": "MAML (dice)"} for row in table if row["method"] == "MAML"]
    assert algorithm_of(dice[0]) == "maml"
    assert len(legend_of(figures.comparison(table + dice))) == len(methods_of(runs))
    panel = figures.variations(table + dice).axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["lvc", "dice"]


def test_variations_are_in_order_of_the_value_and_name_the_usual_one(runs):
    table = adaptation_table(runs)
    for changed in ("inner_lr=10.0", "inner_lr=0.5", "num_train_tasks=8"):
        table += [{**row, "variant": changed} for row in adaptation_table(runs) if row["method"] == "MAML"]
    figure = figures.variations(table)
    ticks = {ax.get_xlabel(): [tick.get_text() for tick in ax.get_xticklabels()] for ax in figure.axes if ax.lines}
    assert ticks == {"inner_lr (usual: 2)": ["0.5", "2", "10"], "num_train_tasks (usual: ∞)": ["8", "∞"]}
    with pytest.raises(ValueError, match="none differs in exactly one setting"):
        figures.variations(adaptation_table(runs))


def test_cost_is_of_training_and_of_one_new_task(runs):
    table = {row["method"]: row for row in cost_table(runs)}
    assert set(table) == set(methods_of(runs))
    maml, untrained = table["MAML"], table["random init"]
    assert maml["env_steps"] == 60 * 24000 and maml["seconds"] == 12.5 and maml["gradient_steps"] == 3
    assert maml["episodes"] == 3 * runs[0].settings.eval_episodes
    assert untrained["env_steps"] == 0 and table["RL²"]["gradient_steps"] == 0 and table["RL²"]["episodes"] > 0
    row = rows_of(adaptation_table(runs), method="MAML", split="interpolation", step=3)[0]
    assert maml["return"] == row["return"] and maml["share"] == row["share"]
    steps = figures.cost(list(table.values())).axes[0]
    assert "none" in [tick.get_text() for tick in steps.get_xticklabels()], "an untrained method has a place"


def test_families_are_compared_as_shares(runs):
    table = adaptation_table(runs)
    both = table + [{**row, "family": "weights"} for row in table if row["method"] != "FOMAML"]
    figure = figures.families(both)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["direction, binary-narrow", "weights, binary-narrow"]
    maml = rows_of(table, method="MAML", split="interpolation", step=1)[0]
    assert (maml["episodes"], round(maml["share"], 4)) in points_of(figure.axes[1])
    with pytest.raises(ValueError, match="weights"):
        figures.families(table)


def test_the_gap_figure_leaves_out_what_has_another_scale(runs):
    figure = figures.gap_dots(gap_table(runs))
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert "interpolation" in ticks and not any("game" in tick for tick in ticks)


def test_every_figure_can_be_drawn(runs):
    made = figures.figures_for(runs)
    names = {
        "comparison",
        "cost",
        "gap",
        "adaptation-interpolation",
        "share",
        "training",
        "by-direction",
        "levels-maml",
    }
    assert names <= set(made)
    for name in names:
        assert drawn(made[name]) > 2000


def test_a_figure_without_data_says_so(runs):
    references = [run for run in runs if run.label in ("oracle", "random")]
    with pytest.raises(ValueError, match="only references"):
        figures.share_bars(references)
    with pytest.raises(ValueError, match="none of them was trained"):
        figures.learning_curves([run for run in runs if run.label == "random"])
    with pytest.raises(ValueError, match="only references"):
        figures.cost(cost_table(references))
    with pytest.raises(ValueError, match="no method has results"):
        figures.comparison(select(adaptation_table(runs), split="train"))


def test_where_one_policy_does_for_all_tasks_quick_trains_briefly():
    for algorithm in ("maml", "pretrained", "oracle"):
        brief, usual = (settings_for("quick", algorithm, family=family) for family in ("weights", "direction"))
        assert brief.iterations < usual.iterations and len(brief.splits) < len(usual.splits)
        assert variant(brief) == "" and variant(usual) == "", "it is that family's budget, not a changed setting"
        assert settings_for("quick", algorithm, family="weights", iterations=7).iterations == 7


def test_a_share_of_nothing_does_not_set_the_scale(runs, monkeypatch):
    whole = figures.share_bars(runs).axes[0].get_ylim()[1]
    monkeypatch.setattr(figures, "_SHARE_SHOWN", 0.5)
    figure = figures.share_bars(runs)
    assert figure.axes[0].get_ylim()[1] < 0.7 < whole
    assert any(re.fullmatch(r"8\d %", text) for text in texts(figure)), "a bar that is cut off carries its number"

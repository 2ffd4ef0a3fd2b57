"""Recordings of the original gym-pcgrl, replayed; and that the replay notices what is wrong."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from metapcg.__main__ import main
from metapcg.envs.parity import compare, find_recordings

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(path.name for path in DATA.glob("*.json.gz"))


def read(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return json.load(file)


def compare_changed(folder, name, change):
    """The comparison of a recording after ``change`` was applied to it."""
    content = copy.deepcopy(read(name))
    change(content)
    with gzip.open(folder / name, "wt", encoding="utf-8") as file:
        json.dump(content, file)
    return compare(folder / name)


def test_the_share_covers_all_games_and_representations():
    assert len(RECORDINGS) == 12
    assert sum((DATA / name).stat().st_size for name in RECORDINGS) < 60_000


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_agrees(name):
    comparison = compare(DATA / name)
    assert comparison.passed, comparison.disagreements[:3] or comparison.broken
    assert comparison.agree == comparison.total > 0 and comparison.steps_agree == comparison.steps
    assert comparison.at_least_as_good == 0
    if name == "stats_sokoban.json.gz":
        assert comparison.out_of_budget == 24


def first_episode(change):
    """Apply ``change`` to the first episode in which something was rewarded."""
    return lambda content: change(next(episode for episode in content["episodes"] if any(episode["reward"])))


def last_bit(rewards):
    index = next(index for index, reward in enumerate(rewards) if reward)
    rewards[index] += abs(rewards[index]) * 2**-52


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda e: last_bit(e["reward"]), "reward"),
        (lambda e: e["stats"]["regions"].__setitem__(5, 99), "step 5: regions"),
        (lambda e: e["done"].__setitem__(-1, 0), "done"),
        (lambda e: e["changes"].__setitem__(3, 77), "step 3: changes"),
        (lambda e: e["iterations"].__setitem__(3, 77), "step 3: iterations"),
        (lambda e: e["final_heatmap"][0].__setitem__(0, 9), "end: final_heatmap"),
        (lambda e: e["final_map"][0].__setitem__(0, 1 - e["final_map"][0][0]), "end: final_map"),
        (lambda e: e["start_stats"].__setitem__("path-length", -1), "start: path-length"),
        (lambda e: e["end"].__setitem__("goal", not e["end"]["goal"]), "end: goal"),
        (lambda e: e.__setitem__("max_changes", e["max_changes"] + 1), "settings: max_changes"),
        (lambda e: e["reward_weights"].__setitem__("regions", 0.5), "settings: reward_weights"),
        (lambda e: e["targets"].__setitem__("target_path", 21), "settings: target_path"),
    ],
)
def test_a_wrong_episode_is_noticed(tmp_path, change, place):
    comparison = compare_changed(tmp_path, "rollouts_binary_wide.json.gz", first_episode(change))
    assert not comparison.passed and comparison.agree == comparison.total - 1
    assert place in comparison.disagreements[0]


def test_a_wrong_position_of_the_turtle_is_noticed(tmp_path):
    comparison = compare_changed(
        tmp_path, "rollouts_zelda_turtle.json.gz", first_episode(lambda e: e["pos"].__setitem__(2, [0, 9]))
    )
    assert "step 2: pos" in comparison.disagreements[0]


def test_a_wrong_statistic_of_a_level_is_noticed(tmp_path):
    def change(content):
        content["maps"][3]["stats"]["path-length"] += 1

    comparison = compare_changed(tmp_path, "stats_zelda.json.gz", change)
    assert not comparison.passed and comparison.agree == comparison.total - 1
    assert comparison.disagreements[0].startswith("map 3 (")


def sokoban_maps(content, ran_out):
    solved = [entry for entry in content["maps"] if entry["stats"]["sol-length"] > 0]
    return next(
        entry for entry in solved if ran_out == any(search[2] >= 5000 and not search[3] for search in entry["solver"])
    )


def test_better_than_an_exhausted_search_is_counted_apart(tmp_path):
    def longer(content):
        entry = sokoban_maps(content, ran_out=True)
        entry["stats"]["sol-length"] += 2
        entry["stats"]["solution"] += "LR"

    comparison = compare_changed(tmp_path, "stats_sokoban.json.gz", longer)
    assert comparison.passed
    assert (comparison.agree, comparison.at_least_as_good) == (comparison.total - 1, 1)


def test_worse_than_an_exhausted_search_is_a_disagreement(tmp_path):
    def shorter(content):
        sokoban_maps(content, ran_out=True)["stats"]["sol-length"] -= 1

    assert not compare_changed(tmp_path, "stats_sokoban.json.gz", shorter).passed


def test_better_than_a_search_within_its_budget_is_a_disagreement(tmp_path):
    def longer(content):
        sokoban_maps(content, ran_out=False)["stats"]["sol-length"] += 2

    assert not compare_changed(tmp_path, "stats_sokoban.json.gz", longer).passed


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("stats_binary.json.gz", lambda c: c.pop("maps"), "lacks a list of maps"),
        ("stats_binary.json.gz", lambda c: c.update(maps=[]), "lacks a list of maps"),
        ("stats_binary.json.gz", lambda c: c.update(game="pacman"), "names no known game"),
        ("stats_binary.json.gz", lambda c: c.update(tiles=["solid", "empty"]), "has other tiles"),
        ("stats_binary.json.gz", lambda c: c["maps"][1].pop("stats"), "entry 1 of maps lacks 'stats'"),
        ("stats_binary.json.gz", lambda c: c["maps"][1]["map"][0].pop(), "map: "),
        ("stats_binary.json.gz", lambda c: c["maps"][1]["map"][0].__setitem__(0, 7), "maps: binary has tiles"),
        ("rollouts_binary_wide.json.gz", lambda c: c.update(rep="broad"), "names no known representation"),
        ("rollouts_binary_wide.json.gz", first_episode(lambda e: e.pop("end")), "of episodes lacks 'end'"),
        ("rollouts_binary_wide.json.gz", first_episode(lambda e: e["reward"].pop()), "'reward', one per action"),
        ("rollouts_binary_wide.json.gz", first_episode(lambda e: e.update(width="14")), "has a str as 'width'"),
        ("rollouts_binary_wide.json.gz", first_episode(lambda e: e["actions"].__setitem__(0, [0])), "actions: "),
        ("rollouts_binary_narrow.json.gz", first_episode(lambda e: e["actions"].__setitem__(0, 9)), "actions: "),
    ],
)
def test_a_file_that_is_not_whole_is_called_broken(tmp_path, name, change, reason):
    comparison = compare_changed(tmp_path, name, change)
    assert not comparison.passed and reason in comparison.broken
    assert "\n" not in comparison.line()


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:500], lambda data: b"", lambda data: b"plain", lambda data: gzip.compress(b"{")]
)
def test_a_damaged_file_does_not_stop_the_others(tmp_path, capsys, spoil):
    (tmp_path / "stats_binary.json.gz").write_bytes(spoil((DATA / "stats_binary.json.gz").read_bytes()))
    (tmp_path / "stats_zelda.json.gz").write_bytes((DATA / "stats_zelda.json.gz").read_bytes())
    assert main(["parity", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("stats_binary.json.gz") and "broken: " in lines[0]
    assert "20 of 20 maps agree" in lines[1]
    assert lines[2] == "1 of 2 files do not agree: stats_binary.json.gz"


def test_command_prints_every_file_and_ends_with_0(capsys):
    assert main(["parity", str(DATA)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13 and lines[-1] == "all 12 files agree"


def test_command_prints_the_first_disagreements_and_ends_with_1(tmp_path, capsys):
    def change(content):
        for entry in content["maps"][:7]:
            entry["stats"]["regions"] += 1

    compare_changed(tmp_path, "stats_binary.json.gz", change)
    assert main(["parity", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "13 of 20 maps agree" in lines[0]
    assert len(lines) == 1 + 5 + 1 + 1 and lines[6].strip() == "… and 2 more"


def test_missing_or_empty_folder_is_one_clear_line(tmp_path, capsys):
    for folder, reason in ((tmp_path / "nowhere", "no folder"), (tmp_path, "holds no stats_")):
        assert main(["parity", str(folder)]) == 1
        printed = capsys.readouterr()
        assert reason in printed.err and printed.err.count("\n") == 1 and printed.out == ""
    with pytest.raises(ValueError, match="no folder"):
        find_recordings(tmp_path / "nowhere")

"""The statistics against recordings of the original gym-pcgrl (see data/README.md)."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from metapcg.games import evaluate, get_game, solve
from metapcg.games.deadlocks import corner_deadlocks
from metapcg.games.sokoban_solver import (
    BREADTH_FIRST,
    at_places,
    crate_search,
    number_cells,
    rank_targets,
    read_room,
    search_space,
)

DATA = Path(__file__).parent / "data"


def recordings(name):
    with gzip.open(DATA / f"stats_{name}.json.gz", "rt") as file:
        return json.load(file)


def statistics(game, level, quirks, power=5000):
    stats = np.full(len(game.statistics), -7, np.int64)
    evaluate(game.index, game.check_level(level), power, quirks, stats)
    return dict(zip(game.statistics, stats.tolist(), strict=True))


def test_the_shares_of_the_recordings_are_complete():
    assert {name: len(recordings(name)["maps"]) for name in ("binary", "zelda", "sokoban")} == {
        "binary": 300,
        "zelda": 300,
        "sokoban": 314,
    }


@pytest.mark.parametrize("name", ["binary", "zelda", "sokoban"])
def test_quirks_mode_repeats_every_recorded_statistic(name):
    game = get_game(name)
    data = recordings(name)
    assert data["tiles"] == list(game.tiles)
    for record in data["maps"]:
        expected = {key: value for key, value in record["stats"].items() if key != "solution"}
        if name == "sokoban":
            expected["ratio"] = abs(expected["crate"] - expected["target"])
        assert statistics(game, np.array(record["map"]), True, data["solver_power"]) == expected, record


def test_quirks_mode_repeats_every_recorded_search_and_solution():
    data = recordings("sokoban")
    searched = [record for record in data["maps"] if record["solver"]]
    for record in searched:
        level = get_game("sokoban").check_level(np.array(record["map"]))
        assert solve(level, data["solver_power"], quirks=True)[1] == record["stats"]["solution"]
        width = level.shape[1] + 2
        wall, target = read_room(level)
        room, player, crates, targets, places = number_cells(level)
        dead = at_places(corner_deadlocks(wall, target, width), places)
        space = search_space(*level.shape, data["solver_power"])
        ranks = rank_targets(*room[1:], targets)
        known = np.zeros(2, np.int64)
        for _, balance, iterations, won, heuristic in record["solver"]:
            halves = BREADTH_FIRST if balance is None else int(2 * balance)
            power = data["solver_power"]
            result = crate_search(room, player, crates, targets, ranks, dead, halves, power, True, 0, known, space)
            assert result[:3] == (won, iterations, heuristic), record
    names = {record["solver"][-1][0] + str(record["solver"][-1][1]) for record in searched if record["solver"][-1][3]}
    assert names == {"bfsNone", "astar1", "astar0.5", "astar0"}, "the share lost its hard levels"


def test_default_solver_is_never_worse_than_the_recorded_searches():
    data = recordings("sokoban")
    power = data["solver_power"]
    out_of_budget = 0
    for record in data["maps"]:
        if not record["solver"]:
            continue
        stats = record["stats"]
        status, solution, dist_win = solve(np.array(record["map"]), power)
        if record["solver"][-1][3]:
            assert status == "solved" and dist_win == 0
            if record["solver"][-1][0] == "bfs":
                assert len(solution) == stats["sol-length"]
            else:
                out_of_budget += 1
                assert len(solution) <= stats["sol-length"]
        elif all(iterations < power for _, _, iterations, _, _ in record["solver"]):
            assert (status, dist_win) == ("unsolvable", stats["dist-win"])
        else:
            out_of_budget += 1
            assert dist_win <= stats["dist-win"]
    assert out_of_budget == 24


def test_exact_path_is_at_least_the_recorded_double_sweep_and_sometimes_longer():
    game = get_game("binary")
    gains = []
    for record in recordings("binary")["maps"]:
        stats = statistics(game, np.array(record["map"]), False)
        assert stats["regions"] == record["stats"]["regions"]
        gains.append(stats["path-length"] - record["stats"]["path-length"])
    assert min(gains) == 0 and np.count_nonzero(gains) > 10

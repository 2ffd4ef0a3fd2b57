"""The descriptions of the games, their settings, and what is refused."""

import numpy as np
import pytest

from metapcg.games import GAMES, evaluate, get_game, tiles


def test_unknown_game_is_refused_with_the_known_names():
    with pytest.raises(ValueError, match="'pacman'.*binary, zelda, sokoban"):
        get_game("pacman")


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
def test_description_is_consistent(game):
    assert get_game(game.name) is game
    assert len(game.tiles) == len(game.codes) == len(game.probabilities) == game.num_tiles
    assert game.probabilities.sum() == pytest.approx(1.0)
    assert game.statistics == game.terms
    assert len(game.terms) == len(game.weights) == len(game.low) == len(game.high)
    low, high = game.bounds()
    assert np.array_equal(low, game.low) and np.array_equal(high, game.high)


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
def test_own_tiles_map_to_union_codes_of_the_same_name(game):
    assert [tiles.TILE_NAMES[code] for code in game.codes] == list(game.tiles)


def test_union_codes_are_numbered_as_observations_expect():
    assert [tiles.EMPTY, tiles.SOLID, tiles.PLAYER, tiles.KEY, tiles.DOOR, tiles.BAT] == list(range(6))
    assert [tiles.SCORPION, tiles.SPIDER, tiles.CRATE, tiles.TARGET, tiles.OUTSIDE] == list(range(6, 11))
    assert tiles.NUM_CODES == 11


def test_descriptions_cannot_be_changed_by_accident():
    game = get_game("zelda")
    with pytest.raises(ValueError, match="read-only"):
        game.weights[0] = 1.0
    with pytest.raises(TypeError):
        game.parameters["target_path"] = 1.0
    with pytest.raises(AttributeError):
        game.name = "other"


def test_parameters_set_the_bounds_that_depend_on_them():
    low, high = get_game("zelda").bounds(max_enemies=7, target_enemy_dist=2)
    assert high[3] == 7 and low[5] == 2
    low, high = get_game("sokoban").bounds(max_crates=2)
    assert high[1] == high[2] == 2


@pytest.mark.parametrize(
    "name, parameters, message",
    [
        ("sokoban", {"target_solution": 10}, "no parameter 'target_solution'; it has min_solution"),
        ("zelda", {"max_enemies": 1}, "max_enemies makes the range of enemies empty"),
        ("binary", {"target_path": -1}, "target_path must be finite and not negative"),
        ("binary", {"target_path": float("nan")}, "target_path must be finite"),
        ("binary", {"target_path": "20"}, "target_path must be a number"),
        ("binary", {"target_path": True}, "target_path must be a number"),
    ],
)
def test_bad_parameters_are_refused_by_name(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        get_game(name).bounds(**parameters)


@pytest.mark.parametrize(
    "level, message",
    [
        (np.full((3, 3), 2), "outside 0..1 of binary"),
        (np.full((3, 3), -1), "outside 0..1 of binary"),
        (np.zeros((0, 3), int), "1 to 32"),
        (np.zeros((3, 33), int), "1 to 32"),
        (np.zeros((3, 3, 3), int), "2-D"),
        (np.full((3, 3), 0.5), "integer"),
    ],
)
def test_bad_levels_are_refused(level, message):
    with pytest.raises(ValueError, match=message):
        get_game("binary").check_level(level)


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
@pytest.mark.parametrize("height, width", [(1, 1), (1, 32), (32, 1), (2, 31), (32, 32)])
@pytest.mark.parametrize("quirks", [False, True])
def test_every_size_is_evaluated_and_overwrites_all_statistics(game, height, width, quirks):
    rng = np.random.default_rng(height * 100 + width)
    for _ in range(20):
        level = rng.choice(game.num_tiles, (height, width), p=game.probabilities).astype(np.uint8)
        before, kept = np.full(len(game.statistics), -1, np.int64), level.copy()
        evaluate(game.index, level, 100, quirks, before)
        after = np.full(len(game.statistics), 12345, np.int64)
        evaluate(game.index, level, 100, quirks, after)
        assert np.array_equal(before, after) and (before >= 0).all()
        assert np.array_equal(level, kept)


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
def test_documentation_has_the_expected_headings(game):
    module = __import__(f"metapcg.games.{game.name}", fromlist=["__doc__"])
    lines = module.__doc__.splitlines()
    for heading in (
        "Description",
        "Action Space",
        "Observation Space",
        "Rewards",
        "Starting State",
        "Episode End",
        "Arguments",
        "Differences from gym-pcgrl",
        "Version History",
    ):
        assert lines[lines.index(heading) + 1] == "-" * len(heading)
    for parameter in game.parameters:
        assert f"``{parameter}`` (" in module.__doc__

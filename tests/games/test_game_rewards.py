"""Rewards: gym-pcgrl's bit for bit under quirks, a difference of potentials by default."""

import numpy as np
import pytest

from metapcg.games import GAMES, evaluate, get_game, goal_reached, potential, range_reward, reward

INF = np.inf


def gym_pcgrl_range_reward(new, old, low, high):
    """The five rules in their order."""
    if low <= new <= high and low <= old <= high:
        return 0.0
    if old <= high and new <= high:
        return min(new, low) - min(old, low)
    if old >= low and new >= low:
        return max(old, high) - max(new, high)
    if new > high and old < low:
        return high - new + old - low
    return high - old + new - low


RANGES = [(1, 1), (2, 5), (4, INF), (-INF, 3), (INF, INF), (-INF, -INF), (-INF, INF), (-2.5, 0.25)]


@pytest.mark.parametrize("low, high", RANGES)
def test_quirks_follow_the_five_rules(low, high):
    for new in range(-4, 9):
        for old in range(-4, 9):
            expected = gym_pcgrl_range_reward(new, old, low, high)
            assert range_reward(new, old, float(low), float(high), True) == expected


@pytest.mark.parametrize("low, high", RANGES)
def test_rewards_telescope_whatever_the_way(low, high):
    rng = np.random.default_rng(0)
    for _ in range(50):
        way = rng.integers(-4, 9, 12)
        total = sum(
            range_reward(new, old, float(low), float(high), False) for old, new in zip(way, way[1:], strict=False)
        )
        assert total == potential(way[-1], float(low), float(high)) - potential(way[0], float(low), float(high))


def test_default_agrees_with_gym_pcgrl_unless_the_whole_range_is_crossed():
    for low, high in RANGES:
        for new in range(-4, 9):
            for old in range(-4, 9):
                crossed = (old < low and new > high) or (old > high and new < low)
                same = range_reward(new, old, float(low), float(high), False) == gym_pcgrl_range_reward(
                    new, old, low, high
                )
                assert same or crossed


def test_crossing_the_range_pays_the_decrease_of_the_distance():
    assert range_reward(7, 0, 2.0, 5.0, False) == 2 - 2
    assert range_reward(7, 0, 2.0, 5.0, True) == 5 - 7 + 0 - 2
    assert range_reward(0, 7, 2.0, 5.0, False) == 2 - 2
    assert range_reward(6, 0, 2.0, 5.0, False) == 2 - 1


@pytest.mark.parametrize(
    "low, high, new, old, expected",
    [(INF, INF, 7, 3, 4), (-INF, -INF, 7, 3, -4), (4, INF, 9, 1, 3), (1, 1, 1, 3, 2), (2, 5, 3, 4, 0)],
)
@pytest.mark.parametrize("quirks", [False, True])
def test_direction_of_the_reward(low, high, new, old, expected, quirks):
    assert range_reward(new, old, float(low), float(high), quirks) == expected
    assert range_reward(old, new, float(low), float(high), quirks) == -expected


def test_terms_are_added_in_order_in_double_precision():
    rng = np.random.default_rng(1)
    for game in GAMES.values():
        for _ in range(200):
            new, old = rng.integers(0, 9, (2, len(game.terms)))
            weights = rng.normal(size=len(game.terms))
            expected = 0.0
            for term, weight in enumerate(weights):
                expected += weight * gym_pcgrl_range_reward(
                    float(new[term]), float(old[term]), game.low[term], game.high[term]
                )
            assert reward(new, old, weights, game.low, game.high, True) == expected


@pytest.mark.parametrize("name", ["binary", "zelda", "sokoban"])
def test_rewards_of_an_episode_sum_to_the_difference_of_potentials(name):
    game = get_game(name)
    rng = np.random.default_rng(2)
    width, height = game.default_size
    low, high = game.bounds()
    low, high = np.where(np.isinf(low), low, low + 1), high  # ranges that are left and entered
    high = np.maximum(low, high)
    level = rng.choice(game.num_tiles, (height, width), p=game.probabilities).astype(np.uint8)
    stats = np.empty((301, len(game.statistics)), np.int64)
    evaluate(game.index, level, 5000, False, stats[0])
    total = 0.0
    for step in range(1, 301):
        level[rng.integers(height), rng.integers(width)] = rng.integers(game.num_tiles)
        evaluate(game.index, level, 5000, False, stats[step])
        total += reward(stats[step], stats[step - 1], game.weights, low, high, False)
    ends = [
        sum(w * potential(s, lo, hi) for w, s, lo, hi in zip(game.weights, row, low, high, strict=True))
        for row in (stats[0], stats[-1])
    ]
    assert total == pytest.approx(ends[1] - ends[0], abs=1e-9)
    assert len(np.unique(stats[:, 0])) > 1


def test_binary_goal_is_one_region_and_a_path_that_grew_enough():
    game = get_game("binary")
    parameters = game.parameter_array(target_path=20)
    for quirks in (False, True):
        assert goal_reached(0, np.array([1, 30]), np.array([5, 10]), parameters, quirks)
        assert not goal_reached(0, np.array([1, 29]), np.array([5, 10]), parameters, quirks)
        assert not goal_reached(0, np.array([2, 90]), np.array([5, 10]), parameters, quirks)

"""The nine Gymnasium environments: Gymnasium's own checker, spaces, seeds, settings, rendering."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from metapcg.envs import LevelEnv, draw_level, environment_ids, from_text, register_environments, to_text
from metapcg.games import GAMES


def play(env, seed, steps, options=None):
    """Everything that an agent with the actions of ``seed`` sees."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed, options=options)]
    for _ in range(steps):
        if env.unwrapped.representation == "wide":
            action = rng.integers(0, env.action_space.nvec)
        else:
            action = rng.integers(env.action_space.n)
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def test_there_are_nine_and_registering_twice_does_no_harm():
    register_environments()
    assert len(environment_ids()) == 9
    assert all(name in gymnasium.registry for name in environment_ids())


@pytest.mark.parametrize("name", environment_ids())
def test_environment_passes_gymnasiums_checker_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name, render_mode="rgb_array")
        check_env(env.unwrapped)


@pytest.mark.parametrize("quirks", [None, "gym-pcgrl"])
@pytest.mark.parametrize("name", environment_ids())
def test_every_observation_is_in_its_space(name, quirks):
    env = gymnasium.make(name, quirks=quirks, width=4, height=9, change_percentage=0.9).unwrapped
    for observation, *_ in play(env, 0, 150):
        assert env.observation_space.contains(observation)
        assert observation["map"].shape == (9, 4)
        assert ("pos" in observation) == (env.representation != "wide")


@pytest.mark.parametrize("name", environment_ids())
def test_same_seed_same_episode_and_observations_are_copies(name):
    first, second = (play(gymnasium.make(name), 3, 40) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one[1:] == other[1:]
        assert all(np.array_equal(one[0][key], other[0][key]) for key in one[0])
    assert not np.array_equal(first[0][0]["map"], first[-1][0]["map"])


def test_info_names_the_statistics_and_counters():
    env = LevelEnv("binary", "wide", width=3, height=1, target_path=2)
    _, info = env.reset(seed=0, options={"map": [[0, 1, 0]]})
    assert info == {"regions": 2, "path-length": 0, "path-imp": 0, "iterations": 0, "changes": 0,
                    "max_iterations": 3, "max_changes": 1}  # fmt: skip
    _, reward, terminated, truncated, info = env.step([1, 0, 0])
    assert info["path-imp"] == 2 and info["regions"] == 1 and info["changes"] == info["iterations"] == 1
    assert (reward, terminated, truncated) == (5 * 1 + 2, True, False)
    _, reward, terminated, truncated, info = env.step([0, 0, 1])
    assert (reward, terminated, truncated, info["iterations"]) == (0.0, True, False, 1)


def test_reset_takes_a_level_and_a_position():
    env = LevelEnv("sokoban", "narrow")
    level = from_text("@$o.. ##### ..... ..... .....".replace(" ", "\n"), "sokoban")
    observation, info = env.reset(seed=0, options={"map": level, "pos": [3, 1]})
    assert np.array_equal(observation["map"], level) and observation["pos"].tolist() == [3, 1]
    assert info["crate"] == 1
    drawn = [env.reset(options={"map": level})[0]["pos"].tolist() for _ in range(20)]
    assert len({tuple(position) for position in drawn}) > 5


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"map": np.zeros((5, 4), int)}, "maps"),
        ({"map": np.full((5, 5), 5)}, "maps"),
        ({"pos": [5, 0]}, "positions"),
        ({"level": 1}, "options"),
    ],
)
def test_impossible_start_is_refused(options, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        LevelEnv("sokoban", "turtle").reset(seed=0, options=options)
    with pytest.raises(ValueError, match="^options: wide"):
        LevelEnv("sokoban", "wide").reset(seed=0, options={"pos": [0, 0]})


@pytest.mark.parametrize(
    ("representation", "action"),
    [("narrow", 3), ("narrow", -1), ("narrow", 1.0), ("narrow", [1]), ("turtle", 6), ("wide", 5), ("wide", [14, 0, 0]),
     ("wide", [0, 0, 2]), ("wide", [0, -1, 0]), ("wide", [0.0, 0.0, 0.0])],
)  # fmt: skip
def test_impossible_action_is_refused(representation, action):
    env = LevelEnv("binary", representation)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="^actions?: "):
        env.step(action)


def test_step_and_render_before_reset_are_refused():
    env = LevelEnv("binary", "narrow", render_mode="ansi")
    with pytest.raises(ValueError, match="^step: "):
        env.step(0)
    with pytest.raises(ValueError, match="^render: "):
        env.render()


def test_wide_acts_on_the_cell_it_names():
    env = LevelEnv("zelda", "wide")
    env.reset(seed=0, options={"map": np.zeros((7, 11), int)})
    observation, *_ = env.step(np.array([9, 2, 5]))
    assert observation["map"][2, 9] == 5 and observation["heatmap"][2, 9] == 1


def test_adjust_param_changes_size_limits_and_spaces():
    env = LevelEnv("zelda", "turtle")
    env.reset(seed=0)
    env.adjust_param(width=6, height=5, change_percentage=0.5, target_path=3, rewards={"regions": -1})
    assert (env.max_changes, env.max_iterations) == (15, 450)
    assert env.observation_space["map"].shape == (5, 6)
    assert env.observation_space["heatmap"].high.max() == 15
    assert env.settings["rewards"] == dict(zip(env.game.terms, [3.0, 3.0, 3.0, 1.0, -1.0, 2.0, 1.0], strict=True))
    with pytest.raises(ValueError, match="^step: "):
        env.step(0)
    assert env.reset()[0]["map"].shape == (5, 6)
    env.adjust_param(warp=True)
    assert (env.max_changes, env.max_iterations) == (15, 450)


def test_quirk_limits_of_the_old_size():
    env = LevelEnv("binary", "narrow", quirks="gym-pcgrl")
    env.adjust_param(width=6, height=5, change_percentage=0.5)
    assert (env.max_changes, env.max_iterations) == (98, 98 * 196)
    env.adjust_param(random_tile=False)
    assert (env.max_changes, env.max_iterations) == (98, 98 * 30)
    env.adjust_param(change_percentage=7.0)
    assert (env.max_changes, env.max_iterations) == (30, 900)


def test_quirk_unknown_names_ignored():
    quirky = LevelEnv("sokoban", "wide", quirks="gym-pcgrl")
    quirky.adjust_param(target_solution=3, colour="red", rewards={"beauty": 1})
    assert quirky.settings == LevelEnv("sokoban", "wide").settings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"target_solution": 3}, "target_solution"),
        ({"colour": "red"}, "colour"),
        ({"width": 0}, "width"),
        ({"height": 33}, "height"),
        ({"change_percentage": 1.2}, "change_percentage"),
        ({"change_percentage": "all"}, "change_percentage"),
        ({"rewards": {"beauty": 1}}, "rewards"),
        ({"rewards": {"regions": np.nan}}, "weights"),
        ({"rewards": {"regions": "much"}}, "rewards"),
        ({"rewards": [1]}, "rewards"),
        ({"probs": {"lava": 0.5}}, "probs"),
        ({"probs": {"empty": -1}}, "probabilities"),
        ({"random_start": 1}, "random_start"),
        ({"random_tile": 1}, "random_tile"),
        ({"max_crates": -1}, "max_crates"),
        ({"random_probs": True}, "random_probs"),
    ],
)
def test_adjust_param_refuses_by_name_and_changes_nothing(settings, name):
    env = LevelEnv("sokoban", "narrow")
    env.reset(seed=0)
    before = env.settings
    with pytest.raises(ValueError, match=name):
        env.adjust_param(change_percentage=0.5, **settings) if "change_percentage" not in settings else (
            env.adjust_param(**settings)
        )
    assert env.settings == before
    env.step(0)


def test_random_start_false_keeps_the_first_level():
    env = LevelEnv("binary", "narrow", random_start=False)
    first, _ = env.reset(seed=0)
    later = [env.reset()[0] for _ in range(5)]
    assert all(np.array_equal(first["map"], observation["map"]) for observation in later)
    assert len({tuple(observation["pos"]) for observation in later}) > 1
    assert not np.array_equal(env.reset(seed=1)[0]["map"], first["map"])


def test_binary_draws_its_density_unless_told_not_to():
    def spread(**settings):
        env = LevelEnv("binary", "narrow", **settings)
        shares = [env.reset(seed=0)[0]["map"].mean()] + [env.reset()[0]["map"].mean() for _ in range(60)]
        return np.std(shares)

    assert spread() > 0.2
    assert spread(random_probs=False) < 0.06
    assert spread(random_probs=False, probs={"empty": 3.0, "solid": 0.0}) == 0


@pytest.mark.parametrize("game", GAMES)
def test_rendering_shows_the_level_and_the_position(game):
    env = LevelEnv(game, "turtle", render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert np.array_equal(env.render(), draw_level(observation["map"], game, position=observation["pos"]))
    env = LevelEnv(game, "wide", render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == to_text(observation["map"], game)
    with pytest.raises(ValueError, match="^render_mode: "):
        LevelEnv(game, "wide", render_mode="human")

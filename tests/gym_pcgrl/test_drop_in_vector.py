"""``PcgrlVectorEnv``: equal to single environments, and Gymnasium's three kinds of autoreset."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import gym_pcgrl
from gym_pcgrl.envs import PcgrlEnv
from gym_pcgrl.vector import PcgrlVectorEnv

IDS = gym_pcgrl.environment_ids()


def assert_same(one, other):
    """Equal nested results of two vector environments, types included."""
    assert type(one) is type(other)
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert_same(list(one), list(other))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    else:
        assert one == other


def single_environments(name, mode, num_envs=3, **settings):
    return SyncVectorEnv([lambda: gymnasium.make(name, **settings)] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", IDS)
def test_gives_what_single_environments_give(name, mode):
    """Observations, rewards, flags and infos, over many episodes, against Gymnasium's own vector environment."""
    settings = {"width": 6, "height": 5, "change_percentage": 0.04}  # of the default size: 7, 3 or 1 changes
    batch = gymnasium.make_vec(name, num_envs=3, autoreset_mode=mode, **settings)
    assert type(batch) is PcgrlVectorEnv and batch.metadata["autoreset_mode"] == mode
    single = single_environments(name, mode, **settings)
    assert batch.observation_space == single.observation_space and batch.action_space == single.action_space
    assert_same(batch.reset(seed=7), single.reset(seed=7))
    batch.action_space.seed(0)
    ends = 0
    for _ in range(130):
        actions = batch.action_space.sample()
        seen = batch.step(actions)
        assert_same(seen, single.step(actions))
        assert batch.observation_space.contains(seen[0])
        ends += (seen[2] | seen[3]).sum()
    assert ends > 3
    assert_same(batch.reset(), single.reset())
    assert_same(batch.reset(seed=[1, None, 2]), single.reset(seed=[1, None, 2]))


@pytest.mark.parametrize("quirks", ["gym-pcgrl", None])
def test_kept_levels_are_kept_one_by_one(quirks):
    settings = {"random_start": False, "quirks": quirks, "change_percentage": 0.05}
    batch = gymnasium.make_vec("binary-turtle-v0", num_envs=3, **settings)
    single = single_environments("binary-turtle-v0", AutoresetMode.NEXT_STEP, **settings)
    first = batch.reset(seed=2)
    assert_same(first, single.reset(seed=2))
    batch.action_space.seed(0)
    starts = 0
    for _ in range(80):
        actions = batch.action_space.sample()
        seen = batch.step(actions)
        assert_same(seen, single.step(actions))
        for index in np.flatnonzero(seen[4]["iterations"] == 0):
            assert np.array_equal(seen[0]["map"][index], first[0]["map"][index])
            starts += 1
    assert starts > 2
    again = batch.reset(seed=[9, None, 8])
    assert_same(again, single.reset(seed=[9, None, 8]))
    kept = [np.array_equal(one, other) for one, other in zip(first[0]["map"], again[0]["map"], strict=True)]
    assert kept == [False, True, False]
    assert_same(batch.reset(), single.reset())


def ending_at_once(mode):
    """Two environments on which the first change ends the episode."""
    env = PcgrlVectorEnv(2, "binary", "wide", autoreset_mode=mode, change_percentage=0.0, target_path=1000)
    observations, _ = env.reset(seed=0)
    return env, observations["map"]


def change(maps, which):
    """Actions that change cell (0, 0) of the environments in ``which`` and nothing in the others."""
    return np.array([[0, 0, maps[i, 0, 0] ^ (i in which)] for i in range(2)])


def test_next_step_shows_the_last_observation_and_then_ignores_an_action():
    env, maps = ending_at_once("NextStep")
    seen, rewards, terminated, truncated, infos = env.step(change(maps, {1}))
    assert truncated.tolist() == [False, True] and not terminated.any() and infos["changes"].tolist() == [0, 1]
    assert seen["map"][1, 0, 0] != maps[1, 0, 0] and "final_obs" not in infos
    seen, rewards, terminated, truncated, infos = env.step(np.array([[0, 0, seen["map"][0, 0, 0]], [-5, 99, 7]]))
    assert not truncated.any() and rewards[1] == 0 and infos["iterations"].tolist() == [2, 0]
    assert not np.array_equal(seen["map"][1], maps[1]) and not seen["heatmap"].any()


def test_same_step_shows_the_next_start_and_hands_out_the_last_observation():
    env, maps = ending_at_once("SameStep")
    seen, rewards, _, truncated, infos = env.step(change(maps, {1}))
    assert truncated.tolist() == [False, True] and infos["iterations"].tolist() == [1, 0]
    assert infos["_final_obs"].tolist() == [False, True] and infos["final_obs"][0] is None
    assert infos["final_obs"][1]["map"][0, 0] != maps[1, 0, 0] and infos["final_obs"][1]["heatmap"].sum() == 1
    assert infos["final_info"]["changes"].tolist() == [0, 1] and not seen["heatmap"].any()
    assert "final_obs" not in env.step(change(seen["map"], set()))[4]


def test_disabled_leaves_the_finished_alone_until_the_mask_names_them():
    env, maps = ending_at_once("Disabled")
    first, *_ = env.step(change(maps, {1}))
    again, rewards, _, truncated, infos = env.step(np.array([[0, 0, maps[0, 0, 0]], [-5, 99, 7]]))
    assert truncated.tolist() == [False, True] and rewards[1] == 0 and infos["iterations"].tolist() == [2, 1]
    assert np.array_equal(first["map"], again["map"])
    started, infos = env.reset(options={"reset_mask": truncated})
    assert np.array_equal(started["map"][0], again["map"][0]) and not np.array_equal(started["map"][1], again["map"][1])
    assert infos["iterations"].tolist() == [2, 0]
    assert env.step(change(started["map"], {0}))[3].tolist() == [True, False]


def test_results_belong_to_the_caller():
    env = gymnasium.make_vec("zelda-narrow-v0", num_envs=2)
    results = env.reset(seed=0)[0], *env.step(np.array([3, 4]))
    before = [results[0]["map"].copy(), results[2].copy(), results[5]["iterations"].copy()]
    for _ in range(5):
        env.step(np.array([5, 6]))
    assert np.array_equal(before[0], results[0]["map"]) and np.array_equal(before[1], results[2])
    assert np.array_equal(before[2], results[5]["iterations"])


def test_gymnasiums_vector_wrappers_count_its_episodes():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("sokoban-turtle-v0", num_envs=4))
    env.reset(seed=0)
    env.action_space.seed(0)
    lengths, total = [], np.zeros(4)
    for _ in range(100):
        _, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        total += rewards
        for index in np.flatnonzero(terminated | truncated):
            assert infos["episode"]["r"][index] == total[index]
            lengths.append(infos["episode"]["l"][index])
            total[index] = 0
    assert len(lengths) > 10 and min(lengths) >= 5


def test_pictures_are_those_of_single_environments():
    batch = gymnasium.make_vec("zelda-narrow-v0", num_envs=2, render_mode="rgb_array")
    batch.reset(seed=3)
    for index, image in enumerate(batch.render()):
        alone = PcgrlEnv("zelda", "narrow", render_mode="rgb_array")
        alone.reset(seed=3 + index)
        assert np.array_equal(alone.render(), image)
    assert (batch.get_border_tile(), batch.get_num_tiles()) == (1, 8)


def test_making_one_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gymnasium.make_vec("binary-wide-v0", num_envs=2).num_envs == 2


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda env: PcgrlVectorEnv(0), "num_envs: "),
        (lambda env: PcgrlVectorEnv(2, autoreset_mode="Never"), "autoreset_mode: "),
        (lambda env: PcgrlVectorEnv(2, render_mode="human"), "render_mode: "),
        (lambda env: PcgrlVectorEnv(2, prob="smb"), "prob: "),
        (lambda env: env.step(np.zeros((2, 3), int)), "step: "),
        (lambda env: env.reset(options={"reset_mask": np.array([True, False])}), "reset_mask: the first"),
        (lambda env: env.reset(options={"reset_mask": [1, 0]}), "reset_mask: needs 2 booleans"),
        (lambda env: env.reset(options={"reset_mask": np.zeros(2, bool)}), "reset_mask: names no"),
        (lambda env: env.reset(options={"level": 1}), "options: 'level' is unknown"),
        (lambda env: env.reset(seed=[1]), "seed: "),
        (lambda env: env.reset(seed="1"), "seed: "),
        (lambda env: env.reset(seed=1) and env.step(np.zeros(2, int)), "actions: wide needs"),
        (lambda env: env.reset(seed=1) and env.step(np.array([[0, 0, 0], [14, 0, 0]])), "actions: .14, 0, 0. of"),
    ],
)  # fmt: skip
def test_mistakes_are_named(act, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        act(PcgrlVectorEnv(2, "binary", "wide"))

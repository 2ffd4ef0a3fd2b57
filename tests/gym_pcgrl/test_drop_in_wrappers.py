"""The wrappers, where the recordings do not reach: mistakes, spaces that follow, actions with quirks put right."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gym_pcgrl.envs import PcgrlEnv
from gym_pcgrl.wrappers import (
    ActionMap,
    ActionMapImagePCGRLWrapper,
    Cropped,
    CroppedImagePCGRLWrapper,
    OneHotEncoding,
    ToImage,
)
from metapcg.envs import LevelEnv


def test_an_id_and_an_environment_give_the_same():
    for game in ("zelda-narrow-v0", PcgrlEnv("zelda", "narrow"), gymnasium.make("zelda-narrow-v0")):
        env = CroppedImagePCGRLWrapper(game, 7)
        assert env.observation_space == Box(0, 1, (7, 7, 8), np.uint8)
    observation, _ = env.reset(seed=0)
    assert (observation.sum(axis=2) == 1).all() and env.observation_space.contains(observation)


def test_wrappers_leave_the_observation_below_as_it_is():
    env = OneHotEncoding(Cropped("sokoban-turtle-v0", 3, 1, "map"), "map")
    seen, _ = env.pcgrl_env.reset(seed=0)
    below = {name: part.copy() for name, part in seen.items()}
    assert env.transform(env.env.transform(seen))["map"].shape == (3, 3, 5)
    assert all(np.array_equal(below[name], seen[name]) for name in below)


def test_crop_is_centred_at_the_position_and_padded_beyond_the_edge():
    level = np.arange(12).reshape(3, 4) % 2
    env = Cropped(PcgrlEnv("binary", "turtle", width=4, height=3), 3, 1, "map")
    assert env.reset(seed=0, options={"map": level, "pos": [3, 0]})[0]["map"].tolist() == [
        [1, 1, 1],
        [0, 1, 1],
        [0, 1, 1],
    ]
    assert env.step(2)[0]["map"].tolist() == [[1, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert env.step(3)[0]["map"].tolist() == [[0, 1, 1], [0, 1, 1], [0, 1, 1]]


def test_a_pad_value_of_its_own_gets_its_own_channel():
    env = OneHotEncoding(Cropped("binary-narrow-v0", 29, 2, "map"), "map")
    assert env.observation_space["map"] == Box(0, 1, (29, 29, 3), np.uint8)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["map"][:, :, 2].sum() == 29 * 29 - 14 * 14


def test_all_spaces_follow_adjust_param_at_any_depth():
    env = ActionMapImagePCGRLWrapper("zelda-wide-v0")
    assert env.action_space == Discrete(7 * 11 * 8)
    env.adjust_param(width=5, height=4)
    assert env.action_space == Discrete(5 * 4 * 8) and env.observation_space.shape == (4, 5, 8)
    observation, _ = env.reset(seed=0)
    observation, *_ = env.step((3 * 5 + 4) * 8 + 6)
    assert observation[3, 4].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert (env.get_border_tile(), env.get_num_tiles()) == (1, 8)
    assert env.render("rgb_array").shape == (6 * 16, 7 * 16, 3)


def test_gymnasiums_wrappers_fit_between():
    inner = gymnasium.wrappers.TimeLimit(PcgrlEnv("binary", "narrow"), 3)
    env = CroppedImagePCGRLWrapper(inner, 5, change_percentage=0.5)
    assert env.pcgrl_env.max_changes == 98
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("rep", ["narrow", "turtle"])
def test_action_map_writes_the_tile_it_names_when_quirks_are_put_right(rep):
    env = ActionMap(PcgrlEnv("zelda", rep, quirks=None, random_tile=False))
    env.reset(seed=0, options={"map": np.ones((7, 11), int), "pos": [2, 3]})
    elsewhere = env.step((6 * 11 + 10) * 8 + 5)
    assert (elsewhere[0]["map"] == 1).all() and elsewhere[4]["changes"] == 0
    x, y = elsewhere[0]["pos"].tolist()
    here = env.step((y * 11 + x) * 8 + 5)
    assert here[0]["map"][y, x] == 5 and here[4]["changes"] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToImage("binary-wide-v0", ["map", "pos"]), "names: 'pos' is no part"),
        (lambda: ToImage("binary-narrow-v0", ["map", "pos"]), "names: an image needs"),
        (lambda: ToImage(Cropped("binary-narrow-v0", 5, 1, "map"), ["map", "heatmap"]), "names: an image needs"),
        (lambda: ToImage("binary-narrow-v0", []), "names: needs at least one"),
        (lambda: OneHotEncoding("binary-narrow-v0", "level"), "name: 'level' is no part"),
        (lambda: OneHotEncoding(ToImage("binary-narrow-v0", ["map"]), "map"), "name: 'map' is no part"),
        (lambda: Cropped("binary-wide-v0", 5, 1, "map"), "game: 'pos' is no part"),
        (lambda: Cropped("binary-narrow-v0", 5, 1, "pos"), "name: only parts with two axes"),
        (lambda: Cropped("binary-narrow-v0", 0, 1, "map"), "crop_size: "),
        (lambda: Cropped("binary-narrow-v0", 5, -1, "map"), "pad_value: "),
        (lambda: Cropped("binary-narrow-v0", 5, True, "map"), "pad_value: "),
        (lambda: Cropped(LevelEnv("binary", "narrow"), 5, 1, "map"), "game: "),
        (lambda: ActionMap(3), "game: "),
    ],
)
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


@pytest.mark.parametrize("action", [-1, 392, 1.0, [1, 2]])
def test_impossible_actions_of_the_map_are_refused(action):
    env = ActionMap("binary-wide-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="^action: needs a whole number from 0 to 391"):
        env.step(action)


def test_arrays_of_one_number_are_actions():
    for env, action in ((CroppedImagePCGRLWrapper("binary-turtle-v0", 5), [4]), (ActionMap("binary-wide-v0"), [391])):
        env.reset(seed=0)
        assert env.step(np.array(action))[4]["iterations"] == 1

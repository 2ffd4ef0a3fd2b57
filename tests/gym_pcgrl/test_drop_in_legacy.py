"""The old four-tuple API with gym 0.26, and what is said where gym is missing."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gym_pcgrl

needs_gym = pytest.mark.skipif(
    importlib.util.find_spec("gym") is None, reason="gym is not installed (pip install 'metapcg[legacy]')"
)
ROOT = Path(__file__).resolve().parents[2]


def test_without_gym_a_clear_message_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name == "gym" or name.startswith("gym.")] + ["gym"]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "gym_pcgrl.legacy", raising=False)
    with pytest.raises(ImportError, match=r"metapcg\[legacy\].*Gymnasium"):
        gym_pcgrl.register_gym()
    with pytest.raises(ImportError, match=r"metapcg\[legacy\].*Gymnasium"):
        importlib.import_module("gym_pcgrl.legacy")


def test_importing_the_package_does_not_import_gym():
    code = "import gym_pcgrl, sys; sys.exit('gym' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120).returncode == 0


@pytest.fixture(scope="module")
def gym():
    gym = importlib.import_module("gym")
    gym_pcgrl.register_gym()
    return gym


@needs_gym
@pytest.mark.parametrize("name", gym_pcgrl.environment_ids())
def test_old_scripts_go_on(gym, name):
    env = gym.make(name)
    env.adjust_param(width=6, height=5, change_percentage=0.5)
    assert env.seed(3) == [3]
    env.action_space.seed(0)
    first = env.reset()
    assert env.observation_space.contains(first)
    for _ in range(5000):  # within max_iterations, 98 * 196 at most, but the changes are used up long before
        observation, reward, done, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation) and isinstance(reward, float)
        if done:
            break
    assert done is True and 0 < info["changes"] <= info["max_changes"]
    assert env.render("rgb_array").shape == (7 * 16, 8 * 16, 3)
    assert (env.get_border_tile(), env.get_num_tiles()) == (1, {"b": 2, "z": 8, "s": 5}[name[0]])
    env.seed(3)
    assert np.array_equal(env.reset()["map"], first["map"])
    assert not np.array_equal(env.reset()["map"], first["map"])
    env.close()


@needs_gym
def test_the_old_api_is_the_new_one_in_other_clothes(gym):
    from gym_pcgrl.envs import PcgrlEnv

    old, new = gym.make("zelda-narrow-v0"), PcgrlEnv("zelda", "narrow")
    old.seed(5)
    old_first, (new_first, _) = old.reset(), new.reset(seed=5)
    assert all(np.array_equal(old_first[part], new_first[part]) for part in new_first)
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = rng.integers(9)
        observation, reward, done, info = old.step(action)
        expected, expected_reward, terminated, truncated, expected_info = new.step(action)
        assert all(np.array_equal(observation[part], expected[part]) for part in expected)
        assert (reward, done, info) == (expected_reward, terminated or truncated, expected_info)
    assert done is True


@needs_gym
def test_wrappers_behind_the_old_api(gym):
    from gym_pcgrl import wrappers
    from gym_pcgrl.legacy import OldApi

    env = OldApi(wrappers.CroppedImagePCGRLWrapper("sokoban-turtle-v0", 9))
    assert isinstance(env, gym.Env) and env.observation_space == gym.spaces.Box(0, 1, (9, 9, 5), np.uint8)
    assert env.observation_space.contains(env.reset()) and len(env.step(0)) == 4
    env.adjust_param(width=7)
    assert env.reset().shape == (9, 9, 5) and env.render("rgb_array").shape == (7 * 16, 9 * 16, 3)
    with pytest.raises(ValueError, match="^env: "):
        OldApi(gym.make("binary-narrow-v0"))


@needs_gym
def test_registering_twice_does_no_harm(gym, recwarn):
    gym_pcgrl.register_gym()
    assert not [warning for warning in recwarn if "Overriding" in str(warning.message)]
    assert gym.envs.registry["binary-wide-v0"].entry_point == "gym_pcgrl.legacy:PcgrlEnv"

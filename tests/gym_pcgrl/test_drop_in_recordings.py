"""Recordings of the original gym-pcgrl, replayed step by step through this package's public interface.

``tests/envs/data`` holds whole episodes of the nine environments. ``data/wrappers.json.gz`` holds what the original's
wrappers gave (version 0.4.0, unchanged, on gym 0.26.2 and NumPy 1.26.4; only gym's random numbers were replaced by
``numpy.random.RandomState``, which the original expects, and gym's checking wrappers left out): for each case the
arguments, the start, the announced space and every step. Actions are numbers of the wrapper's action space.
"""

import gzip
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import gym_pcgrl
from gym_pcgrl import wrappers

ROLLOUTS = Path(__file__).parents[1] / "envs" / "data"


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


WRAPPED = read(Path(__file__).parent / "data" / "wrappers.json.gz")["cases"]


def dictate_positions(env, positions):
    """Let narrow go where the recording went, in place of its own random cells."""
    engine, step, given = env.engine, env.engine.step, iter(positions)
    engine.step = lambda actions: step(actions, np.array([[next(given)]]))


def replay(rep, episode):
    """Go through one recorded episode; the number of steps."""
    env = gymnasium.make(f"{episode['game']}-{rep}-v0")
    for call in episode["adjust_calls"]:
        env.adjust_param(**call)
    start = {"map": np.array(episode["start_map"])}
    if rep != "wide":
        start["pos"] = episode["start_pos"]
    observation, info = env.reset(seed=0, options=start)
    assert np.array_equal(observation["map"], episode["start_map"]) and not observation["heatmap"].any()
    if rep == "narrow" and episode["random_tile"]:
        dictate_positions(env, episode["pos"])
    for index, action in enumerate(episode["actions"]):
        before = observation["map"]
        observation, reward, terminated, truncated, info = env.step(np.array(action) if rep == "wide" else action)
        assert env.observation_space.contains(observation)
        assert np.float64(reward).tobytes() == np.float64(episode["reward"][index]).tobytes(), index
        assert (terminated or truncated) == bool(episode["done"][index]) and not (terminated and truncated)
        recorded = {name: values[index] for name, values in episode["stats"].items()} | {
            "iterations": episode["iterations"][index],
            "changes": episode["changes"][index],
            "max_iterations": episode["max_iterations"],
            "max_changes": episode["max_changes"],
        }
        assert info == recorded, index
        changed = np.argwhere(observation["map"] != before)
        assert len(changed) == episode["changes"][index] - (episode["changes"][index - 1] if index else 0)
        assert rep == "wide" or observation["pos"].tolist() == episode["pos"][index]
    assert np.array_equal(observation["map"], episode["final_map"])
    assert np.array_equal(observation["heatmap"], episode["final_heatmap"])
    assert terminated == episode["end"]["goal"]
    return len(episode["actions"])


@pytest.mark.parametrize("name", gym_pcgrl.environment_ids())
def test_episodes_of_the_original_come_out_the_same(name):
    game, rep, _ = name.split("-")
    content = read(ROLLOUTS / f"rollouts_{game}_{rep}.json.gz")
    assert sum(replay(rep, {"game": game, **episode}) for episode in content["episodes"]) > 70


def as_numbers(observation):
    """An observation as nested lists of whole numbers, as it is recorded."""
    if isinstance(observation, dict):
        return {name: part.astype(int).tolist() for name, part in observation.items()}
    return observation.astype(int).tolist()


@pytest.mark.parametrize("case", WRAPPED, ids=lambda case: f"{case['name']}-{case['game']}-{case['rep']}")
def test_wrappers_of_the_original_come_out_the_same(case):
    game = f"{case['game']}-{case['rep']}-v0"
    env = getattr(wrappers, case["name"])(game, *case["arguments"], **case["settings"])
    space = env.observation_space
    assert env.action_space == gymnasium.spaces.Discrete(case["num_actions"])
    if isinstance(space, gymnasium.spaces.Dict):
        assert {name: list(part.shape) for name, part in space.spaces.items()} == case["space_shape"]
    else:
        assert list(space.shape) == case["space_shape"] and space.high.max() == case["high"]
    assert (env.get_border_tile(), env.get_num_tiles()) == (case["border"], case["tiles"])
    start = {"map": np.array(case["start_map"])} | ({} if case["start_pos"] is None else {"pos": case["start_pos"]})
    observation, info = env.reset(seed=0, options=start)
    assert (info["max_changes"], info["max_iterations"]) == (case["max_changes"], case["max_iterations"])
    assert space.contains(observation) and as_numbers(observation) == case["start_obs"]
    for step in case["steps"]:
        observation, reward, terminated, truncated, info = env.step(step["action"])
        assert space.contains(observation) and as_numbers(observation) == step["obs"]
        assert (reward, terminated or truncated, info) == (step["reward"], step["done"], step["info"])


def test_the_recordings_of_wrappers_cover_every_wrapper_and_environment():
    assert {case["name"] for case in WRAPPED} == {
        "ToImage", "OneHotEncoding", "Cropped", "ActionMap", "CroppedImagePCGRLWrapper", "ActionMapImagePCGRLWrapper",
    }  # fmt: skip
    assert {f"{case['game']}-{case['rep']}-v0" for case in WRAPPED} == set(gym_pcgrl.environment_ids())
    assert sum(len(case["steps"]) for case in WRAPPED) > 300
    assert any(step["reward"] for case in WRAPPED for step in case["steps"])

"""``PcgrlEnv``: ids, Gymnasium's checker, spaces, settings, seeds, pictures."""

import sys
import types
import warnings

import gymnasium
import matplotlib
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

import gym_pcgrl
from gym_pcgrl.envs import PcgrlEnv
from metapcg.envs import to_text

IDS = gym_pcgrl.environment_ids()


def play(env, steps, seed=0):
    """What an agent with random actions sees from here on; goes on after the end of an episode."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        wide = env.representation == "wide"
        seen.append(env.step(rng.integers(0, env.action_space.nvec) if wide else rng.integers(env.action_space.n)))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def test_the_nine_ids_and_registering_twice_does_no_harm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym_pcgrl.register_gymnasium()
    assert set(IDS) == {f"{p}-{r}-v0" for p in ("binary", "zelda", "sokoban") for r in ("narrow", "turtle", "wide")}
    assert all(name in gymnasium.registry for name in IDS)


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_finds_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*opens no window.*")
        env = gymnasium.make(name)
        assert type(env) is PcgrlEnv  # bare, so that its own methods can be called
        check_env(env)


@pytest.mark.parametrize("quirks", ["gym-pcgrl", None])
@pytest.mark.parametrize("name", IDS)
def test_every_observation_is_in_its_space(name, quirks):
    env = gymnasium.make(name, quirks=quirks, width=6, height=3, change_percentage=0.8)
    observation, info = env.reset(seed=1)
    for seen in [(observation, info), *play(env, 120)]:
        assert env.observation_space.contains(seen[0])
        assert ("ratio" not in seen[-1]) and all(type(number) is int for number in seen[-1].values())


def test_spaces_are_those_of_the_original():
    env = PcgrlEnv("zelda", "turtle")
    box = gymnasium.spaces.Box
    assert env.observation_space == gymnasium.spaces.Dict({
        "map": box(0, 7, (7, 11), np.uint8), "heatmap": box(0, 15, (7, 11), np.uint8),
        "pos": box(np.array([0, 0], np.uint8), np.array([10, 6], np.uint8), dtype=np.uint8),
    })  # fmt: skip
    assert env.action_space == gymnasium.spaces.Discrete(12)
    assert PcgrlEnv("binary", "wide").action_space == gymnasium.spaces.MultiDiscrete([14, 14, 2])
    assert PcgrlEnv("sokoban", "narrow").action_space == gymnasium.spaces.Discrete(6)
    assert (env.get_border_tile(), env.get_num_tiles()) == (1, 8)


def test_a_heatmap_that_counts_past_255_is_wider():
    env = PcgrlEnv("binary", "wide", width=32, height=32)
    env.adjust_param(change_percentage=0.4)
    assert env.observation_space["heatmap"] == gymnasium.spaces.Box(0, 409, (32, 32), np.uint16)
    observation, _ = env.reset(seed=0, options={"map": np.zeros((32, 32), int)})
    for step in range(300):
        observation, *_ = env.step([3, 2, (step + 1) % 2])
    assert observation["heatmap"][2, 3] == 300 and env.observation_space.contains(observation)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prob": "smb"}, "prob: unknown name 'smb'"),
        ({"rep": "turtlecast"}, "rep: unknown name"),
        ({"render_mode": "mp4"}, "render_mode: "),
        ({"quirks": "all"}, "quirks: "),
        ({"width": 33}, "size .width.: "),
        ({"quirks": None, "cropped_size": 28}, "cropped_size: unknown setting"),
        ({"quirks": None, "change_percentage": 7}, "change_percentage: "),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        PcgrlEnv(**arguments)


def test_what_the_original_passes_over_is_passed_over():
    env = PcgrlEnv(
        "sokoban", "narrow", cropped_size=28, render=False, target_solution=3, change_percentage=7, probs=None
    )
    assert env.settings["min_solution"] == 18 and env.settings["change_percentage"] == 1
    env.adjust_param(rewards={"crate": 4, "treasure": 1}, probs={"empty": 0.1, "bat": 1})
    assert env.settings["rewards"]["crate"] == 4 and "treasure" not in env.settings["rewards"]
    assert env.settings["probs"] == {"empty": 0.1, "solid": 0.4, "player": 0.05, "crate": 0.05, "target": 0.05}


def test_max_targets_is_another_name_for_max_crates():
    env = PcgrlEnv("sokoban", "wide", max_crates=2)
    env.adjust_param(max_targets=1)
    assert env.settings["max_crates"] == 1 and env.engine.high[0, 1] == env.engine.high[0, 2] == 1
    binary = PcgrlEnv("binary", "wide")
    binary.adjust_param(max_targets=1)
    assert "max_crates" not in binary.settings


@pytest.mark.parametrize("quirks", ["gym-pcgrl", None])
@pytest.mark.parametrize("name", IDS)
def test_an_episode_goes_on_after_adjust_param(name, quirks):
    """With other limits nothing else changes: the same random cells, the same rewards, the counters go on."""
    left_alone, adjusted = (gymnasium.make(name, quirks=quirks) for _ in range(2))
    for env in (left_alone, adjusted):
        env.reset(seed=4)
    rng = np.random.default_rng(0)
    for step in range(8):
        if step == 4:
            adjusted.adjust_param(change_percentage=1.0)
        action = rng.integers(0, left_alone.action_space.nvec) if "wide" in name else rng.integers(1, 3)
        one, other = left_alone.step(action), adjusted.step(action)
        if one[2] or one[3]:
            break
        assert all(np.array_equal(one[0][part], other[0][part]) for part in one[0])
        assert one[1:4] == other[1:4]
        limits = {"max_changes", "max_iterations"}
        assert {k: v for k, v in one[4].items() if k not in limits} == {
            k: v for k, v in other[4].items() if k not in limits
        }
    assert step >= 4 and other[4]["max_changes"] > one[4]["max_changes"]
    one, other = left_alone.reset()[0], adjusted.reset()[0]
    assert all(np.array_equal(one[part], other[part]) for part in one)


def test_new_probabilities_hold_for_the_next_level():
    env = PcgrlEnv("binary", "turtle")
    env.reset(seed=0)
    env.adjust_param(probs={"empty": 0.0, "solid": 1.0})
    assert env.reset()[0]["map"].all() and not env.reset()[0]["map"].all()  # after it random_probs draws again


def test_another_size_ends_the_episode():
    env = PcgrlEnv("binary", "narrow")
    env.reset(seed=0)
    env.adjust_param(width=5)
    with pytest.raises(ValueError, match="^step: "):
        env.step(0)
    assert env.reset()[0]["map"].shape == (14, 5)


def test_a_lower_limit_ends_a_running_episode_at_its_next_step():
    env = PcgrlEnv("binary", "wide", target_path=1000)
    env.reset(seed=0, options={"map": np.zeros((14, 14), int)})
    for x in range(5):
        env.step([x, 0, 1])
    env.adjust_param(change_percentage=0.01)
    assert env.step([0, 0, 1])[2:4] == (False, True)


def test_random_start_false_keeps_the_present_level():
    env = PcgrlEnv("zelda", "turtle")
    env.reset(seed=0)
    present = env.reset()[0]["map"]
    env.adjust_param(random_start=False)
    positions = set()
    for _ in range(12):
        play(env, 5)
        observation, _ = env.reset()
        assert np.array_equal(observation["map"], present)
        positions.add(tuple(observation["pos"].tolist()))
    assert len(positions) > 3
    env.adjust_param(random_start=True)
    assert not np.array_equal(env.reset()[0]["map"], present)


def test_a_seed_decides_everything_and_the_global_generators_nothing():
    def seen(seed):
        env = gymnasium.make("binary-narrow-v0")
        first = env.reset(seed=seed)
        return [part for step in [first, *play(env, 60)] for part in (step[0]["map"], step[0]["pos"])]

    np.random.seed(1)  # noqa: NPY002
    one = seen(5)
    np.random.seed(2)  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(one, seen(5), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, seen(6), strict=True))


def test_quirks_none_puts_the_heatmap_right():
    cells = []
    for quirks in ("gym-pcgrl", None):
        env = PcgrlEnv("binary", "narrow", quirks=quirks, random_tile=False)
        env.reset(seed=0, options={"map": np.zeros((14, 14), int), "pos": [3, 2]})
        observation, *_ = env.step(2)
        cells.append(np.argwhere(observation["heatmap"]).tolist())
    assert cells == [[[2, 4]], [[2, 3]]]


def test_picture_shows_the_level_with_a_border_of_the_border_tile():
    env = PcgrlEnv("zelda", "turtle")
    env.reset(seed=0, options={"map": np.ones((7, 11), int), "pos": [2, 1]})
    image = env.render("rgb_array")
    assert image.shape == (9 * 16, 13 * 16, 3) and image.dtype == np.uint8
    tiles = image.reshape(9, 16, 13, 16, 3).swapaxes(1, 2)
    framed = [(y, x) for y in range(9) for x in range(13) if not np.array_equal(tiles[y, x], tiles[0, 0])]
    assert framed == [(2, 3)]
    assert env.render("ansi") == to_text(np.ones((7, 11), int), "zelda")
    with pytest.raises(ValueError, match="^mode: "):
        env.render("mp4")
    with pytest.raises(ValueError, match="^render: no level"):
        PcgrlEnv().render("rgb_array")
    with pytest.warns(UserWarning, match="does nothing"):
        assert env.render() is None


class Shown(FigureManagerBase):
    """A window that only counts; stands in for one on a screen."""

    def show(self):
        self.canvas.shown = True


class Canvas(FigureCanvasAgg):
    manager_class = Shown
    pictures = []

    def start_event_loop(self, timeout=0):
        Canvas.pictures.append(self.figure.axes[0].images[0].get_array().copy())


@pytest.fixture
def windows(monkeypatch):
    """A matplotlib backend that opens windows."""
    backend = types.ModuleType("backend_of_windows")
    backend.FigureCanvas, backend.FigureManager = Canvas, Shown
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    monkeypatch.setattr(Canvas, "pictures", [])
    before = matplotlib.get_backend()
    matplotlib.use(f"module://{backend.__name__}")
    yield Canvas.pictures
    matplotlib.use(before)


def test_human_shows_every_step_until_the_window_is_closed(windows):
    env = gymnasium.make("binary-turtle-v0", render_mode="human")
    env.reset(seed=0)
    for action in (0, 1, 4):
        env.step(action)
        assert np.array_equal(windows[-1], env.render("rgb_array"))
    assert len(windows) == 4 and env.window_open
    matplotlib.pyplot.close("all")
    env.step(1)
    assert len(windows) == 4 and not env.window_open
    env.close()
    env.close()
    env.step(1)
    assert len(windows) == 5


def test_human_without_a_display_warns_once():
    env = gymnasium.make("binary-turtle-v0", render_mode="human")
    with pytest.warns(UserWarning, match="opens no window") as caught:
        env.reset(seed=0)
        env.step(0)
    assert len(caught) == 1 and not env.window_open

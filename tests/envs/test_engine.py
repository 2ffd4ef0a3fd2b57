"""The batch engine against plain Python, and the promises it makes about batches, ends, streams and settings."""

import numpy as np
import pytest

from metapcg.envs import REPRESENTATIONS, LevelEngine, count_actions
from metapcg.envs.random_streams import GOLDEN_GAMMA, mix64, next_uint64
from metapcg.games import GAMES, evaluate, get_game, goal_reached, reward
from metapcg.games.tiles import OUTSIDE

IDS = [(game, representation) for game in GAMES for representation in REPRESENTATIONS]
EPISODE_BUFFERS = (
    "maps padded crops positions heatmap stats start_stats terminated truncated active iterations changes".split()
)


def snapshot(engine):
    return {name: getattr(engine, name).copy() for name in [*EPISODE_BUFFERS, "rewards"]}


def random_actions(engine, rng):
    return rng.integers(0, engine.num_actions, (engine.num_tasks, engine.num_envs))


class PlainEpisode:
    """One episode in plain Python, written from the description of the representations, not from the engine."""

    def __init__(self, engine):
        self.game, self.representation = engine.game, engine.representation
        self.quirks = engine.quirks is not None
        self.weights, self.low, self.high = engine.weights[0], engine.low[0], engine.high[0]
        self.limits = int(engine.max_changes[0]), int(engine.max_iterations[0])
        self.parameters = engine.game.parameter_array()
        self.power = int(engine.game.parameters.get("solver_power", 0))
        self.level = engine.maps[0, 0].copy()
        self.position = engine.positions[0, 0].tolist()
        self.heatmap = np.zeros_like(self.level)
        self.changes = self.iterations = 0
        self.start_stats = self.stats = self.evaluate()
        self.terminated = self.truncated = False

    def evaluate(self):
        stats = np.zeros(len(self.game.statistics), np.int64)
        evaluate(self.game.index, self.level, self.power, self.quirks, stats)
        return stats

    def step(self, action, next_position):
        """``next_position`` is where the engine went; only narrow with random tiles needs it."""
        self.iterations += 1
        height, width = self.level.shape
        cell, tile = list(self.position), None
        if self.representation == "narrow":
            tile = action - 1 if action > 0 else None
            self.position = next_position
        elif self.representation == "turtle":
            if action < 4:
                step_x, step_y = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
                self.position[0] = min(max(self.position[0] + step_x, 0), width - 1)
                self.position[1] = min(max(self.position[1] + step_y, 0), height - 1)
            else:
                tile = action - 4
        else:
            y, x, tile = np.unravel_index(action, (height, width, len(self.game.tiles)))
            cell = [x, y]
        gained = 0.0
        if tile is not None and self.level[cell[1], cell[0]] != tile:
            self.level[cell[1], cell[0]] = tile
            self.changes += 1
            marked = self.position if self.quirks and self.representation == "narrow" else cell
            self.heatmap[marked[1], marked[0]] += 1
            old, self.stats = self.stats, self.evaluate()
            gained = reward(self.stats, old, self.weights, self.low, self.high, self.quirks)
        goal = goal_reached(self.game.index, self.stats, self.start_stats, self.parameters, self.quirks)
        self.terminated = bool(goal)
        self.truncated = not goal and (self.changes >= self.limits[0] or self.iterations >= self.limits[1])
        return gained


@pytest.mark.parametrize("quirks", [None, "gym-pcgrl"])
@pytest.mark.parametrize(("game", "representation"), IDS)
def test_engine_steps_as_plain_python_does(game, representation, quirks):
    engine = LevelEngine(game, representation, quirks=quirks)
    engine.set_tasks([engine.game.weights], change_percentage=0.5)
    rng = np.random.default_rng(3)
    for episode_seed in range(3):
        engine.reset(episode_seed)
        plain = PlainEpisode(engine)
        while engine.active[0, 0]:
            action = random_actions(engine, rng)
            rewards, _, _ = engine.step(action)
            expected = plain.step(int(action[0, 0]), engine.positions[0, 0].tolist())
            assert rewards[0, 0] == expected
            assert np.array_equal(engine.maps[0, 0], plain.level)
            assert np.array_equal(engine.heatmap[0, 0], plain.heatmap)
            assert np.array_equal(engine.stats[0, 0], plain.stats)
            assert (engine.changes[0, 0], engine.iterations[0, 0]) == (plain.changes, plain.iterations)
            assert (engine.terminated[0, 0], engine.truncated[0, 0]) == (plain.terminated, plain.truncated)
            if representation == "turtle":
                assert engine.positions[0, 0].tolist() == plain.position


@pytest.mark.parametrize(("game", "representation"), IDS)
def test_crops_and_padded_levels_follow_every_edit(game, representation):
    engine = LevelEngine(game, representation, num_tasks=2, num_envs=3, crop=7, size=(9, 6))
    engine.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        union = np.asarray(engine.game.codes)[engine.maps]
        padded = np.pad(union, [(0, 0), (0, 0), (3, 3), (3, 3)], constant_values=OUTSIDE)
        assert np.array_equal(engine.padded, padded)
        if representation != "wide":
            for task, env in np.ndindex(2, 3):
                x, y = engine.positions[task, env]
                assert np.array_equal(engine.crops[task, env], padded[task, env, y : y + 7, x : x + 7])
        engine.step(random_actions(engine, rng))
        if not engine.active.all():
            engine.reset(mask=~engine.active)


@pytest.mark.parametrize(("game", "representation"), IDS)
def test_batch_equals_single_environments(game, representation):
    rng = np.random.default_rng(1)
    settings = {"size": (6, 5), "crop": 3}
    batch = LevelEngine(game, representation, num_tasks=3, num_envs=2, **settings)
    terms = len(batch.game.terms)
    weights, percentages = rng.normal(size=(3, terms)), np.array([0.1, 0.3, 0.6])
    batch.set_tasks(weights, change_percentage=percentages)
    batch.reset(11)
    singles = {}
    for task, env in np.ndindex(3, 2):
        single = singles[task, env] = LevelEngine(game, representation, **settings)
        single.set_tasks(weights[task : task + 1], change_percentage=percentages[task])
        single.reset(0)
        single.set_levels(batch.maps[task : task + 1, env : env + 1], None if representation == "wide" else
                          batch.positions[task : task + 1, env : env + 1])  # fmt: skip
        single.streams[...] = batch.streams[task, env]
    for _ in range(80):
        actions = random_actions(batch, rng)
        batch.step(actions)
        finished = ~batch.active
        for (task, env), single in singles.items():
            single.step(actions[task : task + 1, env : env + 1])
            for name, buffer in snapshot(batch).items():
                assert np.array_equal(getattr(single, name)[0, 0], buffer[task, env]), name
        if finished.any():
            batch.reset(mask=finished)
            for task, env in np.argwhere(finished):
                singles[task, env].reset()


def test_streams_depend_on_seed_and_index_only():
    small = LevelEngine("binary", "narrow", num_tasks=2, num_envs=3)
    large = LevelEngine("binary", "narrow", num_tasks=4, num_envs=7)
    small.reset(5)
    large.reset(5)
    assert np.array_equal(small.maps, large.maps[:2, :3])
    assert np.array_equal(small.positions, large.positions[:2, :3])
    large.reset(6)
    assert not (small.maps == large.maps[:2, :3]).all(axis=(2, 3)).any()


def test_every_environment_has_its_own_stream():
    engine = LevelEngine("binary", "narrow", num_tasks=6, num_envs=7)
    engine.reset(0)
    assert len(np.unique(engine.maps.reshape(42, -1), axis=0)) == 42
    assert len(np.unique(engine.streams.reshape(42, -1), axis=0)) == 42
    first = engine.maps.copy()
    engine.reset()
    assert not (engine.maps == first).all(axis=(2, 3)).any(), "a reset without a seed has to go on, not to start over"


@pytest.mark.parametrize(("game", "representation"), IDS)
def test_same_seed_same_everything(game, representation):
    runs = []
    for seed in (9, np.random.SeedSequence(9)):
        engine = LevelEngine(game, representation, num_tasks=2, num_envs=2)
        engine.reset(seed)
        rng = np.random.default_rng(0)
        run = []
        for _ in range(60):
            engine.step(random_actions(engine, rng))
            run.append(snapshot(engine))
            engine.reset(mask=~engine.active)
        runs.append(run)
    for one, other in zip(*runs, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_masked_reset_leaves_other_environments_alone():
    engine = LevelEngine("zelda", "turtle", num_tasks=2, num_envs=2)
    engine.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        engine.step(random_actions(engine, rng))
    before = snapshot(engine) | {"streams": engine.streams.copy()}
    mask = np.array([[False, True], [False, False]])
    engine.reset(3, mask)
    for name, buffer in before.items():
        assert np.array_equal(getattr(engine, name)[~mask], buffer[~mask]), name
    assert engine.iterations[0, 1] == 0
    fresh = LevelEngine("zelda", "turtle", num_tasks=2, num_envs=2)
    fresh.reset(3)
    assert np.array_equal(engine.maps[0, 1], fresh.maps[0, 1])


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_finished_environments_stay_finished(representation):
    engine = LevelEngine("binary", representation, num_tasks=2, num_envs=3, size=(6, 6))
    engine.set_tasks(np.tile(engine.game.weights, (2, 1)), change_percentage=np.array([0.05, 0.9]))
    engine.reset(2)
    rng = np.random.default_rng(0)
    while engine.active[0].any():
        engine.step(random_actions(engine, rng))
    assert engine.active[1].all(), (
        "the second task has to be in the middle of its episodes for this test to mean anything"
    )
    before = snapshot(engine)
    streams = engine.streams.copy()
    for _ in range(3):
        actions = random_actions(engine, rng)
        actions[0] = -1  # no action at all: those of finished environments are never read
        engine.step(actions)
        assert (engine.rewards[0] == 0).all()
    for name in EPISODE_BUFFERS:
        assert np.array_equal(getattr(engine, name)[0], before[name][0]), name
    assert np.array_equal(engine.streams[0], streams[0])
    assert (engine.iterations[1] == before["iterations"][1] + 3).all()


def corridor(**settings):
    """Three cells in a row, a wall in the middle; digging it out joins two regions to a path of length 2."""
    engine = LevelEngine("binary", "wide", size=(3, 1), parameters={"target_path": 2}, **settings)
    engine.set_levels([[[[0, 1, 0]]]])
    assert engine.max_changes[0] == 1
    return engine, np.array([[2]])  # cell (1, 0), tile 0


def test_goal_wins_over_used_up_changes():
    engine, dig = corridor()
    _, terminated, truncated = engine.step(dig)
    assert terminated[0, 0] and not truncated[0, 0]


def test_used_up_changes_are_a_truncation():
    engine, _ = corridor()
    _, terminated, truncated = engine.step(np.array([[1]]))  # a wall in cell (0, 0)
    assert truncated[0, 0] and not terminated[0, 0]


def test_goal_does_not_end_the_episode_when_told_so():
    engine, dig = corridor(stop_at_goal=False)
    engine.set_limits(2, 100)
    engine.set_levels([[[[0, 1, 0]]]])
    _, terminated, truncated = engine.step(dig)
    assert not terminated[0, 0] and not truncated[0, 0] and engine.active[0, 0]


def test_used_up_iterations_are_a_truncation():
    engine = LevelEngine("binary", "narrow", size=(3, 2))
    engine.reset(0)
    assert (engine.max_changes[0], engine.max_iterations[0]) == (1, 6)
    for step in range(6):
        assert engine.active[0, 0], step
        engine.step(np.array([[0]]))
    assert engine.truncated[0, 0] and not engine.terminated[0, 0] and engine.changes[0, 0] == 0


@pytest.mark.parametrize(
    ("percentage", "changes"), [(0.0, 1), (0.1, 19), (0.2, 39), (0.29, 56), (0.57, 111), (1.0, 196)]
)
def test_limits_are_those_of_gym_pcgrl(percentage, changes):
    engine = LevelEngine("binary", "narrow")
    engine.set_tasks([engine.game.weights], change_percentage=percentage)
    assert max(int(percentage * 14 * 14), 1) == changes
    assert (engine.max_changes[0], engine.max_iterations[0]) == (changes, changes * 196)


def test_horizon_caps_iterations():
    engine = LevelEngine("binary", "narrow", num_tasks=2, horizon=60)
    engine.set_tasks(np.ones((2, 2)), change_percentage=1.0)
    assert (engine.max_iterations == 60).all()
    engine.set_limits(100, np.array([20, 1000]))
    assert engine.max_iterations.tolist() == [20, 60]


def test_rewards_use_each_tasks_own_weights():
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.5]])
    engine = LevelEngine("binary", "wide", num_tasks=3, size=(3, 1))
    infinite = np.full((3, 2), np.inf)
    engine.set_tasks(weights, infinite, infinite)  # every term pays the statistic's growth
    engine.set_levels(np.tile(np.array([[[0, 1, 0]]], np.uint8), (3, 1, 1, 1)))
    rewards, _, _ = engine.step(np.array([[2], [2], [2]]))  # regions 2 → 1, path-length 0 → 2
    assert rewards[:, 0].tolist() == [-1.0, 2.0, 3.0]


def test_new_number_of_tasks_needs_a_new_seed():
    engine = LevelEngine("binary", "narrow", num_envs=2)
    engine.reset(0)
    engine.set_tasks(np.ones((1, 2)))
    with pytest.raises(ValueError, match="^step: "):
        engine.step(np.zeros((1, 2), int))
    engine.reset()
    engine.set_tasks(np.ones((3, 2)))
    assert engine.maps.shape == (3, 2, 14, 14) and engine.num_tasks == 3
    with pytest.raises(ValueError, match="^seed: "):
        engine.reset()
    engine.reset(0)
    engine.step(np.zeros((3, 2), int))


@pytest.mark.parametrize(
    ("action", "warp", "start", "end"),
    [
        (0, False, [0, 1], [0, 1]),
        (1, False, [3, 1], [3, 1]),
        (2, False, [2, 0], [2, 0]),
        (3, False, [2, 2], [2, 2]),
        (0, True, [0, 1], [3, 1]),
        (1, True, [3, 1], [0, 1]),
        (2, True, [2, 0], [2, 2]),
        (3, True, [2, 2], [2, 0]),
        (0, True, [2, 1], [1, 1]),
        (1, False, [2, 1], [3, 1]),
        (2, True, [2, 1], [2, 0]),
        (3, False, [2, 1], [2, 2]),
        (4, True, [0, 0], [0, 0]),
    ],
)
def test_turtle_stays_at_the_edge_or_warps(action, warp, start, end):
    engine = LevelEngine("binary", "turtle", size=(4, 3), warp=warp)
    engine.set_levels(np.ones((1, 1, 3, 4), int), [[start]])
    engine.step([[action]])
    assert engine.positions[0, 0].tolist() == end


def test_narrow_in_order_goes_row_by_row_and_round():
    engine = LevelEngine("binary", "narrow", size=(3, 2), random_tile=False)
    engine.set_limits(10, 100)
    engine.set_levels(np.zeros((1, 1, 2, 3), int), [[[1, 0]]])
    visited = []
    for _ in range(6):
        engine.step([[0]])
        visited.append(engine.positions[0, 0].tolist())
    assert visited == [[2, 0], [0, 1], [1, 1], [2, 1], [0, 0], [1, 0]]


def test_narrow_moves_to_every_cell_equally_often():
    engine = LevelEngine("binary", "narrow", num_tasks=20, num_envs=50, size=(4, 3))
    engine.set_limits(1, 100)
    engine.reset(0)
    counts = np.zeros((3, 4))
    for _ in range(50):
        engine.step(np.zeros((20, 50), int))
        np.add.at(counts, (engine.positions[..., 1], engine.positions[..., 0]), 1)
    expected = 50_000 / 12
    assert ((counts - expected) ** 2 / expected).sum() < 31.3  # chi-square, 11 degrees of freedom, one in a thousand


def test_wide_actions_are_numbered_cell_by_cell():
    engine = LevelEngine("zelda", "wide", size=(5, 3))
    engine.set_levels(np.zeros((1, 1, 3, 5), int))
    engine.step([[(2 * 5 + 1) * 8 + 6]])
    assert engine.maps[0, 0, 2, 1] == 6 and np.count_nonzero(engine.maps) == 1


@pytest.mark.parametrize("game", GAMES)
def test_start_levels_have_the_start_probabilities(game):
    engine = LevelEngine(game, "narrow", num_tasks=20, num_envs=50)
    engine.reset(0)
    shares = np.bincount(engine.maps.ravel(), minlength=engine.num_tiles) / engine.maps.size
    expected = np.asarray(get_game(game).probabilities)
    assert np.abs(shares - expected).max() < 5 * np.sqrt(0.25 / engine.maps.size)
    engine = LevelEngine(game, "narrow", start_probabilities=[0.0] * (engine.num_tiles - 1) + [2.0])
    engine.reset(0)
    assert (engine.maps == engine.num_tiles - 1).all()


def test_quirk_density_of_the_next_map():
    spread = {}
    for quirks in (None, "gym-pcgrl"):
        engine = LevelEngine("binary", "narrow", num_tasks=10, num_envs=20, random_probs=True, quirks=quirks)
        engine.reset(0)
        spread[quirks, "first"] = engine.maps.mean(axis=(2, 3)).std()
        engine.reset()
        spread[quirks, "second"] = engine.maps.mean(axis=(2, 3)).std()
    # U(0, 1) has standard deviation 0.289; at the fixed share 0.5 it is 0.5 / 14 = 0.036
    assert spread["gym-pcgrl", "first"] == pytest.approx(0.036, abs=0.006)
    assert spread["gym-pcgrl", "second"] == pytest.approx(0.289, abs=0.03)
    assert spread[None, "first"] == pytest.approx(0.289, abs=0.03)
    assert spread[None, "second"] == pytest.approx(0.289, abs=0.03)


@pytest.mark.parametrize(("quirks", "marked"), [(None, [0, 0]), ("gym-pcgrl", [2, 1])])
def test_quirk_heatmap_at_next_position(quirks, marked):
    engine = LevelEngine("binary", "narrow", size=(3, 2), quirks=quirks)
    engine.set_levels(np.zeros((1, 1, 2, 3), int), [[[0, 0]]])
    engine.step([[2]], next_positions=[[[2, 1]]])
    assert np.argwhere(engine.heatmap[0, 0])[:, ::-1].tolist() == [marked]


def test_generators_give_their_published_numbers():
    with np.errstate(over="ignore"):
        assert mix64(GOLDEN_GAMMA) == 0xE220A8397B1DCDAF  # splitmix64 from seed 0
    stream = np.array([1, 2, 3, 4], np.uint64)
    first = [int(next_uint64(stream)) for _ in range(5)]
    assert first == [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]


def build(**settings):
    return LevelEngine(
        **{"game": "binary", "representation": "narrow", "num_tasks": 2, "num_envs": 3, "size": (4, 3)} | settings
    )


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"game": "pacman"}, "game"),
        ({"representation": "broad"}, "representation"),
        ({"num_tasks": 0}, "num_tasks"),
        ({"num_envs": 2.0}, "num_envs"),
        ({"size": (33, 5)}, "size"),
        ({"size": (5, 0)}, "size"),
        ({"size": 14}, "size"),
        ({"size": (5.5, 5)}, "size"),
        ({"crop": 4}, "crop"),
        ({"crop": -1}, "crop"),
        ({"random_tile": 1}, "random_tile"),
        ({"warp": "yes"}, "warp"),
        ({"quirks": True}, "quirks"),
        ({"horizon": 0}, "horizon"),
        ({"stop_at_goal": None}, "stop_at_goal"),
        ({"start_probabilities": [1.0]}, "start_probabilities"),
        ({"start_probabilities": [0.5, np.nan]}, "start_probabilities"),
        ({"start_probabilities": [0.0, 0.0]}, "start_probabilities"),
        ({"game": "zelda", "random_probs": True}, "random_probs"),
        ({"parameters": {"target_length": 3}}, "target_length"),
        ({"parameters": [3]}, "parameters"),
        ({"parameters": {"target_path": np.nan}}, "target_path"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings, name):
    with pytest.raises(ValueError, match=name) as error:
        build(**settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda e: e.set_tasks(np.ones((2, 3))), "weights"),
        (lambda e: e.set_tasks(np.ones(2)), "weights"),
        (lambda e: e.set_tasks(np.ones((0, 2))), "weights"),
        (lambda e: e.set_tasks([[1.0, np.nan]]), "weights"),
        (lambda e: e.set_tasks([[1.0, np.inf]]), "weights"),
        (lambda e: e.set_tasks(np.ones((2, 2)), low=np.ones((1, 2)), high=np.ones((2, 2))), "low"),
        (lambda e: e.set_tasks(np.ones((2, 2)), low=np.full((2, 2), np.nan)), "low"),
        (lambda e: e.set_tasks(np.ones((2, 2)), low=np.full((2, 2), 2.0), high=np.ones((2, 2))), "low"),
        (lambda e: e.set_tasks(np.ones((2, 2)), change_percentage=[0.1]), "change_percentage"),
        (lambda e: e.set_tasks(np.ones((2, 2)), change_percentage=1.5), "change_percentage"),
        (lambda e: e.set_tasks(np.ones((2, 2)), change_percentage=np.nan), "change_percentage"),
        (lambda e: e.set_limits(0, 5), "max_changes"),
        (lambda e: e.set_limits(70_000, 5), "max_changes"),
        (lambda e: e.set_limits(5, [1.0, 2.0]), "max_iterations"),
        (lambda e: build().reset(), "seed"),
        (lambda e: build().reset(0, np.array([[True, False, True]] * 2)), "mask"),
        (lambda e: e.reset(-1), "seed"),
        (lambda e: e.reset("0"), "seed"),
        (lambda e: e.reset(0, np.ones((3, 2), bool)), "mask"),
        (lambda e: e.reset(0, np.ones((2, 3), int)), "mask"),
        (lambda e: e.set_levels(np.zeros((2, 3, 4, 3), int)), "maps"),
        (lambda e: e.set_levels(np.zeros((2, 3, 3, 4))), "maps"),
        (lambda e: e.set_levels(np.full((2, 3, 3, 4), 2)), "maps"),
        (lambda e: e.set_levels(np.full((2, 3, 3, 4), -1)), "maps"),
        (lambda e: e.set_levels(np.zeros((2, 3, 3, 4), int), np.full((2, 3, 2), 3)), "positions"),
        (lambda e: e.set_levels(np.zeros((2, 3, 3, 4), int), np.zeros((2, 3), int)), "positions"),
        (lambda e: build().step(np.zeros((2, 3), int)), "step"),
        (lambda e: e.step(np.zeros((2, 3))), "actions"),
        (lambda e: e.step(np.zeros(3, int)), "actions"),
        (lambda e: e.step(np.full((2, 3), 3)), "actions"),
        (lambda e: e.step(np.full((2, 3), -1)), "actions"),
        (lambda e: e.step(np.zeros((2, 3), int), np.full((2, 3, 2), 9)), "next_positions"),
        (lambda e: count_actions("broad", 2, 3, 4), "representation"),
    ],
)
def test_mistakes_are_refused_by_name_and_change_nothing(call, name):
    engine = build()
    engine.reset(0)
    before = snapshot(engine) | {"streams": engine.streams.copy(), "weights": engine.weights.copy()}
    with pytest.raises(ValueError, match=f"^{name}: ") as error:
        call(engine)
    assert "\n" not in str(error.value)
    for buffer, value in before.items():
        assert np.array_equal(getattr(engine, buffer), value), buffer
    engine.step(np.zeros((2, 3), int))


def test_restart_takes_the_levels_and_positions_that_were_written():
    engine = build()
    with pytest.raises(ValueError, match="^mask: "):
        engine.restart(np.array([[True, False, False], [False, False, False]]))
    engine.reset(0)
    streams = engine.streams.copy()
    engine.step(np.ones((2, 3), int))
    engine.maps[1, 2], engine.positions[1, 2] = 1, (3, 2)
    mask = np.zeros((2, 3), bool)
    mask[1, 2] = True
    engine.restart(mask)
    assert engine.stats[1, 2].tolist() == engine.start_stats[1, 2].tolist() == [0, 0]
    assert engine.iterations.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert (engine.crops[1, 2, 2] == [1, 1, 1, OUTSIDE, OUTSIDE]).all()
    assert (engine.streams != streams).any(axis=2).all(), "a step of narrow draws; restarting must not turn that back"
    engine.maps[0, 0, 1, 1] = 2
    engine.positions[0, 1] = (4, 0)
    engine.restart(mask)
    for name in ("maps", "positions"):
        mask[...] = False
        mask[0, int(name == "positions")] = True
        with pytest.raises(ValueError, match=f"^{name}: "):
            engine.restart(mask)


@pytest.mark.parametrize("game", GAMES)
def test_statistics_follow_edits_at_the_edges_and_when_cells_join_or_part_regions(game):
    engine = LevelEngine(game, "wide", num_envs=4, size=(4, 3), stop_at_goal=False)
    engine.set_limits(60_000, 60_000)
    engine.reset(0)
    rng = np.random.default_rng(1)
    whole = np.zeros(len(engine.game.statistics), np.int64)
    for _ in range(1500):
        engine.step(random_actions(engine, rng))
        for level, stats in zip(engine.maps[0], engine.stats[0], strict=True):
            evaluate(engine.game.index, level, int(engine.parameters.get("solver_power", 0)), False, whole)
            assert stats.tolist() == whole.tolist(), level.tolist()


@pytest.mark.parametrize("representation", ["turtle", "wide"])
def test_next_positions_are_for_narrow_only(representation):
    engine = build(representation=representation)
    engine.reset(0)
    with pytest.raises(ValueError, match="^next_positions: "):
        engine.step(np.zeros((2, 3), int), np.zeros((2, 3, 2), int))

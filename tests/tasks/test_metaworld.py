"""ML1 reach of Meta-World: the same numbers as its own environments, and the contract of the batched problems."""

import sys

import numpy as np
import pytest

from metapcg.tasks.metaworld import MAX_HORIZON, NUM_GOALS, ReachBenchmark, greedy_actions

WHY = "Meta-World is an extra that is not installed: pip install -e '.[metaworld]'"


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("metaworld", reason=WHY).ML1("reach-v3", seed=3)


@pytest.fixture(scope="module")
def benchmark(theirs):
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    made = ReachBenchmark(seed=3)
    assert np.array_equal(before, np.random.get_state()[1]), "the global generator was changed"  # noqa: NPY002
    return made


def test_without_meta_world_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "metaworld", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[metaworld\]'"):
        ReachBenchmark()


def test_the_goals_are_the_benchmarks(theirs, benchmark):
    assert len(benchmark.train) == len(benchmark.test) == NUM_GOALS
    assert not np.isin(benchmark.train.goals, benchmark.test.goals).any()
    arm = theirs.train_classes["reach-v3"]()
    for tasks, own in ((theirs.train_tasks, benchmark.train), (theirs.test_tasks, benchmark.test)):
        for index in (0, 17):
            arm.set_task(tasks[index])
            arm.reset()
            assert np.array_equal(arm._target_pos, own.goals[index])


def test_a_batch_gives_the_numbers_of_separate_environments(theirs, benchmark):
    problem = benchmark.problem(benchmark.test[[4, 9]], 2, horizon=12)
    arms = [[theirs.test_classes["reach-v3"]() for _ in range(2)] for _ in range(2)]
    for row, index in zip(arms, (4, 9), strict=True):
        for arm in row:
            arm.set_task(theirs.test_tasks[index])
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (12, 2, 2, 4)).astype(np.float32)
    for episode in range(2):  # the second one after the simulator has been elsewhere
        obs = problem.reset(episode)
        assert np.array_equal(obs, np.array([[arm.reset()[0] for arm in row] for row in arms], dtype=np.float32))
        for action in actions:
            obs, reward, *_ = problem.step(action)
            for m, e in np.ndindex(2, 2):
                one, paid, *_ = arms[m][e].step(action[m, e])
                assert np.array_equal(obs[m, e], one.astype(np.float32))
                assert reward[m, e] == np.float32(paid)
        assert not np.array_equal(obs[0, 0], obs[0, 1])


def test_straight_to_the_goal_succeeds_and_standing_still_does_not(benchmark):
    problem = benchmark.problem(benchmark.train[:4], 1, horizon=80)
    problem.reset(0)
    for _ in range(80):
        _, reward, terminated, truncated = problem.step(greedy_actions(problem))
    assert problem.succeeded.all() and reward == pytest.approx(10.0)
    assert truncated.all() and not terminated.any() and not problem.active.any()
    obs, reward, *_ = problem.step(greedy_actions(problem))
    assert not reward.any()  # a finished arm pays nothing and stays
    assert np.array_equal(obs, problem.step(np.ones((4, 1, 4)))[0])
    problem.reset(0)
    assert not problem.succeeded.any()
    for _ in range(20):
        problem.step(np.zeros((4, 1, 4)))
    assert not problem.succeeded.any() and problem.active.all()


def test_the_goal_is_not_observed(benchmark):
    problem = benchmark.problem(benchmark.train[:3], 2, horizon=5)
    obs = problem.reset(0)
    assert obs.shape == (3, 2, 39) and obs.dtype == np.float32
    assert not obs[..., 36:].any()
    assert not problem.step(np.ones((3, 2, 4)))[0][..., 36:].any()
    assert (problem.reset(0) == obs).all()  # arrays handed out are not overwritten, and a reset starts the same again


@pytest.mark.parametrize(
    ("num_envs", "horizon", "named"), [(0, 5, "num_envs"), (1, 0, "horizon"), (1, MAX_HORIZON + 1, "horizon")]
)
def test_bad_settings_are_refused_by_name(benchmark, num_envs, horizon, named):
    with pytest.raises(ValueError, match=f"^{named}: "):
        benchmark.problem(benchmark.train[:1], num_envs, horizon)
    with pytest.raises(ValueError, match="^tasks: "):
        benchmark.problem(benchmark.train[:0])
    with pytest.raises(ValueError, match="^seed: "):
        ReachBenchmark(-1)


def test_bad_actions_are_refused(benchmark):
    problem = benchmark.problem(benchmark.train[:1], 2)
    with pytest.raises(RuntimeError, match="reset"):
        problem.step(np.zeros((1, 2, 4)))
    problem.reset(0)
    with pytest.raises(ValueError, match="shape"):
        problem.step(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="finite"):
        problem.step(np.full((1, 2, 4), np.nan))

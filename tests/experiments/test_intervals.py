"""Bootstrap intervals: they cover, they see seeds, and comparisons are made on the same tasks."""

from __future__ import annotations

import numpy as np
import pytest

from metapcg.experiments.intervals import (
    Interval,
    bootstrap,
    difference_interval,
    equals_random,
    mean_interval,
    share_interval,
)


def test_an_interval_of_tasks_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = sum(3.0 in mean_interval([rng.normal(3, 2, 40)], resamples=300) for _ in range(300))
    # 300 trials of a 94 % interval (percentile intervals of 40 values are a little narrow): within four deviations.
    assert 0.88 < hits / 300 < 0.99


def test_an_interval_over_seeds_covers_when_trainings_differ():
    rng = np.random.default_rng(1)

    def results():
        return [rng.normal(rng.normal(0, 1), 0.3, 20) for _ in range(10)]

    hits = sum(0.0 in mean_interval(results(), resamples=300) for _ in range(300))
    assert 0.82 < hits / 300 < 0.99
    pooled = sum(0.0 in mean_interval([np.concatenate(results())], resamples=300) for _ in range(100))
    assert pooled / 100 < 0.6, "tasks pooled over seeds must be seen to cover too rarely, or the test shows nothing"


def test_a_difference_is_paired_over_tasks():
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 10, 30)  # how hard each task is, the same for both
    interval = difference_interval([hard + 1 + rng.normal(0, 0.1, 30)], [hard])
    assert interval.high - interval.low < 0.2
    assert 1.0 == pytest.approx(interval.mean, abs=0.1)


def test_the_oracle_has_a_share_of_one_and_random_of_nothing():
    rng = np.random.default_rng(3)
    random, oracle = [rng.normal(0, 1, 50)], [rng.normal(8, 1, 50)]
    assert share_interval(oracle, random, oracle) == Interval(1.0, 1.0, 1.0)
    assert share_interval(random, random, oracle) == Interval(0.0, 0.0, 0.0)
    half = share_interval([(random[0] + oracle[0]) / 2], random, oracle)
    assert half.mean == pytest.approx(0.5) and half.low == pytest.approx(0.5)


def test_a_share_of_an_oracle_that_is_no_better_than_random_is_not_defined():
    rng = np.random.default_rng(4)
    random, oracle = [rng.normal(0, 1, 50)], [rng.normal(0.1, 1, 50)]
    assert not share_interval([rng.normal(3, 1, 50)], random, oracle).defined


def test_what_equals_random_is_said_to_and_what_does_not_is_not():
    rng = np.random.default_rng(5)
    random = [rng.normal(0, 2, 40) for _ in range(3)]
    assert equals_random([rng.normal(0, 2, 40) for _ in range(3)], random)
    assert not equals_random([r + rng.normal(2, 1, 40) for r in random], random)
    assert not equals_random([r - rng.normal(2, 1, 40) for r in random], random), "worse than random is not equal to it"


def test_the_same_data_give_the_same_interval():
    data = [np.random.default_rng(6).normal(0, 1, 20)]
    assert mean_interval(data) == mean_interval(data)


def test_data_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="at least one seed"):
        bootstrap([])
    with pytest.raises(ValueError, match="no tasks"):
        bootstrap([np.zeros(0)])
    with pytest.raises(ValueError, match="finite"):
        bootstrap([np.array([1.0, np.nan])])
    with pytest.raises(ValueError, match="same tasks"):
        difference_interval([np.zeros(3)], [np.zeros(4)])
    with pytest.raises(ValueError, match="numbers of seeds"):
        difference_interval([np.zeros(3)], [np.zeros(3), np.zeros(3)])

"""MAML on ML1 reach of Meta-World with a notebook's functions: it runs, can be repeated, and mistakes are one line."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from metapcg.__main__ import main
from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.reach import ReachBudget, run_reach

WHY = "Meta-World is an extra that is not installed: pip install -e '.[metaworld]'"
FUNCTIONS = NotebookFunctions(resolve_notebooks())
TINY = ReachBudget(iterations=2, tasks=3, episodes=2, horizon=8, test_tasks=2, test_episodes=2)


def test_the_notebooks_functions_train_on_it_and_the_seed_decides_everything():
    pytest.importorskip("metaworld", reason=WHY)
    rates = []

    def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):
        rates.append(inner_lr)
        return FUNCTIONS.adapt(params, collect, loss_fn, inner_lr, num_steps, first_order)

    rows = []
    own = SimpleNamespace(adapt=adapt, meta_loss=FUNCTIONS.meta_loss)
    first = run_reach(own, FUNCTIONS.surrogate_lvc, TINY, 0, lambda iteration, row: rows.append(row))
    assert rates == 3 * [0.1, 0.05]  # three evaluations of two steps, the second one half as long
    assert [row["env_steps"] for row in rows] == [96, 192]  # 3 goals x 2 arms x 8 steps, before and after adaptation
    straight, reached = first.pop("straight to the goal")
    assert straight.shape == reached.shape == (2, 1) and (straight[:, 0] > first["random init"][0][:, 0]).all()
    for returns, successes in first.values():
        assert returns.shape == successes.shape == (2, 3)
        assert (returns > 0).all() and (returns < 80).all()
    # No inner step has been made yet, so nothing but training tells the two apart.
    assert not np.array_equal(first["MAML"][0][:, 0], first["random init"][0][:, 0])
    again = run_reach(FUNCTIONS, FUNCTIONS.surrogate_lvc, TINY, 0)
    for name, (returns, successes) in first.items():
        assert np.array_equal(returns, again[name][0]) and np.array_equal(successes, again[name][1])


def test_the_command_prints_return_and_success_before_and_after(capsys):
    pytest.importorskip("metaworld", reason=WHY)
    sizes = ["--iterations", "1", "--tasks", "2", "--episodes", "2", "--horizon", "5", "--test-tasks", "2"]
    assert main(["reach", *sizes]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("[1/1] training goals: return ")
    assert lines[2].split() == ["return,", "success", "rate", "step", "0", "step", "1", "step", "2"]
    assert [line[:24].strip() for line in lines[3:6]] == ["MAML", "random init", "MAML, training goals"]
    assert all(line.count("0.0%") == 3 for line in lines[3:6])  # nobody gets there in five steps
    assert lines[6].startswith("straight to the goal") and lines[6].count("0.0%") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pip install -e '.[metaworld]'"),
        (["--surrogate", "best"], "surrogate: unknown value 'best'"),
        (["--inner-lr", "nan"], "inner_lr: needs a positive finite number"),
        (["--tasks", "51"], "tasks: ML1 has 50 goals"),
        (["--solutions", "nowhere.ipynb"], "there is no notebook"),
    ],
)
def test_mistakes_are_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "metaworld", None)
    assert main(["reach", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1

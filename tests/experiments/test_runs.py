"""Run folders: complete or resumable, never half-written, never somebody else's."""

from __future__ import annotations

import json
import linecache
import shutil
import threading
import types

import numpy as np
import pytest
from filelock import FileLock

from metapcg.experiments import run_files
from metapcg.experiments.algorithms import ALGORITHMS, Session
from metapcg.experiments.budgets import BUDGETS, UNTRAINED
from metapcg.experiments.functions import FunctionSet, fingerprint
from metapcg.experiments.runs import RunSettings, execute_run, load_run, run_fingerprint, run_name, settings_for
from metapcg.learning import solutions

COMPARED = ("settings.json", "history.csv", "adaptation.csv", "left_out.csv", "levels.npz", "params.pt", "done.json")
"""Files that must be the same bytes in two executions of a run: all but the timing."""


class Stopped(Exception):
    """Stands for a kill in the middle of training."""


def stop_after(iterations):
    def on_iteration(iteration, params, row):
        if iteration + 1 == iterations:
            raise Stopped

    return on_iteration


def same_results(first, second):
    for name in COMPARED:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.fixture(scope="module")
def complete(tmp_path_factory, functions, tiny_settings):
    """The folder of a complete MAML run; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("complete") / "run"
    execute_run(tiny_settings(), functions, folder)
    return folder


def test_second_process_on_the_same_run_waits_and_only_reads(tmp_path, functions, tiny_settings):
    folder, settings = tmp_path / "run", tiny_settings()
    folder.mkdir()
    trained = []

    def execute():
        execute_run(settings, functions, folder, on_iteration=lambda *row: trained.append(row[0]))

    with FileLock(folder / ".lock") as lock:
        other = threading.Thread(target=execute)
        other.start()
        other.join(0.5)
        assert other.is_alive() and not trained, "it did not wait for the process that holds the run"
        lock.release()
        other.join()
    assert trained == list(range(settings.iterations))
    execute()
    assert trained == list(range(settings.iterations)), "a complete run was executed again"
    assert not (folder / ".lock").exists()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_gives_one_return_per_task_and_step(algorithm, tmp_path, functions, tiny_settings):
    settings = tiny_settings(algorithm)
    result = execute_run(settings, functions, tmp_path / "run")
    steps = 1 if algorithm in ("oracle", "random") else settings.eval_steps + 1
    for split in settings.splits:
        assert result.splits[split].returns.shape == (settings.eval_tasks, steps)
        assert np.isfinite(result.splits[split].returns).all()
    assert len(result.history) == settings.iterations
    assert "seconds" not in (result.folder / "history.csv").read_text()
    assert not (result.folder / "state.pt").exists()


def test_a_complete_run_is_read_and_not_computed_again(complete, functions, tiny_settings):
    before = {path: path.stat().st_mtime_ns for path in complete.iterdir()}

    def never(*_):
        raise AssertionError("trained again")

    result = execute_run(tiny_settings(), functions, complete, on_iteration=never)
    assert {path: path.stat().st_mtime_ns for path in complete.iterdir()} == before
    assert result.settings == tiny_settings()


@pytest.mark.parametrize(
    ("algorithm", "changed"),
    [
        ("maml", {}),
        ("maml", {"outer": "trust-region"}),
        ("fomaml", {"outer": "clipped", "outer_epochs": 2}),
        ("oracle", {}),
        ("rl2", {"minibatches": 2, "trial_episodes": 3}),
    ],
)
def test_a_stopped_run_ends_with_the_numbers_of_an_undisturbed_one(
    algorithm, changed, tmp_path, functions, tiny_settings
):
    settings = tiny_settings(algorithm, **changed)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    execute_run(settings, functions, whole)
    for iterations in (1, 3, 4):  # before the first state, between states, after the last iteration
        with pytest.raises(Stopped):
            execute_run(settings, functions, stopped, checkpoint_every=2, on_iteration=stop_after(iterations))
        assert not (stopped / "done.json").exists()
    assert (stopped / "state.pt").exists()
    execute_run(settings, functions, stopped, checkpoint_every=2)
    same_results(whole, stopped)


def test_a_resumed_run_does_not_train_from_the_start(tmp_path, functions, tiny_settings):
    seen = []

    def on_iteration(iteration, params, row):
        seen.append(iteration)
        if len(seen) == 3:
            raise Stopped

    with pytest.raises(Stopped):
        execute_run(tiny_settings(), functions, tmp_path / "run", checkpoint_every=2, on_iteration=on_iteration)
    execute_run(tiny_settings(), functions, tmp_path / "run", checkpoint_every=2, on_iteration=on_iteration)
    assert seen == [0, 1, 2, 2, 3]


def test_another_seed_gives_other_numbers_and_other_tasks(complete, tmp_path, functions, tiny_settings):
    first = load_run(complete)
    second = execute_run(tiny_settings(seed=1), functions, tmp_path / "run")
    for split in first.splits:
        assert not np.array_equal(first.splits[split].returns, second.splits[split].returns)
        assert not np.array_equal(first.splits[split].parameters, second.splits[split].parameters)


def test_all_algorithms_are_evaluated_on_the_same_tasks_and_levels(functions, tiny_settings):
    sessions = [Session(tiny_settings(algorithm), functions) for algorithm in ("maml", "oracle", "random")]
    for split in ("train", "interpolation"):
        parameters = [session.evaluation_tasks(split).parameters for session in sessions]
        assert all(np.array_equal(parameters[0], other) for other in parameters[1:])


def test_the_step_size_of_untrained_parameters_is_chosen_once_and_recorded(tmp_path, functions, tiny_settings):
    result = execute_run(tiny_settings("random-init"), functions, tmp_path / "run")
    chosen = {split.inner_lr for split in result.splits.values()}
    assert len(chosen) == 1 and chosen < set(result.settings.inner_lr_grid)


def test_the_oracle_is_left_out_where_it_cannot_be_told_the_task(tmp_path, functions, tiny_settings):
    settings = tiny_settings("oracle", splits=("train", "held-out-game"))
    result = execute_run(settings, functions, tmp_path / "run")
    assert set(result.splits) == {"train"}
    assert "another game does not have" in result.left_out["held-out-game"]


def test_parameters_work_on_the_held_out_game_and_representation(tmp_path, functions, tiny_settings):
    settings = tiny_settings(splits=("held-out-representation", "held-out-game"))
    splits = execute_run(settings, functions, tmp_path / "run").splits
    where = {split: (result.game, result.representation) for split, result in splits.items()}
    assert where == {"held-out-representation": ("binary", "turtle"), "held-out-game": ("zelda", "narrow")}


def test_the_gallery_starts_before_and_after_from_the_same_levels(complete):
    levels = load_run(complete).levels
    for split in ("train", "interpolation"):
        start, before, after = (levels[f"{split}/{name}"] for name in ("start", "before", "after"))
        assert start.shape == before.shape == after.shape == (4, 14, 14)
        # Six narrow edits change at most six cells of a level.
        assert 0 < (start != before).sum((1, 2)).max() <= 6
        assert (start != after).sum((1, 2)).max() <= 6


# ------------------------------------------------------------------------------------------------------- bad folders


def refused(settings, functions, folder, *words):
    with pytest.raises(ValueError) as caught:
        execute_run(settings, functions, folder)
    message = str(caught.value)
    assert "\n" not in message
    for word in (folder.name, *words):
        assert word in message, message


def test_a_folder_of_another_run_is_left_alone(complete, functions, tiny_settings):
    refused(tiny_settings(inner_lr=1.0), functions, complete, "another run")
    load_run(complete)


def test_a_foreign_folder_is_left_alone(tmp_path, functions, tiny_settings):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    refused(tiny_settings(), functions, tmp_path / "photos", "not the folder of a run")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_a_settings_file_of_another_program_is_refused(tmp_path, functions, tiny_settings):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text('{"colour": "blue"}')
    refused(tiny_settings(), functions, tmp_path / "run", "not written by this program")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adaptation.csv", "is damaged"),
        ("history.csv", "is damaged"),
        ("left_out.csv", "is damaged"),
        ("params.pt", "is damaged"),
        ("levels.npz", "is damaged"),
        ("timing.json", "is damaged"),
        ("done.json", "is damaged"),
        ("settings.json", "cannot be read"),
    ],
)
def test_a_truncated_file_is_named(name, words, complete, tmp_path, functions, tiny_settings):
    folder = tmp_path / "broken"
    shutil.copytree(complete, folder)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2])
    refused(tiny_settings(), functions, folder, words, "delete")


def test_a_truncated_training_state_is_named(tmp_path, functions, tiny_settings):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        execute_run(tiny_settings(), functions, folder, checkpoint_every=2, on_iteration=stop_after(3))
    (folder / "state.pt").write_bytes((folder / "state.pt").read_bytes()[:100])
    refused(tiny_settings(), functions, folder, "state.pt", "delete")


def test_a_folder_of_another_version_says_which(complete, tmp_path, functions, tiny_settings):
    folder = tmp_path / "old"
    shutil.copytree(complete, folder)
    record = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**record, "format": 0}))
    refused(tiny_settings(), functions, folder, "format 0", "delete")


def test_a_run_is_not_continued_under_another_torch(tmp_path, functions, tiny_settings):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        execute_run(tiny_settings(), functions, folder, checkpoint_every=2, on_iteration=stop_after(3))
    record = json.loads((folder / "settings.json").read_text())
    record["versions"]["torch"] = "1.0"
    (folder / "settings.json").write_text(json.dumps(record))
    refused(tiny_settings(), functions, folder, "torch 1.0")


def test_an_unfinished_folder_is_not_read_as_a_result(tmp_path, functions, tiny_settings):
    with pytest.raises(Stopped):
        execute_run(tiny_settings(), functions, tmp_path / "run", on_iteration=stop_after(1))
    with pytest.raises(ValueError, match="is not finished"):
        load_run(tmp_path / "run")


def test_a_full_disk_leaves_no_complete_looking_folder(tmp_path, functions, tiny_settings, monkeypatch):
    write = run_files.write_atomically

    def full(path, data):
        if path.name == "levels.npz":
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(run_files, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        execute_run(tiny_settings(), functions, tmp_path / "run")
    assert not (tmp_path / "run" / "done.json").exists()
    monkeypatch.undo()
    execute_run(tiny_settings(), functions, tmp_path / "run")


# ----------------------------------------------------------------------------------------------- settings, functions


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"algorithm": "mamal"}, "algorithm"),
        ({"family": "colour"}, "family"),
        ({"game": "chess"}, "game"),
        ({"surrogate": "ppo"}, "surrogate"),
        ({"profile": "fast"}, "profile"),
        ({"iterations": 0}, "iterations"),
        ({"tasks": 0}, "tasks"),
        ({"tasks": 2.5}, "tasks"),
        ({"inner_lr": float("nan")}, "inner_lr"),
        ({"outer_lr": 0.0}, "outer_lr"),
        ({"gamma": 1.5}, "gamma"),
        ({"crop": 4}, "crop"),
        ({"hidden": ()}, "hidden"),
        ({"splits": ()}, "splits"),
        ({"splits": ("test",)}, "split"),
        ({"inner_lr_grid": ()}, "inner_lr_grid"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_bad_setting_is_named(changed, named):
    with pytest.raises(ValueError, match=f"^(unknown )?{named}\\b"):
        RunSettings(**{"algorithm": "maml", **changed})


def test_unknown_settings_and_budgets_are_named():
    with pytest.raises(ValueError, match="inner_rate: there is no setting"):
        settings_for("quick", "maml", inner_rate=1.0)
    with pytest.raises(ValueError, match="^profile:"):
        settings_for("fast", "maml")


@pytest.mark.parametrize("profile", ["smoke", "quick", "full"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_there_is_a_budget_for_every_algorithm_and_profile(profile, algorithm):
    settings = settings_for(profile, algorithm, "zelda", "wide", seed=2)
    assert RunSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def namespace(source: str) -> types.ModuleType:
    """A module with a real source, as the loader makes them."""
    name = f"<{hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


STEP = "def step(x):\n    return x - 1\n\ndef adapt(x):\n    return step(x)\n"


def test_the_fingerprint_sees_code_and_not_comments():
    original = fingerprint(namespace(STEP), ["adapt"])
    commented = STEP.replace("def adapt(x):\n", 'def adapt(x):\n    """Adapt."""\n    # one step\n')
    assert fingerprint(namespace(commented), ["adapt"]) == original
    assert fingerprint(namespace(STEP.replace("x - 1", "x - 2")), ["adapt"]) != original, "a called function counts"
    assert fingerprint(namespace(STEP + "\ndef other(x):\n    return 0\n"), ["adapt"]) == original


def test_a_run_of_changed_functions_is_another_run(functions, tiny_settings):
    changed = FunctionSet({"adapt": namespace(STEP).adapt}, functions)
    assert run_fingerprint(tiny_settings(), changed) != run_fingerprint(tiny_settings(), functions)
    # The oracle uses none of the notebooks' functions.
    assert run_name(tiny_settings("oracle"), changed) == run_name(tiny_settings("oracle"), functions)


def test_a_missing_function_is_named_before_anything_is_written(tmp_path, functions, tiny_settings):
    only_adapt = types.SimpleNamespace(adapt=functions.adapt)
    with pytest.raises(ValueError, match="meta_loss"):
        execute_run(tiny_settings(), only_adapt, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unwritten_function_is_named(tmp_path, tiny_settings, functions):
    todo = tmp_path / "1_maml.py"
    todo.write_text(
        '# %% id="imports"\nimport torch\n\n# %% id="adapt" kind="solution"\n'
        'def adapt(*arguments):\n    raise NotImplementedError("TODO: adapt")\n'
        "def meta_loss(*arguments):\n    return 0\n"
    )
    with pytest.raises(ValueError, match="adapt is not written yet"):
        execute_run(tiny_settings(), FunctionSet(solutions.load(todo), functions), tmp_path / "run")


def test_the_notebook_and_the_loader_give_the_same_run(functions, tiny_settings):
    module = functions._notebook("1_maml")
    handed_in = FunctionSet({name: getattr(module, name) for name in ("adapt", "meta_loss")}, functions)
    assert run_name(tiny_settings(), handed_in) == run_name(tiny_settings(), functions)


def test_every_algorithm_has_a_budget_and_is_trained_if_the_budget_says_so():
    assert set(ALGORITHMS) == set(BUDGETS)
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.train is None} == UNTRAINED != set()

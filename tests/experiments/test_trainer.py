"""The trainer: one policy on many combinations, reward terms, checkpoints, resuming, divergence, and bad input."""

import csv
import dataclasses
import os
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from metapcg.__main__ import main
from metapcg.experiments import trainer
from metapcg.experiments.checkpoints import Checkpoint
from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.resources import Monitor, Penalties, Reading, Trace
from metapcg.experiments.runs import settings_for
from metapcg.experiments.trainer import MixtureSession, TrainerSettings, Validation, deadlock_term, train
from metapcg.learning.meta_training import Diverged

GAMES, REPRESENTATIONS = ("binary", "zelda", "sokoban"), ("narrow", "turtle", "wide")
FUNCTIONS = NotebookFunctions(resolve_notebooks())


def settings(algorithm="maml", games=("sokoban", "binary"), representations=("narrow", "wide"), **changes):
    own = {
        name: changes.pop(name)
        for name in list(changes)
        if name in {f.name for f in dataclasses.fields(TrainerSettings)}
    }
    sizes = {"iterations": 4, "tasks": 4, "horizon": 6, "hidden": (8, 8), "eval_steps": 1, "eval_episodes": 1}
    run = settings_for("smoke", algorithm, games[0], representations[0], **{**sizes, **changes})
    return TrainerSettings(run, games, representations, **{"validate_every": 2, "state_every": 2, **own})


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def same_results(first, second):
    for name in ("metrics.csv", "validation.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    for name in ("final.pt", "best.pt"):
        one, other = Checkpoint.load(first / name), Checkpoint.load(second / name)
        assert (one.iteration, one.validation_return) == (other.iteration, other.validation_return)
        assert all(torch.equal(one.params[key], other.params[key]) for key in one.params)


@pytest.mark.parametrize("algorithm", ["maml", "fomaml", "rl2", "pearl"])
def test_every_algorithm_trains_on_all_games_and_representations(algorithm, tmp_path):
    result = train(
        settings(algorithm, GAMES, REPRESENTATIONS, tasks=9, iterations=3, horizon=3), FUNCTIONS, tmp_path / "run"
    )
    assert result.iterations == 3 and not result.diverged
    validation = rows(tmp_path / "run" / "validation.csv")
    assert {(row["game"], row["representation"]) for row in validation} == {
        (g, r) for g in GAMES for r in REPRESENTATIONS
    }
    assert [row["validation_return"] != "" for row in rows(tmp_path / "run" / "metrics.csv")] == [False, True, True]
    final = Checkpoint.load(tmp_path / "run" / "final.pt")
    assert final.games == GAMES and final.representations == REPRESENTATIONS and final.iteration == 3
    best = Checkpoint.load(tmp_path / "run" / "best.pt")
    scores = [float(row["validation_return"]) for row in rows(tmp_path / "run" / "metrics.csv")[1:]]
    assert best.validation_return == max(scores) and best.iteration == 2 + int(np.argmax(scores))


def scores(monkeypatch, *returns):
    """Let the validations of a run find these returns, one after the other."""
    left = [np.array([[0.0, value], [0.0, value]]) for value in returns]
    monkeypatch.setattr(
        MixtureSession, "validate", lambda session, params: Validation(left.pop(0), np.zeros(2, dtype=int))
    )


def test_best_is_the_highest_validation_return_and_the_first_of_equals(tmp_path, monkeypatch):
    kept, trained = MixtureSession.train, []

    def keep(session):
        trained.append(kept(session))
        return trained[0]

    monkeypatch.setattr(MixtureSession, "train", keep)
    scores(monkeypatch, 1.0, 3.0, 3.0, 2.0)
    small = {"games": ("binary",), "representations": ("narrow",), "validate_every": 1, "checkpoint_every": 1}
    result = train(settings(**small), FUNCTIONS, tmp_path / "run")
    assert (result.best_iteration, result.best_return) == (2, 3.0)
    best, second, final = (
        Checkpoint.load(tmp_path / "run" / f"{name}.pt") for name in ("best", "iteration_2", "final")
    )
    assert (best.iteration, best.validation_return, final.validation_return) == (2, 3.0, 2.0)
    assert all(torch.equal(best.params[name], second.params[name]) for name in best.params)
    assert not torch.equal(best.params["crop.weight"], final.params["crop.weight"])
    assert all(torch.equal(final.params[name], value) for name, value in trained[0].params.items())


class Stopped(Exception):
    """Stands for the process being killed."""


class Load:
    """A machine whose load changes with every look, and that may be killed at one."""

    def __init__(self, seed=0, killed_at=None):
        self._rng, self._looks, self._killed_at = np.random.default_rng(seed), 0, killed_at

    @property
    def latest(self):
        self._looks += 1
        if self._looks == self._killed_at:
            raise Stopped
        return Reading(*self._rng.uniform(60, 100, 2), None)


@pytest.mark.parametrize("algorithm", ["maml", "rl2", "pearl"])
def test_a_run_that_is_stopped_and_resumed_gives_the_numbers_of_one_that_was_not(algorithm, tmp_path, monkeypatch):
    small = {"representations": ("narrow", "turtle"), "replay_tasks": 8} if algorithm == "pearl" else {}
    wanted = settings(algorithm, iterations=5, **small)
    train(wanted, FUNCTIONS, tmp_path / "whole")
    kept = MixtureSession.validate

    def killed(session, params):
        if len(list(tmp_path.glob("parts/state.pt"))) and not killed.done:
            killed.done = True
            raise Stopped
        return kept(session, params)

    killed.done = False
    monkeypatch.setattr(MixtureSession, "validate", killed)
    with pytest.raises(Stopped):
        train(wanted, FUNCTIONS, tmp_path / "parts")
    assert not (tmp_path / "parts" / "final.pt").exists()
    train(wanted, FUNCTIONS, tmp_path / "parts", resume=True)
    same_results(tmp_path / "whole", tmp_path / "parts")


def test_a_resumed_run_knows_the_best_of_before(tmp_path, monkeypatch):
    wanted = settings(games=("binary",), representations=("narrow",), iterations=5)
    scores(monkeypatch, 3.0)  # and nothing for the second validation: there it is killed
    with pytest.raises(IndexError):
        train(wanted, FUNCTIONS, tmp_path / "run")
    before = (tmp_path / "run" / "best.pt").read_bytes()
    scores(monkeypatch, 1.0, 2.0)
    result = train(wanted, FUNCTIONS, tmp_path / "run", resume=True)
    assert (result.best_iteration, result.best_return) == (2, 3.0)
    assert (tmp_path / "run" / "best.pt").read_bytes() == before
    found = [row["validation_return"] for row in rows(tmp_path / "run" / "metrics.csv")]
    assert found == ["", "3.0", "", "1.0", "2.0"]


def test_a_recorded_trace_gives_the_same_run_bit_for_bit(tmp_path):
    live = train(settings(resources="live"), FUNCTIONS, tmp_path / "live", monitor=Load())
    trace = tmp_path / "live" / "resources.csv"
    assert len(rows(trace)) > 20
    train(settings(resources=str(trace), trace_digest="x"), FUNCTIONS, tmp_path / "replayed")
    same_results(live.folder, tmp_path / "replayed")
    first = rows(live.folder / "metrics.csv")[0]
    assert float(first["resource_penalty"]) > 0 and first["gpu_memory_percent"] == ""
    assert 60 < float(first["ram_percent"]) < 100  # a mean over steps
    other = train(settings(resources="live"), FUNCTIONS, tmp_path / "other", monitor=Load(1))
    assert (live.folder / "metrics.csv").read_bytes() != (other.folder / "metrics.csv").read_bytes()


def test_a_live_run_that_is_resumed_records_one_trace_of_all_of_it(tmp_path):
    with pytest.raises(Stopped):
        train(settings(resources="live"), FUNCTIONS, tmp_path / "live", monitor=Load(killed_at=40))
    assert (tmp_path / "live" / "state.pt").exists()
    train(settings(resources="live"), FUNCTIONS, tmp_path / "live", resume=True, monitor=Load(7))
    trace = tmp_path / "live" / "resources.csv"
    assert len(rows(trace)) > 30
    train(settings(resources=str(trace), trace_digest="x"), FUNCTIONS, tmp_path / "replayed")
    same_results(tmp_path / "live", tmp_path / "replayed")


def test_a_live_run_that_is_killed_while_its_state_is_written_forgets_what_it_had_recorded_since(tmp_path, monkeypatch):
    # The trace is written before the state: it then knows of steps that will be done again, under another load.
    kept, states = trainer.write_torch, []

    def write(path, values):
        states.append(path)
        if len(states) == 2:
            raise Stopped
        kept(path, values)

    monkeypatch.setattr(trainer, "write_torch", write)
    with pytest.raises(Stopped):
        train(settings(resources="live"), FUNCTIONS, tmp_path / "live", monitor=Load())
    monkeypatch.setattr(trainer, "write_torch", kept)
    train(settings(resources="live"), FUNCTIONS, tmp_path / "live", resume=True, monitor=Load(7))
    trace = tmp_path / "live" / "resources.csv"
    train(settings(resources=str(trace), trace_digest="x"), FUNCTIONS, tmp_path / "replayed")
    same_results(tmp_path / "live", tmp_path / "replayed")


def test_validation_pays_what_the_task_pays_and_changes_nothing_in_training(tmp_path):
    plain = train(settings(validate_every=2), FUNCTIONS, tmp_path / "a")
    rarely = train(settings(validate_every=4), FUNCTIONS, tmp_path / "b")
    final = [Checkpoint.load(result.folder / "final.pt") for result in (plain, rarely)]
    assert all(torch.equal(final[0].params[name], final[1].params[name]) for name in final[0].params)
    terms = (lambda part, active: np.full(active.shape, -100.0),)
    session = MixtureSession(settings().run, FUNCTIONS, mixture=settings(), terms=terms)
    assert session.validate(final[0].params).score == final[0].validation_return


def test_validation_tasks_are_of_the_training_range_but_never_trained_on():
    wanted = settings(tasks=8)
    session = MixtureSession(wanted.run, FUNCTIONS, mixture=wanted)
    validation = session.evaluation_tasks("train")
    trained = session.train_problem(np.random.SeedSequence(0)).tasks
    for own, other, family in zip(validation.batches, trained.batches, wanted.families(), strict=True):
        assert own.split == "train"
        assert not family.is_held_out(own.parameters if own.parameters.shape[1] > 1 else _circle(own.parameters)).any()
        assert not np.isin(own.parameters, other.parameters).any()


def test_pearls_replayed_tasks_are_not_those_of_validation():
    wanted = settings("pearl", tasks=4, replay_tasks=16, eval_tasks=16)
    session = MixtureSession(wanted.run, FUNCTIONS, mixture=wanted)
    for own, other in zip(session.evaluation_tasks("train").batches, session.replay_tasks().batches, strict=True):
        assert len(own) == len(other) and not np.isin(own.parameters, other.parameters).any()


def _circle(angle):
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


def test_penalties_begin_above_the_thresholds():
    assert Penalties()(Reading(78.0, 70.0, 70.0)) == 0
    assert Penalties()(Reading(88.0, 90.0, 80.0)) == pytest.approx(0.2 * 10 + 0.1 * 20 + 0.1 * 10)
    assert Penalties()(Reading(50.0, 100.0, None)) == pytest.approx(3.0)


def test_the_monitor_reads_in_a_thread_of_its_own_that_ends():
    import threading

    seen = []
    enough = threading.Event()

    def read():
        seen.append(threading.current_thread().name)
        if len(seen) > 3:
            enough.set()
        return Reading(float(len(seen)), 0.0)

    with Monitor(read, interval=0.001) as monitor:
        assert enough.wait(10)
    count = len(seen)
    assert set(seen[1:]) == {"resource monitor"} and monitor.latest.ram_percent == count


def test_deadlocked_crates_are_charged_per_step_on_sokoban_only():
    term = deadlock_term(1.5)
    maps = np.zeros((2, 1, 3, 3), np.uint8)
    maps[0, 0, 0, 0] = maps[0, 0, 2, 2] = 3  # two crates in corners
    part = SimpleNamespace(engine=SimpleNamespace(maps=maps), tasks=SimpleNamespace(game="sokoban"))
    assert term(part, np.ones((2, 1), bool)).tolist() == [[-3.0], [0.0]]
    part.tasks.game = "zelda"
    assert not term(part, np.ones((2, 1), bool)).any()


def test_reward_terms_are_part_of_what_training_is_paid(tmp_path):
    def first_return(name, monitor=None, **changes):
        wanted = settings(games=("sokoban",), representations=("narrow",), iterations=1, **changes)
        result = train(wanted, FUNCTIONS, tmp_path / name, monitor=monitor)
        return float(rows(result.folder / "metrics.csv")[0]["return_before"])

    plain = first_return("plain")  # the first episodes are played before anything is learned: the same in every run
    busy = SimpleNamespace(latest=Reading(88.0, 0.0, None))
    assert plain - first_return("busy", busy, resources="live") == pytest.approx(6 * 0.2 * 10, abs=1e-4)
    one, two = (plain - first_return(f"penalty {p}", deadlock_penalty=p) for p in (1.0, 2.0))
    assert one > 0 and two == pytest.approx(2 * one, abs=1e-4)


def test_a_run_that_diverges_is_stopped_and_keeps_its_good_checkpoints(tmp_path, capsys):
    command = [
        "--games", "binary", "--representations", "narrow", "--profile", "smoke", "--iterations", "5", "--horizon", "6",
        "--validate-every", "1", "--output", str(tmp_path), "--experiment-name", "run", "--device", "cpu",
    ]  # fmt: skip
    assert main(["train", "pearl", *command, "--meta-lr", "1e15"]) == 1  # the first of its rounds is not trained on
    error = capsys.readouterr().err
    assert "diverged at iteration 1" in error and len(error.splitlines()) == 1
    assert "kept: best.pt, last_good.pt" in error
    assert Checkpoint.load(tmp_path / "run" / "best.pt").iteration == 1
    assert Checkpoint.load(tmp_path / "run" / "last_good.pt").iteration == 1
    assert len(rows(tmp_path / "run" / "metrics.csv")) == 1 and not (tmp_path / "run" / "final.pt").exists()


def test_divergence_names_the_last_good_checkpoint(tmp_path, monkeypatch):
    done = []

    def validate(session, params):
        done.append(1)
        if len(done) == 2:
            raise FloatingPointError("the policy's parameters are not finite: logits.bias")
        return kept(session, params)

    kept = MixtureSession.validate
    monkeypatch.setattr(MixtureSession, "validate", validate)
    result = train(settings(), FUNCTIONS, tmp_path / "run")
    assert "diverged" in result.diverged and result.best_iteration == 2
    assert Checkpoint.load(tmp_path / "run" / "last_good.pt").iteration == 3
    assert Checkpoint.load(tmp_path / "run" / "best.pt").iteration == 2
    assert issubclass(Diverged, RuntimeError) and not (tmp_path / "run" / "final.pt").exists()


def test_a_validation_return_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    scores(monkeypatch, 1.0, float("nan"))
    result = train(settings(games=("binary",), representations=("narrow",)), FUNCTIONS, tmp_path / "run")
    assert "a validation return after 4 iterations is not finite" in result.diverged
    assert Checkpoint.load(tmp_path / "run" / "best.pt").iteration == 2
    assert Checkpoint.load(tmp_path / "run" / "last_good.pt").iteration == 3
    assert not (tmp_path / "run" / "final.pt").exists()


def test_parameters_that_are_not_finite_are_never_kept_as_the_last_good_ones(tmp_path, monkeypatch):
    def diverge(session):
        raise Diverged("diverged", {"logits.bias": torch.tensor([0.0, float("nan")])})

    monkeypatch.setattr(MixtureSession, "train", diverge)
    result = train(settings(games=("binary",), representations=("narrow",)), FUNCTIONS, tmp_path / "run")
    assert result.diverged == "diverged" and result.best_iteration == 0
    assert not list((tmp_path / "run").glob("*.pt"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(settings(iterations=2, checkpoint_every=1), FUNCTIONS, folder)
    return folder


def test_checkpoints_are_kept_at_intervals(trained):
    assert Checkpoint.load(trained / "iteration_1.pt").iteration == 1
    assert not (trained / "state.pt").exists()


def test_a_checkpoint_adapts_to_a_task_and_draws_levels_of_any_combination(trained, tmp_path, capsys):
    best = str(trained / "best.pt")
    picture = tmp_path / "levels.png"
    common = ["--steps", "1", "--device", "cpu", "--game", "zelda", "--representation", "turtle"]  # never trained on
    assert main(["adapt", best, *common, "--tasks", "2", "--episodes", "2", "--gallery", str(picture)]) == 0
    assert "mean" in capsys.readouterr().out and picture.read_bytes().startswith(b"\x89PNG")
    made = tmp_path / "made.png"
    assert main(["generate", best, *common, "--weights", "enemies=1", "--levels", "3", "--picture", str(made)]) == 0
    with np.load(made.with_suffix(".npz")) as archive:
        assert archive["levels"].shape == (3, 7, 11) and str(archive["game"]) == "zelda"
    assert made.is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weights", "path-lenght=1"], "no statistic 'path-lenght'"),
        (["--weights", "regions"], "is not STATISTIC=NUMBER"),
        (["--game", "pong"], "unknown game 'pong'"),
        (["--representation", "huge"], "unknown name 'huge'"),
        (["--split", "held-out-game"], "name the game"),
        (["--gallery", "levels.jpg"], "must end with .png"),
    ],
)
def test_wrong_settings_of_adapt_are_one_line(trained, arguments, message, capsys):
    assert main(["adapt", str(trained / "best.pt"), "--device", "cpu", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


class Touch:
    """What a hostile file holds: reading it carelessly makes a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


def test_checkpoints_from_elsewhere_or_cut_short_are_refused(trained, tmp_path, capsys):
    whole = (trained / "best.pt").read_bytes()
    values = torch.load(trained / "best.pt", weights_only=True)
    damaged = {
        "cut.pt": whole[: len(whole) // 2],
        "text.pt": b"step,ram_percent\n0,1\n",
    }
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    torch.save({"policy_state_dict": {}}, tmp_path / "foreign.pt")
    torch.save({**values, "params": {**values["params"], "logits.bias": torch.zeros(3)}}, tmp_path / "shape.pt")
    torch.save({**values, "settings": {"algorithm": "maml"}}, tmp_path / "settings.pt")
    broken = {**values["params"], "logits.bias": torch.full_like(values["params"]["logits.bias"], torch.nan)}
    torch.save({**values, "params": broken}, tmp_path / "nan.pt")
    torch.save({**values, "games": Touch(tmp_path / "executed")}, tmp_path / "code.pt")
    messages = {
        "cut.pt": "cut short", "text.pt": "no file of torch", "foreign.pt": "no checkpoint of this trainer",
        "shape.pt": "logits.bias has shape (3,)", "settings.pt": "is damaged", "none.pt": "no such checkpoint",
        "nan.pt": "parameters are not finite: logits.bias", "code.pt": "code.pt",
    }  # fmt: skip
    for name, message in messages.items():
        assert main(["adapt", str(tmp_path / name), "--device", "cpu"]) == 1
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1, (name, error)
    assert not (tmp_path / "executed").exists()


def test_a_folder_that_holds_something_is_never_overwritten(trained, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(ValueError, match="is not empty; go on with --resume"):
        train(settings(iterations=2, checkpoint_every=1), FUNCTIONS, copy)
    with pytest.raises(ValueError, match="another run: it was begun with other tasks"):
        train(settings(iterations=2, tasks=6), FUNCTIONS, copy, resume=True)
    with pytest.raises(ValueError, match="there is nothing in"):
        train(settings(), FUNCTIONS, tmp_path / "none", resume=True)
    complete = train(settings(iterations=2, checkpoint_every=1), FUNCTIONS, copy, resume=True)
    assert complete.iterations == 2
    assert before == {path.name: path.read_bytes() for path in copy.iterdir()}
    (copy / "final.pt").unlink()
    (copy / "state.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match="state.pt cannot be read"):
        train(settings(iterations=2), FUNCTIONS, copy, resume=True)


def test_a_run_that_was_begun_otherwise_is_not_resumed_and_stays_as_it_is(trained, tmp_path):
    def copy(name, resources="off", penalty=0.0):
        folder = tmp_path / name
        shutil.copytree(trained, folder)
        (folder / "final.pt").unlink()  # as if it had been stopped
        wanted = settings(iterations=2, checkpoint_every=1, resources=resources, deadlock_penalty=penalty)
        return folder, dataclasses.replace(wanted, trace_digest="" if resources == "off" else resources)

    cases = {
        "other deadlock_penalty": copy("penalty", penalty=1.0),
        "other resources, trace_digest": copy("trace", resources="x"),
        "was begun with torch 1.0": copy("versions"),
        "state.pt cannot be read .it is no state of this trainer": copy("checkpoint"),
        "state.pt cannot be read .it lacks best_iteration": copy("part"),
        "state.pt cannot be read .not a training state of this version": copy("state"),
        "has no settings.json": copy("foreign"),
    }
    record = tmp_path / "versions" / "settings.json"
    record.write_text(re.sub(r'"torch": "[^"]*"', '"torch": "1.0"', record.read_text()))
    shutil.copy(trained / "best.pt", tmp_path / "checkpoint" / "state.pt")
    torch.save({"training": {}, "trainer": {}}, tmp_path / "part" / "state.pt")
    own = dict.fromkeys(("metrics", "validation", "machine"), ()) | dict.fromkeys(
        ("best_iteration", "best_return", "step"), 0
    )
    torch.save({"training": {}, "trainer": own}, tmp_path / "state" / "state.pt")
    (tmp_path / "foreign" / "settings.json").unlink()
    for message, (folder, wanted) in cases.items():
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(ValueError, match=message):
            train(wanted, FUNCTIONS, folder, resume=True)
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}, message


def test_adapt_takes_its_steps_seed_and_weights(trained, capsys):
    def adapted(*options):
        common = ["--device", "cpu", "--game", "binary", "--representation", "narrow", "--episodes", "2"]
        assert main(["adapt", str(trained / "best.pt"), *common, *options]) == 0
        return capsys.readouterr().out.splitlines()[1:]

    one, two = adapted("--steps", "1", "--tasks", "2"), adapted("--steps", "2", "--tasks", "2")
    assert one[0].split() == ["task", "0", "2"] and two[0].split() == ["task", "0", "2", "4"]
    assert adapted("--steps", "1", "--tasks", "2") == one != adapted("--steps", "1", "--tasks", "2", "--seed", "5")
    (task,) = adapted("--steps", "1", "--weights", "regions=-1,path-length=0.5")[1:-1]
    assert "regions=-1.00" in task and "path-length=0.50" in task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its first line is not"),
        ("a,b\n1,2\n", "its first line is not"),
        ("step,ram_percent,cpu_percent,gpu_memory_percent\n", "empty trace"),
        ("step,ram_percent,cpu_percent,gpu_memory_percent\n3,1,1,\n", "line 2"),
        ("step,ram_percent,cpu_percent,gpu_memory_percent\n0,1,1,\n0,2,2,\n", "line 3"),
        ("step,ram_percent,cpu_percent,gpu_memory_percent\n0,nan,1,\n", "line 2"),
    ],
)
def test_what_is_no_trace_is_refused(text, message, tmp_path):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Trace.load(tmp_path / "trace.csv")


def test_options_that_an_algorithm_would_not_use_are_refused(tmp_path, capsys):
    for arguments, message in (
        (["rl2", "--inner-lr", "1"], "takes no inner step"),
        (["pearl", "--surrogate", "dice"], "takes no inner step"),
        (["fomaml", "--second-order"], "use train maml"),
        (["maml", "--games", "binary", "--deadlock-penalty", "1.5"], "only sokoban has crates"),
        (["maml", "--games", "binary", "binary"], "each once"),
        (["maml", "--experiment-name", "../run"], "without folders"),
        (["maml", "--experiment-name", ""], "without folders"),
        (["maml", "--resources", "nowhere.csv"], "cannot be read"),
        (["maml", "--meta-lr", "nan"], "error: --meta-lr: needs a finite number"),
        (["maml", "--meta-lr", "-1"], "error: --meta-lr: must be above 0"),
        (["maml", "--inner-lr", "inf"], "error: --inner-lr: needs a finite number"),
        (["maml", "--surrogate", "best"], "error: --surrogate: unknown value 'best'"),
        (["maml", "--representations", "huge"], "error: --representations: unknown name 'huge'"),
        (["maml", "--seed", "-1"], "error: --seed: needs an integer"),
        (["maml", "--games", "sokoban", "--deadlock-penalty", "nan"], "error: --deadlock-penalty: must be"),
    ):
        assert main(["train", *arguments, "--output", str(tmp_path), "--device", "cpu"]) == 1
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_functions_come_from_the_notebook_that_is_named(tmp_path, capsys):
    notebook = tmp_path / "mine.py"
    notebook.write_text(
        '# %% id="imports"\nimport torch\n\n'
        '# %% id="adapt" kind="solution"\n'
        "def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):\n"
        "    for _ in range(num_steps):\n        collect(params)\n    return params\n\n"
        '# %% id="meta" kind="solution"\n'
        "def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):\n"
        "    own = {k: v.unsqueeze(0).expand(num_tasks, *v.shape) for k, v in params.items()}\n"
        "    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)\n"
        "    return outer_loss(adapted, collect(adapted)).mean()\n"
    )
    common = [
        "train", "maml", "--games", "binary", "--representations", "narrow", "--profile", "smoke", "--iterations", "2",
        "--horizon", "6", "--output", str(tmp_path), "--device", "cpu",
    ]  # fmt: skip
    assert main([*common, "--experiment-name", "mine", "--solutions", str(notebook)]) == 0
    assert "adapt, meta_loss: from" in capsys.readouterr().out
    assert main([*common, "--experiment-name", "worked"]) == 0
    mine, worked = (Checkpoint.load(tmp_path / name / "final.pt").params for name in ("mine", "worked"))
    assert not torch.equal(mine["crop.weight"], worked["crop.weight"])
    text = notebook.read_text()
    notebook.write_text(text[: text.index('# %% id="meta"')])  # what is missing is not taken from the worked notebook
    assert main([*common, "--experiment-name", "part", "--solutions", str(notebook)]) == 1
    assert "mine.py does not define meta_loss" in capsys.readouterr().err
    notebook.write_text('# %% id="adapt" kind="solution"\ndef adopt():\n    pass\n')
    assert main([*common, "--experiment-name", "part", "--solutions", str(notebook)]) == 1
    assert "mine.py defines none of the functions that are needed: adapt, meta_loss" in capsys.readouterr().err
    assert not (tmp_path / "part").exists()
    starter = next(p for p in resolve_notebooks().values() if "1_maml" in p).replace("answers", "base_code")
    assert main([*common, "--experiment-name", "todo", "--solutions", starter]) == 1
    assert "is not written yet" in capsys.readouterr().err

"""The declarative matrix: what it expands to, and how mistakes in it are reported."""

from __future__ import annotations

import pytest

from metapcg.experiments.matrix import label, load_matrix
from metapcg.experiments.profiles import PROFILES

TINY = """
[defaults]
families = ["direction"]
games = ["binary"]
representations = ["narrow"]
surrogates = ["lvc"]
references = ["random"]
changes = [{}]
splits = ["train", "interpolation"]
seeds = { smoke = [0], quick = [0, 1], full = [0, 1, 2] }

[first]
question = "?"
figure = "f.png"
expected = "!"
algorithms = ["maml", "oracle"]
headline = []

[second]
question = "?"
figure = "f.png"
expected = "!"
algorithms = ["maml"]
surrogates = ["lvc", "dice"]
changes = [{}, { inner_lr = 0.5 }]
splits = ["train"]
headline = [["maml", "train", 1]]
"""


@pytest.fixture
def matrix_file(tmp_path):
    def write(text: str = TINY):
        path = tmp_path / "matrix.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("profile", PROFILES)
def test_the_committed_matrix_expands_to_runs_that_can_be_made(profile):
    matrix = load_matrix()
    selected = matrix.select(profile)
    labels = [label(settings) for settings, _ in selected]
    assert len(labels) == len(set(labels)), "two runs have one name"
    assert {settings.profile for settings, _ in selected} == {profile}
    for experiment in matrix.experiments:
        assert any(experiment.name in where for _, where in selected)
        assert {"oracle", "random"} <= {settings.algorithm for settings in experiment.runs(profile)}
    if profile == "full":
        seeds = {
            experiment.name: {settings.seed for settings in experiment.runs(profile)}
            for experiment in matrix.experiments
        }
        assert len(seeds.pop("adaptation")) >= 5, "the main comparison"
        assert all(len(chosen) >= 2 for chosen in seeds.values()), seeds


def test_a_run_of_two_experiments_is_one_run(matrix_file):
    selected = load_matrix(matrix_file()).select("smoke")
    shared = [where for settings, where in selected if label(settings) == "direction-binary-narrow-maml-s0"]
    assert shared == [("first", "second")]
    assert sum(settings.algorithm == "random" for settings, _ in selected) == 1


def test_changes_are_combined_with_surrogates_and_leave_references_alone(matrix_file):
    runs = load_matrix(matrix_file()).experiments[1].runs("smoke")
    found = {(run.algorithm, run.surrogate, run.inner_lr == 0.5, run.splits == ("train",)) for run in runs}
    assert found == {
        ("maml", "lvc", False, False), ("maml", "lvc", True, True), ("maml", "dice", False, False),
        ("maml", "dice", True, True), ("random", "lvc", False, False),
    }  # fmt: skip


def test_seeds_follow_the_profile(matrix_file):
    experiment = load_matrix(matrix_file()).experiments[0]
    assert {run.seed for run in experiment.runs("full")} == {0, 1, 2}


def test_only_selects_by_part_of_the_name(matrix_file):
    matrix = load_matrix(matrix_file())
    assert [label(settings) for settings, _ in matrix.select("smoke", ["oracle"])] == [
        "direction-binary-narrow-oracle-s0"
    ]
    assert len(matrix.select("smoke", ["second/"])) == 5
    assert len(matrix.select("quick", ["-s1"])) == len(matrix.select("quick", ["-s0"]))
    with pytest.raises(ValueError, match="--only: no run's name holds 'third'; the experiments are first, second"):
        matrix.select("smoke", ["third"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'figure = "f.png"\nexpected = "!"\nalgorithms = ["maml"]',
            'algorithms = ["maml"]',
            "second: missing expected, figure",
        ),
        ("headline = []", "headline = []\ncolour = 1", "experiment first: unknown colour"),
        ('algorithms = ["maml", "oracle"]', "algorithms = []", "experiment first: algorithms needs a list"),
        ("seeds = {", "seeds = { tiny = [0],", "experiment first: seeds needs a list for each of smoke, quick, full"),
        ("[first]", "[first", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(matrix_file, old, new, message):
    assert old in TINY
    with pytest.raises(ValueError, match=message) as caught:
        load_matrix(matrix_file(TINY.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"oracle"', '"orakel"', "experiment first: algorithm: unknown value 'orakel'"),
        ("inner_lr = 0.5", "inner_rate = 0.5", "experiment second: inner_rate: there is no setting"),
        ("inner_lr = 0.5", "inner_lr = -1.0", "experiment second: inner_lr: must be above 0"),
    ],
)
def test_a_run_that_cannot_be_made_names_its_experiment(matrix_file, old, new, message):
    with pytest.raises(ValueError, match=message):
        load_matrix(matrix_file(TINY.replace(old, new, 1))).select("smoke")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        load_matrix(tmp_path / "none.toml")

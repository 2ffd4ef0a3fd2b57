"""Wrong and right solutions: do the tests of the notebooks tell them apart? ``python -m metapcg mutants`` grades all of
them as submissions; here that is done with a few, and everything else in this process.
"""

import io
from pathlib import Path

import pytest

from metapcg.grading import mutants as m
from metapcg.grading.course import load_course
from metapcg.grading.sandbox import check_sandbox

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def course():
    return load_course(ROOT)


@pytest.fixture(scope="module")
def mutants(course):
    return m.load_mutants(ROOT, course)


def of(mutants, name):
    return next(mutant for mutant in mutants if mutant.name == name)


def places(course):
    return [(name, e.id) for name, notebook in course.items() for e in notebook.exercises if not e.manual]


def test_every_exercise_has_wrong_solutions_and_there_are_enough_right_ones(course, mutants):
    for place in places(course):
        assert sum((mutant.notebook, mutant.exercise) == place and not mutant.right for mutant in mutants) >= 5, place
    assert sum(not mutant.right for mutant in mutants) >= 80
    own = [mutant for mutant in mutants if mutant.right and not mutant.name.startswith("worked_")]
    assert len(own) >= 15
    assert {mutant.notebook for mutant in own} == set(course)
    assert sum(bool(mutant.helpers) for mutant in own) >= 3


def test_visible_tests_alone_tell_at_least_half_of_every_exercises_wrong_solutions(course, mutants):
    told = m.told_by_visible_tests(mutants, course)
    for place in places(course):
        names = [mt.name for mt in mutants if (mt.notebook, mt.exercise) == place and not mt.right]
        assert sum((place[0], name) in told for name in names) >= len(names) / 2, place
    said = {(mutant.notebook, mutant.name) for mutant in mutants if mutant.says}
    assert said <= told


def test_hidden_tests_alone_tell_every_wrong_solution_from_every_right_one(course, mutants):
    for name, notebook in course.items():
        with m.InProcess(notebook) as tests:
            found = {
                mutant.name: tests.fails(mutant.exercise, mutant.whole_source, "hidden")
                for mutant in mutants
                if mutant.notebook == name
            }
        assert found == {mutant.name: not mutant.right for mutant in mutants if mutant.notebook == name}


def test_no_verdict_hangs_on_the_seed_of_a_hidden_test(course, mutants):
    some = [mutant for number, mutant in enumerate(mutants) if number % 4 == 0]
    flipped, repetitions = m.flips(some, course, seeds=3)
    assert flipped == {}
    assert repetitions > 200


def test_repetition_with_other_seeds_notices_a_test_that_tells_by_luck(course):
    guess = "def discounted_returns(rewards, gamma):\n    print(end='')\n    return RIGHT(rewards, gamma)\n"
    lucky = "def RIGHT(rewards, gamma):\n    return rewards if rewards.sum() > 0 else 0 * rewards\n\n" + guess
    mutant = m.Mutant("lucky", "0_policy_gradient", "discounted-returns", lucky, right=True)
    flipped, _ = m.flips([mutant], {"0_policy_gradient": course["0_policy_gradient"]}, seeds=2)
    assert flipped == {("0_policy_gradient", "lucky"): [1000, 1001]}


def test_related_exercises_are_not_wrong_side_by_side(course, mutants):
    relations = {name: m.related(notebook) for name, notebook in course.items()}
    assert relations["1_maml"]["adapt"] == {"inner-update", "inner-gradients", "meta-loss-loop", "meta-loss"}
    assert relations["1_maml"]["expected-meta-objective"] == set()
    groups = m.group(mutants, course)
    assert sum(map(len, groups)) == len(mutants)
    for together in groups:
        assert len({(mutant.notebook, mutant.right) for mutant in together.values()}) == 1
        wrong = [mutant for mutant in together.values() if not mutant.right]
        for mutant in wrong:
            assert not relations[mutant.notebook][mutant.exercise] & set(together)


def test_some_are_graded_as_submissions(course, mutants):
    try:
        check_sandbox()
    except ValueError as error:
        pytest.skip(str(error))
    names = ["update_climbs", "gradients_always_first_order", "expected_downhill", "adapt_reuses_the_first_episodes"]
    names += ["update_by_helper_cell_and_tree_map", "adapt_with_a_list_of_steps", "worked_meta-loss"]
    some = [of(mutants, name) for name in names]
    verdicts = m.grade_mutants(some, {"1_maml": course["1_maml"]})
    assert {mutant.name: verdicts["1_maml", mutant.name].full for mutant in some} == {mt.name: mt.right for mt in some}
    assert "climbs the loss" in verdicts["1_maml", "update_climbs"].faults[0]
    assert not [verdict for verdict in verdicts.values() if verdict.failure]


def test_report_names_survivors_false_rejections_and_flips():
    wrong = m.Mutant("wrong", "n", "e", "", None)
    caught = m.Mutant("caught", "n", "e", "", "words")
    right = m.Mutant("right", "n", "e", "", right=True)
    verdicts = {("n", "wrong"): m.Verdict(True), ("n", "caught"): m.Verdict(False), ("n", "right"): m.Verdict(True)}
    text = io.StringIO()
    assert m.report([wrong, caught, right], verdicts, {("n", "caught")}, {}, 7, text) == 1
    assert "survived: n/e/wrong" in text.getvalue()
    verdicts |= {("n", "wrong"): m.Verdict(False), ("n", "right"): m.Verdict(False, ("why",))}
    assert m.report([wrong, caught, right], verdicts, set(), {}, 7, text) == 1
    assert "wrongly rejected: n/e/right why" in text.getvalue()
    verdicts["n", "right"] = m.Verdict(True)
    assert m.report([wrong, caught, right], verdicts, set(), {("n", "wrong"): [3]}, 7, text) == 1
    assert m.report([wrong, caught, right], verdicts, set(), {}, 7, text) == 0
    verdicts["n", "wrong"] = m.Verdict(False, failure="kernel died")
    assert m.report([wrong, caught, right], verdicts, set(), {}, 7, text) == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ('# %% id="a" exercise="e" sais="x"\npass\n', "expected id, exercise"),
        ('# %% id="a" exercise="e"\npass\n\n# %% id="a" exercise="e"\npass\n', "two cells are called a"),
        ('# %% exercise="e"\npass\n', "expected id, exercise"),
    ],
)
def test_wrong_header_is_named(tmp_path, text, message):
    path = tmp_path / "0_policy_gradient.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        m.read_mutants(path)


def test_without_the_file_it_is_said_what_is_needed(tmp_path):
    with pytest.raises(ValueError, match="mutants need the repository with its tests"):
        m.read_mutants(tmp_path / "x.py")

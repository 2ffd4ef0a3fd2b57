"""A sample of the attacks, through the real command; ``python -m metapcg attacks`` runs all of them."""

import argparse
from pathlib import Path

import pytest

from metapcg.grading import attacks as a
from metapcg.grading.sandbox import check_sandbox

ROOT = Path(__file__).parents[2]
SAMPLE = (
    "remembers_what_check_expects",
    "reads_the_environment_of_every_process",
    "makes_namespaces_and_mounts",
    "messages_with_half_a_character",
    "orphans",
    "page_with_a_script",
    "tests_tagged_skip_execution",
    "cut_off_in_the_middle",
    "zip_that_climbs_out",
    "zip_bomb",
    "name_that_is_no_text",
)


@pytest.fixture(scope="module")
def base():
    return a.make_base(ROOT)


@pytest.fixture(scope="module")
def attacks(base):
    return a.load_attacks(ROOT, base)


def test_there_are_more_than_a_hundred_and_each_aim_has_some(attacks):
    assert len(attacks) > 100
    for aim in ("marks", "reading", "harm", "resources", "damage"):
        assert sum(attack.aim == aim for attack in attacks) >= 15
    assert {attack.aim for attack in attacks} == {"marks", "reading", "harm", "resources", "damage"}


def test_marker_of_a_leak_stands_in_no_attack(base):
    assert a.LEAKED not in (ROOT / "tests" / "attacks" / "code.py").read_text(encoding="utf-8")


def test_sample_is_contained(base, attacks):
    try:
        check_sandbox()
    except ValueError as error:
        pytest.skip(str(error))
    some = [attack for attack in attacks if attack.name in SAMPLE]
    assert len(some) == len(SAMPLE)
    outcomes, faults, memory = a.run_attacks(some, base, ROOT, workers=2, quiet=True)
    assert faults == []
    assert {attack.name: outcomes[attack.name].faults(attack) for attack in some} == {
        attack.name: [] for attack in some
    }
    assert 50 < memory < 1024


def test_an_attack_that_succeeds_is_noticed(base, tmp_path):
    """The looking itself: marks gained, something read, a page that runs scripts."""
    places = a.Places(ROOT, tmp_path / "in", tmp_path / "class", 0)
    for folder in ("autograded/eve/hw11", "feedback", "results"):
        (places.class_folder / folder).mkdir(parents=True)
    (places.submissions / "eve").mkdir(parents=True)
    (places.class_folder / "grades.csv").write_text("student,total,status\neve,6,graded\n", encoding="utf-8-sig")
    (places.class_folder / "summary.html").write_text("<p>fine</p>", encoding="utf-8")
    (places.class_folder / "feedback" / "eve.html").write_text("<script>was_here()</script>", encoding="utf-8")
    result = places.class_folder / "results" / "eve.json"
    result.write_text('{"grade": {"seconds": 999.0}, "x": "' + a.LEAKED + ' /etc/shadow"}', encoding="utf-8")
    attack = a.Attack("eve", "marks", ("kernel died",), 3.0, 5.0, lambda place, places: place)
    faults: list[str] = []
    outcome = a._look([attack], {"eve": places.submissions / "eve"}, places, faults, base)["eve"]
    assert len(faults) == 2 and all("the honest student" in fault for fault in faults)
    text = "; ".join(outcome.faults(attack))
    for words in ("status 'graded'", "it gained marks: 6", "got at something", "runs something", "it ran for 999 s"):
        assert words in text
    table = a.report([attack], a.Ran("", {"eve": outcome}, faults, 1.0, 60.0))
    assert "**NOT CONTAINED**" in table and "0 of 1 ended as they must" in table


def test_runs_of_parts_add_up_as_long_as_the_code_is_the_same(tmp_path):
    first, second = a.Outcome("graded", 6.0, 1.0), a.Outcome("kernel died", 3.0, 2.0)
    file = tmp_path / "attacks.json"
    a.Ran("code", {"one": second, "gone": first}, [], 100.0, 60.0).with_earlier(file, {"one", "two"})
    both = a.Ran("code", {"two": second}, [], 50.0, 30.0).with_earlier(file, {"one", "two"})
    assert both.outcomes == {"one": second, "two": second} and (both.memory, both.seconds) == (100.0, 90.0)
    again = a.Ran("code", {"one": first}, [], 50.0, 30.0).with_earlier(file, {"one", "two"})
    assert again.outcomes == {"one": first, "two": second}
    other = a.Ran("other code", {"one": first}, [], 50.0, 30.0).with_earlier(file, {"one", "two"})
    assert other.outcomes == {"one": first}


def test_a_run_that_was_stopped_goes_on_where_it_was(monkeypatch, tmp_path, base, capsys):
    attacks = [a.Attack(f"attack_{n}", "harm", ("graded",), 0.0, 5.0, lambda place, places: place) for n in range(5)]
    batches = []

    def runs(batch, *_):
        if len(batches) == 2:
            raise KeyboardInterrupt
        batches.append([attack.name for attack in batch])
        return {attack.name: a.Outcome("graded", 5.0, 1.0) for attack in batch}, [], 100.0

    for folder in ("tests/attacks", "answers"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(a, "BATCH", 2)
    monkeypatch.setattr(a, "repository_root", lambda: tmp_path)
    monkeypatch.setattr(a, "make_base", lambda root: base)
    monkeypatch.setattr(a, "load_attacks", lambda root, base: attacks)
    monkeypatch.setattr(a, "_code_digest", lambda root: "code")
    monkeypatch.setattr(a, "run_attacks", runs)
    options = argparse.Namespace(only=[], workers=1, output=None)
    with pytest.raises(KeyboardInterrupt):
        a.run(options)
    assert batches.pop() == ["attack_2", "attack_3"]
    assert a.run(options) == 0 and batches[1:] == [["attack_4"]]
    assert "4 attacks have been run with this code already; 1 are left" in capsys.readouterr().out
    assert "**5 of 5 ended as they must**" in (tmp_path / "reports/HW11_Attacks.md").read_text(encoding="utf-8")


def test_wrong_header_is_named(tmp_path, base):
    (tmp_path / "code.py").write_text('# %% id="x" aim="marks" kept="some"\npass\n')
    with pytest.raises(ValueError, match="header of cell x"):
        a.read_code_attacks(tmp_path / "code.py", base)
    with pytest.raises(ValueError, match="attacks need the repository"):
        a.read_code_attacks(tmp_path / "none.py", base)

"""Questions and rubric: points are the notebooks', questions hold no answer, and what is committed is in step."""

import json
import re
import sys
from pathlib import Path

import pytest

from metapcg.grading import papers
from metapcg.grading.build import BuildError

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))

NOTEBOOK = '''\
# %% [markdown] id="intro"
# # Notebook 0 · Sums
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `double` | 4 |
# | – | question: why it doubles | 2 |
# | | **total** | **6** |

# %% id="imports"
import math

# %% [markdown] id="text"
# ## 1 · Twice
# $$ d(x) = 2x. \\tag{1} $$

# %% id="double" kind="solution"
def double(x: float) -> float:
    """Twice x, equation (1).

    TODO (1 line).
    """
    ### BEGIN SOLUTION
    return 2.0 * x + 0.0
    ### END SOLUTION

# %% id="test-double" kind="tests" points=3
check("double of one", double(1.0), [2.0], {"x was added once only.": [1.0]})
### BEGIN HIDDEN TESTS
for _x in (3.0, 4.0):
    emit(f"double of {_x}", double(_x))
### END HIDDEN TESTS

# %% id="test-double-types" kind="tests" points=1
assert double(1) == 2, "double: an integer was refused."

# %% [markdown] id="q-why" kind="question" points=2
# ### Question 1 (2 points)
#
# Why does $d$ double?
#
# ### BEGIN SOLUTION
# Because of the factor in front of it.
# ### END SOLUTION
'''

SOURCE = """\
[questions]
title = "Questions"
introduction = "Read this first."

[discussion]
title = "Part B"
introduction = "In writing."

[[discussion.questions]]
id = "sums"
title = "sums"
points = 2
text = "What is a sum?"
earns = [{ part = "each", points = 0.5, times = 4, earns = "a word" }]

[further]
title = "Further"
text = "Add more."

[rubric]
title = "Rubric"
introduction = "For graders."
manual = "Write one sentence."

[rubric.parts."0_sums/q-why"]
earns = [
    { part = "a", points = 1.5, earns = "the factor $2 = |-2|$" },
    { part = "b", points = 0.5, earns = "a reason" },
]
"""


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "0_sums.py").write_text(NOTEBOOK, encoding="utf-8")
    (tmp_path / "notebooks" / "papers.toml").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def change(root: Path, name: str, before: str, after: str) -> None:
    path = root / "notebooks" / name
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


# ------------------------------------------------------------------------------------------------- a small repository


def test_questions_show_what_is_asked_and_what_it_is_worth(repository):
    _, text = papers.papers(repository)["HW11_Questions"]
    assert "### Exercise 1 · `double` (4 points)" in text
    assert "$$ d(x) = 2x. \\tag{1} $$" in text
    assert 'def double(x: float) -> float:\n    """Twice x, equation (1).' in text
    assert "### Question 1 · why it doubles (2 points)\n\nWhy does $d$ double?\n" in text
    assert "| Notebook 0 · Sums | `0_sums.ipynb` | 1 | 1 | 6 |" in text
    assert "| **Total** |  |  |  | **8** |" in text
    assert "## Discussion 1 · sums (2 points)\n\nWhat is a sum?" in text


def test_questions_hold_no_answer_and_no_hidden_test(repository):
    _, text = papers.papers(repository)["HW11_Questions"]
    for secret in ("2.0 * x + 0.0", "factor in front", "SOLUTION", "HIDDEN", "3.0", "a word"):
        assert secret not in text


def test_rubric_says_what_every_cell_looks_at(repository):
    _, text = papers.papers(repository)["HW11_Rubric"]
    assert "- `test-double`, 3 points\n    - visible (knows one mistake by name): of one.\n    - hidden: of …" in text
    assert "- `test-double-types`, 1 point\n    - visible, reported: an integer was refused." in text
    assert "| question 1 | `q-why` | by hand | 2 |" in text
    assert r"| a | 1.5 | the factor $2 = \vert -2\vert $ |" in text
    assert "| each | 4 × 0.5 | a word |" in text
    assert "| **Total** | **4** | **4** | **8** |" in text


def test_points_follow_the_notebook(repository):
    change(repository, "0_sums.py", 'kind="tests" points=3', 'kind="tests" points=5')
    texts = papers.papers(repository)
    assert "`double` (6 points)" in texts["HW11_Questions"][1] and "`test-double`, 5 points" in texts["HW11_Rubric"][1]
    found = papers.disagreements(papers.read_notebook(repository / "notebooks" / "0_sums.py"))
    assert found == [
        "0_sums: exercise 1 is announced as double, 4 points; the cells give double, 6",
        "0_sums: announces 6 points, has 8",
    ]


def test_tests_belong_to_the_solution_with_the_longest_name(repository):
    more = '# %% id="double-types" kind="solution"\ndef types(x):\n'
    more += "    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n\n"
    change(repository, "0_sums.py", '# %% id="test-double-types"', more + '# %% id="test-double-types"')
    exercises = papers.read_notebook(repository / "notebooks" / "0_sums.py").items[:2]
    assert [(item.names, item.points) for item in exercises] == [(["double"], 3), (["types"], 1)]


def test_parts_that_do_not_add_up_are_an_error(repository):
    change(repository, "papers.toml", "points = 1.5", "points = 1")
    with pytest.raises(BuildError, match="0_sums/q-why: the parts add up to 1.5 points, it has 2"):
        papers.papers(repository)
    change(repository, "papers.toml", "points = 1,", "points = 1.5,")
    change(repository, "papers.toml", "times = 4", "times = 3")
    with pytest.raises(BuildError, match="discussion question sums: the parts add up to 1.5 points, it has 2"):
        papers.papers(repository)


def test_parts_of_a_question_that_is_not_there_are_an_error_but_those_of_a_missing_notebook_wait(repository):
    change(repository, "papers.toml", '"0_sums/q-why"', '"0_sums/q-how"')
    with pytest.raises(BuildError, match="names 0_sums/q-how, which is no question of that notebook"):
        papers.papers(repository)
    change(repository, "papers.toml", '"0_sums/q-how"', '"1_later/q-how"')
    notebooks = papers.read_notebooks(repository)
    assert papers.questions_without_split(notebooks, papers.read_source(repository)) == ["0_sums/q-why"]
    assert "Cell `q-why`; model answer in" in papers.papers(repository)["HW11_Rubric"][1]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[further]", "[furthermore]", r"\[further\] lacks 'title'"),
        ('text = "What is a sum?"', "", "discussion question sums lacks 'text'"),
        ('title = "Rubric"', 'title = "Rubric', "papers.toml: cannot be read as TOML"),
    ],
)
def test_fault_in_the_hand_written_part_is_named(repository, before, after, message):
    change(repository, "papers.toml", before, after)
    with pytest.raises(BuildError, match=message):
        papers.papers(repository)


def test_only_what_is_stale_is_written_and_a_second_compile_touches_nothing(repository):
    names = [f"reports/{name}.{kind}" for name in ("HW11_Questions", "HW11_Rubric") for kind in ("md", "pdf")]
    assert [path.as_posix() for path in papers.compile_papers(repository)] == names
    times = {name: (repository / name).stat().st_mtime_ns for name in names}
    assert papers.out_of_step(repository) == [] == papers.compile_papers(repository)
    assert {name: (repository / name).stat().st_mtime_ns for name in names} == times

    change(repository, "papers.toml", "Write one sentence.", "Write two.")  # only the rubric has it
    assert [path.as_posix() for path in papers.out_of_step(repository)] == names[2:]
    papers.compile_papers(repository)
    (repository / names[0]).write_text("edited by hand")
    (repository / names[3]).unlink()
    assert [path.as_posix() for path in papers.out_of_step(repository)] == [names[0], names[3]]


def test_same_text_gives_the_same_pdf_and_another_text_another_fingerprint():
    text = "# T\n\n$$ a \\odot \\square(x) = \\bot(y) \\tag{7} $$\n\n| a | b |\n|---|---:|\n| $\\pi(a|s)$ | 2 |\n"
    one, two = papers.pdf("T", text), papers.pdf("T", text)
    assert one == two and one.startswith(b"%PDF")
    assert papers._fingerprint("T", text).encode() in one
    assert papers._fingerprint("T", text + "x").encode() not in one


def test_a_formula_that_cannot_be_read_is_an_error_and_nothing_is_written(repository):
    change(repository, "papers.toml", "What is a sum?", r"What is $\\frac{1}{$?")
    with pytest.raises(ValueError, match="HW11 · Questions: pandoc cannot turn the text into typst"):
        papers.compile_papers(repository)
    assert not (repository / "reports").exists()


@pytest.mark.parametrize("package", ["pypandoc", "typst"])
def test_missing_program_is_said_in_one_line_with_the_command(repository, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=f"{package} is not installed; run: pip install -r requirements.txt$"):
        papers.compile_papers(repository)
    assert not (repository / "reports").exists()


def test_a_students_copy_has_no_papers_to_make(repository):
    (repository / "notebooks" / "papers.toml").unlink()
    assert papers.papers(repository) == {} and papers.compile_papers(repository) == []


# ------------------------------------------------------------------------------------------------------- the course's


@pytest.fixture(scope="module")
def notebooks():
    return {notebook.name: notebook for notebook in papers.read_notebooks(ROOT)}


@pytest.fixture(scope="module")
def texts():
    return {name: text for name, (_, text) in papers.papers(ROOT).items()}


def test_committed_papers_are_in_step():
    assert papers.out_of_step(ROOT) == [], "run ./compile_and_run.sh compile and commit what it writes"


@pytest.mark.parametrize("name", NAMES)
def test_points_are_those_of_the_worked_notebooks_metadata(name, notebooks):
    path = ROOT / "answers" / "hw11" / f"{name}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    metadata = [cell["metadata"]["nbgrader"] for cell in cells if "nbgrader" in cell["metadata"]]
    right = {entry["grade_id"]: entry["points"] for entry in metadata if entry["grade"]}
    got = {}
    for item in notebooks[name].items:
        got |= {cell.id: cell.points for cell in getattr(item, "tests", [item])}
    assert got == right


@pytest.mark.parametrize("name", NAMES)
def test_a_notebooks_own_table_of_points_agrees_with_its_cells(name, notebooks):
    assert papers.disagreements(notebooks[name]) == []


def test_every_question_has_its_points_split(notebooks):
    missing = papers.questions_without_split(list(notebooks.values()), papers.read_source(ROOT))
    assert missing == [], "say in notebooks/papers.toml, [rubric.parts], what each part of these questions earns"


@pytest.mark.parametrize("name", NAMES)
def test_the_course_s_questions_hold_no_answer_and_no_hidden_test(name, texts):
    source = (ROOT / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
    blocks = re.findall(
        r"(?ms)^[# ]*### BEGIN (?:SOLUTION|HIDDEN TESTS)$(.*?)^[# ]*### END (?:SOLUTION|HIDDEN TESTS)$", source
    )
    assert blocks
    lines = {line.strip().removeprefix("# ") for block in blocks for line in block.split("\n")}
    found = [line for line in lines if len(line) > 18 and line in texts["HW11_Questions"]]
    assert found == []


def test_equations_that_exercises_refer_to_are_printed(notebooks, texts):
    for notebook in notebooks.values():
        for item in notebook.items:
            for number in getattr(item, "equations", []):
                assert number in notebook.equations, f"{notebook.name}: {item.id} refers to equation ({number})"
                formula = "\n".join(line.rstrip() for line in notebook.equations[number].split("\n"))
                assert formula in texts["HW11_Questions"]


def test_the_worked_theory_can_be_set_and_its_equations_are_numbered_without_gaps():
    text = (ROOT / "answers" / "HW11_Complete_Solutions.md").read_text(encoding="utf-8")
    assert papers.pdf("Solutions", text).startswith(b"%PDF")
    numbers = [int(number) for number in re.findall(r"\\tag\{(\d+)\}", text)]
    assert numbers == list(range(1, len(numbers) + 1))
    words = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", "", text, flags=re.DOTALL)
    referred = {int(number) for number in re.findall(r"(?<!\w)\((\d{1,2})\)", words)}
    assert referred and max(referred) <= len(numbers)

"""Damaged and altered notebooks come out in the released shape, with the student's work and nothing else of theirs."""

import json

import nbformat
import pytest

from metapcg.grading.normalise import UnreadableError, identify, normalise, read_cells

MINE = "def double(x):\n    return x + x"


def work(toy) -> dict:
    """A student's notebook as JSON data."""
    return json.loads(nbformat.writes(toy.solved(double=MINE, q_why="### Question 1 (4 points)\n\nmy answer")))


def cell(data, name):
    return next(cell for cell in data["cells"] if cell["id"] == name)


def normalised(toy, data):
    return normalise(read_cells(data if isinstance(data, bytes) else json.dumps(data).encode()), toy.course["0_sums"])


def shape(notebook):
    return [(c.id, c.cell_type, c.source, dict(c.metadata.get("nbgrader", {}))) for c in notebook.cells]


def rename(data):
    cell(data, "double")["metadata"]["nbgrader"]["grade_id"] = "cell-9"
    cell(data, "double")["id"] = "other"


def flip(data):
    cell(data, "test-double")["metadata"]["nbgrader"].update(grade=False, solution=True, locked=False, points=900)


def strip(data):
    for each in data["cells"]:
        each["metadata"] = {}
        del each["id"]


def old(data):
    for each in data["cells"]:
        if "nbgrader" in each["metadata"]:
            each["metadata"]["nbgrader"] = {"grade_id": each["metadata"]["nbgrader"]["grade_id"], "schema_version": 1}


def tag(data):
    cell(data, "test-double")["metadata"]["tags"] = ["skip-execution", "raises-exception"]


def edit_tests(data):
    cell(data, "test-double")["source"] = "pass"


def delete_tests(data):
    data["cells"] = [each for each in data["cells"] if not each["id"].startswith("test")]


def double_tests(data):
    data["cells"].append(dict(cell(data, "test-double"), id="copied"))


def double_ids(data):
    for each in data["cells"]:
        each["id"] = each["metadata"].get("nbgrader", {}).get("grade_id", "same")


def ids_alike(data):
    for each in data["cells"]:
        each["id"] = "double"


def ids_alike_and_no_metadata(data):
    for each in data["cells"]:
        each.update(id="q-why", metadata={})


def reorder(data):
    data["cells"].reverse()


def other_kernel(data):
    data["metadata"] = {"kernelspec": {"name": "bash", "display_name": "x", "language": "bash"}}


def format_5(data):
    data.update(nbformat=5, nbformat_minor=9, new_thing={"a": 1})


def unknown_keys(data):
    for each in data["cells"]:
        each["metadata"]["nbgrader_extra"] = each["attachments"] = {"x": [1]}


def outputs(data):
    cell(data, "double")["outputs"] = [{"output_type": "nonsense", "data": "x" * 1000}]


def wrong_types(data):
    data["cells"] += [17, None, {"cell_type": 3, "source": {"a": 1}, "metadata": []}]


ALTERED = (
    rename, flip, strip, old, tag, edit_tests, delete_tests, double_tests, double_ids, ids_alike,
    ids_alike_and_no_metadata, reorder, other_kernel, format_5,
    unknown_keys, outputs, wrong_types,
)  # fmt: skip


@pytest.mark.parametrize("alter", ALTERED)
def test_altered_notebook_has_the_released_shape_and_the_students_work(toy, alter):
    wanted = shape(normalised(toy, work(toy)).notebook)
    data = work(toy)
    alter(data)
    result = normalised(toy, data)
    assert shape(result.notebook) == wanted
    assert result.answered == {"double", "area", "q-why"}
    assert [c.id for c in result.notebook.cells] == [c.id for c in toy.starter().cells]


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.replace("\n", "\r\n").encode(),
    ],
    ids=["byte order mark", "UTF-16", "UTF-16 without mark", "CRLF"],
)
def test_encodings(toy, encode):
    wanted = shape(normalised(toy, work(toy)).notebook)
    assert shape(normalised(toy, encode(json.dumps(work(toy), indent=1, ensure_ascii=False))).notebook) == wanted


def test_format_3(toy):
    data = work(toy)
    sheet = [
        {"cell_type": each["cell_type"], "input" if each["cell_type"] == "code" else "source": each["source"],
         "metadata": each["metadata"]} for each in data["cells"]
    ]  # fmt: skip
    old_format = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": sheet}]}
    assert shape(normalised(toy, old_format).notebook) == shape(normalised(toy, data).notebook)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"%PDF-1.7", "PDF"),
        (b"PK\x03\x04....", "archive"),
        (b'{"cells": [{"cell_type": "code", "sour', "cut off"),
        (b"hello", "no notebook"),
        (b"[1, 2]", "no cells"),
        (b'{"cells": 5}', "no cells"),
        (b"[" * 200_000, "no notebook"),
        (b'{"a":' * 100_000, "cut off or damaged"),
    ],
)
def test_what_is_no_notebook_is_named(data, reason):
    with pytest.raises(UnreadableError, match=reason):
        read_cells(data)


def test_a_changed_given_cell_runs_after_the_given_one(toy):
    notebook = toy.solved()
    notebook.cells[1].source += "\nimport random"
    result = normalise(read_cells(nbformat.writes(notebook).encode()), toy.course["0_sums"])
    ids = [c.id for c in result.notebook.cells]
    assert ids[1:5] == ["imports", "added-by-student-1", "setup", "double"]
    assert result.notebook.cells[2].source.endswith("import random")
    assert "cell imports was changed; the given one runs first, then the student's" in result.notes


def test_an_added_cell_stays_where_the_student_put_it(toy):
    notebook = toy.solved()
    notebook.cells.insert(4, nbformat.v4.new_code_cell("helper = 1", id="mine"))
    result = normalise(read_cells(nbformat.writes(notebook).encode()), toy.course["0_sums"])
    assert [c.id for c in result.notebook.cells][3:6] == ["double", "added-by-student-1", "test-double"]
    assert result.notebook.cells[4].metadata == {"hw11": "extra"}


def test_two_different_solutions_run_in_their_order_and_a_person_is_told(toy):
    notebook = toy.solved(double=MINE)
    copy = nbformat.v4.new_code_cell("def double(x):\n    return 2 * x", id="x", metadata=notebook.cells[3].metadata)
    notebook.cells.insert(4, copy)
    result = normalise(read_cells(nbformat.writes(notebook).encode()), toy.course["0_sums"])
    assert [c.source for c in result.notebook.cells[3:5]] == [MINE, "def double(x):\n    return 2 * x"]
    assert result.attention == ["cell double is there more than once, with different contents"]


def test_deleted_solution_comes_back_as_its_starter_and_a_person_is_told(toy):
    notebook = toy.solved()
    del notebook.cells[3]
    result = normalise(read_cells(nbformat.writes(notebook).encode()), toy.course["0_sums"])
    assert "NotImplementedError" in result.notebook.cells[3].source
    assert result.attention == ["cells of the student's own work are missing: double"]


@pytest.mark.parametrize("name", ["0_sums", "final version", "1_words"])
def test_a_notebook_is_known_by_its_content_not_its_name(toy, name):
    assert identify(name, read_cells(json.dumps(work(toy)).encode()), toy.course) == "0_sums"
    data = work(toy)
    strip(data)
    assert identify(name, read_cells(json.dumps(data).encode()), toy.course) == "0_sums"


def test_a_foreign_notebook_is_none_of_the_course(toy):
    foreign = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])
    assert identify("holiday", read_cells(nbformat.writes(foreign).encode()), toy.course) is None

"""What may be handed in instead of a notebook: damage, accidents, and files that attack the grader."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from metapcg.grading.attacks import ATTACKED, BEFORE, MARKER, NOTEBOOK, Attack, Base, Places

FILE = f"{NOTEBOOK}.ipynb"


def attacks(base: Base) -> list[Attack]:
    """All of them."""
    return [*_notebooks(base), *_bytes(base), *_folders(base), *_archives(base), *_names(base)]


def _dump(content: object) -> bytes:
    return json.dumps(content).encode()


def _cell(content: dict, cell_id: str) -> dict:
    return next(cell for cell in content["cells"] if cell.get("id") == cell_id)


def _new(source: str, **metadata: object) -> dict:
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def _in_folder(files: Callable[[], dict[str, bytes]]) -> Callable[[Path, Places], Path]:
    def make(place: Path, places: Places) -> Path:
        for name, data in files().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        return place

    return make


def _zip(place: Path, files: dict[str, bytes]) -> Path:
    path = place.with_name(f"{place.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


# ---------------------------------------------------------------------------------------- notebooks that can be read


def _notebooks(base: Base) -> list[Attack]:
    honest = base.before + base.after

    def case(
        name: str,
        change: Callable[[dict], object],
        aim: str = "damage",
        status: str = "graded",
        most: float = honest,
        least: float | None = None,
    ) -> Attack:
        def files() -> dict[str, bytes]:
            content = base.content()
            changed = change(content)
            data = changed if isinstance(changed, bytes) else _dump(content if changed is None else changed)
            return {FILE: data}

        return Attack(name, aim, (status,), most if least is None else least, most, _in_folder(files))

    def every(content: dict, change: Callable[[dict], None]) -> None:
        for cell in content["cells"]:
            change(cell)

    def tests(content: dict) -> list[dict]:
        return [cell for cell in content["cells"] if cell["id"].startswith("test-")]

    def set_tests(content: dict, source: str) -> None:
        for cell in tests(content):
            cell["source"] = source

    def drop_tests(content: dict) -> None:
        content["cells"] = [cell for cell in content["cells"] if not cell["id"].startswith("test-")]

    def tag_tests(content: dict, *tags: str) -> None:
        for cell in tests(content):
            cell["metadata"]["tags"] = list(tags)

    def flags(content: dict) -> None:
        for cell in content["cells"]:
            nbgrader = cell["metadata"].get("nbgrader")
            if nbgrader:
                nbgrader.update(grade=False, solution=True, locked=False, points=1000, schema_version=1)

    def unlock(content: dict) -> None:
        for cell in tests(content):
            cell["metadata"]["nbgrader"].update(locked=False, points=100, grade_id=f"test-{ATTACKED}")

    def rename(content: dict) -> None:
        for number, cell in enumerate(content["cells"]):
            cell["id"] = f"cell-{number}"
            if "nbgrader" in cell["metadata"]:
                cell["metadata"]["nbgrader"]["grade_id"] = f"renamed-{number}"

    def strip(content: dict) -> None:
        for cell in content["cells"]:
            cell["metadata"] = {}
            cell.pop("id")

    def copies(content: dict, wanted: Callable[[dict], bool]) -> None:
        content["cells"] = [each for cell in content["cells"] for each in [cell] * (2 if wanted(cell) else 1)]

    def another_copy(content: dict) -> None:
        twin = copy.deepcopy(_cell(content, BEFORE))
        twin["source"] = twin["source"].replace("return returns", "return 0 * returns")
        content["cells"].insert(content["cells"].index(_cell(content, BEFORE)), twin)

    def kernel(content: dict, name: str) -> None:
        content["metadata"] = {
            "kernelspec": {"name": name, "display_name": name, "language": "bash", "argv": ["/bin/sh", "-c", "id"]},
            "language_info": {"name": "bash", "file_extension": "/../../x"},
        }

    def old_format(content: dict) -> dict:
        cells = []
        for cell in content["cells"]:
            cell = {key: value for key, value in cell.items() if key not in ("id", "execution_count")}
            if cell["cell_type"] == "code":
                cell |= {"input": cell.pop("source"), "language": "python", "collapsed": False}
            cells.append(cell)
        return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}

    def forged_outputs(content: dict) -> None:
        record = {"application/vnd.hw11.emitted+json": {"what": "surrogate_naive", "hint": "", "value": 0.0}}
        for cell in tests(content):
            cell["outputs"] = [
                {"output_type": "display_data", "data": record, "metadata": {}},
                {"output_type": "execute_result", "data": {"text/plain": "100"}, "metadata": {}, "execution_count": 1},
            ]

    def large_outputs(content: dict) -> None:
        for cell in tests(content):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * (3 * 2**20)}]

    def strange_sources(content: dict) -> None:
        content["cells"] += [
            {"cell_type": "code", "source": 5, "metadata": []},
            {"cell_type": "code", "source": ["a = 1\n", None, 7, "b = 2"], "metadata": None},
            {"cell_type": ["code"], "source": {"a": 1}, "metadata": "x", "id": 9},
            {"cell_type": "heading", "level": 99, "source": "x"},
            None,
            [],
            "cell",
        ]

    def more(content: dict, number: int, source: str) -> None:
        content["cells"] += [_new(source) for _ in range(number)]

    def html_answers(content: dict) -> None:
        text = (
            "<script>was_here()</script> <img src=x onerror=was_here()> [x](javascript:was_here()) "
            "[y](&#106;avascript:was_here()) [z]( java\tscript:was_here()) <svg/onload=was_here()> $<img src=x "
            "onerror=was_here()>$ \n\n$$\\href{javascript:was_here()}{x}$$\n\n```{=html}\n<script>was_here()</script>\n```"
        )
        for cell in content["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution") and cell["cell_type"] == "markdown":
                cell["source"] = text
        content["cells"].append({"cell_type": "markdown", "source": text, "metadata": {}, "id": "x<script>"})

    def raw_duplicate_keys(content: dict) -> bytes:
        return (
            _dump(content)[:-1]
            + b', "cells": '
            + _dump(content["cells"])
            + b', "cells": '
            + _dump(content["cells"])
            + b"}"
        )

    def magic(content: dict, text: str) -> None:
        _cell(content, ATTACKED)["source"] = text

    shell = "%%bash\ncat /etc/passwd; touch /tmp/was-here-hw11; (sleep 3600; echo was-here-hw11) & disown"
    lines = "!cat ~/.ssh/*\n%env\n%run /etc/passwd\n%load_ext autoreload\n%kill_bgscripts\n!!id\n?print\n%%time"
    lone = _dump({"x": "\ud800"})[7:-2]
    return [
        case("tests_deleted", drop_tests),
        case("tests_edited_to_pass", lambda c: set_tests(c, "pass"), "marks"),
        case("tests_edited_to_print_full_marks", lambda c: set_tests(c, "print('10/10')\n10"), "marks"),
        case("tests_turned_into_text", lambda c: [cell.update(cell_type="markdown") for cell in tests(c)] and None),
        case("tests_tagged_skip_execution", lambda c: tag_tests(c, "skip-execution", "raises-exception"), "marks"),
        case("tests_tagged_remove_cell", lambda c: tag_tests(c, "remove_cell", "injected-parameters"), "marks"),
        case("flags_flipped_and_points_raised", flags, "marks"),
        case("tests_unlocked_and_renamed", unlock, "marks"),
        case("all_ids_renamed", rename),
        case("metadata_and_ids_stripped", strip),
        case("a_solution_copied_innocently", lambda c: copies(c, lambda cell: cell["id"] == BEFORE)),
        case("a_tests_cell_copied", lambda c: copies(c, lambda cell: cell["id"].startswith("test-"))),
        case("every_cell_copied", lambda c: copies(c, lambda cell: True)),
        case("a_second_solution_of_the_same_id", another_copy),
        case("cells_in_reverse_order", lambda c: c["cells"].reverse()),
        case("only_the_solution_cells", lambda c: c.update(cells=[_cell(c, BEFORE), _cell(c, "surrogate-lvc")])),
        case("imports_deleted", lambda c: c.update(cells=[x for x in c["cells"] if x["id"] != "imports"])),
        case(
            "imports_changed",
            lambda c: _cell(c, "imports").update(source="check = emit = print\nimport os\nos._exit"),
            "marks",
        ),
        case("set_up_exits", lambda c: _cell(c, "setup").update(source="raise SystemExit"), "marks"),
        case("kernel_that_is_not_there", lambda c: kernel(c, "sage")),
        case("kernel_that_is_a_shell", lambda c: kernel(c, "../../bin/sh")),
        case("format_3", old_format),
        case("format_5_with_unknown_parts", lambda c: c.update(nbformat=5, nbformat_minor=99, signature="x")),
        case("format_that_is_a_word", lambda c: c.update(nbformat="four", nbformat_minor=None)),
        case("no_format_and_no_metadata", lambda c: (c.pop("nbformat"), c.pop("nbformat_minor"), c.pop("metadata")) and None),
        case("ids_that_are_numbers", lambda c: every(c, lambda cell: cell.update(id=7))),
        case("ids_all_alike", lambda c: every(c, lambda cell: cell.update(id="gae"))),
        case("ids_with_markup", lambda c: every(c, lambda cell: cell.update(id="<script>was_here()</script>\n/../x"))),
        case("metadata_that_is_a_list", lambda c: every(c, lambda cell: cell.update(metadata=[1]))),
        case("metadata_of_nbgrader_that_is_unknown", lambda c: every(c, lambda cell: cell["metadata"].update(nbgrader=3))),
        case("metadata_of_colab_and_vs_code", lambda c: every(c, lambda x: x["metadata"].update(colab={}, vscode={}))),
        case("sources_of_strange_kinds", strange_sources),
        case("source_of_half_a_character", lambda c: _dump(c).replace(b"TODO (", lone + b" (")),
        case("saved_outputs_forged", forged_outputs, "marks"),
        case("saved_outputs_of_twenty_megabytes", large_outputs, "resources"),
        case("a_thousand_added_cells", lambda c: more(c, 1000, "x = 1"), "resources"),
        case("a_hundred_thousand_cells", lambda c: more(c, 100_000, ""), "resources", "unreadable", 0.0),
        case("a_cell_of_ten_megabytes", lambda c: more(c, 1, "# " + "x" * 10**7), "resources"),
        case("answers_with_scripts", html_answers, "harm"),
        case("keys_that_stand_twice", raw_duplicate_keys),
        case("numbers_that_are_none", lambda c: c["metadata"].update(a=float("nan"), b=float("-inf"), c=10**400)),
        case("a_number_of_a_million_digits", lambda c: _dump(c)[:-1] + b', "n": ' + b"9" * 10**6 + b"}", "damage", "unreadable", 0.0),
        case("metadata_nested_very_deeply", lambda c: _dump(c)[:-1] + b', "n": ' + b"[" * 10**5 + b"]" * 10**5 + b"}", "harm", "unreadable", 0.0),
        case("shell_cell_that_waits_for_its_child", lambda c: magic(c, shell), "harm", "out of time"),
        case("lines_of_magic", lambda c: magic(c, lines), "harm"),
        case("syntax_error", lambda c: magic(c, "def surrogate_naive(:\n    return (")),
        case("null_characters_in_a_source", lambda c: magic(c, "x = 1\0\0\nprint('\x00\x1b[2J')")),
        case("tabs_and_spaces_mixed", lambda c: magic(c, "def surrogate_naive(a, b, c):\n\treturn 1\n        return 2")),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------- bytes that are something else


def _bytes(base: Base) -> list[Attack]:
    honest = base.before + base.after
    good = _dump(base.content())

    def case(name: str, data: Callable[[], bytes], good_part: float = 0.0, status: str = "unreadable") -> Attack:
        return Attack(name, "damage", (status,), good_part, good_part, _in_folder(lambda: {FILE: data()}))

    return [
        case("cut_off_in_the_middle", lambda: good[: len(good) // 2]),
        case("empty_file", lambda: b""),
        case("blank_file", lambda: b" \n\n\t"),
        case("web_page", lambda: b"<!DOCTYPE html><html><script>was_here()</script></html>"),
        case("pdf", lambda: b"%PDF-1.7\n%\xe2\xe3"),
        case("picture", lambda: b"\x89PNG\r\n\x1a\n" + os.urandom(1000)),
        case("random_bytes", lambda: os.urandom(100_000)),
        case("json_list", lambda: b"[1, 2]"),
        case("json_number", lambda: b"5"),
        case("cells_that_are_a_number", lambda: b'{"cells": 5}'),
        case("git_conflict", lambda: good[:500] + b"\n<<<<<<< HEAD\n" + good[500:]),
        case("python_file", lambda: b"import torch\nprint(1)\n"),
        case("larger_than_allowed", lambda: b"{" + b" " * (33 * 2**20) + b"}"),
        case("byte_order_mark", lambda: b"\xef\xbb\xbf" + good, honest, "graded"),
        case("utf_16", lambda: good.decode().encode("utf-16"), honest, "graded"),
        case("utf_16_without_a_mark", lambda: good.decode().encode("utf-16-le"), honest, "graded"),
        case("latin_1", lambda: good.replace(b"TODO (", b"T\xd6D\xd6 ("), honest, "graded"),
        case("carriage_returns", lambda: good.replace(b"\\n", b"\\r\\n"), honest, "graded"),
    ]


# ------------------------------------------------------------------------------------------------------------ folders


def _folders(base: Base) -> list[Attack]:
    honest = base.before + base.after
    good = _dump(base.content())

    def case(name: str, make: Callable[[Path, Places], Path], aim: str, status: str = "graded", points: float = honest):
        return Attack(name, aim, tuple(status.split("|")), points, points, make)

    def files(name: str, found: dict[str, bytes], aim: str = "damage", status: str = "graded", points: float = honest):
        return case(name, _in_folder(lambda: found), aim, status, points)

    def link(target: str) -> Callable[[Path, Places], Path]:
        def make(place: Path, places: Places) -> Path:
            place.mkdir()
            (place / FILE).symlink_to(places.fill_in(target))
            return place

        return make

    def linked_entry(place: Path, places: Places) -> Path:
        place.symlink_to(places.root / "answers" / "hw11")
        return place

    def loop(place: Path, places: Places) -> Path:
        place.mkdir()
        (place / FILE).write_bytes(good)
        (place / "again").symlink_to(place)
        (place / "up").symlink_to("/")
        return place

    def pipe(place: Path, places: Places) -> Path:
        place.mkdir()
        os.mkfifo(place / FILE)
        return place

    def pipe_entry(place: Path, places: Places) -> Path:
        os.mkfifo(place.with_name(f"{place.name}.ipynb"))
        return place.with_name(f"{place.name}.ipynb")

    def empty(place: Path, places: Places) -> Path:
        place.mkdir()
        return place

    def folder_called_notebook(place: Path, places: Places) -> Path:
        (place / FILE).mkdir(parents=True)
        (place / FILE / FILE).write_bytes(good)
        return place

    def deep(place: Path, places: Places) -> Path:
        folder = place.joinpath(*["d"] * 60)
        folder.mkdir(parents=True)
        (folder / FILE).write_bytes(good)
        return place

    def many(place: Path, places: Places) -> Path:
        place.mkdir()
        for number in range(3000):
            (place / f"{number}.txt").touch()
        return place

    shadows = {
        f"{name}.py": b"raise SystemExit('shadow')\n" for name in ("numpy", "torch", "json", "IPython", "random")
    }
    shadows |= {"sitecustomize.py": b"import os\nos._exit(1)\n", "metapcg/__init__.py": b"raise SystemExit\n"}
    shadows |= {"ipython_config.py": b"c.InteractiveShellApp.exec_lines = ['check = print']\n", "x.pth": b"import os\n"}
    shadows |= {".ipython/profile_default/startup/0.py": b"check = emit = print\n", "nbgrader_config.py": b"1/0\n"}
    shadows |= {"gradebook.db": b"SQLite format 3\0", "key.json": b"{}", "grades.csv": b"student,total\n"}
    other = _dump(base.content(surrogate_naive=base.worked["surrogate-naive"]))
    return [
        files("modules_and_settings_beside_the_notebook", {FILE: good, **shadows}, "marks"),
        files("renamed_notebook", {"My final homework (3).ipynb": good}),
        files("wrong_case", {FILE.upper(): good}),
        files("double_suffix", {f"{FILE}.ipynb": good}),
        files("nested_folders", {f"hw11/code/hw11/x/{FILE}": good}),
        files("downloaded_twice", {FILE: good, f"{NOTEBOOK} (1).ipynb": good, f"{NOTEBOOK}-Copy1.ipynb": good}),
        files("checkpoints", {FILE: good, f".ipynb_checkpoints/{NOTEBOOK}-checkpoint.ipynb": b"{"}),
        files("another_notebook_under_this_name", {FILE: b'{"cells": []}'}, "damage", "graded|incomplete", 0.0),
        files("text_files_only", {"solution.txt": b"x", "solution.py": b"x"}, "damage", "empty", 0.0),
        files("archive_that_is_no_zip", {"hw11.rar": b"Rar!", "hw11.tar.gz": b"\x1f\x8b"}, "damage", "unreadable", 0.0),
        files("notebook_and_a_damaged_one", {FILE: good, "1_maml.ipynb": b"{"}),
        Attack(  # either may count, and a person is told
            "two_versions",
            "damage",
            ("graded",),
            honest,
            honest + base.attacked,
            _in_folder(lambda: {FILE: good, f"old/{NOTEBOOK}.ipynb": other}),
        ),
        case("empty_folder", empty, "damage", "empty", 0.0),
        case("folder_called_like_a_notebook", folder_called_notebook, "damage"),
        case("sixty_folders_deep", deep, "damage"),
        case("three_thousand_files", many, "resources", "empty|unreadable", 0.0),
        case("link_to_the_answers", link(f"@ROOT@/answers/hw11/{FILE}"), "reading", "unreadable", 0.0),
        case("link_to_another_student", link(f"@SUBMISSIONS@/0-honest/{FILE}"), "reading", "unreadable", 0.0),
        case("link_to_an_endless_device", link("/dev/zero"), "resources", "unreadable", 0.0),
        case("submission_that_is_a_link", linked_entry, "reading", "unreadable", 0.0),
        case("links_in_a_circle", loop, "resources"),
        case("pipe_in_place_of_a_notebook", pipe, "resources", "empty|unreadable", 0.0),
        case("submission_that_is_a_pipe", pipe_entry, "resources", "empty|unreadable", 0.0),
    ]


# ----------------------------------------------------------------------------------------------------------- archives


def _archives(base: Base) -> list[Attack]:
    honest = base.before + base.after
    good = _dump(base.content())

    def case(
        name: str, make: Callable[[Path], Path], aim: str = "damage", status: str = "graded", points: float = honest
    ):
        return Attack(name, aim, tuple(status.split("|")), points, points, lambda place, places: make(place))

    def files(name: str, found: dict[str, bytes], aim: str = "damage", status: str = "graded", points: float = honest):
        return case(name, lambda place: _zip(place, found), aim, status, points)

    def raw(data: bytes) -> Callable[[Path], Path]:
        def make(place: Path) -> Path:
            path = place.with_name(f"{place.name}.zip")
            path.write_bytes(data)
            return path

        return make

    def packed(found: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, data in found.items():
                archive.writestr(name, data)
        return buffer.getvalue()

    def bomb(place: Path) -> Path:
        path = place.with_name(f"{place.name}.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            with archive.open(FILE, "w", force_zip64=True) as file:
                for _ in range(400):
                    file.write(b" " * 2**20)
        return path

    def lying_bomb(place: Path) -> Path:
        data = packed({FILE: b" " * (60 * 2**20)})
        size = struct.pack("<I", 60 * 2**20)
        return raw(data.replace(size, struct.pack("<I", 1000)))(place)

    def linked(place: Path) -> Path:
        path = place.with_name(f"{place.name}.zip")
        with zipfile.ZipFile(path, "w") as archive:
            member = zipfile.ZipInfo(FILE)
            member.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(member, "/etc/passwd")
        return path

    def encrypted(place: Path) -> Path:
        data = bytearray(packed({FILE: good}))
        for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.index(header) + offset] |= 1
        return raw(bytes(data))(place)

    def damaged(place: Path) -> Path:
        data = bytearray(packed({FILE: good}))
        for number in range(200, 260):
            data[number] ^= 0xFF
        return raw(bytes(data))(place)

    def twice(place: Path) -> Path:
        path = place.with_name(f"{place.name}.zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(FILE, good)
            if FILE in archive.NameToInfo:
                archive.NameToInfo.clear()  # (zipfile would warn)
            archive.writestr(FILE, good)
        return path

    climbing = {f"../../{MARKER}.ipynb": good, f"/tmp/{MARKER}.ipynb": good, f"C:\\{MARKER}.ipynb": good}
    climbing |= {f"a/../../{MARKER}/{FILE}": good, f"..\\..\\{MARKER}.ipynb": good}
    return [
        files("zip_as_it_should_be", {f"hw11/{FILE}": good}),
        files("zip_that_climbs_out", climbing, "harm", "unreadable", 0.0),
        files("zip_that_climbs_out_beside_a_good_one", {FILE: good, **climbing}, "harm"),
        files("empty_zip", {}, "damage", "empty", 0.0),
        files("zip_in_a_zip", {"hw11.zip": packed({FILE: good})}),
        files("zip_in_a_zip_in_a_zip", {"a.zip": packed({"b.zip": packed({"c.zip": packed({FILE: good})})})}, "damage", "unreadable", 0.0),
        files("zip_of_three_thousand_files", {f"{n}.ipynb": b"{}" for n in range(3000)}, "resources", "unreadable", 0.0),
        files("zip_with_a_macs_clutter", {FILE: good, f"__MACOSX/._{FILE}": b"\0\5\x16\7", ".DS_Store": b"x"}),
        files("zip_with_names_of_all_kinds", {f"ünïcode 日本/\u202e{FILE}": good, "new\nline.txt": b"", "con.txt": b""}),
        case("zip_bomb", bomb, "resources", "unreadable", 0.0),
        case("zip_bomb_with_a_false_size", lying_bomb, "resources", "unreadable", 0.0),
        case("zip_with_a_link", linked, "reading", "unreadable", 0.0),
        case("zip_with_a_password", encrypted, "damage", "unreadable", 0.0),
        case("zip_that_is_damaged", damaged, "damage", "unreadable", 0.0),
        case("zip_that_is_cut_off", raw(packed({FILE: good})[:-60]), "damage", "unreadable", 0.0),
        case("zip_that_is_no_zip", raw(b"PK\x03\x04 not at all"), "damage", "unreadable", 0.0),
        case("zip_packed_another_way", raw(packed({FILE: good}, zipfile.ZIP_LZMA))),
        case("zip_behind_a_program", raw(b"#!/bin/sh\nexit 1\n" + packed({FILE: good}))),
        case("zip_with_one_name_twice", twice),
    ]  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- names


def _names(base: Base) -> list[Attack]:
    honest = base.before + base.after
    good = _dump(base.content())

    def case(title: str, name: bytes) -> Attack:
        def make(place: Path, places: Places) -> Path:
            path = Path(os.fsdecode(os.fsencode(places.submissions) + b"/" + name))
            path.mkdir()
            (path / FILE).write_bytes(good)
            return path

        return Attack(title, "harm", ("graded",), honest, honest, make)

    def two(place: Path, places: Places) -> Path:
        older, newer = (place.with_name(f"{place.name}{end}.zip") for end in ("", " (1)"))
        shutil.move(_zip(place, {FILE: _dump(base.solved())}), older)
        os.utime(older, (1_700_000_000, 1_700_000_000))
        with zipfile.ZipFile(newer, "w") as archive:
            archive.writestr(FILE, good)
        return newer

    return [
        case("name_of_an_honest_student_in_capitals", b"ZZ-HONEST"),
        case("name_of_an_honest_student_with_a_space", b" 0-honest ."),
        case("name_with_markup", b"<script>was_here()<"),
        case("name_with_a_formula", b"=cmd|' !A0"),
        case("name_with_a_new_line", b'new\nline, "quoted"\t\'; drop table student; --'),
        case("name_in_many_scripts", "Ærøskøbing Ωμέγα 학생 \u202etxt.exe\u202c é".encode()),
        case("name_that_is_no_text", b"caf\xe9 \xff\xfe"),
        case("name_as_long_as_can_be", b"n" * 250),
        case("name_of_dots", b"a..b.%2e%2e%2fx"),
        case("name_of_a_device", b"CON"),
        Attack("two_submissions_the_later_counts", "damage", ("graded",), honest, honest, two),
    ]

"""What an LMS gives: names, zips, folders, and what is refused with one line."""

import io
import os
import stat
import zipfile

import pytest

from metapcg.grading import submissions
from metapcg.grading.submissions import list_entries, read_entry, safe_name


def zipped(**members) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Ánna Müller_123456_assignsubmission_file_", "Ánna Müller"),
        ("doejane_LATE_12345_678901_hw11-1.zip", "doejane"),
        ("doejane_12345_678901_my work.zip", "doejane"),
        ("hw11-s123.zip", "s123"),
        ("s123", "s123"),
        ("李雷.zip", "李雷"),
        ("s123 (1).zip", "s123"),
        ("s123.ipynb", "s123"),
    ],
)
def test_student_of_a_name(tmp_path, name, student):
    (tmp_path / name).mkdir()
    assert list_entries(tmp_path) == [(student, tmp_path / name)]


def test_pattern_of_ones_own(tmp_path):
    (tmp_path / "group-7-anna.zip").write_bytes(b"")
    assert list_entries(tmp_path, r"group-\d+-(?P<student>\w+)")[0][0] == "anna"
    with pytest.raises(ValueError, match="needs a group"):
        list_entries(tmp_path, r"\d+")
    with pytest.raises(ValueError, match="no regular expression"):
        list_entries(tmp_path, r"(?P<student>")


def test_a_student_is_a_safe_folder_name_and_two_stay_two(tmp_path):
    assert safe_name("../../etc/passwd") == "_.._etc_passwd"
    assert len(safe_name("ö" * 300).encode()) <= 150
    assert safe_name("a\nb\0c") == "a_b_c" and safe_name("..") == "unnamed"
    for name in ("a*b", "a?b"):
        (tmp_path / name).mkdir()
    students = [student for student, _ in list_entries(tmp_path)]
    assert len(set(students)) == 2 and all(student.startswith("a_b") for student in students)


def test_a_mangled_name_takes_nobody_elses_id(tmp_path):
    for name in (" 0-honest .", "0-honest", "0-honest~1.zip"):
        (tmp_path / name).mkdir()
    students = {path.name: student for student, path in list_entries(tmp_path)}
    assert students["0-honest"] == "0-honest"
    assert len(set(students.values())) == 3
    (tmp_path / "0-honest").rmdir()
    assert {path.name: student for student, path in list_entries(tmp_path)}.items() <= students.items()


def test_a_file_instead_of_the_folder_is_said(tmp_path):
    (tmp_path / "all.zip").write_bytes(zipped(**{"a.ipynb": b"1"}))
    with pytest.raises(ValueError, match="all.zip is a file: give the folder that holds"):
        list_entries(tmp_path / "all.zip")


def test_what_nobody_thought_of_is_a_problem_of_that_submission(tmp_path, monkeypatch):
    def unforeseen(*_):
        raise OverflowError("a number")

    monkeypatch.setattr(submissions, "_read_file", unforeseen)
    (tmp_path / "s.ipynb").write_bytes(b"1")
    assert read_entry(tmp_path / "s.ipynb", "s").problems == ["s.ipynb: cannot be read (OverflowError: a number)"]


def test_empty_folder_and_missing_folder(tmp_path):
    with pytest.raises(ValueError, match="holds no submissions"):
        list_entries(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        list_entries(tmp_path / "none")


def test_zip_with_folders_spaces_unicode_and_clutter(tmp_path):
    data = zipped(
        **{"hw 11/0 säumig.ipynb": b"a", "hw 11/x.IPYNB": b"b", "__MACOSX/._x.ipynb": b"c", "notes.txt": b"d"}
    )
    (tmp_path / "s.zip").write_bytes(data)
    result = read_entry(tmp_path / "s.zip", "s")
    assert result.files == {"hw 11/0 säumig.ipynb": b"a", "hw 11/x.IPYNB": b"b"} and result.problems == []


def test_zip_in_a_folder_and_in_a_zip(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "w.zip").write_bytes(zipped(**{"inner.zip": zipped(**{"a.ipynb": b"1"}), "b.ipynb": b"2"}))
    assert read_entry(folder, "s").files == {"a.ipynb": b"1", "b.ipynb": b"2"}


def entry_of(tmp_path, data):
    (tmp_path / "s.zip").write_bytes(data)
    return read_entry(tmp_path / "s.zip", "s")


def test_path_that_climbs_out_is_refused_and_the_rest_is_read(tmp_path):
    result = entry_of(
        tmp_path, zipped(**{"../../evil.ipynb": b"x", "/abs.ipynb": b"y", "C:\\w.ipynb": b"z", "a.ipynb": b"1"})
    )
    assert result.files == {"a.ipynb": b"1"}
    assert len(result.problems) == 3 and all("climbs out" in line for line in result.problems)
    assert not (tmp_path.parent.parent / "evil.ipynb").exists()


def test_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_BYTES", 1000)
    monkeypatch.setattr(submissions, "MOST_TOTAL", 3000)
    result = entry_of(tmp_path, zipped(**{"bomb.ipynb": bytes(5000), "a.ipynb": b"1"}))
    assert list(result.files) == ["a.ipynb"] and "would unpack to" in result.problems[0]
    result = entry_of(tmp_path, zipped(**{f"{n}.ipynb": bytes(900) for n in range(6)}))
    assert len(result.files) == 3 and len(result.problems) == 3
    nested = zipped(**{"1.zip": zipped(**{"2.zip": zipped(**{"x.ipynb": b"1"})})})
    assert "a zip in a zip in a zip" in entry_of(tmp_path, nested).problems[0]


def test_zip_whose_header_lies_about_the_size(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_BYTES", 1000)
    data = bytearray(zipped(**{"bomb.ipynb": bytes(5000)}))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(mark) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    result = entry_of(tmp_path, bytes(data))
    assert result.files == {} and len(result.problems) == 1


def test_symbolic_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_bytes(b"secret")
    folder = tmp_path / "in" / "s"
    folder.mkdir(parents=True)
    os.symlink(secret, folder / "a.ipynb")
    result = read_entry(folder, "s")
    assert result.files == {} and "symbolic link" in result.problems[0]
    os.symlink(tmp_path, tmp_path / "in" / "t")
    assert read_entry(tmp_path / "in" / "t", "t").files == {}
    member = zipfile.ZipInfo("link.ipynb")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, str(secret))
    result = entry_of(tmp_path, buffer.getvalue())
    assert result.files == {} and "symbolic link" in result.problems[0]


def test_a_device_or_pipe_is_not_opened(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    os.mkfifo(folder / "a.ipynb")
    assert read_entry(folder, "s").problems == ["it holds no notebook"]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("s.zip", b"no zip", "damaged zip"),
        ("s.zip", b"", "damaged zip"),
        ("s.zip", zipped(**{"a.ipynb": b"12345" * 100})[:60], "damaged zip"),
        ("s.rar", b"Rar!", "no zip"),
        ("s.txt", b"text", "holds no notebook"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, data, problem):
    (tmp_path / name).write_bytes(data)
    result = read_entry(tmp_path / name, "s")
    assert result.files == {} and problem in result.problems[0]

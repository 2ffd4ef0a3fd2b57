"""Figures and tables: same bytes, whole files, and the runner's staging."""

import os
import resource
import stat
import subprocess
import sys

import matplotlib.figure
import pytest

from metapcg.experiments import outputs, profiles


@pytest.fixture
def reports(tmp_path, monkeypatch):
    monkeypatch.setenv("HW11_OUTPUT", str(tmp_path / "reports"))
    monkeypatch.delenv("HW11_STAGING", raising=False)
    return tmp_path / "reports"


def draw():
    figure = matplotlib.figure.Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [1, 0])
    return figure


def test_figure_is_written_where_the_variable_says_and_twice_the_same(reports):
    path = outputs.save_figure(draw(), "line")
    assert path == reports / "figures/line.png"
    first = path.read_bytes()
    outputs.save_figure(draw(), "line")
    assert first.startswith(b"\x89PNG") and path.read_bytes() == first
    assert b"Matplotlib" not in first


def test_without_the_variable_results_go_to_the_repositorys_reports(monkeypatch):
    monkeypatch.delenv("HW11_OUTPUT", raising=False)
    assert outputs.output_dir() == outputs.repository_root() / "reports"


def test_table_keeps_the_columns_order_and_reads_back(reports):
    outputs.save_table([{"step": 0, "return": 1.5}, {"return": -2.0, "step": 1}], "curve")
    assert (reports / "tables/curve.csv").read_bytes() == b"step,return\n0,1.5\n1,-2.0\n"
    assert outputs.load_table("curve")[1] == {"step": "1", "return": "-2.0"}


def test_table_with_unequal_rows_or_none_is_refused_and_the_old_one_kept(reports):
    outputs.save_table([{"a": 1}], "t")
    with pytest.raises(ValueError, match="table 't': row 1 has columns"):
        outputs.save_table([{"a": 2}, {"b": 2}], "t")
    with pytest.raises(ValueError, match="table 't': no rows and no columns"):
        outputs.save_table([], "t")
    assert outputs.load_table("t") == [{"a": "1"}]


def test_missing_table_is_named(reports):
    with pytest.raises(FileNotFoundError, match="table 'none': there is no .*none.csv"):
        outputs.load_table("none")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x.png", ".hidden", "a b"])
def test_name_that_is_no_plain_file_name_is_refused(reports, name):
    with pytest.raises(ValueError, match="output name"):
        outputs.save_table([{"a": 1}], name)


def test_staging_collects_files_but_names_their_final_place(reports, tmp_path, monkeypatch):
    outputs.save_table([{"a": 1}], "t")
    monkeypatch.setenv("HW11_STAGING", str(tmp_path / "staging"))
    assert outputs.save_table([{"a": 2}], "t") == reports / "tables/t.csv"
    assert (reports / "tables/t.csv").read_text() == "a\n1\n"
    assert outputs.load_table("t") == [{"a": "2"}]


def test_new_file_takes_the_old_ones_place_at_once(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    os.link(tmp_path / "x", tmp_path / "as a reader has it open")
    outputs.write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "as a reader has it open").read_bytes() == b"old"
    assert (tmp_path / "x").read_bytes() == b"new"


def test_file_has_the_usual_permissions(tmp_path):
    outputs.write_atomically(tmp_path / "x", b"1")
    (tmp_path / "y").touch()
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == stat.S_IMODE((tmp_path / "y").stat().st_mode)


def test_write_that_fails_half_way_keeps_the_old_file_and_leaves_no_part(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    program = (
        "import resource, sys; from pathlib import Path; from metapcg.experiments.outputs import write_atomically\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {limit}))\n"
        "write_atomically(Path(sys.argv[1]), b'n' * 100_000)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "x")], capture_output=True, text=True)
    assert ended.returncode == 1 and "OSError" in ended.stderr
    assert os.listdir(tmp_path) == ["x"] and (tmp_path / "x").read_bytes() == b"old"


def test_profile_comes_from_the_variable_and_unknown_ones_are_refused(monkeypatch):
    monkeypatch.delenv("HW11_PROFILE", raising=False)
    assert profiles.by_profile(smoke=1, quick=2, full=3) == 2
    monkeypatch.setenv("HW11_PROFILE", "smoke")
    assert profiles.by_profile(smoke=1, quick=2, full=3) == 1
    monkeypatch.setenv("HW11_PROFILE", "fast")
    with pytest.raises(ValueError, match="profile: unknown value 'fast'; choose one of smoke, quick, full"):
        profiles.current_profile()


def test_device_names_are_checked():
    assert profiles.check_device("auto") == "auto"
    with pytest.raises(ValueError, match="device: unknown value 'gpu'; choose one of auto, cpu, cuda"):
        profiles.check_device("gpu")

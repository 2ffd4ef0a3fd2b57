"""Compiled kernels on disk are dropped when any kernel's source changes."""

import pytest

from metapcg.kernel_cache import drop_stale_kernels


@pytest.fixture
def package(tmp_path):
    for folder in ("games", "envs"):
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
        (tmp_path / folder / "kernels.py").write_text("one")
    drop_stale_kernels(tmp_path)
    for folder in ("games", "envs"):
        (tmp_path / folder / "__pycache__" / "kernels.step-1.py311.nbi").write_text("index")
    return tmp_path


def indexes(package):
    return sorted(path.parent.parent.name for path in package.rglob("*.nbi"))


def test_unchanged_sources_keep_their_kernels(package):
    assert not drop_stale_kernels(package)
    assert indexes(package) == ["envs", "games"]


def test_a_changed_source_drops_the_kernels_of_other_files_too(package):
    (package / "games" / "kernels.py").write_text("two")
    assert drop_stale_kernels(package)
    assert indexes(package) == []
    assert not drop_stale_kernels(package)

"""Compiled kernels on disk are dropped when any kernel's source changes; without a folder for them all still works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import metapcg
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


def run_in_copy(folder, home, cache):
    """Compile and call a kernel of a copy of the package; its output, and what it warned of."""
    program = "import numpy as np, metapcg; from metapcg.games import reward; one = np.ones(1);"
    program += "print(metapcg.__path__[0], reward(np.array([3]), np.array([1]), one, one, one, False))"
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": str(cache)}
    result = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result


def test_a_place_that_takes_no_compiled_kernels_only_costs_time(tmp_path):
    source = Path(metapcg.__file__).parent
    copy = tmp_path / "metapcg"
    copy.mkdir()
    for name in ("__init__.py", "kernel_cache.py"):
        shutil.copy(source / name, copy)
    shutil.copytree(source / "games", copy / "games", ignore=shutil.ignore_patterns("__pycache__"))
    closed = tmp_path / "closed"  # a file: no folder can be made in its place, not even by root
    closed.write_text("")
    (copy / "games" / "__pycache__").write_text("")
    result = run_in_copy(tmp_path, closed, closed)
    assert result.stdout.split() == [str(copy), "-2.0"]
    assert "set NUMBA_CACHE_DIR" in result.stderr

    cache = tmp_path / "cache"
    result = run_in_copy(tmp_path, closed, cache)
    assert result.stdout.split()[-1] == "-2.0" and not result.stderr
    assert list(cache.rglob("*.nbi")), "kept where NUMBA_CACHE_DIR says"

"""ruff finds nothing, and would format nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]])
def test_ruff_is_content(arguments):
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr

"""ruff finds nothing, and would format nothing."""

import ast
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


def test_no_module_binds_a_name_twice_at_its_top_level():
    # A careless edit once doubled half a module; linters see nothing wrong in the second half.
    twice = []
    folders = [ROOT / name for name in ("metapcg", "gym_pcgrl", "benchmarks")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        bound = []
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound.append(node.name)
            elif isinstance(node, ast.Assign):
                bound += [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                bound.append(node.target.id)
        twice += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(set(bound)) if bound.count(name) > 1]
    assert not twice

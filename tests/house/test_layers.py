"""Each layer of the package imports only from the layers before it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "metapcg"
LAYERS = ("games", "envs", "tasks", "learning", "personal", "experiments", "grading", "play")


def imported_layers(source: str) -> set[str]:
    """Names of metapcg's subpackages that a module imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, "reaches into another layer by a relative import"
            if node.level == 0:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("metapcg.")}
    return found & set(LAYERS)


def test_imports_are_found_wherever_they_stand():
    assert imported_layers("import metapcg.games.tiles\ndef f():\n    from metapcg import grading\n") == {
        "games",
        "grading",
    }


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_imports_only_from_those_before_it(layer):
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    paths = list((PACKAGE / layer).rglob("*.py"))
    assert paths
    for path in paths:
        later = imported_layers(path.read_text(encoding="utf-8")) - allowed
        assert not later, f"{path.relative_to(PACKAGE)} imports from {', '.join(sorted(later))}"

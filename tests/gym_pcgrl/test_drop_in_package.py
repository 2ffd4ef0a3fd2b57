"""What is installed: both packages, the migration page, the plugin for gym; and who imports whom."""

import sys
from importlib import import_module
from pathlib import Path

from setuptools import find_packages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_everything_of_the_package_is_installed():
    found = find_packages(str(ROOT), include=SETTINGS["tool"]["setuptools"]["packages"]["find"]["include"])
    folders = {str(path.parent.relative_to(ROOT)).replace("/", ".") for path in (ROOT / "gym_pcgrl").rglob("*.py")}
    assert folders == {name for name in found if name.split(".")[0] == "gym_pcgrl"} and "metapcg.envs" in found
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["gym_pcgrl"]
    assert [path.name for pattern in patterns for path in (ROOT / "gym_pcgrl").glob(pattern)] == ["MIGRATION.md"]


def test_the_plugin_for_gym_names_a_function_that_is_there():
    module, name = SETTINGS["project"]["entry-points"]["gym.envs"]["__root__"].split(":")
    assert callable(getattr(import_module(module), name))


def test_the_library_does_not_need_the_drop_in():
    sources = list((ROOT / "metapcg").rglob("*.py"))
    assert sources and not [path for path in sources if "import gym_pcgrl" in path.read_text(encoding="utf-8")]

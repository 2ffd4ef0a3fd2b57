"""How much each algorithm may do under each profile: one table, read by ``runs.settings_for`` and by nothing else.

A row is a partial ``RunSettings``. ``COMMON`` holds for every algorithm of a profile, ``BUDGETS`` adds the
algorithm's own. ``GAMES`` adds what a game needs to be different from binary.
"""

from __future__ import annotations

from typing import Any

COMMON: dict[str, dict[str, Any]] = {
    "smoke": {"eval_tasks": 4, "eval_episodes": 2, "eval_steps": 2, "inner_lr_grid": (1.0, 5.0)},
    "quick": {"eval_tasks": 40, "eval_episodes": 20, "eval_steps": 3},
    "full": {"eval_tasks": 100, "eval_episodes": 20, "eval_steps": 5},
}

_META: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 2, "tasks": 4, "episodes": 2},
    "quick": {"iterations": 40, "tasks": 40, "episodes": 5},
    "full": {"iterations": 100, "tasks": 40, "episodes": 5},
}
_MULTI_TASK: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 2, "tasks": 4, "episodes": 2, "outer_epochs": 4},
    "quick": {"iterations": 60, "tasks": 40, "episodes": 5, "outer_epochs": 4},
    "full": {"iterations": 150, "tasks": 40, "episodes": 5, "outer_epochs": 4},
}
_UNTRAINED: dict[str, dict[str, Any]] = {profile: {"iterations": 0} for profile in COMMON}

BUDGETS: dict[str, dict[str, dict[str, Any]]] = {
    "maml": _META,
    "fomaml": _META,
    "pretrained": _MULTI_TASK,
    "oracle": _MULTI_TASK,
    "random-init": _UNTRAINED,
    "random": _UNTRAINED,
}

GAMES: dict[str, dict[str, Any]] = {"binary": {}, "zelda": {}, "sokoban": {}}

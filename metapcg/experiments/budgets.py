"""How much each algorithm may do under each profile: one table, read by ``runs.settings_for`` and by nothing else.

A row is a partial ``RunSettings``. ``COMMON`` holds for every algorithm of a profile, ``BUDGETS`` adds the
algorithm's own. ``GAMES`` adds what a game needs to be different from binary, ``REPRESENTATIONS`` what a representation
needs to be different from narrow.
"""

from __future__ import annotations

from typing import Any

COMMON: dict[str, dict[str, Any]] = {
    "smoke": {"eval_tasks": 4, "eval_episodes": 2, "eval_steps": 2, "inner_lr_grid": (1.0, 5.0)},
    "quick": {"eval_tasks": 40, "eval_episodes": 5, "eval_steps": 3},
    "full": {"eval_tasks": 100, "eval_episodes": 5, "eval_steps": 5},
}

# Without an entropy bonus the adapted policies become deterministic, their gradient vanishes, and training stops at a
# return of 8.4 on direction, binary-narrow, whatever the step size; with it, it reaches the oracle's.
_META_STEP: dict[str, Any] = {"inner_lr": 2.0, "outer_lr": 3e-3, "entropy_weight": 0.03}
_META: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 2, "tasks": 4, "episodes": 2, **_META_STEP},
    "quick": {"iterations": 60, "tasks": 40, "episodes": 5, **_META_STEP},
    "full": {"iterations": 100, "tasks": 40, "episodes": 5, **_META_STEP},
}
_MULTI_TASK_STEP: dict[str, Any] = {"outer_lr": 3e-3, "outer_epochs": 4, "entropy_weight": 0.01}
_MULTI_TASK: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 2, "tasks": 4, "episodes": 2, **_MULTI_TASK_STEP},
    "quick": {"iterations": 100, "tasks": 40, "episodes": 5, **_MULTI_TASK_STEP},
    "full": {"iterations": 200, "tasks": 40, "episodes": 5, **_MULTI_TASK_STEP},
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

REPRESENTATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "narrow": {profile: {} for profile in COMMON},
    # Where to walk next matters as much as what to write, and five episodes say too little about it: with them MAML
    # stays at a return of 4 on direction, with twenty it reaches 8.
    "turtle": {"smoke": {}, "quick": {"tasks": 20, "episodes": 20}, "full": {"tasks": 20, "episodes": 20}},
    "wide": {profile: {} for profile in COMMON},
}
"""What a representation needs to be different from narrow, by profile."""

"""How much each algorithm may do under each profile: one table, read by ``runs.settings_for``.

A row is a partial ``RunSettings``. ``COMMON`` holds for every algorithm of a profile, ``BUDGETS`` adds the
algorithm's own. ``FAMILY_BUDGETS`` adds what a family needs to be different from direction, ``GAMES`` what a game
needs to be different from binary, ``REPRESENTATIONS`` what a representation needs to be different from narrow.
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
# One trial per task, so that every trial of a batch is another task. With a third of this entropy bonus some seeds
# become deterministic at half of the return.
_TRIALS_STEP: dict[str, Any] = {
    "episodes": 1, "outer_lr": 5e-3, "entropy_weight": 0.03, "lam": 0.95, "max_gradient_norm": 1.0,
}  # fmt: skip
_TRIALS: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 2, "tasks": 8, "outer_epochs": 2, **_TRIALS_STEP},
    "quick": {"iterations": 75, "tasks": 128, "outer_epochs": 3, **_TRIALS_STEP},
    "full": {"iterations": 240, "tasks": 128, "outer_epochs": 3, **_TRIALS_STEP},
}
# A large step at first, falling in the second half. Beyond a price of about 0.03 per nat the posterior collapses.
_CONTEXT_STEP: dict[str, Any] = {
    "episodes": 1, "trial_episodes": 2, "outer_lr": 3e-3, "gamma": 0.8, "entropy_weight": 0.1, "kl_weight": 1e-3,
}  # fmt: skip
_CONTEXT: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 3, "tasks": 4, "replay_tasks": 16, "updates": 2, **_CONTEXT_STEP},
    "quick": {"iterations": 20, "tasks": 50, "replay_tasks": 100, "updates": 30, **_CONTEXT_STEP},
    "full": {"iterations": 120, "tasks": 50, "replay_tasks": 100, "updates": 30, **_CONTEXT_STEP},
}
_NOTHING: dict[str, dict[str, Any]] = {profile: {"iterations": 0} for profile in COMMON}

BUDGETS: dict[str, dict[str, dict[str, Any]]] = {
    "maml": _META,
    "fomaml": _META,
    "rl2": _TRIALS,
    "pearl": _CONTEXT,
    "pretrained": _MULTI_TASK,
    "oracle": _MULTI_TASK,
    "random-init": _NOTHING,
    "random": _NOTHING,
}

UNTRAINED = frozenset(name for name, row in BUDGETS.items() if row is _NOTHING)
"""Algorithms that are evaluated as they are."""

# One policy does for all of its tasks, and is found within twenty iterations.
_ONE_POLICY: dict[str, dict[str, Any]] = {
    profile: {name: {"splits": ("train", "interpolation")} for name in BUDGETS} for profile in ("smoke", "quick")
}
for _name in ("maml", "fomaml", "pretrained", "oracle"):
    _ONE_POLICY["quick"][_name]["iterations"] = 20

FAMILY_BUDGETS: dict[str, dict[str, dict[str, Any]]] = {"direction": {}, "weights": _ONE_POLICY, "target": {}}
"""What a family needs to be different from direction, by profile and algorithm."""

GAMES: dict[str, dict[str, Any]] = {"binary": {}, "zelda": {}, "sokoban": {}}

REPRESENTATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "narrow": {profile: {} for profile in COMMON},
    # Where to walk next matters as much as what to write, and five episodes say too little about it: with them MAML
    # stays at a return of 4 on direction, with twenty it reaches 8.
    "turtle": {"smoke": {}, "quick": {"tasks": 20, "episodes": 20}, "full": {"tasks": 20, "episodes": 20}},
    "wide": {profile: {} for profile in COMMON},
}
"""What a representation needs to be different from narrow, by profile."""

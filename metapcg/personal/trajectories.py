"""Logs of fights as JSON, read with distrust.

A log is one object (``arena.Fight.log`` writes it)::

    {"steps": [{"state": {...}, "action": "block", "bossHP": 0.7, "playerHP": 1.0}, ...],
     "result": {"bossDied": false, "playerDied": true, "bossHP": 0.4, "playerHP": 0.0}}

``state`` is what ``arena.state_to_json`` writes; hit points are those *before* the decision, fractions of the full
ones. The result's ``bossHP`` and ``playerHP`` may be left out: then who died has 0, and the last decision cost the
other nothing.

``parse_trajectory`` accepts bytes from anywhere. Whatever is wrong becomes one :class:`TrajectoryError` with one line
that says where and what; only a log without any fault reaches the learner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arena import ACTIONS, BOSS, RULES, SIDES, ArenaRules, ArenaState, action_number
from .features import boss_features, boss_legal

MAX_BYTES = 256 * 1024
"""Longest accepted log; one of sixty steps is about 20 kB."""

MIN_STEPS = 2
"""Fewer decisions than this have nothing to be compared with."""

_SLACK = 1e-9  # hit points are compared after a round trip through somebody's JSON


class TrajectoryError(ValueError):
    """A log that cannot be learned from. The message is one line: where, and what is wrong."""


@dataclass(frozen=True)
class Trajectory:
    """One fight as the learner needs it.

    Attributes:
        features: (T, F).
        legal: (T, A) bool.
        actions: (T,) int64.
        hp: (T + 1, 2), of boss and player before each decision and after the last.
        boss_died, player_died: how it ended; neither: undecided.
    """

    features: NDArray[np.float64]
    legal: NDArray[np.bool_]
    actions: NDArray[np.int64]
    hp: NDArray[np.float64]
    boss_died: bool
    player_died: bool

    def __len__(self) -> int:
        return len(self.actions)


def parse_trajectory(data: bytes | str | Mapping[str, object], rules: ArenaRules = RULES) -> Trajectory:
    """Read and check one log.

    Args:
        data: JSON text, or what ``json.loads`` made of it.
        rules: of the fight; bounds of positions, cooldowns and length come from it.

    Raises:
        TrajectoryError: not JSON, too long, something missing or unknown, a number that is not finite or out of range,
            an unknown action, one that was illegal, hit points that rise or are negative, a fight that goes on after a
            death.
    """
    return parse_log(data, rules)[0]


def parse_log(data: bytes | str | Mapping[str, object], rules: ArenaRules = RULES) -> tuple[Trajectory, ArenaState]:
    """The same, and the states before each decision (leading axis T), for who checks more."""
    log = _loads(data) if isinstance(data, (bytes, bytearray, str)) else data
    log = _object(log, "the log", ("steps", "result"))
    steps = log["steps"]
    if not _is_list(steps):
        raise TrajectoryError(f"steps: needs a list, got {_kind(steps)}")
    if not MIN_STEPS <= len(steps) <= rules.max_steps:
        raise TrajectoryError(f"steps: needs {MIN_STEPS} to {rules.max_steps} of them, got {len(steps)}")

    states: list[Mapping[str, object]] = []
    actions = np.empty(len(steps), dtype=np.int64)
    hp = np.empty((len(steps) + 1, 2))
    for t, step in enumerate(steps):
        where = f"steps[{t}]"
        step = _object(step, where, ("state", "action", *_HP))
        states.append(_object(step["state"], f"{where}.state", _STATE_NAMES))
        try:
            actions[t] = action_number(step["action"])
        except ValueError as error:
            raise TrajectoryError(f"{where}.action: {error}") from error
        for side, name in enumerate(_HP):
            hp[t, side] = _number(step[name], f"{where}.{name}", 0.0, 1.0)

    states_read = states_from_json(states, rules)
    _check_order(states_read, hp, rules)
    legal = boss_legal(states_read)
    illegal = ~legal[np.arange(len(steps)), actions]
    if illegal.any():
        t = int(illegal.argmax())
        may = ", ".join(name for name, allowed in zip(ACTIONS, legal[t], strict=True) if allowed)
        raise TrajectoryError(f"steps[{t}].action: {ACTIONS[actions[t]]} was illegal then; legal were {may}")
    died = _read_result(log["result"], hp)
    return Trajectory(boss_features(states_read, rules), legal, actions, hp, *died), states_read


def states_from_json(states: Sequence[Mapping[str, object]], rules: ArenaRules = RULES) -> ArenaState:
    """States with one leading axis from a list of plain ones (the inverse of ``arena.state_to_json``).

    Raises:
        TrajectoryError: a value of a wrong type or out of range.
    """
    length = len(states)
    x, hp = np.empty((length, 2)), np.empty((length, 2))
    special, dodge, last = (np.empty((length, 2), dtype=np.int64) for _ in range(3))
    staggered = np.empty((length, 2), dtype=bool)
    step = np.empty(length, dtype=np.int64)
    for t, state in enumerate(states):
        where = f"steps[{t}].state"
        step[t] = _whole(state["step"], f"{where}.step", rules.max_steps - 1)
        for side, name in enumerate(SIDES):
            x[t, side] = _number(state[f"{name}X"], f"{where}.{name}X", 0.0, rules.lane_length)
            hp[t, side] = _number(state[f"{name}HP"], f"{where}.{name}HP", 0.0, 1.0)
            special[t, side] = _whole(state[f"{name}Special"], f"{where}.{name}Special", rules.special_cooldown)
            dodge[t, side] = _whole(state[f"{name}Dodge"], f"{where}.{name}Dodge", rules.dodge_cooldown)
            flag = state[f"{name}Staggered"]
            if not isinstance(flag, bool):
                raise TrajectoryError(f"{where}.{name}Staggered: needs true or false, got {_kind(flag)}")
            staggered[t, side] = flag
            try:
                last[t, side] = action_number(state[f"{name}Last"])
            except ValueError as error:
                raise TrajectoryError(f"{where}.{name}Last: {error}") from error
    return ArenaState(x, hp, special, dodge, staggered, last, step)


_HP = tuple(f"{name}HP" for name in SIDES)
_DIED = tuple(f"{name}Died" for name in SIDES)
_STATE_NAMES = (
    "step",
    *(f"{name}{what}" for name in SIDES for what in ("X", "HP", "Special", "Dodge", "Staggered", "Last")),
)


def _loads(data: bytes | bytearray | str) -> object:
    if len(data) > MAX_BYTES:
        raise TrajectoryError(f"the log is too long: {len(data)} bytes, at most {MAX_BYTES} are accepted")
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except TrajectoryError:
        raise
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, and nesting without end
        raise TrajectoryError(f"the log is not JSON: {str(error).splitlines()[0]}") from error


def _refuse_constant(text: str) -> float:
    raise TrajectoryError(f"the log is not JSON: {text} is no number")


def _object(value: object, where: str, names: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TrajectoryError(f"{where}: needs an object, got {_kind(value)}")
    for name in names:
        if name not in value:
            raise TrajectoryError(f"{where}: {name} is missing")
    if len(value) > len(names):
        unknown = next(name for name in value if name not in names)
        raise TrajectoryError(f"{where}: unknown entry {_short(unknown)}; known are {', '.join(names)}")
    return value


def _number(value: object, where: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TrajectoryError(f"{where}: needs a number, got {_kind(value)}")
    if not (math.isfinite(value) if isinstance(value, float) else True):
        raise TrajectoryError(f"{where}: needs a finite number, got {value}")
    if not low <= value <= high:
        raise TrajectoryError(f"{where}: needs to lie in {low:g} … {high:g}, got {_short(value)}")
    return float(value)


def _whole(value: object, where: str, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TrajectoryError(f"{where}: needs a whole number, got {_kind(value)}")
    if not 0 <= value <= high:
        raise TrajectoryError(f"{where}: needs to lie in 0 … {high}, got {_short(value)}")
    return value


def _check_order(states: ArenaState, hp: NDArray[np.float64], rules: ArenaRules) -> None:
    before = hp[:-1]
    for side, name in enumerate(_HP):
        apart = np.abs(before[:, side] - states.hp[:, side]) > _SLACK
        if apart.any():
            raise TrajectoryError(f"steps[{int(apart.argmax())}].{name}: is not what its state says")
        rises = np.diff(before[:, side]) > _SLACK
        if rises.any():
            raise TrajectoryError(f"steps[{int(rises.argmax()) + 1}].{name}: hit points cannot rise")
        dead = before[:, side] <= 0.0
        if dead.any():
            raise TrajectoryError(f"steps[{int(dead.argmax())}].{name}: a decision after a death")
    jumps = np.diff(states.step) != 1
    if jumps.any():
        t = int(jumps.argmax()) + 1
        raise TrajectoryError(f"steps[{t}].state.step: needs to be {states.step[t - 1] + 1}, got {states.step[t]}")
    close = states.distance() < rules.gap / 2
    if close.any():
        raise TrajectoryError(f"steps[{int(close.argmax())}].state: boss and player stand in the same place")


def _read_result(result: object, hp: NDArray[np.float64]) -> tuple[bool, bool]:
    # Fills hp[-1] and returns who died.
    if isinstance(result, Mapping) and not any(name in result for name in _HP):
        result = _object(result, "result", _DIED)
    else:
        result = _object(result, "result", (*_DIED, *_HP))
    died = []
    for side, (dead_name, hp_name) in enumerate(zip(_DIED, _HP, strict=True)):
        dead = result[dead_name]
        if not isinstance(dead, bool):
            raise TrajectoryError(f"result.{dead_name}: needs true or false, got {_kind(dead)}")
        died.append(dead)
        if hp_name not in result:
            hp[-1, side] = 0.0 if dead else hp[-2, side]
            continue
        last = _number(result[hp_name], f"result.{hp_name}", 0.0, 1.0)
        if last > hp[-2, side] + _SLACK:
            raise TrajectoryError(f"result.{hp_name}: hit points cannot rise")
        if dead != (last <= 0.0):
            raise TrajectoryError(f"result.{dead_name}: {str(dead).lower()} does not go with {hp_name} = {last:g}")
        hp[-1, side] = last
    return died[BOSS], died[1 - BOSS]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _kind(value: object) -> str:
    # JSON's words for Python's types.
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return f"the number {_short(value)}"
    return "an object" if isinstance(value, Mapping) else "a list" if _is_list(value) else type(value).__name__


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a huge number"  # str() of such a one can take long or fail
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

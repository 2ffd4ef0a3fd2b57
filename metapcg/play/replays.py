"""A fight as what determines it: the seed and both sides' actions; and the check that a log tells such a fight.

A log of sixty steps has twenty kilobytes, its replay two hundred bytes: the second is kept, the first worked out again.
The rules are plain arithmetic on doubles, so on one kind of machine the log comes out the same to the last bit.

*Entries* are what travels: ``{"fight": id, "seed": 7, "player": ["approach", …], "log": {"steps": …, "result": …}}``
with the log of ``metapcg.personal.trajectories``. The boss's actions stand in the log, the player's beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from metapcg.personal.arena import (
    ACTIONS,
    BOSS,
    NUM_ACTIONS,
    PLAYER,
    RULES,
    SIDES,
    WAIT,
    ArenaState,
    action_number,
    advance,
    draw_luck,
    legal_actions,
    start,
    state_to_json,
)
from metapcg.personal.features import boss_features, boss_legal
from metapcg.personal.trajectories import Trajectory, TrajectoryError, parse_log

MAX_SEED = 2**53 - 1
"""JavaScript's numbers are exact up to here."""

_SLACK = 1e-9  # what another kind of processor may round differently
_ID = re.compile(r"[0-9a-f]{32}")
_ENTRY_NAMES = ("fight", "seed", "player", "log")
assert NUM_ACTIONS <= 10, "an action is kept as one digit"


@dataclass(frozen=True)
class Replay:
    """What determines a fight.

    Attributes:
        fight: its id, 32 hexadecimal digits.
        seed: of positions and luck, 0 … ``MAX_SEED``.
        boss, player: one digit per step, the number of the action.
    """

    fight: str
    seed: int
    boss: str
    player: str


def simulate(replays: Sequence[Replay]) -> list[tuple[ArenaState, NDArray[np.int64]]]:
    """Play fights again, all at once.

    Returns:
        For each fight of T steps the T + 1 states (leading axis T + 1) and the actions (T, 2).

    Raises:
        TrajectoryError: an action that was illegal, a fight that goes on after its end or stops before it.
    """
    if not replays:
        return []
    lengths = np.array([len(replay.boss) for replay in replays])
    longest = int(lengths.max())
    actions = np.full((longest, len(replays), 2), WAIT)
    luck = np.ones((longest, len(replays), 2))
    begins = []
    for i, replay in enumerate(replays):
        generator = np.random.default_rng(replay.seed)
        begins.append(start((), generator))
        luck[: lengths[i], i] = draw_luck((lengths[i],), generator)
        for side, digits in ((BOSS, replay.boss), (PLAYER, replay.player)):
            actions[: lengths[i], i, side] = [int(digit) for digit in digits]
    state = _stack(begins, 0)
    states = [state]
    for t in range(longest):
        running = t < lengths
        for side, name in enumerate(SIDES):
            legal = legal_actions(state, side)[np.arange(len(replays)), actions[t, :, side]]
            if not (legal | ~running).all():
                raise TrajectoryError(f"steps[{t}]: the {name}'s action was illegal then")
        if (running & _over(state)).any():
            raise TrajectoryError(f"steps[{t}]: the fight goes on after its end")
        state = advance(state, actions[t], luck[t])
        states.append(state)
    whole = _stack(states, 1)
    if not _over(whole[np.arange(len(replays)), lengths]).all():
        raise TrajectoryError("the fight is not over")
    return [(whole[i, : lengths[i] + 1], actions[: lengths[i], i]) for i in range(len(replays))]


def trajectories(replays: Sequence[Replay]) -> list[Trajectory]:
    """What the learner needs of fights; errors as ``simulate``."""
    return [_trajectory(*played) for played in simulate(replays)]


def entries(replays: Sequence[Replay]) -> list[dict[str, object]]:
    """Fights with their whole logs, ready for JSON."""
    found = []
    for replay, (states, actions) in zip(replays, simulate(replays), strict=True):
        steps = [
            {
                "state": state_to_json(states[t]),
                "action": ACTIONS[action],
                "bossHP": float(states.hp[t, BOSS]),
                "playerHP": float(states.hp[t, PLAYER]),
            }
            for t, action in enumerate(actions[:, BOSS])
        ]
        boss_hp, player_hp = (float(value) for value in states.hp[-1])
        result = {
            "bossDied": boss_hp <= 0.0,
            "playerDied": player_hp <= 0.0,
            "bossHP": boss_hp,
            "playerHP": player_hp,
        }
        player = [ACTIONS[action] for action in actions[:, PLAYER]]
        log = {"steps": steps, "result": result}
        found.append({"fight": replay.fight, "seed": replay.seed, "player": player, "log": log})
    return found


def check_entry(entry: object) -> tuple[Replay, Trajectory]:
    """Read an entry with distrust: the log must be a whole fight by the rules, from this seed, with these actions.

    Every step is checked against the rules from the state before it, all steps at once; with the first state given by
    the seed, that is the same as playing the fight again, at a tenth of the time.

    Raises:
        TrajectoryError: one line that says where and what.
    """
    if not isinstance(entry, Mapping):
        raise TrajectoryError("a fight: needs an object with " + ", ".join(_ENTRY_NAMES))
    for name in _ENTRY_NAMES:
        if name not in entry:
            raise TrajectoryError(f"{name} is missing")
    if len(entry) > len(_ENTRY_NAMES):
        raise TrajectoryError(f"unknown entry beside {', '.join(_ENTRY_NAMES)}")
    fight, seed, names, log = (entry[name] for name in _ENTRY_NAMES)
    if not isinstance(fight, str) or not _ID.fullmatch(fight):
        raise TrajectoryError("fight: needs 32 hexadecimal digits")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise TrajectoryError(f"seed: needs a whole number in 0 … {MAX_SEED}")
    trajectory, states = parse_log(log)
    if not isinstance(names, list) or len(names) != len(trajectory):
        raise TrajectoryError(f"player: needs a list of {len(trajectory)} actions, one for each step of the log")
    actions = np.empty((len(names), 2), dtype=np.int64)
    actions[:, BOSS] = trajectory.actions
    for t, name in enumerate(names):
        try:
            actions[t, PLAYER] = action_number(name)
        except ValueError as error:
            raise TrajectoryError(f"player[{t}]: {error}") from error
    digits = ["".join(str(action) for action in actions[:, side]) for side in (BOSS, PLAYER)]
    replay = Replay(fight, seed, *digits)
    result = log["result"]
    if "bossHP" not in result:
        raise TrajectoryError("result: bossHP and playerHP are missing")
    told_hp = np.vstack([states.hp[1:], [[result["bossHP"], result["playerHP"]]]])

    generator = np.random.default_rng(seed)
    _same(states[:1], _stack([start((), generator)], 0), 0)
    legal = legal_actions(states, PLAYER)[np.arange(len(names)), actions[:, PLAYER]]
    if not legal.all():
        t = int(legal.argmin())
        raise TrajectoryError(f"player[{t}]: {ACTIONS[actions[t, PLAYER]]} was illegal then")
    after = advance(states, actions, draw_luck((len(names),), generator))
    _same(states[1:], after[:-1], 1)
    last = np.abs(told_hp[-1] - after.hp[-1])
    if (last > _SLACK).any():
        raise TrajectoryError("result: other hit points than the rules give")
    over = _over(after)
    if over[:-1].any():
        raise TrajectoryError(f"steps[{int(over.argmax()) + 1}]: the fight goes on after its end")
    if not over[-1]:
        raise TrajectoryError("the fight is not over")
    exact = (told_hp == after.hp).all() and (states.x[1:] == after.x[:-1]).all()
    return replay, trajectory if exact else trajectories([replay])[0]


def _trajectory(states: ArenaState, actions: NDArray[np.int64]) -> Trajectory:
    before, dead = states[:-1], states.hp[-1] <= 0.0
    return Trajectory(
        boss_features(before),
        boss_legal(before),
        np.ascontiguousarray(actions[:, BOSS]),
        states.hp.copy(),
        bool(dead[BOSS]),
        bool(dead[PLAYER]),
    )


def _over(state: ArenaState) -> NDArray[np.bool_]:
    return (state.hp <= 0.0).any(-1) | (state.step >= RULES.max_steps)


def _stack(states: Sequence[ArenaState], axis: int) -> ArenaState:
    return ArenaState(
        *(np.stack([getattr(state, entry.name) for state in states], axis=axis) for entry in fields(ArenaState))
    )


def _same(told: ArenaState, right: ArenaState, first: int) -> None:
    # Compares states with one leading axis and names the first difference; ``first`` is the number of the first one.
    for t in range(first, first + len(told.step)) if not _equal(told, right) else ():
        got, expected = state_to_json(told[t - first]), state_to_json(right[t - first])
        for name, value in expected.items():
            differs = abs(got[name] - value) > _SLACK if isinstance(value, float) else got[name] != value
            if differs:
                raise TrajectoryError(f"steps[{t}].state.{name}: the rules give {value}, got {got[name]}")


def _equal(told: ArenaState, right: ArenaState) -> bool:
    return all(np.array_equal(getattr(told, entry.name), getattr(right, entry.name)) for entry in fields(ArenaState))

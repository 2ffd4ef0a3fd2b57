"""The fight: a boss and a player on a lane, both choosing at the same moment.

Rules of one step, in this order (numbers: ``ArenaRules``):

1. *Walking.* ``approach`` and ``retreat`` move along the lane; bodies keep a gap and stay between the walls.
2. *Hits*, from where both now stand. An ``attack``, high or low, reaches a short way, a ``special`` far. Who dodges is
   not hit. A block stops an attack of its own height but for a fifth of the damage, and nothing of the other height. A
   special breaks either block: full damage, and the blocker is staggered. An attack that is blocked and a special that
   is dodged leave their owner staggered. A target that is already staggered takes twice as much.
3. *Dodging.* Who dodges jumps away from the opponent. With too little room behind and the opponent close, it is a roll
   to the opponent's other side.
4. *Clocks.* Staggered means that only ``wait`` is legal in the next step. ``special`` and ``dodge`` have cooldowns.

So no action is best by itself: the right block beats an attack, the wrong one loses to it, a special beats blocks, a
dodge beats a special. What the opponent will do next has to be guessed, and high or low can be guessed only by who
knows the opponent's habits. The player hits harder and walks faster: a boss that trades blows loses, one that knows its
player wins.

A fight ends when somebody has no hit points left, or undecided after ``max_steps``. Chance enters through the starting
positions and a few per cent of luck in each hit, both drawn from one generator, so a seed and the actions determine a
fight. ``advance`` is the one implementation of the rules, for any leading axes; ``Fight`` plays a single fight with it.

Arrays have a last axis of two: ``BOSS`` = 0, ``PLAYER`` = 1. Distances are in metres, hit points in fractions of the
full ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

BOSS, PLAYER = 0, 1
SIDES = ("boss", "player")

ACTIONS = (
    "wait",
    "approach",
    "retreat",
    "attack-high",
    "attack-low",
    "dodge",
    "block-high",
    "block-low",
    "special",
)
WAIT, APPROACH, RETREAT, ATTACK_HIGH, ATTACK_LOW, DODGE, BLOCK_HIGH, BLOCK_LOW, SPECIAL = range(len(ACTIONS))
NUM_ACTIONS = len(ACTIONS)


@dataclass(frozen=True)
class ArenaRules:
    """Numbers of the rules; pairs are (boss, player).

    Attributes:
        lane_length: metres from wall to wall.
        gap: least distance between the two, metres.
        speed: metres per step.
        attack_reach, special_reach: metres.
        attack_damage, special_damage: fraction of the *target's* hit points that a clean hit takes.
        block_factor: what is left of a blocked attack.
        stagger_factor: how much more a staggered target takes.
        special_cooldown: steps until the next special.
        dodge_cooldown: steps until the next dodge.
        dodge_distance: metres of a jump.
        roll_distance: how near the opponent must be for a roll past it, metres.
        luck: damage is multiplied by a number uniform in 1 ± luck.
        max_steps: a fight is undecided after so many.
    """

    lane_length: float = 10.0
    gap: float = 0.6
    speed: tuple[float, float] = (0.8, 1.0)
    attack_reach: float = 1.6
    special_reach: float = 4.0
    attack_damage: tuple[float, float] = (0.10, 0.18)
    special_damage: tuple[float, float] = (0.06, 0.10)
    block_factor: float = 0.2
    stagger_factor: float = 2.0
    special_cooldown: int = 8
    dodge_cooldown: int = 4
    dodge_distance: float = 1.2
    roll_distance: float = 2.0
    luck: float = 0.1
    max_steps: int = 60


RULES = ArenaRules()


@dataclass(frozen=True)
class ArenaState:
    """Where fights stand; every array has the same leading axes. ``advance`` gives new arrays and changes none.

    Attributes:
        x: (..., 2) positions on the lane, metres.
        hp: (..., 2) hit points, 1 = full, 0 = dead.
        special, dodge: (..., 2) int, steps until the action is legal again, 0 = now.
        staggered: (..., 2) bool, only ``wait`` is legal.
        last: (..., 2) int, the action of the step before (``WAIT`` at the start).
        step: (...) int, steps played.
    """

    x: NDArray[np.float64]
    hp: NDArray[np.float64]
    special: NDArray[np.int64]
    dodge: NDArray[np.int64]
    staggered: NDArray[np.bool_]
    last: NDArray[np.int64]
    step: NDArray[np.int64]

    def distance(self) -> NDArray[np.float64]:
        """(...) metres between the two."""
        return np.abs(self.x[..., PLAYER] - self.x[..., BOSS])

    def room_behind(self, rules: ArenaRules = RULES) -> NDArray[np.float64]:
        """(..., 2) metres from each fighter's back to the wall."""
        faces_right = _facing(self.x) > 0
        return np.where(faces_right, self.x, rules.lane_length - self.x)

    def __getitem__(self, index: object) -> ArenaState:
        """Index the leading axes."""
        return ArenaState(*(getattr(self, entry.name)[index] for entry in fields(self)))


def _facing(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # (..., 2): +1 for who looks to the right. Bodies keep a gap, so the two never stand on the same spot.
    right = np.where(x[..., PLAYER] > x[..., BOSS], 1.0, -1.0)
    return np.stack([right, -right], axis=-1)


def start(shape: tuple[int, ...], generator: np.random.Generator, rules: ArenaRules = RULES) -> ArenaState:
    """Fresh fights: the player in the left third of the lane, the boss in the right one; full hit points.

    Args:
        shape: leading axes.
        generator: two numbers per fight are drawn from it.
    """
    offset = generator.uniform(0.15, 0.35, (*shape, 2))
    pair = (*shape, 2)
    return ArenaState(
        x=rules.lane_length * np.where([True, False], 1.0 - offset, offset),
        hp=np.ones(pair),
        special=np.zeros(pair, dtype=np.int64),
        dodge=np.zeros(pair, dtype=np.int64),
        staggered=np.zeros(pair, dtype=bool),
        last=np.full(pair, WAIT),
        step=np.zeros(shape, dtype=np.int64),
    )


def legal_actions(state: ArenaState, side: int) -> NDArray[np.bool_]:
    """Which actions a side may choose, (..., NUM_ACTIONS). ``wait`` always may be chosen."""
    free = ~state.staggered[..., side]
    legal = np.repeat(free[..., None], NUM_ACTIONS, axis=-1)
    legal[..., WAIT] = True
    legal[..., SPECIAL] &= state.special[..., side] == 0
    legal[..., DODGE] &= state.dodge[..., side] == 0
    return legal


def advance(
    state: ArenaState, actions: NDArray[np.int64], luck: NDArray[np.float64], rules: ArenaRules = RULES
) -> ArenaState:
    """Play one step in every fight.

    Args:
        state: before. Fights that are over must be held back by the caller.
        actions: (..., 2) of boss and player, legal (not checked here: ``Fight`` and ``ArenaProblem`` do).
        luck: (..., 2), what each side's damage is multiplied by.

    Returns:
        The state after.
    """
    # Walking.
    facing = _facing(state.x)
    walk = np.where(actions == APPROACH, 1.0, np.where(actions == RETREAT, -1.0, 0.0))
    x = np.clip(state.x + facing * walk * np.asarray(rules.speed), 0.0, rules.lane_length)
    ahead = facing[..., BOSS]
    short = rules.gap - (x[..., PLAYER] - x[..., BOSS]) * ahead > 0.0
    middle = np.clip(x.mean(-1), rules.gap / 2, rules.lane_length - rules.gap / 2)
    x = np.where(short[..., None], middle[..., None] - facing * rules.gap / 2, x)

    # Hits; index = who strikes, [..., ::-1] = who is struck.
    dodges = actions == DODGE
    distance = np.abs(x[..., PLAYER] - x[..., BOSS])[..., None]
    in_reach, other = distance <= rules.attack_reach, actions[..., ::-1]
    high, low = (actions == ATTACK_HIGH) & in_reach, (actions == ATTACK_LOW) & in_reach
    specials = (actions == SPECIAL) & (distance <= rules.special_reach)
    blocked = (high & (other == BLOCK_HIGH)) | (low & (other == BLOCK_LOW))
    dodged = (high | low | specials) & dodges[..., ::-1]
    damage = np.where(high | low, np.asarray(rules.attack_damage) * np.where(blocked, rules.block_factor, 1.0), 0.0)
    damage += np.where(specials, np.asarray(rules.special_damage), 0.0)
    damage *= ~dodged * luck * np.where(state.staggered[..., ::-1], rules.stagger_factor, 1.0)
    hp = np.maximum(state.hp - damage[..., ::-1], 0.0)
    broken = ((actions == BLOCK_HIGH) | (actions == BLOCK_LOW)) & specials[..., ::-1]

    # Dodging. The opponent's place is the one after walking, for both.
    other_x = x[..., ::-1]
    room = np.where(facing > 0, x, rules.lane_length - x)
    past = other_x + facing * rules.gap
    rolls = (
        (room < rules.dodge_distance)
        & (np.abs(other_x - x) <= rules.roll_distance)
        & ~dodges[..., ::-1]
        & (past >= 0.0)
        & (past <= rules.lane_length)
    )
    away = np.clip(x - facing * rules.dodge_distance, 0.0, rules.lane_length)
    x = np.where(dodges, np.where(rolls, past, away), x)

    return ArenaState(
        x=x,
        hp=hp,
        special=np.where(actions == SPECIAL, rules.special_cooldown, np.maximum(state.special - 1, 0)),
        dodge=np.where(dodges, rules.dodge_cooldown, np.maximum(state.dodge - 1, 0)),
        staggered=blocked | (specials & dodged) | broken,
        last=actions.copy(),
        step=state.step + 1,
    )


def draw_luck(shape: tuple[int, ...], generator: np.random.Generator, rules: ArenaRules = RULES) -> NDArray[np.float64]:
    """Multipliers for ``advance``, (*shape, 2)."""
    return generator.uniform(1.0 - rules.luck, 1.0 + rules.luck, (*shape, 2))


def choose(weights: ArrayLike, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw an index along the last axis with probability proportional to non-negative weights, (..., A) → (...)."""
    cumulative = np.cumsum(np.asarray(weights, dtype=np.float64), axis=-1)
    threshold = generator.random(cumulative.shape[:-1]) * cumulative[..., -1]
    # Strictly greater, so an action of weight 0 is never drawn, not even by a threshold of exactly 0.
    return (cumulative > threshold[..., None]).argmax(-1)


def action_number(action: object) -> int:
    """The number of an action given by name or number; ValueError listing the names otherwise."""
    if isinstance(action, str) and action in ACTIONS:
        return ACTIONS.index(action)
    if isinstance(action, (int, np.integer)) and not isinstance(action, bool) and 0 <= action < NUM_ACTIONS:
        return int(action)
    text = repr(action)
    raise ValueError(f"unknown action {text if len(text) <= 40 else text[:37] + '...'}; choose {', '.join(ACTIONS)}")


@dataclass
class Fight:
    """One fight, one step at a time; it keeps the log that the boss learns from.

    Args:
        seed: of the starting positions and of luck; the same seed and actions give the same fight.
        rules: see ``ArenaRules``.

    Attributes:
        state: where the fight stands, arrays without leading axes.

    >>> fight = Fight(seed=1)
    >>> fight.step("approach", "wait")
    >>> fight.over
    False
    """

    seed: int | np.random.SeedSequence
    rules: ArenaRules = RULES
    state: ArenaState = field(init=False)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)
        self.state = start((), self._generator, self.rules)
        self._steps: list[dict[str, object]] = []

    @property
    def over(self) -> bool:
        """Somebody is dead, or the time is up."""
        return bool((self.state.hp <= 0.0).any()) or int(self.state.step) >= self.rules.max_steps

    def legal(self, side: int) -> tuple[str, ...]:
        """Names of the actions that ``BOSS`` or ``PLAYER`` may choose now; none when the fight is over."""
        if self.over:
            return ()
        return tuple(name for name, may in zip(ACTIONS, legal_actions(self.state, side), strict=True) if may)

    def step(self, boss_action: str | int, player_action: str | int) -> None:
        """Play one step.

        Raises:
            ValueError: an unknown or an illegal action; the fight is unchanged.
            RuntimeError: the fight is over.
        """
        if self.over:
            raise RuntimeError("the fight is over; start another one")
        actions = np.array([action_number(boss_action), action_number(player_action)])
        for side, number in enumerate(actions):
            allowed = self.legal(side)
            if ACTIONS[number] not in allowed:
                raise ValueError(f"the {SIDES[side]} may not {ACTIONS[number]} now; choose {', '.join(allowed)}")
        entry = {
            "state": state_to_json(self.state),
            "action": ACTIONS[actions[BOSS]],
            "bossHP": float(self.state.hp[BOSS]),
            "playerHP": float(self.state.hp[PLAYER]),
        }
        self.state = advance(self.state, actions, draw_luck((), self._generator, self.rules), self.rules)
        self._steps.append(entry)

    def log(self) -> dict[str, object]:
        """The boss's decisions so far and the result, ready for JSON (``metapcg.personal.trajectories``)."""
        boss_hp, player_hp = (float(value) for value in self.state.hp)
        return {
            "steps": [dict(entry) for entry in self._steps],
            "result": {
                "bossDied": boss_hp <= 0.0,
                "playerDied": player_hp <= 0.0,
                "bossHP": boss_hp,
                "playerHP": player_hp,
            },
        }


def state_to_json(state: ArenaState) -> dict[str, float | int | bool | str]:
    """One state (no leading axes) as plain values; ``trajectories.states_from_json`` is the inverse."""
    values: dict[str, float | int | bool | str] = {"step": int(state.step)}
    for side, name in enumerate(SIDES):
        values[f"{name}X"] = float(state.x[side])
        values[f"{name}HP"] = float(state.hp[side])
        values[f"{name}Special"] = int(state.special[side])
        values[f"{name}Dodge"] = int(state.dodge[side])
        values[f"{name}Staggered"] = bool(state.staggered[side])
        values[f"{name}Last"] = ACTIONS[state.last[side]]
    return values


def hold(running: NDArray[np.bool_], new: ArenaState, old: ArenaState) -> ArenaState:
    """The new state where ``running`` (...), the old one elsewhere."""
    merged = {}
    for entry in fields(new):
        after, before = getattr(new, entry.name), getattr(old, entry.name)
        where = running[..., None] if after.ndim > running.ndim else running
        merged[entry.name] = np.where(where, after, before)
    return replace(new, **merged)

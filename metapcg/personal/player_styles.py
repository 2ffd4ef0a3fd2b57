"""Simulated players: five styles, each a box of continuous parameters, and what lies between them.

A player draws each action with probability ∝ exp(sharpness · wish), over the actions that are legal. The wishes depend
on the state and are linear in the style's parameters; ``sharpness`` 0 is the random player.

Splits (``metapcg.tasks.splits``): ``train`` and ``interpolation`` draw from the boxes round the five styles,
independently; ``extrapolation`` draws *blends* of two different styles, none of them random, with at least 35 % of
each: no box contains one, so training never meets such a player. People are most likely blends, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metapcg.tasks.problem import Seed, check_count
from metapcg.tasks.splits import EXTRAPOLATION, INTERPOLATION, TRAIN, split_generator

from .arena import (
    APPROACH,
    ATTACK_HIGH,
    ATTACK_LOW,
    BLOCK_HIGH,
    BLOCK_LOW,
    DODGE,
    NUM_ACTIONS,
    PLAYER,
    RETREAT,
    RULES,
    SPECIAL,
    WAIT,
    ArenaRules,
    ArenaState,
    legal_actions,
)

PARAMETERS = (
    "distance",
    "attack",
    "block",
    "dodge",
    "special",
    "punish",
    "footwork",
    "wait",
    "attack habit",
    "block habit",
    "sharpness",
)
"""Names of a style's parameters, in order.

``distance`` is where the player likes to stand, in metres; ``sharpness`` an inverse temperature, at least 0. The
others are wishes: to ``attack`` in reach, to ``block`` and to ``dodge`` when threatened, to use the ``special`` in
reach, to ``punish`` a staggered opponent, to walk to the preferred distance (``footwork``), to ``wait``. The habits are
added to the wish for the high attack or block and subtracted from that for the low one.
"""

STYLES: dict[str, tuple[float, ...]] = {
    "aggressive": (0.8, 3.0, -1.0, -1.0, 2.0, 1.0, 3.0, -1.0, 0.0, 0.0, 1.2),
    "cautious": (2.0, 1.0, 2.5, 2.5, 1.0, 5.0, 3.0, 0.0, 0.0, 0.0, 1.2),
    "kiting": (3.8, 1.0, -1.0, 2.0, 4.0, 2.0, 4.0, -1.0, 0.0, 0.0, 1.2),
    "turtling": (1.2, 0.0, 3.5, -1.0, 0.0, 6.0, 2.0, 0.0, 0.0, 0.0, 1.2),
    "random": (2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
"""Middle of each style's box; there the player has no habit of height."""

SPREAD = np.array([0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.2])
"""Half the width of a box round the middle, but for the habits; the random player has no width."""

HABIT = (0.7, 1.5)
"""Every sampled player has habits of this size, the two with independent signs: so over the players high and low are
equally frequent, and a boss that does not know its player gains nothing from preferring one."""

_HABITS = slice(PARAMETERS.index("attack habit"), PARAMETERS.index("block habit") + 1)

BLEND = (0.35, 0.65)
"""Shares of a style in a blend."""

STYLE_SPLITS = (TRAIN, INTERPOLATION, EXTRAPOLATION)

_IDLE = -3.0  # wish for an action that makes no sense here, such as an attack out of reach


@dataclass(frozen=True)
class PlayerStyles:
    """M simulated players.

    Attributes:
        parameters: (M, P) float64, columns as in ``PARAMETERS``.
        names: M names: a style, or ``one+other`` for a blend.
    """

    parameters: NDArray[np.float64]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.parameters.shape != (len(self.names), len(PARAMETERS)):
            raise ValueError(
                f"parameters: need shape ({len(self.names)}, {len(PARAMETERS)}), got {self.parameters.shape}"
            )
        if not np.isfinite(self.parameters).all() or (self.parameters[:, -1] < 0.0).any():
            raise ValueError("parameters: need to be finite, with sharpness of at least 0")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int | slice) -> PlayerStyles:
        rows = range(len(self))[index]
        chosen = [rows] if isinstance(index, int) else list(rows)
        return PlayerStyles(self.parameters[chosen], tuple(self.names[row] for row in chosen))


def named_styles(*names: str) -> PlayerStyles:
    """The middles of the boxes of the named styles, all five by default; ValueError on another name."""
    for name in names:
        if name not in STYLES:
            raise ValueError(f"style: unknown name {name!r}, choose one of {', '.join(STYLES)}")
    names = names or tuple(STYLES)
    return PlayerStyles(np.array([STYLES[name] for name in names]), tuple(names))


def sample_styles(split: str, num_players: int, seed: Seed) -> PlayerStyles:
    """Draw players of a split; the same seed gives the same players.

    Args:
        split: ``train``, ``interpolation`` or ``extrapolation``.
        num_players: M. The styles take turns, so M = 5 holds one of each in random order.

    Raises:
        ValueError: another split, or a number below 1.
    """
    if split not in STYLE_SPLITS:
        raise ValueError(f"split: unknown name {split!r}, choose one of {', '.join(STYLE_SPLITS)}")
    num_players = check_count("num_players", num_players)
    generator = split_generator(split, seed)
    pool = [name for name in STYLES if name != "random" or split != EXTRAPOLATION]
    rounds = -(-num_players // len(pool))
    first = np.concatenate([generator.permutation(len(pool)) for _ in range(rounds)])[:num_players]
    one = _inside_boxes([pool[i] for i in first], generator)
    if split != EXTRAPOLATION:
        return one
    other_names = [pool[(i + 1 + generator.integers(len(pool) - 1)) % len(pool)] for i in first]
    other = _inside_boxes(other_names, generator)
    share = generator.uniform(*BLEND, (num_players, 1))
    blended = share * one.parameters + (1.0 - share) * other.parameters
    blended[:, _HABITS] = one.parameters[:, _HABITS]  # the mean of two habits would be a weak one
    names = tuple(f"{a}+{b}" for a, b in zip(one.names, other.names, strict=True))
    return PlayerStyles(blended, names)


def _inside_boxes(names: list[str], generator: np.random.Generator) -> PlayerStyles:
    middles = np.array([STYLES[name] for name in names])
    width = SPREAD * np.array([[name != "random"] for name in names])
    parameters = middles + width * generator.uniform(-1.0, 1.0, middles.shape)
    shape = (len(names), 2)
    parameters[:, _HABITS] = generator.uniform(*HABIT, shape) * generator.choice([-1.0, 1.0], shape)
    return PlayerStyles(parameters, tuple(names))


def action_probabilities(
    state: ArenaState, parameters: NDArray[np.float64], side: int = PLAYER, rules: ArenaRules = RULES
) -> NDArray[np.float64]:
    """How a style chooses: (..., NUM_ACTIONS), zero where an action is illegal.

    Args:
        state: any leading axes.
        parameters: (P,), or (M, P) for states with leading axes (M, …).
        side: whom the style plays; a boss can be played by one as well.
    """
    other = 1 - side
    distance = state.distance()
    p = np.asarray(parameters).T
    p = p.reshape(len(PARAMETERS), *p.shape[1:], *([1] * (distance.ndim - p.ndim + 1)))
    preferred, attack, block, dodge, special, punish, footwork, wait, attack_habit, block_habit, sharpness = p
    punish = punish * state.staggered[..., other]
    near = distance <= rules.attack_reach + rules.speed[other]
    far = (distance <= rules.special_reach) & (state.special[..., other] == 0)
    # A special that may come is half the threat of standing within reach.
    threatened, discount = near | far, np.where(near, 0.0, 2.0)
    drift = footwork * np.clip((distance - preferred) / 2.0, -1.0, 1.0)
    wishes = np.empty((*distance.shape, NUM_ACTIONS))
    wishes[..., WAIT] = wait
    wishes[..., APPROACH] = drift
    wishes[..., RETREAT] = -drift
    for action, habit in ((ATTACK_HIGH, attack_habit), (ATTACK_LOW, -attack_habit)):
        wishes[..., action] = np.where(distance <= rules.attack_reach, attack + punish + habit, _IDLE)
    for action, habit in ((BLOCK_HIGH, block_habit), (BLOCK_LOW, -block_habit)):
        wishes[..., action] = np.where(threatened, block - discount + habit, _IDLE)
    wishes[..., DODGE] = np.where(threatened, dodge - discount, _IDLE)
    wishes[..., SPECIAL] = np.where(distance <= rules.special_reach, special + punish, _IDLE)
    wishes *= sharpness[..., None]
    weights = np.exp(wishes - wishes.max(-1, keepdims=True)) * legal_actions(state, side)
    return weights / weights.sum(-1, keepdims=True)

"""The fight in progress. The server owns it: the page sends what the player does, and is told what came of it.

The boss chooses first, from its policy and without knowing what the player will do; so its choice can be hinted at
(``tells``): its stance shows which *kind* of action comes, never whether an attack or a block is high or low.
"""

from __future__ import annotations

import secrets

import numpy as np

from metapcg.personal.arena import ACTIONS, BOSS, PLAYER, RULES, Fight, action_number, state_to_json
from metapcg.personal.learner import Learner

from .replays import MAX_SEED, Replay, entries
from .words import describe_turn

TELLS = {
    "wait": "waits",
    "approach": "moves",
    "retreat": "moves",
    "attack-high": "strikes",
    "attack-low": "strikes",
    "dodge": "moves",
    "block-high": "guards",
    "block-low": "guards",
    "special": "special",
}
"""What the boss's stance shows of the action that it has chosen."""


class MatchError(ValueError):
    """A turn that cannot be played; the fight is unchanged. One line."""


class Match:
    """One fight of one player.

    Args:
        learner: the boss.
        tells: whether the boss's stance is shown.
        seed: of positions and luck; drawn when None.
        choices: seed of the boss's choices; drawn when None.

    Attributes:
        replay: what has been played so far.
    """

    def __init__(self, learner: Learner, tells: bool, seed: int | None = None, choices: int | None = None) -> None:
        self._learner, self.tells = learner, tells
        seed = secrets.randbelow(MAX_SEED + 1) if seed is None else seed
        self._fight = Fight(seed)
        self._generator = np.random.default_rng(secrets.randbits(128) if choices is None else choices)
        self.replay = Replay(secrets.token_hex(16), seed, "", "")
        self._last: dict[str, object] | None = None
        self._choose()

    @property
    def over(self) -> bool:
        """Somebody is dead, or the time is up."""
        return self._fight.over

    def step(self, turn: object, action: object) -> None:
        """Play a turn.

        Args:
            turn: its number, so that a request that comes twice plays no second turn.
            action: what the player does.

        Raises:
            MatchError: another turn is due, the fight is over, or an unknown or illegal action.
        """
        fight, before = self._fight, self._fight.state
        if self.over:
            raise MatchError("the fight is over")
        if isinstance(turn, bool) or turn != int(before.step):
            raise MatchError(f"turn: {int(before.step)} is due, not another")
        try:
            number = action_number(action)
            fight.step(self._boss, number)
        except ValueError as error:
            raise MatchError(str(error)) from error
        old = self.replay
        self.replay = Replay(old.fight, old.seed, old.boss + str(action_number(self._boss)), old.player + str(number))
        lost = before.hp - fight.state.hp
        self._last = {
            "boss": self._boss,
            "player": ACTIONS[number],
            "bossLost": float(lost[BOSS]),
            "playerLost": float(lost[PLAYER]),
            "text": describe_turn(before, fight.state, self._boss, ACTIONS[number]),
        }
        self._choose()

    def view(self) -> dict[str, object]:
        """What the page may know, plain values for JSON. The seed is among it only when the fight is over."""
        state = self._fight.state
        view: dict[str, object] = {
            "fight": self.replay.fight,
            "turn": int(state.step),
            "state": state_to_json(state),
            "legal": list(self._fight.legal(PLAYER)),
            "tell": TELLS[self._boss] if self.tells and not self.over else None,
            "last": self._last,
            "over": self.over,
        }
        if self.over:
            view["entry"] = entries([self.replay])[0]
        return view

    def _choose(self) -> None:
        self._boss = "wait" if self.over else self._learner.act(self._fight.state, self._generator)


def rules_for_page() -> dict[str, object]:
    """Numbers that the page draws: lengths in metres, times in turns."""
    return {
        "actions": list(ACTIONS),
        "laneLength": RULES.lane_length,
        "attackReach": RULES.attack_reach,
        "specialReach": RULES.special_reach,
        "specialCooldown": RULES.special_cooldown,
        "dodgeCooldown": RULES.dodge_cooldown,
        "maxSteps": RULES.max_steps,
    }

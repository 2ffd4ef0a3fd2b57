"""Turns and updates in plain sentences. The page shows them and screen readers speak them."""

from __future__ import annotations

from collections.abc import Mapping

from metapcg.personal.arena import BOSS, PLAYER, ArenaState

ACTION_WORDS = {
    "wait": "wait",
    "approach": "come closer",
    "retreat": "step back",
    "attack-high": "attack high",
    "attack-low": "attack low",
    "dodge": "dodge",
    "block-high": "block high",
    "block-low": "block low",
    "special": "use the special",
}

SITUATION_WORDS = {
    "face to face": "Face to face",
    "at special reach": "At the special's reach",
    "far apart": "Far apart",
    "player staggered": "When you stagger",
    "boss cornered": "With its back to the wall",
    "player nearly dead": "When you are nearly beaten",
    "boss nearly dead": "When it is nearly beaten",
}

_DOES = {
    "wait": ("You wait", "the boss waits"),
    "approach": ("You come closer", "the boss comes closer"),
    "retreat": ("You step back", "the boss steps back"),
    "attack-high": ("You attack high", "the boss attacks high"),
    "attack-low": ("You attack low", "the boss attacks low"),
    "dodge": ("You dodge", "the boss dodges"),
    "block-high": ("You block high", "the boss blocks high"),
    "block-low": ("You block low", "the boss blocks low"),
    "special": ("You use your special", "the boss uses its special"),
}

NOTICEABLE = 0.005
"""A probability that changed by less is not worth a sentence."""


def describe_turn(before: ArenaState, after: ArenaState, boss: str, player: str) -> str:
    """What happened in one turn: "You block low, the boss attacks low. It staggers."."""
    mine = "You stagger, and cannot act" if before.staggered[PLAYER] else _DOES[player][0]
    its = "the boss staggers, and cannot act" if before.staggered[BOSS] else _DOES[boss][1]
    parts = [f"{mine}, {its}."]
    # Hit points are told in whole per cent, as the bars show them.
    boss_lost, player_lost = (round(100 * float(v)) for v in before.hp - after.hp)
    losses = []
    if boss_lost:
        losses.append(f"it loses {boss_lost}")
    if player_lost:
        losses.append(f"you lose {player_lost}")
    if losses:
        text = " and ".join(losses)
        parts.append(f"{text[0].upper()}{text[1:]}.")
    dead = after.hp <= 0.0
    if dead.all():
        parts.append("Both of you fall.")
    elif dead[BOSS]:
        parts.append("The boss falls.")
    elif dead[PLAYER]:
        parts.append("You fall.")
    else:
        if after.staggered[BOSS]:
            parts.append("It staggers: your next hit counts double.")
        if after.staggered[PLAYER]:
            parts.append("You stagger: its next hit counts double.")
    return " ".join(parts)


def describe_change(before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]) -> str:
    """The largest change of a policy in one sentence.

    Args:
        before, after: situation → action → probability, as ``metapcg.personal.situations.describe`` gives them.
    """
    situation, action, change = max(
        ((s, a, after[s][a] - p) for s, row in before.items() for a, p in row.items()), key=lambda c: abs(c[2])
    )
    if abs(change) < NOTICEABLE:
        return "The boss will do what it did before: this fight taught it next to nothing."
    old, new = before[situation][action], after[situation][action]
    changes = {a: after[situation][a] - p for a, p in before[situation].items()}
    # Probabilities sum to one, so something changed the other way.
    counter = (min if change > 0 else max)(changes, key=changes.__getitem__)
    more, less = (action, counter) if change > 0 else (counter, action)
    return (
        f"{SITUATION_WORDS[situation]}, the boss will now rather {ACTION_WORDS[more]} than {ACTION_WORDS[less]}: "
        f"it will {ACTION_WORDS[action]} in {_percent(new)} of such moments, before it was {_percent(old)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"

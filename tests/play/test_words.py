"""Turns and updates in plain sentences: what is said has to be what happened."""

import copy
import re

import pytest

from metapcg.personal.arena import ACTIONS, BOSS, PLAYER, Fight
from metapcg.personal.numpy_mind import NumpyMind
from metapcg.personal.situations import SITUATIONS, describe
from metapcg.personal.weights_file import load_anchor
from metapcg.play.matches import TELLS
from metapcg.play.words import ACTION_WORDS, SITUATION_WORDS, describe_change, describe_turn


def turn(boss, player, near=True, boss_hp=1.0, player_hp=1.0, staggered=None):
    """The sentence for one turn from a chosen state."""
    fight = Fight(1)
    fight.state.x[:] = (5.6, 4.6) if near else (9.0, 1.0)
    fight.state.hp[:] = boss_hp, player_hp
    if staggered is not None:
        fight.state.staggered[staggered] = True
    before = copy.deepcopy(fight.state)
    fight.step(boss, player)
    return describe_turn(before, fight.state, boss, player)


def test_everything_has_words():
    assert set(ACTION_WORDS) == set(TELLS) == set(ACTIONS) and set(SITUATION_WORDS) == set(SITUATIONS)


def test_a_turn_without_consequences():
    assert turn("retreat", "wait", near=False) == "You wait, the boss steps back."


def test_losses_of_both_are_told_in_whole_points():
    text = turn("attack-low", "attack-high")
    assert re.fullmatch(r"You attack high, the boss attacks low. It loses (1[6-9]|20) and you lose (9|10|11)\.", text)


def test_a_blocked_attack_makes_its_owner_stagger():
    assert turn("attack-high", "block-high").endswith("It staggers: your next hit counts double.")
    assert turn("block-low", "attack-low").endswith("You stagger: its next hit counts double.")


def test_who_staggers_is_said_not_to_act_whatever_is_chosen():
    assert turn("wait", "wait", near=False, staggered=BOSS) == "You wait, the boss staggers, and cannot act."
    assert turn("wait", "wait", near=False, staggered=PLAYER) == "You stagger, and cannot act, the boss waits."


@pytest.mark.parametrize(
    ("boss_hp", "player_hp", "end"),
    [(0.01, 1.0, "The boss falls."), (1.0, 0.01, "You fall."), (0.01, 0.01, "Both of you fall.")],
)
def test_the_end_is_told(boss_hp, player_hp, end):
    assert turn("attack-low", "attack-low", boss_hp=boss_hp, player_hp=player_hp).endswith(end)


def table():
    return describe(NumpyMind(load_anchor("meta-learned")))


def test_the_largest_change_is_told_with_its_counterpart_and_numbers():
    before, after = table(), table()
    row = {action: 0.0 for action in ACTIONS}
    before["far apart"] = {**row, "approach": 0.5, "wait": 0.3, "dodge": 0.2}
    after["far apart"] = {**row, "approach": 0.25, "wait": 0.5, "dodge": 0.25}
    assert describe_change(before, after) == (
        "Far apart, the boss will now rather wait than come closer: it will come closer in 25\u00a0% of such moments, "
        "before it was 50\u00a0%."
    )


def test_nothing_is_made_of_next_to_nothing():
    before, after = table(), table()
    after["far apart"] = {action: p + 0.004 * (action == "wait") for action, p in after["far apart"].items()}
    assert "next to nothing" in describe_change(before, after)

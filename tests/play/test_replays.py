"""A fight is kept as seed and actions; a log that tells another fight than the rules give is refused."""

import copy
import json

import numpy as np
import pytest
from play_server import make_entry, make_replay

from metapcg.personal import arena
from metapcg.personal.arena import Fight
from metapcg.personal.trajectories import TrajectoryError, parse_trajectory
from metapcg.play.replays import Replay, check_entry, entries, simulate, trajectories


def test_a_replay_gives_the_fight_that_was_played():
    replay = make_replay(5)
    fight = Fight(5)
    states, actions = simulate([make_replay(4), replay])[1]
    for t, (boss, player) in enumerate(actions):
        assert (states.x[t] == fight.state.x).all() and (states.hp[t] == fight.state.hp).all()
        fight.step(int(boss), int(player))
    assert entries([replay])[0]["log"] == fight.log()


def test_what_is_learned_from_a_replay_is_to_the_last_bit_what_was_learned_from_the_log():
    for seed in range(8):
        sent = json.loads(json.dumps(make_entry(seed)))
        replay, from_log = check_entry(sent)
        assert replay == make_replay(seed)
        again = trajectories([make_replay(seed + 100), replay])[1]
        for name in ("features", "legal", "actions", "hp"):
            assert np.array_equal(getattr(from_log, name), getattr(again, name)), name
        assert (from_log.boss_died, from_log.player_died) == (again.boss_died, again.player_died)


def test_a_log_rounded_by_another_processor_is_accepted_but_the_rules_numbers_are_learned(entry):
    entry["log"]["steps"][4]["state"]["bossX"] += 1e-12
    _, trajectory = check_entry(entry)
    assert np.array_equal(trajectory.features, trajectories([make_replay(3)])[0].features)


def change(*path, to):
    """An edit of an entry: the value at ``path`` becomes ``to``."""

    def edit(entry):
        place = entry
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to

    edit.__name__ = ".".join(map(str, path))
    return edit


def without(name):
    def edit(entry):
        del entry[name]

    edit.__name__ = f"without_{name}"
    return edit


def consistent_hit_points(entry):
    """A boss that lost something in the middle of the fight for no reason, in every place where it stands."""
    for step in entry["log"]["steps"][3:]:
        step["bossHP"] = step["state"]["bossHP"] = step["bossHP"] - 0.01
    entry["log"]["result"]["bossHP"] -= 0.01


def shortened(entry):
    del entry["log"]["steps"][-1], entry["player"][-1]
    last = entry["log"]["steps"][-1]
    entry["log"]["result"] = {
        "bossDied": False,
        "playerDied": False,
        "bossHP": last["bossHP"],
        "playerHP": last["playerHP"],
    }


FORGERIES = [
    (without("seed"), "seed is missing"),
    (without("player"), "player is missing"),
    (change("fight", to="../../etc"), "fight: needs 32 hexadecimal digits"),
    (change("seed", to=-1), "seed: needs a whole number"),
    (change("seed", to=True), "seed: needs a whole number"),
    (change("seed", to=2**60), "seed: needs a whole number"),
    (change("seed", to=lambda seed: seed + 1), r"steps\[0\].state.bossX: the rules give"),
    (change("player", to=lambda names: names[:-1]), "player: needs a list of"),
    (change("player", 2, to="fly"), r"player\[2\]: unknown action 'fly'"),
    (change("log", "steps", 3, "state", "playerX", to=lambda x: x * 0.999), r"steps\[3\].state.playerX: the rules"),
    (change("log", "steps", 5, "state", "bossSpecial", to=lambda n: 7 - n), r"steps\[5\]"),
    (consistent_hit_points, r"steps\[\d+\].state.bossHP: the rules give"),
    (change("log", "result", "bossHP", to=lambda hp: hp * 0.5 + 0.01), "result"),
    (shortened, "result: other hit points|the fight is not over"),
]


@pytest.mark.parametrize(("edit", "message"), FORGERIES, ids=lambda value: getattr(value, "__name__", ""))
def test_forged_fight_is_refused_with_one_line(entry, edit, message):
    check_entry(copy.deepcopy(entry))
    edit(entry)
    with pytest.raises(TrajectoryError, match=message) as caught:
        check_entry(entry)
    assert "\n" not in str(caught.value)


def test_an_action_of_the_boss_that_was_not_played_is_refused(entry):
    # The log alone is in order: what was played instead shows only in the states.
    step = next(s for s in entry["log"]["steps"] if s["action"] == "attack-high")
    step["action"] = "attack-low"
    parse_trajectory(entry["log"])
    with pytest.raises(TrajectoryError, match="the rules give"):
        check_entry(entry)


def test_an_action_of_the_player_that_was_illegal_is_refused():
    replay = make_replay(3)
    special = replay.player.index("8")
    player = replay.player[: special + 1] + "8" + replay.player[special + 2 :]
    with pytest.raises(TrajectoryError, match=rf"steps\[{special + 1}\]: the player's action was illegal"):
        simulate([Replay(replay.fight, replay.seed, replay.boss, player)])


def test_a_special_that_should_rest_is_refused_even_with_states_to_match(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(arena, "legal_actions", lambda state, side: np.ones(arena.NUM_ACTIONS, dtype=bool))
        fight = Fight(6)
        while not fight.over:
            fight.step("wait", "special" if int(fight.state.step) > 3 else "approach")
    log = fight.log()
    names = [step["state"]["playerLast"] for step in log["steps"][1:]] + ["special"]
    with pytest.raises(TrajectoryError, match=r"player\[5\]: special was illegal then"):
        check_entry({"fight": "0" * 32, "seed": 6, "player": names, "log": log})


@pytest.mark.parametrize(("steps", "message"), [(2, "not over"), (61, "after its end")])
def test_a_replay_that_ends_too_early_or_late_is_refused(steps, message):
    with pytest.raises(TrajectoryError, match=message):
        simulate([Replay("0" * 32, 1, "0" * steps, "0" * steps)])

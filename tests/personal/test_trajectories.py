"""Logs of fights: a good one is read exactly, a bad one is refused with one line that says why."""

import json

import numpy as np
import pytest
from fights import play

from metapcg.personal.arena import ACTIONS, BOSS, PLAYER, RULES, Fight, state_to_json
from metapcg.personal.arena_problem import ArenaProblem
from metapcg.personal.features import boss_features, boss_legal
from metapcg.personal.player_styles import named_styles
from metapcg.personal.rewards import discounted_returns, step_rewards
from metapcg.personal.trajectories import MAX_BYTES, TrajectoryError, parse_trajectory, states_from_json


def test_a_log_is_read_exactly():
    fight, states, actions = Fight(5), [], ["approach", "special", "wait", "attack-high", "block-low"]
    for action in actions:
        states.append(fight.state)
        fight.step(action, "retreat")
    read = parse_trajectory(json.dumps(fight.log()))
    assert [ACTIONS[a] for a in read.actions] == actions
    for t, state in enumerate(states):
        assert np.array_equal(read.features[t], boss_features(state))
        assert np.array_equal(read.legal[t], boss_legal(state))
        assert np.array_equal(read.hp[t], state.hp)
    assert np.array_equal(read.hp[-1], fight.state.hp)
    assert not read.boss_died and not read.player_died


def test_text_bytes_and_objects_are_the_same(log):
    text = json.dumps(log)
    for form in (text, text.encode(), log):
        assert np.array_equal(parse_trajectory(form).features, parse_trajectory(text).features)


def test_rewards_from_a_log_are_those_of_training():
    """A simulated fight, replayed from its log, pays exactly what the problem paid."""
    problem = ArenaProblem(named_styles("aggressive"), num_envs=1)
    obs = problem.reset(2)
    generator = np.random.default_rng(0)
    steps, paid = [], []
    while problem.active.any():
        state = problem.state[0, 0]
        action = int(generator.choice(np.flatnonzero(obs["legal"][0, 0])))
        steps.append({"state": state_to_json(state), "action": ACTIONS[action]})
        steps[-1].update(bossHP=float(state.hp[BOSS]), playerHP=float(state.hp[PLAYER]))
        obs, reward, *_ = problem.step(np.array([[action]]))
        paid.append(float(reward[0, 0]))
    dead = problem.state.hp[0, 0] <= 0.0
    assert dead.any(), "choose another seed: this fight has no last blow"
    result = {"bossDied": bool(dead[BOSS]), "playerDied": bool(dead[PLAYER])}
    hp = dict(zip(("bossHP", "playerHP"), problem.state.hp[0, 0].tolist(), strict=True))
    read = parse_trajectory({"steps": steps, "result": {**result, **hp}})
    assert np.allclose(step_rewards(read.hp[:-1], read.hp[1:]), paid, rtol=0, atol=1e-6)


def test_rewards_by_hand():
    before = np.array([[1.0, 1.0], [0.9, 0.5], [0.2, 0.1], [0.1, 0.1]])
    after = np.array([[0.9, 0.5], [0.9, 0.5], [0.0, 0.1], [0.0, 0.0]])
    expected = [6 * 0.5 - 5 * 0.1 - 0.01, -0.01, -5 * 0.2 - 0.01 - 5, 6 * 0.1 - 5 * 0.1 - 0.01 + 8 - 5]
    assert step_rewards(before, after) == pytest.approx(expected)


def test_returns_by_hand():
    assert discounted_returns(np.array([1.0, 0.0, 4.0]), 0.5).tolist() == [2.0, 2.0, 4.0]


def test_result_without_hit_points(log):
    log["result"] = {"bossDied": False, "playerDied": True}
    read = parse_trajectory(log)
    assert read.hp[-1].tolist() == [read.hp[-2, BOSS], 0.0] and read.player_died


def deep(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        ("{'steps': []}", "not JSON"),
        ('{"steps": [NaN], "result": {}}', "NaN is no number"),
        ('{"steps": [Infinity], "result": {}}', "Infinity is no number"),
        (deep(100_000), "not JSON"),
        ('{"steps": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "the log: needs an object, got a list"),
        ("null", "needs an object, got null"),
        ("{}", "steps is missing"),
        ('{"steps": [], "result": {}, "more": 1}', "unknown entry 'more'"),
        ('{"steps": {}, "result": {}}', "steps: needs a list, got an object"),
        ('{"steps": "many", "result": {}}', "steps: needs a list, got text"),
        ('{"steps": [], "result": {}}', "needs 2 to 60 of them, got 0"),
        ('{"steps": [1, 2], "result": {}}', r"steps\[0\]: needs an object, got the number 1"),
        (" " * (MAX_BYTES + 1), "too long"),
    ],
)
def test_what_is_no_log_is_refused(data, message):
    with pytest.raises(TrajectoryError, match=message) as caught:
        parse_trajectory(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def in_step(t=1, **changes):
    return lambda log: log["steps"][t].update(changes)


def in_state(t=1, **changes):
    return lambda log: log["steps"][t]["state"].update(changes)


def in_result(**changes):
    return lambda log: log["result"].update(changes)


def in_both(t, name, value):
    def change(log):
        log["steps"][t][name] = log["steps"][t]["state"][name] = value

    return change


def everybody_dead_from_the_start(log):
    for t in range(len(log["steps"])):
        in_both(t, "bossHP", 0.0)(log)


FAULTS = {
    "unknown action": (in_step(action="fly"), r"steps\[1\].action: unknown action 'fly'; choose wait"),
    "action number too high": (in_step(action=9), "unknown action 9"),
    "negative action": (in_step(action=-1), "unknown action -1"),
    "action is a fraction": (in_step(action=1.0), "unknown action 1.0"),
    "action is true": (in_step(action=True), "unknown action True"),
    "very long action": (in_step(action="x" * 10**5), "unknown action 'xxx"),
    "no action": (lambda log: log["steps"][1].pop("action"), r"steps\[1\]: action is missing"),
    "entry too many": (in_step(reward=5), r"steps\[1\]: unknown entry 'reward'"),
    "negative HP": (in_step(bossHP=-0.1), r"steps\[1\].bossHP: needs to lie in 0 … 1, got -0.1"),
    "HP above full": (in_step(playerHP=1.5), r"steps\[1\].playerHP: needs to lie in 0 … 1"),
    "HP is NaN": (in_step(bossHP=float("nan")), r"steps\[1\].bossHP: needs a finite number, got nan"),
    "HP is infinite": (in_step(bossHP=float("inf")), "needs a finite number, got inf"),
    "HP is huge": (in_step(bossHP=10**30), "got a huge number"),
    "HP is text": (in_step(bossHP="1"), "bossHP: needs a number, got text"),
    "HP is true": (in_step(bossHP=True), "bossHP: needs a number, got true or false"),
    "HP is null": (in_step(bossHP=None), "bossHP: needs a number, got null"),
    "HP differs from the state's": (in_step(bossHP=0.5), r"steps\[1\].bossHP: is not what its state says"),
    "HP rises": (in_both(0, "playerHP", 0.01), r"steps\[1\].playerHP: hit points cannot rise"),
    "decision after a death": (everybody_dead_from_the_start, "after a death"),
    "state is a list": (in_step(state=[0.0] * 28), r"steps\[1\].state: needs an object, got a list"),
    "state lacks an entry": (lambda log: log["steps"][1]["state"].pop("bossX"), r"steps\[1\].state: bossX is missing"),
    "state has one too many": (in_state(colour="red"), r"steps\[1\].state: unknown entry 'colour'"),
    "position beyond the wall": (in_state(bossX=10.5), r"state.bossX: needs to lie in 0 … 10"),
    "position is NaN": (in_state(playerX=float("nan")), "state.playerX: needs a finite number"),
    "both in one place": (in_state(playerX=5.0, bossX=5.0), "stand in the same place"),
    "cooldown too long": (in_state(bossSpecial=99), "state.bossSpecial: needs to lie in 0 … 8"),
    "cooldown is a fraction": (in_state(bossDodge=0.5), "state.bossDodge: needs a whole number"),
    "staggered is a number": (in_state(bossStaggered=0), "state.bossStaggered: needs true or false"),
    "last action unknown": (in_state(playerLast="sing"), "state.playerLast: unknown action 'sing'"),
    "step repeated": (in_state(step=0), r"steps\[1\].state.step: needs to be 1, got 0"),
    "step negative": (in_state(0, step=-1), r"steps\[0\].state.step: needs to lie in 0 … 59"),
    "illegal under the mask, staggered": (
        lambda log: (in_state(bossStaggered=True)(log), in_step(action="attack-low")(log)),
        r"steps\[1\].action: attack-low was illegal then; legal were wait",
    ),
    "illegal under the mask, cooldown": (
        lambda log: (in_state(bossSpecial=3, bossStaggered=False)(log), in_step(action="special")(log)),
        "special was illegal then",
    ),
    "one step only": (lambda log: log.update(steps=log["steps"][:1]), "needs 2 to 60 of them, got 1"),
    "a million steps": (lambda log: log.update(steps=[log["steps"][0]] * 10**6), "needs 2 to 60 of them, got 1000000"),
    "no result": (lambda log: log.pop("result"), "the log: result is missing"),
    "result is null": (lambda log: log.update(result=None), "result: needs an object, got null"),
    "died is a number": (in_result(bossDied=1), "result.bossDied: needs true or false"),
    "died is missing": (lambda log: log["result"].pop("playerDied"), "result: playerDied is missing"),
    "died with HP left": (in_result(bossDied=True, bossHP=0.01), "true does not go with bossHP = 0.01"),
    "no HP left but alive": (in_result(bossDied=False, bossHP=0), "false does not go with bossHP = 0"),
    "last HP rises": (in_result(playerHP=1.0, playerDied=False), "result.playerHP: hit points cannot rise"),
    "last HP negative": (in_result(playerHP=-1), "result.playerHP: needs to lie in 0 … 1"),
    "result has one too many": (in_result(score=3), "result: unknown entry 'score'"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_refused_with_one_line(log, change, message):
    parse_trajectory(log)
    change(log)
    with pytest.raises(TrajectoryError, match=message) as caught:
        parse_trajectory(log)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_states_survive_json():
    states = [state_to_json(Fight(seed).state) for seed in range(5)]
    read = states_from_json(json.loads(json.dumps(states)))
    assert [state_to_json(read[t]) for t in range(5)] == states


def test_longest_fight_fits():
    fight = Fight(1)
    while not fight.over:
        fight.step("retreat", "retreat")
    text = json.dumps(fight.log())
    assert len(parse_trajectory(text)) == RULES.max_steps and len(text) * 5 < MAX_BYTES


def test_played_fights_of_all_styles_are_accepted():
    for seed, (boss, player) in enumerate(
        [("aggressive", "turtling"), ("random", "random"), ("turtling", "aggressive")]
    ):
        fight = play(seed, boss, player)
        assert len(parse_trajectory(fight.log())) == int(fight.state.step)

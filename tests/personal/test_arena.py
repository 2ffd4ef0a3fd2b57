"""The rules of the fight, and the simulated players."""

import dataclasses

import numpy as np
import pytest
from fights import play

from metapcg.personal.arena import (
    ACTIONS,
    APPROACH,
    ATTACK_HIGH,
    ATTACK_LOW,
    BLOCK_HIGH,
    BLOCK_LOW,
    BOSS,
    DODGE,
    NUM_ACTIONS,
    PLAYER,
    RETREAT,
    RULES,
    SPECIAL,
    WAIT,
    ArenaState,
    Fight,
    advance,
    choose,
    legal_actions,
    start,
)
from metapcg.personal.arena_problem import ArenaProblem
from metapcg.personal.features import FEATURES, boss_features
from metapcg.personal.player_styles import (
    HABIT,
    PARAMETERS,
    SPREAD,
    STYLES,
    PlayerStyles,
    action_probabilities,
    named_styles,
    sample_styles,
)
from metapcg.personal.rewards import step_rewards


def state(distance=1.0, boss_x=5.0, **changes):
    """The player stands `distance` metres to the left of the boss."""
    base = start((), np.random.default_rng(0))
    return dataclasses.replace(base, x=np.array([boss_x, boss_x - distance]), **changes)


def one_step(before, boss, player):
    return advance(before, np.array([boss, player]), np.ones(2))


def test_clean_hit_costs_the_target_and_nobody_staggers():
    after = one_step(state(), ATTACK_LOW, WAIT)
    assert after.hp.tolist() == [1.0, 1.0 - RULES.attack_damage[BOSS]]
    assert not after.staggered.any()


def test_both_can_hit_at_the_same_moment():
    after = one_step(state(), ATTACK_HIGH, ATTACK_HIGH)
    assert after.hp.tolist() == [1.0 - RULES.attack_damage[PLAYER], 1.0 - RULES.attack_damage[BOSS]]


HEIGHTS = [(ATTACK_HIGH, BLOCK_HIGH, BLOCK_LOW), (ATTACK_LOW, BLOCK_LOW, BLOCK_HIGH)]


@pytest.mark.parametrize(("strike", "right", "wrong"), HEIGHTS, ids=["high", "low"])
def test_block_of_its_height_beats_an_attack_and_the_other_does_not(strike, right, wrong):
    after = one_step(state(), strike, right)
    assert after.hp[PLAYER] == pytest.approx(1.0 - RULES.attack_damage[BOSS] * RULES.block_factor)
    assert after.staggered.tolist() == [True, False]
    through = one_step(state(), strike, wrong)
    assert through.hp[PLAYER] == pytest.approx(1.0 - RULES.attack_damage[BOSS])
    assert not through.staggered.any()


@pytest.mark.parametrize("block", [BLOCK_HIGH, BLOCK_LOW])
def test_special_beats_both_blocks(block):
    after = one_step(state(), SPECIAL, block)
    assert after.hp[PLAYER] == pytest.approx(1.0 - RULES.special_damage[BOSS])
    assert after.staggered.tolist() == [False, True]


@pytest.mark.parametrize("strike", [ATTACK_HIGH, ATTACK_LOW, SPECIAL])
def test_who_dodges_is_not_hit_and_a_dodged_special_staggers(strike):
    after = one_step(state(), DODGE, strike)
    assert after.hp.tolist() == [1.0, 1.0]
    assert after.staggered.tolist() == [False, strike == SPECIAL]
    assert after.x[BOSS] == pytest.approx(5.0 + RULES.dodge_distance)


def test_staggered_target_takes_more_and_may_only_wait():
    before = state(staggered=np.array([False, True]))
    assert one_step(before, ATTACK_HIGH, WAIT).hp[PLAYER] == 1.0 - RULES.attack_damage[BOSS] * RULES.stagger_factor
    assert legal_actions(before, PLAYER).tolist() == [a == WAIT for a in range(NUM_ACTIONS)]
    assert legal_actions(before, BOSS).all()


def test_out_of_reach_nothing_happens():
    assert one_step(state(RULES.attack_reach + 0.1), ATTACK_HIGH, ATTACK_HIGH).hp.tolist() == [1.0, 1.0]
    assert one_step(state(RULES.special_reach + 0.1), SPECIAL, WAIT).hp.tolist() == [1.0, 1.0]
    assert one_step(state(RULES.special_reach - 0.1), SPECIAL, WAIT).hp[PLAYER] < 1.0


def test_hits_are_measured_after_walking():
    assert one_step(state(2.0), ATTACK_HIGH, APPROACH).hp[PLAYER] < 1.0, "the player walked into the attack"
    assert one_step(state(1.0), ATTACK_HIGH, RETREAT).hp[PLAYER] == 1.0, "the player walked out of it"


def test_cooldowns_count_down_to_legal():
    now = one_step(state(9.0, 9.5), SPECIAL, DODGE)
    assert now.special.tolist() == [RULES.special_cooldown, 0] and now.dodge.tolist() == [0, RULES.dodge_cooldown]
    waited = 0
    while not legal_actions(now, BOSS)[SPECIAL]:
        now, waited = one_step(now, WAIT, WAIT), waited + 1
    assert waited == RULES.special_cooldown
    assert legal_actions(now, PLAYER)[DODGE]


def test_bodies_do_not_pass_each_other_and_stay_on_the_lane():
    met = one_step(state(1.0), APPROACH, APPROACH)
    assert met.distance() == pytest.approx(RULES.gap) and met.x[PLAYER] < met.x[BOSS]
    cornered = one_step(state(0.7, 0.7), APPROACH, RETREAT)
    assert cornered.x.tolist() == pytest.approx([RULES.gap, 0.0])
    assert one_step(state(1.0, 9.9), RETREAT, WAIT).x[BOSS] == RULES.lane_length


def test_dodge_in_a_corner_rolls_past_the_opponent():
    rolled = one_step(state(1.0, 1.2), WAIT, DODGE)
    assert rolled.x[PLAYER] == pytest.approx(1.2 + RULES.gap)
    far = one_step(state(3.0, 3.2), WAIT, DODGE)
    assert far.x[PLAYER] == 0.0, "nobody rolls three metres"
    both = one_step(state(1.0, 1.2), DODGE, DODGE)
    assert both.x.tolist() == pytest.approx([1.2 + RULES.dodge_distance, 0.0]), "no roll past one who jumps away"


def test_hit_points_never_fall_below_zero():
    after = one_step(state(hp=np.array([1.0, 0.01])), ATTACK_HIGH, WAIT)
    assert after.hp[PLAYER] == 0.0


def test_luck_multiplies_the_owners_damage():
    after = advance(state(), np.array([ATTACK_HIGH, ATTACK_HIGH]), np.array([1.1, 0.9]))
    assert (1.0 - after.hp).tolist() == pytest.approx([0.9 * RULES.attack_damage[1], 1.1 * RULES.attack_damage[0]])


def test_fight_is_determined_by_its_seed():
    first, again, other = play(1).log(), play(1).log(), play(2).log()
    assert first == again and first != other


def test_fight_refuses_illegal_and_unknown_actions_and_goes_on_unchanged():
    fight = Fight(0)
    fight.step("special", "wait")
    with pytest.raises(ValueError, match="the boss may not special now; choose wait, approach"):
        fight.step("special", "wait")
    with pytest.raises(ValueError, match="unknown action 'fly'; choose wait"):
        fight.step("wait", "fly")
    with pytest.raises(ValueError, match="unknown action True"):
        fight.step("wait", True)
    assert int(fight.state.step) == 1 and len(fight.log()["steps"]) == 1


def test_fight_ends_and_says_so():
    fight = Fight(0)
    while not fight.over:
        fight.step("wait", "wait")
    assert int(fight.state.step) == RULES.max_steps and fight.legal(PLAYER) == ()
    with pytest.raises(RuntimeError, match="over"):
        fight.step("wait", "wait")
    assert fight.log()["result"] == {"bossDied": False, "playerDied": False, "bossHP": 1.0, "playerHP": 1.0}


def test_choose_follows_the_weights_and_never_takes_a_zero():
    draws = choose(np.broadcast_to([0.0, 3.0, 1.0, 0.0], (4000, 4)), np.random.default_rng(0))
    counts = np.bincount(draws, minlength=4)
    assert counts[0] == counts[3] == 0 and abs(counts[1] - 3000) < 120


def test_batch_and_single_fight_obey_the_same_rules():
    problem = ArenaProblem(named_styles(), num_envs=3)
    problem.reset(4)
    generator = np.random.default_rng(5)
    for _ in range(20):
        before = problem.state
        actions = choose(legal_actions(before, BOSS), generator)
        players = choose(legal_actions(before, PLAYER), generator)
        luck = generator.uniform(0.9, 1.1, (5, 3, 2))
        together = advance(before, np.stack([actions, players], -1), luck)
        alone = advance(before[2, 1], np.array([actions[2, 1], players[2, 1]]), luck[2, 1])
        for entry in dataclasses.fields(ArenaState):
            assert np.array_equal(getattr(together, entry.name)[2, 1], getattr(alone, entry.name)), entry.name
        problem.step(actions)


def test_features_are_bounded_and_name_what_they_hold():
    problem = ArenaProblem(sample_styles("train", 5, 0), num_envs=10)
    obs = problem.reset(0)
    generator = np.random.default_rng(0)
    for _ in range(problem.horizon):
        assert obs["state"].min() >= 0.0 and obs["state"].max() <= 1.0
        obs, *_ = problem.step(choose(obs["legal"], generator))
    here = state(1.0, staggered=np.array([False, True]), hp=np.array([0.25, 0.5]), special=np.array([0, 4]))
    named = dict(zip(FEATURES, boss_features(here), strict=True))
    assert named["boss HP"] == 0.25 and named["player HP"] == 0.5
    assert named["player staggered"] == 1.0 and named["boss staggered"] == 0.0
    assert named["room behind boss"] == 0.5 and named["room behind player"] == pytest.approx(0.4)
    assert named["boss special cooldown"] == 0.0 and named["player special cooldown"] == 4 / RULES.special_cooldown


def test_last_actions_are_not_seen():
    seen = [boss_features(state(last=np.array([a, b]))) for a in (WAIT, SPECIAL) for b in (WAIT, BLOCK_LOW)]
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


def test_problem_pays_what_the_hit_points_say_and_keeps_finished_fights():
    problem = ArenaProblem(named_styles("aggressive", "random"), num_envs=20)
    obs = problem.reset(1)
    generator = np.random.default_rng(2)
    for _ in range(problem.horizon):
        before, active = problem.state.hp.copy(), problem.active
        obs, reward, terminated, truncated = problem.step(choose(obs["legal"], generator))
        expected = np.where(active, step_rewards(before, problem.state.hp), 0.0)
        assert np.allclose(reward, expected, atol=1e-6)
        assert np.array_equal(problem.state.hp[~active], before[~active])
        assert not (terminated & truncated).any()
        assert np.array_equal(terminated, (problem.state.hp <= 0.0).any(-1))
    assert terminated.any() and truncated.any() and not problem.active.any()
    assert set(np.unique(problem.wins())) <= {0.0, 0.5, 1.0}


def test_problem_refuses_illegal_actions():
    problem = ArenaProblem(named_styles("random"), num_envs=2)
    with pytest.raises(RuntimeError, match="reset"):
        problem.step(np.zeros((1, 2), int))
    problem.reset(0)
    problem.step(np.array([[SPECIAL, WAIT]]))
    with pytest.raises(ValueError, match="special is illegal in fight 0 of task 0"):
        problem.step(np.array([[SPECIAL, WAIT]]))
    with pytest.raises(ValueError, match="shape"):
        problem.step(np.zeros(2, int))


def test_problem_with_the_same_seed_gives_the_same_fights():
    def play_once(seed):
        problem = ArenaProblem(named_styles(), num_envs=4)
        problem.reset(seed)
        for _ in range(15):
            problem.step(np.where(problem.state.staggered[..., BOSS], WAIT, APPROACH))
        return problem.state.x

    assert np.array_equal(play_once(7), play_once(7)) and not np.array_equal(play_once(7), play_once(8))


def test_told_problem_shows_the_style():
    styles = sample_styles("train", 3, 0)
    obs = ArenaProblem(styles, num_envs=2, observe_style=True).reset(0)
    assert obs["task"].shape == (3, 2, len(PARAMETERS))
    assert np.allclose(obs["task"][:, 1], styles.parameters)


def test_styles_choose_legal_actions_and_differ_as_their_names_say():
    near = state(1.0)
    probabilities = {name: action_probabilities(near, np.array(STYLES[name])) for name in STYLES}
    assert probabilities["aggressive"][[ATTACK_HIGH, ATTACK_LOW]].sum() > 0.8
    assert probabilities["turtling"][[BLOCK_HIGH, BLOCK_LOW]].sum() > 0.8
    assert probabilities["cautious"].argmax() == DODGE
    assert probabilities["kiting"].argmax() in (SPECIAL, RETREAT)
    assert np.allclose(probabilities["random"], 1.0 / NUM_ACTIONS)
    staggered = state(1.0, staggered=np.array([False, True]))
    assert action_probabilities(staggered, np.array(STYLES["aggressive"])).tolist() == [1.0] + [0.0] * (NUM_ACTIONS - 1)
    far = action_probabilities(state(6.0, 8.0), np.array(STYLES["aggressive"]))
    assert ACTIONS[far.argmax()] == "approach"


def test_habits_decide_between_high_and_low():
    for sign in (1.0, -1.0):
        parameters = np.array(STYLES["aggressive"])
        parameters[PARAMETERS.index("attack habit")] = sign
        parameters[PARAMETERS.index("block habit")] = -sign
        p = action_probabilities(state(), parameters)
        more, less = (ATTACK_HIGH, ATTACK_LOW) if sign > 0 else (ATTACK_LOW, ATTACK_HIGH)
        assert p[more] / p[less] == pytest.approx(np.exp(2 * parameters[-1]))
        more, less = (BLOCK_LOW, BLOCK_HIGH) if sign > 0 else (BLOCK_HIGH, BLOCK_LOW)
        assert p[more] > p[less]


def habitual(style, sign, habit=1.2):
    parameters = np.array(STYLES[style])
    parameters[[PARAMETERS.index("attack habit"), PARAMETERS.index("block habit")]] = sign * habit
    return parameters


def boss_returns(boss, players, fights=60):
    """Mean return of a boss that is played by a style, against each player."""
    problem = ArenaProblem(PlayerStyles(np.array(players), ("",) * len(players)), fights)
    problem.reset(0)
    generator, total = np.random.default_rng(1), 0.0
    for _ in range(problem.horizon):
        total = total + problem.step(choose(action_probabilities(problem.state, boss, BOSS), generator))[1]
    return total.mean(-1)


def test_knowing_a_habit_decides_the_fight():
    """Adapting must pay: the block that wins against one player loses to his mirror image."""
    players = [habitual("aggressive", 1.0), habitual("aggressive", -1.0)]
    for sign, order in ((1.0, 1), (-1.0, -1)):
        right, wrong = boss_returns(habitual("turtling", sign, 2.4), players)[::order]
        assert right > 8.0 and wrong < -4.0
    assert np.abs(boss_returns(np.array(STYLES["turtling"]), players)).max() < 4.0, "without knowing it, neither"


def test_no_boss_style_is_best_against_every_player():
    players = [habitual(name, 1.0) for name in STYLES]
    table = np.array([boss_returns(habitual(name, 1.0, 2.4), players) for name in STYLES])  # boss × player
    assert len(set(table.argmax(0).tolist())) >= 2, table
    assert table.max(0).mean() > table.mean(1).max() + 2.0, table


def test_splits_are_reproducible_and_blends_lie_in_no_box():
    assert np.array_equal(sample_styles("train", 7, 1).parameters, sample_styles("train", 7, 1).parameters)
    assert not np.array_equal(sample_styles("train", 7, 1).parameters, sample_styles("interpolation", 7, 1).parameters)
    middles, plain = np.array(list(STYLES.values())), SPREAD + 1e-9
    habits = [PARAMETERS.index("attack habit"), PARAMETERS.index("block habit")]
    plain[habits] = np.inf
    inside = sample_styles("train", 500, 0)
    assert (np.abs(inside.parameters[:, None] - middles) <= plain).all(-1).any(1).all()
    assert {inside.names.count(name) for name in STYLES} == {100}
    blends = sample_styles("extrapolation", 3000, 0)
    assert not (np.abs(blends.parameters[:, None] - middles) <= plain).all(-1).any()
    assert all("random" not in name and len(set(name.split("+"))) == 2 for name in blends.names)
    assert (blends.parameters[:, -1] > 0).all()
    for players in (inside, blends):
        sizes = np.abs(players.parameters[:, habits])
        assert sizes.min() >= HABIT[0] and sizes.max() <= HABIT[1]
        assert np.abs(np.sign(players.parameters[:, habits]).mean(0)).max() < 0.15, "high and low are equally frequent"


def test_unknown_styles_and_splits_are_refused():
    with pytest.raises(ValueError, match="choose one of train, interpolation, extrapolation"):
        sample_styles("test", 5, 0)
    with pytest.raises(ValueError, match="choose one of aggressive"):
        named_styles("lazy")
    with pytest.raises(ValueError, match="num_players"):
        sample_styles("train", 0, 0)

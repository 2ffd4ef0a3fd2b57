"""Fights against simulated players in the batched problem protocol (``metapcg.tasks.problem``).

A task is a player's style, hidden from the boss; M players fight E bosses each. So the functions of notebook 1
meta-train a boss on a family of players. This module needs NumPy only; ``modular_mind`` holds the policy that goes
with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapcg.tasks.problem import Clock, Seed, check_count, check_discrete_actions

from .arena import (
    ACTIONS,
    BOSS,
    NUM_ACTIONS,
    RULES,
    ArenaRules,
    ArenaState,
    advance,
    choose,
    draw_luck,
    hold,
    start,
)
from .features import NUM_FEATURES, boss_features, boss_legal
from .player_styles import PlayerStyles, action_probabilities
from .rewards import REWARDS, RewardWeights, step_rewards

Observation = dict[str, NDArray[np.float32]]


class ArenaProblem:
    """M players × E fights in one step.

    Args:
        styles: the M players.
        num_envs: E, fights per player.
        observe_style: add the style's parameters as ``obs["task"]`` (the oracle that is told its task).
        rules, rewards: see ``ArenaRules`` and ``RewardWeights``.

    Attributes:
        horizon: steps of the longest fight.
        state: (M, E) fights.
        observation_size, num_actions: lengths of ``obs["state"]`` and ``obs["legal"]``.

    Observations: ``state`` (M, E, F) float32, ``legal`` (M, E, A) float32 with 1 for a legal action; of a fight that is
    over, the last state with ``wait`` legal among others. A death terminates; the end of the time truncates.
    """

    num_actions = NUM_ACTIONS
    observation_size = NUM_FEATURES

    def __init__(
        self,
        styles: PlayerStyles,
        num_envs: int = 1,
        *,
        observe_style: bool = False,
        rules: ArenaRules = RULES,
        rewards: RewardWeights = REWARDS,
    ) -> None:
        self.styles = styles
        self.num_tasks = len(styles)
        self.num_envs = check_count("num_envs", num_envs)
        self.horizon = rules.max_steps
        self.observe_style = bool(observe_style)
        self.rules, self.rewards = rules, rewards
        self._clock = Clock((self.num_tasks, self.num_envs), self.horizon)
        self._generator: np.random.Generator | None = None
        self.state: ArenaState | None = None

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): still fighting."""
        return self._clock.active

    def reset(self, seed: Seed) -> Observation:
        """Start every fight again; starting positions, players and luck all come from the seed."""
        self._generator = np.random.default_rng(seed)
        self.state = start((self.num_tasks, self.num_envs), self._generator, self.rules)
        self._clock.reset()
        return self._observe()

    def step(self, actions: ArrayLike) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Play one step in every running fight.

        Args:
            actions: (M, E) int, the bosses' actions.

        Returns:
            observation, reward (M, E) float32, terminated and truncated (M, E) bool.

        Raises:
            ValueError: actions of another shape, an unknown one, or one that is illegal in a running fight.
            RuntimeError: no reset before the first step.
        """
        self._clock.check_started()
        shape = (self.num_tasks, self.num_envs)
        bosses = check_discrete_actions(actions, shape, NUM_ACTIONS)
        active = self._clock.active
        legal = np.take_along_axis(boss_legal(self.state), bosses[..., None], axis=-1)[..., 0]
        if not (legal | ~active).all():
            m, e = np.argwhere(~legal & active)[0]
            raise ValueError(f"actions: {ACTIONS[bosses[m, e]]} is illegal in fight {e} of task {m}; see obs['legal']")
        players = choose(action_probabilities(self.state, self.styles.parameters, rules=self.rules), self._generator)
        luck = draw_luck(shape, self._generator, self.rules)
        before = self.state
        self.state = hold(active, advance(before, np.stack([bosses, players], axis=-1), luck, self.rules), before)
        reward = np.where(active, step_rewards(before.hp, self.state.hp, self.rewards), 0.0).astype(np.float32)
        terminated, truncated = self._clock.tick((self.state.hp <= 0.0).any(-1))
        return self._observe(), reward, terminated, truncated

    def wins(self) -> NDArray[np.float64]:
        """(M, E): 1 where the player has died and the boss has not, 0 where the boss has died, 1/2 for a draw."""
        dead = self.state.hp <= 0.0
        return 0.5 + 0.5 * (dead[..., 1 - BOSS].astype(float) - dead[..., BOSS])

    def _observe(self) -> Observation:
        observation = {
            "state": boss_features(self.state, self.rules).astype(np.float32),
            "legal": boss_legal(self.state).astype(np.float32),
        }
        if self.observe_style:
            parameters = self.styles.parameters[:, None].astype(np.float32)
            observation["task"] = np.broadcast_to(parameters, (self.num_tasks, self.num_envs, parameters.shape[-1]))
        return observation

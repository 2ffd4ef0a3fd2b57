"""Random tabular MDPs (Duan et al. 2016, "RL²", section 3.2 and table 2).

A task is an MDP of ten states and five actions: mean rewards from N(1, 1), rewards from N(mean, 1), transitions from a
flat Dirichlet distribution. An episode starts in state 0 and has ten steps; a trial is n episodes in one MDP. A random
policy earns 10 per episode; the optimal policy of a known MDP, by value iteration, about 21.9 on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapcg.tasks.problem import Clock, Seed, check_count, check_discrete_actions, next_generator

__all__ = ["TabularMDPs", "TabularProblem", "TransitionProblem", "optimal_values", "oracle_actions", "sample_mdps"]


class TabularMDPs(NamedTuple):
    """M tasks.

    Attributes:
        mean_rewards: (M, S, A).
        transitions: (M, S, A, S), probability of the next state.
    """

    mean_rewards: NDArray[np.float64]
    transitions: NDArray[np.float64]


def sample_mdps(num_tasks: int, seed: Seed, num_states: int = 10, num_actions: int = 5) -> TabularMDPs:
    """Draw MDPs as the paper does; the same seed gives the same ones."""
    shape = (
        check_count("num_tasks", num_tasks),
        check_count("num_states", num_states),
        check_count("num_actions", num_actions),
    )
    rng = np.random.default_rng(seed)
    return TabularMDPs(rng.normal(1.0, 1.0, shape), rng.dirichlet(np.ones(num_states), size=shape))


class TabularProblem:
    """M MDPs × E environments; the batched problem protocol of :mod:`metapcg.tasks.problem`.

    The horizon belongs to the problem: its end terminates.

    Args:
        mdps: the tasks.
        num_envs: E, environments per MDP.
        horizon: steps per episode.

    Attributes:
        num_actions: A.
        observation_size: S; an observation is the state, one-hot.
        states: (M, E) int64.

    Raises:
        ValueError: naming the setting that is wrong.
    """

    def __init__(self, mdps: TabularMDPs, num_envs: int = 1, *, horizon: int = 10) -> None:
        self.mdps = TabularMDPs(*(np.asarray(table, dtype=np.float64) for table in mdps))
        rewards, transitions = self.mdps
        if rewards.ndim != 3 or 0 in rewards.shape or not np.isfinite(rewards).all():
            raise ValueError(
                f"mean_rewards: need finite numbers of shape (tasks, states, actions), got {rewards.shape}"
            )
        shape = (*rewards.shape, rewards.shape[1])
        if transitions.shape != shape:
            raise ValueError(f"transitions: need shape {shape} to fit the rewards, got {transitions.shape}")
        if not ((transitions >= 0).all() and np.allclose(transitions.sum(-1), 1.0)):
            raise ValueError("transitions: need probabilities that sum to 1 over the last axis")
        self.num_tasks, self.observation_size, self.num_actions = rewards.shape
        self.num_envs = check_count("num_envs", num_envs)
        self.horizon = check_count("horizon", horizon)
        self.states = np.zeros((self.num_tasks, self.num_envs), dtype=np.int64)
        self._cumulative = np.cumsum(transitions, axis=-1)
        self._cumulative[..., -1] = 1.0  # rounding must not leave a gap at the top
        self._task = np.arange(self.num_tasks)[:, None]
        self._clock = Clock(self.states.shape, self.horizon, final=True)
        self._rng: np.random.Generator | None = None

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): still running."""
        return self._clock.active

    @property
    def time(self) -> int:
        """Steps taken in this episode."""
        return self._clock.steps

    def reset(self, seed: Seed | None = None) -> NDArray[np.float32]:
        """Start an episode in state 0; observations (M, E, S). ``None`` goes on with the last reset's random stream."""
        self._rng = next_generator(self._rng, seed)
        self.states[:] = 0
        self._clock.reset()
        return self._observe()

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Take one action each.

        Args:
            actions: (M, E) integers in 0 … A-1.

        Returns:
            observations (M, E, S), reward (M, E) float32, terminated and truncated (M, E) bool.

        Raises:
            ValueError: actions of another shape or type, or an action that is not there.
            RuntimeError: no reset before the first step.
        """
        self._clock.check_started()
        actions = check_discrete_actions(actions, self.states.shape, self.num_actions)
        active = self._clock.active
        reward = self.mdps.mean_rewards[self._task, self.states, actions] + self._rng.standard_normal(actions.shape)
        draws = self._rng.random(actions.shape)[..., None]
        following = (draws >= self._cumulative[self._task, self.states, actions]).sum(-1)
        self.states = np.where(active, following, self.states)
        terminated, truncated = self._clock.tick()
        return self._observe(), np.where(active, reward, 0.0).astype(np.float32), terminated, truncated

    def _observe(self) -> NDArray[np.float32]:
        return np.eye(self.observation_size, dtype=np.float32)[self.states]


class TransitionProblem(TabularProblem):
    """The same MDPs, observed with the transition that led here: the φ(s, a, r, d) of Duan et al. (2016, section 2.2).

    What there is to remember is a table, so the last step is shown as an entry of that table. An observation has
    S + 2·S·A numbers: the state, one-hot; the pair of state and action of the step before, one-hot; the same with the
    step's reward in place of the 1, less its mean over all MDPs and divided by its standard deviation over them (1 and
    √2 for ``sample_mdps``). The last two are zero before the first step. An episode's end does not hide the step that
    ended it; a new problem starts without one.

    Arguments and attributes as for ``TabularProblem``.
    """

    def __init__(self, mdps: TabularMDPs, num_envs: int = 1, *, horizon: int = 10) -> None:
        super().__init__(mdps, num_envs, horizon=horizon)
        self._table = self.observation_size * self.num_actions
        self._last = np.zeros((*self.states.shape, 2 * self._table), dtype=np.float32)
        self.observation_size += 2 * self._table

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Take one action each; as for ``TabularProblem``, with longer observations."""
        before, active = self.states, self.active
        _, reward, terminated, truncated = super().step(actions)
        entry = before * self.num_actions + np.asarray(actions)
        last = np.zeros_like(self._last)
        np.put_along_axis(last, entry[..., None], 1.0, -1)
        np.put_along_axis(last, self._table + entry[..., None], ((reward - 1.0) / np.sqrt(2.0))[..., None], -1)
        self._last = np.where(active[..., None], last, self._last)
        return self._observe(), reward, terminated, truncated

    def _observe(self) -> NDArray[np.float32]:
        states = np.eye(self.mdps.mean_rewards.shape[1], dtype=np.float32)[self.states]
        return np.concatenate([states, self._last], -1)


def optimal_values(mdps: TabularMDPs, horizon: int = 10) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Value iteration backwards from the horizon (Sutton and Barto 2018, equation 4.10, undiscounted).

    Returns:
        values (M, H, S): most that can be expected from step t on in state s; ``values[:, 0, 0]`` is what the oracle
        earns in an episode.
        actions (M, H, S): an action that reaches it.
    """
    check_count("horizon", horizon)
    rewards, transitions = mdps
    num_tasks, num_states, _ = rewards.shape
    values = np.zeros((num_tasks, horizon, num_states))
    actions = np.zeros((num_tasks, horizon, num_states), dtype=np.int64)
    following = np.zeros((num_tasks, num_states))
    for t in reversed(range(horizon)):
        returns = rewards + np.einsum("msan,mn->msa", transitions, following)
        actions[:, t] = returns.argmax(-1)
        values[:, t] = following = returns.max(-1)
    return values, actions


def oracle_actions(problem: TabularProblem, plan: NDArray[np.int64]) -> NDArray[np.int64]:
    """The actions of a plan of :func:`optimal_values` in the problem's present states, (M, E)."""
    return np.take_along_axis(plan[:, problem.time], problem.states, axis=1)

"""Bernoulli bandits (Duan et al. 2016, "RL²", section 3.1 and table 1).

A task is k arms with success probabilities drawn from U[0, 1] and fixed for a trial of n pulls. What a learner can
reach at most is known exactly: :func:`bayes_optimum` computes the expected total reward of the best policy by dynamic
programming. A mean significantly above it is a leak or a fault.

Besides, agents to compare with: random, greedy, UCB1 and Thompson sampling, all on the posterior that U[0, 1] implies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapcg.tasks.problem import Clock, Seed, check_count, check_discrete_actions, next_generator

__all__ = [
    "AGENTS",
    "Agent",
    "BernoulliBandits",
    "bayes_optimum",
    "greedy",
    "play",
    "random_arm",
    "sample_bandits",
    "thompson",
    "ucb1",
]


def sample_bandits(num_tasks: int, num_arms: int, seed: Seed) -> NDArray[np.float64]:
    """Success probabilities p ~ U[0, 1], (num_tasks, num_arms). The same seed gives the same bandits."""
    shape = check_count("num_tasks", num_tasks), check_count("num_arms", num_arms)
    return np.random.default_rng(seed).random(shape)


class BernoulliBandits:
    """M bandits × E independent runs; the batched problem protocol of :mod:`metapcg.tasks.problem`.

    A trial of n pulls is one episode of n steps (``horizon=n``), or n episodes of one step each (``horizon=1`` and n
    calls of ``reset``). The number of pulls belongs to the problem, nothing is cut short: the last one terminates.

    Args:
        probabilities: (M, k) in [0, 1].
        num_envs: E, runs per bandit.
        horizon: pulls per episode.

    Attributes:
        num_actions: k.
        observation_size: 1; a bandit shows nothing, so every observation is 0.

    Raises:
        ValueError: naming the setting that is wrong.
    """

    observation_size = 1

    def __init__(self, probabilities: ArrayLike, num_envs: int = 1, *, horizon: int = 1) -> None:
        self.probabilities = np.asarray(probabilities, dtype=np.float64)
        if self.probabilities.ndim != 2 or 0 in self.probabilities.shape:
            raise ValueError(f"probabilities: need shape (tasks, arms), got {self.probabilities.shape}")
        if not ((self.probabilities >= 0) & (self.probabilities <= 1)).all():
            raise ValueError("probabilities: need to lie in [0, 1]")
        self.num_tasks, self.num_actions = self.probabilities.shape
        self.num_envs = check_count("num_envs", num_envs)
        self.horizon = check_count("horizon", horizon)
        self._clock = Clock((self.num_tasks, self.num_envs), self.horizon, final=True)
        self._rng: np.random.Generator | None = None

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): still running."""
        return self._clock.active

    def reset(self, seed: Seed | None = None) -> NDArray[np.float32]:
        """Start an episode; observations (M, E, 1). ``None`` goes on with the random stream of the last reset."""
        self._rng = next_generator(self._rng, seed)
        self._clock.reset()
        return self._observe()

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Pull one arm each.

        Args:
            actions: (M, E) integers in 0 … k-1.

        Returns:
            observations (M, E, 1), reward 0 or 1 (M, E) float32, terminated and truncated (M, E) bool.

        Raises:
            ValueError: actions of another shape or type, or an arm that is not there.
            RuntimeError: no reset before the first step.
        """
        self._clock.check_started()
        actions = check_discrete_actions(actions, (self.num_tasks, self.num_envs), self.num_actions)
        chances = np.take_along_axis(self.probabilities, actions, axis=1)
        reward = (self._rng.random(actions.shape) < chances) & self._clock.active
        terminated, truncated = self._clock.tick()
        return self._observe(), reward.astype(np.float32), terminated, truncated

    def _observe(self) -> NDArray[np.float32]:
        return np.zeros((self.num_tasks, self.num_envs, 1), dtype=np.float32)


# -------------------------------------------------------------------------------------------------------------- agents

Agent = Callable[[NDArray[np.int64], NDArray[np.int64], np.random.Generator], NDArray[np.int64]]
"""(successes, failures, rng) -> arms; counts have shape (..., k), arms shape (...)."""


def random_arm(successes: NDArray, failures: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """Any arm."""
    return rng.integers(successes.shape[-1], size=successes.shape[:-1])


def greedy(successes: NDArray, failures: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """The arm of largest posterior mean, among equals any. Taking the first instead costs 0.05 at n = 10, k = 5."""
    return _argmax((successes + 1) / (successes + failures + 2), rng)


def _argmax(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Position of the largest value along the last axis, ties broken at random."""
    largest = values == values.max(axis=-1, keepdims=True)
    return np.where(largest, rng.random(values.shape), -1.0).argmax(axis=-1)


def ucb1(
    successes: NDArray, failures: NDArray, rng: np.random.Generator, exploration: float = 0.2
) -> NDArray[np.int64]:
    """Largest upper confidence bound (Auer et al. 2002) on the posterior: mean + c sqrt(2 ln t / pulls).

    Pulls and t count the two that the prior Beta(1, 1) is worth. c = 0.2 is small because n is: the textbook's c = 1 is
    made for regret at large n. Ties are broken at random.
    """
    pulls = successes + failures + 2
    total = pulls.sum(axis=-1, keepdims=True)
    bound = (successes + 1) / pulls + exploration * np.sqrt(2 * np.log(total) / pulls)
    return _argmax(bound, rng)


def thompson(successes: NDArray, failures: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """The arm whose sample from the posterior Beta(successes + 1, failures + 1) is largest."""
    return rng.beta(successes + 1, failures + 1).argmax(axis=-1)


AGENTS: dict[str, Agent] = {"random": random_arm, "greedy": greedy, "ucb1": ucb1, "thompson": thompson}


def play(agent: Agent, probabilities: NDArray[np.float64], pulls: int, seed: Seed, num_envs: int = 1) -> NDArray:
    """Total reward of an agent over one trial in each environment, (M, E) float64.

    Args:
        agent: one of :data:`AGENTS`' values, or anything of that form.
        probabilities: (M, k), one bandit per row.
        pulls: n.
        seed: of the rewards and of the agent.
        num_envs: E, trials per bandit.
    """
    problem = BernoulliBandits(probabilities, num_envs, horizon=check_count("pulls", pulls))
    rng = np.random.default_rng(seed)
    problem.reset(int(rng.integers(2**63)))
    successes = np.zeros((problem.num_tasks, num_envs, problem.num_actions), dtype=np.int64)
    failures = np.zeros_like(successes)
    for _ in range(pulls):
        arms = agent(successes, failures, rng)
        won = problem.step(arms)[1].astype(np.int64)[..., None]
        chosen = arms[..., None] == np.arange(problem.num_actions)
        successes += chosen * won
        failures += chosen * (1 - won)
    return successes.sum(axis=-1).astype(np.float64)


# ------------------------------------------------------------------------------------------------------------- optimum


def bayes_optimum(pulls: int, num_arms: int, max_states: int = 5_000_000) -> float:
    """Expected total reward of the best possible policy when every arm is p ~ U[0, 1].

    Dynamic programming over what matters of a history: the sorted (successes, failures) of the arms pulled so far. Arms
    are exchangeable, so their order does not matter, and those not yet pulled are all alike. An arm with s successes
    and f failures wins with probability (s + 1) / (s + f + 2).

    Args:
        pulls: n.
        num_arms: k.
        max_states: give up beyond so many histories (each takes about 300 bytes).

    Raises:
        ValueError: n or k below 1, or more histories than ``max_states``.
    """
    check_count("pulls", pulls)
    check_count("num_arms", num_arms)
    layers = [{()}]
    states = 1
    for _ in range(pulls - 1):
        following = {after for arms in layers[-1] for _, outcomes in _choices(arms, num_arms) for after in outcomes}
        states += len(following)
        if states > max_states:
            raise ValueError(
                f"max_states: {pulls} pulls of {num_arms} arms have more than {max_states} histories; "
                "take fewer pulls or arms"
            )
        layers.append(following)
    # Backwards: values[arms] is the best expected reward of the pulls that are left after that history.
    values: dict[tuple, float] | None = None
    for layer in reversed(layers):
        values = {
            arms: max(
                chance if values is None else chance * (1 + values[won]) + (1 - chance) * values[lost]
                for chance, (won, lost) in _choices(arms, num_arms)
            )
            for arms in layer
        }
    return values[()]


_Arms = tuple[tuple[int, int], ...]


def _choices(arms: _Arms, num_arms: int) -> list[tuple[float, tuple[_Arms, _Arms]]]:
    """For each different arm: its chance to win, and the histories after a win and after a loss."""
    different = list(dict.fromkeys(arms))
    if len(arms) < num_arms:
        different.append((0, 0))
    choices = []
    for arm in different:
        wins, losses = arm
        rest = list(arms)
        if wins + losses:
            rest.remove(arm)
        won, lost = tuple(sorted([*rest, (wins + 1, losses)])), tuple(sorted([*rest, (wins, losses + 1)]))
        choices.append(((wins + 1) / (wins + losses + 2), (won, lost)))
    return choices

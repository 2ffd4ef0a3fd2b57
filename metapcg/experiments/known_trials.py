"""RL² on problems whose best or published results are known: Bernoulli bandits and tabular MDPs (Duan et al. 2016).

A trial on a bandit is n pulls, each an episode of one step; on a tabular MDP it is n episodes of ten steps. In both the
end of the trial is the end of the task, so nothing is bootstrapped there.

``PUBLISHED_BANDITS`` and ``PUBLISHED_MDPS`` hold the paper's tables 1 and 2. For bandits the ceiling is exact
(``metapcg.tasks.bandit.bayes_optimum``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metapcg.learning.policies import Params
from metapcg.learning.recurrent_policies import RecurrentPolicy, TabularRecurrentPolicy
from metapcg.learning.recurrent_training import RecurrentSettings, train_recurrent, trial_returns
from metapcg.tasks.bandit import AGENTS, BernoulliBandits, play, sample_bandits
from metapcg.tasks.tabular_mdp import TabularProblem, TransitionProblem, optimal_values, sample_mdps

PUBLISHED_BANDITS: dict[tuple[int, int], dict[str, float]] = {
    (10, 5): {"random": 5.0, "thompson": 5.7, "greedy": 6.6, "ucb1": 6.7, "rl2": 6.7},
    (10, 10): {"random": 5.0, "thompson": 5.5, "greedy": 6.6, "ucb1": 6.7, "rl2": 6.7},
    (100, 5): {"random": 49.9, "thompson": 74.7, "greedy": 74.8, "ucb1": 78.0, "rl2": 78.7},
}
"""(pulls n, arms k) → agent → mean total reward."""

PUBLISHED_MDPS: dict[int, dict[str, float]] = {
    10: {"random": 100.1, "psrl": 138.1, "greedy": 134.8, "ucrl2": 146.6, "rl2": 156.2},
    25: {"random": 250.2, "psrl": 408.8, "greedy": 368.8, "ucrl2": 424.1, "rl2": 445.7},
}
"""Episodes n → agent → mean total reward."""


@dataclass(frozen=True)
class TrialBudget:
    """How much is trained and tested.

    Attributes:
        settings: of the training loop.
        trials: tasks per batch, one trial each.
        memory: size of the hidden state.
        test_tasks: new tasks that the result is measured on.
    """

    settings: RecurrentSettings
    trials: int
    memory: int = 64
    test_tasks: int = 4000


_SHORT = RecurrentSettings(
    iterations=60, gamma=1.0, lam=0.3, bootstrap=False, lr=1e-2, epochs=4, minibatches=4, entropy_weight=0.0
)

# Over a hundred pulls it pays to explore, and a pull's worth shows late.
_HUNDRED = RecurrentSettings(
    iterations=120, gamma=0.95, lam=0.9, bootstrap=False, lr=6e-3, epochs=3, minibatches=4, entropy_weight=0.01,
    max_gradient_norm=0.5, reward_spread=1.0,
)  # fmt: skip

BANDITS: dict[str, dict[tuple[int, int], TrialBudget]] = {
    "smoke": {(10, 5): TrialBudget(dataclasses.replace(_SHORT, iterations=2), 50, test_tasks=200)},
    "quick": {(10, 5): TrialBudget(_SHORT, 1000), (10, 10): TrialBudget(_SHORT, 1000)},
    "full": {
        (10, 5): TrialBudget(dataclasses.replace(_SHORT, iterations=200), 1000, test_tasks=20000),
        (10, 10): TrialBudget(dataclasses.replace(_SHORT, iterations=200), 1000, test_tasks=20000),
        (100, 5): TrialBudget(_HUNDRED, 500),
    },
}
"""Profile → (n, k) → budget."""

_LONG = RecurrentSettings(
    iterations=300, gamma=0.9, lam=0.9, bootstrap=False, lr=4e-3, epochs=4, minibatches=4, entropy_weight=0.01,
    max_gradient_norm=0.5, reward_spread=0.7,
)  # fmt: skip

MDPS: dict[str, dict[int, TrialBudget]] = {
    "smoke": {10: TrialBudget(dataclasses.replace(_LONG, iterations=1), 20, test_tasks=100)},
    "quick": {},
    "full": {10: TrialBudget(_LONG, 500, memory=128)},
}
"""Profile → n → budget."""


@dataclass(frozen=True)
class TrialResult:
    """What a trained agent does on new tasks.

    Attributes:
        returns: (tasks, episodes), reward of each episode.
        reset: the same agent on the same tasks when its memory is cleared at every episode's start.
        history: training metrics, one row per iteration.
        params: final parameters.
    """

    returns: np.ndarray
    reset: np.ndarray
    history: list[dict[str, float]]
    params: Params

    @property
    def total(self) -> float:
        """Mean total reward of a trial."""
        return float(self.returns.sum(1).mean())

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of ``total`` over tasks."""
        return half_width(self.returns.sum(1))


def half_width(totals: np.ndarray) -> float:
    """Half of the 95 % interval of a mean over tasks."""
    return float(1.96 * totals.std(ddof=1) / np.sqrt(len(totals)))


def run_bandits(
    functions: Any,
    pulls: int,
    arms: int,
    budget: TrialBudget,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
) -> TrialResult:
    """Train RL² on random bandits and test it on new ones.

    Args:
        functions: has the functions named in ``recurrent_training.FUNCTIONS``.
        pulls, arms: n and k.
        budget: see ``BANDITS``.
        seed: of everything; test tasks come from a stream that training never sees.
    """
    return _run(
        functions, RecurrentPolicy(1, arms, budget.memory), pulls, budget, seed, device, on_iteration,
        lambda count, s: BernoulliBandits(sample_bandits(count, arms, s)),
    )  # fmt: skip


MDP_INPUTS: dict[str, tuple[Callable[[int], Any], type[TabularProblem]]] = {
    "table": (lambda memory: TabularRecurrentPolicy(10, 110, 5, memory), TransitionProblem),
    "transitions": (lambda memory: RecurrentPolicy(110, 5, memory), TransitionProblem),
    "plain": (lambda memory: RecurrentPolicy(10, 5, memory), TabularProblem),
}
"""What the network sees and how it is read → (memory → policy, problem). ``table`` is the usual one: the last step is
shown as an entry of a table, and weights of its own for every state. The others are there to be measured beside it:
``transitions`` sees the same and is read like a bandit's memory, ``plain`` sees the state alone."""


def run_mdps(
    functions: Any,
    episodes: int,
    budget: TrialBudget,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
    inputs: str = "table",
) -> TrialResult:
    """Train RL² on random tabular MDPs and test it on new ones.

    Args:
        functions, budget, seed: as for ``run_bandits``.
        episodes: n, per trial.
        inputs: see ``MDP_INPUTS``.

    Raises:
        ValueError: unknown inputs.
    """
    if inputs not in MDP_INPUTS:
        raise ValueError(f"inputs: need one of {', '.join(MDP_INPUTS)}, got {inputs!r}")
    make_policy, problem = MDP_INPUTS[inputs]
    return _run(
        functions, make_policy(budget.memory), episodes, budget, seed, device, on_iteration,
        lambda count, s: problem(sample_mdps(count, s)),
    )  # fmt: skip


_TEST_TASKS, _TEST_EPISODES = 1, 2  # spawn keys; training uses the seed itself


def _run(functions, policy, episodes, budget, seed, device, on_iteration, make) -> TrialResult:
    settings = dataclasses.replace(budget.settings, trial_episodes=episodes)
    trained = train_recurrent(
        functions, policy, lambda s: make(budget.trials, s), settings, seed, device, on_iteration
    )  # fmt: skip
    tasks, plays = (np.random.SeedSequence(seed, spawn_key=(2001, key)) for key in (_TEST_TASKS, _TEST_EPISODES))
    returns, reset = (
        trial_returns(
            functions, policy, trained.params, make(budget.test_tasks, tasks), episodes, plays, device,
            reset_between_episodes=reset,
        )[:, 0]
        for reset in (False, True)
    )  # fmt: skip
    return TrialResult(returns, reset, trained.history, trained.params)


def bandit_baselines(pulls: int, arms: int, tasks: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Agent → total reward on each of ``tasks`` random bandits, (tasks,)."""
    probabilities = sample_bandits(tasks, arms, np.random.SeedSequence(seed, spawn_key=(2002,)))
    return {name: play(agent, probabilities, pulls, seed)[:, 0] for name, agent in AGENTS.items()}


def mdp_baselines(episodes: int, tasks: int, seed: int = 0, horizon: int = 10) -> dict[str, np.ndarray]:
    """Expected total reward on each of ``tasks`` random MDPs, (tasks,): ``random`` and ``oracle``, both exact.

    The oracle knows its MDP from the start (value iteration); nobody who has to find it out reaches it.
    """
    mdps = sample_mdps(tasks, np.random.SeedSequence(seed, spawn_key=(2002,)))
    following = np.zeros(mdps.mean_rewards.shape[:2])
    for _ in range(horizon):
        following = (mdps.mean_rewards + np.einsum("msan,mn->msa", mdps.transitions, following)).mean(-1)
    oracle = optimal_values(mdps, horizon)[0][:, 0, 0]
    return {"random": episodes * following[:, 0], "oracle": episodes * oracle}

"""Two-dimensional navigation (Finn et al. 2017, "Model-Agnostic Meta-Learning", section 5.3 and figure 4).

A point starts at the origin and must go to a goal that it does not observe; the goal is the task. The authors' released
code (github.com/cbfinn/maml_rl, ``maml_examples/point_env_randgoal.py``) and the paper's text differ; by default this
follows the code, which produced the figure:

===============  =============================================  ==================================
matter           code (default here)                            paper's text
===============  =============================================  ==================================
reward           minus the distance, after the move             minus the *squared* distance
action           clipped to ±0.1 in each coordinate             the same
end              within 0.01 of the goal in both coordinates    within 0.01 of the goal
horizon          100                                            100
goals            uniform on [-0.5, 0.5]²                        the same
policy's units   a policy's 1.0 is a move of 0.1                not said
===============  =============================================  ==================================

The last row comes from the wrapper ``normalize`` around the code's environment, and it matters: their policy's initial
standard deviation of 1 and their inner step size of 0.5 are in those units. ``action_scale=0.1`` gives them;
the default of 1.0 takes actions as moves.

Known values over :func:`test_goals`, undiscounted: standing still -40.08, straight to the goal without noise -0.54.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapcg.tasks.problem import Clock, Seed, check_actions, check_count

__all__ = ["MAX_MOVE", "Navigation", "greedy_actions", "sample_goals", "test_goals"]

MAX_MOVE = 0.1
GOAL_TOLERANCE = 0.01
REWARDS = ("distance", "squared", "sparse")


def test_goals() -> NDArray[np.float64]:
    """The authors' forty test goals, (40, 2), as ``maml_examples/test_maml_point.py`` draws them."""
    return np.random.RandomState(1).uniform(-0.5, 0.5, (40, 2))  # NumPy's legacy generator: the published goals need it


# pytest collects imported functions named test_*; this one is data.
test_goals.__test__ = False  # type: ignore[attr-defined]


def sample_goals(num_tasks: int, seed: Seed) -> NDArray[np.float64]:
    """Training goals uniform on [-0.5, 0.5]², (num_tasks, 2). The same seed gives the same goals."""
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (check_count("num_tasks", num_tasks), 2))


class Navigation:
    """M goals × E points in one step; the batched problem protocol of :mod:`metapcg.tasks.problem`.

    Args:
        goals: (M, 2), finite.
        num_envs: E, points per goal.
        horizon: steps per episode.
        reward: "distance": minus the Euclidean distance after the move; "squared": minus its square; "sparse": 1 minus
            the distance within ``goal_radius`` and 0 outside (Rakelly et al. 2019, "PEARL", section 6.3).
        action_scale: a move is action × action_scale, clipped to ±0.1 in each coordinate.
        stop_at_goal: end an episode within 0.01 of the goal in both coordinates. None: as the authors do, but not for
            the sparse reward, which is positive, so that an end at the goal would be a punishment.
        observe_goal: append the goal to the observation (the oracle that is told its task).
        goal_radius: of the sparse reward.

    Attributes:
        observation_size: 2, or 4 with the goal.
        action_size: 2.
        positions: (M, E, 2) float32.

    Raises:
        ValueError: naming the setting that is wrong.
    """

    action_size = 2

    def __init__(
        self,
        goals: ArrayLike,
        num_envs: int = 1,
        *,
        horizon: int = 100,
        reward: str = "distance",
        action_scale: float = 1.0,
        stop_at_goal: bool | None = None,
        observe_goal: bool = False,
        goal_radius: float = 0.2,
    ) -> None:
        self.goals = np.asarray(goals, dtype=np.float32)
        if self.goals.ndim != 2 or self.goals.shape[1] != 2 or len(self.goals) == 0:
            raise ValueError(f"goals: need shape (num_tasks, 2) with at least one task, got {self.goals.shape}")
        if not np.isfinite(self.goals).all():
            raise ValueError("goals: need to be finite")
        if reward not in REWARDS:
            raise ValueError(f"reward: choose one of {', '.join(REWARDS)}, got {reward!r}")
        for name, value in (("action_scale", action_scale), ("goal_radius", goal_radius)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name}: needs a positive finite number, got {value!r}")
        self.num_tasks = len(self.goals)
        self.num_envs = check_count("num_envs", num_envs)
        self.horizon = check_count("horizon", horizon)
        self.reward = reward
        self.action_scale = np.float32(action_scale)
        self.stop_at_goal = reward != "sparse" if stop_at_goal is None else bool(stop_at_goal)
        self.observe_goal = bool(observe_goal)
        self.goal_radius = np.float32(goal_radius)
        self.observation_size = 4 if observe_goal else 2
        self.positions = np.zeros((self.num_tasks, self.num_envs, 2), dtype=np.float32)
        self._clock = Clock((self.num_tasks, self.num_envs), self.horizon)

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): still running."""
        return self._clock.active

    def reset(self, seed: Seed | None = None) -> NDArray[np.float32]:
        """Put every point at the origin and return the observations, (M, E, observation_size).

        The problem itself is deterministic; ``seed`` is taken because every problem takes one, and is not used.
        """
        self.positions[:] = 0.0
        self._clock.reset()
        return self._observe()

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Move every running point.

        Args:
            actions: (M, E, 2) floats, in units of ``action_scale``.

        Returns:
            observations (M, E, observation_size), reward (M, E) float32, terminated and truncated (M, E) bool.

        Raises:
            ValueError: actions of another shape, or NaN or infinity among them.
            RuntimeError: no reset before the first step.
        """
        self._clock.check_started()
        actions = check_actions(actions, self.positions.shape)
        active = self._clock.active
        moves = np.clip(actions * self.action_scale, -MAX_MOVE, MAX_MOVE)
        self.positions += np.where(active[..., None], moves, np.float32(0.0))
        offsets = self.positions - self.goals[:, None]
        distances = np.sqrt((offsets**2).sum(-1))
        if self.reward == "distance":
            reward = -distances
        elif self.reward == "squared":
            reward = -(distances**2)
        else:
            reward = np.where(distances <= self.goal_radius, 1.0 - distances, 0.0)
        reached = (np.abs(offsets) < GOAL_TOLERANCE).all(-1) if self.stop_at_goal else None
        terminated, truncated = self._clock.tick(reached)
        return self._observe(), np.where(active, reward, 0.0).astype(np.float32), terminated, truncated

    def _observe(self) -> NDArray[np.float32]:
        if not self.observe_goal:
            return self.positions.copy()
        goals = np.broadcast_to(self.goals[:, None], self.positions.shape)
        return np.concatenate([self.positions, goals], axis=-1)


def greedy_actions(problem: Navigation) -> NDArray[np.float32]:
    """The noise-free optimum: the move that goes straight for the hidden goal, (M, E, 2), in the problem's units."""
    return np.clip(problem.goals[:, None] - problem.positions, -MAX_MOVE, MAX_MOVE) / problem.action_scale

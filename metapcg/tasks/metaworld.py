"""ML1 *reach* of Meta-World as a batched problem (Yu et al. 2020, "Meta-World", CoRL; version 3 of its environments).

A simulated Sawyer arm must bring its gripper to a place that it does not observe; the place is the task. The benchmark
draws fifty goals for meta-training and fifty others for testing. Needs the optional extra ``metaworld`` (MuJoCo).

============  =========================================================================================================
observation   39 numbers: gripper's position (3, metres) and opening, puck's position (3) and orientation (4), zeros;
              the same 18 numbers of the step before; and the goal's three places, which ML1 fills with zeros
action        4 numbers, clipped to ±1: shift of the gripper's set point in units of 1 cm (3), and closing force
reward        0 … 10 per step, 10 within 5 cm of the goal (version 2 of the reward)
success       within 5 cm of the goal in at least one step of the episode, as the benchmark's own evaluation counts
horizon       ours: Meta-World's episodes have 500 steps, most of which the gripper would spend at its goal
============  =========================================================================================================

Two things to know before results are believed. Every task also fixes where a puck lies that reach does not use, and
the puck *is* observed: a network can learn the fifty training goals by heart from it, so only test tasks tell anything.
And the test goals of seed s are the training goals of seed s + 1 (the benchmark seeds them so): runs with neighbouring
seeds must not share tasks.

One simulator serves all M × E environments: the physics' state is put in before a step and taken out after it. The
numbers are, bit for bit, those of M × E environments of Meta-World's own (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapcg.tasks.problem import Clock, Seed, check_actions, check_count

__all__ = ["MAX_HORIZON", "NUM_GOALS", "Reach", "ReachBenchmark", "ReachTasks", "greedy_actions"]

MAX_HORIZON = 500
"""Steps after which Meta-World's own environments end."""

NUM_GOALS = 50
"""Goals of each split."""

_NAME = "reach-v3"


@dataclass(frozen=True)
class ReachTasks:
    """Tasks of one split.

    Attributes:
        split: "train" or "test".
        indices: (M,), their numbers in the split.
        goals: (M, 3), metres.
    """

    split: str
    indices: NDArray[np.int64]
    goals: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: slice | ArrayLike) -> ReachTasks:
        """The tasks of a slice or of an array of numbers."""
        index = index if isinstance(index, slice) else np.atleast_1d(index)
        return ReachTasks(self.split, self.indices[index], self.goals[index])


class _Start(NamedTuple):
    physics: NDArray[np.float64]
    previous: NDArray[np.float64]
    observation: NDArray[np.float64]


class ReachBenchmark:
    """The tasks of ML1 reach, and the simulator that its problems share.

    Args:
        seed: of the goals, at least 0; the same seed gives the same tasks. NumPy's global generator, from which the
            benchmark draws them, is left as it was.

    Attributes:
        train, test: fifty tasks each.

    Raises:
        ValueError: a seed that is no whole number of at least 0.
        ImportError: Meta-World is not installed; the message says how to install it.
    """

    def __init__(self, seed: int = 0) -> None:
        check_count("seed", seed, 0)
        try:
            import metaworld
            import mujoco
        except ImportError as error:
            raise ImportError(
                f"Meta-World cannot be imported ({error}); it is an extra: pip install -e '.[metaworld]'"
            ) from error
        self._mujoco = mujoco
        benchmark = metaworld.ML1(_NAME, seed=int(seed))  # puts NumPy's global generator back itself (tested)
        self._tasks = {"train": benchmark.train_tasks, "test": benchmark.test_tasks}
        self._simulator = benchmark.train_classes[_NAME]()
        self._state_size = mujoco.mj_stateSize(self._simulator.model, self._all_of_it)
        self._starts: dict[tuple[str, int], _Start] = {}
        self.train, self.test = self._split("train"), self._split("test")

    @property
    def _all_of_it(self) -> int:
        # Everything that the next step depends on, the solver's warm start and the set point of the gripper included.
        return int(self._mujoco.mjtState.mjSTATE_INTEGRATION)

    def _split(self, split: str) -> ReachTasks:
        goals = []
        for task in self._tasks[split]:
            self._simulator.set_task(task)
            goals.append(self._simulator._last_rand_vec[3:])
        return ReachTasks(split, np.arange(len(goals)), np.array(goals))

    def _physics(self) -> NDArray[np.float64]:
        state = np.empty(self._state_size)
        self._mujoco.mj_getState(self._simulator.model, self._simulator.data, state, self._all_of_it)
        return state

    def start(self, split: str, index: int) -> _Start:
        """Where an episode of a task begins. Meta-World settles the arm for a hundred steps; that is done once."""
        key = (split, int(index))
        if key not in self._starts:
            self._simulator.set_task(self._tasks[split][index])
            observation, _ = self._simulator.reset()
            self._starts[key] = _Start(self._physics(), self._simulator._prev_obs.copy(), observation)
        return self._starts[key]

    def advance(
        self,
        physics: NDArray[np.float64],
        previous: NDArray[np.float64],
        goal: NDArray[np.float64],
        action: NDArray[np.float32],
    ) -> tuple[NDArray[np.float64], float, bool]:
        """One step of one environment; ``physics`` and ``previous`` (its last 18 observed numbers) are overwritten.

        Returns:
            observation (39,), reward, and whether the gripper is within 5 cm of the goal.
        """
        simulator = self._simulator
        self._mujoco.mj_setState(simulator.model, simulator.data, physics, self._all_of_it)
        simulator._prev_obs, simulator._target_pos, simulator.curr_path_length = previous.copy(), goal, 0
        observation, reward, _, _, info = simulator.step(action)
        physics[:] = self._physics()
        previous[:] = simulator._prev_obs
        return observation, float(reward), bool(info["success"])

    def problem(self, tasks: ReachTasks, num_envs: int = 1, horizon: int = 100) -> Reach:
        """The tasks as environments."""
        return Reach(self, tasks, num_envs, horizon=horizon)


class Reach:
    """M goals × E arms; the batched problem protocol of :mod:`metapcg.tasks.problem`.

    Nothing ends an episode but the horizon. Problems of one benchmark may be used in turns, not in several threads.

    Args:
        benchmark: where the tasks are from.
        tasks: some of ``benchmark.train`` or ``benchmark.test``.
        num_envs: E, arms per goal.
        horizon: steps per episode, ``MAX_HORIZON`` at most.

    Attributes:
        observation_size: 39.
        action_size: 4.
        succeeded: (M, E) bool, the arms that have been at their goal since the last reset.

    Raises:
        ValueError: naming the setting that is wrong.
    """

    observation_size = 39
    action_size = 4

    def __init__(self, benchmark: ReachBenchmark, tasks: ReachTasks, num_envs: int = 1, *, horizon: int = 100) -> None:
        if len(tasks) == 0:
            raise ValueError("tasks: needs at least one")
        self._benchmark, self.tasks = benchmark, tasks
        self.num_tasks, self.num_envs = len(tasks), check_count("num_envs", num_envs)
        self.horizon = check_count("horizon", horizon)
        if horizon > MAX_HORIZON:
            raise ValueError(f"horizon: at most {MAX_HORIZON}, where Meta-World's own episodes end, got {horizon}")
        shape = (self.num_tasks, self.num_envs)
        starts = [benchmark.start(tasks.split, index) for index in tasks.indices]
        self._starts = [np.stack(values) for values in zip(*starts, strict=True)]  # physics, previous, observation
        self._clock = Clock(shape, self.horizon)
        self.succeeded = np.zeros(shape, dtype=bool)
        self._set_out()

    @property
    def active(self) -> NDArray[np.bool_]:
        """(M, E): still running."""
        return self._clock.active

    def _set_out(self) -> None:
        every = [np.repeat(values[:, None], self.num_envs, axis=1) for values in self._starts]
        self._physics, self._previous, observations = every
        self._observations = observations.astype(np.float32)

    def reset(self, seed: Seed | None = None) -> NDArray[np.float32]:
        """Put every arm where its task begins and return the observations, (M, E, 39).

        The problem itself is deterministic; ``seed`` is taken because every problem takes one, and is not used.
        """
        self._set_out()
        self._clock.reset()
        self.succeeded = np.zeros_like(self.succeeded)
        return self._observations.copy()

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Move every running arm.

        Args:
            actions: (M, E, 4) floats.

        Returns:
            observations (M, E, 39), reward (M, E) float32, terminated and truncated (M, E) bool.

        Raises:
            ValueError: actions of another shape, or NaN or infinity among them.
            RuntimeError: no reset before the first step.
        """
        self._clock.check_started()
        actions = check_actions(actions, (self.num_tasks, self.num_envs, self.action_size))
        reward = np.zeros((self.num_tasks, self.num_envs), dtype=np.float32)
        for m, e in zip(*np.nonzero(self._clock.active), strict=True):
            observation, reward[m, e], at_goal = self._benchmark.advance(
                self._physics[m, e], self._previous[m, e], self.tasks.goals[m], actions[m, e]
            )
            self._observations[m, e] = observation
            self.succeeded[m, e] |= at_goal
        terminated, truncated = self._clock.tick()
        return self._observations.copy(), reward, terminated, truncated


def greedy_actions(problem: Reach) -> NDArray[np.float32]:
    """Straight to the hidden goal, (M, E, 4): what an agent could do that was told its task."""
    to_goal = problem.tasks.goals[:, None] - problem._observations[..., :3]
    moves = np.clip(10.0 * to_goal, -1.0, 1.0)
    return np.concatenate([moves, np.zeros_like(moves[..., :1])], axis=-1).astype(np.float32)

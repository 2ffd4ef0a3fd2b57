"""Game levels as a batched problem: a ``TaskBatch`` on the level engine, with observations that the crop policy
reads."""

from __future__ import annotations

import numpy as np

from metapcg.tasks.task_batch import TaskBatch


class LevelProblem:
    """M tasks × E environments of one game and representation.

    Args:
        tasks: the tasks; their number is M.
        num_envs: E, episodes per task and rollout.
        crop: side of the egocentric crop.
        tell_task: add the task's reward weights to the observation as ``task`` (for the oracle only).

    Observations: ``crop`` uint8 (M, E, c, c), or ``padded`` uint8 (M, E, H+c-1, W+c-1) for wide, and ``task`` float32
    (M, E, P).
    """

    def __init__(self, tasks: TaskBatch, num_envs: int, crop: int = 5, tell_task: bool = False):
        self.tasks, self.num_envs = tasks, num_envs
        self.num_tasks = len(tasks)
        self.engine = tasks.engine(num_envs, crop=crop)
        self.horizon = int(self.engine.max_iterations.max())
        self._task = None
        if tell_task:
            told = tasks.task_features()
            self._task = np.repeat(told[:, None, :], num_envs, axis=1).astype(np.float32)

    def _observe(self) -> dict[str, np.ndarray]:
        # Copies: the engine overwrites its buffers in place.
        key = "padded" if self.tasks.representation == "wide" else "crop"
        buffer = self.engine.padded if key == "padded" else self.engine.crops
        obs = {key: buffer.copy()}
        if self._task is not None:
            obs["task"] = self._task
        return obs

    def reset(self, seed: np.random.SeedSequence) -> dict[str, np.ndarray]:
        """Draw a fresh start level in every environment."""
        self.engine.reset(seed)
        return self._observe()

    def step(self, actions: np.ndarray):
        """Edit every level once: observation, reward (M, E), terminated (M, E), truncated (M, E)."""
        self.engine.step(actions)
        return (
            self._observe(),
            self.engine.rewards.astype(np.float32),
            self.engine.terminated.copy(),
            self.engine.truncated.copy(),
        )

"""Many environments in one call: Gymnasium's ``VectorEnv`` on the batch engine, without processes.

``gymnasium.make_vec("binary-narrow-v0", num_envs=64)`` makes one.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_pcgrl.envs import PcgrlEnv
from gym_pcgrl.envs.pcgrl_env import draw_with_border
from metapcg.envs import LevelEngine
from metapcg.envs.engine import QUIRKS
from metapcg.envs.random_streams import seed_streams


class PcgrlVectorEnv(VectorEnv):
    """``num_envs`` copies of one ``PcgrlEnv``, stepped together.

    With the same seed and actions environment i sees what ``PcgrlEnv`` sees after ``reset(seed=seed + i)``, episode
    after episode, so that ``make_vec(..., vectorization_mode="sync")`` gives the same numbers, only slower.

    Autoreset
    ---------
    ``autoreset_mode`` says what happens to an environment whose episode has ended; ``metadata["autoreset_mode"]``
    repeats it, as Gymnasium asks.

    "NextStep" (the default, as in Gymnasium): the step that ends an episode returns its last observation, reward,
        flags and infos. The following step ignores that environment's action and starts its next episode: reward 0,
        both flags False, observation and infos of the start.
    "SameStep": the step that ends an episode returns its reward and flags, but the observation and the infos of the
        next episode's start; ``infos["final_obs"]`` and ``infos["final_info"]`` hold the last ones (masks:
        ``infos["_final_obs"]``, ``infos["_final_info"]``).
    "Disabled": a finished environment stays as it is, ignores actions, earns 0 and keeps its flags up, until
        ``reset(options={"reset_mask": mask})`` starts those of the mask.

    Arguments
    ---------
    num_envs : int, at least 1
    prob, rep, quirks, **settings : as for ``PcgrlEnv``
    render_mode : None or "rgb_array": ``render`` gives a tuple of pictures, one per environment
    autoreset_mode : str or ``gymnasium.vector.AutoresetMode``

    Attributes
    ----------
    engine : the ``metapcg.envs.LevelEngine`` with one task and ``num_envs`` environments
    settings, max_changes, max_iterations : as of ``PcgrlEnv``

    Raises
    ------
    ValueError : any setting out of its range; the message names the setting
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs=1,
        prob="binary",
        rep="narrow",
        render_mode=None,
        quirks=QUIRKS,
        autoreset_mode=AutoresetMode.NEXT_STEP,
        **settings,
    ):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode: needs None or 'rgb_array', got {render_mode!r}")
        modes = [mode.value for mode in AutoresetMode]
        if not isinstance(autoreset_mode, AutoresetMode) and autoreset_mode not in modes:
            raise ValueError(f"autoreset_mode: needs one of {', '.join(modes)}, got {autoreset_mode!r}")
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}

        single = PcgrlEnv(prob, rep, quirks=quirks, **settings)
        self._border_tile = single.get_border_tile()
        self.game, self.representation, self.settings = single.game, single.representation, single.settings
        self.max_changes, self.max_iterations = single.max_changes, single.max_iterations
        self.engine = LevelEngine(
            single.game,
            single.representation,
            num_envs=num_envs,
            size=(single.engine.width, single.engine.height),
            crop=1,
            random_tile=single.engine.random_tile,
            warp=single.engine.warp,
            quirks=quirks,
            start_probabilities=list(self.settings["probs"].values()),
            random_probs=single.engine.random_probs,
            parameters=single.engine.parameters,
        )
        self.engine.set_tasks(single.engine.weights, change_percentage=single.engine.change_percentage)
        self.engine.set_limits(self.max_changes, self.max_iterations)
        self.num_envs = self.engine.num_envs
        self.single_observation_space, self.single_action_space = single.observation_space, single.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._counts = self.single_observation_space["heatmap"].dtype
        self._generators = None
        self._first_maps = None

    def reset(self, *, seed=None, options=None):
        """Start episodes; observations and infos, each array with the leading axis ``num_envs``.

        Parameters
        ----------
        seed : None, int (environment i is seeded with ``seed + i``) or a sequence of one int or None per environment
        options : None or dict with ``reset_mask``, bool (num_envs,): which environments to start (all when left out).
            The others go on as they are. The first reset is of all.

        Raises
        ------
        ValueError : unknown options, a mask or seeds of another shape or type, a first reset of a part
        """
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        if options:
            raise ValueError(f"options: {sorted(options)[0]!r} is unknown, reset takes reset_mask")
        mask = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask: needs {self.num_envs} booleans, got {mask.dtype} of shape {mask.shape}")
        if not mask.any():
            raise ValueError("reset_mask: names no environment")
        seeds = self._seeds(seed)
        if self._generators is None:
            if not mask.all():
                raise ValueError("reset_mask: the first reset has to be of all environments")
            self._generators = [seeding.np_random(one)[0] for one in seeds]
            self.engine.reset(0)  # starts the engine; every stream is replaced below
            self._seed_streams(mask)
            drawn_anew = mask
        else:
            drawn_anew = mask & np.array([one is not None for one in seeds])
            for index in np.flatnonzero(drawn_anew):
                self._generators[index] = seeding.np_random(seeds[index])[0]
            self._seed_streams(drawn_anew)
        self._start(mask, drawn_anew)
        return self._observations(), self._infos()

    def step(self, actions):
        """Apply one action per environment; observations, rewards float64, terminations bool, truncations bool, infos.

        The arrays have the leading axis ``num_envs`` and belong to the caller. ValueError for actions of another shape
        or type, for an action that does not exist in a running environment (nothing is changed then), and before the
        first reset.
        """
        engine = self.engine
        ended_before = ~engine.active[0]
        engine.step(self._flat(actions)[None])
        infos = {}
        rewards = engine.rewards[0].copy()
        terminations, truncations = engine.terminated[0].copy(), engine.truncated[0].copy()
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._start(ended_before)
            terminations[ended_before] = truncations[ended_before] = False
        elif self.autoreset_mode == AutoresetMode.SAME_STEP:
            ended = terminations | truncations
            if ended.any():
                infos = self._final(ended)
                self._start(ended)
        return self._observations(), rewards, terminations, truncations, infos | self._infos()

    def render(self):
        """Return a tuple of pictures, one per environment, as ``PcgrlEnv.render("rgb_array")`` draws them.

        None, with a warning, without a render mode.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing: make the environment with render_mode='rgb_array'")
            return None
        if self._generators is None:
            raise ValueError("render: no levels yet, call reset first")
        positions = [None] * self.num_envs if self.representation == "wide" else self.engine.positions[0]
        return tuple(
            draw_with_border(level, self.game, position, self._border_tile)
            for level, position in zip(self.engine.maps[0], positions, strict=True)
        )

    def get_border_tile(self):
        """Return the number of the tile that surrounds a level."""
        return self._border_tile

    def get_num_tiles(self):
        """Return the number of kinds of tiles."""
        return self.engine.num_tiles

    def _seeds(self, seed):
        """Return one seed or None per environment."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            return [int(seed) + index for index in range(self.num_envs)]
        seeds = list(seed) if isinstance(seed, (list, tuple, np.ndarray)) else None
        if seeds is None or len(seeds) != self.num_envs:
            raise ValueError(f"seed: needs None, a whole number or {self.num_envs} of them, got {seed!r}")
        return [one if one is None else int(one) for one in seeds]

    def _seed_streams(self, mask):
        """Start the streams of ``mask`` as single environments with the present generators do."""
        alone, stream = np.ones((1, 1), np.bool_), np.zeros((1, 1, 4), np.uint64)
        for index in np.flatnonzero(mask):
            key = np.random.SeedSequence(int(self._generators[index].integers(2**63))).generate_state(2, np.uint64)
            seed_streams(key, alone, stream)
            self.engine.streams[0, index] = stream[0, 0]
        self.engine.densities[0, mask] = self.engine.start_probabilities[0]  # binary's first level, as after a seed

    def _start(self, mask, drawn_anew=None):
        """Start the next episodes in ``mask``; with ``random_start=False`` on the level kept for each, except where a
        new one is to be kept (``drawn_anew``)."""
        if not mask.any():
            return
        self.engine.reset(mask=mask[None])
        if self.settings["random_start"]:
            return
        if drawn_anew is not None and drawn_anew.any():
            if self._first_maps is None:
                self._first_maps = self.engine.maps[0].copy()
            self._first_maps[drawn_anew] = self.engine.maps[0, drawn_anew]
        self.engine.maps[0, mask] = self._first_maps[mask]
        self.engine.restart(mask[None])

    def _flat(self, actions):
        """Return the engine's action numbers, int64 (num_envs,)."""
        actions = np.asarray(actions)
        if self.representation != "wide":
            if actions.dtype.kind not in "iu" or actions.shape != (self.num_envs,):
                raise ValueError(
                    f"actions: needs {self.num_envs} whole numbers, got {actions.dtype} of shape {actions.shape}"
                )
            return actions.astype(np.int64)
        if actions.dtype.kind not in "iu" or actions.shape != (self.num_envs, 3):
            raise ValueError(
                f"actions: wide needs whole numbers x, y, tile of shape ({self.num_envs}, 3), got {actions.dtype} of "
                f"shape {actions.shape}"
            )
        actions = actions.astype(np.int64)
        outside = self.engine.active[0] & ((actions < 0) | (actions >= self.single_action_space.nvec)).any(axis=1)
        if outside.any():
            index = int(np.argmax(outside))
            raise ValueError(
                f"actions: {actions[index].tolist()} of environment {index} is outside "
                f"{self.single_action_space.nvec.tolist()}"
            )
        x, y, tile = actions.T
        return (y * self.engine.width + x) * self.engine.num_tiles + tile

    def _observations(self):
        engine = self.engine
        observations = {"map": engine.maps[0].copy(), "heatmap": engine.heatmap[0].astype(self._counts)}
        if self.representation != "wide":
            observations["pos"] = engine.positions[0].astype(np.uint8)
        return observations

    def _numbers(self):
        """Return the entries of ``PcgrlEnv``'s info, each int64 (num_envs,)."""
        engine = self.engine
        numbers = {
            name: engine.stats[0, :, index].copy()
            for index, name in enumerate(self.game.statistics)
            if name != "ratio"  # as in PcgrlEnv
        }
        if self.game.name == "binary":
            path = self.game.statistics.index("path-length")
            numbers["path-imp"] = engine.stats[0, :, path] - engine.start_stats[0, :, path]
        return numbers | {
            "iterations": engine.iterations[0].copy(),
            "changes": engine.changes[0].copy(),
            "max_iterations": np.full(self.num_envs, self.max_iterations),
            "max_changes": np.full(self.num_envs, self.max_changes),
        }

    def _infos(self):
        return _with_masks(self._numbers(), np.ones(self.num_envs, np.bool_))

    def _final(self, ended):
        """Return ``final_obs`` and ``final_info`` of the environments in ``ended``."""
        observations = self._observations()
        final = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended):
            final[index] = {name: part[index] for name, part in observations.items()}
        numbers = {name: np.where(ended, values, 0) for name, values in self._numbers().items()}
        return {
            "final_obs": final,
            "_final_obs": ended.copy(),
            "final_info": _with_masks(numbers, ended),
            "_final_info": ended.copy(),
        }


def _with_masks(numbers, mask):
    """Return Gymnasium's form of infos: beside every entry the mask of the environments that have it."""
    return numbers | {f"_{name}": mask.copy() for name in numbers}

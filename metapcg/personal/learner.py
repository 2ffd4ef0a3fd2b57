"""The boss that learns from one person: after a fight, one Adam step on the policy gradient, and a pull to the anchor.

One update, for a batch of fights:

1. rewards rebuilt from hit points (``rewards.step_rewards``), discounted returns G_t of every fight;
2. advantages: Â_t = (G_t - mean G) / (std G + 1e-6), mean and standard deviation over all decisions of the batch;
3. the gradient g of the REINFORCE loss with an entropy bonus over the legal actions (``numpy_mind``);
4. one Adam step (Kingma & Ba 2015, algorithm 1), and a fraction of the way back to the frozen anchor θ₀:

       θ ← θ - lr · m̂/(√v̂ + ε),    θ ← θ - pull · (θ - θ₀).

The pull is decoupled from Adam, as weight decay is in AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101). Inside the
gradient it would be divided by √v̂ like everything else, and its strength would depend on how noisy each weight's
gradient is. Decoupled, it bounds the distance: an Adam step moves no weight by more than s·lr with s = (1 - β₁)/√(1 -
β₂) ≈ 3.2 (mostly ≤ lr), so no weight is ever farther from the anchor than s·lr·(1 - pull)/pull.

The learner is changed by a whole update or not at all. Steps 2 to 4 can be those of notebook 5 (``LearnerFunctions``).
Imports neither torch nor numba.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .arena import ACTIONS, ArenaState, choose
from .features import boss_features, boss_legal
from .numpy_mind import GradientFunctions, NumpyMind
from .rewards import RewardWeights, discounted_returns, step_rewards
from .trajectories import Trajectory, parse_trajectory
from .weights_file import SIZES, MindSizes, flatten, read_arrays, write_arrays

BETA_1, BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-8
_FORMAT = "metapcg learner 1"


@dataclass(frozen=True)
class LearnerSettings:
    """How a boss learns.

    Attributes:
        lr: Adam's step size.
        gamma: discount.
        pull: fraction of the way back to the anchor at each update; 0: none.
        entropy_weight: bonus for keeping options open, in units of advantage per nat.
        rewards: see ``RewardWeights``.

    Raises:
        ValueError: naming the setting that is out of range.
    """

    lr: float = 1e-2
    gamma: float = 0.95
    pull: float = 0.02
    entropy_weight: float = 0.01
    rewards: RewardWeights = field(default_factory=RewardWeights)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("lr", 0.0, 1.0),
            ("gamma", 0.0, 1.0),
            ("pull", 0.0, 1.0),
            ("entropy_weight", 0.0, 10.0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ValueError(f"{name}: needs a number in {low:g} … {high:g}, got {value!r}")


@dataclass(frozen=True)
class Update:
    """What one update did; ``dataclasses.asdict`` gives plain values for JSON.

    Attributes:
        fights: learned from so far, this update's included.
        decisions: in this update.
        mean_return: undiscounted return per fight of this update.
        wins: fights of this update in which only the player died.
        gradient_norm: of the loss, before Adam.
        policy_change: mean KL divergence of the new policy from the old one over this update's decisions, nats.
        entropy: mean entropy of the new policy over them, nats.
        distance: of the new weights from the anchor, Euclidean.
    """

    fights: int
    decisions: int
    mean_return: float
    wins: int
    gradient_norm: float
    policy_change: float
    entropy: float
    distance: float


class LearnerFunctions(GradientFunctions, Protocol):
    """What notebook 5 (``5_online``) defines: all of an update that is not bookkeeping."""

    def batch_advantages(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Step 2: returns (T,) to advantages (T,)."""

    def anchored_step(
        self,
        weights: NDArray[np.float64],
        gradient: NDArray[np.float64],
        first: NDArray[np.float64],
        second: NDArray[np.float64],
        count: int,
        anchor: NDArray[np.float64],
        lr: float,
        pull: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Step 4, update number ``count`` = 1, 2, …: new weights and Adam's new moments, all vectors."""


class Learner:
    """One player's boss: live weights, frozen anchor, Adam's moments.

    Args:
        anchor: weights to start from and to be pulled back to, name → array.
        settings: see ``LearnerSettings``.
        sizes: see ``MindSizes``.
        functions: see ``LearnerFunctions``, for example ``metapcg.learning.solutions.load("5_online")``; None: the
            library's own. They are not saved with the state.

    Attributes:
        mind: the live policy.
        anchor: (count,) the frozen weights, read-only.
        fights, wins, losses, updates: counts so far; a fight in which nobody died, or both, is neither.
    """

    def __init__(
        self,
        anchor: Mapping[str, object],
        settings: LearnerSettings | None = None,
        sizes: MindSizes = SIZES,
        functions: LearnerFunctions | None = None,
    ) -> None:
        self.settings = settings or LearnerSettings()
        self.sizes = sizes
        self.functions = functions
        self.mind = NumpyMind(anchor, sizes, functions)
        self.anchor = flatten(anchor, sizes)
        self.anchor.flags.writeable = False
        self.reset()

    def reset(self) -> None:
        """Forget everything learned: back to the anchor."""
        self.mind.flat[:] = self.anchor
        self._first_moment = np.zeros_like(self.anchor)
        self._second_moment = np.zeros_like(self.anchor)
        self.updates = self.fights = self.wins = self.losses = 0

    def probabilities(self, state: ArenaState) -> NDArray[np.float64]:
        """The boss's policy in states with any leading axes, (..., NUM_ACTIONS)."""
        return self.mind.probabilities(boss_features(state), boss_legal(state))

    def act(self, state: ArenaState, generator: np.random.Generator) -> str:
        """Draw the boss's action in one state (no leading axes)."""
        return ACTIONS[int(choose(self.probabilities(state), generator))]

    def anchor_probabilities(self, state: ArenaState) -> NDArray[np.float64]:
        """The anchor's policy, to be compared with ``probabilities``."""
        anchor = NumpyMind(self.sizes.views(self.anchor), self.sizes)
        return anchor.probabilities(boss_features(state), boss_legal(state))

    def distance(self) -> float:
        """Euclidean distance of the weights from the anchor."""
        return float(np.linalg.norm(self.mind.flat - self.anchor))

    def advantages(self, trajectories: Sequence[Trajectory]) -> NDArray[np.float64]:
        """Scaled advantages of all decisions, fight after fight: (decisions,)."""
        returns = np.concatenate(
            [
                discounted_returns(step_rewards(t.hp[:-1], t.hp[1:], self.settings.rewards), self.settings.gamma)
                for t in trajectories
            ]
        )
        if self.functions is not None:
            return self.functions.batch_advantages(returns)
        return (returns - returns.mean()) / (returns.std() + 1e-6)

    def update(self, trajectories: Sequence[Trajectory | bytes | str | Mapping[str, object]]) -> Update:
        """Learn from one or more fights: one Adam step.

        Args:
            trajectories: fights, parsed or as JSON; all are checked before anything changes.

        Raises:
            TrajectoryError: a log with a fault; the learner is unchanged.
            ValueError: no fights.
            FloatingPointError: the step would not be finite; the learner is unchanged.
        """
        fights = [t if isinstance(t, Trajectory) else parse_trajectory(t) for t in trajectories]
        if not fights:
            raise ValueError("trajectories: needs at least one fight")
        features = np.concatenate([fight.features for fight in fights])
        legal = np.concatenate([fight.legal for fight in fights])
        actions = np.concatenate([fight.actions for fight in fights])
        settings = self.settings
        advantages = self.advantages(fights)
        before = self.mind.log_probabilities(features, legal)
        gradient = self.mind.gradient(features, legal, actions, advantages, settings.entropy_weight)

        updates = self.updates + 1
        step = _anchored_step if self.functions is None else self.functions.anchored_step
        # Copies, out and in: a student's step may work in place, and keep what it returned.
        weights, first, second = step(
            self.mind.flat.copy(),
            gradient.copy(),
            self._first_moment.copy(),
            self._second_moment.copy(),
            updates,
            self.anchor.copy(),
            settings.lr,
            settings.pull,
        )
        if not all(np.isfinite(vector).all() for vector in (weights, first, second)):
            raise FloatingPointError("the update is not finite; the learner is unchanged")
        self._first_moment, self._second_moment, self.updates = np.array(first), np.array(second), updates
        self.mind.flat[:] = weights
        self.fights += len(fights)
        wins = sum(fight.player_died and not fight.boss_died for fight in fights)
        self.wins += wins
        self.losses += sum(fight.boss_died and not fight.player_died for fight in fights)

        after = self.mind.log_probabilities(features, legal)
        pi = np.exp(after)
        rewards = [step_rewards(fight.hp[:-1], fight.hp[1:], settings.rewards).sum() for fight in fights]
        return Update(
            fights=self.fights,
            decisions=len(actions),
            mean_return=float(np.mean(rewards)),
            wins=wins,
            gradient_norm=float(np.sqrt(gradient @ gradient)),
            policy_change=float((pi * (after - before)).sum(-1).mean()),
            entropy=float(-(pi * after).sum(-1).mean()),
            distance=self.distance(),
        )

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write the whole state as ``.npz``, atomically; a learner loaded from it goes on as this one would.

        Args:
            durable: wait until the data are on the disk (see ``weights_file.write_arrays``).

        Raises:
            OSError: the file cannot be written; an earlier one is kept.
        """
        about = {
            "format": _FORMAT,
            "settings": dataclasses.asdict(self.settings),
            "sizes": dataclasses.asdict(self.sizes),
            "updates": self.updates,
            "fights": self.fights,
            "wins": self.wins,
            "losses": self.losses,
        }
        arrays = {
            "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
            "weights": self.mind.flat,
            "anchor": self.anchor,
            "first_moment": self._first_moment,
            "second_moment": self._second_moment,
        }
        write_arrays(path, arrays, durable)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Learner:
        """Read a learner that ``save`` wrote.

        Raises:
            ValueError: the file is missing, damaged, or not a learner's; says which.
        """
        name = os.fspath(path)
        try:
            arrays = read_arrays(path)
            about = json.loads(arrays["about"].tobytes())
            if about["format"] != _FORMAT:
                raise ValueError(f"format {about['format']!r}, this version reads {_FORMAT!r}")
            settings = LearnerSettings(
                **{**about["settings"], "rewards": RewardWeights(**about["settings"]["rewards"])}
            )
            sizes = MindSizes(**{**about["sizes"], "owned": tuple(about["sizes"]["owned"])})
            learner = cls(sizes.views(arrays["anchor"]), settings, sizes)
            learner.mind.flat[:] = flatten(sizes.views(arrays["weights"]), sizes)
            for moment in ("first_moment", "second_moment"):
                value = arrays[moment]
                if value.shape != learner.anchor.shape or not np.isfinite(value).all():
                    raise ValueError(f"{moment} has a wrong length or is not finite")
            if arrays["second_moment"].min() < 0.0:
                raise ValueError("second_moment is negative")
            learner._first_moment, learner._second_moment = arrays["first_moment"], arrays["second_moment"]
            for count in ("updates", "fights", "wins", "losses"):
                setattr(learner, count, int(about[count]))
            return learner
        except KeyError as error:
            raise ValueError(f"{name} is not a learner's state: {error} is missing") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name} is not a learner's state: {error}") from error


def _anchored_step(
    weights: NDArray[np.float64],
    gradient: NDArray[np.float64],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    count: int,
    anchor: NDArray[np.float64],
    lr: float,
    pull: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    first = BETA_1 * first + (1.0 - BETA_1) * gradient
    second = BETA_2 * second + (1.0 - BETA_2) * gradient**2
    scale = np.sqrt(second / (1.0 - BETA_2**count)) + ADAM_EPSILON
    weights -= lr / (1.0 - BETA_1**count) * first / scale  # a copy of the learner's
    weights -= pull * (weights - anchor)
    return weights, first, second

"""The training loop of RL² (Duan et al. 2016; Wang et al. 2016), into which a student's functions are plugged.

A *trial* is several episodes of one task, one after the other. A recurrent policy plays it with one memory, which
survives the episodes' ends, and is trained to make the whole trial pay: whatever it finds out in the first episode is
worth having in the next. Learning the task happens in the memory, so at test no gradient is taken.

The loop owns data collection, seeds, the optimiser and bookkeeping. What makes it RL² is not here: six functions come
from a notebook (``metapcg.learning.solutions``). N is the number of trials, T the number of steps of a trial, all its
episodes together. They are called as

* ``build_inputs(features, actions, rewards, dones, num_actions)`` → (N, T, F + num_actions + 2), what the cell sees;
* ``gru_cell(params, x, h)`` → (N, H), one step of the memory;
* ``unroll(cell, params, inputs, hidden, trial_starts)`` → (N, T, H), the memory after every step;
* ``trial_advantages(rewards, values, final_values, dones, mask, gamma, lam)`` → (N, T);
* ``clipped_policy_loss(log_probs, old_log_probs, advantages, mask, clip)`` → scalar;
* ``returns_by_episode(rewards, dones, mask, num_episodes)`` → (N, num_episodes).

A *batch of trials* is a dict of tensors:

===================  =================  =======================================================================
key                  shape              meaning
===================  =================  =======================================================================
``obs``              dict, (N, T+1, …)  what was observed; one more than steps, for the state that followed
``actions``          (N, T)             what was done
``log_probs``        (N, T)             log-probability of that, under the policy that acted
``rewards``          (N, T)             zero where ``mask`` is zero
``dones``            (N, T)             1 at the last step of each episode
``mask``             (N, T)             1 while the step belongs to the trial: ones, then zeros
``trial_starts``     (N, T+1)           1 where the memory has to be cleared: at the first step of a trial
===================  =================  =======================================================================

Episodes may end early (``weights`` and ``target`` stop at a goal). Their trials are then shorter: the steps of each row
are moved together, so that the mask ends once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .advantages import discounted_returns, normalize
from .meta_training import Diverged, TrainingResult
from .policies import Params, detach, to_device
from .recurrent_policies import calibrate, trainable
from .rollouts import Batch, Problem, Streams, as_dict, tensor_dtype
from .training_state import TrainingState

FUNCTIONS = ("build_inputs", "gru_cell", "unroll", "trial_advantages", "clipped_policy_loss", "returns_by_episode")
"""What a notebook has to define."""


@dataclass(frozen=True)
class RecurrentSettings:
    """Settings of training; the defaults work for ``direction`` on binary-narrow.

    Attributes:
        iterations: batches of trials.
        trial_episodes: episodes per trial.
        gamma: discount per step, over the whole trial.
        lam: GAE's λ.
        bootstrap: True when the number of episodes merely cuts the trial, so that its last step counts the value of
            what would have followed; False when the trial's end is the end of the task (a bandit of n pulls).
        lr: Adam's step size in the first iteration; it falls linearly to zero.
        epochs: passes over each batch.
        minibatches: whole trials are divided among so many Adam steps per pass.
        clip: PPO's ε.
        value_weight: of the value loss, in units of the returns' variance under the untrained policy.
        entropy_weight: entropy bonus in the first iteration; it falls with the step size.
        max_gradient_norm: gradients are scaled down to this norm.
        reward_spread: standard deviation with which rewards enter the network. They are one column of many, and the one
            that shows the task: with 1 instead of 2, ``direction`` on binary-narrow takes half as long again to learn.
        reset_between_episodes: clear the memory at every episode's start. This is the well-known mistake, kept to be
            measured: what is left is an agent that has to find out everything again in every episode.
    """

    iterations: int = 75
    trial_episodes: int = 2
    gamma: float = 0.9
    lam: float = 0.95
    bootstrap: bool = True
    lr: float = 5e-3
    epochs: int = 3
    minibatches: int = 1
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.03
    max_gradient_norm: float = 1.0
    reward_spread: float = 2.0
    reset_between_episodes: bool = False

    def __post_init__(self) -> None:
        for name in ("iterations", "trial_episodes", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")


class Player:
    """Plays trials, one step at a time, with the student's ``build_inputs``, ``gru_cell`` and ``unroll``.

    Args:
        functions, policy, params: who plays.
        rows: N, trials played at once.
    """

    def __init__(self, functions: Any, policy: Any, params: Params, rows: int) -> None:
        self.functions, self.policy, self.params = functions, policy, params
        self._hidden = policy.initial_memory(rows, params)
        self._before: tuple[Tensor, ...] | None = None  # features, action code, reward, done flag of the last step

    def distribution(self, obs: dict[str, Tensor], active: Tensor, start: Tensor) -> Any:
        """Take in an observation (N, …) and return the distribution to act from.

        Args:
            active: (N,) bool; the memory of the other rows stays as it is.
            start: (N,), 1.0 where the memory has to be cleared first.
        """
        encoded = self.policy.encode(self.params, obs)
        features = self.policy.features(encoded)
        # The student's function gets the last step and this one; of this one nothing is known yet but the observation.
        blank = torch.zeros_like(start)
        window = [features[:, None], blank[:, None].long(), blank[:, None], blank[:, None]]
        if self._before is not None:
            window = [torch.cat([old[:, None], new], 1) for old, new in zip(self._before, window, strict=True)]
        inputs = self.functions.build_inputs(*window, self.policy.num_action_codes)[:, -1:]
        hidden = self.functions.unroll(self.functions.gru_cell, self.params, inputs, self._hidden, start[:, None])[
            :, -1
        ]
        self._hidden = torch.where(active[:, None], hidden, self._hidden)
        self._features = features
        return self.policy.distribution(self.params, encoded, hidden)

    def remember(self, actions: Tensor, rewards: Tensor, dones: Tensor, active: Tensor) -> None:
        """Take in what the step did and paid, for the next input; rows that are not active keep their last step."""
        codes = self.policy.action_codes(actions)
        now = (self._features, codes, rewards * self.params["scale.reward"], dones)
        if self._before is not None:
            now = tuple(
                torch.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(now, self._before, strict=True)
            )
        self._before = now


def collect_trials(
    functions: Any,
    policy: Any,
    params: Params,
    problem: Problem,
    num_episodes: int,
    streams: Streams,
    device: torch.device | str = "cpu",
    greedy: bool = False,
    reset_between_episodes: bool = False,
    on_episode: Callable[[int, Problem], None] | None = None,
) -> Batch:
    """Play one trial in each of the problem's M × E environments; row m·E + e is environment e of task m.

    Args:
        functions: has ``build_inputs``, ``gru_cell`` and ``unroll``.
        policy, params: see ``recurrent_policies``. Not differentiated.
        problem: environments with fixed tasks.
        num_episodes: episodes per trial.
        streams: where the randomness comes from; consumed.
        device: where the network runs and the batch lives.
        greedy: take the most probable action instead of sampling.
        reset_between_episodes: clear the memory at every episode's start (see ``RecurrentSettings``).
        on_episode: called with (episode, problem) when an episode has ended everywhere.

    Returns:
        A batch of trials as described in the module docstring. The observation after the last step is the first one of
        the episode that would have come next.
    """
    rows = problem.num_tasks * problem.num_envs
    player = Player(functions, policy, to_device(detach(params), device), rows)
    steps: dict[str, list[Tensor]] = {
        name: [] for name in ("actions", "log_probs", "rewards", "dones", "mask", "starts")
    }
    seen: list[dict[str, Tensor]] = []
    with torch.no_grad():
        for episode in range(num_episodes):
            obs = _observation(problem.reset(streams.environment_seed()), rows)
            active = torch.ones(rows, dtype=torch.bool)
            for t in range(problem.horizon):
                first = t == 0 and (episode == 0 or reset_between_episodes)
                start = torch.full((rows,), float(first), device=device)
                here = active.to(device)
                dist = player.distribution({k: v.to(device) for k, v in obs.items()}, here, start)
                action = dist.mode() if greedy else dist.sample(streams.actions)
                chosen = action.cpu().numpy().reshape(problem.num_tasks, problem.num_envs)
                after, reward, ended, cut = problem.step(chosen)
                over = torch.from_numpy((ended | cut).reshape(rows)) | torch.tensor(t == problem.horizon - 1)
                done = (over & active).to(device, torch.float32)
                reward = torch.as_tensor(reward, dtype=torch.float32).reshape(rows).to(device) * here
                player.remember(action, reward, done, here)
                seen.append(obs)
                row = (action, dist.log_prob(action), reward, done, here.float(), start)
                for name, value in zip(steps, row, strict=True):
                    steps[name].append(value)
                obs, active = _observation(after, rows), active & ~over
                if not active.any():
                    break
            if on_episode is not None:
                on_episode(episode, problem)
        # Had the trial gone on, another episode of the task would have begun.
        seen.append(_observation(problem.reset(streams.environment_seed()), rows))
    batch: Batch = {name: torch.stack(values, 1) for name, values in steps.items()}
    following = torch.full((rows, 1), float(reset_between_episodes), device=device)
    batch["trial_starts"] = torch.cat([batch.pop("starts"), following], 1)
    batch["obs"] = {k: torch.stack([obs[k] for obs in seen], 1).to(device) for k in seen[0]}
    return _together(batch)


def _observation(obs: Any, rows: int) -> dict[str, Tensor]:
    """(M, E, …) → tensors (N, …)."""
    return {k: torch.as_tensor(v).to(tensor_dtype(v)).reshape(rows, *v.shape[2:]) for k, v in as_dict(obs).items()}


def _together(batch: Batch) -> Batch:
    """Move each row's valid steps to its front, the state that followed the last of them behind them."""
    mask = batch["mask"]
    if bool(mask.all()):
        return batch
    order = torch.argsort(1.0 - mask, dim=1, stable=True)
    length = int(mask.sum(1).max())
    # Place T holds the state that followed; it goes to the place behind the row's last valid step.
    places = torch.cat([order, torch.full_like(order[:, :1], mask.shape[1])], 1)
    places.scatter_(1, mask.sum(1, keepdim=True).long(), mask.shape[1])

    def gather(values: Tensor, index: Tensor) -> Tensor:
        index = index.reshape(*index.shape, *[1] * (values.ndim - 2)).expand(*index.shape, *values.shape[2:])
        return values.gather(1, index)

    names = ("actions", "log_probs", "rewards", "dones", "mask")
    packed = {name: gather(batch[name], order[:, :length]) for name in names}
    packed["trial_starts"] = gather(batch["trial_starts"], places[:, : length + 1])
    packed["obs"] = {k: gather(v, places[:, : length + 1]) for k, v in batch["obs"].items()}
    return packed


def look_again(functions: Any, policy: Any, params: Params, batch: Batch) -> tuple[Any, Tensor]:
    """Unroll the policy over a batch of trials, differentiably.

    Returns:
        The action distributions, (N, T), and the values of the states, (N, T + 1).
    """
    encoded = policy.encode(params, batch["obs"])
    codes = policy.action_codes(batch["actions"])
    known = (codes, batch["rewards"] * params["scale.reward"], batch["dones"])
    # One more step than was played, for the value of what followed; what was done in it is not known, nor used.
    known = [torch.nn.functional.pad(values, (0, 1)) for values in known]
    inputs = functions.build_inputs(policy.features(encoded), *known, policy.num_action_codes)
    start = policy.initial_memory(len(inputs), params)
    hidden = functions.unroll(functions.gru_cell, params, inputs, start, batch["trial_starts"])
    return policy.distribution(params, encoded[:, :-1], hidden[:, :-1]), policy.value(params, encoded, hidden)


def select(batch: Batch, rows: Tensor) -> Batch:
    """Some of the trials of a batch."""
    return {k: select(v, rows) if isinstance(v, dict) else v[rows] for k, v in batch.items()}


def add_trial_advantages(
    functions: Any, policy: Any, params: Params, batch: Batch, settings: RecurrentSettings
) -> Batch:
    """Add ``values``, ``returns`` (targets of the value function) and normalised ``advantages`` to a batch, in place.

    Raises:
        ValueError: the policy unrolled over the trials does not do what it did when it played them, which means that
            ``build_inputs`` or ``unroll`` gives a step something else than the steps before it.
    """
    parts = []
    with torch.no_grad():
        for rows in torch.arange(len(batch["actions"]), device=batch["actions"].device).chunk(settings.minibatches):
            part = select(batch, rows)
            dist, values = look_again(functions, policy, params, part)
            parts.append((dist.log_prob(part["actions"]), values))
    log_probs, values = (torch.cat(part) for part in zip(*parts, strict=True))
    mask = batch["mask"]
    difference = float(((log_probs - batch["log_probs"]) * mask).abs().max())
    if not difference <= 1e-2:
        raise ValueError(
            "build_inputs, unroll: unrolled over whole trials, the policy's log-probabilities are off by up to "
            f"{difference:.2g} from those with which it played, step by step; a step's input and memory may depend on "
            "earlier steps only"
        )
    length = mask.sum(1).long()
    final = values.gather(1, length[:, None])[:, 0] * float(settings.bootstrap)
    advantages = functions.trial_advantages(
        batch["rewards"], values[:, :-1], final, batch["dones"], mask, settings.gamma, settings.lam
    )
    batch["values"], batch["returns"] = values[:, :-1], (advantages + values[:, :-1]) * mask
    batch["advantages"] = normalize(advantages, mask)
    return batch


def recurrent_loss(
    functions: Any, policy: Any, params: Params, batch: Batch, settings: RecurrentSettings, entropy_weight: float
) -> tuple[Tensor, dict[str, float]]:
    """The student's clipped policy loss, plus a value loss, minus an entropy bonus; and its parts."""
    dist, values = look_again(functions, policy, params, batch)
    mask = batch["mask"]
    count = mask.sum()
    policy_loss = functions.clipped_policy_loss(
        dist.log_prob(batch["actions"]), batch["log_probs"], batch["advantages"], mask, settings.clip
    )
    error = (values[:, :-1] - batch["returns"]) / params["scale.value_std"]
    value_loss = (error**2 * mask).sum() / count
    entropy = (dist.entropy() * mask).sum() / count
    loss = policy_loss + settings.value_weight * value_loss - entropy_weight * entropy
    return loss, {"value_loss": float(value_loss.detach()), "entropy": float(entropy.detach())}


def train_recurrent(
    functions: Any,
    policy: Any,
    make_problem: Callable[[np.random.SeedSequence], Problem],
    settings: RecurrentSettings,
    seed: int,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    state_every: int = 10,
) -> TrainingResult:
    """Train a recurrent policy with a student's functions (PPO over whole trials, Schulman et al. 2017).

    Args:
        functions: has the functions named in ``FUNCTIONS``.
        policy: see ``recurrent_policies``.
        make_problem: seed → a problem with a fresh batch of training tasks.
        settings: see ``RecurrentSettings``.
        seed: every random number of the run comes from it.
        device: where networks run.
        on_iteration: called with (iteration, params, metrics row) after each iteration.
        resume: a state that ``on_state`` was given in a run with the same other arguments; training goes on after it
            and gives the numbers of an undisturbed run.
        on_state: called with the state after every ``state_every`` iterations; save it to be able to resume.
        state_every: in iterations.

    Returns:
        Final parameters and the history: iteration, loss and its parts, return of the first (``return_before``) and of
        the last episode (``return_after``) and of the whole of the trials (``return_trial``), environment steps so far,
        seconds so far.

    Raises:
        Diverged: a loss or a parameter is no longer finite.
        ValueError: the functions contradict each other (see ``add_trial_advantages``).
    """
    task_seeds, run_seed = np.random.SeedSequence(seed).spawn(2)
    streams = Streams(run_seed, device)
    start, env_steps, first = time.perf_counter(), 0, 0
    params = to_device(policy.init(streams.parameters), device)
    history: list[dict[str, float]] = []

    def play(problem: Problem) -> Batch:
        return collect_trials(
            functions, policy, params, problem, settings.trial_episodes, streams, device,
            reset_between_episodes=settings.reset_between_episodes,
        )  # fmt: skip

    if resume is None:
        batch = play(make_problem(task_seeds.spawn(1)[0]))
        env_steps += int(batch["mask"].sum())
        params = _scaled(params, batch, settings)
    params = {k: v.detach().clone().requires_grad_(not k.startswith("scale.")) for k, v in params.items()}
    leaves = list(trainable(params).values())
    adam = torch.optim.Adam(leaves, lr=settings.lr, eps=1e-5)
    if resume is not None:
        task_seeds = resume.apply(params, adam, streams, task_seeds)
        history, env_steps, first = list(resume.history), resume.env_steps, resume.iteration
        start -= resume.seconds

    for iteration in range(first, settings.iterations):
        left = 1.0 - iteration / settings.iterations
        for group in adam.param_groups:
            group["lr"] = settings.lr * left
        good = {k: v.clone() for k, v in detach(params).items()}
        batch = add_trial_advantages(functions, policy, params, play(make_problem(task_seeds.spawn(1)[0])), settings)
        losses, parts = [], []
        for _ in range(settings.epochs):
            order = torch.randperm(len(batch["actions"]), generator=streams.parameters).to(device)
            for rows in order.chunk(settings.minibatches):
                loss, part = recurrent_loss(
                    functions, policy, params, select(batch, rows), settings, settings.entropy_weight * left
                )
                adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(leaves, settings.max_gradient_norm)
                adam.step()
                losses.append(float(loss.detach()))
                parts.append(part)
        if not (np.isfinite(losses).all() and all(bool(torch.isfinite(v).all()) for v in leaves)):
            raise Diverged(f"RL² diverged at iteration {iteration}: loss {losses[-1]}", good)
        returns = _returns(functions, batch, settings.trial_episodes).mean(0)
        env_steps += int(batch["mask"].sum())
        row = {
            "iteration": iteration,
            "loss": losses[0],
            **{name: float(np.mean([part[name] for part in parts])) for name in parts[0]},
            "return_before": float(returns[0]),
            "return_after": float(returns[-1]),
            "return_trial": float(returns.sum()),
            "env_steps": env_steps,
            "seconds": time.perf_counter() - start,
        }
        history.append(row)
        if on_iteration is not None:
            on_iteration(iteration, params, row)
        if on_state is not None and (iteration + 1) % state_every == 0:
            seconds = time.perf_counter() - start
            on_state(TrainingState.of(params, adam, streams, task_seeds, history, env_steps, seconds))
    return TrainingResult(detach(params), history)


def _scaled(params: Params, batch: Batch, settings: RecurrentSettings) -> Params:
    played = batch["mask"] > 0
    returns = discounted_returns(batch["rewards"], torch.zeros_like(batch["mask"]), batch["mask"], settings.gamma)
    return calibrate(params, batch["rewards"][played], returns[played], settings.reward_spread)


def _returns(functions: Any, batch: Batch, num_episodes: int) -> Tensor:
    return functions.returns_by_episode(batch["rewards"], batch["dones"], batch["mask"], num_episodes)


def trial_returns(
    functions: Any,
    policy: Any,
    params: Params,
    problem: Problem,
    num_episodes: int,
    seed: int | np.random.SeedSequence,
    device: torch.device | str = "cpu",
    greedy: bool = False,
    reset_between_episodes: bool = False,
    on_episode: Callable[[int, Problem], None] | None = None,
) -> np.ndarray:
    """Play trials on a problem's tasks and return what each episode paid, undiscounted, (M, E, num_episodes).

    Args:
        num_episodes: may differ from the number in training.
        seed: randomness of the evaluation; training never sees it.
        greedy, reset_between_episodes, on_episode: as in ``collect_trials``.
    """
    batch = collect_trials(
        functions, policy, params, problem, num_episodes, Streams(seed, device), device,
        greedy, reset_between_episodes, on_episode,
    )  # fmt: skip
    returns = _returns(functions, batch, num_episodes)
    return returns.reshape(problem.num_tasks, problem.num_envs, num_episodes).cpu().numpy()

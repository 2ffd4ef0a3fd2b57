"""The off-policy training loop of PEARL (Rakelly et al. 2019), into which a student's functions are plugged.

An encoder turns transitions of a task, the *context*, into a Gaussian posterior over a latent z; actor and critics
are told z. The loop owns data collection, replay, seeds, the optimiser and bookkeeping. What makes it PEARL is not
here: seven functions come from a notebook (``metapcg.learning.solutions``). They are called as

* ``transition_inputs(states, actions, rewards, next_states) -> inputs``, (…, F), (…, A), (…), (…, F) → (…, 2F + A + 1);
* ``gaussian_product(means, variances, mask, prior) -> (mean, variance)``, (…, N, Z) twice and (…, N) → (…, Z) twice;
* ``kl_to_prior(mean, variance) -> (…)``;
* ``choose_latent(mean, variance, noise) -> z``, where ``noise`` is None at test;
* ``soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature) -> (…)``;
* ``actor_loss(log_probs, q1, q2, temperature) -> scalar``;
* ``soft_update(target, online, rate) -> params``.

One iteration: for some tasks, play episodes with z drawn from the prior, then episodes with z drawn from the
posterior that those give; put both into the tasks' replay. Then take gradient steps: context from each task's *last*
round only, transitions for actor and critics from all of its replay. The critics' loss is what trains the encoder
(and the KL term, and, if asked for, the reconstruction of rewards); the actor sees z as a constant.

At test nothing is trained. An agent plays its first episode with z from the prior, and each later one with the
posterior's mean given all transitions that it has collected itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from metapcg.tasks.task_batch import TaskBatch

from .context_policies import (
    GivenLatent,
    LatentCropNetwork,
    LatentEncoder,
    LatentNetwork,
    TransitionEncoder,
    join,
    select,
)
from .meta_training import Diverged, TrainingResult
from .policies import Params, detach, to_device
from .rollouts import Batch, Problem, Streams, collect, episode_returns
from .training_state import TrainingState

FUNCTIONS = (
    "transition_inputs",
    "gaussian_product",
    "kl_to_prior",
    "choose_latent",
    "soft_target",
    "actor_loss",
    "soft_update",
)
"""What a notebook has to define."""


@dataclass(frozen=True)
class OffPolicySettings:
    """Settings of training; the defaults work for ``direction`` on binary-narrow.

    Attributes:
        iterations: rounds of collecting and updating.
        warm_up: first rounds, which collect from every task and do not update; at least 1.
        tasks: tasks that are collected from per later round.
        prior_episodes, posterior_episodes: episodes per task and round, with z from the prior and from the posterior.
        capacity: episodes kept per task; older ones are overwritten.
        updates: gradient steps per round.
        update_tasks: tasks per gradient step.
        batch_size: transitions per task and gradient step, for actor and critics.
        context_size: most transitions of the context; every step draws how many of them each task gets, from 0 to this.
        kl_weight: weight of the KL divergence to the prior, in squared reward per nat.
        temperature: α, weight of the policy's entropy, in reward per nat.
        gamma: discount per step.
        target_rate: share of the critics that moves into the target critics at every step.
        learning_rate: Adam's step size; it falls to a tenth in the second half.
        reconstruction_weight: weight of the rewards' reconstruction from z and the change of the level's statistics;
            0 is PEARL as published.
    """

    iterations: int = 36
    warm_up: int = 2
    tasks: int = 50
    prior_episodes: int = 1
    posterior_episodes: int = 1
    capacity: int = 12
    updates: int = 30
    update_tasks: int = 16
    batch_size: int = 128
    context_size: int = 120
    kl_weight: float = 1e-3
    temperature: float = 0.1
    gamma: float = 0.8
    target_rate: float = 0.01
    learning_rate: float = 3e-3
    reconstruction_weight: float = 0.0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: needs an integer of at least 1, got {value!r}")
        if self.warm_up > self.iterations:
            raise ValueError(f"warm_up: {self.warm_up} of {self.iterations} iterations leave none to train")
        if self.capacity < self.prior_episodes + self.posterior_episodes:
            raise ValueError(f"capacity: {self.capacity} episodes do not hold one round's")
        for name in ("kl_weight", "temperature", "reconstruction_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: must be at least 0, got {getattr(self, name)!r}")
        for name in ("gamma", "target_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: must lie in [0, 1], got {getattr(self, name)!r}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate: must be above 0, got {self.learning_rate!r}")


_COUNTS = (
    "iterations", "warm_up", "tasks", "prior_episodes", "posterior_episodes", "capacity", "updates", "update_tasks",
    "batch_size", "context_size",
)  # fmt: skip


@dataclass(frozen=True)
class ContextAgent:
    """The networks of an agent that infers z; they hold sizes only.

    Attributes:
        network: of actor and critics.
        encoder: of the posterior.
    """

    network: LatentNetwork
    encoder: LatentEncoder

    @property
    def latent(self) -> int:
        """Length of z, Z."""
        return self.network.latent

    def init(self, generator: torch.Generator) -> Params:
        """Draw all parameters; names start with ``actor.``, ``critic.`` (a leading axis of two) and ``encoder.``."""
        return join(
            {
                "actor": self.network.init(generator),
                "critic": self.network.init_twins(generator),
                "encoder": self.encoder.init(generator),
            }
        )


def level_agent(
    game: str, representation: str, latent: int = 4, crop: int = 5, hidden: Sequence[int] = (64, 64)
) -> ContextAgent:
    """The agent for a game and representation; parameters have the same shapes for all of them."""
    return ContextAgent(
        LatentCropNetwork(game, representation, latent, crop, hidden),
        TransitionEncoder(game, representation, latent, crop, hidden),
    )


# ---------------------------------------------------------------------------------------------------------- transitions


class Transitions(NamedTuple):
    """Transitions with any leading axes.

    Attributes:
        obs, next_obs: what was seen before and after, each (…, *observation).
        actions: int64 (…).
        rewards: (…).
        terminated: (…), 1 where the task ended with it; a clock that cut the episode leaves 0.
        valid: (…), 1 where there is a transition, 0 behind the end of an episode.
        changes: (…, S), change of the level's statistics; S = 0 when it was not recorded.
    """

    obs: dict[str, Tensor]
    actions: Tensor
    rewards: Tensor
    next_obs: dict[str, Tensor]
    terminated: Tensor
    valid: Tensor
    changes: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> Transitions:
        """Apply a function to every tensor."""
        return Transitions(
            *({k: function(v) for k, v in part.items()} if isinstance(part, dict) else function(part) for part in self)
        )


def transitions_of(batch: Batch) -> Transitions:
    """The transitions of a batch of episodes, axes (M, E, T); s' of an episode's last step is ``final_obs``."""
    valid = batch["mask"]
    last = (valid.sum(-1).long() - 1).clamp(min=0)
    next_obs = {}
    for name, seen in batch["obs"].items():
        following = torch.cat([seen[:, :, 1:], seen[:, :, -1:]], dim=2)
        index = last[..., None].reshape(*last.shape, 1, *([1] * (seen.ndim - 3))).expand(-1, -1, 1, *seen.shape[3:])
        next_obs[name] = following.scatter(2, index, batch["final_obs"][name].unsqueeze(2))
    changes = batch["changes"] if "changes" in batch else valid.new_zeros((*valid.shape, 0))
    return Transitions(
        batch["obs"], batch["actions"], batch["rewards"], next_obs, batch["terminated"], valid, changes
    )  # fmt: skip


def one_context(transitions: Transitions) -> Transitions:
    """Put the episodes of every task one after the other: (M, E, T, …) → (M, E·T, …)."""
    return transitions.map(lambda x: x.flatten(1, 2))


def first_transitions(context: Transitions, count: int) -> Transitions:
    """Keep the first ``count`` valid transitions along the last axis of ``valid``; the others become invalid."""
    return context._replace(valid=context.valid * (context.valid.cumsum(-1) <= count))


class Replay:
    """The last episodes of every task, observations as bytes.

    Args:
        num_tasks: tasks, N.
        capacity: episodes per task; a further one overwrites the oldest.
        horizon: most steps of an episode.
    """

    def __init__(self, num_tasks: int, capacity: int, horizon: int):
        self.num_tasks, self.capacity, self.horizon = num_tasks, capacity, horizon
        self.count = torch.zeros(num_tasks, dtype=torch.int64)
        self._stored: Transitions | None = None

    def add(self, tasks: Tensor, transitions: Transitions) -> None:
        """Store episodes (M, E, T, …) of the tasks with the given numbers (M,), each of which occurs once."""
        if self._stored is None:
            self._stored = transitions.map(self._allocate)
        steps = transitions.valid.shape[2]
        for episode in range(transitions.valid.shape[1]):
            slot = self.count[tasks] % self.capacity
            for store, new in zip(_tensors(self._stored), _tensors(transitions), strict=True):
                store[tasks, slot, :steps] = new[:, episode].to(store)
            self._stored.valid[tasks, slot, steps:] = 0
            self.count[tasks] += 1

    def sample(self, tasks: Tensor, size: int, generator: torch.Generator) -> Transitions:
        """Draw ``size`` transitions per task, all that are kept equally likely: (M, size, …)."""
        lengths = self._stored.valid[tasks].sum(-1)  # (M, capacity); unused slots have length 0
        until = lengths.cumsum(-1)
        draw = torch.rand((len(tasks), size), generator=generator) * until[:, -1:]
        episode = torch.searchsorted(until, draw, right=True).clamp(max=self.capacity - 1)
        before = (until - lengths).gather(1, episode)
        step = torch.minimum((draw - before).long(), lengths.gather(1, episode).long() - 1)
        return self._take(tasks[:, None], episode, step)

    def recent(self, tasks: Tensor, episodes: int, size: int, generator: torch.Generator) -> Transitions:
        """Up to ``size`` different transitions of each task's last episodes, in random order: (M, size, …)."""
        age = torch.arange(episodes)
        slots = (self.count[tasks][:, None] - 1 - age) % self.capacity
        known = (age < self.count[tasks][:, None]).float()
        valid = (self._stored.valid[tasks[:, None], slots] * known[..., None]).flatten(1)
        # Positions without a transition sort behind all others.
        order = (torch.rand(valid.shape, generator=generator) + 2.0 * (1.0 - valid)).argsort(-1)[:, :size]
        episode = slots.gather(1, order // self.horizon)
        chosen = self._take(tasks[:, None], episode, order % self.horizon)
        return chosen._replace(valid=valid.gather(1, order))

    def state(self) -> dict[str, Any]:
        """Everything it holds, as tensors and containers."""
        stored = None
        if self._stored is not None:
            stored = {name: _copy(part) for name, part in self._stored._asdict().items()}
        return {"count": self.count.clone(), "stored": stored}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a state that ``state`` gave."""
        self.count = state["count"].clone()
        stored = state["stored"]
        self._stored = None if stored is None else Transitions(**{name: _copy(part) for name, part in stored.items()})

    def _allocate(self, like: Tensor) -> Tensor:
        return torch.zeros((self.num_tasks, self.capacity, self.horizon, *like.shape[3:]), dtype=like.dtype)

    def _take(self, task: Tensor, episode: Tensor, step: Tensor) -> Transitions:
        return self._stored.map(lambda x: x[task, episode, step])


def _tensors(transitions: Transitions) -> list[Tensor]:
    return [t for part in transitions for t in (part.values() if isinstance(part, dict) else (part,))]


def _copy(part: Any) -> Any:
    return {k: v.clone() for k, v in part.items()} if isinstance(part, dict) else part.clone()


class _StatisticsRecorder:
    """A level problem that remembers how every step changed the statistics."""

    def __init__(self, problem: Any):
        self._problem = problem
        self.num_tasks, self.num_envs, self.horizon = problem.num_tasks, problem.num_envs, problem.horizon

    def reset(self, seed: np.random.SeedSequence) -> Any:
        obs = self._problem.reset(seed)
        self._changes: list[np.ndarray] = []
        self._before = self._problem.engine.stats.copy()
        return obs

    def step(self, actions: np.ndarray) -> Any:
        result = self._problem.step(actions)
        now = self._problem.engine.stats.copy()
        self._changes.append(now - self._before)
        self._before = now
        return result

    def changes(self) -> Tensor:
        """(M, E, T, S) float32."""
        return torch.from_numpy(np.stack(self._changes, axis=2).astype(np.float32))


# ------------------------------------------------------------------------------------------------------------- training


def posterior(functions: Any, encoder: LatentEncoder, params: Params, context: Transitions) -> tuple[Tensor, Tensor]:
    """Mean and variance of z given transitions: valid ones of (…, N) → (…, Z) each; the prior where none is valid.

    Args:
        functions: has ``transition_inputs`` and ``gaussian_product``.
        params: the encoder's.
    """
    inputs = functions.transition_inputs(
        *encoder.parts(context.obs, context.actions, context.rewards, context.next_obs)
    )
    means, variances = encoder.factors(params, inputs)
    return functions.gaussian_product(means, variances, context.valid, True)


def off_policy_train(
    functions: Any,
    agent: ContextAgent,
    tasks: TaskBatch,
    make_problem: Callable[[TaskBatch, int], Problem],
    settings: OffPolicySettings,
    seed: int | np.random.SeedSequence,
    device: torch.device | str = "cpu",
    on_iteration: Callable[[int, Params, dict[str, float]], None] | None = None,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    state_every: int = 10,
    told: Tensor | None = None,
) -> TrainingResult:
    """Train encoder, actor and critics together with a student's functions.

    Args:
        functions: has the functions named in ``FUNCTIONS``.
        agent: the networks.
        tasks: the training tasks, each with a replay of its own; anything with a length that an array can index.
        make_problem: (tasks, episodes per task) → environments.
        settings: see ``OffPolicySettings``.
        seed: every random number of the run comes from it.
        device: where networks run; the replay stays in main memory.
        on_iteration, resume, on_state, state_every: as in ``meta_training.meta_train``.
        told: (N, Z), what the networks get as z instead of a draw: soft actor-critic told its task, without inference.
            The encoder is then not trained, and its three functions are not called.

    Returns:
        Final parameters (``actor.``, ``critic.``, ``encoder.``, and ``reward.`` with reconstruction) and one row of
        metrics per iteration: mean return with z from the prior and from the posterior (``return_before``,
        ``return_after``), loss of the critics, KL divergence in nats, entropy of the policy in nats, environment steps
        and seconds so far.

    Raises:
        Diverged: a loss or a parameter is no longer finite.
        ValueError: more tasks are asked for than there are, or ``told`` does not fit tasks and networks.
    """
    if told is not None and (told.shape != (len(tasks), agent.latent) or settings.reconstruction_weight):
        raise ValueError(
            f"told: needs shape ({len(tasks)}, {agent.latent}) and no reconstruction, got {tuple(told.shape)} and "
            f"reconstruction_weight {settings.reconstruction_weight}"
        )
    for name in ("tasks", "update_tasks"):
        if getattr(settings, name) > len(tasks):
            raise ValueError(f"{name}: {getattr(settings, name)} are asked for, there are {len(tasks)} training tasks")
    if settings.reconstruction_weight and not hasattr(tasks, "weights"):
        raise ValueError("reconstruction_weight: these tasks do not pay for changes of statistics; use 0")
    streams = Streams(seed, device)
    # What is drawn for the replay and for z is drawn on the CPU, so that it does not depend on the device.
    draws = streams.parameters
    leaves = agent.init(draws)
    if settings.reconstruction_weight:
        leaves |= join({"reward": _init_reward_model(agent.latent, tasks.weights.shape[1], draws)})
    leaves = {k: v.detach().clone().requires_grad_(True) for k, v in to_device(leaves, device).items()}
    target = _cloned(select(leaves, "critic"))
    adam = torch.optim.Adam(list(leaves.values()), lr=settings.learning_rate)
    replay: Replay | None = None
    history: list[dict[str, float]] = []
    start, env_steps, first = time.perf_counter(), 0, 0
    unused = np.random.SeedSequence(0)  # tasks are given, not drawn
    if resume is not None:
        resume.apply(leaves, adam, streams, unused)
        history, env_steps, first = list(resume.history), resume.env_steps, resume.iteration
        start -= resume.seconds
        target = to_device({k: v.clone() for k, v in resume.extra["target"].items()}, device)
        replay = Replay(len(tasks), settings.capacity, resume.extra["horizon"])
        replay.restore(resume.extra["replay"])

    for iteration in range(first, settings.iterations):
        good = _cloned(leaves)
        share = min(1.0, 2.0 * (1.0 - iteration / settings.iterations))
        adam.param_groups[0]["lr"] = settings.learning_rate * max(0.1, share)

        everyone = iteration < settings.warm_up or settings.tasks == len(tasks)
        chosen = torch.arange(len(tasks)) if everyone else _choose(len(tasks), settings.tasks, draws)
        returns = []
        context: Transitions | None = None
        for episodes in (settings.prior_episodes, settings.posterior_episodes):
            problem = make_problem(tasks[chosen.numpy()], episodes)
            if replay is None:
                replay = Replay(len(tasks), settings.capacity, problem.horizon)
            shape = (len(chosen), episodes, agent.latent)
            if told is None:
                latent = _latent(functions, agent, leaves, context, shape, draws, device)
            else:
                latent = told[chosen].unsqueeze(1).expand(shape).to(device)
            batch = play(problem, agent, leaves, latent, streams, device, settings.reconstruction_weight > 0)
            transitions = transitions_of(batch)
            replay.add(chosen, transitions.map(lambda x: x.cpu()))
            context = one_context(transitions)
            env_steps += int(batch["mask"].sum())
            returns.append(float(episode_returns(batch).mean()))

        losses: list[Tensor] = []
        for _ in range(settings.updates if iteration + 1 >= settings.warm_up else 0):
            loss, metrics = _loss(functions, agent, leaves, target, replay, settings, draws, device, told)
            adam.zero_grad()
            loss.backward()
            adam.step()
            target = functions.soft_update(target, detach(select(leaves, "critic")), settings.target_rate)
            losses.append(metrics)
        means = torch.stack(losses).mean(0).tolist() if losses else [float("nan")] * 3
        row = {
            "iteration": iteration,
            "return_before": returns[0],
            "return_after": returns[1],
            **dict(zip(("critic_loss", "kl", "entropy"), means, strict=True)),
            "env_steps": env_steps,
            "seconds": time.perf_counter() - start,
        }
        finite = all(bool(torch.isfinite(v).all()) for v in leaves.values())
        if not finite or (losses and not np.isfinite(means[0])):
            raise Diverged(f"training diverged at iteration {iteration}: loss of the critics {means[0]}", good)
        history.append(row)
        if on_iteration is not None:
            on_iteration(iteration, leaves, row)
        if on_state is not None and (iteration + 1) % state_every == 0:
            extra = {
                "target": {k: v.cpu().clone() for k, v in target.items()},
                "replay": replay.state(),
                "horizon": replay.horizon,
            }
            seconds = time.perf_counter() - start
            on_state(TrainingState.of(leaves, adam, streams, unused, history, env_steps, seconds, extra))
    return TrainingResult(detach(leaves), history)


def _loss(
    functions: Any,
    agent: ContextAgent,
    leaves: Params,
    target: Params,
    replay: Replay,
    settings: OffPolicySettings,
    draws: torch.Generator,
    device: torch.device | str,
    told: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The sum of all losses, whose parts reach different parameters, and (critics' loss, KL, entropy)."""
    chosen = _choose(replay.num_tasks, settings.update_tasks, draws)
    batch = _to(replay.sample(chosen, settings.batch_size, draws), device)
    shape = (*batch.actions.shape, agent.latent)
    if told is None:
        per_round = settings.prior_episodes + settings.posterior_episodes
        context = replay.recent(chosen, per_round, settings.context_size, draws)
        # From no transition to all: the posterior has to be right, and the actor to cope, at every size of the context.
        sizes = torch.randint(0, context.valid.shape[1] + 1, (len(chosen), 1), generator=draws)
        context = _to(first_transitions(context, sizes), device)

        mean, variance = posterior(functions, agent.encoder, select(leaves, "encoder"), context)
        kl = functions.kl_to_prior(mean, variance).mean()
        # One draw of z per transition instead of one per task: the same expectation, less noise.
        noise = torch.randn(shape, generator=draws).to(device)
        latent = functions.choose_latent(mean.unsqueeze(-2), variance.unsqueeze(-2), noise)
    else:
        latent, kl = told[chosen].unsqueeze(1).expand(shape).to(device), torch.zeros((), device=device)

    network, actor = agent.network, select(leaves, "actor")
    features = network.features(batch.obs)
    with torch.no_grad():
        following = network.features(batch.next_obs)
        next_log_probs = torch.log_softmax(network.scores(actor, following, latent), dim=-1)
        next_q = network.scores(target, following, latent)
        values = functions.soft_target(
            batch.rewards, batch.terminated, next_q[0], next_q[1], next_log_probs, settings.gamma, settings.temperature
        )
    q = network.scores(select(leaves, "critic"), features, latent)
    index = batch.actions[None, ..., None].expand(2, *batch.actions.shape, 1)
    critic_loss = 0.5 * ((q.gather(-1, index).squeeze(-1) - values) ** 2).sum(0).mean()

    log_probs = torch.log_softmax(network.scores(actor, features, latent.detach()), dim=-1)
    policy_loss = functions.actor_loss(log_probs, q[0], q[1], settings.temperature)
    loss = critic_loss + settings.kl_weight * kl + policy_loss
    if settings.reconstruction_weight:
        loss = loss + settings.reconstruction_weight * _reconstruction(select(leaves, "reward"), mean, batch)
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
    return loss, torch.stack([critic_loss.detach(), kl.detach(), entropy.detach()])


def _init_reward_model(latent: int, statistics: int, generator: torch.Generator) -> Params:
    return {"weight": 0.5 * torch.randn((latent, statistics), generator=generator), "bias": torch.zeros(statistics)}


def _reconstruction(params: Params, mean: Tensor, batch: Transitions) -> Tensor:
    """Error of the reward read off the posterior's mean: r ≈ (W mean + b) · Δ(statistics).

    Rakelly et al. (2019, section 4.1) name this way of training the encoder beside the critics' loss. Exact for
    families that pay plain changes, such as ``direction``. Rare large changes would drown all others, so each
    transition counts by its direction.
    """
    pays = (mean @ params["weight"] + params["bias"]).unsqueeze(-2)
    size = batch.changes.norm(dim=-1).clamp(min=1.0)
    return (((batch.rewards - (pays * batch.changes).sum(-1)) / size) ** 2).mean()


def _latent(
    functions: Any,
    agent: ContextAgent,
    params: Params,
    context: Transitions | None,
    shape: tuple[int, int, int],
    draws: torch.Generator,
    device: torch.device | str,
) -> Tensor:
    """Draw z (M, E, Z): from the posterior given (M, N) transitions, or from the prior given none."""
    noise = torch.randn(shape, generator=draws).to(device)
    if context is None:
        return functions.choose_latent(torch.zeros_like(noise), torch.ones_like(noise), noise)
    with torch.no_grad():
        mean, variance = posterior(functions, agent.encoder, select(params, "encoder"), context)
        return functions.choose_latent(mean.unsqueeze(1), variance.unsqueeze(1), noise)


def play(
    problem: Problem,
    agent: ContextAgent,
    params: Params,
    latent: Tensor,
    streams: Streams,
    device: torch.device | str,
    record: bool = False,
) -> Batch:
    """One episode per environment with the given z, (M, E, Z) or what broadcasts to it.

    Args:
        params: all of the agent's; the actor's are used.
        record: add ``changes``, (M, E, T, S), of the level's statistics to the batch.

    Returns:
        A batch as in ``rollouts.collect``.
    """
    recorder = _StatisticsRecorder(problem) if record else problem
    batch = collect(recorder, GivenLatent(agent.network, latent), select(params, "actor"), streams, device)
    if record:
        batch["changes"] = recorder.changes().to(device)
    return batch


def _cloned(params: Params) -> Params:
    # Adam writes in place, so what must stay as it is has to be a copy.
    return {name: value.detach().clone() for name, value in params.items()}


def _choose(total: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(total, generator=generator)[:count]


def _to(transitions: Transitions, device: torch.device | str) -> Transitions:
    return transitions if torch.device(device).type == "cpu" else transitions.map(lambda x: x.to(device))


# ----------------------------------------------------------------------------------------------------------------- test


@dataclass(frozen=True)
class Trials:
    """What ``adapt_by_context`` gives; every environment is a trial of its own.

    Attributes:
        returns: (M, E, K + 1) return of each episode of each trial: z from the prior, then posterior means.
        context: the transitions of all its episodes but the last, valid ones of (M, E, K·T).
        means, variances: (M, E, K + 1, Z), what was known of z before each episode; the prior's before the first.
    """

    returns: np.ndarray
    context: Transitions
    means: Tensor
    variances: Tensor


def adapt_by_context(
    functions: Any,
    agent: ContextAgent,
    params: Params,
    problem: Problem,
    num_steps: int,
    seed: int | np.random.SeedSequence,
    device: torch.device | str = "cpu",
    sample: bool = False,
    on_episode: Callable[[int], None] | None = None,
) -> Trials:
    """Play trials of ``num_steps`` + 1 episodes; between two episodes the agent looks at all it has collected so far.

    Nothing is shared between the environments of a task, and nothing was collected by another policy: what the agent
    knows in episode k comes from its own k episodes before.

    Args:
        functions: has ``transition_inputs``, ``gaussian_product`` and ``choose_latent``.
        problem: environments with fixed tasks, M × E.
        num_steps: K.
        seed: randomness of the evaluation; training never sees it.
        sample: draw z for every episode (posterior sampling) instead of taking the mean from the second one on. It goes
            on exploring, which a sparse reward needs.
        on_episode: called with the episode's number when it has ended in all environments.
    """
    streams = Streams(seed, device)
    draws = streams.parameters
    shape = (problem.num_tasks, problem.num_envs, agent.latent)
    mean, variance = torch.zeros(shape, device=device), torch.ones(shape, device=device)
    params = to_device(params, device)
    episodes: list[Transitions] = []
    returns, means, variances = [], [mean], [variance]
    with torch.no_grad():
        # The first z is drawn, so that trials explore differently; a mean would make the same first guess in all of
        # them.
        for step in range(num_steps + 1):
            noise = torch.randn(shape, generator=draws).to(device) if sample or step == 0 else None
            latent = functions.choose_latent(mean, variance, noise)
            batch = play(problem, agent, params, latent, streams, device)
            returns.append(episode_returns(batch))
            if on_episode is not None:
                on_episode(step)
            if step == num_steps:
                break
            episodes.append(transitions_of(batch))
            mean, variance = posterior(functions, agent.encoder, select(params, "encoder"), _chain(episodes))
            means.append(mean)
            variances.append(variance)
    return Trials(
        torch.stack(returns, dim=-1).cpu().numpy(),
        _chain(episodes) if episodes else transitions_of(batch).map(lambda x: x[:, :, :0]),
        torch.stack(means, dim=2),
        torch.stack(variances, dim=2),
    )


def returns_by_context(
    functions: Any,
    agent: ContextAgent,
    params: Params,
    problem: Problem,
    context: Transitions,
    sizes: Sequence[int],
    seed: int | np.random.SeedSequence,
    device: torch.device | str = "cpu",
) -> np.ndarray:
    """Return of a fresh episode with the posterior's mean given the first n transitions of each trial, for every n.

    Args:
        context: valid ones of (M, E, N), from ``adapt_by_context`` on the same tasks and as many environments.
        sizes: numbers of context transitions; 0 is the prior's mean.
        seed: every size is evaluated on the same start levels and random numbers.

    Returns:
        (M, E, len(sizes)).
    """
    params = to_device(params, device)
    returns = []
    for size in sizes:
        with torch.no_grad():
            given = first_transitions(context, size)
            mean, variance = posterior(functions, agent.encoder, select(params, "encoder"), given)
            latent = functions.choose_latent(mean, variance, None)
        batch = play(problem, agent, params, latent, Streams(seed, device), device)
        returns.append(episode_returns(batch))
    return torch.stack(returns, dim=-1).cpu().numpy()


def _chain(episodes: Sequence[Transitions]) -> Transitions:
    """Join episodes (M, E, T, …) along time."""
    if len(episodes) == 1:
        return episodes[0]
    joined = []
    for parts in zip(*episodes, strict=True):
        if isinstance(parts[0], dict):
            joined.append({k: torch.cat([part[k] for part in parts], dim=2) for k in parts[0]})
        else:
            joined.append(torch.cat(parts, dim=2))
    return Transitions(*joined)

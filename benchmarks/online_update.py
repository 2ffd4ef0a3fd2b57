"""Time of one update of the online learner, and of one decision, on one core, in NumPy and in torch.

    python benchmarks/online_update.py [--decisions 60] [--repeats 300]

An update learns from one fight of that many decisions. Every line is the median over the repeats, with the tenth and
ninetieth percentiles. NumPy and torch take turns in bursts of ten calls, so that a busy machine slows both; on cold
caches a single call takes several times as long. Both run in one thread. torch is given the same formulas, in float32
(its usual precision; NumPy computes in float64), and its gradient by autograd.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

from metapcg.personal.arena import Fight, choose, legal_actions  # noqa: E402
from metapcg.personal.features import boss_features, boss_legal  # noqa: E402
from metapcg.personal.learner import Learner  # noqa: E402
from metapcg.personal.modular_mind import ModularMind, from_numpy, to_numpy  # noqa: E402
from metapcg.personal.trajectories import parse_trajectory  # noqa: E402

TARGETS = {"update, NumPy": 5000.0, "forward, NumPy": 50.0}
"""Microseconds."""

BURST = 10


def recorded_fight(decisions: int) -> dict:
    """The log of a fight between two random sides that lasts long enough."""
    for seed in range(10_000):
        fight, generator = Fight(seed), np.random.default_rng(seed)
        while not fight.over and int(fight.state.step) < decisions:
            fight.step(*(int(choose(legal_actions(fight.state, side), generator)) for side in (0, 1)))
        if int(fight.state.step) == decisions:
            return fight.log()
    raise ValueError(f"--decisions: no fight of {decisions} decisions was found; choose 2 … {Fight(0).rules.max_steps}")


def torch_update(policy, params, anchor, adam, obs, actions, advantages, settings):
    """What ``Learner.update`` does after the advantages, by autograd and torch's Adam."""
    dist = policy.distribution(params, obs)
    gain = advantages * dist.log_prob(actions) + settings.entropy_weight * dist.entropy()
    loss = -gain.mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
    with torch.no_grad():
        for name, value in params.items():
            value.lerp_(anchor[name], settings.pull)


def measure(functions: dict, repeats: int) -> dict[str, np.ndarray]:
    """Microseconds of every function's calls: median, tenth and ninetieth percentile."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(-(-repeats // BURST)):
        for name, function in functions.items():
            function()  # the first call of a burst finds the caches full of somebody else's data
            for _ in range(BURST):
                start = time.perf_counter()
                function()
                times[name].append(1e6 * (time.perf_counter() - start))
    return {name: np.percentile(values, [50, 10, 90]) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=60, help="decisions of the fight")
    parser.add_argument("--repeats", type=int, default=300, help="calls of every function")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    log = recorded_fight(arguments.decisions)
    text = json.dumps(log).encode()
    fight = parse_trajectory(text)
    policy = ModularMind()
    start = policy.init(torch.Generator().manual_seed(0))
    learner, reader = Learner(to_numpy(start)), Learner(to_numpy(start))
    mind, settings = learner.mind, learner.settings
    advantages = learner.advantages([fight])
    gradient_arguments = (fight.features, fight.legal, fight.actions, advantages, settings.entropy_weight)

    params = {k: v.requires_grad_() for k, v in from_numpy(to_numpy(start)).items()}
    anchor = {k: v.detach().clone() for k, v in params.items()}
    adam = torch.optim.Adam(list(params.values()), lr=settings.lr)
    obs = {"state": torch.tensor(fight.features).float(), "legal": torch.tensor(fight.legal).float()}
    actions, advantages_torch = torch.tensor(fight.actions), torch.tensor(advantages).float()
    one = {name: value[:1] for name, value in obs.items()}

    def torch_gradient():
        dist = policy.distribution(params, obs)
        gain = advantages_torch * dist.log_prob(actions) + settings.entropy_weight * dist.entropy()
        return torch.autograd.grad(-gain.mean(), list(params.values()))

    def torch_forward():
        with torch.no_grad():
            return policy.distribution(params, one).log_probs.exp()

    def by_step():
        return np.mean(
            [mind.step_gradient(*row, settings.entropy_weight) for row in zip(*gradient_arguments[:4], strict=True)], 0
        )

    state = Fight(0).state
    fresh = Learner(to_numpy(start)).mind  # its weights stay as they are
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        results = measure(
            {
                "forward, NumPy": lambda: fresh.probabilities(fight.features[:1], fight.legal[:1]),
                "forward, torch": torch_forward,
                "state to features and mask": lambda: (boss_features(state), boss_legal(state)),
                "gradient, NumPy": lambda: mind.gradient(*gradient_arguments),
                "gradient, torch": torch_gradient,
                "gradient, NumPy, step by step": by_step,
                "update, NumPy": lambda: learner.update([fight]),
                "update, torch": lambda: torch_update(
                    policy, params, anchor, adam, obs, actions, advantages_torch, settings
                ),
                "log read and checked": lambda: parse_trajectory(text),
                "update from a log's bytes": lambda: reader.update([text]),
                "learner saved": lambda: learner.save(path, durable=False),
                "learner saved, on the disk": lambda: learner.save(path),
            },
            arguments.repeats,
        )

    print(
        f"{platform.platform()}, Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}"
    )
    print(f"one fight of {len(fight)} decisions ({len(text)} bytes), {mind.sizes.count} weights, one thread")
    print(f"{'µs':32s}{'median':>10s}{'10 %':>10s}{'90 %':>10s}   target")
    for name, (median, low, high) in results.items():
        target = f"{TARGETS[name]:.0f} {'met' if median < TARGETS[name] else 'MISSED'}" if name in TARGETS else ""
        print(f"{name:32s}{median:10.1f}{low:10.1f}{high:10.1f}   {target}")


if __name__ == "__main__":
    main()

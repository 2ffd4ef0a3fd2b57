"""Environment steps per second of the level engine, on one core, for all nine game x representation ids.

    python benchmarks/engine.py [--shape 20x20] [--seconds 0.5] [--repeats 5] [--only binary-narrow] [--quirks]
    [--startup]

A step here is everything an agent needs: the edit, the statistics, the reward, the goal and the limits, the
observation (the crop round the position, for wide the padded level), and, whenever environments have finished, their
reset on freshly drawn levels. The agent is random; its actions are drawn before the clock starts. Default sizes,
rewards, limits and start probabilities. The rates of gym-pcgrl beside it (same protocol, its default settings,
actions sampled inside its loop) were measured once on another machine of two AMD EPYC cores, so the ratio is a guide,
not a race.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

from metapcg.envs import REPRESENTATIONS, LevelEngine
from metapcg.games import GAMES

GYM_PCGRL_STEPS_PER_SECOND = {
    "binary-narrow": 3157,
    "binary-turtle": 6067,
    "binary-wide": 2094,
    "zelda-narrow": 8200,
    "zelda-turtle": 10847,
    "zelda-wide": 7659,
    "sokoban-narrow": 10731,
    "sokoban-turtle": 15468,
    "sokoban-wide": 9193,
}
"""gym-pcgrl 0.4.0, one process, random agent, resets included; median on two AMD EPYC cores, Python 3.11."""

STARTUP = """
import time
start = time.perf_counter()
import numpy as np
from metapcg.envs import LevelEngine
imported = time.perf_counter()
engine = LevelEngine("{game}", "narrow")
engine.reset(0)
engine.step(np.zeros((1, 1), np.int64))
print(imported - start, time.perf_counter() - imported)
"""


def measure(game, representation, shape, seconds, repeats, quirks):
    """Measure ``repeats`` stretches of at least ``seconds`` each.

    Returns the median, lowest and highest steps per second, and the median of steps per second of processor time, which
    other processes on the machine disturb less.
    """
    engine = LevelEngine(game, representation, num_tasks=shape[0], num_envs=shape[1], quirks=quirks)
    rng = np.random.default_rng(1)
    actions = rng.integers(0, engine.num_actions, (512, *shape))
    engine.reset(0)
    index = 0

    def stretch(duration):
        nonlocal index
        steps = 0
        start, start_cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - start < duration:
            for _ in range(16):
                engine.step(actions[index % len(actions)])
                index += 1
                if not engine.active.all():
                    engine.reset(mask=~engine.active)
            steps += 16 * engine.active.size
        return steps / (time.perf_counter() - start), steps / (time.process_time() - start_cpu)

    stretch(seconds / 2)  # compiled, caches warm, episodes out of phase
    rates, cpu_rates = zip(*(stretch(seconds) for _ in range(repeats)), strict=True)
    return statistics.median(rates), min(rates), max(rates), statistics.median(cpu_rates)


def measure_startup(game):
    """Return ((import, first step) in seconds with an empty kernel cache, the same in the next process)."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            output = subprocess.run(
                [sys.executable, "-c", STARTUP.format(game=game)],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            results.append(tuple(float(number) for number in output.stdout.split()))
    return results


def _shape(text):
    try:
        tasks, envs = (int(part) for part in text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"needs TASKSxENVIRONMENTS such as 20x20, got {text!r}") from None
    return tasks, envs


def cpu_name():
    """Return the processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description="environment steps per second of the level engine on one core")
    parser.add_argument("--shape", type=_shape, default=(20, 20), metavar="MxE", help="tasks x environments")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one repeat")
    parser.add_argument("--repeats", type=int, default=5, help="the median is printed")
    parser.add_argument("--only", metavar="ID", choices=sorted(GYM_PCGRL_STEPS_PER_SECOND), help="one of the nine")
    parser.add_argument("--quirks", action="store_true", help="measure quirks='gym-pcgrl' in place of the default")
    parser.add_argument("--startup", action="store_true", help="time the first step with and without cached kernels")
    options = parser.parse_args()
    quirks = "gym-pcgrl" if options.quirks else None

    versions = f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}"
    print(f"{cpu_name()}, one thread; {versions}")
    if options.startup:
        (cold_import, cold), (warm_import, warm) = measure_startup("binary")
        print(f"first use, kernels compiled: import {cold_import:.1f} s, first reset and step {cold:.1f} s")
        print(f"later starts, kernels cached: import {warm_import:.1f} s, first reset and step {warm:.1f} s")
        return
    tasks, envs = options.shape
    print(
        f"{tasks} tasks x {envs} environments, quirks={quirks!r}, median of {options.repeats} x {options.seconds} s, "
        "random agent with pre-drawn actions, resets included"
    )
    print("gym-pcgrl: measured once on two AMD EPYC cores, one process; ratio: to the median\n")
    columns = ("median", "lowest", "highest", "per CPU s", "gym-pcgrl")
    print(f"{'steps/s':<16}" + "".join(f"{column:>12}" for column in columns) + f"{'ratio':>8}")
    for game in GAMES:
        for representation in REPRESENTATIONS:
            name = f"{game}-{representation}"
            if options.only in (None, name):
                rates = measure(game, representation, options.shape, options.seconds, options.repeats, quirks)
                peer = GYM_PCGRL_STEPS_PER_SECOND[name]
                numbers = "".join(f"{rate:>12,.0f}" for rate in (*rates, peer))
                print(f"{name:<16}{numbers}{rates[0] / peer:>8.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Environment steps per second of the level engine, on one core, for all nine game x representation ids.

    python benchmarks/engine.py [--against PATH_TO_GYM_PCGRL] [--shape 20x20] [--seconds 0.5] [--repeats 5]
    [--only binary-narrow] [--quirks] | --startup | --sokoban

A step here is everything an agent needs: the edit, the statistics, the reward, the goal and the limits, the
observation (the crop round the position, for wide the padded level), and, whenever environments have finished, their
reset on freshly drawn levels. The agent is random and draws its actions while the clock runs. Default sizes, rewards,
limits and start probabilities. Rates are steps per second of *processor time*, which other programs on the machine
disturb less than the clock on the wall.

``--against`` measures the original gym-pcgrl in turn with the engine, stretch by stretch, under the same protocol, in a
process of its own (``--against-python``, default PATH/.venv/bin/python). It runs on no current gym; this makes an
environment in which it does:

    git clone https://github.com/amidos2006/gym-pcgrl PATH && python3.11 -m venv PATH/.venv
    PATH/.venv/bin/pip install "setuptools<66" "wheel<0.39" numpy==1.23.5 pillow
    PATH/.venv/bin/pip install --no-build-isolation gym==0.21.0

``--startup`` measures the first use after an installation and later ones. ``--sokoban`` looks for levels that take the
solver long, at random and then by changing the worst ones further, at the default budget.
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
from metapcg.envs.engine import BUFFERS
from metapcg.games import GAMES, get_game, search_space

IDS = [f"{game}-{representation}" for game in GAMES for representation in REPRESENTATIONS]
BLOCK = 64  # steps for which the random agent draws its actions at once

ORIGINAL = """
import sys, time
sys.path.insert(0, sys.argv[1])
import gym, gym_pcgrl, numpy
assert gym_pcgrl.__file__.startswith(sys.argv[1]), gym_pcgrl.__file__
print("gym-pcgrl with gym", gym.__version__, "numpy", numpy.__version__, flush=True)
environments = {}
for line in sys.stdin:
    name, seconds = line.split()
    if name not in environments:
        environments[name] = gym.make(name + "-v0")
        environments[name].seed(1)
        environments[name].action_space.seed(1)
        environments[name].reset()
    environment = environments[name]
    steps, start = 0, time.process_time()
    while time.process_time() - start < float(seconds):
        for _ in range(16):
            done = environment.step(environment.action_space.sample())[2]
            steps += 1
            if done:
                environment.reset()
    print(steps / (time.process_time() - start), flush=True)
"""

STARTUP = """
import time
start = time.perf_counter(), time.process_time()
import numpy as np
from metapcg.envs import LevelEngine
from metapcg.envs.engine import compile_kernels
{call}
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""
FIRST_STEP = 'engine = LevelEngine("binary", "narrow"); engine.reset(0); engine.step(np.zeros((1, 1), np.int64))'


class Original:
    """gym-pcgrl in a process of its own."""

    def __init__(self, path, python):
        self.process = subprocess.Popen(
            [python, "-I", "-c", ORIGINAL, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.versions = self.process.stdout.readline().strip()
        if not self.versions:
            raise SystemExit(f"--against: {python} cannot run gym-pcgrl from {path}, see its message above")

    def rate(self, name, seconds):
        """Steps per second of processor time."""
        print(name, seconds, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def stretches(name, shape, quirks):
    """A function that steps the engine for some seconds of processor time and returns the steps per second."""
    game, representation = name.split("-")
    engine = LevelEngine(game, representation, num_tasks=shape[0], num_envs=shape[1], quirks=quirks)
    rng = np.random.default_rng(1)
    engine.reset(0)

    def stretch(seconds):
        steps, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            for actions in rng.integers(0, engine.num_actions, (BLOCK, *shape)):
                engine.step(actions)
                if not engine.active.all():
                    engine.reset(mask=~engine.active)
            steps += BLOCK * engine.active.size
        return steps / (time.process_time() - start)

    return stretch


def measure(game, representation, shape, seconds, repeats, quirks):
    """Median, lowest and highest steps per second of processor time over ``repeats`` stretches of ``seconds``."""
    stretch = stretches(f"{game}-{representation}", shape, quirks)
    stretch(seconds / 2)  # compiled, caches warm, episodes out of phase
    rates = [stretch(seconds) for _ in range(repeats)]
    return statistics.median(rates), min(rates), max(rates)


def bytes_per_environment(name):
    """Memory of one environment's arrays, and of what an engine holds once (the memory of Sokoban's searches)."""
    engine = LevelEngine(*name.split("-"))
    each = sum(getattr(engine, buffer).nbytes for buffer in (*BUFFERS, "densities"))
    power = int(engine.parameters.get("solver_power", 0))
    return each, sum(array.nbytes for array in search_space(engine.height, engine.width, power))


def measure_startup():
    """Return seconds and seconds of processor time of every step on the way from an empty kernel cache."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for call in ("compile_kernels()", FIRST_STEP):
            output = subprocess.run(
                [sys.executable, "-c", STARTUP.format(call=call)],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            results.append(tuple(float(number) for number in output.stdout.split()))
    return results


def random_sokoban(rng, side):
    """A level with one player and equally many crates and targets."""
    while True:
        level = (rng.random((side, side)) < rng.choice([0.0, 0.1, 0.3])).astype(np.uint8)
        crates = int(rng.integers(1, min(64, side * side // 3) + 1))
        free = np.flatnonzero(level == 0)
        if len(free) > 2 * crates:
            level.flat[rng.choice(free, 2 * crates + 1, replace=False)] = [2] + [3] * crates + [4] * crates
            return level


def sokoban_times(side, levels, climbs, seed=0):
    """Seconds of processor time of evaluations of random levels, all that were searched, sorted; and of the worst level
    that changing the slowest ones has led to. The lower of three measurements of each."""
    engine = LevelEngine("sokoban", "wide", size=(side, side))
    rng = np.random.default_rng(seed)
    undecided = side * side * 2 * side  # dist-win of a level that is not searched

    def cost(level):
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            engine.set_levels(level[None, None])
            best = min(best, time.process_time() - start)
        return best if engine.stats[0, 0, 5] != undecided else 0.0

    drawn = [random_sokoban(rng, side) for _ in range(levels)]
    costs = [cost(level) for level in drawn]
    slowest = np.argsort(costs)[-4:]
    worst = 0.0
    for index in slowest:
        level, time_of_level = drawn[index], costs[index]
        for _ in range(climbs):
            changed = level.copy()
            cells = rng.choice(level.size, 2, replace=False)
            changed.flat[cells] = changed.flat[cells[::-1]]  # two cells change places
            if rng.random() < 0.5:
                cell = rng.integers(level.size)
                if changed.flat[cell] < 2:
                    changed.flat[cell] ^= 1
            new = cost(changed)
            if new > time_of_level:
                level, time_of_level = changed, new
        worst = max(worst, time_of_level)
    return np.sort([seconds for seconds in costs if seconds > 0]), worst


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


def print_startup():
    (cold, cold_cpu), (warm, warm_cpu) = measure_startup()
    print(f"first use, every kernel compiled and kept: {cold:.1f} s, {cold_cpu:.1f} s of processor time")
    print(f"later starts, import to first step: {warm:.1f} s, {warm_cpu:.1f} s of processor time")


def print_sokoban(levels, climbs):
    power = int(get_game("sokoban").parameters["solver_power"])
    print(f"milliseconds of processor time per evaluation of a Sokoban level, solver_power {power}")
    print(f"{'side':>4}{'searched':>10}{'median':>9}{'99.9 %':>9}{'worst':>9}{'climbed to':>12}")
    for side, share in ((5, 1), (8, 4), (16, 16), (32, 32)):
        times, worst = sokoban_times(side, levels // share, climbs)
        numbers = [1e3 * float(np.quantile(times, q)) for q in (0.5, 0.999, 1.0)] + [1e3 * max(worst, times[-1])]
        print(f"{side:>4}{len(times):>10}" + "".join(f"{n:>9.3f}" for n in numbers[:3]) + f"{numbers[3]:>12.3f}")


def print_rates(options):
    original = None
    if options.against:
        path = Path(options.against).resolve()
        python = options.against_python or path / ".venv" / "bin" / "python"
        original = Original(path, python)
        print(original.versions)
    tasks, envs = options.shape
    quirks = "gym-pcgrl" if options.quirks else None
    print(
        f"{tasks} tasks x {envs} environments, quirks={quirks!r}, steps/s of processor time, median of "
        f"{options.repeats} x {options.seconds} s, random agent and resets included\n"
    )
    columns = ["median", "lowest", "highest", "bytes/env"] + ["gym-pcgrl", "ratio"] * (original is not None)
    print(f"{'':<16}" + "".join(f"{column:>12}" for column in columns))
    for name in [options.only] if options.only else IDS:
        stretch = stretches(name, options.shape, quirks)
        stretch(options.seconds / 2)  # compiled, caches warm, episodes out of phase
        rates, others = [], []
        for _ in range(options.repeats):
            rates.append(stretch(options.seconds))
            if original is not None:
                others.append(original.rate(name, options.seconds))
        numbers = [statistics.median(rates), min(rates), max(rates), bytes_per_environment(name)[0]]
        if others:
            numbers += [statistics.median(others), statistics.median(rates) / statistics.median(others)]
        print(f"{name:<16}" + "".join(f"{number:>12,.0f}" for number in numbers), flush=True)
    shared = bytes_per_environment("sokoban-narrow")[1]
    print(f"\nbesides, once an engine: at most {shared / 2**20:.1f} MiB for Sokoban's searches at the default size")


def main():
    parser = argparse.ArgumentParser(description="environment steps per second of the level engine on one core")
    parser.add_argument("--against", metavar="PATH", help="a clone of gym-pcgrl, measured in turn")
    parser.add_argument("--against-python", metavar="PYTHON", help="in which it runs (default: PATH/.venv/bin/python)")
    parser.add_argument("--shape", type=_shape, default=(20, 20), metavar="MxE", help="tasks x environments")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one repeat")
    parser.add_argument("--repeats", type=int, default=5, help="the median is printed")
    parser.add_argument("--only", metavar="ID", choices=IDS, help="one of the nine")
    parser.add_argument("--quirks", action="store_true", help="measure quirks='gym-pcgrl' in place of the default")
    parser.add_argument("--startup", action="store_true", help="time the first use with and without cached kernels")
    parser.add_argument("--sokoban", action="store_true", help="look for levels that take long")
    parser.add_argument("--levels", type=int, default=10_000, help="--sokoban: random 5 x 5 levels; fewer larger ones")
    parser.add_argument("--climbs", type=int, default=300, help="--sokoban: changes tried on each of the worst four")
    options = parser.parse_args()
    versions = f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}"
    print(f"{cpu_name()}, one thread; {versions}")
    if options.startup:
        print_startup()
    elif options.sokoban:
        print_sokoban(options.levels, options.climbs)
    else:
        print_rates(options)


if __name__ == "__main__":
    main()

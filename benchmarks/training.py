"""Environment steps per second of each training algorithm, end to end, on one core.

    python benchmarks/training.py [--iterations 5] [--only rl2] [--game zelda] [--representation turtle] [--calls 12]
    [--shares]

Each algorithm trains with its ``quick`` budget's batch (tasks, episodes, epochs), shortened to a few iterations; the
first iteration is not counted, nor is the evaluation. The rate of the level engine alone, same game and
representation, is measured before and after in the same process, so the last column, what is left of it, can be
compared between machines. ``--calls N`` profiles two more iterations and prints the N functions that take the most
time of their own. ``--shares`` says instead of what two iterations consist: torch's operations, forward and backward,
as matrix products, element by element (tanh, sums, softmax), draws of random numbers, copies and look-ups, and views,
which copy nothing; the level engine; and the rest, which is Python, and the profiler itself.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import platform
import pstats
import statistics
import time

import torch
from engine import cpu_name, measure
from torch.profiler import ProfilerActivity, profile, record_function

from metapcg.envs import REPRESENTATIONS, LevelEngine
from metapcg.experiments.algorithms import ALGORITHMS, Session
from metapcg.experiments.execution import resolve_notebooks
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.runs import settings_for
from metapcg.games import GAMES
from metapcg.learning.device import configure


def train(settings, functions):
    """Train; return environment steps and seconds of every iteration but the first."""
    marks = []
    session = Session(
        settings,
        functions,
        on_iteration=lambda iteration, params, row: marks.append((row["env_steps"], row["seconds"])),
    )
    session.train()
    pairs = list(zip(marks, marks[1:], strict=False))
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairs]


MATRIX_PRODUCTS = "addmm mm bmm baddbmm"
DRAWS = "multinomial exponential_ uniform_ normal_ random_ rand randn randint randperm"
COPIES = (
    "copy_ cat clone index index_select index_put_ index_add_ gather scatter_ scatter_add_ embedding fill_ zero_ zeros "
    "select_backward slice_backward empty empty_strided resize_ _to_copy"
)
VIEWS = (
    "view _unsafe_view reshape flatten unsqueeze squeeze expand select slice narrow t transpose permute as_strided "
    "chunk split unbind unfold to detach alias"
)
KIND_OF = {
    f"aten::{name}": kind
    for kind, names in (("products", MATRIX_PRODUCTS), ("draws", DRAWS), ("copies", COPIES), ("views", VIEWS))
    for name in names.split()
}


def shares(settings, functions):
    """Seconds of two iterations by kind, and in all; an operation that is listed nowhere is one element by element."""
    methods = {name: getattr(LevelEngine, name) for name in ("step", "reset")}

    def recorded(method):
        def call(*arguments, **keywords):
            with record_function("engine"):
                return method(*arguments, **keywords)

        return call

    for name, method in methods.items():
        setattr(LevelEngine, name, recorded(method))
    try:
        session = Session(dataclasses.replace(settings, iterations=2), functions)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            begin = time.perf_counter()
            session.train()
            seconds = time.perf_counter() - begin
    finally:
        for name, method in methods.items():
            setattr(LevelEngine, name, method)
    kinds = dict.fromkeys(("products", "elements", "draws", "copies", "views", "engine"), 0.0)
    for event in profiler.key_averages():
        own = event.self_cpu_time_total / 1e6
        if event.key == "engine" or event.key.startswith("aten::"):
            kinds["engine" if event.key == "engine" else KIND_OF.get(event.key, "elements")] += own
    kinds["rest"] = seconds - sum(kinds.values())
    return kinds, seconds


def print_shares(names, options, functions):
    """One row for every algorithm."""
    print(f"{options.game}-{options.representation}, batches of the quick profile, two iterations, profiled\n")
    for number, name in enumerate(names):
        settings = settings_for("quick", name, options.game, options.representation)
        train(dataclasses.replace(settings, iterations=1), functions)  # compiled, caches warm
        kinds, seconds = shares(settings, functions)
        if not number:
            print(f"{'algorithm':<12}{'seconds':>9}" + "".join(f"{kind:>10}" for kind in kinds))
        print(f"{name:<12}{seconds:>9.2f}" + "".join(f"{part / seconds:>10.0%}" for part in kinds.values()), flush=True)


def main():
    trained = [name for name, algorithm in ALGORITHMS.items() if algorithm.train is not None]
    parser = argparse.ArgumentParser(description="environment steps per second of each training algorithm, one core")
    parser.add_argument("--iterations", type=int, default=5, help="counted iterations (the median is printed)")
    parser.add_argument("--only", choices=trained, help="one algorithm")
    parser.add_argument("--game", choices=list(GAMES), default="binary")
    parser.add_argument("--representation", choices=list(REPRESENTATIONS), default="narrow")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="also profile, and print N functions")
    parser.add_argument("--shares", action="store_true", help="say of what an iteration consists, instead of rates")
    options = parser.parse_args()
    if options.iterations < 1:
        parser.error(f"--iterations: expected 1 or more, got {options.iterations}")
    configure("cpu")
    functions = NotebookFunctions(resolve_notebooks())

    if options.shares:
        print_shares([name for name in trained if options.only in (None, name)], options, functions)
        return

    def engine_rate():
        return measure(options.game, options.representation, (20, 20), 0.5, 3, None)[0]

    rates = [engine_rate()]
    print(f"{cpu_name()}, one thread; Python {platform.python_version()}, torch {torch.__version__}")
    print(f"{options.game}-{options.representation}, batches of the quick profile\n")
    print(f"{'algorithm':<12}{'steps/s':>12}{'s/iteration':>13}{'steps/iteration':>17}{'of the engine':>15}")
    for name in trained:
        if options.only not in (None, name):
            continue
        settings = settings_for("quick", name, options.game, options.representation)
        settings = dataclasses.replace(settings, iterations=options.iterations + 1)
        rows = train(settings, functions)
        seconds, steps = statistics.median(row[1] for row in rows), statistics.median(row[0] for row in rows)
        rate = statistics.median(row[0] / row[1] for row in rows)
        rates.append(engine_rate())
        share = rate / statistics.median(rates[-2:])
        print(f"{name:<12}{rate:>12,.0f}{seconds:>13.3f}{steps:>17,.0f}{share:>14.1%}", flush=True)
        if options.calls:
            profile = cProfile.Profile()
            profile.enable()
            begin = time.perf_counter()
            train(dataclasses.replace(settings, iterations=2), functions)
            profile.disable()
            print(f"profile of two iterations, {time.perf_counter() - begin:.1f} s")
            pstats.Stats(profile).sort_stats("tottime").print_stats(options.calls)
    print(
        f"\nengine alone: {statistics.median(rates):,.0f} steps/s (lowest {min(rates):,.0f}, highest {max(rates):,.0f})"
    )


if __name__ == "__main__":
    main()

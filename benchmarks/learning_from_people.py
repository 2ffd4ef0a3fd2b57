"""How fast a boss learns its player: from meta-learned, multi-task and random weights, with and without the pull.

    python benchmarks/learning_from_people.py --train        # trains the three anchors anew (about two minutes)
    python benchmarks/learning_from_people.py                # learning curves from the anchors in the package
        [--splits interpolation extrapolation] [--players 30] [--fights 32] [--seed 0] [--csv FILE]

Players are simulated (``metapcg.personal.player_styles``). Every player meets a learner of his own, that is, one Adam
step after each fight, as a person would in the browser. The step size is chosen for every anchor by itself, on
training players, by the mean return over all fights. The curves are from two sets of players that no anchor and no
choice has seen: the five styles with fresh parameters (interpolation), and blends of two styles (extrapolation).
Intervals are 95 % over players.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

from metapcg.learning.solutions import load  # noqa: E402
from metapcg.personal.anchors import (  # noqa: E402
    AnchorBudget,
    learning_curves,
    meta_learned_anchor,
    multi_task_anchor,
    random_anchor,
)
from metapcg.personal.learner import LearnerSettings  # noqa: E402
from metapcg.personal.modular_mind import to_numpy  # noqa: E402
from metapcg.personal.player_styles import sample_styles  # noqa: E402
from metapcg.personal.weights_file import ANCHORS, anchor_path, load_anchor, save_weights  # noqa: E402

SPLITS = ["interpolation", "extrapolation"]
STEP_SIZES = (1e-3, 3e-3, 1e-2)
PULLS = (0.0, LearnerSettings().pull)
TRAINING_SEEDS = {"meta-learned": 0, "multi-task": 1, "random": 2}


def train() -> None:
    """Train the anchors with the functions of the worked notebooks (or those that ``load`` finds) and store them."""
    functions = load("1_maml").require("adapt", "meta_loss")
    surrogate = load("0_policy_gradient").require("surrogate_lvc").surrogate_lvc
    budget = AnchorBudget()

    def show(iteration, params, row):
        if (iteration + 1) % 10 == 0:
            print({name: round(row[name], 2) for name in row if name.startswith("return")}, flush=True)

    makers = {
        "meta-learned": lambda seed: meta_learned_anchor(functions, surrogate, budget, seed, show).params,
        "multi-task": lambda seed: multi_task_anchor(budget, seed, on_iteration=show).params,
        "random": random_anchor,
    }
    for name in ANCHORS:
        start = time.process_time()
        save_weights(anchor_path(name), to_numpy(makers[name](TRAINING_SEEDS[name])))
        print(f"{name}: {time.process_time() - start:.0f} s of processor time, {anchor_path(name)}", flush=True)


def interval(values: np.ndarray) -> str:
    """Mean and the half-width of its 95 % interval over players."""
    return f"{values.mean():6.2f} ±{1.96 * values.std(ddof=1) / np.sqrt(len(values)):5.2f}"


def columns(num_fights: int) -> list[tuple[int, int]]:
    """Stretches of fights that are averaged: 1, 2-3, 4-7, 8-15, ... (counted from 1)."""
    stretches, first = [], 1
    while first <= num_fights:
        stretches.append((first, min(2 * first - 1, num_fights)))
        first *= 2
    return stretches


def choose_step_size(anchor, players, num_fights: int, seed: int) -> float:
    """The step size with the best mean return on training players."""
    scores = [learning_curves(anchor, LearnerSettings(lr=lr), players, num_fights, seed)[0].mean() for lr in STEP_SIZES]
    return STEP_SIZES[int(np.argmax(scores))]


def evaluate(splits: list[str], num_players: int, num_fights: int, seed: int, path: str | None) -> None:
    """Print the curves and write them fight by fight, if asked to."""
    anchors = {name: load_anchor(name) for name in ANCHORS}
    tuning = sample_styles("train", 10, 1000 + seed)
    settings = {
        name: LearnerSettings(lr=choose_step_size(anchor, tuning, num_fights, 2000 + seed))
        for name, anchor in anchors.items()
    }
    rows, stretches = [], columns(num_fights)
    for split in splits:
        players = sample_styles(split, num_players, 3000 + seed)
        tables = {"return": [], "wins": []}
        for name, anchor in anchors.items():
            for pull in PULLS:
                own = dataclasses.replace(settings[name], pull=pull)
                returns, wins, distances = learning_curves(anchor, own, players, num_fights, 4000 + seed)
                label = f"{name}, lr {own.lr:g}, pull {pull:g}, moved {distances.mean():.2f}"
                for what, values in (("return", returns), ("wins", wins)):
                    means = [interval(values[:, first - 1 : last].mean(1)) for first, last in stretches]
                    tables[what].append(f"{label:46s}" + "".join(f"{mean:>15s}" for mean in means))
                shared = {"split": split, "anchor": name, "pull": pull, "lr": own.lr}
                for (m, k), value in np.ndenumerate(returns):
                    where = {"player": m, "style": players.names[m], "fight": k + 1}
                    rows.append({**shared, **where, "return": value, "win": wins[m, k]})
        for what, lines in tables.items():
            heads = [f"{first}-{last}" for first, last in stretches]
            print(f"\n{f'{split}: {what} by fight':46s}" + "".join(f"{head:>15s}" for head in heads))
            print("\n".join(lines), flush=True)
    if path:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def main() -> None:
    """Train or evaluate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="train the anchors and store them in the package")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS, help="which players; both by default")
    parser.add_argument("--players", type=int, default=30, help="simulated players per split")
    parser.add_argument("--fights", type=int, default=32, help="fights per player")
    parser.add_argument("--seed", type=int, default=0, help="of players and fights")
    parser.add_argument("--csv", help="write every fight's result to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.train:
        train()
    else:
        start = time.process_time()
        evaluate(arguments.splits, arguments.players, arguments.fights, arguments.seed, arguments.csv)
        print(f"\n{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()

"""Replay recordings of the original gym-pcgrl through this engine and count what agrees.

A folder of recordings holds ``stats_<game>.json.gz`` (levels with the statistics that the original gave) and
``rollouts_<game>_<representation>.json.gz`` (whole episodes: settings, start level, and for every step action,
position, reward, end, counters and statistics). Everything runs with ``quirks="gym-pcgrl"``. The original's random
numbers are not repeated: start levels, start positions and the next positions of narrow come from the recording.

A level agrees when every statistic does, and for Sokoban the solution too. An episode agrees when its settings and
limits, its start, every step (the rewards bit for bit) and its last level and heatmap do. Where the original's
Sokoban solver ran out of its budget, a result that is *at least as good* is right as well (solved with no longer a
solution, or no larger ``dist-win``): these are counted apart.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from metapcg.envs.engine import QUIRKS, LevelEngine
from metapcg.envs.gym_envs import LevelEnv
from metapcg.envs.representations import REPRESENTATIONS
from metapcg.games import GAMES, get_game, solve

MAX_SHOWN = 5
"""Disagreements that are printed for one file."""

MAP_PARTS = {"kind": str, "width": int, "height": int, "map": list, "stats": dict}
EPISODE_PARTS = {
    "adjust_calls": list,
    "width": int,
    "height": int,
    "max_changes": int,
    "max_iterations": int,
    "reward_weights": dict,
    "targets": dict,
    "random_tile": (bool, type(None)),
    "warp": (bool, type(None)),
    "start_map": list,
    "start_pos": (list, type(None)),
    "start_stats": dict,
    "actions": list,
    "pos": (list, type(None)),
    "reward": list,
    "done": list,
    "changes": list,
    "iterations": list,
    "stats": dict,
    "end": dict,
    "final_map": list,
    "final_heatmap": list,
}
"""The parts of a recorded episode, and their types in JSON."""


@dataclass
class Comparison:
    """What came out of one file of recordings.

    Attributes
    ----------
    name : str, the file's name
    unit : str, "maps" or "episodes"
    total, agree : int, number of units, and of those that agree exactly
    steps, steps_agree : int, the same for the steps of episodes; 0 for maps
    out_of_budget : int, maps whose original search ran out of its budget (part of ``total``)
    at_least_as_good : int, maps (or steps of rollouts) that do not agree exactly but are at least as good where the
        original's solver ran out of its budget
    disagreements : list of str, one line each
    broken : str, why the file could not be replayed, or ""
    """

    name: str
    unit: str = "maps"
    total: int = 0
    agree: int = 0
    steps: int = 0
    steps_agree: int = 0
    out_of_budget: int = 0
    at_least_as_good: int = 0
    disagreements: list[str] = field(default_factory=list)
    broken: str = ""

    @property
    def passed(self):
        """True when everything agrees or is at least as good, and there was something to compare."""
        return not self.broken and not self.disagreements and self.total > 0

    def line(self):
        """The file's line in the table."""
        if self.broken:
            return f"{self.name:<34} broken: {self.broken}"
        text = f"{self.name:<34} {self.agree} of {self.total} {self.unit} agree"
        if self.unit == "episodes":
            text += f", {self.steps_agree} of {self.steps} steps, rewards bit for bit"
        if self.out_of_budget:
            text += f", the original's solver ran out of its budget on {self.out_of_budget}"
        if self.out_of_budget or self.at_least_as_good:
            text += f"; {self.at_least_as_good} more not equal but at least as good"
        return text


def find_recordings(folder):
    """Return the recordings in ``folder``, sorted by name; ValueError if there is no such folder or it holds none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"parity: no folder {str(folder)!r}")
    paths = sorted([*folder.glob("stats_*.json.gz"), *folder.glob("rollouts_*.json.gz")])
    if not paths:
        raise ValueError(f"parity: {str(folder)!r} holds no stats_*.json.gz and no rollouts_*.json.gz")
    return paths


def read_recording(path):
    """Return the content of one recording, checked for its parts; ValueError in one line if it is not whole."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked ({error})") from None
    except ValueError as error:
        raise ValueError(f"is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    if content.get("game") not in GAMES:
        raise ValueError(f"names no known game: {content.get('game')!r}")
    if content.get("tiles") != list(get_game(content["game"]).tiles):
        raise ValueError(f"has other tiles than {content['game']}: {content.get('tiles')!r}")
    if Path(path).name.startswith("stats_"):
        entries, parts, name = content.get("maps"), MAP_PARTS, "maps"
    else:
        entries, parts, name = content.get("episodes"), EPISODE_PARTS, "episodes"
        if content.get("rep") not in REPRESENTATIONS:
            raise ValueError(f"names no known representation: {content.get('rep')!r}")
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"lacks a list of {name}")
    for index, entry in enumerate(entries):
        for part, kind in parts.items():
            if not isinstance(entry, dict) or part not in entry:
                raise ValueError(f"entry {index} of {name} lacks {part!r}")
            if not isinstance(entry[part], kind):
                raise ValueError(f"entry {index} of {name} has a {type(entry[part]).__name__} as {part!r}")
        if name == "episodes":
            _check_series(index, entry)
    return content


def _check_series(index, episode):
    """Every series of an episode needs one entry per action; ValueError otherwise."""
    series = {name: episode[name] for name in ("pos", "reward", "done", "changes", "iterations")} | episode["stats"]
    for name, values in series.items():
        if values is not None and (not isinstance(values, list) or len(values) != len(episode["actions"])):
            raise ValueError(f"entry {index} of episodes needs {len(episode['actions'])} of {name!r}, one per action")


def compare(path):
    """Replay one file; a ``Comparison``. A file that is not whole is reported in it, not raised."""
    comparison = Comparison(Path(path).name)
    try:
        content = read_recording(path)
        if "maps" in content:
            _compare_maps(content, comparison)
        else:
            _compare_episodes(content, comparison)
    except ValueError as error:  # the reader's, and the engine's for impossible settings, levels and actions
        comparison.broken = str(error)
    return comparison


def run(folder):
    """Replay every recording in ``folder`` and print one line per file and the first disagreements.

    Returns the exit status: 0 when everything agrees, else 1. ValueError for a folder that is missing or holds no
    recording.
    """
    comparisons = []
    for path in find_recordings(folder):
        comparisons.append(compare(path))
        print(comparisons[-1].line(), flush=True)
        for disagreement in comparisons[-1].disagreements[:MAX_SHOWN]:
            print(f"    {disagreement}")
        hidden = len(comparisons[-1].disagreements) - MAX_SHOWN
        if hidden > 0:
            print(f"    … and {hidden} more")
    failed = [comparison.name for comparison in comparisons if not comparison.passed]
    if failed:
        print(f"{len(failed)} of {len(comparisons)} files do not agree: {', '.join(failed)}")
        return 1
    print(f"all {len(comparisons)} files agree")
    return 0


def _compare_maps(content, comparison):
    game = get_game(content["game"])
    comparison.unit = "maps"
    comparison.total = len(content["maps"])
    power = content.get("solver_power")
    if not isinstance(power, int):
        raise ValueError(f"has {power!r} as 'solver_power'")
    parameters = {"solver_power": power} if "solver_power" in game.parameters else None
    for size in sorted({(entry["width"], entry["height"]) for entry in content["maps"]}):
        chosen = [index for index, entry in enumerate(content["maps"]) if (entry["width"], entry["height"]) == size]
        engine = LevelEngine(
            game, "wide", num_envs=len(chosen), size=size, crop=1, quirks=QUIRKS, parameters=parameters
        )
        engine.set_levels(_integers("map", [[content["maps"][index]["map"] for index in chosen]]))
        for index, stats in zip(chosen, engine.stats[0], strict=True):
            entry = content["maps"][index]
            ours = dict(zip(game.statistics, stats.tolist(), strict=True))
            recorded = dict(entry["stats"])
            solver = entry.get("solver") or []
            if "solution" in recorded:
                ours["solution"] = solve(entry["map"], power, quirks=True)[1] if solver else ""
            differing = [name for name in recorded if ours.get(name) != recorded[name]]
            ran_out = any(iterations >= power and not won for _, _, iterations, won, _ in solver)
            comparison.out_of_budget += ran_out
            if not differing:
                comparison.agree += 1
            elif ran_out and set(differing) <= {"dist-win", "sol-length", "solution"} and _as_good(ours, recorded):
                comparison.at_least_as_good += 1
            else:
                comparison.disagreements.append(
                    f"map {index} ({entry['kind']}, {size[0]}x{size[1]}): "
                    + ", ".join(f"{name} {ours.get(name)!r} recorded {recorded[name]!r}" for name in differing)
                )


def _compare_episodes(content, comparison):
    comparison.unit = "episodes"
    comparison.total = len(content["episodes"])
    for index, episode in enumerate(content["episodes"]):
        differences, steps_agree, as_good = _replay(content["game"], content["rep"], episode)
        comparison.steps += len(episode["actions"])
        comparison.steps_agree += steps_agree
        comparison.at_least_as_good += as_good
        comparison.agree += not differences and not as_good
        comparison.disagreements += [f"episode {index}, {difference}" for difference in differences]


def _replay(game_name, representation, episode):
    """Return (list of differences, number of steps that agree exactly, number of steps at least as good)."""
    env = LevelEnv(game_name, representation, quirks=QUIRKS)
    for call in episode["adjust_calls"]:
        env.adjust_param(**call)
    game, engine, settings = env.game, env.engine, env.settings
    differences = []

    def check(place, name, ours, recorded):
        if ours != recorded:
            differences.append(f"{place}: {name} {ours!r} recorded {recorded!r}")

    for name in ("width", "height"):
        check("settings", name, settings[name], episode[name])
    check("settings", "max_changes", env.max_changes, episode["max_changes"])
    check("settings", "max_iterations", env.max_iterations, episode["max_iterations"])
    check("settings", "reward_weights", settings["rewards"], episode["reward_weights"])
    for name, value in episode["targets"].items():
        check("settings", name, settings.get(name), value)
    if representation == "narrow":
        check("settings", "random_tile", settings["random_tile"], episode["random_tile"])
    if representation == "turtle":
        check("settings", "warp", settings["warp"], episode["warp"])
    if differences:  # nothing that follows could mean anything
        return differences, 0, 0

    start = None if episode["start_pos"] is None else _integers("start_pos", [[episode["start_pos"]]])
    engine.set_levels(_integers("start_map", [[episode["start_map"]]]), start)
    start_stats = dict(zip(game.statistics, engine.start_stats[0, 0].tolist(), strict=True))
    for name, value in episode["start_stats"].items():
        if name != "solution":  # no statistic of an episode; the recordings of levels compare it
            check("start", name, start_stats.get(name), value)

    flat = _integers("actions", episode["actions"]).reshape(len(episode["actions"]), -1)
    if flat.shape[1] != (3 if representation == "wide" else 1):
        raise ValueError(f"actions: {representation} has no actions of {flat.shape[1]} numbers")
    better = False
    steps_agree = as_good = 0
    for step, action in enumerate(flat.tolist()):
        before = len(differences)
        place = f"step {step}"
        if representation == "wide":
            x, y, tile = action
            action = [(y * engine.width + x) * engine.num_tiles + tile]
        given = None
        if representation == "narrow" and settings["random_tile"]:
            given = _integers("pos", [[episode["pos"][step]]])
        rewards, terminated, truncated = engine.step(np.array([action]), given)
        stats = dict(zip(game.statistics, engine.stats[0, 0].tolist(), strict=True))
        if game.name == "binary":
            stats["path-imp"] = stats["path-length"] - start_stats["path-length"]
        recorded = {name: values[step] for name, values in episode["stats"].items()}
        differing = {name for name in recorded if stats.get(name) != recorded[name]}
        was_better, better = better, bool(differing)
        if better and not (differing <= {"dist-win", "sol-length"} and _as_good(stats, recorded)):
            better = False
            for name in sorted(differing):
                check(place, name, stats.get(name), recorded[name])
        if episode["pos"] is not None:
            check(place, "pos", engine.positions[0, 0].tolist(), episode["pos"][step])
        for name in ("changes", "iterations"):
            check(place, name, int(getattr(engine, name)[0, 0]), episode[name][step])
        if better or was_better:  # the reward and the goal follow from statistics that differ for a good reason
            as_good += len(differences) == before
            continue
        reward = float(rewards[0, 0])
        if np.float64(reward).tobytes() != np.float64(episode["reward"][step]).tobytes():
            check(place, "reward", reward.hex(), float(episode["reward"][step]).hex())
        check(place, "done", bool(terminated[0, 0] or truncated[0, 0]), bool(episode["done"][step]))
        steps_agree += len(differences) == before

    end = episode["end"]
    if not better:
        check("end", "goal", bool(engine.terminated[0, 0]), end.get("goal"))
        check("end", "changes", bool(engine.changes[0, 0] >= engine.max_changes[0]), end.get("changes"))
        check("end", "iterations", bool(engine.iterations[0, 0] >= engine.max_iterations[0]), end.get("iterations"))
    check("end", "final_map", engine.maps[0, 0].tolist(), episode["final_map"])
    check("end", "final_heatmap", engine.heatmap[0, 0].tolist(), episode["final_heatmap"])
    return differences, steps_agree, as_good


def _as_good(ours, recorded):
    """Whether Sokoban statistics are at least as good as those of a search that ran out of its budget."""
    if recorded["dist-win"] == 0:
        return ours["dist-win"] == 0 and ours["sol-length"] <= recorded["sol-length"]
    return ours["dist-win"] <= recorded["dist-win"]


def _integers(name, values):
    """Return nested lists as an integer array; ValueError if they are ragged or hold something else."""
    try:
        array = np.array(values)
    except ValueError:
        raise ValueError(f"{name}: rows of different lengths") from None
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: holds something that is no whole number")
    return array

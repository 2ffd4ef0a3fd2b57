"""The figures of notebooks and reports: functions that take runs and return a matplotlib ``Figure``.

Colours are Okabe and Ito's, which readers with colour-vision deficiencies can tell apart; a method has the same
colour in every figure. Random and oracle are dashed grey and black lines: they are what the others are measured
against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metapcg.envs.rendering import draw_level
from metapcg.games import get_game
from metapcg.tasks.splits import EXTRAPOLATION, INTERPOLATION, SPLITS, TRAIN

from .intervals import mean_interval, share_interval
from .results import References, Setting, changed_settings, group_by_setting, variant
from .runs import RunResult

COLOURS: dict[str, str] = {
    "maml": "#0072B2",
    "fomaml": "#56B4E9",
    "rl2": "#D55E00",
    "pearl": "#CC79A7",
    "pretrained": "#E69F00",
    "random-init": "#009E73",
    "oracle": "#000000",
    "random": "#808080",
}
MARKERS: dict[str, str] = {
    "maml": "o", "fomaml": "s", "rl2": "^", "pearl": "D", "pretrained": "v", "random-init": "P",
    "oracle": "", "random": "",
}  # fmt: skip
_LINE_STYLES = ("-", "--", "-.", ":")
SPLIT_LABELS = {
    "train": "train",
    "interpolation": "interpolation",
    "extrapolation": "extrapolation",
    "held-out-representation": "held-out\nrepresentation",
    "held-out-game": "held-out\ngame",
}
_REFERENCES = ("random", "oracle")


def adaptation_curves(
    runs: Sequence[RunResult], split: str = INTERPOLATION, by: str = "step", title: str | None = None
) -> Figure:
    """Return by adaptation step, one line per method with its 95 % band; random and oracle as horizontal lines.

    Args:
        runs: of one family, game and representation; seeds of a method are put together.
        split: which tasks.
        by: ``step`` (adaptation steps) or ``episodes`` (episodes of the task seen so far).
        title: default: what was trained on, and the split.

    Raises:
        ValueError: no run has this split, or an unknown ``by``.
    """
    if by not in ("step", "episodes"):
        raise ValueError(f"by: unknown value {by!r}; choose step or episodes")
    settings = [setting for setting in group_by_setting(runs) if setting.returns(split) is not None]
    if not settings:
        raise ValueError(f"split: none of the runs was evaluated on {split!r}")
    figure, ax = _figure(6.6, 3.9)
    labels = []
    longest = 1
    for setting, style in zip(settings, _styles(settings), strict=True):
        if setting.settings.algorithm in _REFERENCES:
            continue
        returns = setting.returns(split)
        steps = np.arange(returns[0].shape[1])
        x = steps if by == "step" else setting.runs[0].splits[split].episodes
        longest = max(longest, int(x[-1]))
        intervals = [mean_interval([r[:, k] for r in returns]) for k in steps]
        means = [i.mean for i in intervals]
        ax.fill_between(
            x, [i.low for i in intervals], [i.high for i in intervals], color=style["color"], alpha=0.15, lw=0
        )
        ax.plot(x, means, **style, lw=1.8, ms=5, zorder=3)
        labels.append((x[-1], means[-1], _name(setting, settings), style["color"]))
    for setting in settings:
        if setting.settings.algorithm in _REFERENCES:
            value = float(np.mean([r.mean() for r in setting.returns(split)]))
            colour = COLOURS[setting.settings.algorithm]
            ax.axhline(value, color=colour, ls=(0, (5, 3)), lw=1.2, zorder=1)
            text = "oracle (told the task)" if setting.settings.algorithm == "oracle" else "random policy"
            labels.append((longest, value, text, colour))
    ax.set_xlim(-0.03 * longest, longest)
    if by == "step":
        ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.set_xlabel("adaptation step" if by == "step" else "episodes of the task seen so far")
    ax.set_ylabel("return per episode")
    ax.set_title(title or f"{_where(settings[0])}: {split} tasks", loc="left", fontsize=11)
    _label_ends(ax, labels)
    return figure


def share_bars(runs: Sequence[RunResult], title: str | None = None) -> Figure:
    """Return after the last adaptation step as a share of the oracle's, by split, with 95 % intervals.

    0 is the random policy, 1 the oracle. Splits without an oracle on the same tasks have no bars and say so.

    Raises:
        ValueError: there is no method to show.
    """
    every = group_by_setting(runs)
    references = References(every)
    settings = [setting for setting in every if setting.settings.algorithm not in _REFERENCES]
    if not settings:
        raise ValueError("runs: there is no run of a method, only references")
    splits = [split for split in SPLITS if any(split in setting.settings.splits for setting in settings)]
    figure, ax = _figure(7.4, 3.9)
    width = 0.8 / len(settings)
    shown: set[str] = set()
    tops, bottoms = [1.0], [0.0]
    for place, (setting, style) in enumerate(zip(settings, _styles(settings), strict=True)):
        positions, shares = [], []
        for index, split in enumerate(splits):
            returns = setting.returns(split)
            random, oracle = references.returns("random", setting, split), references.returns("oracle", setting, split)
            if returns is None or random is None or oracle is None:
                continue
            share = share_interval([r[:, -1] for r in returns], random[0], oracle[0])
            if share.defined:
                positions.append(index + (place - (len(settings) - 1) / 2) * width)
                shares.append(share)
                shown.add(split)
        means = np.array([s.mean for s in shares])
        errors = np.array([[s.mean - s.low for s in shares], [s.high - s.mean for s in shares]]).clip(min=0)
        label = _name(setting, settings)
        ax.bar(positions, means, 0.92 * width, color=style["color"], hatch=_hatch(style["linestyle"]), label=label,
               edgecolor="white", lw=0.5)  # fmt: skip
        if len(shares):
            ax.errorbar(positions, means, errors, fmt="none", ecolor="#222222", elinewidth=1, capsize=2)
            tops.append(max(s.high for s in shares))
            bottoms.append(min(s.low for s in shares))
    for index, split in enumerate(splits):
        if split not in shown:
            ax.text(index, 0.03, "no oracle\non these tasks", ha="center", va="bottom", fontsize=8, color="#555555")
    ax.axhline(0, color=COLOURS["random"], lw=1)
    ax.axhline(1, color=COLOURS["oracle"], lw=1, ls=(0, (5, 3)))
    span = max(tops) - min(bottoms)
    ax.set_ylim(min(bottoms) - 0.04 * span, max(tops) + 0.08 * span)
    ax.text(len(splits) - 0.42, 1, "oracle", va="center", ha="left", fontsize=9)
    ax.text(len(splits) - 0.42, 0, "random", va="center", ha="left", fontsize=9, color="#555555")
    ax.set_xlim(-0.5, len(splits) - 0.5)
    ax.set_xticks(range(len(splits)), [SPLIT_LABELS[split] for split in splits])
    ax.tick_params(axis="x", length=0)
    ax.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
    ax.set_ylabel("share of the oracle's lead")
    ax.set_title(title or f"{_where(settings[0])}: after the last adaptation step", loc="left", fontsize=11)
    ax.legend(loc="upper left", bbox_to_anchor=(1.1, 1.0), frameon=False, fontsize=9)
    return figure


def return_by_direction(
    runs: Sequence[RunResult], splits: Sequence[str] = (INTERPOLATION, EXTRAPOLATION), title: str | None = None
) -> Figure:
    """Return over the hidden direction φ, before and after adaptation; one panel per method, held-out arcs shaded.

    Args:
        runs: of a ``direction`` family over two statistics.
        splits: whose tasks are shown.

    Raises:
        ValueError: no method run has tasks with a direction φ.
    """
    settings = [
        s
        for s in group_by_setting(runs)
        if s.settings.algorithm not in _REFERENCES
        and any(split in r.splits and r.splits[split].parameter_names == ("phi",) for r in s.runs for split in splits)
    ]
    if not settings:
        raise ValueError("runs: none has tasks with a hidden direction phi")
    columns = 2 if len(settings) in (2, 4) else min(3, len(settings))
    lines = -(-len(settings) // columns)
    figure = Figure(figsize=(0.8 + 3.0 * columns, 0.7 + 2.5 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).reshape(-1)
    oracle = next((s for s in group_by_setting(runs) if s.settings.algorithm == "oracle"), None)
    for ax, setting, style in zip(axes, settings, _styles(settings), strict=False):
        _shade_held_out(ax, setting)
        ax.axhline(0, color="#999999", lw=0.8)
        if oracle is not None:
            phi, returns = _by_phi(oracle, splits)
            ax.plot(*_smooth(phi, returns[:, -1]), color="black", ls=(0, (5, 3)), lw=1.1, label="oracle")
        phi, returns = _by_phi(setting, splits)
        ax.scatter(phi, returns[:, 0], s=9, color="#999999", marker="x", lw=0.8, label="before adaptation")
        ax.scatter(phi, returns[:, -1], s=10, color=style["color"], alpha=0.6, lw=0, label=None)
        ax.plot(*_smooth(phi, returns[:, -1]), color=style["color"], lw=1.8, label="after adaptation")
        ax.set_title(_name(setting, settings), fontsize=10, loc="left", color=style["color"])
        ax.set_xticks([0, 90, 180, 270, 360], [f"{angle}°" for angle in (0, 90, 180, 270, 360)])
        ax.set_xlim(0, 360)
        ax.spines[["top", "right"]].set_visible(False)
    for place, ax in enumerate(axes):
        if place >= len(settings):
            ax.set_axis_off()
        elif place + columns >= len(settings):
            ax.tick_params(labelbottom=True)  # nothing stands below it
    names = settings[0].settings.task_family().statistics
    figure.supxlabel(
        f"hidden direction φ (0°: more {names[0]}, 90°: more {names[1]}, 180°: less {names[0]}, "
        f"270°: less {names[1]}); shaded: never trained on",
        fontsize=9,
    )  # fmt: skip
    figure.supylabel("return per episode", fontsize=10)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(title or _where(settings[0]), x=0.02, ha="left", fontsize=11)
    return figure


def learning_curves(runs: Sequence[RunResult], title: str | None = None) -> Figure:
    """Training: return (after adaptation, for methods that adapt while they train) by environment steps.

    One thin line per seed, and their mean in bold.

    Raises:
        ValueError: none of the runs was trained.
    """
    settings = [setting for setting in group_by_setting(runs) if setting.runs[0].history]
    if not settings:
        raise ValueError("runs: none of them was trained")
    figure, ax = _figure(6.6, 3.9)
    labels = []
    for setting, style in zip(settings, _styles(settings), strict=True):
        column = "return_after" if "return_after" in setting.runs[0].history[0] else "return"
        steps = np.array([row["env_steps"] for row in setting.runs[0].history]) / 1000
        values = np.array([[row[column] for row in run.history] for run in setting.runs])
        smooth = np.array([_moving_mean(row) for row in values])
        plain = {k: v for k, v in style.items() if k != "marker"}
        if len(values) > 1:
            for row in smooth:
                ax.plot(steps, row, **plain, lw=0.7, alpha=0.4)
        ax.plot(steps, smooth.mean(0), **plain, lw=1.9)
        labels.append((float(steps[-1]), float(smooth.mean(0)[-1]), _name(setting, settings), style["color"]))
    ax.set_xlim(0, max(label[0] for label in labels) * 1.01)
    ax.set_xlabel("environment steps (thousands)")
    ax.set_ylabel("return per episode on training tasks")
    ax.set_title(
        title or f"{_where(settings[0])}: training (after adaptation, where the method adapts)", loc="left", fontsize=11
    )
    _label_ends(ax, labels)
    return figure


def variations(runs: Sequence[RunResult], title: str | None = None) -> Figure:
    """What a changed setting does: return by the setting's value; one panel per method and setting.

    Args:
        runs: those with one setting changed, and those under the budget itself, which are one point of every panel.

    Raises:
        ValueError: no run has exactly one setting changed.
    """
    settings = group_by_setting(runs)
    usual = {setting.label: setting for setting in settings if not changed_settings(setting.settings)}
    panels: dict[tuple[str, str], list[tuple[object, Setting]]] = {}
    for setting in settings:
        changed = changed_settings(setting.settings)
        if len(changed) == 1 and setting.label in usual:
            name, value = next(iter(changed.items()))
            panels.setdefault((setting.label, name), []).append((value, setting))
    if not panels:
        raise ValueError("runs: none differs in exactly one setting from runs that are there as well")
    figure = Figure(figsize=(0.9 + 3.3 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, ((method, name), points) in zip(axes, panels.items(), strict=True):
        base = usual[method]
        points = sorted(
            [*points, (getattr(base.settings, name), base)], key=lambda p: np.inf if p[0] is None else float(p[0])
        )
        last = min(setting.runs[0].settings.eval_steps for _, setting in points)
        for split, line in ((TRAIN, ":"), (INTERPOLATION, "-")):
            for step, colour in ((1, "#56B4E9"), (last, "#0072B2")):
                found = [(x, s.returns(split)) for x, (_, s) in enumerate(points) if s.returns(split) is not None]
                if not found or step > last:
                    continue
                intervals = [mean_interval([r[:, step] for r in returns]) for _, returns in found]
                x, means = [x for x, _ in found], [i.mean for i in intervals]
                errors = np.array([[i.mean - i.low for i in intervals], [i.high - i.mean for i in intervals]])
                if split == TRAIN:
                    errors = None  # the same height as the other line's; both would hide each other
                ax.errorbar(
                    x, means, errors, color=colour, ls=line, marker="o", ms=4, lw=1.6, capsize=2,
                    label=f"{split}, step {step}",
                )  # fmt: skip
        ax.set_xticks(range(len(points)), ["∞" if value is None else f"{value:g}" for value, _ in points])
        ax.set_xlabel(f"{name} (usual: {getattr(base.settings, name) or '∞'})")
        ax.set_title(method, fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e4e4e4", lw=0.7)
    axes[0].set_ylabel("return per episode")
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(title or _where(next(iter(usual.values()))), x=0.02, ha="left", fontsize=11)
    return figure


def level_gallery(run: RunResult, split: str = INTERPOLATION, tasks: int = 4, title: str | None = None) -> Figure:
    """Levels of a few tasks: the start, edited before adaptation, edited after it; one column per task.

    All three levels of a column begin with the same level and use the same random numbers.

    Raises:
        ValueError: the run kept no levels of this split.
    """
    arrays = {name.split("/", 1)[1]: a for name, a in run.levels.items() if name.startswith(f"{split}/")}
    if not arrays:
        raise ValueError(f"split: {run.folder.name} kept no levels of {split!r}")
    result = run.splits[split]
    game = get_game(result.game)
    count = min(tasks, len(arrays["start"]))
    stages = [("start", "start level"), ("before", "edited before\nadaptation")]
    if "after" in arrays:
        stages.append(("after", "edited after\nadaptation"))
    height, width = arrays["start"].shape[1:]
    cell = 2.1
    row_height = cell * (height + 2) / (width + 2) + 0.35
    figure = Figure(figsize=(1.1 + cell * count, 0.9 + row_height * len(stages)), layout="constrained")
    axes = figure.subplots(len(stages), count, squeeze=False)
    shown = _shown_statistics(run, split)
    for column in range(count):
        hidden = zip(result.parameter_names, arrays["parameters"][column], strict=True)
        axes[0, column].set_title("\n".join(_task_words(run, split, *pair) for pair in hidden), fontsize=9)
        for row, (name, heading) in enumerate(stages):
            ax = axes[row, column]
            ax.imshow(draw_level(arrays[name][column], result.game), interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[:].set_visible(False)
            if column == 0:
                ax.set_ylabel(heading, rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
            stats = arrays["start_stats" if name == "start" else f"{name}_stats"][column]
            text = ", ".join(f"{game.statistics[i]} {int(stats[i])}" for i in shown)
            if name != "start":
                text += f"\nreturn {arrays[f'{name}_return'][column]:+.1f}".replace("-", "\N{MINUS SIGN}")
            ax.set_xlabel(text, fontsize=8)
    figure.suptitle(title or f"{run.label} on {result.game}-{result.representation}, {split} tasks", fontsize=11)
    return figure


# -------------------------------------------------------------------------------------------------------- helpers


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", lw=0.7)
    ax.set_axisbelow(True)
    return figure, ax


def _styles(settings: Sequence[Setting]) -> list[dict]:
    """Colour and marker by algorithm; settings of one algorithm differ in their line."""
    used: dict[str, int] = {}
    styles = []
    for setting in settings:
        name = setting.settings.algorithm
        number = used.get(name, 0)
        used[name] = number + 1
        styles.append(
            {
                "color": COLOURS.get(name, "#444444"),
                "marker": MARKERS.get(name, "o"),
                "linestyle": _LINE_STYLES[number % len(_LINE_STYLES)],
            }
        )
    return styles


def _hatch(linestyle: str) -> str:
    return {"-": "", "--": "//", "-.": "..", ":": "xx"}[linestyle]


def _name(setting: Setting, among: Sequence[Setting]) -> str:
    """The method, and its variant where another setting shares the method's name."""
    same = sum(other.label == setting.label for other in among)
    changed = variant(setting.settings)
    return f"{setting.label}, {changed or 'usual'}" if same > 1 else setting.label


def _where(setting: Setting) -> str:
    s = setting.settings
    return f"{s.family}, {s.game}-{s.representation}"


def _label_ends(ax: Axes, labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the name of every line right of the axes, moved apart where they would overlap; x, y: the line's end."""
    if not labels:
        return
    low, high = ax.get_ylim()
    gap = 0.062 * (high - low)
    order = sorted(range(len(labels)), key=lambda i: labels[i][1])
    places = [labels[i][1] for i in order]
    for _ in range(200):
        moved = False
        for i in range(len(places) - 1):
            short = gap - (places[i + 1] - places[i])
            if short > 1e-9 * gap:
                places[i] -= short / 2
                places[i + 1] += short / 2
                moved = True
        if not moved:
            break
    for place, i in zip(places, order, strict=True):
        end, value, text, colour = labels[i]
        ax.annotate(
            text,
            (end, value),
            xytext=(1.035, place),
            textcoords=("axes fraction", "data"),
            color=colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkA": 0, "shrinkB": 0},
        )


def _by_phi(setting: Setting, splits: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    results = [run.splits[s] for run in setting.runs for s in splits if s in run.splits]
    phi = np.degrees(np.concatenate([r.parameters[:, 0] for r in results]))
    returns = np.concatenate([r.returns for r in results])
    order = np.argsort(phi, kind="stable")
    return phi[order], returns[order]


def _smooth(phi: NDArray[np.float64], values: NDArray[np.float64], width: float = 20.0) -> tuple[NDArray, NDArray]:
    """Mean around every angle, weighted by a Gaussian on the circle (``width`` degrees)."""
    grid = np.linspace(0, 360, 181)
    distance = (grid[:, None] - phi + 180) % 360 - 180
    weight = np.exp(-0.5 * (distance / width) ** 2)
    near = np.abs(distance).min(1) <= width
    mean = (weight * values).sum(1) / weight.sum(1).clip(min=1e-300)
    return grid, np.where(near, mean, np.nan)


def _shade_held_out(ax: Axes, setting: Setting) -> None:
    family = setting.settings.task_family()
    middle = np.degrees(np.arctan2(family.axis[1], family.axis[0]))
    half = np.degrees(family.half_angle)
    for centre in (middle % 360, (middle + 180) % 360):
        for shift in (-360, 0, 360):
            ax.axvspan(centre - half + shift, centre + half + shift, color="#f0ead8", lw=0, zorder=0)


def _moving_mean(values: NDArray[np.float64], window: int = 5) -> NDArray[np.float64]:
    """Mean of the last ``window`` values, of as many as there are at the beginning."""
    total = np.cumsum(np.insert(values, 0, 0.0))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    return (total[last] - total[first]) / (last - first)


def _shown_statistics(run: RunResult, split: str) -> list[int]:
    """Positions of the statistics that the tasks' rewards are about."""
    tasks = run.settings.task_family().sample(split, 2, 0)
    return [int(i) for i in np.flatnonzero(np.abs(tasks.weights).max(0) > 0)]


def _task_words(run: RunResult, split: str, name: str, value: float) -> str:
    """A hidden parameter as a reader wants it: an angle also says what it asks for."""
    if name != "phi":
        return f"{name} = {value:.2f}"
    family = run.settings.task_family()
    wanted = [
        f"{'more' if weight > 0 else 'less'} {statistic}"
        for weight, statistic in zip((np.cos(value), np.sin(value)), family.statistics, strict=True)
        if abs(weight) > 0.38  # nearer to this axis than to the middle between this one and the other
    ]
    return f"φ = {np.degrees(value):.0f}°\n{', '.join(wanted)}"


def figures_for(runs: Sequence[RunResult]) -> Mapping[str, Figure]:
    """All figures that can be made of runs of one family, game and representation, by file name."""
    settings = group_by_setting(runs)
    methods = [s for s in settings if s.settings.algorithm not in _REFERENCES]
    figures: dict[str, Figure] = {}
    for split in SPLITS:
        if any(s.returns(split) is not None for s in methods):
            figures[f"adaptation-{split}"] = adaptation_curves(runs, split)
    if methods:
        figures["share"] = share_bars(runs)
    if any(s.runs[0].history for s in settings):
        figures["training"] = learning_curves(runs)
    if any(r.splits[TRAIN].parameter_names == ("phi",) for s in methods for r in s.runs if TRAIN in r.splits):
        figures["by-direction"] = return_by_direction(runs)
    for setting in methods:
        if any(name.startswith(f"{INTERPOLATION}/") for name in setting.runs[0].levels):
            figures[f"levels-{setting.settings.algorithm}"] = level_gallery(setting.runs[0])
    return figures

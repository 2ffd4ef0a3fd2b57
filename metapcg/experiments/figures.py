"""The figures of notebooks and reports: functions that take runs, or rows of the tables made of them, and return a
matplotlib ``Figure``. What needs nothing but a table can also be drawn from a committed one (``results.read_rows``).

Colours are Okabe and Ito's, which readers with colour-vision deficiencies can tell apart; a method has the same
colour in every figure. Random and oracle are dashed grey and black lines: they are what the others are measured
against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metapcg.envs.rendering import draw_level
from metapcg.games import get_game
from metapcg.tasks.splits import EXTRAPOLATION, HELD_OUT_GAME, INTERPOLATION, SPLITS, TRAIN

from .algorithms import ALGORITHMS
from .intervals import mean_interval, share_interval
from .results import (
    References,
    Setting,
    adaptation_table,
    algorithm_of,
    cost_table,
    gap_table,
    group_by_setting,
    select,
    takes_gradient_steps,
    variant,
)
from .runs import RunResult, settings_for

Rows = Sequence[Mapping[str, Any]]

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
_SHARE_SHOWN = 2.0
_REFERENCES = ("random", "oracle")
_REFERENCE_WORDS = {"oracle": "oracle (told the task)", "random": "random policy"}


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
        name = _name(setting, settings)
        if by == "step" and not ALGORITHMS[setting.settings.algorithm].uses_surrogate:
            name += "\n(a step is an episode)"
        labels.append((x[-1], means[-1], name, style["color"]))
    for setting in settings:
        if setting.settings.algorithm in _REFERENCES:
            value = float(np.mean([r.mean() for r in setting.returns(split)]))
            colour = COLOURS[setting.settings.algorithm]
            ax.axhline(value, color=colour, ls=(0, (5, 3)), lw=1.2, zorder=1)
            labels.append((longest, value, _REFERENCE_WORDS[setting.settings.algorithm], colour))
    if by == "step":
        ax.set_xlim(-0.03 * longest, longest)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        ax.set_xlabel("adaptation step")
    else:
        episodes = [setting.runs[0].splits[split].episodes for setting in settings]
        _episode_axis(ax, [int(count) for counts in episodes for count in counts])
    ax.set_ylabel("return per episode")
    ax.set_title(title or f"{_where(settings[0])}: {split} tasks", loc="left", fontsize=11)
    _label_ends(ax, labels)
    return figure


def comparison(rows: Rows, split: str = INTERPOLATION, title: str | None = None) -> Figure:
    """All methods on one scale: return by episodes of a new task, and by gradient steps on it.

    RL² and PEARL take no gradient steps on a new task. On the right they stand at 0 steps, with an arrow from their
    first episode to their last.

    Args:
        rows: of ``adaptation_table``, of one profile, family, game and representation.
        split: whose tasks.
        title: default: what was trained on, and the split.

    Raises:
        ValueError: no method has results on this split.
    """
    curves = _curves(rows, split)
    methods = {name: curve for name, curve in curves.items() if name not in _REFERENCES}
    if not methods:
        raise ValueError(f"split: no method has results on {split!r}")
    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.25, 1))
    waiting = [name for name, curve in methods.items() if not takes_gradient_steps(curve[0])]
    for name, curve in methods.items():
        style = {"color": COLOURS[name], "marker": MARKERS[name], "ms": 5.5, "lw": 1.8, "zorder": 3}
        means = _column(curve, "return")
        label = curve[0]["method"]
        _banded(left, _column(curve, "episodes"), curve, style, label)
        if name not in waiting:
            _banded(right, _column(curve, "step"), curve, style)
            continue
        x = -0.22 * (1 + waiting.index(name))
        right.annotate(
            "", (x, means[-1]), (x, means[0]), arrowprops={"arrowstyle": "-|>", "color": COLOURS[name], "lw": 1.5}
        )
        right.plot(x, means[0], **{**style, "markerfacecolor": "white"})
        last = curve[-1]
        errors = [[last["return"] - last["low"]], [last["high"] - last["return"]]]
        right.errorbar(x, last["return"], np.clip(errors, 0, None), **style, capsize=2.5, elinewidth=1)
    for ax in (left, right):
        _plain_axes(ax)
        for name in _REFERENCES:
            if name in curves:
                ax.axhline(curves[name][0]["return"], color=COLOURS[name], ls=(0, (5, 3)), lw=1.2, zorder=1)
    _episode_axis(left, [int(row["episodes"]) for curve in methods.values() for row in curve])
    left.set_ylabel("return per episode")
    steps = max((int(curve[-1]["step"]) for name, curve in methods.items() if name not in waiting), default=0)
    right.set_xlim(-0.22 * (len(waiting) + 0.7), steps + 0.08)
    right.set_xticks(range(steps + 1))
    right.set_xlabel(
        "gradient steps on the new task" + ("\n(arrows: first to last episode, without any)" if waiting else "")
    )
    left.set_title("by experience", fontsize=10, loc="left")
    right.set_title("by gradient steps", fontsize=10, loc="left")
    if {"random", "oracle"} <= set(curves):
        floor, lead = curves["random"][0]["return"], curves["oracle"][0]["return"] - curves["random"][0]["return"]
        if curves["oracle"][0]["low"] > curves["random"][0]["high"]:
            share = right.secondary_yaxis(1.0, functions=(lambda y: (y - floor) / lead, lambda y: floor + lead * y))
            share.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
            share.yaxis.set_major_locator(ticker.MultipleLocator(0.2))
            share.set_ylabel("share of the oracle's lead", fontsize=9)
            share.tick_params(labelsize=8)
            share.spines["right"].set_visible(False)
    handles, texts = left.get_legend_handles_labels()
    order = np.argsort([-methods[name][-1]["return"] for name in methods], kind="stable")
    handles, texts = [handles[i] for i in order], [texts[i] for i in order]
    for name in ("oracle", "random"):
        if name in curves:
            handles += left.plot([], [], color=COLOURS[name], ls=(0, (5, 3)), lw=1.2)
            texts.append(_REFERENCE_WORDS[name])
    figure.legend(handles, texts, loc="outside right upper", frameon=False, fontsize=9)
    figure.suptitle(
        title or f"{_place(next(iter(methods.values()))[0])}: {split} tasks", x=0.02, ha="left", fontsize=11
    )
    return figure


def families(rows: Rows, names: Sequence[str] = ("direction", "weights"), split: str = INTERPOLATION) -> Figure:
    """Where adaptation must pay beside where it does not: share of the oracle's lead by episodes, a panel per family.

    Args:
        rows: of ``adaptation_table``, of one profile, game and representation.
        names: the families, from left to right.
        split: whose tasks.

    Raises:
        ValueError: a family has no results on this split.
    """
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    shown: dict[str, Any] = {}
    for ax, family in zip(axes, names, strict=True):
        curves = _curves(select(rows, family=family), split)
        methods = {name: curve for name, curve in curves.items() if name not in _REFERENCES}
        if not methods:
            raise ValueError(f"family: no method has results on {family!r}, {split!r}")
        _plain_axes(ax)
        for name, curve in methods.items():
            if curve[0]["share"] == "":
                continue
            style = {"color": COLOURS[name], "marker": MARKERS[name], "ms": 5.5, "lw": 1.8, "zorder": 3}
            _banded(
                ax, _column(curve, "episodes"), curve, style, curve[0]["method"], ("share", "share_low", "share_high")
            )
        shown.update(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        if all(curve[0]["share"] == "" for curve in methods.values()):
            ax.text(0.5, 0.5, "no share: no oracle that is\nclearly better than random", transform=ax.transAxes,
                    ha="center", va="center", fontsize=9, color="#555555")  # fmt: skip
        ax.axhline(0, color=COLOURS["random"], ls=(0, (5, 3)), lw=1.2, zorder=1)
        ax.axhline(1, color=COLOURS["oracle"], ls=(0, (5, 3)), lw=1.2, zorder=1)
        _episode_axis(ax, [int(row["episodes"]) for curve in methods.values() for row in curve])
        ax.set_title(f"{_place(next(iter(methods.values()))[0])}", fontsize=10, loc="left")
    axes[0].yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
    axes[0].set_ylabel("share of the oracle's lead")
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(min(low, -0.1), max(high, 1.1))
    if shown:
        figure.legend(list(shown.values()), list(shown), loc="outside right upper", frameon=False, fontsize=9)
    figure.suptitle(f"Black: oracle, grey: random policy; {split} tasks", x=0.02, ha="left", fontsize=10)
    return figure


def cost(rows: Rows, title: str | None = None) -> Figure:
    """What training cost against what it gave: return after the last step by environment steps and by seconds.

    Args:
        rows: of ``cost_table``, of one profile, family, game and representation.

    Raises:
        ValueError: there is no method among the rows.
    """
    main = {algorithm_of(row): row for row in rows if _is_main(row)}
    methods = {name: row for name, row in main.items() if name not in _REFERENCES}
    if not methods:
        raise ValueError("rows: there is no row of a method, only references")
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    labels = (("env_steps", "environment steps of training"), ("seconds", "seconds of training"))
    for ax, (column, words) in zip(axes, labels, strict=True):
        _plain_axes(ax)
        trained = [row[column] for row in main.values() if row[column] > 0]
        least = min(trained, default=1.0) / 4
        shown = [(name, row) for name, row in main.items() if name != "random"]
        for name, row in shown:
            # Methods trained on as many steps stand beside each other, not on top of each other.
            close = [other for other, its in shown if abs(its[column] - row[column]) <= 0.02 * row[column]]
            x = (row[column] or least) * 1.1 ** (close.index(name) - (len(close) - 1) / 2)
            errors = np.clip([[row["return"] - row["low"]], [row["high"] - row["return"]]], 0, None)
            ax.errorbar(
                x, row["return"], errors, color=COLOURS[name], marker=MARKERS[name] or "*", ms=8,
                ls="", capsize=3, elinewidth=1.2, label=row["method"], alpha=0.9,
            )  # fmt: skip
        if "random" in main:
            floor = main["random"]["return"]
            ax.axhline(floor, color=COLOURS["random"], ls=(0, (5, 3)), lw=1.2, zorder=1)
            ax.annotate("random policy", (0.99, floor), xycoords=("axes fraction", "data"), ha="right",
                        va="bottom", fontsize=8, color="#555555")  # fmt: skip
        ax.set_xscale("log")
        _cost_ticks(ax, [least, *trained], untrained=any(row[column] == 0 for row in methods.values()))
        ax.set_xlabel(words)
    axes[0].set_ylabel("return per episode after the last step")
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside right upper", frameon=False, fontsize=9)
    figure.suptitle(
        title or f"{_place(next(iter(methods.values())))}: what training cost, and what it gave on new tasks",
        x=0.02, ha="left", fontsize=11,
    )  # fmt: skip
    return figure


def _cost_ticks(ax: Axes, values: Sequence[float], untrained: bool) -> None:
    """Ticks at 1, 2, 5 times powers of ten around the values; the least value stands for no training at all."""
    low, high = values[0], max(values)
    exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [factor * 10.0**e for e in exponents for factor in (1, 2, 5)]
    ticks = [tick for tick in ticks if 1.6 * low < tick < 1.6 * high]
    places = [low, *ticks] if untrained else ticks
    names = ["none", *map(_short_number, ticks)] if untrained else [_short_number(tick) for tick in ticks]
    ax.set_xlim(low / 1.5, high * 1.6)
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.set_xticks(places, names)


def _short_number(value: float) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def gap_dots(rows: Rows, title: str | None = None) -> Figure:
    """The generalisation gap: return on training tasks minus return on a test split, with 95 % intervals.

    Another game's returns have another scale, so that split is left out.

    Args:
        rows: of ``gap_table``, of one profile, family, game and representation.

    Raises:
        ValueError: no method has a training split and a test split.
    """
    shown = [row for row in rows if _is_main(row) and row["method"] != "random" and row["split"] != HELD_OUT_GAME]
    if not shown:
        raise ValueError("rows: no method has results on training tasks and on test tasks")
    names = list(dict.fromkeys(algorithm_of(row) for row in shown))
    splits = [split for split in SPLITS if any(row["split"] == split for row in shown)]
    figure, ax = _figure(7.6, 3.7)
    width = 0.75 / len(names)
    for place, name in enumerate(names):
        own = [row for row in shown if algorithm_of(row) == name]
        x = [splits.index(row["split"]) + (place - (len(names) - 1) / 2) * width for row in own]
        gaps = _column(own, "gap")
        errors = np.clip([gaps - _column(own, "low"), _column(own, "high") - gaps], 0, None)
        ax.errorbar(x, gaps, errors, color=COLOURS[name], marker=MARKERS[name] or "*", ms=6, ls="", capsize=3,
                    elinewidth=1.2, label=own[0]["method"])  # fmt: skip
    ax.axhline(0, color="#444444", lw=1)
    for edge in range(1, len(splits)):
        ax.axvline(edge - 0.5, color="#e4e4e4", lw=0.8)
    ax.set_xticks(range(len(splits)), [SPLIT_LABELS[split] for split in splits])
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("return on train − return there")
    ax.set_title(title or f"{_place(shown[0])}: generalisation gap", loc="left", fontsize=11)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure


def share_bars(runs: Sequence[RunResult], title: str | None = None) -> Figure:
    """Return after the last adaptation step as a share of the oracle's, by split, with 95 % intervals.

    0 is the random policy, 1 the oracle. Splits without an oracle on the same tasks have no bars and say so. Bars that
    are higher than twice the oracle's, which then has next to nothing itself, are cut off and carry their number.

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
    tops, bottoms, cut = [1.0], [0.0], []
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
            cut += [(x, s.mean) for x, s in zip(positions, shares, strict=True) if s.mean > 1.02 * _SHARE_SHOWN]
            tops.append(max(s.high for s in shares))
            bottoms.append(min(s.low for s in shares))
    for index, split in enumerate(splits):
        if split not in shown:
            ax.text(index, 0.03, "no oracle\non these tasks", ha="center", va="bottom", fontsize=8, color="#555555")
    ax.axhline(0, color=COLOURS["random"], lw=1)
    ax.axhline(1, color=COLOURS["oracle"], lw=1, ls=(0, (5, 3)))
    low, high = max(min(bottoms), -_SHARE_SHOWN / 2), min(max(tops), _SHARE_SHOWN)
    span = high - low
    ax.set_ylim(low - 0.04 * span, high + 0.08 * span)
    for position, share in cut:
        ax.text(
            position, 0.06, f"{100 * share:.0f} %", rotation=90, ha="center", va="bottom", fontsize=8, color="white"
        )
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


def variations(rows: Rows, title: str | None = None) -> Figure:
    """What a changed setting does: return by the setting's value; one panel per method and setting.

    Solid: interpolation tasks with 95 % intervals; dotted: training tasks. Light: after one adaptation step, dark:
    after the last one. The inner surrogates are a setting too.

    Args:
        rows: of ``adaptation_table``, of one profile, family, game and representation: those with one setting changed,
            and those under the budget itself, which are one point of every panel.

    Raises:
        ValueError: no method has exactly one setting changed and results under the budget as well.
    """
    panels = _variation_panels(rows)
    if not panels:
        raise ValueError("rows: none differs in exactly one setting from rows that are there as well")
    columns = 2 if len(panels) in (2, 4) else min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(0.9 + 3.3 * columns, 0.7 + 2.7 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False).reshape(-1)
    drawn: dict[str, Any] = {}
    for ax, ((method, name), (usual, points)) in zip(axes, panels.items(), strict=False):
        last = min(max(row["step"] for row in found) for _, found in points)
        for split, line in ((TRAIN, ":"), (INTERPOLATION, "-")):
            for step, words, colour in ((1, "step 1", "#56B4E9"), (last, "last step", "#0072B2")):
                if step > last or (step == last and words == "step 1"):
                    continue
                found = [(x, row) for x, (_, own) in enumerate(points) for row in select(own, split=split, step=step)]
                if not found:
                    continue
                means = _column([row for _, row in found], "return")
                ends = [_column([row for _, row in found], name) for name in ("low", "high")]
                # Training tasks' intervals have the other line's height; both would hide each other.
                errors = None if split == TRAIN else np.clip([means - ends[0], ends[1] - means], 0, None)
                drawn[f"{split}, {words}"] = ax.errorbar(
                    [x for x, _ in found], means, errors, color=colour, ls=line, marker="o", ms=4, lw=1.6, capsize=2
                )
        names = [_setting_text(value) for value, _ in points]
        ax.set_xticks(range(len(points)), names, fontsize=9 if max(map(len, names)) < 6 else 8)
        ax.set_xlim(-0.3, len(points) - 0.7)
        ax.set_xlabel(f"{name} (usual: {_setting_text(usual)})")
        ax.set_title(method, fontsize=10, loc="left", color=COLOURS[algorithm_of({"method": method})])
        _plain_axes(ax)
    low, _ = axes[0].get_ylim()
    axes[0].set_ylim(bottom=min(low, 0.0))  # on a scale without 0, noise looks like an effect
    for place, ax in enumerate(axes):
        if place >= len(panels):
            ax.set_axis_off()
        elif place % columns == 0:
            ax.set_ylabel("return per episode")
    columns = 4 if columns > 1 else 2
    figure.legend(
        list(drawn.values()), list(drawn), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
    figure.suptitle(title or _place(rows[0]), x=0.02, ha="left", fontsize=11)
    return figure


def has_variations(rows: Rows) -> bool:
    """Whether ``variations`` has something to show."""
    return bool(_variation_panels(rows))


def _variation_panels(rows: Rows) -> dict[tuple[str, str], tuple[Any, list[tuple[Any, Rows]]]]:
    """(method, setting) → the usual value, and (value, rows) in ascending order of the value."""
    by_variant: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_variant.setdefault((row["method"], row["variant"]), []).append(row)
    panels: dict[tuple[str, str], tuple[Any, list[tuple[Any, Rows]]]] = {}
    for (method, changed), found in by_variant.items():
        usual = by_variant.get((method, ""))
        if len(changed.split()) != 1 or usual is None:
            continue
        name, text = changed.split("=", 1)
        budget = getattr(_budget(found[0]), name)
        panels.setdefault((method, name), (budget, [(budget, usual)]))[1].append((_parse(text), found))
    for _, points in panels.values():
        if not any(isinstance(value, str) for value, _ in points):
            points.sort(key=lambda point: np.inf if point[0] is None else point[0])
    panels = dict(sorted(panels.items(), key=lambda item: _METHOD_ORDER.index(algorithm_of({"method": item[0][0]}))))
    surrogates = {"naive": "MAML (naive)", "lvc": "MAML", "dice": "MAML (dice)"}
    found = [(name, by_variant[label, ""]) for name, label in surrogates.items() if (label, "") in by_variant]
    if len(found) > 1 and ("MAML", "") in by_variant:
        panels = {("MAML", "surrogate"): ("lvc", found), **panels}
    return panels


_METHOD_ORDER = list(ALGORITHMS)


def _budget(row: Mapping[str, Any]) -> Any:
    return settings_for(row["profile"], algorithm_of(row), row["game"], row["representation"], family=row["family"])


def _parse(text: str) -> Any:
    """A setting's value as tables write it; what cannot be put on a scale stays a text."""
    known = {"None": None, "True": True, "False": False}
    if text in known:
        return known[text]
    try:
        return float(text)
    except ValueError:
        return text


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "∞"
    return value if isinstance(value, str) else f"{value:g}"


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


def _plain_axes(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", lw=0.7)
    ax.set_axisbelow(True)


def _episode_axis(ax: Axes, counts: Iterable[int]) -> None:
    """Episodes of a task, from none to many: linear up to one, then logarithmic, since RL² and PEARL look at every
    episode and gradient steps wait for several."""
    counts = sorted({0, *counts})
    ax.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    shown = [count for count in counts[1:-1] if count in _TICKS and count * 1.35 < counts[-1]]
    shown = [0, *shown, *counts[-1:]] if counts[-1] else [0]
    ax.set_xticks(shown, map(str, shown))
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.set_xlim(-0.12, max(counts[-1], 1) * 1.08)
    ax.set_xlabel("episodes of the new task seen so far")


_TICKS = (0, 1, 2, 3, 5, 10, 15, 20, 25, 40, 50, 60, 80, 100)


def _is_main(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a method as it stands in the comparison: the budget's settings, the usual surrogate."""
    return not row["variant"] and row["method"] == ALGORITHMS[algorithm_of(row)].label


def _curves(rows: Rows, split: str) -> dict[str, Rows]:
    """Algorithm → its rows of the split in order of steps, in the order of ``ALGORITHMS``."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["split"] == split and _is_main(row):
            found.setdefault(algorithm_of(row), []).append(row)
    return {name: sorted(found[name], key=lambda row: row["step"]) for name in ALGORITHMS if name in found}


def _column(rows: Rows, name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _banded(
    ax: Axes,
    x: NDArray,
    rows: Rows,
    style: dict,
    label: str | None = None,
    names: Sequence[str] = ("return", "low", "high"),
) -> None:
    """A line with its interval as a band."""
    mean, low, high = (_column(rows, name) for name in names)
    ax.fill_between(x, low, high, color=style["color"], alpha=0.13, lw=0)
    ax.plot(x, mean, **style, label=label)


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['family']}, {row['game']}-{row['representation']}"


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
    """All figures that can be made of runs of one family, game and representation, by file name.

    Runs with another surrogate than the usual one are left to ``variations``.
    """
    runs = [run for run in runs if run.label == ALGORITHMS[run.settings.algorithm].label] or list(runs)
    settings = group_by_setting(runs)
    methods = [s for s in settings if s.settings.algorithm not in _REFERENCES]
    rows = adaptation_table(runs)
    figures: dict[str, Figure] = {}
    if any(row["split"] == INTERPOLATION and row["method"] in {s.label for s in methods} for row in rows):
        figures["comparison"] = comparison(rows)
        figures["cost"] = cost(cost_table(runs))
    for split in SPLITS:
        if any(s.returns(split) is not None for s in methods):
            figures[f"adaptation-{split}"] = adaptation_curves(runs, split, by="episodes")
    if methods:
        figures["share"] = share_bars(runs)
    gaps = gap_table(runs)
    if any(row["method"] != "random" and row["split"] != HELD_OUT_GAME for row in gaps):
        figures["gap"] = gap_dots(gaps)
    if any(s.runs[0].history for s in settings):
        figures["training"] = learning_curves(runs)
    if any(r.splits[TRAIN].parameter_names == ("phi",) for s in methods for r in s.runs if TRAIN in r.splits):
        figures["by-direction"] = return_by_direction(runs)
    for setting in methods:
        if any(name.startswith(f"{INTERPOLATION}/") for name in setting.runs[0].levels):
            figures[f"levels-{setting.settings.algorithm}"] = level_gallery(setting.runs[0])
    return figures

# %% [markdown] id="intro"
# # Notebook 4 · Analysis: what do the four methods really do?
#
# Notebooks 1 to 3 left runs on disk: MAML, FOMAML, RL², PEARL, pretraining, a random initialisation, an oracle, a random policy, all evaluated on the
# same tasks. This notebook trains nothing that is expensive. It reads those runs and asks what may be concluded from them. When you are done you
# will be able to
#
# 1. put returns of different tasks on one scale, and say when that scale misleads;
# 2. compute an interval that knows that five seeds are five trainings and not five hundred tasks;
# 3. compare methods that learn from episodes with methods that take gradient steps, on an axis that is fair to both;
# 4. recognise a benchmark on which adaptation cannot show;
# 5. weigh a result against what it cost.
#
# **Before you start**: run notebooks 1 to 3 under the same profile. What is missing is made here if it is cheap; otherwise one line says which command makes
# it, and the figures do without it. **Time**: two hours of work. The finished notebook runs in about a minute.
#
# **How it works.** As before: TODOs of one to six lines, a test on a worked example after each, hidden tests when it is graded. The questions are
# answered from the figures; give the numbers that you read off. No graded cell needs another notebook.
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `normalised_score` | 3 |
# | 2 | `bootstrap_means` | 3 |
# | 3 | `percentile_interval` | 1 |
# | 4 | `episodes_needed` | 3 |
# | – | question 1: which axis? | 3 |
# | – | question 2: what a share hides | 3 |
# | – | question 3: the wrong benchmark | 3 |
# | – | question 4: what it costs | 3 |
# | – | question 5: one knob at a time | 3 |
# | | **total** | **25** |

# %% id="imports"
import torch
from torch import Tensor

LEVEL = 0.95  # of every interval

# %% id="setup"
import time

import matplotlib.pyplot as plt
from IPython.display import display

from metapcg.experiments.outputs import output_dir, save_figure, save_table
from metapcg.experiments.profiles import by_profile, current_profile
from metapcg.learning.checks import check, emit
from metapcg.learning.device import configure

device = configure()
profile = current_profile()
print(f"profile {profile}, device {device}")
if profile == "smoke":
    print("smoke shows that everything executes; nothing has learned, so read no meaning into its numbers")

# %% [markdown] id="score"
# ## 1 · One scale for all tasks
#
# A return of 9.8 means nothing by itself. Two policies give it a meaning, evaluated on the *same tasks of the same seeds*: one that acts at random, and
# an oracle that is told its task. With $\bar R$ for means over seeds and tasks, the **normalised score** after $k$ adaptation steps is
#
# $$ s_k \;=\; \frac{\bar R_k - \bar R^{\text{random}}}{\bar R^{\text{oracle}} - \bar R^{\text{random}}}. \tag{1} $$
#
# It is a ratio of means. The mean of the tasks' own ratios looks as good, but there are tasks on which the oracle is hardly better than random; their ratios are
# huge, of either sign, and decide the mean.
#
# **Worked by hand**: one seed, two tasks. Before adaptation they return $(0, 2)$, after it $(4, 6)$; random $(0, 2)$, oracle $(4, 10)$. The means are 1 and 5, 1, 7.
# Before: $(1 - 1)/(7 - 1) = 0$. After: $(5 - 1)/(7 - 1) = 2/3$. (The mean of the tasks' ratios would be $\tfrac12(1 + \tfrac12) = 0.75$.)


# %% id="normalised-score" kind="solution"
def normalised_score(returns: Tensor, random: Tensor, oracle: Tensor) -> Tensor:
    """Share of the oracle's lead over random by adaptation step, equation (1).

    Args:
        returns: (S, M, K + 1), S seeds, M tasks each, after 0 ... K adaptation steps.
        random: (S, M), the random policy on the same tasks.
        oracle: (S, M), the oracle on the same tasks.

    Returns:
        (K + 1,).

    TODO (1-3 lines): average over seeds and tasks first, then divide.
    """
    ### BEGIN SOLUTION
    floor, ceiling = random.mean(), oracle.mean()
    return (returns.mean((0, 1)) - floor) / (ceiling - floor)
    ### END SOLUTION


# %% id="test-normalised-score" kind="tests" points=3
_returns = torch.tensor([[[0.0, 4.0], [2.0, 6.0]]])
_random, _oracle = torch.tensor([[0.0, 2.0]]), torch.tensor([[4.0, 10.0]])
check("normalised_score on the worked example", normalised_score(_returns, _random, _oracle), torch.tensor([0.0, 2 / 3]), {
    "this is the mean of the tasks' own ratios; average first, then divide.": [0.0, 0.75],
    "random is missing: this is the share of the oracle's return, not of its lead.": [1 / 7, 5 / 7],
    "the denominator is the oracle's return; it must be its lead over random.": [0.0, 4 / 7],
    "random and oracle are swapped: the oracle must score 1.": [1.0, 1 / 3],
    "this is the lead over random in raw return; divide it by the oracle's.": [0.0, 4.0],
})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(40)
_random = torch.randn(3, 5, generator=_draw, dtype=torch.float64)
_oracle = 6 + 2 * torch.randn(3, 5, generator=_draw, dtype=torch.float64)
_returns = _random[..., None] + 4 * torch.rand(3, 5, 4, generator=_draw, dtype=torch.float64)
_copies = [x.clone() for x in (_returns, _random, _oracle)]
emit("normalised_score, three seeds, five tasks, three steps", normalised_score(_returns, _random, _oracle),
     hint="Average over seeds and tasks, keep the steps, then divide.")  # fmt: skip
emit("normalised_score: the returns that were handed in", _returns, hint="They were changed in place.")
emit("normalised_score: random's returns that were handed in", _random, hint="They were changed in place.")
emit("normalised_score: the oracle's returns that were handed in", _oracle, hint="They were changed in place.")
_oracle[1, 2] = _random[1, 2]  # a task without a lead: its own ratio is not finite
emit("normalised_score where a task's oracle equals random", normalised_score(_returns, _random, _oracle),
     hint="The ratio of means is finite; the mean of ratios is not.")  # fmt: skip
emit("normalised_score of a single step", normalised_score(_returns[..., 2:3] * 3 - 12, _random, _oracle),
     hint="Scores may be negative or above one; do not clip them.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="bootstrap"
# ## 2 · An interval over tasks *and* seeds
#
# How far would $\bar R$ move if somebody repeated the whole experiment: another seed for training, other test tasks? The **bootstrap** (Efron and Tibshirani 1993) repeats it
# with the data at hand. The data are nested: all tasks of a seed share one training, and its luck. So a resample
#
# 1. draws $S$ seeds with replacement, $i_1 \dots i_S$;
# 2. for **every drawn seed anew**, draws $M$ of *its* tasks with replacement. A seed that was drawn twice gets two draws of tasks.
#
# The mean of resample $b$ is
#
# $$ \bar R^{(b)} \;=\; \frac1{SM}\sum_{s=1}^{S}\sum_{m=1}^{M} x_{\,i_{b,s},\; j_{b,s,m}} . \tag{2} $$
#
# The draws are given to you: `seed_draws[b, s]` is $i_{b,s}$, `task_draws[b, s, m]` is $j_{b,s,m}$.
#
# **Worked by hand**: two seeds with two tasks each, $x = \begin{pmatrix}1 & 3\\ 10 & 20\end{pmatrix}$. Resample 0 draws seed 0 twice, with tasks $(0, 1)$ and $(1, 1)$: $(1 + 3 + 3 + 3)/4 = 2.5$.
# Resample 1 draws seeds $(1, 0)$ with tasks $(0, 0)$ of seed 1 and $(1, 1)$ of seed 0: $(10 + 10 + 3 + 3)/4 = 6.5$.


# %% id="bootstrap-means" kind="solution"
def bootstrap_means(values: Tensor, seed_draws: Tensor, task_draws: Tensor) -> Tensor:
    """The mean of every resample of nested data, equation (2).

    Args:
        values: (S, M), one value for each of M tasks of each of S seeds.
        seed_draws: (B, S) integers below S, the seeds of every resample.
        task_draws: (B, S, M) integers below M; row [b, s] belongs to the s-th drawn seed of resample b.

    Returns:
        (B,).

    TODO (1-3 lines): index with integer tensors that broadcast against each other.
    """
    ### BEGIN SOLUTION
    return values[seed_draws[:, :, None], task_draws].mean((1, 2))
    ### END SOLUTION


# %% id="test-bootstrap-means" kind="tests" points=3
_values = torch.tensor([[1.0, 3.0], [10.0, 20.0]])
_seeds = torch.tensor([[0, 0], [1, 0]])
_tasks = torch.tensor([[[0, 1], [1, 1]], [[0, 0], [1, 1]]])
check("bootstrap_means on the worked example", bootstrap_means(_values, _seeds, _tasks), torch.tensor([2.5, 6.5]), {
    "seed_draws is ignored: every seed is in every resample once. Then luck of training is not in the interval.": [11.0, 10.5],
    "only seeds are drawn, with all their tasks as they are; draw tasks as well.": [2.0, 8.5],
    "row [b, s] of task_draws belongs to the s-th drawn seed, not to the seed of number s.": [2.0, 10.5],
    "these are sums; divide by S·M.": [10.0, 26.0],
})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(41)
_values = 5 + torch.randn(4, 7, generator=_draw, dtype=torch.float64)
_seeds = torch.randint(4, (6, 4), generator=_draw)
_tasks = torch.randint(7, (6, 4, 7), generator=_draw)
emit("bootstrap_means, four seeds, seven tasks, six resamples", bootstrap_means(_values, _seeds, _tasks),
     hint="Seeds first, then every drawn seed's own tasks.")  # fmt: skip
emit("bootstrap_means: the values that were handed in", _values, hint="They were changed in place.")
emit("bootstrap_means: the seeds that were handed in", _seeds, hint="They were changed in place.")
emit("bootstrap_means: the tasks that were handed in", _tasks, hint="They were changed in place.")
_one = torch.randint(5, (3, 1, 5), generator=_draw)
emit("bootstrap_means of a single seed", bootstrap_means(_values[:1, :5], torch.zeros(3, 1, dtype=torch.long), _one),
     hint="With one seed only the tasks are resampled.")  # fmt: skip
emit("bootstrap_means of a single resample", bootstrap_means(_values, _seeds[2:3], _tasks[2:3]),
     hint="The axis of resamples stays, also when it has length one.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="percentile"
# The **percentile interval** of level $c$ cuts off $(1 - c)/2$ of the resampled means at either end.
#
# **Worked by hand**: means $0, 1, \dots, 100$ and $c = 0.9$: five per cent on either side, $(5, 95)$.


# %% id="percentile-interval" kind="solution"
def percentile_interval(means: Tensor, level: float) -> Tensor:
    """Percentile interval of resampled means.

    Args:
        means: (B,), from `bootstrap_means`.
        level: coverage c, between 0 and 1.

    Returns:
        (2,): lower and upper end, by `torch.quantile` (which interpolates linearly).

    TODO (1-2 lines).
    """
    ### BEGIN SOLUTION
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=means.dtype)
    return torch.quantile(means, ends)
    ### END SOLUTION


# %% id="test-percentile-interval" kind="tests" points=1
_means = torch.arange(101.0, dtype=torch.float64)
check("percentile_interval of 0 ... 100, level 0.9", percentile_interval(_means, 0.9), torch.tensor([5.0, 95.0], dtype=torch.float64), {
    "ten per cent are cut off at either end; the level is what stays in between, so half of the rest goes on each side.": [10.0, 90.0],
    "these are the smallest and the largest mean.": [0.0, 100.0],
    "the ends are swapped.": [95.0, 5.0],
})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(42)
_means = torch.randn(203, generator=_draw, dtype=torch.float64) ** 3 + 2
emit("percentile_interval of a skewed sample, level 0.95", percentile_interval(_means, 0.95),
     hint="Use quantiles, not the standard deviation: the interval need not be symmetric.")  # fmt: skip
emit(
    "percentile_interval of the same sample, level 0.5",
    percentile_interval(_means, 0.5),
    hint="The level is an argument.",
)
emit("percentile_interval: the means that were handed in", _means, hint="They were changed in place.")
### END HIDDEN TESTS

# %% [markdown] id="coverage-intro"
# Does it matter? Let us do what one can never do with real runs: repeat a whole experiment hundreds of times, with a known truth. Every training has a luck of its own (standard deviation 1), every one of
# its 20 tasks another (2). The true mean is 0. How often does an interval that calls itself 95 % hold it?

# %% id="coverage"
seed_counts, repetitions, resamples = (1, 2, 3, 5, 10), by_profile(smoke=20, quick=300, full=1000), 300
generator = torch.Generator().manual_seed(0)


def draw_resamples(num_seeds: int, num_tasks: int, num_resamples: int) -> tuple[Tensor, Tensor]:
    """Seeds (B, S) and tasks (B, S, M) of every resample."""
    seeds = torch.randint(num_seeds, (num_resamples, num_seeds), generator=generator)
    return seeds, torch.randint(num_tasks, (num_resamples, num_seeds, num_tasks), generator=generator)


covered = {"tasks in seeds": [], "all tasks in one pot": []}
for num_seeds in seed_counts:
    hits = dict.fromkeys(covered, 0)
    for _ in range(repetitions):
        luck = torch.randn(num_seeds, 1, generator=generator)
        values = luck + 2 * torch.randn(num_seeds, 20, generator=generator)
        for name, data in (("tasks in seeds", values), ("all tasks in one pot", values.reshape(1, -1))):
            low, high = percentile_interval(bootstrap_means(data, *draw_resamples(*data.shape, resamples)), LEVEL)
            hits[name] += int(low <= 0 <= high)
    for name in covered:
        covered[name].append(hits[name] / repetitions)

fig, ax = plt.subplots(figsize=(6.4, 3.3))
for (name, shares), colour, marker in zip(covered.items(), ("#0072B2", "#D55E00"), "os", strict=True):
    ax.plot(seed_counts, [100 * share for share in shares], marker=marker, color=colour, label=f"resampled: {name}")
ax.axhline(95, color="#333333", linewidth=1, linestyle="--")
ax.text(10, 95.8, "what it claims", ha="right", fontsize=9)
ax.set(xlabel="seeds", ylabel="intervals that hold the truth (%)", xticks=seed_counts, ylim=(30, 101))
ax.set_title("95 % intervals, on trial", loc="left")
ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.12))
fig.tight_layout()
save_figure(fig, "analysis_coverage")
plt.show()

# %% [markdown] id="coverage-reading"
# Who throws all tasks into one pot is wrong in about four of ten experiments, and more seeds hardly help: the interval shrinks as fast as the error. Resampling tasks within seeds comes near to what it claims with five seeds and
# nearer with ten; with two or three it is still too narrow. With **one** seed there is nothing to resample, and both are the same: such an interval is about *this* training, and says nothing of another one. Under `quick` there is one
# seed, so read the intervals below in that light; the reference at the end has several.

# %% [markdown] id="runs-intro"
# ## 3 · What lies on disk
#
# Every run is a folder below `runs/`: settings, versions, training metrics, and the return of every test task after every adaptation step. All runs of one seed were evaluated on the same tasks.

# %% id="runs"
from metapcg.experiments.algorithms import ALGORITHMS
from metapcg.experiments.functions import NotebookFunctions
from metapcg.experiments.results import group_by_setting, load_results
from metapcg.experiments.runs import execute_run, run_folder, settings_for
from metapcg.learning.meta_training import Diverged

root = output_dir() / "runs" / profile
functions = NotebookFunctions()
expensive = by_profile(smoke=(), quick=("rl2", "pearl"), full=tuple(n for n, a in ALGORITHMS.items() if a.train))
notebook_of = {"rl2": "rl2", "pearl": "pearl"}
there = {run.settings for run in load_results(root)[0]}
wanted = [settings_for(profile, name) for name in ALGORITHMS]
wanted += [settings_for(profile, name, family="weights") for name in ("maml", "pretrained", "oracle", "random")]
for settings in wanted:
    name = f"{settings.family}, {ALGORITHMS[settings.algorithm].label}"
    command = f"./compile_and_run.sh run --profile {profile} --only {notebook_of.get(settings.algorithm, 'maml')}"
    if settings.family == "weights":
        command = f".venv/bin/python -m metapcg experiments run --profile {profile} --only no-need-to-adapt/"
    if settings in there:
        continue
    if settings.algorithm in expensive:
        print(f"{name}: no run; this command makes it: {command}")
        continue
    started = time.perf_counter()
    try:
        execute_run(settings, functions, run_folder(settings, functions), device)
        print(f"{name}: made now, {time.perf_counter() - started:.0f} s", flush=True)
    except (ValueError, Diverged) as error:
        print(f"{name}: cannot be made ({error})")

every_run, problems = load_results(root)
for problem in problems:
    print(f"not used: {problem}")
runs = [run for run in every_run if (run.settings.game, run.settings.representation) == ("binary", "narrow")]
settings_there = {(s.settings.family, s.label): s for s in group_by_setting(runs) if s.settings in wanted}
for (family, label), setting in settings_there.items():
    print(f"{family:<10} {label:<12} seeds {', '.join(map(str, setting.seeds))}")

# %% [markdown] id="own-intervals-intro"
# Now your three functions on these returns. Two things need care. Tasks come in pairs $w, -w$: for whoever does not adapt, one task's gain is the other's loss, so a pair is **one** independent unit, and `setting.returns` already
# holds the means of pairs. And the library's intervals, in all figures below, are made in the same way as yours, with other random draws: the two columns must agree to about a tenth.

# %% id="own-intervals"
from metapcg.experiments.results import adaptation_table, select

table = adaptation_table(runs)


def by_seed(label: str, split: str = "interpolation") -> Tensor | None:
    """Returns (S, units, K + 1) of a method on `direction`; None if there is no run."""
    setting = settings_there.get(("direction", label))
    returns = setting.returns(split) if setting else None
    return None if returns is None else torch.stack([torch.as_tensor(r) for r in returns])


def random_and_oracle(label: str) -> tuple[Tensor, Tensor] | None:
    """Returns (S, units) of both references on the seeds of a method; None if they are missing."""
    found = by_seed("random"), by_seed("oracle")
    seeds = settings_there["direction", label].seeds
    if any(r is None or len(r) < len(seeds) for r in found):
        return None
    return tuple(r[: len(seeds), :, 0] for r in found)


print(
    f"{'interpolation, last step':<26}{'return':>8}  {'your interval':<18}{'the library':<18}{'score by step (yours)'}"
)
scores = {}
for label in [a.label for a in ALGORITHMS.values()]:
    returns = by_seed(label)
    if returns is None:
        continue
    last = returns[..., -1]
    low, high = percentile_interval(bootstrap_means(last, *draw_resamples(*last.shape, 2000)), LEVEL)
    row = select(
        table, family="direction", method=label, split="interpolation", variant="", step=returns.shape[-1] - 1
    )[0]
    line = f"{label:<26}{last.mean():8.2f}  [{low:6.2f}, {high:6.2f}]  [{row['low']:6.2f}, {row['high']:6.2f}]  "
    references = random_and_oracle(label)
    if references is not None:
        scores[label] = normalised_score(returns, *references)
        line += "  ".join(f"{score:5.2f}" for score in scores[label])
    print(line)

# %% [markdown] id="curves-intro"
# ## 4 · Four ways to adapt, on one axis
#
# MAML and FOMAML play five episodes, take a gradient step, play five more. RL² has a memory that runs on through all episodes of a trial. PEARL plays an episode with a guess of the task, looks at it, and guesses better. "Adaptation step" means something
# else for each of them. What they share is **experience**: how many episodes of the new task were seen. And they differ in **computation**: RL² and PEARL adapt in a forward pass and take no gradient step at all.

# %% id="curves"
from metapcg.experiments.figures import comparison

direction = select(table, family="direction")
methods_there = {row["method"] for row in direction} - {"oracle", "random"}
if methods_there:
    fig = comparison(direction)
    save_figure(fig, "analysis_comparison")
    display(fig)

# %% [markdown] id="curves-reading"
# **Left**, by experience; the axis is logarithmic from the first episode on. The gradient methods have a point every five episodes and nothing in between: a gradient step needs a batch. RL² and PEARL have a point after every episode. Whoever is asked to
# be good after *one* episode cannot use MAML as it was trained here.
#
# At zero episodes, MAML, FOMAML, pretraining and the random initialisation stand at the random policy's line. RL² need not: every edit is paid at once, so it learns about the task **within** its first episode, and that is already part of the return that is
# plotted at zero. PEARL plays its first episode with a task guessed from the prior.
#
# **Right**, by gradient steps, RL² and PEARL stand left of zero: the hollow mark is their first episode, the filled one their last. Everything they do happens without a gradient.
#
# Pretraining on all tasks is the worst start of a gradient method, slower than random weights at first and no better in the end: averaged over all directions there is nothing to learn, so it learned something that has to be undone.

# %% [markdown] id="needed-intro"
# **Episodes needed.** The question of somebody who wants to use it: after how many episodes of my task is it good enough?
#
# **Worked by hand**: scores of three methods after $(0, 5, 10, 15)$ episodes, wanted $0.8$: $(0, 0.7, 0.9, 0.85)$ gets there after **10**; $(0, 0.2, 0.3, 0.4)$ never does, so **infinity**; $(0.8, 0.9, 0.9, 1)$ needs **0**.


# %% id="episodes-needed" kind="solution"
def episodes_needed(scores: Tensor, episodes: Tensor, wanted: float) -> Tensor:
    """The smallest number of episodes after which a score is reached.

    Args:
        scores: (N, K + 1), N curves.
        episodes: (K + 1,) ascending numbers of episodes, shared by all curves.
        wanted: the score to reach; equal is enough.

    Returns:
        (N,), dtype of `scores`; infinity for a curve that never reaches it.

    TODO (2-4 lines): argmax of a row of zeros and ones finds the first one, but also "finds" one in a row of zeros.
    """
    ### BEGIN SOLUTION
    reached = scores >= wanted
    first = episodes.to(scores.dtype)[reached.int().argmax(-1)]
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))
    ### END SOLUTION


# %% id="test-episodes-needed" kind="tests" points=3
_scores = torch.tensor([[0.0, 0.7, 0.9, 0.85], [0.0, 0.2, 0.3, 0.4], [0.8, 0.9, 0.9, 1.0]])
_needed = episodes_needed(_scores, torch.tensor([0, 5, 10, 15]), 0.8)
_finite = torch.where(torch.isinf(_needed), torch.full_like(_needed, 999.0), _needed) if _needed is not None else None
check("episodes_needed on the worked example (999 stands for infinity)", _finite, torch.tensor([10.0, 999.0, 0.0]), {
    "a curve that never gets there needs infinitely many episodes, not 0: argmax of a row of zeros is 0.": [10.0, 0.0, 0.0],
    "a curve that never gets there needs infinitely many episodes, not as many as were tried.": [10.0, 15.0, 0.0],
    "these are numbers of steps; look up the episodes.": [2.0, 999.0, 0.0],
    "equal is enough: use >=.": [10.0, 999.0, 5.0],
    "this is the last time that the curve is good enough, not the first.": [15.0, 999.0, 15.0],
    "this is the best point of the curve, not the first that is good enough.": [10.0, 999.0, 15.0],
})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(43)
_scores = torch.rand(9, 6, generator=_draw, dtype=torch.float64)
_scores[3] = -_scores[3]
_scores[5, 1] = 0.6
_scores[5, 0] = 0.1
_episodes = torch.tensor([0, 1, 2, 4, 8, 16])
emit(
    "episodes_needed of nine curves",
    episodes_needed(_scores, _episodes, 0.6),
    hint="The first point counts, also if the curve falls again.",
)
emit(
    "episodes_needed of a low score", episodes_needed(_scores, _episodes, 0.05), hint="The wanted score is an argument."
)
emit("episodes_needed of a score that nobody reaches", episodes_needed(_scores, _episodes, 1.5), hint="Infinity.")
emit("episodes_needed: the scores that were handed in", _scores, hint="They were changed in place.")
emit("episodes_needed: the episodes that were handed in", _episodes, hint="They were changed in place.")
### END HIDDEN TESTS

# %% id="needed"
thresholds = (0.5, 0.6, 0.7, 0.8, 0.9)
print("episodes of a new task until a share of the oracle's lead is reached (mean curve; –: not within what was tried)")
print(f"{'method':<14}" + "".join(f"{100 * wanted:>7.0f} %" for wanted in thresholds))
needed_rows = []
for label, curve in scores.items():
    if label in ("oracle", "random"):
        continue
    run = settings_there["direction", label].runs[0]
    counts = torch.as_tensor(run.splits["interpolation"].episodes)
    needed = [float(episodes_needed(curve[None], counts, wanted)) for wanted in thresholds]
    shown = ["–" if value == float("inf") else f"{value:.0f}" for value in needed]
    needed_rows.append(
        {"method": label, **{f"{100 * w:.0f} %": value for w, value in zip(thresholds, shown, strict=True)}}
    )
    print(f"{label:<14}" + "".join(f"{value:>9}" for value in shown))
if needed_rows:
    save_table(needed_rows, "analysis_episodes_needed")

# %% [markdown] id="q-axis" kind="question" points=3
# ### Question 1 (3 points)
#
# (a) Somebody reports: "after one adaptation step, MAML is better than RL²." What is wrong with this sentence? Give a fair one, with numbers from the figure or the table.
# (b) Notebook 1 proved that a policy that does not adapt earns exactly 0 on a symmetric set of directions. RL²'s return at zero episodes may lie well above 0. Why is that no contradiction?
# (c) What would you change to make MAML useful after a single episode, and what would it cost?
#
# ### BEGIN SOLUTION
# (a) A step is five episodes and a gradient for MAML, and one episode for RL²; the two have not seen the same. Fair is: "after five episodes MAML reaches 97–99 % of the oracle's lead (return about 10); after one, RL² and PEARL have reached what stands at 1 on the left axis,
# where MAML is still at 0 because its first step has not been taken." So for fewer than five episodes the memory or the posterior wins, whatever MAML's later return; from five on, the curves may be compared as they are. By gradient steps there is no comparison: theirs is 0.
#
# (b) The proof is about policies whose actions do not depend on $w$. RL²'s input holds the reward of the previous edit, so within the first episode its actions begin to depend on $w$: it does adapt, only faster than our axis can show. The point at zero is before any *complete* episode, not before any
# information. (Clearing its memory after every episode leaves just this part.)
#
# (c) Train and evaluate it with one episode per inner step (`episodes = 1`). The gradient is then estimated from a fifth of the data, so it is noisier; meta-training needs smaller inner steps or more tasks per batch, and the curve rises more slowly per step. One may also take several steps, one after every
# episode: five gradients in place of one for the same experience.
# ### END SOLUTION

# %% [markdown] id="splits-intro"
# ## 5 · New tasks, and how new they are
#
# *Train*: tasks like those trained on. *Interpolation*: new directions in the trained range. *Extrapolation*: a held-out arc and its antipode. *Held-out representation*: the agent walks (turtle) where it was trained to be led (narrow). *Held-out game*: zelda with zelda's
# statistics. They are never pooled: a mean over splits is a mean over questions.

# %% id="splits"
from metapcg.experiments.figures import gap_dots, share_bars
from metapcg.experiments.results import gap_table, split_table
from metapcg.tasks.splits import SPLITS

main_runs = [run for setting in settings_there.values() for run in setting.runs]
direction_runs = [run for run in main_runs if run.settings.family == "direction"]
splits = split_table(direction_runs)
if splits:
    save_table(splits, "analysis_splits")
labels = list(dict.fromkeys(row["method"] for row in splits))


def cell(row: dict, percent: bool) -> str:
    """A result with its 95 % interval."""
    if row["return" if not percent else "share"] == "":
        return "–"
    if percent:
        return f"{round(100 * row['share'])} % [{round(100 * row['share_low'])}, {round(100 * row['share_high'])}]"
    return f"{row['return']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" + (
        " ≈" if row["equals_random"] == "yes" else ""
    )


for percent, heading in (
    (False, "return after the last step; ≈: not told from random"),
    (True, "share of the oracle's lead over random"),
):
    print(f"{heading}\n{'':<14}" + "".join(f"{split:>26}" for split in SPLITS))
    for label in labels:
        found = {row["split"]: row for row in select(splits, method=label)}
        if not percent or label not in ("oracle", "random"):
            print(f"{label:<14}" + "".join(f"{cell(found[s], percent) if s in found else '–':>26}" for s in SPLITS))
    print()

# %% id="splits-figure"
if methods_there:
    fig = share_bars(direction_runs)
    save_figure(fig, "analysis_splits")
    display(fig)

# %% [markdown] id="splits-reading"
# Interpolation is as good as training for whoever was meta-trained. On **extrapolation** bars rise above 100 %, and that is no triumph: the raw returns fall to half or less, and the oracle falls further, since it was told weights that it never met and knows no better than to believe
# that they are like others. 100 % is a ceiling only where the oracle is at home. On the **held-out representation** next to nothing is left, a return between 0 and 3, because the networks know what to write and not where to walk. If the share is *large* there, look at the raw return: it is a large share
# of an oracle that has next to nothing either, and the figure cuts it off at 200 % (as long as no oracle was trained on that representation; where there is one, the share is honest, and small). On the **held-out game** there is no oracle at all: it was told weights of statistics that zelda does not have.
#
# ## 6 · The generalisation gap
#
# How much is lost on the way from the training tasks to others, $\bar R^{\text{train}} - \bar R^{\text{split}}$, with intervals. Zero on interpolation means: nothing was memorised. (Zelda's returns are on another scale, so that split is left out.)

# %% id="gap"
gaps = gap_table(direction_runs)
for row in gaps:
    if row["split"] != "held-out-game" and row["method"] != "random":
        print(
            f"{row['method']:<14}{row['split']:<26}{row['train']:7.2f} → {row['test']:6.2f}   gap {row['gap']:6.2f} [{row['low']:6.2f}, {row['high']:6.2f}]"
        )
if methods_there:
    fig = gap_dots(gaps)
    save_figure(fig, "analysis_gap")
    display(fig)

# %% [markdown] id="gap-reading"
# All intervals on interpolation hold 0. The gaps on extrapolation and on the other representation are large for **all** methods, largest for the oracle, which has most to lose, and hardly smaller for the random initialisation, which was not trained at all and so cannot have overfitted. They measure how much
# harder (or poorer) those tasks are, more than they measure what the methods fail to carry over. A gap needs a baseline, like everything else.

# %% [markdown] id="q-share" kind="question" points=3
# ### Question 2 (3 points)
#
# (a) MAML's share on extrapolation is well above 100 %, its return there half of that on training tasks, or less, its gap large. Which of the three would you quote for the claim "MAML extrapolates", and against which number would you put it?
# (b) The library refuses to give a share where the oracle's lead over random is not clearly above 0. Which of your exercises shows why, and what would be printed otherwise?
# (c) Why does the random initialisation have a gap on extrapolation, though it never saw a training task?
#
# ### BEGIN SOLUTION
# (a) None of them alone. The share has an oracle in the denominator that is itself out of its range, the raw return mixes the method with what there is to be had, and the gap does as well. The claim needs a comparison on the *same* tasks: MAML's raw return on extrapolation against that of the random initialisation (and of pretraining) there, 4.7
# against 2.3 in the reference with intervals that do not overlap. So what meta-training learned is worth something on directions it never saw. A ceiling would need an oracle trained on those very tasks.
#
# (b) Exercise 1: equation (1) divides by the lead. Where it is about zero the score is any number, its interval the whole line, and a large share would look like a result. (It is also why means are taken before dividing: single tasks have leads near 0 even where the mean has not.)
#
# (c) Because the tasks differ, not the method: on the held-out arc more regions *and* longer paths are asked for, which contradict each other, so less can be earned by anybody. The gap contains the difference of difficulty. Only the difference of two methods' gaps, or a look at the same tasks, isolates what was carried over.
# ### END SOLUTION

# %% [markdown] id="weights-intro"
# ## 7 · A benchmark on which adaptation cannot show
#
# The `weights` family varies positive reward weights by ± 20 %, as the first versions of this homework did. It looks like a family of tasks: every task has its own weights, hidden from the agent. The same methods, the same figure; only the family differs.

# %% id="weights"
from metapcg.experiments.figures import families

found = {row["family"] for row in table if row["method"] not in ("oracle", "random")}
if {"direction", "weights"} <= found:
    fig = families(table)
    save_figure(fig, "analysis_families")
    display(fig)
    print(
        f"{'share of the oracle':<22}{'direction: before':>20}{'after':>8}{'weights: before':>20}{'after':>8}{'step size there':>18}"
    )
    for label in labels:
        line = f"{label:<22}"
        for family in ("direction", "weights"):
            rows = select(table, family=family, method=label, split="interpolation", variant="")
            ends = ["–" if row["share"] == "" else f"{round(100 * row['share'])} %" for row in rows]
            line += f"{ends[0]:>20}{ends[-1]:>8}" if ends else f"{'–':>20}{'–':>8}"
        setting = settings_there.get(("weights", label))
        if setting and label not in ("oracle", "random"):
            print(line + f"{setting.runs[0].splits['interpolation'].inner_lr:>18g}")
else:
    print("runs of both families are needed; the lines of section 3 say how to make them")

# %% [markdown] id="weights-reading"
# On the right, pretraining has what the oracle has **before** it adapts, and MAML too: at zero episodes. Nobody gains anything by adapting; a gradient step even costs a little. All weights are positive, so whatever is good for their mean is good for every one
# of them, and there is nothing about the task that one would need to know. Pretraining may choose its step size on training tasks, and chooses the smallest one that it is offered.
#
# Whoever tests a meta-learner on such a family gets a fine number after adaptation, and it means nothing. The cure is one extra curve: the return at step 0.

# %% [markdown] id="q-benchmark" kind="question" points=3
# ### Question 3 (3 points)
#
# (a) A paper trains MAML on `weights` and reports that it reaches 95 % of the oracle after adaptation. Which two numbers must be asked for, and what are they here?
# (b) Say in terms of $\bar w = \mathbb E[w]$ when a single policy does for all tasks of a family with linear rewards, and how far it can be behind at most.
# (c) Change the `weights` family so that adaptation pays, without negative weights. (Rewards need not stay linear.)
#
# ### BEGIN SOLUTION
# (a) MAML's own return *before* adaptation, and that of a policy trained on all tasks without any adaptation. Here both stand at about the oracle's return at step 0, so adaptation contributes nothing: the difference after minus before is zero or below.
#
# (b) If $\pi_{\bar w}$ is optimal for $\bar w$, its mean return over tasks is $\mathbb E_w[w]\cdot\mathbb E_{\pi_{\bar w}}[\Delta] = \bar w\cdot\mathbb E_{\pi_{\bar w}}[\Delta] = \max_\pi \bar w\cdot\mathbb E_\pi[\Delta]$: no policy that does not adapt is better. The oracle gets $\mathbb E_w \max_\pi w\cdot\mathbb E_\pi[\Delta]$, which is larger by at most
# $\mathbb E_w[(w - \bar w)\cdot(\mathbb E_{\pi_w}[\Delta] - \mathbb E_{\pi_{\bar w}}[\Delta])]\le \mathbb E\lVert w - \bar w\rVert\cdot\max\lVert\mathbb E_{\pi_w}[\Delta]-\mathbb E_{\pi_{\bar w}}[\Delta]\rVert$. With weights ± 20 % around three settings that all want the same, $\pi_w$ and $\pi_{\bar w}$ do nearly the same, and the second factor is small. On
# `direction`, $\bar w = 0$: the single policy gets exactly 0 and the oracle everything.
#
# (c) Make good behaviour for one task bad for another. For example hidden *targets* (the `target` family): pay the decrease of the distance to a hidden number of regions; from the same level one task wants more and another fewer. Or weights that are positive but concentrate on one of two statistics that contradict each other.
# ### END SOLUTION

# %% [markdown] id="cost-intro"
# ## 8 · What it costs
#
# Training is paid once, adaptation for every new task. Environment steps are what matters when an environment is slow (a person who plays a level), seconds when it is fast, as here.

# %% id="cost"
from metapcg.experiments.figures import cost
from metapcg.experiments.results import cost_table

costs = cost_table(direction_runs)
print(
    f"{'method':<14}{'training steps':>16}{'seconds':>9}{'episodes per task':>19}{'gradient steps':>16}{'return':>9}{'share':>8}"
)
for row in costs:
    share = "–" if row["share"] == "" else f"{round(100 * row['share'])} %"
    print(
        f"{row['method']:<14}{row['env_steps']:>16,.0f}{row['seconds']:>9.0f}{row['episodes']:>19}{row['gradient_steps']:>16}{row['return']:>9.2f}{share:>8}"
    )
if methods_there:
    fig = cost(costs)
    save_figure(fig, "analysis_cost")
    display(fig)

# %% [markdown] id="cost-reading"
# The upper left corner is where one wants to be. MAML and FOMAML see the same number of steps; first order only saves arithmetic. Pretraining costs as much as they do and is worth no more than weights that cost nothing. PEARL learns off-policy: every transition is used many times, so it
# stands further left than the on-policy methods on the left panel and further right than they do on the right one. Seconds are those of the machine that made the runs, with whatever else it was doing.

# %% [markdown] id="q-cost" kind="question" points=3
# ### Question 4 (3 points)
#
# (a) Every episode is played by a paid tester, a hundred new tasks are waiting, and you may train in a simulator for free. Which method do you choose, and which columns of the table did you use?
# (b) The same, but there is no simulator: training episodes are paid as well. Compare MAML with the random initialisation: how many new tasks does it take until MAML's training is paid back, if 70 % of the oracle's lead is good enough? (An episode has at most 60 steps.)
# (c) FOMAML's point lies almost on MAML's. Which of notebook 1's results did you have to know *before* you may conclude that second derivatives are not needed in general?
#
# ### BEGIN SOLUTION
# (a) Training is free, so only the episodes of the new tasks count: the method that reaches the wanted return after the fewest. RL² finds the task out within its first episode, PEARL after one; MAML needs five. Whichever of RL² and PEARL reaches the wanted share at 0 or 1 in the table of section 4 is the choice: at most about 100 episodes in all, against MAML's 500. Only if
# neither gets there (a large share is wanted, and their curves end below it), MAML's five episodes per task are worth their price.
#
# (b) Training has cost 2.4 million steps under `full` (1.44 million under `quick`), at 60 steps an episode 40 000 (24 000) episodes. To 70 % MAML needs 5 episodes and the random initialisation 10: five are saved per task, so it takes about 8 000 (4 800) new tasks. Below that, adapt from random weights, or use a method that needs fewer steps to train. (If 90 % is wanted, the random
# initialisation does not get there at all, and the question has another answer.)
#
# (c) That with normalised advantages and a policy gradient whose expected Hessian nearly vanishes the second-order term is small *here*, and that by enumeration it is not small in general: the error of FOMAML's meta-gradient grows with $\alpha$. Equal points on one family are no theorem: the conclusion is "not needed on this family at this step size".
# ### END SOLUTION

# %% [markdown] id="gallery-intro"
# ## 9 · Look at the levels
#
# A number can be right for the wrong reason. Every column is a task; top: where it starts; middle: after an episode before adaptation; bottom: after one with adaptation, from the same start.

# %% id="galleries"
from metapcg.experiments.figures import level_gallery

for label in ("MAML", "RL²", "PEARL"):
    setting = settings_there.get(("direction", label))
    if setting and any(name.startswith("interpolation/") for name in setting.runs[0].levels):
        fig = level_gallery(setting.runs[0])
        save_figure(fig, f"analysis_levels_{setting.settings.algorithm}")
        display(fig)

# %% [markdown] id="gallery-reading"
# MAML's middle row looks alike in all columns, because it cannot know which task it is in; the bottom row does what the heading asks for: many caves cut off cell by cell, or walls opened until everything hangs together. Look for tricks: a policy that is paid for "less path length" may simply fill the level in, and it is right to,
# by the letter of its reward. A reward that can be earned in a way nobody wanted is the task's fault, not the method's. For RL² "before" is the first episode of its trial, within which it already adapts.

# %% [markdown] id="ablations-intro"
# ## 10 · One knob at a time
#
# What matters: the size of the inner step, the number of steps, the surrogate, the number of training tasks, the memory of RL², PEARL's KL weight? Each panel changes one setting and leaves the rest. Such runs take a while, so they are not made here. Those on disk are shown; if there are none, those of
# the committed reference.

# %% id="ablations"
from metapcg.experiments.figures import variations
from metapcg.experiments.results import read_rows
from metapcg.learning.solutions import repository_root

place = {"family": "direction", "game": "binary", "representation": "narrow"}
try:
    reference = select(
        read_rows(repository_root() / "reports" / "reference" / "tables" / "report-adaptation.csv"), **place
    )
except ValueError as error:
    reference = []
    print(f"no reference: {error}")
candidates = {"your runs": direction if any(row["variant"] for row in direction) else [], "the reference": reference}
for source, rows in candidates.items():
    try:
        fig = variations(rows, title=f"{source}, profile {rows[0]['profile']}" if rows else None)
    except ValueError:
        continue
    save_figure(fig, "analysis_ablations")
    display(fig)
    break
else:
    print("no runs with one setting changed; for example:")
    for experiment in ("inner-step-size", "inner-steps", "training-tasks", "trial-memory"):
        print(f"  .venv/bin/python -m metapcg experiments run --profile {profile} --only {experiment}/")

# %% [markdown] id="ablations-reading"
# How to read it: solid lines are new tasks, dotted ones training tasks; light is after the first step (the first episode, for RL² and PEARL), dark after the last. Where dotted and solid part, something was **memorised**. Where light and dark part, later steps were worth something. Where all lie on one another and flat, the knob does nothing, at least
# in the range that was tried.
#
# * **Surrogates**: flat. The enumerated errors of notebook 1 are real and do not show on this family.
# * **Inner step size**: too small a step adapts little; too large a one overshoots and makes policies that no longer explore. In between lies a wide plateau, and MAML's is wider than one would think, since it trains the start *for* the step size it is given.
# * **Number of training tasks** (where it was run): with two directions and their opposites a method may learn those by heart: good on train, lost in between. From a few dozen on there is no gap.
# * **RL²'s memory** (where it was run): cleared after every episode, each episode is a first one, so the later points fall back to what it earns in its first.

# %% [markdown] id="q-knobs" kind="question" points=3
# ### Question 5 (3 points)
#
# (a) Which two lines of one panel do you compare in order to tell *memorising* from *adapting*, and why is neither of them enough alone?
# (b) You may tune one setting. Somebody has tuned the inner step size on the interpolation tasks and reports the best point of that panel. What is wrong, and how does this homework choose step sizes for pretraining and the random initialisation?
# (c) RL²'s hidden state is cleared between the episodes of a trial by mistake. Training runs through, and the first episode's return is fine. Which curve of section 4 gives the mistake away, and why does no error appear?
#
# ### BEGIN SOLUTION
# (a) Train (dotted) and interpolation (solid) after the last step. A high dotted line alone may be memory or adaptation; a low solid line alone may be memory, or a task that is too hard for everybody. High dotted and low solid together are memory; both high is adaptation. (Step 0 beside the last step tells in addition whether it knew before it saw anything; on a symmetric
# set it cannot.)
#
# (b) The meta-test tasks have become training data for the step size: the best of six noisy points is too good by selection, and the interval of that point does not contain the choice. Here candidates are tried on *training* tasks other than those of the evaluation (`choose_inner_lr`), once per run, and the test splits are touched once. MAML's step size is part of the budget,
# fixed before.
#
# (c) The curve by episodes: it stays flat, where RL²'s should rise from the first episode to the second (by about a tenth here, since ten edits are soon repeated). Nothing else looks wrong: shapes fit, the loss falls, and within an episode the memory still adapts, so the return is far above random. That is why the curve by episodes, and not the return, is the test of RL².
# ### END SOLUTION

# %% [markdown] id="reference-intro"
# ## 11 · The reference
#
# The same comparison from the committed reference results (profile `full`, several seeds, the whole evaluation). Its intervals contain the luck of training. Compare with section 4: what of your reading survives?

# %% id="reference"
if any(row["split"] == "interpolation" and row["method"] not in ("oracle", "random") for row in reference):
    seeds = max(row["seeds"] for row in reference)
    fig = comparison(
        reference, title=f"Reference, profile {reference[0]['profile']}, {seeds} seeds: interpolation tasks"
    )
    save_figure(fig, "analysis_reference")
    display(fig)
else:
    print("there is no reference here; the repository's reports/reference/report.html has it")

# %% [markdown] id="closing"
# ## What is left to say
#
# Write your own three sentences before you read ours. Ours: **Where tasks contradict each other, adaptation is everything**; where they agree it is nothing, and the return at step 0 tells which. **The methods differ less in how good they get than in what they ask for**: MAML batches of episodes and gradients, RL² a long training and nothing afterwards, PEARL few environment
# steps and much arithmetic. And **no number without its baseline, its interval, and the question it answers**.

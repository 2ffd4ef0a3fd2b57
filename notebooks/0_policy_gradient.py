# %% [markdown] id="intro"
# # Notebook 0 · Policy gradients, and the derivatives of their surrogates
#
# Meta-learning differentiates *through* a policy-gradient step. Before notebook 1 can do that, the step itself has to
# be right, and so do its derivatives. When you are done you will be able to
#
# 1. turn rewards into returns and advantages, and treat an episode that was **cut** differently from one that
#    **ended**;
# 2. write the three objectives (*surrogates*) that reinforcement-learning code hands to autograd, and say what the
#    value, the gradient and the Hessian of each are;
# 3. check such a claim without sampling noise, by adding up *every* trajectory of a small decision process;
# 4. train a policy that edits game levels with the functions you wrote.
#
# **Before you start** you should know the policy-gradient theorem and PyTorch's `detach`. **Time**: two to three
# hours of work. The finished notebook runs in under a minute on two CPU cores.
#
# **How it works.** Cells with a `TODO` ask for one to six lines. The cell after each one tests them on an example
# worked by hand, and its message names the likely mistake. Grading adds hidden tests of other shapes and numbers.
# Each test calls only the function it is about, so you can do the exercises in any order. Change nothing but the
# TODOs: the other cells are restored before grading. Run everything with *Run → Run All Cells*; it stops at the first
# TODO that is left.
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `discounted_returns` | 3 |
# | 2 | `gae` | 7 |
# | – | question: what a cut does to the policy | 3 |
# | 3 | `surrogate_naive` | 2 |
# | 4 | `surrogate_lvc` | 3 |
# | 5 | `surrogate_dice` | 5 |
# | 6 | `expected_surrogate` | 4 |
# | – | question: a Hessian that vanishes | 3 |
# | | **total** | **30** |

# %% id="imports"
import numpy as np
import torch
from torch import Tensor

from metapcg.tasks.enumeration import MDP, all_trajectories, log_probs, trajectory_probabilities

# %% id="setup"
# isort: split
import time

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from matplotlib.lines import Line2D

from metapcg.envs.rendering import draw_level
from metapcg.experiments.outputs import save_figure, save_table
from metapcg.experiments.profiles import by_profile, current_profile
from metapcg.learning.advantages import normalize
from metapcg.learning.baselines import UniformPolicy
from metapcg.learning.checks import check, emit
from metapcg.learning.device import configure
from metapcg.learning.distributions import Categorical
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.losses import surrogate_loss
from metapcg.learning.policies import CropPolicy, Params, detach
from metapcg.learning.rollouts import Streams, add_advantages, collect, episode_returns
from metapcg.tasks.enumeration import (
    expected_return,
    hessian_terms,
    random_logits,
    random_mdp,
    reward_to_go,
    state_values,
)
from metapcg.tasks.task_batch import TaskBatch

device = configure(threads=1)  # the tensors of this notebook are small: a second thread would only wait
COLOURS = {"naive": "#c8553d", "LVC": "#e0a030", "DiCE": "#2a7f9e", "truth": "#333333"}


def show_table(rows: list[dict]) -> None:
    """Show rows of equal keys as a table."""
    head = list(rows[0])
    lines = [
        " | ".join(head),
        " | ".join("---" for _ in head),
        *(" | ".join(str(row[key]) for key in head) for row in rows),
    ]
    display(Markdown("\n".join(f"| {line} |" for line in lines)))


print(f"profile {current_profile()}, device {device}")

# %% [markdown] id="returns"
# ## 1 · Returns
#
# An episode pays $r_0, r_1, \dots, r_{T-1}$. The *return* from step $t$ on is
#
# $$ G_t \;=\; \sum_{u=t}^{T-1} \gamma^{\,u-t}\, r_u \;=\; r_t + \gamma\, G_{t+1}, \qquad G_T = 0. \tag{1} $$
#
# Action $a_t$ cannot change what was paid before it, so the sum starts at $t$: the *reward-to-go*.
#
# **Shapes in this course.** Time is the last axis. Before it stand any number of axes: episodes $E$, tasks $M$. A
# function that works on the last axis (`x[..., t]`) works for all of them at once.
#
# **Worked by hand**, $\gamma = 0.5$:
#
# | $r$ | $G_2$ | $G_1$ | $G_0$ |
# |---|---|---|---|
# | 1, 2, 4 | $4$ | $2 + 0.5 \cdot 4 = 4$ | $1 + 0.5 \cdot 4 = 3$ |
# | 0, 0, 8 | $8$ | $0 + 0.5 \cdot 8 = 4$ | $0 + 0.5 \cdot 4 = 2$ |


# %% id="discounted-returns" kind="solution"
def discounted_returns(rewards: Tensor, gamma: float) -> Tensor:
    """Reward-to-go, equation (1).

    Args:
        rewards: (..., T); any leading axes. Must not be changed.
        gamma: discount factor in [0, 1].

    Returns:
        (..., T): returns[..., t] = rewards[..., t] + gamma * returns[..., t + 1], and nothing follows the last step.

    TODO (2-4 lines): fill `returns` from the last step to the first.
    """
    returns = torch.zeros_like(rewards)
    ### BEGIN SOLUTION
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + gamma * following
        returns[..., t] = following
    ### END SOLUTION
    return returns


# %% id="test-discounted-returns" kind="tests" points=3
example = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 8.0]])
check(
    "discounted_returns on the worked example",
    discounted_returns(example, 0.5),
    [[3.0, 4.0, 4.0], [2.0, 4.0, 8.0]],
    {
        "nothing is discounted: each step further away must be multiplied by gamma once more.": [
            [7.0, 6, 4],
            [8, 8, 8],
        ],
        "this adds up the past. A return adds up what is still to come, so go from the last step to the first.": [
            [1.0, 2.5, 5.25],
            [0, 0, 8],
        ],
        "the discount counts from the start of the episode. G_t counts it from step t: r_t itself is not discounted.": [
            [3.0, 2, 1],
            [2, 2, 2],
        ],
        "only one step ahead is included: use the return of the next step, not its reward.": [[2.0, 4, 4], [0, 4, 8]],
        "these are all the same number, the return of the whole episode; each step has its own.": [
            [3.0, 3, 3],
            [2, 2, 2],
        ],
        "r_t itself is missing: the return of step t starts with the reward of step t.": [[2.0, 2, 0], [2, 4, 0]],
        "the order is reversed: returns[..., 0] belongs to the first step.": [[4.0, 4, 3], [8, 4, 2]],
        "this is just zeros: was `returns` filled?": torch.zeros(2, 3),
    },
)
check(
    "discounted_returns: the rewards that were handed in",
    example,
    [[1.0, 2.0, 4.0], [0.0, 0.0, 8.0]],
    hint="The function changed its input; write into `returns` only.",
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(11)
_rewards = torch.randn(2, 3, 7, generator=_draw, dtype=torch.float64)
for _gamma in (0.0, 0.5, 0.9, 1.0):
    emit(
        f"discounted_returns, float64, shape (2, 3, 7), gamma = {_gamma}",
        discounted_returns(_rewards, _gamma),
        "Leading axes, gamma = 0 and gamma = 1 must work too.",
    )
emit("discounted_returns: its input afterwards", _rewards, "The input was changed.")
emit("discounted_returns of a single step, float32", discounted_returns(torch.rand(4, 1, generator=_draw), 0.9))
emit(
    "discounted_returns of one episode without leading axes",
    discounted_returns(torch.rand(5, generator=_draw), 0.5),
)
emit(
    "discounted_returns over 400 steps with gamma = 0.5",
    discounted_returns(1 + torch.rand(1, 400, generator=_draw), 0.5),
    "Powers of gamma underflow over long episodes; go backwards step by step instead.",
)
### END HIDDEN TESTS

# %% [markdown] id="advantages"
# ## 2 · Advantages, and two ways in which an episode stops
#
# How much better than usual did it go? With a value estimate $V$, *generalized advantage estimation* (Schulman et al.
# 2016) averages over all numbers of steps after which one may stop counting rewards and trust $V$:
#
# $$ \delta_t = r_t + \gamma\, V(s_{t+1}) - V(s_t), \qquad A_t = \delta_t + \gamma\lambda\, A_{t+1}. \tag{2} $$
#
# $\lambda = 0$ trusts $V$ after one step: little noise, but a wrong $V$ biases it. $\lambda = 1$ gives
# $G_t - V(s_t)$ on an episode played to its end: noisy, and unbiased whatever $V$ is.
#
# Equation (2) leaves open what happens at the last step, and that is where most implementations go wrong. An episode
# stops for one of two reasons:
#
# * it is **terminated**: the task itself is over (the goal is reached, the game is lost). Nothing follows:
#   $V(s_{t+1})$ counts as **0**;
# * it is **truncated**: the clock or the budget ran out. The level is as editable as before, we merely stopped
#   watching. What would have followed is worth $V(s_{t+1})$, and that is what must be counted. This is called
#   *bootstrapping*.
#
# Both end the `mask`, which is 1 while a step belongs to the episode. Tensors are rectangular, episodes are not:
# behind the mask stands whatever the buffer held, and none of it may get into a result.


# %% id="draw-ends"
def draw_episode(ax, title: str, values: list, ended: str) -> None:
    """One episode as a row of states and arrows; `ended` says what the last state is worth."""
    ax.set_title(title, loc="left", fontsize=11)
    for t, value in enumerate(values):
        is_last = t == len(values) - 1
        face = {"terminated": "#444444", "truncated": "#fff1cf"}[ended] if is_last else "#dcecf2"
        box = {"boxstyle": "circle,pad=0.45", "facecolor": face, "edgecolor": "#444444"}
        ax.text(t, 0, f"$s_{t}$", ha="center", va="center", color="white" if face == "#444444" else "black", bbox=box)
        ax.text(t, -0.62, value, ha="center", va="center", fontsize=10)
    for t in range(len(values) - 1):
        ax.annotate("", (t + 0.74, 0), (t + 0.26, 0), arrowprops={"arrowstyle": "->"})
        ax.text(t + 0.5, 0.3, f"$r_{t}$", ha="center", fontsize=10)
    if ended == "truncated":
        end = len(values) - 1
        ax.plot([end + 0.26, end + 1.1], [0, 0], linestyle=":", color="#444444")
        ax.text(end + 0.68, 0.28, "not watched", ha="center", fontsize=9, color="#666666")
        ax.axvline(end + 0.3, 0.08, 0.75, color=COLOURS["naive"], linewidth=2)
    ax.set(xlim=(-0.5, 4.2), ylim=(-0.95, 0.7))
    ax.axis("off")


fig, axes = plt.subplots(2, 1, figsize=(7.5, 3.4))
draw_episode(
    axes[0], "terminated: nothing follows", ["V = 2", "V = 2", "V = 2", "counts as 0\n(V says 6)"], "terminated"
)
draw_episode(axes[1], "truncated: the clock cut it here", ["V = 1", "V = 2", "counts as\nV = 4"], "truncated")
fig.tight_layout()
save_figure(fig, "policy_gradient_ends")
plt.show()

# %% [markdown] id="advantages-by-hand"
# **Worked by hand**: the two episodes of the picture, $\gamma = 0.5$, $\lambda = 0.8$, so $\gamma\lambda = 0.4$. Read
# each table from the bottom up.
#
# | terminated | $r_t$ | $V(s_t)$ | $V(s_{t+1})$ | `terminated` | `mask` | $\delta_t$ | $A_t$ |
# |---|---|---|---|---|---|---|---|
# | $t=0$ | 1 | 2 | 2 | 0 | 1 | $1 + 0.5\cdot 2 - 2 = 0$ | $0 + 0.4 \cdot (-0.2) = -0.08$ |
# | $t=1$ | 0 | 2 | 2 | 0 | 1 | $0 + 0.5\cdot 2 - 2 = -1$ | $-1 + 0.4\cdot 2 = -0.2$ |
# | $t=2$ | 4 | 2 | (6) | **1** | 1 | $4 + 0.5\cdot \mathbf{0} - 2 = 2$ | $2$ |
#
# | truncated | $r_t$ | $V(s_t)$ | $V(s_{t+1})$ | `terminated` | `mask` | $\delta_t$ | $A_t$ |
# |---|---|---|---|---|---|---|---|
# | $t=0$ | 2 | 1 | 2 | 0 | 1 | $2 + 0.5\cdot 2 - 1 = 2$ | $2 + 0.4\cdot 1 = 2.4$ |
# | $t=1$ | 1 | 2 | 4 | 0 | 1 | $1 + 0.5\cdot \mathbf{4} - 2 = 1$ | $1$ |
# | $t=2$ | (7) | (9) | (9) | 0 | **0** | not part of the episode | $0$ |
#
# Numbers in brackets stand in the tensors and must not matter.


# %% id="gae" kind="solution"
def gae(
    rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, mask: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalized advantage estimation, equation (2).

    Args:
        rewards, values: (..., T), r_t and V(s_t).
        next_values: (..., T), V(s_{t+1}); at a truncated last step the value of the state in which it was cut.
        terminated: (..., T), 1.0 at a step that ended the task, else 0.0.
        mask: (..., T), 1.0 while the step belongs to the episode: ones, then zeros.
        gamma, lam: discount factor and lambda, both in [0, 1].

    Returns:
        (..., T). For steps of the episode
            delta[..., t] = rewards[..., t] + gamma * next_values[..., t] - values[..., t],
              with 0 in place of next_values[..., t] where terminated[..., t] is 1,
            advantages[..., t] = delta[..., t] + gamma * lam * advantages[..., t + 1];
        for steps behind the mask 0, whatever the inputs hold there.

    TODO (4-6 lines): compute delta for all steps at once, then fill `advantages` from the last step to the first.
    """
    advantages = torch.zeros_like(rewards)
    ### BEGIN SOLUTION
    delta = rewards + gamma * (1.0 - terminated) * next_values - values
    following = torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        following = mask[..., t] * (delta[..., t] + gamma * lam * following)
        advantages[..., t] = following
    ### END SOLUTION
    return advantages


# %% id="test-gae" kind="tests" points=4
terminated_episode = {
    "rewards": torch.tensor([[1.0, 0.0, 4.0]]),
    "values": torch.tensor([[2.0, 2.0, 2.0]]),
    "next_values": torch.tensor([[2.0, 2.0, 6.0]]),
    "terminated": torch.tensor([[0.0, 0.0, 1.0]]),
    "mask": torch.ones(1, 3),
}
check(
    "gae on the terminated episode of the example",
    gae(**terminated_episode, gamma=0.5, lam=0.8),
    [[-0.08, -0.2, 2.0]],
    {
        "V(s_3) = 6 is counted although the task was over: after a terminated step the next value is 0.": [
            [0.4, 1.0, 5.0]
        ],
        "the whole last delta is lost: a terminated step still has its reward and its own value.": [[-0.4, -1.0, 0.0]],
        "lambda is missing from the recursion: A_t = delta_t + gamma * lam * A_{t+1}.": [[0.0, 0.0, 2.0]],
        "gamma is missing from the recursion: A_t = delta_t + gamma * lam * A_{t+1}.": [[0.48, 0.6, 2.0]],
        "gamma is missing from delta: the next value is discounted once.": [[1.32, 0.8, 2.0]],
        "these are the deltas; each A_t also needs gamma * lam * A_{t+1}.": [[0.0, -1.0, 2.0]],
        "these are A_t + V(s_t), the targets for the value function.": [[1.92, 1.8, 4.0]],
        "V(s_t) is not subtracted in delta.": [[3.04, 2.6, 4.0]],
        "the recursion runs from the first step to the last; A_t depends on A_{t+1}, so go backwards.": [
            [0.0, -1.0, 1.6]
        ],
        "this is just zeros: was `advantages` filled?": torch.zeros(1, 3),
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(23)
_states = torch.randn(2, 3, 6, generator=_draw, dtype=torch.float64)  # V(s_0) … V(s_T), T = 5
_case = {
    "rewards": torch.randn(2, 3, 5, generator=_draw, dtype=torch.float64),
    "values": _states[..., :-1].clone(),
    "next_values": _states[..., 1:].clone(),
    "terminated": torch.zeros(2, 3, 5, dtype=torch.float64),
    "mask": torch.ones(2, 3, 5, dtype=torch.float64),
}
_case["terminated"][..., -1] = 1.0
for _gamma, _lam in ((0.9, 0.7), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)):
    emit(
        f"gae of terminated episodes, float64, shape (2, 3, 5), gamma = {_gamma}, lambda = {_lam}",
        gae(**_case, gamma=_gamma, lam=_lam),
        "A_t = delta_t + gamma * lam * A_{t+1}; after a terminated step the next value is 0.",
    )
for _k in _case:
    emit(f"gae: its input {_k} afterwards", _case[_k], "The input was changed.")
_nothing = torch.zeros(2, 3, 5, dtype=torch.float64)
emit(
    "gae with V = 0 and lambda = 1, which is the return",
    gae(**{**_case, "values": _nothing, "next_values": _nothing}, gamma=0.9, lam=1.0),
)
emit(
    "gae of one terminated episode in float32, without leading axes",
    gae(**{_k: _v[0, 0].float() for _k, _v in _case.items()}, gamma=0.5, lam=0.8),
    "The result has the dtype of the rewards.",
)
### END HIDDEN TESTS

# %% id="test-gae-truncated" kind="tests" points=3
truncated_episode = {
    "rewards": torch.tensor([[2.0, 1.0, 7.0]]),
    "values": torch.tensor([[1.0, 2.0, 9.0]]),
    "next_values": torch.tensor([[2.0, 4.0, 9.0]]),
    "terminated": torch.zeros(1, 3),
    "mask": torch.tensor([[1.0, 1.0, 0.0]]),
}
check(
    "gae on the truncated episode of the example",
    gae(**truncated_episode, gamma=0.5, lam=0.8),
    [[2.4, 1.0, 0.0]],
    {
        "the value of the state in which the clock cut the episode (V = 4) is not counted. "
        "Only `terminated` sets the next value to 0; the end of the mask does not.": [[1.6, -1.0, 0.0]],
        "the mask is not used: numbers from behind the episode's end get into the result.": [[2.8, 2.0, 2.5]],
        "A_2, which lies behind the mask, gets into A_1; only the output is masked.": [[2.8, 2.0, 0.0]],
        "steps behind the mask must come out as 0.": [[2.4, 1.0, 2.5]],
        "V(s_2) is read from values[..., 2], which lies behind the mask; it stands in next_values.": [[3.4, 3.5, 0.0]],
        "the last step is lost: it belongs to the episode, its mask is 1.": [[2.0, 0.0, 0.0]],
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(31)
_lengths = torch.tensor([[5, 3, 1], [4, 2, 5]])
_ends = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # 1: terminated
_mask = (torch.arange(5) < _lengths[..., None]).double()
_last = (torch.arange(5) == _lengths[..., None] - 1).double()
_states = torch.randn(2, 3, 6, generator=_draw, dtype=torch.float64) + 5.0
_inside = torch.arange(6) <= _lengths[..., None]
_states = torch.where(_inside, _states, torch.tensor(100.0, dtype=torch.float64))
_case = {
    "rewards": torch.where(_mask > 0, torch.randn(2, 3, 5, generator=_draw, dtype=torch.float64), 50.0),
    "values": torch.where(_mask > 0, _states[..., :-1], torch.tensor(-70.0, dtype=torch.float64)),
    "next_values": torch.where(_mask > 0, _states[..., 1:], torch.tensor(30.0, dtype=torch.float64)),
    "terminated": _last * _ends[..., None],
    "mask": _mask,
}
_got = gae(**_case, gamma=0.95, lam=0.6)
emit(
    "gae at the last steps of truncated and terminated episodes",
    (_got * _last).sum(-1),
    "Bootstrap with next_values where the episode was cut, with 0 where it was terminated.",
)
emit("gae behind the mask, episodes of different lengths", _got * (1 - _mask), "Steps behind the mask must be 0.")
emit("gae of episodes of different lengths", _got, "Does something leak from behind the mask?")
emit("gae: its input mask afterwards", _case["mask"], "The input was changed.")
### END HIDDEN TESTS

# %% [markdown] id="cut-intro"
# **What a wrong end costs.** An agent is paid 1 at every step, for ever. With $\gamma = 0.9$ every state is worth
# $1/(1-\gamma) = 10$, whatever it does: no action is better than another, every advantage is 0. We watch 30 steps,
# and compute the advantages twice: once with the cut as a truncation, once as if the task had ended there.

# %% id="cut"
T, gamma, lam = 30, 0.9, 0.95
ones = torch.ones(1, T, dtype=torch.float64)
at_end = torch.zeros_like(ones)
at_end[0, -1] = 1.0
treated_as = {
    "truncated (right)": gae(ones, 10 * ones, 10 * ones, torch.zeros_like(ones), ones, gamma, lam)[0],
    "terminated (wrong)": gae(ones, 10 * ones, 10 * ones, at_end, ones, gamma, lam)[0],
}

fig, ax = plt.subplots(figsize=(7, 3))
for (label, advantage), colour in zip(treated_as.items(), (COLOURS["DiCE"], COLOURS["naive"]), strict=True):
    ax.plot(range(T), advantage, ".-", color=colour, label=f"cut treated as {label}")
ax.set(xlabel="step t", ylabel="advantage $A_t$", title="Paid 1 per step for ever, watched for 30 steps")
ax.axvline(T - 0.5, color="#888888", linestyle=":")
ax.text(T - 0.7, -4.5, "the clock stops us", rotation=90, ha="right", va="center", color="#666666", fontsize=9)
ax.legend(loc="lower left", frameon=False)
fig.tight_layout()
save_figure(fig, "policy_gradient_truncation")
plt.show()

wrong = treated_as["terminated (wrong)"]
print(f"when treated as truncated: largest |A| = {treated_as['truncated (right)'].abs().max():.1e}")
print("when treated as terminated:", ", ".join(f"A_{t} = {wrong[t]:.2f}" for t in (29, 24, 14, 0)))

# %% [markdown] id="cut-reading"
# Treated as a truncation, all advantages are 0 to rounding, as they should be. Treated as a termination, the last
# step is blamed for the whole future that we did not watch, $-\gamma V = -9$, and the blame spreads backwards by a
# factor $\gamma\lambda = 0.855$ per step: it halves every four to five steps, and reaches well over ten steps back.
# Nothing in the task has this shape; it is an artefact of when we looked away.

# %% [markdown] id="q-truncation" kind="question" points=3
# ### Question 1 (3 points)
#
# A level designer may make 60 edits, then the clock stops it; the level could be edited further. A colleague counts
# $V(s_{t+1}) = 0$ at the cut. In the example above, every action of the last step gets the same wrong advantage,
# $-9$.
#
# (a) Does an error that is the *same for every action* bias the expected policy gradient? Give the reason in one line.
#
# (b) So what does the colleague's error do to a real level designer, whose actions at step 59 lead to levels of
# different worth?
#
# (c) When would counting zero be right, and what would the policy and $V$ then have to be told?
#
# ### BEGIN SOLUTION
# (a) No. For a number $c(s)$ that does not depend on the action,
# $\mathbb E_a[\nabla\log\pi(a|s)\, c(s)] = c(s)\,\nabla\sum_a \pi(a|s) = c(s)\,\nabla 1 = 0$: it is a baseline. It
# only adds variance (and with normalised advantages it shifts and shrinks those of all other steps).
#
# (b) The error at the cut is $-\gamma V(s_{60})$, and $s_{60}$ depends on the action. What is lost is the
# *difference* between good and bad successors: near the cut the policy is trained as if only the next reward counted,
# so it becomes myopic and prefers edits that pay at once to edits that prepare for more. The value function fares no
# better: if its targets end in zero too, it has to give one number to a level that is sometimes seen with 50 edits
# left and sometimes with one, so it is too low for the first and too high for the second, and its error depends on
# when the clock happened to run out.
#
# (c) If the horizon is part of the task: after 60 edits the level is handed in and nothing is paid any more. Then the
# end is a termination. But the value of a level then depends on how many edits are left, so the time (or the
# remaining budget) belongs in the state that the policy and $V$ see; otherwise the process is not Markov for them.
# ### END SOLUTION

# %% [markdown] id="surrogates"
# ## 3 · Three surrogates
#
# We want the derivatives of the expected return $J(\theta) = \mathbb E_{\tau\sim\pi_\theta}\big[\sum_t r_t\big]$. Its
# gradient is
#
# $$
# \nabla J \;=\; \mathbb E_\tau\Big[\sum_t \nabla \ell_t\, A_t\Big], \qquad \ell_t = \log\pi_\theta(a_t|s_t). \tag{3}
# $$
#
# Autograd cannot differentiate an average over sampled episodes with respect to the distribution that they were
# sampled from: the samples are just numbers. So one writes down a *surrogate*, a function of the $\ell_t$ of the
# sampled episodes, whose derivative has the wanted expectation. Many surrogates have the right gradient. They differ
# in the second derivative, and notebook 1 needs just that: MAML differentiates a gradient step.
#
# Let $\bot(x)$ ("stop", in PyTorch `x.detach()`) be $x$ with its derivative declared zero. Per episode, all to be
# *maximised*:
#
# $$
# \begin{aligned}
# \text{naive:} && L &= \textstyle\sum_t \ell_t\, A_t && (4) \\
# \text{LVC:} && L &= \textstyle\sum_t \frac{\pi_t}{\bot(\pi_t)}\, A_t && (5) \\
# \text{DiCE:} && L &= \textstyle\sum_t \Big[\square\big(\sum_{u\le t}\ell_u\big)
#   - \square\big(\sum_{u<t}\ell_u\big)\Big] A_t, \quad \square(x) = e^{x-\bot(x)} && (6)
# \end{aligned}
# $$
#
# (4) is the score function (Williams 1992), (5) "low-variance curvature" (Rothfuss et al. 2019), (6) DiCE (Foerster et
# al. 2018) in its form with advantages (Farquhar et al. 2019).
#
# The *magic box* $\square(x)$ is $e^x$ divided by the same number as a constant. Its value is 1, and its derivatives
# are $\square' = x'$, $\square'' = x'' + x'^2$ and so on. With it, $\pi_t/\bot(\pi_t) = \square(\ell_t)$: LVC puts a
# box around each step, DiCE puts it around *all* steps up to $t$, because the chance of arriving at step $t$ depends
# on $\theta$ too. Why a difference of two boxes in (6)? Differentiate the first alone, and $A_t$ multiplies
# $\sum_{u\le t}\nabla\ell_u$: earlier actions would be paid once again for a later advantage that their own already
# contains. Subtracting the box that ends before $t$ leaves $\nabla\ell_t A_t$.
#
# **Worked by hand**, in the $\ell_t$ of an episode of two steps. Differentiate and set every $\square$ to 1:
#
# | | value | $\partial L/\partial \ell_t$ | $\partial^2 L/\partial \ell_t\,\partial \ell_u$ | for $A = (2, -1)$ |
# |---|---|---|---|---|
# | naive | $\sum_t \ell_t A_t$ | $A_t$ | $0$ | $\begin{pmatrix}0&0\\0&0\end{pmatrix}$ |
# | LVC | $\sum_t A_t$ | $A_t$ | $A_t$ if $t=u$, else $0$ | $\begin{pmatrix}2&0\\0&-1\end{pmatrix}$ |
# | DiCE | $0$ | $A_t$ | $A_{\max(t,u)}$ | $\begin{pmatrix}2&-1\\-1&-1\end{pmatrix}$ |
#
# Note what a surrogate's *value* is worth: nothing. Only its derivatives mean something, so never read a
# policy-gradient "loss" as a measure of progress.
#
# The tests use two episodes: $\pi = (0.5, 0.5)$ with $A = (2, -1)$, and $\pi = (0.25, 0.8)$ with $A = (4, 100)$, of
# which only the first step belongs to the episode.


# %% id="surrogate-naive" kind="solution"
def surrogate_naive(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Score-function objective, equation (4), to be maximised.

    Args:
        log_probs: (..., T), log-probabilities of the actions taken; carry the graph.
        advantages: (..., T); constants, even if they arrive with a graph: no gradient may flow through them.
        mask: (..., T), 1.0 while the step belongs to the episode. Steps behind it count for nothing.

    Returns:
        (...): objective[...] = sum over t of log_probs[..., t] * advantages[..., t].

    TODO (1 line).
    """
    ### BEGIN SOLUTION
    return (log_probs * advantages.detach() * mask).sum(-1)
    ### END SOLUTION


# %% id="test-surrogate-naive" kind="tests" points=2
_pi = torch.tensor([[0.5, 0.5], [0.25, 0.8]], dtype=torch.float64)
_advantages = torch.tensor([[2.0, -1.0], [4.0, 100.0]], dtype=torch.float64, requires_grad=True)
_mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
_log_probs = _pi.log().requires_grad_()
_objective = surrogate_naive(_log_probs, _advantages, _mask)
assert _objective is None or _objective.requires_grad, (
    "surrogate_naive: the result has no graph; everything in it is detached."
)
check(
    "surrogate_naive, value on the worked example",
    _objective,
    torch.tensor([-0.693147, -5.545177], dtype=torch.float64),
    {
        "the sign is wrong: an objective to be maximised, not a loss.": [0.693147, 5.545177],
        "the second step of the second episode lies behind the mask and is counted all the same.": [
            -0.693147,
            -27.859532,
        ],
        "averaged over time; equation (4) is a sum.": [-0.346574, -2.772589],
        "probabilities instead of log-probabilities.": [0.5, 1.0],
        "this is the value of LVC; the naive surrogate weights the log-probability itself.": [1.0, 4.0],
    },
)
_gradient, _through_advantages = torch.autograd.grad(_objective.sum(), (_log_probs, _advantages), allow_unused=True)
assert _gradient is not None, "surrogate_naive: no gradient reaches log_probs; they must not be detached."
assert _through_advantages is None or not _through_advantages.any(), (
    "surrogate_naive: a gradient flows through the advantages; they are constants here, so detach them."
)
check(
    "surrogate_naive, gradient with respect to log_probs",
    _gradient,
    torch.tensor([[2.0, -1], [4, 0]], dtype=torch.float64),
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(41)
_log_probs = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_source = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_mask = (torch.arange(4) < torch.tensor([[4, 2, 1], [3, 4, 2]])[..., None]).double()
_objective = surrogate_naive(_log_probs, 3 * _source, _mask)
emit("surrogate_naive, value, shape (2, 3, 4)", _objective)
emit("surrogate_naive: the result has a graph", _objective.requires_grad, "Log-probabilities must not be detached.")
_gradient, _through = torch.autograd.grad(_objective.sum(), (_log_probs, _source), allow_unused=True)
emit("surrogate_naive, gradient, shape (2, 3, 4)", _gradient)
emit(
    "surrogate_naive: whether a gradient flows through the advantages",
    _through is not None and bool(_through.any()),
    "They are constants here, so detach them.",
)
emit(
    "surrogate_naive of one episode in float32",
    surrogate_naive(torch.tensor([-1.25, -2.0]), torch.tensor([3.0, -0.5]), torch.ones(2)),
    "Without leading axes the result is a single number.",
)
### END HIDDEN TESTS


# %% id="surrogate-lvc" kind="solution"
def surrogate_lvc(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Low-variance-curvature objective, equation (5), to be maximised.

    Args:
        log_probs: (..., T), log-probabilities of the actions taken; carry the graph.
        advantages: (..., T); constants, even if they arrive with a graph.
        mask: (..., T), 1.0 while the step belongs to the episode.

    Returns:
        (...): objective[...] = sum over t of pi[..., t] / stop(pi[..., t]) * advantages[..., t].
        Write the ratio as exp(log pi - stop(log pi)): in float32, pi itself is 0 where log pi is below -104.

    TODO (1-2 lines).
    """
    ### BEGIN SOLUTION
    ratio = torch.exp(log_probs - log_probs.detach())
    return (ratio * advantages.detach() * mask).sum(-1)
    ### END SOLUTION


# %% id="test-surrogate-lvc" kind="tests" points=3
_pi = torch.tensor([[0.5, 0.5], [0.25, 0.8]], dtype=torch.float64)
_advantages = torch.tensor([[2.0, -1.0], [4.0, 100.0]], dtype=torch.float64, requires_grad=True)
_mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
_log_probs = _pi.log().requires_grad_()
_objective = surrogate_lvc(_log_probs, _advantages, _mask)
assert _objective is None or _objective.requires_grad, (
    "surrogate_lvc: the result has no graph; everything in it is detached."
)
check(
    "surrogate_lvc, value on the worked example",
    _objective,
    torch.tensor([1.0, 4.0], dtype=torch.float64),
    {
        "the sign is wrong: an objective to be maximised, not a loss.": [-1.0, -4.0],
        "the second step of the second episode lies behind the mask and is counted all the same.": [1.0, 104.0],
        "averaged over time; equation (5) is a sum.": [0.5, 2.0],
        "pi is not divided by stop(pi).": [0.5, 1.0],
        "this is the naive surrogate.": [-0.693147, -5.545177],
    },
)
_gradient, _through_advantages = torch.autograd.grad(_objective.sum(), (_log_probs, _advantages), allow_unused=True)
assert _gradient is not None, "surrogate_lvc: no gradient reaches log_probs; only the denominator is stopped."
assert _through_advantages is None or not _through_advantages.any(), (
    "surrogate_lvc: a gradient flows through the advantages; they are constants here, so detach them."
)
check(
    "surrogate_lvc, gradient with respect to log_probs",
    _gradient,
    torch.tensor([[2.0, -1.0], [4.0, 0.0]], dtype=torch.float64),
    {
        "it is 0: the denominator must be stopped.": torch.zeros(2, 2),
        "the ratio is upside down: only the denominator is stopped.": [[-2.0, 1], [-4, 0]],
        "log-probabilities are divided; the ratio is that of the probabilities.": _advantages.detach()
        * _mask
        / _pi.log(),
    },
)
check(
    "surrogate_lvc, second derivatives of the first episode",
    torch.autograd.functional.hessian(lambda x: surrogate_lvc(x, _advantages, _mask).sum(), _pi.log())[0, :, 0],
    torch.tensor([[2.0, 0.0], [0.0, -1.0]], dtype=torch.float64),
    {"they are 0 as for the naive surrogate; LVC keeps the curvature of pi.": torch.zeros(2, 2)},
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(43)
_log_probs = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_source = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_mask = (torch.arange(4) < torch.tensor([[4, 2, 1], [3, 4, 2]])[..., None]).double()
_objective = surrogate_lvc(_log_probs, 3 * _source, _mask)
emit("surrogate_lvc, value, shape (2, 3, 4)", _objective)
emit("surrogate_lvc: the result has a graph", _objective.requires_grad, "Log-probabilities must not be detached.")
_gradient, _through = torch.autograd.grad(_objective.sum(), (_log_probs, _source), allow_unused=True)
emit("surrogate_lvc, gradient, shape (2, 3, 4)", _gradient)
emit(
    "surrogate_lvc: whether a gradient flows through the advantages",
    _through is not None and bool(_through.any()),
    "They are constants here, so detach them.",
)


def _with_graph(x):
    return surrogate_lvc(x, _source.detach() + x - x.detach(), _mask).sum()


emit(
    "surrogate_lvc, second derivatives, shape (2, 3, 4)",
    torch.autograd.functional.hessian(_with_graph, _log_probs.detach()).reshape(24, 24),
    "Each log-probability is in one box only, its own.",
)
_tiny = torch.tensor([-200.0, -1.0], requires_grad=True)
_objective = surrogate_lvc(_tiny, torch.tensor([2.0, 3.0]), torch.ones(2))
emit(
    "surrogate_lvc with a probability of exp(-200), float32",
    _objective,
    "Write the ratio as exp(log pi - stop(log pi)).",
)
emit(
    "surrogate_lvc, gradient with a probability of exp(-200), float32",
    torch.autograd.grad(_objective, _tiny)[0],
    "Write the ratio as exp(log pi - stop(log pi)).",
)
### END HIDDEN TESTS


# %% id="surrogate-dice" kind="solution"
def surrogate_dice(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """DiCE with advantages ("Loaded DiCE"), equation (6), to be maximised.

    Args:
        log_probs: (..., T), log-probabilities of the actions taken; carry the graph.
        advantages: (..., T); constants, even if they arrive with a graph.
        mask: (..., T), 1.0 while the step belongs to the episode.

    Returns:
        (...): objective[...] = sum over t of (box(up_to[..., t]) - box(before[..., t])) * advantages[..., t], where
            up_to[..., t] = log_probs[..., 0] + ... + log_probs[..., t],
            before[..., t] = the same without log_probs[..., t],
            box(x) = exp(x - stop(x)).
        Its value is 0; its derivatives are those of the expected return.

    TODO (3-4 lines).
    """

    def box(x: Tensor) -> Tensor:
        return torch.exp(x - x.detach())

    ### BEGIN SOLUTION
    up_to = log_probs.cumsum(-1)
    before = up_to - log_probs
    return ((box(up_to) - box(before)) * advantages.detach() * mask).sum(-1)
    ### END SOLUTION


# %% id="test-surrogate-dice" kind="tests" points=5
_pi = torch.tensor([[0.5, 0.5], [0.25, 0.8]], dtype=torch.float64)
_advantages = torch.tensor([[2.0, -1.0], [4.0, 100.0]], dtype=torch.float64)
_mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
_log_probs = _pi.log().requires_grad_()
_objective = surrogate_dice(_log_probs, _advantages, _mask)
assert _objective is None or _objective.requires_grad, (
    "surrogate_dice: the result has no graph; everything in it is detached."
)
check(
    "surrogate_dice, value on the worked example",
    _objective,
    torch.tensor([0.0, 0.0], dtype=torch.float64),
    {
        "the second box is missing: up to t minus before t.": [1.0, 4.0],
        "the second box is missing, and so is the mask.": [1.0, 104.0],
    },
    hint="Both boxes have the value 1, so every term has the value 0.",
)
(_gradient,) = torch.autograd.grad(_objective.sum(), _log_probs, allow_unused=True)
assert _gradient is not None, (
    "surrogate_dice: no gradient reaches log_probs; only the subtracted x in the box is stopped."
)
check(
    "surrogate_dice, gradient with respect to log_probs",
    _gradient,
    torch.tensor([[2.0, -1.0], [4.0, 0.0]], dtype=torch.float64),
    {
        "the sign is wrong: an objective to be maximised, not a loss.": [[-2.0, 1], [-4, 0]],
        "the second step of the second episode lies behind the mask and is counted all the same.": [
            [2.0, -1],
            [4, 100],
        ],
        "the second box is missing or stopped: earlier actions are paid once again for a later advantage.": [
            [1.0, -1],
            [4, 0],
        ],
        "only the second box has a derivative.": [[1.0, 0], [0, 0]],
        "averaged over time; equation (6) is a sum.": [[1.0, -0.5], [2, 0]],
    },
)


def _with_graph(x):  # the advantages arrive with a graph to the log-probabilities, which must be cut
    return surrogate_dice(x, _advantages + x - x.detach(), _mask).sum()


check(
    "surrogate_dice, second derivatives of the first episode",
    torch.autograd.functional.hessian(_with_graph, _pi.log())[0, :, 0],
    torch.tensor([[2.0, -1.0], [-1.0, -1.0]], dtype=torch.float64),
    {
        "these are LVC's. The box holds the sum of all log-probabilities up to t along time, each with its graph.": [
            [2.0, 0.0],
            [0.0, -1.0],
        ],
        "a gradient flows through the advantages; they are constants here, so detach them.": [[4.0, -1.0], [-1.0, 1.0]],
        "they are 0 as for the naive surrogate.": torch.zeros(2, 2),
        "the sum runs from t to the end; the box holds the past: steps up to t.": [[2.0, 2.0], [2.0, -1.0]],
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(47)
_log_probs = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_source = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_mask = (torch.arange(4) < torch.tensor([[4, 2, 1], [3, 4, 2]])[..., None]).double()
_objective = surrogate_dice(_log_probs, 3 * _source, _mask)
emit("surrogate_dice, value, shape (2, 3, 4)", _objective)
emit("surrogate_dice: the result has a graph", _objective.requires_grad, "Log-probabilities must not be detached.")
_gradient, _through = torch.autograd.grad(_objective.sum(), (_log_probs, _source), allow_unused=True)
emit("surrogate_dice, gradient, shape (2, 3, 4)", _gradient)
emit(
    "surrogate_dice: whether a gradient flows through the advantages",
    _through is not None and bool(_through.any()),
    "They are constants here, so detach them.",
)


def _with_graph(x):
    return surrogate_dice(x, _source.detach() + x - x.detach(), _mask).sum()


emit(
    "surrogate_dice, second derivatives, shape (2, 3, 4)",
    torch.autograd.functional.hessian(_with_graph, _log_probs.detach()).reshape(24, 24),
    "The box holds the sum of all log-probabilities up to t.",
)
_long = torch.full((200,), -5.0, dtype=torch.float64, requires_grad=True)
_objective = surrogate_dice(_long, torch.randn(200, generator=_draw, dtype=torch.float64), torch.ones_like(_long))
emit(
    "surrogate_dice, gradient over 200 steps of probability exp(-5)",
    torch.autograd.grad(_objective, _long)[0],
    "Stay in logarithms: exp(x - stop(x)).",
)
_objective = surrogate_dice(_long.detach().float().requires_grad_()[:3], torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
emit("surrogate_dice of one episode in float32", _objective)
### END HIDDEN TESTS

# %% [markdown] id="enumeration"
# ## 4 · Counted exactly
#
# ### What the three Hessians should be
#
# Write $s_t = \nabla\ell_t$. The chain rule on any surrogate $L(\ell_0, \dots, \ell_{T-1})$ gives
#
# $$
# \nabla^2 L \;=\; \sum_t \frac{\partial L}{\partial \ell_t}\, \nabla^2 \ell_t
#   \;+\; \sum_{t,u} \frac{\partial^2 L}{\partial\ell_t\,\partial\ell_u}\, s_t s_u^\top .
# $$
#
# Put in the table of section 3, take the expectation, and give the parts names (Rothfuss et al. 2019):
#
# $$
# H_1 = \mathbb E \sum_t A_t\, s_t s_t^\top, \qquad
# H_2 = \mathbb E \sum_t A_t\, \nabla^2 \ell_t, \qquad
# H_{12} = \mathbb E \sum_t A_t \Big(\sum_{u<t} s_u\Big) s_t^\top .
# $$
#
# * **naive**: the second sum is gone. $H_2$.
# * **LVC**: the diagonal $t = u$ of the second sum stays. $H_1 + H_2$.
# * **DiCE**: $A_{\max(t,u)}$ splits into $t = u$, $u < t$ and $u > t$. $H_1 + H_2 + H_{12} + H_{12}^\top$.
#
# And the **truth**? Differentiate equation (3) again, this time with the probability
# $p(\tau) = \dots \exp(\sum_u \ell_u)$ of the episode included:
#
# $$
# \nabla^2 J = \nabla \sum_\tau p(\tau) \sum_t s_t^\top G_t
#   = \mathbb E\Big[\Big(\sum_u s_u\Big)\Big(\sum_t s_t^\top G_t\Big) + \sum_t \nabla^2\ell_t\, G_t\Big].
# $$
#
# The last sum is $H_2$. In the product, $u = t$ is $H_1$ and $u < t$ is $H_{12}$. For $u > t$, the rewards paid
# before step $u$ vanish in expectation, because $\mathbb E[s_u\,|\,\text{past}] = 0$; what is left of $G_t$ is $G_u$,
# and the sum is $H_{12}^\top$. So DiCE has the true Hessian, LVC lacks $H_{12}$ (how an early action changes the
# chance of *getting* to a later one), and the naive surrogate lacks everything but $H_2$.
#
# That is a claim about expectations. Sampling would hide it in noise; so we count. The smallest process that shows it
# has two states, two actions and two steps, hence $(2\cdot 2)^2 = 16$ trajectories $\tau$, and
#
# $$ \mathbb E_\tau[L] = \sum_{\tau} \bot\big(p_\theta(\tau)\big)\, L(\tau;\theta). \tag{7} $$
#
# The probability of a trajectory is *stopped*: it plays the part of sampling, which hands over episodes and no graph.
# (All is undiscounted here.)
#
# `metapcg.tasks.enumeration` has what you need. `theta` are the logits, shape (states, actions).
# `all_trajectories(mdp)` lists the $N$ trajectories, `log_probs(theta, trajectories)` gives $\ell_t$ as (N, T) and
# `trajectory_probabilities(theta, mdp, trajectories)` gives $p_\theta(\tau)$ as (N,).
#
# **Worked by hand**: let every trajectory have the same probability 1/16, and take the surrogate $L = \sum_t \ell_t$
# with two equally likely actions. Each $\ell_t$ is $\log 0.5$, so equation (7) is
# $16 \cdot \frac1{16} \cdot 2\log 0.5 = -1.386$. Its gradient is $\mathbb E[\sum_t s_t] = 0$.


# %% id="expected-surrogate" kind="solution"
def expected_surrogate(theta: Tensor, mdp: MDP, surrogate, advantages: Tensor) -> Tensor:
    """Exact expectation of a surrogate over all N trajectories, equation (7).

    Args:
        theta: (S, A) float64 logits.
        mdp: the process, of horizon T.
        surrogate: function (log_probs, advantages, mask) -> (N,), as in section 3.
        advantages: (N, T), one row per trajectory in the order of `all_trajectories(mdp)`.

    Returns:
        A scalar with a graph to `theta` through the surrogate, and only through it.

    TODO (3-4 lines): log-probabilities, stopped probabilities, weighted sum. No step is masked: the mask is all ones.
    """
    trajectories = all_trajectories(mdp)
    ### BEGIN SOLUTION
    probabilities = trajectory_probabilities(theta, mdp, trajectories).detach()
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    return (probabilities * objective).sum()
    ### END SOLUTION


# %% id="test-expected-surrogate" kind="tests" points=4
def _sum_of_log_probs(log_probs, advantages, mask):
    return (log_probs * advantages * mask).sum(-1)


_even = MDP(np.zeros((2, 2)), np.full((2, 2, 2), 0.5), np.full(2, 0.5))
_theta = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
_value = expected_surrogate(_theta, _even, _sum_of_log_probs, torch.ones(16, 2, dtype=torch.float64))
check(
    "expected_surrogate, value on the worked example",
    _value,
    torch.tensor(2 * np.log(0.5)),
    {
        "the trajectories are not weighted with their probabilities.": 32 * np.log(0.5),
        "this is the right answer divided by the 16 trajectories: the probabilities already sum to 1.": np.log(0.5) / 8,
    },
)
_skewed = MDP(np.zeros((2, 2)), np.full((2, 2, 2), 0.5), np.array([0.75, 0.25]))
_theta = torch.tensor([[0.0, np.log(3.0)], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)  # pi(1|0) = 3/4
_took_1_in_0 = torch.zeros(16, 2, dtype=torch.float64)
_took_1_in_0[4:8, 0] = 1.0  # pays 1 for action 1 in state 0 at the first step: J = 3/4 * 3/4
_right = torch.tensor([[-9 / 64, 9 / 64], [0.0, 0.0]], dtype=torch.float64)  # 3/4 * 3/4 * (onehot(1) - pi)
check(
    "expected_surrogate, gradient for a reward on action 1 in state 0",
    torch.autograd.functional.jacobian(
        lambda x: expected_surrogate(x, _skewed, _sum_of_log_probs, _took_1_in_0), _theta
    ),
    _right,
    {
        "the probability of the trajectories is differentiated too; it must be stopped.": (1 + np.log(0.75)) * _right,
        "this is a plain mean over the trajectories; they are not equally probable.": _right * 4 / 9,
        "it is 0: the log-probabilities must keep their graph.": torch.zeros(2, 2),
    },
)
### BEGIN HIDDEN TESTS
_rng = np.random.default_rng(53)
for _size in ({}, {"num_states": 3, "num_actions": 2, "horizon": 3}):
    _mdp = random_mdp(_rng, **_size)
    _theta = random_logits(_rng, _mdp)
    _to_go = reward_to_go(all_trajectories(_mdp).rewards)

    def _objective(x, mdp=_mdp, to_go=_to_go):
        return expected_surrogate(x, mdp, lambda log_probs, advantages, mask: (log_probs * advantages).sum(-1), to_go)

    emit(
        "expected_surrogate, value on a random process",
        _objective(_theta),
        "Every trajectory counts with its probability.",
    )
    emit(
        "expected_surrogate, policy gradient of a random process",
        torch.autograd.functional.jacobian(_objective, _theta),
        "Only the surrogate may be differentiated.",
    )
    emit(
        "expected_surrogate, Hessian of a random process",
        torch.autograd.functional.hessian(_objective, _theta).reshape(_theta.numel(), -1),
        "Only the surrogate may be differentiated.",
    )


_seen = []


def _remembers(log_probs, advantages, mask):
    _seen.append([tensor.double() for tensor in (log_probs, advantages, mask)])
    return (mask * advantages).sum(-1) + 0 * log_probs.sum(-1)


_weights = torch.tensor(_rng.normal(size=tuple(_to_go.shape)))
emit(
    "expected_surrogate of a surrogate that only adds up the advantages",
    expected_surrogate(_theta, _mdp, _remembers, _weights),
    "The mask is all ones, and the advantages are handed on as they are.",
)
emit(
    "expected_surrogate: what the surrogate is given",
    _seen,
    "Once: log-probabilities, advantages and mask of all trajectories, of equal shape.",
)
### END HIDDEN TESTS

# %% [markdown] id="count-intro"
# ### The count
#
# Random processes, each with a random policy. On each: gradient and Hessian of every surrogate against those of $J$
# itself, once with the raw reward-to-go $G_t$ as $A_t$, once with an exact value baseline, $A_t = G_t - V_t(s_t)$.
# Errors are relative, $\lVert \hat H - H\rVert / \lVert H\rVert$. A learner that uses *no* Hessian, as first-order
# MAML does, has an error of exactly 1: the line to beat.

# %% id="count"
SURROGATES = {"naive": surrogate_naive, "LVC": surrogate_lvc, "DiCE": surrogate_dice}
num_mdps = by_profile(smoke=15, quick=100, full=1000)


def gradient_and_hessian(function, theta: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivatives of a scalar function of the logits: (P,), (P, P)."""
    gradient = torch.autograd.functional.jacobian(function, theta).flatten()
    return gradient, torch.autograd.functional.hessian(function, theta).reshape(len(gradient), -1)


def claimed(name: str, theta: Tensor, mdp: MDP, advantages: Tensor) -> Tensor:
    """The Hessian that section 4 promises for a surrogate, from the softmax's derivatives and not from autograd."""
    h1, h2, h12 = hessian_terms(theta, mdp, advantages)
    return {"naive": h2, "LVC": h1 + h2, "DiCE": h1 + h2 + h12 + h12.T}[name]


start = time.perf_counter()
rng = np.random.default_rng(2024)
processes, count = [], []  # count: one row per process, kind of advantage and surrogate
for index in range(num_mdps):
    mdp = random_mdp(rng)
    theta = random_logits(rng, mdp)
    processes.append((mdp, theta))
    trajectories = all_trajectories(mdp)
    true_gradient, true_hessian = gradient_and_hessian(lambda x, mdp=mdp: expected_return(x, mdp), theta)
    to_go = discounted_returns(trajectories.rewards, 1.0)
    values = state_values(theta, mdp)
    baseline = torch.stack([values[t, trajectories.states[:, t]] for t in range(mdp.horizon)], dim=-1)
    for kind, advantages in (("reward-to-go", to_go), ("exact baseline", to_go - baseline)):
        for name, surrogate in SURROGATES.items():
            gradient, hessian = gradient_and_hessian(
                lambda x, mdp=mdp, s=surrogate, a=advantages: expected_surrogate(x, mdp, s, a), theta
            )
            count.append(
                {
                    "mdp": index,
                    "advantages": kind,
                    "surrogate": name,
                    "gradient_error": float((gradient - true_gradient).norm() / true_gradient.norm()),
                    "hessian_error": float((hessian - true_hessian).norm() / true_hessian.norm()),
                    "claim_error": float((hessian - claimed(name, theta, mdp, advantages)).abs().max()),
                }
            )

summary = []
for kind in ("reward-to-go", "exact baseline"):
    for name in SURROGATES:
        rows = [r for r in count if r["advantages"] == kind and r["surrogate"] == name]
        errors = np.array([r["hessian_error"] for r in rows])
        summary.append(
            {
                "advantages": kind,
                "surrogate": name,
                "gradient error, largest": f"{max(r['gradient_error'] for r in rows):.0e}",
                "difference from the claimed Hessian, largest": f"{max(r['claim_error'] for r in rows):.0e}",
                "Hessian error, median": f"{np.median(errors):.2g}",
                "worse than no Hessian": f"{100 * np.mean(errors > 1 + 1e-9):.0f} %",
            }
        )
show_table(summary)
save_table(summary, "policy_gradient_hessians")
save_table(count, "policy_gradient_hessians_all")
print(f"{num_mdps} processes, {time.perf_counter() - start:.1f} s")

# %% id="count-figure"
# Left: the process whose LVC error is nearest to the median, looked at along its gradient.
lvc_errors = np.array(
    [r["hessian_error"] for r in count if (r["surrogate"], r["advantages"]) == ("LVC", "reward-to-go")]
)
typical = int(np.abs(lvc_errors - np.median(lvc_errors)).argmin())
mdp, theta = processes[typical]
to_go = discounted_returns(all_trajectories(mdp).rewards, 1.0)
gradient, hessian = gradient_and_hessian(lambda x: expected_return(x, mdp), theta)
direction = gradient / gradient.norm()
slope = gradient @ direction
curvatures = {"J itself": direction @ hessian @ direction}
for name, surrogate in SURROGATES.items():
    hessian = gradient_and_hessian(lambda x, s=surrogate: expected_surrogate(x, mdp, s, to_go), theta)[1]
    curvatures[name] = direction @ hessian @ direction
print("curvature along the gradient:", ", ".join(f"{name} {value:+.3f}" for name, value in curvatures.items()))

x = torch.linspace(-3, 3, 121, dtype=torch.float64)
here = expected_return(theta, mdp).item()
moved = [expected_return(theta.detach() + step * direction.reshape(2, 2), mdp).item() for step in x]
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(1, 1.15))
left.plot(x, moved, color=COLOURS["truth"], linewidth=4, alpha=0.3, label="J itself")
for name, style in (("naive", "-"), ("LVC", "-"), ("DiCE", "--")):
    left.plot(
        x, here + slope * x + 0.5 * curvatures[name] * x**2, style, color=COLOURS[name], label=f"as {name} sees it"
    )
left.plot(x, here + slope * x, ":", color="#888888", label="first order")
left.plot(0, here, "o", color=COLOURS["truth"])
left.set(
    xlabel="step along the gradient", ylabel="expected return", title="A typical process: second-order models of J"
)
margin = max(moved) - min(moved)
left.set_ylim(min(moved) - margin, max(moved) + margin)
left.legend(frameon=False, fontsize=9)

jitter = np.random.default_rng(0)
labels, floor = [], 1e-4
for row, (kind, name) in enumerate((k, n) for n in SURROGATES for k in ("reward-to-go", "exact baseline")):
    errors = np.array([r["hessian_error"] for r in count if r["advantages"] == kind and r["surrogate"] == name])
    right.plot(
        errors.clip(floor),
        -row + jitter.uniform(-0.25, 0.25, len(errors)),
        ".",
        color=COLOURS[name],
        alpha=0.45,
        markersize=5,
    )
    right.plot([max(np.median(errors), floor)] * 2, [-row - 0.36, -row + 0.36], color="black")
    if np.median(errors) < floor:
        right.text(1.6 * floor, -row, f"all below {errors.max() * 1.01:.0e}: rounding", va="center", fontsize=9)
    labels.append(f"{name}, {kind}")
right.axvline(1, color="#888888", linestyle=":")
right.text(1.2, -5.3, "as bad as\nno Hessian", fontsize=9, color="#666666")
right.set_xscale("log")
right.set_yticks([-row for row in range(len(labels))], labels)
right.set(
    xlabel="relative error of the Hessian (bar: median)", title=f"{num_mdps} random processes", xlim=(floor / 2, 500)
)
fig.tight_layout()
save_figure(fig, "policy_gradient_hessians")
plt.show()

# %% [markdown] id="count-reading"
# **The gradients** of all three are the true one, to rounding, with either kind of advantage. As long as nobody
# differentiates twice, the surrogates cannot be told apart.
#
# **The Hessians** are those that section 4 claims, to rounding (fourth column). Against the truth:
#
# * DiCE has none but rounding errors.
# * LVC, which lacks $H_{12}$, is off by a fraction of the Hessian in the median and beats "no Hessian" nine times out
#   of ten.
# * Naive with the raw reward-to-go is *worse than no Hessian* in two thirds to three quarters of the processes. The
#   $H_2$ that it keeps is not a small part of the truth: what a constant added to all rewards puts into $H_2$, it
#   takes from $H_1$, and naive sees one half of the bargain. In the left picture its parabola touches $J$ with the
#   right slope and leaves it with the wrong curvature.
# * Naive with the exact baseline sits at 1 to the last digit: its Hessian is zero, so "second order" is first order.
#   Question 2 asks why. The baseline moves neither LVC's points nor DiCE's.

# %% [markdown] id="q-hessian" kind="question" points=3
# ### Question 2 (3 points)
#
# With the exact baseline the naive surrogate's Hessian is not merely wrong, it is the zero matrix.
#
# (a) Prove it for a tabular softmax policy. (What does $\nabla^2 \log\pi(a|s)$ depend on?)
#
# (b) LVC's Hessian did not change when the baseline came in, although $H_1$ and $H_2$ both did. Why?
#
# (c) Many implementations of second-order MAML use the naive surrogate in the inner loop, with a good value function,
# and report that FOMAML does just as well. What does your result say about such a comparison?
#
# ### BEGIN SOLUTION
# (a) $\nabla_{\theta_s}\log\pi(a|s) = e_a - \pi(\cdot|s)$, so
# $\nabla^2\log\pi(a|s) = \pi\pi^\top - \operatorname{diag}(\pi)$, which does not depend on $a$. Hence
# $\mathbb E_a[\nabla^2\log\pi(a|s)\,A(s,a)] = \nabla^2\log\pi(\cdot|s)\;\mathbb E_a[A(s,a)] = 0$, since the advantage
# over the exact value has mean zero under the policy. Summed over steps: $H_2 = 0$. (It holds for every softmax
# policy whose logits are linear in $\theta$.)
#
# (b) LVC weights $\nabla\log\pi\,\nabla\log\pi^\top + \nabla^2\log\pi = \nabla^2\pi / \pi$ with $A$. A baseline
# $b(s)$ adds $b\,\mathbb E_a[\nabla^2\pi/\pi] = b\,\nabla^2\sum_a\pi(a|s) = b\,\nabla^2 1 = 0$ to the expectation:
# what it adds to $H_1$ it takes from $H_2$, and only the sum is free of it.
#
# (c) In expectation the two algorithms compared were the same one: a naive Hessian that is zero in expectation makes
# "second-order" MAML equal to FOMAML, plus noise from estimating zero. With neural networks, whose logits are not
# linear in $\theta$, and an inexact value function it holds approximately. The comparison says nothing about what
# second derivatives are worth; for that the inner surrogate must have a Hessian, so LVC or DiCE.
# ### END SOLUTION

# %% [markdown] id="levels"
# ## 5 · It learns
#
# Now the same functions on game levels. A *binary* level is a grid of 14 × 14 cells, empty or solid. Its statistics
# are the number of `regions` (connected empty areas) and the `path-length` (the longest shortest path between two
# empty cells). The agent is `narrow`: it is put on one cell after another, in random order, sees the 5 × 5 cells
# around it, and leaves the cell as it is, empties it or fills it. After 60 edits the clock stops it.
#
# A **task** is a direction $w = (\cos\varphi, \sin\varphi)$: every edit pays
# $w \cdot (\Delta\,\text{regions},\ \Delta\,\text{path-length}/1.6)$. We take $\varphi = 45°$: *many regions and a
# long path*. The two pull against each other: filling cells makes regions, emptying them makes paths.
#
# Everything around your functions is given: `collect` plays a batch of episodes, `add_advantages` fits a value
# function to it, your `gae` makes advantages of that, `surrogate_loss` turns your surrogate into a loss, and Adam
# descends. The runs differ only in their random numbers. They are stacked along a leading axis, so that one pass
# serves them all; your functions do not notice.

# %% id="train"
GAMMA, LAMBDA, HORIZON = 0.9, 0.95, 60
num_runs = by_profile(smoke=2, quick=3, full=10)
num_iterations = by_profile(smoke=12, quick=60, full=150)
num_episodes = 30  # per run and iteration


def direction_tasks(degrees: float, copies: int) -> TaskBatch:
    """The same task `copies` times: reward weights of length 1 in the given direction."""
    phi = np.deg2rad(degrees)
    weights = {"regions": np.cos(phi), "path-length": np.sin(phi) / 1.6}
    return TaskBatch.from_weights("binary", "narrow", [weights] * copies, plain_deltas=True, horizon=HORIZON)


def play(problem: LevelProblem, params: Params, streams: Streams) -> dict:
    """A batch of episodes with advantages."""
    batch = add_advantages(collect(problem, policy, params, streams, device), GAMMA, LAMBDA)
    advantages = gae(
        batch["rewards"], batch["values"], batch["next_values"], batch["terminated"], batch["mask"], GAMMA, LAMBDA
    )
    batch["advantages"] = normalize(advantages, batch["mask"])
    return batch


def train(surrogate, tasks: TaskBatch, seed: int, learning_rate: float = 0.01) -> tuple[Params, np.ndarray]:
    """One policy per task: final parameters, and the mean return of the training episodes, (iterations, tasks)."""
    problem, streams = LevelProblem(tasks, num_episodes), Streams(seed, device)
    own = [policy.init(streams.parameters) for _ in range(len(tasks))]
    params = {k: torch.stack([p[k] for p in own]).to(device).requires_grad_(True) for k in own[0]}
    loss_of = surrogate_loss(policy, surrogate)
    adam = torch.optim.Adam(list(params.values()), lr=learning_rate)
    curve = []
    for _ in range(num_iterations):
        batch = play(problem, params, streams)
        loss = loss_of(params, batch).sum()  # the runs share nothing: each gets the gradient of its own loss
        adam.zero_grad()
        loss.backward()
        adam.step()
        curve.append(episode_returns(batch).mean(-1).cpu().numpy())
    return detach(params), np.array(curve)


start = time.perf_counter()
policy = CropPolicy("binary", "narrow")
tasks = direction_tasks(45, num_runs)
trained, curve = train(surrogate_lvc, tasks, seed=1)
print(f"{num_runs} runs of {num_iterations} iterations, {time.perf_counter() - start:.1f} s")

# %% [markdown] id="compare-intro"
# What to compare it with: an agent that chooses at random, and two that do not look at the level at all, *always
# fill* and *always empty*. The last column is the same policy on the **opposite task**, $-w$: *few regions and a
# short path*.


# %% id="compare"
class Always:
    """A policy that takes one action whatever it sees."""

    def __init__(self, action: int):
        self.action = action

    def distribution(self, params: Params, obs: dict) -> Categorical:
        logits = torch.full((*obs["crop"].shape[:-2], 3), -1e9, device=obs["crop"].device)
        logits[..., self.action] = 0.0
        return Categorical(logits)


def evaluate(chooser, degrees: float, seed: int = 2) -> dict:
    """What a policy does in 100 episodes per run; with the same seed, from the same start levels."""
    problem = LevelProblem(direction_tasks(degrees, num_runs), 100)
    batch = collect(problem, chooser, trained, Streams(seed, device), device)
    returns = episode_returns(batch).mean(-1)
    change = (problem.engine.stats - problem.engine.start_stats).mean((0, 1))
    return {
        "return": returns.mean().item(), "lowest run": returns.min().item(), "highest run": returns.max().item(),
        "regions": change[0], "path-length": change[1], "fills": (batch["actions"] == 2).float().mean().item(),
    }  # fmt: skip


choosers = {"random": UniformPolicy(policy), "always fill": Always(2), "always empty": Always(1), "trained": policy}
comparison = []
for name, chooser in choosers.items():
    opposite = evaluate(chooser, 225)
    comparison.append({"agent": name} | evaluate(chooser, 45) | {"return on the opposite task": opposite["return"]})
save_table(comparison, "policy_gradient_levels")
show_table(
    [
        {
            "agent": r["agent"],
            "return (lowest to highest run)": f"{r['return']:.2f} ({r['lowest run']:.2f} to {r['highest run']:.2f})",
            "Δ regions": f"{r['regions']:+.1f}",
            "Δ path-length": f"{r['path-length']:+.1f}",
            "edits that fill": f"{100 * r['fills']:.0f} %",
            "return on the opposite task": f"{r['return on the opposite task']:.2f}",
        }
        for r in comparison
    ]
)

fig, ax = plt.subplots(figsize=(7, 3.4))
env_steps = (np.arange(num_iterations) + 1) * num_episodes * HORIZON / 1000
ax.plot(env_steps, curve, color=COLOURS["DiCE"], alpha=0.35, linewidth=1)
ax.plot(env_steps, curve.mean(1), color=COLOURS["DiCE"], linewidth=2)
ax.axhline(comparison[0]["return"], color="#888888", linestyle=":")
ax.axhline(comparison[1]["return"], color=COLOURS["LVC"], linestyle="--")
ax.legend(
    [
        Line2D([], [], color=COLOURS["DiCE"], linewidth=2),
        Line2D([], [], color=COLOURS["DiCE"], alpha=0.35),
        Line2D([], [], color=COLOURS["LVC"], linestyle="--"),
        Line2D([], [], color="#888888", linestyle=":"),
    ],
    ["mean of the runs", "one run", "always fill", "random"],
    frameon=False,
    loc="upper center",
    bbox_to_anchor=(0.5, -0.2),
    ncols=4,
)
ax.set(xlabel="thousand environment steps per run", ylabel="return per episode", title="Many regions and a long path")
fig.tight_layout()
save_figure(fig, "policy_gradient_learning")
plt.show()

# %% id="levels-gallery"
shown = 6
problem = LevelProblem(tasks, shown)
problem.reset(Streams(3).environment_seed())
pictures = {"start": (problem.engine.maps[0].copy(), problem.engine.stats[0].copy())}
for name in ("random", "trained"):
    collect(problem, choosers[name], trained, Streams(3, device), device)  # the same start levels: the same seed
    pictures[f"after 60 edits,\n{name}"] = (problem.engine.maps[0].copy(), problem.engine.stats[0].copy())

fig, axes = plt.subplots(len(pictures), shown, figsize=(11, 6.2))
for axes_row, (name, (maps, stats)) in zip(axes, pictures.items(), strict=True):
    axes_row[0].set_ylabel(name, fontsize=11)
    for ax, level, (regions, path_length) in zip(axes_row, maps, stats, strict=True):
        ax.imshow(draw_level(level, "binary", border=False))
        ax.set_title(f"{regions} regions, path {path_length}", fontsize=9)
        ax.set(xticks=[], yticks=[])
fig.tight_layout()
save_figure(fig, "policy_gradient_levels")
plt.show()

# %% [markdown] id="levels-reading"
# **It learns, and it looks.** The curve starts at the random agent's return, around 0, and after ten to twenty
# thousand steps it has left behind *always fill*, the better of the two blind agents (in the `smoke` profile training
# stops there, before what follows). The trained policy fills more than half of its cells but not all: see the
# checkerboards in the lower row, where single empty cells stand between filled ones. Each of them is a region. So it
# gains many more regions than blind filling does, at about the same cost in path.
#
# **It does not do everything we asked for.** We wanted long paths too, and the paths got shorter. With these weights
# a region pays 0.71 and a step of path 0.44, and an agent that sees 5 × 5 cells can tell where a region can be cut
# off much better than where the longest path of the level runs. That is what the reward bought; it is not a bug.
#
# **It cannot do the opposite.** On $-w$ the policy earns exactly the negative of its return: the reward is linear in
# $w$, and the policy is not told $w$. So over a set of tasks that contains $-w$ with every $w$, *any* fixed policy
# earns 0 on average, however long it is trained. To do better, an agent has to find out which task it is in, and
# change. That is notebook 1.
#
# One thing remains. Which of your surrogates was the right one for this? Take one batch of episodes of the trained
# policy, and differentiate all three:

# %% id="same-gradient"
batch = play(LevelProblem(tasks, num_episodes), trained, Streams(4, device))
gradients = {}
for name, surrogate in SURROGATES.items():
    leaves = {k: v.clone().requires_grad_(True) for k, v in trained.items()}
    loss = surrogate_loss(policy, surrogate)(leaves, batch).sum()
    gradients[name] = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(leaves.values()))])
    difference = (gradients[name] - gradients["naive"]).norm() / gradients["naive"].norm()
    size = gradients[name].norm()
    print(f"{name:>6}: loss {loss:+.5f}, gradient of norm {size:.5f}, off naive's by {difference:.0e} of it")

# %% [markdown] id="end"
# The gradients agree to rounding: any of the three would have trained this policy. And look at the losses. DiCE's is 0
# by construction, LVC's is 0 because the advantages are normalised, naive's is some number; none of them says how good
# the policy is. The return does.
#
# **What you have now**: returns; advantages that know a cut from an end; three surrogates with equal gradients and
# different, known Hessians. Notebook 1 takes a gradient step with them for every task and differentiates through it,
# and then the Hessians matter.
#
# **Sources.** R. J. Williams (1992), *Simple statistical gradient-following algorithms for connectionist
# reinforcement learning*. J. Schulman et al. (2016), *High-dimensional continuous control using generalized advantage
# estimation*. J. Foerster et al. (2018), *DiCE: the infinitely differentiable Monte Carlo estimator*. G. Farquhar et
# al. (2019), *Loaded DiCE: trading off bias and variance in any-order score function estimators*. J. Rothfuss et al.
# (2019), *ProMP: proximal meta-policy search*. A. Khalifa et al. (2020), *PCGRL: procedural content generation via
# reinforcement learning*.

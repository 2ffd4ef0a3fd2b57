# %% [markdown] id="intro"
# # Notebook 2 · RL²: learning to learn, inside a memory
#
# MAML adapts by a gradient step: it changes its parameters. RL² (Duan et al. 2016; Wang et al. 2016) changes nothing
# but its **memory**. A recurrent policy plays several episodes of one task in a row, sees what its actions pay, and is
# trained so that the whole row pays. What it learns is a learning algorithm that runs in its hidden state. When you
# are done you will be able to
#
# 1. give a policy what it needs in order to find out its task, and nothing from the future;
# 2. write a recurrent cell, and let its memory survive the right ends and no others;
# 3. compute advantages over several episodes as if they were one;
# 4. check a meta-learner against an answer that is known exactly, and tell when it is *too* good;
# 5. see a level designer adapt within one episode, without a gradient.
#
# **Before you start**: notebook 0, section 2 (advantages; what terminated and truncated mean). **Time**: three hours
# of work. The finished notebook runs in under two minutes on two CPU cores.
#
# **How it works.** As before: TODOs of one to six lines, a test on an example worked by hand after each, hidden tests
# when it is graded. Each test calls only the function it is about, so you can do the exercises in any order; from
# section 7 on they are used together.
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `build_inputs` | 6 |
# | 2 | `gru_cell` | 5 |
# | 3 | `unroll` | 6 |
# | 4 | `trial_advantages` | 6 |
# | – | question: whose end is it? | 4 |
# | 5 | `clipped_policy_loss` | 5 |
# | 6 | `returns_by_episode` | 4 |
# | – | question: what has been learned, and where is it? | 4 |
# | | **total** | **40** |
#
# **Words and letters.** A *trial* is several episodes of the same task. $N$ trials are played side by side; $t$ counts
# the steps of a trial, $0 \dots T-1$, *all its episodes together*. `dones[n, t]` is 1 at the last step of each episode.

# %% id="imports"
from collections.abc import Callable

import torch
from torch import Tensor

Params = dict[str, Tensor]
Cell = Callable[[Params, Tensor, Tensor], Tensor]

# %% id="setup"
# isort: split
import time

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display

from metapcg.experiments.outputs import save_figure, save_table
from metapcg.experiments.profiles import by_profile, current_profile
from metapcg.learning.checks import check, emit
from metapcg.learning.device import configure

device = configure(threads=1)  # the tensors of this notebook are small: a second thread would only wait
COLOURS = {"RL²": "#D55E00", "reset": "#0072B2", "thompson": "#009E73", "optimum": "#333333", "random": "#888888"}


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

# %% [markdown] id="inputs"
# ## 1 · What the policy sees
#
# The task is hidden. It shows only in what actions *pay*, so a policy that is to find it out must see, beside the
# observation, what it did last and what that paid:
#
# $$ x_t \;=\; \big[\,\phi(s_t),\ \text{one-hot}(a_{t-1}),\ r_{t-1},\ d_{t-1}\,\big]. \tag{1} $$
#
# $\phi(s_t)$ are features of the observation (given), $d_{t-1}$ is the done flag: the last step ended an episode, what
# you see now is a fresh start. Two things go wrong here again and again:
#
# * **The index.** $x_t$ is what $a_t$ is chosen from. $a_t$ and $r_t$ do not exist yet. A policy that is trained with
#   $r_t$ in its input has seen the future; it looks brilliant in training and cannot be run.
# * **The boundary.** At the first step of a *trial* there is no last step: zeros, and not the one-hot code of action 0.
#   At the first step of a later *episode* there is one, in the same task, and what it paid is news. It stays.
#
# **Worked by hand**: a trial of two episodes (two steps and one), one feature, two actions.
#
# | $t$ | $\phi(s_t)$ | $a_t$ | $r_t$ | $d_t$ | $x_t$ |
# |---|---|---|---|---|---|
# | 0 | 5 | 1 | 0.5 | 0 | 5, &nbsp; 0, 0, &nbsp; 0, &nbsp; 0 |
# | 1 | 6 | 0 | 2 | **1** | 6, &nbsp; 0, 1, &nbsp; 0.5, &nbsp; 0 |
# | 2 | 7 | 1 | 9 | 1 | 7, &nbsp; 1, 0, &nbsp; 2, &nbsp; 1 |


# %% id="build-inputs" kind="solution"
def build_inputs(features: Tensor, actions: Tensor, rewards: Tensor, dones: Tensor, num_actions: int) -> Tensor:
    """The input of the recurrent cell at every step, equation (1).

    Args:
        features: (N, T, F) of the observations.
        actions: (N, T), int64 in 0 … num_actions - 1, what was done at step t.
        rewards, dones: (N, T), what step t paid, and whether it ended its episode.
        num_actions: A, length of the one-hot code.

    Returns:
        (N, T, F + A + 2), dtype of the features: [features, one-hot action, reward, done], in this order, the last three
        of the step before; inputs[:, 0] has zeros for them.

    TODO (3-5 lines): torch.nn.functional.one_hot; put the three together, move them one step on, join the features.
    """
    ### BEGIN SOLUTION
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    step = torch.cat([one_hot, rewards[..., None], dones[..., None]], -1)
    before = torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1)
    return torch.cat([features, before], -1)
    ### END SOLUTION


# %% id="test-build-inputs" kind="tests" points=6
_features = torch.tensor([[[5.0], [6.0], [7.0]]])
_actions = torch.tensor([[1, 0, 1]])
_rewards = torch.tensor([[0.5, 2.0, 9.0]])
_dones = torch.tensor([[0.0, 1.0, 1.0]])
check(
    "build_inputs on the worked example",
    build_inputs(_features, _actions, _rewards, _dones, 2),
    torch.tensor([[[5.0, 0, 0, 0, 0], [6, 0, 1, 0.5, 0], [7, 1, 0, 2, 1]]]),
    {
        "sees_the_future: action, reward and done of step t stand in the input of step t. Move them one step on.": [
            [[5.0, 0, 1, 0.5, 0], [6, 1, 0, 2, 1], [7, 0, 1, 9, 1]]
        ],
        "moved the wrong way: this is what the *next* step does and pays.": [
            [[5.0, 1, 0, 2, 1], [6, 0, 1, 9, 1], [7, 0, 0, 0, 0]]
        ],
        "the last step has come round to the front (as torch.roll does): at the first step of a trial there was none.": [
            [[5.0, 0, 1, 9, 1], [6, 0, 1, 0.5, 0], [7, 1, 0, 2, 1]]
        ],
        "at the first step there was no action. Its code is all zeros; this is the one-hot code of action 0.": [
            [[5.0, 1, 0, 0, 0], [6, 0, 1, 0.5, 0], [7, 1, 0, 2, 1]]
        ],
        "cleared_at_the_episode's_end: what the last step of an episode did and paid is news about the same task.": [
            [[5.0, 0, 0, 0, 0], [6, 0, 1, 0.5, 0], [7, 0, 0, 0, 0]]
        ],
        "cleared_at_the_episode's_end: only the done flag crosses it; action and reward must, too.": [
            [[5.0, 0, 0, 0, 0], [6, 0, 1, 0.5, 0], [7, 0, 0, 0, 1]]
        ],
        "the reward of step t stands in the input of step t: move it one step on, like the action.": [
            [[5.0, 0, 0, 0.5, 0], [6, 0, 1, 2, 0], [7, 1, 0, 9, 1]]
        ],
        "the done flag of step t stands in the input of step t: move it one step on, like the action.": [
            [[5.0, 0, 0, 0, 0], [6, 0, 1, 0.5, 1], [7, 1, 0, 2, 1]]
        ],
        "the features were moved, too. The observation of step t is there to choose the action of step t from.": [
            [[0.0, 0, 0, 0, 0], [5, 0, 1, 0.5, 0], [6, 1, 0, 2, 1]]
        ],
        "the order is features, action, reward, done.": [[[5.0, 0, 0, 0, 0], [6, 0.5, 0, 0, 1], [7, 2, 1, 1, 0]]],
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(51)
_features = torch.randn(3, 5, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_actions = torch.randint(0, 6, (3, 5), generator=_draw)
_rewards = torch.randn(3, 5, generator=_draw, dtype=torch.float64)
_dones = (torch.rand(3, 5, generator=_draw) < 0.4).double()
_inputs = build_inputs(_features, _actions, _rewards, _dones, 6)
emit("build_inputs, float64, three trials, six actions", _inputs,
     "Step t gets action, reward and done of step t - 1, also across the end of an episode; the first step gets zeros.")  # fmt: skip
_weights = torch.randn(3, 5, 12, generator=_draw, dtype=torch.float64)
emit("build_inputs: derivative with respect to the features",
     torch.autograd.grad((_inputs * _weights).sum(), _features, allow_unused=True), "The features must keep their graph.")  # fmt: skip
emit(
    "build_inputs: what was handed in, afterwards", [_features, _actions, _rewards, _dones], "It was changed in place."
)
_one = [_x[:, 2:3].detach() for _x in (_features, _actions, _rewards, _dones)]
emit(
    "build_inputs of a single step",
    build_inputs(*_one, 6),
    "A trial of one step must work, too: zeros behind the features.",
)
_two = [_x[:, 1:3].detach() for _x in (_features, _actions, _rewards, _dones)]
emit("build_inputs of two steps, float32, eight actions", build_inputs(_two[0].float(), _two[1], _two[2].float(), _two[3].float(), 8),
     "The one-hot code has num_actions columns, and the dtype of the features.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="cell"
# ## 2 · A cell that can remember
#
# The *gated recurrent unit* (Cho et al. 2014) keeps a memory $h \in \mathbb R^H$. At each step two gates, numbers
# between 0 and 1, decide what becomes of it:
#
# $$
# \begin{aligned}
# r &= \sigma\big(x W^x_r + b^x_r + h W^h_r + b^h_r\big) && \text{reset gate: how much of the memory goes into the candidate} \\
# z &= \sigma\big(x W^x_z + b^x_z + h W^h_z + b^h_z\big) && \text{update gate: how much of the memory stays} \\
# n &= \tanh\!\big(x W^x_n + b^x_n + r \odot (h W^h_n + b^h_n)\big) && \text{candidate} \\
# h' &= (1-z) \odot n + z \odot h. && (2)
# \end{aligned}
# $$
#
# With $z$ near 1 the memory stays as it is for as long as you like, and so does the gradient through it. That is what
# the gate is for.
#
# The weights of the three parts stand side by side, in the order $r, z, n$: `params["gru.input.weight"]` is
# $[W^x_r\; W^x_z\; W^x_n]$, of shape $(I, 3H)$, and likewise `"gru.input.bias"` $(3H,)$, `"gru.hidden.weight"`
# $(H, 3H)$, `"gru.hidden.bias"` $(3H,)$. `tensor.chunk(3, dim=-1)` takes them apart.
#
# **Worked by hand**, $I = H = 1$: $W^x = (0, 0, 1)$, $b^x = (0, \ln 3, 0)$, $W^h = (0, 0, 1)$, $b^h = (0, 0, 1)$. Then
# $r = \sigma(0) = 0.5$ and $z = \sigma(\ln 3) = 0.75$.
#
# | $x$ | $h$ | $n$ | $h'$ |
# |---|---|---|---|
# | 0 | 1 | $\tanh(0 + 0.5\,(1 + 1)) = 0.7616$ | $0.25 \cdot 0.7616 + 0.75 \cdot 1 = 0.9404$ |
# | 0.5 | 0 | $\tanh(0.5 + 0.5\,(0 + 1)) = 0.7616$ | $0.25 \cdot 0.7616 + 0.75 \cdot 0 = 0.1904$ |


# %% id="gru-cell" kind="solution"
def gru_cell(params: Params, x: Tensor, h: Tensor) -> Tensor:
    """One step of a gated recurrent unit, equation (2).

    Args:
        params: has "gru.input.weight" (I, 3H), "gru.input.bias" (3H,), "gru.hidden.weight" (H, 3H) and
            "gru.hidden.bias" (3H,), the columns in the order reset, update, candidate; and others that do not concern you.
        x: (N, I), inputs.
        h: (N, H), memories.

    Returns:
        (N, H), the new memories.

    TODO (4-6 lines): torch.sigmoid, torch.tanh and matrix products; no torch.nn.
    """
    ### BEGIN SOLUTION
    input_r, input_z, input_n = (x @ params["gru.input.weight"] + params["gru.input.bias"]).chunk(3, dim=-1)
    hidden_r, hidden_z, hidden_n = (h @ params["gru.hidden.weight"] + params["gru.hidden.bias"]).chunk(3, dim=-1)
    r, z = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
    n = torch.tanh(input_n + r * hidden_n)
    return (1 - z) * n + z * h
    ### END SOLUTION


# %% id="test-gru-cell" kind="tests" points=5
_params = {
    "gru.input.weight": torch.tensor([[0.0, 0.0, 1.0]]),
    "gru.input.bias": torch.tensor([0.0, np.log(3.0), 0.0], dtype=torch.float32),
    "gru.hidden.weight": torch.tensor([[0.0, 0.0, 1.0]]),
    "gru.hidden.bias": torch.tensor([0.0, 0.0, 1.0]),
}
check(
    "gru_cell on the worked example",
    gru_cell(_params, torch.tensor([[0.0], [0.5]]), torch.tensor([[1.0], [0.0]])),
    torch.tensor([[0.940399], [0.190399]]),
    {
        "z and 1 - z are exchanged: z says how much of the *old* memory stays.": [[0.821196], [0.571196]],
        "the gates are exchanged: the columns come in the order reset, update, candidate.": [[0.952574], [0.424142]],
        "the reset gate does not reach the candidate.": [[0.991007], [0.226287]],
        "the reset gate multiplies h alone; in (2) it multiplies all of h W + b.": [[0.976287], [0.226287]],
        "the candidate needs tanh, not the sigmoid.": [[0.932765], [0.182765]],
        "the candidate needs a tanh.": [[1.0], [0.25]],
        "this is the candidate n; mix it with the old memory.": [[0.761594], [0.761594]],
        "the hidden bias is missing.": [[0.865529], [0.115529]],
        "the gate z is missing: this is half old, half new.": [[0.880797], [0.380797]],
    },
    tolerance=1e-5,
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(52)
_own = {}
for _part, _size in (("input", 5), ("hidden", 4)):
    _own[f"gru.{_part}.weight"] = torch.randn(_size, 12, generator=_draw, dtype=torch.float64).requires_grad_()
    _own[f"gru.{_part}.bias"] = torch.randn(12, generator=_draw, dtype=torch.float64).requires_grad_()
_x = torch.randn(3, 5, generator=_draw, dtype=torch.float64).requires_grad_()
_h = torch.randn(3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_got = gru_cell({**_own, "other.bias": torch.zeros(1)}, _x, _h)
emit("gru_cell, float64, three rows", _got, "Compare with equation (2), part by part.")
_weights = torch.randn(3, 4, generator=_draw, dtype=torch.float64)
for _name, _slope in zip(
    [*_own, "x", "h"],
    torch.autograd.grad((_got * _weights).sum(), [*_own.values(), _x, _h], allow_unused=True),
    strict=True,
):
    emit(f"gru_cell: derivative with respect to {_name}", _slope, "Nothing may be detached.")
emit("gru_cell: parameters, input and memory, afterwards", [*_own.values(), _x, _h], "They were changed in place.")
_huge = 1e4 * torch.randn(6, 5, generator=_draw, dtype=torch.float64)
emit("gru_cell with very large inputs", gru_cell(_own, _huge, torch.randn(6, 4, generator=_draw, dtype=torch.float64)),
     "Use torch.sigmoid and torch.tanh; formulas with exp overflow.")  # fmt: skip
emit("gru_cell, float32, one row", gru_cell({k: v.float() for k, v in _own.items()}, _x[:1].float(), _h[:1].float()))
### END HIDDEN TESTS

# %% [markdown] id="unrolling"
# ## 3 · Which end clears the memory?
#
# There are two kinds of ends, and only one of them clears the memory:
#
# * an **episode** ends: the level is replaced by a fresh one, the *task* stays. The memory holds what has been found
#   out about the task, so it **survives**;
# * a **trial** ends: another task comes. What was known about the last one is now wrong, so the memory is **cleared**,
#   to zeros, before the first input of the new trial is taken in.
#
# $$ h_t = \text{cell}\big(x_t,\ (1 - \text{start}_t)\, h_{t-1}\big). \tag{3} $$
#
# $\text{start}_t$ is 1 at the first step of a trial. Episode ends do not occur in (3): the cell is told about them by
# $d_{t-1}$ in its input, and may make of it what it likes. Rows are independent: a trial that starts in one clears
# nothing in the others. And a row may begin in the middle of a trial, so the memory handed in counts.
#
# **Worked by hand** with a simple cell, $h' = 0.5\,h + x$:
#
# | | memory handed in | $t$ | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|---|---|
# | row 1 | 100 | start | **1** | 0 | 0 | **1** |
# | | | $x_t$ | 4 | 0 | 0 | 8 |
# | | | $h_t$ | $0.5\cdot 0 + 4 = 4$ | 2 | 1 | $0.5 \cdot 0 + 8 = 8$ |
# | row 2 | 2 | start | 0 | 0 | **1** | 0 |
# | | | $x_t$ | 1 | 0 | 3 | 0 |
# | | | $h_t$ | $0.5\cdot 2 + 1 = 2$ | 1 | $0.5 \cdot 0 + 3 = 3$ | 1.5 |


# %% id="unroll" kind="solution"
def unroll(cell: Cell, params: Params, inputs: Tensor, hidden: Tensor, trial_starts: Tensor) -> Tensor:
    """Run a cell along the steps of N rows, equation (3).

    Args:
        cell: (params, x (N, I), h (N, H)) -> (N, H).
        params: handed on to the cell.
        inputs: (N, T, I).
        hidden: (N, H), the memory before the first step. Must not be changed.
        trial_starts: (N, T), 1.0 at the first step of a trial, else 0.0.

    Returns:
        (N, T, H), the memory after every step; differentiable with respect to everything that goes in.

    TODO (2-4 lines, in the loop): clear the memory of the rows in which a trial starts, let the cell take its step, and put
    the new memory into the list.
    """
    memories = []
    # unbind, not inputs[:, t]: the gradient of an index is a whole tensor of zeros, and there would be T of them.
    for x, start in zip(inputs.unbind(1), trial_starts.unbind(1), strict=True):
        ### BEGIN SOLUTION
        hidden = cell(params, x, (1 - start[:, None]) * hidden)
        memories.append(hidden)
        ### END SOLUTION
    return torch.stack(memories, 1)


# %% id="test-unroll" kind="tests" points=6
def half_cell(params: Params, x: Tensor, h: Tensor) -> Tensor:
    """h' = 0.5 h + x, with the 0.5 as a parameter."""
    return params["keep"] * h + x


_keep = {"keep": torch.tensor(0.5, requires_grad=True)}
_inputs = torch.tensor([[[4.0], [0.0], [0.0], [8.0]], [[1.0], [0.0], [3.0], [0.0]]])
_hidden = torch.tensor([[100.0], [2.0]])
_starts = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
_memories = unroll(half_cell, _keep, _inputs, _hidden, _starts)
check(
    "unroll on the worked example",
    _memories,
    torch.tensor([[[4.0], [2.0], [1.0], [8.0]], [[2.0], [1.0], [3.0], [1.5]]]),
    {
        "memory_never_cleared: what was known about the last task gets into the new trial.": [
            [[54.0], [27.0], [13.5], [14.75]],
            [[2.0], [1.0], [3.5], [1.75]],
        ],
        "other_rows_untouched: a trial that starts in one row has cleared the memory of the other one, too.": [
            [[4.0], [2.0], [0.0], [8.0]],
            [[1.0], [0.5], [3.0], [0.0]],
        ],
        "the memory handed in is not used; row 2 goes on with a trial that began earlier.": [
            [[4.0], [2.0], [1.0], [8.0]],
            [[1.0], [0.5], [3.0], [1.5]],
        ],
        "only the memory handed in is cleared; in row 1 another trial starts at t = 3.": [
            [[4.0], [2.0], [1.0], [8.5]],
            [[2.0], [1.0], [3.5], [1.75]],
        ],
        "nothing is remembered: every step gets a cleared memory.": [
            [[4.0], [0.0], [0.0], [8.0]],
            [[1.0], [0.0], [3.0], [0.0]],
        ],
        "every step gets the memory that was handed in; hand on the new one.": [
            [[4.0], [50.0], [50.0], [8.0]],
            [[2.0], [1.0], [3.0], [1.0]],
        ],
        "cleared too late: the memory is cleared *after* the first step of the trial, so that step itself is forgotten.": [
            [[54.0], [0.0], [0.0], [8.0]],
            [[2.0], [1.0], [3.5], [0.0]],
        ],
        "start and not start are exchanged: this clears the memory at every step but the first of a trial.": [
            [[54.0], [0.0], [0.0], [8.0]],
            [[1.0], [0.0], [3.0], [0.0]],
        ],
        "changed_in_place: a memory that is in the list already was cleared. `hidden *= …` and `hidden[…] = 0` change the "
        "tensor itself; make a new one.": [[[4.0], [2.0], [0.0], [8.0]], [[2.0], [0.0], [3.0], [1.5]]],
    },
)
check(
    "unroll: the memory handed in, afterwards",
    _hidden,
    [[100.0], [2.0]],
    hint="It was changed in place; make a new one.",
)
assert _memories.requires_grad, "unroll: the result has no graph; detach() has no place here."
check(
    "unroll: derivative of row 2's memory after the second step, with respect to the cell's parameter",
    torch.autograd.grad(_memories[1, 1, 0], _keep["keep"])[0],
    torch.tensor(3.0),
    {"the memory is detached between the steps: nothing can be learned about what to keep.": 2.0},
    hint="h_1 = k (2k + 1), so its derivative is 4k + 1 = 3 at k = 0.5.",
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(53)
_weights = {
    "w": torch.randn(3, 3, generator=_draw, dtype=torch.float64).requires_grad_(),
    "u": torch.randn(2, 3, generator=_draw, dtype=torch.float64).requires_grad_(),
}
_calls = []


def _tanh_cell(params, x, h):
    _calls.append([list(x.shape), list(h.shape), params is _weights])
    return torch.tanh(x @ params["u"] + h @ params["w"])


_x = torch.randn(4, 6, 2, generator=_draw, dtype=torch.float64).requires_grad_()
_h = torch.randn(4, 3, generator=_draw, dtype=torch.float64).requires_grad_()
_starts = (torch.rand(4, 6, generator=_draw) < 0.3).double()
_starts[0] = 0.0
_got = unroll(_tanh_cell, _weights, _x, _h, _starts)
emit("unroll, float64, four rows, six steps", _got,
     "Clear the memory before the first step of a trial, in that row alone, and at no other step.")  # fmt: skip
emit("unroll: shapes with which the cell was called, and whether it got the params as they are", _calls,
     "Call the cell once per step, with all rows.")  # fmt: skip
_slopes = torch.randn(4, 6, 3, generator=_draw, dtype=torch.float64)
for _name, _slope in zip(
    ("the cell's parameters", "the inputs", "the memory handed in"),
    torch.autograd.grad((_got * _slopes).sum(), (_weights["w"], _x, _h), allow_unused=True),
    strict=True,
):
    emit(f"unroll: derivative with respect to {_name}", _slope, "The graph must go through all steps of a trial.")
emit("unroll: inputs, memory and starts, afterwards", [_x, _h, _starts], "They were changed in place.")
_first = unroll(_tanh_cell, _weights, _x[:, :2], _h, _starts[:, :2])
emit("unroll in two parts", [_first, unroll(_tanh_cell, _weights, _x[:, 2:], _first[:, -1], _starts[:, 2:])],
     "The memory handed in counts, unless a trial starts.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="trial-advantages-intro"
# ## 4 · Advantages over the whole trial
#
# What an action in the first episode finds out, pays in the second. To the agent the trial *is* the episode, and the ends
# of episodes inside it are ordinary steps after which the surroundings look different. So (2) of notebook 0 runs over the whole
# trial, and across every end inside it:
#
# $$ \delta_t = r_t + \gamma V_{t+1} - V_t, \qquad A_t = \delta_t + \gamma\lambda A_{t+1}, \tag{4} $$
#
# where $V_{t+1}$ after the last step of an episode is the value of the **first step of the next one**.
#
# One end is left, that of the trial, and there a decision is due. It is handed to you as `final_values`, the worth of what
# follows the last step:
#
# * a bandit of $n$ pulls is over after $n$ pulls. Nothing follows: `final_values` is **0**;
# * a level designer could go on with another episode; we merely stopped. `final_values` is the value $V$ of that
#   **first step that was not played**.
#
# Trials may differ in length, since episodes can reach a goal early. `mask` is 1 while a step belongs to the trial, and
# behind it stands anything.
#
# **Worked by hand**, $\gamma = 0.5$, $\lambda = 0.8$, so $\gamma\lambda = 0.4$. Read from the bottom up. Row 1 was cut, row 2 is over.
#
# | row 1 | $r_t$ | $V_t$ | `done` | $\delta_t$ | $A_t$ |
# |---|---|---|---|---|---|
# | $t=0$ | 1 | 2 | 0 | $1 + 0.5\cdot 1 - 2 = -0.5$ | $-0.5 + 0.4\cdot 0.52 = -0.292$ |
# | $t=1$ | 0 | 1 | **1** | $0 + 0.5\cdot \mathbf{2} - 1 = 0$ | $0 + 0.4 \cdot 1.3 = 0.52$ |
# | $t=2$ | 2 | 2 | 0 | $2 + 0.5\cdot 1 - 2 = 0.5$ | $0.5 + 0.4\cdot 2 = 1.3$ |
# | $t=3$ | 1 | 1 | 1 | $1 + 0.5\cdot \mathbf{4} - 1 = 2$, `final_values` = 4 | $2$ |
#
# | row 2 | $r_t$ | $V_t$ | `done` | `mask` | $\delta_t$ | $A_t$ |
# |---|---|---|---|---|---|---|
# | $t=0$ | 1 | 2 | 0 | 1 | $1 + 0.5\cdot 1 - 2 = -0.5$ | $-0.5 + 0.4\cdot 0.8 = -0.18$ |
# | $t=1$ | 0 | 1 | **1** | 1 | $0 + 0.5\cdot 2 - 1 = 0$ | $0 + 0.4\cdot 2 = 0.8$ |
# | $t=2$ | 4 | 2 | 1 | 1 | $4 + 0.5\cdot \mathbf{0} - 2 = 2$, `final_values` = 0 | $2$ |
# | $t=3$ | (7) | (9) | (0) | 0 | | $0$ |


# %% id="trial-advantages" kind="solution"
def trial_advantages(
    rewards: Tensor, values: Tensor, final_values: Tensor, dones: Tensor, mask: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalized advantage estimation over whole trials, equation (4).

    Args:
        rewards, values: (N, T), r_t and V_t.
        final_values: (N,), worth of what follows the last step of the trial.
        dones: (N, T), 1.0 at the last step of each episode; you have to know what they mean here.
        mask: (N, T), 1.0 while the step belongs to the trial: ones, then zeros.
        gamma, lam: discount factor and lambda, both in [0, 1].

    Returns:
        (N, T). For steps of the trial
            delta[:, t] = rewards[:, t] + gamma * (value of step t + 1) - values[:, t],
              after the last step of the trial with final_values as the value of step t + 1,
            advantages[:, t] = delta[:, t] + gamma * lam * advantages[:, t + 1];
        for steps behind the mask 0, whatever the inputs hold there.

    TODO (4-6 lines, in the loop): go backwards, and keep the value and the advantage of the step that follows; at a step
    behind the mask they must stay what they are.
    """
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = final_values, torch.zeros_like(final_values)
    for t in reversed(range(rewards.shape[1])):
        ### BEGIN SOLUTION
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantages[:, t] = mask[:, t] * (delta + gamma * lam * next_advantage)
        inside = mask[:, t] > 0
        next_value = torch.where(inside, values[:, t], next_value)
        next_advantage = advantages[:, t]
        ### END SOLUTION
    return advantages


# %% id="test-trial-advantages" kind="tests" points=6
_trials = {
    "rewards": torch.tensor([[1.0, 0.0, 2.0, 1.0], [1.0, 0.0, 4.0, 7.0]]),
    "values": torch.tensor([[2.0, 1.0, 2.0, 1.0], [2.0, 1.0, 2.0, 9.0]]),
    "final_values": torch.tensor([4.0, 0.0]),
    "dones": torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]),
    "mask": torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]]),
}
check(
    "trial_advantages on the worked example",
    trial_advantages(**_trials, gamma=0.5, lam=0.8),
    [[-0.292, 0.52, 1.3, 2.0], [-0.18, 0.8, 2.0, 0.0]],
    {
        "episode_end_taken_for_terminal: at the end of an episode both the next value and the advantage that follows are "
        "cut. The trial goes on, and what was found out is paid for in the next episode.": [
            [-0.9, -1.0, 0.5, 0.0],
            [-0.9, -1.0, 2.0, 0.0],
        ],
        "episode_end_taken_for_terminal: at an end inside the trial both the next value and the advantage that follows are "
        "cut. The trial goes on, and what was found out is paid for in the next episode.": [
            [-0.9, -1.0, 1.3, 2.0],
            [-0.9, -1.0, 2.0, 0.0],
        ],
        "episode_end_taken_for_terminal: at the end of an episode the next value is counted as 0.": [
            [-0.82, -0.8, 0.5, 0.0],
            [-0.58, -0.2, 2.0, 0.0],
        ],
        "episode_end_taken_for_terminal: at an end inside the trial the next value is counted as 0.": [
            [-0.692, -0.48, 1.3, 2.0],
            [-0.58, -0.2, 2.0, 0.0],
        ],
        "episode_end_taken_for_a_cut: the value of the next episode is counted, but its advantages do not flow back into "
        "this one.": [
            [-0.5, 0.0, 1.3, 2.0],
            [-0.5, 0.0, 2.0, 0.0],
        ],
        "final_values are not counted: row 1 was cut, and what would have followed is worth 4.": [
            [-0.42, 0.2, 0.5, 0.0],
            [-0.18, 0.8, 2.0, 0.0],
        ],
        "row 2: numbers from behind the mask get into the result.": [
            [-0.292, 0.52, 1.3, 2.0],
            [0.412, 2.28, 5.7, -2.0],
        ],
        "row 2: the value of the step behind the mask, 9, is taken for what follows the trial; that is in final_values.": [
            [-0.292, 0.52, 1.3, 2.0],
            [0.54, 2.6, 6.5, 0.0],
        ],
        "steps behind the mask must come out as 0.": [
            [-0.292, 0.52, 1.3, 2.0],
            [-0.18, 0.8, 2.0, -2.0],
        ],
        "lambda is missing from the recursion.": [[-0.125, 0.75, 1.5, 2.0], [0.0, 1.0, 2.0, 0.0]],
        "these are the deltas; each A_t also needs gamma * lam * A_{t+1}.": [
            [-0.5, 0.0, 0.5, 2.0],
            [-0.5, 0.0, 2.0, 0.0],
        ],
        "this is just zeros: was `advantages` filled?": torch.zeros(2, 4),
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(54)
_lengths = torch.tensor([7, 4, 1, 6])
_mask = (torch.arange(7) < _lengths[:, None]).double()
_case = {
    "rewards": torch.where(_mask > 0, torch.randn(4, 7, generator=_draw, dtype=torch.float64), 50.0),
    "values": torch.where(_mask > 0, torch.randn(4, 7, generator=_draw, dtype=torch.float64) + 3.0, -70.0),
    "final_values": torch.tensor([2.5, 0.0, -1.0, 4.0], dtype=torch.float64),
    "dones": (torch.rand(4, 7, generator=_draw) < 0.4).double(),
    "mask": _mask,
}
for _which, _gamma, _lam in (
    ("usual", 0.9, 0.7),
    ("both one", 1.0, 1.0),
    ("lambda zero", 0.95, 0.0),
    ("gamma zero", 0.0, 0.5),
):
    emit(f"trial_advantages of trials of different lengths, gamma and lambda: {_which}",
         trial_advantages(**_case, gamma=_gamma, lam=_lam),
         "Does an episode's end, or something behind the mask, get into it? final_values follow the last valid step.")  # fmt: skip
emit("trial_advantages: what was handed in, afterwards", _case, "It was changed in place.")
emit("trial_advantages with other ends of episodes, which must not matter",
     trial_advantages(**{**_case, "dones": 1 - _case["dones"]}, gamma=0.9, lam=0.7),
     "The trial goes on after an episode's end.")  # fmt: skip
emit("trial_advantages, float32, one step",
     trial_advantages(**{k: v[:, :1].float() if v.ndim == 2 else v.float() for k, v in _case.items()}, gamma=0.5, lam=0.5))  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="q-ends" kind="question" points=4
# ### Question 1 (4 points)
#
# (a) A colleague cuts the advantages wherever `dones` is 1, as one does in ordinary reinforcement learning. On a bandit where every
# pull is an episode of its own, and with $\gamma = 1$: what is $A_t$ then, and towards which well-known agent is the policy trained?
#
# (b) Why will the colleague hardly notice on 10 pulls of 5 arms? (Compare the numbers in section 7.) With which problem would you show it to them?
#
# (c) Another colleague clears the *memory* at every `done`, and leaves the advantages right. Which of the two mistakes is worse, and how does it
# show in the return by episode?
#
# (d) On levels we use $\gamma = 0.9$ and episodes of 60 steps. Is the agent rewarded for exploring in the first episode so that it can do better in the
# second? Then why does it do better in the second?
#
# ### BEGIN SOLUTION
# (a) $A_t = r_t - V_t$: only the pull itself counts. The expected reward of a pull, given the memory, is the posterior mean of the arm, so the policy is trained
# towards the *greedy* agent. It still uses its memory, but it is never paid for finding something out.
#
# (b) With 10 pulls the greedy agent earns 6.62, the optimum 6.66: information has little time to pay off, and a difference of 0.04 drowns in the noise of training.
# With 100 pulls it is greedy's 75.8 against about 78 for agents that explore.
#
# (c) Clearing the memory. Without it next to nothing of the first episode can be used in the second, only its last action and what that paid, which stand in the input of the next step: the return is nearly the same in every episode of the trial, however many there are (trained that way; an agent whose memory is cleared only at test may even do a little worse later). With wrong advantages the
# agent still learns and improves from episode to episode; it merely explores too little.
#
# (d) Hardly: what an action at the start of the first episode brings in the second is discounted by $0.9^{60} \approx 0.002$. It does better because here information comes for free: every
# edit that pays shows something about the task, and the memory keeps it. A task in which one has to give up reward first to find something out would need a larger $\gamma$.
# ### END SOLUTION

# %% [markdown] id="clipping"
# ## 5 · A policy loss that may be used more than once
#
# Trials are expensive, so each batch is used for several gradient steps. After the first one the policy is no longer the one that played. *Proximal policy optimisation*
# (Schulman et al. 2017) weights each advantage by the ratio of the probabilities, and stops paying for a ratio once it has gone further than $\varepsilon$ in the
# direction that the advantage asks for:
#
# $$ L = -\frac{1}{\sum_t m_t} \sum_t m_t \min\!\big(\rho_t A_t,\ \text{clip}(\rho_t, 1-\varepsilon, 1+\varepsilon)\, A_t\big), \qquad
#    \rho_t = \frac{\pi(a_t)}{\pi_{\text{old}}(a_t)}. \tag{5} $$
#
# The minimum makes it one-sided: a step that has already gone too far in the *wrong* direction still gets its full gradient back.
#
# The ratio must be taken with the **whole trial unrolled again**: the memory at step $t$ depends on the parameters, so it has changed with them. (Minibatches are therefore made of whole trials, never of
# single steps.)
#
# **Worked by hand**, $\varepsilon = 0.2$:
#
# | $\rho_t$ | $A_t$ | $\rho_t A_t$ | clipped | minimum |
# |---|---|---|---|---|
# | 2 | 1 | 2 | 1.2 | **1.2**, no gradient |
# | 0.5 | 2 | 1 | 1.6 | **1** |
# | 2 | −1 | −2 | −1.2 | **−2** |
# | 0.5 | −3 | −1.5 | −2.4 | **−2.4**, no gradient |
#
# Sum $-2.2$ over four steps, so $L = 0.55$.


# %% id="clipped-policy-loss" kind="solution"
def clipped_policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, clip: float
) -> Tensor:
    """PPO's clipped loss, equation (5), to be minimised.

    Args:
        log_probs: (N, T), log-probabilities of the actions under the present policy; carry the graph.
        old_log_probs: (N, T), under the policy that played; constants.
        advantages: (N, T), constants.
        mask: (N, T), 1.0 while the step belongs to the trial. Steps behind it count for nothing.
        clip: epsilon.

    Returns:
        Scalar: minus the mean of the clipped objective over the valid steps of all trials.

    TODO (2-4 lines).
    """
    ### BEGIN SOLUTION
    ratio = torch.exp(log_probs - old_log_probs)
    objective = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
    return -(objective * mask).sum() / mask.sum()
    ### END SOLUTION


# %% id="test-clipped-policy-loss" kind="tests" points=5
_old = torch.tensor([[0.25, 0.5, 0.5], [0.25, 0.5, 0.5]]).log()
_new = torch.tensor([[0.5, 0.25, 0.5], [0.5, 0.25, 0.5]]).log().requires_grad_()
_advantages = torch.tensor([[1.0, 2.0, 10.0], [-1.0, -3.0, 20.0]])
_mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
_loss = clipped_policy_loss(_new, _old, _advantages, _mask, 0.2)
check(
    "clipped_policy_loss on the worked example",
    _loss,
    torch.tensor(0.55),
    {
        "the sign is wrong: a loss is minimised, the objective is to grow.": -0.55,
        "not clipped: this is the mean of rho * A.": 0.125,
        "only the clipped term; the minimum with rho * A is missing.": 0.2,
        "maximum instead of minimum.": -0.225,
        "the ratio is upside down: new over old.": 0.975,
        "summed; (5) is a mean over the valid steps.": 2.2,
        "divided by all steps, those behind the mask included: divide by mask.sum().": 0.366667,
        "the steps behind the mask are counted.": -4.633333,
        "the steps behind the mask are counted in the sum, but not in the mean.": -6.95,
        "averaged over trials, summed over their steps.": 1.1,
    },
    tolerance=1e-5,
)
assert _loss.requires_grad, "clipped_policy_loss: the result has no graph."
check(
    "clipped_policy_loss: gradient with respect to log_probs",
    torch.autograd.grad(_loss, _new)[0],
    torch.tensor([[0.0, -0.25, 0.0], [0.5, 0.0, 0.0]]),
    hint="-rho * A / 4 where the unclipped term is the smaller one, else 0.",
    tolerance=1e-5,
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(55)
_old = torch.randn(3, 6, generator=_draw, dtype=torch.float64) - 2
_new = (_old + 0.4 * torch.randn(3, 6, generator=_draw, dtype=torch.float64)).requires_grad_()
_advantages = torch.randn(3, 6, generator=_draw, dtype=torch.float64)
_mask = (torch.arange(6) < torch.tensor([6, 2, 4])[:, None]).double()
for _which, _clip in (("narrow", 0.1), ("wide", 0.3)):
    _loss = clipped_policy_loss(_new, _old, _advantages, _mask, _clip)
    emit(f"clipped_policy_loss, float64, three trials of different lengths, {_which} clip", _loss,
         "Minus the mean over all valid steps of the smaller of the two terms.")  # fmt: skip
    emit("clipped_policy_loss: derivative with respect to log_probs", torch.autograd.grad(_loss, _new)[0],
         "It is cut only where the clipped term is the smaller one.")  # fmt: skip
emit(
    "clipped_policy_loss: what was handed in, afterwards", [_new, _old, _advantages, _mask], "It was changed in place."
)
_same = _old.clone().requires_grad_()
emit("clipped_policy_loss before the first step: derivative with respect to log_probs",
     torch.autograd.grad(clipped_policy_loss(_same, _old, _advantages, _mask, 0.2), _same)[0],
     "Where old and new policy agree this is the policy gradient.")  # fmt: skip
_unlikely = torch.tensor([[-121.0, -130.0, -118.0]])
emit("clipped_policy_loss of very unlikely actions, float32",
     clipped_policy_loss(_unlikely + torch.tensor([[1.0, 0.1, -0.3]]), _unlikely, torch.tensor([[1.0, 3.0, -2.0]]), torch.ones(1, 3), 0.2),
     "Subtract the log-probabilities, then take exp; a ratio of tiny probabilities is 0 / 0.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="by-episode"
# ## 6 · Does it get better from episode to episode?
#
# The return of the whole trial does not show whether anything was learned in it. What does is the return **of each episode**, in order: flat, if the agent does not adapt;
# rising, if it does. An episode's last reward still belongs to it, and episodes need not have equal lengths.
#
# **Worked by hand**, two episodes per trial:
#
# | | rewards | `dones` | `mask` | returns |
# |---|---|---|---|---|
# | row 1 | 1, 2, 4, 8, 16, 32 | 0, 0, 0, **1**, 0, **1** | 1, 1, 1, 1, 1, 1 | 1+2+4+8 = **15**, 16+32 = **48** |
# | row 2 | 1, 2, 4, (99, 99, 99) | 0, **1**, **1**, 0, 0, 0 | 1, 1, 1, 0, 0, 0 | 1+2 = **3**, **4** |


# %% id="returns-by-episode" kind="solution"
def returns_by_episode(rewards: Tensor, dones: Tensor, mask: Tensor, num_episodes: int) -> Tensor:
    """Undiscounted return of each episode of a trial.

    Args:
        rewards: (N, T).
        dones: (N, T), 1.0 at the last step of each episode.
        mask: (N, T), 1.0 while the step belongs to the trial. Steps behind it count for nothing.
        num_episodes: episodes per trial, K.

    Returns:
        (N, K): the k-th column is the sum of the rewards of the k-th episode.

    TODO (3-5 lines): the number of an episode is how many have ended *before* the step.
    """
    ### BEGIN SOLUTION
    episode = dones.cumsum(-1) - dones
    belongs = (episode[..., None] == torch.arange(num_episodes, device=rewards.device)).to(rewards.dtype)
    return ((rewards * mask)[..., None] * belongs).sum(-2)
    ### END SOLUTION


# %% id="test-returns-by-episode" kind="tests" points=4
_rewards = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [1.0, 2.0, 4.0, 99.0, 99.0, 99.0]])
_dones = torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
_mask = torch.tensor([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
check(
    "returns_by_episode on the worked example",
    returns_by_episode(_rewards, _dones, _mask, 2),
    [[15.0, 48.0], [3.0, 4.0]],
    {
        "the last reward of an episode is counted for the next one: an episode's number is how many ended *before* it.": [
            [7.0, 24.0],
            [1.0, 2.0],
        ],
        "the trial was cut into equal parts; look at dones.": [[7.0, 56.0], [7.0, 297.0]],
        "the trial was cut into equal parts; look at dones. (And the mask was used.)": [[7.0, 56.0], [7.0, 0.0]],
        "the steps behind the mask are counted for the last episode.": [[15.0, 48.0], [3.0, 301.0]],
        "these are sums from the start of the trial; take the difference.": [[15.0, 63.0], [3.0, 7.0]],
        "these are means; a return is a sum.": [[3.75, 24.0], [1.5, 4.0]],
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(56)
_rewards = torch.randn(3, 9, generator=_draw, dtype=torch.float64)
_dones, _mask = torch.zeros(3, 9, dtype=torch.float64), torch.zeros(3, 9, dtype=torch.float64)
for _n, _ends in enumerate([[2, 3, 8], [0, 4, 5], [0, 1, 2]]):
    _dones[_n, _ends] = 1.0
    _mask[_n, : _ends[-1] + 1] = 1.0
emit("returns_by_episode, float64, three episodes of different lengths", returns_by_episode(_rewards, _dones, _mask, 3),
     "An episode's number is how many ended before the step; steps behind the mask belong to none.")  # fmt: skip
emit("returns_by_episode: what was handed in, afterwards", [_rewards, _dones, _mask], "It was changed in place.")
_ones = torch.ones(2, 4)
_single = torch.randn(2, 4, generator=_draw)
emit("returns_by_episode of episodes of one step, float32", returns_by_episode(_single, _ones, _ones, 4))
emit(
    "returns_by_episode of a single episode", returns_by_episode(_single, torch.tensor([[0.0, 0, 0, 1]] * 2), _ones, 1)
)
### END HIDDEN TESTS

# %% [markdown] id="bandits"
# ## 7 · A known answer: bandits
#
# A slot machine has $k$ arms. Arm $i$ pays 1 with probability $p_i$ and else 0; every $p_i$ is drawn once per trial, uniformly from $[0, 1]$, and stays hidden. The agent has $n$ pulls. Each pull is an
# episode of one step, a trial is $n$ of them, and nothing but the memory carries over. It is the smallest problem in which one has to find something out *and* make use of it in time.
#
# It is also one whose best answer is known exactly. All that matters of a history is how often each arm has won and lost. After $s$ wins and $f$ losses an arm's probability has the distribution
# $\text{Beta}(s+1, f+1)$, so its next pull wins with probability $\frac{s+1}{s+f+2}$. The best expected reward $V$ of the $m$ pulls that are left obeys
#
# $$ V_m(\text{counts}) = \max_i\ \tfrac{s_i+1}{s_i+f_i+2}\,\big(1 + V_{m-1}(\text{one more win of } i)\big) + \tfrac{f_i+1}{s_i+f_i+2}\,V_{m-1}(\text{one more loss of } i). \tag{6} $$
#
# Arms are exchangeable, so the counts may be sorted, and arms that were never pulled are all alike. That leaves few enough states to go through all of them.

# %% id="optimum"
from functools import cache

from metapcg.tasks.bandit import bayes_optimum


def bandit_optimum(pulls: int, arms: int) -> float:
    """Most that any agent can expect from `pulls` pulls of `arms` arms: dynamic programming, equation (6)."""

    @cache
    def value(left: int, counts: tuple[tuple[int, int], ...]) -> float:
        if left == 0:
            return 0.0
        choices = set(counts) | (
            {(0, 0)} if len(counts) < arms else set()
        )  # arms with equal counts are the same choice
        return max(pull(left, counts, *arm) for arm in choices)

    def pull(left: int, counts: tuple[tuple[int, int], ...], wins: int, losses: int) -> float:
        others = list(counts)
        if wins + losses:
            others.remove((wins, losses))
        won, lost = (tuple(sorted([*others, new])) for new in ((wins + 1, losses), (wins, losses + 1)))
        chance = (wins + 1) / (wins + losses + 2)
        return chance * (1 + value(left - 1, won)) + (1 - chance) * value(left - 1, lost)

    return value(pulls, ())


for pulls, arms in ((10, 5), (10, 10)):
    optimum = bandit_optimum(pulls, arms)
    assert np.isclose(optimum, bayes_optimum(pulls, arms)), "two programs, one number"
    print(f"n = {pulls}, k = {arms}: the best possible agent earns {optimum:.6f}")

# %% [markdown] id="optimum-reading"
# This is a **ceiling**. It makes two statements possible that a learning curve alone never does: how much is missing, and when a result is too good to be true.
#
# Now your six functions are put to work. The given training loop (`metapcg.learning.recurrent_training`) plays 1000 trials with the present policy, each on another bandit, computes advantages with `trial_advantages`, makes a few
# Adam steps on `clipped_policy_loss` plus a loss of the value function, and begins again. Since a trial of $n$ pulls is all there is, `final_values` are 0, and $\gamma = 1$. The agent is then tested on thousands of *new* bandits.

# %% id="bandit-run"
from metapcg.experiments.functions import FunctionSet
from metapcg.experiments.known_trials import BANDITS, PUBLISHED_BANDITS, bandit_baselines, half_width, run_bandits

functions = FunctionSet(globals())
bandits, rows = {}, []
for (pulls, arms), budget in BANDITS[current_profile()].items():
    started = time.perf_counter()
    result = bandits[pulls, arms] = run_bandits(functions, pulls, arms, budget, seed=0, device=device)
    seconds = time.perf_counter() - started
    published = PUBLISHED_BANDITS[pulls, arms]
    totals = {**bandit_baselines(pulls, arms, budget.test_tasks), "RL²": result.returns.sum(1)}
    totals["RL², memory cleared"] = result.reset.sum(1)
    for agent, total in totals.items():
        rows.append(
            {
                "n, k": f"{pulls}, {arms}",
                "agent": agent,
                "reward": round(float(total.mean()), 3),
                "interval": round(half_width(total), 3),
                "published": published.get(agent.lower().replace("²", "2"), ""),
            }
        )
    if pulls < 50:
        rows.append(
            {
                "n, k": f"{pulls}, {arms}",
                "agent": "Bayes optimum",
                "reward": round(bandit_optimum(pulls, arms), 6),
                "interval": 0,
                "published": "",
            }
        )
    print(
        f"n = {pulls}, k = {arms}: trained and tested in {seconds:.0f} s, RL² earns {result.total:.3f} ± {result.half_width:.3f}"
    )
save_table(rows, "rl2_bandits")
show_table(rows)

# %% id="bandit-figure"
pulls, arms = next(iter(bandits))
result = bandits[pulls, arms]
levels = {row["agent"]: row["reward"] for row in rows if row["n, k"] == f"{pulls}, {arms}"}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1.25, 1))
trials = [row["env_steps"] / pulls for row in result.history]
axes[0].plot(trials, [row["return_trial"] for row in result.history], color=COLOURS["RL²"])
for agent in ("Bayes optimum", "greedy", "thompson", "random"):
    colour = COLOURS.get(agent.split()[-1], "#7a5c99")
    axes[0].axhline(levels[agent], color=colour, linewidth=1, linestyle="-" if agent == "Bayes optimum" else ":")
    left, above = agent in ("Bayes optimum", "greedy"), agent != "greedy"  # where the curve does not go
    axes[0].annotate(
        f"{agent} {levels[agent]:.2f}", (0 if left else 1, levels[agent]), xycoords=("axes fraction", "data"),
        xytext=(3 if left else -3, 2 if above else -2), textcoords="offset points", ha="left" if left else "right",
        va="bottom" if above else "top", fontsize=9, color=colour,
    )  # fmt: skip
axes[0].set(xlabel="trials of training", ylabel="total reward of a trial", ylim=(4.6, 7.1))
axes[0].set_title(f"Training, {pulls} pulls of {arms} arms", fontsize=11)
for label, returns, colour in (
    ("memory kept", result.returns, COLOURS["RL²"]),
    ("memory cleared at every done", result.reset, COLOURS["reset"]),
):
    axes[1].plot(range(1, pulls + 1), returns.mean(0), marker="o", color=colour, label=label)
axes[1].axhline(0.5, color=COLOURS["random"], linewidth=1, linestyle=":")
axes[1].set(xlabel="pull", ylabel="mean reward", ylim=(0.4, 0.8))
axes[1].set_title("The trained agent on new bandits", fontsize=11)
axes[1].legend(frameon=False, fontsize=9, loc="upper left")
fig.tight_layout()
save_figure(fig, "rl2_bandits")
plt.show()

# %% [markdown] id="bandit-reading"
# Left: within some twenty thousand trials the agent comes from random play to the ceiling, and stays there. What is left to the Bayes optimum is about the interval of the test. Nobody has told it about posteriors, counts or exploration; it has learned
# a bandit algorithm. It is as good as the greedy one and far better than Thompson sampling, which explores for a future that ten pulls do not have.
#
# Right: with its memory the agent wins half of its first pulls, since nothing is known yet, and more with each pull that follows. The *same* agent with its memory cleared at every `done` wins more than half of the later pulls too, but gets no further: the input
# still holds the last action and what it paid, so it can stay after a win and go on after a loss. One step of experience is all that is left to it. This is the mistake of exercise 3, and from the return alone you would not see it: the agent *does* beat random.
#
# ### A leak check
#
# The ceiling works in the other direction, too. If the mean over thousands of new bandits lies *significantly above* it, the agent knows something that it cannot know, and the result is wrong, however good it looks. The same holds for the
# first pull, before which nothing is known: it must win half of the time.
#
# The commonest leak is an input that holds the reward of the same step. It can be used in training, where whole trials lie there to be unrolled, and not in play, where the reward does not exist yet. The training loop
# compares the two: unrolled over a whole trial, the policy must give each action the probability with which it was chosen.


# %% id="leak"
def check_for_leaks(result, pulls: int, arms: int) -> None:
    """Report whether an agent earns more than is possible."""
    first = result.returns[:, 0]
    print(f"n = {pulls}, k = {arms}")
    print(f"  first pull, when nothing is known: {first.mean():.3f} ± {half_width(first):.3f}, should be 0.5")
    above = (result.total - bandit_optimum(pulls, arms)) / (result.half_width / 1.96)
    print(
        f"  whole trial: {result.total:.3f}, {above:+.1f} standard errors from the optimum; a leak shows as more than +3"
    )


for (pulls, arms), result in bandits.items():
    if pulls < 50:
        check_for_leaks(result, pulls, arms)


def build_inputs_with_a_leak(
    features: Tensor, actions: Tensor, rewards: Tensor, dones: Tensor, num_actions: int
) -> Tensor:
    """The mistake: action, reward and done of step t stand in the input of step t."""
    one_hot = torch.nn.functional.one_hot(actions, num_actions).to(features.dtype)
    return torch.cat([features, one_hot, rewards[..., None], dones[..., None]], -1)


try:
    leaky = FunctionSet({"build_inputs": build_inputs_with_a_leak}, globals())
    run_bandits(leaky, 10, 5, BANDITS["smoke"][10, 5], device=device)
except ValueError as error:
    print(f"\nWith an input that sees the future, training refuses to start:\n  {error}")

# %% [markdown] id="mdps"
# ## 8 · Episodes of more than one step: tabular MDPs
#
# In a bandit every step ends an episode. Next come Markov decision processes with ten states and five actions, whose rewards (means from $N(1, 1)$, noise of deviation 1) and transitions (flat Dirichlet) are drawn once per trial
# and hidden; an episode starts in state 0 and takes ten steps, and a trial is $n = 10$ episodes (Duan et al. 2016, table 2). Everything you wrote is used as it is: only the observation is another one.
#
# That observation matters more than anything else here. What is worth remembering is a table of fifty rewards, one for each pair of state and action, so the environment shows the step before as *an entry of that table*: fifty numbers
# that say which entry, fifty that hold its reward. And the memory is read with weights of its own for every state, which makes "what do I know about the state I am in?" one matrix product. What distinguishes the
# states is a small signal, and it has to be carried in memory until the state comes back, some ten steps later. After forty iterations of the same training an agent that sees the state alone earns 113 on new MDPs, one that sees the table's
# entry but reads its memory alike in all states 117, and this one 128 (`python benchmarks/tabular_mdp_inputs.py --iterations 40`, one seed).

# %% id="mdp-run"
from metapcg.experiments.known_trials import MDPS, PUBLISHED_MDPS, mdp_baselines, run_mdps

episodes = 10
budget = MDPS[current_profile()].get(episodes)
totals, result = mdp_baselines(episodes, 1000), None
if budget is None:
    print(f"under the profile {current_profile()} nothing is trained here; HW11_PROFILE=full does it")
else:
    started = time.perf_counter()
    result = run_mdps(functions, episodes, budget, seed=0, device=device)
    totals |= {"RL²": result.returns.sum(1), "RL², memory cleared": result.reset.sum(1)}
    print(f"trained and tested in {time.perf_counter() - started:.0f} s: {result.total:.1f} ± {result.half_width:.1f}")
rows = []
for agent in ("random", "psrl", "ucrl2", "RL²", "RL², memory cleared", "oracle"):
    total = totals.get(agent)
    rows.append(
        {
            "agent": agent,
            "reward of 10 episodes": "" if total is None else round(float(total.mean()), 1),
            "interval": "" if total is None else round(half_width(total), 1),
            "published": PUBLISHED_MDPS[episodes].get(agent.lower().replace("²", "2"), ""),
        }
    )
save_table(rows, "rl2_mdps")
show_table(rows)

# %% id="mdp-figure"
if result is not None:
    fig, ax = plt.subplots(figsize=(6.4, 3.4))
    for label, returns, colour in (
        ("memory kept", result.returns, COLOURS["RL²"]),
        ("memory cleared between episodes", result.reset, COLOURS["reset"]),
    ):
        halves = [half_width(column) for column in returns.T]
        ax.errorbar(range(1, episodes + 1), returns.mean(0), halves, marker="o", capsize=2, color=colour, label=label)
    ax.axhline(10, color=COLOURS["random"], linewidth=1, linestyle=":")
    ax.annotate(
        "random",
        (1, 10),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 2),
        textcoords="offset points",
        ha="right",
        color="#777777",
    )
    ax.set(xlabel="episode of the trial", ylabel="return of the episode", title="New MDPs, the trained agent")
    ax.legend(frameon=False, fontsize=9)
    fig.tight_layout()
    save_figure(fig, "rl2_mdps")
    plt.show()

# %% [markdown] id="mdp-reading"
# This is much harder than a bandit: there are fifty pairs of state and action to remember something about, and a state has to be met again before what is known about it can be used. The oracle knows its MDP from the first step; nobody who has to find it out comes
# near it in ten episodes. The numbers to compare with are those of agents that also have to: posterior sampling (PSRL), optimism (UCRL2), and the paper's RL², which was trained on far more trials than even `full` allows itself. What to look for in the figure under
# `full` is the *slope*: with the memory kept the return rises from episode to episode; cleared, it stays where the first episode was.

# %% [markdown] id="levels"
# ## 9 · Game levels
#
# Now the level designer, with the tasks of notebook 1: a hidden direction $w = (\cos\varphi, \sin\varphi)$ says what an edit pays. Each step pays $w \cdot \Delta$ and the policy sees that at the next step, so here every edit is a
# small experiment, and the memory can know $\varphi$ long before the first episode is over. The network sees the same 5 × 5 window as MAML's policy; its logits depend on the window *and* on the memory. A trial in training is two
# episodes of 60 steps; at test it is longer, to see whether what was found out lasts.
#
# As in notebook 1, each run lies in a folder of its own, and the **random** policy and the **oracle**, which is told $w$, are the same runs as there.

# %% id="levels-run"
from metapcg.experiments.results import split_table
from metapcg.experiments.runs import execute_run, run_folder, settings_for


def execute(algorithm: str, **changed: object) -> list:
    """The runs of an algorithm under this profile, one per seed."""
    done = []
    for seed in by_profile(smoke=(0,), quick=(0,), full=(0, 1, 2)):
        settings = settings_for(current_profile(), algorithm, seed=seed, **changed)
        started = time.perf_counter()
        done.append(execute_run(settings, functions, run_folder(settings, functions), device))
        print(f"{done[-1].label:<8} seed {seed}: {time.perf_counter() - started:5.1f} s", flush=True)
    return done


rl2_runs = execute("rl2")
runs = [*rl2_runs, *execute("oracle"), *execute("random")]

# %% id="levels-curves"
from metapcg.experiments.figures import adaptation_curves, level_gallery

fig = adaptation_curves(runs)
save_figure(fig, "rl2_levels_adaptation")
fig

# %% [markdown] id="levels-curves-reading"
# A step is an episode here, and step 0 is the *first* one, before which nothing is known. MAML stands at 0 there, and has to: it does not adapt before it has seen five whole episodes. RL² has most of the oracle's return in that very episode. There is no contradiction to
# question 2 of notebook 1: a policy that does not adapt earns nothing, but this one adapts with every edit. The second and third episode are better still.
#
# (The band is wide because directions differ in how much they pay, for the oracle too. It is about the mean over tasks, not about noise of the agent.)

# %% [markdown] id="forgetting"
# ### Where in the trial is it found out? And what if the memory is cleared between episodes?
#
# Return by episode is coarse: an episode is 60 edits. Here is the reward of every ten edits, over a trial of four episodes, on new directions; and the same agent, on the same tasks, when its memory is cleared at every episode's start.
# That is the mistake of question 1 (c), made at test time.

# %% id="forgetting-run"
from metapcg.experiments.algorithms import Session
from metapcg.learning.recurrent_training import collect_trials
from metapcg.learning.rollouts import Streams

rl2_run = rl2_runs[0]
session = Session(rl2_run.settings, functions, device)
params = torch.load(rl2_run.folder / "params.pt", map_location=device, weights_only=True)
tasks = session.evaluation_tasks("interpolation")
episodes, horizon, window = 4, rl2_run.settings.horizon, 10
fig, ax = plt.subplots(figsize=(8, 3.4))
rows = []
for label, reset, colour in (
    ("memory kept", False, COLOURS["RL²"]),
    ("memory cleared between episodes", True, COLOURS["reset"]),
):
    policy, problem = session.policy("interpolation"), session.problem(tasks, 20)
    batch = collect_trials(
        functions, policy, params, problem, episodes, Streams(7, device), device, reset_between_episodes=reset
    )
    by_episode = returns_by_episode(batch["rewards"], batch["dones"], batch["mask"], episodes).mean(0)
    by_window = batch["rewards"].reshape(len(batch["rewards"]), -1, window).sum(-1).mean(0).cpu()
    ax.plot(window * (torch.arange(len(by_window)) + 0.5), by_window, color=colour, label=label)
    rows.append({"": label} | {f"episode {k + 1}": round(float(value), 2) for k, value in enumerate(by_episode)})
for k in range(1, episodes):
    ax.axvline(k * horizon, color="#bbbbbb", linewidth=1, linestyle=":")
ax.axhline(0, color=COLOURS["random"], linewidth=0.8)
ax.set(
    xlabel="step of the trial",
    ylabel=f"reward of {window} steps",
    title="New directions; dotted: a fresh level",
    xlim=(0, episodes * horizon),
)
ax.legend(frameon=False, fontsize=9)
fig.tight_layout()
save_figure(fig, "rl2_levels_within_trial")
plt.show()
show_table(rows)
save_table([{"memory": row.pop(""), **row} for row in rows], "rl2_levels_reset")

# %% [markdown] id="forgetting-reading"
# The first ten edits earn half of what the next ten do: that is what it costs to find out the task. With its memory kept the agent starts each fresh level at its best, where most is to be had. (Within a level the reward falls, since the edits that pay are used up.) With
# its memory cleared it has to find out everything again, in every episode, and the return by episode does not rise.
#
# Note how *small* the loss is: about a tenth of an episode's return. Ten edits are soon repeated, so the agent with the mistake still looks like one that adapts, and it does. Only the return by episode, which must rise, gives it away. In a problem
# whose episodes are too short to find out the task in one of them, such as the bandit of section 7, the same mistake takes away half of what there is to be learned.

# %% id="trained-ablation"
# The mistake trained, not only tested, and other lengths of the trial in training. Too long for `quick`: there,
# `python -m metapcg experiments run --profile quick --only trial-memory` makes these runs.
changes = by_profile(
    smoke=[], quick=[], full=[{"reset_between_episodes": True}, {"trial_episodes": 1}, {"trial_episodes": 4}]
)
rows = []
for change in ({}, *changes):
    found = execute("rl2", **change, splits=("train", "interpolation")) if change else rl2_runs
    by_episode = np.mean([run.splits["interpolation"].returns.mean(0) for run in found], 0)
    words = ", ".join(f"{name} = {value}" for name, value in change.items()) or "–"
    rows.append({"changed": words} | {f"episode {k + 1}": round(float(v), 2) for k, v in enumerate(by_episode)})
show_table(rows)
save_table(rows, "rl2_levels_trial_memory")

# %% id="levels-splits"
table = split_table(runs)
rows = [
    {
        "method": row["method"],
        "split": row["split"],
        "return": f"{row['return']:.2f}",
        "95 % interval": f"[{row['low']:.2f}, {row['high']:.2f}]",
        "share of oracle": f"{100 * row['share']:.0f} %" if row["share"] != "" else "–",
        "equals random?": row["equals_random"],
    }
    for row in table
    if row["return"] != ""
]
show_table(rows)

# %% [markdown] id="levels-splits-reading"
# * **Interpolation** is as good as training: what was learned is how to find out a direction, not a list of them.
# * **Extrapolation** pays little, for the oracle too, as in notebook 1: more regions *and* longer paths contradict each other.
# * **Held-out representation**: the memory knows what is paid, but the policy has never walked. It earns little, and the oracle is no ceiling.
# * **Held-out game**: zelda levels, with tiles and statistics that the network never saw in training, and still far better than random. What it brings along is "an edit like this one has just paid: go on".

# %% id="levels-gallery"
fig = level_gallery(rl2_runs[0])
save_figure(fig, "rl2_levels_gallery")
fig

# %% [markdown] id="levels-gallery-reading"
# The rows are the start level, the level after the *first* episode of a trial and the one after the last, from the same start. In MAML's gallery the middle row looked alike in all columns. Here it does not: the first episode already goes where its direction asks, to many small caves or to
# few large ones with long paths. The last row is reached by an agent that knew it from the first edit on.

# %% [markdown] id="q-learned" kind="question" points=4
# ### Question 2 (4 points)
#
# (a) After training, the parameters are frozen. Where is what the agent learns about a *new* task, and what in the code of section 3 would have to be changed for it to be lost?
#
# (b) RL² needs no gradient at test and adapts within an episode; MAML of notebook 1 plays five whole episodes and then makes a step. Name one situation in which you would still prefer MAML, and say why.
#
# (c) At test the trials are longer than in training. What may go wrong with a memory that was trained on two episodes when it is run for fifty, and how would you notice?
#
# (d) A student reports 6.9 ± 0.05 on bandits with $n = 10$, $k = 5$. What do you answer?
#
# ### BEGIN SOLUTION
# (a) In the hidden state $h$ (and, for one step, in the input, which repeats the last action and what it paid). Whoever clears the hidden state at every `done` instead of at every trial's start loses it.
#
# (b) When the new task lies outside the training tasks, or the experience with it is long. MAML's adaptation is the policy gradient, which goes on improving on *any* task if it is given more steps; RL²'s is whatever its network learned to do with tasks
# like those of training, for trials about as long as those of training, and nothing makes it improve beyond them. Also when memory and time in training are short: RL² back-propagates through the whole trial.
#
# (c) The state may drift into regions that never occurred in training (counts and averages that keep growing, gates that saturate), so that what was known is forgotten or overrated. It shows in the return by episode: it rises, and then falls
# again. Training with longer trials helps, and so does playing only as many episodes as were trained.
#
# (d) The best possible agent earns 6.66 on average, so 6.9 is five standard errors or more above what is possible. Something is wrong: an input that holds the reward of the same step, bandits of the test that were seen in training or are not drawn uniformly, a test of the best seeds only, or a mean that leaves out trials.
# ### END SOLUTION

# %% [markdown] id="outlook"
# ## What you have now
#
# An agent whose learning algorithm was itself learned. It matches the best possible agent where that is known, and adapts to a level-design task within a few edits. Notebook 3 looks inside: instead of a memory that nobody can read, PEARL infers a
# *latent variable* of the task, with a posterior that can be looked at.

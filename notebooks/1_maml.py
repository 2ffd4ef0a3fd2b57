# %% [markdown] id="intro"
# # Notebook 1 · MAML: learning a starting point from which one step is enough
#
# A level designer that was trained for one task is good at that task. We want one that becomes good at a task it has never seen, after
# a handful of episodes. *Model-agnostic meta-learning* (Finn et al. 2017) looks for parameters $\theta$ from which one step of the policy
# gradient goes a long way, on every task of a family. When you are done you will be able to
#
# 1. write the inner update and adapt a policy in $K$ steps, with fresh episodes for each;
# 2. differentiate through the adaptation, or leave that out on purpose (first-order MAML, FOMAML);
# 3. do it for a whole batch of tasks at once, and prove that the fast version equals the slow one;
# 4. say exactly what each surrogate of notebook 0 gets wrong in the meta-gradient, by enumeration;
# 5. train MAML on 2-D navigation and on game levels, and judge it against a random policy, a random starting point, multi-task
#    pretraining and an oracle that is told its task.
#
# **Before you start**: finish notebook 0; your surrogates drive the training here. **Time**: three hours of work. The finished notebook runs
# in about two minutes on two CPU cores (`HW11_PROFILE=quick`).
#
# **How it works.** As in notebook 0: TODOs of one to six lines, a test on a worked example after each, hidden tests when it is
# graded. Exercises 3 to 5 call your functions of exercises 1 and 2. No graded cell needs notebook 0.
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `inner_update` | 3 |
# | 2 | `inner_gradients` | 5 |
# | 3 | `adapt` | 6 |
# | 4 | `meta_loss_loop` | 6 |
# | 5 | `meta_loss` | 6 |
# | 6 | `expected_meta_objective` | 6 |
# | – | question: second order that does not help | 4 |
# | – | question: why not adapting earns nothing | 4 |
# | | **total** | **40** |

# %% id="imports"
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from metapcg.tasks.enumeration import (
    MDP,
    all_trajectories,
    expected_return,
    log_probs,
    reward_to_go,
    trajectory_probabilities,
)

Params = dict[str, Tensor]
Batch = dict

# %% id="setup"
import time

import matplotlib.pyplot as plt

from metapcg.experiments.outputs import save_figure, save_table
from metapcg.experiments.profiles import by_profile, current_profile
from metapcg.learning.checks import check, emit
from metapcg.learning.device import configure

device = configure()
COLOURS = {"FOMAML": "#8d6cab", "naive": "#c8553d", "LVC": "#e0a030", "DiCE": "#2a7f9e", "truth": "#333333"}
print(f"profile {current_profile()}, device {device}")

# %% [markdown] id="inner"
# ## 1 · One inner step
#
# The *inner loop* adapts the parameters to one task. Its loss $\mathcal L$ is minus a surrogate of notebook 0, averaged over the steps of a
# few episodes of that task, and it takes plain gradient steps of size $\alpha$:
#
# $$ \theta' \;=\; \theta - \alpha\,\nabla_\theta \mathcal L(\theta). \tag{1} $$
#
# **Parameters are dictionaries** here: `{"crop.weight": tensor, "crop.bias": tensor, …}`. An optimiser from `torch.optim` would overwrite the tensors in
# place; we need $\theta'$ as a *new* dictionary whose tensors still remember that they came from $\theta$, because the outer loop
# will differentiate through equation (1).
#
# **Worked by hand**, $\alpha = 0.1$: $w = (1, 2)$ with gradient $(10, -20)$ becomes $(1 - 1,\; 2 + 2) = (0, 4)$, and $b = 3$ with gradient $5$
# becomes $2.5$.


# %% id="inner-update" kind="solution"
def inner_update(params: Params, gradients: Params, inner_lr: float) -> Params:
    """One gradient step on every tensor of a dictionary, equation (1).

    Args:
        params: name -> tensor. Must not be changed.
        gradients: the same names -> gradient of the loss, same shapes.
        inner_lr: step size, alpha.

    Returns:
        A new dictionary: out[name] = params[name] - inner_lr * gradients[name]. Autograd must be able to go back through it
        to params and to gradients.

    TODO (1-3 lines).
    """
    ### BEGIN SOLUTION
    return {name: params[name] - inner_lr * gradients[name] for name in params}
    ### END SOLUTION


# %% id="test-inner-update" kind="tests" points=3
_params = {"w": torch.tensor([1.0, 2.0], requires_grad=True), "b": torch.tensor([3.0], requires_grad=True)}
_gradients = {"w": torch.tensor([10.0, -20.0], requires_grad=True), "b": torch.tensor([5.0], requires_grad=True)}
_new = inner_update(_params, _gradients, 0.1)
assert isinstance(_new, dict), (
    f"inner_update: expected a dictionary, got {type(_new).__name__}. Is the `return` missing?"
)
assert set(_new) == {"w", "b"}, f"inner_update: expected the names w and b, got {sorted(_new)}."
check("inner_update, parameter w of the worked example", _new["w"], torch.tensor([0.0, 4.0]), {
    "the sign is wrong, this climbs the loss. Subtract the gradient.": [2.0, 0.0],
    "the step size is missing.": [-9.0, 22.0],
    "these are the old parameters.": [1.0, 2.0],
    "this is the step itself; add it to the parameters.": [-1.0, 2.0],
})  # fmt: skip
check("inner_update, parameter b of the worked example", _new["b"], torch.tensor([2.5]), {
    "b was left as it was: update every tensor of the dictionary.": [3.0],
})  # fmt: skip
check("inner_update: the parameters that were handed in", _params["w"], [1.0, 2.0],
      hint="They were changed in place; make new tensors.")  # fmt: skip
assert _new["w"].requires_grad, (
    "inner_update: the graph is cut. Nothing may be detached (and no torch.no_grad) here: the outer loop differentiates "
    "through this step."
)
_to_params, _to_gradients = torch.autograd.grad(_new["w"].sum(), (_params["w"], _gradients["w"]), allow_unused=True)
assert _to_params is not None, "inner_update: no path leads back to params; they must not be detached."
assert _to_gradients is not None, "inner_update: no path leads back to gradients, so second order would be lost here."
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(3)
_shapes = {"x": (4, 2, 3), "y": (), "z.weight": (5,)}
_p = {n: torch.randn(s, generator=_draw, dtype=torch.float64).requires_grad_() for n, s in _shapes.items()}
_g = {n: torch.randn(s, generator=_draw, dtype=torch.float64).requires_grad_() for n, s in _shapes.items()}
_out = inner_update(_p, dict(reversed(list(_g.items()))), 0.37)
emit("inner_update: names of the result", sorted(_out), "Update every tensor of the dictionary.")
emit("inner_update: whether the result is the dictionary handed in", _out is _p, "A new dictionary is asked for.")
for _n, _shape in _shapes.items():
    emit(f"inner_update, float64, tensor of shape {_shape}", _out[_n],
         "Subtract step size times gradient; gradients belong to their names, not to their place in the dictionary.")  # fmt: skip
    emit("inner_update: parameters handed in", _p[_n], "They were changed in place; make new tensors.")
    _weights = torch.randn(_shape, generator=_draw, dtype=torch.float64)
    _back = torch.autograd.grad((_out[_n] * _weights).sum(), (_p[_n], _g[_n]), allow_unused=True)
    emit("inner_update: derivatives with respect to params and gradients", _back,
         "The graph is cut: nothing may be detached here, the outer loop differentiates through this step.")  # fmt: skip
emit("inner_update with step size 0", inner_update(_p, _g, 0.0)["x"])
### END HIDDEN TESTS

# %% [markdown] id="order"
# ## 2 · First order or second order
#
# $\theta'$ depends on $\theta$ twice: directly, and through the gradient. By the chain rule
#
# $$ \nabla_\theta F(\theta') \;=\; \big(I - \alpha \nabla^2 \mathcal L(\theta)\big)\,\nabla F(\theta'). \tag{2} $$
#
# *Second order* keeps the Hessian; autograd does it if the inner gradient is computed with `create_graph=True`. *First order* (FOMAML) treats the
# inner gradient as a constant, so that $\nabla_\theta F(\theta') \approx \nabla F(\theta')$. It needs less time and memory.
# First order does **not** mean cutting $\theta'$ off from $\theta$: the direct path, the $I$ in (2), stays.
#
# **Many tasks at once.** Later `loss` has one entry per task and every tensor in `params` a leading task axis. Task $m$'s loss depends on row $m$ only, so the
# gradient of the *sum* of the losses holds every task's own gradient in its row. (The gradient of the mean would be $M$ times too small.)
#
# **Worked by hand**: $\mathcal L = w^3$ at $w = 2$: the gradient is $3w^2 = 12$, and differentiating the gradient once more gives $6w = 12$. Two
# tasks $w = (2, 1)$: $(12, 3)$.


# %% id="inner-gradients" kind="solution"
def inner_gradients(loss: Tensor, params: Params, first_order: bool) -> Params:
    """Gradient of the inner loss with respect to every parameter.

    Args:
        loss: scalar, or (M,) for M tasks with their own parameters (leading axis M on every tensor).
        params: name -> tensor that `loss` was computed from.
        first_order: True: the gradients are constants. False: they carry a graph, so they can be differentiated again.

    Returns:
        name -> gradient, shaped like the parameter; row m belongs to task m.

    TODO (2-3 lines): torch.autograd.grad. Use neither `.backward()` nor `.grad`: those add up over calls.
    """
    ### BEGIN SOLUTION
    gradients = torch.autograd.grad(loss.sum(), list(params.values()), create_graph=not first_order)
    return dict(zip(params, gradients, strict=True))
    ### END SOLUTION


# %% id="test-inner-gradients" kind="tests" points=5
_w = torch.tensor(2.0, requires_grad=True)
_b = torch.tensor(5.0, requires_grad=True)
_second = inner_gradients(_w**3 + 7 * _b, {"w": _w, "b": _b}, first_order=False)
assert isinstance(_second, dict), f"inner_gradients: expected a dictionary, got {type(_second).__name__}."
check("inner_gradients of w³ + 7b at w = 2, for w", _second["w"], torch.tensor(12.0), {
    "the sign is wrong: the gradient of the loss, not the direction of descent.": -12.0,
    "this is b's gradient: gradients come in the order of the list handed to autograd.grad.": 7.0,
})  # fmt: skip
check("inner_gradients of w³ + 7b, for b", _second["b"], torch.tensor(7.0))
assert _second["w"].requires_grad, (
    "with first_order=False the gradient must carry a graph (create_graph=True), or MAML silently becomes FOMAML."
)
check("the gradient differentiated again", torch.autograd.grad(_second["w"], _w)[0], torch.tensor(12.0))
_first = inner_gradients(_w**3 + 7 * _b, {"w": _w, "b": _b}, first_order=True)
check("inner_gradients, first order", _first["w"], torch.tensor(12.0))
assert not _first["w"].requires_grad, "with first_order=True the gradient must be a constant, without a graph."
assert _w.grad is None, "inner_gradients: it filled w.grad. Use torch.autograd.grad, which leaves .grad alone."
_rows = torch.tensor([2.0, 1.0], requires_grad=True)
check("inner_gradients of two tasks, w = (2, 1)", inner_gradients(_rows**3, {"w": _rows}, True)["w"], torch.tensor([12.0, 3.0]), {
    "divided by the number of tasks: sum the losses, do not average them.": [6.0, 1.5],
})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(4)
_x = torch.randn(3, 4, generator=_draw, dtype=torch.float64, requires_grad=True)
_y = torch.randn(3, generator=_draw, dtype=torch.float64, requires_grad=True)
for _order in (False, True):
    _got = inner_gradients((_x.sin() * _y[:, None]).sum(-1), {"y": _y, "x": _x}, _order)
    emit("inner_gradients, three tasks", {"x": _got["x"], "y": _got["y"]},
         "Row m is the gradient of task m's own loss: sum the losses. Gradients belong to their names.")  # fmt: skip
    emit(f"inner_gradients: whether the gradient carries a graph, first_order={_order}", _got["x"].requires_grad,
         "first_order is ignored or reversed.")  # fmt: skip
    if not _order:
        emit("inner_gradients: the gradient differentiated again", torch.autograd.grad(_got["x"].sum(), (_x, _y)),
             "With first_order=False the gradient must carry a graph (create_graph=True).")  # fmt: skip
emit(
    "inner_gradients: whether .grad was filled", [_x.grad is not None, _y.grad is not None], "Use torch.autograd.grad."
)
_scalar = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
emit("inner_gradients of a loss without a task axis", inner_gradients(_scalar.exp() * 2, {"w": _scalar}, True)["w"])
_inside = _x * 2.0  # parameters inside a graph, as after a first inner step
_got = inner_gradients((_inside**3).sum(), {"w": _inside}, False)["w"]
emit("inner_gradients of parameters that are no leaves", _got)
emit("inner_gradients, through them to where they came from", torch.autograd.grad(_got.sum(), _x)[0],
     "With first_order=False the gradient must carry a graph, also when the parameters are no leaves.")  # fmt: skip
### END HIDDEN TESTS

# %% [markdown] id="adapting"
# ## 3 · Adapt in K steps, with fresh episodes for each
#
# A gradient step needs episodes of the policy it improves. After the first step the policy has changed, so the second step needs **new** ones:
#
# $$ \theta_0 = \theta, \qquad \theta_{k+1} = \theta_k - \alpha\,\nabla\mathcal L(\theta_k;\ \text{episodes of } \theta_k). \tag{3} $$
#
# `collect(params)` plays episodes with the given parameters and returns a batch; `loss_fn(params, batch)` is the loss on it. You need not know how
# either works.
#
# **Worked by hand.** $\mathcal L(w; c) = \tfrac12 (w - c)^2$, where the "episodes" are just a number $c$, $\alpha = 0.5$, start at $w = 4$. The first call of `collect` gives
# $c = 0$: $w_1 = 4 - 0.5\,(4 - 0) = 2$. The second gives $c = 1$: $w_2 = 2 - 0.5\,(2 - 1) = 1.5$. Each step keeps half of $w$, so $\partial w_2/\partial w_0
# = 0.25$ with second order, and $1$ with first order.


# %% id="adapt" kind="solution"
def adapt(
    params: Params,
    collect: Callable[[Params], Batch],
    loss_fn: Callable[[Params, Batch], Tensor],
    inner_lr: float,
    num_steps: int,
    first_order: bool,
) -> Params:
    """Adapt parameters in `num_steps` inner steps, equation (3).

    Args:
        params: name -> tensor. Must not be changed.
        collect: params -> batch of fresh episodes, played with these params.
        loss_fn: (params, batch) -> loss, scalar or (M,).
        inner_lr: alpha.
        num_steps: K; 0 returns the parameters as they are.
        first_order: see `inner_gradients`.

    Returns:
        The adapted parameters, still connected to `params` in autograd's graph.

    TODO (3-5 lines): use your `inner_gradients` and `inner_update`.
    """
    ### BEGIN SOLUTION
    for _ in range(num_steps):
        batch = collect(params)
        gradients = inner_gradients(loss_fn(params, batch), params, first_order)
        params = inner_update(params, gradients, inner_lr)
    return params
    ### END SOLUTION


# %% id="test-adapt" kind="tests" points=6
class Recorded:
    """A `collect` that hands out given numbers and remembers with which parameters it was called."""

    def __init__(self, *numbers: float):
        self.numbers, self.seen = list(numbers), []

    def __call__(self, params: Params) -> Batch:
        assert len(self.seen) < len(self.numbers), "collect was called too often: once per inner step."
        self.seen.append(params["w"].detach().clone())
        return {"c": torch.as_tensor(self.numbers[len(self.seen) - 1])}


def half_square(params: Params, batch: Batch) -> Tensor:
    """½ (w − c)²."""
    return 0.5 * (params["w"] - batch["c"]) ** 2


for _first_order, _slope in ((False, 0.25), (True, 1.0)):
    _start = {"w": torch.tensor(4.0, requires_grad=True)}
    _collect = Recorded(0.0, 1.0)
    _adapted = adapt(_start, _collect, half_square, 0.5, 2, _first_order)
    assert isinstance(_adapted, dict), (
        f"adapt: expected a dictionary, got {type(_adapted).__name__}. Is the `return` missing?"
    )
    check("adapt, two steps on the worked example", _adapted["w"], torch.tensor(1.5), {
        "only one step was made.": 2.0,
        "the first batch was used for both steps: collect fresh episodes for every step.": 1.0,
        "both gradients were taken at the start: the second step must use the parameters of the first.": 0.5,
        "both steps start from the original parameters; the first one is lost.": 2.5,
        "nothing was adapted.": 4.0,
        "this climbs the loss.": 8.5,
    })  # fmt: skip
    assert len(_collect.seen) == 2, (
        f"adapt: collect must be called once per step, 2 times; it was called {len(_collect.seen)} times."
    )
    check("adapt: the parameters that played the second batch", _collect.seen[1], torch.tensor(2.0), {
        "the second batch was played by the unadapted policy.": 4.0,
    })  # fmt: skip
    assert _adapted["w"].requires_grad, (
        "the adapted parameters no longer depend on the start. First order drops the second "
        "derivatives only; in `params - inner_lr * gradient` the params stay connected."
    )
    (_through,) = torch.autograd.grad(_adapted["w"], _start["w"], allow_unused=True)
    assert _through is not None, (
        "adapt: no path leads from the adapted parameters back to the start. Nothing may be detached between the steps; "
        "first order drops the second derivatives only."
    )
    check(f"adapt: derivative of the result with respect to the start, first_order={_first_order}",
          _through, torch.tensor(_slope), {
              "this is the first-order answer: first_order=False must keep the graph of the gradients.": 1.0,
              "this is the second-order answer: first_order=True must drop it.": 0.25,
              "only one of the two steps carries a graph.": 0.5,
          })  # fmt: skip
### BEGIN HIDDEN TESTS
_start = {"w": torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)}
_targets = [torch.tensor([0.3, -1.0, 0.1], dtype=torch.float64) * k for k in range(1, 5)]
for _k in (0, 1, 3):
    for _order in (False, True):
        _seen, _batches = [], []

        def _collect(params, seen=_seen):
            seen.append(params["w"])
            return {"c": _targets[len(seen) - 1]}

        def _quartic(params, batch, batches=_batches):
            batches.append(batch["c"])
            return (params["w"] - batch["c"]) ** 4

        _got = adapt(_start, _collect, _quartic, 0.02, _k, _order)["w"]
        emit(f"adapt, {_k} steps on three tasks at once", _got, "Each step starts from the parameters of the last one.")
        emit("adapt: number of calls of collect", len(_seen), "Collect once per inner step.")
        emit("adapt: parameters that played the episodes", _seen,
             "Every batch is played by the parameters of that step.")  # fmt: skip
        emit("adapt: batches that the losses saw", _batches, "Fresh episodes for every step, each used once.")
        emit(
            f"adapt, derivative through {_k} steps, first_order={_order}",
            torch.autograd.grad(_got.sum(), _start["w"])[0],
            "First order drops the second derivatives only; second order keeps the graph of every step.",
        )
emit("adapt: the parameters handed in", _start["w"], "They were changed in place.")
### END HIDDEN TESTS

# %% [markdown] id="outer"
# ## 4 · The meta-loss, task by task
#
# The *outer loop* asks how good the adapted policies are, on **new** episodes that they play themselves:
#
# $$ \mathcal M(\theta) \;=\; \frac1M \sum_{m=1}^{M} \mathcal L^{\text{out}}_m\big(\theta'_m;\ \text{episodes of } \theta'_m\big), \qquad
#    \theta'_m = \text{adapt}(\theta, \text{task } m). \tag{4} $$
#
# Every task starts from the same $\theta$. The gradient of $\mathcal M$ is the meta-gradient; an ordinary optimiser (Adam, or a trust region) does the rest.
#
# **Worked by hand.** Two tasks with $\mathcal L = \tfrac12(w-c)^2$ inside and outside, $c = 0$ and $c = 2$, $\alpha = 0.5$, $K = 1$, $w = 4$. Task 1: $w' = 2$, outer loss $2$. Task
# 2: $w' = 3$, outer loss $0.5$. $\mathcal M = 1.25$. Its gradient: $\tfrac12\,(0.5 \cdot 2 + 0.5 \cdot 1) = 0.75$ with second order, $\tfrac12 (2 + 1) = 1.5$ with first.


# %% id="meta-loss-loop" kind="solution"
def meta_loss_loop(
    params: Params,
    collects: list[Callable[[Params], Batch]],
    inner_loss: Callable[[Params, Batch], Tensor],
    outer_loss: Callable[[Params, Batch], Tensor],
    inner_lr: float,
    num_steps: int,
    first_order: bool,
) -> Tensor:
    """Mean outer loss after adaptation, one task after the other, equation (4).

    Args:
        params: the meta-parameters theta.
        collects: one `collect` per task.
        inner_loss, outer_loss: (params, batch) -> scalar.
        inner_lr, num_steps, first_order: as in `adapt`.

    Returns:
        Scalar, to be differentiated with respect to `params`.

    TODO (4-5 lines): for each task, adapt from `params`, collect with the adapted parameters, and take the outer loss there.
    """
    ### BEGIN SOLUTION
    losses = []
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collect(adapted)))
    return torch.stack(losses).mean()
    ### END SOLUTION


# %% id="test-meta-loss-loop" kind="tests" points=6
MISTAKES = {
    "the outer loss was taken at theta, not at the adapted parameters.": 5.0,
    "summed over tasks; equation (4) is a mean.": 2.5,
    "the second task started from the first task's adapted parameters. All start from theta.": 1.0,
    "only the last task counts.": 0.5,
    "only the first task counts.": 2.0,
}
for _first_order, _slope in ((False, 0.75), (True, 1.5)):
    _theta = {"w": torch.tensor(4.0, requires_grad=True)}
    _collects = [Recorded(0.0, 0.0), Recorded(2.0, 2.0)]
    _value = meta_loss_loop(_theta, _collects, half_square, half_square, 0.5, 1, _first_order)
    check("meta_loss_loop on the worked example", _value, torch.tensor(1.25), MISTAKES)
    for _collect, _after in zip(_collects, (2.0, 3.0), strict=True):
        assert len(_collect.seen) == 2, (
            f"meta_loss_loop: a task's collect must be called K + 1 = 2 times, it was called {len(_collect.seen)} times. "
            "The outer loss needs episodes of its own; the inner ones are used up."
        )
        check("meta_loss_loop: the parameters that played the outer episodes", _collect.seen[1], torch.tensor(_after), {
            "the outer episodes were played by the unadapted policy.": 4.0,
        })  # fmt: skip
    assert _value.requires_grad, "meta_loss_loop: the result has no graph; .item(), float() and detach() cut it."
    check(f"meta_loss_loop: the meta-gradient, first_order={_first_order}", torch.autograd.grad(_value, _theta["w"])[0],
          torch.tensor(_slope), {"this is the first-order meta-gradient.": 1.5, "this is the second-order one.": 0.75})  # fmt: skip


### BEGIN HIDDEN TESTS
class _Episodes:
    """Hands out numbers in turn and remembers the parameters that it was called with."""

    def __init__(self, numbers):
        self.numbers, self.seen = list(numbers), []

    def __call__(self, params):
        self.seen.append(params["w"])
        return {"c": self.numbers[(len(self.seen) - 1) % len(self.numbers)]}


_c = torch.tensor([-1.0, 0.2, 3.0], dtype=torch.float64)
for _order in (False, True):
    _theta = {"w": torch.tensor(1.5, dtype=torch.float64, requires_grad=True)}
    _tasks = [_Episodes(_c[_m] * (1 + _k) for _k in range(3)) for _m in range(3)]
    _value = meta_loss_loop(
        _theta,
        _tasks,
        lambda p, b: 0.5 * (p["w"] - b["c"]) ** 2,
        lambda p, b: (p["w"] - b["c"]) ** 3,
        0.3,
        2,
        _order,
    )
    emit("meta_loss_loop, three tasks, two steps, another outer loss", _value,
         "Inner and outer loss, and the batches of the steps, must not be mixed up; the result is a mean.")  # fmt: skip
    emit("meta_loss_loop: parameters that played the episodes of each task", [task.seen for task in _tasks],
         "K batches for the inner steps from theta on, then one of the adapted parameters.")  # fmt: skip
    emit(f"meta_loss_loop: the meta-gradient, first_order={_order}", torch.autograd.grad(_value, _theta["w"])[0],
         "first_order goes on to adapt; nothing may be detached.")  # fmt: skip
    emit("meta_loss_loop: the parameters handed in", _theta["w"], "They were changed in place.")
### END HIDDEN TESTS

# %% [markdown] id="batching"
# ## 5 · All tasks at once
#
# The loop calls a small network $M$ times. It is faster to give every task **its own copy** of the parameters, stacked along a leading task axis, and to run
# all of them in one batched matrix product. `torch.Tensor.expand` makes such a stack without copying memory, and autograd knows that all copies are $\theta$: it
# adds their gradients. `adapt` works on the stack as it is, because you wrote `inner_gradients` for a loss of shape $(M,)$.


# %% id="meta-loss" kind="solution"
def meta_loss(
    params: Params,
    num_tasks: int,
    collect: Callable[[Params], Batch],
    inner_loss: Callable[[Params, Batch], Tensor],
    outer_loss: Callable[[Params, Batch], Tensor],
    inner_lr: float,
    num_steps: int,
    first_order: bool,
) -> Tensor:
    """Mean outer loss after adaptation, all tasks at once, equation (4).

    Args:
        params: the meta-parameters theta, without a task axis.
        num_tasks: M.
        collect: the M tasks' own params, (M, ...) each -> batch with leading axis M.
        inner_loss, outer_loss: (params, batch) -> (M,), one loss per task.
        inner_lr, num_steps, first_order: as in `adapt`.

    Returns:
        Scalar, to be differentiated with respect to `params`.

    TODO (3-4 lines): give each task its own copy, v.unsqueeze(0).expand(num_tasks, *v.shape); adapt; outer loss on fresh episodes.
    """
    ### BEGIN SOLUTION
    own = {name: value.unsqueeze(0).expand(num_tasks, *value.shape) for name, value in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted)).mean()
    ### END SOLUTION


# %% id="test-meta-loss" kind="tests" points=6
for _first_order, _slope in ((False, 0.75), (True, 1.5)):
    _theta = {"w": torch.tensor(4.0, requires_grad=True)}
    _collect = Recorded(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 2.0]))
    _value = meta_loss(_theta, 2, _collect, half_square, half_square, 0.5, 1, _first_order)
    for _played in _collect.seen:
        assert _played.shape == (2,), (
            "meta_loss: collect was called with parameters without a task axis. Two tasks that share one theta adapt it "
            "to both at once; give each task its own copy, expand."
        )
    check("meta_loss on the worked example", _value, torch.tensor(1.25), MISTAKES)
    assert len(_collect.seen) == 2, (
        f"meta_loss: collect must be called K + 1 = 2 times, it was called {len(_collect.seen)} times."
    )
    check(
        "meta_loss: the stack of parameters that played the inner episodes", _collect.seen[0], torch.tensor([4.0, 4.0])
    )
    check("meta_loss: the stack of parameters that played the outer episodes", _collect.seen[1], torch.tensor([2.0, 3.0]), {
        "the outer episodes were played by the unadapted policies.": [4.0, 4.0],
    })  # fmt: skip
    assert _value.requires_grad, (
        "meta_loss: the result has no graph. Copies made with detach(), clone().detach() or torch.tensor() forget theta."
    )
    (_gradient,) = torch.autograd.grad(_value, _theta["w"], allow_unused=True)
    assert _gradient is not None, (
        "meta_loss: no path leads back to theta; the tasks' copies must not be detached from it."
    )
    check(f"meta_loss: the meta-gradient, first_order={_first_order}", _gradient,
          torch.tensor(_slope), {"this is the first-order meta-gradient.": 1.5, "this is the second-order one.": 0.75})  # fmt: skip
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(6)
_x = torch.randn(4, 5, 3, generator=_draw, dtype=torch.float64)
_y = torch.randn(3, 4, 5, 2, generator=_draw, dtype=torch.float64)
for _order in (False, True):
    _theta = {"a": torch.randn(3, 2, generator=_draw, dtype=torch.float64, requires_grad=True),
              "b": torch.randn(2, generator=_draw, dtype=torch.float64, requires_grad=True)}  # fmt: skip
    _seen, _losses = [], []

    def _collect(params, seen=_seen):
        seen.append(params["b"])
        return {"x": _x, "y": _y[(len(seen) - 1) % 3]}

    def _inner(params, batch, losses=_losses):
        losses.append("inner")
        return ((torch.tanh(batch["x"] @ params["a"] + params["b"][:, None]) - batch["y"]) ** 2).sum((-1, -2))

    def _outer(params, batch, losses=_losses):
        losses.append("outer")
        return ((torch.tanh(batch["x"] @ params["a"] + params["b"][:, None]) - batch["y"]) ** 4).mean((-1, -2))

    _value = meta_loss(_theta, 4, _collect, _inner, _outer, 0.03, 2, _order)
    emit("meta_loss, four tasks, two steps, another outer loss", _value,
         "Each task has its own copy of theta; the result is the mean over tasks.")  # fmt: skip
    emit("meta_loss: parameters that played the episodes", _seen,
         "K batches for the inner steps from theta on, then one of the adapted parameters.")  # fmt: skip
    emit("meta_loss: the losses in the order they were called", _losses, "K times the inner loss, then the outer one.")
    emit(f"meta_loss: the meta-gradient, first_order={_order}", torch.autograd.grad(_value, list(_theta.values())),
         "Copies made with detach() or torch.tensor() forget theta; first_order goes on to adapt.")  # fmt: skip
    emit("meta_loss: the parameters handed in", _theta, "They were changed in place.")
### END HIDDEN TESTS

# %% [markdown] id="equal-intro"
# **Naive, then fast, then proven equal, then timed.** On real episodes: twelve tasks on small levels, double precision, two inner steps. Both versions look at the same recorded
# episodes, so value and gradient have to agree to rounding. The surrogates are the ones you wrote in notebook 0.

# %% id="surrogates"
from metapcg.learning.solutions import load

notebook_0 = load("0_policy_gradient").require("surrogate_naive", "surrogate_lvc", "surrogate_dice")
SURROGATES = {"naive": notebook_0.surrogate_naive, "LVC": notebook_0.surrogate_lvc, "DiCE": notebook_0.surrogate_dice}

# %% id="equal"
from metapcg.learning.level_problem import LevelProblem
from metapcg.learning.losses import surrogate_loss
from metapcg.learning.meta_training import AdvantageSettings, Recorder
from metapcg.learning.policies import CropPolicy, expand
from metapcg.learning.rollouts import Streams, select_task
from metapcg.tasks.families import direction

M = 12
policy = CropPolicy("binary", "narrow", hidden=(32, 32))
streams = Streams(0)
theta = {name: value.double().requires_grad_() for name, value in policy.init(streams.parameters).items()}
problem = LevelProblem(direction("binary", "narrow").sample("train", M, seed=0), num_envs=5)
recorder = Recorder(problem, policy, streams, AdvantageSettings())
inner = surrogate_loss(policy, SURROGATES["LVC"])
adapt(expand(theta, M), recorder, inner, 1.0, 2, first_order=True)
recorder(expand(theta, M))
for batch in recorder.batches:  # the engine counts in float32; the comparison wants more digits
    batch["advantages"], batch["mask"] = batch["advantages"].double(), batch["mask"].double()


def replay(task: int) -> Callable[[Params], Batch]:
    """A `collect` for one task that hands out the recorded episodes."""
    batches = iter([select_task(batch, task) for batch in recorder.batches])
    return lambda params: next(batches)


versions = {
    "loop": lambda: meta_loss_loop(theta, [replay(m) for m in range(M)], inner, inner, 1.0, 2, False),
    "batched": lambda: meta_loss(theta, M, recorder.replay(), inner, inner, 1.0, 2, False),
}
values, gradients, seconds = {}, {}, {}
for name, version in versions.items():
    times = []
    for _ in range(by_profile(smoke=1, quick=3, full=10)):
        started = time.perf_counter()
        values[name] = version()
        gradients[name] = torch.cat([g.reshape(-1) for g in torch.autograd.grad(values[name], list(theta.values()))])
        times.append(time.perf_counter() - started)
    seconds[name] = float(np.median(times))
difference = (gradients["loop"] - gradients["batched"]).abs().max().item()
print(f"largest difference of the meta-gradients: {difference:.1e} (largest entry {gradients['loop'].abs().max():.1e})")
print(
    f"loop {1000 * seconds['loop']:.0f} ms, batched {1000 * seconds['batched']:.0f} ms: {seconds['loop'] / seconds['batched']:.1f} times as fast"
)
assert difference < 1e-10, "The batched meta-gradient differs from the loop's."

# %% [markdown] id="equal-reading"
# Value and gradient agree to rounding; the test in the cell stops the notebook if they ever do not. The batched version does the same arithmetic in far fewer, larger operations, so it is
# faster, and its lead grows with the number of tasks. From here on only the batched version is used: `metapcg.learning.meta_training.meta_train` calls your `meta_loss`, and
# evaluation calls your `adapt`.

# %% [markdown] id="enumeration"
# ## 6 · What is the meta-gradient worth? Count every trajectory
#
# The truth we want is the return after a step along the *true* gradient, and its derivative:
#
# $$ F(\theta) \;=\; J\big(\theta + \alpha\,\nabla J(\theta)\big), \qquad
#    \nabla F = \big(I + \alpha\nabla^2 J(\theta)\big)\,\nabla J(\theta'). \tag{5} $$
#
# In code, $\nabla J$ comes from a surrogate, and autograd differentiates *that*. All surrogates of notebook 0 have the right gradient, so they all arrive at the same $\theta'$. But the Hessian in
# (5) is then the surrogate's. On the two-state process of notebook 0 the expectation is a sum over sixteen trajectories, so what is left is bias, not noise.
#
# **Do not differentiate the weights**: the expected surrogate is $\sum_\tau \bot(p(\tau))\, L(\tau)$, as in sampling, where the probabilities do not even appear.


# %% id="expected-meta-objective" kind="solution"
def expected_meta_objective(
    theta: Tensor, mdp: MDP, surrogate: Callable[[Tensor, Tensor, Tensor], Tensor], inner_lr: float, first_order: bool
) -> Tensor:
    """Exact return after one exact inner step whose gradient comes from a surrogate, equation (5).

    Args:
        theta: (S, A) logits that require a gradient.
        mdp: the process.
        surrogate: (log_probs, advantages, mask), each (N, 2) -> (N,), to be maximised. The advantages are the reward-to-go.
        inner_lr: alpha.
        first_order: treat the inner gradient as a constant.

    Returns:
        Scalar J(theta + alpha * gradient), to be differentiated with respect to theta.

    TODO (3-4 lines): the expected surrogate with detached probabilities, its gradient (torch.autograd.grad), the expected return
    after the step.
    """
    trajectories = all_trajectories(mdp)
    probabilities = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    ### BEGIN SOLUTION
    expected = (probabilities.detach() * objective).sum()
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)
    ### END SOLUTION


# %% id="test-expected-meta-objective" kind="tests" points=6
# A bandit in disguise: one state matters, the first action pays 1 (a = 0) or 0 (a = 1), and what follows pays nothing.
_mdp = MDP(
    np.array([[1.0, 0.0], [0.0, 0.0]]),
    np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]),
    np.array([1.0, 0.0]),
)
_theta = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
_score = lambda log_probs, advantages, mask: (log_probs * advantages * mask).sum(-1)  # noqa: E731
_value = expected_meta_objective(_theta, _mdp, _score, 4.0, True)
# J = π(0) = 1/2, its gradient (1/4, -1/4); a step of size 4 gives logits (1, -1), and π(0) = 1/(1 + e^-2).
check("expected_meta_objective of the bandit, step size 4", _value, torch.tensor(0.880797, dtype=torch.float64), {
    "the step goes downhill: a surrogate is maximised.": 0.119203,
    "no step was made.": 0.5,
    "the probabilities were differentiated too; detach them.": 0.6487856,
    "all trajectories were weighted alike; weight them by their probability.": 0.999999,
})  # fmt: skip
_slope = torch.autograd.grad(_value, _theta)[0]
check("its gradient, first order", _slope, torch.tensor([[0.104994, -0.104994], [0, 0]], dtype=torch.float64), tolerance=1e-5,
      hint="With first_order=True the inner gradient is a constant.")  # fmt: skip
### BEGIN HIDDEN TESTS
_rng = np.random.default_rng(12)
_surrogates = {
    "the score function": lambda log_probs, advantages, mask: (log_probs * advantages * mask).sum(-1),
    "a surrogate with another curvature": lambda log_probs, advantages, mask: (
        (log_probs + 0.5 * (log_probs - log_probs.detach()) ** 2) * advantages * mask
    ).sum(-1),
}
for _ in range(3):
    _mdp = MDP(_rng.normal(size=(2, 2)), _rng.dirichlet(np.ones(2), (2, 2)), _rng.dirichlet(np.ones(2)))
    _theta = torch.tensor(0.75 * _rng.normal(size=(2, 2)), requires_grad=True)
    for _name, _surrogate in _surrogates.items():
        for _order in (False, True):
            _value = expected_meta_objective(_theta, _mdp, _surrogate, 0.8, _order)
            emit(f"expected_meta_objective with {_name}: the return after the step", _value,
                 "Weight the trajectories with detached probabilities, and step uphill.")  # fmt: skip
            emit(
                f"expected_meta_objective with {_name}: the gradient, first_order={_order}",
                torch.autograd.grad(_value, _theta)[0],
                "First order treats the inner gradient as a constant, second order keeps its graph; the probabilities are "
                "not differentiated.",
            )
    emit("expected_meta_objective: the parameters handed in", _theta, "They were changed in place.")
### END HIDDEN TESTS

# %% [markdown] id="bias-intro"
# The relative error of the meta-gradient, $\lVert g - \nabla F\rVert / \lVert\nabla F\rVert$, over many random processes and policies, for three step sizes.

# %% id="bias"
from metapcg.tasks.enumeration import random_logits, random_mdp


def true_meta_gradient(theta: Tensor, mdp: MDP, inner_lr: float) -> Tensor:
    """The gradient of equation (5), from J alone: no surrogate in it."""
    (gradient,) = torch.autograd.grad(expected_return(theta, mdp), theta, create_graph=True)
    return torch.autograd.grad(expected_return(theta + inner_lr * gradient, mdp), theta)[0]


METHODS = {
    "FOMAML": (SURROGATES["naive"], True),
    **{name: (surrogate, False) for name, surrogate in SURROGATES.items()},
}
alphas, num_mdps = (0.1, 0.5, 1.0), by_profile(smoke=10, quick=100, full=300)
errors = {(name, alpha): [] for name in METHODS for alpha in alphas}
rng = np.random.default_rng(0)
for _ in range(num_mdps):
    mdp = random_mdp(rng)
    logits = random_logits(rng, mdp)
    for alpha in alphas:
        truth = true_meta_gradient(logits, mdp, alpha)
        for name, (surrogate, first_order) in METHODS.items():
            got = torch.autograd.grad(expected_meta_objective(logits, mdp, surrogate, alpha, first_order), logits)[0]
            errors[name, alpha].append(float((got - truth).norm() / truth.norm()))

rows = [
    {"method": name, **{f"alpha={alpha}": f"{np.median(errors[name, alpha]):.4f}" for alpha in alphas}}
    for name in METHODS
]
save_table(rows, "meta_gradient_error")
print(f"median relative error of the meta-gradient over {num_mdps} random processes")
for row in rows:
    print("  ".join(f"{value:>10}" for value in row.values()))
worse = np.mean([n > f for n, f in zip(errors["naive", 0.5], errors["FOMAML", 0.5], strict=True)])
print(f"naive second order is worse than first order in {100 * worse:.0f} % of them (alpha = 0.5)")

# %% id="bias-figure"
fig, ax = plt.subplots(figsize=(7, 3.2))
for name in ("FOMAML", "naive", "LVC"):
    medians = [np.median(errors[name, alpha]) for alpha in alphas]
    low, high = (np.array([np.quantile(errors[name, alpha], q) for alpha in alphas]) for q in (0.25, 0.75))
    ax.errorbar(
        alphas, medians, [medians - low, high - medians], marker="o", capsize=3, color=COLOURS[name], label=name
    )
ax.plot(alphas, [np.median(errors["DiCE", alpha]) for alpha in alphas], "s-", color=COLOURS["DiCE"], label="DiCE")
ax.set(
    xlabel="inner step size $\\alpha$",
    ylabel="relative error",
    title="Error of the meta-gradient: median and quartiles",
)
ax.legend(frameon=False)
fig.tight_layout()
save_figure(fig, "maml_meta_gradient_error")
plt.show()

# %% [markdown] id="bias-reading"
# The error grows in proportion to $\alpha$, as equation (5) says it must: what is wrong is the factor of $\alpha$. DiCE is exact. LVC, which lacks the cross terms $H_{12}$, is several
# times better than FOMAML, which lacks the Hessian altogether. And the naive surrogate is *worse* than leaving the Hessian out: it pays for second derivatives and
# gets the wrong ones. If someone reports that first-order and second-order MAML do equally well in reinforcement learning, ask which surrogate they differentiated twice.
#
# This is bias only. With sampled episodes DiCE's boxes multiply many ratios and its meta-gradient is noisier than LVC's; which of them wins on real tasks is a question for
# the experiments below.

# %% [markdown] id="q-naive" kind="question" points=4
# ### Question 1 (4 points)
#
# The table was made with the plain reward-to-go. Suppose an **exact value baseline** is subtracted, $A(s,a) = Q(s,a) - V(s)$, and the policy is a softmax whose logits are
# linear in $\theta$.
#
# (a) Show in one line that the naive surrogate's expected Hessian, $\mathbb E[\nabla^2\log\pi(a|s)\,A]$, is then zero.
# (b) What follows for naive second-order MAML, compared with FOMAML?
# (c) Why does this not rescue the naive surrogate when the policy is a deep network?
#
# ### BEGIN SOLUTION
# (a) With linear logits, $\nabla^2\log\pi(a|s) = -\operatorname{Cov}_{a'\sim\pi}[\nabla z_{a'}]$ (minus the covariance of the logits' gradients) depends on $s$ only, not on $a$. Hence
# $\mathbb E_a[\nabla^2\log\pi(a|s)\,A(s,a)] = \nabla^2\log\pi(\cdot|s)\;\mathbb E_a[A(s,a)] = 0$, since the advantages under the exact $V$ average to zero in every state.
#
# (b) In equation (2) its Hessian vanishes in expectation, so with exact expectations naive second-order MAML *is* FOMAML (and nearly so with sampled episodes), at a higher price and with more variance. That is why many code bases see no gap
# between the two.
#
# (c) With a deep network $\nabla^2\log\pi(a|s) = \sum_{a'} (\mathbb 1[a'=a] - \pi(a'|s))\,\nabla^2 z_{a'} - \operatorname{Cov}[\nabla z]$, whose first part does depend on $a$. The expectation is then not zero, but
# neither is it the Hessian of $J$: $H_1$ and $H_{12}$ are missing, and they are the larger part. The identity above holds approximately at best.
# ### END SOLUTION

# %% [markdown] id="navigation"
# ## 7 · A known answer: 2-D navigation
#
# Before trusting a meta-learner on a new problem, see it solve one whose answer is known. A point starts at the origin and is paid minus its distance to a goal that it does not see; the goal *is*
# the task. Finn et al. (2017) released their numbers for forty test goals, so we can compare, step by step. The protocol is theirs: 100 steps, two hidden layers of 100, $\alpha = 0.5$ for
# the first step and $0.25$ after it, 40 trajectories per step at test. Standing still earns $-40.1$, the best possible is $-0.5$.
#
# Their outer step was a trust region. Here it is a clipped objective with Adam (`benchmarks/navigation_outer_steps.py` tries several). **The `quick` profile trains
# on a small part of the episodes of `full`**, so expect it to be on the way, not at the goal.

# %% id="navigation-run"
from metapcg.experiments.functions import FunctionSet
from metapcg.experiments.navigation import BUDGETS, PUBLISHED, run_navigation

functions = FunctionSet(globals(), notebook_0)
started = time.perf_counter()
curves, history = run_navigation(functions, SURROGATES["LVC"], BUDGETS[current_profile()], seed=0, device=device)
print(f"trained and evaluated in {time.perf_counter() - started:.0f} s, profile {current_profile()}")


def interval(returns: np.ndarray) -> np.ndarray:
    """Half-width of the 95 % interval of the mean over goals."""
    return 1.96 * returns.std(0, ddof=1) / np.sqrt(len(returns))


rows = []
for name, returns in curves.items():
    for step, (mean, half) in enumerate(zip(returns.mean(0), interval(returns), strict=True)):
        published = PUBLISHED[name][step] if step < len(PUBLISHED[name]) else ""
        rows.append(
            {
                "method": name,
                "step": step,
                "return": round(float(mean), 2),
                "interval": round(float(half), 2),
                "published": published,
            }
        )
save_table(rows, "navigation")
print(f"{'method':<12}" + "".join(f"{'step ' + str(k):>18}" for k in range(5)) + "   (published)")
for name, returns in curves.items():
    cells = [f"{m:8.2f} ({p:6.2f})" for m, p in zip(returns.mean(0), PUBLISHED[name], strict=False)]
    print(f"{name:<12}" + "".join(f"{cell:>18}" for cell in cells))

# %% id="navigation-figure"
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(2, 1.2))
method_colours = {"MAML": "#2a7f9e", "pretrained": "#e0a030", "random init": "#8d6cab"}
for name, colour in method_colours.items():
    mean = curves[name].mean(0)
    axes[0].errorbar(range(5), mean, interval(curves[name]), marker="o", capsize=3, color=colour, label=f"{name}, here")
    axes[0].plot(range(5), PUBLISHED[name], linestyle=":", marker="x", color=colour, label=f"{name}, published")
axes[0].axhline(curves["oracle"].mean(), color="#333333", linewidth=1)
axes[0].text(-0.15, curves["oracle"].mean() - 1, "oracle, here", va="top", fontsize=9)
axes[0].set(xlabel="adaptation step", ylabel="return", title="Forty test goals", xticks=range(5))
axes[0].legend(frameon=False, fontsize=8, loc="lower right")
axes[1].plot(
    [row["iteration"] for row in history],
    [row["return_before"] for row in history],
    color="#bbbbbb",
    label="before adaptation",
)
axes[1].plot(
    [row["iteration"] for row in history],
    [row["return_after"] for row in history],
    color="#2a7f9e",
    label="after one step",
)
axes[1].set(xlabel="meta-iteration", title="Meta-training", ylim=(-100, 0))
axes[1].legend(frameon=False, fontsize=8, loc="lower right")
fig.tight_layout()
save_figure(fig, "maml_navigation")
plt.show()

# %% [markdown] id="navigation-reading"
# Left, every curve is labelled by adaptation step: step 0 is *before* adaptation, and there MAML is no better than standing still, because one policy cannot go to all goals at once. Its first step makes
# most of the way, the second comes closer still. A random initialisation is far behind. That is the point of MAML: **no better before, far better after**. Right, while it trains, the curve before adaptation
# stays at the level of standing still and only the one after adaptation rises. If both rose together, the tasks could be solved without adapting and would teach us nothing.
#
# Two things are less clear-cut than the slogan.
#
# * **Pretraining** also stays near the middle, the best compromise, and steps from there. The published curve uses MAML's step size; here pretraining gets the best one of a grid, chosen on training goals, and after long
#   training (`full`) it is not far behind MAML after two steps and level with it after four. A baseline that is tuned with less care than the method proves little.
# * **What keeps MAML from the published return** is the noise of its own actions. It has to shrink, but the inner gradient contains $(a-\mu)/\sigma^2$: every decrease of $\sigma$ makes the same $\alpha$ a larger step, and the
#   network has to follow. So it shrinks slowly, and `quick` stops early.

# %% [markdown] id="levels"
# ## 8 · Game levels
#
# Now the real thing. A task of the `direction` family is a hidden direction $w = (\cos\varphi, \sin\varphi)$: the level designer edits a binary level (walls and floor), one cell after the other, and is
# paid $w \cdot \Delta$, where $\Delta$ is the change of (number of regions, length of the longest path), brought to one scale. One $\varphi$ wants many small caves, another one long
# corridor, a third everything filled in. The agent sees a window of 5 × 5 tiles and nothing of $\varphi$.
#
# What is measured, on directions that were never trained on: MAML and FOMAML; a **random** policy; adaptation from a **random initialisation**; adaptation from **pretraining** on all tasks at
# once; and an **oracle**, trained with $w$ as an input. Methods without a meta-trained step size get the best one of a grid, chosen on training tasks. An adaptation step sees
# five episodes of the new task.
#
# Each run lies in a folder of its own (`runs/` beside the figures). A second execution of this notebook with the same functions reads them instead of training again; change your
# `adapt`, and they are made anew.

# %% id="levels-run"
from metapcg.experiments.results import split_table
from metapcg.experiments.runs import execute_run, run_folder, settings_for

seeds = by_profile(smoke=(0,), quick=(0,), full=(0, 1, 2))
variants = [
    ("maml", "lvc"),
    ("fomaml", "lvc"),
    ("pretrained", "lvc"),
    ("random-init", "lvc"),
    ("oracle", "lvc"),
    ("random", "lvc"),
]
variants += by_profile(smoke=[], quick=[], full=[("maml", "naive"), ("maml", "dice")])
runs = []
for algorithm, surrogate in variants:
    for seed in seeds:
        settings = settings_for(current_profile(), algorithm, surrogate=surrogate, seed=seed)
        started = time.perf_counter()
        runs.append(execute_run(settings, functions, run_folder(settings, functions), device))
        print(f"{runs[-1].label:<14} seed {seed}: {time.perf_counter() - started:5.1f} s", flush=True)

# %% id="levels-curves"
from metapcg.experiments.figures import adaptation_curves, level_gallery, return_by_direction, share_bars

fig = adaptation_curves(runs)
save_figure(fig, "maml_levels_adaptation")
fig

# %% [markdown] id="levels-curves-reading"
# Step 0 is the policy before it has seen anything of its task. Every method that is not told its task starts at about 0 there, and *has to*: see question 2. After one step, five episodes, MAML is near the oracle that was told
# the task. A random initialisation adapts too, since a gradient step is worth something from anywhere, but it gets less out of the same episodes and stays behind. Pretraining on all tasks is the *worst* start:
# averaged over all directions there is nothing to be learned, and what it learned instead is hard to undo.

# %% id="levels-splits"
table = split_table(runs)
print(f"{'method':<14}{'split':<26}{'return':>8}  {'95 % interval':<18}{'share of oracle':>16}  equals random?")
for row in table:
    if row["return"] == "":
        continue
    share = f"{100 * row['share']:.0f} %" if row["share"] != "" else "–"
    print(
        f"{row['method']:<14}{row['split']:<26}{row['return']:8.2f}  [{row['low']:6.2f}, {row['high']:6.2f}]  {share:>14}  {row['equals_random']}"
    )
fig = share_bars(runs)
save_figure(fig, "maml_levels_splits")
fig

# %% [markdown] id="levels-splits-reading"
# *Interpolation* are new directions inside the trained range, *extrapolation* a held-out arc and its antipode, *held-out representation* the same kind of tasks with another way of editing (turtle: the agent walks
# over the level), *held-out game* zelda levels with zelda's statistics.
#
# * **Interpolation** is as good as training: what was learned is how to adapt, not a list of tasks.
# * **Extrapolation** is worth much less in raw return, for the oracle too: more regions *and* longer paths contradict each other, so there is less to be had. The oracle is no ceiling there. It was told directions that
#   it never met, and guesses; whoever adapts at least tries them out.
# * **Held-out representation**: hardly anything is left, for anybody. Knowing which tile to write where one stands does not tell one where to walk, and a random initialisation adapts about as well. The oracle
#   is again no ceiling.
# * **Held-out game**: adaptation earns about the same from any start. Those tasks pay for adding or removing things, and one step finds out which.
#
# So meta-training pays where the test tasks are like the training tasks, and the table says how far that reaches.
#
# And **second order** bought nothing here: FOMAML is as good as MAML on levels, and under `full` all three surrogates are alike, within their intervals. The enumerated errors of section 6 are real, but with normalised
# advantages and a policy that adapts by a few large, consistent components, all of these directions point the same way. Exactness is worth checking, and then worth paying for only where it changes the result.

# %% id="levels-direction"
fig = return_by_direction([run for run in runs if run.settings.algorithm in ("maml", "random-init")])
save_figure(fig, "maml_levels_direction")
fig

# %% [markdown] id="levels-direction-reading"
# The return over the hidden direction. Before adaptation (crosses) a policy that is good for $\varphi$ is bad for $\varphi + 180°$: the curve averages to zero, whatever its shape. After adaptation it is clearly positive in
# the trained range. Some directions pay more than others, their statistics are easier to move; the shaded, held-out ones pay least.

# %% id="levels-gallery"
maml_run = next(run for run in runs if run.settings.algorithm == "maml")
fig = level_gallery(maml_run)
save_figure(fig, "maml_levels_gallery")
fig

# %% [markdown] id="levels-gallery-reading"
# Each column is one task: the level it started from, the level after one episode of the unadapted policy, and after one of the adapted policy, from the same start and with the same random numbers.
# Look for what the direction asks for: where regions are paid, the adapted policy cuts caves off, cell by cell; where they cost and long paths pay, it opens walls until everything hangs together. Before adaptation
# the edits look alike in all columns, because the policy does not know which task it is in.

# %% [markdown] id="q-zero" kind="question" points=4
# ### Question 2 (4 points)
#
# (a) Prove in one line that on the `direction` family, over a set of tasks that contains $-w$ with every $w$, **every** policy that does not adapt earns exactly 0 on average, before any training and after.
# (b) We hold out an arc of directions *and its antipode*. What would happen to the claim in (a), and to our baselines, if only the arc were held out?
# (c) The `weights` family varies positive weights by ± 20 %. Why does (a) not apply to it, and what would you expect the adaptation curves to look like?
#
# ### BEGIN SOLUTION
# (a) The policy does not know $w$, so the distribution of $\Delta$ does not depend on it, and the return is linear: the average is $\tfrac1M\sum_w w\cdot\mathbb E[\Delta] = \big(\tfrac1M\sum_w w\big)\cdot\mathbb E[\Delta] = 0\cdot\mathbb E[\Delta] = 0$.
#
# (b) The training set would no longer be symmetric: $\bar w = \tfrac1M\sum w \ne 0$ points away from the held-out arc, and a policy that never adapts could earn up to $\bar w\cdot\mathbb E[\Delta] > 0$ by always pushing in that direction. "Before adaptation" would no
# longer be a clean zero, pretraining would look useful, and part of MAML's return would be this constant bias instead of adaptation.
#
# (c) There all weights are positive, so $\bar w \ne 0$ and is close to every single $w$: a policy that is good for $\bar w$ is good for all tasks. The curves before adaptation start high, adaptation adds little or nothing, and MAML has no lead over pretraining.
# A benchmark on which one policy does well everywhere cannot show that anybody learned to adapt.
# ### END SOLUTION

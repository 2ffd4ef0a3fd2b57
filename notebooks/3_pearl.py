# %% [markdown] id="intro"
# # Notebook 3 · PEARL: infer the task, then act as if you knew it
#
# MAML adapts its parameters, RL² its memory. PEARL (Rakelly et al. 2019) splits the job in two. An **encoder** looks at
# what the agent has lived through and states a belief: a Gaussian over a latent vector $z$ that stands for the task. An
# ordinary off-policy agent is then told $z$. To adapt is to update the belief. When you are done you will be able to
#
# 1. turn transitions into evidence, and any number of pieces of evidence into one belief, in any order;
# 2. train that belief with a variational bound: a sample that gradients pass through, and a KL term with a price;
# 3. write soft actor-critic for discrete actions: target, loss of the actor, slow target networks;
# 4. train all of it from replay, and let it adapt to tasks it has never seen from transitions it collects itself;
# 5. ask a latent space what it knows, and say why it knows no more than that.
#
# **Before you start**: notebook 0, section 2 (terminated and truncated). **Time**: three hours of work. The finished
# notebook runs in about two minutes on two CPU cores.
#
# **How it works.** As before: TODOs of one to six lines, a test on an example worked by hand after each, hidden tests
# when it is graded. Each test calls only the function it is about, so you can do the exercises in any order; from
# section 8 on they are used together.
#
# | exercise | function | points |
# |---|---|---|
# | 1 | `transition_inputs` | 4 |
# | 2 | `gaussian_product` | 6 |
# | 3 | `kl_to_prior` | 4 |
# | 4 | `choose_latent` | 4 |
# | 5 | `soft_target` | 7 |
# | 6 | `actor_loss` | 5 |
# | 7 | `soft_update` | 3 |
# | – | question: who may train the encoder, and on what | 3 |
# | – | question: what the latent does not know | 4 |
# | | **total** | **40** |
#
# **Letters.** $Z$ is the length of $z$, $A$ the number of actions, $F$ that of an observation's features, $N$ the
# number of transitions in a context. Leading axes (`...`) may be any: tasks, episodes, draws.

# %% id="imports"
import torch
from torch import Tensor

Params = dict[str, Tensor]

# %% id="setup"
# isort: split
import time

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display

from metapcg.experiments.intervals import difference_interval, mean_interval
from metapcg.experiments.outputs import save_figure, save_table
from metapcg.experiments.profiles import by_profile, current_profile
from metapcg.learning.checks import check, emit
from metapcg.learning.device import configure

device = configure(threads=1)  # the tensors of this notebook are small: a second thread would only wait
COLOURS = {"PEARL": "#2a7f9e", "prior": "#c8553d", "told": "#333333", "random": "#888888", "factor": "#e0a030"}


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

# %% [markdown] id="transitions"
# ## 1 · A piece of evidence
#
# The task is hidden. What betrays it are its rewards and its dynamics, so a piece of evidence is a whole transition:
# what was seen, what was done, what that paid, and *what came of it*,
#
# $$ c_n = (s_n,\, a_n,\, r_n,\, s'_n). \tag{1} $$
#
# An encoder that does not see $s'$ cannot tell two tasks apart that differ in what actions *do*; one that does not see
# $r$ cannot tell ours apart at all. The encoder is a network, so $c_n$ has to become a flat vector: observations come
# as $F$ numbers (tiles, one-hot), actions as one-hot vectors of length $A$, the reward is one number.
#
# **Worked by hand**, $F = 2$, $A = 3$:
#
# | $s$ | $a$ | $r$ | $s'$ | vector |
# |---|---|---|---|---|
# | 1, 0 | third: 0, 0, 1 | 0.5 | 0, 1 | 1, 0, 0, 0, 1, 0.5, 0, 1 |
# | 0, 1 | first: 1, 0, 0 | −1 | 0, 1 | 0, 1, 1, 0, 0, −1, 0, 1 |


# %% id="transition-inputs" kind="solution"
def transition_inputs(states: Tensor, actions: Tensor, rewards: Tensor, next_states: Tensor) -> Tensor:
    """What the encoder sees of each transition, equation (1).

    Args:
        states, next_states: (..., F).
        actions: (..., A), one-hot.
        rewards: (...), one number per transition.

    Returns:
        (..., F + A + 1 + F): s, a, r, s' of each transition, in this order.

    TODO (1-2 lines).
    """
    ### BEGIN SOLUTION
    return torch.cat([states, actions, rewards.unsqueeze(-1), next_states], dim=-1)
    ### END SOLUTION


# %% id="test-transition-inputs" kind="tests" points=4
_s, _next = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]])
_a, _r = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), torch.tensor([0.5, -1.0])
_got = transition_inputs(_s, _a, _r, _next)
if isinstance(_got, Tensor) and _got.shape != (2, 8):
    _missing = {
        (2, 6): "8 numbers per transition are asked for, here are 6: the encoder must see s' (what came of it).",
        (2, 7): "8 numbers per transition are asked for, here are 7: the reward is missing.",
        (4, 4): "the parts were put below each other; join them along the last axis.",
    }
    assert tuple(_got.shape) not in _missing, f"transition_inputs: {_missing[tuple(_got.shape)]}"
check(
    "transition_inputs on the worked example",
    _got,
    [[1.0, 0, 0, 0, 1, 0.5, 0, 1], [0, 1, 1, 0, 0, -1, 0, 1]],
    {
        "s stands where s' belongs: the encoder does not see what came of the action.": [
            [1.0, 0, 0, 0, 1, 0.5, 1, 0],
            [0, 1, 1, 0, 0, -1, 0, 1],
        ],
        "s' stands where s belongs.": [[0.0, 1, 0, 0, 1, 0.5, 0, 1], [0, 1, 1, 0, 0, -1, 0, 1]],
        "s and s' are exchanged.": [[0.0, 1, 0, 0, 1, 0.5, 1, 0], [0, 1, 1, 0, 0, -1, 0, 1]],
        "all is there, in another order: s, a, r, s' is asked for (the given encoder relies on it).": [
            [1.0, 0, 0, 0, 1, 0, 1, 0.5],
            [0, 1, 1, 0, 0, 0, 1, -1],
        ],
        "all is there, in another order: a comes before r.": [
            [1.0, 0, 0.5, 0, 0, 1, 0, 1],
            [0, 1, -1, 1, 0, 0, 0, 1],
        ],
    },
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(1)
for _lead in ((), (4,), (2, 3, 5)):
    _s, _a, _next = (torch.randn((*_lead, n), generator=_draw, dtype=torch.float64) for n in (7, 4, 7))
    _r = torch.randn(_lead, generator=_draw, dtype=torch.float64).requires_grad_()
    _got = transition_inputs(_s, _a, _r, _next)
    emit(
        f"transition_inputs with leading axes {_lead}, float64",
        _got,
        "Any leading axes, in this order: s, a, r, s', joined along the last one.",
    )
    emit("transition_inputs: whether the reward's graph is kept", _got.requires_grad, "Nothing may be detached here.")
    emit("transition_inputs: what was handed in, afterwards", [_s, _a, _r, _next], "The inputs were changed.")
### END HIDDEN TESTS

# %% [markdown] id="product"
# ## 2 · From pieces of evidence to a belief
#
# The encoder turns every transition into one Gaussian *factor* over $z$, $\mathcal N(\mu_n, \sigma_n^2)$ in each of the
# $Z$ coordinates: where $z$ might lie, and how sure this transition is about it. Most transitions say nothing (an edit
# that changed nothing was paid nothing); their factors should be very wide. The belief is the product of all factors
# and of the **prior** $p(z) = \mathcal N(0, 1)$, which is what was believed before there was any evidence:
#
# $$ q(z \mid c_{1:N}) \;\propto\; p(z)\,\prod_{n=1}^N \mathcal N(z;\, \mu_n, \sigma_n^2). \tag{2} $$
#
# A product of Gaussians is a Gaussian again, and it is easiest in *precisions* $\lambda = 1/\sigma^2$: precisions add
# up, and the mean is the average of the factors' means, each weighted with its precision,
#
# $$ \lambda = 1 + \sum_n \lambda_n, \qquad \mu = \frac{1\cdot 0 + \sum_n \lambda_n \mu_n}{\lambda}, \qquad
#    \sigma^2 = \frac1\lambda. \tag{3} $$
#
# The 1 and the 0 are the prior's precision and mean. Rakelly et al. leave the prior out of the product; with it, a
# belief from no transition at all *is* the prior, and one from a single transition is not overconfident. Your function
# can do both: `prior=True` or `False`. Sums do not ask in which order the transitions came: the encoder is **permutation-invariant**.
#
# Contexts differ in length, tensors are rectangular: a `mask` says which of the $N$ are transitions and which are only
# padding.
#
# **Worked by hand**, $Z = 1$, $N = 2$, with the prior:
#
# | factors | mask | $\lambda$ | $\mu$ | $\sigma^2$ | without the prior |
# |---|---|---|---|---|---|
# | $\mathcal N(2, 0.5)$, $\mathcal N(-1, 1)$ | 1, 1 | $1 + 2 + 1 = 4$ | $(2\cdot 2 - 1\cdot 1)/4 = 0.75$ | $0.25$ | $\mu = 1$, $\sigma^2 = 1/3$ |
# | $\mathcal N(2, 0.5)$, $\mathcal N(9, 1)$ | 1, 0 | $1 + 2 = 3$ | $2 \cdot 2/3 = 1.333$ | $0.333$ | $\mu = 2$, $\sigma^2 = 0.5$ |


# %% id="gaussian-product" kind="solution"
def gaussian_product(means: Tensor, variances: Tensor, mask: Tensor, prior: bool = True) -> tuple[Tensor, Tensor]:
    """The product of Gaussian factors, equation (3).

    Args:
        means, variances: (..., N, Z), of the factors; variances are positive.
        mask: (..., N), 1.0 for a transition, 0.0 for padding.
        prior: whether N(0, 1) is one of the factors. Without it at least one transition is needed.

    Returns:
        mean and variance of the product, each (..., Z). With the prior and no transition: 0 and 1.

    TODO (3-5 lines): the factors' precisions (0 for padding), their sum, the weighted mean.
    """
    ### BEGIN SOLUTION
    precisions = mask.unsqueeze(-1) / variances
    precision = precisions.sum(dim=-2) + (1.0 if prior else 0.0)
    mean = (precisions * means).sum(dim=-2) / precision
    return mean, 1.0 / precision
    ### END SOLUTION


# %% id="test-gaussian-product" kind="tests" points=6
_means = torch.tensor([[[2.0], [-1.0]], [[2.0], [9.0]]])
_variances = torch.tensor([[[0.5], [1.0]], [[0.5], [1.0]]])
_mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
_got = gaussian_product(_means, _variances, _mask)
assert isinstance(_got, tuple) and len(_got) == 2, (
    f"gaussian_product: mean and variance are asked for, got {type(_got).__name__}. Is the `return` missing?"
)
check(
    "gaussian_product on the worked example, mean",
    _got[0],
    [[0.75], [4 / 3]],
    {
        "the prior is left out: it is one more factor, with mean 0 and precision 1.": [[1.0], [2.0]],
        "all means count alike; weight each with its precision.": [[0.5], [2.0]],
        "all means count alike, padding too; weight each with its precision, padding with 0.": [[0.5], [5.5]],
        "the weights are the variances; a wide factor must count *less*, so weight with 1 / variance.": [
            [0.0],
            [2 / 3],
        ],
        "the mask is not used: the padding's mean 9 counts.": [[0.75], [3.25]],
        "the variances are squared once more; they are variances already, not standard deviations.": [
            [7 / 6],
            [8 / 5],
        ],
        "the prior is counted once per transition; it is one factor for all of them.": [[0.6], [1.0]],
        "this is the weighted sum; divide it by the sum of the precisions.": [[3.0], [4.0]],
        "this is the last factor's mean.": [[-1.0], [9.0]],
    },
)
check(
    "gaussian_product on the worked example, variance",
    _got[1],
    [[0.25], [1 / 3]],
    {
        "this is the precision; the variance is 1 / precision.": [[4.0], [3.0]],
        "this is the standard deviation.": [[0.5], [3**-0.5]],
        "the prior is left out of the precision.": [[1 / 3], [0.5]],
        "the mask is not used for the variance.": [[0.25], [0.25]],
        "variances were averaged. Evidence makes a belief narrower: precisions add up.": [[0.75], [0.75]],
        "variances were added up. Evidence makes a belief narrower: precisions add up.": [[1.5], [0.5]],
        "precisions were averaged; they add up. More evidence has to give a narrower belief.": [[2 / 3], [0.5]],
    },
)
_got = gaussian_product(_means, _variances, _mask, prior=False)
check(
    "gaussian_product without the prior, mean",
    _got[0],
    [[1.0], [2.0]],
    {"with prior=False the prior must not be a factor.": [[0.75], [4 / 3]]},
)
check("gaussian_product without the prior, variance", _got[1], [[1 / 3], [0.5]])
_got = gaussian_product(_means, _variances, 0 * _mask)
check("gaussian_product of no transition at all: the prior's mean", _got[0], [[0.0], [0.0]])
check("gaussian_product of no transition at all: the prior's variance", _got[1], [[1.0], [1.0]])
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(2)
_means = torch.randn(3, 4, 6, 2, generator=_draw, dtype=torch.float64).requires_grad_()
_variances = (0.1 + 3 * torch.rand(3, 4, 6, 2, generator=_draw, dtype=torch.float64)).requires_grad_()
_mask = (torch.rand(3, 4, 6, generator=_draw) < 0.6).double()
_mask[..., 0] = 1.0
_weights = torch.randn(3, 4, 2, generator=_draw, dtype=torch.float64)
for _prior in (True, False):
    _got = gaussian_product(_means, _variances, _mask, _prior)
    emit(f"gaussian_product, shape (3, 4, 6, 2), prior={_prior}", _got, "Precisions add up; padding has precision 0.")
    emit(
        f"gaussian_product: its gradients, prior={_prior}",
        [
            torch.autograd.grad((part * _weights).sum(), (_means, _variances), retain_graph=True, allow_unused=True)
            for part in _got
        ],
        "The graph is cut; the encoder is trained through means and variances.",
    )
_one = (torch.tensor([[3.0]]), torch.tensor([[0.2]]), torch.tensor([1.0]))
emit("gaussian_product of a single transition", gaussian_product(*_one), "The prior is one more factor.")
emit("gaussian_product of a single transition, without the prior", gaussian_product(*_one, prior=False))
emit(
    "gaussian_product of no transition at all",
    gaussian_product(_means, _variances, 0 * _mask),
    "With the prior and nothing else it is the prior: mean 0, variance 1.",
)
_order = torch.randperm(6, generator=_draw)
emit(
    "gaussian_product of the same transitions in another order",
    gaussian_product(_means[:, :, _order], _variances[:, :, _order], _mask[:, :, _order]),
    "The order must not matter.",
)
emit(
    "gaussian_product with other numbers in the padding",
    gaussian_product(torch.where(_mask.unsqueeze(-1) > 0, _means, 1e6), _variances, _mask),
    "What stands in the padding must not matter.",
)
emit("gaussian_product: what was handed in, afterwards", [_means, _variances, _mask], "The inputs were changed.")
### END HIDDEN TESTS

# %% [markdown] id="belief-intro"
# A belief at work. The truth is $z = 1.5$. Every piece of evidence points to it, more or less exactly: one in five is
# sharp, the others are vague, as in a level in which most edits pay nothing.

# %% id="belief"
rng = np.random.default_rng(4)
truth, total = 1.5, 64
widths = np.where(rng.random(total) < 0.2, 0.7, 4.0)
pieces = torch.tensor(rng.normal(truth, widths), dtype=torch.float32)[:, None]
evidence = (pieces, torch.tensor(widths**2, dtype=torch.float32)[:, None])


def density(mean: float, variance: float) -> np.ndarray:
    """A normal density on the grid."""
    return np.exp(-0.5 * (grid - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


grid = np.linspace(-3.5, 4.5, 400)
fig, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True)
for ax, count in zip(axes, (0, 4, 16, 64), strict=True):
    for n in range(count):
        ax.plot(grid, density(float(pieces[n]), widths[n] ** 2), color=COLOURS["factor"], alpha=0.35, linewidth=0.8)
    belief = gaussian_product(*evidence, (torch.arange(total) < count).float())
    ax.plot(grid, density(*map(float, belief)), color=COLOURS["PEARL"], linewidth=2)
    ax.axvline(truth, color=COLOURS["told"], linestyle=":")
    ax.set(title=f"{count} transitions", xlabel="$z$", yticks=[])
axes[0].set_ylabel("density")
fig.tight_layout()
save_figure(fig, "pearl_belief")
plt.show()

# %% [markdown] id="belief-reading"
# Blue is the belief, orange are the factors, the dotted line is the truth. Vague factors hardly move the belief, the
# sharp ones pull it to them; it becomes narrower with every one, and it does not matter in which order they come. The
# encoder has to learn which transitions deserve a narrow factor. Nobody will tell it.

# %% [markdown] id="kl"
# ## 3 · What a belief costs
#
# The encoder is trained to make the belief *useful* (section 6), and to say no more than it must: the second term of a
# variational bound is the divergence of the belief from the prior,
#
# $$ \mathrm{KL}\big(q \,\|\, p\big) = \mathbb E_{z\sim q}\Big[\ln\frac{q(z)}{p(z)}\Big]
#    = \frac12 \sum_{i=1}^Z \big(\sigma_i^2 + \mu_i^2 - 1 - \ln\sigma_i^2\big), \tag{4} $$
#
# for $p = \mathcal N(0, 1)$ in every coordinate. The expectation is under $q$, the belief; exchange the two and you
# get another number. It is 0 only where the belief is the prior, and it keeps beliefs in the region from which the
# agent will draw its first $z$ when it knows nothing.
#
# **Worked by hand**, $Z = 2$:
#
# | $\mu$ | $\sigma^2$ | KL |
# |---|---|---|
# | 0, 1 | 1, 1 | $\tfrac12 (0 + 1) = 0.5$ |
# | 0, 0 | ¼, 1 | $\tfrac12 (\tfrac14 - 1 - \ln \tfrac14) = \tfrac12 (-0.75 + 1.386) = 0.318$ |


# %% id="kl-to-prior" kind="solution"
def kl_to_prior(mean: Tensor, variance: Tensor) -> Tensor:
    """Divergence of a diagonal Gaussian from the standard normal, in nats, equation (4).

    Args:
        mean, variance: (..., Z).

    Returns:
        (...): KL(N(mean, variance) || N(0, 1)), summed over the coordinates.

    TODO (1 line).
    """
    ### BEGIN SOLUTION
    return 0.5 * (variance + mean**2 - 1.0 - torch.log(variance)).sum(dim=-1)
    ### END SOLUTION


# %% id="test-kl-to-prior" kind="tests" points=4
_mean, _variance = torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([[1.0, 1.0], [0.25, 1.0]])
check(
    "kl_to_prior on the worked example",
    kl_to_prior(_mean, _variance),
    [0.5, 0.3181472],
    {
        "the wrong direction: this is KL(prior || belief). The expectation is under the belief.": [0.5, 0.8068528],
        "averaged over the coordinates; sum over them.": [0.25, 0.1590736],
        "the factor 1/2 is missing.": [1.0, 0.6362944],
        "the factor 1/2 belongs to the logarithm too: ln sigma² = 2 ln sigma.": [0.5, 1.0112944],
        "the variance was squared; it is a variance already, not a standard deviation.": [0.5, 0.9175444],
        "the mean is missing.": [0.0, 0.3181472],
        "the sign is wrong; a divergence is never negative.": [-0.5, -0.3181472],
        "the logarithm is missing.": [0.5, -0.375],
        "the sign of the logarithm is wrong.": [0.5, -1.0681472],
    },
)
check("kl_to_prior of the prior itself", kl_to_prior(torch.zeros(1, 3), torch.ones(1, 3)), [0.0])
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(3)
for _shape in ((4, 5, 3), (2, 1), (7,)):
    _mean = torch.randn(_shape, generator=_draw, dtype=torch.float64).requires_grad_()
    _variance = (0.05 + 2 * torch.rand(_shape, generator=_draw, dtype=torch.float64)).requires_grad_()
    _got = kl_to_prior(_mean, _variance)
    emit(f"kl_to_prior, shape {_shape}, float64", _got, "Sum over the last axis, keep all others.")
    emit(
        "kl_to_prior: its gradients with respect to mean and variance",
        torch.autograd.grad(_got.sum(), (_mean, _variance), allow_unused=True),
        "The encoder is trained through it: nothing may be detached.",
    )
    emit("kl_to_prior: what was handed in, afterwards", [_mean, _variance], "The inputs were changed.")
emit("kl_to_prior of a very sharp belief", kl_to_prior(torch.tensor([[2.0]]), torch.tensor([[1e-12]])))
### END HIDDEN TESTS

# %% [markdown] id="latent"
# ## 4 · One $z$ to act on
#
# While collecting and training, $z$ is **drawn** from the belief, so that the agent tries out what it cannot rule out,
# and the critics are asked about all of it. Gradients have to pass through the draw to the encoder. The trick is to
# draw the noise elsewhere and write $z$ as a function of the belief (*reparameterisation*):
#
# $$ z = \mu + \sigma\,\varepsilon, \qquad \varepsilon \sim \mathcal N(0, 1). \tag{5} $$
#
# At test, once there is evidence, the best guess is asked for: $z = \mu$. The function is told which by what it gets
# as `noise`.
#
# **Worked by hand**: $\mu = (1, -1)$, $\sigma^2 = (4, \tfrac14)$. With $\varepsilon = (1, -2)$:
# $z = (1 + 2\cdot 1,\; -1 - \tfrac12\cdot 2) = (3, -2)$. With no noise: $(1, -1)$.


# %% id="choose-latent" kind="solution"
def choose_latent(mean: Tensor, variance: Tensor, noise: Tensor | None) -> Tensor:
    """The latent to act on: a reparameterised draw, equation (5), or the mean.

    Args:
        mean, variance: (..., Z).
        noise: standard normal numbers, (..., Z) or what broadcasts with it; None at test.

    Returns:
        (..., Z), connected to mean and variance in autograd's graph.

    TODO (2-3 lines).
    """
    ### BEGIN SOLUTION
    if noise is None:
        return mean
    return mean + torch.sqrt(variance) * noise
    ### END SOLUTION


# %% id="test-choose-latent" kind="tests" points=4
_mean = torch.tensor([1.0, -1.0], requires_grad=True)
_variance = torch.tensor([4.0, 0.25], requires_grad=True)
_noise = torch.tensor([1.0, -2.0])
_got = choose_latent(_mean, _variance, _noise)
check(
    "choose_latent on the worked example",
    _got,
    torch.tensor([3.0, -2.0]),
    {
        "the noise is scaled with the variance; scale it with the standard deviation.": [5.0, -1.5],
        "the noise is ignored: with noise a draw is asked for.": [1.0, -1.0],
        "the mean is missing.": [2.0, -1.0],
        "the noise is divided by the standard deviation.": [1.5, -5.0],
        "the noise is not scaled: multiply it by the standard deviation.": [2.0, -3.0],
    },
    hint="If the number changes from call to call, the function draws noise of its own; use the given one.",
)
assert _got.requires_grad, "choose_latent: the graph is cut; the encoder is trained through the draw."
_slopes = torch.autograd.grad(_got.sum(), (_mean, _variance), allow_unused=True)
assert _slopes[0] is not None, "choose_latent: no gradient reaches the mean."
assert _slopes[1] is not None, (
    "choose_latent: no gradient reaches the variance, so the encoder cannot learn how sure it is."
)
check("choose_latent: gradient of z with respect to the variance", _slopes[1], torch.tensor([0.25, -2.0]))
check(
    "choose_latent without noise",
    choose_latent(_mean, _variance, None),
    torch.tensor([1.0, -1.0]),
    {"at test, without noise, the mean is asked for.": [3.0, -2.0]},
    hint="At test, without noise, the mean is asked for, the same one every time.",
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(4)
_mean = torch.randn(3, 1, 2, generator=_draw, dtype=torch.float64).requires_grad_()
_variance = (0.1 + torch.rand(3, 1, 2, generator=_draw, dtype=torch.float64)).requires_grad_()
_noise = torch.randn(3, 50, 2, generator=_draw, dtype=torch.float64)
_got = choose_latent(_mean, _variance, _noise)
emit("choose_latent, 50 draws per task", _got, "One belief per task, many draws of noise: let them broadcast.")
emit("choose_latent with the same noise again", choose_latent(_mean, _variance, _noise), "Draw no noise of your own.")
emit("choose_latent, zero noise", choose_latent(_mean, _variance, 0 * _noise), "Zero noise is still noise: a draw.")
_weights = torch.randn(3, 50, 2, generator=_draw, dtype=torch.float64)
emit(
    "choose_latent: gradients of a draw with respect to mean and variance",
    torch.autograd.grad((_got * _weights).sum(), (_mean, _variance), allow_unused=True),
    "Gradients have to pass through the draw to both.",
)
_at_test = choose_latent(_mean, _variance, None)
emit("choose_latent without noise", _at_test, "At test, without noise, the mean is asked for.")
emit("choose_latent without noise: whether it carries a graph", _at_test.requires_grad, "Do not detach it.")
emit("choose_latent: what was handed in, afterwards", [_mean, _variance, _noise], "The inputs were changed.")
### END HIDDEN TESTS

# %% [markdown] id="target"
# ## 5 · Soft actor-critic, for actions that can be counted
#
# An agent that is told $z$ needs a policy $\pi(a|s,z)$ and critics $Q(s,a,z)$. It learns from *replay*: transitions of
# all earlier policies, also bad ones. *Soft* actor-critic (Haarnoja et al. 2018) maximises reward plus $\alpha$ times
# the policy's entropy, so that the policy stays as random as it can afford to be. With a countable set of actions no
# sampling is needed, every expectation over actions is a sum (Christodoulou 2019). What a state is worth, and what a
# critic should say:
#
# $$ V(s') = \sum_a \pi(a|s')\,\Big[\min\big(Q_1(s',a),\, Q_2(s',a)\big) - \alpha\ln\pi(a|s')\Big], \qquad
#    y = r + \gamma\,(1 - \text{terminated})\,V(s'). \tag{6} $$
#
# * **Twins**: whoever maximises over noisy estimates finds the overestimated ones. The smaller of two independent
#   critics, *for each action*, leans the other way.
# * **Terminated, not truncated**: if the task was over, nothing follows. If merely the clock ran out, the level would
#   have gone on paying, so $V(s')$ counts. That is notebook 0 again; the replay records only `terminated`, so there is
#   nothing to do for truncation, except not to invent it.
# * $y$ is a *target*, a constant: the critics move towards it, it does not move towards them.
#
# **Worked by hand**, $\gamma = 0.5$, $\alpha = 0.2$, two actions with $\pi = (¼, ¾)$, so $-\ln\pi = (1.386, 0.288)$;
# $Q_1 = (2, 4)$, $Q_2 = (3, 1)$, smaller ones $(2, 1)$:
# $V = ¼\,(2 + 0.2 \cdot 1.386) + ¾\,(1 + 0.2\cdot 0.288) = 1.362$.
#
# | $r$ | terminated | $y$ |
# |---|---|---|
# | 1 | 0 | $1 + 0.5\cdot 1.362 = 1.681$ |
# | 2 | 1 | $2$ |


# %% id="soft-target" kind="solution"
def soft_target(
    rewards: Tensor,
    terminated: Tensor,
    next_q1: Tensor,
    next_q2: Tensor,
    next_log_probs: Tensor,
    gamma: float,
    temperature: float,
) -> Tensor:
    """What the critics should say about (s, a), equation (6).

    Args:
        rewards, terminated: (...); terminated is 1.0 where the task ended with this transition, else 0.0.
        next_q1, next_q2: (..., A), of the two target critics at s', for every action.
        next_log_probs: (..., A), ln pi(a|s'); they sum to 1 after exp.
        gamma, temperature: discount factor, and alpha.

    Returns:
        (...), without a graph.

    TODO (2-4 lines).
    """
    ### BEGIN SOLUTION
    smaller = torch.minimum(next_q1, next_q2)
    value = (next_log_probs.exp() * (smaller - temperature * next_log_probs)).sum(dim=-1)
    return (rewards + gamma * (1.0 - terminated) * value).detach()
    ### END SOLUTION


# %% id="test-soft-target" kind="tests" points=7
_q1, _q2 = torch.tensor([[2.0, 4.0], [2.0, 4.0]]), torch.tensor([[3.0, 1.0], [3.0, 1.0]])
_log_probs = torch.tensor([[0.25, 0.75], [0.25, 0.75]]).log()
_r, _end = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])
check(
    "soft_target on the worked example",
    soft_target(_r, _end, _q1, _q2, _log_probs, 0.5, 0.2),
    [1.681234, 2.0],
    {
        "the second task was over, but V(s') is counted.": [1.681234, 2.681234],
        "the reward of a terminated step is lost; only what follows is 0.": [1.681234, 0.0],
        "gamma is missing.": [2.362467, 2.0],
        "the entropy is missing.": [1.625, 2.0],
        "the entropy has the wrong sign: random is good, so -alpha ln pi is added.": [1.568766, 2.0],
        "alpha is missing.": [1.906168, 2.0],
        "this takes the best action; the policy's expectation over actions is asked for.": [2.0, 2.0],
        "the actions are summed without pi: weight them with pi(a|s').": [2.667398, 2.0],
        "the actions are averaged, all alike: weight them with pi(a|s').": [1.833699, 2.0],
        "the twins are averaged; take the smaller one.": [2.306234, 2.0],
        "this takes the larger twin: it would believe every overestimate.": [2.931234, 2.0],
        "only the first critic is used.": [2.806234, 2.0],
        "this is the smaller of two expectations; take the smaller Q for each action first.": [1.806234, 2.0],
        "this is what follows, without the reward.": [0.681234, 0.0],
    },
    tolerance=2e-6,
)
_leaf = _q1.clone().requires_grad_()
assert not soft_target(_r, _end, _leaf, _q2, _log_probs, 0.5, 0.2).requires_grad, (
    "soft_target: a target is a constant; detach it, or the critics pull it towards themselves."
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(5)
_q1, _q2 = (3 * torch.randn(3, 4, 6, generator=_draw, dtype=torch.float64) for _ in range(2))
_logits = torch.randn(3, 4, 6, generator=_draw, dtype=torch.float64)
_log_probs = torch.log_softmax(_logits, -1)
_r = torch.randn(3, 4, generator=_draw, dtype=torch.float64)
_end = (torch.rand(3, 4, generator=_draw) < 0.4).double()
for _gamma, _alpha in ((0.9, 0.3), (1.0, 0.0), (0.0, 1.0)):
    emit(
        f"soft_target, shape (3, 4), 6 actions, gamma {_gamma}, alpha {_alpha}",
        soft_target(_r, _end, _q1, _q2, _log_probs, _gamma, _alpha),
        "The smaller twin for each action, plus entropy, weighted with pi; nothing after a terminal step.",
    )
emit(
    "soft_target of a uniform policy that is paid nothing",
    soft_target(
        torch.zeros(1), torch.zeros(1), torch.zeros(1, 5), torch.zeros(1, 5), torch.zeros(1, 5) - 1.609438, 0.5, 2.0
    ),
    "What is left is gamma alpha times the entropy.",
)
_leaves = [x.clone().requires_grad_() for x in (_q1, _q2, _log_probs)]
emit(
    "soft_target: whether it carries a graph",
    soft_target(_r, _end, *_leaves, 0.9, 0.3).requires_grad,
    "A target is a constant; detach it.",
)
emit("soft_target: what was handed in, afterwards", [_r, _end, _q1, _q2, _log_probs], "The inputs were changed.")
### END HIDDEN TESTS

# %% [markdown] id="actor"
# ## 6 · The actor, and who learns from what
#
# The actor should prefer the actions that the critics praise, and stay random where they do not care. Its loss, an
# average over the $B$ states of a batch:
#
# $$ \mathcal L_\pi = \frac1B \sum_s \sum_a \pi(a|s)\,\Big[\alpha\ln\pi(a|s) - \min\big(Q_1(s,a),\, Q_2(s,a)\big)\Big].
#    \tag{7} $$
#
# It is smallest for $\pi \propto \exp(Q/\alpha)$. The critics are **judges** here, not defendants: the loss falls when
# $Q$ rises, so if its gradient reached the critics, they would learn to flatter.
#
# **Worked by hand**, $\alpha = 0.2$: the state of section 5 gives $-1.362$ (it is $-V$). A second state with
# $\pi = (½, ½)$, $Q_1 = (0, 2)$, $Q_2 = (1, 3)$: smaller ones $(0, 2)$, so
# $-1 - 0.2 \cdot 0.693 = -1.139$. The average is $-1.251$.


# %% id="actor-loss" kind="solution"
def actor_loss(log_probs: Tensor, q1: Tensor, q2: Tensor, temperature: float) -> Tensor:
    """What the actor minimises, equation (7).

    Args:
        log_probs: (..., A), ln pi(a|s) of the policy to be improved.
        q1, q2: (..., A), what the two critics say about every action. They are constants: no gradient may reach them.
        temperature: alpha.

    Returns:
        Scalar: sum over actions, mean over all leading axes.

    TODO (2-3 lines).
    """
    ### BEGIN SOLUTION
    smaller = torch.minimum(q1, q2).detach()
    return (log_probs.exp() * (temperature * log_probs - smaller)).sum(dim=-1).mean()
    ### END SOLUTION


# %% id="test-actor-loss" kind="tests" points=5
_log_probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log().requires_grad_()
_q1 = torch.tensor([[2.0, 4.0], [0.0, 2.0]], requires_grad=True)
_q2 = torch.tensor([[3.0, 1.0], [1.0, 3.0]], requires_grad=True)
_got = actor_loss(_log_probs, _q1, _q2, 0.2)
check(
    "actor_loss on the worked example",
    _got,
    torch.tensor(-1.2505482),
    {
        "the sign is wrong: this would avoid what the critics praise.": 1.2505482,
        "the entropy has the wrong sign: this would make the policy as certain as it can be.": -0.9994518,
        "the entropy is missing.": -1.125,
        "alpha is missing.": -1.7527412,
        "summed over the states; average over them.": -2.5010965,
        "averaged over the actions; sum over them, pi is their weight already.": -0.6252741,
        "the actions are not weighted with pi (average).": -1.4030135,
        "the actions are not weighted with pi (sum).": -2.8060271,
        "the twins are averaged; take the smaller one.": -2.1255482,
        "this takes the larger twin.": -3.0005482,
        "only the first critic is used.": -2.3755482,
    },
    tolerance=2e-6,
)
_slopes = torch.autograd.grad(_got, (_log_probs, _q1, _q2), allow_unused=True)
assert _slopes[0] is not None, "actor_loss: no gradient reaches the policy; do not detach log_probs."
assert _slopes[1] is None and _slopes[2] is None, (
    "actor_flatters: a gradient reaches the critics, who would learn to praise the actor. Detach what they say."
)
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(6)
_logits = torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_()
_q1, _q2 = (torch.randn(2, 3, 4, generator=_draw, dtype=torch.float64).requires_grad_() for _ in range(2))
for _alpha in (0.7, 0.0):
    _got = actor_loss(torch.log_softmax(_logits, -1), _q1, _q2, _alpha)
    emit(f"actor_loss, leading axes (2, 3), 4 actions, alpha {_alpha}", _got, "Sum over actions, mean over all states.")
    emit(
        "actor_loss: its gradients with respect to logits and critics",
        torch.autograd.grad(_got, (_logits, _q1, _q2), allow_unused=True),
        "Both pi and ln pi carry a gradient, the critics none: detach what they say.",
    )
_best = (torch.minimum(_q1, _q2) / 0.7).detach().requires_grad_()
_loss = actor_loss(torch.log_softmax(_best, -1), _q1, _q2, 0.7)
emit("actor_loss at pi ~ exp(Q / alpha)", _loss)
emit(
    "actor_loss: its gradient at pi ~ exp(Q / alpha)",
    torch.autograd.grad(_loss, _best)[0],
    "It should vanish there: this is the best policy.",
)
emit(
    "actor_loss of one state without leading axes",
    actor_loss(torch.tensor([0.2, 0.8]).log(), _q1[0, 0, :2].float(), _q2[0, 0, :2].float(), 0.1),
)
emit("actor_loss: the critics' values, afterwards", [_q1, _q2], "The inputs were changed.")
### END HIDDEN TESTS

# %% [markdown] id="slow"
# ## 7 · Targets that move slowly
#
# Equation (6) makes targets out of critics. If they were the very critics that are being trained, every mistake would
# be its own teacher. So a slow copy makes the targets; after each gradient step it moves a little way,
#
# $$ \bar\theta \;\leftarrow\; (1 - \rho)\,\bar\theta + \rho\,\theta. \tag{8} $$
#
# **Worked by hand**, $\rho = 0.1$: target $(0, 10)$, trained $(10, 0)$: the target becomes $(1, 9)$.


# %% id="soft-update" kind="solution"
def soft_update(target: Params, online: Params, rate: float) -> Params:
    """Move the target parameters a little way, equation (8).

    Args:
        target, online: name -> tensor, the same names. Neither may be changed.
        rate: rho in [0, 1]; 1 copies.

    Returns:
        A new dictionary of tensors without a graph.

    TODO (1-2 lines).
    """
    ### BEGIN SOLUTION
    return {name: ((1.0 - rate) * target[name] + rate * online[name]).detach() for name in target}
    ### END SOLUTION


# %% id="test-soft-update" kind="tests" points=3
_target, _online = {"w": torch.tensor([0.0, 10.0])}, {"w": torch.tensor([10.0, 0.0], requires_grad=True)}
_got = soft_update(_target, _online, 0.1)
assert isinstance(_got, dict), (
    f"soft_update: expected a dictionary, got {type(_got).__name__}. Is the `return` missing?"
)
check(
    "soft_update on the worked example",
    _got["w"],
    torch.tensor([1.0, 9.0]),
    {
        "the two are exchanged: the target must move slowly, a tenth of the way.": [9.0, 1.0],
        "this is a copy of the trained parameters; move only a tenth of the way.": [10.0, 0.0],
        "the target did not move.": [0.0, 10.0],
        "the old target is not scaled down with 1 - rho.": [1.0, 10.0],
        "this is the way to go; add it to the target.": [1.0, -1.0],
    },
)
assert not _got["w"].requires_grad, (
    "soft_update: the result carries a graph, which would grow with every step. Detach it."
)
check("soft_update: the target that was handed in", _target["w"], [0.0, 10.0], hint="It was changed in place.")
check("soft_update: the parameters that were handed in", _online["w"], [10.0, 0.0], hint="They were changed in place.")
### BEGIN HIDDEN TESTS
_draw = torch.Generator().manual_seed(7)
_shapes = {"a": (2, 3, 4), "b": (), "c.weight": (5,)}
_target, _online = (
    {n: torch.randn(s, generator=_draw, dtype=torch.float64).requires_grad_(grad) for n, s in _shapes.items()}
    for grad in (False, True)
)
for _rate in (0.0, 0.01, 0.5, 1.0):
    _got = soft_update(_target, dict(reversed(list(_online.items()))), _rate)
    emit(
        f"soft_update, rate {_rate}",
        {n: _got[n] for n in sorted(_got)},
        "Parameters belong to their names, not to their place in the dictionary.",
    )
    emit(
        "soft_update: whether the result carries a graph",
        [_got[n].requires_grad for n in sorted(_got)],
        "The graph would grow with every step. Detach it.",
    )
    emit("soft_update: whether the result is one of the dictionaries handed in", _got is _target or _got is _online)
    emit("soft_update: target and trained parameters, afterwards", [_target, _online], "They were changed in place.")
for _rate, _name in ((1.0, "trained parameters"), (0.0, "target")):
    _copy = soft_update(_target, _online, _rate)
    with torch.no_grad():
        _copy["a"].add_(1.0)
    emit(
        f"soft_update with rate {_rate}: the {_name}, after the result was changed",
        (_online if _rate else _target)["a"],
        "The result must be a copy, not the same tensor.",
    )
### END HIDDEN TESTS

# %% [markdown] id="together"
# ## 8 · All together, on game levels
#
# The tasks are those of notebook 1, section 8: a level designer edits a binary level and is paid
# $w\cdot\Delta(\text{regions, longest path})$ for a hidden $w = (\cos\varphi, \sin\varphi)$. What your functions are
# plugged into is given; one iteration of it is
#
# | | what | your functions |
# |---|---|---|
# | **collect** | 50 of 100 training tasks: an episode with $z$ from the prior; another one with $z$ from the belief that the first one gave. Both go into the *task's own* replay | `transition_inputs`, `gaussian_product`, `choose_latent` |
# | **update**, 30 times | 16 tasks. Context: 0 to 120 transitions of the *last* round, in random order. For actor and critics: 128 transitions of the task's *whole* replay | all |
#
# Three losses are minimised together, and each has its own parameters:
#
# $$ \underbrace{\tfrac12\sum_{i=1,2}\big(Q_i(s,a,z) - y\big)^2}_{\text{critics and encoder}}
#    \;+\; \underbrace{\beta\,\mathrm{KL}(q\,\|\,p)}_{\text{encoder}}
#    \;+\; \underbrace{\mathcal L_\pi(z\ \text{as a constant})}_{\text{actor}}. \tag{9} $$
#
# *Why the context is recent and the rest is not.* Soft actor-critic is off-policy: it may learn from anything. The
# encoder may not: at test its context will come from the policy as it is *now*, so that is what it must be trained on.
# Recent data are a compromise between that and throwing everything away.
#
# *At test* nothing is trained. On a new task the agent plays an episode with $z$ drawn from the prior, looks at what **it
# itself** has collected, plays the next one with the belief's mean, and so on.

# %% id="pearl-run"
from metapcg.experiments.functions import FunctionSet
from metapcg.experiments.runs import RunResult, execute_run, run_folder, settings_for

functions = FunctionSet(globals())
seeds = by_profile(smoke=(0,), quick=(0,), full=(0, 1, 2))


def train(algorithm: str, **changes) -> list[RunResult]:
    """One run per seed; what was run before, with the same functions, is read from its folder."""
    runs = []
    for seed in seeds:
        settings = settings_for(current_profile(), algorithm, seed=seed, **changes)
        started = time.perf_counter()
        runs.append(execute_run(settings, functions, run_folder(settings, functions), device))
        changed = ", ".join(f"{name} {value}" for name, value in changes.items() if name != "splits")
        print(f"{algorithm} seed {seed} {changed}: {time.perf_counter() - started:5.1f} s", flush=True)
    return runs


pearl, random = train("pearl"), train("random")

# %% [markdown] id="told"
# **An upper line.** How well could this soft actor-critic do if nothing had to be inferred? The same networks and the
# same loop, with $w$ itself in the place of $z$. What PEARL stays below it is the price of inference.

# %% id="told-run"
from metapcg.experiments.algorithms import Session
from metapcg.learning.off_policy_training import ContextAgent, level_agent, off_policy_train, play
from metapcg.learning.rollouts import Streams, episode_returns


def train_told(run: RunResult) -> tuple[ContextAgent, Params, list[dict]]:
    """Soft actor-critic told w, with the settings and training tasks of a PEARL run."""
    session = Session(run.settings, functions, device)
    tasks = session.replay_tasks()
    told = torch.tensor(tasks.task_features())
    agent = level_agent(run.settings.game, run.settings.representation, told.shape[1])
    budget = run.settings.off_policy_settings()
    result = off_policy_train(functions, agent, tasks, session.problem, budget, run.settings.seed, device, told=told)
    return agent, result.params, result.history


def told_returns(run: RunResult, agent: ContextAgent, params: Params, signs: tuple[float, float]) -> np.ndarray:
    """Return of each new task (M,) when the agent is told w with the signs of its coordinates multiplied."""
    session = Session(run.settings, functions, device)
    tasks = session.evaluation_tasks("interpolation")
    latent = torch.tensor(tasks.task_features() * np.array(signs, dtype=np.float32))[:, None].to(device)
    problem = session.problem(tasks, run.settings.eval_episodes)
    batch = play(problem, agent, params, latent.expand(-1, problem.num_envs, -1), Streams(run.settings.seed), device)
    return episode_returns(batch).mean(1).cpu().numpy()


started = time.perf_counter()
told = [train_told(run) for run in pearl]
upper = [told_returns(run, *agent[:2], (1.0, 1.0)) for run, agent in zip(pearl, told, strict=True)]
print(f"told its task: return {np.mean(upper):.2f} on new tasks, {time.perf_counter() - started:.1f} s")

# %% [markdown] id="by-context"
# ## 9 · Adaptation, transition by transition
#
# For 40 new directions, five trials each: the agent plays five episodes, each with what it knows by then. Then we ask
# what a *fresh* episode is worth with the mean of the belief from its first $n$ transitions. $n = 0$ is the prior. All
# $n$ are asked on the same start levels. Tasks come in pairs $\pm w$ and intervals are over pairs: whoever does not
# adapt gains on one just what the other one costs.

# %% id="by-context-run"
from metapcg.learning.off_policy_training import Trials, adapt_by_context, returns_by_context
from metapcg.tasks.task_batch import TaskBatch

EPISODES = by_profile(smoke=3, quick=5, full=5)
SIZES = (0, 1, 3, 10, 30, 60, 120, 180) + ((300,) if EPISODES == 5 else ())


def play_trials(run: RunResult, tasks: TaskBatch, purpose: int) -> Trials:
    """Trials of a PEARL run on tasks: what it does and believes, episode by episode."""
    session = Session(run.settings, functions, device)
    problem = session.problem(tasks, run.settings.eval_episodes)
    seed = np.random.SeedSequence((run.settings.seed, purpose))
    return adapt_by_context(functions, session.policy(), run.params, problem, EPISODES, seed, device)


def pairs(returns: np.ndarray) -> np.ndarray:
    """Means over the pairs of w and -w: (M, ...) -> (M / 2, ...)."""
    return returns.reshape(-1, 2, *returns.shape[1:]).mean(1)


new_tasks = [Session(run.settings, functions, device).evaluation_tasks("interpolation") for run in pearl]
trials = [play_trials(run, tasks, 31) for run, tasks in zip(pearl, new_tasks, strict=True)]
by_size = []
for run, tasks, trial in zip(pearl, new_tasks, trials, strict=True):
    session = Session(run.settings, functions, device)
    problem = session.problem(tasks, run.settings.eval_episodes)
    seed = np.random.SeedSequence((run.settings.seed, 32))
    returns = returns_by_context(functions, session.policy(), run.params, problem, trial.context, SIZES, seed, device)
    by_size.append(pairs(returns.mean(1)))
random_returns = [pairs(run.splits["interpolation"].returns[:, 0]) for run in random]
upper_pairs = [pairs(returns) for returns in upper]

rows = []
for i, size in enumerate(SIZES):
    here = mean_interval([r[:, i] for r in by_size])
    gain = difference_interval([r[:, i] for r in by_size], [r[:, 0] for r in by_size])
    floor, ceiling = np.mean(np.concatenate(random_returns)), np.mean(np.concatenate(upper_pairs))
    rows.append(
        {
            "transitions": size,
            "return": round(here.mean, 2),
            "low": round(here.low, 2),
            "high": round(here.high, 2),
            "gain over the prior": round(gain.mean, 2),
            "gain low": round(gain.low, 2),
            "gain high": round(gain.high, 2),
            "share of the way from random to told": round((here.mean - floor) / (ceiling - floor), 2),
        }
    )
save_table(rows, "pearl_by_context")
show_table(rows)

# %% id="by-context-figure"
fig, axes = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=(1.3, 1))
places = np.arange(len(SIZES))
axes[0].fill_between(places, [r["low"] for r in rows], [r["high"] for r in rows], color=COLOURS["PEARL"], alpha=0.2)
axes[0].plot(places, [r["return"] for r in rows], marker="o", color=COLOURS["PEARL"], label="mean of the belief")
axes[0].plot(0, rows[0]["return"], marker="o", color=COLOURS["prior"], label="mean of the prior", linestyle="none")
axes[0].axhline(ceiling, color=COLOURS["told"], linestyle="--", label="soft actor-critic told its task")
axes[0].axhline(floor, color=COLOURS["random"], linestyle=":", label="random")
axes[0].set(
    xlabel="transitions of the new task that the belief is made of",
    ylabel="return of a fresh episode",
    xticks=places,
    xticklabels=SIZES,
    title="New tasks",
)
axes[0].legend(frameon=False, fontsize=8)
history = pearl[0].history
axes[1].plot([h["return_before"] for h in history], color=COLOURS["prior"], label="z from the prior")
axes[1].plot([h["return_after"] for h in history], color=COLOURS["PEARL"], label="z from the belief after 1 episode")
axes[1].plot([h["return_after"] for h in told[0][2]], color=COLOURS["told"], linestyle="--", label="told its task")
axes[1].set(xlabel="iteration", title="Training tasks, while they are trained on (seed 0)")
axes[1].xaxis.get_major_locator().set_params(integer=True)
axes[1].legend(frameon=False, fontsize=8)
fig.tight_layout()
save_figure(fig, "pearl_by_context")
plt.show()

# %% [markdown] id="by-context-reading"
# Left: with nothing to go by the agent earns nothing, as it has to (notebook 1, question 2). A *single* transition is
# worth something, ten are worth three quarters of the way, and one episode (60) takes it to nine tenths of the agent
# that was told its task; after five it has caught up. "Gain over the prior" in the table is the test: from the first
# transition on its interval lies above 0. The band round the curve is wide for another reason, some directions pay far
# more than others whoever plays; the gain is compared task by task.
#
# Compare where notebook 1 had to wait: a policy gradient needs whole episodes before it can take its first step, because
# it learns from the *sum* of what was paid. The belief learns from every transition at once.
#
# Right: while it trains, the return with $z$ from the prior stays at 0 (a draw from the prior is a guess, and on a
# symmetric set of tasks guesses cancel), only the return with the belief rises. It starts later than the told agent's:
# first the encoder has to find something worth telling.

# %% id="splits"
names = list(pearl[0].splits)
rows = []
for split in names:
    results = [run.splits[split] for run in pearl]
    for step in (0, 1, results[0].returns.shape[1] - 1):
        interval = mean_interval([pairs(result.returns[:, step]) for result in results])
        rows.append(
            {
                "split": split,
                "own episodes": int(results[0].episodes[step]),
                "own transitions": pearl[0].settings.horizon * int(results[0].episodes[step]),
                "return": round(interval.mean, 2),
                "95 % interval": f"[{interval.low:.2f}, {interval.high:.2f}]",
            }
        )
save_table(rows, "pearl_splits")
show_table(rows)

# %% [markdown] id="splits-reading"
# *Interpolation* is as good as *train*: directions between the trained ones are no problem. The other three splits are
# harder, though each is clearly above the prior. In *extrapolation* (a held-out arc and its antipode) there is less to be had,
# and the encoder has never placed a belief there. In the *held-out representation* (turtle) and *held-out game* (zelda) the
# evidence itself looks different: another meaning of the actions, other tiles, other statistics. A gradient method fares
# differently there: on zelda it goes on learning from the reward, even from random weights, and ends far above
# (notebook 4 puts them side by side; returns in zelda are on a scale of their own).

# %% id="gallery"
from metapcg.experiments.figures import level_gallery

fig = level_gallery(pearl[0])
save_figure(fig, "pearl_gallery")
fig

# %% [markdown] id="gallery-reading"
# Each column is one task: its start level, the same level after the first episode, played on a guess, and after the last
# one, played on what was found out in between. Compare the middle row with MAML's (notebook 1), where the unadapted policy
# does the same everywhere. A draw from the prior is no compromise, it is a plan that is carried out with conviction, and by
# chance often the right one. (In `quick`, three of these four guesses happened to earn something, and the fourth did thoroughly
# the opposite of what was asked.) After adaptation every column does what its title says.

# %% [markdown] id="circle"
# ## 10 · Does the latent know the task?
#
# The agent was never told that its tasks lie on a circle. If $z$ stands for the task, the circle has to be in it. So we
# *decode*: fit a **linear** map from the belief's mean to $(\cos\varphi, \sin\varphi)$ on training tasks, and try it on
# directions that were never trained on. Its quality is
#
# $$ R^2 = 1 - \frac{\sum \|\text{decoded} - w\|^2}{\sum\|w - \bar w\|^2}, \tag{10} $$
#
# 1 if the decoder is right, 0 if it knows no more than the average. And we compare two ways to train the encoder:
#
# * **as published**: what the critics' loss finds useful (equation 9);
# * **with reconstruction**: in addition, reward has to be read off the belief's mean, $r \approx (W\mu + b)\cdot\Delta$,
#   where $\Delta$ is the change of the level's statistics. Rakelly et al. (section 4.1) name this as the alternative.
#   $\Delta$ is used while training only; at test the agent sees what it always saw.

# %% id="circle-run"
reconstructed = train("pearl", reconstruction_weight=1.0, splits=("interpolation",))


training_trials: dict = {}


def decoded(
    run: RunResult, tasks: TaskBatch, trial: Trials, episodes: int, draw: bool = False
) -> tuple[Tensor, Tensor]:
    """(cos, sin) read off the belief after some episodes, and the truth, each (M * E, 2); fitted on training tasks.

    With ``draw`` they are read off a draw from the belief instead of its mean.
    """
    training = Session(run.settings, functions, device).replay_tasks()
    if run.folder not in training_trials:
        training_trials[run.folder] = play_trials(run, training, 33)
    decoder = torch.linalg.lstsq(*readings(training, training_trials[run.folder], episodes, draw)).solution
    inputs, truth = readings(tasks, trial, episodes, draw)
    return inputs @ decoder, truth


def readings(tasks: TaskBatch, trial: Trials, episodes: int, draw: bool) -> tuple[Tensor, Tensor]:
    """What is decoded, with a constant, (M * E, Z + 1), and (cos, sin) of the tasks, (M * E, 2)."""
    mean, variance = trial.means[:, :, episodes].cpu(), trial.variances[:, :, episodes].cpu()
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(0)) if draw else None
    latent = choose_latent(mean, variance, noise)
    truth = torch.tensor(tasks.task_features())[:, None].expand(*mean.shape[:2], -1)
    return torch.cat([latent, torch.ones(*mean.shape[:2], 1)], dim=-1).flatten(0, 1), truth.flatten(0, 1)


def r_squared(got: Tensor, truth: Tensor) -> tuple[float, float, float]:
    """Equation (10) for cos, for sin, and for both together."""
    wrong, all_ = ((got - truth) ** 2).sum(0), ((truth - truth.mean(0)) ** 2).sum(0)
    return (*(1 - wrong / all_).tolist(), float(1 - wrong.sum() / all_.sum()))


kinds = {"as published": (pearl, trials)}
kinds["with reconstruction"] = (
    reconstructed,
    [play_trials(run, tasks, 31) for run, tasks in zip(reconstructed, new_tasks, strict=True)],
)
rows, clouds = [], {}
for kind, (runs, tests) in kinds.items():
    for episodes in (1, 3, EPISODES) if EPISODES > 3 else (1, 3):
        every = [decoded(run, tasks, test, episodes) for run, tasks, test in zip(runs, new_tasks, tests, strict=True)]
        clouds[kind] = every[0]
        scores = np.array([r_squared(*both) for both in every])
        rows.append(
            {
                "encoder": kind,
                "transitions": 60 * episodes,
                "R² of cos": round(scores[:, 0].mean(), 2),
                "R² of sin": round(scores[:, 1].mean(), 2),
                "R² of both": round(scores[:, 2].mean(), 2),
                "lowest of the seeds": round(scores[:, 2].min(), 2),
                "return of the next episode": round(
                    float(np.mean([t.returns[:, :, episodes].mean() for t in tests])), 2
                ),
            }
        )
save_table(rows, "pearl_latent")
show_table(rows)
cosine, sine = new_tasks[0].task_features().T
print(f"sin read off the true cos alone: R² = {np.corrcoef(cosine, sine)[0, 1] ** 2:.2f}")

# %% id="circle-figure"
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.2), sharex=True, sharey=True)
ring = np.linspace(0, 2 * np.pi, 200)
for ax, (kind, (got, truth)) in zip(axes, clouds.items(), strict=True):
    ax.plot(np.cos(ring), np.sin(ring), color="#bbbbbb", linewidth=1)
    phi = np.arctan2(*truth.numpy().T[::-1])
    dots = ax.scatter(got[:, 0], got[:, 1], c=phi, cmap="twilight_shifted", s=14, vmin=-np.pi, vmax=np.pi)
    ax.set(title=f"{kind}: $R^2$ = {r_squared(got, truth)[2]:.2f}", xlabel="decoded cos φ (regions)", aspect="equal")
axes[0].set_ylabel("decoded sin φ (longest path)")
bar = fig.colorbar(dots, ax=axes, ticks=[-np.pi, 0, np.pi], shrink=0.8, label="true φ")
bar.ax.set_yticklabels(["-180°", "0°", "180°"])
save_figure(fig, "pearl_latent_circle")
plt.show()

# %% [markdown] id="circle-reading"
# Every dot is one trial on a direction that was never trained on, its colour the true $\varphi$, its place what the linear
# decoder reads off $z$. (The gaps in the ring are the held-out arc and its antipode.)
#
# **With reconstruction the circle is there**: colours in the right order, most dots near the ring, $R^2$ about 0.8 after
# three own episodes and above it after five. The knot in the middle are directions with $\cos\varphi \approx 0$: nearly all
# of their pay is for the longest path, and in some trials hardly any of it came. **As published the circle is not there**:
# dots fall along a line, and $R^2$ does not get past about $\tfrac23$. What is missing is $\sin\varphi$, the price of the longest path.
# About half of it is known, and a part of that is borrowed: in the trained range $\cos$ and $\sin$ are correlated, and the true
# $\cos$ alone would give the $R^2$ printed below the table.
#
# And yet the **returns are the same**. The next table says why.

# %% id="needed"
session = Session(pearl[0].settings, functions, device)
problem = session.problem(new_tasks[0], pearl[0].settings.eval_episodes)
latent = trials[0].means[:, :, -1]
changes = play(problem, session.policy(), pearl[0].params, latent, Streams(5), device, record=True)["changes"]
rows = []
for k, name in enumerate(("regions (cos)", "longest path (sin)")):
    signs = tuple(-1.0 if i == k else 1.0 for i in range(2))
    wrong = [told_returns(run, *agent[:2], signs) for run, agent in zip(pearl, told, strict=True)]
    rows.append(
        {
            "coordinate": name,
            "steps that change it": f"{100 * float((changes[..., k] != 0).float().mean()):.0f} %",
            "return, told w": round(float(np.mean(upper)), 2),
            "return, told w with this sign wrong": round(float(np.mean(wrong)), 2),
        }
    )
save_table(rows, "pearl_what_matters")
show_table(rows)

# %% [markdown] id="needed-reading"
# An edit changes the number of regions three to four times as often as the longest path. So most of what is earned, and
# most of the evidence, is about $\cos\varphi$: an agent told the wrong sign of it *loses* about half of what it could
# win. The wrong sign of $\sin\varphi$ costs half of the return, so the sign matters, and with the published loss the belief
# gets it mostly right, because in this window of 5 × 5 tiles one does the same whether a longer path pays a little or a
# lot. The critics' loss asks the encoder for what changes *values*, and is content.
#
# So "the latent identifies the task" has to be read with care: it identifies what of the task the agent's decisions and
# values depend on, as far as the critics can see it. A latent that is to be *looked at* has to be trained for that.

# %% [markdown] id="price"
# ## 11 · The price of a belief
#
# $\beta$ in equation (9) is a price: every nat by which the belief departs from the prior costs $\beta$ squared units of
# reward. Too high, and the encoder does best by saying nothing at all.

# %% id="price-run"
prices = by_profile(smoke=(1e-3, 1e-1), quick=(1e-3, 1e-2, 1e-1), full=(0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1))
own = pearl[0].settings.kl_weight
by_price = {
    price: pearl if price == own else train("pearl", kl_weight=price, splits=("interpolation",)) for price in prices
}
rows = []
for price, runs in by_price.items():
    after = [pairs(run.splits["interpolation"].returns[:, 1]) for run in runs]
    interval = mean_interval(after)
    tests = [trials[i] if price == own else play_trials(run, new_tasks[i], 31) for i, run in enumerate(runs)]
    score = [
        [r_squared(*decoded(run, new_tasks[i], tests[i], 3, draw))[2] for i, run in enumerate(runs)]
        for draw in (True, False)
    ]
    rows.append(
        {
            "price": price,
            "KL in nats": round(float(np.mean([run.history[-1]["kl"] for run in runs])), 2),
            "R² of a draw": round(float(np.mean(score[0])), 2),
            "R² of the mean": round(float(np.mean(score[1])), 2),
            "return after 1 episode": round(interval.mean, 2),
            "low": round(interval.low, 2),
            "high": round(interval.high, 2),
            "entropy of the policy": round(float(np.mean([run.history[-1]["entropy"] for run in runs])), 2),
        }
    )
save_table(rows, "pearl_kl_weight")
show_table(rows)

# %% id="price-figure"
fig, axes = plt.subplots(1, 2, figsize=(10, 3.4))
shades = plt.cm.viridis(np.linspace(0, 0.85, len(by_price)))
for shade, (price, runs) in zip(shades, by_price.items(), strict=True):
    axes[0].plot([h["kl"] for h in runs[0].history], color=shade, label=f"β = {price:g}")
places = np.arange(len(rows))
errors = np.abs(
    np.array([[r["return after 1 episode"] - r["low"], r["high"] - r["return after 1 episode"]] for r in rows]).T
)
axes[1].bar(places, [r["return after 1 episode"] for r in rows], yerr=errors, color=shades, width=0.6, capsize=4)
axes[1].axhline(ceiling, color=COLOURS["told"], linestyle="--", linewidth=1)
axes[1].axhline(0, color=COLOURS["random"], linewidth=0.8)
axes[0].set(xlabel="iteration", ylabel="KL of the belief in nats", title="What beliefs say, while training (seed 0)")
axes[0].xaxis.get_major_locator().set_params(integer=True)
axes[1].set(
    xticks=places, xticklabels=[f"{r['price']:g}" for r in rows], xlabel="price β", title="Return after one own episode"
)
axes[0].legend(frameon=False, fontsize=8)
fig.tight_layout()
save_figure(fig, "pearl_kl_weight")
plt.show()

# %% [markdown] id="price-reading"
# At $\beta = 0.001$ the belief says some six nats and the agent adapts. At 0.01 it is told to be brief, finds its voice
# only after some iterations, and then says what matters most in two nats. At 0.1 it falls silent in the first
# iterations and never speaks again: KL 0, a policy that is uniform (its entropy is $\ln 3 = 1.10$), a return of 0. This is
# **posterior collapse**, and it is stable: as long as $z$ says nothing the critics learn to ignore it, and as long as they
# ignore it there is nothing to be gained from saying something.
#
# Look at both columns of $R^2$. The *mean* of the collapsed belief can still be decoded in part: a least-squares decoder does
# not mind that it moves by a thousandth of its own standard deviation. A *draw*, which is what critics and actor are
# given, tells nothing. A probe finds what is there; it does not show that anybody uses it.
#
# So watch the KL while training. It is the first thing to look at when PEARL does not adapt.

# %% [markdown] id="q-encoder" kind="question" points=3
# ### Question 1 (3 points)
#
# (a) A colleague feeds the encoder with contexts drawn from the *whole* replay, as for actor and critics, "since it is
# off-policy anyway". Training looks even better than before. What will go wrong at test, and why not in training?
#
# (b) In (9) the actor sees $z$ as a constant. What could the actor's gradient teach the encoder that would be good for the
# actor's loss and bad for the agent?
#
# (c) Another colleague evaluates new tasks with contexts collected by the *trained policies of the training tasks* ("it
# saves time"). Why is the number he reports not an adaptation curve?
#
# ### BEGIN SOLUTION
# (a) The whole replay holds transitions of all policies so far: early, random ones, and such as knew the task already.
# Their mixture is broad and says much about the task. At test the context comes from one policy, the present one with
# $z$ from the prior. That is another distribution of transitions, on which the encoder was never trained, so its factors
# are wrong or overconfident there. In training both contexts, for fitting and for the loss, come from the replay, so the
# mismatch does not show; only the collected returns after adaptation would show it.
#
# (b) The actor's loss falls when $Q(s, a, z)$ rises. Its gradient through $z$ would move the belief to places where the
# critics promise much, whatever the task is: wishful thinking instead of inference (the encoder would flatter, as in
# section 6). The critics' loss can only be lowered by a $z$ that makes predictions *right*.
#
# (c) A policy that knows its task shows which task it is by what it does: it collects the transitions that are paid.
# The context leaks the answer that the agent should find out. An adaptation curve has to charge for exploration:
# its context must be what the agent itself collects, starting from the prior.
# ### END SOLUTION

# %% [markdown] id="q-latent" kind="question" points=4
# ### Question 2 (4 points)
#
# (a) Suppose two tasks have the same optimal policy and the same Q-values at all states that are visited. Can an encoder that is
# trained by (9) tell them apart? Does it want to?
#
# (b) With $\beta > 0$, what does the second term do about a coordinate of the task that the critics cannot use?
#
# (c) The reconstruction loss makes $\sin\varphi$ readable and changes the return hardly at all. Describe a change of the family of
# tasks, or of what the agent sees, after which you would expect it to pay.
#
# (d) After 180 transitions the belief's variance is small although $R^2$ of $\sin\varphi$ is poor. Is the belief wrong to be so sure?
#
# ### BEGIN SOLUTION
# (a) It could if their transitions differ somewhere, but the loss does not depend on whether it does: the critics' error is
# the same for any $z$ that fits both. It has no reason to.
#
# (b) Every nat costs $\beta$ and that coordinate's nats buy nothing, so the best belief leaves it at the prior: it is
# *forgotten on purpose*. That is the information bottleneck, and it is what one wants of a variable to act on: noise about
# things that do not matter would only have to be ignored by the actor.
#
# (c) Whatever makes good decisions depend on the value of $\sin\varphi$ and not only on its sign: statistics that are changed as often
# as one another (other scales do not help, as they change the size of a reward and not how often it comes); a window large
# enough to see what an edit does to the longest path; tasks with a third statistic traded off against it; longer horizons.
#
# (d) No. The variance is that of $z$, and $z$ stands for what the critics were given to use. It may be quite sure of that. It would be
# wrong to read it as the uncertainty about $\varphi$: coordinates of the task that are not encoded in $z$ have no variance there at
# all.
# ### END SOLUTION

# %% [markdown] id="sparse"
# ## 12 · Extension: when reward is rare
#
# On levels nearly everything the agent does tells it something. What if nothing is paid until it has found what pays? A
# goal lies somewhere on a half circle round the start; only within 0.2 of it there is reward (Rakelly et al. 2019,
# section 6.3). Dithering finds nothing. An agent that *draws* one $z$ and keeps to it for an episode makes one definite
# guess; what was not paid there is evidence against it, and the next draw goes elsewhere. That is **posterior
# sampling** (Thompson 1933; Osband et al. 2013), and your `choose_latent` does it if it gets noise at test, too.
#
# This cell trains under `HW11_PROFILE=full` (a minute) and only shows that it runs under `smoke`.

# %% id="sparse-run"
from metapcg.experiments import sparse_navigation

sparse = None
if current_profile() in sparse_navigation.BUDGETS:
    sparse = sparse_navigation.run_sparse_navigation(
        functions, sparse_navigation.BUDGETS[current_profile()], seed=0, device=device
    )
    rows = []
    for way, returns in sparse.returns.items():
        for episode in range(returns.shape[-1]):
            interval = mean_interval([returns[:, :, episode].mean(1)])
            found = float((returns[:, :, : episode + 1] > 0).any(-1).mean())
            rows.append(
                {
                    "z": way,
                    "own episodes": episode,
                    "return": round(interval.mean, 2),
                    "95 % interval": f"[{interval.low:.2f}, {interval.high:.2f}]",
                    "goal found by then": f"{100 * found:.0f} %",
                }
            )
    save_table(rows, "pearl_sparse")
    show_table(rows)
else:
    print("HW11_PROFILE=full trains this; it is left out under quick.")

# %% id="sparse-figure"
if sparse is not None:
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(1.2, 1))
    for way, colour in (("sampled", COLOURS["PEARL"]), ("mean", COLOURS["prior"])):
        intervals = [mean_interval([column]) for column in sparse.returns[way].mean(1).T]
        places = np.arange(len(intervals))
        axes[0].plot(places, [i.mean for i in intervals], marker="o", color=colour, label=f"z: {way}")
        axes[0].fill_between(places, [i.low for i in intervals], [i.high for i in intervals], color=colour, alpha=0.2)
    axes[0].set(xlabel="own episodes on the new goal", ylabel="return", title="New goals on the half circle")
    axes[0].legend(frameon=False)
    draws = torch.randn((1, 12, sparse.agent.latent), generator=torch.Generator().manual_seed(3)).to(device)
    problem = sparse_navigation.CompassNavigation(np.array([[0.0, 9.0]]), 12)
    walks = play(problem, sparse.agent, sparse.params, draws, Streams(1), device)["obs"]["state"][0].cpu() * 0.5
    axes[1].plot(
        0.5 * np.cos(ring[:100]), 0.5 * np.sin(ring[:100]), color="#bbbbbb", linewidth=6, solid_capstyle="round"
    )
    for walk in walks:
        axes[1].plot(walk[:, 0], walk[:, 1], marker=".", linewidth=1, alpha=0.8)
    axes[1].set(title="Twelve first guesses: z from the prior", aspect="equal")
    fig.tight_layout()
    save_figure(fig, "pearl_sparse")
    plt.show()

# %% [markdown] id="sparse-reading"
# Left, under `full`: the first guess finds the goal in fewer than one trial in five. Then it searches. After three episodes
# more than four goals in five have been found, after six some nine in ten, and the agent goes straight there, for 13 or
# more of the 16 that can be had. Drawing $z$ again in every episode looks a little better than taking the mean, but the
# intervals overlap: "nothing was paid there" is evidence as well, so the mean itself moves on to where it has not been.
#
# Right, the first guesses. They keep to the upper half, where all training goals were. Some are a definite walk to one
# place; others linger near the middle, where no goal ever was. Those are draws for which no belief in training stood: at
# this price of a nat beliefs say about ten of them, and fill only a part of the prior. A ten times higher price mends the first
# guess (a return of 3.3) and spoils what follows (7.6 after six episodes). That is what the prior in the KL term is for,
# and what it costs.

# %% [markdown] id="end"
# **What to take along.** To adapt is to update a belief; a belief is a sum of precisions; what it learns to say is what
# somebody downstream pays for. The comparison with MAML and RL², by episodes and by what each of them costs, is in
# notebook 4.

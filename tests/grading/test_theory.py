"""What answers/HW11_Complete_Solutions.md states, counted: each test is named after the statement it checks."""

import math

import numpy as np
import pytest
import torch

from metapcg.tasks.bandit import bayes_optimum
from metapcg.tasks.enumeration import (
    MDP,
    all_trajectories,
    dynamics_probabilities,
    expected_return,
    hessian_terms,
    log_probs,
    random_logits,
    random_mdp,
    reward_to_go,
    state_values,
    trajectory_probabilities,
)
from metapcg.tasks.families import direction

CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def gradient(theta, mdp, create_graph=False):
    return torch.autograd.grad(expected_return(theta, mdp), theta, create_graph=create_graph)[0]


def hessian(theta, mdp):
    return torch.autograd.functional.hessian(lambda x: expected_return(x, mdp), theta.detach()).reshape(
        theta.numel(), -1
    )


def leaf(theta):
    return theta.detach().clone().requires_grad_()


def adapted_return(theta, mdp, alpha, steps):
    for _ in range(steps):
        theta = theta + alpha * gradient(theta, mdp, create_graph=True)
    return expected_return(theta, mdp)


def surrogate_hessian(name, theta, mdp, advantages=None):
    h1, h2, h12 = hessian_terms(theta, mdp, advantages)
    return {"FOMAML": 0 * h1, "naive": h2, "LVC": h1 + h2, "DiCE": h1 + h2 + h12 + h12.T}[name]


@pytest.fixture(params=[(2, 2, 2), (3, 2, 3)], ids=["2x2x2", "3x2x3"])
def process(request):
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, *request.param)
    return mdp, random_logits(rng, mdp)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_meta_gradient_is_the_product_of_jacobians_first_step_outermost(process, steps):
    mdp, theta = process
    alpha = 0.7
    (got,) = torch.autograd.grad(adapted_return(theta, mdp, alpha, steps), theta)
    points = [leaf(theta)]
    for _ in range(steps):
        points.append(leaf(points[-1] + alpha * gradient(points[-1], mdp)))
    vector = gradient(points[-1], mdp).flatten()
    for point in reversed(points[:-1]):
        vector = vector + alpha * hessian(point, mdp) @ vector
    torch.testing.assert_close(got.flatten(), vector, **CLOSE)


def test_hessian_of_the_return_is_h1_h2_h12_and_its_transpose(process):
    mdp, theta = process
    torch.testing.assert_close(hessian(theta, mdp), surrogate_hessian("DiCE", theta, mdp), **CLOSE)


def sampled_gradient(theta, mdp):
    """g(theta, tau) = sum of scores times reward-to-go for every trajectory: function of theta, (N, P)."""
    trajectories = all_trajectories(mdp)
    to_go = reward_to_go(trajectories.rewards)
    inner = leaf(theta)
    rows = torch.autograd.functional.jacobian(
        lambda x: (log_probs(x, trajectories) * to_go).sum(-1), inner, create_graph=True
    )
    return rows.flatten(1)


def test_hessian_is_the_derivative_of_the_estimate_plus_the_term_through_the_sampling(process):
    mdp, theta = process
    trajectories = all_trajectories(mdp)
    weights = trajectory_probabilities(theta, mdp, trajectories).detach()
    scores = torch.autograd.functional.jacobian(lambda x: log_probs(x, trajectories).sum(-1), theta).flatten(1)
    through_sampling = torch.einsum("n,np,nq->pq", weights, sampled_gradient(theta, mdp).detach(), scores)
    h1, h2, h12 = hessian_terms(theta, mdp)
    torch.testing.assert_close(through_sampling, h1 + h12 + h12.T, **CLOSE)
    torch.testing.assert_close(hessian(theta, mdp), h2 + through_sampling, **CLOSE)


def test_gradient_of_the_objective_whose_step_is_one_batch_pays_the_episodes_before_adaptation():
    rng = np.random.default_rng(9)
    mdp = random_mdp(rng)
    theta, alpha = random_logits(rng, mdp), 0.6
    trajectories = all_trajectories(mdp)
    to_go = reward_to_go(trajectories.rewards)
    # The score of a softmax, by hand: onehot(a) - pi, in the row of the visited state.
    one_hot = torch.nn.functional.one_hot
    states, actions = one_hot(trajectories.states, 2).double(), one_hot(trajectories.actions, 2).double()

    def estimate(x):
        scores = states[..., None] * (actions - torch.softmax(x, -1)[trajectories.states])[..., None, :]
        return (scores * to_go[..., None, None]).sum(1)  # (N, S, A)

    def objective(x):
        after = torch.stack([expected_return(x + alpha * g, mdp) for g in estimate(x)])
        return (trajectory_probabilities(x, mdp, trajectories) * after).sum()

    (truth,) = torch.autograd.grad(objective(theta), theta)
    weights = trajectory_probabilities(theta, mdp, trajectories).detach()
    curvature = torch.autograd.functional.jacobian(lambda x: estimate(x).flatten(1), theta).flatten(2)  # (N, P, P)
    scores = torch.autograd.functional.jacobian(lambda x: log_probs(x, trajectories).sum(-1), theta).flatten(1)
    total = torch.zeros(4, dtype=torch.float64)
    for n, g in enumerate(estimate(theta).detach()):
        after = leaf(theta + alpha * g)
        vector = gradient(after, mdp).flatten()
        adapted = vector + alpha * curvature[n].T @ vector
        total += weights[n] * (adapted + expected_return(after, mdp).detach() * scores[n])
    torch.testing.assert_close(truth.flatten(), total, **CLOSE)


def test_table_of_meta_gradient_errors():
    rng = np.random.default_rng(0)
    errors = {(name, alpha): [] for name in ("FOMAML", "naive", "LVC", "DiCE") for alpha in (0.1, 0.5, 1.0)}
    for _ in range(300):
        mdp = random_mdp(rng)
        theta = random_logits(rng, mdp)
        flat = gradient(theta, mdp)
        true_hessian = hessian(theta, mdp)
        hessians = {name: surrogate_hessian(name, theta, mdp) for name in ("FOMAML", "naive", "LVC", "DiCE")}
        for alpha in (0.1, 0.5, 1.0):
            vector = gradient(leaf(theta + alpha * flat), mdp).flatten()
            truth = vector + alpha * true_hessian @ vector
            for name, wrong in hessians.items():
                errors[name, alpha].append(float((alpha * (wrong - true_hessian) @ vector).norm() / truth.norm()))
    printed = {
        "FOMAML": (0.017, 0.086, 0.169),
        "naive": (0.030, 0.150, 0.287),
        "LVC": (0.004, 0.018, 0.035),
        "DiCE": (0, 0, 0),
    }
    for name, row in printed.items():
        for alpha, value in zip((0.1, 0.5, 1.0), row, strict=True):
            assert np.median(errors[name, alpha]) == pytest.approx(value, abs=6e-4), (name, alpha)
    worse = np.mean(np.array(errors["naive", 0.5]) > np.array(errors["FOMAML", 0.5]))
    assert 0.6 < worse < 0.75


def test_one_parameter_bandit_by_hand():
    p, r = 0.3, 2.0
    theta = torch.tensor(math.log(p / (1 - p)), dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(r * torch.sigmoid(theta), theta, create_graph=True)
    (second,) = torch.autograd.grad(first, theta)
    first, second = first.item(), second.item()
    h1, h2 = r * p * (1 - p) ** 2, -r * p**2 * (1 - p)
    assert first == pytest.approx(r * p * (1 - p))
    assert second == pytest.approx(h1 + h2) == pytest.approx(r * p * (1 - p) * (1 - 2 * p))
    assert h2 < 0 < second
    score = torch.tensor([0 - p, 1 - p], dtype=torch.float64)
    assert (torch.tensor([1 - p, p]) * torch.tensor([0, r]) * score**2).sum().item() == pytest.approx(h1)
    for action in (0, 1):  # the second derivative of log pi is the same for both
        one = torch.log(torch.sigmoid(theta)) if action else torch.log(1 - torch.sigmoid(theta))
        (slope,) = torch.autograd.grad(one, theta, create_graph=True)
        assert float(torch.autograd.grad(slope, theta)[0]) == pytest.approx(-p * (1 - p))


def test_a_constant_reward_moves_h2_and_the_rest_by_opposite_amounts(process):
    mdp, theta = process
    richer = MDP(mdp.rewards + 5.0, mdp.transitions, mdp.start, mdp.horizon)
    h1, h2, h12 = hessian_terms(theta, mdp)
    r1, r2, r12 = hessian_terms(theta, richer)
    assert float((r2 - h2).abs().max()) > 0.1
    torch.testing.assert_close(r2 - h2, -(r1 + r12 + r12.T - h1 - h12 - h12.T), **CLOSE)


def test_with_an_exact_baseline_h2_is_zero_and_neither_lvc_nor_dice_moves(process):
    mdp, theta = process
    trajectories = all_trajectories(mdp)
    values = state_values(theta, mdp)
    baseline = torch.stack([values[t, trajectories.states[:, t]] for t in range(mdp.horizon)], -1)
    advantages = reward_to_go(trajectories.rewards) - baseline
    assert float(hessian_terms(theta, mdp, advantages)[1].abs().max()) < 1e-12
    for name in ("LVC", "DiCE"):
        torch.testing.assert_close(
            surrogate_hessian(name, theta, mdp, advantages), surrogate_hessian(name, theta, mdp), **CLOSE
        )


def test_fomamls_error_is_bounded_and_it_goes_uphill():
    rng = np.random.default_rng(10)
    tight = 0.0
    for _ in range(50):
        mdp = random_mdp(rng)
        theta = random_logits(rng, mdp)
        matrix = hessian(theta, mdp)
        size = float(torch.linalg.eigvalsh(matrix).abs().max())
        alpha = 0.8 / size
        vector = gradient(leaf(theta + alpha * gradient(theta, mdp)), mdp).flatten()
        truth = vector + alpha * matrix @ vector
        error = float((truth - vector).norm() / truth.norm())
        assert error <= 0.8 / 0.2 + 1e-9
        assert float(truth @ vector) > 0
        tight = max(tight, error)
    assert tight > 0.5  # not a bound that nothing comes near


def test_values_of_small_bandits():
    assert bayes_optimum(2, 2) == pytest.approx(13 / 12, abs=1e-12)
    assert bayes_optimum(10, 2) == pytest.approx(6.021786, abs=1e-6)
    assert bayes_optimum(10, 5) == pytest.approx(6.659988, abs=1e-6)


def test_beliefs_do_not_depend_on_why_an_action_was_taken():
    """Two tasks, two histories with the same actions: Bayes' rule with the policy's factors, and without them."""
    rng = np.random.default_rng(11)
    tasks = [random_mdp(rng), random_mdp(rng)]
    trajectories = all_trajectories(tasks[0])
    policy = trajectory_probabilities(random_logits(rng, tasks[0]), tasks[0], trajectories).detach()
    policy = policy / dynamics_probabilities(tasks[0], trajectories)
    dynamics = torch.stack([dynamics_probabilities(task, trajectories) for task in tasks])
    with_policy, without = dynamics * policy, dynamics
    torch.testing.assert_close(with_policy / with_policy.sum(0), without / without.sum(0), **CLOSE)


def test_variational_bound_is_off_by_the_divergence_from_the_posterior():
    rng = np.random.default_rng(12)
    prior, likelihood, belief = rng.dirichlet(np.ones(5)), rng.random(5), rng.dirichlet(np.ones(5))
    evidence = (prior * likelihood).sum()
    posterior = prior * likelihood / evidence

    def bound(q):
        return (q * np.log(likelihood)).sum() - (q * np.log(q / prior)).sum()

    assert np.log(evidence) - bound(belief) == pytest.approx((belief * np.log(belief / posterior)).sum())
    assert np.log(evidence) > bound(belief) and np.log(evidence) == pytest.approx(bound(posterior))


def test_average_divergence_is_information_plus_divergence_of_the_average():
    rng = np.random.default_rng(13)
    contexts, prior = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    beliefs = rng.dirichlet(np.ones(5), size=4)
    average = contexts @ beliefs
    divergence = (contexts[:, None] * beliefs * np.log(beliefs / prior)).sum()
    information = (contexts[:, None] * beliefs * np.log(beliefs / average)).sum()
    assert divergence == pytest.approx(information + (average * np.log(average / prior)).sum())


def test_product_of_gaussians_and_its_divergence_from_the_prior():
    rng = np.random.default_rng(14)
    means, variances = rng.normal(size=3), 0.2 + rng.random(3)
    precision = 1 + (1 / variances).sum()
    mean = (means / variances).sum() / precision
    z = np.linspace(-3, 3, 13)
    exponent = -0.5 * (z**2 + ((z[:, None] - means) ** 2 / variances).sum(1)) + 0.5 * precision * (z - mean) ** 2
    assert np.ptp(exponent) < 1e-12
    one, two = torch.distributions.Normal(mean, precision**-0.5), torch.distributions.Normal(0.0, 1.0)
    right = float(torch.distributions.kl_divergence(one, two))
    assert 0.5 * (1 / precision + mean**2 - 1 + math.log(precision)) == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("game", ["binary", "zelda", "sokoban"])
def test_not_adapting_earns_zero_on_direction_with_the_engines_rewards(game):
    tasks = direction(game, "narrow").sample("train", 8, seed=3, antithetic=True)
    np.testing.assert_allclose(tasks.weights.sum(0), 0, atol=1e-12)
    engine = tasks.engine(num_envs=2)
    engine.reset(seed=0)
    start = (np.repeat(engine.maps[:1], 8, 0).copy(), np.repeat(engine.positions[:1], 8, 0).copy())
    engine.set_levels(*start)
    rng = np.random.default_rng(1)
    earned = np.zeros((8, 2))
    for _ in range(60):
        if not engine.active.any():
            break
        shape = engine.positions[:1].shape
        where = rng.integers([engine.maps.shape[3], engine.maps.shape[2]], size=shape)
        actions = rng.integers(engine.num_actions, size=(1, 2))
        engine.step(np.repeat(actions, 8, 0), np.repeat(where, 8, 0))
        earned += engine.rewards
    assert np.abs(earned).max() > 0.5
    np.testing.assert_allclose(earned.mean(0), 0, atol=1e-9)


@pytest.mark.parametrize("half_width", [0.2, math.pi / 4, 1.5])
def test_mean_weight_without_an_arc_and_with_its_antipode_gone_too(half_width):
    phi = np.linspace(-math.pi, math.pi, 2_000_001)[:-1]
    kept = np.abs(phi) > half_width
    assert np.cos(phi[kept]).mean() == pytest.approx(-math.sin(half_width) / (math.pi - half_width), abs=1e-5)
    both = kept & (np.abs(phi) < math.pi - half_width)
    assert np.cos(phi[both]).mean() == pytest.approx(0, abs=1e-5)
    if half_width == math.pi / 4:
        assert math.sin(half_width) / (math.pi - half_width) == pytest.approx(0.30, abs=0.005)

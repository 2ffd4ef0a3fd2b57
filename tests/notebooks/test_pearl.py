"""Notebook 3: right solutions emit what the worked ones emit, each well-known mistake is caught by its own exercise.

Every entry of MISTAKES is a wrong solution with words of the visible message, or None where only the hidden tests can
tell it from a right solution.
"""

import re
from pathlib import Path

import jupytext
import numpy as np
import pytest
import torch

from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted

SOURCE = Path(__file__).parents[2] / "notebooks" / "3_pearl.py"
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
EXERCISES = (
    "transition-inputs",
    "gaussian-product",
    "kl-to-prior",
    "choose-latent",
    "soft-target",
    "actor-loss",
    "soft-update",
)


@pytest.fixture(scope="module")
def sources():
    return {cell.metadata["id"]: cell.source for cell in jupytext.read(SOURCE, fmt="py:percent").cells}


@pytest.fixture(scope="module")
def names(sources, tmp_path_factory):
    """What the imports and the set-up cell define."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HW11_OUTPUT", str(tmp_path_factory.mktemp("reports")))
    namespace = {}
    for cell in ("imports", "setup"):
        exec(compile(sources[cell], cell, "exec"), namespace)
    yield namespace
    patch.undo()


def run_tests(sources, names, exercise, solution, part):
    """Define ``solution`` only and run its tests: ``visible``, ``hidden`` (alone) or ``all``."""
    namespace = dict(names)
    exec(compile(solution, exercise, "exec"), namespace)
    source = sources[f"test-{exercise}"]
    text = {"visible": HIDDEN.sub("", source), "hidden": HIDDEN.search(source)[0], "all": source}[part]
    with collect_emitted() as emitted:
        exec(compile(text, exercise, "exec"), namespace)
    return emitted


@pytest.fixture(scope="module")
def key(sources, names):
    return {exercise: run_tests(sources, names, exercise, sources[exercise], "all") for exercise in EXERCISES}


HEAD = {
    "transition-inputs": "def transition_inputs(states, actions, rewards, next_states):\n    r = rewards[..., None]\n",
    "gaussian-product": """
def gaussian_product(means, variances, mask, prior=True):
    m = mask[..., None]
    lam = m / variances
    one = 1.0 if prior else 0.0
    total = one + lam.sum(-2)
    mean = (lam * means).sum(-2) / total
    count = m.sum(-2).clamp(min=1)
""",
    "kl-to-prior": "def kl_to_prior(mean, variance):\n    log = torch.log(variance)\n",
    "choose-latent": "def choose_latent(mean, variance, noise):\n    if noise is None:\n        return mean\n",
    "soft-target": """
def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    pi, bonus, goes_on = next_log_probs.exp(), -temperature * next_log_probs, 1 - terminated
    q = torch.minimum(next_q1, next_q2)
    value = (pi * (q + bonus)).sum(-1)
""",
    "actor-loss": """
def actor_loss(log_probs, q1, q2, temperature):
    pi, q = log_probs.exp(), torch.minimum(q1, q2).detach()
""",
    "soft-update": "def soft_update(target, online, rate):\n",
}


def wrong(exercise, body, message):
    return exercise, HEAD[exercise] + "\n".join("    " + line for line in body.splitlines()), message


MISTAKES = {
    # 1
    "inputs_without_next_state": wrong(
        "transition-inputs", "return torch.cat([states, actions, r], -1)", "the encoder must see s'"
    ),
    "inputs_without_reward": wrong(
        "transition-inputs", "return torch.cat([states, actions, next_states], -1)", "the reward is missing"
    ),
    "inputs_along_the_first_axis": wrong(
        "transition-inputs",
        "return torch.cat([torch.cat([states, next_states], -1), torch.cat([actions, r], -1)], 0)",
        "below each other",
    ),
    "inputs_state_twice": wrong(
        "transition-inputs", "return torch.cat([states, actions, r, states], -1)", "s stands where s' belongs"
    ),
    "inputs_next_state_twice": wrong(
        "transition-inputs", "return torch.cat([next_states, actions, r, next_states], -1)", "s' stands where s belongs"
    ),
    "inputs_states_exchanged": wrong(
        "transition-inputs", "return torch.cat([next_states, actions, r, states], -1)", "s and s' are exchanged"
    ),
    "inputs_reward_last": wrong(
        "transition-inputs", "return torch.cat([states, actions, next_states, r], -1)", "in another order: s, a, r, s'"
    ),
    "inputs_reward_before_action": wrong(
        "transition-inputs", "return torch.cat([states, r, actions, next_states], -1)", "a comes before r"
    ),
    "inputs_nothing_returned": wrong("transition-inputs", "torch.cat([states, r], -1)", "Is the `return` missing?"),
    "inputs_detached": wrong(
        "transition-inputs", "return torch.cat([states, actions, r, next_states], -1).detach()", None
    ),
    "inputs_for_one_leading_axis": wrong(
        "transition-inputs", "return torch.cat([states, actions, rewards.reshape(-1, 1), next_states], 1)", None
    ),
    "inputs_in_float32": wrong(
        "transition-inputs", "return torch.cat([states, actions, r, next_states], -1).float()", None
    ),
    # 2
    "product_without_prior": wrong(
        "gaussian-product",
        "total = lam.sum(-2).clamp(min=1e-9)\nreturn (lam * means).sum(-2) / total, 1 / total",
        "the prior is left out",
    ),
    "product_plain_average": wrong(
        "gaussian-product", "return (m * means).sum(-2) / count, 1 / total", "all means count alike"
    ),
    "product_plain_average_with_padding": wrong(
        "gaussian-product", "return means.mean(-2), 1 / total", "all means count alike, padding too"
    ),
    "product_weighted_with_variances": wrong(
        "gaussian-product",
        "w = m * variances\nreturn (w * means).sum(-2) / (one + w.sum(-2)), 1 / total",
        "the weights are the variances",
    ),
    "product_ignores_the_mask": wrong(
        "gaussian-product",
        "lam = 1 / variances\ntotal = one + lam.sum(-2)\nreturn (lam * means).sum(-2) / total, 1 / total",
        "the mask is not used",
    ),
    "product_squares_the_variances": wrong(
        "gaussian-product",
        "lam = m / variances**2\ntotal = one + lam.sum(-2)\nreturn (lam * means).sum(-2) / total, 1 / total",
        "squared once more",
    ),
    "product_prior_per_transition": wrong(
        "gaussian-product",
        "total = (lam + one).sum(-2)\nreturn (lam * means).sum(-2) / total, 1 / total",
        "counted once per transition",
    ),
    "product_not_divided": wrong(
        "gaussian-product", "return (lam * means).sum(-2), 1 / total", "divide it by the sum of the precisions"
    ),
    "product_last_factor": wrong("gaussian-product", "return means[..., -1, :], 1 / total", "the last factor's mean"),
    "product_gives_the_precision": wrong("gaussian-product", "return mean, total", "this is the precision"),
    "product_gives_the_deviation": wrong("gaussian-product", "return mean, total**-0.5", "the standard deviation"),
    "product_prior_in_the_mean_only": wrong(
        "gaussian-product", "return mean, 1 / lam.sum(-2).clamp(min=1e-9)", "left out of the precision"
    ),
    "product_mask_in_the_mean_only": wrong(
        "gaussian-product", "return mean, 1 / (one + (1 / variances).sum(-2))", "the mask is not used for the variance"
    ),
    "product_adds_variances": wrong(
        "gaussian-product", "return mean, (m * variances).sum(-2)", "variances were added up"
    ),
    "product_averages_precisions": wrong(
        "gaussian-product", "return mean, count / lam.sum(-2).clamp(min=1e-9)", "precisions were averaged"
    ),
    "product_always_with_prior": wrong(
        "gaussian-product",
        "total = 1 + lam.sum(-2)\nreturn (lam * means).sum(-2) / total, 1 / total",
        "with prior=False the prior must not be a factor",
    ),
    "product_mean_only": wrong("gaussian-product", "return mean", "mean and variance are asked for"),
    "product_detached": wrong("gaussian-product", "return mean.detach(), (1 / total).detach()", None),
    "product_detached_weights": wrong(
        "gaussian-product", "lam = lam.detach()\nreturn (lam * means).sum(-2) / (one + lam.sum(-2)), 1 / total", None
    ),
    "product_changes_the_variances": wrong(
        "gaussian-product",
        "with torch.no_grad():\n    variances.copy_(torch.where(m > 0, variances, 7.0))\nreturn mean, 1 / total",
        None,
    ),
    "product_for_two_leading_axes_only": wrong(
        "gaussian-product",
        "lam = mask[:, :, None] / variances if means.ndim == 3 else lam.flip(0)\n"
        "return (lam * means).sum(-2) / (one + lam.sum(-2)), 1 / (one + lam.sum(-2))",
        None,
    ),
    # 3
    "kl_the_other_way": wrong(
        "kl-to-prior", "return 0.5 * ((1 + mean**2) / variance - 1 + log).sum(-1)", "the wrong direction"
    ),
    "kl_averaged": wrong("kl-to-prior", "return 0.5 * (variance + mean**2 - 1 - log).mean(-1)", "averaged over"),
    "kl_without_half": wrong(
        "kl-to-prior", "return (variance + mean**2 - 1 - log).sum(-1)", "the factor 1/2 is missing"
    ),
    "kl_half_but_not_of_the_logarithm": wrong(
        "kl-to-prior",
        "return (0.5 * (variance + mean**2 - 1) - log).sum(-1)",
        "belongs to the logarithm",
    ),
    "kl_of_deviations": wrong("kl-to-prior", "return 0.5 * (variance**2 + mean**2 - 1 - 2 * log).sum(-1)", "squared"),
    "kl_without_mean": wrong("kl-to-prior", "return 0.5 * (variance - 1 - log).sum(-1)", "the mean is missing"),
    "kl_negative": wrong("kl-to-prior", "return -0.5 * (variance + mean**2 - 1 - log).sum(-1)", "the sign is wrong"),
    "kl_without_logarithm": wrong(
        "kl-to-prior", "return 0.5 * (variance + mean**2 - 1).sum(-1)", "the logarithm is missing"
    ),
    "kl_adds_the_logarithm": wrong(
        "kl-to-prior", "return 0.5 * (variance + mean**2 - 1 + log).sum(-1)", "the sign of the logarithm"
    ),
    "kl_without_minus_one": wrong("kl-to-prior", "return 0.5 * (variance + mean**2 - log).sum(-1)", "wrong values"),
    "kl_summed_over_everything": wrong(
        "kl-to-prior", "return 0.5 * (variance + mean**2 - 1 - log).sum()", "Which axis was summed"
    ),
    "kl_detached": wrong("kl-to-prior", "return 0.5 * (variance + mean**2 - 1 - log).sum(-1).detach()", None),
    "kl_with_a_floor": wrong(
        "kl-to-prior", "return 0.5 * (variance + mean**2 - 1 - (variance + 1e-8).log()).sum(-1)", None
    ),
    "kl_of_a_detached_variance": wrong(
        "kl-to-prior", "v = variance.detach()\nreturn 0.5 * (v + mean**2 - 1 - v.log()).sum(-1)", None
    ),
    # 4
    "latent_scaled_with_the_variance": wrong(
        "choose-latent", "return mean + variance * noise", "scale it with the standard deviation"
    ),
    "latent_ignores_the_noise": wrong(
        "choose-latent", "return mean + 0 * variance + 0 * noise", "the noise is ignored"
    ),
    "latent_without_mean": wrong("choose-latent", "return variance.sqrt() * noise", "the mean is missing"),
    "latent_divided_by_the_deviation": wrong(
        "choose-latent", "return mean + noise / variance.sqrt()", "divided by the standard deviation"
    ),
    "latent_noise_not_scaled": wrong("choose-latent", "return mean + noise", "the noise is not scaled"),
    "latent_draws_its_own_noise": wrong(
        "choose-latent",
        "return mean + variance.sqrt() * torch.linspace(0.3, 0.9, noise.numel()).reshape(noise.shape).to(noise)",
        "use the given one",
    ),
    "latent_detached": wrong("choose-latent", "return (mean + variance.sqrt() * noise).detach()", "the graph is cut"),
    "latent_detaches_the_variance": wrong(
        "choose-latent", "return mean + variance.detach().sqrt() * noise", "no gradient reaches the variance"
    ),
    "latent_detaches_the_mean": wrong(
        "choose-latent", "return mean.detach() + variance.sqrt() * noise", "no gradient reaches the mean"
    ),
    "latent_random_at_test": (
        "choose-latent",
        "def choose_latent(mean, variance, noise):\n"
        "    if noise is None:\n        noise = torch.ones_like(mean) * 0.7\n"
        "    return mean + variance.sqrt() * noise",
        "At test, without noise, the mean is asked for",
    ),
    "latent_zero_at_test": (
        "choose-latent",
        "def choose_latent(mean, variance, noise):\n"
        "    if noise is None:\n        return torch.zeros_like(mean)\n"
        "    return mean + variance.sqrt() * noise",
        "At test, without noise, the mean is asked for",
    ),
    "latent_detached_at_test": (
        "choose-latent",
        "def choose_latent(mean, variance, noise):\n"
        "    return mean.detach() if noise is None else mean + variance.sqrt() * noise",
        None,
    ),
    "latent_takes_the_mean_for_zero_noise": wrong(
        "choose-latent", "return mean if not noise.any() else mean + variance.sqrt() * noise", None
    ),
    # 5
    "target_ignores_the_end": wrong("soft-target", "return (rewards + gamma * value).detach()", "is counted"),
    "target_loses_the_last_reward": wrong(
        "soft-target",
        "return (goes_on * (rewards + gamma * value)).detach()",
        "the reward of a terminated step is lost",
    ),
    "target_without_gamma": wrong("soft-target", "return (rewards + goes_on * value).detach()", "gamma is missing"),
    "target_without_entropy": wrong(
        "soft-target", "return (rewards + gamma * goes_on * (pi * q).sum(-1)).detach()", "the entropy is missing"
    ),
    "target_punishes_entropy": wrong(
        "soft-target", "return (rewards + gamma * goes_on * (pi * (q - bonus)).sum(-1)).detach()", "the wrong sign"
    ),
    "target_without_alpha": wrong(
        "soft-target",
        "return (rewards + gamma * goes_on * (pi * (q - next_log_probs)).sum(-1)).detach()",
        "alpha is missing",
    ),
    "target_of_the_best_action": wrong(
        "soft-target", "return (rewards + gamma * goes_on * q.max(-1).values).detach()", "takes the best action"
    ),
    "target_sums_without_pi": wrong(
        "soft-target", "return (rewards + gamma * goes_on * (q + bonus).sum(-1)).detach()", "summed without pi"
    ),
    "target_averages_actions": wrong(
        "soft-target", "return (rewards + gamma * goes_on * (q + bonus).mean(-1)).detach()", "averaged, all alike"
    ),
    "target_averages_twins": wrong(
        "soft-target",
        "q = (next_q1 + next_q2) / 2\nreturn (rewards + gamma * goes_on * (pi * (q + bonus)).sum(-1)).detach()",
        "the twins are averaged",
    ),
    "target_of_the_larger_twin": wrong(
        "soft-target",
        "q = torch.maximum(next_q1, next_q2)\nreturn (rewards + gamma * goes_on * (pi * (q + bonus)).sum(-1)).detach()",
        "the larger twin",
    ),
    "target_of_the_first_twin": wrong(
        "soft-target",
        "return (rewards + gamma * goes_on * (pi * (next_q1 + bonus)).sum(-1)).detach()",
        "only the first critic",
    ),
    "target_smaller_expectation": wrong(
        "soft-target",
        "v = torch.minimum((pi * next_q1).sum(-1), (pi * next_q2).sum(-1)) + (pi * bonus).sum(-1)\n"
        "return (rewards + gamma * goes_on * v).detach()",
        "the smaller of two expectations",
    ),
    "target_without_reward": wrong("soft-target", "return (gamma * goes_on * value).detach()", "without the reward"),
    "target_carries_a_graph": wrong(
        "soft-target", "return rewards + gamma * goes_on * value", "a target is a constant"
    ),
    "target_detaches_the_critics_only": wrong(
        "soft-target",
        "return rewards + gamma * goes_on * (pi * (q.detach() + bonus)).sum(-1)",
        None,
    ),
    # 6
    "actor_avoids_praise": wrong(
        "actor-loss", "return -(pi * (temperature * log_probs - q)).sum(-1).mean()", "the sign is wrong"
    ),
    "actor_minimises_entropy": wrong(
        "actor-loss", "return (pi * (-temperature * log_probs - q)).sum(-1).mean()", "the entropy has the wrong sign"
    ),
    "actor_without_entropy": wrong("actor-loss", "return -(pi * q).sum(-1).mean()", "the entropy is missing"),
    "actor_without_alpha": wrong("actor-loss", "return (pi * (log_probs - q)).sum(-1).mean()", "alpha is missing"),
    "actor_sums_states": wrong(
        "actor-loss", "return (pi * (temperature * log_probs - q)).sum()", "summed over the states"
    ),
    "actor_averages_actions": wrong(
        "actor-loss", "return (pi * (temperature * log_probs - q)).mean()", "averaged over the actions"
    ),
    "actor_unweighted_average": wrong(
        "actor-loss", "return (temperature * log_probs - q).mean()", "not weighted with pi (average)"
    ),
    "actor_unweighted_sum": wrong(
        "actor-loss", "return (temperature * log_probs - q).sum(-1).mean()", "not weighted with pi (sum)"
    ),
    "actor_averages_twins": wrong(
        "actor-loss",
        "q = ((q1 + q2) / 2).detach()\nreturn (pi * (temperature * log_probs - q)).sum(-1).mean()",
        "the twins are averaged",
    ),
    "actor_believes_the_larger_twin": wrong(
        "actor-loss",
        "q = torch.maximum(q1, q2).detach()\nreturn (pi * (temperature * log_probs - q)).sum(-1).mean()",
        "the larger twin",
    ),
    "actor_asks_one_critic": wrong(
        "actor-loss", "return (pi * (temperature * log_probs - q1.detach())).sum(-1).mean()", "only the first critic"
    ),
    "actor_flatters": wrong(
        "actor-loss",
        "return (pi * (temperature * log_probs - torch.minimum(q1, q2))).sum(-1).mean()",
        "actor_flatters",
    ),
    "actor_detached": wrong(
        "actor-loss",
        "return (pi.detach() * (temperature * log_probs.detach() - torch.minimum(q1, q2))).sum(-1).mean()",
        "no gradient reaches the policy",
    ),
    "actor_detaches_pi": wrong(
        "actor-loss", "return (pi.detach() * (temperature * log_probs - q)).sum(-1).mean()", None
    ),
    "actor_for_one_leading_axis": wrong(
        "actor-loss", "return (pi * (temperature * log_probs - q)).sum() / len(q)", None
    ),
    # 7
    "update_exchanged": wrong(
        "soft-update",
        "return {n: (rate * target[n] + (1 - rate) * online[n]).detach() for n in target}",
        "the two are exchanged",
    ),
    "update_copies": wrong(
        "soft-update", "return {n: online[n].detach().clone() for n in target}", "a copy of the trained parameters"
    ),
    "update_does_nothing": wrong(
        "soft-update", "return {n: target[n].detach().clone() for n in target}", "the target did not move"
    ),
    "update_does_not_scale_down": wrong(
        "soft-update",
        "return {n: (target[n] + rate * online[n]).detach() for n in target}",
        "not scaled down with 1 - rho",
    ),
    "update_gives_the_way": wrong(
        "soft-update", "return {n: (rate * (online[n] - target[n])).detach() for n in target}", "the way to go"
    ),
    "update_carries_a_graph": wrong(
        "soft-update", "return {n: (1 - rate) * target[n] + rate * online[n] for n in target}", "carries a graph"
    ),
    "update_changes_the_target": wrong(
        "soft-update",
        "for n in target:\n    target[n].data.lerp_(online[n].data, rate)\n"
        "return {n: v.clone() for n, v in target.items()}",
        "It was changed in place",
    ),
    "update_returns_nothing": wrong(
        "soft-update", "target.update({n: online[n].detach() for n in target})", "Is the `return` missing?"
    ),
    "update_by_position": wrong(
        "soft-update",
        "return {n: (t + rate * (o - t)).detach() for (n, t), o in zip(target.items(), online.values(), strict=True)}",
        None,
    ),
    "update_shares_memory_at_rate_one": wrong(
        "soft-update",
        "if rate == 1.0:\n    return {n: v.detach() for n, v in online.items()}\n"
        "return {n: (target[n] + rate * (online[n] - target[n])).detach() for n in target}",
        None,
    ),
    "update_shares_memory_at_rate_zero": wrong(
        "soft-update",
        "if rate == 0.0:\n    return dict(target)\n"
        "return {n: (target[n] + rate * (online[n] - target[n])).detach() for n in target}",
        None,
    ),
}

RIGHT = {
    "inputs_in_a_loop": (
        "transition-inputs",
        """
def transition_inputs(s, a, r, n):
    size = s.shape[-1]
    out = torch.zeros(*s.shape[:-1], 2 * size + a.shape[-1] + 1, dtype=s.dtype)
    out[..., :size], out[..., size : -size - 1], out[..., -size:] = s, a, n
    out[..., -size - 1] = r
    print("any output is allowed")
    return out""",
    ),
    "inputs_by_reshape": wrong(
        "transition-inputs",
        "r = rewards.reshape(*rewards.shape, 1)\nreturn torch.concatenate((states, actions, r, next_states), dim=-1)",
        "",
    )[:2],
    "product_with_an_explicit_prior_factor": (
        "gaussian-product",
        """
def gaussian_product(means, variances, mask, prior=True):
    if prior:
        first = torch.zeros_like(means[..., :1, :])
        means, variances = torch.cat([first, means], -2), torch.cat([first + 1, variances], -2)
        mask = torch.cat([torch.ones_like(mask[..., :1]), mask], -1)
    lam = torch.reciprocal(variances) * mask.unsqueeze(-1)
    return torch.einsum("...nz,...nz->...z", lam, means) / lam.sum(-2), 1 / lam.sum(-2)""",
    ),
    "product_transition_by_transition": (
        "gaussian-product",
        """
def gaussian_product(means, variances, mask, prior=True):
    total, weighted = torch.zeros_like(means[..., 0, :]) + float(prior), torch.zeros_like(means[..., 0, :])
    for n in range(means.shape[-2]):
        lam = mask[..., n, None] / variances[..., n, :]
        total, weighted = total + lam, weighted + lam * means[..., n, :]
    return weighted / total, total.reciprocal()""",
    ),
    "kl_from_torch": (
        "kl-to-prior",
        """
def kl_to_prior(mean, variance):
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    return torch.distributions.kl_divergence(torch.distributions.Normal(mean, variance.sqrt()), prior).sum(-1)""",
    ),
    "kl_with_deviations": (
        "kl-to-prior",
        """
def kl_to_prior(mean, variance):
    sigma = variance**0.5
    return torch.sum((sigma**2 + mean.square() - 1) / 2 - torch.log(sigma), dim=-1)""",
    ),
    "latent_in_one_line": (
        "choose-latent",
        "def choose_latent(mean, variance, noise):\n"
        "    return mean if noise is None else torch.addcmul(mean, variance.pow(0.5), noise)",
    ),
    "latent_with_a_default": (
        "choose-latent",
        "def choose_latent(mean, variance, noise=None):\n"
        "    noise = torch.zeros_like(mean) if noise is None else noise\n    return mean + variance.sqrt() * noise",
    ),
    "target_as_a_product": (
        "soft-target",
        """
def soft_target(r, terminated, q1, q2, log_pi, gamma, alpha):
    with torch.no_grad():
        q = torch.stack([q1, q2]).amin(0)
        v = torch.einsum("...a,...a->...", torch.exp(log_pi), q - alpha * log_pi)
        return r + gamma * torch.where(terminated > 0, torch.zeros_like(v), v)""",
    ),
    "target_with_entropy_apart": wrong(
        "soft-target",
        "q = torch.where(next_q1 < next_q2, next_q1, next_q2)\n"
        "entropy = -(pi * next_log_probs).sum(-1)\n"
        "return (rewards + gamma * (1 - terminated) * ((pi * q).sum(-1) + temperature * entropy)).detach()",
        "",
    )[:2],
    "actor_with_entropy_apart": wrong(
        "actor-loss",
        "entropy = -(pi * log_probs).sum(-1)\nreturn -((pi * q).sum(-1) + temperature * entropy).mean()",
        "",
    )[:2],
    "actor_without_grad_for_critics": (
        "actor-loss",
        """
def actor_loss(log_probs, q1, q2, temperature):
    with torch.no_grad():
        q = torch.min(q1, q2)
    pi = torch.softmax(log_probs, -1)
    terms = pi * (temperature * log_probs - q)
    return terms.sum() / terms[..., 0].numel()""",
    ),
    # The gradient of ln pi inside the sum is that of a sum of probabilities: 0.
    "actor_detaches_the_logarithm": wrong(
        "actor-loss", "return (pi * (temperature * log_probs.detach() - q)).sum(-1).mean()", ""
    )[:2],
    "update_with_lerp": (
        "soft-update",
        "def soft_update(target, online, rate):\n"
        "    return {n: torch.lerp(t.detach(), online[n].detach(), rate).clone() for n, t in target.items()}",
    ),
    "update_in_a_loop": (
        "soft-update",
        """
def soft_update(target, online, rate):
    out = {}
    with torch.no_grad():
        for name, value in target.items():
            out[name] = value + rate * (online[name] - value)
    return out""",
    ),
}


def test_every_exercise_has_enough_cases():
    for exercise in EXERCISES:
        assert sum(case[0] == exercise for case in MISTAKES.values()) >= 8
        assert sum(case[0] == exercise for case in RIGHT.values()) >= 2


@pytest.mark.parametrize("exercise", EXERCISES)
def test_worked_solution_emits_the_same_without_the_visible_tests(sources, names, key, exercise):
    assert key[exercise]
    assert compare(run_tests(sources, names, exercise, sources[exercise], "hidden"), key[exercise]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_solutions_pass(sources, names, key, name):
    assert compare(run_tests(sources, names, *RIGHT[name], "all"), key[RIGHT[name][0]]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_visible_tests_name_the_mistake(sources, names, name):
    exercise, solution, message = MISTAKES[name]
    if message is None:
        run_tests(sources, names, exercise, solution, "visible")  # the visible tests cannot tell
    else:
        with pytest.raises(AssertionError, match=re.escape(message)):
            run_tests(sources, names, exercise, solution, "visible")


@pytest.mark.parametrize("name", MISTAKES)
def test_hidden_tests_alone_catch_the_mistake(sources, names, key, name):
    exercise, solution, _ = MISTAKES[name]
    try:
        emitted = run_tests(sources, names, exercise, solution, "hidden")
    except (AssertionError, RuntimeError, IndexError, TypeError, AttributeError, KeyError):
        return  # the cell fails: no marks
    assert compare(emitted, key[exercise])


def test_points_are_as_the_table_says(sources):
    cells = {cell.metadata["id"]: cell.metadata for cell in jupytext.read(SOURCE, fmt="py:percent").cells}
    points = sum(int(data["points"]) for data in cells.values() if "points" in data)
    assert points == 40 and "**40**" in sources["intro"]


# ------------------------------------------------------------------------------------------------- the worked functions


@pytest.fixture(scope="module")
def worked(sources, names):
    namespace = dict(names)
    for exercise in EXERCISES:
        exec(compile(sources[exercise], exercise, "exec"), namespace)
    return namespace


def test_product_agrees_with_numerical_integration(worked):
    means, variances = torch.tensor([[0.3], [2.0], [-1.0]]).double(), torch.tensor([[0.5], [0.2], [3.0]]).double()
    grid = torch.linspace(-10, 10, 20001, dtype=torch.float64)
    density = torch.exp(-0.5 * grid**2 - 0.5 * ((grid - means) ** 2 / variances).sum(0))
    density /= torch.trapezoid(density, grid)
    right = torch.trapezoid(grid * density, grid)
    mean, variance = worked["gaussian_product"](means, variances, torch.ones(3).double())
    assert float(mean) == pytest.approx(float(right), abs=1e-8)
    assert float(variance) == pytest.approx(float(torch.trapezoid((grid - right) ** 2 * density, grid)), abs=1e-8)


def test_divergence_agrees_with_numerical_integration(worked):
    grid = torch.linspace(-20, 20, 40001, dtype=torch.float64)
    belief = torch.distributions.Normal(grid.new_tensor(0.7), grid.new_tensor(0.3).sqrt()).log_prob(grid)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(grid)
    right = torch.trapezoid(belief.exp() * (belief - prior), grid)
    got = worked["kl_to_prior"](torch.tensor([0.7], dtype=grid.dtype), torch.tensor([0.3], dtype=grid.dtype))
    assert float(got) == pytest.approx(float(right), abs=1e-8)


def test_draws_have_the_beliefs_mean_and_variance(worked):
    noise = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0))
    draws = worked["choose_latent"](torch.tensor([2.0]), torch.tensor([0.25]), noise)
    assert float(draws.mean()) == pytest.approx(2.0, abs=0.005) and float(draws.var()) == pytest.approx(0.25, abs=0.005)


def test_target_is_the_soft_value_of_a_chain_that_can_be_solved(worked):
    """One state, two actions, rewards 0 and 1: iterating (6) with the best soft policy gives alpha log-sum-exp."""
    rewards, gamma, alpha = torch.tensor([0.0, 1.0]).double(), 0.9, 0.5
    q = torch.zeros(2).double()
    for _ in range(400):
        log_probs = torch.log_softmax(q / alpha, -1).expand(2, 2)
        q = worked["soft_target"](
            rewards, torch.zeros(2).double(), q.expand(2, 2), q.expand(2, 2), log_probs, gamma, alpha
        )
    value = alpha * np.log(np.exp(0.0 / alpha) + np.exp(1.0 / alpha)) / (1 - gamma)
    assert torch.allclose(q, rewards + gamma * value)


def test_actor_loss_is_smallest_at_the_softmax_of_the_critics(worked):
    q = torch.tensor([[0.3, -1.0, 2.0]]).double()
    best = worked["actor_loss"](torch.log_softmax(q / 0.4, -1), q, q + 1, 0.4)
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = torch.log_softmax(q / 0.4 + torch.randn(1, 3, generator=draw).double(), -1)
        assert worked["actor_loss"](other, q, q + 1, 0.4) > best
    assert float(best) == pytest.approx(float(-0.4 * torch.logsumexp(q / 0.4, -1)))

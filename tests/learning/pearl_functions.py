"""The functions that PEARL's loop calls, written down plainly, so that its tests need no notebook."""

import torch


def transition_inputs(states, actions, rewards, next_states):
    return torch.cat([states, actions, rewards[..., None], next_states], -1)


def gaussian_product(means, variances, mask, prior=True):
    precision = torch.full_like(means[..., 0, :], 1.0 if prior else 0.0)
    total = torch.zeros_like(precision)
    for n in range(means.shape[-2]):
        own = mask[..., n, None] / variances[..., n, :]
        precision, total = precision + own, total + own * means[..., n, :]
    return total / precision, 1 / precision


def kl_to_prior(mean, variance):
    return ((variance + mean**2 - 1) / 2 - variance.sqrt().log()).sum(-1)


def choose_latent(mean, variance, noise):
    return mean if noise is None else mean + variance.sqrt() * noise


def soft_target(rewards, terminated, next_q1, next_q2, next_log_probs, gamma, temperature):
    value = (next_log_probs.exp() * (torch.minimum(next_q1, next_q2) - temperature * next_log_probs)).sum(-1)
    return (rewards + gamma * (1 - terminated) * value).detach()


def actor_loss(log_probs, q1, q2, temperature):
    return (log_probs.exp() * (temperature * log_probs - torch.minimum(q1, q2).detach())).sum(-1).mean()


def soft_update(target, online, rate):
    return {name: ((1 - rate) * target[name] + rate * online[name]).detach() for name in target}

"""The policy in torch and in NumPy: one forward pass, and a backward pass by hand that is autograd's."""

import numpy as np
import pytest
import torch
from fights import random_weights

from metapcg.learning.policies import expand
from metapcg.personal.modular_mind import ModularMind, from_numpy, to_numpy
from metapcg.personal.numpy_mind import NumpyMind
from metapcg.personal.weights_file import SIZES, MindSizes, load_weights, save_weights

TOLERANCE = 1e-9

SIZES_TESTED = {
    "the boss's": SIZES,
    "all different": MindSizes(features=5, actions=4, owned=(2, 0), free=1, units=3, latent=6, gate=7),
    "nobody owns": MindSizes(features=5, actions=4, owned=(), free=2, units=3, latent=6, gate=7),
    "everybody owns": MindSizes(features=5, actions=3, owned=(2, 1, 0), free=0, units=3, latent=6, gate=7),
}


def decisions(sizes, number=40, seed=0):
    """Random features, masks with at least one legal action, legal actions, advantages of both signs."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(number, sizes.features))
    legal = generator.random((number, sizes.actions)) < 0.6
    legal[np.arange(number), generator.integers(sizes.actions, size=number)] = True
    legal[0] = np.arange(sizes.actions) == 0  # only one is legal: no gradient, and no NaN
    actions = np.array([generator.choice(np.flatnonzero(row)) for row in legal])
    advantages = generator.normal(size=number)
    assert (advantages > 0).any() and (advantages < 0).any() and not legal.all()
    return features, legal, actions, advantages


def torch_loss(policy, params, features, legal, actions, advantages, entropy_weight):
    obs = {"state": torch.as_tensor(features), "legal": torch.as_tensor(legal).double()}
    dist = policy.distribution(params, obs)
    gain = torch.as_tensor(advantages) * dist.log_prob(torch.as_tensor(actions))
    return -(gain + entropy_weight * dist.entropy()).mean()


def torch_gradients(sizes, weights, data, entropy_weight):
    params = {k: v.requires_grad_() for k, v in from_numpy(weights, torch.float64).items()}
    loss = torch_loss(ModularMind(sizes), params, *data, entropy_weight)
    return loss.item(), dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))


@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
@pytest.mark.parametrize("sizes", SIZES_TESTED.values(), ids=SIZES_TESTED)
def test_every_gradient_is_autograds(sizes, entropy_weight):
    weights, data = random_weights(1, sizes), decisions(sizes)
    mind = NumpyMind(weights, sizes)
    loss, expected = torch_gradients(sizes, weights, data, entropy_weight)
    assert mind.loss(*data, entropy_weight) == pytest.approx(loss, rel=1e-12)
    got = sizes.views(mind.gradient(*data, entropy_weight))
    assert set(got) == set(expected) == set(sizes.shapes)
    for name in got:
        right = expected[name].numpy()
        if right.size:
            assert np.abs(right).max() > 1e-6, f"{name}: a gradient of zero proves nothing"
            assert np.abs(got[name] - right).max() / np.abs(right).max() < TOLERANCE, name


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_with_advantages_of_one_sign(sign):
    weights, data = random_weights(2), decisions(SIZES, seed=3)
    data = (*data[:3], sign * np.abs(data[3]))
    _, expected = torch_gradients(SIZES, weights, data, 0.01)
    got = SIZES.views(NumpyMind(weights).gradient(*data, 0.01))
    for name, right in expected.items():
        assert np.abs(got[name] - right.numpy()).max() / np.abs(right.numpy()).max() < TOLERANCE, name


def test_gradient_is_the_slope_of_the_loss():
    """A check that needs neither torch nor the chain rule."""
    mind, data = NumpyMind(random_weights(4)), decisions(SIZES)
    gradient = mind.gradient(*data, 0.1)
    direction = np.random.default_rng(0).normal(size=gradient.shape)
    start, step = mind.flat.copy(), 1e-5
    values = []
    for side in (step, -step):
        mind.flat[:] = start + side * direction
        values.append(mind.loss(*data, 0.1))
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-6)


@pytest.mark.parametrize("sizes", SIZES_TESTED.values(), ids=SIZES_TESTED)
def test_batched_backward_equals_the_one_step_by_step(sizes):
    mind, data = NumpyMind(random_weights(5, sizes), sizes), decisions(sizes)
    steps = [mind.step_gradient(*row, 0.2) for row in zip(*data, strict=True)]
    together = mind.gradient(*data, 0.2)
    assert np.abs(np.mean(steps, axis=0) - together).max() < 1e-13 * np.abs(together).max() * 100


def test_illegal_actions_are_never_chosen_and_do_not_move():
    features, legal, actions, advantages = decisions(SIZES)
    mind = NumpyMind(random_weights(6))
    probabilities = mind.probabilities(features, legal)
    assert (probabilities[~legal] == 0.0).all()
    assert np.allclose(probabilities.sum(-1), 1.0, rtol=0, atol=1e-12)
    never = np.zeros_like(legal)
    never[:, :2] = True
    gradient = SIZES.views(mind.gradient(features, never, actions % 2, advantages, 0.5))
    assert (gradient["coordinator.bias"][2:] == 0.0).all() and (gradient["coordinator.bias"][:2] != 0.0).any()


def test_one_state_and_many_give_the_same_policy(weights):
    features, legal, *_ = decisions(SIZES)
    mind = NumpyMind(weights)
    together = mind.probabilities(features.reshape(8, 5, -1), legal.reshape(8, 5, -1)).reshape(40, -1)
    for t in (0, 7):
        assert np.allclose(mind.probabilities(features[t], legal[t]), together[t], rtol=0, atol=1e-14)


def test_tasks_own_parameters_equal_a_loop_over_tasks():
    policy = ModularMind()
    sets = [from_numpy(random_weights(seed), torch.float64) for seed in range(3)]
    together = {name: torch.stack([params[name] for params in sets]) for name in sets[0]}
    features, legal, *_ = decisions(SIZES, 3 * 4 * 5)
    obs = {
        "state": torch.as_tensor(features).reshape(3, 4, 5, -1),
        "legal": torch.as_tensor(legal).double().reshape(3, 4, 5, -1),
    }
    batched = policy.distribution(together, obs).log_probs
    for m, params in enumerate(sets):
        alone = policy.distribution(params, {k: v[m] for k, v in obs.items()}).log_probs
        assert torch.allclose(batched[m], alone, rtol=0, atol=1e-12)
    shared = policy.distribution(expand(sets[0], 3), obs).log_probs
    assert torch.allclose(shared, policy.distribution(sets[0], obs).log_probs, rtol=0, atol=1e-12)


def test_second_derivatives_exist():
    """Meta-training differentiates through the inner step."""
    sizes = SIZES_TESTED["all different"]
    params = {k: v.requires_grad_() for k, v in from_numpy(random_weights(1, sizes), torch.float64).items()}
    data = decisions(sizes)
    loss = torch_loss(ModularMind(sizes), params, *data, 0.1)
    first = torch.autograd.grad(loss, list(params.values()), create_graph=True)
    second = torch.autograd.grad(sum((g**2).sum() for g in first), list(params.values()))
    assert all(bool(torch.isfinite(g).all()) for g in second) and any(float(g.abs().max()) > 0 for g in second)


def test_first_policy_is_nearly_uniform():
    policy = ModularMind()
    params = policy.init(torch.Generator().manual_seed(0))
    assert {name: tuple(value.shape) for name, value in params.items()} == SIZES.shapes
    mind = NumpyMind(to_numpy(params))
    features, _, *_ = decisions(SIZES)
    probabilities = mind.probabilities(features, np.ones((len(features), SIZES.actions), bool))
    assert np.abs(probabilities - 1 / SIZES.actions).max() < 0.1


def test_told_policy_reads_its_task():
    policy = ModularMind(task_features=2)
    params = policy.init(torch.Generator().manual_seed(0))
    obs = {"state": torch.zeros(1, 1, SIZES.features), "legal": torch.ones(1, 1, SIZES.actions)}
    told = [
        policy.distribution(params, {**obs, "task": torch.tensor([[task]])}).logits for task in ([0.0, 1.0], [1.0, 0.0])
    ]
    assert not torch.allclose(*told)


def test_weights_go_from_torch_to_numpy_through_a_file(tmp_path):
    policy = ModularMind()
    params = policy.init(torch.Generator().manual_seed(3))
    save_weights(tmp_path / "boss.npz", to_numpy(params))
    weights = load_weights(tmp_path / "boss.npz")
    features, legal, *_ = decisions(SIZES)
    obs = {"state": torch.as_tensor(features), "legal": torch.as_tensor(legal).double()}
    expected = policy.distribution({k: v.double() for k, v in params.items()}, obs).log_probs.exp().numpy()
    assert np.abs(NumpyMind(weights).probabilities(features, legal) - expected).max() < 1e-14
    assert list(tmp_path.iterdir()) == [tmp_path / "boss.npz"], "a temporary file was left"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("drive.bias"), "missing: drive.bias"),
        (lambda w: w.update(extra=np.zeros(1)), "unknown: extra"),
        (lambda w: w.update({"latent.bias": np.zeros(3)}), "latent.bias needs shape"),
        (lambda w: w["link.gate.weight"].__setitem__((0, 0), np.nan), "link.gate.weight holds NaN"),
    ],
)
def test_wrong_weights_are_refused_by_name(weights, change, message):
    change(weights)
    with pytest.raises(ValueError, match=message):
        NumpyMind(weights)


def test_broken_weight_files_are_refused_in_one_line(tmp_path):
    for name, data in (("text", b"hello"), ("empty", b""), ("cut", b"PK\x03\x04 and no more")):
        (tmp_path / name).write_bytes(data)
    np.save(tmp_path / "single.npy", np.zeros(3))
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], dtype=object))
    for name in ("text", "empty", "cut", "single.npy", "pickled.npz", "absent"):
        with pytest.raises(ValueError, match=name) as caught:
            load_weights(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_senseless_sizes_are_refused():
    with pytest.raises(ValueError, match="owned"):
        MindSizes(owned=(1, 1))
    with pytest.raises(ValueError, match="owned"):
        MindSizes(actions=3, owned=(3,))
    with pytest.raises(ValueError, match="units"):
        MindSizes(units=0)

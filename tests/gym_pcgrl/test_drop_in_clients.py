"""A real client: Stable-Baselines3 trains on the wrapped environment and gets better."""

import importlib.util

import pytest

from gym_pcgrl.wrappers import CroppedImagePCGRLWrapper

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None,
    reason="stable-baselines3 is not installed (pip install 'metapcg[test]')",
)


def cropped_binary():
    """Binary narrow, rewarded for connecting the level: what a few thousand steps are enough to learn."""
    return CroppedImagePCGRLWrapper("binary-narrow-v0", 5, random_probs=False, rewards={"path-length": 0})


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 3e-3}),
        ("A2C", {"n_steps": 8, "learning_rate": 2e-3}),
    ],
)
def test_stable_baselines3_learns(algorithm, settings):
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env = make_vec_env(cropped_binary, 8, seed=0)
    model = getattr(stable_baselines3, algorithm)(
        "MlpPolicy", env, gamma=0.9, seed=0, device="cpu", policy_kwargs={"net_arch": [32]}, **settings
    )
    unseen = make_vec_env(cropped_binary, 8, seed=100)
    before, _ = evaluate_policy(model, unseen, 16, deterministic=False)
    model.learn(4096)
    after, _ = evaluate_policy(model, unseen, 16, deterministic=False)
    assert model.num_timesteps == 4096
    assert after > before + 15, (before, after)  # seen: 33 to 67 over three seeds of each


def test_stable_baselines3_checker_accepts_the_wrapped_environment():
    from stable_baselines3.common.env_checker import check_env

    check_env(cropped_binary(), warn=False)

"""How long a run may take, and on which device: read from the environment, in one place.

Notebooks run in kernels of their own, started by Jupyter, nbgrader or ``compile_and_run.sh``; environment variables
are the one way of passing settings that all of them share.

``HW11_PROFILE``
    ``smoke`` (seconds: does it run?), ``quick`` (default: real learning within minutes) or ``full`` (several seeds,
    hours).
``HW11_DEVICE``
    ``auto`` (default), ``cpu`` or ``cuda``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    pass

PROFILES = ("smoke", "quick", "full")
DEVICES = ("auto", "cpu", "cuda")

Choice = TypeVar("Choice")


def current_profile() -> str:
    """Return the profile's name from ``HW11_PROFILE``: ``smoke``, ``quick`` or ``full``.

    Raises:
        ValueError: the variable holds another word.
    """
    return check_profile(os.environ.get("HW11_PROFILE") or "quick")


def check_profile(name: str) -> str:
    """Return the name if it is a profile's, else raise a ValueError that lists the profiles."""
    if name not in PROFILES:
        raise ValueError(f"profile: unknown value {name!r}; choose one of {', '.join(PROFILES)}")
    return name


def check_device(name: str) -> str:
    """Return the name if it is a device that can be used here.

    Raises:
        ValueError: an unknown name, or CUDA is asked for and there is none.
    """
    if name not in DEVICES:
        raise ValueError(f"device: unknown value {name!r}; choose one of {', '.join(DEVICES)}")
    if name == "cuda":
        from metapcg.learning.device import choose_device  # torch takes a second to import; only this case needs it

        choose_device(name)
    return name


def by_profile(*, smoke: Choice, quick: Choice, full: Choice) -> Choice:
    """Return the argument that belongs to the current profile.

    >>> num_iterations = by_profile(smoke=2, quick=60, full=500)
    """
    return {"smoke": smoke, "quick": quick, "full": full}[current_profile()]

"""Where tensors live and how many threads torch uses: decided here, once.

Networks in this project are small; on them two threads are rarely faster than one, and more threads than free cores are
slower. ``configure`` is called by every entry point before the first tensor operation.
"""

from __future__ import annotations

import os

import torch

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str = "auto") -> torch.device:
    """Return the torch device for ``auto``, ``cpu`` or ``cuda``.

    Raises:
        ValueError: the name is unknown, or CUDA is asked for and torch sees none.
    """
    if name not in DEVICES:
        raise ValueError(f"device: unknown value {name!r}; choose one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: cuda was asked for, but torch sees no CUDA device; use --device cpu or auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def configure(device: str | None = None, threads: int | None = None) -> torch.device:
    """Set torch's thread count and return the device.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``; None reads ``HW11_DEVICE`` (default ``auto``).
        threads: intra-operation threads; None reads ``HW11_THREADS`` (default 1).

    Raises:
        ValueError: unknown device, or a thread count that is not a positive integer.
    """
    if threads is None:
        text = os.environ.get("HW11_THREADS", "")
        if text and not (text.isdigit() and int(text) > 0):
            raise ValueError(f"HW11_THREADS: expected a positive integer, got {text!r}")
        threads = int(text) if text else 1
    torch.set_num_threads(threads)
    return choose_device(device or os.environ.get("HW11_DEVICE", "auto"))

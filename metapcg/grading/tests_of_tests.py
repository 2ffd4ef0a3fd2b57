"""``python -m metapcg mutants | attacks``: what the command line accepts; both stand in modules of their own."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add both commands to the parser."""
    mutants = commands.add_parser(
        "mutants", help="grade wrong and right solutions: do the tests tell them apart? (needs tests/ and answers/)"
    )
    mutants.add_argument(
        "--only", action="append", default=[], metavar="PART", help="those whose NOTEBOOK/EXERCISE/NAME holds PART"
    )
    mutants.add_argument("--workers", type=_positive, metavar="N", help="processes (default: the cores)")
    mutants.add_argument("--seeds", type=_positive, default=20, metavar="N", help="repetitions of drawn tests (20)")
    mutants.set_defaults(run=run_mutants)
    attacks = commands.add_parser(
        "attacks", help="grade hostile and damaged submissions: is anything gained or harmed? (needs tests/, answers/)"
    )
    attacks.add_argument("--only", action="append", default=[], metavar="PART", help="those whose AIM/NAME holds PART")
    attacks.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes (default: 1)")
    attacks.add_argument("--output", type=Path, help="the table (default: reports/HW11_Attacks.md)")
    attacks.set_defaults(run=run_attacks)


def run_mutants(options: argparse.Namespace) -> int:
    """Grade all mutants; see ``metapcg.grading.mutants``."""
    from metapcg.grading.mutants import run

    return run(options)


def run_attacks(options: argparse.Namespace) -> int:
    """Grade all attacks; see ``metapcg.grading.attacks``."""
    from metapcg.grading.attacks import run

    return run(options)


def _positive(text: str) -> int:
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)

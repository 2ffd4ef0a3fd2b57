"""The command line: ``python -m metapcg COMMAND``.

One ``add_*`` function per subcommand; what a command needs is imported when it runs, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path


def add_compile(commands: argparse._SubParsersAction) -> None:
    """``compile``: notebooks/*.py → answers/, base_code/, missing ones in code/, and the papers in reports/."""
    parser = commands.add_parser(
        "compile", help="build notebooks, questions and rubric from their sources in notebooks/"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a committed notebook or paper is out of step"
    )
    parser.set_defaults(run=run_compile)


def run_compile(options: argparse.Namespace) -> int:
    """Build or check notebooks and papers; 0 when all is well, 1 when ``--check`` finds one out of step."""
    from metapcg.grading.build import check_in_step, compile_notebooks
    from metapcg.grading.papers import compile_papers, out_of_step
    from metapcg.learning.solutions import repository_root

    root = repository_root()
    changes = check_in_step(root) if options.check else compile_notebooks(root)
    changes.written += out_of_step(root) if options.check else compile_papers(root)
    for path in changes.written:
        print(f"out of step with its source: {path}" if options.check else f"written: {path}")
    for path in changes.copied:
        print(f"copied from its starter: {path}")
    for path in changes.without_source:
        print(f"no source in notebooks/ gives {path}: delete it, or restore its source")
    if options.check and (changes.written or changes.without_source):
        print("error: run './compile_and_run.sh compile' and commit what it writes", file=sys.stderr)
        return 1
    if not (changes.written or changes.copied or changes.without_source):
        print("notebooks and papers are up to date")
    return 0


def add_run(commands: argparse._SubParsersAction) -> None:
    """``run``: execute notebooks headlessly."""
    parser = commands.add_parser("run", help="execute the notebooks headlessly and write reports/")
    parser.add_argument(
        "--notebooks", choices=("answers", "code"), help="default: answers, where there are any, else code"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PART", help="only notebooks whose name holds PART"
    )
    parser.add_argument("--profile", help="smoke, quick or full (default: HW11_PROFILE, else quick)")
    parser.add_argument("--device", help="auto, cpu or cuda (default: HW11_DEVICE, else auto)")
    parser.add_argument("--output", type=Path, help="folder of results (default: HW11_OUTPUT, else reports/)")
    parser.add_argument("--cell-timeout", type=int, metavar="SECONDS", help="for one cell (default: two hours)")
    parser.add_argument("--workers", type=_positive, metavar="N", help="notebooks at once (default: cores, 4 at most)")
    parser.set_defaults(run=run_notebooks)


def run_notebooks(options: argparse.Namespace) -> int:
    """Execute the notebooks and write the report; 0 when every notebook succeeded, else 1."""
    from metapcg.experiments import execute
    from metapcg.experiments.outputs import output_dir
    from metapcg.experiments.profiles import check_device, check_profile
    from metapcg.learning.solutions import ASSIGNMENT, repository_root

    profile = check_profile(options.profile or os.environ.get("HW11_PROFILE") or "quick")
    device = check_device(options.device or os.environ.get("HW11_DEVICE") or "auto")
    timeout = execute.CELL_TIMEOUT if options.cell_timeout is None else options.cell_timeout
    if not timeout > 0:
        raise ValueError(f"--cell-timeout: expected seconds above 0, got {timeout}")
    root = repository_root()
    which = options.notebooks or ("answers" if any((root / "answers" / ASSIGNMENT).glob("*.ipynb")) else "code")
    paths = execute.find_notebooks(root / which / ASSIGNMENT, options.only)
    from metapcg.experiments.report import write_report  # slow to import, and not needed to refuse wrong settings

    # A student's results do not replace those of the worked notebooks.
    output = options.output or (output_dir() if which == "answers" else output_dir() / "code")
    output = output.expanduser().absolute()
    print(f"running {len(paths)} notebook(s) of {which}/{ASSIGNMENT}, profile {profile}, device {device}")
    results = execute.run_notebooks(
        paths, output, profile=profile, device=device, cell_timeout=timeout, workers=options.workers
    )
    page = write_report(output, profile)
    failed = [result.name for result in results if result.status != "ok"]
    print(f"\nlook at  {page}\n    and  {output / 'notebooks'}")
    if failed:
        others = len(results) - len(failed)
        print(f"error: {len(failed)} notebook(s) failed ({', '.join(failed)}); {others} other(s) ran", file=sys.stderr)
    return 1 if failed else 0


def add_experiments(commands: argparse._SubParsersAction) -> None:
    """``experiments``: the experiment matrix."""
    parser = commands.add_parser("experiments", help="list, run, watch and report the experiment matrix")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    texts = {
        "list": "what there is, and how many runs each experiment has",
        "run": "execute what is not complete; the same command goes on after an interruption",
        "status": "which runs are complete, begun, failed or not begun",
        "report": "write report.html, report.md, tables and figures from the run folders",
    }
    for name, text in texts.items():
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("--profile", help="smoke, quick or full (default: HW11_PROFILE, else quick)")
        action.add_argument("--output", type=Path, help="folder of results (default: HW11_OUTPUT, else reports/)")
        action.add_argument("--matrix", type=Path, metavar="FILE", help="another matrix than the project's (TOML)")
        if name != "report":
            action.add_argument(
                "--only", action="append", default=[], metavar="PART", help="runs whose EXPERIMENT/NAME holds PART"
            )
        if name == "run":
            action.add_argument("--workers", type=_positive, metavar="N", help="processes (default: the cores)")
            action.add_argument("--dask", metavar="ADDRESS", help="use the dask scheduler there, e.g. tcp://host:8786")
            action.add_argument("--device", help="auto, cpu or cuda (default: HW11_DEVICE, else cpu)")
        if name == "report":
            kind = action.add_mutually_exclusive_group()
            kind.add_argument(
                "--reference", action="store_true", help="write reports/reference and EXPERIMENTS.md from these runs"
            )
            kind.add_argument("--update", action="store_true", help="only rewrite EXPERIMENTS.md")
            kind.add_argument("--check", action="store_true", help="write nothing; exit 1 if EXPERIMENTS.md is stale")
        action.set_defaults(run=run_experiments)


def run_experiments(options: argparse.Namespace) -> int:
    """Carry out ``experiments ACTION``; see ``metapcg.experiments.command``."""
    from metapcg.experiments.command import run

    return run(options)


def _positive(text: str) -> int:
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def add_train(commands: argparse._SubParsersAction) -> None:
    """``train``: one policy on several games and representations."""
    text = "train one policy on several games and representations, with checkpoints"
    parser = commands.add_parser("train", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("algorithm", choices=("maml", "fomaml", "rl2", "pearl"))
    parser.add_argument("--games", nargs="+", default=["zelda", "sokoban", "binary"], metavar="GAME")
    parser.add_argument("--representations", nargs="+", default=["narrow", "wide", "turtle"], metavar="NAME")
    parser.add_argument("--family", default="direction", help="direction, weights or target (default: %(default)s)")
    parser.add_argument("--iterations", type=_positive, metavar="N", help="default: the profile's, as below")
    parser.add_argument("--meta-lr", type=float, metavar="RATE", help="step size of the outer loop")
    parser.add_argument("--inner-lr", type=float, metavar="RATE", help="step size of the inner loop")
    parser.add_argument("--inner-steps", type=_positive, metavar="K", help="inner steps")
    parser.add_argument("--meta-batch", type=_positive, metavar="M", help="tasks per iteration, over all combinations")
    parser.add_argument("--n-trajectories", type=_positive, metavar="E", help="episodes per task and rollout")
    parser.add_argument("--horizon", type=_positive, metavar="T", help="most steps of an episode")
    parser.add_argument("--second-order", action="store_true", help="what maml does anyway, and fomaml does not")
    parser.add_argument("--surrogate", help="inner objective: naive, lvc or dice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", help="smoke, quick or full: what the sizes default to (default: HW11_PROFILE)")
    parser.add_argument("--solutions", metavar="NOTEBOOK", help="a notebook whose functions train (default: worked)")
    parser.add_argument("--resources", default="off", metavar="off|live|FILE", help="penalise a busy machine: as it is "
                        "now, which no one can repeat, or as a trace recorded it (default: off)")  # fmt: skip
    parser.add_argument("--deadlock-penalty", type=float, default=0.0, metavar="P", help="what a crate of a Sokoban "
                        "level that can never reach a target costs per step, e.g. 1.5 (default: 0)")  # fmt: skip
    parser.add_argument("--validate-every", type=_positive, default=10, metavar="N", help="iterations")
    parser.add_argument("--checkpoint-every", type=_positive, default=50, metavar="N", help="iterations")
    parser.add_argument("--experiment-name", metavar="NAME", help="name of the run's folder")
    parser.add_argument("--output", type=Path, help="folder of the runs' folders (default: trained/ in the results)")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.set_defaults(run=_trainer_command("run_train"))


def add_adapt(commands: argparse._SubParsersAction) -> None:
    """``adapt`` and ``generate``: what a checkpoint of ``train`` can do."""
    adapt = commands.add_parser("adapt", help="adapt a checkpoint to new tasks: returns before and after")
    adapt.add_argument("--tasks", type=_positive, default=4, metavar="M", help="number of tasks of the split")
    adapt.add_argument("--episodes", type=_positive, metavar="E", help="episodes per task and step")
    adapt.add_argument("--gallery", nargs="?", const="", metavar="PNG", help="draw levels before and after")
    adapt.set_defaults(run=_trainer_command("run_adapt"))
    generate = commands.add_parser("generate", help="draw levels made by a checkpoint, adapted to one task")
    generate.add_argument("--levels", type=_positive, default=16, metavar="N", help="levels, also episodes per step")
    generate.add_argument("--picture", metavar="PNG", help="where to (default: beside the checkpoint)")
    generate.set_defaults(run=_trainer_command("run_generate"))
    for parser in (adapt, generate):
        parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a .pt file that train wrote")
        parser.add_argument("--game", help="default: the first it was trained on")
        parser.add_argument("--representation", help="default: the first it was trained on")
        parser.add_argument("--weights", metavar="STATISTIC=NUMBER,…", help="a task of your own")
        parser.add_argument("--split", default="interpolation", help="which tasks otherwise (default: %(default)s)")
        parser.add_argument("--steps", type=_positive, metavar="K", help="adaptation steps")
        parser.add_argument("--seed", type=int, help="default: the run's")
        parser.add_argument("--solutions", metavar="NOTEBOOK", help="as for train")
        parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")


def add_reach(commands: argparse._SubParsersAction) -> None:
    """``reach``: the same MAML functions on a simulated robot arm."""
    text = "MAML on Meta-World's ML1 reach (needs: pip install -e '.[metaworld]')"
    parser = commands.add_parser("reach", help=text, description=f"{text}.")
    parser.add_argument("--iterations", type=_positive, metavar="N", help="meta-updates")
    parser.add_argument("--tasks", type=_positive, metavar="M", help="goals per meta-update")
    parser.add_argument("--episodes", type=_positive, metavar="E", help="episodes per goal and rollout")
    parser.add_argument("--horizon", type=_positive, metavar="T", help="steps of an episode")
    parser.add_argument("--inner-lr", type=float, metavar="RATE", help="step size of the inner loop")
    parser.add_argument("--test-tasks", type=_positive, metavar="M", help="goals that are adapted to at the end")
    parser.add_argument("--test-episodes", type=_positive, metavar="E", help="episodes per goal and step there")
    parser.add_argument("--surrogate", default="lvc", help="inner objective: naive, lvc or dice (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solutions", metavar="NOTEBOOK", help="a notebook whose functions train (default: worked)")
    parser.set_defaults(run=run_reach)


def run_reach(options: argparse.Namespace) -> int:
    """Train and test on ML1 reach; see ``metapcg.experiments.reach``."""
    from metapcg.experiments.reach import run

    return run(options)


def _trainer_command(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from metapcg.experiments import trainer_command

        return getattr(trainer_command, name)(options)

    return run


def add_parity(commands: argparse._SubParsersAction) -> None:
    """``parity``: replay recordings of the original gym-pcgrl."""
    parser = commands.add_parser("parity", help="replay recordings of gym-pcgrl through this engine")
    parser.add_argument("folder", metavar="DIR", help="folder with stats_*.json.gz and rollouts_*.json.gz")
    parser.set_defaults(run=run_parity)


def run_parity(options: argparse.Namespace) -> int:
    """Print how many recordings agree, file by file; 0 when all do, else 1."""
    from metapcg.envs.parity import run

    return run(options.folder)


def add_grading(commands: argparse._SubParsersAction) -> None:
    """``grade``, ``release``, ``check`` and ``submit``; see ``metapcg.grading.command``."""
    from metapcg.grading.command import add_commands

    add_commands(commands)


def add_tests_of_tests(commands: argparse._SubParsersAction) -> None:
    """``mutants`` and ``attacks``; see ``metapcg.grading.tests_of_tests``."""
    from metapcg.grading.tests_of_tests import add_commands

    add_commands(commands)


def add_play(commands: argparse._SubParsersAction) -> None:
    """``play``; see ``metapcg.play.command``."""
    from metapcg.play.command import add_command

    add_command(commands)


def make_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand."""
    program = os.environ.get("HW11_PROGRAM", ".venv/bin/python -m metapcg")  # as compile_and_run.sh was called
    parser = argparse.ArgumentParser(prog=program, description="Meta-RL on procedural content generation")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_compile(commands)
    add_run(commands)
    add_experiments(commands)
    add_train(commands)
    add_adapt(commands)
    add_reach(commands)
    add_parity(commands)
    add_grading(commands)
    add_tests_of_tests(commands)
    add_play(commands)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status. A mistake of the user's is one line on standard error.

    ``HW11_TRACEBACK=1`` shows where an error was raised.
    """
    options = make_parser().parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, OSError) as error:
        if os.environ.get("HW11_TRACEBACK"):
            raise
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; earlier results are kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

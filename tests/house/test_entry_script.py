"""compile_and_run.sh with stand-ins for Python, pip and df: what it sets up, when, and what it says when it cannot.

The stand-in interpreters write down every call. ``-m venv`` makes an environment with another stand-in, ``-m pip`` does
what the variable FAKE_PIP says; everything else that needs a real interpreter gets the one that runs these tests.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The environment's interpreter.
ENVIRONMENT_PYTHON = """#!/bin/bash
echo "env $*" >>"$CALLS"
case "$1 $2" in
    "-m pip")
        if [ "$3" = --version ]; then exit 0; fi
        case $FAKE_PIP in
            network) echo "WARNING: Retrying: Failed to establish a new connection"; echo "ERROR: none"; exit 1 ;;
            disk) echo "ERROR: Could not install: [Errno 28] No space left on device"; exit 1 ;;
            conflict) echo "Collecting x"; echo "ERROR: ResolutionImpossible"; exit 1 ;;
            killed) kill -9 $PPID; exit 1 ;;
            *) echo "Downloading torch-2.whl (190.5 MB)"; echo "Installing collected packages: a, b, c"; exit 0 ;;
        esac ;;
    "-m pytest") echo "settings ${HW11_PROFILE-} ${HW11_OUTPUT-}" >>"$CALLS"; exit ${FAKE_EXIT:-0} ;;
    "-m metapcg") if [ -n "${HW11_CALLED_FROM-}" ]; then echo "called from $HW11_CALLED_FROM" >>"$CALLS"; fi
        if [ -n "${HW11_OUTPUT-}" ]; then echo "results $HW11_OUTPUT" >>"$CALLS"; fi; exit ${FAKE_EXIT:-0} ;;
esac
exec "$REAL_PYTHON" "$@"
"""

# An interpreter on PATH.
SYSTEM_PYTHON = """#!/bin/bash
echo "system VERSION $*" >>"$CALLS"
case "$1 $2" in
    "-c import sys"*) echo VERSION ;;
    "-c import venv"*) exit ${FAKE_NO_VENV:-0} ;;
    "-m venv") rm -rf "$4"; mkdir -p "$4/bin"; cp "$FAKE/environment_python" "$4/bin/python" ;;
    *) exit 1 ;;
esac
"""


FAKE_DF = """#!/bin/bash
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "/dev/my disk 9 9 ${FAKE_FREE:-99000000} 5% /my disk"
"""


class Machine:
    """A folder with spaces that holds the script, and a PATH with stand-ins only in front of the system's tools."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "home work" / "hw 11"
        self.root.mkdir(parents=True)
        for name in ("compile_and_run.sh", "requirements.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root / name)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.program("environment_python", ENVIRONMENT_PYTHON)
        for tool in (
            "bash",
            "env",
            "cat",
            "cksum",
            "cp",
            "dirname",
            "grep",
            "mkdir",
            "mv",
            "readlink",
            "rm",
            "sed",
            "tail",
        ):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("df", FAKE_DF)
        self.variables = {
            "PATH": str(self.bin),
            "CALLS": str(self.calls_file),
            "FAKE": str(self.bin),
            "REAL_PYTHON": sys.executable,
            "HOME": str(folder),
        }

    def program(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def add_python(self, name: str, version: str) -> Path:
        return self.program(name, SYSTEM_PYTHON.replace("VERSION", version))

    def run(self, *arguments: str, script: str | None = None, cwd: Path | None = None, **variables: str):
        """Call the script; return (exit status, standard output, standard error)."""
        ended = subprocess.run(
            [script or str(self.root / "compile_and_run.sh"), *arguments],
            cwd=cwd or self.root,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def calls(self) -> list[str]:
        """The stand-ins' calls since the last time, without those that only look."""
        lines = self.calls_file.read_text().splitlines()
        self.calls_file.write_text("")
        looking = ("-c import", "-m pip --version")
        return [line for line in lines if line != "env -" and not any(words in line for words in looking)]


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.add_python("python3.11", "3.11")
    return made


SET_UP = [
    "system 3.11 -m venv --clear .venv",
    "env -m pip --no-input install -r requirements.txt --progress-bar off",
    "env -m pip --no-input install --no-deps -e . --progress-bar off",
    "env -c from metapcg.envs.engine import compile_kernels; compile_kernels()",
]


def one_line(error: str) -> str:
    assert error.startswith("error: ") and len(error.splitlines()) == 1, error
    return error


def test_help_lists_commands_and_options_and_sets_nothing_up(machine):
    status, out, _ = machine.run("--help")
    assert status == 0 and machine.calls() == []
    for word in (
        "all",
        "compile",
        "run",
        "test",
        "--notebooks",
        "--only",
        "--profile",
        "--device",
        "--python",
        "--active",
    ):
        assert f"  {word}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fast"], "unknown option: --fast"),
        (["fly"], "unknown command: fly"),
        (["run", "compile"], "two commands: run and compile"),
        (["--profile", "fast"], "--profile: unknown value 'fast'; choose one of: smoke quick full"),
        (["--profile=fast"], "--profile: unknown value 'fast'"),
        (["run", "--device", "gpu"], "--device: unknown value 'gpu'; choose one of: auto cpu cuda"),
        (["run", "--notebooks", "base_code"], "--notebooks: unknown value 'base_code'"),
        (["run", "--only"], "--only needs a value"),
        (["compile", "--only", "maml"], "--only does not go with the command 'compile'"),
        (["run", "--check"], "--check does not go with the command 'run'"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_set_up(machine, arguments, message):
    status, out, error = machine.run(*arguments)
    assert (status, out, machine.calls()) == (2, "", [])
    assert message in one_line(error)


def test_first_run_sets_up_and_the_second_does_not(machine):
    status, out, error = machine.run()
    assert (status, error) == (0, "")
    assert machine.calls() == [*SET_UP, "env -m metapcg compile", "env -m metapcg run"]
    assert "Downloading torch-2.whl (190.5 MB)" in out and "installing 3 package(s)" in out
    status, out, error = machine.run("run", "--only", "maml", "--only=rl2", "--notebooks", "code")
    assert (status, out, error) == (0, "", "")
    assert machine.calls() == ["env -m metapcg run --only maml --only rl2 --notebooks code"]


@pytest.mark.parametrize("command", ["grade", "play", "train", "adapt", "generate", "reach"])
def test_commands_with_options_of_their_own_get_all_of_them_and_the_callers_folder(machine, command, tmp_path):
    machine.run("setup")
    machine.calls()
    status, _, error = machine.run(command, "some thing", "--device", "cpu", "-h", cwd=tmp_path)
    assert (status, error) == (0, "")
    assert machine.calls() == [f"env -m metapcg {command} some thing --device cpu -h", f"called from {tmp_path}"]


@pytest.mark.parametrize("changed", ["requirements.txt", "pyproject.toml"])
def test_changed_requirements_are_installed_into_the_same_environment(machine, changed):
    machine.run("setup")
    machine.calls()
    with open(machine.root / changed, "a") as file:
        file.write("\n# changed\n")
    machine.run("setup")
    assert machine.calls() == SET_UP[1:]


def test_moved_folder_is_set_up_again(machine, tmp_path):
    machine.run("setup")
    machine.calls()
    machine.root = machine.root.rename(tmp_path / "moved")
    machine.run("setup")
    assert machine.calls() == SET_UP[1:]


@pytest.mark.parametrize("how", ["network", "killed"])
def test_interrupted_set_up_leaves_no_stamp_and_is_resumed(machine, how):
    status, _, _ = machine.run("setup", FAKE_PIP=how)
    assert status != 0 and not list(machine.root.glob(".venv/.hw11*"))
    machine.calls()
    assert machine.run("setup")[0] == 0
    assert machine.calls() == SET_UP[1:]


def test_failed_update_is_not_forgotten_when_the_requirements_change_back(machine):
    machine.run("setup")
    before = (machine.root / "requirements.txt").read_text()
    (machine.root / "requirements.txt").write_text(before + "\nmore\n")
    assert machine.run("setup", FAKE_PIP="network")[0] == 1
    (machine.root / "requirements.txt").write_text(before)
    machine.calls()
    machine.run("setup")
    assert machine.calls() == SET_UP[1:]


def test_environment_that_was_cut_short_or_is_broken_is_made_anew(machine):
    (machine.root / ".venv/bin").mkdir(parents=True)
    (machine.root / ".venv/bin/python").symlink_to("/nowhere/python3.11")
    assert machine.run("setup")[0] == 0
    assert machine.calls() == SET_UP


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("network", "pip cannot reach the package index; is there a network?"),
        ("disk", "the disk is full"),
        ("conflict", "ERROR: ResolutionImpossible"),
    ],
)
def test_failed_installation_says_why_and_where_the_log_is(machine, how, message):
    status, _, error = machine.run(FAKE_PIP=how)
    assert status == 1
    assert message in one_line(error) and f"log: {machine.root}/.venv/hw11-setup.log" in error
    assert "env -m metapcg compile" not in machine.calls()


def test_too_little_disk_space_is_said_before_anything_is_made(machine):
    status, _, error = machine.run(FAKE_FREE="1024000")
    assert status == 1 and "not enough disk space: 1000 MB free" in one_line(error)
    assert machine.calls() == [] and not (machine.root / ".venv").exists()
    assert machine.run("setup", FAKE_FREE="1024000", HW11_MIN_FREE_MB="900")[0] == 0


def test_wrong_python_is_named(machine):
    (machine.bin / "python3.11").unlink()
    status, _, error = machine.run()
    assert status == 1 and one_line(error).startswith("error: Python 3.10, 3.11 or 3.12 is needed and none was found;")
    machine.add_python("python3", "3.9")
    machine.add_python("python", "2.7")
    status, _, error = machine.run()
    assert status == 1 and "none was found (python3 is 3.9, python is 2.7)" in one_line(error)
    assert not (machine.root / ".venv").exists()


def test_newest_supported_python_is_taken_and_one_that_does_not_run_is_passed_over(machine):
    machine.program("python3.12", "#!/bin/bash\nexit 127\n")
    machine.add_python("python3", "3.13")
    machine.run("setup")
    assert machine.calls()[0] == SET_UP[0]


def test_python_that_is_asked_for_is_used_and_a_change_makes_the_environment_anew(machine):
    python = machine.add_python("mine", "3.12")
    assert machine.run("setup", "--python", str(python))[0] == 0
    assert machine.calls()[0] == "system 3.12 -m venv --clear .venv"
    (machine.root / "bin").symlink_to(machine.bin)
    for arguments, variables in ((["--python", "bin/python3.11"], {}), ([], {"PYTHON": "python3.11"})):
        shutil.rmtree(machine.root / ".venv")
        assert machine.run("setup", *arguments, **variables)[0] == 0
        assert machine.calls() == SET_UP


@pytest.mark.parametrize(
    ("version", "message"),
    [("3.9", "Python 3.10, 3.11 or 3.12 is needed; .*/mine is 3.9"), (None, "the interpreter asked for cannot be run")],
)
def test_unfit_python_that_is_asked_for_is_refused(machine, version, message):
    python = machine.add_python("mine", version) if version else machine.bin / "mine"
    status, _, error = machine.run("--python", str(python))
    assert status == 1
    assert re.search(message, one_line(error))


def test_python_without_venv_is_told_what_to_install(machine):
    status, _, error = machine.run(FAKE_NO_VENV="1")
    assert status == 1 and "apt install python3.11-venv" in one_line(error)


def test_active_environment_is_used_when_asked_and_only_then(machine, tmp_path):
    status, _, error = machine.run("setup", "--active")
    assert status == 1 and "no virtual or conda environment is active" in one_line(error)
    active = tmp_path / "active"
    (active / "bin").mkdir(parents=True)
    shutil.copy(machine.bin / "environment_python", active / "bin/python")
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        status, out, _ = machine.run("setup", "--active", **{variable: str(active)})
        assert status == 0 and f"ready: {active}/bin/python" in out
        assert not (machine.root / ".venv").exists()
    assert [call for call in machine.calls() if "venv" in call] == []
    assert machine.run("setup", VIRTUAL_ENV=str(active))[0] == 0
    assert (machine.root / ".venv").exists()


def test_linked_environment_is_said_and_never_wiped(machine, tmp_path):
    """It may be another copy's: set-up makes it this copy's, and says so."""
    shared = tmp_path / "shared"
    (shared / "bin").mkdir(parents=True)
    shutil.copy(machine.bin / "environment_python", shared / "bin/python")
    (machine.root / ".venv").symlink_to(shared)
    status, out, error = machine.run("setup")
    assert (status, error) == (0, "") and f"note: .venv is a link to {shared}: what is installed goes there" in out
    assert "-m venv" not in "".join(machine.calls())
    (shared / "bin/python").unlink()
    status, _, error = machine.run("setup")
    assert status == 1 and f".venv is a link to {shared}, which does not fit; remove the link" in one_line(error)
    assert (machine.root / ".venv").is_symlink() and shared.is_dir() and machine.calls() == []


def test_it_works_from_another_folder_and_through_links(machine, tmp_path):
    (tmp_path / "somewhere").mkdir()
    first, second = tmp_path / "somewhere/link", tmp_path / "link to link"
    first.symlink_to(os.path.relpath(machine.root / "compile_and_run.sh", first.parent))
    second.symlink_to(first)
    for script in (str(second), "./link"):
        status, _, error = machine.run("setup", script=script, cwd=tmp_path / "somewhere")
        assert (status, error) == (0, "")
    assert machine.calls() == SET_UP
    assert (machine.root / ".venv").is_dir()


def test_pytest_gets_what_follows_test_and_no_leftover_settings(machine):
    machine.run("setup")
    machine.calls()
    assert (
        machine.run("test", "-k", "maml and run", "--lf", "--profile", "smoke", FAKE_EXIT="5", HW11_OUTPUT="/x")[0] == 5
    )
    assert machine.calls() == ["env -m pytest -k maml and run --lf", "settings smoke "]


def test_folder_of_results_is_meant_from_where_the_script_is_called(machine, tmp_path):
    machine.run("setup")
    machine.calls()
    machine.run("run", cwd=tmp_path, HW11_OUTPUT="out put")
    assert machine.calls() == ["env -m metapcg run", f"results {tmp_path}/out put"]


def test_exit_status_of_a_failed_run_is_passed_on(machine):
    assert machine.run(FAKE_EXIT="3")[0] == 3
    assert machine.calls()[-1] == "env -m metapcg compile"

"""What code in the sandbox can reach and use up, and what ends it. Needs bubblewrap, as grading does."""

import os
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest
from sandbox_here import SANDBOX

from metapcg.grading import sandbox
from metapcg.grading.sandbox import Kernel, KernelError, Limits, check_sandbox

contained = pytest.mark.skipif(not SANDBOX, reason="bubblewrap is missing or does not work here")
ROOT = Path(__file__).resolve().parents[2]


def text(run) -> str:
    return "".join(str(output.get("text", output.get("evalue", ""))) for output in run.outputs)


@pytest.fixture(scope="module")
def kernel():
    with Kernel({"mine.ipynb": b"{}"}, sandbox=True) as running:
        yield running


@contained
def test_only_the_students_own_files_the_library_and_the_system_are_there(kernel, tmp_path):
    (tmp_path / "gradebook.db").write_bytes(b"x")
    run = kernel.execute(
        f"""
import os
print(sorted(os.listdir(".")), sorted(set(os.listdir({str(ROOT)!r})) - {{"metapcg", "gym_pcgrl", ".venv"}}))
print(os.listdir({str(ROOT / "metapcg/grading")!r}), os.path.exists({str(tmp_path)!r}), os.path.exists("/etc/passwd"))
print(os.path.isfile({str(ROOT / "metapcg/learning/checks.py")!r}))
"""
    )
    first, second, third = text(run).splitlines()
    assert first == "['mine.ipynb'] []"
    assert second == "[] False False"
    assert third.startswith("True")


@contained
def test_environment_of_the_parent_is_gone(kernel, monkeypatch):
    run = kernel.execute("import os; print(sorted(os.environ))")
    assert "HW11_PROFILE" in text(run)
    for name in ("PYTEST_CURRENT_TEST", "HW11_CLASS", "SSH_AUTH_SOCK", "PWD_OF_PARENT"):
        assert name not in text(run)
    assert os.environ["HOME"] not in text(kernel.execute("import os; print(os.environ['HOME'])")).split()


@contained
@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('1.1.1.1', 53), timeout=3)",
        "open('/usr/x', 'w')",
        f"open({str(ROOT / 'metapcg' / '__init__.py')!r}, 'a')",
        "open('mine.ipynb', 'w')",
        "open('/run/kernel/x', 'w') if __import__('os').getuid() > 10**9 else open('/x', 'w')",
        "import os; os.kill(1, 9); open('/x', 'w')",
        "import os; os.setuid(0)",
        "import os; os.memfd_create('x')",
        "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError",
        "import ctypes\nif ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None): raise OSError",
        "f = open('/tmp/big', 'wb')\nfor _ in range(100): f.write(bytes(2**20))",
        "for n in range(12):\n    with open(f'/tmp/{n}', 'wb') as f: f.write(bytes(50 * 2**20))",
        "x = bytearray(6 * 2**30)",
    ],
)
def test_out_of_reach(kernel, code):
    run = kernel.execute(code)
    assert run.status == "error"
    kernel.execute("import glob, os\nfor name in glob.glob('/tmp/*'):\n    if os.path.isfile(name): os.remove(name)")


@contained
def test_a_server_of_this_machine_is_out_of_reach(kernel):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        socket.create_connection(address, timeout=3).close()  # from out here it answers
        run = kernel.execute(f"import socket; socket.create_connection({address!r}, timeout=3)")
    assert run.status == "error" and run.outputs[0].ename in ("ConnectionRefusedError", "OSError")


@contained
def test_endless_loop_is_interrupted_and_the_kernel_goes_on(kernel):
    run = kernel.execute("while True: pass", 1.0)
    assert run.status == "timeout" and run.seconds < 6
    assert text(kernel.execute("print(6 * 7)")) == "42\n"


@contained
def test_flood_of_output_is_cut_and_costs_the_grader_no_memory(kernel):
    before = psutil.Process().memory_info().rss
    run = kernel.execute("for _ in range(30): print('x' * 2_000_000)")
    assert run.status == "ok" and run.truncated and len(text(run)) <= kernel.limits.output_bytes
    run = kernel.execute("print('y' * 100_000_000)")
    assert run.status == "ok" and run.truncated
    assert psutil.Process().memory_info().rss - before < 300 * 2**20
    assert text(kernel.execute("print('and on')")) == "and on\n"


@contained
def test_what_is_emitted_is_kept_apart_and_bounded(kernel):
    code = """
from IPython.display import display, clear_output
for n in range({}): display({{"application/vnd.hw11.emitted+json": {{"what": "a", "value": n}}}}, raw=True)
clear_output()
"""
    run = kernel.execute(code.format(3))
    assert [record["value"] for record in run.emitted] == [0, 1, 2] and run.outputs == []
    run = kernel.execute(code.format(5000))
    assert len(run.emitted) <= 2000 and run.truncated


@contained
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(0)", "its process ended"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended"),
        ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "did not stop"),
        ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", "more processes"),
        (
            "import os, time\nfor _ in range(4):\n    if not os.fork():\n        x = b'1' * (500 * 2**20)\n"
            "        time.sleep(60)\ntime.sleep(60)",
            "more memory",
        ),
        ("import zmq\nget_ipython().kernel.iopub_socket.send_multipart([b'stream.x', b'<IDS|MSG>', b'forged'])", ""),
    ],
    ids=["exit", "kill", "deaf loop", "fork bomb", "memory of children", "forged message"],
)
def test_what_ends_a_kernel(code, reason):
    limits = Limits(memory=1500 * 2**20) if reason == "more memory" else Limits()
    with Kernel(limits=limits) as running:
        pid = running._process.pid
        run = running.execute(code, 1.0 if reason == "did not stop" else 6.0)
        if reason:
            assert run.status == "dead" and reason in run.reason
            assert running.execute("1").status == "dead"
        else:
            assert run.status in ("dead", "ok", "error")  # never an exception in the grader
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)


@contained
def test_orphans_end_with_the_kernel():
    mark = "987654.25"
    with Kernel() as running:
        running.execute(f"import subprocess; subprocess.Popen(['sleep', '{mark}'], start_new_session=True)")
        assert any(mark in " ".join(_command(p)) for p in psutil.process_iter())
    time.sleep(0.5)
    assert not any(mark in " ".join(_command(p)) for p in psutil.process_iter())


def _command(process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_without_bubblewrap_it_refuses_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    sandbox._sandbox_fault.cache_clear()
    try:
        with pytest.raises(ValueError, match="apt-get install bubblewrap.*--unsafe-no-sandbox"):
            check_sandbox()
        check_sandbox(sandbox=False)
    finally:
        sandbox._sandbox_fault.cache_clear()


def test_bubblewrap_that_does_not_work_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox._sandbox_fault.cache_clear()
    try:
        with pytest.raises(ValueError, match="does not work here .bwrap: No permissions"):
            check_sandbox()
        with pytest.raises(KernelError, match="No permissions"):
            Kernel()
    finally:
        sandbox._sandbox_fault.cache_clear()


def test_folders_of_killed_graders_are_removed_and_those_of_living_ones_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.tempfile, "gettempdir", lambda: str(tmp_path))
    mine, gone, other = tmp_path / f"hw11-{os.getpid()}-a", tmp_path / "hw11-4194305-b", tmp_path / "hw11-notes-c"
    for folder in (mine, gone, other):
        (folder / "files").mkdir(parents=True)
    sandbox.remove_leftovers()
    assert mine.is_dir() and other.is_dir() and not gone.exists()


def test_unsafe_kernel_runs_the_same_cells_without_the_parents_environment(monkeypatch):
    monkeypatch.setenv("A_SECRET", "1")
    with Kernel({"mine.ipynb": b"{}"}, sandbox=False) as running:
        run = running.execute("import os; print(os.listdir('.'), 'A_SECRET' in os.environ)")
        assert text(run) == "['mine.ipynb'] False\n"


def test_folders_that_submitted_code_could_read_are_refused(tmp_path, monkeypatch):
    sandbox.check_hidden({"the results": tmp_path})
    for inside in ("/usr/src/app/class", "/lib/class", f"{sys.prefix}/class", f"{sys.base_prefix}/class"):
        with pytest.raises(ValueError, match=r"the results \(.*class\) lie in .*, which submitted code can read; move"):
            sandbox.check_hidden({"the results": Path(inside)})
    # A repository in /usr is covered, but for its package and an environment in it.
    monkeypatch.setattr(sandbox, "_repository_in_usr", lambda: "/usr/src/app")
    monkeypatch.setattr(sandbox, "_packages", lambda: ["/usr/src/app/metapcg"])
    sandbox.check_hidden({"the answers": Path("/usr/src/app/answers")})
    with pytest.raises(ValueError, match="which submitted code can read"):
        sandbox.check_hidden({"the results": Path("/usr/src/app/metapcg/class")})

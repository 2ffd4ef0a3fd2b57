"""The filter of system calls: what it refuses is refused, and what notebooks need goes on working."""

import platform
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest

from metapcg.grading.seccomp import program

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None or platform.machine() not in ("x86_64", "aarch64"),
    reason="bubblewrap is missing, or the filter does not know this machine",
)

TRIES = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
print(libc.shmget(0, 2**20, 0o1600), libc.unshare(0x10000000), libc.ptrace(0, 0, 0, 0))
try:
    os.memfd_create("x")
    print("memfd made")
except PermissionError:
    print("memfd refused")
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
print(libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno())
thread = threading.Thread(target=print, args=("thread",))
thread.start(), thread.join()
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_bubblewrap
def test_refused_calls_fail_and_threads_and_children_start():
    with tempfile.TemporaryFile() as file:
        file.write(program())
        file.seek(0)
        ended = subprocess.run(
            ["bwrap", "--dev-bind", "/", "/", "--seccomp", str(file.fileno()), "--", sys.executable, "-c", TRIES],
            pass_fds=(file.fileno(),),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.stdout.splitlines() == ["-1 -1 -1", "memfd refused", "-1 1", "thread", "7"], ended.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_ends_inside_the_program_and_the_last_instruction_returns(machine):
    steps = list(struct.iter_unpack("<HBBI", program(machine)))
    for number, (code, if_true, if_false, _) in enumerate(steps):
        assert code in (0x20, 0x15, 0x35, 0x45, 0x06)
        assert number + 1 + max(if_true, if_false) < len(steps) or code == 0x06
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000) and len(steps) < 4096


def test_no_filter_for_a_machine_whose_numbers_are_not_known():
    assert program("riscv64") == b""

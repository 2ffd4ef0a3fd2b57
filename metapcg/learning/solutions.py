"""The loader: takes the exercise functions out of a notebook, worked or a student's, and hands them to the trainers.

The library holds no reference algorithms. Training loops, the command line, experiments and tests get
``inner_update`` and the like from here, so a student's own functions drive the full trainer. Of a notebook, only the
cell ``imports`` and the solution cells are executed, in a fresh module; everything else (tests, experiments, plots)
is left alone.

Which notebook a bare name means, for example ``load("0_policy_gradient")``, the first that applies:

1. ``HW11_NOTEBOOKS`` is set: the notebook of that name in that folder, and nowhere else.
2. The current folder holds ``NAME.ipynb``: that one. Jupyter, nbgrader and the runner start a notebook in its own
   folder, so a student's notebook finds the student's other notebooks, and a worked one finds the worked ones.
3. ``answers/hw11/NAME.ipynb`` of the repository, where it exists (a teacher's clone).
4. ``code/hw11/NAME.ipynb`` (a student's copy, which comes without answers).
"""

from __future__ import annotations

import functools
import json
import linecache
import os
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import metapcg

ASSIGNMENT = "hw11"


class SolutionError(ValueError):
    """A notebook, or a function in it, cannot be used. The message is one line: which one, and what to do."""


class MissingFunctionError(SolutionError, AttributeError):
    """The notebook defines no function of that name."""


class UnfinishedError(SolutionError, NotImplementedError):
    """The function still raises its TODO."""


@dataclass(frozen=True)
class SolutionCell:
    """One cell to be executed: its id and its source."""

    id: str
    source: str


class Solutions:
    """The functions (and other names) that a notebook's solution cells define, as attributes.

    Attributes:
        path: the notebook they came from.
        names: names of the functions and classes defined in solution cells, in the notebook's order.
    """

    def __init__(self, path: Path, values: dict[str, object], names: tuple[str, ...]) -> None:
        self.path = path
        self.names = names
        self._values = values

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or "_values" not in self.__dict__:
            raise AttributeError(name)
        if name not in self._values:
            known = ", ".join(self.names) or "none"
            raise MissingFunctionError(
                f"{_short(self.path)} defines no function {name!r}; its solution cells define: {known}"
            )
        return self._values[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.names})

    def __repr__(self) -> str:
        return f"<solutions of {_short(self.path)}: {', '.join(self.names)}>"

    def require(self, *names: str) -> Solutions:
        """Check that the named functions are there and written; return self. Call it before a long training.

        Raises:
            MissingFunctionError: one is missing or is not callable.
            UnfinishedError: one still holds its TODO.
        """
        for name in names:
            function = getattr(self, name)
            if not callable(function):
                raise MissingFunctionError(
                    f"{_short(self.path)}: {name!r} is not a function but {type(function).__name__}"
                )
            if _holds_todo(function):
                raise UnfinishedError(_unfinished(self.path, name))
        return self


def repository_root() -> Path:
    """Return the folder of the repository that this package is imported from.

    Raises:
        ValueError: the package was installed without its repository (``pip install .`` instead of ``pip install -e
        .``).
    """
    root = Path(metapcg.__file__).resolve().parents[1]
    if not (root / "pyproject.toml").is_file():
        raise ValueError(
            f"metapcg is installed in {root}, away from its repository, so no notebooks or reports lie beside it: "
            "set HW11_NOTEBOOKS and HW11_OUTPUT, or install with 'pip install -e .'"
        )
    return root


def load(notebook: str | os.PathLike[str]) -> Solutions:
    """Execute a notebook's ``imports`` and solution cells in a fresh module and return what they define.

    Args:
        notebook: a path to an ``.ipynb`` or to a source ``.py`` (percent format), or a bare name such as
            ``0_policy_gradient`` (resolved as this module's docstring says).

    Returns:
        The namespace. A function that is still a TODO raises ``UnfinishedError`` when it is called or required.

    Raises:
        SolutionError: the file is missing or unreadable, holds no solution cell, or a cell cannot be executed.
    """
    path = resolve(notebook)
    cells = read_solution_cells(path)
    # A module that pickle, dataclasses and tracebacks can find by its name.
    module = types.ModuleType("hw11_solutions_" + re.sub(r"\W", "_", str(path)))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    for cell in cells:
        _execute(cell, path, module)
    values = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    names = [name for name, value in values.items() if getattr(value, "__module__", None) == module.__name__]
    for name in names:
        if isinstance(values[name], types.FunctionType):
            # In the module too, so that functions that call each other, and pickle, meet the same object.
            values[name] = module.__dict__[name] = _with_todo_message(values[name], path)
    return Solutions(path, values, tuple(names))


def resolve(notebook: str | os.PathLike[str]) -> Path:
    """Return the absolute path of the notebook that a path or a bare name stands for (see the module's docstring).

    Raises:
        SolutionError: there is none.
    """
    text = os.fspath(notebook)
    if text.endswith((".ipynb", ".py")) or os.sep in text:
        path = Path(text).expanduser().absolute()
        if not path.is_file():
            raise SolutionError(f"there is no notebook {text}")
        return path
    configured = os.environ.get("HW11_NOTEBOOKS")
    if configured:
        folders = [Path(configured).expanduser().absolute()]
    else:
        folders = [Path.cwd()]
        root = Path(metapcg.__file__).resolve().parents[1]
        if (root / "pyproject.toml").is_file():
            folders += [root / "answers" / ASSIGNMENT, root / "code" / ASSIGNMENT]
    for folder in folders:
        path = folder / f"{text}.ipynb"
        if path.is_file():
            return path
    places = ", ".join(_short(folder) for folder in folders)
    raise SolutionError(
        f"there is no notebook {text}.ipynb in {places}; './compile_and_run.sh compile' makes the missing ones"
        + (" (HW11_NOTEBOOKS names the folder)" if configured else "")
    )


def read_solution_cells(path: Path) -> list[SolutionCell]:
    """Read the ``imports`` cell and the solution cells of a notebook, in order.

    Raises:
        SolutionError: not a notebook, or one without solution cells.
    """
    cells = _source_cells(path) if path.suffix == ".py" else _notebook_cells(path)
    if not any(kind == "solution" for kind, _ in cells):
        raise SolutionError(
            f"{_short(path)} has no solution cells (is their nbgrader metadata gone?); "
            "copy your work into a fresh starter from base_code/"
        )
    return [cell for kind, cell in cells if kind]


def _source_cells(path: Path) -> list[tuple[str, SolutionCell]]:
    import jupytext  # only needed where the text sources are, that is, in a teacher's clone

    found = []
    for cell in jupytext.read(path, fmt="py:percent").cells:
        kind = _kind(cell.metadata.get("kind") == "solution", cell.metadata.get("id") == "imports")
        if cell.cell_type == "code" and kind:
            found.append((kind, SolutionCell(cell.metadata.get("id", "?"), cell.source)))
    return found


def _notebook_cells(path: Path) -> list[tuple[str, SolutionCell]]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
        found = []
        for cell in cells:
            metadata = cell["metadata"]
            nbgrader = metadata.get("nbgrader", {})
            is_imports = cell.get("id") == "imports" or "imports" in metadata.get("tags", [])
            kind = _kind(nbgrader.get("solution", False) and not nbgrader.get("grade", False), is_imports)
            if cell["cell_type"] == "code" and kind:
                # Some editors drop cell ids; the grade id is the same word and they leave it alone.
                identity = nbgrader.get("grade_id") or cell.get("id", "imports")
                found.append((kind, SolutionCell(identity, "".join(cell["source"]))))
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SolutionError(f"{_short(path)} is not a notebook ({type(error).__name__}: {error})") from error


def _kind(is_solution: bool, is_imports: bool) -> str:
    return "solution" if is_solution else "imports" if is_imports else ""


def _execute(cell: SolutionCell, path: Path, module: types.ModuleType) -> None:
    source = cell.source if cell.source.endswith("\n") else cell.source + "\n"
    filename = f"<{_short(path)}, cell {cell.id}>"
    try:
        try:
            code = compile(source, filename, "exec", dont_inherit=True)
        except SyntaxError:
            # Magics (%timeit, !ls) are no Python. Blank lines in their place keep the line numbers.
            source = re.sub(r"(?m)^\s*[%!].*$", "", source)
            code = compile(source, filename, "exec", dont_inherit=True)
        # Tracebacks and inspect.getsource look sources up in linecache.
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(code, module.__dict__)
    except Exception as error:  # a student's cell can raise anything; all of it is reported as "this cell"
        text = str(error).splitlines()[0] if str(error) else "no message"
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise SolutionError(
            f"{_short(path)}: cell {cell.id}{line} cannot be run: {type(error).__name__}: {text}"
        ) from error


def _with_todo_message(function: types.FunctionType, path: Path) -> Callable[..., object]:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except UnfinishedError:
            raise
        except NotImplementedError as error:
            if not str(error).startswith("TODO"):
                raise
            raise UnfinishedError(_unfinished(path, function.__name__)) from error

    return call


def _holds_todo(function: object) -> bool:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if code is None:
        return False
    return "NotImplementedError" in code.co_names and any(
        isinstance(constant, str) and constant.startswith("TODO") for constant in code.co_consts
    )


def _unfinished(path: Path, name: str) -> str:
    return f"{_short(path)}: {name} is not written yet (it still raises its TODO)"


def _short(path: Path) -> str:
    """The path as a person would type it: relative to the repository where it lies inside."""
    root = Path(metapcg.__file__).resolve().parents[1]
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

"""The functions that a run is made of, wherever they come from, and a fingerprint of their source.

Notebooks hand in their own namespace, experiments what the loader took out of notebooks; a run sees one object with
attributes. The fingerprint becomes part of a run's identity: whoever changes ``adapt`` gets a new run, whoever
changes a comment does not.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class FunctionSet:
    """Several sources looked up in order, as attributes.

    Args:
        sources: what ``metapcg.learning.solutions.load`` returns, a mapping such as ``globals()``, or any object with
            attributes.

    >>> functions = FunctionSet(globals(), load("0_policy_gradient"))
    """

    def __init__(self, *sources: Any):
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_sources" not in self.__dict__:
            raise AttributeError(name)
        reasons = []
        for source in self._sources:
            if isinstance(source, Mapping):
                if name in source:
                    return source[name]
                continue
            try:
                return getattr(source, name)
            except AttributeError as error:
                # The loader's own message says which notebook lacks the function; a plain object's would not help.
                reasons += [str(error)] if isinstance(error, ValueError) else []
        reason = "; ".join(reasons) or f"no function {name!r} was handed in"
        raise MissingFunction(f"{reason} (needed: {name})")

    def require(self, names: Iterable[str]) -> FunctionSet:
        """Check that the named functions are there and are written; return self.

        Raises:
            ValueError: one is missing, is no function, or still holds its TODO; says which.
        """
        for name in names:
            if not callable(getattr(self, name)):
                raise MissingFunction(f"{name!r} is not a function but {type(getattr(self, name)).__name__}")
            for source in self._sources:
                if name in getattr(source, "names", ()):
                    source.require(name)  # the loader recognises a function that still raises its TODO
                    break
        return self


class MissingFunction(ValueError, AttributeError):
    """A function that a run needs was not handed in."""


NOTEBOOK_OF: dict[str, str] = {
    "surrogate_naive": "0_policy_gradient",
    "surrogate_lvc": "0_policy_gradient",
    "surrogate_dice": "0_policy_gradient",
    "adapt": "1_maml",
    "meta_loss": "1_maml",
    "build_inputs": "2_rl2",
    "gru_cell": "2_rl2",
    "unroll": "2_rl2",
    "trial_advantages": "2_rl2",
    "clipped_policy_loss": "2_rl2",
    "returns_by_episode": "2_rl2",
    "transition_inputs": "3_pearl",
    "gaussian_product": "3_pearl",
    "kl_to_prior": "3_pearl",
    "choose_latent": "3_pearl",
    "soft_target": "3_pearl",
    "actor_loss": "3_pearl",
    "soft_update": "3_pearl",
}
"""Function → the notebook in which it is an exercise."""


class NotebookFunctions:
    """The functions of ``NOTEBOOK_OF`` as attributes; a notebook is executed when one of its functions is asked for.

    So a notebook that cannot be executed harms only the runs that need it. The object can be pickled: a worker process
    executes the notebooks again.

    Args:
        paths: notebook's name → its file; None finds each as ``metapcg.learning.solutions`` says.
    """

    def __init__(self, paths: Mapping[str, str] | None = None):
        self.paths = dict(paths or {})
        self.names = tuple(NOTEBOOK_OF)
        self._loaded: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "names": self.names, "_loaded": {}}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in NOTEBOOK_OF:
            raise AttributeError(name)
        return getattr(self._notebook(NOTEBOOK_OF[name]), name)

    def require(self, *names: str) -> NotebookFunctions:
        """Check that the functions are there and written; ValueError says which is not."""
        for name in names:
            self._notebook(NOTEBOOK_OF[name]).require(name)
        return self

    def _notebook(self, notebook: str) -> Any:
        from metapcg.learning.solutions import load

        if notebook not in self._loaded:
            self._loaded[notebook] = load(self.paths.get(notebook, notebook))
        return self._loaded[notebook]


def fingerprint(functions: Any, names: Iterable[str]) -> str:
    """16 hexadecimal digits that change when one of the functions, or one they call in the same module, is changed.

    Comments, docstrings and layout do not count.
    """
    found: dict[str, str] = {}
    for name in names:
        _add(name, getattr(functions, name), found)
    text = "\n".join(f"{name}: {found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _add(name: str, function: Callable[..., Any], found: dict[str, str]) -> None:
    function = inspect.unwrap(function)
    if name in found or not isinstance(function, types.FunctionType):
        return
    found[name] = _normalized(function)
    for other in sorted(_names(function.__code__)):
        value = function.__globals__.get(other)
        if other in vars(builtins) or not callable(value):
            continue
        value = inspect.unwrap(value)
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            _add(other, value, found)


def _names(code: types.CodeType) -> set[str]:
    nested = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(inner) for inner in nested))


def _normalized(function: types.FunctionType) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # typed at a prompt, or a lambda inside an expression: its compiled form must do
        return function.__code__.co_code.hex() + repr(function.__code__.co_names)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = body[1:] or [ast.Pass()]
    return ast.unparse(tree)

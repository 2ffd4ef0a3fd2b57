"""Steps that this course adds to nbgrader's own; ``nbgrader_config.py`` puts them in place.

With them ``nbgrader autograde`` grades as ``./compile_and_run.sh grade`` does: normalise, overwrite, execute in the
sandbox, compare what was emitted, bound the output, save the grades.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets import Bool


class ClearSolutionsByName(ClearSolutions):
    """nbgrader's ``ClearSolutions``, with a stub that says which function of which notebook is to be written.

    A student who runs a whole notebook, or a trainer that calls an unwritten function, then sees
    ``NotImplementedError: TODO gae: write this function (notebook 0_policy_gradient, cell gae)``.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        """Replace the solution regions of one cell (nbgrader's interface)."""
        if cell.cell_type == "code":
            cell_id = cell.metadata.get("nbgrader", {}).get("grade_id", cell.get("id", cell_index))
            notebook = resources["nbgrader"]["notebook"]
            name = _function_before(cell.source, self.begin_solution_delimeter) or cell_id
            message = f"TODO {name}: write this function (notebook {notebook}, cell {cell_id})"
            self.code_stub = {**self.code_stub, "python": f'raise NotImplementedError("{message}")'}
        return super().preprocess_cell(cell, resources, cell_index)


class NormaliseSubmission(NbGraderPreprocessor):
    """Brings a submitted notebook into the released one's shape; see ``metapcg.grading.normalise``."""

    def preprocess(self, nb, resources):
        """Normalise one notebook (nbgrader's interface)."""
        from metapcg.grading.normalise import normalise, read_cells

        normalised = normalise(read_cells(nbformat.writes(nb).encode("utf-8", "replace")), _course_notebook(resources))
        for note in (*normalised.notes, *normalised.attention):
            self.log.warning("%s: %s", resources["nbgrader"]["notebook"], note)
        return normalised.notebook, resources


class ExecuteSafely(NbGraderPreprocessor):
    """Executes in the sandbox and compares what was emitted; see ``metapcg.grading.autograde``."""

    sandbox = Bool(True, help="False: run submitted code unprotected, with your rights").tag(config=True)

    def preprocess(self, nb, resources):
        """Execute and grade one normalised notebook (nbgrader's interface)."""
        from metapcg.grading import autograde
        from metapcg.grading.normalise import Normalised
        from metapcg.grading.sandbox import Limits, check_hidden, check_sandbox

        check_sandbox(self.sandbox)
        notebook, limits = _course_notebook(resources), Limits()
        class_folder = os.environ.get("HW11_CLASS")
        if self.sandbox and class_folder:
            check_hidden({"the results": Path(class_folder).expanduser()})
        file = Path(class_folder).expanduser() / "key.json" if class_folder else None
        key = autograde.expected_values({notebook.name: notebook}, file, limits, self.sandbox)[notebook.name]
        files = {f"{notebook.name}.ipynb": nbformat.writes(nb).encode("utf-8", "replace")}
        done = autograde.execute_notebook(nb, notebook, files, limits, self.sandbox)
        grade = autograde.make_grade(Normalised(nb), notebook, key, done)
        for cell, result in grade.results.items():
            self.log.info("%s %s: %g of %g", notebook.name, cell, result.score, result.points)
        return nbformat.reads(grade.notebook, as_version=4), resources


class RemoveHiddenTests(NbGraderPreprocessor):
    """Takes hidden tests out of what students are shown."""

    def preprocess_cell(self, cell, resources, cell_index):
        """Cut one cell (nbgrader's interface)."""
        from metapcg.grading.course import visible

        if cell.cell_type == "code":
            cell.source = visible(cell.source)
        return cell, resources


def _course_notebook(resources):
    from metapcg.grading.course import load_course
    from metapcg.learning.solutions import repository_root

    name = resources["nbgrader"]["notebook"]
    return load_course(repository_root(), [name])[name]


def _function_before(source: str, mark: str) -> str | None:
    """Name of the innermost function that is open where the first solution mark stands, None at module level."""
    name, lines = None, source.split("\n")
    at = next((number for number, line in enumerate(lines) if mark in line), None)
    if at is None:
        return None
    indent = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        match = re.match(r"(\s*)(?:async\s+)?def\s+(\w+)", line)
        if match and len(match[1]) < indent:
            name = match[2]
            break
    return name

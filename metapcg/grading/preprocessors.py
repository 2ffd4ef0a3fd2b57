"""Steps that this course adds to nbgrader's own; ``nbgrader_config.py`` puts them in place."""

from __future__ import annotations

import re

from nbgrader.preprocessors import ClearSolutions


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

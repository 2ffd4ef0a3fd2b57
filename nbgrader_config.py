"""nbgrader's settings for this course; the stock ``nbgrader`` commands, run from this folder, use them.

nbgrader executes this file more than once: it only assigns.

Source and release: ``answers/hw11/`` → ``nbgrader generate_assignment hw11`` → ``base_code/hw11/``.

A student working alone has one "student", ``.``, whose work is ``code/hw11/``. A teacher with a class sets
``HW11_CLASS`` to a folder outside the repository, which then holds ``submitted/``, ``autograded/``, ``feedback/`` and
``gradebook.db``.
"""

import os
from pathlib import Path

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ComputeChecksums,
    GetGrades,
    IncludeHeaderFooter,
    LockCells,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
    SaveCells,
)

from metapcg.grading.preprocessors import (
    ClearSolutionsByName,
    ExecuteSafely,
    NormaliseSubmission,
    RemoveHiddenTests,
)

c = get_config()  # noqa: F821 (nbgrader defines it)

c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "hw11"
c.CourseDirectory.directory_structure = "{nbgrader_step}/{student_id}/{assignment_id}"
c.CourseDirectory.source_directory = "answers"
c.CourseDirectory.release_directory = "base_code"
# Only notebooks belong to the assignment: whatever else lies in answers/hw11 must not reach the students.
c.CourseDirectory.ignore = ["[!.]*", ".*"]

class_folder = os.environ.get("HW11_CLASS")
if class_folder:
    folder = Path(class_folder).expanduser().absolute()
    c.CourseDirectory.submitted_directory = str(folder / "submitted")
    c.CourseDirectory.autograded_directory = str(folder / "autograded")
    c.CourseDirectory.feedback_directory = str(folder / "feedback")
    c.CourseDirectory.solution_directory = str(folder / "solution")
    c.CourseDirectory.db_url = f"sqlite:///{folder / 'gradebook.db'}"
else:
    c.CourseDirectory.submitted_directory = "code"
    c.CourseDirectory.student_id = "."

# nbgrader's own steps without its test templates, and with stubs that name what is to be written.
c.GenerateAssignment.preprocessors = [
    IncludeHeaderFooter,
    LockCells,
    ClearSolutionsByName,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
]
c.ClearSolutions.text_stub = "*Your answer here.*"

# What 'nbgrader autograde' does to each submission; './compile_and_run.sh grade' goes the same way, and says more.
c.Autograde.sanitize_preprocessors = [
    NormaliseSubmission,  # the released cells with the student's solutions: nothing else of the file is trusted
    ClearOutput,
    OverwriteKernelspec,
    OverwriteCells,
    CheckCellMetadata,
]
c.Autograde.autograde_preprocessors = [
    ExecuteSafely,  # in the sandbox, and compares outside of it
    SaveAutoGrades,
    AssignLatePenalties,
    CheckCellMetadata,
]
c.GenerateFeedback.preprocessors = [RemoveHiddenTests, GetGrades]
c.OverwriteCells.add_missing_cells = True
# nbgrader takes any line on stderr for a failed test; a warning or a progress bar is none. In validation it has no
# switch for that, so the kernel itself shows stderr as stdout; IgnorePattern takes what comes another way when grading.
c.Execute.extra_arguments = ["--log-level=ERROR", "--IPKernelApp.exec_lines=import sys; sys.stderr = sys.stdout"]
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"[\s\S]*"
# Graded cells take seconds; this is for slow machines, not for trainings.
c.Execute.timeout = 300

"""Scripts that ``run:`` starts, and files that their arguments name: whether they are uploaded."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from jobgen.data import run_arguments
from jobgen.model.decision import PlanCheck
from jobgen.model.fields import find_nearest
from jobgen.resolve.arguments import locate_word, normalize_option, read_options
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.shell.started_program import StartedProgram

_MOST_FILES = 1_000
"""So many names are compared with that of a missing file."""


def check_scripts(spec: Loaded[JobSpec], files: frozenset[str] | None) -> Iterator[PlanCheck]:
    """A check of each Python or shell script that ``run:`` starts, once each; ``files`` are the
    workdir's, None where nobody looked."""
    at, seen = spec.value.workdir.at, set()
    if at is not None:
        yield PlanCheck("ok", f"files in {at} are not checked: they stay on the cluster")
    for program, place in spec.scripts if files is not None else ():
        path = _locate_script(program)
        if not path or path in seen:
            continue
        seen.add(path)
        if path in (files or ()):
            yield PlanCheck("ok", f"{path} is in {_name_workdir(spec.value)}")
            continue
        message = f"{path} is not in {_name_workdir(spec.value)}"
        # a command before it may have made the file
        status: Literal["warn", "fail"] = "warn" if program.maybe_made else "fail"
        hint = guess_file(path, files or frozenset())
        yield PlanCheck(status, message, "J220", hint, place or spec.find_place("run"))


def _name_workdir(job: JobSpec) -> str:
    """The directory that is uploaded, as a person calls it."""
    path = job.workdir.path
    return "the job's folder" if path == "." else f"the workdir {path}"


def _locate_script(program: StartedProgram) -> str:
    """The file of a program below the workdir; empty where it is none, or not certain."""
    script = program.script if program.script.endswith(".py") else program.shell_script
    if not script or "$" in script or script.startswith(("/", "~")):
        return ""
    if program.folder is None or not program.command.always:
        return ""
    path = posixpath.normpath(posixpath.join(program.folder, script))
    return "" if path.startswith("..") else path


def check_files(look: Inputs) -> Iterator[PlanCheck]:
    """A failed check for each that is not there; a warning where ``setup:`` may make it."""
    files = look.facts.workdir_files
    names = {normalize_option(row.name) for row in run_arguments() if row.is_file}
    setup = "\n".join(look.job.list_setup())
    for placed in look.spec.programs if files is not None else ():
        program = placed.program
        for option in read_options(program):
            known = option.name in names and not option.expands
            path = _resolve(program, option.value) if known else ""
            if not path or path in (files or ()) or posixpath.basename(path) in setup:
                continue
            status: Literal["warn", "fail"] = "warn" if program.maybe_made or setup else "fail"
            message = f"{path} is not in {_name_workdir(look.job)}"
            place = locate_word(look, placed, option.holder)
            yield PlanCheck(status, message, "J220", guess_file(path, files or frozenset()), place)


def _resolve(program: StartedProgram, value: str) -> str:
    """The path below the workdir; empty for no file, or one on the cluster only."""
    elsewhere = value.startswith(("/", "~", "{")) or "$" in value
    if elsewhere or not value.endswith(".json"):
        return ""
    if program.folder is None or not program.command.always:
        return ""
    return posixpath.normpath(posixpath.join(program.folder, value))


def guess_file(path: str, files: frozenset[str]) -> str:
    """What to do about a missing file: the one of its name elsewhere, or of nearly its name."""
    base, suffix = posixpath.basename(path), posixpath.splitext(path)[1]
    near = sorted(f for f in files if posixpath.basename(f) == base)[:1]
    alike = sorted(f for f in files if f.endswith(suffix))[:_MOST_FILES]
    name = near[0] if near else find_nearest(path, alike, 0.8)
    return (
        f"did you mean {name}?"
        if name
        else "check that it is not ignored and not in another folder"
    )

"""A strategy that only stands in a file: whether the program mentions that file."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from jobgen.launch.distributed import forms_group
from jobgen.model.plan import Check

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.shell.programs import StartedProgram

UNREAD = "J256"
FILES = {
    "torch": {"JOBGEN_STRATEGY": "strategy.json"},
    "deepspeed": {"JOBGEN_DEEPSPEED_CONFIG": "ds_config.json", "JOBGEN_STRATEGY": "strategy.json"},
}
"""Framework → the variables that name its files, and their names. The other frameworks get
arguments, or the launcher's configuration, which no program has to read."""


def check_readers(
    spec: Loaded[JobSpec], sources: Mapping[str, str] | None, launcher: str, framework: str
) -> Iterator[Check]:
    """A warning where nothing of the program mentions the file of ``train.strategy``."""
    files, key = FILES.get(framework), ("train", "strategy")
    if not files or sources is None or not (key in spec.places or key in spec.overrides):
        return
    programs = [
        _path(program, sources)
        for program, _ in spec.programs
        if program.launcher or forms_group(program, launcher)
    ]
    job, words = spec.value, (*files, *files.values())
    texts = (job.run, *job.setup, *job.env.values(), *sources.values())
    if not programs or not all(programs) or any(w in text for text in texts for w in words):
        return
    variable, file = next(iter(files.items()))
    program = programs[0]
    message = (
        f"train.strategy only writes {file}, and {program} does not mention {variable} or {file}: "
        "it trains as it is written"
    )
    hint = f"read ${variable} in the program, or write framework: none to only plan"
    yield Check("warn", message, UNREAD, hint, spec.at(*key))


def _path(program: StartedProgram, sources: Mapping[str, str]) -> str:
    """The file of the workdir that a program is; empty where it is not one that was read."""
    folder = program.folder or ""
    paths = [posixpath.normpath(posixpath.join(folder, program.script))] if program.script else []
    if program.module:
        path = posixpath.normpath(posixpath.join(folder, *program.module.split(".")))
        paths += [f"{path}.py", f"{path}/__main__.py"]
    return next((path for path in paths if path in sources), "")

"""What ``train.strategy`` writes or passes: whether the program mentions what it has to read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.launch.distributed import forms_group
from jobgen.model.plan import PlanCheck
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.facts import Facts
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.shell import Word
    from jobgen.shell.started_program import StartedProgram

UNREAD = "J256"
FILES = {
    "torch": {"JOBGEN_STRATEGY": "strategy.json"},
    "deepspeed": {"JOBGEN_DEEPSPEED_CONFIG": "ds_config.json", "JOBGEN_STRATEGY": "strategy.json"},
}
"""Framework → the variables that name its files, and their names."""


class _Parser(NamedTuple):
    names: tuple[str, ...]
    """The classes that read the arguments of a framework, the usual one first."""
    hint: str


_PARSERS = {
    "hf-trainer": _Parser(
        ("HfArgumentParser", "TrlParser", "H4ArgumentParser"),
        "parse them with HfArgumentParser or TrlParser; or set framework: none to plan only",
    ),
    "lightning": _Parser(
        ("LightningCLI",),
        (
            "build the Trainer with LightningCLI; or set framework: none and use "
            "$LOCAL_WORLD_SIZE and $SLURM_NNODES in the program"
        ),
    ),
}
"""Frameworks that get arguments, which a program reads only if it builds such a parser."""
_OWN_PARSERS = ("jsonargparse", "simple_parsing", "sys.argv", "tyro", "fire.Fire")
"""What may read any argument."""
_SHOWN = 2
_LONGEST_PATH = 400
_SEPARATORS = r"[\s'\"`=,;:()\[\]<>|&]"


def check_readers(
    spec: Loaded[JobSpec],
    facts: Facts,
    launcher: str,
    framework: str,
    args: Sequence[Word] = (),
) -> Iterator[PlanCheck]:
    """A warning where nothing of the program mentions the file, or a parser of the arguments."""
    sources = facts.sources
    if sources is None or framework not in {*FILES, *_PARSERS}:
        return
    programs = [
        _path(program, sources)
        for program, _ in spec.programs
        if program.launcher or forms_group(program, launcher)
    ]
    if not programs or not all(programs):
        return
    job = spec.value
    texts = (job.run, *job.setup, *job.env.values(), *sources.values())
    if framework in _PARSERS:
        yield from _arguments(spec, framework, programs[0], texts, args)
    elif ("train", "strategy") in {*spec.places, *spec.overrides}:
        yield from _files(
            spec, framework, programs[0], texts, {*sources, *(facts.workdir_files or ())}
        )


def _files(
    spec: Loaded[JobSpec],
    framework: str,
    program: str,
    texts: Sequence[str],
    workdir: Collection[str],
) -> Iterator[PlanCheck]:
    files = FILES[framework]
    bundle = any("JOBGEN_BUNDLE_DIR" in text for text in texts)
    for text in texts:
        for variable, file in files.items():
            if variable in text or _names_file(text, file, () if bundle else workdir):
                return
    variable, file = next(iter(files.items()))
    message = f"train.strategy has no effect: {program} reads neither {variable} nor {file}"
    hint = f"read ${variable} in the program, or set framework: none to plan only"
    yield PlanCheck("warn", message, UNREAD, hint, spec.find_place("train", "strategy"))


def _names_file(text: str, file: str, workdir: Collection[str]) -> bool:
    """Whether a text names the file of the bundle, not one of that name in the workdir."""
    own = [f"/{known}" for known in workdir if posixpath.basename(known) == file]
    at = text.find(file)
    while at >= 0:
        before = text[max(0, at - _LONGEST_PATH) : at][::-1]
        end = re.search(_SEPARATORS, before)
        path = before[: end.start() if end else None][::-1] + file
        path = re.sub(r"^\$\{?JOBGEN_WORK_DIR\}?/", "", path)
        if re.search(r"[${}%]", path):
            return True
        path = posixpath.normpath(path)
        other = any(known.endswith(f"/{path}") for known in own)
        if posixpath.basename(path) == file and not other:
            return True
        at = text.find(file, at + 1)
    return False


def _arguments(
    spec: Loaded[JobSpec], framework: str, program: str, texts: Sequence[str], args: Sequence[Word]
) -> Iterator[PlanCheck]:
    parser, passed = _PARSERS[framework], [str(arg) for arg in args]
    read = (*parser.names, *_OWN_PARSERS)
    options = (arg.partition("=")[0] for arg in passed)
    # an option between quotes is one that the program defines itself
    own = [f"{quote}{option}{quote}" for option in options for quote in "'\""]
    if any(word in text for text in texts for word in (*read, *own)):
        return
    shown = ", ".join(passed[:_SHOWN]) or "arguments"
    if len(passed) > _SHOWN:
        shown += f" and {len(passed) - _SHOWN} more"
    message = (
        f"train: passes {shown} to {program}, which has no {parser.names[0]}: it ignores "
        "them or fails"
    )
    yield PlanCheck("warn", message, UNREAD, parser.hint, spec.find_place("train", "framework"))


def _path(program: StartedProgram, sources: Mapping[str, str]) -> str:
    """The file of the workdir that a program is; empty where it is not one that was read."""
    folder = program.folder or ""
    paths = [posixpath.normpath(posixpath.join(folder, program.script))] if program.script else []
    if program.module:
        path = posixpath.normpath(posixpath.join(folder, *program.module.split(".")))
        paths += [f"{path}.py", f"{path}/__main__.py"]
    return next((path for path in paths if path in sources), "")

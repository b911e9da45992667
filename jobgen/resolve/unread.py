"""What ``train.strategy`` writes or passes: whether the program mentions what it has to read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.launch.distributed import forms_group
from jobgen.model.decision import PlanCheck
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
_SETTINGS = ("strategy", "timeout", "fused", "wrap")
"""Keys of train whose only use is that the program obeys them."""
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
    program = _find_program(spec, facts, launcher)
    if framework in _PARSERS and program:
        yield from _arguments(spec, framework, program, _list_texts(spec, facts), args)
        return
    written = {*spec.places, *spec.overrides}
    key = next((key for key in _SETTINGS if ("train", key) in written), "")
    if not key or not is_unread(spec, facts, launcher, framework):
        return
    variable, file = next(iter(FILES[framework].items()))
    message = f"train.{key} has no effect: {program} reads neither {variable} nor {file}"
    hint = f"read ${variable} in the program, or set framework: none to plan only"
    yield PlanCheck("warn", message, UNREAD, hint, spec.find_place("train", key))


def is_unread(spec: Loaded[JobSpec], facts: Facts, launcher: str, framework: str) -> bool:
    """Whether nothing of the program mentions the files that jobgen writes for it."""
    if framework not in FILES or not _find_program(spec, facts, launcher):
        return False
    texts = _list_texts(spec, facts)
    bundle = any("JOBGEN_BUNDLE_DIR" in text for text in texts)
    workdir = () if bundle else {*(facts.sources or ()), *(facts.workdir_files or ())}
    return not any(
        variable in text or _names_file(text, file, workdir)
        for text in texts
        for variable, file in FILES[framework].items()
    )


def _find_program(spec: Loaded[JobSpec], facts: Facts, launcher: str) -> str:
    """The first program of ``run``; empty unless the sources of all are known."""
    if facts.sources is None:
        return ""
    programs = [
        _path(program, facts.sources)
        for program, _ in spec.programs
        if program.launcher or forms_group(program, launcher)
    ]
    return programs[0] if programs and all(programs) else ""


def _list_texts(spec: Loaded[JobSpec], facts: Facts) -> tuple[str, ...]:
    job = spec.value
    return (job.run, *job.list_setup(), *job.env.values(), *(facts.sources or {}).values())


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

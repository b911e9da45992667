"""The text of the files of a workdir that ``run:`` names, and of those that they import."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.app.workdir_files import read_file
from jobgen.shell.programs import read_started

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.shell.started_program import StartedProgram
    from jobgen.upload import Manifest

MOST_FILES = 200
MOST_BYTES = 8 << 20
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]{0,9999}\)|[^\n#]*)"
    r"|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
_FILE = r"(?<![\w./-])[\w./-]+\.\w+"


def read_sources(spec: Loaded[JobSpec], manifest: Manifest) -> dict[str, str] | None:
    """Path → text; None where they are too many or too long, or one changes at this moment."""
    entries = {entry.path: entry for entry in manifest.files}
    texts: dict[str, str] = {}
    waiting = list(dict.fromkeys(path for path in _named(spec) if path in entries))
    room = MOST_BYTES
    while waiting:
        path = waiting.pop()
        if path in texts:
            continue
        room -= entries[path].size
        if len(texts) == MOST_FILES or room < 0:
            return None
        content = read_file(manifest, entries[path])
        if content is None:
            return None
        texts[path] = content.decode("utf-8", "replace")
        waiting += [other for other in _mentioned(path, texts[path]) if other in entries]
    return texts


def _named(spec: Loaded[JobSpec]) -> Iterator[str]:
    """Paths that words of ``run:`` may be."""
    folders = {"", *(program.folder or "" for program, _ in spec.programs)}
    for folder in sorted(folders):
        for started in _list_started(spec.value):
            for word in (*started.assignments, *started.words):
                yield from _paths(folder, word.text.rpartition("=")[2])
        for program, _ in spec.programs:
            yield from _paths(folder, program.script)
            yield from _modules(folder, program.module)


def _list_started(job: JobSpec) -> Iterator[StartedProgram]:
    """All that ``run``, or that of each step, starts."""
    for each in job.list_programs():
        yield from read_started(each.run)


def _paths(folder: str, name: str) -> Iterator[str]:
    if name and not name.startswith(("/", "~", "-", "$")):
        yield posixpath.normpath(posixpath.join(folder, name))


def _modules(folder: str, name: str) -> Iterator[str]:
    """The files that Python runs to import a module: those of its packages first."""
    path = folder
    for part in name.split(".") if name else ():
        path = posixpath.normpath(posixpath.join(path, part))
        yield f"{path}/__init__.py"
    if name:
        yield from (f"{path}.py", f"{path}/__main__.py")


def _mentioned(path: str, text: str) -> Iterator[str]:
    """Paths of the modules that a Python file imports, and of the files that a script names."""
    folder = posixpath.dirname(path)
    if not path.endswith(".py"):
        for match in re.finditer(_FILE, text if path.endswith((".sh", ".bash")) else ""):
            yield from _paths("", match.group())
            yield from _paths(folder, match.group())
        return
    for match in _IMPORT.finditer(text):
        module, names, plain = match.groups()
        for name in _split(plain or ""):
            for start in ("", folder, "src"):
                yield from _modules(start, name)
        for start in _starts(folder, module or ""):
            inner = (module or "").lstrip(".")
            yield from _modules(start, inner or "__init__")  # ``from . import``
            for name in _split(names or ""):
                yield from _modules(start, f"{inner}.{name}".strip("."))


def _starts(folder: str, module: str) -> tuple[str, ...]:
    """The folders in which a module of ``from MODULE import`` is looked for."""
    dots = len(module) - len(module.lstrip("."))
    if not module:
        return ()
    if not dots:
        return ("", folder, "src")
    return (posixpath.normpath(posixpath.join(folder, *[".."] * (dots - 1))),)


def _split(names: str) -> list[str]:
    """``a, b as c`` → a and b."""
    parts = re.sub(r"#[^\n]*|[()]", "", names).split(",")
    return [words[0] for part in parts if (words := part.split())]

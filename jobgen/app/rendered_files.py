"""The rendered files: printed, written into a folder, compared with one."""

from __future__ import annotations

import errno
from pathlib import Path

from jobgen.app.prepare import PreparedJob
from jobgen.app.world import write_regular
from jobgen.errors import Missing, Usage
from jobgen.named_tuple import NamedTuple


class Difference(NamedTuple):
    """One file that is not as it would be rendered now; ``diff`` is a unified diff."""

    path: str
    what: str
    diff: str = ""


def get_file(ready: PreparedJob, name: str) -> bytes:
    """One file of the bundle, byte for byte what is submitted. Raises Missing."""
    found = next((f.content for f in ready.bundle.files if f.path == name), None)
    if found is None:
        known = ", ".join(f.path for f in ready.bundle.files)
        raise Missing(f"no file '{name}' in this bundle", hint=f"there are: {known}")
    return found


def write(ready: PreparedJob, folder: Path) -> tuple[Path, ...]:
    """Write the bundle into a folder, which is made where it is missing; gives the paths."""
    try:
        return tuple(_write(folder, f.path, f.content, f.mode) for f in ready.bundle.files)
    except OSError as error:
        raise Usage(
            f"{error.filename or folder}: cannot be written: {error.strerror}",
            hint="name another folder with -o",
        ) from error


def _write(folder: Path, name: str, content: bytes, mode: int) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for above in (path.parent, *path.parent.parents):
        if not above.is_relative_to(folder):
            break
        if above.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link", str(above))
    write_regular(path, content)
    path.chmod(mode)
    return path


def compare(ready: PreparedJob, folder: Path) -> tuple[Difference, ...]:
    """What in a folder differs from the bundle: changed, missing or unknown files."""
    wanted = {f.path: f.content for f in ready.bundle.files}
    there = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    found = []
    for name, content in wanted.items():
        if name not in there:
            found.append(Difference(name, "missing"))
        elif (old := there[name].read_bytes()) != content:
            found.append(Difference(name, "different", diff_texts(name, old, content)))
    found += [Difference(name, "not of this bundle") for name in there if name not in wanted]
    return tuple(found)


def diff_texts(name: str, old: bytes, new: bytes, *, context: int = 3) -> str:
    """A unified diff of two versions of a text file."""
    import difflib
    import io

    texts = (content.decode("utf-8", "replace") for content in (old, new))
    before, now = (list(io.StringIO(text, newline="\n")) for text in texts)
    diff = difflib.unified_diff(before, now, f"before/{name}", f"now/{name}", n=context)
    return "".join(ln if ln.endswith("\n") else f"{ln}\n\\ no newline at the end\n" for ln in diff)

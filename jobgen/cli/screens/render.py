"""The answer of ``render``, where it is not the file itself."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align
from jobgen.cli.output import Ink, defuse
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.app.rendered_files import Difference


def draw_written(ready: PreparedJob, folder: Path) -> str:
    """What was written, and what to do with it."""
    files = ready.bundle.files
    rows = [(f.path, count(f.content.count(b"\n"), "line")) for f in files]
    entry = ready.bundle.entry
    return (
        f"Wrote {count(len(files), 'file')} to {defuse(folder)}\n{align(rows, indent='  ')}"
        "By hand: copy these files and your program into one folder on the cluster. There:\n"
        f"  mkdir -p logs && sbatch {entry}\n"
    )


def draw_differences(found: Sequence[Difference], ink: Ink) -> str:
    """Each file that differs, with its diff; or that none does."""
    if not found:
        return f"{ink('good', 'no differences')} in the rendered files\n"
    parts = []
    for one in found:
        parts.append(f"{ink('strong', defuse(one.path))}: {defuse(one.what)}\n")
        parts.append(draw_diff(one.diff, ink))
    return "".join(parts)


def draw_diff(text: str, ink: Ink) -> str:
    """A unified diff, coloured line by line; never folded."""
    styles = {"+": "good", "-": "bad", "@": "faint"}
    lines = (defuse(line) for line in split_lines(text))
    return "".join(
        (ink(styles[line[0]], line) if line[:1] in styles else line) + "\n" for line in lines
    )


def dump_differences(found: Sequence[Difference]) -> dict[str, Any]:
    """The files that differ, as plain data."""
    return {"differences": [{"path": d.path, "what": d.what, "diff": d.diff} for d in found]}


def data(ready: PreparedJob, paths: Sequence[Path]) -> dict[str, Any]:
    """The files as plain data, with what they hold."""
    return {
        "digest": f"sha256:{ready.bundle.digest}",
        "entry": ready.bundle.entry,
        "written": [str(path) for path in paths],
        "files": [
            {
                "path": f.path,
                "mode": f"{f.mode:04o}",
                "sha256": sha256(f.content).hexdigest(),
                "text": f.content.decode("utf-8", "replace"),
            }
            for f in ready.bundle.files
        ],
    }

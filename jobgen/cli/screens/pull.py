"""The answer of ``pull``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, format_size
from jobgen.cli.output import defuse
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.pulling import Pulled
    from jobgen.transport.fetch import RemoteFile

SHOWN = 15
"""Files that are listed; ``-v`` lists all."""


def screen(found: Pulled, *, dry_run: bool, verbose: bool) -> str:
    """What was copied, then what was synced."""
    copied = _draw_copied(found, dry_run=dry_run, verbose=verbose)
    return copied + _draw_synced(found, dry_run=dry_run)


def _draw_synced(found: Pulled, *, dry_run: bool) -> str:
    if found.synced is None:
        return ""
    if not found.synced:
        return "W&B: no offline run to sync\n"
    runs = count(len(found.synced), "offline run")
    if not dry_run:
        return f"W&B: synced {runs}\n"
    folders = [f"  {defuse(run.rsplit('/', 1)[0])}\n" for run in found.synced]
    return f"W&B: would sync {runs}:\n{''.join(folders)}"


def _draw_copied(found: Pulled, *, dry_run: bool, verbose: bool) -> str:
    """How much was copied, or would be, and where to; of a dry run also the files."""
    name, folder = defuse(found.record.alias), defuse(found.folder)
    if found.record.code_folder and not found.matched:
        where = f"in {defuse(found.record.code_folder)}, where its code stays"
        return f"{name}: no file matches {' '.join(map(defuse, found.patterns))} {where}\n"
    if not found.matched:
        return f"{name}: no file matches {' '.join(map(defuse, found.patterns))}\n"
    if not found.needed:
        return (
            f"{name}: nothing to copy, {count(len(found.matched), 'file')} already in {folder}/\n"
        )
    here = len(found.matched) - len(found.needed)
    skipped = f"; {count(here, 'file')} already there" if here else ""
    verb = "would copy" if dry_run else "copied"
    source = found.record.code_folder
    origin = f" from {defuse(source)}, which other runs may write to" if source else ""
    head = f"{name}: {verb} {_measure(found.needed)}{origin} to {folder}/{skipped}\n"
    if not (dry_run or verbose):
        return head
    most = len(found.needed) if verbose else SHOWN
    rows = [(format_size(file.size), defuse(file.path)) for file in found.needed[:most]]
    hidden = len(found.needed) - len(rows)
    more = f"  {count(hidden, 'more file')} (-v lists all)\n" if hidden > 0 else ""
    return f"{head}{align(rows, indent='  ') if rows else ''}{more}"


def _measure(files: Sequence[RemoteFile]) -> str:
    return f"{count(len(files), 'file')}, {format_size(sum(file.size for file in files))}"


def data(found: Pulled, *, dry_run: bool) -> dict[str, Any]:
    """The files, as plain data."""
    needed = {file.path for file in found.needed}
    return {
        "id": found.record.alias,
        "folder": str(found.folder),
        "dry_run": dry_run,
        "checked": found.checked,
        **({} if found.synced is None else {"synced": list(found.synced)}),
        "files": [
            {"path": file.path, "bytes": file.size, "copied": file.path in needed and not dry_run}
            for file in found.matched
        ],
    }

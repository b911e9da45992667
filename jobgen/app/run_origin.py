"""What a run was submitted from: written into its run directory, and read from there."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from os.path import relpath
from typing import TYPE_CHECKING

from jobgen import __version__
from jobgen.data.secret_rules import has_token
from jobgen.model.bundle import BundleFile
from jobgen.model.origin import (
    CHANGES,
    LONGEST,
    SUBMISSION,
    ImageDigest,
    ProgramEnvironment,
    RunOrigin,
    read_environment,
    read_image,
    read_origin,
)
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.code_changes import CodeChanges
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport

_RECORDS = r"""
cd "$1/state" 2>/dev/null || exit 0
for path in */environment.[0-9]* */image_digest.*; do
  case $path in *.part) ;; *) [ ! -f "$path" ] || printf '%s\n' "$path" ;; esac
done
"""


class KeptOrigin(NamedTuple):
    """What of a run's origin could be read; None for what was never written."""

    origin: RunOrigin | None
    environment: ProgramEnvironment | None
    patch: bytes = b""
    digest: str = ""
    """Of the file that describes the origin."""
    images: tuple[ImageDigest, ...] = ()
    """Those of all its programs."""


def describe_origin(ready: PreparedJob, changes: CodeChanges) -> RunOrigin:
    """What a prepared job with these changes is submitted from."""
    entries = ready.manifest.entries if ready.manifest else ()
    found = {
        name: value for name, value in changes._asdict().items() if name not in ("patch", "folder")
    }
    return RunOrigin(
        jobgen=__version__,
        label=ready.label,
        job=_drop_tokens(ready.text),
        folder=changes.folder or relpath(ready.workdir, ready.base),
        cluster=ready.cluster_file.name,
        profile={label: _drop_tokens(text) for label, text in ready.cluster_file.texts.items()},
        image=", ".join(container.image for container in ready.plan.containers),
        sets=tuple(text for text in ready.sets if not has_token(text)),
        links={entry.path: entry.target for entry in entries if entry.kind == "link"},
        executables=tuple(e.path for e in entries if e.kind == "file" and e.mode & 0o100),
        patch_digest=compute_digest(changes.patch),
        **found,
    )


def _drop_tokens(text: str) -> str:
    """The text; nothing if it has a token in it."""
    return "" if has_token(text) else text


def list_origin_files(ready: PreparedJob, changes: CodeChanges) -> tuple[BundleFile, ...]:
    """The files that keep it in the run directory."""
    patch, origin = changes.patch, describe_origin(ready, changes)
    kept = BundleFile(SUBMISSION, origin.dump().encode("utf-8", "replace"), 0o600)
    return (kept, BundleFile(CHANGES, patch, 0o600)) if patch else (kept,)


def read_kept(transport: Transport, record: RunRecord, *, patch: bool = False) -> KeptOrigin:
    """What the run directory keeps of a run. Raises Unreachable."""
    submission = read_file(transport, posixpath.join(record.directory, SUBMISSION))
    origin = read_origin(submission.decode("utf-8", "replace"))
    changes = b""
    if patch and origin and origin.changed:
        changes = read_file(transport, posixpath.join(record.directory, CHANGES))
    if origin and compute_digest(changes) != origin.patch_digest:
        changes = b""
    digest, records = compute_digest(submission), _list_records(transport, record)
    environments = _read_newest(transport, record, records, "environment")
    images = [read_image(text) for text in _read_newest(transport, record, records, "image_digest")]
    return KeptOrigin(
        origin,
        read_environment("".join(environments)),
        changes,
        digest,
        tuple(image for image in images if image is not None),
    )


def compute_digest(content: bytes) -> str:
    """Its SHA-256; nothing of nothing."""
    return hashlib.sha256(content).hexdigest() if content else ""


def _list_records(transport: Transport, record: RunRecord) -> Mapping[str, int]:
    """Path → start, of what each start recorded below ``state``."""
    from jobgen.shell import build_script

    printed = transport.call(build_script(_RECORDS, record.directory)).out
    paths = [path for path in printed.decode("utf-8", "replace").split("\n") if path]
    starts = {path: path.rpartition(".")[2] for path in paths if "\0" not in path}
    return {p: int(start) for p, start in starts.items() if start.isdecimal() and len(start) < 9}


def _read_newest(
    transport: Transport, record: RunRecord, records: Mapping[str, int], name: str
) -> list[str]:
    """What the newest start recorded under a name, in one file or several; of an array, of one
    element."""
    usable = [path for path in records if posixpath.basename(path).startswith(f"{name}.")]
    if not usable:
        return []
    newest = max(usable, key=records.__getitem__)
    folder, start = posixpath.dirname(newest), records[newest]
    return [
        read_file(transport, f"{record.directory}/state/{path}").decode("utf-8", "replace")
        for path in sorted(usable)
        if posixpath.dirname(path) == folder and records[path] == start
    ]


def read_file(transport: Transport, path: str) -> bytes:
    """The bytes of a file there, at most ``LONGEST``; none if there is no such file."""
    from jobgen.transport.files import read_at

    chunk = read_at(transport, path, 0, LONGEST)
    return chunk.data if chunk else b""

"""What of a working directory is sent and what is not, as a value."""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jobgen.errors import Diagnostic, JobgenError
from jobgen.named_tuple import NamedTuple

SMALL = 1 << 16
"""Bytes of a file that is read in one piece, and kept for sending after a search."""
KEPT = 32 << 20
"""Bytes of all files that are kept."""
_READ = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Since the scan a file may have become a link to somewhere else, or a pipe."""
_LOG = re.compile(r"\.(?:log|out|err|txt|csv|jsonl)$|(?:^|[/.])events\.out\.tfevents\.")
"""Files that programs append to: what was there before stays as it is. A program that grew was
written anew, and half of it would be another one."""


class Entry(NamedTuple):
    """One file, directory or symbolic link: its POSIX path below the root, size and mode."""

    path: str
    kind: Literal["file", "dir", "link"] = "file"
    size: int = 0
    mode: int = 0o644
    target: str = ""
    """Where a link points, relative to the link."""
    stamp: tuple[int, int, int] = (0, 0, 0)
    """Device, inode and time of change: what must still be true when the file is read."""


class Ignored(NamedTuple):
    """What lies in one top-level entry and is not sent. ``at_least``: not counted to the end."""

    path: str
    files: int
    size: int
    at_least: bool = False


class KeptFiles:
    """What was read of small files, up to ``KEPT`` bytes of all."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._left = KEPT

    def add(self, path: str, content: bytes) -> None:
        """Keep this, if there is room."""
        if len(content) <= self._left and path not in self._contents:
            self._contents[path] = content
            self._left -= len(content)

    def get(self, path: str) -> bytes | None:
        """What was read of this file; None if it was not kept."""
        return self._contents.get(path)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is sent, in the order it is sent; a directory stands before what is in it."""

    root: Path
    entries: tuple[Entry, ...]
    ignored: tuple[Ignored, ...] = ()
    """Largest first."""
    withheld: tuple[str, ...] = ()
    """Files that look like secrets, and that no rule names with a ``!``."""
    named: frozenset[str] = frozenset()
    """Files that a rule names with a ``!``: they are sent whatever they hold."""
    rules_from: str = ""
    """The name of the ignore file that was used; empty where there is none."""
    kept: KeptFiles = field(default_factory=KeptFiles, compare=False, repr=False)
    """What was read of them so far: what was searched for tokens is what is sent."""

    @property
    def files(self) -> tuple[Entry, ...]:
        """The regular files."""
        return tuple(e for e in self.entries if e.kind == "file")

    @property
    def total(self) -> int:
        """Bytes in all files."""
        return sum(e.size for e in self.entries)

    def list_largest(self, count: int = 5) -> tuple[Entry, ...]:
        """The biggest files, biggest first."""
        return tuple(heapq.nsmallest(count, self.files, key=lambda e: (-e.size, e.path)))

    def compute_digest(self) -> str:
        """The sha256 over path, kind, mode and content of every entry, as hex. Reads every file."""
        hashes = {e.path: _hash(self, e) for e in self.files}
        return digest_content(self, hashes)


def digest_content(manifest: Manifest, hashes: dict[str, str]) -> str:
    """The digest of a manifest whose files have these sha256 sums. No time, owner or inode."""
    total = hashlib.sha256()
    for entry in manifest.entries:
        what = hashes[entry.path] if entry.kind == "file" else entry.target
        line = f"{entry.kind}\0{entry.path}\0{entry.mode:o}\0{what}\0"
        total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _hash(manifest: Manifest, entry: Entry) -> str:
    total = hashlib.sha256()
    for chunk in read(manifest.root, entry):
        total.update(chunk)
    return total.hexdigest()


def read_small(manifest: Manifest, entry: Entry, grown: set[str] | None = None) -> bytes:
    """The bytes of a file of at most ``SMALL`` bytes, of which the next call reads none.

    Raises JobgenError as ``read`` does, also if the file has changed since it was kept.
    """
    content = manifest.kept.get(entry.path)
    path = f"{manifest.root}/{entry.path}"
    try:
        if content is None:
            content, status = _read_once(path, entry.size)
        else:
            status = os.lstat(path)
    except OSError as error:
        raise _changed(entry, f"it cannot be read: {error.strerror}") from error
    _check_unchanged(entry, status, set() if grown is None else grown)
    if len(content) < entry.size:
        raise _changed(entry, "it became shorter")
    manifest.kept.add(entry.path, content)
    return content


def _read_once(path: str, size: int) -> tuple[bytes, os.stat_result]:
    """The first bytes of a file, and its state after they were read."""
    descriptor = os.open(path, _FLAGS)
    try:
        return os.read(descriptor, size), os.fstat(descriptor)
    finally:
        os.close(descriptor)


def read(root: Path, entry: Entry, grown: set[str] | None = None) -> Iterator[bytes]:
    """The bytes of a file: exactly ``entry.size``, and only of the file that was scanned.

    A log that grew is read as far as it went when it was scanned; its path is added to
    ``grown``. Raises JobgenError where it is another file by now, became shorter or was changed
    in place.
    """
    grown = set() if grown is None else grown
    try:
        descriptor = os.open(f"{root}/{entry.path}", _FLAGS)
    except OSError as error:
        raise _changed(entry, f"it cannot be read: {error.strerror}") from error
    try:
        _check_unchanged(entry, os.fstat(descriptor), grown)
        left = entry.size
        while left:
            chunk = os.read(descriptor, min(left, _READ))
            if not chunk:
                raise _changed(entry, "it became shorter")
            left -= len(chunk)
            yield chunk
        _check_unchanged(entry, os.fstat(descriptor), grown)
    finally:
        os.close(descriptor)


def get_stamp(status: os.stat_result) -> tuple[int, int, int]:
    """What identifies one state of one file."""
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _check_unchanged(entry: Entry, status: os.stat_result, grown: set[str]) -> None:
    stamp = get_stamp(status)
    if stamp == entry.stamp and status.st_size == entry.size:
        return
    same_file = stamp[:2] == entry.stamp[:2]
    if not (same_file and status.st_size > entry.size and _LOG.search(entry.path)):
        raise _changed(entry, "it was written to")
    grown.add(entry.path)


def _changed(entry: Entry, what: str) -> JobgenError:
    problem = Diagnostic(
        "J196",
        f"{entry.path} changed during the upload: {what}",
        hint=(
            "nothing was submitted; run the command again when the file no longer changes, or "
            "add it to the ignore file"
        ),
    )
    return JobgenError(problem)

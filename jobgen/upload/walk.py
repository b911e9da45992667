"""A walk over a working directory: what is sent, what is not, and all that is wrong with it."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from jobgen.errors import Diagnostic, Invalid
from jobgen.model.units import format_size
from jobgen.upload.ignore import NEVER, PULLED, SCHEMA, Ignorer, Rules, WorkdirRules
from jobgen.upload.manifest import Entry, Ignored, Manifest, get_stamp

WEIGHED = 10_000
"""Entries of ignored directories that are counted at most; a data set need not be walked."""

_MOST_SHOWN = 10


def scan(root: Path, rules: WorkdirRules | None = None) -> Manifest:
    """The manifest of this directory. Raises Invalid with all that cannot be sent."""
    rules = rules or Rules()
    if not root.is_dir():
        problem = Diagnostic("J180", f"workdir: {root} is not a directory")
        raise Invalid(problem)
    walk = _Walk(root.resolve(), rules)
    walk.run()
    manifest = walk.manifest()
    problems = walk.problems()
    if not problems and manifest.total > rules.max_size:
        problems = [_too_big(manifest, rules.max_size)]
    if problems:
        raise Invalid(*problems)
    return manifest


class _Walk:
    """One walk; directories in the order of their names' bytes, so that walks can be compared."""

    def __init__(self, root: Path, rules: WorkdirRules) -> None:
        self.root = root
        self.ignorer = Ignorer(root, rules)
        self.entries: list[Entry] = []
        self.withheld: list[str] = []
        self.named: set[str] = set()
        self.left_out: dict[str, list[int]] = {}
        self.own_output = _own_output()
        self.budget = WEIGHED
        self.wrong: dict[str, list[str]] = {}

    def run(self) -> None:
        # a stack and not recursion: a tree may be deeper than Python's
        stack = [""]
        while stack:
            directory = stack.pop()
            found = self.listing(directory)
            self.ignorer.enter(directory, [e.name for e in found])
            below = []
            for item in found:
                path = f"{directory}/{item.name}" if directory else item.name
                if self.take(path, item):
                    below.append(path)
            stack += reversed(below)

    def listing(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.root / directory) as found:
                return sorted(found, key=lambda e: os.fsencode(e.name))
        except OSError:
            self.wrong.setdefault("unreadable", []).append(directory or ".")
            return []

    def take(self, path: str, item: os.DirEntry[str]) -> bool:
        """Note the entry; True where it is a directory to go into."""
        try:
            status = item.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        is_directory = stat.S_ISDIR(status.st_mode)
        unwanted = item.name in NEVER or path == SCHEMA
        unwanted |= is_directory and os.path.lexists(f"{item.path}/{PULLED}")
        if unwanted or self.ignorer.ignores(path, is_directory):
            self.leave(path, status)
        elif self.ignorer.withholds(path, is_directory):
            self.withheld.append(path)
        elif not item.name.isprintable() and re.search("[\x00-\x1f\x7f-\x9f]", item.name):
            self.wrong.setdefault("control", []).append(path)
        elif is_directory:
            self.entries.append(Entry(path, "dir", 0, 0o755))
            return True
        else:
            self.keep(path, item, status)
        return False

    def keep(self, path: str, item: os.DirEntry[str], status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            self.link(path)
        elif not stat.S_ISREG(status.st_mode):
            self.wrong.setdefault("special", []).append(path)
        elif (status.st_dev, status.st_ino) in self.own_output:
            self.leave(path, status)
        elif not os.access(item.path, os.R_OK):
            self.wrong.setdefault("unreadable", []).append(path)
        else:
            if self.ignorer.is_named(path):
                self.named.add(path)
            mode = 0o755 if status.st_mode & 0o100 else 0o644
            self.entries.append(Entry(path, "file", status.st_size, mode, "", get_stamp(status)))

    def link(self, path: str) -> None:
        """Keep a link that stays inside, as a relative one; note one that does not."""
        place = self.root / path
        try:
            written = str(place.readlink())
        except OSError:
            self.wrong.setdefault("unreadable", []).append(path)
            return
        target = written
        ends = Path(os.path.realpath(place))
        inside = ends.is_relative_to(self.root)
        if target.startswith("/"):
            target = os.path.relpath(ends, place.parent)
        else:
            # "../here/x" ends inside today, and somewhere else on the other side
            inside = inside and not _climbs_out(path, target)
        if inside:
            self.entries.append(Entry(path, "link", 0, 0o777, target))
        else:
            self.wrong.setdefault("leaving", []).append(f"{path} -> {written}")

    def leave(self, path: str, status: os.stat_result) -> None:
        top = path.partition("/")[0]
        count = self.left_out.setdefault(top, [0, 0, 0])
        stack: list[tuple[str, os.stat_result]] = [(path, status)]
        while stack:
            where, seen = stack.pop()
            if not stat.S_ISDIR(seen.st_mode):
                count[0] += 1
                count[1] += seen.st_size
                continue
            if self.budget <= 0:
                count[2] = 1
                continue
            stack += self.weigh(where)

    def weigh(self, directory: str) -> list[tuple[str, os.stat_result]]:
        found = []
        try:
            with os.scandir(self.root / directory) as items:
                for item in items:
                    self.budget -= 1
                    found.append((f"{directory}/{item.name}", item.stat(follow_symlinks=False)))
        except OSError:
            return found
        return found

    def manifest(self) -> Manifest:
        ignored = [
            Ignored(top, n, size, bool(more)) for top, (n, size, more) in self.left_out.items()
        ]
        ignored.sort(key=lambda i: (-i.size, os.fsencode(i.path)))
        return Manifest(
            self.root,
            tuple(self.entries),
            tuple(ignored),
            tuple(self.withheld),
            frozenset(self.named),
            self.ignorer.source if (self.root / self.ignorer.source).is_file() else "",
        )

    def problems(self) -> list[Diagnostic]:
        return [
            Diagnostic(code, f"workdir: {what}: {_shown(self.wrong[kind])}", hint=hint)
            for kind in self.wrong
            for code, what, hint in [_PROBLEMS[kind]]
        ]


def _own_output() -> set[tuple[int, int]]:
    """Device and inode of the files that this very command writes its output to."""
    found = set()
    for stream in (1, 2):
        with suppress(OSError):
            status = os.fstat(stream)
            if stat.S_ISREG(status.st_mode):
                found.add((status.st_dev, status.st_ino))
    return found


def _climbs_out(path: str, target: str) -> bool:
    """Whether a relative link, followed word by word, is above the root at any time."""
    depth = path.count("/")
    for word in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(word, 1)
        if depth < 0:
            return True
    return False


_PROBLEMS = {
    "leaving": (
        "J191",
        "symbolic links lead out of the working directory",
        "add them to the ignore file, or copy their targets into the directory",
    ),
    "special": (
        "J192",
        "special files (socket, pipe or device) cannot be uploaded",
        "add them to the ignore file",
    ),
    "control": (
        "J193",
        "file names contain control characters",
        "rename them, or add them to the ignore file",
    ),
    "unreadable": (
        "J194",
        "no permission to read",
        "change their mode, or add them to the ignore file",
    ),
}
"""Why entries cannot be sent → code, message and hint."""


def _too_big(manifest: Manifest, limit: int) -> Diagnostic:
    biggest = ", ".join(
        f"{_printable(e.path)} {format_size(e.size)}" for e in manifest.list_largest()
    )
    return Diagnostic(
        "J195",
        f"workdir: {format_size(manifest.total)} in {len(manifest.files)} files exceeds the "
        f"limit of {format_size(limit)} (workdir.max_size); largest: {biggest}",
        hint=(
            "add unneeded files to .jobgenignore, move data to the cluster's file system, or "
            "raise workdir.max_size"
        ),
    )


def _shown(paths: list[str]) -> str:
    more = f" and {len(paths) - _MOST_SHOWN} more" if len(paths) > _MOST_SHOWN else ""
    return ", ".join(_printable(p) for p in paths[:_MOST_SHOWN]) + more


def _printable(path: str) -> str:
    return path if path.isprintable() else repr(path)

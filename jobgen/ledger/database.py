"""The ledger's file: made, checked, opened, brought up to date; and its faults in words."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobgen.errors import JobgenError

FULL = "disk is full"
"""sqlite3's words."""
RESERVE = 256 << 10
"""Bytes that are kept beside the database, to be given up when there is no room for a change."""
BUSY = 10.0
"""Seconds to wait for another jobgen that is writing."""

_FIRST = """
CREATE TABLE runs (
    token TEXT PRIMARY KEY, alias TEXT NOT NULL UNIQUE, name TEXT NOT NULL, number INTEGER NOT NULL,
    cluster TEXT NOT NULL, job INTEGER, ended INTEGER NOT NULL, created REAL NOT NULL,
    data TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '', leased REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX runs_created ON runs (ended, created);
CREATE INDEX runs_name ON runs (name, number);
CREATE INDEX runs_job ON runs (job);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, token TEXT NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX events_token ON events (token);
CREATE TABLE files (
    token TEXT NOT NULL, path TEXT NOT NULL, mode INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (token, path)
) WITHOUT ROWID;
CREATE TABLE cursors (token TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
"""
MIGRATIONS: tuple[str, ...] = (_FIRST,)
"""Script number N brings a file of version N to version N + 1."""


class Database:
    """The file at ``path``. Reading one that is not there finds nothing and makes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file; it opens again when needed."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def reserve(self) -> None:
        """Make sure that a later change can be written although the disk becomes full.

        Raises JobgenError where there is no room for that now.
        """
        with self._explained():
            self._connection(create=True)
            _reserve(self.path)

    def check(self) -> str:
        """``ok``, or what sqlite3 finds wrong with the file."""
        rows = self.read("PRAGMA integrity_check(1)", ())
        return str(rows[0][0]) if rows else "ok"

    def read(self, query: str, values: Sequence[Any]) -> list[Any]:
        """The rows of a query."""
        with self._explained():
            if self._open is None and not self.path.exists():
                return []
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction, which is committed unless something is raised."""
        with self._explained():
            db = self._connection(create=True)
            try:
                # inside: Ctrl-C may come right after it, and the file would stay locked
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _connection(self, *, create: bool = False) -> sqlite3.Connection:
        if self._open is None:
            self._open = open_database(self.path, create=create)
        return self._open

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise _explain(self.path, error) from error


def open_database(path: Path, *, create: bool) -> sqlite3.Connection:
    """An open connection, of the newest version. Raises JobgenError where the file is not safe.

    A file that may not be written is opened for reading. Without ``create`` it must be there.
    """
    if create and not path.exists():
        _make(path)
    _safe(path.parent, path.parent.stat())
    _safe(path, path.lstat())
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    mode = "rw" if writable else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)
    try:
        if writable:
            db.execute("PRAGMA synchronous = FULL")
        _migrate(db, path, writable=writable)
    except BaseException:
        db.close()
        raise
    return db


def _explain(path: Path, error: sqlite3.Error | OSError) -> JobgenError:
    """What an error means for a person, and what to do."""
    text = (error.strerror or "") if isinstance(error, OSError) else str(error)
    for mark, what, hint in _MEANINGS:
        if mark in text:
            return JobgenError(f"the run database {path} {what}", hint=hint.format(path=path))
    hint = f"check the file; to start a new one: mv {path} {path}.old"
    return JobgenError(f"cannot use the run database {path}: {text}", hint=hint)


_DAMAGED = "jobs are not affected; to start a new run database: mv {path} {path}.damaged"
_MEANINGS = (
    (
        "locked",
        f"has been locked by another jobgen for more than {BUSY:g} s",
        "wait for that process, or end it",
    ),
    ("readonly", "is not writable", "make it writable: chmod u+w {path}"),
    (FULL, "cannot grow: the disk is full", "free some space there"),
    ("No space left", "cannot grow: the disk is full", "free some space there"),
    ("disk I/O", "cannot be read or written: the disk fails or is full", "check the disk"),
    ("not a database", "is damaged: it is not a database", _DAMAGED),
    ("malformed", "is damaged", _DAMAGED),
    ("unable to open", "cannot be opened", "check the permissions of its folder: ls -ld {path}"),
)


def _reserve(path: Path) -> None:
    """Make sure that a few changes can be written although the disk becomes full.

    Raises OSError where there is no room for that now.
    """
    kept = _reserve_of(path)
    if kept.is_file() and kept.stat().st_blocks * 512 >= RESERVE:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(kept, flags, 0o600)
    try:
        # bytes that compress badly: some file systems keep no blocks for zeros
        os.write(descriptor, os.urandom(RESERVE))
        os.fsync(descriptor)
    except OSError:
        kept.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def give_up_reserve(path: Path) -> bool:
    """Make room out of the reserve; False if there is none."""
    try:
        _reserve_of(path).unlink()
    except OSError:
        return False
    return True


def _reserve_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.reserve")


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_EXCL: never through a link that somebody laid there
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        if path.exists():
            return  # another jobgen was quicker
        raise JobgenError(
            f"cannot create the run database {path}: {error.strerror}",
            hint="set JOBGEN_STATE_HOME to a folder that you can write to",
        ) from error


def _safe(path: Path, status: os.stat_result) -> None:
    """Refuse what somebody else could have written."""
    if stat.S_ISLNK(status.st_mode):
        raise JobgenError(
            f"{path} is a symbolic link",
            hint="set JOBGEN_STATE_HOME to the folder that it points to",
        )
    if status.st_uid != os.geteuid():
        raise JobgenError(
            f"{path} belongs to another user", hint="set JOBGEN_STATE_HOME to a folder of yours"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise JobgenError(f"other users can write to {path}", hint=f"chmod go-w {path}")


def _migrate(db: sqlite3.Connection, path: Path, *, writable: bool) -> None:
    version = _version(db)
    if version > len(MIGRATIONS):
        raise JobgenError(
            f"the run database {path} was written by a newer jobgen (version {version}, "
            f"this one supports {len(MIGRATIONS)})",
            hint="use that jobgen, or set JOBGEN_STATE_HOME to another folder",
        )
    if version == len(MIGRATIONS):
        return
    if not writable:
        raise JobgenError(f"the run database {path} is from an older jobgen, and not writable")
    db.execute("BEGIN IMMEDIATE")
    # another process may have done it while we waited
    for number in range(_version(db), len(MIGRATIONS)):
        for statement in MIGRATIONS[number].split(";"):
            if statement.strip():
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {number + 1}")
    db.execute("COMMIT")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])

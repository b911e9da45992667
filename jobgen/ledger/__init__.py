"""The notebook of this machine: every run, what happened to it, and the files it was made of.

One sqlite3 file and the only SQL. A rollback journal with full synchronisation, because the file
may lie on NFS, where a write-ahead log does not work. Events are only ever added; the table of
runs is what they come to. No secret is ever given to it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from jobgen.errors import JobgenError, Missing, Usage
from jobgen.ledger.database import FULL, give_up_reserve
from jobgen.ledger.leases import LeasedDatabase
from jobgen.model.record import JobId, RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.bundle import Bundle
    from jobgen.model.record_data import RecordChanges

SHORTEST_PREFIX = 6
"""Characters of a token that are enough to name a run."""


_HELD = """CREATE TABLE IF NOT EXISTS held (
    token TEXT PRIMARY KEY, cluster TEXT NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID"""
"""Not one of the migrations, so that a jobgen without it still uses the file."""

Change: TypeAlias = "tuple[str, RecordChanges, tuple[str, str] | None]"
"""Token, fields to change, and the event (kind, text) that tells why."""


class RunEvent(NamedTuple):
    """One thing that happened to a run; ``time`` is of this machine's clock."""

    time: float
    kind: str
    text: str
    data: Mapping[str, Any]


class Ledger(LeasedDatabase):
    """The runs of this machine."""

    # writing

    def begin(self, record: RunRecord, bundle: Bundle | None = None) -> RunRecord:
        """Write down a new run before anything is sent; gives it its alias ``name-N``."""
        with self.write() as db:
            number = _find_number(db, record.name)
            record = record._replace(alias=f"{record.name}-{number}")
            self._insert(db, record, number)
            db.executemany(
                "INSERT INTO files VALUES (?, ?, ?, ?)",
                [
                    (record.token, file.path, file.mode, zlib.compress(file.content))
                    for file in (bundle.files if bundle else ())
                ],
            )
            self._add(db, record.token, "planned", f"planned as {record.alias}")
        return record

    def _insert(self, db: sqlite3.Connection, record: RunRecord, number: int) -> None:
        db.execute(
            "INSERT INTO runs (token, alias, name, number, cluster, job, ended, created, data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (record.token, record.alias, record.name, number, *_columns(record)),
        )

    def take_up(self, record: RunRecord) -> RunRecord:
        """Write down a run that was submitted without this database.

        It keeps its alias ``name-N`` if no other run has it.
        """
        number = record.alias.rpartition("-")[2]
        with self.write() as db:
            taken = db.execute("SELECT 1 FROM runs WHERE alias = ?", (record.alias,)).fetchone()
            own = record.alias == f"{record.name}-{number}" and number.isdecimal() and not taken
            kept = int(number) if own and len(number) < 10 else _find_number(db, record.name)
            record = record._replace(alias=f"{record.name}-{kept}")
            self._insert(db, record, kept)
            self._add(db, record.token, "recovered", f"found in {record.directory}")
        return record

    def has(self, token: str) -> bool:
        """Whether a run with this token is known."""
        return bool(self.read("SELECT 1 FROM runs WHERE token = ?", (token,)))

    def update(
        self, token: str, *, event: tuple[str, str] | None = None, **changes: Unpack[RecordChanges]
    ) -> RunRecord:
        """Change fields of a run, with the event (kind, text) that tells why, in one commit."""
        return self.update_all([(token, changes, event)])[0]

    def update_all(self, changes: Sequence[Change]) -> tuple[RunRecord, ...]:
        """Change many runs in one commit. Raises Missing where one is not there."""
        try:
            return self._change_all(changes)
        except JobgenError as error:
            full = isinstance(error.__cause__, sqlite3.Error) and FULL in str(error.__cause__)
            if not full or not give_up_reserve(self.path):
                raise
        return self._change_all(changes)

    def _change_all(self, changes: Sequence[Change]) -> tuple[RunRecord, ...]:
        with self.write() as db:
            return tuple(self._change(db, *change) for change in changes)

    def _change(
        self,
        db: sqlite3.Connection,
        token: str,
        changes: RecordChanges,
        event: tuple[str, str] | None,
    ) -> RunRecord:
        found = db.execute("SELECT data FROM runs WHERE token = ?", (token,)).fetchone()
        if found is None:
            raise Missing(f"no run with the token {token} in {self.path}")
        record = _record(found[0])._replace(**changes)
        query = "UPDATE runs SET cluster = ?, job = ?, ended = ?, created = ?, data = ?"
        db.execute(f"{query} WHERE token = ?", (*_columns(record), token))
        if event is not None:
            self._add(db, token, *event)
        return record

    def note(
        self, token: str, kind: str, text: str = "", data: Mapping[str, Any] | None = None
    ) -> None:
        """Add an event to a run."""
        with self.write() as db:
            self._add(db, token, kind, text, data)

    # reading

    def get(self, ref: str, *, exact: bool = False) -> RunRecord:
        """A run by its alias, ``@last``, a token's head, a scheduler's id, or its job's name.

        ``exact`` is for what changes a run: a name, which several runs may share, is refused.
        Raises Missing with the nearest alias, and Usage where several runs fit.
        """
        if ref == "@last":
            newest = self.find_last()
            if newest is None:
                raise Missing("no job has been submitted yet", hint="jobgen submit job.yaml")
            return newest
        found = self._named(ref)
        live = [record for record in found if not record.ended]
        if len(found) == 1 or len(live) == 1:
            return (live if len(live) == 1 else found)[0]
        if found:
            which = ", ".join(f"{r.alias} on {r.site.cluster} ({r.state})" for r in found)
            raise Usage(f"{ref} could be any of: {which}", hint=f"use {found[0].alias}")
        newest = self.find_last(ref)
        if newest is None:
            raise self._missing(ref)
        if exact:
            message = f"{ref} is the name of a job, and may have several runs"
            raise Missing(message, hint=f"its newest run is {newest.alias}")
        return newest

    def list_runs(
        self,
        *,
        cluster: str | None = None,
        live_only: bool = False,
        name: str | None = None,
        limit: int | None = None,
        live_first: bool = True,
    ) -> tuple[RunRecord, ...]:
        """Runs, newest first; a limit takes those that have not ended before newer ones, or with
        ``live_first=False`` the newest."""
        most = -1 if limit is None else limit
        rows: list[Any] = []
        for ended in (0,) if live_only else (0, 1):
            # one value of ended at a time: then the index gives the order, and nothing is sorted
            where, values = _where({"ended = ?": ended, "cluster = ?": cluster, "name = ?": name})
            query = f"SELECT created, number, data FROM runs {where} ORDER BY created DESC LIMIT ?"  # noqa: S608
            rows += self.read(query, (*values, most))
            if live_first and limit is not None:
                most = limit - len(rows)
        rows.sort(key=itemgetter(0, 1), reverse=True)
        return tuple(_record(data) for _, _, data in rows[:limit])

    def count_runs(self) -> int:
        """How many runs there are."""
        return sum(row[0] for row in self.read("SELECT COUNT(*) FROM runs", ()))

    def set_held(self, cluster: str, sizes: Mapping[str, int]) -> None:
        """Remember the bytes that runs hold on a cluster, by token."""
        with self.write() as db:
            db.execute(_HELD)
            rows = [(token, cluster, size) for token, size in sizes.items()]
            db.executemany("REPLACE INTO held VALUES (?, ?, ?)", rows)

    def sum_held(self) -> dict[str, tuple[int, int]]:
        """Cluster → how many runs hold files there, and their bytes, as far as is known."""
        if not self.read("SELECT 1 FROM sqlite_master WHERE name = 'held'", ()):
            return {}
        query = "SELECT cluster, COUNT(*), SUM(bytes) FROM held WHERE bytes > 0 GROUP BY cluster"
        return {cluster: (runs, size) for cluster, runs, size in self.read(query, ())}

    def find_last(self, name: str | None = None, *, cluster: str | None = None) -> RunRecord | None:
        """The newest run, of this name and on this cluster where they are given."""
        newest = self.list_runs(name=name, cluster=cluster, limit=1, live_first=False)
        return newest[0] if newest else None

    def get_bundle(self, token: str) -> dict[str, bytes]:
        """The rendered files that a run was submitted with, by path."""
        rows = self.read("SELECT path, content FROM files WHERE token = ? ORDER BY path", (token,))
        return {path: zlib.decompress(content) for path, content in rows}

    def list_events(self, token: str) -> tuple[RunEvent, ...]:
        """What happened to a run, in order."""
        query = "SELECT time, kind, text, data FROM events WHERE token = ? ORDER BY id"
        rows = self.read(query, (token,))
        return tuple(RunEvent(at, kind, text, json.loads(data)) for at, kind, text, data in rows)

    # within

    def _named(self, ref: str) -> list[RunRecord]:
        rows = self.read("SELECT data FROM runs WHERE alias = ? OR token = ?", (ref, ref))
        if not rows and (job := _job_number(ref)) is not None:
            rows = self.read("SELECT data FROM runs WHERE job = ? ORDER BY created DESC", (job,))
        if not rows and len(ref) >= SHORTEST_PREFIX and ref.isascii() and ref.isalnum():
            query = "SELECT data FROM runs WHERE token >= ? AND token < ? ORDER BY created DESC"
            rows = self.read(query, (ref.lower(), ref.lower() + "~"))
        return [_record(row[0]) for row in rows]

    def _missing(self, ref: str) -> Missing:
        from difflib import get_close_matches

        known = [row[0] for row in self.read("SELECT alias FROM runs", ())]
        near = get_close_matches(ref, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "list all runs with: jobgen ls -a"
        return Missing(f"unknown job {ref}", hint=hint)

    def _add(
        self,
        db: sqlite3.Connection,
        token: str,
        kind: str,
        text: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        db.execute(
            "INSERT INTO events (token, time, kind, text, data) VALUES (?, ?, ?, ?, ?)",
            (token, self._now(), kind, text, _json(data or {})),
        )


def _find_number(db: sqlite3.Connection, name: str) -> int:
    """The next free number of a run's alias."""
    query = "SELECT COALESCE(MAX(number), 0) + 1 FROM runs WHERE name = ?"
    return int(db.execute(query, (name,)).fetchone()[0])


def _where(conditions: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The clause of the conditions that have a value, and these values."""
    kept = {words: value for words, value in conditions.items() if value is not None}
    return (f"WHERE {' AND '.join(kept)}" if kept else "", tuple(kept.values()))


def _columns(record: RunRecord) -> tuple[Any, ...]:
    job = None if record.job is None else record.job.job
    data = _json(record.data())
    return record.site.cluster, job, int(record.ended), record.created, data


def _record(data: str) -> RunRecord:
    return RunRecord.from_data(json.loads(data))


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), default=dict)


def _job_number(ref: str) -> int | None:
    job = JobId.read(ref)
    return job.job if job else None

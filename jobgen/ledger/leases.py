"""Which process carries a run out, so that two do not at once, and who takes up a dead one's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from jobgen.ledger.database import Database


class LeasedDatabase(Database):
    """A ledger's file whose runs are leased to processes."""

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._now = now

    def lease(self, token: str, seconds: float) -> bool:
        """Take a run for this process, or hold it on; False where another live one has it.

        A lease is a courtesy between processes: what keeps a run from being submitted twice lies
        in its run directory.
        """
        now, mine = self._now(), name_process()
        with self.write() as db:
            query = "SELECT owner, leased FROM runs WHERE token = ?"
            found = db.execute(query, (token,)).fetchone()
            if found is None or (found[0] != mine and found[1] > now and _lives(found[0])):
                return False
            query = "UPDATE runs SET owner = ?, leased = ? WHERE token = ?"
            db.execute(query, (mine, now + seconds, token))
        return True

    def get_holder(self, token: str) -> tuple[str, float]:
        """The process that has a run, ``HOST:PID``, and until when; empty and 0 if none has."""
        rows = self.read("SELECT owner, leased FROM runs WHERE token = ?", (token,))
        return (str(rows[0][0]), float(rows[0][1])) if rows else ("", 0.0)

    def release(self, token: str) -> None:
        """Give a run free again, if it is ours."""
        with self.write() as db:
            query = "UPDATE runs SET owner = '', leased = 0 WHERE token = ? AND owner = ?"
            db.execute(query, (token, name_process()))


def name_process() -> str:
    """The name of this process among those that may share a home directory."""
    return f"{os.uname().nodename}:{os.getpid()}"


def _lives(owner: str) -> bool:
    """Whether a process of that name may be there; one on another host always may."""
    host, _, pid = owner.rpartition(":")
    if host != os.uname().nodename or not pid.isdigit():
        return bool(host)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

"""The supervisor: one process a job, from the queue to the last reaped descendant.

It alone writes the job's status. Wishes of scancel and scontrol come as letters; whoever leaves one
holds the store's lock, and an end is written under the same lock, so that no wish is lost between.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from . import processes
from .records import Job, Status
from .run import EndState, LocalRun
from .schedule import turn
from .store import Store, here
from .wake import Wake

_SIGNALS = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM)
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_AGAIN = 0.05
_LOOK = 1.0
"""Seconds between two looks at the queue where nothing wakes us."""


def main(store: Store, words: Sequence[str]) -> int:
    """Supervise job ``words[0]``; descriptor ``words[1]`` tells sbatch that it is accepted."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    family = processes.Family()
    try:
        Supervisor(store, int(words[0]), Wake(_SIGNALS), family).live(int(words[1]))
    finally:  # whatever went wrong (somebody removed our folder): nothing runs on unwatched
        while family.members():
            family.kill()
            processes.reap()
            time.sleep(_AGAIN)
    return 0


class Supervisor:
    """The life of one job."""

    def __init__(self, store: Store, number: int, wake: Wake, family: processes.Family) -> None:
        self.store = store
        self.number = number
        self.wake = wake
        self.family = family
        self.cancelled = False
        self.job = self._accepted()

    def live(self, told: int) -> None:
        """From PENDING to the end."""
        (self.store.root / "active" / str(self.number)).touch()
        with contextlib.suppress(BrokenPipeError):  # sbatch may be gone; the job is accepted
            os.write(told, b"accepted")
        os.close(told)
        while self._await_turn():
            verdict = LocalRun(self.store, self.job, self.wake, self.family).run()
            if self._conclude(verdict):
                break
        self.store.wake()

    def _accepted(self) -> Job:
        me = processes.process(os.getpid())
        status = Status(
            supervisor=os.getpid(),
            supervisor_start=me.start if me else "",
            host=here(),
            boot=processes.boot(),
        )
        self.store.put(self.number, status)
        job = self.store.job(self.number)
        if job is None:
            raise FileNotFoundError(2, "No such job", str(self.store.folder(self.number)))
        reason = "JobHeldUser" if job.request.hold else "None"
        eligible = max(job.request.begin, job.request.submitted)
        return self._put(job.status._replace(eligible=eligible, reason=reason), job)

    def _put(self, status: Status, job: Job | None = None) -> Job:
        """Write it down; on a full disk, as soon as there is room again."""
        while True:
            try:
                self.store.put(self.number, status)
                break
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                time.sleep(_LOOK)
        self.job = (job or self.job)._replace(status=status)
        return self.job

    def _await_turn(self) -> bool:
        """Wait as PENDING; True when the job has its nodes, False when it was cancelled."""
        while True:
            with self.store.lock():
                self._read_wishes()
                if self.cancelled:
                    self._put(
                        self.job.status._replace(state="CANCELLED", reason="None", end=time.time())
                    )
                    return False
                if self._start():
                    return True
            status = self.job.status
            soon = status.eligible - time.time() if status.reason == "BeginTime" else _LOOK
            came, _ = self.wake.wait(min(_LOOK, max(0.01, soon)))
            if signal.SIGTERM in came:
                os._exit(1)  # the machine goes down: found dead, the job counts as NODE_FAIL

    def _start(self) -> bool:
        store, status, now = self.store, self.job.status, time.time()
        active = [j for j in store.jobs(store.active()) if j.status.host == here()]
        got = turn(self.job, active, store.settings().nodes, now, store.job)
        if got.nodes:
            self._put(
                status._replace(
                    state="RUNNING",
                    reason="None",
                    nodes=got.nodes,
                    start=now,
                    end=0.0,
                    exit=0,
                    signal=0,
                )
            )
            return True
        if got.reason == "DependencyNeverSatisfied" and self.job.request.kill_invalid:
            self.cancelled = True
        if got.reason != status.reason:
            self._put(status._replace(reason=got.reason))
        return False

    def _read_wishes(self) -> None:
        for wish in self.store.mail(self.number):
            self._obey(wish)

    def _obey(self, wish: dict[str, Any]) -> None:
        """What can be asked of a job that waits."""
        status, what = self.job.status, wish.get("do")
        if what == "cancel":
            self.cancelled = True
        elif what == "start":
            self._put(status._replace(eligible=float(wish["time"]), reason="None"))
        elif what == "hold":
            self._put(status._replace(reason="JobHeldUser"))
        elif what == "release":
            self._put(status._replace(reason="None"))

    def _conclude(self, verdict: EndState) -> bool:
        """Write the end, or go back to the queue; True when the job has ended."""
        with self.store.lock():
            wishes = [wish.get("do") for wish in self.store.mail(self.number)]
            late = "requeue" in wishes and verdict.state in ("COMPLETED", "FAILED")
            again = late or verdict.state == "REQUEUE"
            status, now = self.job.status, time.time()
            if not again:
                self._put(
                    status._replace(
                        state=verdict.state,
                        reason=verdict.reason,
                        end=now,
                        exit=verdict.exit,
                        signal=verdict.signal,
                    )
                )
                return True
            delay = self.store.settings().requeuedelay
            self._put(
                status._replace(
                    state="PENDING",
                    reason="BeginTime",
                    nodes=[],
                    eligible=now + delay,
                    restarts=status.restarts + 1,
                )
            )
        self.store.wake()
        return False

"""One start of a job: the batch shell, its time limit, its signals, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import environment, processes, times
from .records import Job
from .store import Store
from .wake import Wake

_KILL_AGAIN = 0.05
_MAIL = 1.0
_PATTERN = re.compile(r"%(%|(\d{0,2})([AaJjNnstux]))")


class EndState(NamedTuple):
    """How a start ended: a final state, or REQUEUE."""

    state: str
    reason: str = "None"
    exit: int = 0
    signal: int = 0


class Cause(NamedTuple):
    """Why a start is being ended before its script was done, and the words in its output."""

    state: str
    text: str
    reason: str = "None"


CANCEL = Cause("CANCELLED", "")
TIMEOUT = Cause("TIMEOUT", " DUE TO TIME LIMIT", "TimeLimit")
REQUEUE = Cause("REQUEUE", " DUE TO JOB REQUEUE")
SHUTDOWN = Cause("NODE_FAIL", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "NodeDown")
DONE = Cause("", "")


class LocalRun:
    """One start of a job, from its first process to its last."""

    def __init__(self, store: Store, job: Job, wake: Wake, family: processes.Family) -> None:
        self.store = store
        self.job = job
        self.wake = wake
        self.family = family
        self.settings = store.settings()
        self.began = time.monotonic()
        self.batch = 0
        self.ended: int | None = None
        self.cause: Cause | None = None
        self.kill_at = 0.0
        self.told: set[int] = set()
        self.warned = not job.request.warning or job.request.limit is None
        self.stderr = -1

    def run(self) -> EndState:
        """Run the script until none of its processes is left."""
        for step in (self.store.folder(self.job.request.id) / "steps").iterdir():
            step.unlink()
        try:
            streams = self._open()
        except OSError:
            return EndState("FAILED", "JobLaunchFailure", exit=0, signal=53)
        request = self.job.request
        self.stderr = streams.stderr
        self.batch = processes.spawn(
            [str(self.store.folder(request.id) / "script"), *request.arguments],
            environment.of_batch(self.store, request, self.job.status),
            streams,
            prepare=self._enter,
        )
        while self._step():
            pass
        for fd in {streams.stdin, streams.stdout, streams.stderr}:
            os.close(fd)
        return self._verdict()

    def _step(self) -> bool:
        """One turn of the loop; False when nothing of the job is left."""
        came, _ = self.wake.wait(self._until_next())
        self.ended = (processes.reap() or {}).get(self.batch, self.ended)
        for wish in self.store.mail(self.job.request.id):
            self._obey(wish)
        if signal.SIGTERM in came:
            self._end(SHUTDOWN)
        self._watch_clock()
        if self.ended is None:
            return True
        if not self.family.members():
            return False
        self._end(DONE)
        return True

    def _until_next(self) -> float:
        now, request = time.monotonic(), self.job.request
        if self.cause:
            return min(_MAIL, self.kill_at - now) if now < self.kill_at else _KILL_AGAIN
        moments = [_MAIL]
        if request.limit is not None:
            moments.append(self.began + request.limit - now)
            if not self.warned:
                moments.append(self.began + request.limit - request.warning[1] - now)
        return min(moments)

    def _watch_clock(self) -> None:
        now, request = time.monotonic(), self.job.request
        if self.cause:
            self._terminate()
            if now >= self.kill_at:
                self.family.kill()
            return
        if request.limit is None:
            return
        end = self.began + request.limit
        if not self.warned and now >= end - request.warning[1]:
            self.warned = True
            self._signal(request.warning[0], batch=bool(request.warning[2]))
        if now >= end:
            self._end(TIMEOUT)

    def _obey(self, wish: dict[str, Any]) -> None:
        what = wish.get("do")
        if what == "cancel":
            self._end(CANCEL)
        elif what == "requeue":
            self._end(REQUEUE)
        elif what == "signal":
            self._signal(int(wish["signal"]), batch=bool(wish["batch"]), full=bool(wish["full"]))

    def _signal(self, number: int, *, batch: bool, full: bool = False) -> None:
        """To the batch shell, to the steps, or to everything."""
        if batch or full:
            processes.send(self.batch, number)
        if full:
            for child in self.family.members():
                if child.parent == self.batch:
                    processes.send(child.pid, number)
        elif not batch:
            for pid in self._steps():
                processes.send(pid, number)

    def _end(self, cause: Cause) -> None:
        """SIGTERM now, SIGKILL after KillWait. The first cause is the one that counts, but a job
        that is cancelled while it winds down to be requeued stays cancelled."""
        if self.cause is None:
            self.kill_at = time.monotonic() + self.settings.killwait
            self.job = self.job._replace(status=self.job.status._replace(state="COMPLETING"))
            with contextlib.suppress(OSError):  # a full disk keeps nothing alive
                self.store.put(self.job.request.id, self.job.status)
        elif not (self.cause is REQUEUE and cause is CANCEL):
            return
        if cause.state and cause is not self.cause:
            self._say(cause.text)
        self.cause = cause
        self._terminate()

    def _terminate(self) -> None:
        """SIGCONT and SIGTERM, once each, to the batch shell, the sruns, and orphans of either."""
        own = os.getpid()
        tops = [p.pid for p in self.family.members() if p.parent == own]
        for pid in {*tops, *self._steps()} - self.told:
            self.told.add(pid)
            processes.send(pid, signal.SIGCONT)
            processes.send(pid, signal.SIGTERM)

    def _steps(self) -> list[int]:
        """The sruns that run now."""
        found = []
        for step in (self.store.folder(self.job.request.id) / "steps").iterdir():
            pid, _, start = step.read_text().partition(" ")
            if pid.isdigit() and processes.lives(int(pid), start):
                found.append(int(pid))
        return found

    def _say(self, words: str) -> None:
        request, status = self.job.request, self.job.status
        text = f"JOB {request.id} ON local{status.nodes[0]} CANCELLED AT"
        line = f"slurmstepd: error: *** {text} {times.stamp(time.time())}{words} ***\n"
        with contextlib.suppress(OSError):
            os.write(self.stderr, line.encode())

    def _verdict(self) -> EndState:
        code = os.waitstatus_to_exitcode(self.ended or 0)
        exit_code, number = (code, 0) if code >= 0 else (0, -code)
        if self.cause and self.cause.state:
            return EndState(self.cause.state, self.cause.reason, exit_code, number)
        if code == 0:
            return EndState("COMPLETED")
        reason = "NonZeroExitCode" if code > 0 else "RaisedSignal"
        return EndState("FAILED", reason, exit_code, number)

    def _open(self) -> processes.Streams:
        request = self.job.request
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if request.append else os.O_TRUNC)
        before = os.umask(request.umask)
        try:
            stdin = os.open(_path(self.job, request.input or os.devnull), os.O_RDONLY)
            stdout = os.open(output(self.job), flags, 0o666)
            same = not request.error or error(self.job) == output(self.job)
            stderr = stdout if same else os.open(error(self.job), flags, 0o666)
        finally:
            os.umask(before)
        return processes.Streams(stdin, stdout, stderr)

    def _enter(self) -> None:
        """In the child: its umask and its working directory."""
        os.umask(self.job.request.umask)
        where = self.job.request.directory
        try:
            os.chdir(where)
        except OSError as wrong:
            text = f"slurmstepd: error: couldn't chdir to `{where}': {wrong.strerror}"
            os.write(2, os.fsencode(f"{text}: going to /tmp instead\n"))
            os.chdir("/tmp")  # noqa: S108


def output(job: Job) -> str:
    """The file of standard output."""
    return _path(job, job.request.output or "slurm-%j.out")


def error(job: Job) -> str:
    """The file of standard error."""
    return _path(job, job.request.error) if job.request.error else output(job)


def _path(job: Job, pattern: str) -> str:
    request = job.request
    first = job.status.nodes[0] if job.status.nodes else 1
    values = {
        "A": str(request.id), "a": "4294967294", "J": str(request.id), "j": str(request.id),
        "N": f"local{first}", "n": "0", "s": "batch", "t": "0", "u": request.user,
        "x": request.name,
    }  # fmt: skip

    def value(match: re.Match[str]) -> str:
        if match.group(1) == "%":
            return "%"
        text = values[match.group(3)]
        return text.zfill(int(match.group(2) or 0)) if text.isdigit() else text

    return str(Path(request.directory, _PATTERN.sub(value, pattern)))

"""What is known of the jobs: one folder a job, small files replaced whole, one lock.

lock  next  nodes          the lock; the next id; how many nodes the profile has
slurm.conf                 KEY=VALUE settings where somebody wants others
active/ID                  jobs that have not ended
jobs/ID/request.json       what was asked, never changed
jobs/ID/status.json        what became of it, written by its supervisor only
jobs/ID/mail/              what scancel and scontrol ask of the supervisor
jobs/ID/steps/N            the sruns: process number and start
jobs/ID/{script,bin/,supervisor.log}
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import processes
from .records import Job, Request, Settings, Status


class Store:
    """The folder with everything in it."""

    def __init__(self, root: Path, nodes: int = 0) -> None:
        self.root = root
        self.nodes = nodes
        """Those of the profile; 0 for those of the last job's."""

    def create(self) -> None:
        """Make the folders, for nobody else, and keep how many nodes the profile has. Raises
        OSError where a folder is not ours alone."""
        for folder in (self.root, self.root / "jobs", self.root / "active"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or shared:
                raise PermissionError(errno.EPERM, "not a folder that only you may change", folder)
        if self.nodes:
            write(self.root / "nodes", str(self.nodes))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time."""
        with (self.root / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def settings(self) -> Settings:
        """The defaults with the nodes of the profile, and what slurm.conf says otherwise."""
        known = set(Settings._fields)
        found = {"nodes": nodes} if (nodes := self.nodes or self._kept_nodes()) else {}
        with contextlib.suppress(FileNotFoundError):
            for line in (self.root / "slurm.conf").read_text().split("\n"):
                name, _, value = line.partition("=")
                name = name.strip().lower()
                if name in known and value.strip().isdigit():
                    found[name] = int(value)
        return Settings(**found)

    def _kept_nodes(self) -> int:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.root / "nodes").read_text())
        return 0

    def next_id(self) -> int:
        """An id that no job had before."""
        import random

        with self.lock():
            counter = self.root / "next"
            text = counter.read_text().strip() if counter.exists() else ""
            first = self.settings().firstjobid or random.randrange(1000, 9000)  # noqa: S311
            number = max([int(text) if text.isdigit() else first, *(i + 1 for i in self.ids())])
            write(counter, str(number + 1))
            return number

    def folder(self, job: int) -> Path:
        """Where a job's files lie."""
        return self.root / "jobs" / str(job)

    def ids(self) -> list[int]:
        """All jobs, ended ones too."""
        return _numbers(self.root / "jobs")

    def active(self) -> list[int]:
        """Jobs that have not ended."""
        return _numbers(self.root / "active")

    def job(self, number: int) -> Job | None:
        """What is known of a job; None for an id that is not known."""
        folder = self.folder(number)
        try:
            request = Request(**_known(Request, folder / "request.json"))
            status = Status(**_known(Status, folder / "status.json"))
        except (OSError, ValueError, TypeError):
            return None
        return self._checked(Job(request, status))

    def jobs(self, numbers: list[int]) -> list[Job]:
        """What is known of these."""
        return [job for job in map(self.job, numbers) if job]

    def put(self, number: int, status: Status) -> None:
        """Replace a job's status. Called by its supervisor, or for one that is dead."""
        write(self.folder(number) / "status.json", json.dumps(status._asdict()))
        if status.ended:
            (self.root / "active" / str(number)).unlink(missing_ok=True)

    def ask(self, number: int, wish: Mapping[str, Any]) -> bool:
        """Leave a wish for the supervisor and wake it; False where the job has ended."""
        with self.lock():
            job = self.job(number)
            if job is None or job.status.ended:
                return False
            name = f"{time.time_ns()}-{os.getpid()}"
            write(self.folder(number) / "mail" / name, json.dumps(wish))
        self._wake(job.status)
        return True

    def wake(self) -> None:
        """Let every waiting job look again whether its turn has come."""
        for job in self.jobs(self.active()):
            if job.status.state == "PENDING":
                self._wake(job.status)

    def mail(self, number: int) -> list[dict[str, Any]]:
        """Take what was asked since the last look. An error where the job's folder is gone."""
        taken = []
        letters = (p for p in (self.folder(number) / "mail").iterdir() if p.name[0] != ".")
        for letter in sorted(letters):
            taken.append(json.loads(letter.read_text()))
            letter.unlink()
        return taken

    def forget_old(self) -> None:
        """Remove jobs that ended longer ago than MinJobAge."""
        import shutil

        oldest, active = time.time() - self.settings().minjobage, set(self.active())
        for number in self.ids():
            with contextlib.suppress(OSError):
                if number not in active and self.folder(number).stat().st_mtime < oldest:
                    shutil.rmtree(self.folder(number))

    def _checked(self, job: Job) -> Job:
        """A job whose supervisor is gone is lost, as on a node that went down."""
        status, number = job.status, job.request.id
        if status.ended or status.host != here() or self._supervised(status):
            return job
        try:
            again = Status(**_known(Status, self.folder(number) / "status.json"))
        except (OSError, ValueError, TypeError):
            again = status
        if again != status:  # it ended between the two looks
            return self._checked(job._replace(status=again))
        for pid in processes.carriers(self.marks(number)):
            processes.send(pid, signal.SIGKILL)
        lost = status._replace(state="NODE_FAIL", reason="NodeDown", end=time.time())
        with contextlib.suppress(OSError):  # it is lost, whether or not that can be written
            self.put(number, lost)
        return job._replace(status=lost)

    def _supervised(self, status: Status) -> bool:
        same = status.boot == processes.boot()
        return same and processes.lives(status.supervisor, status.supervisor_start)

    def _wake(self, status: Status) -> None:
        if status.host == here() and self._supervised(status):
            processes.send(status.supervisor, signal.SIGUSR1)

    def marks(self, number: int) -> list[bytes]:
        """What stands in the environment of every process of a job."""
        state = os.fsencode(str(self.root))
        return [b"JOBGEN_LOCAL_STATE=" + state, b"SLURM_JOB_ID=%d" % number]


def here() -> str:
    """This machine's name; the folder may lie on a file system that others share."""
    return os.uname().nodename


def write(path: Path, text: str) -> None:
    """Replace a file whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())
    except FileNotFoundError:
        return []


def _known(kind: type[Request | Status], path: Path) -> dict[str, Any]:
    """What a file of this version, an older or a newer one says, as far as we know the names."""
    names = set(kind._fields)
    return {k: v for k, v in json.loads(path.read_text()).items() if k in names}

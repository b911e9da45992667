"""Processes: who they are, who their children are, and how to start one as Slurm would.

Linux has everything in /proc, and a subreaper inherits every orphan below it, so that nothing can
slip away. Elsewhere (macOS) ``ps`` tells who descends from whom, orphans are remembered from one
look to the next, and a process that detaches itself between two looks is missed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LINUX = sys.platform.startswith("linux")
_PROC = Path("/proc")
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


class Process(NamedTuple):
    """One living process; ``start`` tells it from a later one with the same number."""

    pid: int
    parent: int
    start: str


def process(pid: int) -> Process | None:
    """This process if it lives; a zombie does not."""
    if not LINUX:
        return table().get(pid)
    try:
        text = (_PROC / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    # the command's name in parentheses may hold blanks and parentheses of its own
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[1]), fields[19])


def table() -> dict[int, Process]:
    """All living processes that this user can see."""
    if LINUX:
        pids = (int(p.name) for p in _PROC.iterdir() if p.name.isdigit())
        found = (process(pid) for pid in pids)
        return {p.pid: p for p in found if p}
    import subprocess

    shown = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat=,lstart="], capture_output=True, text=True
    )
    rows = (line.split(None, 3) for line in shown.stdout.strip().split("\n"))
    return {
        int(pid): Process(int(pid), int(parent), start)
        for pid, parent, state, start in rows
        if not state.startswith("Z")
    }


def lives(pid: int, start: str) -> bool:
    """Whether exactly this process, and not a successor in its number, lives."""
    found = process(pid)
    return found is not None and found.start == start


def boot() -> str:
    """A name for this start of the machine; empty where the system gives none."""
    with contextlib.suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def descendants(pid: int) -> list[Process]:
    """Everything that descends from this process, nearest first."""
    everyone = table()
    below: dict[int, list[Process]] = {}
    for each in everyone.values():
        below.setdefault(each.parent, []).append(each)
    found = list(below.get(pid, ()))
    for each in found:  # grows while it is walked
        found += below.get(each.pid, ())
    return found


class Family:
    """The descendants of this process, orphans among them."""

    def __init__(self) -> None:
        self._complete = LINUX and _prctl(_SET_CHILD_SUBREAPER, 1)
        self._seen: dict[int, Process] = {}

    def members(self) -> list[Process]:
        """All that live now."""
        found = descendants(os.getpid())
        if self._complete:
            return found
        everyone = table()
        self._seen.update({p.pid: p for p in found})
        kept = (everyone.get(pid) for pid in self._seen)
        self._seen = {p.pid: p for p in kept if p and p.start == self._seen[p.pid].start}
        return list(self._seen.values())

    def kill(self) -> None:
        """SIGKILL to every one of them."""
        for member in self.members():
            send(member.pid, signal.SIGKILL)


def reap() -> dict[int, int] | None:
    """Exit status of children that have ended; None where there are no children at all."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if not pid:
            return ended
        ended[pid] = status


def send(pid: int, number: int) -> None:
    """A signal, if the process is still there to take it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def carriers(marks: Sequence[bytes]) -> list[int]:
    """Processes that hold all these NAME=VALUE in their environment (Linux)."""
    found = []
    for folder in _PROC.iterdir() if LINUX else ():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            held = (folder / "environ").read_bytes().split(b"\0")
            if all(mark in held for mark in marks):
                found.append(int(folder.name))
    return found


class Streams(NamedTuple):
    """Descriptors of a new process."""

    stdin: int
    stdout: int
    stderr: int


def spawn(
    words: Sequence[str],
    environment: Mapping[str, str],
    streams: Streams,
    *,
    prepare: Callable[[], None],
    dies_with_parent: bool = False,
) -> int:
    """Start a program in a session of its own, with default signals; its process number.

    ``prepare`` runs in the child. A program that cannot be started is told in the child's standard
    error as slurmstepd does, and the exit code is the system's error number.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        if dies_with_parent and LINUX:
            _prctl(_SET_PDEATHSIG, signal.SIGTERM)
        for source, target in ((streams.stdin, 0), (streams.stdout, 1), (streams.stderr, 2)):
            os.dup2(source, target)
        _default_signals()
        prepare()
        if "PATH" not in environment and "/" not in words[0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        os.execvpe(words[0], list(words), dict(environment))  # noqa: S606
    except OSError as error:
        text = f"slurmstepd: error: execve(): {words[0]}: {error.strerror}\n"
        os.write(2, text.encode("utf-8", "surrogateescape"))
        code = error.errno or 1
    finally:
        os._exit(code)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _prctl(what: int, value: int) -> bool:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(what, value, 0, 0, 0) == 0)

"""Processes of the hosts, read from /proc of this machine, which sees them all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A live process: its id on this machine, the host it runs on, its command."""

    pid: int
    host: str
    command: str


def pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def read(pid: int, name: str) -> bytes:
    """A file of a process; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def namespace(pid: int, kind: str) -> str:
    """The identity of a process's namespace; empty where the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115 (it is no path)
    except OSError:
        return ""


def command(pid: int) -> str:
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def with_environment(marker: str) -> list[int]:
    """All processes that have ``NAME=value`` in their environment."""
    wanted = marker.encode()
    return [pid for pid in pids() if wanted in read(pid, "environ").split(b"\0")]


def started(pid: int) -> str:
    """The start time of a process in clock ticks: with the id, its identity."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return fields[19].decode() if fields and fields[0] != b"Z" else ""

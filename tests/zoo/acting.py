"""What is done to a job from outside while it runs."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import Cluster
from tests.cluster.processes import Process, read
from tests.waiting import until


@dataclass(frozen=True)
class Running:
    """A job that runs, and where its logs are."""

    cluster: Cluster
    job: str
    folder: Path
    run: str
    """The program and its arguments."""

    def wait_for(self, text: str) -> None:
        """Wait until a log holds this text."""

        def there() -> bool:
            logs = [p for p in self.folder.rglob("*") if p.suffix in (".out", ".err", ".log")]
            return any(text in p.read_text(errors="replace") for p in logs if p.is_file())

        until(there, f"{text!r} in the logs of job {self.job} in {self.folder}", pause=0.2)

    def find_rank(self, rank: int) -> Process:
        """The Python process of a rank."""
        return next(p for p in self._programs() if not self._is_worker(p) and _rank(p) == rank)

    def find_worker(self, rank: int) -> Process:
        """A data-loader worker of a rank; between two epochs there is none."""
        found: list[Process] = []

        def there() -> bool:
            found[:] = [p for p in self._programs() if self._is_worker(p) and _rank(p) == rank]
            return bool(found)

        until(there, f"a data-loader worker of rank {rank} of job {self.job}")
        return found[0]

    def _programs(self) -> list[Process]:
        name = re.escape(self.run.split()[0])
        pattern = re.compile(rf"^\S*python\S* (-u )?(\S*/)?{name}( |$)")
        found = self.cluster.processes_with_env(f"SLURM_JOB_ID={self.job}")
        return [p for p in found if pattern.match(p.command)]

    def _is_worker(self, process: Process) -> bool:
        return _parent(process.pid) in {p.pid for p in self._programs()}


def _parent(pid: int) -> int:
    found = re.search(r"^PPid:\s+(\d+)$", read(pid, "status").decode(), re.MULTILINE)
    return int(found[1]) if found else 0


def _rank(process: Process) -> int:
    found = re.search(rb"(?:^|\0)RANK=(\d+)\0", read(process.pid, "environ"))
    return int(found[1]) if found else -1


def send(running: Running, rank: str, name: str) -> None:
    """A signal from outside to the program of one rank."""
    os.kill(running.find_rank(int(rank)).pid, signal.Signals[name])


def kill_worker(running: Running, rank: str, name: str) -> None:
    """A signal from outside to a data-loader worker of one rank."""
    os.kill(running.find_worker(int(rank)).pid, signal.Signals[name])


def cancel(running: Running) -> None:
    """The user cancels the job."""
    running.cluster.run("login", ["scancel", running.job])


def cancel_as_root(running: Running) -> None:
    """An administrator cancels the job."""
    running.cluster.slurm("scancel", running.job)


def limit(running: Running) -> None:
    """An administrator shortens the time limit, so that nobody waits for it."""
    running.cluster.slurm("scontrol", "update", f"JobId={running.job}", "TimeLimit=1")


def preempt(running: Running) -> None:
    """A job of a partition with a higher priority needs the nodes."""
    cluster = running.cluster
    nodes = cluster.job(running.job)["NodeList"]
    options = [f"--nodelist={nodes}", "--exclusive", "--partition=urgent", "--time=10"]
    urgent = cluster.sbatch("#!/bin/bash\nsleep 2\n", *options)
    cluster.wait_state(urgent)


def requeue(running: Running) -> None:
    """An administrator puts the job back into the queue, and it starts again."""
    running.cluster.slurm("scontrol", "requeue", running.job)
    running.cluster.start_now(running.job)


def power_off(running: Running, node: str) -> None:
    """The plug of a node is pulled."""
    running.cluster.power_off(node)


ACTS: Mapping[str, Callable[..., None]] = {
    "signal": send,
    "worker": kill_worker,
    "cancel": cancel,
    "cancel as root": cancel_as_root,
    "limit": limit,
    "preempt": preempt,
    "requeue": requeue,
    "power off": power_off,
}

"""A running step: its tasks, their output line by line, and how they end together."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from . import processes, times
from .environment import per_node
from .hostlist import compress, expand
from .layout import StepLayout, Task
from .records import Job
from .relay import Relay
from .store import Store
from .wake import Wake

_FORWARDED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCONT, signal.SIGALRM,
)  # fmt: skip
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_LOOK = 1.0
_KILL_AGAIN = 0.05


class StepRun:
    """The tasks of one srun."""

    def __init__(
        self, store: Store, job: Job, step: StepLayout, environment: Mapping[str, str]
    ) -> None:
        self.step = step
        self.name = f"{job.request.id}.{step.number}"
        self.directory = step.wanted.get("chdir", "")
        self.environment = {**environment, **_of_step(step)}
        self.settings = store.settings()
        self.kill_on_bad_exit = step.wanted.get("kill-on-bad-exit", "0") in ("", "1")
        self.patience = int(step.wanted.get("wait") or 0)
        self.living: dict[int, Task] = {}
        self.codes: list[int] = []
        self.first_exit = 0.0
        self.kill_at = 0.0
        self.family = processes.Family()
        # a shell starts what runs in its background with some signals ignored: so they stay
        heard = [n for n in _FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]
        self.wake = Wake([signal.SIGCHLD, *heard])
        self.relay = Relay(label="label" in step.wanted, width=len(str(len(step.tasks) - 1)))

    def run(self) -> int:
        """Start all, wait for all; the highest exit code."""
        for task in self.step.tasks:
            self._start(task)
        while self.living:
            came, ready = self.wake.wait(self._until_next(), self.relay.open)
            self.relay.carry(ready)
            self._forward(came)
            for pid, status in (processes.reap() or {}).items():
                self._ended(pid, status)
            self._watch_clock()
        self._sweep()
        self.relay.finish()
        return max(self.codes)

    def _start(self, task: Task) -> None:
        out, error = self._file("output", task), self._file("error", task)
        own = self.relay.pipe(1, task.rank) if out is None else out
        own_error = error if error is not None else out
        if own_error is None:
            own_error = self.relay.pipe(2, task.rank)
        nothing = os.open(os.devnull, os.O_RDONLY)
        pid = processes.spawn(
            self.step.command,
            {**self.environment, **_of_task(task, self.step)},
            processes.Streams(nothing, own, own_error),
            prepare=self._enter,
            dies_with_parent=True,
        )
        self.living[pid] = task
        for fd in {nothing, own, own_error}:
            os.close(fd)

    def _file(self, name: str, task: Task) -> int | None:
        pattern = self.step.wanted.get(name)
        if pattern is None:
            return None
        job, _, number = self.name.partition(".")
        values = {
            "%j": job,
            "%J": self.name,
            "%s": number,
            "%t": str(task.rank),
            "%n": str(task.node),
            "%N": task.host,
            "%%": "%",
        }
        text = os.devnull if pattern == "none" else pattern
        for sign, value in values.items():
            text = text.replace(sign, value)
        mode = os.O_TRUNC if self.step.wanted.get("open-mode", "t").startswith("t") else 0
        path = Path(self.directory, text)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | mode, 0o666)

    def _enter(self) -> None:
        if self.directory:
            os.chdir(self.directory)

    def _forward(self, came: list[int]) -> None:
        for number in came:
            if number not in _FORWARDED:
                continue
            self._signal(number)
            if number in _ENDING and not self.kill_at:
                _say("forcing job termination")
                self.kill_at = time.monotonic() + self.settings.killwait

    def _ended(self, pid: int, status: int) -> None:
        task = self.living.pop(pid, None)
        if task is None:
            return
        code = os.waitstatus_to_exitcode(status)
        self.codes.append(code if code >= 0 else 128 - code)
        self.first_exit = self.first_exit or time.monotonic()
        if code == 0:
            return
        how = f"Exited with exit code {code}" if code > 0 else signal.strsignal(-code)
        _say(f"error: {task.host}: task {task.rank}: {how}")
        if self.kill_on_bad_exit and self.living:
            self._terminate()

    def _terminate(self) -> None:
        if self.kill_at:
            return
        _say(f"Terminating StepId={self.name}")
        when = times.stamp(time.time())
        text = f"*** STEP {self.name} ON {self.step.hosts[0]} CANCELLED AT {when} ***"
        self.relay.tell(f"slurmstepd: error: {text}\n")
        self.kill_at = time.monotonic() + self.settings.killwait
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """To every process of the step, as slurmstepd does."""
        for member in self.family.members():
            processes.send(member.pid, number)

    def _watch_clock(self) -> None:
        now = time.monotonic()
        if self.kill_at and now >= self.kill_at:
            self.family.kill()
        elif (
            self.patience
            and self.first_exit
            and not self.kill_at
            and self.living
            and (now >= self.first_exit + self.patience)
        ):
            _say(f"First task exited {self.patience}s ago")
            self._terminate()

    def _until_next(self) -> float:
        now = time.monotonic()
        if self.kill_at:
            return self.kill_at - now if now < self.kill_at else _KILL_AGAIN
        if self.patience and self.first_exit:
            return self.first_exit + self.patience - now
        return _LOOK * 60

    def _sweep(self) -> None:
        """Nothing of a task outlives the step."""
        while processes.reap() is not None or self.family.members():
            self.family.kill()
            self.wake.wait(_KILL_AGAIN)


def _of_step(step: StepLayout) -> dict[str, str]:
    tasks, nodes = str(len(step.tasks)), str(len(step.hosts))
    found = {
        "SLURM_NNODES": nodes,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_STEPID": str(step.number),
        "SLURM_STEP_ID": str(step.number),
        "SLURM_STEP_NODELIST": _short(step.hosts),
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": per_node(list(step.counts)),
        "SLURM_TASKS_PER_NODE": per_node(list(step.counts)),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
    }
    for option, name in (
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
    ):
        if step.wanted.get(option):
            found[name] = step.wanted[option]
    return found


def _of_task(task: Task, step: StepLayout) -> dict[str, str]:
    beside = [str(other.rank) for other in step.tasks if other.node == task.node]
    return {
        "SLURMD_NODENAME": task.host,
        "SLURM_GTIDS": ",".join(beside),
        "SLURM_LOCALID": str(task.local),
        "SLURM_NODEID": str(task.node),
        "SLURM_PROCID": str(task.rank),
        "SLURM_TOPOLOGY_ADDR": task.host,
    }


def _short(hosts: tuple[str, ...]) -> str:
    numbers = [host.removeprefix("local") for host in hosts]
    short = compress([int(n) for n in numbers if n.isdigit()])
    return short if sorted(expand(short)) == sorted(hosts) else ",".join(hosts)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"srun: {text}\n")
        sys.stderr.flush()

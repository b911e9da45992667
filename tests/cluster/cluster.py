"""A running Slurm cluster: bring it up, ask it, break parts of it, take it down."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.cluster import install
from tests.cluster.client import Client
from tests.cluster.hosts import PREFIX, Done, Hosts, sweep
from tests.cluster.layout import Layout, Options
from tests.cluster.texts import profile
from tests.waiting import until

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE"}
    | {"FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
)


PARTING = ("COMPLETING", "REQUEUED")
"""States of a job that was put back and whose nodes are not done with it."""


class Cluster(Hosts):
    """Slurm on namespaces; see ``tests/cluster/__init__.py`` for how it is used."""

    def __init__(self, root: Path, options: Options | None = None) -> None:
        super().__init__(Layout(root, options or Options()))
        self.client = Client(self)
        self._profiles = 0

    # up and down

    @classmethod
    def up(
        cls, options: Options | None = None, *, root: Path | None = None, lease: bool = True
    ) -> Self:
        """A cluster that is ready: all nodes idle. With a lease it ends with this process."""
        sweep()
        if root is None:
            root = Path(tempfile.mkdtemp(prefix=PREFIX))
        root.mkdir(parents=True, exist_ok=True)
        cluster = cls(root.resolve(), options)
        try:
            install.files(cluster.layout)
            cluster.switch_on(lease=lease)
            install.daemons(cluster)
            cluster.wait_idle()
        except BaseException:
            if not os.environ.get("JOBGEN_TESTBED_KEEP"):
                cluster.down()
            raise
        return cluster

    @classmethod
    def at(cls, root: Path) -> Self:
        """The cluster that another process brought up in this folder."""
        record = json.loads((root / "hub.json").read_text(encoding="utf-8"))
        options = record["options"]
        lists = {name: tuple(options[name]) for name in ("conf", "gres")}
        cluster = cls(root.resolve(), Options(**{**options, **lists}))
        cluster.hub, cluster.pids = record["hub"], record["pids"]
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # what jobgen is given

    @property
    def scratch(self) -> Path:
        """The shared disk that run directories go to; the same path on this machine."""
        return self.layout.scratch

    def profile(self, **overrides: Any) -> Path:
        """A profile of the user's own; a mapping among the overrides is merged, key by key.

        A value of None takes the key away: ``profile(ssh=None)``.
        """
        data = _merged(profile(self.layout), overrides)
        self._profiles += 1
        folder = self.layout.client_home / ".config" / "jobgen"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"testbed-{os.getpid()}-{self._profiles}.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return path

    # what Slurm is asked

    def slurm(self, *words: str, check: bool = True) -> str:
        """A Slurm command on the login host as root; what it printed."""
        done: Done = self.run("login", words, user="root", check=check)
        return done.stdout.strip()

    def sbatch(self, script: str, *options: str) -> str:
        """Submit a script as the ordinary user; the job id."""
        words = ["sbatch", "--parsable", *options]
        return self.run("login", words, stdin=script, cwd=self.scratch).stdout.strip()

    def job(self, job: str) -> dict[str, str]:
        """What the controller knows of a job, field by field; empty where it knows nothing."""
        told = self.slurm("scontrol", "show", "job", "-o", job, check=False)
        return dict(re.findall(r"(\S+?)=(\S*)", told))

    def state(self, job: str) -> str:
        """The job's state; UNKNOWN where the controller does not know the job."""
        return self.job(job).get("JobState", "UNKNOWN")

    def wait_state(self, job: str, states: Collection[str] | str = ENDED) -> str:
        """Wait until the job is in one of these states (else: has ended); the state."""
        wanted = {states} if isinstance(states, str) else set(states)
        seen: dict[str, str] = {}

        def there() -> bool:
            seen.clear()
            seen.update(self.job(job))
            return seen.get("JobState", "UNKNOWN") in wanted

        until(there, lambda: f"job {job} to be {' or '.join(sorted(wanted))}: {seen}", pause=0.2)
        return seen.get("JobState", "UNKNOWN")

    def wait_idle(self) -> None:
        """Wait until every node is up and has nothing to do."""
        until(self._is_idle, f"idle nodes (see {self.layout.log})", pause=0.1)

    def _is_idle(self) -> bool:
        states = self.slurm("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T", check=False)
        return states.split() == ["idle"] * len(self.layout.nodes)

    def start_now(self, job: str) -> None:
        """Let a job that waits for its begin time (after a requeue) start at once.

        A requeued job is called PENDING before its nodes are done with it, and gets its begin time
        only then: an update that comes earlier is overwritten. And slurmd refuses a start of the
        second in which it was told to kill the job: it tells old credentials from new ones by it.
        """

        def waits() -> bool:
            fields = self.job(job)
            state = fields["JobState"]
            return fields["Reason"] == "BeginTime" if state == "PENDING" else state not in PARTING

        until(waits, f"job {job} to wait for its begin time", pause=0.1)
        killed = int(time.time())
        until(lambda: int(time.time()) > killed, "the next second", pause=0.05)
        self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now")

    def release(self, name: str) -> None:
        """Let the jobs of this name start that wait for their begin time.

        One that starts may cancel the others before they are released.
        """
        for job in set(self.slurm("squeue", "-h", "-n", name, "-o", "%A").split()):
            self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)

    def empty(self) -> None:
        """Cancel every job and wait until the nodes are idle.

        A controller that crashed may give one id twice, and drains the node that has both jobs.
        """
        self.slurm("scancel", "-u", "root,tester", check=False)

        def drained() -> str:
            return self.slurm("sinfo", "-h", "-N", "-t", "drained", "-o", "%N", check=False)

        def idle() -> bool:
            for node in set(drained().split()):
                self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
            return self._is_idle()

        until(idle, f"idle nodes (see {self.layout.log})", pause=0.5)

    # what goes wrong

    @contextmanager
    def frozen_controller(self) -> Iterator[None]:
        """Within this block slurmctld is stopped: it takes connections and does not answer."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def freeze(self) -> None:
        self.signal("login", "slurmctld", signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal("login", "slurmctld", signal.SIGCONT)

    @contextmanager
    def replaced(self, program: str, script: str, *hosts: str) -> Iterator[None]:
        """Within this block a program of these hosts is a shell script; its ``$real`` is itself."""
        path = shutil.which(program)
        assert path
        folder = self.scratch / f"replaced-{program}"
        folder.mkdir(exist_ok=True)
        shutil.copy(path, folder / "real")
        (folder / program).write_text(f"#!/bin/sh\nreal={folder}/real\n{script}\n")
        (folder / program).chmod(0o755)
        for host in hosts:
            self.run(host, ["mount", "--bind", str(folder / program), path], user="root")
        try:
            yield
        finally:
            for host in hosts:
                self.run(host, ["umount", path], user="root")

    def crash_controller(self) -> None:
        """kill -9 of slurmctld; ``restart_controller`` starts it again with its saved state."""
        self.signal("login", "slurmctld", signal.SIGKILL)
        until(lambda: not self.processes("login", "slurmctld"), "slurmctld to be gone")

    def save_jobs(self) -> bytes:
        """The jobs as slurmctld knows and saves them now; one more, which is held, is among them.

        slurmctld saves them when one has changed; the name of the held one shows that it has.
        """
        name, path = f"saved-{time.monotonic_ns()}", self._saved_jobs
        held = self.sbatch("#!/bin/sh\n", "--hold", f"--job-name={name}")
        until(lambda: path.exists() and name.encode() in path.read_bytes(), "slurmctld's save")
        saved = path.read_bytes()
        self.slurm("scancel", held)
        return saved

    def lose_jobs(self, saved: bytes) -> None:
        """Crash slurmctld and start it with an earlier state: later jobs are lost."""
        self.crash_controller()
        for path in self._saved_jobs.parent.glob("job_state*"):
            path.unlink()
        self._saved_jobs.write_bytes(saved)
        self.restart_controller()

    @property
    def _saved_jobs(self) -> Path:
        return self.layout.state / "ctld" / "job_state"

    def restart_controller(self) -> None:
        install.start_controller(self)
        until(lambda: "UP" in self.slurm("scontrol", "ping", check=False), "slurmctld")

    def restart_slurmd(self, node: str) -> None:
        install.start_slurmd(self, node)

    def kill_slurmstepd(self, node: str, job: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Kill what looks after the job's steps on a node: the node is lost to it; how many."""
        steps = [p for p in self.processes(node) if p.command.startswith(f"slurmstepd: [{job}.")]
        for step in steps:
            os.kill(step.pid, number)
        return len(steps)

    def signal(self, host: str, name: str, number: signal.Signals) -> None:
        """Send a signal to every process of that name on a host; an error where there is none."""
        found = self.processes(host, name)
        if not found:
            raise ProcessLookupError(f"no {name} on {host}")
        for process in found:
            os.kill(process.pid, number)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = _merged(out[key], value)
        else:
            out[key] = value
    return out

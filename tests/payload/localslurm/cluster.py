"""A local cluster of a test's own, spoken to as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobgen.payload import localslurm
from jobgen.payload.localslurm import processes
from tests.waiting import HANG, until

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@dataclass(frozen=True)
class Said:
    """What a command gave back."""

    code: int
    out: str
    err: str


class Local:
    """Stand-ins with a state folder of their own; ``home`` is where jobs are submitted."""

    def __init__(self, home: Path, settings: str = "", nodes: int = 0) -> None:
        self.home = home
        self.nodes = nodes
        self.state = home / ".local"
        self.state.mkdir(exist_ok=True)
        (self.state / "slurm.conf").write_text(f"KillWait=2\nRequeueDelay=0\n{settings}")

    def run(self, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Said:
        """One of the programs."""
        program = (sys.executable, "-I", "-S", localslurm.FOLDER, "--state", str(self.state))
        program += ("--nodes", str(self.nodes)) if self.nodes else ()
        done = subprocess.run(
            (*program, *words),
            cwd=self.home,
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def sbatch(self, script: str, *options: str, env: Mapping[str, str] | None = None) -> int:
        """Submit a bash script (directives may stand at its top); the job's id."""
        path = self.home / "job.sh"
        path.write_text(f"#!/bin/bash\n{script}")
        said = self.run("sbatch", "--parsable", *options, str(path), env=env)
        assert said.code == 0, said.err
        return int(said.out)

    def show(self, job: int) -> dict[str, str]:
        """What scontrol tells of a job."""
        said = self.run("scontrol", "show", "job", "-o", str(job))
        assert said.code == 0, said.err
        return dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|$)", said.out.strip()))

    def state_of(self, job: int) -> str:
        """The job's state."""
        return self.show(job)["JobState"]

    def wait(self, job: int, *states: str) -> dict[str, str]:
        """Wait until the job is in one of these states (an end, if none is named)."""
        shown: dict[str, str] = {}

        def there() -> bool:
            shown.update(self.show(job))
            return shown["JobState"] in (states or ENDED)

        until(there, lambda: f"job {job}: {shown}\n{self.log(job)}")
        return shown

    def log(self, job: int) -> str:
        """The job's output."""
        path = self.home / f"slurm-{job}.out"
        return path.read_text() if path.exists() else ""

    def wait_for(self, job: int, text: str) -> None:
        """Wait until this stands in the job's output."""
        until(lambda: text in self.log(job), lambda: self.log(job))

    def processes(self) -> list[int]:
        """All living processes of jobs of this cluster."""
        return processes.carriers([b"JOBGEN_LOCAL_STATE=" + os.fsencode(str(self.state))])

    def supervisor(self, job: int) -> int:
        """The number of the job's supervisor."""
        text = (self.state / "jobs" / str(job) / "status.json").read_text()
        found = re.search(r'"supervisor": (\d+)', text)
        assert found
        return int(found.group(1))

"""A run as the tests drive it: jobgen on the client, its files as they lie on the shared disk."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import Cluster
from tests.cluster.hosts import Done
from tests.cluster.layout import REPOSITORY
from tests.waiting import HANG

DIGITS = REPOSITORY / "examples" / "digits-ddp"

PAUSE = "time.sleep(args.pause)"
"""What the examples do after an epoch, or a step."""
NOT_ASKED = (
    'os.environ["JOBGEN_RESTART"] == "0" and not Path(os.environ["JOBGEN_STOP_FILE"]).exists()'
)
"""The job's first start has not been asked to stop."""

LAUNCHERS: Mapping[str, Any] = {
    "torchrun c10d": "torchrun",
    "torchrun static": {"type": "torchrun", "rdzv": "static"},
    "srun": "srun",
    "deepspeed no_ssh": "deepspeed",
    "deepspeed pdsh": {"type": "deepspeed", "ssh": "pdsh"},
    "accelerate": "accelerate",
    "mpirun": "mpirun",
}
"""Every launcher, as job.yaml says it."""


@dataclass(frozen=True)
class Run:
    """One submitted run."""

    cluster: Cluster
    id: str
    job: str
    """Slurm's id."""
    directory: Path
    token: str

    def jobgen(self, *words: str) -> Done:
        """A verb on this run: ``run.jobgen("logs", "--rank", "0")``."""
        verb, *rest = words
        return self.cluster.client.jobgen(verb, self.id, *rest)

    def wait(self) -> int:
        """The exit code of ``jobgen wait``."""
        return self.jobgen("wait", "--timeout", f"{HANG - 60:g}s").returncode

    def show(self) -> dict[str, Any]:
        """What ``jobgen show --json`` says of the job."""
        return answer(self.jobgen("show", "--json"))["job"]  # type: ignore[no-any-return]

    def put(self, name: str, text: str) -> None:
        """Write a file of the run directory that its job waits for: it is there with its text."""
        part = self.directory / f".{name}"
        part.write_text(text)
        part.rename(self.directory / name)

    def ranks(self, restart: int = 0, stream: str = "out") -> dict[int, bytes]:
        """The log files of all ranks as they lie on the cluster's disk."""
        folder = self.directory / "logs" / "0" / str(restart)
        found = {}
        for path in folder.glob(f"*.{stream}"):
            if (name := re.fullmatch(r"\w+\.(\d+)\.\w+", path.name)) and not path.is_symlink():
                found[int(name[1])] = path.read_bytes()
        return found

    def story(self) -> str:
        """All that a person would look at after a failure."""
        logs = (p for p in sorted((self.directory / "logs").rglob("*")) if not p.is_symlink())
        texts = [
            f"── {path.relative_to(self.directory)}\n{path.read_text(errors='replace')[-3000:]}"
            for path in logs
            if path.is_file()
        ]
        return "\n".join([f"{self.id} {self.job} {self.directory}", *texts])


def answer(done: Done) -> Any:
    """The data of a ``--json`` answer; its envelope is checked on the way."""
    assert done.returncode == 0, done.stdout + done.stderr
    envelope = json.loads(done.stdout)
    assert envelope["ok"] is True, envelope
    return envelope["data"]


def digits(folder: Path, **keys: Any) -> Path:
    """A copy of the digits example with other keys in its job.yaml; the job file."""
    shutil.copytree(DIGITS, folder, dirs_exist_ok=True)
    data = yaml.safe_load((DIGITS / "job.yaml").read_text())
    return write(folder, {**data, "time": "2h", **keys})


def write(folder: Path, job: Mapping[str, Any]) -> Path:
    """A job file; a key whose value is None is left out."""
    path = folder / "job.yaml"
    kept = {key: value for key, value in job.items() if value is not None}
    path.write_text(yaml.safe_dump(kept, sort_keys=False))
    return path


def hold(program: Path, condition: str) -> None:
    """Let the copy of an example wait at its pause, while this is so, for what the test does."""
    text = program.read_text()
    assert text.count(PAUSE) == 1
    program.write_text(text.replace(PAUSE, f"while {condition}: time.sleep(0.05)"))


def submit(cluster: Cluster, job: Path, profile: Path | None = None, *words: str) -> Run:
    """Submit over ssh from the client host."""
    profile = profile or cluster.profile()
    submitted = cluster.client.jobgen("submit", str(job), "-c", str(profile), "--json", *words)
    data = answer(submitted)["job"]
    return Run(cluster, data["id"], data["slurm_id"], Path(data["dir"]), data["token"])

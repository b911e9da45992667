"""What goes wrong between here and the queue: a clear word, the right exit code, nothing left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.hosts import Done
from tests.e2e.runs import Run, submit, write

pytestmark = pytest.mark.cluster

PLAIN: dict[str, Any] = {
    "name": "plain",
    "run": "echo hello",
    "nodes": 1,
    "procs_per_node": 1,
    "time": "1h",
    "launcher": "plain",
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write(tmp_path, PLAIN)


@pytest.fixture
def before(cluster: Cluster) -> Iterator[set[str]]:
    """The run directories and jobs that there were: the same must be there afterwards."""
    there = left(cluster)
    yield there
    assert left(cluster) == there


def left(cluster: Cluster) -> set[str]:
    """Run directories, staged leftovers and jobs in the queue."""
    folders = {path.name for path in cluster.scratch.iterdir()}
    return folders | set(cluster.slurm("squeue", "-h", "-o", "%i").split())


def submitted(cluster: Cluster, job: Path, *words: str, **overrides: Any) -> Done:
    profile = cluster.profile(**overrides)
    return cluster.client.jobgen("submit", str(job), "-c", str(profile), *words)


def alias(cluster: Cluster, name: str, *lines: str) -> dict[str, str]:
    """Another name for the login host in the client's ssh configuration."""
    config = cluster.client.home / ".ssh" / "config"
    text = config.read_text()
    if f"Host {name}\n" not in text:
        config.write_text("\n".join([f"Host {name}", *(f"  {line}" for line in lines), "", text]))
    return {"host": name}


def refused(done: Done, code: int, *words: str) -> None:
    """The exit code is right, the words are said, and there is no traceback."""
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "Traceback" not in told, told
    for word in words:
        assert word.lower() in told.lower(), told


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_an_unknown_host_key(cluster: Cluster, job: Path, before: set[str], backend: str) -> None:
    empty = cluster.client.home / "empty_known_hosts"
    empty.touch()
    ssh = alias(
        cluster,
        "stranger",
        "HostName login",
        "User tester",
        f"IdentityFile {cluster.client.home}/.ssh/id_ed25519",
        f"UserKnownHostsFile {empty}",
        "GlobalKnownHostsFile /dev/null",
    )
    done = submitted(cluster, job, ssh={**ssh, "backend": backend})
    refused(done, 4, "host key", "ssh stranger")
    assert empty.read_text() == "", "nothing is learnt without being told"


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_a_wrong_key(cluster: Cluster, job: Path, before: set[str], backend: str) -> None:
    key = cluster.client.home / ".ssh" / "other"
    if not key.exists():
        cluster.client.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    lines = ("HostName login", "User tester", f"IdentityFile {key}", "IdentitiesOnly yes")
    known = f"UserKnownHostsFile {cluster.client.home}/.ssh/known_hosts"
    done = submitted(
        cluster, job, ssh={**alias(cluster, "locked-out", *lines, known), "backend": backend}
    )
    refused(done, 4, "permission denied", "tester")


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_nobody_listens(cluster: Cluster, job: Path, before: set[str], backend: str) -> None:
    ssh = alias(cluster, "closed", "HostName login", "Port 2", "User tester")
    refused(submitted(cluster, job, ssh={**ssh, "backend": backend}), 4, "refused")


def test_a_host_that_does_not_exist(cluster: Cluster, job: Path, before: set[str]) -> None:
    refused(submitted(cluster, job, ssh={"host": "no-such-host"}), 4, "no-such-host")


def test_a_partition_that_slurm_does_not_know(
    cluster: Cluster, tmp_path: Path, before: set[str]
) -> None:
    job = write(tmp_path, {**PLAIN, "slurm": {"partition": "nowhere"}})
    refused(submitted(cluster, job), 5, "invalid partition")


def test_a_full_remote_disk(cluster: Cluster, job: Path, before: set[str]) -> None:
    small = cluster.layout.small
    (job.parent / "weights.bin").write_bytes(b"\1" * 3_000_000)
    done = submitted(cluster, job, paths={"root": str(small)})
    refused(done, 1, "no space left", str(small))
    assert cluster.run("login", ["ls", "-A", str(small)]).stdout == ""


def test_a_root_that_cannot_be_made(cluster: Cluster, job: Path, before: set[str]) -> None:
    done = submitted(cluster, job, paths={"root": "/no/such/place"})
    refused(done, 1, "cannot create directory", "paths.root")


def test_noise_at_login_does_not_matter(cluster: Cluster, job: Path) -> None:
    """A talkative .bashrc, and variables there that would change every sbatch."""
    rc = cluster.layout.home / "tester" / ".bashrc"
    rc.write_text(
        "echo 'Welcome to the cluster!'; echo 'Quota: 99 %' >&2\n"
        "export SBATCH_JOB_NAME=poisoned SBATCH_PARTITION=nowhere SLURM_NTASKS=7\n"
    )
    try:
        run = submit(cluster, job)
        fields = cluster.job(run.job)
        assert run.wait() == 0, run.story()
    finally:
        rc.unlink()
    assert (fields["JobName"], fields["Partition"]) == ("plain", "gpu")
    assert run.ranks()[0] == b"hello\n"


VALUES = {
    "PLAIN_TEXT": "a b  c",
    "QUOTES": 'it\'s "here"',
    "SUBSTITUTION": "`id` \\n %s ! ~ *",
    "COMMAS": "a,b=c,NAME=x",
    "LETTERS": "é ü 漢字",
}


def test_values_of_the_environment_arrive_byte_for_byte(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(
        f"import json, os; print(json.dumps({{n: os.environ.get(n) for n in {list(VALUES)}}}))"
    )
    job = {**PLAIN, "run": "show.py", "launcher": "srun", "env": VALUES}
    run: Run = submit(cluster, write(tmp_path, job))
    assert run.wait() == 0, run.story()
    assert json.loads(run.ranks()[0]) == VALUES


def test_secrets_arrive_are_removed_and_are_seen_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    secret = "s3cret-öne two"
    (tmp_path / "main.py").write_text(
        "import os, hashlib, pathlib\n"
        "print(hashlib.sha256(os.environ['API_KEY'].encode()).hexdigest())\n"
        "f = pathlib.Path(os.environ['JOBGEN_RUN_DIR'], 'secrets.env')\n"
        "print(oct(f.stat().st_mode & 0o777))\n"
    )
    job = write(tmp_path, {**PLAIN, "run": "main.py", "launcher": "srun", "secrets": ["API_KEY"]})
    words = ["submit", str(job), "-c", str(cluster.profile()), "--json", "-v"]
    done = cluster.client.jobgen(*words, env={"API_KEY": secret})
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]["job"]
    run = Run(cluster, data["id"], data["slurm_id"], Path(data["dir"]), data["token"])
    assert run.wait() == 0, run.story()
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert run.ranks()[0].decode().split() == [digest, "0o600"]
    assert not (run.directory / "secrets.env").exists()
    seen = [
        p for p in run.directory.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()
    ]
    assert seen == []
    assert secret not in done.stdout + done.stderr
    state = cluster.client.home / ".local"
    assert not [p for p in state.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]

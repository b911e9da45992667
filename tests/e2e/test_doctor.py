"""Everything that the doctor looks at, broken for real: named, with its fix and the exit code."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.waiting import until

pytestmark = pytest.mark.cluster

Checks = dict[str, dict[str, Any]]


def doctor(cluster: Cluster, code: int, **overrides: Any) -> Checks:
    """The findings by their ids; the exit code is as it must be, and there is no traceback."""
    profile = cluster.profile(**overrides)
    done = cluster.client.jobgen("doctor", "-c", str(profile), "--json")
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    data = json.loads(done.stdout)["data"]
    assert data["well"] is (code == 0)
    return {check["id"]: check for check in data["checks"]}


def wrong(checks: Checks) -> set[str]:
    return {name for name, check in checks.items() if check["status"] == "failed"}


def is_failed(checks: Checks, name: str, code: str, *words: str) -> None:
    """This check failed, says these words, and what to do."""
    check = checks[name]
    assert (check["status"], check["code"]) == ("failed", code), check
    said = f"{check['found']} {check['fix']}".lower()
    assert check["fix"]
    for word in words:
        assert word.lower() in said, check


def is_warned(checks: Checks, name: str, *words: str) -> None:
    check = checks[name]
    assert check["status"] == "warning", check
    for word in words:
        assert word.lower() in f"{check['found']} {check['fix']}".lower(), check


@contextmanager
def bashrc(cluster: Cluster, text: str) -> Iterator[None]:
    """The login account's ~/.bashrc, for a while."""
    path = cluster.layout.home / "tester" / ".bashrc"
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()


def ssh(cluster: Cluster, name: str, **changes: str) -> dict[str, str]:
    """Another name for the login host in the client's ssh configuration."""
    home = cluster.client.home
    lines = {
        "HostName": "login",
        "User": "tester",
        "IdentityFile": f"{home}/.ssh/id_ed25519",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": f"{home}/.ssh/known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        **changes,
    }
    config = home / ".ssh" / "config"
    text = "\n".join([f"Host {name}", *(f"  {key} {value}" for key, value in lines.items()), ""])
    config.write_text(text + config.read_text())
    return {"host": name}


def test_all_is_well_and_nothing_is_left_behind(cluster: Cluster) -> None:
    before = set(cluster.scratch.iterdir()), cluster.slurm("squeue", "-h", "-o", "%i")
    checks = doctor(cluster, 0)
    assert (set(cluster.scratch.iterdir()), cluster.slurm("squeue", "-h", "-o", "%i")) == before
    usual = ("ssh.login", "host.clock", "slurm.controller", "slurm.partition", "slurm.request")
    for name in (*usual, "disk.root", "disk.free", "ssh.noise", "host.variables"):
        assert checks[name]["status"] == "ok", checks[name]
    assert "gpu" in checks["slurm.partition"]["found"]
    assert checks["slurm.version"]["found"].startswith("Slurm 22.05")


def test_the_screen_is_for_people(cluster: Cluster) -> None:
    profile = str(cluster.profile(defaults={"slurm": {"partition": "gpux"}}))
    done = cluster.client.jobgen("doctor", "-c", profile, "--ascii")
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert "x partition" in done.stdout
    assert "did you mean 'gpu'?" in " ".join(done.stdout.split())
    assert done.stdout.rstrip().endswith("More: jobgen explain J424")


def test_a_partition_that_there_is_not(cluster: Cluster) -> None:
    checks = doctor(cluster, 1, defaults={"slurm": {"partition": "gpux"}})
    is_failed(checks, "slurm.partition", "J424", "gpux", "did you mean 'gpu'", "debug, short")
    is_failed(checks, "slurm.request", "J426", "invalid partition")
    assert wrong(checks) == {"slurm.partition", "slurm.request"}


def test_a_partition_that_is_down(cluster: Cluster) -> None:
    cluster.slurm("scontrol", "update", "PartitionName=short", "State=DOWN")
    try:
        checks = doctor(cluster, 1, defaults={"slurm": {"partition": "short"}})
    finally:
        cluster.slurm("scontrol", "update", "PartitionName=short", "State=UP")
    is_failed(checks, "slurm.partition", "J424", "short is DOWN")


def test_more_than_the_partition_allows(cluster: Cluster) -> None:
    slurm = {"slurm": {"partition": "debug"}}
    checks = doctor(cluster, 0, defaults=slurm, limits={"time": "2h"}, nodes={"count": 1})
    is_warned(checks, "slurm.sizes", "limits.time", "30m")
    checks = doctor(cluster, 0, defaults=slurm)
    is_warned(checks, "slurm.sizes", "nodes.count is 4", "partition debug has 1")


def test_a_profile_of_another_machine(cluster: Cluster) -> None:
    checks = doctor(cluster, 0, nodes={"count": 3, "cpus": 32})
    is_warned(checks, "profile.nodes.count", "3 in the profile, 4", "correct nodes.count")
    is_warned(checks, "profile.nodes.cpus", "32 in the profile, 64")
    assert doctor(cluster, 0)["profile.keys"]["status"] == "ok"


def test_gpus_that_no_node_has(cluster: Cluster) -> None:
    nodes = {"count": 4, "gpus_per_node": 16, "gpu": "A100-SXM4-80GB"}
    checks = doctor(cluster, 1, nodes=nodes, procs_per_node=None)
    is_failed(checks, "slurm.request", "J426", "node configuration is not available", "nodes")


def test_a_controller_that_does_not_answer(cluster: Cluster) -> None:
    with cluster.frozen_controller():
        checks = doctor(cluster, 1)
    is_failed(checks, "slurm.controller", "J421", "did not answer in time", "scontrol ping")
    assert wrong(checks) == {"slurm.controller"}
    for name in ("slurm.partition", "slurm.request"):
        assert checks[name]["status"] == "unknown", "asked once, and left in peace after that"
    assert checks["disk.root"]["status"] == "ok", "the rest is looked at all the same"


@pytest.mark.parametrize("root", ["/etc/jobgen", "/usr/jobgen/runs"])
def test_a_root_that_is_not_ones_own(cluster: Cluster, root: str) -> None:
    checks = doctor(cluster, 1, paths={"root": root})
    is_failed(checks, "disk.root", "J427", root, "permission denied", "paths.root")
    assert wrong(checks) == {"disk.root"}


def test_a_root_of_a_variable_that_is_not_set(cluster: Cluster) -> None:
    checks = doctor(cluster, 1, paths={"root": "/scratch/$PROJECT/runs"})
    is_failed(checks, "disk.root", "J427", "$PROJECT is not set")


def test_a_root_on_a_full_disk(cluster: Cluster) -> None:
    small = cluster.layout.small
    cluster.run("login", f"head -c 2000000 /dev/zero >{small}/filler", check=False)
    try:
        checks = doctor(cluster, 1, paths={"root": str(small)})
    finally:
        cluster.run("login", ["rm", f"{small}/filler"])
    is_failed(checks, "disk.root", "J427", "accepts no more data", "no space left")
    is_failed(checks, "disk.free", "J428", "0 B free of 1 MiB")
    assert cluster.run("login", ["ls", "-A", str(small)]).stdout == ""


def test_a_disk_without_programs_and_a_quota_used_up(cluster: Cluster) -> None:
    disk, fake = cluster.layout.small / "noexec", cluster.layout.home / "tester" / "quotas"
    cluster.run("login", ["mkdir", "-p", str(disk), str(fake)])
    options = "noexec,mode=777,size=20m,nr_inodes=60"
    cluster.run("login", ["mount", "-t", "tmpfs", "-o", options, "none", str(disk)], user="root")
    (fake / "quota").write_text(f"#!/bin/sh\necho '{disk} 20480* 10240 20480 6days 7 0 0'\n")
    (fake / "quota").chmod(0o755)
    try:
        with bashrc(cluster, f"PATH={fake}:$PATH\n"):
            checks = doctor(cluster, 1, paths={"root": str(disk)})
    finally:
        cluster.run("login", ["umount", str(disk)], user="root")
        cluster.run("login", ["rmdir", str(disk)])
    is_warned(checks, "disk.noexec", "noexec", "bash run.sh")
    is_failed(checks, "disk.inodes", "J428", "more files")
    is_failed(checks, "disk.quota", "J428", "20 MiB used: the quota of", "used up")


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_the_way_there_is_blocked(cluster: Cluster, backend: str) -> None:
    """A closed port, a key that is refused, host keys unknown and changed: each at its step."""
    home = cluster.client.home / ".ssh"
    key, known, others = (home / f"{name}-{backend}" for name in ("key", "known", "others"))
    cluster.client.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    changed = " ".join(Path(f"{key}.pub").read_text().split()[:2])
    known.write_text("")
    others.write_text(f"login,{cluster.layout.address('login')} {changed}\n")
    for name, change, step, code, words in (
        ("closed", {"Port": "2"}, "ssh.network", "J403", ("refused", "ssh")),
        ("refused", {"IdentityFile": str(key)}, "ssh.login", "J405", ("permission denied",)),
        (
            "unknown",
            {"UserKnownHostsFile": str(known)},
            "ssh.host-key",
            "J406",
            ("host key", "fingerprint"),
        ),
        ("changed", {"UserKnownHostsFile": str(others)}, "ssh.host-key", "J407", ("ssh-keygen",)),
    ):
        alias = ssh(cluster, f"{name}-{backend}", **change)
        checks = doctor(cluster, 1, ssh={**alias, "backend": backend})
        is_failed(checks, step, code, *words)
        assert wrong(checks) == {step}
        assert "slurm.controller" not in checks


def test_a_host_that_there_is_not(cluster: Cluster) -> None:
    checks = doctor(cluster, 1, ssh={"host": "no-such-host"})
    is_failed(checks, "ssh.network", "J402", "no-such-host", "ssh.host")
    assert checks["ssh.route"]["status"] == "ok"
    assert checks["ssh.login"]["status"] == "unknown"


def test_a_noisy_login_with_variables_of_its_own(cluster: Cluster) -> None:
    noise = (
        "echo 'Welcome to the cluster!'; echo second; umask 000\n"
        "export SBATCH_PARTITION=nowhere SLURM_NTASKS=7 SBATCH_SECRET=hunter22\n"
    )
    with bashrc(cluster, noise):
        checks = doctor(cluster, 0)
    is_warned(checks, "ssh.noise", "'Welcome to the cluster!' and 1 more", "~/.bashrc")
    is_warned(checks, "host.variables", "SBATCH_PARTITION", "SLURM_NTASKS")
    is_warned(checks, "host.umask", "0000")
    assert checks["host.bash"]["found"].startswith("5.")
    assert "hunter22" not in json.dumps(checks), "names only: a value may be a secret"
    assert checks["slurm.request"]["status"] == "ok", "jobgen's own sbatch does not see them"


@pytest.mark.parametrize(("off", "status"), [("+1 hour", "failed"), ("-38 seconds", "warning")])
def test_a_clock_that_is_off(cluster: Cluster, off: str, status: str) -> None:
    fake = cluster.layout.home / "tester" / "fake"
    fake.mkdir(exist_ok=True)
    (fake / "date").write_text(f"#!/bin/sh\nexec /usr/bin/date -d '{off}' \"$@\"\n")
    (fake / "date").chmod(0o755)
    with bashrc(cluster, f"PATH={fake}:$PATH\n"):
        checks = doctor(cluster, 1 if status == "failed" else 0)
    clock = checks["host.clock"]
    assert (clock["status"], clock["code"]) == (status, "J430")
    seconds = "3600 s ahead" if status == "failed" else "38 s behind"
    assert seconds in clock["found"]


def test_slurm_is_not_on_the_path(cluster: Cluster) -> None:
    home = cluster.layout.home / "tester"
    hide = "sbatch|squeue|scontrol|scancel|sacct*|sinfo"
    cluster.run(
        "login",
        f"mkdir -p bin && for f in /usr/bin/*; do case ${{f##*/}} in {hide}) ;;"
        " *) ln -sfn $f bin/ ;; esac; done",
    )
    with bashrc(cluster, f"PATH={home}/bin\n"):
        checks = doctor(cluster, 1)
    is_failed(checks, "slurm.commands", "J420", "sbatch, squeue, scancel, scontrol", "~/.bashrc")
    assert checks["disk.root"]["status"] == "ok"
    assert wrong(checks) == {"slurm.commands"}


def test_a_wrong_release_of_slurm(cluster: Cluster) -> None:
    checks = doctor(cluster, 1, slurm_version="24.11")
    is_failed(checks, "slurm.version", "J422", "22.05", "older than", 'slurm_version: "22.05"')
    checks = doctor(cluster, 0, slurm_version="20.11")
    is_warned(checks, "slurm.version", "newer than")


def test_accounting_that_there_is_not(cluster: Cluster) -> None:
    checks = doctor(cluster, 1, accounting="sacct")
    is_failed(checks, "slurm.accounting", "J423", "has no accounting", "accounting: none")


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """A Slurm that takes jobs of known accounts only."""
    enforce = "AccountingStorageEnforce=associations,limits,qos"
    with Cluster.up(Options(accounting=True, nodes=1, conf=(enforce,))) as running:
        yield running


def test_accounts_and_qos_that_accounting_knows(strict: Cluster) -> None:
    one = {"nodes": {"count": 1}}
    checks = doctor(strict, 1, **one)
    is_failed(checks, "slurm.account", "J425", "no account")
    is_failed(checks, "slurm.request", "J426", "account")
    strict.slurm("sacctmgr", "-i", "add", "account", "physics")
    strict.slurm("sacctmgr", "-i", "add", "user", "tester", "account=physics")
    checks = doctor(strict, 0, defaults={"slurm": {"account": "physics"}}, **one)
    assert checks["slurm.account"]["found"] == "physics"
    assert checks["slurm.accounting"]["found"] == "sacct answers"
    checks = doctor(strict, 1, defaults={"slurm": {"account": "physic", "qos": "gold"}}, **one)
    is_failed(checks, "slurm.account", "J425", "physic", "yours: physics")
    checks = doctor(strict, 1, defaults={"slurm": {"account": "physics", "qos": "gold"}}, **one)
    is_failed(checks, "slurm.qos", "J425", "gold", "yours: normal")
    strict.slurm("sacctmgr", "-i", "modify", "user", "tester", "set", "maxsubmitjobs=0")
    is_failed(doctor(strict, 1, **one), "slurm.limits", "J425", "cannot run jobs")


def test_the_accounting_is_down(strict: Cluster) -> None:
    strict.signal("login", "slurmdbd", signal.SIGKILL)
    until(lambda: not strict.processes("login", "slurmdbd"), "slurmdbd to be gone")
    one = {"nodes": {"count": 1}}
    checks = doctor(strict, 1, accounting="sacct", **one)
    is_failed(checks, "slurm.accounting", "J423", "connection refused", "slurmdbd")
    assert "slurm.account" not in checks, "nobody knows"

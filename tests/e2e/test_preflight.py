"""A node that is not fit is found before the program starts, and the job goes on without it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import ENDED, Cluster
from tests.e2e.runs import Run, submit, write
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FAKES = "/run/fakes"
"""On the path of these jobs; every host has a /run of its own, so a tool there is one node's."""
BAD = "n2"
PATIENCE = 20
"""Seconds that a preflight waits for a node: what a node that is fit needs on a busy machine."""
DATE = "#!/bin/bash\nexec /bin/date -d '90 seconds' \"$@\"\n"
HANGS = "#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 1; done\n"
SEVEN = """#!/bin/bash
for ((i = 0; i < 7; i++)); do echo "GPU 00000000:0$i:00.0"; done
"""


def job(folder: Path, **keys: Any) -> Path:
    """A job of two nodes that is put back without a node that is not fit."""
    folder.mkdir(exist_ok=True)
    least = {
        "name": "looked-at",
        "run": "bash -c 'echo up'",
        "launcher": "srun",
        "nodes": 2,
        "procs_per_node": 1,
        "time": "1h",
        "env": {"PATH": f"{FAKES}:$PATH", "PREFLIGHT_SECONDS": str(PATIENCE)},
        "checkpoint": {"requeue": True, "grace": "30s"},
    }
    return write(folder, {**least, **keys})


@contextmanager
def tool(cluster: Cluster, host: str, name: str, text: str) -> Iterator[None]:
    """A program of this name on one host."""
    command = f"mkdir -p {FAKES} && cat >{FAKES}/{name} && chmod 755 {FAKES}/{name}"
    cluster.run(host, command, user="root", stdin=text)
    try:
        yield
    finally:
        cluster.run(host, f"rm {FAKES}/{name}", user="root")


@contextmanager
def undone(cluster: Cluster, host: str, do: str, undo: str) -> Iterator[None]:
    """One command on a host as root, and later another."""
    cluster.run(host, do, user="root")
    try:
        yield
    finally:
        cluster.run(host, undo, user="root")


@contextmanager
def frozen(cluster: Cluster, host: str) -> Iterator[None]:
    """The host's slurmd takes connections and does not answer: no step starts there."""
    cluster.signal(host, "slurmd", signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.signal(host, "slurmd", signal.SIGCONT)


FULL = ("mount -t tmpfs -o size=1m none /dev/shm", "umount /dev/shm")
DOWN = ("ip link set eth0 down", "ip link set eth0 up")
FAULTS = {
    "shm": (lambda c: undone(c, BAD, *FULL), "/dev/shm has 1 MiB free"),
    "clock": (lambda c: tool(c, BAD, "date", DATE), "its clock is off by"),
    "gpus": (lambda c: tool(c, BAD, "nvidia-smi", SEVEN), "7 of 8 GPUs found"),
    "hang": (lambda c: tool(c, BAD, "df", HANGS), "at the check of shm"),
    "slurmd": (lambda c: frozen(c, BAD), "no answer in"),
    "link": (lambda c: undone(c, BAD, *DOWN), "no answer in"),
}


@pytest.mark.parametrize("fault", one_of_each(FAULTS, kept=["shm", "slurmd"]))
def test_a_bad_node_is_named_and_excluded_and_the_job_ends_well(
    cluster: Cluster, tmp_path: Path, fault: str
) -> None:
    broken, said = FAULTS[fault]
    gpus = {"procs_per_node": None, "gpus_per_node": 8} if fault == "gpus" else {}
    nodes = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB"} if gpus else {}
    with broken(cluster):
        run = submit(cluster, job(tmp_path / "job", **gpus), cluster.profile(nodes=nodes))
        until(lambda: cluster.job(run.job).get("ExcNodeList") == BAD, "the exclusion")
    # the begin time is set anew when the last node, that which hung, is done with the job
    cluster.wait_idle()
    cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    assert cluster.job(run.job)["Restarts"] == "1"
    assert "up" in run.ranks(restart=1)[0].decode()
    assert run.ranks(restart=0) == {}, "the program was not started beside a bad node"
    ((start, node, what),) = [tuple(each.values()) for each in run.show()["preflight"]]
    assert (start, node) == (1, BAD)
    assert said in what
    log = (run.directory / "logs" / f"job-{run.job}.out").read_text()
    assert f"jobgen: preflight: bad: {BAD}: {what}" in log
    assert f"requeued, excluding {BAD}" in log
    cluster.wait_idle()


def test_without_requeue_the_job_ends_with_95_and_says_why(
    cluster: Cluster, tmp_path: Path
) -> None:
    with undone(cluster, BAD, *FULL):
        run = submit(cluster, job(tmp_path / "job", checkpoint=None))
        assert run.wait() == 1
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED", "95:0")
    assert shown["reason"].startswith(f"preflight: {BAD}: /dev/shm has 1 MiB free")
    assert f"{BAD}: /dev/shm has 1 MiB" in cluster.client.jobgen("ls").stdout
    assert run.ranks() == {}


def test_an_elastic_job_only_names_a_bad_node(cluster: Cluster, tmp_path: Path) -> None:
    with undone(cluster, BAD, *FULL):
        keys: dict[str, Any] = {"nodes": "1:2", "launcher": "torchrun", "run": "main.py"}
        path = job(tmp_path / "job", checkpoint=None, **keys)
        (path.parent / "main.py").write_text("print('up')\n")
        run = submit(cluster, path)
        assert run.wait() == 0, run.story()
    assert [each["node"] for each in run.show()["preflight"]] == [BAD]


def test_nodes_that_are_fit_pass(cluster: Cluster, tmp_path: Path) -> None:
    run = submit(cluster, job(tmp_path / "job", nodes=4))
    assert run.wait() == 0, run.story()
    folder = run.directory / "state" / "0" / "preflight.0"
    assert (folder / "findings").read_text() == ""
    ended = [line.split("\t") for line in (folder / "answers").read_text().splitlines()]
    assert {host for _, host, kind, *_ in ended if kind == "end"} == {"n1", "n2", "n3", "n4"}
    assert run.show()["preflight"] == []


def test_a_job_that_is_cancelled_in_its_preflight_ends(cluster: Cluster, tmp_path: Path) -> None:
    with tool(cluster, BAD, "df", HANGS):
        env = {"PATH": f"{FAKES}:$PATH", "PREFLIGHT_SECONDS": "3600"}
        run = submit(cluster, job(tmp_path / "job", env=env))
        folder = run.directory / "state" / "0" / "preflight.0"
        answers = folder / "answers"
        until(lambda: answers.exists() and f"\t{BAD}\tat\tshm" in answers.read_text(), "the check")
        assert run.jobgen("cancel").returncode == 0
        assert cluster.wait_state(run.job, ENDED) == "CANCELLED"
    assert run.show()["state"] == "CANCELLED"
    assert run.ranks() == {}


@pytest.mark.train("torch")
def test_full_measures_an_all_reduce_with_the_jobs_own_launcher(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = submit(cluster, job(tmp_path / "job", preflight="full", checkpoint=None))
    assert run.wait() == 0, run.story()
    folder = run.directory / "state" / "0" / "preflight.0"
    assert float((folder / "busbw").read_text()) > 0
    assert "all-reduce over 2 ranks: " in run.story()
    assert run.ranks()[0] == b"up\n", "what the trial said is not in the program's logs"


def test_full_without_torch_says_so_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    profile = cluster.profile(defaults={"setup": None})
    run: Run = submit(cluster, job(tmp_path / "job", preflight="full", checkpoint=None), profile)
    assert run.wait() == 0, run.story()
    assert "not measured: no python with torch in the job's environment" in run.story()

"""Benches on the real cluster: a shaped link is measured, a slow node named, a program scaled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.layout import REPOSITORY
from tests.e2e.runs import answer

pytestmark = [pytest.mark.cluster, pytest.mark.train("torch")]

RATE = 50
"""Megabits a second: low enough that busy cores are not what ends an all-reduce."""
HOSTS = ("n1", "n2", "n3", "n4")
GPT = REPOSITORY / "examples" / "gpt" / "job.ddp.yaml"


@contextmanager
def shaped(cluster: Cluster, *hosts: str, rate: int = RATE) -> Iterator[None]:
    """The links of these hosts, held to so many megabits a second on the way out."""
    limit = ["rate", f"{rate}mbit", "burst", "64kb", "latency", "100ms"]
    for host in hosts:
        words = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limit]
        cluster.run(host, words, user="root")
    try:
        yield
    finally:
        for host in hosts:
            cluster.run(host, ["tc", "qdisc", "del", "dev", "eth0", "root"], user="root")


def bench(cluster: Cluster, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = answer(cluster.client.jobgen("bench", *words, "--json"))
    return found


def test_a_shaped_link_is_what_is_measured(cluster: Cluster) -> None:
    network = {"fabric": "ethernet", "nic_gbps": 1, "socket_ifname": "eth0"}
    profile = cluster.profile(procs_per_node=1, network=network)
    asked = ["--nodes", "2", "--sizes", "2M,4M", "--seconds", "1"]
    with shaped(cluster, *HOSTS):
        found = bench(cluster, "allreduce", "-c", str(profile), *asked)
    assert found["complete"]
    assert found["backend"] == "gloo"
    assert found["busbw_bytes_s"] * 8 / 1e6 == pytest.approx(RATE, rel=0.15)
    assert found["limit"]["busbw_bytes_s"] == 125e6
    assert [verdict["mark"] for verdict in found["verdicts"]] == ["bad"]
    again = cluster.client.jobgen("bench", "allreduce", "--read", found["job"]["id"])
    assert "Verdict" in again.stdout, again.stderr


def test_the_slow_node_is_named(cluster: Cluster) -> None:
    profile = cluster.profile(procs_per_node=1)
    asked = ["--nodes", "3", "--sizes", "1M", "--seconds", "0.5", "--pairs"]
    with shaped(cluster, "n3", rate=20):
        found = bench(cluster, "allreduce", "-c", str(profile), *asked)
    assert len(found["pairs"]) == 3
    assert found["slow_nodes"] == ["n3"]


def test_a_slow_loader_and_a_slow_link_are_told_apart(cluster: Cluster) -> None:
    """One rank on each node: alone it waits for its data, with another one for the link."""
    profile = cluster.profile(procs_per_node=1)
    run = "train_ddp.py --steps 4 --layers 2 --hidden 128 --slow-data 0.8"
    sets = ["--set", f"run={run}", "--set", "train.gradient_accumulation=1"]
    with shaped(cluster, *HOSTS, rate=8):
        found = bench(cluster, "scaling", str(GPT), "-c", str(profile), "--nodes", "1,2", *sets)
    one, two = found["sizes"]
    assert one["cause"] == "data", one
    assert two["cause"] == "communication", two
    assert found["kind"] == "weak"
    assert one["efficiency"] == 1
    assert two["efficiency"] < 0.7
    first, second = (job["slurm_id"] for job in found["jobs"])
    assert cluster.job(second)["Dependency"] in {"(null)", f"afterany:{first}(unfulfilled)"}

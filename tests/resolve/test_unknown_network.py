"""A network that the profile does not know: NCCL chooses, and prints what it chose."""

from __future__ import annotations

import pytest

from tests.resolve.made import CPUS, GPUS, job, plan

UNKNOWN = GPUS.replace("fabric: infiniband", "fabric: unknown")


def debug(text: str, cluster: str = UNKNOWN) -> dict[str, str]:
    env = plan(text, cluster).env
    return {name: setting.value for name, setting in env.items() if name.startswith("NCCL_DEBUG")}


def test_nccl_prints_which_network_it_uses_and_the_plan_warns() -> None:
    assert debug(job()) == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
    warnings = [note for note in plan(job(), UNKNOWN).notes if note.code == "J229"]
    assert [note.severity for note in warnings] == ["warning"]
    assert "NCCL_NET" not in plan(job(), UNKNOWN).env


@pytest.mark.parametrize("cluster", [GPUS, GPUS.replace("infiniband", "none")])
def test_on_a_known_network_it_prints_errors_only(cluster: str) -> None:
    assert debug(job(), cluster) == {"NCCL_DEBUG": "WARN"}
    assert not [note for note in plan(job(), cluster).notes if note.code == "J229"]


def test_what_the_job_says_of_nccls_lines_wins() -> None:
    assert debug(job(nccl="{debug: WARN}")) == {"NCCL_DEBUG": "WARN"}


@pytest.mark.parametrize(
    ("keys", "cluster"), [({"nodes": "1"}, UNKNOWN), ({}, CPUS.replace("ethernet", "unknown"))]
)
def test_one_node_and_nodes_without_gpus_do_not_care(keys: dict[str, str], cluster: str) -> None:
    assert not [note for note in plan(job(**keys), cluster).notes if note.code == "J229"]

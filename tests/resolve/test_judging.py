"""The judge of variables, once job and cluster are known."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from tests.resolve.made import GPUS, LOCAL, job, plan


def notes(text: str, cluster: str = GPUS) -> list[tuple[str, str]]:
    """(code, severity) of what the judge says."""
    return [
        (n.code, n.severity) for n in plan(text, cluster).notes if n.code not in {"J212", "J259"}
    ]


def test_what_jobgen_sets_itself_is_not_judged() -> None:
    assert notes(job()) == []
    assert "NCCL_NET" in plan(job()).env


def test_a_fight_with_the_network_is_said_where_the_network_is_used() -> None:
    env = "{NCCL_NET: Socket}"
    assert notes(job(env=env)) == [("J316", "warning")]
    assert notes(job(env=env, nodes="1")) == []
    assert notes(job(env=env, gpus_per_node="2"), LOCAL) == []


def test_what_would_stop_nccl_stops_the_plan() -> None:
    with pytest.raises(Invalid) as caught:
        plan(job(env="{NCCL_IB_DISABLE: 1}"))
    found = next(p for p in caught.value.problems if p.severity == "error")
    assert found.code == "J317"
    assert found.place
    assert found.place.line
    assert "NCCL_NET: Socket" in found.hint


def test_lines_of_setup_are_judged_too() -> None:
    found = plan(job(setup="export NCCL_TIMEOUT=5 PATH=/x:$PATH"))
    (said,) = found.notes
    assert said.code == "J304"
    assert said.place
    assert said.place.file == "some/where/job.yaml"


def test_each_thing_is_said_once() -> None:
    text = job(env="{NCCL_TIMEOUT: 5}", setup="export NCCL_IB_HCAS=x")
    assert [code for code, _ in notes(text)] == ["J304", "J304"]


def test_installed_releases_count() -> None:
    env = "{NCCL_IB_SPLIT_DATA_ON_QPS: 1, NCCL_SHM_USE_CUDA_MEMCPY: 1}"
    old = GPUS + "versions: {nccl: 2.17.1}\n"
    assert ("J311", "warning") in notes(job(env=env), old)
    assert not any(code == "J310" for code, _ in notes(job(env=env), old))
    new = GPUS + "versions: {nccl: 2.30.7}\n"
    assert not any(code == "J311" for code, _ in notes(job(env=env), new))
    assert ("J310", "warning") in notes(job(env=env), new)


def test_a_sites_own_settings_get_no_advice_and_lose_to_the_jobs() -> None:
    site = GPUS + "defaults: {env: {NCCL_ALGO: Ring, NCCL_IB_HCAS: mlx5}}\n"
    assert notes(job(), site) == [("J304", "warning")]
    assert notes(job(env="{NCCL_ALGO: Tree}"), site) == [("J315", "note"), ("J304", "warning")]

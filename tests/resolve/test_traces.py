"""What a crash or a hang leaves behind lies in the run directory."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from tests.resolve.made import CPUS, GPUS, job, plan

OLD, NEW = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"
PREFIX = "$JOBGEN_LOG_DIR/nccl_trace_rank_"


def dumps(text: str = job(), cluster: str = GPUS) -> dict[str, str]:
    return {name: s.value for name, s in plan(text, cluster).env.items() if name in {OLD, NEW}}


@pytest.mark.parametrize(
    ("torch", "names"), [("", {NEW, OLD}), ("2.7.1", {OLD}), ("2.8.0", {NEW}), ("2.13", {NEW})]
)
def test_dumps_of_the_flight_recorder_lie_beside_the_logs(torch: str, names: set[str]) -> None:
    versions = f"versions: {{torch: {torch}}}\n" if torch else ""
    assert dumps(job(), GPUS + versions) == dict.fromkeys(names, PREFIX)


@pytest.mark.parametrize(
    "keys", [{"env": f"{{{OLD}: /d/x_}}"}, {"nccl": f"{{env: {{{OLD}: /d/x_}}}}"}]
)
def test_a_job_that_says_where_is_left_alone(keys: dict[str, str]) -> None:
    """The newer name would win over the older one in torch."""
    assert dumps(job(**keys)) == {OLD: "/d/x_"}


@pytest.mark.parametrize("where", ["defaults", "network"])
def test_a_site_that_says_where_is_left_alone(where: str) -> None:
    site = f"env: {{{OLD}: /d/x_}}"
    cluster = GPUS.replace("{fabric: infiniband}", f"{{fabric: infiniband, {site}}}")
    cluster = cluster if where == "network" else GPUS + f"defaults: {{{site}}}\n"
    assert dumps(job(), cluster) == {OLD: "/d/x_"}


def test_python_prints_its_stack_when_a_rank_crashes() -> None:
    assert plan(job()).env["PYTHONFAULTHANDLER"].value == "1"


@pytest.mark.parametrize(
    ("keys", "cluster"), [({"gpus_per_node": "1", "nodes": "1"}, GPUS), ({}, CPUS)]
)
def test_a_job_without_nccl_has_none_of_it(keys: dict[str, str], cluster: str) -> None:
    assert not {"PYTHONFAULTHANDLER", OLD, NEW} & plan(job(**keys), cluster).env.keys()


@pytest.mark.train("torch")
def test_the_installed_torch_reads_both_names() -> None:
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert all(data.find(name.encode() + b"\0") >= 0 for name in (OLD, NEW))

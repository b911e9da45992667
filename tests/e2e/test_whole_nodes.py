"""What ranks get of their nodes on a real Slurm: CPUs, and the GPUs of the allocation alone.

The GPUs are only claimed: a rank says which it was told of (CUDA_VISIBLE_DEVICES), and which of the
node's devices it may open where control groups guard them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.install import no_cgroups
from tests.e2e.runs import Run, submit, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = """\
import errno, glob, json, os, time
# a program may be over before its node's monitor has begun
folder = os.path.join(os.environ["JOBGEN_STATE_DIR"], "monitor.0")
sample = os.path.join(folder, os.environ["SLURMD_NODENAME"] + ".csv")
while not os.path.exists(sample):
    time.sleep(0.1)
names = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS")
answer = {name: os.environ.get(name) for name in names}
answer["cpus"] = sorted(os.sched_getaffinity(0))
answer["node"] = os.environ["SLURMD_NODENAME"]
answer["open"] = []
for path in sorted(glob.glob("%s/nvidia*")):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:  # a driver that is not there is no refusal
        if error.errno == errno.EPERM:
            continue
    answer["open"].append(int(path[-1]))
print(json.dumps(answer), flush=True)
"""
GPU_NODES = {"nodes": {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "cpus": None}}


def ask(cluster: Cluster, folder: Path, profile: dict[str, Any], **keys: Any) -> Run:
    """A finished job whose ranks say what they got."""
    folder.mkdir()
    (folder / "main.py").write_text(PROGRAM % cluster.layout.dev)
    job = {"name": "got", "run": "main.py", "nodes": 2, "time": "1h", "monitor": "1s", **keys}
    file = cluster.profile(procs_per_node=None, **profile)
    run = submit(cluster, write(folder, job), file)
    assert run.wait() == 0, run.story()
    return run


def answers(run: Run) -> list[dict[str, Any]]:
    """What each rank said, in order."""
    found = [json.loads(out) for _, out in sorted(run.ranks().items())]
    assert found, run.story()
    return found


def monitored(run: Run) -> str:
    """What the monitors' step left, which shares the nodes with the program's."""
    folder = run.directory / "state" / "0" / "monitor.0"
    return " ".join(sorted(path.name for path in folder.iterdir()))


STYLES = (
    "none",
    *(
        pytest.param(style, marks=pytest.mark.exhaustive)
        for style in ("gpus-per-node", "gres", "gres-typed")
    ),
)


@pytest.mark.parametrize("style", STYLES)
def test_ranks_of_a_whole_node_share_its_cpus_and_see_its_gpus(
    cluster: Cluster, tmp_path: Path, style: str
) -> None:
    """The profile does not say how many CPUs there are, and a site without a style names no GPU."""
    site = {**GPU_NODES, "gpu_request": style, "gpu_type": "a100", "defaults": {"env": None}}
    run = ask(cluster, tmp_path / "job", site, launcher="srun")
    assert len(answers(run)) == 16
    for rank in answers(run):
        assert rank["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
        assert (rank["SLURM_CPUS_PER_TASK"], rank["OMP_NUM_THREADS"]) == ("8", "8")
    job = cluster.job(run.job)
    assert (job["NumCPUs"], job["OverSubscribe"]) == ("128", "NO")
    assert "n1" in monitored(run)


def test_one_task_of_a_whole_node_has_all_of_its_cpus(cluster: Cluster, tmp_path: Path) -> None:
    site = {**GPU_NODES, "gpu_request": "none"}
    for rank in answers(ask(cluster, tmp_path / "job", site, launcher="plain")):
        assert rank["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
        assert rank["SLURM_CPUS_PER_TASK"] == "64"


@pytest.mark.parametrize("launcher", ["srun", "plain"])
def test_on_a_shared_node_ranks_see_the_gpus_of_their_own_job_only(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Nothing else keeps them from the GPUs of others: this cluster does not constrain devices."""
    words = ("--nodes=2", "--nodelist=n1,n2", "--gpus-per-node=3", "--output=/dev/null")
    other = cluster.sbatch("#!/bin/bash\nsleep 300", *words)
    try:
        cluster.wait_state(other, "RUNNING")
        keys = {"gpus_per_node": 2, "launcher": launcher, "slurm": {"nodelist": "n1,n2"}}
        run = ask(cluster, tmp_path / "job", GPU_NODES, **keys)
    finally:
        cluster.slurm("scancel", other)
    assert len(answers(run)) == {"srun": 4, "plain": 2}[launcher]
    assert {rank["CUDA_VISIBLE_DEVICES"] for rank in answers(run)} == {"3,4"}


@pytest.mark.parametrize(
    "launcher",
    [
        "srun",
        pytest.param("torchrun", marks=pytest.mark.exhaustive),
        pytest.param("deepspeed", marks=pytest.mark.exhaustive),
        pytest.param("accelerate", marks=pytest.mark.exhaustive),
    ],
)
def test_of_several_ranks_per_gpu_each_sees_the_one_that_it_shares(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    keys = {"gpus_per_node": 2, "ranks_per_gpu": 2, "cpus_per_task": 2, "launcher": launcher}
    said = answers(ask(cluster, tmp_path / "job", GPU_NODES, **keys))
    assert len(said) == 8
    for node in ("n1", "n2"):
        seen = [rank["CUDA_VISIBLE_DEVICES"] for rank in said if rank["node"] == node]
        assert sorted(seen) == ["0", "0", "1", "1"]


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """Tasks are bound to CPUs, and a step may open the devices that it was given, and no other."""
    if why := no_cgroups():
        pytest.skip(why)
    options = Options(nodes=2, cpus=2, gpus=2, task_plugin="task/affinity,task/cgroup")
    with Cluster.up(options) as running:
        yield running


@pytest.mark.parametrize(
    ("launcher", "style"),
    [
        ("srun", "gpus-per-node"),
        ("plain", "none"),
        pytest.param("srun", "none", marks=pytest.mark.exhaustive),
        pytest.param("plain", "gpus-per-node", marks=pytest.mark.exhaustive),
    ],
)
def test_where_devices_and_cpus_are_constrained_a_whole_node_is_whole(
    strict: Cluster, tmp_path: Path, launcher: str, style: str
) -> None:
    site = {"nodes": {**GPU_NODES["nodes"], "gpus_per_node": 2}, "gpu_request": style}
    run = ask(strict, tmp_path / "job", site, launcher=launcher)
    said = answers(run)
    assert all(rank["CUDA_VISIBLE_DEVICES"] == "0,1" for rank in said)
    assert all(rank["open"] == [0, 1] for rank in said)
    for node in ("n1", "n2"):
        assert {cpu for rank in said if rank["node"] == node for cpu in rank["cpus"]} == {0, 1}
    assert "n1" in monitored(run)


def test_where_devices_are_constrained_a_step_opens_its_own(
    strict: Cluster, tmp_path: Path
) -> None:
    site = {"nodes": {**GPU_NODES["nodes"], "gpus_per_node": 2}}
    for rank in answers(ask(strict, tmp_path / "job", site, gpus_per_node=1)):
        assert rank["CUDA_VISIBLE_DEVICES"] == "0"
        assert len(rank["open"]) == 1


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_each_rank_runs_on_the_cpus_of_its_gpu(
    strict: Cluster, tmp_path: Path, launcher: str
) -> None:
    """The profile names them, because this machine has no GPU to find; the affinity is real."""
    site = {"nodes": {**GPU_NODES["nodes"], "gpus_per_node": 2, "gpu_cpus": ["1", "0"]}}
    run = ask(strict, tmp_path / "job", site, launcher=launcher)
    assert [rank["cpus"] for rank in answers(run)] == [[1], [0], [1], [0]]
    if launcher == "srun":
        run = ask(strict, tmp_path / "off", site, launcher=launcher, bind="off")
        assert [rank["cpus"] for rank in answers(run)] == [[0, 1]] * 4

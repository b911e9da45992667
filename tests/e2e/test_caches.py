"""Compilers' caches on real nodes: private, kept when the job starts again, gone at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.hosts import until
from tests.e2e.runs import Run, submit, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAM = """
op=$TORCH_EXTENSIONS_DIR/op
mkdir -p "$op"
echo "$JOBGEN_RESTART" >>"$op/built.$RANK"
{
    stat -c %a "${op%/*/*}"
    df --output=target "$op" | tail -n 1
    ls "$op"
    cat "$op/built.$RANK"
} >"$JOBGEN_RUN_DIR/seen.$RANK.$JOBGEN_RESTART"
: >"$op/lock"
touch "$JOBGEN_RUN_DIR/up.$RANK.$JOBGEN_RESTART"
"""


def started(cluster: Cluster, folder: Path, program: str, **keys: object) -> Run:
    (folder / "main.sh").write_text(program)
    size = {"nodes": 2, "gpus_per_node": 1, "cpus_per_task": 1, "time": "5m"}
    rest = {"run": "bash main.sh", "launcher": "srun", "preflight": "off"}
    job = write(folder, {"name": "caches", **size, **rest, **keys})
    nodes = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "cpus": 64}
    return submit(cluster, job, cluster.profile(nodes=nodes))


def left(cluster: Cluster, run: Run) -> list[str]:
    """What lies on the disks of the nodes of this job."""
    found = []
    for node in cluster.layout.nodes:
        names = cluster.run(node, ["ls", "/tmp"]).stdout.split()
        found += [f"{node}: {name}" for name in names if f"-{run.job}-" in name]
    return found


def seen(run: Run, rank: int, restart: int) -> list[str]:
    return (run.directory / f"seen.{rank}.{restart}").read_text().split()


def test_each_node_has_its_own_and_none_is_left(cluster: Cluster, tmp_path: Path) -> None:
    run = started(cluster, tmp_path, PROGRAM)
    assert run.wait() == 0, run.story()
    # the exit marker is written before the caches are removed
    assert cluster.wait_state(run.job) == "COMPLETED"
    for rank in range(2):
        # on one disk for both nodes each rank would see two files
        assert seen(run, rank, 0) == ["700", "/tmp", f"built.{rank}", "0"]
    assert left(cluster, run) == []


@pytest.mark.exhaustive
def test_a_job_that_slurm_starts_again_finds_its_own_without_locks(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = PROGRAM + "[[ $JOBGEN_RESTART != 0 ]] || sleep 300\n"
    keys = {"checkpoint": {"requeue": True, "grace": "10s"}, "slurm": {"nodelist": "n1,n2"}}
    run = started(cluster, tmp_path, program, **keys)
    ups = [run.directory / f"up.{rank}.0" for rank in range(2)]
    until(lambda: all(up.exists() for up in ups), "both ranks to be up")
    assert len(left(cluster, run)) == 2
    cluster.slurm("scontrol", "requeue", run.job)
    cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    # the exit marker is written before the caches are removed
    assert cluster.wait_state(run.job) == "COMPLETED"
    for rank in range(2):
        assert seen(run, rank, 1) == ["700", "/tmp", f"built.{rank}", "0", "1"]
    assert left(cluster, run) == []

"""Groups on different nodes on a real cluster: one heterogeneous job of Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, submit, write
from tests.e2e.test_groups import SERVER, list_groups, read_logs
from tests.e2e.test_preflight import FAKES, tool
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TRAIN = """\
import os, sys, time, urllib.request
rank, total = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if len(sys.argv) == 1:
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    ones = torch.ones(1)
    dist.all_reduce(ones)
    rank, total = dist.get_rank(), int(ones)
    dist.destroy_process_group()
address = f"http://{os.environ['JOBGEN_HOST_SERVE']}:{os.environ['JOBGEN_PORT_SERVE']}/"
answer = urllib.request.urlopen(address).read().decode()
homes = os.environ["MASTER_ADDR"], os.environ["SLURMD_NODENAME"], os.environ["JOBGEN_HOSTS_SERVE"]
print(rank, total, answer, *homes, flush=True)
if "fails" in sys.argv and rank == 3:
    os._exit(5)
if "crashes" in sys.argv and rank == 0:
    try:
        urllib.request.urlopen(address + "crash")
    except Exception:
        time.sleep(1000)
if len(sys.argv) > 1:
    time.sleep(1000)
"""
"""With an argument it tries how the job ends, and needs no torch for that."""


def start(cluster: Cluster, folder: Path, argument: str = "", **keys: Any) -> Run:
    """A training on two nodes of one feature, and its server on a node of another partition."""
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "server.py").write_text(SERVER)
    serve = {"nodes": 1, "launcher": "plain", "run": "python server.py", "until": "train"}
    serve |= {"ready": {"port": "auto"}, "cpus_per_task": 2, "mem": "8G"}
    serve |= {"slurm": {"partition": "debug", "constraint": "ib"}}
    launcher = "torchrun" if argument in ("", "fails") else "srun"
    train = {"nodes": 2, "run": f"train.py {argument}", "launcher": launcher}
    groups = {"train": train, "serve": serve}
    job = {"name": "het", "time": "20m", "slurm": {"constraint": "roce"}, "groups": groups}
    return submit(cluster, write(folder, {**job, **keys}))


def await_training(run: Run) -> None:
    until(lambda: len(read_logs(run, "train")) == 4, run.story)


def test_a_training_and_its_server_run_on_different_nodes(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job", monitor="1s")
    assert run.wait() == 0, run.story()
    homes = ["n3", "n3", "n4", "n4"]
    assert read_logs(run, "train") == [f"{n} 4 answer n3 {home} n1" for n, home in enumerate(homes)]
    assert (run.directory / "src" / "saved").read_text() == "cleanly"
    screen = run.jobgen("show").stdout
    assert "RUNNING on n[3-4],n1" in screen
    assert "group train: succeeded" in screen
    assert "group serve: stopped" in screen
    assert {line.split()[0] for line in screen.split("\n") if "GiB of" in line} == {
        "n1",
        "n3",
        "n4",
    }
    row = run.cluster.client.jobgen("ls").stdout
    assert row.count(run.id) == 1
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.parametrize(
    ("argument", "codes", "victim"),
    [
        ("crashes", (7, 7), "serve"),
        # torchrun exits with 1, and the job with the code of the rank
        pytest.param("fails", (5, 1), "train", marks=pytest.mark.exhaustive),
    ],
)
def test_a_crash_of_either_side_frees_the_nodes_of_both(
    cluster: Cluster, tmp_path: Path, argument: str, codes: tuple[int, int], victim: str
) -> None:
    run = start(cluster, tmp_path / "job", argument)
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == f"{codes[0]}:0", run.story()
    assert list_groups(run)[victim]["code"] == codes[1]
    assert f"group {victim}: failed with exit code {codes[1]}" in run.jobgen("show").stdout
    assert f"group {victim}" in " ".join(run.jobgen("diagnose").stdout.split())
    until(lambda: not cluster.slurm("squeue", "--noheader"), "the end of both components")
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


def test_a_node_of_each_component_is_entered_and_cancel_ends_both(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = start(cluster, tmp_path / "job", "stays")
    await_training(run)
    for node in ("n1", "n4"):
        done = run.jobgen("sh", "--node", node, "--", "printenv", "SLURMD_NODENAME")
        assert done.stdout.strip() == node, done.stderr
    assert run.jobgen("cancel").returncode == 0
    run.wait()
    assert run.show()["state"] == "CANCELLED", run.story()
    until(lambda: not cluster.slurm("squeue", "--noheader"), "the end of both components")
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.exhaustive
def test_a_bad_node_of_the_second_component_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    profile = cluster.profile(
        procs_per_node=None, nodes={"gpus_per_node": 8, "gpu": "A100-SXM4-80GB"}
    )
    programs = {"run": "hostname", "launcher": "srun", "gpus_per_node": 2}
    small = {**programs, "nodes": 1, "mem": 0}
    small |= {"slurm": {"partition": "debug", "constraint": "ib"}}
    groups = {"train": {**programs, "nodes": 2}, "serve": small}
    job = {"name": "bad", "time": "10m", "slurm": {"constraint": "roce"}, "groups": groups}
    with tool(cluster, "n1", "nvidia-smi", "#!/bin/bash\necho 'GPU 00000000:00:00.0'\n"):
        keys = {"env": {"PATH": f"{FAKES}:$PATH"}}
        run = submit(cluster, write(folder, {**job, **keys}), profile)
        assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "95:0", run.story()
    assert "preflight: n1: 1 of 2 GPUs found" in run.show()["reason"]


@pytest.mark.exhaustive
def test_a_requeued_job_starts_both_components_again(cluster: Cluster, tmp_path: Path) -> None:
    checkpoint = {"grace": "2m", "requeue": True, "max_requeues": 1}
    run = start(cluster, tmp_path / "job", "stays", checkpoint=checkpoint)
    await_training(run)
    cluster.slurm("scontrol", "requeue", run.job)
    for component in (0, 1):
        cluster.start_now(f"{run.job}+{component}")
    folder = run.directory / "logs" / "0" / "1" / "train"
    until(lambda: len([*folder.glob("n*.out")]) >= 4, run.story)
    assert run.jobgen("cancel").returncode == 0
    run.wait()
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.exhaustive
def test_the_accounting_of_both_components_is_that_of_one_job(
    cluster_accounting: Cluster, tmp_path: Path
) -> None:
    cluster = cluster_accounting
    run = start(cluster, tmp_path / "job")
    assert run.wait() == 0, run.story()
    cluster.crash_controller()
    try:
        rows = cluster.slurm("sacct", "-X", "-n", "-P", "-o", "JobID,State", "-j", run.job)
    finally:
        cluster.restart_controller()
    assert sorted(rows.split()) == [f"{run.job}+{n}|COMPLETED" for n in (0, 1)]

"""A packed sweep on nodes with GPUs: each element has GPUs and CPUs of its own, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options
from tests.e2e.runs import submit, write
from tests.waiting import HANG

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = """\
import json, os, time
from pathlib import Path
here, element = Path(os.environ["JOBGEN_RUN_DIR"]), os.environ["SLURM_ARRAY_TASK_ID"]
names = ("SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "TRITON_CACHE_DIR", "SLURM_CPUS_PER_TASK")
part = here / f".up.{element}.{os.environ['RANK']}"
part.write_text(json.dumps({name: os.environ.get(name) for name in names}))
part.rename(here / f"up.{element}")
limit = time.monotonic() + HANG
while len(list(here.glob("up.*"))) < 8 and time.monotonic() < limit:
    time.sleep(0.05)
print(len(list(here.glob("up.*"))), flush=True)
"""
GPU_NODES = {"nodes": {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "cpus": 64}}


def test_elements_share_a_node_and_no_gpu(tmp_path: Path) -> None:
    """Memory is a resource, too, of which a step without --mem=0 takes all."""
    (tmp_path / "train.py").write_text(PROGRAM.replace("HANG", str(HANG)))
    job = {
        "name": "packed",
        "run": "train.py",
        "nodes": 2,
        "gpus_per_node": 8,
        "time": "10m",
        "launcher": "srun",
        "sweep": {"grid": {"SEED": list(range(8))}, "pack": {"gpus": 2}},
    }
    with Cluster.up(Options(nodes=2, enforce_memory=True)) as cluster:
        file = cluster.profile(procs_per_node=None, **GPU_NODES)
        run = submit(cluster, write(tmp_path, job), file)
        assert run.wait() == 0, run.story()
        outputs = [path.read_text() for path in run.directory.glob("logs/*/0/n*.*.out")]
        assert outputs == ["8\n"] * 16
        answers = [json.loads(path.read_text()) for path in run.directory.glob("up.*")]
    for node in ("n1", "n2"):
        there = [answer for answer in answers if answer["SLURMD_NODENAME"] == node]
        gpus = [answer["CUDA_VISIBLE_DEVICES"] for answer in there]
        assert sorted(",".join(gpus).split(",")) == [str(gpu) for gpu in range(8)]
        assert len({answer["TRITON_CACHE_DIR"] for answer in there}) == 4
        assert {answer["SLURM_CPUS_PER_TASK"] for answer in there} == {"8"}

"""The environment of a job on real nodes: what wins over a site's setup, and a venv of the user."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS, answer, submit, write

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
    pytest.mark.timeout(400),
]

PROGRAM = """\
import os
rank = os.environ["RANK"]
with open(os.path.join(os.environ["JOBGEN_RUN_DIR"], f"env.{rank}"), "wb") as file:
    file.write(b"".join(k + b"=" + v + b"\\0" for k, v in os.environb.items()))
"""
GPUS_OF_THE_NODE = "0,1,2,3,4,5,6,7"
SITE = f"""\
export NCCL_DEBUG=VERSION OMP_NUM_THREADS=99 NOTE=site CUDA_VISIBLE_DEVICES={GPUS_OF_THE_NODE}
export MASTER_ADDR=192.0.2.1 MASTER_PORT=1 NCCL_OF_THE_SITE=kept PATH=/site/bin:$PATH
"""
NOTE = 'a "quoted" it\'s 50% $word `id` \\ =x'
CASES = [
    name if name == "srun" else pytest.param(name, marks=pytest.mark.exhaustive)
    for name in LAUNCHERS
]


@pytest.fixture
def site(cluster: Cluster) -> Iterator[Path]:
    """A script of the site's on the shared disk."""
    path = cluster.scratch / "site.sh"
    path.write_text(SITE)
    yield path
    path.unlink()


@pytest.mark.parametrize("name", CASES)
def test_a_program_sees_the_jobs_values_and_the_gpus_of_its_allocation(
    cluster: Cluster, site: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {"NOTE": NOTE.replace("$", "$$"), "OMP_NUM_THREADS": 3, "PATH": "/job/bin:$PATH"}
    size = {"nodes": 2, "gpus_per_node": 2, "cpus_per_task": 2, "time": "5m"}
    keys = {"name": "order", "run": "main.py", "launcher": LAUNCHERS[name], "preflight": "off"}
    job = write(tmp_path, {**keys, **size, "env": env, "nccl": {"debug": "INFO"}})
    usual = yaml.safe_load(cluster.profile().read_text())["defaults"]["setup"]
    nodes = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "cpus": 64}
    profile = cluster.profile(nodes=nodes, defaults={"setup": [usual, f"source {site}"]})
    run = submit(cluster, job, profile)
    assert run.wait() == 0, run.story()
    for rank in range(4):
        items = (run.directory / f"env.{rank}").read_bytes().decode().split("\0")
        seen = dict(item.split("=", 1) for item in items if item)
        assert (seen["NOTE"], seen["NCCL_DEBUG"], seen["OMP_NUM_THREADS"]) == (NOTE, "INFO", "3")
        assert seen["NCCL_OF_THE_SITE"] == "kept"
        path = seen["PATH"].split(":")
        assert path.index("/job/bin") < path.index("/site/bin")
        assert seen.get("CUDA_VISIBLE_DEVICES") != GPUS_OF_THE_NODE


def test_the_job_of_init_runs_in_the_venv_that_it_names(cluster: Cluster, tmp_path: Path) -> None:
    venv = cluster.scratch / "envs" / "llm"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (tmp_path / "train.py").write_text('import sys\nprint("prefix", sys.prefix)\n')
    profile = str(cluster.profile())
    made = answer(cluster.client.jobgen("init", str(tmp_path), "-y", "-c", profile, "--json"))
    job = tmp_path / "job.yaml"
    text = job.read_text()
    assert text == made["job"]
    (advice,) = (line for line in text.split("\n") if line.startswith("# setup: source "))
    folder = advice.partition("source ")[2].removesuffix("/bin/activate")
    text = text.replace(advice, advice.removeprefix("# ").replace(folder, str(venv)))
    job.write_text(text.replace("gpus_per_node: 1", "gpus_per_node: 0"))
    run = submit(cluster, job)
    assert run.wait() == 0, run.story()
    assert f"prefix {venv}\n".encode() in run.ranks()[0]

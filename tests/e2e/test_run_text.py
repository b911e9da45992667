"""What run: and setup: may hold and may not, tried on the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS, Run, submit, write

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
    pytest.mark.exhaustive,
    pytest.mark.timeout(600),
]

TRAIN = """\
import os, sys, time
from datetime import timedelta
import torch, torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
total = torch.ones(1)
dist.all_reduce(total)
print(sys.argv[1], int(total), flush=True)
if "last" in sys.argv and dist.get_rank() == 0:
    time.sleep(30)  # a checkpoint that rank 0 writes when the others have left
dist.destroy_process_group()
"""
BESIDE = """\
set -e
nvidia-smi --version || true
python prepare.py
python train.py first
if [ "$RANK" = 0 ]; then python -c 'print("alone")'; fi
"""


def job(folder: Path, launcher: str, run: str, inner: str = "", time: str = "1h") -> Path:
    (folder / "train.py").write_text(TRAIN)
    (folder / "prepare.py").write_text("print('prepared')\n")
    (folder / "inner.sh").write_text(f"set -eo pipefail\n{inner}")
    keys = {"name": "two", "nodes": 2, "procs_per_node": 2, "time": time}
    return write(folder, {**keys, "launcher": LAUNCHERS[launcher], "run": run})


def lines(run: Run) -> list[str]:
    return sorted(line for out in run.ranks().values() for line in out.decode().splitlines())


@pytest.mark.parametrize("launcher", ["torchrun c10d", "srun", "accelerate"])
def test_helpers_may_stand_beside_the_program(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    run = submit(cluster, job(tmp_path, launcher, BESIDE))
    assert run.wait() == 0, run.story()
    assert lines(run) == ["alone", *["first 4"] * 4, *["prepared"] * 4]


@pytest.mark.parametrize("launcher", ["torchrun c10d", "torchrun static", "accelerate"])
def test_a_second_program_does_not_end_well_where_it_is_refused(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Behind a script, which lint does not open."""
    inner = "python train.py first\npython train.py second\n"
    run = submit(cluster, job(tmp_path, launcher, "bash inner.sh", inner, time="3m"))
    assert run.wait() != 0
    assert lines(run) == ["first 4"] * 4


def test_a_second_program_hangs_under_srun_where_rank_0_leaves_last(
    cluster: Cluster, tmp_path: Path
) -> None:
    inner = "python train.py first last\npython train.py second\n"
    run = submit(cluster, job(tmp_path, "srun", "bash inner.sh", inner, time="3m"))
    assert run.wait() != 0
    assert lines(run) == ["first 4"] * 4


@pytest.mark.parametrize("launcher", ["torchrun c10d", "srun"])
def test_a_rendezvous_of_its_own_makes_a_second_program_work(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    own = "TORCHELASTIC_USE_AGENT_STORE=False MASTER_PORT=$((MASTER_PORT + 1))"
    text = f"python train.py first\n{own} python train.py second\n"
    run = submit(cluster, job(tmp_path, launcher, text))
    assert run.wait() == 0, run.story()
    assert lines(run) == [*["first 4"] * 4, *["second 4"] * 4]


@pytest.mark.parametrize(("launcher", "times"), [("torchrun c10d", 1), ("srun", 2)])
def test_setup_runs_once_a_node_and_under_srun_once_a_rank(
    cluster: Cluster, tmp_path: Path, launcher: str, times: int
) -> None:
    setup = "echo x >>setup.$SLURMD_NODENAME"
    keys = {"name": "once", "nodes": 2, "procs_per_node": 2, "time": "1h", "setup": setup}
    words = {"launcher": LAUNCHERS[launcher], "run": "true"}
    run = submit(cluster, write(tmp_path, {**keys, **words}))
    assert run.wait() == 0, run.story()
    made = [len(p.read_text().split()) for p in (run.directory / "src").glob("*.n*")]
    assert made == [times, times]

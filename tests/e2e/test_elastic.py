"""An elastic job loses a node and goes on with those that are left, from its checkpoint."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.layout import REPOSITORY
from tests.e2e.runs import Run, digits, hold, submit
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LOST_AT = 3
"""The epoch behind which a node is lost."""
SILENCE = 60
"""Seconds after which a node that falls silent is taken for lost."""
WORLD = re.compile(rb"rank (\d)/(\d) on (\w+)")


@pytest.mark.train("torch")
@pytest.mark.parametrize("loss", one_of_each(["slurmstepd", "link"], kept=["slurmstepd"]))
def test_a_lost_node_costs_an_elastic_job_no_epoch(
    cluster: Cluster, tmp_path: Path, loss: str
) -> None:
    job = digits(
        tmp_path / "job",
        run=f"train.py --epochs 9 --timeout {SILENCE if loss == 'link' else 1800}",
        nodes="2:3",
        procs_per_node=1,
        time="1h",
        launcher={"type": "torchrun", "max_restarts": 3},
        checkpoint={"dir": "ckpt"},
    )
    go = cluster.scratch / f"go-{loss}"
    whole = f"world.size == 3 and state.epoch >= {LOST_AT}"
    hold(job.with_name("train.py"), f"{whole} and not Path({str(go)!r}).exists()")
    shorten_farewell(job.parent)
    run = submit(cluster, job)
    until(lambda: len(epochs(run)) >= LOST_AT, run.story, pause=0.5)
    nodes = {int(rank): node.decode() for rank, _, node in WORLD.findall(everything(run))}
    assert len(nodes) == 3, run.story()
    head = cluster.job(run.job)["BatchHost"]
    victim = next(node for node in sorted(nodes.values(), reverse=True) if node != head)
    if loss == "link":
        cluster.cut(victim)
    else:
        lose(cluster, victim, run)
    go.touch()
    try:
        code = run.wait()
    finally:
        if loss == "link":
            cluster.restore(victim)
    assert code == 0, run.story()
    text = everything(run)
    worlds = [int(size) for _, size, _ in WORLD.findall(text)]
    assert worlds.count(3) == 3
    assert worlds.count(2) == 2
    went_on = re.search(rb"going on from epoch (\d+)", text)
    assert went_on is not None, run.story()
    assert int(went_on[1]) == LOST_AT + 1
    assert sorted(set(epochs(run))) == list(range(1, 10)), "no epoch is lost"


def shorten_farewell(folder: Path) -> None:
    """Let a template of the job's own wait three seconds for the step of a finished program."""
    text = (REPOSITORY / "templates/slurm/_finish.j2").read_text()
    assert "within 30 &&" in text
    templates = folder / "templates" / "slurm"
    templates.mkdir(parents=True)
    (templates / "_finish.j2").write_text(text.replace("within 30 &&", "within 3 &&"))


def lose(cluster: Cluster, node: str, run: Run) -> None:
    """Kill what looks after the job on a node, and all that it looked after."""
    assert cluster.kill_slurmstepd(node, run.job)
    for process in cluster.processes_with_env(run.token):
        if process.host == node:
            # one may end with its parent
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def everything(run: Run) -> bytes:
    """What all ranks printed."""
    return b"".join(run.ranks().values())


def epochs(run: Run) -> list[int]:
    """The epochs that some rank 0 has ended, in order."""
    return [int(n) for n in re.findall(rb"^epoch +(\d+)", everything(run), re.MULTILINE)]

"""Plans made of a few words, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.model.plan import Plan
from jobgen.resolve import resolve

JOB = "name: demo\nnodes: 2\ntime: 2h\nrun: train.py\n"
GPUS = """\
name: big
scheduler: slurm
paths: {root: /scratch/jobgen}
nodes: {count: 8, gpus_per_node: 8, gpu: A100-SXM4-80GB, cpus: 128, mem: 1TiB}
network: {fabric: infiniband}
"""
CPUS = """\
name: cpus
scheduler: slurm
paths: {root: /scratch/jobgen}
nodes: {count: 8, cpus: 64}
network: {fabric: ethernet}
"""
LOCAL = """\
name: local
scheduler: local
paths: {root: $HOME/jobgen}
nodes: {count: 4}
procs_per_node: 3
"""


def job(**keys: str) -> str:
    """job.yaml with these keys over the least ones; a key set to nothing is left out."""
    lines = dict(line.split(": ", 1) for line in JOB.splitlines())
    return "".join(f"{key}: {value}\n" for key, value in {**lines, **keys}.items() if value)


def plan(text: str = JOB, cluster: str = GPUS, *, sets: Sequence[str] = (), **facts: Any) -> Plan:
    """The plan of these texts, with these values of ``--set``."""
    return resolve(
        load_job(text, "some/where/job.yaml", sets=sets),
        load_cluster(cluster, "/etc/profiles/c.yaml"),
        Facts(**facts),
    )

"""An option of the site's that a job switches off."""

from __future__ import annotations

from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.resolve import resolve

CLUSTER = """
name: c1
scheduler: slurm
paths: {root: /s}
nodes: {count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}
network: {fabric: infiniband}
defaults: {slurm: {exclusive: true, partition: gpu}}
"""
JOB = "name: demo\nnodes: 2\ntime: 1h\nrun: train.py\n"


def test_false_takes_the_sites_flag_away() -> None:
    cluster = load_cluster(CLUSTER, "c1.yaml")
    with_flag = resolve(load_job(JOB, "job.yaml"), cluster, Facts())
    without = resolve(load_job(JOB + "slurm: {exclusive: false}\n", "job.yaml"), cluster, Facts())
    assert with_flag.directives["exclusive"].value == ""
    assert "exclusive" not in without.directives
    assert without.directives["partition"].value == "gpu"

"""A real controller accepts the job script of every public script that stands as a job file."""

from __future__ import annotations

import re

import pytest

from tests.cluster import Cluster, Options
from tests.corpus.originals import find_missing_key, read_originals, render_original
from tests.e2e.test_golden_on_slurm import directives, every, site, stripped

pytestmark = pytest.mark.cluster

SITE_OPTION = re.compile(r"^#SBATCH --(quotatype|gres=dcu|gres=gpu:1,gmem).*\n", re.MULTILINE)
"""An option of a site's plug-in, and resources that need plug-ins of their own."""
OWN_PARTITION = re.compile(r"--partition=(gpu|short) ")
"""Partitions of small nodes that the test cluster has."""
MANY_NODES = 64
"""Scripts that ask for more are few, and have a controller of their own: the time in which it
judges a script grows with the nodes of its site, whatever the script asks for."""


def read_scripts() -> dict[str, str]:
    """The job scripts, in the form that a controller without plug-ins can judge."""
    known = [original for original in read_originals().values() if not find_missing_key(original)]
    texts = {o.id: render_original(o.id)["job.sbatch"].content.decode() for o in known}
    texts = {n: OWN_PARTITION.sub(r"--partition=\g<1>2 ", text) for n, text in texts.items()}
    return {n: SITE_OPTION.sub("", stripped(text)[0]) for n, text in texts.items()}


def count_nodes(script: str) -> int:
    """The most nodes that a component of a script asks for."""
    return max(map(int, every({"": script}, "nodes", r"\d+")), default=1)


def list_conf(scripts: dict[str, str]) -> tuple[str, ...]:
    """Lines of slurm.conf for a site on which each of them could run."""
    excluded = [f"NodeName={name} State=CLOUD" for name in every(scripts, "exclude", r"[^,]+")]
    return (*site(scripts), *excluded, "MaxArraySize=20001")


@pytest.mark.parametrize("many", [False, True], ids=["few nodes", "many nodes"])
def test_slurm_accepts_every_script(many: bool) -> None:
    read = read_scripts().items()
    scripts = {name: text for name, text in read if (count_nodes(text) > MANY_NODES) == many}
    assert scripts
    refused = {}
    with Cluster.up(Options(nodes=1, conf=list_conf(scripts))) as cluster:
        for name in every(scripts, "reservation", r"[^,]+"):
            what = f"ReservationName={name} Users=tester StartTime=now Duration=10 Nodes=ALL"
            cluster.slurm("scontrol", "create", "reservation", *what.split(), "Flags=OVERLAP")
        for number, text in scripts.items():
            here = {} if "partition" in directives(text)[0] else {"SBATCH_PARTITION": "made_up"}
            words = ["sbatch", "--test-only"]
            done = cluster.run("login", words, stdin=text, check=False, env=here)
            if done.returncode or "to start at" not in done.stderr:
                refused[number] = done.stderr
    assert refused == {}

"""One folder a case: job.yaml, cluster.yaml where it is none of the shipped, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jobgen.catalog import Catalog
from jobgen.load import load_cluster, load_job
from jobgen.model.bundle import Bundle
from jobgen.model.facts import Facts
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve import resolve

HERE = Path(__file__).parent
CATALOG = Catalog((), HERE)
CASES = sorted(path.parent.name for path in HERE.glob("*/job.yaml"))


@cache
def templates() -> Mapping[str, str]:
    return CATALOG.read_templates("slurm")


@cache
def planned(case: str) -> Plan:
    """The plan of a case."""
    folder = HERE / case
    job = load_job((folder / "job.yaml").read_text(encoding="utf-8"), "job.yaml")
    own = folder / "cluster.yaml"
    file = CATALOG.find_cluster(str(own) if own.exists() else job.value.cluster or "")
    cluster = load_cluster(file.text, file.path.name, parent=file.parent)
    config = job.value.launcher.config
    texts = {config: (folder / Path(config).name).read_bytes()} if config else {}
    return resolve(job, cluster, Facts(texts=texts))


@cache
def rendered(case: str) -> Bundle:
    """The files of a case."""
    return render(planned(case), templates())

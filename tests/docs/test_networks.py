"""The page on networks holds the table of the shipped profiles, and its variant is one.

``pytest tests/docs/test_networks.py --golden-update`` writes the table anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.catalog import Catalog, ClusterFile
from jobgen.fabric import FABRICS
from jobgen.load import load_cluster, load_job
from jobgen.model.cluster import ClusterProfile
from jobgen.model.facts import Facts
from jobgen.model.loaded import Loaded
from jobgen.model.plan import Plan
from jobgen.resolve import resolve

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "networks.md"
PROFILES = re.compile(r"(?<=<!-- profiles -->\n).*?(?=<!-- end -->)", re.DOTALL)
USUAL = {
    *(
        "JOBGEN_CHECKPOINT_DIR",
        "JOBGEN_GPU_CPUS",
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "PYTHONFAULTHANDLER",
    ),
    *("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
}
MOST = 9
CATALOG = Catalog((), Path())


def loaded(file: ClusterFile) -> Loaded[ClusterProfile]:
    return load_cluster(file.text, file.label, parent=file.parent)


def planned(cluster: Loaded[ClusterProfile]) -> Plan:
    nodes = min(2, cluster.value.nodes.count)
    return resolve(
        load_job(f"name: j\nnodes: {nodes}\ntime: 1h\nrun: train.py\n", "job.yaml"),
        cluster,
        Facts(),
    )


def table() -> Iterator[str]:
    yield "| profile | each node | network | variables on two nodes |"
    yield "|---|---|---|---|"
    for file in CATALOG.list_clusters():
        cluster = loaded(file)
        nodes, network = cluster.value.nodes, cluster.value.network
        if not nodes.gpus_per_node:
            continue
        cards = f", {network.nics} x {network.nic_gbps} Gb/s" if network.nics else ""
        names = [f"`{name}`" for name in planned(cluster).env if name not in USUAL]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        said = ", ".join(names[:MOST]) + more
        link = f"[`{file.name}`]({cluster.value.docs})"
        yield f"| {link} | {nodes.gpus_per_node} x {nodes.gpu} | {network.fabric}{cards} | {said} |"


def test_the_table_of_profiles_is_current(pytestconfig: pytest.Config) -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = "\n" + "\n".join(table()) + "\n\n"
    if pytestconfig.getoption("--golden-update"):
        page = PROFILES.sub(lambda _: made, page)
        PAGE.write_text(page, encoding="utf-8")
    assert PROFILES.search(page)
    assert PROFILES.findall(page) == [made]


def test_every_network_stands_in_its_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) == {*FABRICS}


def test_the_variant_on_the_page_renders_the_lines_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(name: ours.*?)```", page, re.DOTALL)
    parent = CATALOG.find_parent(Path("ours.yaml"), text)
    plan = planned(load_cluster(text, "ours.yaml", parent=parent))
    setting = plan.env["NCCL_IB_QPS_PER_CONNECTION"]
    comment, export = (f"# {setting.why} ({setting.place})", "NCCL_IB_QPS_PER_CONNECTION=4")
    assert f"```bash\n{comment}\nexport {export}\n```" in page
    assert plan.env["NCCL_SOCKET_IFNAME"].value == "=bond0"


def test_the_releases_on_the_page_are_releases() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(versions:.*?)```", page, re.DOTALL)
    file = CATALOG.find_cluster("aws-p5")
    plan = planned(load_cluster(file.text + text, file.label, parent=file.parent))
    assert plan.env["FI_PROVIDER"].value == "efa"

"""What CONTRIBUTING shows works as it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jobgen.fabric import site
from jobgen.launch import Request
from jobgen.load import load_cluster
from jobgen.model.cluster import ClusterProfile
from jobgen.model.plan import Part, Setting, Shape
from jobgen.model.settings import Launcher

ROOT = Path(__file__).resolve().parents[2]


def shown(name: str) -> str:
    """The block that CONTRIBUTING shows for this."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```\n", page, re.DOTALL)
    assert found, name
    return found[1]


def run(name: str, known: dict[str, Any]) -> dict[str, Any]:
    code = compile(shown(name), "CONTRIBUTING.md", "exec")
    exec(code, known)  # noqa: S102 - our own page
    return known


def test_the_launcher_starts_every_rank_through_rank_sh() -> None:
    shape = Shape(2, 8, 8, 96, 1, 3600)
    made = run("launcher", {})["launch"](Request(Launcher(), shape, '"$SLURMD_NODENAME"'))
    assert made.node.scope == "node"
    assert "--world_size=16" in made.node.text
    assert made.node.text.endswith(
        'bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"'
    )


def test_the_profile_is_valid() -> None:
    profile = load_cluster(shown("cluster"), "lumen.yaml").value
    assert (profile.nodes.count, profile.network.fabric) == (16, "infiniband")


def test_the_network_says_why() -> None:
    keys: dict[str, Any] = {"name": "c", "scheduler": "slurm", "paths": {"root": "/r"}}
    keys |= {"nodes": {"count": 2}, "network": {"fabric": "none", "socket_ifname": "hsn0"}}
    cluster = ClusterProfile.read(keys)
    here = site.Site(cluster.network, cluster.nodes, cluster.versions, lambda *path: "here")
    known = {"Site": site.Site, "sockets": site.sockets, "Part": Part, "Setting": Setting}
    made = run("network", known)["weave"](here).env
    assert set(made) == {"NCCL_NET", "NCCL_SOCKET_IFNAME"}
    assert all(setting.why and setting.place for setting in made.values())

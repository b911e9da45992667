"""Rules of a cluster's profile beyond its form."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.load.tree import Tree, format_scalar
from jobgen.model.network import FABRICS
from jobgen.model.units import Release, UnitError, clip

_GPUS = ("nodes", "gpus_per_node")


def check(tree: Tree) -> None:
    """Say what is wrong with a profile as a whole."""
    _nodes(tree)
    _gpu_cpus(tree)
    _network(tree)
    _requests(tree)
    _releases(tree)
    _place(tree)
    _name(tree)


def _nodes(tree: Tree) -> None:
    nodes = tree.get_table("nodes")
    gpus = None if tree.is_refused(_GPUS) else nodes.get("gpus_per_node", 0)
    if isinstance(gpus, int) and gpus == 0 and "gpu" in nodes:
        message = "nodes.gpu is set, but nodes.gpus_per_node is 0"
        paths = [("nodes", "gpu"), ("nodes", "gpus_per_node")]
        present = [p for p in paths if p[1] in nodes]
        tree.contradict(message, present, "set gpus_per_node: 8, or remove gpu")
    if isinstance(gpus, int) and gpus > 0 and "gpu" not in nodes:
        message = "nodes.gpu is missing, but the nodes have GPUs"
        place = tree.find_place(("nodes",), of_key=True)
        tree.say(
            "J116",
            message,
            ("nodes", "gpu"),
            "use a name from the GPU catalogue: jobgen schema cluster",
            place=place,
        )
    most, count = tree.get("limits", "nodes"), nodes.get("count")
    if isinstance(most, int) and isinstance(count, int) and most > count:
        message = f"limits.nodes is {most}, but the cluster has {count}"
        tree.contradict(message, [("nodes", "count"), ("limits", "nodes")], f"set at most {count}")


def _gpu_cpus(tree: Tree) -> None:
    lists = tree.get("nodes", "gpu_cpus")
    if lists is None or tree.is_refused(_GPUS):
        return
    count, gpus = (
        len(lists) if isinstance(lists, list) else 1,
        tree.get_text("nodes", "gpus_per_node"),
    )
    if str(count) != (gpus or "0"):
        message = f"nodes.gpu_cpus has {count} entries for {gpus or 0} GPUs"
        tree.say("J186", message, ("nodes", "gpu_cpus"), "write one CPU list per GPU")


def _network(tree: Tree) -> None:
    fabric = format_scalar(tree.get("network", "fabric") or "") or tree.get_text("network")
    fabric = {"ib": "infiniband"}.get(fabric, fabric)
    count = tree.get("nodes", "count")
    local = tree.get_text("scheduler") == "local"
    if not fabric and isinstance(count, int) and count > 1 and not local:
        message = "network.fabric is missing, but the cluster has several nodes"
        hint = f"use one of {', '.join(FABRICS)}"
        place = tree.find_place(("network",), of_key=True)
        tree.say("J116", message, ("network", "fabric"), hint, place=place)
    for name, fabrics in _FACTS.items():
        known = bool(fabric) and not tree.is_refused(("network", "fabric"))
        if known and name in tree.get_table("network") and fabric not in fabrics:
            message = f"network.{name} is for {' and '.join(fabrics)}, but the network is {fabric}"
            tree.contradict(message, [("network", "fabric"), ("network", name)], "remove it")


_FACTS = {
    "ib_hca": ("infiniband", "roce"),
    "gid_index": ("roce",),
    "traffic_class": ("roce",),
    "fifo_traffic_class": ("roce",),
    "addr_range": ("roce",),
    "data_ifname": ("tcpx", "tcpxo"),
}


def _releases(tree: Tree) -> None:
    """Releases that are too old for the machine, as its makers say."""
    versions = tree.get_table("versions")
    if not versions:
        return
    for program, least, needs in _least(tree):
        installed = _release(format_scalar(versions.get(program, "")))
        if installed is not None and installed < Release.parse(least):
            message = f"versions.{program} {installed} is too old: {needs}"
            tree.note("J185", message, ("versions", program), f"needs {least} or later")


def _least(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Program, the least release, and what needs it."""
    if tree.get("nodes", "nvlink_nodes") is not None:
        yield "nccl", "2.21", "multi-node NVLink was added in NCCL 2.21"
    if tree.get_text("network", "fabric") == "efa" and _architecture(tree) in {
        "Hopper",
        "Blackwell",
    }:
        for program, least in _P5.items():
            needs = "EFA of p5 and later instances (aws/aws-ofi-nccl, doc/efa-env-var.md)"
            yield program, least, f"{needs} needs {least}"


def _architecture(tree: Tree) -> str:
    from jobgen.data import gpus

    word = tree.get_text("nodes", "gpu")
    return next((g.architecture for g in gpus().values() if word in (g.name, *g.aliases)), "")


def _release(text: str) -> Release | None:
    try:
        return Release.parse(text)
    except UnitError:
        return None


_P5 = {"cuda": "12.0", "nccl": "2.18", "ofi_nccl": "1.7.2"}


def _requests(tree: Tree) -> None:
    typed = tree.get_text("gpu_request") == "gres-typed"
    if typed and "gpu_type" not in tree.data:
        message = "gpu_request: gres-typed needs gpu_type"
        place = tree.find_place(("gpu_request",), of_key=True)
        tree.say("J116", message, ("gpu_type",), "for example gpu_type: a100", place=place)


def _place(tree: Tree) -> None:
    if tree.get_text("scheduler") == "local" and "ssh" in tree.data:
        message = "ssh has no effect with scheduler: local, which uses this machine"
        tree.contradict(message, [("scheduler",), ("ssh",)], "remove it")


def _name(tree: Tree) -> None:
    """``-c`` finds a profile by its file's name, and everything later calls it by ``name``."""
    called, name = tree.called, tree.get_text("name")
    if called and name and name != called:
        file = clip(tree.label.rpartition("/")[2])
        message = f"name is {clip(name)}, but the file is {file}: -c expects {clip(called)}"
        hint = f"set name: {clip(called)}, or rename the file to {clip(name)}.yaml"
        tree.say("J174", message, ("name",), hint)

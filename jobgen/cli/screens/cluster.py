"""The answers of ``cluster show`` and ``cluster trust``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold_rows
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.model.units import format_size
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.catalog import ClusterFile
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded


def draw_replaced(file: ClusterFile) -> str:
    """Which profiles of the same name this one replaces; empty if it replaces none."""
    from jobgen.catalog import SHIPPED

    hidden = file.shadows
    names = ["the shipped profile" if h.origin == SHIPPED else defuse(h.label) for h in hidden]
    return f"replaces {' and '.join(names)}" if names else ""


def screen(file: ClusterFile, profile: Loaded[ClusterProfile], ink: Ink, *, whole: bool) -> str:
    """What the profile describes; ``whole`` adds its file and those that it extends."""
    cluster = profile.value
    rows = [(key, defuse(value), str(profile.cite(*path))) for key, value, path in _facts(cluster)]
    head = f"{ink('strong', defuse(cluster.name))}  {defuse(file.origin)}: {defuse(file.label)}"
    head = ", ".join(filter(None, [head, draw_replaced(file)]))
    text = f"{head}\n{fold_rows(rows, ink.width)}"
    if whole:
        return text + "".join(f"\n{_draw_file(*item, ink)}" for item in file.texts.items())
    name = defuse(file.name) if file.origin != "file" else defuse(file.label)
    commands = [
        ("its file", f"jobgen cluster show {name} -v"),
        ("copy it", f"jobgen cluster show {name} -q > mine.yaml"),
        ("check it", f"jobgen doctor -c {name}"),
    ]
    return f"{text}\n{align(commands, indent='  ')}"


def _draw_file(label: str, text: str, ink: Ink) -> str:
    lines = "".join(f"  {defuse(line)}".rstrip() + "\n" for line in split_lines(text))
    return f"{ink('strong', defuse(label))}\n{lines}"


def _facts(cluster: ClusterProfile) -> list[tuple[str, str, tuple[str, ...]]]:
    """Key, value and path in the file, of what the profile states."""
    nodes, ssh = cluster.nodes, cluster.ssh
    gpu = nodes.gpu or "GPU"
    gpus = f"{nodes.gpus_per_node} {TIMES} {gpu}" if nodes.gpus_per_node else "none"
    user = f"{ssh.user}@" if ssh and ssh.user else ""
    login = f"ssh {user}{ssh.host}" if ssh else "this machine"
    partition = cluster.defaults.slurm.get("partition") or ""
    memory = format_size(nodes.mem) if nodes.mem else ""
    time = cluster.limits.time.human() if cluster.limits.time else ""
    facts: list[tuple[str, object, tuple[str, ...]]] = [
        ("scheduler", cluster.scheduler, ("scheduler",)),
        ("login", login, ("ssh",)),
        ("nodes", nodes.count, ("nodes", "count")),
        ("GPUs per node", gpus, ("nodes", "gpus_per_node")),
        ("CPUs per node", nodes.cpus or "", ("nodes", "cpus")),
        ("memory per node", memory, ("nodes", "mem")),
        ("network", describe_network(cluster), ("network",)),
        ("partition", partition, ("defaults", "slurm", "partition")),
        ("run directories", cluster.paths.root, ("paths", "root")),
        ("time limit", time, ("limits",)),
        ("docs", cluster.docs or "", ("docs",)),
    ]
    return [(key, str(value), path) for key, value, path in facts if value]


def describe_network(cluster: ClusterProfile) -> str:
    """``infiniband, 8 x 400 Gb/s``: the fabric, and the NICs of a node."""
    network = cluster.network
    nics = f"{network.nics} {TIMES} " if network.nics else ""
    speed = f"{network.nic_gbps:g} Gb/s" if network.nic_gbps else ""
    if nics and not speed:
        return f"{network.fabric}, {count(network.nics or 0, 'NIC')}"
    return f"{network.fabric}, {nics}{speed}" if speed else str(network.fabric)


def data(file: ClusterFile, profile: Loaded[ClusterProfile]) -> dict[str, Any]:
    """The profile as plain data."""
    return {
        "name": profile.value.name,
        "origin": file.origin,
        "file": file.label,
        "shadows": [hidden.label for hidden in file.shadows],
        "digest": f"sha256:{profile.digest}",
        "text": file.text,
    }


def draw_trusted(file: ClusterFile, login: str, ink: Ink) -> str:
    """The login that is trusted from now on."""
    if not file.of_project:
        return f"{defuse(file.label)} needs no trust: only profiles of a project do.\n"
    return f"Trusted {ink('strong', defuse(login))} of {defuse(file.label)}\n"


def dump_trusted(file: ClusterFile, login: str) -> dict[str, Any]:
    """A trusted login and its profile as plain data."""
    return {"name": file.name, "file": file.label, "login": login, "asked": file.of_project}

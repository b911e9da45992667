"""The answers of ``cluster ls`` and ``cluster show``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import count, described, table
from jobgen.cli.output import TIMES, Ink, safe
from jobgen.shell import split_lines

if TYPE_CHECKING:
    from jobgen.catalog import ClusterFile
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded


def table_of(files: Sequence[ClusterFile], ink: Ink) -> str:
    """A row a profile: its name, where it comes from, what it shadows."""
    if not files:
        return "No cluster profiles were found.\n"
    rows = [("CLUSTER", "FROM", "FILE")]
    rows += [(safe(f.name), safe(f.origin), safe(f.label) + _shadow(f)) for f in files]
    head, _, rest = table(rows).partition("\n")
    return ink("faint", head) + "\n" + rest


def _shadow(file: ClusterFile) -> str:
    names = ", ".join(safe(hidden.label) for hidden in file.shadows)
    return f"  (instead of {names})" if names else ""


def _labels(file: ClusterFile) -> list[str]:
    return [hidden.label for hidden in file.shadows]


def listed(files: Sequence[ClusterFile]) -> list[dict[str, Any]]:
    """The profiles of ``cluster ls`` as plain data."""
    return [
        {"name": f.name, "origin": f.origin, "file": f.label, "shadows": _labels(f)} for f in files
    ]


def screen(file: ClusterFile, profile: Loaded[ClusterProfile], ink: Ink) -> str:
    """What the profile comes to, its file as it stands, and those that it extends."""
    cluster = profile.value
    rows = [(key, safe(value), str(profile.why(*path))) for key, value, path in _facts(cluster)]
    head = f"{ink('strong', safe(cluster.name))}  {safe(file.origin)}: {safe(file.label)}"
    body = "".join(
        f"\n{ink('strong', 'File' if label == file.label else safe(label))}\n{_indented(text)}"
        for label, text in file.texts.items()
    )
    return f"{head}{_shadow(file)}\n{described(rows, ink.width)}{body}"


def _indented(text: str) -> str:
    return "".join(f"  {safe(line)}".rstrip() + "\n" for line in split_lines(text))


def _facts(cluster: ClusterProfile) -> list[tuple[str, str, tuple[str, ...]]]:
    """Key, value in words, path in the file; only what the profile says."""
    nodes, network, ssh = cluster.nodes, cluster.network, cluster.ssh
    each = f"{nodes.gpus_per_node} {nodes.gpu or 'GPU'}" if nodes.gpus_per_node else "no GPUs"
    user = f"{ssh.user}@" if ssh and ssh.user else ""
    login = f"{user}{ssh.host}" if ssh else "this machine"
    cards = f", {count(network.nics, 'card')}" if network.nics else ""
    speed = f" of {network.nic_gbps} Gbit/s" if network.nics and network.nic_gbps else ""
    facts: list[tuple[str, object, tuple[str, ...]]] = [
        ("scheduler", cluster.scheduler, ("scheduler",)),
        ("login", login, ("ssh",)),
        ("nodes", f"{count(nodes.count, 'node')} {TIMES} {each}", ("nodes",)),
        ("network", f"{network.fabric}{cards}{speed}", ("network",)),
        ("root", cluster.paths.root, ("paths", "root")),
        ("time limit", cluster.limits.time.human() if cluster.limits.time else "", ("limits",)),
        ("docs", cluster.docs or "", ("docs",)),
    ]
    return [(key, str(value), path) for key, value, path in facts if value]


def data(file: ClusterFile, profile: Loaded[ClusterProfile]) -> dict[str, Any]:
    """The profile as plain data."""
    return {
        "name": profile.value.name,
        "origin": file.origin,
        "file": file.label,
        "shadows": _labels(file),
        "digest": f"sha256:{profile.digest}",
        "text": file.text,
    }


def trusted(file: ClusterFile, login: str, ink: Ink) -> str:
    """What is trusted from now on."""
    if not file.of_project:
        return f"{safe(file.label)} is {safe(file.origin)}: nothing had to be trusted.\n"
    return f"Trusted: {ink('strong', safe(login))}, from {safe(file.label)}\n"


def trusted_data(file: ClusterFile, login: str) -> dict[str, Any]:
    """A trusted login and its profile as plain data."""
    return {"name": file.name, "file": file.label, "login": login, "asked": file.of_project}

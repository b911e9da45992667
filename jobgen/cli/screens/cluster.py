"""The answers of ``cluster ls`` and ``cluster show``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, count, fold_rows
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.shell import split_lines

if TYPE_CHECKING:
    from jobgen.catalog import ClusterFile
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded


def draw_table(files: Sequence[ClusterFile], ink: Ink) -> str:
    """A row a profile: its name, where it comes from, what it shadows."""
    if not files:
        return "No cluster profiles were found.\n"
    rows = [("CLUSTER", "FROM", "FILE")]
    rows += [(defuse(f.name), defuse(f.origin), defuse(f.label) + _shadow(f)) for f in files]
    head, _, rest = align(rows).partition("\n")
    return ink("faint", head) + "\n" + rest


def _shadow(file: ClusterFile) -> str:
    names = ", ".join(defuse(hidden.label) for hidden in file.shadows)
    return f"  (instead of {names})" if names else ""


def _labels(file: ClusterFile) -> list[str]:
    return [hidden.label for hidden in file.shadows]


def dump_files(files: Sequence[ClusterFile]) -> list[dict[str, Any]]:
    """The profiles of ``cluster ls`` as plain data."""
    return [
        {"name": f.name, "origin": f.origin, "file": f.label, "shadows": _labels(f)} for f in files
    ]


def screen(file: ClusterFile, profile: Loaded[ClusterProfile], ink: Ink) -> str:
    """What the profile comes to, its file as it stands, and those that it extends."""
    cluster = profile.value
    rows = [(key, defuse(value), str(profile.cite(*path))) for key, value, path in _facts(cluster)]
    head = f"{ink('strong', defuse(cluster.name))}  {defuse(file.origin)}: {defuse(file.label)}"
    body = "".join(
        f"\n{ink('strong', 'File' if label == file.label else defuse(label))}\n{_indented(text)}"
        for label, text in file.texts.items()
    )
    return f"{head}{_shadow(file)}\n{fold_rows(rows, ink.width)}{body}"


def _indented(text: str) -> str:
    return "".join(f"  {defuse(line)}".rstrip() + "\n" for line in split_lines(text))


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


def draw_trusted(file: ClusterFile, login: str, ink: Ink) -> str:
    """What is trusted from now on."""
    if not file.of_project:
        return f"{defuse(file.label)} is {defuse(file.origin)}: nothing had to be trusted.\n"
    return f"Trusted: {ink('strong', defuse(login))}, from {defuse(file.label)}\n"


def dump_trusted(file: ClusterFile, login: str) -> dict[str, Any]:
    """A trusted login and its profile as plain data."""
    return {"name": file.name, "file": file.label, "login": login, "asked": file.of_project}

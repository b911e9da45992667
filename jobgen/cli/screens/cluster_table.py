"""The answer of ``cluster ls``: your profiles, and a summary or a table of the shipped ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, clip, fold, measure
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.cli.screens.cluster import describe_network, draw_replaced
from jobgen.shell import quote_path, split_lines

if TYPE_CHECKING:
    from jobgen.app.clusters import ListedProfile
    from jobgen.data.machines import Group

HEADS = ("CLUSTER", "NODES", "GPUS/NODE", "MEMORY", "NETWORK")
TITLES: dict[Group, str] = {
    "yours": "Yours",
    "project": "This project",
    "this machine": "This machine, with simulated nodes",
    "cloud": "Cloud",
    "on-premises": "On-premises",
}
_OWN = ("yours", "project", "this machine")
_FEW = 8
"""Profiles of one's own that are listed where not all are asked for."""

Row = tuple[str, str, str, str, str]


def draw_summary(profiles: Sequence[ListedProfile], ink: Ink, *, clipped: bool, folder: str) -> str:
    """Your profiles and the project's in a table; how many of each kind are shipped. ``folder`` is
    that of your own."""
    own = [each for each in profiles if each.group in _OWN]
    # this machine stands last and always has room
    listed = own if len(own) <= _FEW else [*own[: _FEW - 1], own[-1]]
    parts = [draw_all(listed, ink, clipped=clipped)]
    if len(listed) < len(own):
        parts.append(f"{len(own) - len(listed)} more: jobgen cluster ls --all\n")
    shipped = [each for each in profiles if each.group not in _OWN]
    if shipped:
        parts.append(_draw_counts(shipped, ink))
    commands = [
        ("find one", "jobgen cluster ls h100"),
        ("list all", "jobgen cluster ls --all"),
        ("add yours", "jobgen cluster add NAME --from HOST"),
    ]
    where = f"Write one by hand: NAME.yaml in clusters/ beside the job, or in {defuse(folder)}/"
    commands_text = align(commands, indent="  ") + f"  {fold(where, ink.width - 2, '  ')}\n"
    return "\n".join([*parts, commands_text])


def _draw_counts(shipped: Sequence[ListedProfile], ink: Ink) -> str:
    """``AWS (7), Azure (6)``: shipped profiles by provider, in a line a group."""
    rows = []
    for group in dict.fromkeys(each.group for each in shipped):
        names = Counter(each.provider for each in shipped if each.group == group)
        rows.append((TITLES[group], [f"{name} ({number})" for name, number in names.items()]))
    first = max(len(title) for title, _ in rows)
    below = " " * (first + 4)
    lines = [
        f"  {title:<{first}}  {_fold_items(items, ink.width - len(below), below)}\n"
        for title, items in rows
    ]
    head = f"{len(shipped)} profiles ship with jobgen, to use, copy or extend"
    return f"{ink('strong', head)}\n{''.join(lines)}"


def _fold_items(items: Sequence[str], width: int, indent: str) -> str:
    """Items with commas on lines of a width; none is broken."""
    text = fold(", ".join(item.replace(" ", "\0") for item in items), width, indent)
    return text.replace("\0", " ")


def draw_all(profiles: Sequence[ListedProfile], ink: Ink, *, clipped: bool) -> str:
    """A table of all these profiles, in groups. On a terminal its last column is cut to fit."""
    rows: list[Row] = [HEADS, *map(_row, profiles)]
    if clipped:
        left = sum(max(map(measure, column)) + 2 for column in list(zip(*rows, strict=True))[:-1])
        rows = [(*row[:-1], clip(row[-1], max(ink.width - left - 2, 1))) for row in rows]
    head, *lines = split_lines(align(rows, indent="  "))
    parts = [f"{ink('faint', head)}\n"]
    group = ""
    for line, listed in zip(lines, profiles, strict=True):
        if listed.group != group:
            group = listed.group
            parts.append(f"{ink('strong', TITLES[listed.group])}\n")
        parts.append(f"{line}\n{_draw_origin(listed, ink)}")
    return "".join(parts)


def _draw_origin(listed: ListedProfile, ink: Ink) -> str:
    if listed.group not in ("yours", "project"):
        return ""
    replaced = draw_replaced(listed.file)
    text = f"{defuse(listed.file.label)}{f', {replaced}' if replaced else ''}"
    command = f"jobgen lint {defuse(quote_path(listed.file.label))}"
    broken = "" if listed.cluster else f"; show its errors: {command}"
    return f"    {ink('faint', fold(text + broken, ink.width - 4, '    '))}\n"


def _row(listed: ListedProfile) -> Row:
    name, cluster = defuse(listed.file.name), listed.cluster
    if cluster is None:
        return (name, "?", "?", "?", "has errors")
    nodes = cluster.nodes
    model, memory = _split_memory(nodes.gpu or "GPU")
    gpus = f"{nodes.gpus_per_node} {TIMES} {defuse(model)}" if nodes.gpus_per_node else "none"
    network = "-" if cluster.network.fabric == "none" else describe_network(cluster)
    return (name, str(nodes.count), gpus, memory if nodes.gpus_per_node else "-", network)


def _split_memory(gpu: str) -> tuple[str, str]:
    """``A100-SXM4-80GB`` → its model, and ``80 GB``."""
    model, dash, last = gpu.rpartition("-")
    size = last.removesuffix("GB")
    return (model, f"{size} GB") if dash and size != last and size.isdigit() else (gpu, "-")


def dump_profiles(profiles: Sequence[ListedProfile]) -> list[dict[str, Any]]:
    """The profiles as plain data, by name."""
    return [_dump(each) for each in sorted(profiles, key=lambda each: each.file.name)]


def _dump(listed: ListedProfile) -> dict[str, Any]:
    file, cluster = listed.file, listed.cluster
    data: dict[str, Any] = {
        "name": file.name,
        "origin": file.origin,
        "file": file.label,
        "shadows": [hidden.label for hidden in file.shadows],
        "group": listed.group,
        "provider": listed.provider or None,
    }
    if cluster is None:
        return data
    return data | {
        "nodes": cluster.nodes.count,
        "gpus_per_node": cluster.nodes.gpus_per_node,
        "gpu": cluster.nodes.gpu,
        "mem": cluster.nodes.mem,
        "fabric": cluster.network.fabric,
        "nics": cluster.network.nics,
        "nic_gbps": cluster.network.nic_gbps,
    }

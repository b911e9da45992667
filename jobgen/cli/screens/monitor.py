"""What ``show`` says of the GPUs and nodes of a job that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold, format_size, format_span
from jobgen.cli.output import Ink, defuse
from jobgen.model.units import Walltime
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.monitor_reports import Watched
    from jobgen.monitor.findings import Remark
    from jobgen.monitor.summary import GpuSummary, NodeSummary

MOST = 16
"""Nodes that have a row; those with a remark come first."""
_GPUS = ("NODE", "GPUS", "UTIL", "P10", "PEAK MEMORY", "TEMP", "POWER", "CLOCK HELD BY")
_NODES = ("NODE", "LOAD", "CPU", "PEAK MEMORY", "NET IN/OUT", "RDMA IN/OUT")
_EACH = ("NODE", "GPU", "UTIL", "MEMORY", "TEMP", "POWER", "CLOCK", "HELD BY")


def draw_section(watched: Watched, now: float, ink: Ink, *, gpus: bool) -> str:
    """The monitor's part of the screen; with ``gpus`` a row a GPU, as it was last seen."""
    rate = f"every {Walltime(watched.every)}"
    if watched.overall is None:
        return f"{ink('strong', 'Monitor')}  {rate}: {defuse(watched.unread)}\n{_said(watched)}"
    over = f"{rate}, over {format_span(watched.overall.seconds)}"
    shown = _shown(watched)
    parts = []
    if watched.overall.gpus:
        title = f"{count(watched.overall.gpus, 'GPU')} on {count(len(watched.nodes), 'node')}"
        rows = [_GPUS, *map(_gpus, shown)]
        parts.append(f"{ink('strong', 'GPUs')}  {title}, {over}\n{align(rows, indent='  ')}")
    rows = [_NODES, *map(_node, shown)]
    rest = len(watched.nodes) - len(shown)
    more = f"  and {rest} more; --json has all\n" if rest else ""
    about = "" if watched.overall.gpus else f"  {over}"
    parts.append(f"{ink('strong', 'Nodes')}{about}\n{align(rows, indent='  ')}{more}")
    if gpus:
        parts.append(_live(watched.nodes, now, ink))
    parts.append(_remarks(watched.remarks, ink) + _said(watched))
    return "\n".join(part for part in parts if part)


def _shown(watched: Watched) -> list[NodeSummary]:
    told = {remark.node for remark in watched.remarks}
    first = sorted(watched.nodes, key=lambda node: node.name not in told)[:MOST]
    chosen = {node.name for node in first}
    return [node for node in watched.nodes if node.name in chosen]


def _gpus(node: NodeSummary) -> tuple[str, ...]:
    gpus = node.gpus
    fullest = max(gpus, key=lambda gpu: gpu.memory or 0.0, default=None)
    return (
        defuse(node.name),
        str(len(gpus)),
        _number(node.util, "%"),
        _number(_least(gpu.p10 for gpu in gpus), "%"),
        _of(fullest.memory, fullest.memory_total) if fullest else "-",
        _number(_most(gpu.temperature for gpu in gpus), " C"),
        _watts(gpus),
        _held(gpus),
    )


def _node(node: NodeSummary) -> tuple[str, ...]:
    return (
        defuse(node.name),
        "-" if node.load is None else f"{node.load:.1f}",
        _number(node.cpu, "%"),
        _of(node.memory, node.memory_total),
        _rates(node.received, node.sent),
        _rates(node.rdma_received, node.rdma_sent),
    )


def _live(nodes: Sequence[NodeSummary], now: float, ink: Ink) -> str:
    """The newest sample of every GPU."""
    rows, newest = [], 0.0
    for node in nodes:
        for gpu in node.gpus:
            seen = gpu.now
            if seen is None:
                continue
            newest = max(newest, seen.time)
            rows.append(
                (
                    defuse(node.name),
                    str(gpu.number),
                    _number(seen.util, "%"),
                    _of(seen.memory, gpu.memory_total),
                    _number(seen.temperature, " C"),
                    _number(seen.power, " W"),
                    _number(seen.clock, " MHz"),
                    ", ".join(_words(seen.reasons)) or "-",
                )
            )
    if not rows:
        return ""
    old = format_span(max(now - newest, 0.0))
    return f"{ink('strong', 'Now')}  {old} ago\n{align([_EACH, *rows], indent='  ')}"


def _remarks(remarks: Sequence[Remark], ink: Ink) -> str:
    lines = []
    for remark in remarks[: 2 * MOST]:
        text = f"{defuse(remark.node)}{_indices(remark.gpus)}: {remark.text}"
        lines.append(f"  {ink('warning', '[warn]')} {fold(text, ink.width - 9, ' ' * 9)}\n")
    rest = len(remarks) - len(lines)
    return "".join(lines) + (f"  and {rest} more; --json has all\n" if rest else "")


def _said(watched: Watched) -> str:
    return "".join(f"  {defuse(line)}\n" for line in watched.complaints)


def _indices(gpus: Sequence[int]) -> str:
    """`` GPU 3``, `` GPUs 0-7``, `` GPUs 0, 2``; nothing for a whole node."""
    if not gpus:
        return ""
    straight = len(gpus) > 2 and gpus[-1] - gpus[0] == len(gpus) - 1
    listed = f"{gpus[0]}-{gpus[-1]}" if straight else ", ".join(map(str, gpus))
    return f" GPU{'s' if len(gpus) > 1 else ''} {listed}"


def _held(gpus: Sequence[GpuSummary]) -> str:
    """The reasons, each with the largest share that it had on any GPU."""
    shares: dict[str, float] = {}
    for gpu in gpus:
        for reason, share in gpu.held.items():
            shares[reason] = max(share, shares.get(reason, 0.0))
    told = sorted(shares.items(), key=lambda item: -item[1])
    words = [f"{word} {100 * share:.0f}%" for key, share in told for word in _words([key])]
    return ", ".join(words) or "-"


def _words(reasons: Iterable[str]) -> list[str]:
    from jobgen.monitor.findings import REASONS

    return [REASONS[reason] for reason in reasons if reason in REASONS]


def _watts(gpus: Sequence[GpuSummary]) -> str:
    from jobgen.monitor.summary import compute_mean

    power, limit = compute_mean(gpu.power for gpu in gpus), _most(gpu.limit for gpu in gpus)
    if power is None:
        return "-"
    return f"{power:.0f} W" if limit is None else f"{power:.0f}/{limit:.0f} W"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _of(part: float | None, whole: float | None) -> str:
    if part is None:
        return "-"
    return format_size(part) if whole is None else f"{format_size(part)} of {format_size(whole)}"


def _rates(received: float | None, sent: float | None) -> str:
    if received is None or sent is None:
        return "-"
    return f"{format_size(received)}/s, {format_size(sent)}/s"


def _most(values: Iterable[float | None]) -> float | None:
    return _chosen(max, values)


def _least(values: Iterable[float | None]) -> float | None:
    return _chosen(min, values)


def _chosen(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def data(watched: Watched) -> dict[str, Any]:
    """What the monitors of a run saw, as plain data: every node, every GPU."""
    return {
        "every": watched.every,
        "overall": watched.overall and watched.overall._asdict(),
        "nodes": [
            {
                **node._asdict(),
                "gpus": [
                    {**gpu._asdict(), "now": gpu.now and gpu.now._asdict()} for gpu in node.gpus
                ],
            }
            for node in watched.nodes
        ],
        "remarks": [remark._asdict() for remark in watched.remarks],
        "complaints": list(watched.complaints),
        "unread": watched.unread or None,
    }

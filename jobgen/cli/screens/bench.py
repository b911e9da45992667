"""The answers of ``bench allreduce``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.bench.nccl import read_paths
from jobgen.bench.node_pairs import FEWEST
from jobgen.cli.layout import align, fold, format_size, measure, pad
from jobgen.cli.output import TIMES, Ink, defuse

if TYPE_CHECKING:
    from jobgen.app.benching.allreduce import Judged
    from jobgen.bench.nccl import Table
    from jobgen.bench.node_pairs import NodePairs
    from jobgen.bench.results import Point
    from jobgen.bench.verdict import BenchVerdict

NAMES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
}
STYLES = {"good": "good", "bad": "error", "open": "warning"}
_HEADS = ("SIZE", "TIME", "ALGBW", "BUSBW", "SPREAD", "LIMIT")
_GIGA = 1e9


def screen(judged: Judged, ink: Ink, before: Mapping[str, Any] | None = None) -> str:
    """Tables, what they mean, and what to do. ``before`` is the data of a former answer."""
    parts = [_head(judged, ink)]
    for op, verdict in judged.verdicts:
        parts.append(f"{ink('strong', NAMES[op])}\n{_points(judged, op, before, ink)}")
        parts.append(_verdict(verdict, ink))
    parts += [_nodes(judged.nodes, ink)] if judged.nodes else []
    parts += [_tests(judged.tests, ink)] if judged.tests else []
    parts += [_line(f"not measured: {op}: {why}", ink) for op, why in judged.bench.skipped]
    if not judged.bench.ended:
        parts.append(_line(f"incomplete: the run is {judged.record.state}", ink))
    return "\n".join(parts)


def _head(judged: Judged, ink: Ink) -> str:
    bench = judged.bench
    nodes = max(len(bench.hosts), 1)
    each = bench.ranks // nodes
    version = ", ".join(f"{name} {value}" for name, value in bench.versions)
    said = f"{nodes} {TIMES} {each} ranks, {bench.backend} on {bench.device}, {version}, float32"
    lines = [f"{ink('strong', defuse(judged.record.alias))}  {defuse(said)}"]
    if judged.limit:
        known = judged.limit
        lines.append(f"  limit {known.rate / _GIGA:.4g} GB/s: {defuse(known.why)}")
    network = read_paths(bench.network_lines).network
    lines += [f"  NCCL uses {defuse(network)}"] if network else []
    if judged.fit and judged.top:
        begin = f"{format_seconds(judged.fit.alpha)} to start"
        lines.append(
            f"  an all-reduce takes {begin}, plus its size at {judged.fit.rate / _GIGA:.3g} GB/s"
        )
    return "\n".join(fold(line, ink.width, "    ") for line in lines) + "\n"


def _points(judged: Judged, op: str, before: Mapping[str, Any] | None, ink: Ink) -> str:
    points = judged.bench.select(op)
    limit = judged.limit.rate if judged.limit else 0.0
    old = read_former(before, op)
    heads = list(_HEADS if limit else _HEADS[:-1])
    heads += ["BEFORE"] if old else []
    rows = [heads, *(_row(point, limit, old, changed=bool(old)) for point in points)]
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    most = max(limit, *(point.bus for point in points))
    room = min(ink.width - sum(widths) - 2 * len(widths) - 1, 40)
    lines = [ink("faint", "  ".join(map(pad, rows[0], widths)).rstrip())]
    for point, row in zip(points, rows[1:], strict=True):
        cells = [*map(pad, row, widths), draw_curve(point.bus, limit, most, room)]
        lines.append("  ".join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _row(point: Point, limit: float, old: Mapping[int, float], *, changed: bool) -> list[str]:
    cells = [
        format_size(point.bytes),
        format_seconds(point.median),
        f"{point.algorithm / _GIGA:.4g}",
        f"{point.bus / _GIGA:.4g}",
        f"{point.spread:.0%}",
    ]
    cells += [f"{point.bus / limit:.0%}"] if limit else []
    if changed:
        was = old.get(point.bytes)
        cells.append(f"{point.bus / was - 1:+.0%}" if was else "-")
    return cells


def draw_curve(rate: float, limit: float, most: float, width: int) -> str:
    """``█████░░|``: cells of the rate, then up to the limit; without one, only the cells."""
    if width < 8 or most <= 0:
        return ""
    done = min(round(rate / most * (width - 1)), width - 1)
    if not limit:
        return "█" * done
    end = min(round(limit / most * (width - 1)), width - 1)
    return ("█" * done)[:end] + "░" * (end - done) + "|" + "█" * (done - end)


def _verdict(verdict: BenchVerdict, ink: Ink) -> str:
    word = ink(STYLES[verdict.mark], "Verdict")
    lines = [f"{word}  {fold(defuse(verdict.text), ink.width - 9, ' ' * 9)}"]
    if verdict.next:
        lines.append(f"Next     {fold(defuse(verdict.next), ink.width - 9, ' ' * 9)}")
    return "\n".join(lines) + "\n"


def _nodes(nodes: Sequence[NodePairs], ink: Ink) -> str:
    """Each node by its pairs, the slow ones first."""
    rows = [("NODE", "MEDIAN", "BEST", "OF OTHERS", "")]
    for node in nodes:
        share = f"{node.share:.0%}" if node.others_median else "-"
        word = "slow" if node.slow else ""
        rows.append((defuse(node.name), _rate(node.median), _rate(node.best), share, word))
    slow = [defuse(node.name) for node in nodes if node.slow]
    said = "no node is slower than the others"
    if slow:
        exclude = f"slurm: {{exclude: {slow[0]}}}"
        said = f"slow: {', '.join(slow)}. Exclude it ({exclude}) and report it to the site"
    elif len(nodes) < FEWEST:
        said = "two nodes cannot show which one is slow: use --nodes 3 or more"
    text = align(rows, indent="  ")
    mark = ink("error" if slow else "good", "Nodes")
    verdict = fold(said, ink.width - 9, " " * 9)
    return f"{ink('strong', 'Pairs of nodes')}  GB/s of bus bandwidth\n{text}{mark}    {verdict}\n"


def _tests(found: Table, ink: Ink) -> str:
    """nccl-tests' own numbers, on the GPUs of the first node."""
    rows = [("SIZE", "TIME", "ALGBW", "BUSBW")]
    rows += [
        (format_size(r.bytes), format_seconds(r.seconds), _rate(r.algorithm), _rate(r.bus))
        for r in found.rows
    ]
    failed = "  reports wrong results\n" if found.failed else ""
    title = f"{ink('strong', 'nccl-tests')}  all_reduce_perf, {found.ranks} GPUs of the first node"
    return f"{title}\n{align(rows, indent='  ')}{failed}"


def _line(text: str, ink: Ink) -> str:
    return fold(defuse(text), ink.width, "  ") + "\n"


def _rate(rate: float) -> str:
    return f"{rate / _GIGA:.4g}"


def format_seconds(value: float) -> str:
    """``12.3 µs``, ``4.56 ms``, ``1.2 s``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def read_former(before: Mapping[str, Any] | None, op: str) -> dict[int, float]:
    """Bytes → bus bandwidth of a former answer; what is not understood is passed over."""
    points = (before or {}).get("points")
    found = {}
    for point in points if isinstance(points, list) else []:
        told = point if isinstance(point, dict) else {}
        size, rate = told.get("bytes"), told.get("busbw_bytes_s")
        if told.get("op") != op or not isinstance(size, int):
            continue
        if isinstance(rate, (int, float)) and rate is not True and 0 < rate < 1e18:
            found[size] = float(rate)
    return found


def data(judged: Judged) -> dict[str, Any]:
    """A judged bench as plain data, with units in the names."""
    from jobgen.cli.screens.job_data import dump_job

    bench = judged.bench
    top = judged.top
    return {
        "job": dump_job(judged.record),
        "nodes": list(bench.hosts),
        "ranks": bench.ranks,
        "backend": bench.backend,
        "device": bench.device,
        "versions": dict(bench.versions),
        "network": read_paths(bench.network_lines).network or None,
        "limit": _limit(judged),
        "points": [_point(point) for point in bench.points],
        "verdicts": [
            {"op": op, "mark": v.mark, "text": v.text, "next": v.next} for op, v in judged.verdicts
        ],
        "busbw_bytes_s": top and top.bus,
        "alpha_s": judged.fit and judged.fit.alpha,
        "pairs": [
            {"a": p.a, "b": p.b, **_point(p.point)}
            for p in sorted(bench.pairs, key=lambda p: p[:2])
        ],
        "slow_nodes": [node.name for node in judged.nodes if node.slow],
        "nccl_tests": _rows(judged.tests),
        "skipped": [{"what": op, "why": why} for op, why in bench.skipped],
        "complete": bench.ended,
    }


def _limit(judged: Judged) -> dict[str, Any] | None:
    known = judged.limit
    if known is None:
        return None
    return {
        "busbw_bytes_s": known.rate,
        "expected_bytes_s": known.expected or None,
        "why": known.why,
        "source": known.source,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "op": point.op,
        "bytes": point.bytes,
        "time_us": point.median * 1e6,
        "p10_us": point.p10 * 1e6,
        "p90_us": point.p90 * 1e6,
        "repeats": point.repeats,
        "algbw_bytes_s": point.algorithm,
        "busbw_bytes_s": point.bus,
    }


def _rows(found: Table | None) -> list[dict[str, Any]]:
    rows: Iterable[Any] = found.rows if found else ()
    return [{"bytes": r.bytes, "time_us": r.seconds * 1e6, "busbw_bytes_s": r.bus} for r in rows]

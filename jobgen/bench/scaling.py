"""One program on more and more nodes: what it gave, and what held it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from jobgen.named_tuple import NamedTuple

Cause = Literal["none", "data", "communication", "throttling", "other", "unknown"]

UNITS = {"tokens": ("tokens_per_second", "tokens_per_step")} | {
    "samples": ("samples_per_second", "samples_per_step"),
}
"""What throughput is counted in → the keys of a report that say it."""
WELL = 0.9
"""Of the ideal: what is above scales."""
_LEAST = 1e-9
"""Seconds: no step is shorter."""
SHARE = 0.1
"""Of a step: less than that holds nothing back."""


class ScalingRun(NamedTuple):
    """One size: what the program reported of itself."""

    nodes: int
    ranks: int
    alias: str
    state: str
    report: Mapping[str, float]
    throttled: float = 0.0
    """Part of the looks of the GPU monitor at which a clock was held down."""


class ScalingRow(NamedTuple):
    """One size beside the smallest. Rates are units for each second of all ranks."""

    run: ScalingRun
    rate: float
    """0 where the program reported nothing."""
    low: float
    """At the slow tenth of the steps; the rate itself where steps were not told."""
    high: float
    ideal: float
    cause: Cause
    text: str
    """Bottlenecks, in words."""
    next: str = ""

    @property
    def efficiency(self) -> float:
        """Of the ideal; 0 where it is not known."""
        return self.rate / self.ideal if self.ideal else 0.0


class Scaling(NamedTuple):
    """All sizes."""

    unit: str
    """tokens or samples; empty where no run reported any."""
    kind: Literal["weak", "strong", ""]
    """Whether what all ranks did in a step grew with them, as reported."""
    rows: tuple[ScalingRow, ...]

    @property
    def within(self) -> bool:
        """Whether sizes differ by their ranks on equally many nodes."""
        runs = [row.run for row in self.rows]
        return len({run.nodes for run in runs}) < len({run.ranks for run in runs})


def compute_scaling(runs: Sequence[ScalingRun]) -> Scaling:
    """The rows, by number of ranks. The ideal is the smallest size that reported, multiplied."""
    ordered = sorted(runs, key=lambda run: (run.ranks, run.nodes))
    unit = _unit(ordered)
    known = [run for run in ordered if unit and compute_rate(run, unit) > 0]
    base = known[0] if known else None
    rows = tuple(_row(run, unit, base) for run in ordered)
    return Scaling(unit, _kind(known), rows)


def compute_rate(run: ScalingRun, unit: str) -> float:
    """Units for each second; 0 where the report has none."""
    second, step = UNITS[unit]
    if run.report.get(second, 0.0) > 0:
        return run.report[second]
    seconds = run.report.get("step_s", 0.0)
    return max(run.report.get(step, 0.0), 0.0) / seconds if seconds > _LEAST else 0.0


def _unit(runs: Sequence[ScalingRun]) -> str:
    """What most of the runs have reported; tokens before samples."""
    told = {unit: sum(compute_rate(run, unit) > 0 for run in runs) for unit in UNITS}
    best = max(told, key=lambda unit: told[unit])
    return best if told[best] else ""


def _kind(known: Sequence[ScalingRun]) -> Literal["weak", "strong", ""]:
    steps = [
        run.report.get("samples_per_step") or run.report.get("tokens_per_step") for run in known
    ]
    first, last = (steps[0], steps[-1]) if len(steps) > 1 else (None, None)
    if not first or not last:
        return ""
    return "strong" if last < 1.01 * first else "weak"


def _row(run: ScalingRun, unit: str, base: ScalingRun | None) -> ScalingRow:
    found = compute_rate(run, unit) if unit else 0.0
    ideal = compute_rate(base, unit) / base.ranks * run.ranks if base else 0.0
    step = run.report.get("step_s", 0.0)
    slow, fast = run.report.get("step_p90_s", step), run.report.get("step_p10_s", step)
    low = found * (step / slow) if slow >= step > 0 else found
    high = found * (step / fast) if step >= fast > _LEAST else found
    row = ScalingRow(run, found, low, high, ideal, "unknown", "")
    cause, text, step_next = _judged(row, base)
    return row._replace(cause=cause, text=text, next=step_next)


def _judged(row: ScalingRow, base: ScalingRun | None) -> tuple[Cause, str, str]:
    """What takes most of a step, where it takes enough time to matter."""
    run = row.run
    if not row.rate:
        text = (
            "the program reported nothing"
            if run.state == "COMPLETED"
            else f"the run is {run.state}"
        )
        return (
            "unknown",
            text,
            "have the program write $JOBGEN_REPORT_FILE: see docs/howto/bench.md",
        )
    shares = _shares(run) | _grown(run, base)
    if run.throttled:
        shares["throttling"] = run.throttled
    large = sorted((c for c in shares if shares[c] >= SHARE), key=lambda c: -shares[c])
    if large:
        text = "; ".join(f"{shares[cause]:.0%} {_NAMED[cause][0]}" for cause in large)
        return large[0], text, _NAMED[large[0]][1].format(nodes=run.nodes, run=run.alias)
    if row.efficiency >= WELL:
        return "none", "", ""
    missing = [key for cause, key in _KEYS.items() if cause not in shares]
    if not missing:
        text = f"no reported part takes {SHARE:.0%} of a step; a few slow steps may be the cause"
        return "other", text, "run more steps, to average out slow ones"
    told = " and ".join(missing)
    return "unknown", f"unknown: the program does not report {told}", "see docs/howto/bench.md"


_KEYS: dict[Cause, str] = {"data": "data_s", "communication": "comm_s"}
_NAMED: dict[Cause, tuple[str, str]] = {
    "data": (
        "of each step is spent waiting for data",
        "add loader workers and prefetching, or move the data to a faster disk",
    ),
    "communication": (
        "of each step is exposed communication",
        "test the links: jobgen bench allreduce --nodes {nodes}",
    ),
    "throttling": (
        "of the time GPU clocks were throttled",
        "check power and cooling of the GPUs that jobgen show {run} lists",
    ),
    "other": (
        "of each step is extra compute time compared with fewer ranks",
        "look for a slow node, throttled clocks (monitor: 30s), or ranks that share cores",
    ),
}


def _shares(run: ScalingRun) -> dict[Cause, float]:
    """Parts of a step in which nothing was computed, as far as the program told them."""
    step = run.report.get("step_s", 0.0)
    if step <= _LEAST:
        return {}
    told = ((cause, run.report.get(key)) for cause, key in _KEYS.items())
    return {cause: min(max(s, 0.0) / step, 1.0) for cause, s in told if s is not None}


def _grown(run: ScalingRun, base: ScalingRun | None) -> dict[Cause, float]:
    """The part of a step by which computing itself is longer than the smallest size's for as much
    work; nothing where the program did not tell all else."""
    shares = _shares(run)
    if base is None or run.ranks <= base.ranks or set(shares) != set(_KEYS):
        return {}
    other = _shares(base)
    if set(other) != set(_KEYS):
        return {}
    step, before = run.report["step_s"], base.report["step_s"]
    work = _work(run) / _work(base) if _work(run) and _work(base) else 1.0
    ideal = before * max(1 - sum(other.values()), 0.0) * work
    return {"other": max(1 - sum(shares.values()) - ideal / step, 0.0)}


def _work(run: ScalingRun) -> float:
    """What one rank does in a step; 0 where it was not told."""
    done = run.report.get("samples_per_step") or run.report.get("tokens_per_step") or 0.0
    return done / run.ranks if run.ranks else 0.0

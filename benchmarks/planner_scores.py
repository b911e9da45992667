"""Scores of the planner on published runs: errors, coverage of its intervals, verdicts."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from planner_rows import Row

from jobgen.strategy.choice.nearest import count_divided, name_trained
from jobgen.strategy.estimate import GIB
from jobgen.strategy.memory import estimate
from jobgen.strategy.speed.step_time import compute_step

SCORED = ("A", "B")
"""Tiers of rows whose memory was measured, with a configuration that is known."""
FITTING = ("fits", "tight")
COVERED = 0.9
"""Part of the rows that lies within the interval."""
BELOW = 0.25
"""Of the others, the part that lies below it. Nobody decides by the lower end: let half of them lie
below, and it is higher, but the upper end too (1.39 instead of 1.33 of the estimate)."""


class Scored(NamedTuple):
    """A row, its estimate (GiB or seconds) with the interval, and how wrong that is, as a part."""

    row: Row
    estimate: float
    error: float
    low: float = 0.0
    high: float = 0.0

    @property
    def ratio(self) -> float:
        """What was measured, as a multiple of the estimate."""
        return 1 / (1 + self.error)

    @property
    def blind_ratio(self) -> float:
        """The same of the first estimate, where one was kept: a row that was used to mend mistakes
        says less of the next than it did before."""
        blind = self.row.blind
        return self.row.gib / blind if blind and self.row.gib else self.ratio

    @property
    def covered(self) -> bool:
        """Whether the measured value lies in the interval."""
        return self.low <= self.estimate * self.ratio <= self.high


def score_memory(rows: Iterable[Row]) -> list[Scored]:
    """The rows with measured memory, each with the estimate of the same metric."""
    scored = []
    for row in rows:
        if row.tier in SCORED and row.gib and row.setup is not None and not row.missing:
            memory = estimate(row.setup)
            size = memory.get_peak(row.metric) / GIB
            low, high = (each / GIB for each in memory.get_interval(row.metric))
            scored.append(Scored(row, size, size / row.gib - 1, low, high))
    return scored


def score_steps(rows: Iterable[Row]) -> list[Scored]:
    """The rows with a measured step of a known batch on a known network."""
    scored = []
    for row in rows:
        if row.step and row.setup and row.interconnect and row.fits and row.tier != "X":
            seconds = compute_step(row.setup, row.machine).seconds
            scored.append(Scored(row, seconds, seconds / row.step - 1))
    return scored


def score_fits(rows: Iterable[Row]) -> dict[str, Any]:
    """How often a run that died is said to fit, and a run that ran; with the share of runs that
    died among those of each verdict."""
    calls: dict[bool, list[str]] = {True: [], False: []}
    for row in rows:
        judged = row.tier != "X" and (row.gib or row.tier == "D") and not row.missing
        if row.setup is not None and judged:
            calls[row.fits].append(estimate(row.setup).judge(row.machine.memory))
    ran = [call in FITTING for call in calls[True]]
    verdicts = {}
    for verdict in (*FITTING, "no"):
        died, lived = calls[False].count(verdict), calls[True].count(verdict)
        rate = round(100 * died / (died + lived), 1) if died + lived else None
        verdicts[verdict] = {"ran": lived, "died": died, "died_pct": rate}
    return {
        "oom_rows": len(calls[False]),
        "oom_called_fits": calls[False].count("fits"),
        "oom_called_tight": calls[False].count("tight"),
        "ran_rows": len(ran),
        "ran_called_fits_rate": round(sum(ran) / len(ran), 3) if ran else None,
        "by_verdict": verdicts,
    }


def take_quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part lies, between neighbours in proportion."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(scored: Sequence[Scored]) -> dict[str, Any]:
    """Rows, the bias, the median and the ninetieth percentile of the absolute error, per cent."""
    errors = [abs(one.error) * 100 for one in scored]
    if not errors:
        return {"rows": 0, "bias_pct": None, "median_pct": None, "p90_pct": None}
    return {
        "rows": len(errors),
        "bias_pct": round(take_quantile([one.error * 100 for one in scored], 0.5), 1),
        "median_pct": round(take_quantile(errors, 0.5), 1),
        "p90_pct": round(take_quantile(errors, 0.9), 1),
    }


def measure_coverage(scored: Sequence[Scored]) -> float | None:
    """Per cent of the rows that lie in their intervals."""
    if not scored:
        return None
    return round(100 * sum(one.covered for one in scored) / len(scored), 1)


def group(scored: Iterable[Scored], key: Callable[[Row], str]) -> dict[str, list[Scored]]:
    """The rows by what ``key`` says of each, the largest group first."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for one in scored:
        groups[key(one.row)].append(one)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def by_source(scored: Iterable[Scored]) -> dict[str, Any]:
    """The summary of each source, the largest first."""
    return _summarize_groups(group(scored, lambda row: row.source))


def by_metric(scored: Iterable[Scored]) -> dict[str, Any]:
    """The summary of each metric, with its coverage."""
    return _summarize_groups(group(scored, lambda row: row.metric), covered=True)


def by_kind(scored: Sequence[Scored]) -> dict[str, Any]:
    """The summary of each kind of training. A row counts for each kind that it is of."""
    kinds = ("full", "LoRA", "QLoRA", "MoE", "one GPU", "several GPUs")
    groups = {kind: [one for one in scored if kind in one.row.kinds] for kind in kinds}
    return _summarize_groups(groups, covered=True)


def _summarize_groups(
    groups: Mapping[str, Sequence[Scored]], *, covered: bool = False
) -> dict[str, Any]:
    found = {name: summarize(members) for name, members in groups.items()}
    if covered:
        for name, members in groups.items():
            found[name]["coverage_pct"] = measure_coverage(members)
    return found


def leave_one_out(scored: Sequence[Scored]) -> dict[str, Any]:
    """Source → the summary of all others: nothing is fitted, so leaving it out does no more."""
    return {
        source: summarize([one for one in scored if one.row.source != source])
        for source in by_source(scored)
    }


def fit_interval(scored: Sequence[Scored], part: float = COVERED) -> tuple[float, float]:
    """The quantiles of measured / estimated between which this part of the rows lies. Each source
    counts the same, however many rows it has: rows of one source err together, and the next run
    is of another. Of the rest, ``BELOW`` lies below."""
    rows = Counter(one.row.source for one in scored)
    ordered = sorted((one.blind_ratio, 1 / rows[one.row.source]) for one in scored)
    weights = [weight for _, weight in ordered]
    places = [
        before - weight / 2 for before, weight in zip(accumulate(weights), weights, strict=True)
    ]
    first = BELOW * (1 - part)
    low, high = (bisect(places, len(rows) * share) for share in (first, first + part))
    return ordered[max(low - 1, 0)][0], ordered[min(high, len(ordered) - 1)][0]


def cover_left_out(scored: Sequence[Scored]) -> float | None:
    """Per cent of the rows inside of intervals whose widths come from all sources but their own;
    None if there is no other."""
    held, sources = 0, by_source(scored)
    if len(sources) < 2:
        return None
    for source in sources:
        low, high = fit_interval([one for one in scored if one.row.source != source])
        own = (one.blind_ratio for one in scored if one.row.source == source)
        held += sum(low <= ratio <= high for ratio in own)
    return round(100 * held / len(scored), 1)


def list_measured(scored: Sequence[Scored]) -> list[dict[str, str]]:
    """The rows as jobgen/data/measured_runs.csv has them, which the planner names beside its
    estimates: ``planner_accuracy.py --measured``."""
    found = []
    for one in scored:
        row, setup = one.row, one.row.setup
        assert setup is not None
        cells = {
            "model": setup.model.sizes.name,
            "params": setup.model.count,
            "strategy": setup.strategy,
            "trained": name_trained(setup),
            "gpus": setup.mesh.world,
            "shards": count_divided(setup),
            "seq": setup.seq,
            "micro": setup.batch.micro,
            "recompute": setup.recompute,
            "metric": row.metric,
            "gib": row.gib,
            "source": row.source.replace("https://github.com/", ""),
        }
        found.append({name: str(value) for name, value in cells.items()})
    return found

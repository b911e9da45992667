#!/usr/bin/env python3
"""Score the planner on published measurements: ``planner_accuracy.py --rows FILE.csv [--json]``.

For every source and in all: the median and the ninetieth percentile of the absolute error of
memory, on rows whose memory was measured and whose configuration is known (tiers A and B); whether
runs that went out of memory are ever said to fit, and how many of the others are; and the error of
the step time, where interconnect and batch are known.

No constant of the planner is fitted to these rows, so there is nothing to fit again without one
source. What a source's rows do for the score is seen from the score of all others, which is printed
beside.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from planner_rows import Row, row

from jobgen.strategy.estimate import GIB
from jobgen.strategy.memory import estimate

SCORED = ("A", "B")


class Scored(NamedTuple):
    """A row, what was said of it in GiB, and how wrong that was, as a part."""

    row: Row
    said: float
    error: float


def memory(rows: Iterable[Row]) -> list[Scored]:
    """The rows with measured memory, each with the estimate of the same metric."""
    found = []
    for one in rows:
        if one.tier in SCORED and one.gib and one.setup is not None:
            said = estimate(one.setup).get_peak(one.metric) / GIB
            found.append(Scored(one, said, said / one.gib - 1))
    return found


def steps(rows: Iterable[Row]) -> list[Scored]:
    """The rows with a measured step of a known batch on a known network."""
    from jobgen.strategy.speed.step_time import compute_step

    found = []
    for one in rows:
        if one.step and one.setup is not None and one.interconnect and one.fits and one.tier != "X":
            said = compute_step(one.setup, one.machine).seconds
            found.append(Scored(one, said, said / one.step - 1))
    return found


def fits(rows: Iterable[Row]) -> dict[str, Any]:
    """How often a run that died is said to fit, and a run that ran."""
    calls: dict[bool, list[str]] = {True: [], False: []}
    for one in rows:
        if one.setup is not None and one.tier != "X" and (one.gib or one.tier == "D"):
            calls[one.fits].append(estimate(one.setup).judge(one.machine.memory))
    ran = [call in {"fits", "tight"} for call in calls[True]]
    return {
        "oom_rows": len(calls[False]),
        "oom_called_fits": calls[False].count("fits"),
        "oom_called_tight": calls[False].count("tight"),
        "ran_rows": len(ran),
        "ran_called_fits_rate": round(sum(ran) / len(ran), 3) if ran else None,
    }


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part lies, between neighbours in proportion."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(scored: Sequence[Scored]) -> dict[str, Any]:
    """Rows, the bias, the median and the ninetieth percentile of the absolute error, per cent."""
    errors = [abs(one.error) * 100 for one in scored]
    if not errors:
        return {"rows": 0, "bias_pct": None, "median_pct": None, "p90_pct": None}
    return {
        "rows": len(errors),
        "bias_pct": round(quantile([one.error * 100 for one in scored], 0.5), 1),
        "median_pct": round(quantile(errors, 0.5), 1),
        "p90_pct": round(quantile(errors, 0.9), 1),
    }


def by_source(scored: Iterable[Scored]) -> dict[str, Any]:
    """The summary of each source, the largest first."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for one in scored:
        groups[one.row.source].append(one)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return {source: summary(group) for source, group in ordered}


def leave_one_out(scored: Sequence[Scored]) -> dict[str, Any]:
    """Source → the summary of all others: nothing is fitted, so leaving it out does no more."""
    return {
        source: summary([one for one in scored if one.row.source != source])
        for source in by_source(scored)
    }


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="every row")
    args = parser.parse_args()
    with args.rows.open(newline="", encoding="utf-8") as file:
        rows = [row(line) for line in csv.DictReader(file)]
    held = memory(rows)
    timed = steps(rows)
    found = {
        "memory": summary(held),
        "per_source": by_source(held),
        "leave_one_out": leave_one_out(held),
        "fits": fits(rows),
        "step_time": summary(timed),
        "step_time_per_source": by_source(timed),
        "not_scored": {one.id: one.missing for one in rows if one.missing},
    }
    if args.verbose:
        for one in sorted([*held, *timed], key=lambda one: one.row.source):
            _tell(one)
    print(json.dumps(found, indent=1) if args.json else _text(found))


def _tell(one: Scored) -> None:
    setup = one.row.setup
    assert setup is not None
    print(
        f"{one.row.id} {one.row.source[-40:]:40} {setup.model.sizes.name:16} {setup.strategy:6} "
        f"b{setup.batch.micro} s{setup.seq} {setup.recipe.name} {setup.recompute} "
        f"{one.said:.3g} {100 * one.error:+.0f} %"
    )


def _text(found: dict[str, Any]) -> str:
    lines = [_line("memory", found["memory"])]
    lines += [_line(f"  {source[:90]}", said) for source, said in found["per_source"].items()]
    lines.append("memory of all but one source (nothing is fitted to any):")
    lines += [
        _line(f"  without {source[:82]}", said) for source, said in found["leave_one_out"].items()
    ]
    lines += [f"fits: {found['fits']}", _line("step time", found["step_time"])]
    lines += [
        _line(f"  {source[:90]}", said) for source, said in found["step_time_per_source"].items()
    ]
    return "\n".join(lines)


def _line(name: str, said: dict[str, Any]) -> str:
    if not said["rows"]:
        return f"{name}: no rows"
    return (
        f"{name}: {said['rows']} rows, bias {said['bias_pct']:+} %, "
        f"median {said['median_pct']} %, p90 {said['p90_pct']} %"
    )


if __name__ == "__main__":
    main()

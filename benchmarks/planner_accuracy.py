#!/usr/bin/env python3
"""Score the planner on published measurements: ``planner_accuracy.py --rows FILE.csv [--json]``.

Memory is scored on rows that were measured and whose configuration is known (tiers A and B): in
all, by source, by metric and by kind of training, with the share of rows inside the planner's
interval. Then come how often a run that died is said to fit, and one that ran; and the time of a
step, where interconnect and batch are known. A row without micro-batch or optimizer is not scored,
nor is one of tier X, whose source contradicts itself. FILE may also be vTrain's table of one node.

No constant of the planner is fitted to these rows. Only the widths of its intervals come from
residuals: ``coverage_left_out_pct`` takes the widths of each source from all others.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import planner_scores as scores
from planner_rows import Row, row
from planner_vtrain import is_vtrain, read_vtrain


def read_rows(path: Path) -> list[Row]:
    """The published runs of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        if is_vtrain(lines.fieldnames or ()):
            return read_vtrain(lines)
        return [row(line) for line in lines]


def score(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that is scored, as ``--json`` prints it."""
    held, timed = scores.score_memory(rows), scores.score_steps(rows)
    return {
        "memory": {
            **scores.summarize(held),
            "by_metric": scores.by_metric(held),
            "by_kind": scores.by_kind(held),
            "per_source": scores.by_source(held),
            "leave_one_out": scores.leave_one_out(held),
        },
        "coverage_pct": scores.measure_coverage(held),
        "coverage_left_out_pct": scores.cover_left_out(held),
        "interval": [round(each, 3) for each in scores.fit_interval(held)] if held else None,
        "fits": scores.score_fits(rows),
        "step": {**scores.summarize(timed), "per_source": scores.by_source(timed)},
        "not_scored": {one.id: one.missing for one in rows if one.missing},
    }


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="every row")
    parser.add_argument("--measured", action="store_true", help="the rows for jobgen/data")
    args = parser.parse_args()
    rows = read_rows(args.rows)
    if args.measured:
        measured = scores.list_measured(scores.score_memory(rows))
        writer = csv.DictWriter(sys.stdout, measured[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(measured)
        return
    if args.verbose:
        scored = [*scores.score_memory(rows), *scores.score_steps(rows)]
        for one in sorted(scored, key=lambda one: one.row.source):
            _print_row(one)
    found = score(rows)
    print(json.dumps(found, indent=1) if args.json else _format(found))


def _print_row(one: scores.Scored) -> None:
    setup = one.row.setup
    assert setup is not None
    size = f"{one.estimate:.3g} of {one.estimate * one.ratio:.3g}"
    inside = "" if one.covered or not one.high else ", outside of the interval"
    print(
        f"{one.row.id} {one.row.source[-40:]:40} {setup.model.sizes.name:16} {setup.strategy:6} "
        f"b{setup.batch.micro} s{setup.seq} {setup.recipe.name} {setup.recompute} {one.row.metric} "
        f"{size} {100 * one.error:+.0f} %{inside}"
    )


def _format(found: dict[str, Any]) -> str:
    memory, fits, step = found["memory"], found["fits"], found["step"]
    lines = [_line("memory", memory)]
    for part in ("by_metric", "by_kind", "per_source"):
        lines += [_line(f"  {name[:90]}", each) for name, each in memory[part].items()]
    lines.append("memory of all but one source (nothing is fitted to any):")
    lines += [
        _line(f"  without {name[:82]}", each) for name, each in memory["leave_one_out"].items()
    ]
    lines.append(
        f"coverage: {found['coverage_pct']} %; with each source left out "
        f"{found['coverage_left_out_pct']} %; measured / estimated: {found['interval']}"
    )
    lines.append(
        f"fits: {fits['oom_called_fits']} of {fits['oom_rows']} that died are said to fit, and "
        f"{fits['ran_called_fits_rate']} of {fits['ran_rows']} that ran; {fits['by_verdict']}"
    )
    lines.append(_line("step time", step))
    lines += [_line(f"  {name[:90]}", each) for name, each in step["per_source"].items()]
    return "\n".join(lines)


def _line(name: str, part: dict[str, Any]) -> str:
    if not part["rows"]:
        return f"{name}: no rows"
    covered = f", coverage {part['coverage_pct']} %" if "coverage_pct" in part else ""
    return (
        f"{name}: {part['rows']} rows, bias {part['bias_pct']:+} %, "
        f"median {part['median_pct']} %, p90 {part['p90_pct']} %{covered}"
    )


if __name__ == "__main__":
    main()

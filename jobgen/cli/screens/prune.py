"""The answers of ``prune``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, format_size, format_span
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count, join_words

if TYPE_CHECKING:
    from jobgen.app.pruning import HeldRun, Inventory, Part, Pruned

LISTED = 15
"""Runs that are listed; ``--json`` lists all."""
_HEAD = ("RUN", "STATE", "ENDED", "SOURCES", "LOGS", "OUTPUTS", "SCRIPTS")


def draw_inventory(found: Inventory, parts: Sequence[Part], ink: Ink, *, chosen: bool) -> str:
    """How much the runs hold, the largest of them, and what to type to remove some."""
    cluster = defuse(found.site.cluster)
    live = f"; {count(len(found.live), 'live run')} not touched" if found.live else ""
    if not found.held:
        other = f" ({count(found.others, 'other ended run')})" if found.others else ""
        return f"{cluster}: no run to prune{other}{live}\n"
    total = sum(run.total for run in found.held)
    freed = sum(run.measure(parts) for run in found.held)
    head = f"{cluster}: {count(len(found.held), 'ended run')} hold{_s(found)} {format_size(total)}"
    if chosen:
        head += f"; {join_words(parts, 'and')} to be removed: {format_size(freed)}"
    rows = [_HEAD, *(_list_cells(run) for run in found.held[:LISTED])]
    more = len(found.held) - LISTED
    rest = f"  {count(more, 'more run')} (--json lists all)\n" if more > 0 else ""
    text = f"{ink('strong', head)}{live}\n{align(rows, indent='  ')}{rest}"
    if chosen:
        return text
    return f"{text}Next: jobgen prune -c {cluster} --older-than 30d --dry-run\n"


def _s(found: Inventory) -> str:
    return "s" if len(found.held) == 1 else ""


def _list_cells(run: HeldRun) -> tuple[str, ...]:
    sizes = (run.sizes[part] for part in ("sources", "logs", "outputs", "scripts"))
    state = defuse(run.record.state)
    ago = f"{format_span(run.ended)} ago"
    return (defuse(run.record.alias), state, ago, *map(format_size, sizes))


def ask_removal(found: Inventory, parts: Sequence[Part]) -> str:
    """The question before anything is removed."""
    freed = format_size(sum(run.measure(parts) for run in found.held))
    of = count(len(found.held), "run")
    what = f"{join_words(parts, 'and')} of {of} ({freed}) from {defuse(found.site.cluster)}"
    lost = ", so that reproduce no longer works" if "scripts" in parts else ""
    return f"Remove {what}{lost}?"


def draw_pruned(done: Sequence[Pruned], parts: Sequence[Part]) -> str:
    """What was removed, and each run of which something is left."""
    removed = [each.held for each in done if each.outcome == "removed"]
    freed = format_size(sum(run.measure(parts) for run in removed))
    lines = [f"removed {join_words(parts, 'and')} of {count(len(removed), 'run')}: {freed}"]
    why = {"live": "not touched: it is live", "missing": "its directory is not there"}
    for each in done:
        if each.outcome != "removed":
            text = why.get(each.outcome) or f"cannot be removed: {defuse(each.text)}"
            lines.append(f"{defuse(each.held.record.alias)}: {text}")
    kept = sum(run.sizes["outputs"] for run in removed) if "outputs" not in parts else 0
    if kept:
        lines.append(f"outputs kept: {format_size(kept)} (--outputs removes them)")
    return "".join(f"{line}\n" for line in lines)


def dump_inventory(found: Inventory, parts: Sequence[Part]) -> dict[str, Any]:
    """What the runs hold, as plain data; sizes in bytes."""
    return {
        "cluster": found.site.cluster,
        "parts": list(parts),
        "runs": [_dump(run, parts) for run in found.held],
        "live": [record.alias for record in found.live],
    }


def dump_pruned(done: Sequence[Pruned], parts: Sequence[Part]) -> dict[str, Any]:
    """What became of each run, as plain data; sizes in bytes."""
    runs = [
        {**_dump(each.held, parts), "outcome": each.outcome, "text": each.text} for each in done
    ]
    return {"parts": list(parts), "runs": runs}


def _dump(run: HeldRun, parts: Sequence[Part]) -> dict[str, Any]:
    return {
        "id": run.record.alias,
        "state": str(run.record.state),
        "ended_seconds_ago": round(run.ended),
        "bytes": dict(run.sizes),
        "removable_bytes": run.measure(parts),
    }

"""What the monitors of a run saw, asked of the cluster, or remembered of a run that has ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple
from jobgen.submission import scripts, wire

if TYPE_CHECKING:
    from jobgen.ledger import Ledger
    from jobgen.model.record import RunRecord
    from jobgen.model.record_data import Submission
    from jobgen.monitor.findings import Overall, Remark
    from jobgen.monitor.summary import NodeSummary
    from jobgen.transport import Transport

ASKED = "monitor"
"""Where the shape of a run keeps the seconds between two samples."""
DEADLINE = 60.0
"""Seconds in which the files of the largest job are summed up."""
_REMEMBERED = 64 << 10
"""Bytes of a summary that are kept for a run that has ended; larger ones are asked for again."""


class Watched(NamedTuple):
    """What the monitors of one run saw."""

    every: int
    """Seconds between two samples, as the job asked."""
    nodes: tuple[NodeSummary, ...] = ()
    overall: Overall | None = None
    remarks: tuple[Remark, ...] = ()
    complaints: tuple[str, ...] = ()
    """What a monitor said that it could not look at."""
    unread: str = ""
    """Why there is nothing."""


def get_period(record: RunRecord) -> int:
    """Seconds between two samples; 0 where the job has no monitor."""
    asked = record.shape.get(ASKED)
    return asked if isinstance(asked, int) and asked > 0 else 0


def is_settled(record: RunRecord) -> bool:
    """Whether nothing new is to be had: no monitor, or it has ended and its summary is here."""
    return not get_period(record) or not record.directory or (record.ended and bool(_kept(record)))


def recall(record: RunRecord) -> Watched | None:
    """What the ledger knows; None where the job has no monitor or nothing is known."""
    kept = _kept(record)
    return _watched(record, kept) if get_period(record) and kept else None


def read_monitors(transport: Transport, ledger: Ledger, record: RunRecord) -> Watched:
    """What the monitors have seen up to now. Raises Unreachable.

    A run that has ended is asked once, and remembered.
    """
    result = transport.call(scripts.sum_up_monitors(record.directory), deadline=DEADLINE)
    try:
        found = wire.split_frames(result.out)
    except wire.GarbledError:
        return Watched(get_period(record), unread="the answer of the other side could not be read")
    told = {key: [text for word, text in found if word == key] for key, _ in found}
    if "summed" not in told and "missing" not in told:
        return Watched(get_period(record), unread="the answer of the other side was cut")
    if record.ended and not {"unread", "missing"} & told.keys() and len(result.out) <= _REMEMBERED:
        kept: dict[str, list[str]] = {
            key: told[key] for key in ("monitor", "complaints") if key in told
        }
        submission: Submission = {**record.submission, "monitor": kept or {"monitor": []}}
        ledger.update(record.token, submission=submission)
    return _watched(record, told)


_OWN = re.compile(r"^jobgen: ([\w.-]{1,64}): (.{1,200})$", re.MULTILINE)
_SRUN = re.compile(r"^(srun: .{1,200})$", re.MULTILINE)


def _complaints(said: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Each complaint once, with the nodes that made it."""
    nodes: dict[str, list[str]] = {}
    for node, text in said:
        nodes.setdefault(text, []).append(node)
    found = []
    for text, who in nodes.items():
        more = f" and {len(who) - 3} more" if len(who) > 3 else ""
        found.append(f"{', '.join(who[:3])}{more}: {text}")
    return tuple(found[:8])


def _kept(record: RunRecord) -> dict[str, list[str]]:
    kept = record.submission.get("monitor")
    return kept if isinstance(kept, dict) else {}


def _unread(told: dict[str, list[str]]) -> str:
    """Why there is nothing to tell."""
    gone = ["its run directory is gone"] if "missing" in told else []
    return "; ".join([*told.get("unread", []), *gone]) or "no sample was written"


def _watched(record: RunRecord, told: dict[str, list[str]]) -> Watched:
    from jobgen.monitor.findings import list_remarks, summarize_job
    from jobgen.monitor.summary import summarize_nodes

    found = summarize_nodes(told.get("monitor", []))
    said = "\n".join(told.get("complaints", []))
    complaints = _complaints(_OWN.findall(said))
    if not found:
        complaints = (*complaints, *_SRUN.findall(said)[:3])
        return Watched(get_period(record), complaints=complaints, unread=_unread(told))
    return Watched(get_period(record), found, summarize_job(found), list_remarks(found), complaints)

"""Ranks that called another collective than the rest, by PyTorch's fingerprints of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.model.cause import CauseKind, Doubt, FailureCause

_CALL = re.compile(
    r"[Rr]ank (?P<rank>\d+) is running (?:inconsistent )?collective: "
    r"CollectiveFingerPrint\((?:SequenceNumber=\d+, ?)?(?P<call>[^)]*)\)"
)

_TIMED_OUT = re.compile(r"\[Rank (?P<rank>\d+)\] .*WorkNCCL\(OpType=(?P<call>\w+)")
"""PyTorch before 2.0: without a number of the collective, and without names of groups."""
_PAIRED = frozenset({"SEND", "RECV", "COALESCED"})
"""Calls of two ranks."""


def find_mixed_calls(cause: FailureCause, streams: Iterable[ProcessLog]) -> FailureCause:
    """A timeout in which one rank waited in another collective than all others: a mismatch."""
    if cause.kind != CauseKind.COLLECTIVE_TIMEOUT:
        return cause
    odd = _find_odd_wait(streams)
    if odd is None:
        return cause
    says = f"rank {odd} waited in another collective than the others"
    return cause._replace(
        kind="collective_mismatch", rank=odd, node="", code=None, signal=0, says=says,
        doubt=Doubt.NONE, other="", alike=0, all_ranks=False,
    )  # fmt: skip


def _find_odd_wait(streams: Iterable[ProcessLog]) -> int | None:
    """The one rank whose first timeout is in another collective than that of all others."""
    calls: dict[int, str] = {}
    for stream in streams:
        for line in stream.lines:
            if "WorkNCCL(OpType" in line.text and (match := _TIMED_OUT.search(line.text)):
                calls.setdefault(int(match["rank"]), match["call"])
    counts = Counter(calls.values())
    odd = [rank for rank, call in calls.items() if counts[call] == 1]
    clear = len(odd) == 1 and len(counts) == 2 and len(calls) > 2 and not _PAIRED & counts.keys()
    return odd[0] if clear else None


def add_odd_rank(cause: FailureCause, streams: Iterable[ProcessLog]) -> FailureCause:
    """The cause with the one rank whose call differs from that of all others; else with none."""
    calls: dict[int, str] = {}
    for stream in streams:
        for line in stream.lines:
            for match in _CALL.finditer(line.text):
                calls.setdefault(int(match["rank"]), match["call"])
    counts = Counter(calls.values())
    odd = [rank for rank, call in calls.items() if counts[call] == 1]
    node = ""
    if len(odd) == 1 and len(counts) == 2 and len(calls) > 2:
        node = next((s.origin.node for s in streams if s.origin.rank == odd[0]), "")
        says = f"rank {odd[0]} called another collective than the others"
        return cause._replace(rank=odd[0], node=node, says=says, alike=0, all_ranks=False)
    if cause.rank is not None and cause.rank == _find_odd_wait(streams):
        return cause
    return cause._replace(rank=None, node="", code=None, signal=0)

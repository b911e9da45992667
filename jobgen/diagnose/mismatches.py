"""Ranks that called another collective than the rest, by PyTorch's fingerprints of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.model.cause import FailureCause

_CALL = re.compile(
    r"[Rr]ank (?P<rank>\d+) is running (?:inconsistent )?collective: "
    r"CollectiveFingerPrint\((?:SequenceNumber=\d+, ?)?(?P<call>[^)]*)\)"
)


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
    return cause._replace(rank=None, node="", code=None, signal=0)

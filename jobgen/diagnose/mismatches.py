"""Collectives that differ between ranks: which ranks differ, and in what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.model_mismatches import describe_models
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.named_tuple import NamedTuple
from jobgen.wording import name_ranks

_CALL = re.compile(
    r"[Rr]ank (?P<rank>\d+) is running (?:inconsistent )?collective: (?:CollectiveFingerPrint\()?"
    r"(?:SequenceNumber=(?P<number>\d+),? ?)?(?:OpType=)?(?P<operation>[A-Z_]+)"
    r"(?:, TensorShape=\[(?P<sizes>[^\]]*)\])?"
    r"(?:, TensorDtypes=(?P<types>[\w, ]+?)(?=, Tensor|\)))?"
)
"""PyTorch's fingerprint of a call (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
_TIMED_OUT = re.compile(
    r"\[(?:PG (?:ID \d+ )?(?P<group>.*?) )?Rank (?P<rank>\d+)\] .*WorkNCCL\("
    r"(?:SeqNum=(?P<number>\d+), )?OpType=(?P<operation>\w+)(?:, NumelIn=(?P<sizes>\d+))?"
)
"""Before PyTorch 2.0 without a number, and before 2.4 without the group."""
_UNEVEN = ("SEND", "RECV", "COALESCED", "ALLTOALL", "GATHER", "SCATTER")
"""Calls of two ranks, and those to which ranks may pass different sizes."""
_RECEIVED = re.compile(
    r"op\.preamble\.length <= op\.nbytes\. (?P<sent>\d+) vs (?P<wanted>\d+)"
    r"|peer (?P<peer>[^\s<]+).*(?:receiving (?P<got>\d+) bytes instead of (?P<room>\d+)"
    r"|local size (?P<local>\d+) remote size (?P<remote>\d+))"
)
_OPERATIONS = "Ranks called different collectives"
_SIZES = "Ranks passed different sizes to one collective"
_TYPES = "Ranks passed different types to one collective"


class CollectiveCall(NamedTuple):
    """One call of a collective by one rank; what is not known is empty."""

    operation: str
    sizes: str = ""
    types: str = ""
    number: str = ""
    """Among the collectives of its group."""

    @property
    def name(self) -> str:
        """``ALLREDUCE 36``."""
        return f"{self.operation} {self.number}".strip()


class CallDifference(NamedTuple):
    """In what the calls of ranks differ."""

    title: str
    phrase: str
    """What a rank did, with a place for its value."""
    values: Mapping[int, str]

    def find_odd(self) -> int | None:
        """The one rank whose value differs from that of all others, of three or more ranks."""
        counts = Counter(self.values.values())
        odd = [rank for rank, value in self.values.items() if counts[value] == 1]
        return odd[0] if len(odd) == 1 and len(counts) == 2 and len(self.values) > 2 else None

    def describe(self) -> str:
        """``rank 2 passed [12] to ALLREDUCE, the others [10]``."""
        odd = self.find_odd()
        groups: dict[str, list[int]] = {}
        for rank in sorted(self.values, key=lambda rank: (rank != odd, rank)):
            groups.setdefault(self.values[rank], []).append(rank)
        (value, ranks), *others = list(groups.items())[:3]
        shown = [f"{name_ranks(ranks)} {self.phrase.format(value)}"]
        for value, ranks in others:
            shown.append(f"{'the others' if odd is not None else name_ranks(ranks)} {value}")
        return ", ".join(shown)


def find_mixed_calls(cause: FailureCause, streams: Iterable[ProcessLog]) -> FailureCause:
    """A timeout in which one rank waited in another call than all others: a mismatch."""
    if cause.kind != CauseKind.COLLECTIVE_TIMEOUT:
        return cause
    for calls in _read_waits(streams).values():
        difference = _compare_waits(calls)
        odd = difference.find_odd() if difference else None
        if difference is None or odd is None:
            continue
        return cause._replace(
            kind="collective_mismatch", rank=odd, node="", code=None, signal=0,
            title=difference.title, says=difference.describe(),
            doubt=Doubt.NONE, other="", alike=0, all_ranks=False,
        )  # fmt: skip
    return cause


def _read_waits(streams: Iterable[ProcessLog]) -> Mapping[str, Mapping[int, CollectiveCall]]:
    """In which call each rank timed out first, by group."""
    groups: dict[str, dict[int, CollectiveCall]] = {}
    for stream in streams:
        for line in stream.lines:
            match = _TIMED_OUT.search(line.text) if "WorkNCCL(" in line.text else None
            if match is not None:
                group = groups.setdefault(match["group"] or "", {})
                group.setdefault(int(match["rank"]), _read_call(match))
    return groups


def _compare_waits(calls: Mapping[int, CollectiveCall]) -> CallDifference | None:
    """How calls of one number differ; None if they may differ, or have no number in common."""
    operations = {call.operation for call in calls.values()}
    numbers = {call.number for call in calls.values()}
    if len(numbers) > 1 or any(each.strip("_").startswith(_UNEVEN) for each in operations):
        return None
    if len(operations) > 1:
        names = {rank: f"in {call.name}" for rank, call in calls.items()}
        return CallDifference(_OPERATIONS, "waited {}", names)
    sizes = {rank: f"{int(call.sizes):,}" for rank, call in calls.items() if call.sizes}
    name = next(iter(calls.values())).name
    return CallDifference(_SIZES, f"passed {{}} elements to {name}", sizes)


def describe_mismatch(cause: FailureCause, streams: Sequence[ProcessLog]) -> FailureCause:
    """The cause with what differs, and with the one rank that differs from all others, if any."""
    if cause.kind != "collective_mismatch":
        return cause
    if difference := _compare_calls(_read_calls(streams)):
        odd = difference.find_odd()
        node = next((s.origin.node for s in streams if odd is not None and s.rank == odd), "")
        named = cause._replace(title=difference.title, says=difference.describe(), alike=0)
        if odd is not None:
            return named._replace(rank=odd, node=node, all_ranks=False)
        return named._replace(
            rank=None, local_rank=None, node="", code=None, signal=0, all_ranks=False
        )
    if (described := describe_models(cause, streams)) is not None:
        return described
    says = _describe_bytes(cause.text) or cause.says
    return cause._replace(
        says=says, rank=None, local_rank=None, node="", code=None, signal=0, all_ranks=False
    )


def _read_calls(streams: Iterable[ProcessLog]) -> Mapping[int, CollectiveCall]:
    """The call of each rank that a fingerprint shows; one with sizes counts before one without."""
    calls: dict[int, CollectiveCall] = {}
    for stream in streams:
        for line in stream.lines:
            for match in _CALL.finditer(line.text) if "CollectiveFingerPrint" in line.text else ():
                rank, call = int(match["rank"]), _read_call(match)
                if rank not in calls or (call.sizes and not calls[rank].sizes):
                    calls[rank] = call
    return calls


def _read_call(match: re.Match[str]) -> CollectiveCall:
    named = match.groupdict()
    return CollectiveCall(*(named.get(field) or "" for field in CollectiveCall._fields))


def _compare_calls(calls: Mapping[int, CollectiveCall]) -> CallDifference | None:
    """How the calls that fingerprints show differ; None if no fingerprint does."""
    operations = {rank: call.operation for rank, call in calls.items()}
    numbers = {rank: f"as number {call.number}" for rank, call in calls.items() if call.number}
    sizes = {rank: f"[{call.sizes}]" for rank, call in calls.items() if call.sizes}
    types = {rank: call.types for rank, call in calls.items() if call.types}
    name = next(iter(operations.values()), "")
    differences = (
        CallDifference(_OPERATIONS, "called {}", operations),
        CallDifference(_OPERATIONS, f"called {name} {{}}", numbers),
        CallDifference(_SIZES, f"passed {{}} to {name}", sizes),
        CallDifference(_TYPES, f"passed {{}} to {name}", types),
    )
    return next((each for each in differences if len(set(each.values.values())) > 1), None)


def _describe_bytes(text: str) -> str:
    """What a network plug-in or gloo reports of a message that was longer than its buffer."""
    match = _RECEIVED.search(text)
    if match is None:
        return ""
    sent = int(match["sent"] or match["got"] or match["remote"])
    wanted = int(match["wanted"] or match["room"] or match["local"])
    peer = f" from {match['peer']}" if match["peer"] else ""
    return f"a rank received {sent:,} bytes{peer} where it expected {wanted:,}"

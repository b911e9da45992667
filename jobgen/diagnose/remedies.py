"""A cause → what to do, cheapest first, in the terms of one run or of plain logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.diagnose.allocator_message import read_allocator_message
from jobgen.diagnose.failure_rules import get_cause
from jobgen.diagnose.memory_fixes import order_memory_fixes
from jobgen.diagnose.tracebacks import find_own_place
from jobgen.model.cause import CauseKind, FailureCause
from jobgen.named_tuple import NamedTuple


class Remedy(NamedTuple):
    """One thing to do."""

    text: str
    """What it does or means; empty where the command says all."""
    command: str = ""
    """The command of jobgen that does it; empty if there is none."""


_COMMAND = re.compile(r"(?:(?P<before>[^:]+): )?(?P<command>jobgen [^#]+?)(?:  # (?P<after>.+))?")
_PLAN = "jobgen plan "
_WORDS = ("RUN", "NODE", "RANK", "MISSING", "JOB", "NAME")
_IN_TEXT = ("NODE", "JOB", "FILE:LINE")
"""The words that sentences hold too."""
_UNKNOWN_PLACE = "the line of your program that is shown"


def list_remedies(
    cause: FailureCause,
    run: str = "",
    cluster: str = "",
    part: Sequence[str] = (),
    job: str = "",
) -> list[Remedy]:
    """The remedies of a cause, with the names of this run filled in.

    ``part`` are the words that select the failed step or group, which has ranks of its own.
    Of a command that needs a run, and there is none, what it is for remains.
    """
    rank = "" if cause.rank is None else str(cause.rank)
    names = {
        "RUN": run,
        "JOB": job,
        "NAME": cluster,
        "NODE": cause.node,
        "RANK": rank,
        "MISSING": rank,
        "FILE:LINE": find_own_place(cause.lines) or _UNKNOWN_PLACE,
    }
    said = _split_says(cause.says)
    remedies = [Remedy(said)] if said else []
    for fix in _list_fixes(cause):
        match = _COMMAND.fullmatch(fix)
        remedy = Remedy(fix)
        if match is not None:
            text = match["before"] or match["after"] or ""
            remedy = Remedy(text, match["command"].strip())
        filled = _fill(remedy, names)
        if filled is not None and part:
            words = " ".join([*part, "--rank"])
            filled = filled._replace(command=filled.command.replace("--rank", words))
        remedies += [filled] if filled is not None else []
    return remedies


def _list_fixes(cause: FailureCause) -> list[str]:
    """The fixes of the kind; where memory of a GPU lacked because others hold it, those for less
    memory follow."""
    fixes = list(get_cause(cause.kind).fixes)
    if cause.kind == CauseKind.GPU_MEMORY:
        return order_memory_fixes(fixes, cause)
    if cause.kind == CauseKind.GPU_OCCUPIED and read_allocator_message(cause.text):
        less = order_memory_fixes(get_cause(CauseKind.GPU_MEMORY).fixes, cause)
        # ranks that share a GPU do so on every node
        return less if cause.retry == "no" else [*fixes, *less]
    return fixes


def _split_says(says: str) -> str:
    """What to do, of a rule that says more than what is wrong."""
    return says.partition(": ")[2]


def _fill(remedy: Remedy, names: dict[str, str]) -> Remedy | None:
    """The remedy with names for its words; where one of a command is unknown, its text; None if it
    has none."""
    text, command = remedy
    if any(re.search(rf"\b{word}\b", command) and not names.get(word) for word in _WORDS):
        if command.startswith(_PLAN):  # what a plan shows, nothing else does
            return None
        return Remedy(_replace(text, _IN_TEXT, names)) if text else None
    known = [word for word in _WORDS if names.get(word)]
    return Remedy(_replace(text, _IN_TEXT, names), _replace(command, known, names))


def _replace(text: str, words: Sequence[str], names: dict[str, str]) -> str:
    pattern = rf"\b({'|'.join(words)})\b" if words else r"(?!)"
    return re.sub(pattern, lambda match: names[match[1]] or match[1], text)

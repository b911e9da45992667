"""A cause → what to do, cheapest first, in the terms of one run or of plain logs."""

from __future__ import annotations

import re

from jobgen.diagnose.failure_rules import get_cause
from jobgen.model.cause import FailureCause
from jobgen.named_tuple import NamedTuple


class Remedy(NamedTuple):
    """One thing to do."""

    text: str
    """What it does or means; empty where the command says all."""
    command: str = ""
    """The command of jobgen that does it; empty if there is none."""


_COMMAND = re.compile(r"(?:(?P<before>[^:]+): )?(?P<command>jobgen [^#]+?)(?:  # (?P<after>.+))?")
_WORDS = ("RUN", "NODE", "RANK", "MISSING", "JOB", "NAME")


def list_remedies(cause: FailureCause, run: str = "", cluster: str = "") -> list[Remedy]:
    """The remedies of a cause, with the names of this run filled in.

    Without a run, commands that need one are left out.
    """
    rank = "" if cause.rank is None else str(cause.rank)
    names = {"RUN": run, "NODE": cause.node, "RANK": rank, "MISSING": rank, "NAME": cluster}
    said = _split_says(cause.says)
    remedies = [Remedy(said)] if said else []
    for fix in get_cause(cause.kind).fixes:
        match = _COMMAND.fullmatch(fix)
        remedy = Remedy(fix)
        if match is not None:
            text = match["before"] or match["after"] or ""
            remedy = Remedy(text, match["command"].strip())
        filled = _fill(remedy, names)
        remedies += [filled] if filled is not None else []
    return remedies


def _split_says(says: str) -> str:
    """What to do, of a rule that says more than what is wrong."""
    return says.partition(": ")[2]


def _fill(remedy: Remedy, names: dict[str, str]) -> Remedy | None:
    """The remedy with names for its words; None if one of them is unknown."""
    text, command = remedy
    for word in _WORDS:
        pattern = rf"\b{word}\b"
        if re.search(pattern, command) and not names.get(word):
            return None
        if names.get(word):
            command = re.sub(pattern, names[word], command)
            text = re.sub(pattern, names[word], text) if word == "NODE" else text
    return Remedy(text, command)

"""Slurm's words as values: states, ids, durations, rows. Text is hostile; nothing raises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.model.record import JobId, JobState
from jobgen.shell import split_lines

SEPARATOR = "\x1f"
"""Between fields: names and comments may hold every printable character, ``|`` among them."""


COMMENT = re.compile(r"jobgen:([a-z2-7]{26}):(\d{1,6})(?:\.(\d{1,5}))?(?!\d)")
"""Ours in a comment: mark, attempt, and of a large sweep the number of its array."""

_STATES: dict[str, JobState] = {
    **{state.value: state for state in JobState},
    "REQUEUE_FED": JobState.REQUEUED,
    "REQUEUE_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "LAUNCH_FAILED": JobState.PENDING,
    "EXPEDITING": JobState.PENDING,
    "POWER_UP_NODE": JobState.CONFIGURING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,
}
_CODES: dict[str, str] = {
    "PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED",
    "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL",
    "DL": "DEADLINE", "OOM": "OUT_OF_MEMORY", "CG": "COMPLETING", "CF": "CONFIGURING",
    "RQ": "REQUEUED", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "SE": "SPECIAL_EXIT",
    "RS": "RESIZING", "RD": "RESV_DEL_HOLD", "SI": "SIGNALING", "SO": "STAGE_OUT",
    "ST": "STOPPED",
}  # fmt: skip
# our own words; a scheduler that says them is not believed
_OURS = ("PLANNED", "SUBMITTING", "REJECTED", "LOST", "UNKNOWN")
# 123, 123_4, 123_[5-9%2], 123+1
_ROW_ID = re.compile(r"(\d{1,18})(?:_(?:(\d{1,9})|\[[0-9,:%.-]*\]?)|\+(\d{1,6}))?")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,253}", re.ASCII)
_PRINTED = re.compile(r"\d{1,18}(?:;[A-Za-z0-9_.-]+)?")
_DURATION = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2})(?:\.\d+)?")


def parse_state(word: str) -> JobState:
    """``RUNNING``, ``R``, ``CANCELLED by 1000``, ``CANCELLED+``; UNKNOWN for what is not known."""
    first = word.split(maxsplit=1)[0] if word.split() else ""
    name = first.rstrip("+").upper()
    name = _CODES.get(name, name)
    if name in _OURS:
        return JobState.UNKNOWN
    return _STATES.get(name, JobState.UNKNOWN)


def parse_job_id(text: str) -> JobId | None:
    """The id of a row; the pending rest of an array (``123_[5-9]``) is the array itself."""
    match = _ROW_ID.fullmatch(text.strip())
    if match is None or not text.isascii():
        return None
    task, component = (int(number) if number else None for number in match.group(2, 3))
    return JobId(int(match[1]), task, component)


def parse_printed_id(out: str) -> JobId | None:
    """What ``sbatch --parsable`` printed: the last line that is an id and nothing else."""
    for line in reversed(split_lines(out)):
        if line.isascii() and _PRINTED.fullmatch(line.strip()):
            return JobId.parse(line.strip())
    return None


def split_nodes(text: str) -> tuple[str, ...]:
    """The names in a node list, ``n[1-2],m``; none where one could not be a host's name."""
    from jobgen.payload.localslurm.hostlist import expand

    try:
        names = expand(text)
    except ValueError:
        return ()
    return tuple(names) if all(map(_NODE.fullmatch, names)) else ()


def parse_seconds(text: str) -> int | None:
    """``1-02:03:04``, ``02:03:04``, ``3:04`` or seconds; None for ``UNLIMITED`` and others."""
    text = text.strip()
    if not text.isascii():
        return None
    if text.isdigit():
        return int(text[:12])
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def split_rows(text: str, fields: int) -> Iterator[list[str]]:
    """Lines of at least this many fields; anything else (a banner, a warning) is passed over.

    The last field takes whatever is left, separators too: there stands the job's name.
    """
    for line in text.split("\n"):
        parts = line.rstrip("\r").split(SEPARATOR, fields - 1)
        if len(parts) == fields:
            yield parts


def clean_field(text: str) -> str:
    """A field without Slurm's words for nothing."""
    text = text.strip()
    return "" if text in ("(null)", "None", "N/A", "Unknown", "None assigned", "NONE") else text

"""Values of sbatch's options, each by its kind.

A directive is no shell text: nothing is expanded in it, and a line break in a value would be a
line of its own. So every value is checked here, before anything is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobgen.model.fields import suggest
from jobgen.model.units import Memory, UnitError, Walltime, clip

if TYPE_CHECKING:
    from jobgen.data import SbatchOption

_NAME = re.compile(r"[A-Za-z0-9_.,@:+-]+", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


class Bad(Exception):
    """A value is not of the option's kind: what was expected, and an example."""


def _count(value: str) -> str:
    if not _COUNT.fullmatch(value):
        raise Bad("expected an integer", "for example 4")
    return value


def _integer(value: str) -> str:
    if not re.fullmatch(r"[-+]?\d{1,10}", value, re.ASCII):
        raise Bad("expected an integer", "for example 100")
    return value


def _names(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise Bad("expected a name", "letters, digits, '.', '_', '-'; separate several with commas")
    return value


def _size(value: str) -> str:
    try:
        return "0" if value == "0" else Memory.parse(value).format_slurm()
    except UnitError as error:
        raise Bad(error.message, error.hint) from error


def _duration(value: str) -> str:
    try:
        return Walltime.parse(value).format_slurm()
    except UnitError as error:
        raise Bad(error.message, error.hint) from error


def _moment(value: str) -> str:
    clock = r"\d{1,2}:\d\d(:\d\d)?"
    day = r"(today|tomorrow|midnight|noon|fika|teatime|elevenses)"
    date = r"(\d{4}-\d\d-\d\d|\d\d/\d\d(/\d\d(\d\d)?)?|\d\d\d\d(\d\d)?)"
    now = r"now([+-]\d+(seconds?|minutes?|hours?|days?|weeks?)?)?"
    if not re.fullmatch(f"{now}|{day}|{clock}|{date}(T{clock})?", value, re.ASCII):
        raise Bad("expected a date or time", "for example 16:00, now+1hour or 2026-12-24T18:00")
    return value


def _switches(value: str) -> str:
    count, at, longest = value.partition("@")
    return _count(count) + (f"@{_duration(longest)}" if at else "")


def _words(*words: str) -> Callable[[str], str]:
    """One of these, in any case."""

    def check(value: str) -> str:
        if value.lower() not in {w.lower() for w in words}:
            known = f"known: {', '.join(words)}"
            raise Bad("unknown value", suggest(value, words) or known)
        return value

    return check


def _lists(*words: str) -> Callable[[str], str]:
    """Some of these, with commas between."""
    one = _words(*words)
    return lambda value: ",".join(one(v) for v in value.split(","))


_MAIL: tuple[str, ...] = (
    "NONE",
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "ALL",
    "INVALID_DEPEND",
    "STAGE_OUT",
)
_MAIL += ("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS")
_RLIMITS: tuple[str, ...] = (
    "ALL",
    "NONE",
    "AS",
    "CORE",
    "CPU",
    "DATA",
    "FSIZE",
    "MEMLOCK",
    "NOFILE",
    "NPROC",
)
_RLIMITS += ("RSS", "STACK")

# What the table says of a value → the check of it. What is not here is any safe word.
_FORMS: Mapping[str, Callable[[str], str]] = {
    "int": _count,
    "minutes": _count,
    "optional int": _integer,
    "optional count": _count,
    "size": _size,
    "0/1": _words("0", "1"),
    "optional 0/1": _words("0", "1"),
    "yes/no": _words("yes", "no"),
    "append/truncate": _words("append", "truncate"),
    "optional: off": _words("off"),
    "optional: user, mcs, topo": _words("user", "mcs", "topo"),
    "none; =expedite since 25.11": _words("expedite"),
    "compute_bound, memory_bound, [no]multithread": _words(
        "compute_bound", "memory_bound", "multithread", "nomultithread"
    ),
    "all/none/energy/task/lustre/network": _lists(
        "all", "none", "energy", "task", "filesystem", "lustre", "network"
    ),
    "BEGIN,END,FAIL,REQUEUE,ALL,TIME_LIMIT_80...": _lists(*_MAIL),
    "optional rlimit list": _lists(*_RLIMITS),
    "name": _names,
    "site account name": _names,
    "name list": _names,
    "count[@max-time]": _switches,
    "time (HH:MM, now+N, ISO)": _moment,
}
_OPTIONS: Mapping[str, Callable[[str], str]] = {
    "deadline": _moment,
    "time-min": _duration,
    "priority": lambda v: v if v == "TOP" else _count(v),
    "mail-user": lambda v: _matched(v, r"[^\s@,]+(@[^\s@,]+)?", "an address", "me@example.org"),
}


def check_value(option: SbatchOption, value: str) -> str:
    """The value as Slurm reads it. Raises Bad."""
    check = _OPTIONS.get(option.name) or _FORMS.get(option.form)
    return check(value) if check else value


def _matched(value: str, pattern: str, what: str, example: str) -> str:
    if not re.fullmatch(pattern, value):
        raise Bad(f"expected {what}", f"for example {example}")
    return value


def find_unsafe(value: str, *, free: bool = False) -> str:
    """What cannot stand in a directive, as the end of a sentence; empty where all can."""
    if "\n" in value or "\r" in value:
        return "line breaks are not allowed here"
    if not value.isprintable():
        return "invisible characters are not allowed here"
    for char, what in (("$", "'$' is not expanded"), ("`", "'`' is not expanded")):
        if char in value:
            return f"{what} in #SBATCH lines"
    if any(c in value for c in "'\"\\"):
        return "quotes and backslashes are not allowed in #SBATCH lines"
    if not free and (re.search(r"\s", value) or not value.isascii()):
        return f"'{clip(value)}' is not a single plain word"
    return "" if value else "the value is empty"

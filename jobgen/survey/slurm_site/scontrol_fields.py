"""The forms in which Slurm writes records: ``Key=Value``, ``Key = Value``, GRES and TRES."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

_KEY = re.compile(r"(?:(?<=\s)|^)([A-Z][A-Za-z_]{0,63})=")
_FREE = frozenset({"Reason", "Comment", "Extra"})
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "none", "UNLIMITED", "INFINITE"})
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_SHARED = "no_consume"
"""Stands between type and number where a job does not use the resource up: man slurm.conf, Gres."""
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
MARKS = "*~#!%$@^-"
"""What Slurm puts behind a node's state: man sinfo, NODE STATE CODES. ``DOWN*+CLOUD`` too."""


class Gres(NamedTuple):
    """Generic resources of a node: ``gpu:a100:8`` is eight of the name gpu, of type a100."""

    name: str
    type: str
    number: int


def parse_records(text: str, first: str) -> tuple[Mapping[str, str], ...]:
    """The records that begin with the key ``first``, each key → its text, as scontrol shows them.

    One line a record (``-o``) or several; other lines, such as a banner, are passed over. Free text
    (Reason, Comment) stands at the end and takes all that follows, so it cannot pass for a field.
    """
    found: list[dict[str, str]] = []
    inside = False
    for line in split_lines(text):
        if line.startswith(f"{first}="):
            found.append({})
            inside = True
        elif line and not line[0].isspace():
            inside = False
        if inside and line:
            _read(line, found[-1])
    return tuple(found)


def _read(line: str, record: dict[str, str]) -> None:
    keys: list[re.Match[str]] = []
    for key in _KEY.finditer(line):
        if key[1] in _FREE or not keys or keys[-1][1] not in _FREE:
            keys.append(key)
    ends = [key.start() for key in keys[1:]] + [len(line)]
    for key, end in zip(keys, ends, strict=False):
        record.setdefault(key[1], line[key.end() : end].strip())


def parse_settings(text: str) -> Mapping[str, str]:
    """``scontrol show config``, key → value; Slurm's own words for nothing become empty."""
    found: dict[str, str] = {}
    for line in split_lines(text):
        key, sign, value = line.partition("=")
        name = key.strip()
        if sign and re.fullmatch(r"[A-Za-z][\w.:/-]{0,63}", name):
            found.setdefault(name, read_value(value))
    return found


def read_value(text: str) -> str:
    """A field, empty where it holds one of Slurm's words for nothing or for no limit."""
    text = text.strip()
    return "" if text in _NOTHING else text


def parse_count(text: str) -> int:
    """A count, 0 where there is none; ``64+`` (there are larger ones too) is 64."""
    match = re.match(r"\s*(\d{1,15})", text, re.ASCII)
    return int(match[1]) if match else 0


def parse_memory(text: str) -> int:
    """MiB of a node; 0 where its site has not said: RealMemory is 1 then (man slurm.conf)."""
    found = parse_count(text)
    return found if found > 1 else 0


def split_list(text: str) -> tuple[str, ...]:
    """The words of a list with commas between them; none of an empty one."""
    return tuple(word for part in read_value(text).split(",") if (word := part.strip()))


def parse_gres(text: str) -> tuple[Gres, ...]:
    """``gpu:a100:8(S:0-1),shard:32`` → what it counts, in its order; a count left out is one."""
    found = []
    for item in _IN_BRACKETS.sub("", read_value(text)).split(","):
        name, *rest = item.strip().split(":")
        count = _count(rest[-1]) if rest else None
        kind = [word for word in (rest[:-1] if count is not None else rest) if word != _SHARED]
        if name and "(" not in item and len(kind) <= 1:
            found.append(Gres(name, "".join(kind), 1 if count is None else count))
    return tuple(found)


def _count(text: str) -> int | None:
    """``8``, ``2K``; None for what is no count, as the type of ``gpu:a100``."""
    match = re.fullmatch(r"(\d{1,12})([KMGTP]?)", text, re.ASCII)
    return int(match[1]) * _SIZES[match[2]] if match else None


def parse_tres(text: str) -> Mapping[str, str]:
    """``cpu=64,mem=500G,gres/gpu:a100=8`` → each resource with its amount as written."""
    pairs = (item.partition("=") for item in read_value(text).split(","))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign and name.strip()}


_CLOCK = re.compile(r"(?:(\d{1,5})-)?(\d{1,5})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)


def parse_limit(text: str) -> int | None:
    """A limit as Slurm prints it: ``7-00:00:00``, ``04:00:00``, ``30:00`` and ``30`` (minutes).

    None where there is no limit, or the text is none.
    """
    match = _CLOCK.fullmatch(read_value(text))
    if match is None:
        return None
    days, *rest = (None if part is None else int(part) for part in match.groups())
    clock = [part for part in rest if part is not None]
    if days is None and len(clock) < 3:
        clock = [0, *clock]
    hours, minutes, left = (*clock, 0, 0, 0)[:3]
    return (((days or 0) * 24 + hours) * 60 + minutes) * 60 + left


def format_limit(limit: int) -> str:
    """Seconds as ``7-00:00:00`` or ``04:00:00``, which a profile can hold as well."""
    days, rest = divmod(limit, 86_400)
    hours, rest = divmod(rest, 3600)
    text = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text

"""What an account or a QOS may use of GPUs, from ``scontrol -o show assoc_mgr``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines


class GpuLimit(NamedTuple):
    """A limit of a group, and what it uses of it."""

    most: float
    used: float

    @property
    def left(self) -> float:
        """At least 0."""
        return max(self.most - self.used, 0.0)


class Allowance(NamedTuple):
    """What one owner of limits may use."""

    owner: str
    """``account nlp``, ``ada in account nlp``, ``QOS long``."""
    hours: GpuLimit | None
    """GPU-hours: GrpTRESMins of gres/gpu. None without a limit."""
    gpus: GpuLimit | None
    """GPUs at the same time: GrpTRES of gres/gpu. None without a limit."""

    def is_short_of(self, hours: float, gpus: int) -> bool:
        """Whether a job of so many GPU-hours on so many GPUs is more than is ever left."""
        return bool(
            (self.hours and hours > self.hours.left) or (self.gpus and gpus > self.gpus.most)
        )


def parse_allowances(text: str) -> list[Allowance]:
    """The owners that have a limit on GPUs, in the order of the records."""
    found = (
        Allowance(owner, _parse_limit(record, "GrpTRESMins", 60), _parse_limit(record, "GrpTRES"))
        for record in read_records(text)
        for owner in name_owners(record)
    )
    return [allowance for allowance in found if allowance.hours or allowance.gpus]


def read_records(text: str) -> Iterator[dict[str, str]]:
    """The fields of each record."""
    return (dict(_FIELD.findall(line)) for line in split_lines(text))


_FIELD = re.compile(r"(?:^|(?<= ))([A-Za-z]+)=([^ ]*)")
_LIMIT = re.compile(r"(?:^|,)gres/gpu=(\d{1,18})\((\d{1,18})\)(?:,|$)")
_NAME = re.compile(r"([A-Za-z0-9_.@-]{1,64})(?:\(\d+\))?")


def name_owners(record: dict[str, str]) -> Iterator[str]:
    """Whose record it is; nothing where that does not stand in it."""
    if qos := _NAME.fullmatch(record.get("QOS", "")):
        yield f"QOS {qos[1]}"
    elif account := _NAME.fullmatch(record.get("Account", "")):
        user = _NAME.fullmatch(record.get("UserName", ""))
        yield f"{user[1]} in account {account[1]}" if user else f"account {account[1]}"


def _parse_limit(record: dict[str, str], field: str, units: int = 1) -> GpuLimit | None:
    found = _LIMIT.search(record.get(field, ""))
    return GpuLimit(int(found[1]) / units, int(found[2]) / units) if found else None

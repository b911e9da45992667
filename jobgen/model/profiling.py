"""Which steps of a training are traced: the mapping ``train.profile``."""

from __future__ import annotations

import re

from jobgen.model.fields import check_integer, describe_value
from jobgen.model.form import Check, Form, check_list, key, refuse
from jobgen.named_tuple import NamedTuple

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class StepRange(NamedTuple):
    """Steps of the optimizer, counted from 1, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def _read_range(value: object) -> StepRange:
    """``10-12``, or one step."""
    if isinstance(value, StepRange):
        return value
    found = _RANGE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if found is None:
        message = f"expected steps such as 10-12, got {describe_value(value)}"
        raise refuse("J123", message, "write FIRST-LAST, counted from 1")
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        raise refuse("J123", f"{first}-{last} is backwards", f"write {last}-{first}")
    if first < 2:
        message = "step 1 cannot be traced: its beginning is seen only when it has ended"
        raise refuse("J123", message, f"write 2-{max(last, 2)}")
    return StepRange(first, last)


class TracedSteps(Form):
    """Traces of some steps, made with torch.profiler."""

    steps: StepRange = key(
        Check(_read_range, {"type": ["string", "integer"]}),
        doc="FIRST-LAST: steps of the optimizer, counted from 1.",
        example="10-12",
    )
    ranks: tuple[int, ...] = key(
        check_list(check_integer(0, 1 << 20)), default=(0,), doc="Ranks that write a trace."
    )

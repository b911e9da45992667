"""``nvidia-smi nvlink -s``: the NVLinks of each GPU and their rate."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

_GPU = re.compile(r"GPU ([0-9]{1,4}): .{1,200}")
_LINK = re.compile(r"Link ([0-9]{1,3}): (?:<?(inactive)>?|([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s)")


class Links(NamedTuple):
    """The links of one GPU: GB/s of each that is active, and how many are not."""

    gpu: int
    rates: tuple[float, ...] = ()
    inactive: int = 0


def parse(text: str) -> tuple[Links, ...]:
    """Every GPU that has NVLinks, in the order printed."""
    found: list[Links] = []
    for line in lines(text):
        words = line.strip()
        if match := _GPU.fullmatch(words):
            found.append(Links(int(match[1])))
        elif found and len(found[-1].rates) < 64 and (match := _LINK.fullmatch(words)):
            last = found[-1]
            rates = last.rates if match[2] else (*last.rates, float(match[3]))
            found[-1] = Links(last.gpu, rates, last.inactive + bool(match[2]))
    return tuple(found)

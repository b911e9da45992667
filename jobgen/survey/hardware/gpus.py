"""``nvidia-smi -L``: the GPUs of a node, and the slices that MIG cut."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

_GPU = re.compile(r"GPU ([0-9]{1,4}): ([^(]{1,100}) \(UUID: (GPU-[0-9a-fA-F-]{1,64}|N/A)\)")
_MIG = re.compile(
    r"MIG ([0-9A-Za-z.+]{1,32}) +Device +([0-9]{1,4}): \(UUID: (MIG-[0-9A-Za-z/-]{1,96})\)"
)
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)[ 0-9:]{0,8}? "
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)


class MigSlice(NamedTuple):
    """A MIG device: its profile such as 1g.10gb, its number and its UUID."""

    profile: str
    number: int
    uuid: str


class ListedGpu(NamedTuple):
    """A GPU as listed."""

    number: int
    name: str
    uuid: str
    slices: tuple[MigSlice, ...] = ()


def parse(text: str) -> tuple[ListedGpu, ...]:
    """Every GPU of ``nvidia-smi -L``, in its order."""
    found: list[ListedGpu] = []
    slices: list[MigSlice] = []
    for line in lines(text):
        words = line.strip()
        if match := _GPU.fullmatch(words):
            slices = []
            found.append(ListedGpu(int(match[1]), match[2].strip(), match[3]))
        elif found and len(slices) < 64 and (match := _MIG.fullmatch(words)):
            slices.append(MigSlice(match[1], int(match[2]), match[3]))
            found[-1] = found[-1]._replace(slices=tuple(slices))
    return tuple(found)


def lost(text: str) -> tuple[str, ...]:
    """The bus addresses of GPUs that fell off: 'Unable to determine the device handle for …'."""
    found = (_LOST.search(line) for line in lines(text))
    return tuple(dict.fromkeys(m[1] for m in found if m))

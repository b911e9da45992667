"""``lscpu``: sockets, cores, threads and NUMA nodes.

Source of the names: util-linux, sys-utils/lscpu.c. Asked for with LC_ALL=C: they are translated.
"""

from __future__ import annotations

import re

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware.text import parse_fields, parse_integer

_NUMA = re.compile(r"NUMA node([0-9]{1,4}) CPU\(s\)")


class Cpus(NamedTuple):
    """The processors of a node; 0 and '' where it says nothing. ``numa`` holds (node, CPU list)."""

    model: str = ""
    cpus: int = 0
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    numa: tuple[tuple[int, str], ...] = ()

    @property
    def cores(self) -> int:
        """Physical cores of the node; 0 where unknown."""
        if self.sockets and self.cores_per_socket:
            return self.sockets * self.cores_per_socket
        return self.cpus // self.threads_per_core if self.threads_per_core else 0


def parse(text: str) -> Cpus | None:
    """What lscpu said; None where the text is none of its answers."""
    found: dict[str, str] = {}
    kinds = 0
    for name, value in parse_fields(text):
        found.setdefault(name, value)
        # a processor with cores of several kinds has one such line for each of them
        kinds += parse_integer(value) or 0 if name.startswith("Core(s) per ") else 0
    if "Architecture" not in found and "CPU(s)" not in found:
        return None
    clusters = _whole(found, "Cluster(s)") if not _whole(found, "Socket(s)") else 0
    nodes = ((_NUMA.fullmatch(name), value) for name, value in found.items())
    return Cpus(
        found.get("Model name", ""),
        _whole(found, "CPU(s)"),
        _whole(found, "Socket(s)") or clusters,
        kinds,
        _whole(found, "Thread(s) per core"),
        tuple(sorted((int(m[1]), cpus) for m, cpus in nodes if m)),
    )


def _whole(found: dict[str, str], name: str) -> int:
    return parse_integer(found.get(name, "")) or 0

"""``ibv_devinfo`` and ``ibv_devinfo -v``: every RDMA device, InfiniBand, RoCE and EFA.

Source of the format: linux-rdma/rdma-core, libibverbs/examples/devinfo.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.survey.hardware.ports import Port, parse_state
from jobgen.survey.hardware.text import parse_fields, parse_first_number

_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PORT = re.compile(r"[0-9]{1,3}")


def parse(text: str) -> tuple[Port, ...]:
    """Every port, in the order printed. ``gbps`` only of -v."""
    return tuple(
        Port(
            card["hca_id"],
            int(port["port"]),
            state=parse_state(port.get("state", "")),
            layer=port.get("link_layer", "").lower(),
            gbps=_rate(port),
            transport=card.get("transport", "").partition("(")[0].strip().lower(),
        )
        for card, port in _blocks(text)
    )


def _blocks(text: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """The lines of each port, as names and values, beside those of its card."""
    found: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
    card: dict[str, str] = {}
    here = card
    for name, value in parse_fields(text):
        if name == "hca_id":
            here = card = {name: value} if _DEVICE.fullmatch(value) else {}
        elif name == "port" and card and _PORT.fullmatch(value):
            here = {name: value}
            found.append((card, here))
        elif here:
            here.setdefault(name, value)
    return iter(found)


def _rate(port: Mapping[str, str]) -> float | None:
    """Lanes times the speed of each: ``4X (2)`` and ``50.0 Gbps (64)`` are 200."""
    lanes = parse_first_number(port.get("active_width", "").partition("X")[0])
    lane = parse_first_number(port.get("active_speed", ""))
    return lanes * lane if lanes and lane else None

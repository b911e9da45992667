"""``ibstat``: InfiniBand and RoCE ports, their state and rate. EFA devices have no umad and no row.

Source of the format: linux-rdma/rdma-core, infiniband-diags/ibstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.survey.hardware.ports import Port, parse_state
from jobgen.survey.hardware.text import clean_lines, parse_first_number

_CARD = re.compile(r"CA '([A-Za-z0-9_.-]{1,64})'")
_PORT = re.compile(r"[Pp]ort ([0-9]{1,3}):")


def parse(text: str) -> tuple[Port, ...]:
    """Every port, in the order printed."""
    return tuple(
        Port(
            card["CA"],
            int(port["Port"]),
            state=parse_state(port.get("State", "")),
            layer=port.get("Link layer", "").lower(),
            gbps=parse_first_number(port.get("Rate", "")),
        )
        for card, port in _blocks(text)
    )


def _blocks(text: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """The lines of each port, as names and values, beside those of its card."""
    found: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
    card: dict[str, str] = {}
    here = card
    for line in clean_lines(text):
        words = line.strip()
        if match := _CARD.fullmatch(words):
            here = card = {"CA": match[1]}
        elif card and (match := _PORT.fullmatch(words)):
            here = {"Port": match[1]}
            found.append((card, here))
        elif here:
            name, _, value = words.partition(":")
            here.setdefault(name, value.strip())
    return iter(found)

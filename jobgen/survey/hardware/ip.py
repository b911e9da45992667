"""``ip addr`` and ``ip -o addr``: the network interfaces and their addresses.

Source of the formats: iproute2, ip/ipaddress.c.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import pairwise

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware.text import clean_lines

_LINE = re.compile(r"[0-9]{1,9}: ([A-Za-z0-9_.-]{1,32})(?:@[A-Za-z0-9_.-]{1,32})?:? +(.*)")
MOST = 4096
"""Interfaces that are read: a node of many containers has hundreds."""


class Interface(NamedTuple):
    """A network interface; ``addresses`` are with their prefix: 10.0.0.4/24."""

    name: str
    addresses: tuple[str, ...] = ()


def parse(text: str) -> tuple[Interface, ...]:
    """Every interface, once each, in the order of the text."""
    found: dict[str, Interface] = {}
    name = ""
    for line in clean_lines(text):
        words = line.strip()
        if match := _LINE.fullmatch(words):
            name, words = match[1], match[2]
        elif name not in found or line[:1] != " ":
            continue
        if name in found or len(found) < MOST:
            found[name] = _extend(found.get(name, Interface(name)), words)
    return tuple(found.values())


def _extend(known: Interface, words: str) -> Interface:
    """The interface with the addresses of one more line."""
    addresses = dict.fromkeys(known.addresses)
    for key, value in pairwise(words.replace("\\", " ").split()[:64]):
        if key in ("inet", "inet6") and len(addresses) < 64 and _is_address(value):
            addresses[value[:64]] = None
    return known._replace(addresses=tuple(addresses))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_interface(text[:64])
    except ValueError:
        return False
    return True

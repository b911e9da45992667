"""``ip -o addr``, ``-o link``, ``-br addr``, ``-br link``, ``-j addr`` and plain ``ip addr``.

Source of the formats: iproute2, ip/ipaddress.c.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from jobgen.survey.hardware.text import LIMIT, lines, parse_integer

_NAME = r"([A-Za-z0-9_.-]{1,32})(?:@[A-Za-z0-9_.-]{1,32})?"
_LONG = re.compile(r"[0-9]{1,9}: " + _NAME + r":? +(.*)")
_BRIEF = re.compile(_NAME + r" +(UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT|TESTING|NOTPRESENT)\b(.*)")
_FLAGS = re.compile(r"<[A-Z0-9_,-]{0,200}>")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,19}")
MOST = 4096
"""Interfaces that are read: a node of many containers has hundreds."""


class Interface(NamedTuple):
    """A network interface. ``state`` is UP, DOWN or UNKNOWN ('' where not told); ``kind`` is
    ether, infiniband or loopback; ``addresses`` are with their prefix: 10.0.0.4/24."""

    name: str
    state: str = ""
    mtu: int | None = None
    kind: str = ""
    mac: str = ""
    addresses: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def up(self) -> bool:
        """Whether it can carry traffic: its state says so, or it has no state and a carrier."""
        return self.state == "UP" or (self.state in ("", "UNKNOWN") and "LOWER_UP" in self.flags)


def parse(text: str) -> tuple[Interface, ...]:
    """Every interface, once each, in the order of the text."""
    found: dict[str, Interface] = {}
    if text.lstrip()[:1] == "[":
        for row in _rows(text[:LIMIT]):
            _put(found, row)
        return tuple(found.values())
    last = ""
    for line in lines(text):
        if match := _LONG.fullmatch(line.strip()):
            last = match[1]
            _put(found, _long(found.get(last, Interface(last)), match[2]))
        elif match := _BRIEF.fullmatch(line.strip()):
            last = ""
            words = match[3]
            known = found.get(match[1], Interface(match[1]))._replace(state=match[2])
            _put(found, _brief(known, words))
        elif last in found and line[:1] == " ":
            found[last] = _long(found[last], line.strip())
    return tuple(found.values())


def _put(found: dict[str, Interface], interface: Interface) -> None:
    if interface.name in found or len(found) < MOST:
        found[interface.name] = interface


def _long(known: Interface, words: str) -> Interface:
    """The interface with what a line of ``ip addr`` or ``ip link`` says behind its name."""
    if flags := _FLAGS.match(words):
        known = known._replace(flags=tuple(flags[0].strip("<>").split(",")))
    parts = words.replace("\\", " ").split()[:64]
    for key, value in pairwise(parts):
        if key == "mtu":
            known = known._replace(mtu=parse_integer(value))
        elif key == "state":
            known = known._replace(state=value[:32])
        elif key.startswith("link/"):
            mac = value if _MAC.fullmatch(value) else ""
            known = known._replace(kind=key.removeprefix("link/")[:32], mac=mac)
        elif key in ("inet", "inet6"):
            known = _with(known, value)
    return known


def _brief(known: Interface, words: str) -> Interface:
    """The interface with the rest of a line of ``ip -br``: addresses, or a MAC and flags."""
    if flags := _FLAGS.search(words):
        known = known._replace(flags=tuple(flags[0].strip("<>").split(",")))
    for word in words.split()[:64]:
        known = known._replace(mac=word) if _MAC.fullmatch(word) else _with(known, word)
    return known


def _with(known: Interface, address: str) -> Interface:
    """The interface with one more address, if it is one."""
    if len(known.addresses) >= 64 or address in known.addresses:
        return known
    try:
        ipaddress.ip_interface(address[:64])
    except ValueError:
        return known
    return known._replace(addresses=(*known.addresses, address[:64]))


def _rows(text: str) -> Iterator[Interface]:
    """The interfaces of ``ip -j addr``."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return
    for row in rows if isinstance(rows, list) else ():
        name = row.get("ifname") if isinstance(row, dict) else None
        if isinstance(name, str) and re.fullmatch(_NAME, name):
            mtu = row["mtu"] if isinstance(row.get("mtu"), int) else None
            flags = row["flags"] if isinstance(row.get("flags"), list) else ()
            known = Interface(
                name,
                _word(row.get("operstate")),
                mtu,
                _word(row.get("link_type")),
                _word(row.get("address")),
                (),
                tuple(map(_word, flags)),
            )
            for address in _told(row):
                known = _with(known, address)
            yield known


def _told(row: dict[str, Any]) -> Iterator[str]:
    infos = row.get("addr_info")
    for info in infos if isinstance(infos, list) else ():
        local, length = (info.get(k) for k in ("local", "prefixlen")) if info else ("", None)
        if isinstance(local, str) and isinstance(length, int):
            yield f"{local[:48]}/{length % 1000}"


def _word(value: object) -> str:
    """A short printable text of a value of JSON."""
    return next(lines(value))[:64] if isinstance(value, str) else ""

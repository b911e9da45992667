"""``fi_info -p efa``: the EFA devices of an AWS node, and the release of the provider."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

_PROVIDER = re.compile(r"provider: ?(efa(?:;[a-z0-9_]{1,32})?)")
_PAIR = re.compile(r"(domain|type|version|fabric): ?([^ ]{1,128})")
MOST = 1024


class Endpoint(NamedTuple):
    """One endpoint as listed."""

    domain: str = ""
    kind: str = ""
    version: str = ""
    fabric: str = ""

    @property
    def device(self) -> str:
        """The RDMA device: rdmap79s0 of the domain rdmap79s0-rdm."""
        return self.domain.rpartition("-")[0] or self.domain


_NAMES = {"domain": "domain", "type": "kind", "version": "version", "fabric": "fabric"}


def parse(text: str) -> tuple[Endpoint, ...]:
    """Every endpoint of the provider efa, in the order printed."""
    found: list[Endpoint] = []
    here = False
    for line in lines(text):
        words = line.strip()
        if words.startswith("provider:"):
            here = bool(_PROVIDER.fullmatch(words)) and len(found) < MOST
            found += [Endpoint()] if here else []
        elif here and (match := _PAIR.fullmatch(words)):
            found[-1] = found[-1]._replace(**{_NAMES[match[1]]: match[2]})
    return tuple(found)


def devices(text: str) -> tuple[str, ...]:
    """The EFA devices, once each: those with a reliable datagram endpoint."""
    return tuple(dict.fromkeys(e.device for e in parse(text) if e.kind == "FI_EP_RDM" and e.domain))

"""``fi_info -p efa``: the EFA devices of an AWS node."""

from __future__ import annotations

import re

from jobgen.survey.hardware.text import clean_lines

_PROVIDER = re.compile(r"provider: ?(efa(?:;[a-z0-9_]{1,32})?)")
_PAIR = re.compile(r"(domain|type): ?([^ ]{1,128})")
MOST = 1024


def list_devices(text: str) -> tuple[str, ...]:
    """The EFA devices, once each: those with a reliable datagram endpoint.

    The device of the domain rdmap79s0-rdm is rdmap79s0.
    """
    endpoints: list[dict[str, str]] = []
    here = False
    for line in clean_lines(text):
        words = line.strip()
        if words.startswith("provider:"):
            here = bool(_PROVIDER.fullmatch(words)) and len(endpoints) < MOST
            endpoints += [{}] if here else []
        elif here and (match := _PAIR.fullmatch(words)):
            endpoints[-1][match[1]] = match[2]
    reliable = (e["domain"] for e in endpoints if e.get("type") == "FI_EP_RDM" and "domain" in e)
    return tuple(dict.fromkeys(name.rpartition("-")[0] or name for name in reliable))

"""Whether the key that a host shows is the host's. There is no switch to turn this off."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import NoReturn

import paramiko

from jobgen.errors import Diagnostic, Unreachable
from jobgen.named_tuple import NamedTuple
from jobgen.transport.known_hosts import (
    HostKey,
    HostKeyLine,
    Trust,
    display_path,
    find_lines,
    judge,
)
from jobgen.transport.route import PORT, Route

_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def choose_key_types(hop: Route, offered: Sequence[str]) -> tuple[str, ...]:
    """The host key algorithms to ask for: those whose keys we know first, as ssh does."""
    known = [line.key.type for line in _lines(hop) if not line.marker]
    known = [name for kind in known for name in (_RSA if kind == "ssh-rsa" else (kind,))]
    first = [name for name in offered if name in known]
    return (*first, *(name for name in offered if name not in first))


class Pin(NamedTuple):
    """The fingerprint that a profile states; empty where it states none."""

    fingerprint: str = ""
    known_hosts_too: bool = False
    """Whether known_hosts must have the key all the same, as in ``Login``."""


def verify(hop: Route, shown_key: paramiko.PKey, pin: Pin) -> None:
    """Return if the key is trusted: pinned by its fingerprint, or in known_hosts.

    Raises Unreachable, naming the line and the command, in every other case.
    """
    blob = shown_key.asbytes()
    key = HostKey(_type_in(blob), blob)
    trust, line = judge(key, _lines(hop))
    if trust is Trust.REVOKED and line:
        _refuse(
            "J408",
            f"{hop.label}: its host key {key} is revoked ({line.place}); not connecting",
            "ask your site for its new key; this one was stolen or retired",
        )
    if pin.fingerprint:
        _compare(hop, key, pin.fingerprint)
    if pin.fingerprint and not pin.known_hosts_too:
        return
    if trust is Trust.CHANGED and line:
        _changed(hop, key, line)
    elif trust is not Trust.KNOWN:
        _unknown(hop, key, (trust, line), pin)


def _compare(hop: Route, key: HostKey, pin: str) -> None:
    if not hmac.compare_digest(pin.rstrip("="), key.fingerprint):
        _refuse(
            "J407",
            f"{hop.label}: the host key is {key}, but the cluster profile says "
            f"ssh.fingerprint: {pin}; not connecting",
            "someone may be intercepting the connection; compare with the fingerprint that "
            "your site publishes",
        )


def _changed(hop: Route, key: HostKey, line: HostKeyLine) -> NoReturn:
    _refuse(
        "J407",
        f"{hop.label}: THE HOST KEY HAS CHANGED: it is {key}, but {line.place} has {line.key}; "
        "not connecting",
        "someone may be intercepting the connection; if your site confirms the new key: "
        f"ssh-keygen -f {display_path(line.file)} -R '{hop.known_name}'",
    )


def _unknown(
    hop: Route, key: HostKey, judged: tuple[Trust, HostKeyLine | None], pin: Pin
) -> NoReturn:
    trust, line = judged
    port = "" if hop.port == PORT else f"-p {hop.port} "
    hint = (
        "compare it with the fingerprint that your site publishes; if it is right, "
        f"`ssh {port}{hop.host}` once and answer yes"
    )
    if not pin.known_hosts_too:
        hint += f", or write `fingerprint: {key.fingerprint}` under ssh: in the cluster profile"
    note = ""
    if trust is Trust.SIGNED_ELSEWHERE and line:
        note = f"; {line.place} trusts an authority for this host"
        hint = "host certificates need the ssh program: write `backend: openssh` under ssh:"
    elif line:
        note = f" ({line.place} has only its {line.key})"
    _refuse("J406", f"{hop.label}: unknown host key {key}{note}", hint)


def _lines(hop: Route) -> tuple[HostKeyLine, ...]:
    lines = find_lines(hop.known_name, hop.known_hosts)
    if hop.port != PORT and not lines and not hop.host_key_alias:
        # as ssh: a host on another port may be known by its bare name
        lines = find_lines(hop.hostname.lower(), hop.known_hosts)
    return lines


def _type_in(blob: bytes) -> str:
    return paramiko.Message(blob).get_text()


def _refuse(code: str, message: str, hint: str) -> NoReturn:
    raise Unreachable(Diagnostic(code, message, hint=hint))

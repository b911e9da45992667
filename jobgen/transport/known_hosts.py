"""What the known_hosts files say of a host: its keys, those revoked, those that may sign."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from jobgen.shell import split_lines

Marker = Literal["", "@revoked", "@cert-authority"]
_MARKERS: dict[str, Marker] = {m: m for m in ("@revoked", "@cert-authority")}


@dataclass(frozen=True, slots=True)
class HostKey:
    """A host's public key: its type as in known_hosts, and its bytes."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """``SHA256:…`` as ssh prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def __str__(self) -> str:
        return f"{_SHORT.get(self.type, self.type)} {self.fingerprint}"


_SHORT = {
    "ssh-ed25519": "ED25519",
    "ssh-rsa": "RSA",
    "ecdsa-sha2-nistp256": "ECDSA",
    "ecdsa-sha2-nistp384": "ECDSA",
    "ecdsa-sha2-nistp521": "ECDSA",
}


@dataclass(frozen=True, slots=True)
class HostKeyLine:
    """One line that is about the host."""

    marker: Marker
    key: HostKey
    file: Path
    number: int

    @property
    def place(self) -> str:
        """``file:line``, with the home directory as ``~``."""
        return f"{display_path(self.file)}:{self.number}"


class Trust(Enum):
    """What the lines say of a key that a host has shown."""

    KNOWN = auto()
    UNKNOWN = auto()
    CHANGED = auto()
    REVOKED = auto()
    SIGNED_ELSEWHERE = auto()
    """Unknown as it is, but an authority is trusted that may have signed it."""


def find_lines(name: str, files: Sequence[Path]) -> tuple[HostKeyLine, ...]:
    """The lines for a host of this name (``host`` or ``[host]:port``), file by file."""
    return tuple(line for file in files for line in _read(file, name))


def judge(key: HostKey, lines: Sequence[HostKeyLine]) -> tuple[Trust, HostKeyLine | None]:
    """Whether this key is the host's, and the line that decided."""
    equal = [x for x in lines if x.key == key]
    plain = [x for x in lines if not x.marker]
    # revoked wins over everything, wherever it stands
    table: Sequence[tuple[Trust, Sequence[HostKeyLine]]] = (
        (Trust.REVOKED, [x for x in equal if x.marker == "@revoked"]),
        (Trust.KNOWN, [x for x in equal if not x.marker]),
        (Trust.CHANGED, [x for x in plain if x.key.type == key.type]),
        (Trust.SIGNED_ELSEWHERE, [x for x in lines if x.marker == "@cert-authority"]),
    )
    for trust, found in table:
        if found:
            return trust, found[0]
    return Trust.UNKNOWN, plain[0] if plain else None


def display_path(path: Path) -> str:
    """The path for people: ``~/.ssh/known_hosts``."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _read(file: Path, name: str) -> Iterator[HostKeyLine]:
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return  # most people have one of the four files that ssh looks at
    for number, line in enumerate(split_lines(text), 1):
        words = line.split()
        marker = _MARKERS.get(words[0], "") if words else ""
        fields = words[1:] if marker else words
        if len(fields) < 3 or fields[0].startswith(("#", "@")) or not _matches(fields[0], name):
            continue
        try:
            blob = base64.b64decode(fields[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        yield HostKeyLine(marker, HostKey(fields[1], blob), file, number)


def _matches(patterns: str, name: str) -> bool:
    """Whether a host field is about this name: hashed, or patterns of which ``!`` ones exclude."""
    if patterns.startswith("|1|"):
        return _hashed(patterns, name)
    found = False
    for pattern in patterns.lower().split(","):
        negated = pattern.startswith("!")
        if _glob(pattern.removeprefix("!"), name.lower()):
            if negated:
                return False
            found = True
    return found


def _glob(pattern: str, name: str) -> bool:
    # only * and ? are special to ssh; [host]:port is meant as it stands
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _hashed(field: str, name: str) -> bool:
    parts = field.split("|")
    if len(parts) != 4:
        return False
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)

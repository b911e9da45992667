"""Chunks of one file → its complete lines, with bounded memory."""

from __future__ import annotations

from jobgen.follow.sanitize import keep_last_segment

CAP = 1 << 20
"""The longest line that is held, in bytes. A longer one is shown in pieces of this size."""


class Assembler:
    """Takes the bytes of one file as they come; gives back whole lines, each with its newline."""

    def __init__(self, *, cap: int = CAP, raw: bool = False) -> None:
        self._cap = cap
        self._raw = raw
        self._rest = b""
        self._overwrites = False

    @property
    def bar(self) -> bytes:
        """A progress bar as it is now, an unfinished line that has overwritten itself; or empty."""
        return self._rest.rstrip(b"\r") if self._overwrites else b""

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete now. What is left over waits for its end."""
        cut = data.rfind(b"\n") + 1
        if cut:
            lines, self._rest = b"".join((self._rest, memoryview(data)[:cut])), data[cut:]
        else:
            lines, self._rest = b"", self._rest + data
        self._overwrites = not self._raw and (b"\r" in self._rest or (self._overwrites and not cut))
        if not self._raw:
            self._rest = _without_past(self._rest)
        if len(lines) > self._cap and _has_longer(lines, self._cap):
            lines = b"".join(self._pieces(line) for line in lines.splitlines(keepends=True))
        return lines + self._overflow()

    def flush(self) -> bytes:
        """The unfinished line at the end of the file, now that no more will come."""
        rest, self._rest = self._rest, b""
        return rest if self._raw or not rest else rest + b"\n"

    def _overflow(self) -> bytes:
        out = b""
        while len(self._rest) > self._cap:
            piece, self._rest = _cut(self._rest, self._cap)
            out += piece if self._raw else piece + b"\n"
        return out

    def _pieces(self, line: bytes) -> bytes:
        if self._raw or len(line) <= self._cap + 1:
            return line
        pieces = []
        while len(line) > self._cap + 1:
            piece, line = _cut(line, self._cap)
            pieces.append(piece)
        return b"\n".join([*pieces, line])


def _has_longer(lines: bytes, cap: int) -> bool:
    """Whether one of these complete lines may be longer; steps over all that fit at once."""
    at = 0
    while at < len(lines):
        at = lines.rfind(b"\n", at, at + cap + 1) + 1
        if not at:
            return True
    return False


def keep_last_lines(data: bytes, count: int) -> bytes:
    """The last ``count`` lines; an unfinished one at the end counts as a line."""
    if count <= 0:
        return b""
    end = len(data) - data.endswith(b"\n")
    for _ in range(count):
        end = data.rfind(b"\n", 0, end)
        if end < 0:
            return data
    return data[end + 1 :]


def _without_past(rest: bytes) -> bytes:
    """An unfinished line without what its carriage returns have overwritten already."""
    if b"\r" not in rest:
        return rest
    body = rest.rstrip(b"\r")
    return keep_last_segment(body) + rest[len(body) :]


def _cut(line: bytes, at: int) -> tuple[bytes, bytes]:
    """Two pieces, the first at most ``at`` bytes, with no UTF-8 sequence broken in the middle."""
    for end in range(at, max(at - 4, 0), -1):
        if line[end] & 0xC0 != 0x80:
            return line[:end], line[end:]
    return line[:at], line[at:]

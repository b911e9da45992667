"""Foreign text made harmless: it cannot move the cursor, set a title or reorder what is read.

Escape sequences are dropped, every other control or format character is shown as ``\\xNN``.
"""

from __future__ import annotations

import re

_TIDY = bytes([0x09, 0x0A, *range(0x20, 0x7F)])

# C0 but tab and newline, DEL, C1, Unicode's format characters (Cf: bidi, zero width, tags), its two
# line separators and lone surrogates
_CONTROL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)

# CSI; then OSC, DCS, SOS, PM and APC up to their terminator on the same line (without one, only the
# introducer goes: nothing can hide the rest of a line); then every other escape
_SEQUENCE = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
)
_UNSAFE = re.compile(f"{_SEQUENCE}|[{_CONTROL}]")
_SGR = re.compile("\x1b\\[[0-9;:]{0,60}m")
_RESET = "\x1b[0m"


def clean(text: str, *, colour: bool = False) -> str:
    """The text without anything a terminal would obey; with ``colour`` its SGR codes stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if not colour:
        return _UNSAFE.sub(_shown, text)
    kept = _UNSAFE.sub(lambda m: _revealed(m[0]) if _SGR.fullmatch(m[0]) else _shown(m), text)
    return _reset_each_line(kept) if "\x1b" in kept else kept


def write_out(text: str) -> str:
    """The text with every control character as ``\\xNN``, those of escape sequences too."""
    return re.sub(f"[{_CONTROL}]", _shown, text)


def clean_lines(data: bytes, *, colour: bool = False) -> bytes:
    """Complete lines of a log as clean UTF-8; bytes that are no UTF-8 are shown as ``\\xNN``."""
    if not data.translate(None, _TIDY):
        return data
    if b"\r" in data:
        data = b"\n".join(keep_last_segment(line) for line in data.split(b"\n"))
    return clean(data.decode("utf-8", "backslashreplace"), colour=colour).encode()


def keep_last_segment(line: bytes) -> bytes:
    """What a line shows after its carriage returns: a progress bar's last state."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _revealed(sequence: str) -> str:
    """A colour code without ``conceal`` (8), which would hide the text behind it."""
    numbers = sequence[2:-1].split(";")
    kept: list[str] = []
    while numbers:
        number = numbers.pop(0)
        code = number.partition(":")[0].lstrip("0")
        # 38, 48 and 58 take a colour behind them: 5;INDEX or 2;RED;GREEN;BLUE
        takes = {"5": 2, "2": 4}.get(numbers[0] if numbers else "", 0)
        behind = takes if code in ("38", "48", "58") and ":" not in number else 0
        if code != "8":
            kept += [number, *numbers[:behind]]
        numbers = numbers[behind:]
    return f"\x1b[{';'.join(kept)}m" if kept else ""


def _shown(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) > 1:
        return ""
    code = ord(text)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _reset_each_line(text: str) -> str:
    """Colours end with their line, so that they cannot run into the next rank's."""
    return "\n".join(line + _RESET if "\x1b" in line else line for line in text.split("\n"))

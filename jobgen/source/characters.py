"""Characters that cannot stand in a file, because a reader would not see what they do."""

from __future__ import annotations

import re
import unicodedata

from jobgen.errors import Diagnostic, Place

SHOWN = 20
"""Problems of one kind that are shown; more of them help nobody."""

_UTF16 = {"\udcff\udcfe"}
"""The byte order marks of UTF-16, as they come out of a reading as UTF-8."""


def strip_unseen(text: str, label: str) -> tuple[list[Diagnostic], str]:
    """Characters that cannot stand in a file, and the text without them."""
    problems: list[Diagnostic] = []
    if text[:1] == "\ufeff":
        hint = "save the file as UTF-8 without a BOM"
        problems.append(
            Diagnostic(
                "J110", "the file starts with a byte order mark (BOM)", Place(label, 1, 1), hint
            )
        )
        text = text[1:]
    if text[:2] in _UTF16 or text[1:2] == "\0":
        problem = Diagnostic("J110", "the file is UTF-16", Place(label, 1), "save it as UTF-8")
        return [problem], ""
    text = text.replace("\r\n", "\n")
    hidden = _find_hidden(text)
    if not hidden:
        return problems, text
    pattern = re.compile("[" + "".join(map(re.escape, sorted(hidden))) + "]")
    lines = text.split("\n")
    found = 0
    for number, line in enumerate(lines, 1):
        for match in pattern.finditer(line):
            found += 1
            if found <= SHOWN:
                problems.append(
                    _character(match, Place(label, number, match.start() + 1, match.end() + 1))
                )
    if found > SHOWN:
        problems.append(Diagnostic("J109", f"{found - SHOWN} more such characters", Place(label)))
    return problems, pattern.sub("\ufffd", text)


def _find_hidden(text: str) -> set[str]:
    odd = {c for c in set(text) - {"\n", "\t"} if not " " <= c <= "~"}
    if not odd:
        return set()
    from jobgen.data.unseen import is_unseen

    return {c for c in odd if is_unseen(c)}


def _character(match: re.Match[str], place: Place) -> Diagnostic:
    char = match.group()
    if "\udc80" <= char <= "\udcff":
        message = f"byte 0x{ord(char) - 56320:02x} is not valid UTF-8"
        return Diagnostic("J110", message, place, "save the file as UTF-8")
    name = unicodedata.name(char, "a control character").lower()
    hint = 'delete it; if the value needs it, write it as an escape in "double quotes"'
    return Diagnostic(
        "J109", f"U+{ord(char):04X} ({name}) is not allowed in this file", place, hint
    )

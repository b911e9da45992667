"""The answer of ``explain``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import fold, table
from jobgen.cli.output import Ink

if TYPE_CHECKING:
    from jobgen.data import Code


def screen(codes: Sequence[Code], ink: Ink) -> str:
    """One code in full, or a list of them."""
    if len(codes) != 1:
        return table((c.code, c.title) for c in codes)
    code = codes[0]
    parts = [ink("strong", f"{code.code}: {code.title}") + "\n"]
    parts += [
        fold(p.replace("\n", " "), min(ink.width, 100)) + "\n" for p in code.why.split("\n\n")
    ]
    for label, text in (("Wrong", code.wrong), ("Right", code.right)):
        if text:
            parts.append(f"{label}:\n{textwrap.indent(text, '    ')}\n")
    return "\n".join(parts)


def data(codes: Sequence[Code]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [code._asdict() for code in codes]

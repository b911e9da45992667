"""What the codes of messages mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Missing

if TYPE_CHECKING:
    from jobgen.data import Code


def explain(code: str | None) -> tuple[Code, ...]:
    """The code that is asked for, or all of them. Raises Missing with the nearest one."""
    from jobgen.data import codes

    known = codes()
    if code is None:
        return tuple(known.values())
    found = known.get(code.upper())
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(code.upper(), list(known), 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Missing(f"no code '{code}'", hint=f"{hint}jobgen explain lists all codes")
    return (found,)

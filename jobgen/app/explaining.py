"""What the codes of messages mean, and what environment variables do."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jobgen.errors import Missing
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.data import Code, EnvVariable
    from jobgen.data.env_variables import Hearsay
    from jobgen.fabric.variables import VariableDiagnostic


class Explained(NamedTuple):
    """What was asked for: codes, or variables, or what hearsay says of a name."""

    codes: tuple[Code, ...] = ()
    variables: tuple[EnvVariable, ...] = ()
    hearsay: tuple[Hearsay, ...] = ()
    variable: str = ""
    """The word that was asked for, where it is a variable."""
    more: int = 0
    """Variables that are known besides."""
    family: bool = False
    """Whether the codes were asked for by a pattern."""
    findings: tuple[VariableDiagnostic, ...] = ()
    """What the judge says of ``NAME=VALUE``, where nothing is known of the cluster."""


def explain(word: str | None) -> Explained:
    """A code, a variable, all of a family (``J13*``, ``NCCL_IB_*``), or all codes.

    Raises Missing with the nearest word.
    """
    from jobgen.data import codes

    known = codes()
    if word is None:
        from jobgen.data.env_variables import catalogue, hearsay

        return Explained(tuple(known.values()), more=len(catalogue()) + len(hearsay()))
    if fits := tuple(code for name, code in known.items() if fnmatchcase(name, word.upper())):
        return Explained(fits, family="*" in word)
    found = _family(word) if "*" in word else _variable(word)
    if found is None:
        raise _missing(word)
    return found


def _variable(word: str) -> Explained | None:
    """A name, ``NAME=VALUE``, or a row of the table of hearsay as it stands there."""
    from jobgen.data.env_variables import catalogue, hearsay, variable, wrong

    name, equals, value = word.partition("=")
    name = _spelled(name.strip(), [*catalogue(), *(n for n, _ in hearsay())])
    row = variable(name)
    said = {h.entry: h for (n, v), h in hearsay().items() if h.entry == word.strip()}
    if equals:
        found = wrong(name, value)
        said |= {found.entry: found} if found else {}
    else:
        said |= {h.entry: h for (n, _), h in hearsay().items() if n == name}
    if row is None and not said:
        return None
    asked = word.strip() if word.strip() in said and not equals else name
    rows = (row,) if row else ()
    return Explained((), rows, tuple(said.values()), asked, findings=_judged(row, equals, value))


def _judged(row: EnvVariable | None, equals: str, value: str) -> tuple[VariableDiagnostic, ...]:
    if row is None or not equals:
        return ()
    from jobgen.fabric.variables import Context, judge

    return judge(row.name, value, Context(others={row.name: value}))


def _family(word: str) -> Explained | None:
    """Every variable that fits a pattern with *."""
    from jobgen.data.env_variables import catalogue, hearsay

    parts = (re.escape(part) for part in word.split("*"))
    pattern = re.compile(".*".join(parts), re.IGNORECASE)
    rows = tuple(row for name, row in catalogue().items() if pattern.fullmatch(name))
    said = {h.entry: h for (name, _), h in hearsay().items() if pattern.fullmatch(name)}
    if not rows and not said:
        return None
    return Explained(variables=rows, hearsay=tuple(said.values()), variable=word)


def _spelled(word: str, names: list[str]) -> str:
    """The name as it is written, whatever its case was."""
    if word in names:
        return word
    lower = word.lower()
    return next((name for name in names if name.lower() == lower), word.upper())


def _missing(word: str) -> Missing:
    from difflib import get_close_matches

    from jobgen.data import codes
    from jobgen.data.env_variables import catalogue, hearsay

    codelike = re.fullmatch(r"(?i)j\d\w*", word) is not None
    words = list(codes()) if codelike else [*catalogue(), *(name for name, _ in hearsay())]
    near = get_close_matches(word.upper(), words, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    what = "code" if codelike else "code or variable"
    return Missing(f"no {what} '{word}'", hint=f"{hint}all codes: jobgen explain 'J*'")

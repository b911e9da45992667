"""Plain scalars by the core schema of YAML 1.2; numbers that know how they were written."""

from __future__ import annotations

import re

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LONGEST_NUMBER = 64


class WrittenInt(int):
    """A whole number that knows how it was written."""

    text: str


class Real(float):
    """A number that knows how it was written: ``1e-5`` stays ``1e-5``."""

    text: str


class Flag:
    """true or false, and how it was written."""

    __slots__ = ("flag", "text")

    def __init__(self, flag: bool, text: str) -> None:
        self.flag = flag
        self.text = text

    def __bool__(self) -> bool:
        return self.flag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flag) and (self.flag, self.text) == (other.flag, other.text)

    def __hash__(self) -> int:
        return hash((self.flag, self.text))


Scalar = str | WrittenInt | Real | Flag | None


def resolve_scalar(text: str) -> Scalar:
    """The value of a plain scalar.

    ``no``, ``on``, dates and clock times are text; so is ``010``, which some read as eight.
    """
    if text in _WORDS:
        word = _WORDS[text]
        return None if word is None else Flag(word, text)
    if len(text) > _LONGEST_NUMBER:
        return text
    number: WrittenInt | Real
    if _INT.fullmatch(text):
        number = WrittenInt(int(text, 0) if text[:2] in {"0o", "0x"} else int(text))
    elif _FLOAT.fullmatch(text):
        number = Real(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    else:
        return text
    number.text = text
    return number

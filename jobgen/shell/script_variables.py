"""The variables that a text of the shell sets, put into the words behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.shell.conditions import starts_assignment
from jobgen.shell.shellwords import Word, commands

_DEEPEST = 10
_MOST_WORDS = 2_000
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?(?::?-([^{}]*))?\})", re.ASCII)


def is_variable(text: str) -> bool:
    """Whether this is one variable and nothing else: ``$X``, ``${X:-y}``, ``${X[@]}``."""
    return bool(_VARIABLE.fullmatch(text))


class ScriptVariables:
    """Name → value, as far as the text itself says so."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.room = _MOST_WORDS

    def remember(self, word: Word) -> None:
        """Keep the value if the word assigns one."""
        name, equals, value = word.text.partition("=")
        if equals and starts_assignment(word.text):
            array = value.startswith("(") and not word.quoted
            self.values[name.removesuffix("+")] = value[1:-1] if array else value

    def expand(self, words: Sequence[Word], depth: int = 0) -> tuple[Word, ...]:
        """The words, with those that are one variable of the text replaced by its words."""
        result: list[Word] = []
        for word in words:
            value = self._value(word)
            if value is None or depth > _DEEPEST or self.room < 0:
                result.append(word)
                continue
            inner = [w for command in commands(value) for w in command]
            self.room -= len(inner)
            moved = [w._replace(start=word.start, end=word.end) for w in inner]
            result += self.expand(moved, depth + 1)
        return tuple(result)

    def _value(self, word: Word) -> str | None:
        """What a word is that holds one variable and nothing else."""
        match = _VARIABLE.fullmatch(word.text) if word.made else None
        if match is None or (word.quoted and "[" not in word.text):
            return None
        return self.values.get(match.group(1) or match.group(2), match.group(3))

    def read_text(self, word: Word) -> str:
        """The text of a word that a shell reads: of a variable its value."""
        match = _VARIABLE.fullmatch(word.text)
        known = self.values.get(match.group(1) or match.group(2)) if match else None
        return known if known is not None else word.text

"""Shell text → its commands as words, as a shell reads them, without running anything.

Quotes, escapes, comments, here-documents, redirections and substitutions are known; what is no
valid shell text is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"}
)


class Word(NamedTuple):
    """A word of the shell: its text without quotes, and where it stands."""

    text: str
    start: int
    end: int
    made: bool
    """Whether the shell would put something into it, so that the text is not the value."""
    quoted: bool
    """Whether it is one quoted piece."""


def commands(text: str) -> Iterator[list[Word]]:
    """Simple commands, each as its words, without keywords and redirections."""
    words: list[Word] = []
    skip = False
    for kind, word in _Reader(text).pieces():
        if kind == "end":
            if words:
                yield words
            words, skip = [], False
        elif kind == "into":
            skip = True
        elif skip:
            skip = False
        elif words or word.text not in _KEYWORDS or word.quoted:
            words.append(word)
    if words:
        yield words


_SUMS = re.compile(r"(?<=for )\(\([^\n]{0,300}?\)\)|\(\([^;\n]{0,300}?\)\)")
"""``((n << 2))``, whose signs redirect nothing."""
_END = Word("", 0, 0, made=False, quoted=False)


class _Reader:
    """One pass over the text. Whatever it holds, each step goes on by at least one character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.waiting: list[tuple[str, bool]] = []
        """Here-documents whose bodies start at the next line."""

    def pieces(self) -> Iterator[tuple[str, Word]]:
        """(word, …), (into, …) before the target of a redirection, (end, …) of a command."""
        text = self.text
        while self.at < len(text):
            c = text[self.at]
            if c in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif c == "#":
                self._to_line_end()
            elif c == "\n":
                self.at += 1
                self._bodies()
                yield "end", _END
            elif c in ";&|()":
                sums = _SUMS.match(text, self.at)
                self.at = sums.end() if sums else self.at + 1
                yield "end", _END
            elif c in "<>":
                yield from self._redirection()
            else:
                yield "word", self._word()

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self) -> Iterator[tuple[str, Word]]:
        match = re.compile(r"<<<|<<-?|[<>][&>|]?").match(self.text, self.at)
        sign = match.group() if match else self.text[self.at]
        self.at += len(sign)
        if self.text.startswith("(", self.at):  # <( … ) is a word
            self.at += 1
            self._balanced(")")
            return
        if sign in {"<<", "<<-"}:
            while self.text[self.at : self.at + 1] in {" ", "\t"}:
                self.at += 1
            self.waiting.append((self._word().text, sign == "<<-"))
            return
        yield "into", _END

    def _bodies(self) -> None:
        for mark, tabs in self.waiting:
            while self.at < len(self.text):
                start = self.at
                self._to_line_end()
                line = self.text[start : self.at]
                self.at += 1
                if (line.lstrip("\t") if tabs else line) == mark:
                    break
        self.waiting = []
        self.at = min(self.at, len(self.text))

    def _word(self) -> Word:
        text, start, made, parts, quotes = self.text, self.at, False, [], 0
        while self.at < len(text) and text[self.at] not in " \t\r\n;&|()<>":
            c = text[self.at]
            here = self.at
            if c == "\\":
                self.at += 2
                parts.append("" if text[here + 1 : here + 2] == "\n" else text[here + 1 : here + 2])
            elif c == "'":
                end = text.find("'", here + 1)
                self.at = len(text) if end < 0 else end + 1
                parts.append(text[here + 1 : self.at - (end >= 0)])
                quotes += 1
            elif c == '"':
                inner, inside = self._double()
                made, quotes = made or inside, quotes + 1
                parts.append(inner)
            elif c in "$`":
                made = True
                parts.append(self._expansion())
            else:
                self.at += 1
                parts.append(c)
        self.at = min(max(self.at, start + 1), len(text))
        whole = quotes == 1 and len(parts) == 1 and text[start] in "'\""
        return Word("".join(parts), start, self.at, made, whole)

    def _double(self) -> tuple[str, bool]:
        text, made, parts = self.text, False, []
        self.at += 1
        while self.at < len(text) and text[self.at] != '"':
            c = text[self.at]
            if c == "\\" and text[self.at + 1 : self.at + 2] in {"$", "`", '"', "\\", "\n"}:
                parts.append(text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif c in "$`":
                made = True
                parts.append(self._expansion())
            else:
                parts.append(c)
                self.at += 1
        self.at += 1
        return "".join(parts), made

    def _expansion(self) -> str:
        """A substitution as it stands; its inside is another shell's."""
        start, text = self.at, self.text
        self.at += 1
        if text[start] == "`":
            end = text.find("`", self.at)
            self.at = len(text) if end < 0 else end + 1
        elif text.startswith("(", self.at):
            self.at += 1
            self._balanced(")")
        elif text.startswith("{", self.at):
            self.at += 1
            self._balanced("}")
        else:
            match = re.compile(r"\w+|[@*#?$!-]", re.ASCII).match(text, self.at)
            self.at = match.end() if match else self.at
        return text[start : self.at]

    def _balanced(self, close: str) -> None:
        """To behind the bracket that closes; quotes inside hide brackets."""
        opener, depth, text = {")": "(", "}": "{"}[close], 1, self.text
        while self.at < len(text) and depth:
            c = text[self.at]
            if c == "\\":
                self.at += 1
            elif c in "'\"":
                end = text.find(c, self.at + 1)
                self.at = len(text) if end < 0 else end
            depth += (c == opener) - (c == close)
            self.at += 1
        self.at = min(self.at, len(text))

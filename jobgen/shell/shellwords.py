"""Shell text → words and operators, as a shell reads them, without running anything.

Quotes, escapes, comments, here-documents, redirections, arrays and substitutions are known; text
that is not valid is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"}
)


class Word(NamedTuple):
    """A word or operator of the shell: its text without quotes, and where it stands."""

    text: str
    start: int
    end: int
    made: bool = False
    """Whether the shell would put something into it, so that the text is not the value."""
    quoted: bool = False
    """Whether it is one quoted piece."""
    raw: str = ""
    """The text with its quotes."""


def commands(text: str) -> Iterator[list[Word]]:
    """Simple commands, each as its words, without keywords and redirections."""
    words: list[Word] = []
    for kind, word in pieces(text):
        if kind == "end":
            if words:
                yield words
            words = []
        elif kind == "word" and (words or word.text not in _KEYWORDS or word.quoted):
            words.append(word)
    if words:
        yield words


def pieces(text: str) -> Iterator[tuple[str, Word]]:
    """(word, …), (into, …) for the target of a redirection, (end, …) for an operator."""
    return _Reader(text).pieces()


_SUMS = re.compile(r"(?<=for )\(\([^\n]{0,300}?\)\)|\(\([^;\n]{0,300}?\)\)")
"""``((n << 2))``, whose signs redirect nothing."""
_BLANK = re.compile(r"(?:[ \t\r]|\\\n|#[^\n]*)+")
_OPERATOR = re.compile(r"&&|\|\||;;&|;[;&]|\|&|[;&|()]")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:<<<|<<-?|&>>?|>>|[<>][&>|]?)", re.ASCII)
_REDIRECTS = "<>&{0123456789"
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SIGNS = "\n;&|()<>"


class _Reader:
    """One pass over the text. Whatever it holds, each step goes on by at least one character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.waiting: list[tuple[str, bool]] = []
        """Here-documents whose bodies start at the next line."""

    def pieces(self) -> Iterator[tuple[str, Word]]:
        """Words, targets of redirections, and operators, in order."""
        text, first = self.text, True
        while self.at < len(text):
            if blank := _BLANK.match(text, self.at):
                self.at = blank.end()
                continue
            c, start = text[self.at], self.at
            if c in _REDIRECTS and _REDIRECTION.match(text, start):
                yield from self._redirection()
            elif c == "(" and (sums := _SUMS.match(text, start)):
                self.at, first = sums.end(), False
                yield "word", self._slice(start)
            elif c in _SIGNS:
                yield "end", self._operator()
                first = True
            elif first and text.startswith(("[[ ", "[[\t", "[[\n"), start):
                first = False
                yield from self._test()
            else:
                word = self._word()
                first = first and word.text in _KEYWORDS
                yield "word", word

    def _slice(self, start: int) -> Word:
        raw = self.text[start : self.at]
        return Word(raw, start, self.at, made=True, raw=raw)

    def _operator(self) -> Word:
        start = self.at
        if self.text[start] == "\n":
            self.at += 1
            self._bodies()
            return Word("\n", start, start + 1)
        match = _OPERATOR.match(self.text, start)
        self.at = match.end() if match else start + 1
        return Word(self.text[start : self.at], start, self.at)

    def _test(self) -> Iterator[tuple[str, Word]]:
        """``[[ … ]]``, in which && and < are no operators."""
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "\n" or c in " \t\r;&|()<>":
                self.at += 1
                continue
            word = self._word()
            yield "word", word
            if word.raw == "]]":
                return

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self) -> Iterator[tuple[str, Word]]:
        match = _REDIRECTION.match(self.text, self.at)
        sign = match.group().lstrip("0123456789") if match else ""
        self.at = match.end() if match else self.at + 1
        if self.text.startswith("(", self.at):  # <( … ) is a word
            start = self.at
            self.at += 1
            self._balanced(")")
            yield "into", self._slice(start)
            return
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1
        if self.text[self.at : self.at + 1] in {"", *_SIGNS}:
            return
        word = self._word()
        if sign in {"<<", "<<-"}:
            self.waiting.append((word.text, sign == "<<-"))
        yield "into", word

    def _bodies(self) -> None:
        if not self.waiting:
            return
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
                if c == "=" and self._opens_array(start):
                    made = True
                    parts.append(self._array())
        self.at = min(max(self.at, start + 1), len(text))
        whole = quotes == 1 and len(parts) == 1 and text[start] in "'\""
        return Word("".join(parts), start, self.at, made, whole, text[start : self.at])

    def _opens_array(self, start: int) -> bool:
        behind = self.text.startswith("(", self.at)
        return behind and bool(_ARRAY.fullmatch(self.text[start : self.at]))

    def _array(self) -> str:
        start = self.at
        self.at += 1
        self._balanced(")")
        return self.text[start : self.at]

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

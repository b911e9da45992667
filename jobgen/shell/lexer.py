"""Shell text → words, operators and redirections, as bash splits it. Nothing is run.

Quotes, escapes, comments, here-documents, arrays and substitutions are known; text that is not
valid is read as far as it goes. :mod:`jobgen.shell.simple_commands` makes commands of the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple

_BEFORE_COMMAND = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"}
)
"""Keywords behind which a command begins."""


class ShellWord(NamedTuple):
    """A word of the shell: its text without quotes, and where it stands."""

    text: str
    start: int
    end: int
    expands: bool = False
    """Whether the shell puts something into it, so that the text is not the value."""
    quoted: bool = False
    """Whether it is one quoted piece."""
    raw: str = ""
    """The text with its quotes."""


class Operator(NamedTuple):
    """``&&``, ``|``, ``(``, a line end: what ends a command."""

    text: str
    start: int


class Redirection:
    """``2>log``, ``<<EOF``: its sign, the word behind it, and the body of a here-document."""

    __slots__ = ("body", "sign", "target")

    def __init__(self, sign: str, target: ShellWord) -> None:
        self.sign = sign
        self.target = target
        self.body: ShellWord | None = None

    @property
    def writes(self) -> bool:
        """Whether it opens a file to write to it."""
        return ">" in self.sign and not self.sign.endswith(">&")


Token = ShellWord | Operator | Redirection


_SUMS = re.compile(r"(?<=for )\(\([^\n]{0,300}?\)\)|\(\([^;\n]{0,300}?\)\)")
"""``((n << 2))``, whose signs redirect nothing."""
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||;;&|;[;&]|\|&|[;&|()]")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:<<<|<<-?|&>>?|>>|[<>][&>|]?)", re.ASCII)
_PARAMETER = re.compile(r"[0-9@*#?$!-]|\w+", re.ASCII)
_ESCAPED = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_DEEPEST = 40
_REDIRECTS = "<>&{0123456789"
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SIGNS = "\n;&|()<>"


class Lexer:
    """One pass over a text. Whatever it holds, each step goes on by at least one character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.waiting: list[Redirection] = []
        """Here-documents whose bodies start at the next line."""
        self.comments: list[ShellWord] = []
        self.open_quote: int | None = None
        """Where a quote stands that nothing closes."""
        self.expansions: list[ShellWord] = []
        """``$1``, ``${X}`` and ``$(…)`` in the order in which they were met."""
        self.depth = 0

    def read_tokens(self) -> Iterator[Token]:
        """Words, redirections and operators, in order."""
        text, first = self.text, True
        while self.at < len(text):
            if blank := _BLANK.match(text, self.at):
                self.at = blank.end()
                continue
            c, start = text[self.at], self.at
            if c == "#" and (comment := _COMMENT.match(text, start)):
                self.at = comment.end()
                self.comments.append(self._slice(start))
            elif c in _REDIRECTS and _REDIRECTION.match(text, start):
                yield from self._redirection()
            elif c == "(" and (sums := _SUMS.match(text, start)):
                self.at, first = sums.end(), False
                yield self._slice(start)
            elif c in _SIGNS:
                yield self._operator()
                first = True
            elif first and text.startswith(("[[ ", "[[\t", "[[\n"), start):
                first = False
                yield from self._test()
            else:
                word = self._word()
                first = first and word.text in _BEFORE_COMMAND
                yield word

    def _slice(self, start: int) -> ShellWord:
        raw = self.text[start : self.at]
        return ShellWord(raw, start, self.at, expands=True, raw=raw)

    def _operator(self) -> Operator:
        start = self.at
        if self.text[start] == "\n":
            self.at += 1
            self._bodies()
            return Operator("\n", start)
        match = _OPERATOR.match(self.text, start)
        self.at = match.end() if match else start + 1
        return Operator(self.text[start : self.at], start)

    def _test(self) -> Iterator[Token]:
        """``[[ … ]]``, in which && and < are no operators."""
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "\n" or c in " \t\r;&|()<>":
                self.at += 1
                continue
            word = self._word()
            yield word
            if word.raw == "]]":
                return

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self) -> Iterator[Token]:
        match = _REDIRECTION.match(self.text, self.at)
        sign = match.group() if match else ""
        self.at = match.end() if match else self.at + 1
        if self.text.startswith("(", self.at):  # <( … ) is a word
            start = self.at
            self.at += 1
            self._balanced(")")
            yield Redirection(sign, self._slice(start))
            return
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1
        if self.text[self.at : self.at + 1] in {"", *_SIGNS}:
            return
        redirection = Redirection(sign, self._word())
        if sign.lstrip("0123456789") in {"<<", "<<-"}:
            self.waiting.append(redirection)
        yield redirection

    def _bodies(self) -> None:
        for document in self.waiting:
            mark, tabs = document.target, document.sign.endswith("-")
            begin = end = self.at
            while self.at < len(self.text):
                end = start = self.at
                self._to_line_end()
                line = self.text[start : self.at]
                self.at += 1
                if (line.lstrip("\t") if tabs else line) == mark.text:
                    break
            body = self.text[begin:end]
            literal = mark.raw != mark.text
            document.body = ShellWord(body, begin, end, expands=not literal, raw=body)
            if not literal:
                self._expand_body(begin, end)
        self.waiting = []
        self.at = min(self.at, len(self.text))

    def _expand_body(self, begin: int, end: int) -> None:
        """Meet the expansions in the body of a here-document, and go back."""
        behind, self.at = self.at, begin
        while self.at < end:
            c = self.text[self.at]
            if c in "$`":
                self._expansion()
            else:
                self.at += 2 if c == "\\" else 1
        self.at = behind

    def _word(self) -> ShellWord:
        text, start, expands, parts, quotes = self.text, self.at, False, [], 0
        while self.at < len(text) and text[self.at] not in " \t\r\n;&|()<>":
            c = text[self.at]
            here = self.at
            if c == "\\":
                self.at += 2
                parts.append("" if text[here + 1 : here + 2] == "\n" else text[here + 1 : here + 2])
            elif c == "'":
                parts.append(self._single())
                quotes += 1
            elif text.startswith("$'", here):
                parts.append(self._escaped())
                expands = True
            elif c == '"':
                inner, inside = self._double()
                expands, quotes = expands or inside, quotes + 1
                parts.append(inner)
            elif c in "$`":
                expands = True
                parts.append(self._expansion())
            else:
                self.at += 1
                parts.append(c)
                if c == "=" and self._opens_array(start):
                    expands = True
                    parts.append(self._array())
        self.at = min(max(self.at, start + 1), len(text))
        whole = quotes == 1 and len(parts) == 1 and text[start] in "'\""
        raw = text[start : self.at]
        return ShellWord("".join(parts), start, self.at, expands, whole, raw)

    def _single(self) -> str:
        start = self.at
        end = self.text.find("'", start + 1)
        self.at = len(self.text) if end < 0 else end + 1
        if end < 0:
            self._leave_open(start)
        return self.text[start + 1 : self.at - (end >= 0)]

    def _escaped(self) -> str:
        """``$'it\\'s'`` as it stands."""
        start = self.at
        match = _ESCAPED.match(self.text, start)
        if match is None:
            self._leave_open(start)
        self.at = match.end() if match else len(self.text)
        return self.text[start : self.at]

    def _leave_open(self, at: int) -> None:
        if self.open_quote is None:
            self.open_quote = at

    def _opens_array(self, start: int) -> bool:
        behind = self.text.startswith("(", self.at)
        return behind and bool(_ARRAY.fullmatch(self.text[start : self.at]))

    def _array(self) -> str:
        start = self.at
        self.at += 1
        self._balanced(")")
        return self.text[start : self.at]

    def _double(self) -> tuple[str, bool]:
        text, expands, parts = self.text, False, []
        opened = self.at
        self.at += 1
        while self.at < len(text) and text[self.at] != '"':
            c = text[self.at]
            if c == "\\" and text[self.at + 1 : self.at + 2] in {"$", "`", '"', "\\", "\n"}:
                parts.append(text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif c in "$`":
                expands = True
                parts.append(self._expansion())
            else:
                parts.append(c)
                self.at += 1
        if self.at >= len(text):
            self._leave_open(opened)
        self.at += 1
        return "".join(parts), expands

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
            match = _PARAMETER.match(text, self.at)
            self.at = match.end() if match else self.at
        self.expansions.append(self._slice(start))
        return text[start : self.at]

    def _balanced(self, close: str) -> None:
        """To behind the bracket that closes; quotes inside hide brackets."""
        opener, depth, text = {")": "(", "}": "{"}[close], 1, self.text
        while self.at < len(text) and depth:
            c = text[self.at]
            if c == "\\":
                self.at += 1
            elif c in "'\"":
                self._skip_quoted(c)
            elif c == "#" and close == ")" and text[self.at - 1] in " \t\n":
                self._to_line_end()
                continue
            depth += (c == opener) - (c == close)
            self.at += 1
        self.at = min(self.at, len(text))

    def _skip_quoted(self, quote: str) -> None:
        """To the quote that closes, inside of brackets."""
        if quote == '"' and self.depth < _DEEPEST:
            met, self.depth = len(self.expansions), self.depth + 1
            self._double()
            self.depth -= 1
            del self.expansions[met:]  # they belong to what stands in the brackets
            self.at -= 1
            return
        end = self.text.find(quote, self.at + 1)
        self.at = len(self.text) if end < 0 else end

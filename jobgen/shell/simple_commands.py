"""Shell text → its simple commands, each with when it runs: always, on a condition, in a loop.

No command is run. Where a condition cannot be judged, what depends on it counts as uncertain.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.shell.conditions import (
    ASSIGNED,
    is_expected_to_succeed,
    names_rank,
    runs_several_times,
)
from jobgen.shell.shellwords import Word, pieces

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LEAVES = frozenset({"exit", "return"})
_DEEPEST = 60


class SimpleCommand(NamedTuple):
    """One command and its words, without keywords and redirections."""

    words: tuple[Word, ...]
    always: bool
    """Whether it runs when all commands before it succeed."""
    some_ranks: bool
    """Whether a condition on the rank or the node decides about it."""
    repeated: bool
    """Whether a ``for`` loop runs it several times."""
    background: bool
    piped: bool
    """Whether it reads from a pipe."""


def read_commands(text: str) -> list[SimpleCommand]:
    """Every simple command of the text, in order."""
    parser = _Parser()
    for kind, word in pieces(text):
        if kind == "word":
            parser.take_word(word)
        elif kind == "end":
            parser.take_operator(word.text)
    parser.take_operator("\n")
    return parser.commands()


class _Frame:
    """A compound command that is open, and what holds for the commands in it."""

    def __init__(self, kind: str, above: _Frame | None, *, always: bool, some: bool) -> None:
        self.kind = kind
        self.always, self.some = always, some
        self.outer_always, self.outer_some = always, some
        self.condition = kind in {"if", "while", "until"}
        """Whether its condition is being read."""
        self.tests = self.names_rank = self.tests_rank = False
        self.repeats = False
        self.succeeds = True
        """Whether its last command is expected to succeed."""
        self.loops: tuple[_Frame, ...] = above.loops if above else ()
        self.in_function: str = above.in_function if above else ""
        self.start_list()

    def start_list(self) -> None:
        """Begin a new list of commands: what && and || have decided so far is over."""
        self.sure, self.rank_test, self.piped = True, False, False
        self.passes = True
        self.first: int | None = None


class _Draft(NamedTuple):
    words: tuple[Word, ...]
    always: bool
    some_ranks: bool
    loops: tuple[_Frame, ...]
    piped: bool


class _Parser:
    """Words and operators, one after the other → commands with when they run."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.background: set[int] = set()
        self.stack = [_Frame("top", None, always=True, some=False)]
        self.words: list[Word] = []
        self.header = ""
        """``for``, ``case`` or ``function`` while its first line is read."""
        self.pattern = False
        """Whether a pattern of ``case`` is read."""
        self.function = ""
        """The name of a function whose body comes next."""
        self.closed: _Frame | None = None
        """The compound command that has just ended."""
        self.over = self.fewer = False
        self.rank_names: set[str] = set()
        """Variables and functions that hold or test the rank."""

    def commands(self) -> list[SimpleCommand]:
        """What was read."""
        return [
            SimpleCommand(
                d.words,
                d.always,
                d.some_ranks,
                any(loop.repeats for loop in d.loops),
                at in self.background,
                d.piped,
            )
            for at, d in enumerate(self.drafts)
        ]

    # ---- words

    def take_word(self, word: Word) -> None:
        """Add a word; at the start of a command it may be a keyword."""
        bare = word.raw == word.text
        if self.pattern:
            if bare and word.text == "esac":
                self._close("case")
        elif self.header == "case" and bare and word.text == "in":
            self._open_case()
        elif self.header or self.words or not bare or word.text not in _KEYWORDS:
            self.words.append(word)
        else:
            self._keyword(word.text)

    def _keyword(self, text: str) -> None:
        opener = _OPENERS.get(text)
        if text in _HEADERS:
            self.header = text
        elif opener is not None:
            self._open(text)
        elif text in {"then", "do"}:
            self._enter_body()
        elif text in {"else", "elif"}:
            self._other_branch(condition=text == "elif")
        elif text in _CLOSERS:
            self._close(*_CLOSERS[text])

    def _open(self, kind: str) -> None:
        top = self.stack[-1]
        always, some = self._certainty()
        frame = _Frame(kind, top, always=always, some=some)
        if self.function:
            frame.in_function, frame.always = self.function, False
            self.function = ""
        if kind in {"for", "select"} and len(top.loops) < _DEEPEST:
            frame.loops = (*top.loops, frame)
        if top.first is None:
            top.first = len(self.drafts)
        self.stack.append(frame)

    def _open_case(self) -> None:
        words, self.words, self.header = self.words, [], ""
        self._open("case")
        frame = self.stack[-1]
        frame.always, frame.some = False, frame.some or self._names_rank(tuple(words))
        self.pattern = True

    def _enter_body(self) -> None:
        frame = self.stack[-1]
        frame.condition = False
        frame.start_list()
        if frame.kind in {"while", "until"} or frame.tests:
            frame.always = False
        frame.some = frame.outer_some or frame.names_rank

    def _other_branch(self, *, condition: bool) -> None:
        frame = self.stack[-1]
        frame.condition = condition
        frame.start_list()
        frame.always, frame.some = False, frame.outer_some or frame.names_rank

    def _close(self, *kinds: str) -> None:
        self.pattern = False
        if self.stack[-1].kind in kinds:
            self.closed = self.stack.pop()

    # ---- operators

    def take_operator(self, operator: str) -> None:
        """End a command, or open and close what stands in brackets."""
        if operator == "(":
            self._bracket()
        elif operator == ")" and self.pattern:
            self.pattern = False
            self.stack[-1].start_list()
        elif operator == ")" and self.function:
            return
        elif self.header:
            self._end_header()
        else:
            self._end_command(operator)
            if operator == ")":
                self._close("(")
            elif operator in {";;", ";&", ";;&"} and self.stack[-1].kind == "case":
                self.pattern = True

    def _bracket(self) -> None:
        if self.pattern:
            return
        if self.header == "function" or len(self.words) == 1:
            self.function, self.words, self.header = self.words[-1].text, [], ""
        elif not self.words:
            self._open("(")

    def _end_header(self) -> None:
        header, words = self.header, self.words
        if header == "case" and words:
            return  # its subject may be followed by a line end
        self.header, self.words = "", []
        if header == "function" and words:
            self.function = words[0].text
            if len(words) > 1 and words[1].text == "{":
                self._open("{")
                self.words = words[2:]
                self._end_command("\n")
        elif header in {"for", "select"}:
            self._open(header)
            self.stack[-1].repeats = header == "for" and runs_several_times(words)
            self.stack[-1].always &= header == "for"

    def _end_command(self, operator: str) -> None:
        top, words = self.stack[-1], tuple(self.words)
        if not words and not self.closed:
            return
        succeeds, names_rank = True, False
        if self.closed:
            succeeds, names_rank = self.closed.succeeds, self.closed.tests_rank
        if words:
            succeeds, names_rank = is_expected_to_succeed(words), self._names_rank(words)
            self._add(words)
        self.words, self.closed = [], None
        top.passes &= succeeds
        top.succeeds = top.passes
        top.tests_rank |= names_rank and not succeeds
        if top.condition:
            top.tests |= not succeeds
            top.names_rank |= names_rank
        if operator in {"&&", "||"}:
            top.sure &= succeeds and operator == "&&"
            top.rank_test |= names_rank and not succeeds
            top.piped = False
        elif operator in {"|", "|&"}:
            top.piped = True
        else:
            if operator == "&" and top.first is not None:
                self.background.update(range(top.first, len(self.drafts)))
            top.start_list()

    def _add(self, words: tuple[Word, ...]) -> None:
        top = self.stack[-1]
        always, some = self._certainty()
        if top.first is None:
            top.first = len(self.drafts)
        self.drafts.append(_Draft(words, always, some, top.loops, top.piped))
        if self._names_rank(words):
            self.rank_names |= {m.group(1) for w in words if (m := ASSIGNED.match(w.text))}
            self.rank_names |= {top.in_function} - {""}
        self._leave(words, always=always, some=some)

    def _certainty(self) -> tuple[bool, bool]:
        top = self.stack[-1]
        always = top.always and top.sure and not self.over
        return always, top.some or top.rank_test or self.fewer

    def _leave(self, words: tuple[Word, ...], *, always: bool, some: bool) -> None:
        """``exit``, ``exec program`` and ``break`` decide about the commands behind them."""
        head = words[0].text
        top = self.stack[-1]
        if head == "break" and top.loops:
            top.loops[-1].repeats = False
        leaves = head in _LEAVES or (head == "exec" and len(words) > 1)
        if leaves and not top.in_function and not any(f.kind == "(" for f in self.stack[-3:]):
            self.fewer |= some
            self.over |= always and not some

    def _names_rank(self, words: tuple[Word, ...]) -> bool:
        if names_rank(words):
            return True
        names = self.rank_names
        return bool(names) and any(names & {*_NAME.findall(word.raw)} for word in words)


_HEADERS = frozenset({"for", "select", "case", "function"})
_OPENERS = {kind: kind for kind in ("if", "while", "until", "{")}
_LOOPS = ("while", "until", "for", "select")
_CLOSERS = {"fi": ("if",), "done": _LOOPS, "}": ("{",), "esac": ("case",)}
_KEYWORDS = frozenset({*_HEADERS, *_OPENERS, *_CLOSERS, "then", "do", "else", "elif", "!"})

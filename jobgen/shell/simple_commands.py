"""Shell text → its commands: words, assignments, redirections, places, and when each one runs.

The one reader of shell text: of ``run:``, ``setup:`` and job scripts. No command is run. Where a
condition cannot be judged, what depends on it counts as uncertain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from jobgen.named_tuple import NamedTuple
from jobgen.shell.conditions import (
    ASSIGNED,
    Compound,
    count_assignments,
    is_expected_to_succeed,
    names_rank,
    runs_several_times,
)
from jobgen.shell.lexer import Lexer, Operator, Redirection, ShellWord, Token

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LEAVES = frozenset({"exit", "return"})
_DEEPEST = 60


Move = Callable[[ShellWord], ShellWord]


class SimpleCommand(NamedTuple):
    """One command, without keywords."""

    assignments: tuple[ShellWord, ...]
    """``A=1`` before the command, or alone."""
    words: tuple[ShellWord, ...]
    """From its name on; empty where it only assigns."""
    redirections: tuple[Redirection, ...]
    always: bool
    """Whether it runs when all commands before it succeed."""
    some_ranks: bool
    """Whether a condition on the rank or the node decides about it."""
    repeated: bool = False
    """Whether a ``for`` loop runs it several times."""
    background: bool = False
    piped: bool = False
    """Whether it reads from a pipe."""
    apart: bool = False
    """Whether a shell of its own runs it: its ``cd`` does not hold for the commands behind it."""

    @property
    def start(self) -> int:
        """Where its first word stands."""
        return (self.assignments or self.words)[0].start

    def stand_in(self, outer: SimpleCommand, move: Move) -> SimpleCommand:
        """The command as one that stands inside of another, at other places."""
        return self._replace(
            assignments=tuple(map(move, self.assignments)),
            words=tuple(map(move, self.words)),
            always=outer.always and self.always,
            some_ranks=outer.some_ranks or self.some_ranks,
            repeated=outer.repeated or self.repeated,
            background=outer.background or self.background,
            piped=outer.piped or self.piped,
        )


class Script(NamedTuple):
    """A shell text, read."""

    commands: tuple[SimpleCommand, ...]
    """In order; those in functions too."""
    comments: tuple[ShellWord, ...]
    loop_variables: tuple[str, ...]
    """Names that ``for`` and ``select`` set."""
    expansions: tuple[ShellWord, ...]
    """``$1``, ``${X}`` and ``$(…)``, in order."""
    functions: tuple[tuple[int, int], ...]
    """Where the bodies of functions begin and end."""
    open_quote: int | None
    """Where a quote stands that nothing closes."""
    writes: bool
    """Whether anything is redirected to a file."""
    is_single: bool
    """Whether it is one command without operators, redirections and keywords."""


@lru_cache(maxsize=64)
def read_script(text: str) -> Script:
    """The commands of a text, and what stands between them.

    >>> command = read_script("A=1 python -u 'my train.py' >log &  # why").commands[0]
    >>> [word.text for word in (*command.assignments, *command.words)], command.background
    (['A=1', 'python', '-u', 'my train.py'], True)
    """
    lexer, parser = Lexer(text), _Parser()
    for token in lexer.read_tokens():
        parser.take(token)
    parser.take_operator("\n", len(text))
    return Script(
        tuple(parser.commands()),
        tuple(lexer.comments),
        tuple(parser.loop_variables),
        tuple(sorted(lexer.expansions, key=lambda word: word.start)),
        tuple(parser.functions),
        lexer.open_quote,
        parser.writes,
        parser.plain and len(parser.drafts) == 1,
    )


class _Parser:
    """Words and operators, one after the other → commands with when they run."""

    def __init__(self) -> None:
        self.drafts: list[tuple[SimpleCommand, tuple[Compound, ...]]] = []
        """Commands, each with the loops around it."""
        self.background: set[int] = set()
        self.stack = [Compound("top", None, always=True, some=False)]
        self.words: list[ShellWord] = []
        self.redirections: list[Redirection] = []
        self.loop_variables: list[str] = []
        self.writes, self.plain = False, True
        self.header = ""
        """``for``, ``case`` or ``function`` while its first line is read."""
        self.pattern = False
        """Whether a pattern of ``case`` is read."""
        self.function = ""
        """The name of a function whose body comes next."""
        self.closed: Compound | None = None
        """The compound command that has just ended."""
        self.functions: list[tuple[int, int]] = []
        self.over = self.fewer = False
        self.rank_names: set[str] = set()
        """Variables and functions that hold or test the rank."""

    def commands(self) -> Iterator[SimpleCommand]:
        """What was read."""
        for at, (command, loops) in enumerate(self.drafts):
            background = at in self.background
            yield command._replace(
                repeated=any(loop.repeats for loop in loops),
                background=background,
                apart=command.apart or background,
            )

    def take(self, token: Token) -> None:
        """Add the next token of the text."""
        if isinstance(token, ShellWord):
            self.take_word(token)
        elif isinstance(token, Operator):
            self.plain &= token.text == "\n"
            self.take_operator(token.text, token.start)
        else:
            self.plain = False
            self.writes |= token.writes
            self.redirections.append(token)

    # ---- words

    def take_word(self, word: ShellWord) -> None:
        """Add a word; at the start of a command it may be a keyword."""
        bare = word.raw == word.text
        if self.pattern:
            if bare and word.text == "esac":
                self._close(word.end, "case")
        elif self.header == "case" and bare and word.text == "in":
            self._open_case(word.start)
        elif self.header or self.words or not bare or word.text not in _KEYWORDS:
            self.words.append(word)
        else:
            self._keyword(word)

    def _keyword(self, word: ShellWord) -> None:
        text, self.plain = word.text, False
        if text in _HEADERS:
            self.header = text
        elif text in _OPENERS:
            self._open(text, word.start)
        elif text in {"then", "do"}:
            self._enter_body()
        elif text in {"else", "elif"}:
            self._other_branch(condition=text == "elif")
        elif text in _CLOSERS:
            self._close(word.end, *_CLOSERS[text])

    def _open(self, kind: str, start: int) -> None:
        top = self.stack[-1]
        always, some = self._certainty()
        frame = Compound(kind, top, always=always, some=some)
        if self.function:
            frame.in_function, frame.always = self.function, False
            frame.body = start
            self.function = ""
        frame.apart = top.apart or top.piped or kind == "(" or bool(frame.in_function)
        if kind in {"for", "select"} and len(top.loops) < _DEEPEST:
            frame.loops = (*top.loops, frame)
        if top.first is None:
            top.first = len(self.drafts)
        self.stack.append(frame)

    def _open_case(self, start: int) -> None:
        words, self.words, self.header = self.words, [], ""
        self._open("case", start)
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

    def _close(self, end: int, *kinds: str) -> None:
        self.pattern = False
        if self.stack[-1].kind in kinds:
            self.closed = self.stack.pop()
            if self.closed.body is not None:
                self.functions.append((self.closed.body, end))

    # ---- operators

    def take_operator(self, operator: str, start: int) -> None:
        """End a command, or open and close what stands in brackets."""
        if operator == "(":
            self._bracket(start)
        elif operator == ")" and self.pattern:
            self.pattern = False
            self.stack[-1].start_list()
        elif operator == ")" and self.function:
            return
        elif self.header:
            self._end_header(start)
        else:
            self._end_command(operator)
            if operator == ")":
                self._close(start + 1, "(")
            elif operator in {";;", ";&", ";;&"} and self.stack[-1].kind == "case":
                self.pattern = True

    def _bracket(self, start: int) -> None:
        if self.pattern:
            return
        if self.header == "function" or len(self.words) == 1:
            self.function, self.words, self.header = self.words[-1].text, [], ""
        elif not self.words:
            self._open("(", start)

    def _end_header(self, start: int) -> None:
        header, words = self.header, self.words
        if header == "case" and words:
            return  # its subject may be followed by a line end
        self.header, self.words = "", []
        if header == "function" and words:
            self.function = words[0].text
            if len(words) > 1 and words[1].text == "{":
                self._open("{", words[1].start)
                self.words = words[2:]
                self._end_command("\n")
        elif header in {"for", "select"}:
            self._open(header, start)
            self.loop_variables += [word.text for word in words[:1]]
            self.stack[-1].repeats = header == "for" and runs_several_times(words)
            self.stack[-1].always &= header == "for"

    def _end_command(self, operator: str) -> None:
        top, words = self.stack[-1], tuple(self.words)
        if not words and not self.closed:
            self.redirections = []
            return
        succeeds, names_rank = True, False
        if self.closed:
            succeeds, names_rank = self.closed.succeeds, self.closed.tests_rank
        if words:
            succeeds, names_rank = is_expected_to_succeed(words), self._names_rank(words)
            self._add(words)
        self.words, self.redirections, self.closed = [], [], None
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

    def _add(self, words: tuple[ShellWord, ...]) -> None:
        top = self.stack[-1]
        always, some = self._certainty()
        if top.first is None:
            top.first = len(self.drafts)
        apart = top.apart or top.piped
        count, into = count_assignments(words), tuple(self.redirections)
        command = SimpleCommand(
            words[:count], words[count:], into, always, some, piped=top.piped, apart=apart
        )
        self.drafts.append((command, top.loops))
        if self._names_rank(words):
            self.rank_names |= {m.group(1) for w in words if (m := ASSIGNED.match(w.raw))}
            self.rank_names |= {top.in_function} - {""}
        if words[count:]:
            self._leave(words[count:], always=always, some=some)

    def _certainty(self) -> tuple[bool, bool]:
        top = self.stack[-1]
        always = top.always and top.sure and not self.over
        return always, top.some or top.rank_test or self.fewer

    def _leave(self, words: tuple[ShellWord, ...], *, always: bool, some: bool) -> None:
        """``exit``, ``exec program`` and ``break`` decide about the commands behind them."""
        head, top = words[0].text, self.stack[-1]
        leaves = head in _LEAVES or (head == "exec" and len(words) > 1)
        if top.in_function or any(frame.kind == "(" for frame in self.stack[-3:]):
            leaves = False
        self.fewer |= leaves and some
        self.over |= leaves and always and not some
        for loop in top.loops[-1:] if head == "break" else top.loops:
            loop.repeats &= head != "break" and not self.over

    def _names_rank(self, words: tuple[ShellWord, ...]) -> bool:
        if names_rank(words):
            return True
        names = self.rank_names
        return bool(names) and any(names & {*_NAME.findall(word.raw)} for word in words)


_HEADERS = frozenset({"for", "select", "case", "function"})
_OPENERS = frozenset({"if", "while", "until", "{"})
_LOOPS = ("while", "until", "for", "select")
_CLOSERS = {"fi": ("if",), "done": _LOOPS, "}": ("{",), "esac": ("case",)}
_KEYWORDS = frozenset({*_HEADERS, *_OPENERS, *_CLOSERS, "then", "do", "else", "elif", "!"})

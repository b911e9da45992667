"""``run:``, read once: is it a Python program, which file, and how does a rank become it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.shell import Word, quote

_ASSIGNMENTS = re.compile(r"(?:[A-Za-z_]\w*=(?:\"[^\"$`\\]*\"|'[^']*'|[^\s'\"]*)[ \t]+)*", re.ASCII)
_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*", re.ASCII)
_OPERATORS = frozenset("();<>|&")
_SHELL = re.compile(
    r"|[!.:{]|\[\[?|case|cd|coproc|declare|echo|eval|exec|exit|export|false|for|function|if|local"
    r"|printf|read|select|set|shopt|source|test|time|trap|true|ulimit|umask|until|wait|while"
)
"""Words that are the shell's own, and no program that exec could become."""

_SEVERAL = """\
set -eo pipefail
export PYTHONUNBUFFERED=1
# a command that is told to end may save first; no further one starts after it
trap 'exit 143' TERM
trap : HUP USR1 USR2
"""
"""Before several commands: the first failure is the rank's, output comes when it is made, and the
shell waits for a command that handles a signal."""


class Program(NamedTuple):
    """The program of every rank."""

    text: str
    """Bash that becomes the program, or runs it where it is more than one command."""
    python: bool
    """Whether a launcher of Python programs starts it without being asked."""
    script: str = ""
    """The file it names, as written; empty for modules and other commands."""
    first: str = ""
    """The first word, for messages."""
    simple: bool = False
    """One command without operators: words may be added at its end."""


def with_args(program: Program, args: tuple[Word, ...]) -> str:
    """The program's bash with more words behind its own: an option and its value on one line."""
    lines = [program.text.rstrip()]
    for word in map(quote, args):
        if word.startswith("--") or len(lines) == 1:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n  ".join(lines)


class UnreadableError(ValueError):
    """A quote is not closed, or the like."""


def read(run: str) -> Program:
    r"""``train.py``, ``python train.py`` and ``-m mod`` are one thing; the rest is bash.

    >>> read("train.py --lr 1e-4").text
    'exec python -u train.py --lr 1e-4'
    >>> read("python -m pkg.train --seed $RANK").text
    'exec python -u -m pkg.train --seed $RANK'
    >>> read("nvidia-smi | head -n 1").python
    False
    """
    commands = [_command(text) for text in _lines(run)]
    if not commands:
        raise UnreadableError("no command")
    first = commands[0]
    if len(commands) == 1 and first.simple:
        # exec keeps the rank's process the program itself, so that a signal reaches it
        flag = " -u" if first.python and not first.unbuffered else ""
        text = f"{first.before}exec {first.head}{flag}{first.rest}"
        return Program(text, first.python, first.script, first.word, simple=True)
    lines = (c.before + c.head + c.rest for c in commands)
    return Program(_SEVERAL + "\n".join(lines), first.python, first.script, first.word)


class _Command(NamedTuple):
    before: str
    """Assignments before it."""
    head: str
    """The interpreter, where it is Python; else nothing."""
    rest: str
    words: list[str]
    simple: bool
    """One command without operators."""
    script: str = ""

    @property
    def word(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def python(self) -> bool:
        return bool(self.head)

    @property
    def unbuffered(self) -> bool:
        return "-u" in self.words[1:3]


def _command(text: str) -> _Command:
    words, simple = _words(text)
    start = _ASSIGNMENTS.match(text)
    before = text[: start.end()] if start else ""
    words, body = words[len(shlex.split(before)) :], text[len(before) :]
    first = words[0] if words else ""
    if _PYTHON.fullmatch(first) and body.startswith(first):
        script = next((w for w in words[1:] if not w.startswith("-")), "")
        script = script if script.endswith(".py") and "-m" not in words[1:3] else ""
        return _Command(before, first, body[len(first) :], words, simple, script)
    if first.endswith(".py"):
        return _Command(before, "python", " " + body, words, simple, first)
    if first == "-m" and len(words) > 1:
        return _Command(before, "python", " " + body, words, simple)
    return _Command(before, "", body, words, simple and not _SHELL.fullmatch(first))


def _lines(run: str) -> Iterator[str]:
    """The commands of a block, each with its continuation lines."""
    if "<<" in run:  # the text of a here-document holds no commands
        yield run
        return
    held = ""
    for line in run.split("\n"):
        held = f"{held}\n{line}" if held else line
        if not held.strip():
            held = ""
            continue
        if held.endswith("\\") or not _closed(held):
            continue
        yield held
        held = ""
    if held.strip():
        yield held


def _closed(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _words(text: str) -> tuple[list[str], bool]:
    """The words up to the first operator, and whether there is none. A comment or a here-document
    may hold half a quote; anywhere else it is a mistake."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for token in lexer:
            if token and set(token) <= _OPERATORS:
                return words, False
            words.append(token)
    except ValueError as error:
        if "#" not in text and "<<" not in text:
            raise UnreadableError(str(error)) from error
        return text.split(), False
    return words, True

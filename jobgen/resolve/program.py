"""``run:``, read once: is it a Python program, which file, and how does a rank become it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_ASSIGNMENTS = re.compile(r"(?:[A-Za-z_]\w*=(?:\"[^\"$`\\]*\"|'[^']*'|[^\s'\"]*)[ \t]+)*", re.ASCII)
_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*", re.ASCII)
_OPERATORS = frozenset("();<>|&")


@dataclass(frozen=True, slots=True)
class Program:
    """The program of every rank."""

    text: str
    """Bash that becomes the program, or runs it where it is more than one command."""
    python: bool
    """Whether a launcher of Python programs starts it without being asked."""
    script: str = ""
    """The file it names, as written; empty for modules and other commands."""
    first: str = ""
    """The first word, for messages."""


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
    words, simple = _words(run)
    start = _ASSIGNMENTS.match(run)
    before = run[: start.end()] if start else ""
    words = words[len(_split(before)) :]
    body = run[len(before) :]
    first = words[0] if words else ""
    python, script, text = _python(body, words)
    # exec keeps the rank's process the program itself, so that a signal reaches it
    text = before + ("exec " if simple and first else "") + text
    # one simple command needs neither: its own exit code is the rank's
    text = text if simple else f"set -eo pipefail\n{text}"
    return Program(text, python, script, first)


def _python(body: str, words: list[str]) -> tuple[bool, str, str]:
    """Whether it is a Python program, its file, and its text with the interpreter named."""
    first = words[0] if words else ""
    if _PYTHON.fullmatch(first) and body.startswith(first):
        flag = "" if "-u" in words[1:3] else " -u"
        script = next((w for w in words[1:] if not w.startswith("-")), "")
        script = script if script.endswith(".py") and "-m" not in words[1:3] else ""
        return True, script, first + flag + body[len(first) :]
    if first.endswith(".py"):
        return True, first, "python -u " + body
    if first == "-m" and len(words) > 1:
        return True, "", "python -u " + body
    return False, "", body


def _words(run: str) -> tuple[list[str], bool]:
    """The words up to the first operator, and whether the text is one simple command."""
    lexer = shlex.shlex(run.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    lexer.whitespace = " \t\r"
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise UnreadableError(str(error)) from error
    words: list[str] = []
    for token in tokens:
        if "\n" in token or (token and set(token) <= _OPERATORS):
            return [*words, *token.split("\n")[:1]] if "\n" in token else words, False
        words.append(token)
    return words, True


def _split(text: str) -> list[str]:
    return shlex.split(text) if text.strip() else []


def outside(script: str) -> bool:
    """Whether a relative path climbs out of the folder that it starts in."""
    depth = 0
    for part in script.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False

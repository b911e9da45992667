"""The variables that a shell text sets and uses: their values, and ``$1`` that has none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from jobgen.shell.conditions import ASSIGNED
from jobgen.shell.lexer import Lexer, ShellWord
from jobgen.shell.simple_commands import Script, SimpleCommand, read_script

DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
"""Builtins whose words may assign."""
_DEEPEST = 10
_DEEPEST_TEXT = 4
_MOST_WORDS = 2_000
_NEVER = 1 << 60
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?(?::?-([^{}]*))?\})", re.ASCII)
_ARGUMENT = r"\$(?:[1-9@*]|\{(?:[1-9][0-9]*|[@*])(?![:]?[-=+])[^}]*\})"
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=", re.ASCII)
_USED = re.compile(r"\$\{?[#!]?([A-Za-z_]\w*)", re.ASCII)
_READING = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
"""Builtins that put a value into a variable that they name."""


class ScriptVariables:
    """Name → value, as far as the text itself says so."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.arrays: set[str] = set()
        self.room = _MOST_WORDS

    def remember(self, command: SimpleCommand) -> None:
        """Keep the values that a command assigns for those behind it."""
        declares = command.words and command.words[0].text in DECLARING
        for word in command.words[1:] if declares else command.assignments:
            match = ASSIGNED.match(word.text)
            if match is None or (command.words and not declares):
                continue
            name, value = match.group(1), word.text[match.end() :]
            if value.startswith("(") and word.raw[match.end() :].startswith("("):
                value = value[1:-1]
                self.arrays.add(name)
            elif not match.group(2):
                self.arrays.discard(name)
            if match.group(2) and name in self.values:
                value = self.values[name] + (f" {value}" if name in self.arrays else value)
            self.values[name] = value

    def expand(self, words: Sequence[ShellWord], depth: int = 0) -> tuple[ShellWord, ...]:
        """The words, with those that are one variable of the text replaced by its words."""
        result: list[ShellWord] = []
        for word in words:
            value = self._value(word)
            if value is None or depth > _DEEPEST or self.room < 0:
                result.append(word)
                continue
            inner = _split(value, quotes="[" in word.text)
            self.room -= len(inner)
            moved = [w._replace(start=word.start, end=word.end) for w in inner]
            result += self.expand(moved, depth + 1)
        return tuple(result)

    def _value(self, word: ShellWord) -> str | None:
        """What a word is that holds one variable and nothing else."""
        match = _VARIABLE.fullmatch(word.text) if word.expands else None
        if match is None or (word.quoted and "[" not in word.text):
            return None
        return self.values.get(match.group(1) or match.group(2), match.group(3))

    def read_text(self, word: ShellWord) -> str:
        """The text of a word that a shell reads: of a variable its value."""
        match = _VARIABLE.fullmatch(word.text)
        known = self.values.get(match.group(1) or match.group(2)) if match else None
        return known if known is not None else word.text


def _split(value: str, *, quotes: bool) -> list[ShellWord]:
    """The words of a value; of an array, and around ``$(…)``, quotes hold them together."""
    if quotes or "$(" in value or "`" in value:
        return [token for token in Lexer(value).read_tokens() if isinstance(token, ShellWord)]
    return [ShellWord(word, 0, 0, "$" in word, raw=word) for word in value.split()]


def switches_option(words: Sequence[ShellWord], letter: str, name: str) -> bool | None:
    """Whether ``set`` switches an option on or off: ``-a``, ``+o allexport``; None: neither."""
    texts, on = [word.text for word in words], None
    for before, text in pairwise(texts if texts[:1] == ["set"] else ()):
        if re.fullmatch(rf"[-+]\w*{letter}\w*", text):
            on = text[0] == "-"
        elif before[:1] in {"-", "+"} and before[-1:] == "o" and text == name:
            on = before[0] == "-"
    return on


def find_assignments(text: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Name and value of every variable that this text may set, also in texts that it contains.

    The value is empty where only the run knows it.

    >>> list(find_assignments("export A=1; for x in a; do read -r B C; done; echo ${D:=2} k=v"))
    [('x', ''), ('D', ''), ('A', '1'), ('B', ''), ('C', '')]
    """
    script = read_script(text)
    defaults = (_DEFAULT.match(word.text) for word in script.expansions)
    yield from ((name, "") for name in script.loop_variables)
    yield from ((match.group(1), "") for match in defaults if match)
    inner = [word.text[2:-1] for word in script.expansions if word.text.startswith("$(")]
    for command in script.commands:
        yield from _list_assigned(command)
        inner += [word.text for word in command.words if word.quoted]
    for part in inner if depth < _DEEPEST_TEXT else ():
        yield from find_assignments(part, depth + 1)


def _list_assigned(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    name = command.words[0].text if command.words else ""
    for word in command.words if name in DECLARING else command.assignments:
        if match := ASSIGNED.match(word.text):
            yield match.group(1), word.text[match.end() :]
    if name in _READING:
        yield from ((w.text, "") for w in command.words[1:] if _NAME.fullmatch(w.text))


def find_unexported(script: Script) -> dict[str, ShellWord]:
    """Variables that no program gets: assigned, but not exported, or arrays; with the assignment.

    >>> script = read_script("A=1; B=2; export B; C=3 cmd; declare -x D; export E=(1)")
    >>> sorted(find_unexported(script))
    ['A', 'E']
    """
    assigned, exported = dict[str, ShellWord](), set[str]()
    for command in script.commands:
        words = [word.text for word in command.words]
        if switches_option(command.words, "a", "allexport"):
            return {}
        declares = words[:1] and words[0] in DECLARING
        exports = words[:1] == ["export"] or any(re.fullmatch(r"-\w*x\w*", w) for w in words)
        for word in command.words[1:] if declares else command.assignments:
            match = ASSIGNED.match(word.text)
            name = match.group(1) if match else word.text
            array = match is not None and word.raw[match.end() :].startswith("(")
            if declares and exports and not array:
                exported.add(name)
            elif match and (declares or not words) and name not in _USED.findall(word.text):
                assigned.setdefault(name, word)  # PATH=/x:$PATH: exported before, probably
    return {name: word for name, word in assigned.items() if name not in exported}


def find_used(script: Script) -> frozenset[str]:
    """The variables whose values a text takes.

    >>> sorted(find_used(read_script("echo ${A[$B]} '$C' $(sed -n ${D}p x)")))
    ['A', 'B', 'D']
    """
    return frozenset(name for word in script.expansions for name in _USED.findall(word.text))


def find_arguments(script: Script) -> Iterator[ShellWord]:
    """``$1``, ``"$@"`` and the like where no ``set --`` and no function gives them a value.

    >>> script = read_script('echo $1 "${2}" ${3:-x} $(basename "$@") ' + "'$4'")
    >>> [word.text for word in find_arguments(script)]
    ['$1', '${2}', '$@']
    >>> script = read_script("f() { echo $1; }; f a; set -- b; echo $1")
    >>> [word.text for word in find_arguments(script)]
    []
    """
    sets = (c.start for c in script.commands if _sets_arguments([w.text for w in c.words]))
    end = min(sets, default=_NEVER)
    for word in _list_arguments(script, 0, 0):
        inside = any(start <= word.start < stop for start, stop in script.functions)
        if word.start < end and not inside:
            yield word


def _sets_arguments(words: Sequence[str]) -> bool:
    """``set -- a b``, but not ``set -eo pipefail``."""
    before = ""
    for word in words[1:] if words[:1] == ["set"] else ():
        option = word[:1] in {"-", "+"}
        if word == "--" or not (option or before.endswith("o")):
            return True
        before = word if option else ""
    return False


def _list_arguments(script: Script, shift: int, depth: int) -> Iterator[ShellWord]:
    for word in script.expansions:
        if re.fullmatch(_ARGUMENT, word.text):
            yield word._replace(start=word.start + shift, end=word.end + shift)
        elif word.text.startswith(("$(", "`")) and depth < _DEEPEST:
            skip = 1 if word.text.startswith("`") else 2
            inner = word.text[skip:].removesuffix(word.text[0] if skip == 1 else ")")
            yield from _list_arguments(read_script(inner), shift + word.start + skip, depth + 1)

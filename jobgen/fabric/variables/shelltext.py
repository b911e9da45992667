"""Shell text → the variables that it hands to programs, each with its value and its place.

Nothing is run: a value into which the shell would put something is not known, except that of
``${X:-default}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.shell.shellwords import Word, commands

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w*:?[-=]([^${}`\"']*)\}", re.ASCII)
_INTO_CONTAINERS = re.compile(r"(?:SINGULARITY|APPTAINER)ENV_")
"""With such a prefix, a container's ranks find the rest of the name."""
_EXPORTS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RUNNERS = frozenset({"srun", "sbatch", "salloc", "mpirun", "mpiexec", "orterun"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "enroot", "singularity", "apptainer"})
_FLAGS = frozenset({"-x", "-env", "-genv"})
"""Options of MPI's starters that hand out a variable."""
_SPEAKERS = frozenset({"echo", "printf", "grep"})
_SHELLS = frozenset({"bash", "sh"})
_LONGEST = 1_000_000
_DEEPEST = 3


class Assigned(NamedTuple):
    """A variable that a program will find."""

    name: str
    value: str | None
    """None where only the run knows it."""
    start: int
    """Where the name stands in the text."""
    end: int


def exported(text: str, depth: int = 0) -> Iterator[Assigned]:
    """Every variable that this text exports or hands to a command, in order."""
    plain: dict[str, Assigned] = {}
    out: set[str] = set()
    all_out = False
    for written in commands(text[:_LONGEST]):
        # function f { export A=1; }
        opens = [word.text for word in written[:3:2]] == ["function", "{"]
        words = written[3:] if opens else written
        here = _leading(words)
        rest = words[len(here) :]
        if not rest:
            for found in here:
                plain[found.name] = found
                if all_out or found.name in out:
                    yield found
            continue
        name = rest[0].text
        if name == "set":
            all_out = _exporting(rest[1:], all_out)
        yield from here
        found_here = list(_of_command(text, rest, plain, depth))
        if name in _EXPORTS:
            out |= {found.name for found in found_here}
            out |= {w.text for w in rest[1:] if re.fullmatch(r"[A-Za-z_]\w*", w.text)}
        yield from found_here


def _exporting(words: list[Word], before: bool) -> bool:
    """Whether all that is set is exported, after ``set`` with these words."""
    for sign, word in zip(["", *(w.text for w in words)], (w.text for w in words), strict=False):
        if re.fullmatch(r"[-+]\w*a\w*", word) or (sign in {"-o", "+o"} and word == "allexport"):
            before = "-" in {word[0], sign[:1]}
    return before


def _of_command(
    text: str, rest: list[Word], plain: dict[str, Assigned], depth: int
) -> Iterator[Assigned]:
    name = rest[0].text.rpartition("/")[2]
    if name in _EXPORTS:
        yield from _declared(name, rest[1:], plain)
    elif name == "setenv":
        yield from _csh(rest[1:])
    elif name not in _SPEAKERS:
        yield from _through_env(rest)
        if name in _RUNNERS:
            yield from _options(rest[1:])
        if any(w.text.rpartition("/")[2] in _CONTAINERS for w in rest):
            yield from _contained(rest)
    if depth < _DEEPEST:
        yield from _nested(text, rest, depth)


def _declared(name: str, words: list[Word], plain: dict[str, Assigned]) -> Iterator[Assigned]:
    """What ``export``, ``declare -x`` and their like hand out; ``plain`` is what they only set."""
    flags = [w.text for w in words if w.text.startswith("-")]
    if name != "export" and not any("x" in flag for flag in flags):
        plain |= {found.name: found for found in _named(words, {})}
    elif "-n" not in flags:
        yield from _named(words, plain)


def _csh(words: list[Word]) -> Iterator[Assigned]:
    """``setenv A 1`` of the C shell."""
    if words and re.fullmatch(r"[A-Za-z_]\w*", words[0].text, re.ASCII):
        value = "" if len(words) < 2 else None if words[1].made else words[1].text
        yield Assigned(words[0].text, value, words[0].start, words[0].end)


def _through_env(words: list[Word]) -> Iterator[Assigned]:
    """``env -u X A=1 command``, wherever it stands in a command."""
    for at, word in enumerate(words):
        if word.text.rpartition("/")[2] != "env" or word.quoted:
            continue
        rest = words[at + 1 :]
        while rest and rest[0].text.startswith("-"):
            rest = rest[2 if rest[0].text in {"-u", "-C"} else 1 :]
        yield from _leading(rest, quoted=True)
        return


def _nested(text: str, rest: list[Word], depth: int) -> Iterator[Assigned]:
    """``bash -c 'export A=1; …'``, wherever it stands in a command; ``ssh host '…'``."""
    for shell, flag, script in zip(rest, rest[1:], rest[2:], strict=False):
        if shell.text.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-\w*c", flag.text):
            yield from _inside(text, script, depth)
    if rest[0].text == "ssh":
        for word in rest:
            if word.quoted:
                yield from _inside(text, word, depth)


def _inside(text: str, script: Word, depth: int) -> Iterator[Assigned]:
    inner = text[script.start + 1 : script.end - 1] if script.quoted else script.text
    shift = script.start + script.quoted
    for found in exported(inner, depth + 1):
        yield found._replace(start=found.start + shift, end=found.end + shift)


def _named(words: list[Word], plain: dict[str, Assigned]) -> Iterator[Assigned]:
    """``export A=1 "B=2" C`` after ``C=3``."""
    for word in words:
        found = _assigned(word, quoted=True)
        if found is not None:
            yield found
        elif word.text in plain:
            yield plain.pop(word.text)


def _options(words: list[Word]) -> Iterator[Assigned]:
    """``srun --export=ALL,A=1``, ``mpirun -x A=1`` and ``mpiexec -genv A 1``."""
    for before, word, after in zip([None, *words], words, [*words[1:], None], strict=False):
        flag = before.text if before is not None else ""
        if flag in _FLAGS:
            found = _assigned(word, quoted=True)
            if found is not None:
                yield found
            elif flag != "-x" and after is not None:
                value = None if after.made else after.text
                yield Assigned(word.text, value, word.start, word.end)
        elif flag == "--export" or word.text.startswith("--export="):
            yield from listed(word, r",")


def _contained(words: list[Word]) -> Iterator[Assigned]:
    """``docker run -e A=1 --env=B=2`` and ``apptainer exec --env A=1,B=2``."""
    several = any(w.text.rpartition("/")[2] in {"singularity", "apptainer"} for w in words)
    comma = r",(?=[A-Za-z_]\w*=)" if several else r"(?!)"
    for before, word in zip([None, *words], words, strict=False):
        if (before is not None and before.text in {"-e", "--env"}) or word.text.startswith(
            "--env="
        ):
            yield from listed(word, comma)


def listed(word: Word, comma: str) -> Iterator[Assigned]:
    """The assignments of a list such as ``--export=ALL,A=1``; ``comma`` is what parts them."""
    text = re.sub(r"^--[a-z]+=", "", word.text)
    for part in re.split(comma, text):
        match = _ASSIGNED.match(part)
        if match:
            value = part[match.end() :]
            unknown = word.made and ("$" in value or "`" in value)
            yield Assigned(match.group(1), None if unknown else value, word.start, word.end)


def _leading(words: list[Word], *, quoted: bool = False) -> list[Assigned]:
    """The assignments before a command."""
    found = []
    for word in words:
        one = _assigned(word, quoted=quoted)
        if one is None:
            break
        found.append(one)
    return found


def _assigned(word: Word, *, quoted: bool = False) -> Assigned | None:
    """``A=1`` as a word; ``quoted``: also ``"A=1"``, which only commands take apart."""
    match = _ASSIGNED.match(word.text)
    if match is None or (word.quoted and not quoted):
        return None
    value: str | None = word.text[match.end() :]
    if match.group(2):
        value = None
    elif word.made:
        default = _DEFAULTED.fullmatch(word.text[match.end() :])
        value = default.group(1) if default else None
    name, start = _INTO_CONTAINERS.sub("", match.group(1)), word.start + word.quoted
    return Assigned(name, value, start, start + len(match.group(1)))

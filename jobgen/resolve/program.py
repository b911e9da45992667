"""``run:``, read once: is it a Python program, which file, and how does a rank become it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen import payload
from jobgen.model.bundle import BundleFile
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Word, quote
from jobgen.shell.lexer import ShellWord
from jobgen.shell.programs import read_programs
from jobgen.shell.python_command import is_python, read_python_command
from jobgen.shell.simple_commands import SimpleCommand, read_script

_SHELL = re.compile(
    r"|[!.:{]|\[\[?|alias|builtin|case|cd|command|coproc|declare|echo|eval|exec|exit|export|false|for"
    r"|function|if|let|local|mapfile|popd|printf|pushd|read|readonly|select|set|shopt|source|test"
    r"|time|trap|true|type|typeset|ulimit|umask|unset|until|wait|while"
)
"""Words that are the shell's own, and no program that exec could become."""

_SEVERAL = """\
set -eo pipefail
export PYTHONUNBUFFERED=1
# on SIGTERM, the running command may save first; no further command starts
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
    first: str = ""
    """The first word, for messages."""
    simple: bool = False
    """One command without operators: words may be added at its end."""
    argv: tuple[str, ...] = ()
    """The Python file or module with its arguments, or the whole command; empty if not simple."""


def append_args(program: Program, args: tuple[Word, ...]) -> str:
    """The program's bash with more words behind its own: an option and its value on one line."""
    lines = [program.text.rstrip()]
    for word in map(quote, args):
        if word.startswith("--") or len(lines) == 1:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n  ".join(lines)


def wrap(program: Program, wrapper: str) -> Program | None:
    r"""The program started by a Python file of the bundle; None if that is not certain to work.

    >>> wrap(read("HF_HUB_OFFLINE=1 python -W ignore train.py --lr 1"), "w.py").text
    'HF_HUB_OFFLINE=1 exec python -u -W ignore "$JOBGEN_BUNDLE_DIR/w.py" train.py --lr 1'
    """
    programs = read_programs(program.text) if program.simple else []
    started = programs[0] if len(programs) == 1 else None
    if started is None or started.launcher or not is_python(started.words[0].text):
        return None
    word = started.words[started.at - bool(started.module)]
    if started.module and word.text != "-m":
        return None
    start = word.start
    text = f'{program.text[:start]}"$JOBGEN_BUNDLE_DIR/{wrapper}" {program.text[start:]}'
    return program._replace(text=text)


def bundle_script(name: str) -> BundleFile:
    """One of jobgen's scripts as a file of the bundle."""
    return BundleFile(name, payload.text(name).encode())


def read(run: str, command: Sequence[str] = ()) -> Program:
    r"""``train.py``, ``python train.py`` and ``-m mod`` are one thing; the rest is bash.

    >>> read("train.py --lr 1e-4").text
    'exec python -u train.py --lr 1e-4'
    >>> read("python -m pkg.train --seed $RANK").text
    'exec python -u -m pkg.train --seed $RANK'
    >>> read("nvidia-smi | head -n 1").python
    False

    ``command`` stands before what is not a program, but a tool's recipe:

    >>> read("sft.yaml --lr 1", ("python", "-m", "tool.train")).text
    'exec python -u -m tool.train sft.yaml --lr 1'
    """
    run = " ".join([*command, run])
    script = read_script(run)
    heads = [command for command in script.commands if command.words]
    first = heads[0].words if heads else ()
    python, word = _is_python(first), first[0].text if first else ""
    if script.is_single and first and not _SHELL.fullmatch(word):
        return Program(
            _become(run, heads[0]), python, word, simple=True, argv=_list_argv(run, first)
        )
    return Program(_SEVERAL + _with_interpreters(run, heads), python, word)


def _is_python(words: Sequence[ShellWord]) -> bool:
    return bool(words) and (is_python(words[0].text) or _lacks_interpreter(words))


def _lacks_interpreter(words: Sequence[ShellWord]) -> bool:
    """``train.py`` and ``-m module``."""
    return words[0].text.endswith(".py") or (words[0].text == "-m" and len(words) > 1)


def _list_argv(run: str, words: Sequence[ShellWord]) -> tuple[str, ...]:
    programs = [program for program in read_programs(run) if program.launcher is None]
    if len(programs) == 1:
        words = programs[0].words[programs[0].at :]
    return tuple(word.text for word in words)


def _become(run: str, command: SimpleCommand) -> str:
    """The command after ``exec``, so that the rank's process is the program and gets signals."""
    words = command.words
    before = run[command.start : words[0].start]
    head, rest = words[0], run[words[0].end : words[-1].end]
    if not _is_python(words):
        return f"{before}exec {head.raw}{rest}"
    if _lacks_interpreter(words):
        return f"{before}exec python -u {head.raw}{rest}"
    options = words[1 : read_python_command(words).at]
    flag = "" if "-u" in [word.text for word in options] else " -u"
    return f"{before}exec {head.raw}{flag}{rest}"


def _with_interpreters(run: str, heads: Sequence[SimpleCommand]) -> str:
    """The text, with Python before each file and module that stands without it."""
    text, end = "", 0
    for words in (command.words for command in heads):
        if _lacks_interpreter(words):
            text += f"{run[end : words[0].start]}python "
            end = words[0].start
    return text + run[end:].rstrip()

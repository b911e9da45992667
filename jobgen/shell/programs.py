"""Shell text → the Python programs and launchers that it starts, wherever they hide.

``env``, ``exec``, ``numactl``, ``uv run``, ``bash -c '…'``, ``eval`` and variables that the text
itself sets are seen through. Scripts that it calls are not opened.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobgen.shell.conditions import program_words, starts_assignment
from jobgen.shell.foreign_launchers import LAUNCHERS, MODULES, ForeignLauncher, read_launched
from jobgen.shell.python_command import is_python, read_python_command
from jobgen.shell.script_variables import ScriptVariables, is_variable
from jobgen.shell.shellwords import Word
from jobgen.shell.simple_commands import SimpleCommand, read_commands
from jobgen.shell.wrappers import (
    DIRECT,
    ELSEWHERE,
    HARMLESS,
    MODULE_RUNNERS,
    NAMED,
    SHELLS,
    SWITCHES,
)

_LONGEST = 1_000_000
_DEEPEST = 10
_SHELL_DEPTH = 3
"""A shell inside of a shell counts so much: its text is read anew."""
_CHANGES = frozenset({"export", "declare", "typeset", "unset"})
_RENDEZVOUS = re.compile(
    r"-i|--ignore-environment|(?:(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|TORCHELASTIC_\w+)"
    r"(?:=.*)?",
    re.DOTALL,
)
"""Words that change which ranks a program meets, before a command and behind env or export."""
_WHICH = re.compile(r"[$`]\(?(?:which|command -v|type -p)\s+([\w./-]+)[)`]")


class StartedProgram(NamedTuple):
    """A Python program or a launcher that a command starts."""

    name: str
    """As people call it: ``train.py``, ``pkg.train``, ``torchrun``, ``accelerate launch``."""
    words: tuple[Word, ...]
    """From the interpreter, the script or the launcher on."""
    start: int
    """Where the first of these stands in the text."""
    end: int
    command: SimpleCommand
    """When it runs."""
    rendezvous: int
    """How often commands before it have changed RANK, MASTER_PORT or the like."""
    own_rendezvous: bool = False
    """Whether such variables are set or unset for this command alone."""
    folder: str | None = None
    """Where it runs, below the workdir; None where that is not certain."""
    maybe_made: bool = False
    """Whether a command before it may have made its file."""
    script: str = ""
    """The Python file, where it is one; of a launcher, the one that its ranks run."""
    module: str = ""
    launcher: ForeignLauncher | None = None
    alone: str = ""
    """The command without the launcher and its options; empty where that is not certain."""
    spans_nodes: bool = True
    """Of a launcher: whether its options name other nodes, or cannot be known."""


def read_programs(text: str) -> list[StartedProgram]:
    """The programs that this text starts, in order.

    >>> [p.name for p in read_programs("cd x && A=1 python -W ignore train.py; nvidia-smi")]
    ['train.py']
    >>> [(p.name, p.alone) for p in read_programs("exec torchrun --nnodes 2 train.py --lr 1")]
    [('torchrun', 'train.py --lr 1')]
    """
    return list(_Reading().read(text[:_LONGEST], 0))


class _Reading:
    """What is known on the way through a text: its variables, and the folder."""

    def __init__(self) -> None:
        self.variables = ScriptVariables()
        self.rendezvous = 0
        self.folder: str | None = ""
        self.makes_files = False

    def read(self, text: str, depth: int) -> Iterator[StartedProgram]:
        """The programs of a text, which may stand inside of another."""
        for command in read_commands(text):
            for word in command.words:
                self.variables.remember(word)
            words = _complete(self.variables.expand(program_words(command.words)))
            before = command.words[: len(command.words) - len(program_words(command.words))]
            if not words or words[0].text in _CHANGES:
                self.rendezvous += _changes_rendezvous(command.words)
            else:
                started = self._starts(text, words, command, depth)
                yield from (_with_variables(one, before) for one in started)
            if words:
                self._go_on(text, words, command)

    def _go_on(self, text: str, words: tuple[Word, ...], command: SimpleCommand) -> None:
        """Note what a command changes for those behind it."""
        name = _base(words[0])
        if name in {"cd", "pushd", "popd"}:
            self._enter(words, command)
        python = is_python(words[0].text) or name.endswith(".py")
        writes = name in {"echo", "printf"} and ">" in text
        self.makes_files |= writes or not (python or name in HARMLESS)

    def _enter(self, words: tuple[Word, ...], command: SimpleCommand) -> None:
        target = words[1].text if len(words) == 2 else "-"
        known = not words[-1].made and not target.startswith(("/", "~", "-"))
        if is_variable(target) and "JOBGEN_WORK_DIR" in target:
            self.folder, target, known = "", ".", True
        if not known or self.folder is None or command.apart or not command.always:
            self.folder = None
            return
        folder = posixpath.normpath(posixpath.join(self.folder, target))
        self.folder = None if folder.startswith("..") else folder

    # ---- commands inside of commands

    def _starts(
        self, text: str, words: tuple[Word, ...], command: SimpleCommand, depth: int
    ) -> Iterator[StartedProgram]:
        name = _base(words[0])
        if depth > _DEEPEST:
            return
        start, end = words[0].start, words[0].end
        here = StartedProgram(name, words, start, end, command, self.rendezvous)
        here = here._replace(folder=self.folder, maybe_made=self.makes_files)
        if name in SHELLS:
            yield from self._shell(text, here, depth)
        elif name == "eval" and len(words) > 1:
            script = " ".join(word.text for word in words[1:])
            yield from self._inside(text, here, words[1], depth, script)
        elif name in DIRECT or name in NAMED or _is_own_script(words[0]):
            yield from self._wrapped(text, here, depth)
        elif name in LAUNCHERS:
            yield from self._launched(text, here, LAUNCHERS[name], 1, depth)
        elif is_python(words[0].text):
            yield from self._python(text, here, depth)
        elif words[0].text.endswith(".py"):
            yield here._replace(name=words[0].text, script=words[0].text)

    def _shell(self, text: str, here: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """``bash -lc 'script'``."""
        for flag, word in zip(here.words[1:], here.words[2:], strict=False):
            if re.fullmatch(r"-\w*c", flag.text):
                yield from self._inside(text, here, word, depth, self.variables.read_text(word))
                return
            if not flag.text.startswith(("-", "+")):
                yield from self._wrapped(text, here, depth)
                return

    def _inside(
        self, text: str, here: StartedProgram, word: Word, depth: int, script: str
    ) -> Iterator[StartedProgram]:
        """The programs of a script that is one word of this text."""
        if depth >= _DEEPEST:
            return
        folder = self.folder
        verbatim = word.quoted and text[word.start + 1 : word.end - 1] == script
        for one in self.read(script, depth + _SHELL_DEPTH):
            start, end = word.start, word.end
            if verbatim:
                start, end = one.start + word.start + 1, one.end + word.start + 1
            yield one._replace(start=start, end=end, command=_both(here.command, one.command))
        self.folder = folder

    def _wrapped(self, text: str, here: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """The command behind ``env -u X A=1``, ``numactl -N 0``, ``uv run --with x``."""
        words, named = here.words, here.name in NAMED
        elsewhere = here.name in ELSEWHERE
        assigned = []
        for at in range(1, len(words)):
            before, word = words[at - 1].text, words[at]
            module = here.name in MODULE_RUNNERS and word.text in {"-m", "--module"}
            value = named and before.startswith("-") and "=" not in before
            if not module and value and before not in SWITCHES:
                continue
            if starts_assignment(word.text) or before == "-u" or word.text == "-i":
                assigned.append(word)
            if module or _starts_something(word):
                python = (word._replace(text="python", raw="python"),) if module else ()
                for one in self._starts(text, (*python, *words[at:]), here.command, depth + 1):
                    folder = None if elsewhere else one.folder
                    yield _with_variables(one._replace(folder=folder), assigned)
                return

    def _python(self, text: str, here: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        runs = read_python_command(here.words)
        launcher = MODULES.get(runs.module) or LAUNCHERS.get(runs.script.rpartition("/")[2])
        if launcher is not None:
            name = f"python -m {runs.module}" if runs.module else runs.script
            started = here._replace(name=name)
            end = here.words[min(runs.at, len(here.words) - 1)].end
            yield from self._launched(text, started._replace(end=end), launcher, runs.at + 1, depth)
        elif runs.module in MODULE_RUNNERS:
            behind = here._replace(name=runs.module, words=here.words[runs.at :])
            yield from self._wrapped(text, behind, depth)
        elif runs.script or runs.module:
            name, word = runs.script or runs.module, here.words[runs.at]
            yield here._replace(
                name=name,
                start=word.start,
                end=word.end,
                script=runs.script,
                module=runs.module,
            )

    def _launched(
        self, text: str, here: StartedProgram, launcher: ForeignLauncher, at: int, depth: int
    ) -> Iterator[StartedProgram]:
        parts = read_launched(launcher, here.words, at)
        if parts is None:
            return
        program, alone, script = here.words[parts.program :], "", ""
        if parts.certain and program:
            alone = launcher.keeps + "python -m " * parts.module + " ".join(w.raw for w in program)
            if not parts.module and _starts_something(program[0]):
                inner = next(self._starts(text, program, here.command, depth + 1), None)
                script = inner.script if inner else ""
                if inner is not None and inner.launcher is not None:
                    alone = inner.alone
        name, end = here.name, here.end
        if launcher.subcommands:
            name, end = f"{name} {here.words[at].text}", here.words[at].end
        yield here._replace(
            name=name,
            end=end,
            launcher=launcher,
            script=script,
            alone=" ".join(alone.replace("\\\n", " ").split("\n")),
            spans_nodes=parts.spans_nodes,
        )


def _complete(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words with the interpreter that ``run: -m module`` leaves out."""
    if not words or words[0].text != "-m":
        return words
    return (words[0]._replace(text="python", raw="python"), *words)


def _changes_rendezvous(words: Sequence[Word]) -> bool:
    return any(_RENDEZVOUS.fullmatch(word.text) for word in words)


def _with_variables(program: StartedProgram, before: Sequence[Word]) -> StartedProgram:
    """The program with what is set for it alone."""
    own = program.own_rendezvous or _changes_rendezvous(before)
    sets = "".join(f"{word.raw} " for word in before if starts_assignment(word.text))
    alone = sets + program.alone if program.alone else ""
    return program._replace(own_rendezvous=own, alone=alone)


def _base(word: Word) -> str:
    """The name of a command: without its folder, and behind ``$(which …)``."""
    match = _WHICH.fullmatch(word.text)
    return (match.group(1) if match else word.text).rpartition("/")[2]


def _is_own_script(word: Word) -> bool:
    """``./wrapper.sh``, which may start the command behind it."""
    known = _base(word) in LAUNCHERS or is_python(word.text)
    return "/" in word.text and not known and not word.text.endswith(".py")


def _starts_something(word: Word) -> bool:
    """Whether a command known here begins with this word."""
    name, text = _base(word), word.text
    if text.startswith("-") or starts_assignment(text):
        return False
    known = name in LAUNCHERS or name in SHELLS or name in DIRECT or name in NAMED
    return known or is_python(text) or text.endswith(".py")


def _both(outer: SimpleCommand, inner: SimpleCommand) -> SimpleCommand:
    """When a command runs that stands inside of another."""
    return inner._replace(
        always=outer.always and inner.always,
        some_ranks=outer.some_ranks or inner.some_ranks,
        repeated=outer.repeated or inner.repeated,
        background=outer.background or inner.background,
        piped=outer.piped or inner.piped,
    )

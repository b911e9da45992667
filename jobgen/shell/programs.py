"""Shell text → the programs that it starts, wherever they hide; the one reader of what runs.

``env``, ``exec``, ``numactl``, ``uv run``, ``bash -c '…'``, ``eval``, ``ssh`` and variables that
the text itself sets are seen through. Scripts that it calls are not opened.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from jobgen.shell.conditions import ASSIGNED
from jobgen.shell.foreign_launchers import LAUNCHERS, MODULES, ForeignLauncher, read_launched
from jobgen.shell.lexer import ShellWord
from jobgen.shell.python_command import is_python, read_python_command
from jobgen.shell.script_variables import ScriptVariables
from jobgen.shell.simple_commands import Move, SimpleCommand, read_script
from jobgen.shell.started_program import SHELL_VALUED, StartedProgram
from jobgen.shell.wrappers import (
    DIRECT,
    ELSEWHERE,
    HARMLESS,
    MODULE_RUNNERS,
    NAMED,
    PREFIXES,
    SHELLS,
    SWITCHES,
    find_shell,
    name_command,
    read_prefix,
    skip_options,
    starts_known,
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
_QUOTES = frozenset({"grep", *HARMLESS}) - {"env", "command"}
"""Commands whose words are text."""


def read_programs(text: str) -> list[StartedProgram]:
    """The Python programs and launchers that this text starts, in order.

    >>> [p.name for p in read_programs("cd x && A=1 python -W ignore train.py; nvidia-smi")]
    ['train.py']
    >>> [(p.name, p.alone) for p in read_programs("exec torchrun --nnodes 2 train.py --lr 1")]
    [('torchrun', 'train.py --lr 1')]
    """
    return [program for program in read_started(text) if program.is_training]


def read_started(text: str) -> Iterator[StartedProgram]:
    """All that this text starts, in order; behind each program those that it starts itself.

    >>> [p.name for p in read_started("cd x && srun numactl -l python train.py")]
    ['cd', 'srun', 'numactl', 'train.py']
    """
    return _Reading().read(text[:_LONGEST], 0, None, None)


class _Reading:
    """What is known on the way through a text: its variables, and the folder."""

    def __init__(self) -> None:
        self.variables = ScriptVariables()
        self.rendezvous = 0
        self.folder: str | None = ""
        self.makes_files = False
        self.before: tuple[SimpleCommand, ...] = ()

    def read(
        self, text: str, depth: int, starter: StartedProgram | None, move: Move | None
    ) -> Iterator[StartedProgram]:
        """What a text starts, which may stand inside of another."""
        script = read_script(text)
        commands = script.commands
        if starter is not None and move is not None:
            commands = tuple(command.stand_in(starter.command, move) for command in commands)
        for command in commands:
            self.variables.remember(command)
            words = self.variables.expand(command.words)
            if words and words[0].text == "-m":  # run: -m module leaves the interpreter out
                words = (_at(words[0], _PYTHON), *words)
            if not words or words[0].text in _CHANGES:
                self.rendezvous += _changes_rendezvous((*command.assignments, *words))
            program = self._start(words, command, starter, command.assignments)
            yield from self._unfold(program, depth)
            if words:
                self._go_on(program, writes=script.writes)
            if starter is None:
                self.before += (command,)

    def _start(
        self,
        words: tuple[ShellWord, ...],
        command: SimpleCommand,
        starter: StartedProgram | None,
        assignments: Sequence[ShellWord] = (),
        changes: Sequence[ShellWord] = (),
    ) -> StartedProgram:
        first, name = (words or command.assignments)[0], name_command(words[0]) if words else ""
        own, folder = _changes_rendezvous((*assignments, *changes)), self.folder
        if starter is not None:
            own |= starter.own_rendezvous or starter.name == "ssh"
        if starter is not None and (starter.name in ELSEWHERE or starter.folder is None):
            folder = None
        set_alone, now = tuple(assignments), (self.rendezvous, own, folder, self.makes_files)
        return StartedProgram(
            name, words, first.start, first.end, command, starter, set_alone, *now
        )

    def _go_on(self, program: StartedProgram, *, writes: bool) -> None:
        """Note what a command changes for those behind it."""
        name, words, command = program.name, program.words, program.command
        if name in {"cd", "pushd", "popd"}:
            self._enter(words, command)
        python = is_python(words[0].text) or name.endswith(".py")
        speaks = name in {"echo", "printf"} and writes
        self.makes_files |= speaks or not (python or name in HARMLESS)

    def _enter(self, words: tuple[ShellWord, ...], command: SimpleCommand) -> None:
        target = words[1].text if len(words) == 2 else "-"
        known = not words[-1].expands and not target.startswith(("/", "~", "-"))
        if target.strip("${}") == "JOBGEN_WORK_DIR":
            self.folder, target, known = "", ".", True
        if not known or self.folder is None or command.apart or not command.always:
            self.folder = None
            return
        folder = posixpath.normpath(posixpath.join(self.folder, target))
        self.folder = None if folder.startswith("..") else folder

    # ---- commands inside of commands

    def _unfold(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """The program, and all that it starts."""
        name, text = program.name, program.words[0].text if program.words else ""
        if depth > _DEEPEST:
            return
        if name in LAUNCHERS:
            yield from self._launched(program, LAUNCHERS[name], 1, depth)
        elif is_python(text):
            yield from self._python(program, depth)
        elif text.endswith(".py"):
            yield program._replace(name=text, script=text)
        else:
            yield program
            other = _Reading._wrapped if "/" in text else _Reading._unknown
            yield from _RULES.get(name, other)(self, program, depth)

    def _hand_on(
        self,
        program: StartedProgram,
        words: tuple[ShellWord, ...],
        depth: int,
        assignments: Sequence[ShellWord] = (),
        changes: Sequence[ShellWord] = (),
    ) -> Iterator[StartedProgram]:
        """What another command starts with these of its words."""
        if words:
            inner = self._start(words, program.command, program, assignments, changes)
            yield from self._unfold(inner, depth + 1)

    def _shell(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """``bash -lc 'script'``, ``bash script``, ``bash <<EOF``."""
        words, at = program.words, skip_options(program.words, SHELL_VALUED)
        documents = [r.body for r in program.command.redirections if r.body is not None]
        reads = any(re.fullmatch(r"-\w*c\w*", word.text) for word in words[1:at])
        if at < len(words) and not reads:
            yield from self._wrapped(program, depth)
            return
        for script in (*words[at:], *documents[-1:])[:1]:
            yield from self._inside(program, script, self.variables.read_text(script), depth)

    def _eval(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        words = program.words[1:]
        script = " ".join(self.variables.read_text(word) for word in words)
        for word in words[:1]:
            yield from self._inside(program, word, script, depth)

    def _ssh(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """``ssh host 'script'``, ``ssh host command``."""
        scripts = [word for word in program.words[1:] if word.quoted]
        for word in scripts:
            yield from self._inside(program, word, word.text, depth)
        if not scripts:
            yield from self._wrapped(program, depth)

    def _unknown(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """``any-command bash -c 'script'``."""
        at = 0 if program.name in _QUOTES else find_shell(program.words)
        yield from self._hand_on(program, program.words[at:] if at else (), depth)

    def _inside(
        self, program: StartedProgram, word: ShellWord, script: str, depth: int
    ) -> Iterator[StartedProgram]:
        """What a script starts that is one word of this text."""
        if depth >= _DEEPEST:
            return
        folder, skip = self.folder, int(word.quoted)
        verbatim = word.end - word.start == len(script) + 2 * skip

        def move(inner: ShellWord) -> ShellWord:
            if not verbatim:
                return inner._replace(start=word.start, end=word.end)
            shift = word.start + skip
            return inner._replace(start=inner.start + shift, end=inner.end + shift)

        yield from self.read(script, depth + _SHELL_DEPTH, program, move)
        self.folder = folder

    def _prefixed(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """The command behind ``env -u X A=1``, ``exec -a name``, ``command``."""
        words, (at, end) = program.words, read_prefix(program.name, program.words)
        changes = words[1:at] if program.name == "env" else ()
        yield from self._hand_on(program, words[end:], depth, words[at:end], changes)

    def _wrapped(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        """The command behind ``numactl -N 0``, ``uv run --with x``, ``docker run -e A=1 image``."""
        words, named, changes = program.words, program.name in NAMED, []
        for at in range(1, len(words)):
            before, word = words[at - 1].text, words[at]
            module = program.name in MODULE_RUNNERS and word.text in {"-m", "--module"}
            value = named and before.startswith("-") and "=" not in before
            if not module and value and before not in SWITCHES:
                continue
            if named and word.text == "exec":  # apptainer's word, not the shell's
                continue
            if ASSIGNED.match(word.text) and program.name in ELSEWHERE:
                changes.append(word)
            if module or starts_known(word):
                inner = (_at(word, _PYTHON), *words[at:]) if module else words[at:]
                yield from self._hand_on(program, inner, depth, changes)
                return

    def _python(self, program: StartedProgram, depth: int) -> Iterator[StartedProgram]:
        words = program.words
        runs = read_python_command(words)
        launcher = MODULES.get(runs.module) or LAUNCHERS.get(runs.script.rpartition("/")[2])
        if launcher is not None:
            name = f"python -m {runs.module}" if runs.module else runs.script
            end = words[min(runs.at, len(words) - 1)].end
            named = program._replace(name=name, end=end)
            yield from self._launched(named, launcher, runs.at + 1, depth)
        elif runs.module in MODULE_RUNNERS:
            runner = program._replace(name=runs.module, words=words[runs.at :])
            yield runner
            yield from self._wrapped(runner, depth)
        elif runs.script or runs.module:
            name, word = runs.script or runs.module, words[runs.at]
            found = program._replace(name=name, start=word.start, end=word.end, at=runs.at)
            yield found._replace(script=runs.script, module=runs.module)
        else:
            yield program

    def _launched(
        self, program: StartedProgram, launcher: ForeignLauncher, at: int, depth: int
    ) -> Iterator[StartedProgram]:
        words = program.words
        parts = read_launched(launcher, words, at)
        if parts is None:
            yield program
            return
        if launcher.subcommands:
            name = f"{program.name} {words[at].text}"
            program = program._replace(name=name, end=words[at].end)
        program = program._replace(
            launcher=launcher,
            spans_nodes=parts.spans_nodes,
            options=parts.options,
            before=() if program.starter else self.before,
        )
        behind = words[parts.program :]
        python = [_at(behind[0], word) for word in (_PYTHON, _MODULE)] if parts.module else []
        inner = list(self._hand_on(program, (*python, *behind), depth))
        if parts.certain and behind:
            known = not parts.module and starts_known(behind[0])
            first = next((p for p in inner if known and (p.script or p.launcher)), None)
            alone = "python -m " * parts.module + " ".join(w.raw for w in behind)
            alone = _list_assignments(program) + alone.replace("\\\n", " ").replace("\n", " ")
            if first is not None:
                alone = first.alone if first.launcher else alone
                program = program._replace(script=first.script)
            program = program._replace(alone=alone)
        yield program
        yield from inner


_RULES = {
    **dict.fromkeys((*DIRECT, *NAMED), _Reading._wrapped),
    **dict.fromkeys(PREFIXES, _Reading._prefixed),
    **dict.fromkeys(SHELLS, _Reading._shell),
    "eval": _Reading._eval,
    "ssh": _Reading._ssh,
}
"""Command → how to find what it starts."""
_PYTHON = ShellWord("python", 0, 0, raw="python")
_MODULE = ShellWord("-m", 0, 0, raw="-m")


def _changes_rendezvous(words: Sequence[ShellWord]) -> bool:
    return any(_RENDEZVOUS.fullmatch(word.text) for word in words)


def _list_assignments(program: StartedProgram) -> str:
    """What is set for a program alone, as it is written."""
    lineage = [*program.list_starters()][::-1]
    return "".join(f"{w.raw} " for one in (*lineage, program) for w in one.assignments)


def _at(place: ShellWord, word: ShellWord) -> ShellWord:
    """A word that is not written, at the place of one that is."""
    return word._replace(start=place.start, end=place.end)

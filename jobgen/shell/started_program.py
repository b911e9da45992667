"""A program that a shell text starts: its words, when and where it runs, and who starts it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.shell.foreign_launchers import ForeignLauncher
from jobgen.shell.lexer import ShellWord
from jobgen.shell.simple_commands import SimpleCommand
from jobgen.shell.wrappers import SHELLS, skip_options

SHELL_VALUED = r"[-+]\w*[oO]|--rcfile|--init-file"
"""Options of a shell that take the next word."""


class StartedProgram(NamedTuple):
    """A program or builtin that a command starts."""

    name: str
    """As people call it: ``train.py``, ``pkg.train``, ``numactl``, ``accelerate launch``."""
    words: tuple[ShellWord, ...]
    """From the interpreter, the script or the command on."""
    start: int
    """Where the first of these stands in the text."""
    end: int
    command: SimpleCommand
    """When it runs."""
    starter: StartedProgram | None
    """What starts it, where the shell does not do so itself: ``env``, ``srun``, ``bash -c``."""
    assignments: tuple[ShellWord, ...]
    """Variables that are set for it alone, but for those of its starter."""
    rendezvous: int
    """How often commands before it have changed RANK, MASTER_PORT or the like."""
    own_rendezvous: bool
    """Whether such variables are set or unset for this program alone."""
    folder: str | None
    """Where it runs, below the workdir; None where that is not certain."""
    maybe_made: bool
    """Whether a command before it may have made its file."""
    script: str = ""
    """The Python file, where it is one; of a launcher, the one that its ranks run."""
    module: str = ""
    at: int = 0
    """Index of the script's or module's word."""
    launcher: ForeignLauncher | None = None
    alone: str = ""
    """The command without the launcher and its options; empty where that is not certain."""
    spans_nodes: bool = True
    """Of a launcher: whether its options name other nodes, or cannot be known."""
    options: Mapping[str, str] = {}
    """Of a launcher: its options without dashes, ``_`` for ``-`` → value; empty for a flag."""
    before: tuple[SimpleCommand, ...] = ()
    """Of a launcher that the text starts itself: the commands before it."""

    def list_starters(self) -> Iterator[StartedProgram]:
        """What starts it, what starts that, and so on."""
        starter = self.starter
        while starter is not None:
            yield starter
            starter = starter.starter

    @property
    def is_training(self) -> bool:
        """Whether it is a Python program or a launcher, and no launcher starts it."""
        known = self.script or self.module or self.launcher
        return bool(known) and all(starter.launcher is None for starter in self.list_starters())

    @property
    def shell_script(self) -> str:
        """The file of ``bash run.sh``, ``./run.sh``, ``source env.sh``; empty where it is none."""
        words = self.words
        if not words or self.script:
            return ""
        at = 0
        if self.name in SHELLS:
            at = skip_options(words, SHELL_VALUED)
            if any(re.fullmatch(r"-\w*[cs]\w*", word.text) for word in words[1:at]):
                return ""
        elif self.name in {"source", "."}:
            at = 1
        if at >= len(words) or words[at].expands:
            return ""
        file = words[at].text
        return file if (at and self.name in SHELLS) or file.endswith(".sh") else ""

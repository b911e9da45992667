"""When commands run: what a command says about those behind it, and what holds in a block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.shell.lexer import ShellWord

ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^]=]*\])?(\+?)=", re.ASCII)
"""The beginning of a word that sets a variable, as it is written."""
_RANKS = re.compile(
    r"(?<![A-Za-z0-9_])(RANK|(LOCAL|GROUP|NODE|ROLE)_RANK|SLURM_(PROCID|LOCALID|NODEID)|PMIX?_RANK"
    r"|JOBGEN_(NODE_)?RANK|OMPI_COMM_WORLD(_LOCAL|_NODE)?_RANK|SLURMD_NODENAME|HOSTNAME"
    r"|hostname)(?![A-Za-z0-9_])"
)
"""What differs between ranks or nodes."""
_DOERS = re.compile(
    r"\.|:|cd|pushd|popd|source|export|declare|local|readonly|unset|set|shopt|ulimit|umask|trap|eval"
    r"|module|ml|spack|conda|mamba|pip3?|uv|poetry|echo|printf|date|sleep|wait|env|exec|time|nohup"
    r"|rm|cp|mv|ln|tar|unzip|rsync|git|curl|wget|tee|cat|touch|chmod|nvidia-smi|nproc|hostname|mkdir"
    r"|bash|sh|numactl|taskset|timeout|python[0-9.]*|.*\.py|torchrun|srun|deepspeed|accelerate"
)
"""Commands that are expected to succeed; any other before && may be a test."""


def count_assignments(words: Sequence[ShellWord]) -> int:
    """How many of a command's first words assign a variable."""
    return next((at for at, w in enumerate(words) if not ASSIGNED.match(w.raw)), len(words))


def names_rank(words: Sequence[ShellWord]) -> bool:
    """Whether a word names what differs between ranks or nodes."""
    return any(_RANKS.search(word.raw) for word in words)


def runs_several_times(words: Sequence[ShellWord]) -> bool:
    """Whether ``for`` with these words has more than one round, or may have."""
    if any(word.text == "in" for word in words[1:2]):
        items = words[2:]
        return len(items) > 1 or any(word.expands or set("{*?") & set(word.text) for word in items)
    return bool(words) and words[0].text.startswith("((")


def is_expected_to_succeed(words: tuple[ShellWord, ...]) -> bool:
    """Whether this command is no test, so that what stands behind its && runs."""
    rest = words[count_assignments(words) :]
    if not rest:
        return True
    if rest[0].text == "mkdir" and not any(w.text.startswith("-") for w in rest):
        return False  # of several ranks one makes the folder
    return bool(_DOERS.fullmatch(rest[0].text.rpartition("/")[2]))


class Compound:
    """A compound command that is open, and what holds for the commands in it."""

    def __init__(self, kind: str, above: Compound | None, *, always: bool, some: bool) -> None:
        self.kind = kind
        self.always, self.some, self.outer_some = always, some, some
        self.condition = kind in {"if", "while", "until"}
        """Whether its condition is being read."""
        self.tests = self.names_rank = self.tests_rank = False
        self.repeats = self.apart = False
        self.body: int | None = None
        """Where it begins, if it is the body of a function."""
        self.succeeds = True
        """Whether its last command is expected to succeed."""
        self.loops: tuple[Compound, ...] = above.loops if above else ()
        self.in_function: str = above.in_function if above else ""
        self.start_list()

    def start_list(self) -> None:
        """Begin a new list of commands: what && and || have decided so far is over."""
        self.sure, self.rank_test, self.piped = True, False, False
        self.passes = True
        self.first: int | None = None

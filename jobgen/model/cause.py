"""Why a job failed: the kind of error, the rank that had it, and the lines that show it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from jobgen.named_tuple import NamedTuple


class CauseKind(StrEnum):
    """Causes that code decides by; every cause stands in ``data/codes/causes.toml``."""

    EXCEPTION = "exception"
    GPU_MEMORY = "gpu_memory"
    GPU_OCCUPIED = "gpu_occupied"
    HOST_MEMORY = "host_memory"
    SETUP = "setup"
    """A line of setup, or a check of jobgen before the program started."""
    COMMAND_NOT_FOUND = "command_not_found"
    COLLECTIVE_TIMEOUT = "collective_timeout"
    EARLY_EXIT = "early_exit"
    LOST_PEER = "lost_peer"
    """Another rank closed its connection, or did not answer: the error is often there."""
    ABORT = "abort"
    SEGFAULT = "segfault"
    SHARED_MEMORY = "shared_memory"
    SIGNAL = "signal"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    NODE_FAILURE = "node_failure"
    EXIT_CODE = "exit_code"
    """A program that ended with an exit code and reported no error."""


_FORMER = {
    "import": "missing_module",
    "disk": "disk_full",
    "download": "offline",
    "killed": "signal",
    "interrupted": "signal",
}
"""Kinds that records of earlier versions hold."""


class Doubt(StrEnum):
    """How sure it is that this rank failed first."""

    NONE = ""
    LATER = "later"
    """Another rank ended earlier, and reports only that it lost its peers."""
    VICTIM = "victim"
    """This rank reports only that it lost its peers, and so do all others."""


class Certainty(StrEnum):
    """How sure a diagnosis is."""

    SURE = "sure"
    LIKELY = "likely"
    UNCLEAR = "unclear"


class FailureCause(NamedTuple):
    """The first failure of a job. Plain data: JSON holds its fields as a list."""

    kind: str
    """A key of ``data/codes/causes.toml``."""
    text: str = ""
    """The error in one line, as the program wrote it; empty if no line shows it."""
    node: str = ""
    rank: int | None = None
    """None if a node failed before its ranks started, or the launcher or script did."""
    code: int | None = None
    """The exit code; 128 and the signal's number if a signal ended the rank."""
    signal: int = 0
    start: int = 1
    """The first start of the job is 1."""
    task: str = ""
    """The element of a job array."""
    file: str = ""
    """The log file that holds the lines, below ``logs/``."""
    lines: tuple[str, ...] = ()
    """The lines of the log that matter."""
    below: int = 0
    """How many lines of the program follow the error."""
    doubt: str = Doubt.NONE
    other: str = ""
    """With ``Doubt.LATER``, the rank that ended earlier; with ``Doubt.VICTIM``, the ranks that
    reported no error and may have hung."""
    alike: int = 0
    """How many other ranks report the same error."""
    line: int = 0
    """The number of the error's line in its file; 0 if unknown."""
    says: str = ""
    """What exactly is wrong, where that is known beyond the kind."""
    certainty: str = ""
    retry: str = ""
    """Whether the same job has a fair chance: ``no``, ``yes`` or ``other_nodes``."""
    consequences: tuple[str, ...] = ()
    """What only followed from it."""
    ruled_out: tuple[str, ...] = ()
    """What it was not, and how that is known."""
    all_ranks: bool = False
    """Whether every rank reports the same error."""
    title: str = ""
    """What happened, where the evidence shows it more exactly than the title of the kind."""
    between: tuple[str, ...] = ()
    """The two nodes between which the network failed, if nothing shows which one is at fault."""
    local_rank: int | None = None
    """The rank on its node, where the job has several nodes and its rank in the job is unknown."""
    last_lines: tuple[str, ...] = ()
    """What ranks wrote last for which others waited, each with its rank, node, file and number."""

    @property
    def reports_itself(self) -> bool:
        """Whether the lines stand in a log of the rank to blame, not of one that waited for it."""
        name = re.fullmatch(r"(?:.*/)?[\w-]+\.(\d+)\.(?:err|out)", self.file)
        return name is None or int(name[1]) == self.rank

    @property
    def bad_rank(self) -> int | None:
        """The rank to blame: none where all ranks report the same, or all only lost a peer."""
        return None if self.all_ranks or self.doubt == Doubt.VICTIM else self.rank

    @classmethod
    def read(cls, values: Sequence[Any]) -> FailureCause:
        """A cause that a record holds; fields that its version did not have are empty."""
        known: list[Any] = [tuple(v) if isinstance(v, list) else v for v in values]
        read = cls(*known[: len(cls._fields)])
        return read._replace(kind=_FORMER.get(read.kind, read.kind))

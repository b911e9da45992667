"""Why a job failed: the kind of error, the rank that had it, and the lines that show it."""

from __future__ import annotations

from enum import StrEnum

from jobgen.named_tuple import NamedTuple


class CauseKind(StrEnum):
    """What kind of error ended a job."""

    EXCEPTION = "exception"
    """A Python exception that no other kind describes."""
    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    IMPORT = "import"
    MISSING_FILE = "missing_file"
    COMMAND_NOT_FOUND = "command_not_found"
    SETUP = "setup"
    """A line of setup, or a check of jobgen before the program started."""
    ARGUMENTS = "arguments"
    CUDA = "cuda"
    NO_GPU = "no_gpu"
    NCCL = "nccl"
    PORT = "port"
    DISK = "disk"
    PERMISSION = "permission"
    DOWNLOAD = "download"
    RENDEZVOUS = "rendezvous"
    """The ranks, or their launchers, did not reach each other."""
    LOST_PEER = "lost_peer"
    """Another rank closed its connection, or did not answer: the error is often there."""
    ABORT = "abort"
    SEGFAULT = "segfault"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time_limit"
    EXIT_CODE = "exit_code"
    """A program that ended with an exit code and reported no error."""


class Doubt(StrEnum):
    """How sure it is that this rank failed first."""

    NONE = ""
    LATER = "later"
    """Another rank ended earlier, and reports only that it lost its peers."""
    VICTIM = "victim"
    """This rank reports only that it lost its peers, and so do all others."""


class FailureCause(NamedTuple):
    """The first failure of a job. Plain data: JSON holds its fields as a list."""

    kind: str
    """One of ``CauseKind``."""
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
    """How many lines of the file follow the error."""
    doubt: str = Doubt.NONE
    other: str = ""
    """With ``Doubt.LATER``, the rank that ended earlier; with ``Doubt.VICTIM``, the ranks that
    reported no error and may have hung."""
    alike: int = 0
    """How many other ranks report the same error."""

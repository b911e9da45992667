"""Exit codes and signals in words."""

from __future__ import annotations

import signal as signals

from jobgen.model.cause import CauseKind

_CODES = {
    126: "not executable",
    127: "command not found",
    255: "-1, an invalid option of srun, or a lost ssh connection",
}
_SIGNALS = {
    "SIGABRT": "aborted",
    "SIGSEGV": "segmentation fault",
    "SIGBUS": "bus error, often a full /dev/shm",
    "SIGFPE": "arithmetic error",
    "SIGILL": "illegal instruction: built for another CPU",
    "SIGKILL": "often the out-of-memory killer",
    "SIGXCPU": "over the limit of CPU time",
}
_KINDS: dict[tuple[int, str], str] = {(1, CauseKind.EXCEPTION): "Python exception"}


_TELLING = frozenset(
    {CauseKind.SEGFAULT, CauseKind.ABORT, CauseKind.HOST_MEMORY}
    | {CauseKind.COMMAND_NOT_FOUND, CauseKind.SETUP}
)
"""Kinds of errors that say what the code means."""


def name_signal(number: int) -> str:
    """``SIGKILL``, or ``signal 32`` for one without a name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_exit(code: int, signal: int = 0, kind: str = "") -> str:
    """An exit code with its meaning.

    >>> describe_exit(137, 9), describe_exit(127), describe_exit(1, kind="exception")
    ('exit code 137: SIGKILL, often the out-of-memory killer', 'exit code 127: command not found', \
'exit code 1: Python exception')
    """
    meaning = "" if kind in _TELLING else _CODES.get(code, "")
    if signal:
        name = name_signal(signal)
        meaning = ", ".join(filter(None, (name, "" if kind in _TELLING else _SIGNALS.get(name))))
    meaning = meaning or _KINDS.get((code, kind), "")
    return f"exit code {code}: {meaning}" if meaning else f"exit code {code}"


def describe_job_exit(exit_status: str, *, cancelled: bool = False) -> str:
    """What Slurm's ``CODE:SIGNAL`` of a job says, or nothing where it says nothing.

    The end of a cancelled job is what the cancelling did to it, not news.

    >>> describe_job_exit("1:0"), describe_job_exit("0:9"), describe_job_exit("0:0")
    ('exit code 1', 'ended by SIGKILL, often the out-of-memory killer', '')
    """
    code, _, number = exit_status.partition(":")
    if cancelled or not (code.isdecimal() and (number or "0").isdecimal()):
        return "" if cancelled else exit_status
    if int(number or 0):
        name = name_signal(int(number))
        return f"ended by {', '.join(filter(None, (name, _SIGNALS.get(name))))}"
    return describe_exit(int(code)) if int(code) else ""

"""Logs without a record, as the finder of causes takes them."""

from __future__ import annotations

from jobgen.diagnose import Evidence, LogText, find_cause
from jobgen.model.cause import FailureCause


def diagnose(*lines: str) -> FailureCause | None:
    """The cause that one log shows."""
    return find_cause(Evidence(logs=(LogText("train.log", "\n".join(lines)),)))


def diagnose_failure(*lines: str) -> FailureCause:
    """The cause that one log shows; there must be one."""
    cause = diagnose(*lines)
    assert cause is not None
    return cause

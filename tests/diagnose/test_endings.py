"""What launchers report of the ends of their ranks counts, where no rank explains itself."""

from __future__ import annotations

from jobgen.diagnose import Evidence, LogText, find_cause
from jobgen.model.cause import CauseKind, FailureCause

LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:4711."
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    go()\n'


def fail(rank: int, code: int) -> str:
    """A rank in the table of torchrun."""
    fields = {"time": "2026-11-25_05:22:45", "host": "n1", "rank": rank, "exitcode": code}
    return "".join(f"  {name:9} : {value}\n" for name, value in fields.items())


def table(first: str, *others: str) -> str:
    """What torchrun prints when ranks failed."""
    rows = "".join(f"[{at}]:\n{other}" for at, other in enumerate(others, 1))
    root = f"Root Cause (first observed failure):\n[0]:\n{first}"
    return f"train.py FAILED\nFailures:\n{rows or '  <NO_OTHER_FAILURES>'}\n----\n{root}====\n"


def read(text: str) -> FailureCause:
    cause = find_cause(Evidence("FAILED", logs=(LogText("slurm-1.out", text),)))
    assert cause is not None
    return cause


def test_the_rank_that_torchrun_saw_fail_first_is_named() -> None:
    cause = read(table(fail(3, -9), fail(2, -15)))
    assert (cause.kind, cause.rank, cause.signal) == (CauseKind.SIGNAL, 3, 9)


def test_a_sigterm_to_the_rank_that_failed_first_came_from_outside() -> None:
    lost = "".join(f"[rank0]: {line}\n" for line in (TRACE + LOST).splitlines())
    cause = read(lost + table(fail(1, -15), fail(0, -15)))
    assert (cause.kind, cause.rank, cause.signal) == (CauseKind.SIGNAL, 1, 15)


def test_ranks_that_all_ended_by_one_signal_are_blamed_together() -> None:
    cause = read(table(fail(1, -11), fail(0, -11)))
    assert (cause.kind, cause.bad_rank, cause.all_ranks) == (CauseKind.SEGFAULT, None, True)


def test_an_error_that_each_failed_rank_reports_is_that_of_all() -> None:
    chained = f"{TRACE}KeyError: 'a'\n\nDuring handling of the above exception, another exception"
    errors = f"{chained} occurred:\n\n{TRACE}OSError: [Errno 28] No space left on device\n" * 2
    cause = read(errors + table(fail(0, 1), fail(1, 1)))
    assert (cause.kind, cause.all_ranks) == ("disk_full", True)


def test_a_node_that_takes_no_ssh_is_left_out_next_time() -> None:
    refused = "n4: ssh: connect to host n4 port 22: Connection refused\n"
    cause = read(f"{refused}pdsh@n3: n4: ssh exited with exit code 255\n")
    assert (cause.kind, cause.retry) == ("connection_refused", "other_nodes")

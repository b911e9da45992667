"""How launchers report that a process ended, in logs without a record."""

from __future__ import annotations

import pytest

from jobgen.model.cause import CauseKind
from tests.diagnose.logs import diagnose_failure

AGENT = "E0102 10:00:00.1 7 torch/distributed/elastic/multiprocessing/api.py:826] failed"


def describe_rank(rank: int, code: str, number: int) -> list[str]:
    """A rank in torchrun's table of failures."""
    return [
        f"[{number}]:",
        "  time      : 2026-01-02_10:00:00",
        "  host      : n1",
        f"  rank      : {rank} (local_rank: {rank})",
        f"  exitcode  : {code}",
        "  error_file: <N/A>",
    ]


def test_torchrun_names_the_rank_that_failed_first_as_root_cause() -> None:
    cause = diagnose_failure(
        "Failures:",
        *describe_rank(0, "1 (pid: 4)", 1),
        "Root Cause (first observed failure):",
        *describe_rank(3, "-11 (pid: 7)", 0),
    )
    assert (cause.kind, cause.rank, cause.node) == (CauseKind.SEGFAULT, 3, "n1")


def test_no_rank_is_to_blame_where_torchrun_reports_the_same_of_all() -> None:
    cause = diagnose_failure(
        "Failures:",
        *describe_rank(1, "1 (pid: 5)", 1),
        "Root Cause (first observed failure):",
        *describe_rank(0, "1 (pid: 4)", 0),
    )
    assert (cause.kind, cause.bad_rank) == (CauseKind.EXIT_CODE, None)


@pytest.mark.parametrize(
    ("line", "kind", "rank"),
    [
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.", "shared_memory", 2),
        ("ERROR:composer.cli.launcher:Global rank 5 (PID 8) exited with code -11", "segfault", 5),
        ("Exception: process 3 terminated with signal SIGKILL", "signal", 3),
        ("ProcessExitedException: process 1 terminated with exit code 2", "exit_code", 1),
        ("-- Process 4 terminated with the following error:", "exit_code", 4),
        ("n7: rank 6 died from signal 11", "segfault", 6),
        (f"{AGENT} (exitcode: -9) local_rank: 3 (pid: 8) of binary: python", "signal", 3),
        ("Child process 17057 (local_rank 2) FAILED (exitcode -11)", "segfault", 2),
    ],
)
def test_a_launcher_names_the_rank_and_how_it_ended(line: str, kind: str, rank: int) -> None:
    cause = diagnose_failure("step 1 loss 0.5", line)
    assert (cause.kind, cause.rank) == (kind, rank)


def test_a_local_rank_is_no_rank_where_the_job_has_several_nodes() -> None:
    lines = (
        "  max_nodes        : 2",
        f"{AGENT} (exitcode: -9) local_rank: 3 (pid: 8) of binary: p",
    )
    assert diagnose_failure(*lines).rank is None


@pytest.mark.parametrize("end", ["KILLED BY SIGNAL: 9 (Killed)", "EXIT CODE: 9", "EXIT CODE: 137"])
def test_mpiexec_reports_a_killed_rank_in_a_box(end: str) -> None:
    box = ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", f"=   {end}")
    cause = diagnose_failure(box[0], "=   RANK 2 PID 81 RUNNING AT n3", box[1])
    assert (cause.kind, cause.signal, cause.rank, cause.node) == (CauseKind.SIGNAL, 9, 2, "n3")


def test_of_tasks_that_srun_reports_alike_none_was_first() -> None:
    cause = diagnose_failure("srun: error: n1: tasks 1-7: Exited with exit code 3")
    assert (cause.kind, cause.code, cause.bad_rank) == (CauseKind.EXIT_CODE, 3, None)


def test_of_two_tables_that_of_the_earlier_failure_counts() -> None:
    late, early = describe_rank(0, "1 (pid: 4)", 0), describe_rank(4, "1 (pid: 9)", 0)
    early[1] = early[1].replace("10:00:00", "09:59:00")
    root = "Root Cause (first observed failure):"
    assert diagnose_failure(root, *late, root, *early).rank == 4


def test_an_error_says_more_than_the_codes_of_tasks() -> None:
    cause = diagnose_failure(
        "RuntimeError: NCCL error in: NCCLUtils.hpp:82, invalid argument, NCCL version 2.4.8",
        "srun: error: n1: tasks 2-7: Exited with exit code 1",
    )
    assert (cause.kind, cause.bad_rank) == ("nccl", None)


def test_the_exception_of_a_spawned_process_goes_before_the_one_that_repeats_it() -> None:
    cause = diagnose_failure(
        "2026-01-02 10:00:00 | INFO | training on 4 GPUs",
        "Traceback (most recent call last):",
        '  File "spawn.py", line 118, in join',
        "    raise Exception(msg)",
        "Exception: ",
        "",
        "-- Process 2 terminated with the following error:",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in main',
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    )
    assert (cause.kind, cause.rank) == ("cuda", 2)


def test_ranks_that_torchrun_ended_reported_nothing_and_the_first_that_failed_is_named() -> None:
    error = ("Traceback (most recent call last):", '  File "/app/train.py", line 7, in <module>')
    cause = diagnose_failure(
        *(*error, "KeyError: 'labels'", *error, "KeyError: 'labels'"),
        "W0318 21:10:09 8 torch/elastic/a.py:9] Sending process 5 closing signal SIGTERM",
        "Failures:",
        *describe_rank(3, "1 (pid: 7)", 1),
        "Root Cause (first observed failure):",
        *describe_rank(2, "1 (pid: 6)", 0),
    )
    assert (cause.kind, cause.bad_rank, cause.alike) == (CauseKind.EXCEPTION, 2, 1)


@pytest.mark.parametrize(
    ("ranks", "blamed"),
    [((21, 18), 21), ((9, 8), None)],
    ids=["others between them went on", "each of a node"],
)
def test_after_steps_the_ranks_between_those_that_failed_did_not_fail(
    ranks: tuple[int, int], blamed: int | None
) -> None:
    lines = [f"[rank{rank}]: RuntimeError: CUDA error: misaligned address" for rank in ranks]
    cause = diagnose_failure("iteration 112/500 | loss: 2.4", *lines)
    assert (cause.kind, cause.bad_rank) == ("cuda", blamed)


def test_of_ranks_that_repeat_their_error_the_one_that_reported_it_first_is_named() -> None:
    error = "NCCL WARN Bootstrap : no socket interface found"
    cause = diagnose_failure(
        f"0: n1:65:65 [0] {error}",
        f"1: n2:42:42 [0] {error}",
        f"0: jaxlib.xla_extension.XlaRuntimeError: INTERNAL: {error}",
        "2: E0704 10:12:09.113 agent.cc:1] Barrier timed out: DEADLINE_EXCEEDED",
    )
    assert (cause.kind, cause.rank) == ("interface", 0)


def test_an_exception_that_the_program_handled_does_not_explain_another_exit_code() -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 7, in <module>',
        "FileNotFoundError: [Errno 2] No such file or directory: 'config.json'",
        "no config, using defaults",
        *(f"step {step} loss 0.5" for step in range(9)),
        "Root Cause (first observed failure):",
    )
    handled = diagnose_failure(*lines, *describe_rank(2, "7 (pid: 6)", 0))
    assert (handled.kind, handled.rank, handled.code) == (CauseKind.EXIT_CODE, 2, 7)
    assert diagnose_failure(*lines, *describe_rank(2, "1 (pid: 6)", 0)).kind == "missing_file"


def test_the_rank_in_a_process_group_is_not_that_of_the_job() -> None:
    watchdog = "watchdog thread terminated with exception: CUDA error: launch timed out"
    end = "srun: error: node-6: task 21: Aborted (core dumped)"
    cause = diagnose_failure(f"[PG ID 3 PG GUID 61(TENSOR_PARALLEL) Rank 1] {watchdog}", end)
    assert (cause.rank, cause.node) == (21, "node-6")
    assert diagnose_failure(f"[PG ID 0 PG GUID 0(default_pg) Rank 1] {watchdog}").rank == 1


def test_a_program_in_a_local_folder_has_no_local_fault() -> None:
    """Only one rank imports the module, and only the other frames name /tmp."""
    lines = (
        "n1: [rank1]: Traceback (most recent call last):",
        'n1: [rank1]:   File "/tmp/job/train.py", line 8, in <module>',
        "n1: [rank1]: ModuleNotFoundError: No module named 'flash_attn'",
        "n1: [rank0]: RuntimeError: Connection closed by peer",
        "n2: [rank2]: RuntimeError: Connection closed by peer",
    )
    assert diagnose_failure(*lines).retry == "no"


def test_who_lost_a_peer_that_is_not_known_was_not_lost_by_the_others() -> None:
    lines = (f"[rank{n}]: RuntimeError: Connection closed by peer [10.0.0.{n}]" for n in range(3))
    assert diagnose_failure(*lines).consequences == ()

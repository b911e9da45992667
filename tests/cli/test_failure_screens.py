"""``show`` and ``wait`` of a job that failed: state, why and where come first, on one screen."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.app.jobs import Happening, RunView
from jobgen.cli.layout import measure
from jobgen.cli.output import Ink
from jobgen.cli.screens import failure, job_state, jobs
from jobgen.cli.screens.job_data import dump_job
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site

SITE = Site("testbed", "slurm", Login("local"), "/runs")
INK = Ink(colour=False, width=80)
NOW = 1_795_446_000.0
EVENTS = tuple(
    Happening(NOW - 900 + i, f"{kind} something", kind)
    for i, kind in enumerate(["planned", "staged", "submitting", *["running", "requeued"] * 9])
)
FILES = tuple((name, f"/runs/llama/{name}") for name in ("bundle/job.sbatch", "src", "logs", "x"))
LINES = ('  File "/runs/llama/src/train.py", line 7, in main', *("more " * 40,) * 11)


def run(cause: FailureCause | None = None, **changes: Any) -> RunRecord:
    record = RunRecord("t" * 26, "llama-3", "llama", SITE, "0", 1.0, "/runs/llama", JobId(7))
    submission: dict[str, Any] = {"failures": [[1, "n2", 3, 1, 0], [1, "n1", 0, 1, 0]]}
    if cause is not None:
        submission["cause"] = list(cause)
    ended = {"state": JobState.FAILED, "ended": True, "exit": "1:0", "elapsed": 72, "nodes": "n1"}
    return record._replace(**{"submission": submission, **ended, **changes})


def cause(kind: str = CauseKind.EXCEPTION, **fields: Any) -> FailureCause:
    known = {"text": "KeyError: 'a'", "node": "n2", "rank": 3, "code": 1, "file": "0/0/n2.3.err"}
    return FailureCause(kind, **{**known, "lines": LINES, **fields})


def show(record: RunRecord, **how: bool) -> list[str]:
    return jobs.draw_run(RunView(record, EVENTS, FILES), NOW, INK, **how).rstrip().split("\n")


RECORDS = {
    "exception": run(cause()),
    "later": run(cause(doubt=Doubt.LATER, other="rank 0", alike=7)),
    "unfit": run(submission={"preflight": [[1, f"n{i}", "ECC errors " * 9] for i in range(99)]}),
    "unknown": run(),
    "pending": run(state=JobState.PENDING, ended=False, exit="", reason="ReqNodeNotAvail"),
    "running": run(state=JobState.RUNNING, ended=False, exit="", updated=NOW),
    "completed": run(state=JobState.COMPLETED, exit="0:0", submission={}),
    "reports": run(submission={"report": {f"peak_{i}": 1e9 for i in range(32)}}),
}


@pytest.mark.parametrize("name", RECORDS)
def test_the_default_fits_a_screen_and_ends_with_a_command(name: str) -> None:
    lines = show(RECORDS[name])
    assert len(lines) <= jobs.SCREEN, "\n".join(lines)
    assert lines[0].startswith("llama-3 (Slurm 7, testbed)  ")
    assert lines[-1].partition("jobgen ")[2]
    assert all(measure(line) <= 80 for line in lines)


def test_why_and_where_follow_the_state() -> None:
    assert show(RECORDS["later"])[:5] == [
        "llama-3 (Slurm 7, testbed)  FAILED after 1m12s",
        "  why    KeyError: 'a'",
        "  where  rank 3 on n2, which ended after rank 0 (exit code 1: Python exception)",
        "         rank 0 only lost its peers.",
        "         7 more ranks report the same error.",
    ]


def test_a_rank_that_may_have_hung_is_named() -> None:
    lost = cause(CauseKind.LOST_PEER, doubt=Doubt.VICTIM, other="rank 1")
    assert show(run(lost))[3] == "         rank 1 reported no error and may have hung."
    unknown = lost._replace(other="")
    assert show(run(unknown))[3].endswith("the cause may be on another rank.")


def test_a_path_of_the_run_directory_is_shown_below_it_and_verbose_shows_all() -> None:
    assert '    File "train.py", line 7, in main' in show(RECORDS["exception"])
    lines = show(RECORDS["exception"], verbose=True)
    assert sum(line.startswith("  more more") for line in lines) >= 11
    assert sum("something" in line for line in lines) == len(EVENTS)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": CauseKind.GPU_MEMORY, "text": "X"}, "out of GPU memory: X"),
        ({"kind": CauseKind.GPU_MEMORY, "text": "e: out of GPU memory"}, "e: out of GPU memory"),
        ({"kind": CauseKind.TIME_LIMIT, "text": "", "node": ""}, "reached the time limit"),
        ({"kind": "of_a_later_version", "text": "X"}, "X"),
        ({"text": "RuntimeError: [/a/b.cc:1] closed"}, "RuntimeError: closed"),
        ({"text": "a\x1b[2Jb"}, "ab"),
    ],
)
def test_why_is_the_kind_and_the_programs_words(changes: dict[str, Any], why: str) -> None:
    assert show(run(cause(**changes)))[1] == f"  why    {why}"


def test_every_kind_has_words() -> None:
    for kind in CauseKind:
        assert show(run(cause(kind, text="", lines=())))[1].startswith(("  why  ", "  where  "))


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "--rank 3 --stderr -n 50"),
        ({"file": "0/0/n2.3.out"}, "--rank 3 --stdout -n 50"),
        ({"rank": None, "file": "job-7.out"}, "--file job-7.out -n 20"),
        ({"below": 40}, "--rank 3 --stderr -n 90"),
        ({"task": "4"}, "--task 4 --rank 3 --stderr -n 50"),
    ],
)
def test_the_command_shows_the_lines(changes: dict[str, Any], command: str) -> None:
    wanted = f"  error log  jobgen logs llama-3 {command}"
    assert show(run(cause(**changes)))[-1] == wanted
    assert jobs.draw_ended(run(cause(**changes)), INK).rstrip().split("\n")[-1] == wanted


def test_json_has_the_cause_in_words_too() -> None:
    data = dump_job(run(cause()))["cause"]
    assert (data["kind"], data["rank"], data["why"]) == ("exception", 3, "KeyError: 'a'")
    assert dump_job(run())["cause"] is None
    assert dump_job(run(cause(), ended=False, state=JobState.PENDING))["cause"] is None


def test_a_list_shows_the_cause_that_is_known() -> None:
    assert job_state.draw_info(run(cause())) == "KeyError: 'a', exit code 1"
    assert job_state.draw_info(run()) == "exit code 1"


ERROR = (
    "a-long-host-name-17:2938471:2939999 [3] transport/net_ib.cc:1847 NCCL WARN NET/IB : Got "
    "completion from peer 10.20.0.17<41207> with status=12 opcode=129 len=0 vendor err 129 (Recv)"
)
AFTER = "a-long-host-name-17:2938471:2939999 [3] NCCL INFO transport/net.cc:1302 -> 6"


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("before", [0, 3, 9])
def test_the_line_of_the_error_is_whole_wherever_it_stands(width: int, before: int) -> None:
    lines = (*[f"step {number} " + "x" * 150 for number in range(before)], ERROR, AFTER, AFTER)
    failed = cause("network_fault", text=ERROR, lines=lines)
    ink = Ink(colour=False, width=width)
    for rows in (failure.draw_cause(failed, ink), failure.draw_lines(lines, ink, error=ERROR)):
        shown = " ".join(row.strip() for row in rows)
        assert "Got completion from peer 10.20.0.17<41207> with status=12" in shown
        assert all(measure(row) <= width for row in rows)


def test_of_a_very_long_line_the_part_is_shown_that_a_rule_knows() -> None:
    error = "Loading checkpoint shards " * 30 + "CUDA out of memory. Tried to allocate 2 GiB"
    failed = cause(CauseKind.GPU_MEMORY, text=error, lines=(error,))
    assert "CUDA out of memory. Tried" in " ".join(map(str.strip, failure.draw_cause(failed, INK)))
    rows = failure.draw_lines((error,), INK, error=error)
    assert len(rows) <= failure.FOLDED
    assert "CUDA out of memory. Tried" in " ".join(map(str.strip, rows))


NO_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 5 has a total "
    "capacity of 39.39 GiB of which 210.88 MiB is free. Including non-PyTorch memory, this process "
    "has 39.18 GiB memory in use. Of the allocated memory 35.63 GiB is allocated by PyTorch, and "
    "1.52 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
    "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def test_a_message_of_the_allocator_is_shown_once_and_its_numbers_in_words() -> None:
    says = "0.44 GiB was wanted, 0.21 GiB free; PyTorch holds 35.63 GiB"
    failed = cause(CauseKind.GPU_MEMORY, text=NO_MEMORY, lines=(NO_MEMORY,), says=says)
    head = " ".join(map(str.strip, failure.draw_cause(failed, INK)))
    assert head.startswith(f"why    out of GPU memory: {says} where")
    rows = failure.draw_lines((NO_MEMORY,), INK, error=NO_MEMORY)
    assert len(rows) == failure.FOLDED
    assert rows[-1].endswith("…")


def test_who_holds_the_memory_is_said_once() -> None:
    says = "process 12 holds 12.00 GiB of the GPU; 0.44 GiB was wanted, 0.21 GiB free: end it"
    failed = cause(CauseKind.GPU_OCCUPIED, text=NO_MEMORY, lines=(NO_MEMORY,), says=says)
    head = " ".join(map(str.strip, failure.draw_cause(failed, INK)))
    assert head.count("process 12 holds") == 1
    assert "Tried to allocate" not in head


@pytest.mark.parametrize(
    "head",
    [
        "n1:7:9 [0] ib_plugin.c:1007 NCCL WARN ",
        "10.0.0.1: n1:7:9 [0] transport/net_ib.cc:1007 (connect) NCCL WARN ",
        "n1:7:9 NCCL WARN ",
        "[rank3]:[E1125 10:00:00.123456789 ProcessGroupNCCL.cpp:632] [Rank 3] ",
        "[E ProcessGroupNCCL.cpp:632] [Rank 3] ",
        "[rank3]:[E311 09:20:17.59 ProcessGroupNCCL.cpp:2063] [PG ID 0 PG GUID 0(dp) Rank 3] ",
        "  what():  ",
    ],
)
def test_why_is_without_the_process_and_the_line_of_its_source(head: str) -> None:
    assert failure.explain_cause(cause(text=f"{head}it failed")) == "it failed"

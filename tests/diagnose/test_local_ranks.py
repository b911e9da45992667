"""Ranks that count on their node only become ranks of the job only where that is known."""

from __future__ import annotations

import pytest

from jobgen.cli.screens.failure import locate_cause
from jobgen.diagnose import Evidence, LogText, find_cause
from jobgen.model.cause import FailureCause

TRACE = (
    "Traceback (most recent call last):",
    '  File "/home/user/train.py", line 7, in main',
    "    loss = step(batch)",
    "KeyError: 'label'",
)
RESULT = (
    "INFO torch.distributed.elastic.agent: Rendezvous complete for workers. Result:",
    "  group_rank=1",
    "  group_world_size=2",
    "  local_ranks=[0, 1, 2, 3]",
    "  global_ranks=[4, 5, 6, 7]",
)
REPORT = (
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2025-03-18_21:10:09",
    "  host      : n2.cluster",
    "  rank      : 7 (local_rank: 3)",
    "  exitcode  : 1 (pid: 824)",
)


def fail(local: int = 3, before: str = "") -> str:
    lines = [f"{before}[default0]:step 1", *(f"{before}[default{local}]:{t}" for t in TRACE)]
    return "\n".join(lines)


def diagnose_files(**files: str) -> FailureCause:
    logs = tuple(LogText(f"{name}.log", text) for name, text in files.items())
    cause = find_cause(Evidence(logs=logs))
    assert cause is not None
    return cause


def test_on_one_node_the_local_rank_is_the_rank() -> None:
    cause = diagnose_files(train=fail())
    assert (cause.rank, cause.local_rank) == (3, None)


@pytest.mark.parametrize(
    "lines",
    [
        RESULT,
        ("torchrun --nnodes 2 --node-rank 1 --nproc-per-node 4 train.py",),
        ("GROUP_RANK=1 LOCAL_WORLD_SIZE=4",),
        ("[default1]:[E1125 10:00:00 x.cpp:6] [PG ID 0 PG GUID 0(dp) Rank 5] --nnodes=2",),
        ("--nnodes=2", "[default2]:n2:7:9 [2] NCCL INFO comm 0x7 rank 6 nranks 8 cudaDev 2"),
    ],
)
def test_what_a_log_shows_of_its_node_makes_it_the_rank_of_the_job(lines: tuple[str, ...]) -> None:
    cause = diagnose_files(train="\n".join([*lines, fail()]))
    assert (cause.rank, cause.local_rank) == (7, None)


def test_the_report_of_torchrun_names_rank_and_host() -> None:
    cause = diagnose_files(train="\n".join(["--nnodes=2", fail(), *REPORT]))
    assert (cause.rank, cause.node) == (7, "n2.cluster")


def test_files_numbered_by_node_with_the_ranks_per_node() -> None:
    start = "torchrun --nnodes=2 --nproc_per_node=4 train.py\n"
    cause = diagnose_files(node_0=start + "[default3]:step 1", node_1=start + fail())
    assert cause.rank == 7


def test_a_prefix_of_the_host_separates_the_nodes() -> None:
    lines = [
        "n1: [default0]:n1:7:9 [0] NCCL INFO comm 0x7 rank 0 nranks 8 cudaDev 0 busId 1",
        "n1: [default3]:step 1",
        "n1: [default3]:step 2",
        "n2: [default0]:n2:7:9 [0] NCCL INFO comm 0x7 rank 4 nranks 8 cudaDev 0 busId 1",
        fail(before="n2: "),
    ]
    cause = diagnose_files(train="\n".join(lines))
    assert (cause.rank, cause.node) == (7, "n2")


@pytest.mark.parametrize("sign", ["--nnodes=2", "world size: 64", "max_nodes : 2"])
def test_of_several_nodes_it_stays_the_rank_of_its_node(sign: str) -> None:
    cause = diagnose_files(train=f"{sign}\n{fail()}")
    assert (cause.bad_rank, cause.local_rank) == (None, 3)
    assert locate_cause(cause) == "local rank 3 of a node that the log does not name failed first"


def test_a_node_that_is_known_is_named_with_its_local_rank() -> None:
    lines = ["--nnodes=2", *["n1: [default0]:step 1"] * 4, fail(before="n2: ")]
    cause = diagnose_files(train="\n".join(lines))
    assert (cause.rank, cause.local_rank, cause.node) == (None, 3, "n2")
    assert locate_cause(cause) == "local rank 3 on n2 failed first"


def test_one_process_is_one_rank_with_and_without_torchs_prefix() -> None:
    lines = [
        *(f"[default3]:[rank3]: {line}" for line in TRACE),
        "[default3]:terminate called without an active exception",
    ]
    cause = diagnose_files(train="\n".join(lines))
    assert (cause.rank, cause.alike) == (3, 0)


def test_a_line_with_both_ranks_shows_them_of_its_whole_node() -> None:
    watchdog = "[default0]:[rank8]: RuntimeError: Connection closed by peer [10.0.0.2]:4711"
    cause = diagnose_files(train="\n".join([watchdog, fail(local=1)]))
    assert (cause.rank, cause.local_rank) == (9, None)

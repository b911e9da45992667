"""What launchers write after a failure is folded, however it is cut, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.follow.follower import Follower
from jobgen.follow.launcher_noise import NoiseFilter, drop_noise
from jobgen.follow.view import View

BANNER = """\
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
bash FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_14:57:48
  exitcode  : 134 (pid: 10455)
============================================================
"""
CHILD = BANNER.splitlines()
OWN = ["Traceback (most recent call last):", '  File "x.py", line 1', "KeyError: 'a'"]


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: n2: task 1: Exited with exit code 1",
        "srun: error: n[1-2]: tasks 0-7: Killed",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-23T10:01:00 ***",
        "W1123 14:57:48.003000 1 torch/distributed/elastic/x.py:1] Sending 1 closing signal",
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 1 closing signal",
        "[2026-11-23 15:01:11,303] [INFO] [launch.py:335:sigkill_handler] Killing subprocess 1",
        "pdsh@n1: n2: ssh exited with exit code 1",
        "[rank0]:[W1123 10:00:00.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=7)",
    ],
)
def test_a_line_of_a_launcher_is_folded(line: str) -> None:
    assert drop_noise([line]) == []


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: n2: task 1: Out Of Memory",
        "srun: error: Unable to create step for job 7: Requested node configuration unavailable",
        "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-11-23T14:59:26 DUE TO TIME LIMIT ***",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.",
        "torch.distributed.DistNetworkError: The client socket has failed to connect",
        "jobgen: rank 1 on n2 failed first, with exit code 1",
        "====",
        "[0]:",
    ],
)
def test_what_tells_a_cause_stays(line: str) -> None:
    assert drop_noise([line]) == [line]


def test_tracebacks_of_two_nodes_in_one_another_are_folded() -> None:
    both = [line for pair in zip(CHILD, CHILD, strict=True) for line in pair]
    assert drop_noise(["a", *both, "b"]) == ["a", "b"]


def test_a_traceback_of_the_program_stays_beside_them() -> None:
    assert drop_noise([*OWN, *CHILD, *OWN]) == [*OWN, *OWN]


def test_a_rendezvous_that_fails_at_first_stays_and_a_later_one_is_folded() -> None:
    lost = [OWN[0], OWN[1], "torch.distributed.DistStoreError: Socket Timeout"]
    assert drop_noise(lost) == lost
    assert drop_noise([*CHILD, *lost]) == []


@given(st.lists(st.sampled_from([CHILD, OWN, ["x"], CHILD[:3]]), max_size=5), st.data())
def test_a_log_that_comes_in_pieces_is_folded_as_a_whole_one(
    parts: list[list[str]], data: st.DataObject
) -> None:
    lines = [line for part in parts for line in part]
    noise, shown, at = NoiseFilter(), b"", 0
    while at < len(lines):
        count = data.draw(st.integers(1, 7))
        shown += noise.feed("".join(f"{text}\n" for text in lines[at : at + count]).encode())
        at += count
    pieces = [*shown.decode().split("\n")[:-1], *noise.release()]
    assert pieces == drop_noise(lines)
    assert len(pieces) + noise.count == len(lines)


def test_the_stream_says_how_much_is_folded_and_shows_all_without_folding() -> None:
    text = "".join(f"{line}\n" for line in ["begin", *CHILD, "end"]).encode()
    for fold, wanted in (
        (True, ["begin", "end", f"[{len(CHILD)} lines of launcher output hidden"]),
        (False, ["begin", *CHILD, "end"]),
    ):
        follower = Follower(View(fold=fold, collapse=False))
        shown = follower.feed("logs/job-7.out", text, 0.0) + follower.close(0.0)
        texts = [line for block in shown for line in block.list_texts()]
        assert [line[: len(want)] for line, want in zip(texts, wanted, strict=True)] == wanted


def test_a_programs_own_stdout_is_never_folded() -> None:
    follower = Follower(View(fold=True, collapse=False))
    line = b"srun: error: n2: task 1: Killed\n"
    (shown,) = follower.feed("logs/0/0/n1.0.out", line, 0.0)
    assert shown.data == line


@pytest.mark.parametrize("fold", [True, False])
def test_tracebacks_of_several_ranks_differ_in_their_last_line_only(fold: bool) -> None:
    follower = Follower(View(fold=fold, folder="/scratch/run-ab/src/"))
    shown = []
    for rank in (0, 1):
        texts = [
            "Traceback (most recent call last):",
            '  File "/scratch/run-ab/src/train.py", line 4, in load',
            f"FileNotFoundError: shard-{rank}.bin",
        ]
        text = "".join(f"[rank{rank}]: {line}\n" for line in texts).encode()
        shown += follower.feed(f"logs/0/0/n1.{rank}.err", text, 0.0)
    shown += follower.close(1.0)
    blocks = [(1 + len(block.also), block.list_texts()) for block in shown]
    if not fold:
        assert [ranks for ranks, _ in blocks] == [1, 1]
        assert blocks[1][1][1] == '[rank1]:   File "/scratch/run-ab/src/train.py", line 4, in load'
        return
    assert blocks == [
        (2, ["Traceback (most recent call last):", '  File "train.py", line 4, in load']),
        (1, ["FileNotFoundError: shard-0.bin"]),
        (1, ["FileNotFoundError: shard-1.bin"]),
    ]


def test_what_a_rank_reports_of_another_one_stays() -> None:
    follower = Follower(View(fold=True, collapse=False))
    (shown,) = follower.feed("logs/0/0/n1.0.err", b"[rank1]: lost\n", 0.0)
    assert shown.data == b"[rank1]: lost\n"

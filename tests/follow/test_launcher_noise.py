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
        "jobgen: rank 1 on n2 exited first, with exit code 1",
        "====",
        "[0]:",
    ],
)
def test_what_tells_a_cause_stays(line: str) -> None:
    assert drop_noise([line]) == [line]


def test_what_bash_says_of_an_ended_command_is_folded_in_the_log_of_the_job_alone() -> None:
    for batch, shown in ((True, []), (False, ["Terminated"])):
        assert [*NoiseFilter(batch=batch).choose(["Terminated"])] == shown


def test_tracebacks_of_two_nodes_in_one_another_are_folded() -> None:
    both = [line for pair in zip(CHILD, CHILD, strict=True) for line in pair]
    assert drop_noise(["a", *both, "b"]) == ["a", "b"]


SIGNAL = """\
Traceback (most recent call last):
  File "/venv/lib/torch/distributed/elastic/agent/server/api.py", line 923, in _invoke_run
    time.sleep(monitor_interval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 12532 got signal: 15

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.api.SignalException: Process 12532 got signal: 15
""".splitlines()
FRAMES = """\
[W1125 04:35:25.192536834 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=4)
Exception raised from recvBytes at /torch/csrc/Utils.hpp:787 (most recent call first):
frame #9: <unknown function> + 0x3d2825 (0x7ff6ae1d2825 in /venv/lib/libtorch_python.so)
<omitting python frames>
frame #29: <unknown function> + 0x2724a (0x7ff6b004524a in /lib/x86_64-linux-gnu/libc.so.6)

""".splitlines()


def test_nothing_remains_of_chained_tracebacks_and_frames() -> None:
    assert drop_noise(["a", *SIGNAL, "b", *FRAMES, "c"]) == ["a", "b", "c"]
    assert drop_noise(["a", "", "b", *SIGNAL, *OWN]) == ["a", "", "b", *OWN]


def test_nothing_remains_of_chained_tracebacks_of_two_nodes_in_one_another() -> None:
    both = [line for pair in zip(SIGNAL, SIGNAL, strict=True) for line in pair]
    assert drop_noise(["a", *both, "b"]) == ["a", "b"]
    shifted = [*SIGNAL[:5], *both[4:], *SIGNAL[-3:]]
    assert not [line for line in drop_noise(shifted) if "Signal" in line or "During" in line]


def test_of_a_rank_that_lost_another_one_its_last_line_is_shown() -> None:
    lost = [*OWN[:2], "RuntimeError: [gloo/pair.cc:553] Connection closed by peer [10.0.0.1]:3470"]
    noise = NoiseFilter(peers=True)
    assert [*noise.choose([*OWN, *lost, "x"]), *noise.release()] == [*OWN, lost[-1], "x"]
    assert noise.count == 2
    assert drop_noise(lost) == lost, "what is read for the cause is whole"


def test_a_traceback_of_the_program_stays_beside_them() -> None:
    assert drop_noise([*OWN, *CHILD, *OWN]) == [*OWN, *OWN]


def test_a_rendezvous_that_fails_at_first_stays_and_a_later_one_is_folded() -> None:
    lost = [OWN[0], OWN[1], "torch.distributed.DistStoreError: Socket Timeout"]
    assert drop_noise(lost) == lost
    assert drop_noise([*CHILD, *lost]) == []


@given(
    st.lists(st.sampled_from([CHILD, OWN, ["x"], CHILD[:3], SIGNAL, FRAMES, [""]]), max_size=5),
    st.data(),
)
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


def test_what_is_searched_is_folded_first_and_the_note_counts_the_matches() -> None:
    """The same lines as without --grep, of which those that match are shown."""
    follower = Follower(View(fold=True, grep="rank|error"))
    shown = []
    for rank in (0, 1):
        text = f"[rank{rank}]: the rank is lost\nother\nsrun: error: n1: task 1: Killed\n"
        text += f"[rank{rank}]: Traceback (most recent call last):\n  error at the end"
        shown += follower.feed(f"0/n1.{rank}.err", text.encode(), 0.0)
    shown += follower.close(1.0)
    texts = [line for lines in shown for line in lines.list_texts()]
    assert texts == [
        "the rank is lost",
        "  error at the end",
        "[1 matching line of launcher output hidden; -v shows them]",
    ]


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


def test_a_traceback_is_shown_whole_beside_others_of_which_it_shares_lines() -> None:
    follower = Follower(View(fold=True))
    wait = ['  File "x.py", line 6', "    d.barrier()", "RuntimeError: timeout"]
    for rank, body in ((0, wait), (1, OWN[1:]), (2, wait)):
        text = "".join(f"{line}\n" for line in [OWN[0], *body]).encode()
        assert follower.feed(f"logs/0/0/n1.{rank}.err", text, 0.0) == []
    blocks = [(1 + len(block.also), block.list_texts()) for block in follower.close(1.0)]
    assert blocks == [(2, [OWN[0], *wait]), (1, OWN)]


def test_what_of_many_ranks_is_folded_is_said_once() -> None:
    follower = Follower(View(fold=True))
    for rank in range(3):
        follower.feed(f"logs/0/0/n1.{rank}.err", b"srun: error: n2: task 1: Killed\n", 0.0)
    (note,) = follower.close(1.0)
    assert (1 + len(note.also), note.data) == (
        3,
        b"[1 line of launcher output hidden; -v shows them]\n",
    )


def test_what_a_rank_reports_of_another_one_stays() -> None:
    follower = Follower(View(fold=True, collapse=False))
    (shown,) = follower.feed("logs/0/0/n1.0.err", b"[rank1]: lost\n", 0.0)
    assert shown.data == b"[rank1]: lost\n"

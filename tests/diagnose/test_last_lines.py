"""What the rank wrote last that others waited for: the cause of a hang is there."""

from __future__ import annotations

from jobgen.cli.output import Ink
from jobgen.cli.screens.failure import draw_cause
from jobgen.diagnose import Evidence, LogText, RankEnd, find_cause
from jobgen.diagnose.privacy import mask_cause
from jobgen.model.cause import FailureCause

TRACE = 'Traceback (most recent call last):\n  File "/home/user/train.py", line 7, in main\n'
TIMED_OUT = TRACE + "RuntimeError: Timed out waiting 8000ms for recv operation to complete"
WATCHDOG = (
    "[rank{rank}]:[E1125 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=36, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
)


def diagnose_files(files: dict[str, str], *ends: RankEnd) -> FailureCause:
    logs = tuple(LogText(path, text) for path, text in files.items())
    cause = find_cause(Evidence("FAILED" if ends else "", ends, logs))
    assert cause is not None
    return cause


def test_the_last_line_of_the_rank_that_did_not_join_is_shown_with_its_place() -> None:
    files = {f"0/0/n1.{rank}.err": f"step 1\n{TIMED_OUT}" for rank in range(2)}
    files |= {"0/0/n2.2.err": "", "0/0/n2.2.out": "step 1\nwriting /data/checkpoint-400\n\n"}
    ends = [RankEnd(1.0, "n1", 0, 1), RankEnd(2.0, "n1", 1, 1), RankEnd(3.0, "n2", 2, 143, 15)]
    cause = diagnose_files(files, *ends)
    assert (cause.kind, cause.rank, cause.node) == ("collective_timeout", 2, "n2")
    assert cause.last_lines == (
        "last line of rank 2 on n2, 0/0/n2.2.out:2: writing /data/checkpoint-400",
    )
    rows = " ".join(map(str.strip, draw_cause(cause, Ink(colour=False, width=80))))
    assert "0/0/n2.2.out:2: writing /data/checkpoint-400" in rows


def test_of_a_log_of_all_ranks_the_line_of_that_rank_is_found() -> None:
    lines = [f"{rank}: step 35" for rank in range(4)]
    lines += ["3: loading shard 12 of /data/train", "1: step 36", "0: step 36", "2: step 36"]
    lines += [f"{rank}: {WATCHDOG.format(rank=rank)}" for rank in range(3)]
    lines += ["3: slurmstepd: error: *** STEP 7.0 ON n2 CANCELLED AT 2026-11-25T10:00:09 ***"]
    cause = diagnose_files({"slurm-7.out": "\n".join(["world size: 4", *lines])})
    assert cause.rank == 3
    assert cause.last_lines == (
        "last line of rank 3, slurm-7.out:6: loading shard 12 of /data/train",
    )


def test_a_rank_of_which_there_is_no_line_is_said_to_have_none() -> None:
    lines = [WATCHDOG.format(rank=rank) for rank in range(3)]
    cause = diagnose_files({"train.log": "\n".join(["world size: 4", *lines])})
    assert cause.last_lines == ("rank 3 wrote no line to these logs",)


def test_of_a_failed_rendezvous_the_rank_that_did_not_come_is_shown() -> None:
    waited = TRACE + (
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. "
        "3/4 clients joined."
    )
    files = {f"rank_{rank}.log": f"setting up\n{waited}" for rank in range(3)}
    files["rank_3.log"] = "setting up\ncopying the data set to /tmp\n"
    cause = diagnose_files(files)
    assert cause.kind == "rendezvous"
    assert cause.last_lines == ("last line of rank 3, rank_3.log:2: copying the data set to /tmp",)


def test_the_last_line_is_masked_where_it_is_kept() -> None:
    cause = FailureCause("rendezvous", last_lines=("last line of rank 3: /home/ann/train",))
    assert mask_cause(cause).last_lines == ("last line of rank 3: ~/train",)


def test_the_last_line_in_which_a_logger_names_the_rank_counts() -> None:
    lines = ["INFO train [rank 3]: step 35", "INFO train [rank 3]: staging a shard", "step 36"]
    lines += [WATCHDOG.format(rank=rank) for rank in range(3)]
    cause = diagnose_files({"train.log": "\n".join(["world size: 4", *lines])})
    assert cause.last_lines == (
        "last line of rank 3, train.log:3: INFO train [rank 3]: staging a shard",
    )


def test_of_files_that_name_no_node_the_one_that_did_not_come_is_shown() -> None:
    waited = TRACE + "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
    files = {"alpha.log": f"setting up\n{waited}", "beta.log": "setting up\nmodule load cuda"}
    cause = diagnose_files(files)
    assert cause.kind == "rendezvous"
    assert cause.last_lines == ("last line of beta.log:2: module load cuda",)


def test_where_all_report_the_same_no_last_line_is_shown() -> None:
    waited = TRACE + "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
    cause = diagnose_files({"alpha.log": f"setting up\n{waited}", "beta.log": waited})
    assert cause.last_lines == ()


def test_a_rank_whose_error_names_its_node_is_not_silent() -> None:
    closed = "n1:7:9 [0] socket.cc:4 NCCL WARN Connection closed by remote peer n2<4711>"
    files = {"rank_0.log": f"step 1\n{closed}", "rank_1.log": "step 1\nwriting a checkpoint"}
    cause = diagnose_files(files)
    assert cause.last_lines == ("last line of rank 1, rank_1.log:2: writing a checkpoint",)

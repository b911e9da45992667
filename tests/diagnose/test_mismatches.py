"""Collectives and models that differ between ranks: what differs, and on which ranks."""

from __future__ import annotations

import pytest

from jobgen.diagnose import Evidence, LogText, find_cause
from jobgen.model.cause import FailureCause
from tests.diagnose.logs import diagnose_failure

OPTIONS = (
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), "
    "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
)


def write_call(rank: int, operation: str, shape: str, number: int = 36, kind: str = "Float") -> str:
    return (
        f"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={number}, "
        f"OpType={operation}, TensorShape=[{shape}], TensorDtypes={kind}, {OPTIONS})"
    )


def report(rank: int, one: str, other: str, differ: str) -> tuple[str, ...]:
    head = f"[rank{rank}]: "
    return (
        f"{head}Traceback (most recent call last):",
        f'{head}  File "/home/user/train.py", line 7, in main',
        f"{head}    dist.all_reduce(x)",
        (
            f"{head}RuntimeError: Detected mismatch between collectives on ranks. {one}, "
            f"but {other}.Collectives differ in the following aspects: \t {differ}"
        ),
    )


def test_one_collective_with_different_sizes_names_the_rank_and_the_sizes() -> None:
    usual = [write_call(rank, "ALLREDUCE", "10") for rank in range(3)]
    odd = write_call(2, "ALLREDUCE", "12")
    shapes = "Tensor Tensor shapes: 10vs 12"
    cause = diagnose_failure(
        *report(0, usual[0], odd, shapes),
        *report(1, usual[1], odd, shapes),
        *report(2, odd, usual[0], shapes),
    )
    assert (cause.kind, cause.rank) == ("collective_mismatch", 2)
    assert cause.title == "Ranks passed different sizes to one collective"
    assert cause.says == "rank 2 passed [12] to ALLREDUCE, the others [10]"


def test_of_two_ranks_with_different_sizes_both_are_named() -> None:
    one, other = write_call(1, "BROADCAST", "19581"), write_call(0, "BROADCAST", "5112")
    cause = diagnose_failure(*report(1, one, other, "Tensor Tensor shapes: 19581vs 5112"))
    assert cause.bad_rank is None
    assert cause.says == "rank 0 passed [5112] to BROADCAST, rank 1 [19581]"


def test_different_types_and_different_operations_are_named_as_such() -> None:
    half = write_call(1, "ALLREDUCE", "4", kind="Half")
    types = diagnose_failure(*report(0, write_call(0, "ALLREDUCE", "4"), half, "Tensor dtypes"))
    assert types.title == "Ranks passed different types to one collective"
    assert types.says == "rank 0 passed Float to ALLREDUCE, rank 1 Half"
    call = write_call(1, "BROADCAST", "4")
    operations = diagnose_failure(*report(0, write_call(0, "ALLREDUCE", "4"), call, "Op type"))
    assert operations.title == "Ranks called different collectives"
    assert operations.says == "rank 0 called ALLREDUCE, rank 1 BROADCAST"
    short = "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=37OpType=BARRIER)"
    behind = diagnose_failure(*report(0, write_call(0, "BARRIER", "4"), short, "Sequence number"))
    assert behind.says == "rank 0 called BARRIER as number 36, rank 1 as number 37"


def diagnose_ranks(**logs: str) -> FailureCause:
    cause = find_cause(Evidence(logs=tuple(LogText(f"{n}.log", text) for n, text in logs.items())))
    assert cause is not None
    return cause


SIZES = (
    "RuntimeError: [{rank}]: params[0] in this process with sizes [50258, 768] appears not to "
    "match sizes of the same param in process 0."
)
TRACE = 'Traceback (most recent call last):\n  File "/home/user/train.py", line 1, in <module>\n'
CLOSED = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5"


def test_a_vocabulary_that_differs_on_one_rank_is_a_model_that_differs() -> None:
    cause = diagnose_ranks(
        rank_0=TRACE + CLOSED,
        rank_1=TRACE + CLOSED,
        rank_2=TRACE + SIZES.format(rank=2),
        rank_3=TRACE + CLOSED,
    )
    assert (cause.kind, cause.rank) == ("collective_mismatch", 2)
    assert cause.title == "The model differs between ranks"
    assert cause.says == (
        "parameter 0 has sizes [50258, 768] on rank 2 and others on rank 0; a first size that "
        "differs is usually the vocabulary"
    )


def test_if_all_other_ranks_differ_from_rank_0_alike_rank_0_is_the_odd_one() -> None:
    logs = {f"rank_{rank}": TRACE + SIZES.format(rank=rank) for rank in range(1, 4)}
    cause = diagnose_ranks(rank_0=TRACE + CLOSED, **logs)
    assert cause.bad_rank == 0
    assert cause.says.startswith("parameter 0 has sizes [50258, 768] on ranks 1, 2, 3 and others")


def test_models_with_different_numbers_of_parameters_name_the_rank() -> None:
    expects = "RuntimeError: DDP expects same model across all ranks, but Rank {} has {} params, "
    expects += "while rank {} has inconsistent {} params."
    cause = diagnose_ranks(
        rank_0=TRACE + expects.format(0, 148, 1, 150),
        rank_1=TRACE + expects.format(1, 150, 0, 148),
        rank_2=TRACE + expects.format(2, 148, 1, 150),
    )
    assert (cause.rank, cause.title) == (1, "The model differs between ranks")
    assert cause.says == "rank 1 has 150 parameters, the others 148"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            (
                "RuntimeError: [enforce fail at ../gloo/transport/tcp/pair.cc:446] op.preamble."
                "length <= op.nbytes. 40 vs 16"
            ),
            "a rank received 40 bytes where it expected 16",
        ),
        (
            (
                "n1:7:9 [0] transport/net_socket.cc:527 NCCL WARN NET/Socket : peer 10.0.0.2<4711> "
                "message truncated : receiving 4096 bytes instead of 2048. If you believe your "
                "socket network is in healthy state, there may be a mismatch in collective sizes"
            ),
            "a rank received 4,096 bytes from 10.0.0.2 where it expected 2,048",
        ),
        (
            (
                "n1:7:9 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer "
                "10.0.0.2<4711> collective mismatch error, local size 2048 remote size 4096"
            ),
            "a rank received 4,096 bytes from 10.0.0.2 where it expected 2,048",
        ),
    ],
)
def test_sizes_that_a_network_reports_are_named(line: str, says: str) -> None:
    cause = diagnose_failure(line)
    assert (cause.kind, cause.says) == ("collective_mismatch", says)
    assert cause.title == "Ranks passed different sizes to one collective"
    assert cause.bad_rank is None


def time_out(rank: int, operation: str, count: int, number: int = 36) -> str:
    return (
        f"[rank{rank}]:[E1125 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, "
        f"NumelIn={count}, NumelOut={count}, Timeout(ms)=600000) ran for 600001 milliseconds"
    )


def test_ranks_that_time_out_in_one_collective_with_different_sizes() -> None:
    lines = [time_out(rank, "ALLREDUCE", 4096) for rank in (0, 2, 3)]
    cause = diagnose_failure(*lines, time_out(1, "ALLREDUCE", 4160))
    assert (cause.kind, cause.rank) == ("collective_mismatch", 1)
    assert cause.title == "Ranks passed different sizes to one collective"
    assert cause.says == "rank 1 passed 4,160 elements to ALLREDUCE 36, the others 4,096"


def test_a_rank_that_times_out_in_another_collective_of_the_same_number() -> None:
    lines = [time_out(rank, "ALLREDUCE", 4096) for rank in (0, 1, 2)]
    cause = diagnose_failure(*lines, time_out(3, "BROADCAST", 1))
    assert (cause.kind, cause.rank) == ("collective_mismatch", 3)
    assert cause.title == "Ranks called different collectives"
    assert cause.says == "rank 3 waited in BROADCAST 36, the others in ALLREDUCE 36"


def test_sizes_of_different_groups_are_no_mismatch() -> None:
    lines = [time_out(rank, "ALLREDUCE", 4096) for rank in (0, 1)]
    lines += [time_out(rank, "ALLREDUCE", 512) for rank in (2, 3)]
    assert diagnose_failure(*lines).kind == "collective_timeout"
    lines = [time_out(rank, "ALLREDUCE", 4096).replace("[Rank", "[PG ID 1 PG GUID 1(dp) Rank")
             for rank in (0, 1, 2)]  # fmt: skip
    lines.append(time_out(3, "ALLREDUCE", 8).replace("[Rank", "[PG ID 2 PG GUID 2(tp) Rank"))
    assert diagnose_failure(*lines).kind == "collective_timeout"

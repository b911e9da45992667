"""What GPUs, their network and NCCL write when they fail."""

from __future__ import annotations

import pytest

from tests.diagnose.logs import diagnose, diagnose_failure


@pytest.mark.parametrize(
    ("line", "kind", "retry"),
    [
        (
            "Memory access fault by GPU node-1 on address 0x7f. Reason: Unknown.",
            "cuda",
            "no",
        ),
        (
            "rocdevice.cpp:26: 81 us: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION",
            "cuda",
            "no",
        ),
        (
            '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
            "gpu_architecture",
            "no",
        ),
        (
            "NCCL WARN Cuda failure 'API call is not supported in the installed CUDA driver'",
            "cuda_version",
            "no",
        ),
        ("RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR", "cuda", "no"),
        (
            "n1:7:9 [0] net_ib.cc:9 NCCL WARN NET/IB : req 0/1 collective mismatch error, local",
            "collective_mismatch",
            "no",
        ),
        (
            "n1:7:9 [0] misc/socket.cc:4 NCCL WARN socketStartConnect: exceeded retries (20000)",
            "connection_refused",
            "no",
        ),
        (
            (
                "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, unhandled "
                "cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
            ),
            "nccl",
            "yes",
        ),
        (
            "RuntimeError: NCCL error in: NCCLUtils.hpp:82, invalid argument, NCCL version 2.4",
            "nccl",
            "no",
        ),
        (
            "n1:7:9 [1] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found",
            "nccl",
            "no",
        ),
        (
            (
                "n1:7:9 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has "
                "already checked in"
            ),
            "launcher",
            "no",
        ),
        (
            (
                "RingGather: Collective ops is aborted by: Shape mismatch in the collective "
                "instance 24. Op at device /job:worker expected shape [98] but another member [102]"
            ),
            "collective_mismatch",
            "no",
        ),
        (
            (
                "RuntimeError: Gloo connectFullMesh failed with [enforce fail at address.cc:51] "
                "ss1.ss_family == ss2.ss_family. 2 vs 10"
            ),
            "interface",
            "no",
        ),
        ("*** SIGABRT received at time=1734086759 ***", "abort", "no"),
        ("*** SIGSEGV received at time=1734086759 on cpu 3 ***", "segfault", "no"),
        (
            "slurmstepd: error: pyxis: seccomp filter failed: Function not implemented",
            "container_runtime",
            "no",
        ),
        (
            "OCI runtime create failed\nnvidia-container-cli: error: x.so: undefined symbol: f",
            "container_runtime",
            "other_nodes",
        ),
    ],
)
def test_one_line_shows_the_cause(line: str, kind: str, retry: str) -> None:
    cause = diagnose_failure(*line.split("\n"))
    assert (cause.kind, cause.retry) == (kind, retry)


@pytest.mark.parametrize("event", ["port error", "local catastrophic error"])
def test_the_node_whose_adapter_failed_goes_before_those_that_lost_it(event: str) -> None:
    cause = diagnose_failure(
        "iteration 12 loss 0.5",
        "n2:7:9 [1] net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.1 with error 12",
        f"n1:5:6 [0] net_ib.cc:9 NCCL WARN NET/IB : Got async event : {event}",
    )
    assert (cause.kind, cause.node, cause.retry) == ("network_fault", "n1", "other_nodes")


def test_an_adapter_event_that_means_nothing_is_no_failure() -> None:
    line = "n1:5:6 [0] net_ib.cc:9 NCCL WARN NET/IB : Got async event : client reregistration"
    assert (
        diagnose("step 1 loss 3", line, "step 2 loss 2", "step 3 loss 2", "step 4 loss 2") is None
    )


def test_a_peer_that_closed_its_connection_was_not_refused() -> None:
    cause = diagnose_failure(
        "socketPollConnect: connect to 10.0.0.2<402> returned Connection closed by remote peer, "
        "exceeded error retry count after 35 attempts"
    )
    assert cause.kind == "lost_peer"


def test_the_rank_of_a_gpu_is_the_one_that_reports_the_same_cause() -> None:
    cause = diagnose_failure(
        "n1:7:9 [5] src/p2p.cc:281 NCCL WARN HIP failure: 'invalid device pointer'",
        "[rank13]: Traceback (most recent call last):",
        '[rank13]:   File "train.py", line 3, in main',
        "[rank13]: torch.distributed.DistBackendError: NCCL error in: a:7, unhandled cuda error",
        "[rank2]: ncclRemoteError: A call failed possibly due to a network error.",
        "srun: error: n1: task 1: Exited with exit code 1",
    )
    assert (cause.kind, cause.rank, cause.node) == ("nccl", 13, "n1")


def test_ranks_whose_errors_one_rule_knows_report_the_same() -> None:
    cause = diagnose_failure(
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "train.py", line 3, in main',
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank4]: torch.OutOfMemoryError: CUDA out of memory while a kernel was loaded",
    )
    assert (cause.kind, cause.all_ranks) == ("gpu_memory", True)


WAIT = "[E ProcessGroupNCCL.cpp:566] [Rank {}] Watchdog caught collective operation timeout: "


def test_one_rank_in_another_collective_than_all_others_is_a_mismatch() -> None:
    lines = [
        f"{WAIT.format(rank)}WorkNCCL(OpType={call}, Timeout(ms)=1800000) ran for 1800060 ms"
        for rank, call in enumerate(["ALLREDUCE", "BROADCAST", "BROADCAST"])
    ]
    cause = diagnose_failure(*lines)
    assert (cause.kind, cause.rank) == ("collective_mismatch", 0)
    # two ranks alone may belong to different groups
    assert diagnose_failure(*lines[:2]).kind == "collective_timeout"


@pytest.mark.parametrize(
    ("line", "retry"),
    [
        ("# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5", "no"),
        ("[rank3]: WorkNCCL(SeqNum=88121, OpType=ALLREDUCE, NumelIn=4)", "yes"),
    ],
)
@pytest.mark.parametrize(
    "fault",
    [
        "n1:7:9 [0] ofi.c:114 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 5",
        "n1:7:9 [0] socket.cc:4 NCCL WARN socketStartConnect: exceeded retries (20000)",
        "RuntimeError: CUDA error: an illegal instruction was encountered",
        "Queue 0x7e aborting with error : HSA_STATUS_ERROR_EXCEPTION code: 0x1016",
    ],
)
def test_what_worked_for_a_while_may_work_again(line: str, retry: str, fault: str) -> None:
    assert diagnose_failure(line, fault).retry == retry


def test_ranks_that_all_waited_in_one_collective_may_wait_no_more() -> None:
    step = "step 12 loss 2.1"
    waits = [
        f"{WAIT.format(rank)}WorkNCCL(SeqNum=14, OpType=ALLREDUCE, NumelIn=4)" for rank in (0, 1)
    ]
    assert diagnose_failure(step, *waits).retry == "yes"
    assert diagnose_failure(*waits).retry == "no"
    stayed_away = "[rank2]: step 12 of rank 2"
    assert diagnose_failure(step, stayed_away, *waits).retry == "no"


def test_processes_of_one_node_that_want_one_port_will_want_it_again() -> None:
    taken = "{0}: RuntimeError: failed to bind to [::]:29777 (errno: 98 - Address already in use)"
    ends = "srun: error: n1: tasks 1-2: Exited with exit code 1"
    one = [taken.format(1), "1: a", "2: b", "3: c", "0: d"]
    assert diagnose_failure(*one, ends).retry == "yes"
    assert diagnose_failure(*one, taken.format(2), ends).retry == "no"


@pytest.mark.parametrize(
    ("line", "certainty"),
    [
        ("RuntimeError: basic_ios::clear: iostream error", "likely"),
        ("OSError: [Errno 28] No space left on device: 'a.pt'", "sure"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "unclear"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "unclear"),
    ],
)
def test_what_may_have_another_cause_is_not_said_to_be_sure(line: str, certainty: str) -> None:
    head = ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>')
    assert diagnose_failure(*head, line).certainty == certainty


def test_the_one_rank_that_names_itself_is_that_of_the_traceback() -> None:
    cause = diagnose_failure(
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 7, in main',
        "    loss.backward()",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "",
        "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: "
        "CUDA error: uncorrectable ECC error encountered",
    )
    assert (cause.kind, cause.rank) == ("gpu_fault", 1)


def test_what_concerns_the_whole_job_blames_no_rank() -> None:
    cause = diagnose_failure(
        "[rank0]: RuntimeError: Gloo connectFullMesh failed with [enforce fail at address.cc:51] "
        "ss1.ss_family == ss2.ss_family. 2 vs 10"
    )
    assert (cause.kind, cause.rank) == ("interface", None)


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        ("CUDA error: hardware stack error", "gpu_fault", "other_nodes"),
        ("CUDA error: MPS server failed", "gpu_fault", "other_nodes"),
        ("CUDA error: MPS server maximum client count reached", "gpu_occupied", "other_nodes"),
        ("CUDA error: device is unavailable", "gpu_occupied", "other_nodes"),
        ("CUDA error: CUDA driver is a stub library", "cuda_version", "no"),
        ("CUDA error: PTX JIT compiler library not found", "cuda_version", "no"),
        ("CUDA error: invalid device function", "gpu_architecture", "no"),
        ("CUDA error: CUBLAS_STATUS_ARCH_MISMATCH", "gpu_architecture", "no"),
        ("cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "shared_library", "no"),
        ("CUDA error: invalid resource handle", "cuda", "no"),
    ],
)
def test_the_errors_of_cuda_and_its_libraries_have_their_causes(
    error: str, kind: str, retry: str
) -> None:
    cause = diagnose_failure(f"RuntimeError: {error}")
    assert (cause.kind, cause.retry) == (kind, retry)

"""What libraries around PyTorch, launchers of MPI, and Slurm write when a job fails."""

from __future__ import annotations

import pytest

from tests.diagnose.logs import diagnose, diagnose_failure


@pytest.mark.parametrize(
    ("line", "kind", "retry"),
    [
        (
            "RuntimeError: Resource exhausted: Out of memory while allocating 9 bytes.",
            "gpu_memory",
            "no",
        ),
        ("ResourceExhaustedError: OOM when allocating tensor with shape[9,9]", "gpu_memory", "no"),
        ("RuntimeError: Triton Error [CUDA]: out of memory", "gpu_memory", "no"),
        (
            "RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
            "gpu_architecture",
            "no",
        ),
        (
            "E [[node a]] Horovod has been shut down. This was caused by one rank.",
            "lost_peer",
            "yes",
        ),
        (
            "RuntimeError: CAS service error : Reqwest Error: (429 Too Many Requests)",
            "rate_limit",
            "yes",
        ),
        ("RuntimeError: CAS service error : Reqwest Error: connection reset", "offline", "yes"),
        (
            "RuntimeError: Internal: a.cc:1: NCCL operation ncclAllReduce(a) failed: invalid usage",
            "nccl",
            "no",
        ),
        (
            "XGBoostError: NCCL failure: invalid argument (run with NCCL_DEBUG=WARN for details)",
            "nccl",
            "no",
        ),
        ("RuntimeError: NCCL operation ncclGroupEnd() failed: timeout", "collective_timeout", "no"),
        (
            "Aborted: /job:w/task:1 unexpectedly tried to connect with a different incarnation.",
            "lost_peer",
            "yes",
        ),
        ("Internal: Barrier failed because a task is in error. Barrier Id: 7", "lost_peer", "yes"),
        (
            "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
            "rendezvous",
            "yes",
        ),
        ("RuntimeError: File out/last.pt cannot be opened.", "disk_full", "no"),
        ("OSError: Can't load tokenizer for 'org/name'. If you were trying", "missing_file", "no"),
        ("OSError: Can't load the configuration of 'x'. If you were", "missing_file", "no"),
        ("wandb: ERROR Error: permission denied (<Response [403]>)", "access", "no"),
        ("CommError: Permission denied, ask the project owner to grant you", "access", "no"),
        ("F0912 23:44:52.55 140 io.cc:77] Check failed: a == b (7 vs. 9)", "abort", "no"),
        ("2026-01-08 12:48:28.425710: F tensorflow/core/x.cc:47] a was null", "abort", "no"),
        ("Exception: exit 1 (read)", "exception", "no"),
        ('Exception in thread "main" java.lang.IllegalStateException: x', "exception", "no"),
        ("google.api_core.exceptions.NotFound: none", "exception", "no"),
        ("pkg.errors.GaveUp", "exception", "no"),
        ("HfHubHTTPError: 504 Server Error: Gateway Time-out for url: a", "offline", "yes"),
        ("ProtocolError: ('Connection broken: IncompleteRead(1 bytes)')", "offline", "yes"),
        ("SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate", "offline", "no"),
        ("ClientError: An error occurred (SlowDown) when calling GetObject", "rate_limit", "yes"),
        ("ClientError: An error occurred (AccessDenied) when calling", "access", "no"),
        ("ClientError: An error occurred (NoSuchKey) when calling", "missing_file", "no"),
        ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "access", "no"),
        ("zipfile.BadZipFile: File is not a zip file", "checkpoint_damaged", "no"),
        ("OSError: Unable to open file (truncated file: eof = 96)", "checkpoint_damaged", "no"),
        ("OSError: (unable to lock file, errno = 11, error message = 'a')", "file_system", "no"),
        ("slurm_script: line 14: DATA: unbound variable", "setup", "no"),
        ("job.sh: line 4: syntax error near unexpected token `fi'", "setup", "no"),
        ("DistNetworkError: failed to recv, got 0 bytes", "lost_peer", "yes"),
        (
            "ncclSystemError: a\nLast error:\nConnection closed by remote peer n7",
            "lost_peer",
            "yes",
        ),
        (
            "CalledProcessError: Command '['/bin/gcc', 'a.c']' returned non-zero exit status 1.",
            "shared_library",
            "no",
        ),
        ("An MPI communication peer process has unexpectedly disconnected.", "lost_peer", "yes"),
        ("thread 'main' panicked at src/train.rs:42:10:", "abort", "no"),
        ("ERROR: LoadError: BoundsError: attempt to access index [7]", "exception", "no"),
        ("s.h:3 WARN Socket creation failed : Address family not supported", "interface", "no"),
        (
            "AssertionError: First dimension should be divisible by tensor parallel size",
            "parallel_size",
            "no",
        ),
        ("omegaconf.errors.ConfigKeyError: Key 'lr' not in 'Optimizer'", "arguments", "no"),
        ("omegaconf.errors.ConfigAttributeError: Key 'optim' is not in struct", "arguments", "no"),
        ("*** An error occurred in MPI_Init_thread", "launcher", "no"),
        ("*** An error occurred in MPI_Allreduce", "abort", "no"),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "launcher",
            "yes",
        ),
        (
            "srun: error: Unable to confirm allocation: Unable to contact slurm controller",
            "launcher",
            "yes",
        ),
        (
            "n1:7:9 [0] s.h:4 NCCL WARN Net : Connect to 10.0.0.2<5> failed : No route to host",
            "connection_refused",
            "other_nodes",
        ),
    ],
)
def test_one_line_shows_the_cause(line: str, kind: str, retry: str) -> None:
    cause = diagnose_failure(line)
    assert (cause.kind, cause.retry) == (kind, retry)


def test_a_step_that_was_cancelled_and_shows_nothing_else_was_cancelled() -> None:
    end = "slurmstepd: error: *** STEP 47.0 ON n1 CANCELLED AT 2026-11-29T15:47:21 ***"
    cause = diagnose_failure("Epoch 5: 100%", end, "[rank: 3] Received SIGTERM: 15")
    assert (cause.kind, cause.retry) == ("cancelled", "yes")
    assert diagnose_failure("RuntimeError: CUDA out of memory", end).kind == "gpu_memory"


def test_a_service_of_nccl_that_lost_its_peer_is_a_victim() -> None:
    failed = "[Proxy Service 9] Failed to execute operation Connect from rank 9, retcode"
    assert diagnose_failure(f"n1:7:9 [1] proxy.cc:1 NCCL WARN {failed} 3").kind == "nccl"
    lost = (
        "n1:7:9 [1] socket.cc:5 NCCL WARN Net : Call to recv from 10.0.0.2<5> failed : Broken pipe"
    )
    assert diagnose_failure(lost, f"n1:7:9 [1] proxy.cc:1 NCCL WARN {failed} 6").kind == "lost_peer"


@pytest.mark.parametrize(
    "line",
    [
        "max seq len 9 is larger than the maximum number of tokens that can be stored in KV cache",
        "4 GiB KV cache is needed, which is larger than the available KV cache memory (3 GiB)",
    ],
)
def test_vllm_has_no_memory_left_for_one_sequence(line: str) -> None:
    assert diagnose_failure(f"ValueError: {line}").kind == "gpu_memory"


def test_lightning_asks_for_more_gpus_than_there_are() -> None:
    head = "lightning.fabric.utilities.exceptions.MisconfigurationException: "
    cause = diagnose_failure(head, "  You requested gpu: [0, 1]", " But your machine only has: [0]")
    assert cause.kind == "no_gpu"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    Write failed because No space left on device", "disk_full"),
        ("    mkdir: cannot create directory '/run/enroot': Permission denied", "permission"),
    ],
)
def test_why_an_image_could_not_be_imported_is_the_cause(line: str, kind: str) -> None:
    before = "slurmstepd: error: pyxis: failed to import docker image"
    assert diagnose_failure(before, f"slurmstepd: error: pyxis: {line}").kind == kind


def test_mpirun_names_the_first_process_that_ended_badly() -> None:
    box = ("  Process name: [[29973,1],2]", "  Exit code:    3")
    cause = diagnose_failure("The first process to do so was:", "", *box)
    assert (cause.kind, cause.bad_rank, cause.code) == ("exit_code", 2, 3)


def test_a_spawned_process_that_waited_in_vain_is_a_cause() -> None:
    cause = diagnose_failure(
        "-- Process 1 terminated with the following error:",
        "Traceback (most recent call last):",
        '  File "/home/a/train.py", line 7, in main',
        "    dist.init_process_group(backend='nccl')",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 1",
    )
    assert cause.kind == "rendezvous"


def test_horovod_names_the_rank_that_is_missing() -> None:
    stalled = "[1,0]<stderr>:[2026-01-01 10:00:00.1: W operations.cc:588] grad_0 [missing ranks: 1]"
    cause = diagnose_failure("[1,0]<stdout>:step 1", stalled)
    assert (cause.kind, cause.bad_rank) == ("collective_timeout", 1)
    steps = [f"[1,0]<stdout>:step {number} loss 2" for number in range(2, 6)]
    assert diagnose(stalled, *steps) is None


def test_a_logger_names_its_rank() -> None:
    line = "[2026-01-01 10:00:00] CRITICAL [a.util:158, rank=6] Uncaught ValueError: bad value"
    first = "torch.OutOfMemoryError: CUDA out of memory"
    assert diagnose_failure(f"[2026-01-01 10:00:00] ERROR [a.util:1, rank=6] {first}").bad_rank == 6
    assert diagnose_failure(line.replace("ValueError: bad value", first)).bad_rank == 6


KILLED = "[launch.py:434:sigkill_handler] ['python', 'a.py'] exits with return code = -9"


@pytest.mark.parametrize(
    ("before", "retry"),
    [
        ("Loading checkpoint shards:  40%|####      | 2/5 [00:12<00:18,  6.12s/it]", "no"),
        ("Map (num_proc=8):  40%|####      | 4000/10000 [00:12<00:18, 612.1 examples/s]", "no"),
        ("  0%|          | 0/7 [00:00<?, ?it/s]", "no"),
        ("  4%|#         | 4/100 [00:12<00:18,  6.12s/it]", "yes"),
    ],
)
def test_what_was_killed_before_its_first_step_lacked_memory(before: str, retry: str) -> None:
    cause = diagnose_failure(before, KILLED)
    assert (cause.kind, cause.retry) == ("signal", retry)


WAIT = (
    "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, "
    "NumelIn={3}, NumelOut=9, Timeout(ms)=6) ran for 9 milliseconds"
)


@pytest.mark.parametrize(
    ("waits", "retry"),
    [
        ([(0, 900, "ALLREDUCE", 4096), (2, 900, "ALLREDUCE", 4096)], "yes"),
        ([(0, 900, "ALLREDUCE", 1), (2, 900, "ALLREDUCE", 1)], "no"),  # a barrier, or a metric
        ([(0, 900, "ALLREDUCE", 4096), (2, 901, "ALLREDUCE", 4096)], "no"),
        ([(0, 900, "ALLREDUCE", 4096), (2, 900, "BROADCAST", 4096)], "no"),
        ([(0, 9, "ALLREDUCE", 4096), (2, 9, "ALLREDUCE", 4096)], "no"),  # before a step
    ],
)
def test_some_ranks_that_waited_in_one_large_collective_may_wait_no_more(
    waits: list[tuple[int, int, str, int]], retry: str
) -> None:
    lines = [WAIT.format(*each) for each in waits]
    cause = diagnose_failure("All distributed processes registered.", *lines)
    assert cause.retry == retry


@pytest.mark.parametrize(
    ("ranks", "missing"),
    [
        ((1, 2, 3, 4), 0),
        ((5, 0, 3, 1, 4), 2),
        ((1, 2, 3), 0),
        ((0, 1, 2, 3), None),
        ((0, 1, 3), None),  # too few: the log may be an excerpt
        ((0, 1, 4, 5), None),
    ],
)
def test_the_one_rank_between_those_that_waited_stayed_away(
    ranks: tuple[int, ...], missing: int | None
) -> None:
    lines = [WAIT.format(rank, 4, "BROADCAST", 112) for rank in ranks]
    cause = diagnose_failure("loading", *lines)
    assert (cause.kind, cause.bad_rank) == ("collective_timeout", missing)


def test_the_coordinator_of_jax_names_the_process_that_it_lost() -> None:
    cause = diagnose_failure(
        "E coordination_service.cc:1170] UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 "
        "heartbeat timeout. This indicates that the remote task has failed."
    )
    assert (cause.kind, cause.rank, cause.retry) == ("lost_peer", 5, "yes")


@pytest.mark.parametrize(
    ("line", "kind", "retry", "node"),
    [
        ("failed on node n2: Job prolog failed", "launcher", "other_nodes", "n2"),
        ("failed on node n2: Slurmd could not fork job", "launcher", "other_nodes", "n2"),
        ("failed on node n2: Socket timed out on send/recv operation", "launcher", "yes", "n2"),
        ("failed on node n2: Invalid job credential", "launcher", "yes", "n2"),
    ],
)
def test_a_step_that_a_node_did_not_start_names_the_node(
    line: str, kind: str, retry: str, node: str
) -> None:
    cause = diagnose_failure(f"srun: error: Task launch for StepId=96.0 {line}")
    assert (cause.kind, cause.retry, cause.node) == (kind, retry, node)


@pytest.mark.parametrize(
    ("line", "kind", "retry"),
    [
        ("sbatch: error: Batch job submission failed: {0}", "launcher", "yes"),
        ("srun: error: Unable to create step for job 5: {0}", "launcher", "yes"),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        "Unable to contact slurm controller (connect failure)",
        "Controller is in standby mode, try a different controller",
        "Zero Bytes were transmitted or received",
        "Message receive failure",
    ],
)
def test_a_controller_that_does_not_answer_may_answer_later(
    line: str, kind: str, retry: str, error: str
) -> None:
    cause = diagnose_failure(line.format(error))
    assert (cause.kind, cause.retry) == (kind, retry)


@pytest.mark.parametrize(
    ("line", "kind", "retry"),
    [
        ("srun: error: Prolog hung on node n1", "launcher", "other_nodes"),
        ("slurmstepd: error: Failed to invoke task plugins: error", "launcher", "other_nodes"),
        ("srun: error: Couldn't find the specified plugin name for mpi/pmix", "launcher", "no"),
        ("srun: error: aborting, io error with slurmstepd on node 3", "node_failure", "yes"),
        ("salloc: Job 7 has exceeded its time limit and was revoked.", "time_limit", "no"),
        ("srun: Job allocation 77 has been revoked.", "cancelled", "yes"),
        ("OSError: [Errno 37] No locks available: '/data/a.lock'", "file_system", "yes"),
        ("OSError: [Errno 127] Key has expired: '/data/a'", "permission", "no"),
        ("OSError: [Errno 99] Cannot assign requested address", "interface", "no"),
        ("TimeoutError: [Errno 110] Connection timed out", "connection_refused", "yes"),
    ],
)
def test_what_slurm_and_linux_report_of_a_node(line: str, kind: str, retry: str) -> None:
    cause = diagnose_failure(line)
    assert (cause.kind, cause.retry) == (kind, retry)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/bin/gcc", "shared_library"),
        ("tar", "exception"),
        ("/opt/bin/python3.11", "exit_code"),
    ],
)
def test_a_command_that_failed_is_the_program_or_its_own(command: str, kind: str) -> None:
    cause = diagnose_failure(
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 3, in <module>',
        "    subprocess.check_call(command)",
        f"subprocess.CalledProcessError: Command '['{command}', 'a']' returned non-zero exit "
        "status 1.",
    )
    assert cause.kind == kind


@pytest.mark.parametrize("line", ["errors.Top1: 0.31", "val.errors.Top1: 0.31", "net.Conv2d: 9"])
def test_a_metric_or_a_layer_is_no_exception(line: str) -> None:
    assert diagnose("step 1 loss 0.5", line) is None

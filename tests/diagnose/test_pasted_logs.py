"""Logs as people paste them, and as collectors and terminals change them."""

from __future__ import annotations

import pytest

from jobgen.model.cause import CauseKind
from tests.diagnose.logs import diagnose, diagnose_failure

TRACE = (
    "Traceback (most recent call last):",
    '  File "/home/user/train.py", line 7, in main',
    "    loss = step(batch)",
    "KeyError: 'label'",
)
BOX = (
    "╭──────────── Traceback (most recent call last) ────────────╮",
    "│ /home/user/train.py:12 in main                            │",
    "│                                                           │",
    "│ ❱ 12 │   engine = deepspeed.initialize(args)              │",
    "╰───────────────────────────────────────────────────────────╯",
)


@pytest.mark.parametrize(
    "prefix",
    [
        "ERROR 01-02 10:00:00 worker.py:148] ",
        "(RayTrainWorker pid=7, ip=10.0.0.2) ERROR 01-02 10:00:00 [core.py:387] ",
        "2026-01-02T10:00:00.123Z ",
        "2026-01-02 10:00:00.000 [INFO] [Driver] ",
        "[pod/trainer-worker-0/pytorch] ",
        "[36m(RayTrainWorker pid=7, ip=10.0.0.2)[0m ",
        "[rank0]:[rank0]: ",
        "  [rank0]: ",
        "[4711] [rank0]:",
    ],
)
def test_what_stands_before_each_line_of_a_traceback_is_no_part_of_it(prefix: str) -> None:
    cause = diagnose_failure("step 1 loss 0.5", *(f"{prefix}{line}" for line in TRACE))
    assert (cause.kind, cause.text) == (CauseKind.EXCEPTION, "KeyError: 'label'")
    assert any("loss = step(batch)" in line for line in cause.lines)


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[1,3]<stderr>: ", 3),
        ("[prterun-n1-81@1,3]<stderr>: ", 3),
        ("[3]<stderr>:", 3),
        ("(Worker rank=3 pid=81) ", 3),
        ("> [rank3]: ", 3),
        ("2026-01-02 10:00:00,123 - trainer - INFO - [rank3]: ", 3),
    ],
)
def test_launchers_name_the_rank_before_each_line(prefix: str, rank: int) -> None:
    cause = diagnose_failure("[1,0]<stdout>: step 1", *(f"{prefix}{line}" for line in TRACE))
    assert (cause.text, cause.rank) == ("KeyError: 'label'", rank)


def test_the_time_of_a_collector_may_stand_before_the_rank() -> None:
    lines = [f"2026-01-02T10:00:0{at}.1Z: [1,3]<stderr>: {line}" for at, line in enumerate(TRACE)]
    cause = diagnose_failure("2026-01-02T10:00:00.1Z: [1,0]<stdout>: step 1", *lines)
    assert (cause.text, cause.rank) == ("KeyError: 'label'", 3)
    assert any("loss = step(batch)" in line for line in cause.lines)


def test_an_error_that_one_rank_logs_again_is_that_of_the_rank() -> None:
    error = "HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/a"
    cause = diagnose_failure(error, f"[10:00:00] CRITICAL [util:158, rank=6] Uncaught {error}")
    assert (cause.kind, cause.rank) == ("rate_limit", 6)


def test_a_traceback_without_its_indentation_is_one() -> None:
    cause = diagnose_failure(*(line.strip() for line in TRACE))
    assert cause.text == "KeyError: 'label'"
    assert cause.lines == (
        'File "/home/user/train.py", line 7, in main',
        *map(str.strip, TRACE[2:]),
    )


def test_a_traceback_in_a_box_has_its_place_and_its_wrapped_message() -> None:
    cause = diagnose_failure(
        *BOX,
        "AssertionError: Check batch related parameters. train_batch_size is not",
        "equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 8 * 1",
    )
    assert (cause.kind, cause.lines[0]) == (
        "batch_size",
        '  File "/home/user/train.py", line 12, in main',
    )


def test_an_exception_whose_name_was_lost_has_that_which_was_raised() -> None:
    cause = diagnose_failure(
        '  File "/lib/python3.8/site-packages/accelerate/accelerator.py", line 9, in prepare',
        "    raise ValueError(",
        "You can't train a model that has been loaded with `device_map='auto'` in this mode.",
    )
    assert cause.kind == "framework_config"


def test_an_exception_alone_at_the_end_is_the_cause() -> None:
    assert diagnose_failure("step 1", "my.code.ShapeError: 3 != 4").kind == CauseKind.EXCEPTION
    went_on = [f"step {number}" for number in range(40)]
    assert diagnose("my.code.ShapeError: 3 != 4, next batch", *went_on) is None


def test_the_launchers_own_exception_is_no_cause() -> None:
    assert diagnose(*BOX, "ChildFailedError:", "train.py FAILED") is None


def test_what_cpp_reports_as_its_exception_goes_before_the_abort() -> None:
    cause = diagnose_failure(
        "terminate called after throwing an instance of 'c10::CUDAError'",
        "  what():  CUDA error: unknown error",
    )
    assert cause.kind == "gpu_fault"


def test_a_cancelled_job_went_on_after_an_error_that_it_survived() -> None:
    steps = [f"step {number} loss 0.5" for number in range(40)]
    end = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T10:00:00 ***"
    assert diagnose_failure(*TRACE, *steps, end).kind == CauseKind.CANCELLED
    assert diagnose_failure(*TRACE, end).kind == CauseKind.EXCEPTION


@pytest.mark.parametrize(
    "line",
    [
        "n1:7:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "n1:7:9 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).",
        'n1:7:9 [0] NCCL WARN Missing "iommu=pt" from kernel command line',
    ],
)
def test_what_nccl_does_without_is_no_failure(line: str) -> None:
    assert diagnose(line) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/a/resolve/m",
            "rate_limit",
        ),
        (
            "CalledProcessError: Command 'ssh n2 hostname' returned non-zero exit status 255.",
            "launcher",
        ),
        (
            "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect.",
            "rendezvous",
        ),
        (
            "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.",
            "rendezvous",
        ),
        ("Stopping coordination service as cluster registration failed.", "rendezvous"),
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 2",
            "rendezvous",
        ),
        ("RuntimeError: One or more background workers are no longer alive.", "data_worker"),
        (
            "FATAL:   While checking container encryption: could not open image /a/b: failed to",
            "container_image",
        ),
        ("FATAL:   while extracting ./a.sif: not a squashfs root filesystem", "container_image"),
        ("srun: error: Unable to create job step: More processors requested", "launcher"),
        (
            "slurmstepd: error: execve(): /tmp/slurmd/job7/slurm_script: No such file or directory",
            "node_failure",
        ),
        (
            "FATAL:   container creation failed: mount /a->/b: no loop devices available",
            "container_runtime",
        ),
        (
            "error: Unable to create step for job 7: Memory required by task is not available",
            "launcher",
        ),
        ("An ORTE daemon has unexpectedly failed after launch and before", "launcher"),
        (
            "W1221 1:0:0.5 7 torch/distributed/elastic/x.py:1] Sending 8 closing signal SIGHUP",
            "signal",
        ),
        (
            "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: save_1.",
            "collective_timeout",
        ),
        ("srun: error: Unable to allocate resources: Invalid qos specification", "site_request"),
        ("traceback : Signal 9 (SIGKILL) received by PID 4711", "signal"),
        (
            "ray.exceptions.RayActorError: The actor died unexpectedly before this task.",
            "lost_peer",
        ),
        ("Error: failed to run torchrun --nproc_per_node=4 train.py on 127.0.0.1", "exit_code"),
        (
            "F0102 1:0:0.5 7 client.h:77] the JAX distributed service detected fatal errors.",
            "lost_peer",
        ),
    ],
)
def test_one_line_shows_the_cause(line: str, kind: str) -> None:
    assert diagnose_failure(line).kind == kind


def test_a_container_that_does_not_start_accuses_no_rank() -> None:
    cause = diagnose_failure(
        "slurmstepd: error: pyxis: couldn't start container",
        "srun: error: n1: task 0: Exited with exit code 1",
    )
    assert (cause.kind, cause.rank) == ("container_runtime", None)


def test_an_empty_line_behind_each_line_has_no_meaning() -> None:
    lines = [part for line in TRACE for part in (f"2026-01-02T10:00:00.1Z\t{line.strip()}", "")]
    cause = diagnose_failure(*lines)
    assert (cause.text, len(cause.lines)) == ("KeyError: 'label'", 3)


def test_a_container_plugin_that_fails_goes_before_what_its_lines_name() -> None:
    cause = diagnose_failure(
        "srun: error: task 0 launch failed: Plugin initialization failed",
        "error: pyxis: couldn't mkdir /run/pyxis/1000: No such file or directory",
        "error: spank: required plugin spank_pyxis.so: init_post_opt() failed with rc=-1",
    )
    assert cause.kind == "container_runtime"


def test_an_error_in_the_last_lines_that_no_rule_knows_is_shown() -> None:
    cause = diagnose_failure("step 1", "tool: fatal: cannot go on", "")
    assert (cause.kind, cause.text) == (CauseKind.EXIT_CODE, "tool: fatal: cannot go on")
    went_on = [f"step {number}" for number in range(4)]
    assert diagnose("tool: error: try again", *went_on) is None


def test_of_a_long_line_the_part_that_shows_the_error_is_kept() -> None:
    words = "loading a shard of the data set, " * 300
    cause = diagnose_failure(f"rank 3: {words}CUDA error: out of memory {words}")
    assert cause.kind == CauseKind.GPU_MEMORY
    assert "CUDA error: out of memory" in cause.text
    assert len(cause.text) <= 600
    assert any("CUDA error: out of memory" in line for line in cause.lines)

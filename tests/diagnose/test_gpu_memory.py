"""Errors of GPU memory: who holds it, and what helps first, by the numbers of the message."""

from __future__ import annotations

import pytest

from jobgen.diagnose.allocator_message import read_allocator_message
from jobgen.diagnose.remedies import list_remedies
from jobgen.model.cause import FailureCause
from tests.diagnose.logs import diagnose_failure

OWN = "Including non-PyTorch memory, this process has 65.00 GiB memory in use."
SELF = "Process 77 has 65.00 GiB memory in use."
ALLOCATED = "Of the allocated memory {} GiB is allocated by PyTorch, and {} GiB is reserved by "


def write(
    processes: str, free: str = "1.22 GiB", wanted: str = "3.91 GiB", unused: str = "2.11",
    variable: str = "PYTORCH_CUDA_ALLOC_CONF",
) -> str:  # fmt: skip
    """PyTorch's message of a failed allocation."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU 3 has a "
        f"total capacity of 79.10 GiB of which {free} is free. {processes} "
        f"{ALLOCATED.format('60.00', unused)}PyTorch but unallocated. If reserved but unallocated "
        f"memory is large try setting {variable}=expandable_segments:True to avoid fragmentation."
    )


def fail(message: str, place: str = 'File "/a/train.py", line 7, in step') -> FailureCause:
    """The cause of a program that ends with this message."""
    return diagnose_failure(
        "Traceback (most recent call last):",
        '  File "/a/train.py", line 3, in <module>',
        "    main()",
        f"  {place}",
        "    y = f(x)",
        message,
    )


@pytest.mark.parametrize(
    ("processes", "who"),
    [
        (f"Process 12 has 12.00 GiB memory in use. {OWN}", "process 12 holds 12.00 GiB"),
        (f"Process 12 has 2.00 GiB memory in use. Process 13 has 1.50 GiB memory in use. {OWN}",
         "processes 12 and 13 hold 3.50 GiB"),
        (f"Process 12 has 12.00 GiB memory in use. {SELF}", "process 12 holds 12.00 GiB"),
    ],
)  # fmt: skip
def test_another_process_that_holds_what_lacked_is_the_cause(processes: str, who: str) -> None:
    cause = fail(write(processes))
    assert (cause.kind, cause.retry) == ("gpu_occupied", "other_nodes")
    assert cause.says.startswith(f"{who} of the GPU; 3.91 GiB was wanted, 1.22 GiB free: end ")
    texts = [remedy.text or remedy.command for remedy in list_remedies(cause)]
    assert "nvidia-smi" in texts[0]
    assert any("train.micro_batch=1" in remedy.command for remedy in list_remedies(cause)[1:])


def test_another_rank_on_the_gpu_is_no_fault_of_the_node() -> None:
    cause = diagnose_failure(
        "Traceback (most recent call last):",
        '  File "/a/train.py", line 3, in <module>',
        "    main()",
        write(f"Process 12350 has 12.00 GiB memory in use. {OWN}"),
        "W1127 10:02:12.001000 12345 torch/distributed/elastic/multiprocessing/api.py:900] "
        "Sending process 12350 closing signal SIGTERM",
    )
    assert (cause.kind, cause.retry) == ("gpu_occupied", "no")
    assert list_remedies(cause)[0].text == "call torch.cuda.set_device(LOCAL_RANK) first"


@pytest.mark.parametrize(
    "processes",
    [
        OWN,
        SELF,  # in a container a process does not know its own number on the node
        f"Process 12 has 2.00 GiB memory in use. {OWN}",  # not enough
        f"Process 12 has 522.00 MiB memory in use. {OWN}",  # the context of another rank
    ],
)
def test_a_process_that_needs_more_than_the_gpu_has_is_itself_the_cause(processes: str) -> None:
    assert fail(write(processes)).kind == "gpu_memory"


def test_the_numbers_that_decide_are_stated_in_plain_words() -> None:
    cause = fail(write(OWN))
    assert cause.says == (
        "3.91 GiB was wanted, 1.22 GiB free; PyTorch holds 60.00 GiB allocated and 2.11 GiB "
        "reserved but unallocated"
    )
    small = write(OWN, wanted="2.00 MiB", free="1.19 MiB")
    assert fail(small).says.startswith("2.00 MiB was wanted, 1.19 MiB free; ")
    cut = write(OWN).partition(" Of the allocated")[0]
    assert fail(cut).says == "3.91 GiB was wanted, 1.22 GiB free"


def list_settings(cause: FailureCause) -> list[str]:
    return [remedy.command.partition("--set ")[2] for remedy in list_remedies(cause)]


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_large_unused_blocks_are_the_first_to_mend_under_the_name_in_the_log(variable: str) -> None:
    cause = fail(write(OWN, unused="14.90", variable=variable))
    first = list_remedies(cause)[0]
    assert first.command.endswith(f"--set env.{variable}=expandable_segments:True")
    assert first.text == "14.90 GiB is reserved but unallocated, 3.91 GiB was wanted"


def test_unused_blocks_that_are_too_small_are_nothing_to_mend() -> None:
    assert any("ALLOC_CONF" in each for each in list_settings(fail(write(OWN, unused="2.80"))))
    assert not any("ALLOC_CONF" in each for each in list_settings(fail(write(OWN, unused="0.10"))))


@pytest.mark.parametrize(
    "place",
    [
        'File "/e/site-packages/transformers/loss/loss_utils.py", line 55, in ForCausalLMLoss',
        'File "/e/site-packages/torch/nn/functional.py", line 3494, in cross_entropy',
        'File "/e/site-packages/torchtitan/components/loss.py", line 30, in cross_entropy_loss',
    ],
)
def test_a_loss_that_ran_out_of_memory_is_answered_by_another_loss(place: str) -> None:
    assert list_settings(fail(write(OWN), place))[0] == "train.loss=fused"
    assert list_settings(fail(write(OWN)))[0] == "train.micro_batch=1"


def test_a_message_of_another_kind_has_no_numbers() -> None:
    old = "CUDA out of memory. Tried to allocate 2.87 GiB (GPU 5; 23.69 GiB total capacity)"
    assert read_allocator_message(old) is None
    assert list_settings(fail(f"RuntimeError: {old}"))[-1].startswith("env.PYTORCH_CUDA_ALLOC_CONF")

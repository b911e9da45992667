"""Batch arithmetic: global = micro x accumulation x data-parallel ranks, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.spec import Batch, TrainDiagnostic

if TYPE_CHECKING:
    from jobgen.model.train import Train


_MICRO = {"hf-trainer": 8}
"""Framework → samples of a forward pass where nothing says how many: TrainingArguments'
``per_device_train_batch_size`` (transformers 5.23, training_args.py)."""


class ConfigBatch(NamedTuple):
    """What the user's own DeepSpeed configuration sets of the batch, where the job sets none."""

    micro: int
    accumulation: int
    place: str
    """``ds_config.json:3``."""


def assume_batch(framework: str, ranks: int, config: ConfigBatch | None = None) -> Batch:
    """The batch that the program has where the job sets none."""
    if config is not None:
        return Batch(config.micro, config.accumulation, ranks)
    return Batch(_MICRO.get(framework, 1), 1, ranks)


def compute_batch(train: Train, ranks: int) -> Batch | None:
    """The batch over so many data-parallel ranks; None where the job sets none.

    What is left out follows from the rest: the accumulation from the global batch, else it is 1.
    """
    micro, steps, total = train.micro_batch, train.gradient_accumulation, train.global_batch
    if micro is None and steps is None and total is None:
        return None
    if micro is None:
        micro = max(1, total // ((steps or 1) * ranks)) if total else 1
    if steps is None:
        steps = total // (micro * ranks) if total else 1
    return Batch(micro, max(1, steps), ranks)


def check_batch(train: Train, ranks: int) -> Iterator[TrainDiagnostic]:
    """What does not come out even."""
    total = train.global_batch
    found = compute_batch(train, ranks)
    if total is None or found is None or found.total == total:
        return
    if train.micro_batch is not None and train.gradient_accumulation is not None:
        message = (
            f"global_batch {total} is not micro_batch {found.micro} x gradient_accumulation "
            f"{found.accumulation} x {ranks} data-parallel ranks = {found.total}"
        )
        yield TrainDiagnostic("J230", message, ("global_batch",), _hint(found, total))
        return
    said, each = ("micro_batch", found.micro) if train.micro_batch else ("", 1)
    if train.gradient_accumulation:
        said, each = "gradient_accumulation", found.accumulation
    parts = (
        f"{said} {each} x {ranks} data-parallel ranks" if said else f"{ranks} data-parallel ranks"
    )
    step = each * ranks
    message = f"global_batch {total} is not a multiple of {parts} = {step}"
    yield TrainDiagnostic("J230", message, ("global_batch",), _near(total, step))


def find_multiple(train: Train, ranks: int) -> int:
    """The global batch for so many data-parallel ranks: the job's, or the next above it that comes
    out even."""
    total = train.global_batch or 0
    step = (train.micro_batch or 1) * (train.gradient_accumulation or 1) * ranks
    if train.micro_batch is not None and train.gradient_accumulation is not None:
        return step
    return -(-total // step) * step


def _hint(found: Batch, total: int) -> str:
    for key, held in (("gradient_accumulation", found.micro), ("micro_batch", found.accumulation)):
        if total % (held * found.ranks) == 0:
            value = total // (held * found.ranks)
            return f"set {key}: {value}, or global_batch: {found.total}"
    return f"set global_batch: {found.total}"


def _near(total: int, step: int) -> str:
    below, above = total // step * step, -(-total // step) * step
    return f"set global_batch: {below} or {above}" if below else f"set global_batch: {above}"

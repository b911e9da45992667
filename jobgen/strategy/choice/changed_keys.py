"""Keys of a job in which two questions to the planner differ, as the job writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.setting_names import name_setting

if TYPE_CHECKING:
    from jobgen.model.train import Train


BATCH = ("micro_batch", "gradient_accumulation")
"""Keys that divide the samples of a step."""


def list_rank_changes(ask: Ask, there: Ask) -> tuple[str, ...]:
    """``gpus_per_node: 8``, ``nodes: 4``."""
    gpus, nodes = there.world.ranks_per_node, there.world.nodes
    changes = () if gpus == ask.world.ranks_per_node else (f"gpus_per_node: {gpus}",)
    return changes if nodes == ask.world.nodes else (*changes, f"nodes: {nodes}")


def list_changes(ask: Ask, there: Ask) -> tuple[str, ...]:
    """Keys of the batch, of the rest of ``train``, and of the ranks."""
    trains = ask.train, there.train
    return (
        *list_batch_changes(*trains),
        *list_train_changes(*trains),
        *list_rank_changes(ask, there),
    )


def list_batch_changes(old: Train, new: Train) -> tuple[str, ...]:
    """``train.micro_batch: 2``, ``train.gradient_accumulation: 4``."""
    return tuple(_compare(old, new, BATCH))


def list_train_changes(old: Train, new: Train) -> Iterator[str]:
    """Keys of ``train`` that the planner tries other values of, without the batch's."""
    if old.strategy.type != new.strategy.type:
        yield f"train.strategy: {new.strategy.type}"
    yield from _compare(old, new, ("tp", "pp", "ep", "activation_checkpointing"))
    if old.offload.what != new.offload.what:
        yield f"train.offload: {new.offload.what}"
    yield from _compare(old, new, ("loss", "optimizer"))
    if old.lora and new.lora and old.lora.bits != new.lora.bits:
        yield f"train.lora.bits: {new.lora.bits}"


def _compare(old: Train, new: Train, keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if getattr(old, key) != getattr(new, key):
            yield f"train.{key}: {getattr(new, key)}"


_IN_PROGRAM = {
    "train.loss: fused": "Liger or cut cross entropy in the program",
    "train.loss: chunked": "ChunkedLossWrapper in the function of --config",
    "train.lora.bits: 4": "load_in_4bit of BitsAndBytesConfig in the program",
}


def note_program(change: str, framework: str) -> str:
    """What the program needs for a change: its framework's option, if it has one; empty for changes
    that need nothing."""
    if change not in _IN_PROGRAM:
        return ""
    key, _, value = change.removeprefix("train.").partition(": ")
    option = name_setting(framework, key, value)
    if option and key == "loss":  # jobgen passes it
        return f"{option}, needs liger-kernel"
    return f"{option} in run" if option else _IN_PROGRAM[change]

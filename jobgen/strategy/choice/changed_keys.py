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


def _compare(old: Train, new: Train, keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if getattr(old, key) != getattr(new, key):
            yield f"train.{key}: {getattr(new, key)}"


_LOSSES = {
    "train.loss: fused": "Liger or cut cross entropy in the program",
    "train.loss: chunked": "ChunkedLossWrapper in the function of --config",
}


def note_loss(change: str, framework: str) -> str:
    """How the program gets a changed loss: by the option that jobgen passes, if its framework has
    one; empty for other changes."""
    if change not in _LOSSES:
        return ""
    option = name_setting(framework, "loss", change.partition(": ")[2])
    return f"{option}, needs liger-kernel" if option else _LOSSES[change]

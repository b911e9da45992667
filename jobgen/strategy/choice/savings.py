"""Changes of ``train`` that may save memory on the ranks of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jobgen.model.train import Offload
from jobgen.strategy.choice.advise import is_over_host
from jobgen.strategy.choice.least_room import list_batches
from jobgen.strategy.choice.offer import StrategyOption
from jobgen.strategy.choice.setups import VARIED, Ask
from jobgen.strategy.setup import Setup
from jobgen.strategy.supported import get_small_loss, has_optimizer, uses_bitsandbytes

LEAST_BITS = 4
"""Of the frozen weights beside adapters."""


def change_train(ask: Ask, changes: Iterable[dict[str, Any]]) -> Iterator[Ask]:
    """The question with each of these changes."""
    return (ask._replace(train=ask.train.replace(**change)) for change in changes)


def list_savings(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[dict[str, Any]]:
    """Values of keys but the batch's, without keys that the planner varies itself with
    ``auto``."""
    own = start.setup
    open_keys = set(VARIED) - ask.fixed if auto else set()
    if not is_over_host(start.memory, ask):  # these leave the host's memory as it is
        if "activation_checkpointing" not in open_keys:
            yield from ({"activation_checkpointing": kind} for kind in _list_kinds(own))
        small = get_small_loss(own.framework)
        if own.loss == "plain" and own.measured is None and small:
            yield {"loss": small}
        lean = has_optimizer(own.framework, "adamw8bit")
        if own.recipe.moments >= 8 and own.adapters is None and lean:
            yield {"optimizer": "adamw8bit"}
    lora = ask.train.lora
    if (
        lora
        and lora.bits > LEAST_BITS
        and own.measured is None
        and uses_bitsandbytes(own.framework)
    ):
        yield {"lora": lora.replace(bits=LEAST_BITS)}
    if "offload" not in open_keys:
        yield from ({"offload": Offload(what=what)} for what in ("optimizer", "both"))


def _list_kinds(own: Setup) -> Iterator[str]:
    """Kinds of checkpointing that keep less, of the user's own model those measured."""
    less = {"none": ("selective", "full"), "selective": ("full",)}
    for kind in less.get(own.recompute, ()):
        if own.measured is None or kind in {trace.recompute for trace in own.measured.traces}:
            yield kind


def list_smaller_batches(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[Ask]:
    """Half of the micro-batch, a quarter of it, and so on, with as many samples in a step, the
    smallest first. Without ``auto`` none where the host's memory is exceeded, which is the same."""
    batch = start.setup.batch
    for there in list_batches(ask, batch):
        smaller = (there.train.micro_batch or 0) < batch.micro
        if smaller and (auto or not is_over_host(start.memory, ask)):
            yield there

"""What the planner assumes of a program where only the program knows, and what else it could be."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import GpuMemory
from jobgen.strategy.memory import estimate
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.supported import get_small_loss

DECISIVE = 0.01
"""Part of what is needed from which an alternative matters."""


class Assumption(NamedTuple):
    """One assumption, and its alternative."""

    assumed: str
    alternative: str
    change: float
    """Bytes that the alternative needs more; less where negative."""
    memory: GpuMemory
    """Of the alternative."""


def list_assumptions(setup: Setup, factor: float = 1.0) -> list[Assumption]:
    """Those whose alternative matters, the largest change first. What the job itself says of the
    program is none. ``factor`` multiplies memory, as measured runs calibrate it."""
    needed = estimate(setup).scale(factor).needed
    found = []
    for assumed, alternative, changed in _list_alternatives(setup):
        memory = estimate(changed).scale(factor)
        found.append(Assumption(assumed, alternative, memory.needed - needed, memory))
    decisive = [each for each in found if abs(each.change) >= DECISIVE * needed]
    return sorted(decisive, key=lambda each: -abs(each.change))


_LOSSES = {
    "plain": "loss from fp32 logits",
    "compiled": "compiled loss",
    "chunked": "chunked loss",
}


def _list_alternatives(setup: Setup) -> Iterator[tuple[str, str, Setup]]:
    """What is assumed, its alternative, and the setup with that."""
    eager = setup.measured is None
    if setup.measured is not None and setup.measured.keeps_scores:
        words = ("attention scores kept, as on a CPU", "flash attention")
        now, other = words[::-1] if setup.flash else words
        yield now, other, setup._replace(flash=not setup.flash)
    small = get_small_loss(setup.framework)
    guessed = setup.loss in _LOSSES and "loss" in setup.assumed
    if eager and guessed and small not in {None, setup.loss}:
        yield _LOSSES[setup.loss], small, setup._replace(loss=small)
    # Megatron compiles single functions, never a layer (Megatron-LM, core/jit.py, ``jit_fuser``)
    whole = eager and not setup.framework.startswith("megatron")
    if whole and not setup.compiled and "compiled" in setup.assumed:
        yield "eager layers", "compiled", setup._replace(compiled=True)
    yield from _list_accumulation(setup)
    adapters = setup.adapters
    if adapters is None:
        return
    if TRAITS[setup.strategy].family == "fsdp" and setup.recompute == "full":
        words = ("reentrant", "non-reentrant")
        now, other = words if setup.reentrant else words[::-1]
        yield f"{now} checkpointing", other, setup._replace(reentrant=not setup.reentrant)
    if adapters.bits < 16 and TRAITS[setup.strategy].family != "zero":
        changed = setup._replace(adapters=adapters._replace(prepared=not adapters.prepared))
        words = ("prepare_model_for_kbit_training", "without it")
        plain = ("no prepare_model_for_kbit_training", "with it")
        yield *(words if adapters.prepared else plain), changed


def _list_accumulation(setup: Setup) -> Iterator[tuple[str, str, Setup]]:
    """Accumulated gradients, and that FSDP keeps them whole until they are reduced. That it does
    not is no assumption: options of the program say so, or the framework always reduces them."""
    batch = setup.batch
    if batch.accumulation == 1:
        if "gradient_accumulation" in setup.assumed:
            yield "no accumulation", "with it", setup._replace(batch=batch._replace(accumulation=2))
        return
    if TRAITS[setup.strategy].family in {"fsdp", "fsdp2"} and setup.unsynced:
        yield "no_sync", "sync every micro-batch", setup._replace(unsynced=False)

"""Bytes of states by precision and optimizer: what frameworks are known to keep."""

from __future__ import annotations

from jobgen.strategy.setup import Recipe

_ZERO = "ZeRO, arXiv:1910.02054, section 3.1"
_MEGATRON = "Megatron-LM, megatron/training/theoretical_memory_usage.py"
_ADAMW = "torch 2.13, optim/adamw.py: moments are of the parameters' type"
_AUTOCAST = "torch.amp: parameters stay fp32, a cast copy is computed with"

RECIPES: dict[str, Recipe] = {
    "fp32": Recipe("fp32", 4, 4, 0, 8, compute=4, reduce=4, note=_ADAMW),
    "autocast": Recipe("autocast", 4, 4, 0, 8, compute=2, reduce=4, note=_AUTOCAST),
    "mixed": Recipe("mixed", 2, 2, 4, 8, compute=2, reduce=2, note=_ZERO),
    "main-grads": Recipe("main-grads", 2, 4, 4, 8, compute=2, reduce=4, note=_MEGATRON),
    "two-grads": Recipe(
        "two-grads",
        2,
        6,
        4,
        8,
        compute=2,
        reduce=4,
        note="DeepSpeed, runtime/bf16_optimizer.py: bf16 gradients are added to fp32 ones",
    ),
    "pure": Recipe("pure", 2, 2, 0, 4, compute=2, reduce=2, note=_ADAMW),
}
"""By name. The optimizer is AdamW."""

MOMENTS: dict[str, float] = {
    "adamw": 2.0,
    "adamw8bit": 0.0,
    "paged": 0.0,
    "lion": 1.0,
    "muon": 1.0,
    "momentum": 1.0,
    "sgd": 0.0,
    "adafactor": 0.0,
}
"""Optimizer → moments that are kept of each element in the optimizer's own type. Muon keeps one
of each matrix, and AdamW's two of what is no matrix; Adafactor's rows and columns are small."""

EIGHT_BIT = 2.0 + 2 * 4 / 256
"""Bytes of both moments of bitsandbytes' 8-bit optimizers: a byte each, and an fp32 scale for each
block of 256 (functional.py, ``quantize_blockwise``). Embeddings keep 32 bits
(``GlobalOptimManager``)."""


def get_recipe(name: str, optimizer: str = "adamw") -> Recipe:
    """The recipe with another optimizer. Raises KeyError for names that are not in the tables."""
    found = RECIPES[name]
    if optimizer == "adamw8bit":
        return found._replace(name=f"{name}, 8-bit AdamW", moments=EIGHT_BIT, embedding_moments=8.0)
    each = found.moments / 2
    if optimizer == "adamw":
        return found
    return found._replace(name=f"{name}, {optimizer}", moments=MOMENTS[optimizer] * each)

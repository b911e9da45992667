"""Bytes that autograd keeps of one layer where the cheap part is computed again."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.memory.layer import (
    FP32,
    ROWS,
    get_residual_bytes,
    get_width_divisor,
    has_attention,
    keep_all,
)
from jobgen.strategy.setup import Setup


def keep_selective(setup: Setup) -> float:
    """Where the cheap part is computed again.

    Megatron computes the core of attention again (arXiv:2205.05198, section 5); with flash
    attention there is nothing left of it. torchtitan keeps the outputs of attention, of every
    second product of two matrices, and of every one with a bias
    (distributed/activation_checkpoint.py, ``SelectiveAC``).
    """
    if setup.framework == "megatron":
        return keep_all(setup._replace(flash=True))
    sizes, width, tp = setup.model.sizes, setup.recipe.compute, setup.mesh.tp
    narrow = sum(size for size, wide in _saved(setup) if not wide)
    heads = sizes.heads if has_attention(setup) else 0
    narrow += heads * sizes.head_dim
    wide = sum(size for size, wide in _saved(setup) if wide)
    ends = (get_residual_bytes(setup) * sizes.hidden + width * wide) / get_width_divisor(setup)
    return ends + (width * narrow + FP32 * heads) / tp


def _saved(setup: Setup) -> Iterator[tuple[int, bool]]:
    """Widths of the products that are kept, and whether ranks add them up.

    The router's product does not count (``force_recompute_mm_shapes_by_fqns``), nor do the
    experts', which are one kernel of another name.
    """
    tensors = setup.model.layers[-1].tensors
    biased = {t.name.removesuffix(".bias") for t in tensors if t.name.endswith(".bias")}
    products = [
        tensor
        for tensor in tensors
        if tensor.kind in {"attention", "mlp", "shared"} and len(tensor.shape) == 2
    ]
    plain = 0
    for tensor in products:
        bias = tensor.name in biased
        plain += not bias
        if not bias and plain % 2 == 0:
            continue
        if setup.compiled and tensor is products[-1]:
            continue  # nothing needs it, which eager checkpointing does not see
        yield tensor.shape[setup.model.sizes.transposed], tensor.name in ROWS

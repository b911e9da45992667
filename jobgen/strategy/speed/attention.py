"""Seconds of attention: in one kernel, or with the matrix of scores in memory."""

from __future__ import annotations

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.memory.layer import get_softmax_bytes, has_autocast
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.speed import products, rates
from jobgen.strategy.speed.attention_rates import Span, get_attention_rate

_PLAIN = (8.0, 9.0)
"""Times that scores are written or read, forward and backward, where nothing is cast: by the
products, and by operations between them that scale, mask and normalize
(transformers, models/llama/modeling_llama.py, ``eager_attention_forward``)."""
_CAST = (16.0, 18.0)
"""The same in 16 bits, of which softmax makes 32: tests/strategy/speed/scored.py."""
_AUTOCAST = (14.0, 18.0)
"""The same under autocast, where the mask that is added is fp32 and makes the scores so
(transformers, masking_utils.py, ``eager_mask``), so that softmax casts nothing."""
_MEGATRON = (6.5, 10.5)
"""Of Megatron-LM: by the products, by softmax, which is one kernel, and by dropout, whose mask is
half as wide (core/transformer/dot_product_attention.py)."""
_SLOPED = (11.0, 20.0)
"""Of ALiBi as Baichuan-13B has it: a mask for every head is added, and the largest of each score
and the least number taken, for which autograd compares all scores twice (its modeling_baichuan.py;
tests/strategy/speed/scored.py)."""


def get_head_dims(sizes: Architecture) -> tuple[int, int]:
    """Width of a head's queries and of its values."""
    if sizes.mla is None:
        return sizes.head_dim, sizes.head_dim
    return sizes.mla.nope_dim + sizes.mla.rope_dim, sizes.mla.v_dim


def compute_attention(setup: Setup, machine: ClusterHardware) -> products.Both:
    """Seconds of the attention of one layer: products of queries and keys, scores and values.

    Without regard to a mask 2 s (d_qk + d_v) FLOPs for a token and a head. FlashAttention skips
    the half that the causal mask hides, and does five products backward where others do four
    (arXiv 2307.08691). Without it, scores are written and read between the products.
    """
    sizes = setup.model.sizes
    qk, v = get_head_dims(sizes)
    heads = sizes.heads / setup.mesh.tp
    work = 2.0 * setup.tokens * setup.seq * heads * (qk + v)
    rate = products.get_rate(setup.recipe.compute, machine, tf32=setup.tf32)
    if setup.flash:
        work *= (setup.document or setup.seq) / setup.seq
        ahead, back = (
            work / 2 / min(rate, _get_flash_rate(setup, machine, backward=backward))
            for backward in (False, True)
        )
        return products.Both(ahead, 2.5 * back)
    # tensor cores need rows of whole 16 bytes (NVIDIA, Matrix Multiplication Background)
    aligned = all(width * setup.recipe.compute % 16 == 0 for width in (qk, v))
    rate = rate if aligned else rates.get_vector_rate(machine)
    scores = setup.tokens * setup.seq * heads * setup.recipe.compute
    ahead, back = count_score_passes(setup)
    each = scores / rates.get_memory_rate(machine)
    return products.Both(work / rate + ahead * each, 2 * work / rate + back * each)


def _get_flash_rate(setup: Setup, machine: ClusterHardware, *, backward: bool) -> float:
    return get_attention_rate(
        machine,
        setup.framework,
        fused=setup.fused_attention,
        backward=backward,
        width=max(get_head_dims(setup.model.sizes)),
        span=Span(setup.document or setup.seq, setup.mesh.cp),
    )


def count_score_passes(setup: Setup) -> tuple[float, float]:
    """Times that all scores are written or read, in the type of the products."""
    sizes = setup.model.sizes
    if setup.framework.startswith("megatron"):
        return _MEGATRON
    if sizes.gated and not (sizes.rotary or sizes.positions):
        return _SLOPED
    width = setup.recipe.compute
    if has_autocast(setup):
        ahead, back = _AUTOCAST
    else:
        ahead, back = _PLAIN if get_softmax_bytes(setup) == width else _CAST
    # dropout reads and writes the scores, and a mask of a byte, in either pass
    dropped = (2 + 1 / width) * setup.attention_dropout
    return ahead + dropped, back + dropped

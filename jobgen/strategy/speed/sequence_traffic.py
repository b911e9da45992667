"""What ranks of tensor parallel and of context parallel send each other within layers."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.setup import Setup
from jobgen.strategy.speed import collectives, rates
from jobgen.strategy.speed.collectives import Traffic, When
from jobgen.strategy.speed.products import is_narrow, is_rowwise
from jobgen.strategy.speed.stage_slice import count_layers, count_sparse_layers

_TORCHS = ("torchtitan",)
"""Frameworks whose tensor parallel and context parallel are torch's."""


def list_tensor(setup: Setup) -> Iterator[Traffic]:
    """Two all-reduces of s b h forward in each layer and two backward; with sequence parallel as
    many bytes in all-gathers and reduce-scatters (Megatron-LM, arXiv 1909.08053 section 3, and
    2205.05198 section 4.2.2). A recomputed forward pass sends again; torchtitan's selective one
    keeps what it reduced, and gathers again (torchtitan/distributed/activation_checkpoint.py).

    Backward, Megatron reduces the input's gradient beside the product that makes the weights', and
    gathers the input, of which each rank kept its part, beside the one that makes that gradient
    (core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication), unless all of
    the input was kept. Its experts
    take the tokens of each rank as they are divided along the sequence: there, attention alone
    gathers and reduces.
    """
    mesh = setup.mesh
    if mesh.tp == 1:
        return
    ranks = collectives.build_group(setup, "tp")
    payload = float(setup.tokens * setup.model.sizes.hidden * setup.recipe.compute)
    each = 2.0 * count_layers(setup) * setup.batch.accumulation
    if setup.framework == "megatron" and setup.sequence_parallel:
        each -= count_sparse_layers(setup) * setup.batch.accumulation
    again = 1 + (setup.recompute == "full")
    beside: When = "product" if setup.overlap_tp else "layer"
    hides = setup.framework == "megatron" and not setup.keeps_gathered
    reduced: When = "backward" if hides else beside
    if not setup.sequence_parallel:
        yield Traffic("all-reduce", "activations", ranks, payload, each * again, beside)
        yield Traffic("all-reduce", "activations", ranks, payload, each, reduced)
    elif setup.framework in _TORCHS:
        yield from _list_torchs(
            setup, Traffic("all-gather", "activations", ranks, payload, each, beside)
        )
    else:
        gathered = payload / setup.recipe.compute * get_gathered_bytes(setup)
        yield Traffic("all-gather", "activations", ranks, gathered, each * again, beside)
        yield Traffic("reduce-scatter", "activations", ranks, payload, each * again, beside)
        yield Traffic("all-gather", "activations", ranks, gathered, each, beside)
        if hides:
            yield Traffic("all-gather", "activations", ranks, gathered, each, "backward")
        yield Traffic("reduce-scatter", "activations", ranks, payload, each, reduced)


def _list_torchs(setup: Setup, one: Traffic) -> Iterator[Traffic]:
    """The same of torch's own, two of each layer at a time.

    Of 8-bit products with one scale for a tensor, 8-bit operands are gathered, and so are 8-bit
    gradients (torchao/float8/float8_tensor_parallel.py). Asynchronous, all is sent beside the
    product next to it, but for gradients of an input that several products read: their sum is
    reduced, and no product makes that (torch/_inductor/fx_passes/micro_pipeline_tp.py,
    ``_find_producer_matmul``). What is gathered again lies beside what is computed again.
    """
    again = 1 + (setup.recompute == "full")
    share = get_gathered_bytes(setup) / setup.recipe.compute
    gathered = one._replace(payload=one.payload * share)
    if not gathers_beside(setup):
        gathered = gathered._replace(when="layer")
    reduced = one._replace(what="reduce-scatter")
    yield gathered._replace(times=one.times * again)
    yield reduced._replace(times=one.times * again)
    if setup.recompute == "selective":
        recomputed: When = "recomputed" if gathers_beside(setup) else "layer"
        yield gathered._replace(when=recomputed)
    yield gathered._replace(when="gradient" if gathers_beside(setup) else "layer")
    yield reduced._replace(when="layer")


def get_gathered_bytes(setup: Setup) -> float:
    """Bytes of an element that tp gathers: as operands are multiplied, in 8 bits by torch, but for
    those with a scale for each row, and by Transformer Engine, whose norm writes them so unless an
    adapter takes them, too (1.5 to 2.8, pytorch/module/layernorm_linear.py,
    ``return_layernorm_output_gathered``, and base.py, ``grad_output_preprocess``)."""
    bits = setup.recipe.product_bits
    engine = setup.framework == "megatron" and not (setup.legacy or setup.adapters)
    torchs = setup.framework in _TORCHS and bits == 8
    if is_narrow(setup) and not is_rowwise(setup) and (engine or torchs):
        return bits / 8
    return setup.recipe.compute


def gathers_beside(setup: Setup) -> bool:
    """Whether what tp gathers goes piece by piece beside products. Of torch's asynchronous tp it
    does not where each row of 8-bit operands has a scale (pytorch/pytorch, issue 149990)."""
    return setup.overlap_tp and not (setup.framework in _TORCHS and is_rowwise(setup))


def list_context(setup: Setup) -> Iterator[Traffic]:
    """Keys and values go round a ring: cp - 1 sends of this rank's forward, and twice that
    backward, with their gradients (Ring Attention, arXiv 2310.01889).

    torch gathers all of them beside the first step, both ways, and sends gradients of fp32 on
    (torch/distributed/tensor/experimental/_context_parallel/_attention.py, ``_AllGatherRotater``).
    Compiled code waits for a collective as soon as it has begun (torch/distributed/
    _functional_collectives.py, ``_maybe_wrap_tensor``).
    """
    mesh, sizes = setup.mesh, setup.model.sizes
    if mesh.cp == 1:
        return
    width = sizes.mla.kv_rank + sizes.mla.rope_dim if sizes.mla else 2 * _count_kv(setup)
    elements = float(setup.tokens * width)
    payload = elements * setup.recipe.compute
    ranks = collectives.build_group(setup, "cp")
    each = count_layers(setup) * setup.batch.accumulation
    passes = 1 + (setup.recompute == "full")
    if setup.framework not in _TORCHS:
        times = float((passes + 2) * (mesh.cp - 1) * each)
        yield Traffic("send", "keys and values", ranks, payload, times, "ring")
        return
    start: When = "layer" if setup.compiled else "start"
    ring: When = "layer" if setup.compiled else "ring"
    times = (passes + 1) * each
    yield Traffic("all-gather", "keys and values", ranks, payload * mesh.cp, times, start)
    wide = elements * rates.FP32
    yield Traffic("send", "gradients of keys and values", ranks, wide, mesh.cp * each, ring)


def _count_kv(setup: Setup) -> float:
    """Elements of a token's keys on one rank of tp."""
    sizes = setup.model.sizes
    heads = sizes.heads if setup.repeat_kv else sizes.kv_heads
    return max(heads / setup.mesh.tp, 1.0) * sizes.head_dim

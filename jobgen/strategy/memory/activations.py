"""Bytes of activations: what autograd keeps of a layer, of the loss, and while it works.

Counted tensor by tensor in the libraries' own code (transformers 5, torch 2.13, Megatron core);
``tests/strategy/memory`` holds them against torch's MemTracker.
"""

from __future__ import annotations

from typing import NamedTuple

from jobgen.strategy.setup import Setup

_FP32 = 4


class Kept(NamedTuple):
    """Bytes of a rank's micro-batch: of one layer, and of the loss."""

    layer: float
    """What stays of one layer until its backward pass."""
    working: float
    """What is there beside it while that layer goes backward."""
    logits: float
    """At the loss, where they are most."""
    input: float
    """Of what goes from one layer to the next."""


def kept(setup: Setup) -> Kept:
    """The bytes for one micro-batch on one rank."""
    tokens = setup.tokens
    whole = _whole(setup)
    input_ = _residual(setup) * setup.model.sizes.hidden / _along(setup)
    layer = {"none": whole, "selective": _selective(setup), "full": input_}[setup.recompute]
    again = 0.0 if setup.recompute == "none" else whole - layer
    return Kept(
        tokens * layer,
        tokens * (again + _gradients(setup)),
        tokens * _logits(setup),
        tokens * input_,
    )


def _along(setup: Setup) -> int:
    """What divides tensors of hidden's width: tensor parallel ranks share the sequence or not."""
    return setup.mesh.tp if setup.sequence_parallel else 1


def _autocast(setup: Setup) -> bool:
    """Under autocast the stream between layers stays in the parameters' type."""
    sharded = setup.strategy.startswith("fsdp")
    return setup.recipe.params == _FP32 and setup.recipe.compute < _FP32 and not sharded


def _residual(setup: Setup) -> int:
    return _FP32 if _autocast(setup) else setup.recipe.compute


def _whole(setup: Setup) -> float:
    """Bytes of one token in one layer where nothing is computed again."""
    width, sizes = setup.recipe.compute, setup.model.sizes
    wide = _norms(setup) + _experts_wide(setup)
    inside = _attention(setup) + width * _feed_forward(setup)
    sums = (8.0 if sizes.layer_norm else 4.0) * sizes.norms
    return wide / _along(setup) + inside / setup.mesh.tp + sums + _adapted(setup)


def _adapted(setup: Setup) -> float:
    """Bytes of one token that adapters add, and those that frozen layers do not keep: a linear
    layer keeps its input for the gradient of its weight."""
    adapters, width = setup.adapters, setup.recipe.compute
    if adapters is None:
        return 0.0
    sizes = setup.model.sizes
    frozen = 2 * sizes.hidden + (sizes.ffn if sizes.experts is None else 0)
    inputs = sum(
        tensor.shape[-1] * tensor.times
        for tensor in setup.model.layers[-1].tensors
        if adapters.has(tensor)
    )
    return (width + 1.0) * inputs * adapters.dropout / setup.mesh.tp - width * frozen


def _norms(setup: Setup) -> float:
    """Norms and the inputs of the linear layers behind them, by two for a layer."""
    width, h = setup.recipe.compute, setup.model.sizes.hidden
    input_ = width * h
    if setup.compiled:
        kept_ = _residual(setup) * h  # the norm itself is computed again from its input
    elif setup.model.sizes.layer_norm:
        kept_ = (_FP32 * h) if _autocast(setup) else width * h
    else:
        kept_ = _FP32 * h + width * h  # in fp32, and what the weight multiplies
    return 2 * (kept_ + input_)


def _attention(setup: Setup) -> float:
    """Queries, keys, values, the output, and a sum in fp32 for each head."""
    sizes, width = setup.model.sizes, setup.recipe.compute
    a, d = sizes.heads, sizes.head_dim
    if sizes.mla is not None:
        mla = sizes.mla
        turned = mla.nope_dim + mla.rope_dim
        low = (mla.q_rank or 0) * 2 + mla.kv_rank * 2
        elements = a * (2 * turned + 2 * mla.v_dim) + low
    else:
        groups = a if setup.repeat_kv else sizes.kv_heads
        elements = 2 * a * d + 2 * groups * d
        if sizes.qk_norm and not setup.compiled:
            elements += 3 * (a + sizes.kv_heads) * d
    scores = 0.0
    if not setup.flash:
        # the scores after softmax, and after dropout with its mask of a byte
        scores = a * setup.seq * (2 * width + 1)
    return width * elements + _FP32 * a + scores


def _feed_forward(setup: Setup) -> float:
    """Elements of one token: gate, its activation, up and their product; or two where not gated."""
    sizes = setup.model.sizes
    parts = 4 if sizes.gated else 2
    if setup.compiled and sizes.gated:
        parts = 3  # the activation is computed again from the gate
    experts = sizes.experts
    if experts is None:
        return float(parts * sizes.ffn)
    routed = experts.active * experts.ffn
    share = 1 - experts.dense_layers / sizes.layers
    sparse = parts * (routed + experts.shared_ffn)
    return share * sparse + (1 - share) * parts * sizes.ffn


def _experts_wide(setup: Setup) -> float:
    """Tokens on their way to the experts and back, a copy for each that is chosen."""
    experts = setup.model.sizes.experts
    if experts is None:
        return 0.0
    return 2.0 * setup.recipe.compute * experts.active * setup.model.sizes.hidden


def _selective(setup: Setup) -> float:
    """Bytes of one token in one layer.

    Megatron computes the core of attention again (arXiv:2205.05198, section 5); with flash
    attention there is nothing left of it. torchtitan and torch keep the outputs of attention and of
    every second matrix product (torchtitan, distributed/activation_checkpoint.py).
    """
    if setup.framework == "megatron":
        return _whole(setup._replace(flash=True))
    sizes, width, tp = setup.model.sizes, setup.recipe.compute, setup.mesh.tp
    a, d = sizes.heads, sizes.head_dim
    narrow = 2 * a * d + sizes.kv_heads * d + (sizes.ffn if sizes.gated else 0)
    # eager checkpointing keeps the output of the last product too, which nothing needs
    wide = (1 if setup.compiled else 2) * sizes.hidden
    return width * (wide / _along(setup) + narrow / tp) + _FP32 * a / tp


def _gradients(setup: Setup) -> float:
    """Gradients that flow through one layer: of the feed-forward's inside, and of its ends."""
    sizes, width = setup.model.sizes, setup.recipe.compute
    inside = (2 if sizes.gated else 1) * sizes.ffn
    return width * inside / setup.mesh.tp + 2.0 * _residual(setup) * sizes.hidden / _along(setup)


_LOSS = {"plain": 12.0, "narrow": 8.0, "compiled": 4.0, "chunked": 3.5, "fused": 0.0}
"""Bytes of one logit at the most.

plain: log_softmax's output, its gradient and the gradient of its input, each fp32.
narrow: the logits and the same three in 16 bits.
compiled: the logits and their gradient in 16 bits.
chunked: logits in 16 bits, and an eighth of plain (torchtune, modules/loss).
fused: nothing stays (Liger, ops/fused_linear_cross_entropy.py).
"""


def _logits(setup: Setup) -> float:
    sizes = setup.model.sizes
    each = _LOSS[setup.loss]
    if setup.compiled and setup.loss == "chunked":
        each = 2.0 + 0.5
    return each * sizes.vocab / setup.mesh.tp

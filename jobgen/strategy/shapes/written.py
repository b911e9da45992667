"""The sizes of a transformer from job.yaml's own mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobgen.strategy.shapes.architecture import Architecture, Experts

if TYPE_CHECKING:
    from jobgen.model.trained import ModelShape


def complete_shape(shape: ModelShape) -> Architecture:
    """The sizes of ``train: {model: {…}}``; what it leaves out is Llama's, or GPT-2's.

    Two generations of models are told apart by the feed-forward layer: four times as
    wide as hidden, with two matrices, biases and LayerNorm (GPT-2, OPT, BLOOM), or of another width
    with three matrices, RMSNorm and no biases (Llama, Qwen). Fewer heads of keys than of queries,
    and experts, came with the second. Each of these can be said otherwise. Without
    ``vocab`` there are no embeddings.
    """
    kv_heads = shape.kv_heads or shape.heads
    ffn = shape.ffn or 4 * shape.hidden
    newer = ffn != 4 * shape.hidden or kv_heads != shape.heads or shape.experts is not None
    gated = newer if shape.gated is None else shape.gated
    bias = not gated if shape.bias is None else shape.bias
    layer_norm = not gated if shape.norm is None else shape.norm == "layernorm"
    qkv_bias = bias if shape.qkv_bias is None else shape.qkv_bias
    qk_norm: Literal["", "head"] = "head" if shape.qk_norm else ""
    return Architecture(
        name="",
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=kv_heads,
        head_dim=shape.head_dim or max(1, shape.hidden // shape.heads),
        ffn=ffn,
        vocab=shape.vocab or 0,
        gated=gated,
        tied=shape.tied,
        positions=shape.positions or 0,
        rotary="" if shape.positions else "whole",
        layer_norm=layer_norm,
        qk_norm=qk_norm,
        qkv_bias=qkv_bias,
        out_bias=bias,
        mlp_bias=bias,
        experts=_experts(shape, ffn, bias),
        assumed=frozenset(key for key in _OPEN if getattr(shape, key) is None),
    )


_OPEN = ("gated", "norm", "bias", "positions", "experts_active")
"""Keys whose default is a guess at the kind of model, not a size that follows from the others."""


def _experts(shape: ModelShape, ffn: int, bias: bool) -> Experts | None:
    if not shape.experts:
        return None
    return Experts(
        count=shape.experts,
        active=min(shape.experts, shape.experts_active or 2),
        ffn=shape.expert_ffn or ffn,
        shared_ffn=shape.shared_ffn or 0,
        router_bias=bias,
        bias=bias,
    )

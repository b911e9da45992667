"""What the table of families cannot say of a type: functions of what its config.json says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.config_values import ConfigValues


def _falcon(arch: Architecture, data: ConfigValues) -> Architecture:
    """``FalconAttention`` and ``FalconDecoderLayer``: 7B has one head of keys and one norm."""
    new = data.flag("new_decoder_architecture")
    two = data.size(("num_ln_in_parallel_attn",), 2 if new else 1) == 2
    parallel = data.flag("parallel_attn", default=True)
    kv_heads = arch.kv_heads if new else arch.heads
    if not new and data.flag("multi_query", default=True):
        kv_heads = 1
    norms = 1 if parallel and not two else 2
    return arch._replace(
        kv_heads=kv_heads,
        norms=norms,
        parallel=parallel and two,
        rotary="" if data.flag("alibi") else "whole",
    )


def _opt(arch: Architecture, data: ConfigValues) -> Architecture:
    """``OPTDecoder``: 350m has its norms behind the layers, and none at the end."""
    last = data.flag("do_layer_norm_before", default=True)
    last = last and not data.flag("_remove_final_layer_norm")
    learned = data.flag("layer_norm_elementwise_affine", default=True)
    width = arch.embedding_dim if arch.embedding_dim != arch.hidden else None
    return arch._replace(
        embedding_dim=width, norms=2 if learned else 0, final_norm=last and learned
    )


def _qwen(arch: Architecture, data: ConfigValues) -> Architecture:
    """``QWenMLP``: intermediate_size is that of the gate and the way up together."""
    bias = not data.flag("no_bias", default=True)
    return arch._replace(ffn=arch.ffn // 2, out_bias=bias, mlp_bias=bias)


def _gpt_bigcode(arch: Architecture, data: ConfigValues) -> Architecture:
    """``GPTBigCodeConfig``: one head of keys and values."""
    return arch._replace(kv_heads=1 if data.flag("multi_query", default=True) else arch.heads)


def _glm4_moe(arch: Architecture, data: ConfigValues) -> Architecture:
    """``Glm4MoeAttention``: queries and keys have norms in the larger models."""
    return arch._replace(qk_norm="head" if data.flag("use_qk_norm") else "")


def _llama4(arch: Architecture, data: ConfigValues) -> Architecture:
    """``Llama4TextMoe``: the expert that every token passes is as wide as the others, and
    intermediate_size is their width."""
    width = data.size(("intermediate_size",), arch.ffn) or arch.ffn
    experts = arch.experts and arch.experts._replace(ffn=width, shared_ffn=width)
    return arch._replace(experts=experts)


def _stablelm(arch: Architecture, data: ConfigValues) -> Architecture:
    """``StableLmDecoderLayer``: one norm for both, where they are computed side by side."""
    return arch._replace(norms=1 if data.flag("use_parallel_residual") else 2)


ADJUSTMENTS: Mapping[str, Callable[[Architecture, ConfigValues], Architecture]] = {
    "falcon": _falcon,
    "opt": _opt,
    "qwen": _qwen,
    "glm4_moe": _glm4_moe,
    "gpt_bigcode": _gpt_bigcode,
    "llama4_text": _llama4,
    "stablelm": _stablelm,
}
"""What a table cannot say of a type."""

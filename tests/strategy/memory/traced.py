"""What torch's MemTracker counts in one step of a model of transformers, without any weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import transformers
from torch._functorch.partitioners import get_default_op_list
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

BATCH, SEQ = 2, 4096
"""So many tokens that activations are far more than gradients of weights."""
TOKENS = BATCH * SEQ
_SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": SEQ,
    "pad_token_id": 0,
}
_GATED: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2, "intermediate_size": 1376}
_HEADS = {"head_dim": 64}
_DELTA = {
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
}
_LATENT = {
    "num_key_value_heads": 8,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 16,
    "v_head_dim": 64,
    "first_k_dense_replace": 100,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_GATED, **_HEADS},
    "gpt2": {
        "n_embd": 512,
        "n_head": 8,
        "n_positions": SEQ,
        "resid_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
    },
    "gpt_neox": {**_SIZES, "intermediate_size": 2048},
    "gemma2": {**_GATED, **_HEADS, "intermediate_size": 2048},
    "qwen3": {**_GATED, **_HEADS},
    "phi3": _GATED,
    "mixtral": {**_GATED, **_HEADS, "num_local_experts": 4, "num_experts_per_tok": 2},
    "opt": {**_SIZES, "ffn_dim": 2048, "dropout": 0.0, "word_embed_proj_dim": 512},
    "qwen3_5_text": {**_GATED, **_HEADS, **_DELTA},
    "olmo_hybrid": {**_GATED, **_DELTA},
    "kimi_linear": {**_GATED, "linear_num_heads": 4, "linear_head_dim": 64, **_LATENT},
    "lfm2": {**_GATED, "block_auto_adjust_ff_dim": False},
    "nemotron_h": {
        **_GATED,
        **_HEADS,
        "mamba_num_heads": 16,
        "mamba_head_dim": 64,
        "n_groups": 2,
        "ssm_state_size": 64,
    },
    "qwen3_next": {
        **_GATED,
        **_HEADS,
        **_DELTA,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 256,
    },
    "granitemoehybrid": {**_GATED, "num_local_experts": 0, "mamba_n_heads": 16},
    "falcon_h1": {**_GATED, "mamba_d_ssm": 768, "mamba_n_heads": 12, "mamba_d_state": 64},
    "bamba": {**_GATED, "mamba_n_heads": 16, "mamba_d_state": 64, "mamba_n_groups": 2},
}
"""``model_type`` → the sizes of a small one."""
DROPPED: dict[str, dict[str, Any]] = {
    "gpt2": {"resid_pdrop": 0.1, "attn_pdrop": 0.1, "embd_pdrop": 0.1},
    "opt": {"dropout": 0.1},
}
"""``model_type`` → the default probabilities, which CONFIGS sets to 0."""


class Traced(NamedTuple):
    """Bytes of everything but parameters, buffers and parameters' gradients."""

    kept: int
    """When the loss is known."""
    peak: int


_LISTS = {"nemotron_h": "layers_block_type", "bamba": "attn_layer_indices", "falcon_h1": ""}
"""``model_type`` → its key of the kinds of layers, where that is not layer_types."""


def list_layers(kind: str, part: str, layers: int) -> dict[str, Any]:
    """The key that makes all layers of one kind; none where there is only one."""
    key = _LISTS.get(kind, "layer_types")
    if kind == "bamba":
        return {key: list(range(layers)) if part == "full_attention" else []}
    return {key: [part] * layers} if part and key else {}


def config(
    kind: str, layers: int, vocab: int, *, drops: bool = False, part: str = ""
) -> transformers.PretrainedConfig:
    """The configuration of a small model with this many layers and words, all layers of one kind
    where ``part`` names it."""
    sizes = {**CONFIGS[kind], **(DROPPED[kind] if drops else {})}
    if part:
        sizes |= list_layers(kind, part, layers)
    made: transformers.PretrainedConfig = transformers.AutoConfig.for_model(
        kind, num_hidden_layers=layers, vocab_size=vocab, **sizes
    )
    return made


@cache
def trace(
    kind: str,
    precision: str,
    recompute: str,
    layers: int,
    vocab: int = 64,
    attention: str = "causal",
    *,
    drops: bool = False,
    part: str = "",
) -> Traced:
    """One forward and one backward pass under FakeTensorMode, with dropout as GPUs have it."""
    wide = precision != "bf16"
    amp = torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else nullcontext()
    functions = torch.nn.functional
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        set_checkpoint_early_stop(False),
        patch.object(functions, "dropout", _drop if drops else functions.dropout),
    ):
        made = config(kind, layers, vocab, drops=drops, part=part)
        model = _model(made, torch.float32 if wide else torch.bfloat16, attention)
        if recompute != "none":
            for layer in _layers(model):
                _recomputed(layer, recompute)
        words = torch.zeros(BATCH, SEQ, dtype=torch.long)
        tracker = MemTracker()
        tracker.track_external(model)
        with tracker:
            with amp:
                loss = model(input_ids=words, labels=words, use_cache=False).loss
            kept = _rest(tracker.get_tracker_snapshot("current"))
            loss.backward()
            return Traced(kept, _rest(tracker.get_tracker_snapshot("peak")))


def _drop(value: torch.Tensor, p: float, training: bool, *_: bool) -> torch.Tensor:
    """CUDA's dropout is one operation that keeps a mask of a byte; a CPU's is a product with noise
    of the tensor's type."""
    if not p:
        return value
    dropped: torch.Tensor = torch.ops.aten.native_dropout(value, p, training)[0]
    return dropped


def _rest(snapshot: dict[torch.device, dict[Any, int]]) -> int:
    found = snapshot[torch.device("cpu")]
    states = {"Parameter", "Buffer", "Gradient"}
    return sum(
        size
        for kind, size in found.items()
        if kind != "Total" and getattr(kind, "value", kind) not in states
    )


def _model(made: transformers.PretrainedConfig, dtype: torch.dtype, attention: str) -> Any:
    """The model, made in its own type: ``.to(dtype)`` cannot be had under FakeTensorMode."""
    transformers.AttentionInterface.register("causal", _causal)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        make: Any = transformers.AutoModelForCausalLM.from_config
        model = make(made, attn_implementation=attention, dtype=dtype)
    finally:
        torch.set_default_dtype(before)
    return model.train()


def _causal(module: Any, query: Any, key: Any, value: Any, _mask: Any, **words: Any) -> Any:
    """sdpa as transformers calls it for whole sequences on a GPU.

    transformers cannot look into fake tensors to see that no mask is needed, and sdpa has no
    softcap, which flash attention computes without keeping anything. Nor does it keep what it drops
    out, for which the CPU has no kernel.
    """
    words["dropout"] = 0.0
    for gone in ("softcap", "sliding_window"):
        words.pop(gone, None)
    return sdpa_attention_forward(module, query, key, value, None, **words)


def _layers(model: Any) -> Any:
    lists = (m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    return next(found for found in lists if len(found) == model.config.num_hidden_layers)


def _recomputed(layer: torch.nn.Module, recompute: str) -> None:
    inner = layer.forward
    words: dict[str, Any] = {}
    contexts: Any = create_selective_checkpoint_contexts
    if recompute == "selective":
        words["context_fn"] = lambda: contexts(_policy(layer))

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(inner, *args, use_reentrant=False, **words, **kwargs)

    layer.forward = forward


_MM = torch.ops.aten.mm.default
_HARD: Any = get_default_op_list().compute_intensive_ops
_SAVED = {op.default for op in _HARD} | {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
}
"""What torchtitan keeps, and the CPU's name for attention."""


def _policy(layer: torch.nn.Module) -> Callable[..., CheckpointPolicy]:
    """torchtitan's, distributed/activation_checkpoint.py: of products every second."""
    routers = {m.weight.shape[::-1] for n, m in layer.named_modules() if n.endswith("mlp.gate")}
    counts = {False: 0, True: 0}

    def policy(ctx: Any, func: Any, *args: Any, **_: Any) -> CheckpointPolicy:
        if func is _MM:
            if args[1].shape in routers:
                return CheckpointPolicy.PREFER_RECOMPUTE
            counts[ctx.is_recompute] += 1
        second = func is _MM and counts[ctx.is_recompute] % 2 == 0
        if func in _SAVED and not second:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return policy

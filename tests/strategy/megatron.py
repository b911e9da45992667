"""Megatron-LM without Megatron-LM: its arguments as recorded, and the model that they describe.

``arguments.py`` and ``gpt_builders.py`` are in no package; what they do with the arguments of the
model is repeated here, line by line, from tag core_v0.16.1. GPTModel itself is megatron-core's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

FACTS = Path(__file__).parents[1] / "facts/megatron/arguments-core-0.16.1.json"
_ELSEWHERE = (
    *("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"),
    *("expert_model_parallel_size", "sequence_parallel", "cp_comm_type", "fp16", "rope_type"),
    *("attention_backend", "cuda_graph_scope", "fp8_recipe", "apply_rope_fusion"),
    "gradient_accumulation_fusion",
)
"""What this machine, without GPUs and Transformer Engine, cannot have; none shapes a tensor."""
_TYPES = {"int": int, "float": float, "str": str, None: None}


def make_parser(*, defaults: bool) -> argparse.ArgumentParser:
    """Megatron-LM's, as its file lists it; without defaults, what is not given is None."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for row in json.loads(FACTS.read_text())["arguments"]:
        names, action = row["names"], row["action"]
        more: dict[str, Any] = {k: row[k] for k in ("dest", "nargs", "choices") if k in row}
        if action == "store":
            more["type"] = _TYPES[row.get("type")]
            more["default"] = row.get("default") if defaults else None
        kind: Any = argparse.BooleanOptionalAction if action == "boolean" else action
        parser.add_argument(*names, action=kind, **more)
    return parser


def validated(words: Sequence[str]) -> argparse.Namespace:
    """What ``validate_args`` makes of these words, as far as the model's arguments go."""
    args = make_parser(defaults=True).parse_args(list(words))
    for name in ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"):
        assert getattr(args, name) is not None, f"{name} is required"
    if args.ffn_hidden_size is None:
        wide = 4 * args.hidden_size
        args.ffn_hidden_size = int(wide * 2 / 3 / 64) * 64 if args.swiglu else wide
    if args.kv_channels is None:
        assert args.hidden_size % args.num_attention_heads == 0
        args.kv_channels = args.hidden_size // args.num_attention_heads
    if args.seq_length is not None:
        assert args.max_position_embeddings >= args.seq_length
    if args.add_bias_linear:
        args.add_qkv_bias = True
    if args.num_experts is not None and args.moe_ffn_hidden_size is None:
        args.moe_ffn_hidden_size = args.ffn_hidden_size
    if args.expert_tensor_parallel_size is None:
        args.expert_tensor_parallel_size = args.tensor_model_parallel_size
    assert not (args.multi_latent_attention and args.group_query_attention)
    return args


def pad_vocabulary(size: int, args: argparse.Namespace) -> int:
    """``_vocab_size_with_padding``."""
    multiple = args.make_vocab_size_divisible_by * args.tensor_model_parallel_size
    return ceil(size / multiple) * multiple


@contextmanager
def one_rank() -> Iterator[None]:
    """megatron-core's groups, of this process alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Transformer Engine and Apex are not there
        import torch.distributed as dist
        from megatron.core import parallel_state

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        parallel_state.initialize_model_parallel()
        try:
            yield
        finally:
            parallel_state.destroy_model_parallel()
            dist.destroy_process_group()


def count_parameters(args: argparse.Namespace, tokens: int) -> int:
    """The parameters of the model that ``gpt_builder`` builds, each once, on the meta device.

    ``tokens`` is what the tokenizer has; it counts where no argument says the padded vocabulary.
    The whole model is built, whatever tp and pp are: both divide it, and leave the sum.
    """
    with warnings.catch_warnings(action="ignore"), _without_gpu():
        import torch
        from megatron.core.models.gpt import GPTModel

        config = _config(args)
        with torch.device("meta"):
            built = GPTModel(
                config,
                _spec(args, config),
                vocab_size=args.padded_vocab_size or pad_vocabulary(tokens, args),
                max_sequence_length=args.max_position_embeddings,
                share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                position_embedding_type=args.position_embedding_type,
                rotary_percent=args.rotary_percent,
                rotary_base=args.rotary_base,
            )
    return sum(parameter.numel() for parameter in built.parameters())


@contextmanager
def _without_gpu() -> Iterator[None]:
    """Rotary embeddings ask for a GPU, and latent attention for Transformer Engine's kernel.

    Neither has parameters: with the softmax that is the default, a kernel of attention has none.
    """
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.transformer import multi_latent_attention
    from torch.nn import Identity

    with (
        patch("torch.cuda.current_device", return_value="meta"),
        patch.object(multi_latent_attention, "TELinear", Identity),
        patch.object(LocalSpecProvider, "core_attention", return_value=Identity),
    ):
        yield


def _spec(args: argparse.Namespace, config: Any) -> Any:
    """The layers, as ``gpt_builder`` chooses them."""
    from megatron.core.models.gpt import gpt_layer_specs

    assert args.softmax_type == "vanilla"
    if args.num_experts:
        return gpt_layer_specs.get_gpt_decoder_block_spec(
            config, use_transformer_engine=False, normalization=args.normalization
        )
    return gpt_layer_specs.get_gpt_layer_local_spec(
        args.num_experts,
        args.moe_grouped_gemm,
        args.qk_layernorm,
        args.multi_latent_attention,
        normalization=args.normalization,
    )


def _config(args: argparse.Namespace) -> Any:
    """``core_transformer_config_from_args``."""
    import torch
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig

    kind = MLATransformerConfig if args.multi_latent_attention else TransformerConfig
    fields = {field.name for field in dataclasses.fields(kind)}
    here = SimpleNamespace(**vars(args))
    for name in _ELSEWHERE:
        delattr(here, name)
    made: dict[str, Any] = {k: v for k, v in vars(here).items() if k in fields}
    made["num_moe_experts"] = args.num_experts
    made["num_query_groups"] = args.num_query_groups if args.group_query_attention else None
    if args.num_experts and args.moe_layer_freq != 1:
        assert not set(args.moe_layer_freq) - set(",0123456789[]()+*")
        made["moe_layer_freq"] = eval(args.moe_layer_freq)  # noqa: S307 as _eval_pattern does
    if args.swiglu:
        made |= {"activation_func": torch.nn.functional.silu, "gated_linear_unit": True}
    made |= {
        "use_cpu_initialization": True,
        "perform_initialization": False,
        "persist_layer_norm": False,
        "params_dtype": torch.bfloat16,
    }
    return kind(**made)

"""The theoretical memory of Megatron-LM and Megatron-Bridge, by their own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from planner_checkouts import load_file, stand_in

from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS

_LM = "megatron/training/theoretical_memory_usage.py"
_BRIDGE = "src/megatron/bridge/training/utils/theoretical_memory_utils.py"


def load_megatron(checkout: Path) -> Callable[[Setup], float | None]:
    """Megatron-LM's estimate of states and activations, in bytes."""
    stand_in("megatron_lm.utils", {"print_rank_0": print, "is_hybrid_model": lambda _: False})
    formulas = load_file(checkout, _LM, "megatron_lm.theoretical_memory_usage")

    def estimate(setup: Setup) -> float | None:
        if not _is_dense_megatron(setup):
            return None
        asked = _name_arguments(setup)
        states = formulas.compute_weight_and_optimizer_memory(asked)
        count = formulas.compute_activation_memory_without_sp
        if setup.sequence_parallel and setup.recompute == "selective":
            count = formulas.compute_activation_memory
        return float(states + count(asked, setup.batch.accumulation))

    return estimate


def load_bridge(checkout: Path) -> Callable[[Setup], float | None]:
    """Megatron-Bridge's estimate, in bytes; its formula of activations takes sequence parallelism
    and selective recomputing for granted."""
    stand_in("megatron.bridge.training.config", {"ConfigContainer": SimpleNamespace})
    stand_in("megatron.bridge.utils.vocab_utils", {"calculate_padded_vocab_size": None})
    formulas = load_file(checkout, _BRIDGE, "megatron.bridge.training.utils.theoretical_memory")

    def estimate(setup: Setup) -> float | None:
        if not _is_dense_megatron(setup):
            return None
        asked = _name_arguments(setup)
        config = SimpleNamespace(
            model=asked,
            train=asked,
            optimizer=asked,
            data_parallel_size=asked.data_parallel_size,
        )
        found = formulas.estimate_training_memory(config, setup.batch.accumulation)
        return float(found.total_memory_bytes)

    return estimate


def _is_dense_megatron(setup: Setup) -> bool:
    experts = setup.model.sizes.experts
    return setup.framework.startswith("megatron") and not setup.adapters and not experts


def _name_arguments(setup: Setup) -> SimpleNamespace:
    """A run in the arguments of Megatron-LM, and in what Megatron-Bridge calls otherwise."""
    from torch.nn.functional import gelu, silu

    sizes, mesh = setup.model.sizes, setup.mesh
    bridge = {
        "gated_linear_unit": sizes.gated,
        "activation_func": silu if sizes.gated else gelu,
        "share_embeddings_and_output_weights": sizes.tied,
        "vocab_size": sizes.vocab,
        "should_pad_vocab": False,
    }
    return SimpleNamespace(
        **bridge,
        kv_channels=sizes.head_dim,
        num_attention_heads=sizes.heads,
        hidden_size=sizes.hidden,
        group_query_attention=sizes.kv_heads != sizes.heads,
        num_query_groups=sizes.kv_heads,
        num_experts=None,
        moe_latent_size=None,
        moe_layer_freq=1,
        moe_router_topk=1,
        moe_ffn_hidden_size=None,
        expert_model_parallel_size=1,
        expert_tensor_parallel_size=mesh.tp,
        moe_shared_expert_intermediate_size=None,
        mtp_num_layers=None,
        add_bias_linear=sizes.mlp_bias,
        swiglu=sizes.gated,
        normalization="LayerNorm" if sizes.layer_norm else "RMSNorm",
        multi_latent_attention=False,
        ffn_hidden_size=sizes.ffn,
        padded_vocab_size=sizes.vocab,
        untie_embeddings_and_output_weights=not sizes.tied,
        num_layers=sizes.layers,
        pipeline_model_parallel_size=mesh.pp,
        virtual_pipeline_model_parallel_size=setup.chunks if setup.chunks > 1 else None,
        tensor_model_parallel_size=mesh.tp,
        context_parallel_size=mesh.cp,
        data_parallel_size=mesh.shard * mesh.replicate,
        world_size=mesh.world,
        sequence_parallel=setup.sequence_parallel,
        recompute_granularity=None if setup.recompute == "none" else setup.recompute,
        use_distributed_optimizer=TRAITS[setup.strategy].stage > 0,
        seq_length=setup.seq,
        micro_batch_size=setup.batch.micro,
    )

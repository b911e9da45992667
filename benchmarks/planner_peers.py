#!/usr/bin/env python3
"""Compare memory estimators on published runs: ``planner_peers.py --rows FILE.csv``.

Each estimator answers the runs that it has words for, and jobgen's error on the same runs stands
beside it. DeepSpeed's and accelerate's come with their packages; Megatron-LM's is read from a
checkout, ``--megatron-lm DIR``. DeepSpeed's counts model states alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import planner_scores as scores
from planner_accuracy import read_rows
from planner_scores import Scored

from jobgen.strategy.estimate import GIB
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS, Offloaded

Estimator = Callable[[Setup], float | None]
"""Bytes that it expects on a GPU; None for a run that it has no words for."""
_FORMULAS = Path("megatron", "training", "theoretical_memory_usage.py")
_ON_ONE_GPU = 1


def estimate_deepspeed(setup: Setup) -> float | None:
    """DeepSpeed's model states at ZeRO 2 and 3; FSDP's full shards stand for ZeRO 3."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    stage, mesh = TRAITS[setup.strategy].stage, setup.mesh
    plain = setup.adapters is None and setup.offload == Offloaded()
    if stage not in {2, 3} or not plain or mesh.world != mesh.shard:
        return None
    per_node = min(setup.world_per_node, mesh.world)
    nodes = mesh.world // per_node
    params = setup.model.count
    if stage == 2:
        return float(
            estimate_zero2_model_states_mem_needs(params, per_node, nodes, cpu_offload=False)[1]
        )
    largest = max(layer.count for layer in setup.model.layers)
    found = estimate_zero3_model_states_mem_needs(
        params, largest, per_node, nodes, cpu_offload=False, cpu_offload_params=False
    )
    return float(found[1])


def estimate_accelerate(setup: Setup) -> float | None:
    """The largest phase of ``accelerate estimate-memory`` in bf16, which knows one GPU."""
    from accelerate.commands.estimate import estimate_training_usage

    if setup.mesh.world > _ON_ONE_GPU or setup.adapters is not None:
        return None
    return float(max(estimate_training_usage(4 * setup.model.count, "bfloat16").values()))


def load_megatron(checkout: Path) -> Estimator:
    """Megatron-LM's theoretical memory, of states and activations, by its own file."""
    formulas = _import_alone(checkout / _FORMULAS)

    def estimate(setup: Setup) -> float | None:
        sizes = setup.model.sizes
        if not setup.framework.startswith("megatron") or setup.adapters or sizes.experts:
            return None
        asked = _name_arguments(setup)
        states = formulas.compute_weight_and_optimizer_memory(asked)
        count = formulas.compute_activation_memory_without_sp
        if setup.sequence_parallel and setup.recompute == "selective":
            count = formulas.compute_activation_memory
        return float(states + count(asked, setup.batch.accumulation))

    return estimate


def _import_alone(path: Path) -> ModuleType:
    """The file as a module, without its package, which needs CUDA."""
    package = types.ModuleType("megatron_formulas")
    package.__path__ = []
    utils = types.ModuleType("megatron_formulas.utils")
    vars(utils).update(print_rank_0=print, is_hybrid_model=lambda _: False)
    sys.modules |= {package.__name__: package, utils.__name__: utils}
    spec = importlib.util.spec_from_file_location("megatron_formulas.formulas", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path}: not found; --megatron-lm expects a checkout of NVIDIA/Megatron-LM")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name_arguments(setup: Setup) -> SimpleNamespace:
    """Megatron-LM's arguments for a run."""
    sizes, mesh = setup.model.sizes, setup.mesh
    return SimpleNamespace(
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
        data_parallel_size=mesh.shard * mesh.replicate,
        world_size=mesh.world,
        sequence_parallel=setup.sequence_parallel,
        recompute_granularity=None if setup.recompute == "none" else setup.recompute,
        use_distributed_optimizer=TRAITS[setup.strategy].stage > 0,
        seq_length=setup.seq,
        micro_batch_size=setup.batch.micro,
    )


def compare(scored: Sequence[Scored], estimator: Estimator) -> tuple[list[Scored], list[Scored]]:
    """The runs that an estimator answers: with its estimates, and with jobgen's."""
    theirs, ours = [], []
    for one in scored:
        setup = one.row.setup
        size = estimator(setup) if setup is not None else None
        if size is None or one.row.gib is None:
            continue
        theirs.append(Scored(one.row, size / GIB, size / GIB / one.row.gib - 1))
        ours.append(one)
    return theirs, ours


def format_row(name: str, scored: Sequence[Scored], rows: int) -> str:
    """One line of the table: how many runs are answered, and how wrong the answers are."""
    found = scores.summarize(scored)
    if not scored:
        return f"| {name} | 0 of {rows} | | | |"
    return (
        f"| {name} | {len(scored)} of {rows} | {found['bias_pct']:+} % | "
        f"{found['median_pct']} % | {found['p90_pct']} % |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--megatron-lm", type=Path, metavar="DIR", help="a checkout of it")
    args = parser.parse_args()
    peers: dict[str, Estimator] = {
        "DeepSpeed's estimators": estimate_deepspeed,
        "accelerate estimate-memory": estimate_accelerate,
    }
    if args.megatron_lm:
        peers["Megatron-LM's theoretical memory"] = load_megatron(args.megatron_lm)
    scored = scores.score_memory(read_rows(args.rows))
    print("| estimator | runs | bias | median error | nine in ten within |\n|---|--:|--:|--:|--:|")
    for name, estimator in peers.items():
        theirs, ours = compare(scored, estimator)
        print(format_row(name, theirs, len(scored)))
        print(format_row("… jobgen on the same", ours, len(scored)))
    print(format_row("jobgen on all", scored, len(scored)))


if __name__ == "__main__":
    main()

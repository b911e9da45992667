"""A published run as a setup: what the planner is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from planner_adapters import read_adapters
from planner_cells import is_no, is_old, is_recent, is_yes, read_count
from planner_frameworks import (
    FUSED_NORMS,
    OWN_KERNELS,
    copies_grads,
    count_bucket,
    count_expert_tp,
    count_samples,
    find_loss,
    has_engine,
    has_fused_step,
    has_liger,
    is_expandable,
    is_longest_first,
    is_unsynced,
    keeps_grads,
    lacks_cudnn,
    loads_all,
    makes_two_copies,
    overlaps_data,
    overlaps_tp,
)
from planner_machines import NVL72_NODES, count_channels, count_node_ranks, is_nvl72
from planner_shapes import read_shape
from planner_words import (
    OPTIMIZERS,
    RECIPES,
    RECOMPUTES,
    STRATEGIES,
    meaning,
)
from planner_words import framework as named

from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Recipe, Setup
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh, Offloaded


def _recipe(said: Mapping[str, str], framework: str) -> Recipe:
    words = said["precision"]
    name = meaning(RECIPES, words, "mixed")
    if framework == "megatron" and name == "mixed" and "fp16 grads" not in words:
        name = "main-grads" if "bf16 grads" not in words else name
    found = get_recipe(name, meaning(OPTIMIZERS, said["optimizer"], "adamw"))
    if framework == "nanotron" and read_count(said["dp"], 1) > 1:
        # DDP's buckets in bf16 beside the fp32 accumulators
        found = found._replace(grads=6)
    if "bf16 moments" in said["optimizer"]:
        # its fp32 parameters are then 16 bits more beside the bf16 ones (Megatron-LM,
        # core/optimizer/optimizer_config.py, ``store_param_remainders``)
        found = found._replace(master=2, moments=4)
    if re.search(r"fp8|float8", words, re.IGNORECASE):
        rows = "rowwise" in words + said["notes"] and "gw_hp" not in said["notes"]
        found = found._replace(name=f"{found.name}, fp8" + (" rowwise" if rows else ""))
    if re.search(r"nvfp4", words, re.IGNORECASE):
        found = found._replace(name=f"{found.name}, fp4")
    return found._replace(reduce=2) if "PURE" in words else found


def _recompute(said: Mapping[str, str]) -> str:
    words = said["recompute"]
    if words.startswith("none on 1 GPU"):
        return "none" if read_count(said["n_gpus"], 1) == 1 else "full"
    if _recomputes_second(said):
        return "full"
    return meaning(RECOMPUTES, words, "none")


def _recomputes_second(said: Mapping[str, str]) -> bool:
    """Of fms-fsdp, selective checkpointing is of whole blocks at even distances, a part of them
    that is free to choose: half of them by the FLOPs of its table, 0.59 of the peak with what is
    recomputed and 0.51 without it (README.md, 13B, and fms_fsdp/policies/ac_handler.py)."""
    blocks = "fms-fsdp" in said["source"] and said["recompute"] == "selective"
    return blocks or "every second layer is recomputed whole" in said["notes"]


def _strategy(said: Mapping[str, str]) -> str:
    """The strategy by its own column, else by that of ZeRO's stage or of the optimizer."""
    found = meaning(STRATEGIES, said["strategy"], "")
    if found in {"", "3d"} and "distributed" in said["optimizer"].lower():
        return "zero1"
    stage = re.match("[123]$", said["zero_stage"].strip())
    return found or (f"zero{stage[0]}" if stage else "ddp")


def read_setup(said: Mapping[str, str]) -> Setup:
    strategy = _strategy(said)
    framework = named(said, strategy)
    tp, pp, cp, ep = (read_count(said[key], 1) for key in ("tp", "pp", "cp", "ep"))
    data = read_count(said["dp"], max(1, read_count(said["n_gpus"], 1) // (tp * pp * cp)))
    shard = 1 if strategy in {"ddp", "3d", "fsdp-no-shard"} else data
    if strategy == "fsdp-hybrid":
        shard = min(data, count_node_ranks(said))
    micro, gas = _batch(said, framework, data, pp)
    etp = count_expert_tp(said, data * cp % ep == 0)
    native = framework in {"nanotron", "megatron", "megatron-deepspeed"}
    plain = re.search("legacy layers|no other fused operation", said["notes"]) is not None
    legacy = framework == "megatron-deepspeed" or plain
    shape = read_shape(said)
    # litgpt's models have no dropout (litgpt/model.py)
    dropped = not (native or framework == "litgpt" or "no dropout" in said["notes"])
    return Setup(
        model=build_model(shape),
        strategy=strategy,
        mesh=Mesh(data // shard, shard, tp, pp, cp, ep, etp=etp),
        batch=Batch(micro, gas, data),
        seq=_length(said),
        recipe=_recipe(said, framework),
        recompute=_recompute(said),  # type: ignore[arg-type]
        recompute_every=2 if _recomputes_second(said) else 1,
        offload=_offload(said["offload"]),
        offload_activations="activations" in said["offload"],
        reshard="mem_efficient_linear=False" not in said["notes"],
        gathers_ahead="gathers unlimited" in said["notes"],
        narrow_gather="float8 all-gather" in said["notes"],
        narrow_copies="float8 weights kept" in said["notes"],
        keeps_cache="keeps keys and values" in said["notes"],
        framework="megatron" if framework in {"nanotron", "megatron"} else framework,
        # litgpt's softcap is single operations (litgpt/model.py, ``scaled_dot_product_attention``)
        flash=not (is_no(said["flash_attn"]) or (framework == "litgpt" and shape.softcap)),
        tf32="TF32" in said["notes"],
        compiled=is_yes(said["compile"]) or OWN_KERNELS in said["notes"],
        loss=find_loss(said, framework),  # type: ignore[arg-type]
        persistent_grads=native or (strategy == "ddp" and data > 1 and keeps_grads(said)),
        copied_grads=strategy == "ddp" and data > 1 and copies_grads(said),
        fused_step=has_fused_step(said, framework),
        repeat_kv=legacy or framework in {"torchtitan", "torchtune", "litgpt", "thunder"},
        document=_document(said),
        loose=bool(re.search(r"variable-length|padded, not packed", said["notes"])),
        sequence_parallel=framework in {"torchtitan", "nanotron", "megatron"}
        and "no sequence parallelism" not in said["notes"],
        keeps_gathered=framework == "torchtitan"
        or "tp_linear_async_communication false" in said["notes"],
        overlap_tp=overlaps_tp(said),
        overlap_reduce=overlaps_data(said, framework),
        overlap_gather=overlaps_data(said, framework),
        fused_dispatch=re.search("DeepEP|HybridEP", said["locator"] + said["notes"]) is not None,
        gathers_tokens="allgather dispatcher" in said["notes"],
        fused_experts="cutedsl_fused_grouped_mlp" in said["notes"],
        overlap_experts="overlap_moe_expert_parallel_comm" in said["notes"],
        graphed="CUDA graphs" in said["notes"] and "no CUDA graphs" not in said["notes"],
        graphs_attention="CUDA graphs of router" not in said["notes"],
        graphs_step="full-iteration CUDA graphs" in said["notes"],
        chunks=max(1, read_count(said["vpp"], 1)) if pp > 1 else 1,
        adapters=read_adapters(said),
        step_in_backward="in bwd" in said["optimizer"],
        fused_norms=framework in {"megatron", "megatron-deepspeed"}
        or FUSED_NORMS.search(said["source"] + said["notes"]) is not None,
        joined_norms=framework == "torchtitan" and is_recent(said, month=9),
        wide_rotation="QwenLM/Qwen " in said["source"],
        fused_activation=(framework == "megatron" and not legacy) or has_liger(said),
        vocab_divisor=1 if framework == "nanotron" else 128,
        fused_attention=(framework == "megatron" and not (legacy or lacks_cudnn(said)))
        or has_engine(said),
        legacy=legacy,
        hidden_dropout="hidden dropout" in said["notes"] or (dropped and shape.hidden_dropout),
        attention_dropout=dropped and shape.attention_dropout,
        reentrant=framework == "transformers"
        and not (is_recent(said) or _NOT_REENTRANT.search(said["source"] + said["recompute"])),
        checkpoints_inside="inside FSDP's units" in said["recompute"],
        unsynced=is_unsynced(said, strategy, framework),
        longest_first=is_longest_first(said, framework),
        reduce_bucket=count_bucket(said, strategy, framework),
        step_copies=2 if makes_two_copies(said) else 1,
        # its ``apply_fsdp`` since pull request 1094; a month before, torch's nightly builds already
        # let go of the root (pytorch/pytorch, pull request 154704)
        split_root=(framework == "torchtitan" and is_recent(said, month=6))
        or "custom_sharded_layers" in said["notes"],
        expandable=is_expandable(said, framework),
        lazy_modules=not is_old(said),
        keeps_full_copy=loads_all(said),
        channels=count_channels(said),
        world_per_node=count_node_ranks(said),
        nvlink_nodes=NVL72_NODES if is_nvl72(said) else 1,
    )


def _offload(words: str) -> Offloaded:
    """What is kept outside: all of it where only the place is said."""
    place = re.search(r"cpu|nvme", words, re.IGNORECASE)
    if not place:
        return Offloaded()
    only = re.search(r"optimizer|optim", words) and not re.search(r"param", words)
    to: Literal["cpu", "nvme"] = "nvme" if place[0].lower() == "nvme" else "cpu"
    return Offloaded(optimizer=True, params=not only, to=to)


_NOT_REENTRANT = re.compile("not reentrant|fms-fsdp")
"""Runs of before 2025 whose checkpoints are not reentrant: of fms-fsdp since its beginning
(fms_fsdp/policies/ac_handler.py)."""
LOCAL_BATCH = re.compile(r"local batch (\d+) split")
"""What a rank has in a step, where each micro-batch is one sample."""
_WITHIN = re.compile(r"attention within samples of (\d+) tokens")
"""Tokens of a sample, where sequences are packed of many."""
_ALPACA = 1304
"""Tokens of Alpaca's longest sample, as litgpt's tables say."""


def _document(said: Mapping[str, str]) -> int:
    within = _WITHIN.search(said["notes"])
    return int(within[1]) if within else 0


def _length(said: Mapping[str, str]) -> int:
    seq = read_count(said["seq"], 0)
    packed = re.search("(?<!not )packed", said["notes"]) is not None
    return min(seq, _ALPACA) if "alpaca" in said["notes"] and not packed else seq


def _batch(said: Mapping[str, str], framework: str, data: int, pp: int) -> tuple[int, int]:
    """Samples of a micro-batch, and how many make a step."""
    local = LOCAL_BATCH.search(said["notes"])
    if local:
        # as many micro-batches as stages, until torchtitan's pull request 1073 made each one sample
        count = int(local[1]) if is_recent(said, month=4) else min(pp, int(local[1]))
        return int(local[1]) // count, count
    micro = read_count(said["mbs"], 1)
    if pp > 1 and re.search(r"batch per DP", said["notes"]):
        return 1, micro
    of_all = read_count(said["gbs"], count_samples(said, framework, data) or micro * data)
    return micro, read_count(said["gas"], 0) or max(1, of_all // (micro * data))

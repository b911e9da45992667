"""Published measurements as setups: one row of a CSV file → what the planner is asked.

What a row leaves out is filled in by what its framework does by default, as its code says; nothing
here is fitted to a measurement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from planner_words import (
    OPTIMIZERS,
    RECIPES,
    RECOMPUTES,
    STRATEGIES,
    TARGETS,
    meaning,
)
from planner_words import framework as named

from jobgen.data import GpuModel, gpus
from jobgen.model.links import get_host_rate
from jobgen.strategy.choice.setups import choose_channels
from jobgen.strategy.estimate import MIB, ClusterHardware, Metric
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import NVLINK_CHANNELS, Adapters, Recipe, Setup
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.shapes.table import find_model, suggest_models
from jobgen.strategy.spec import Batch, Mesh, Offloaded
from jobgen.strategy.speed import rates
from jobgen.strategy.speed.compute import count_flops
from jobgen.strategy.speed.machine_model import NARROW


class Row(NamedTuple):
    """One published run."""

    id: str
    tier: str
    source: str
    setup: Setup | None
    machine: ClusterHardware
    metric: Metric
    gib: float | None
    """Measured memory, in GiB of its metric."""
    step: float | None
    """Measured seconds of a step of the optimizer."""
    mfu: float | None
    fits: bool
    interconnect: bool
    """Whether what joins the GPUs is known, and how fast they may be."""
    missing: str = ""
    """Why its memory is not scored."""
    blind: float | None = None
    """The estimate in GiB before its source had shown any mistake of the planner, where kept."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What kinds of training it is: what is trained, of which model, on how many GPUs."""
        if self.setup is None:
            return ()
        adapters, experts = self.setup.adapters, self.setup.model.sizes.experts
        trained = "full"
        if adapters is not None:
            trained = "QLoRA" if adapters.bits == 4 else "LoRA"
        gpus = "one GPU" if self.setup.mesh.world == 1 else "several GPUs"
        return (trained, gpus) if experts is None else (trained, "MoE", gpus)


_NEEDED = ("layers", "hidden", "seq")
"""Columns without which there is no setup."""
_SCORED = {"mbs": "micro-batch", "optimizer": "optimizer"}
"""Columns without which its memory is not scored."""


def row(line: Mapping[str, str | None]) -> Row:
    """One line of the file; a column that the file does not have is one that is empty."""
    said: Mapping[str, str] = defaultdict(str, {name: cell or "" for name, cell in line.items()})
    gaps = [name for name in _NEEDED if not _number(said[name])]
    if not gaps and not _adds_up(said):
        gaps = ["sizes that add up to its parameters"]  # experts, or an encoder beside the decoder
    setup = None if gaps else _setup(said)
    gaps += [name for column, name in _SCORED.items() if not said[column].strip()]
    if "micro-batch" in gaps and _LOCAL_BATCH.search(said["notes"]):
        gaps.remove("micro-batch")
    machine = _machine(said)
    return Row(
        said["id"],
        said["tier"],
        said["source"],
        setup,
        machine,
        _metric(said),
        _gib(said),
        _seconds(said, setup, machine),
        _number(said["mfu_pct"]),
        re.match("oom|out of memory", said["outcome"], re.IGNORECASE) is None,
        _interconnect(said),
        f"no {', '.join(gaps)}" if gaps else "",
        _number(said.get("blind_gib", "")),
    )


def _number(text: str) -> float | None:
    """What a cell starts with: ``~1,024 (packed)`` is 1024."""
    found = re.match(r"[~≈\s]*([\d.,]+)", text)
    try:
        return float(found[1].replace(",", "")) if found else None
    except ValueError:
        return None


def _int(text: str, default: int) -> int:
    """A count; nothing and 0 are one that is not stated."""
    return int(_number(text) or 0) or default


_UNITS = {"GiB": 1.0, "MiB": 2.0**-10, "MB": 1e6 / 2**30, "bytes": 2.0**-30, "GB?": 1.0}
"""GiB of one unit, where it is not 1e9 bytes: a GB that may be either is what tools print as GB."""


def _gib(said: Mapping[str, str]) -> float | None:
    """Measured memory, in GiB: of its own column, or of the value as printed and its unit."""
    printed, each = _number(said["mem_value"]), _UNITS.get(said["mem_unit"].strip(), 1e9 / 2**30)
    return _number(said["mem_gib"]) or (printed * each if printed else None)


_METRICS: tuple[tuple[str, Metric], ...] = (
    (r"nvidia-smi|nvtop", "nvidia-smi"),
    (r"allocated|active|peak mem", "allocated"),
    (r"reserved", "reserved"),
)


def _metric(said: Mapping[str, str]) -> Metric:
    """What was measured; where it is not said, what can be seen without changing the program."""
    words = f"{said['mem_metric']} {said['mem_unit']}"
    return next((name for found, name in _METRICS if re.search(found, words)), "nvidia-smi")


def _adds_up(said: Mapping[str, str]) -> bool:
    params = _number(said["params"])
    return not params or abs(build_model(_shape(said)).count / params - 1) < _CLOSE


_CLOSE = 0.3
"""By how much the parameters of a model may differ from what its sizes come to."""
_ALIKE = 0.02
"""By how much the parameters of a model may differ from those of the catalogue's."""


def _shape(said: Mapping[str, str]) -> Architecture:
    """The model of the catalogue with this name and these sizes, or what the sizes alone say."""
    plain, params = _plain_shape(said), _number(said["params"])
    start = re.match("[a-z]*", said["model"].lower())
    for name in (said["model"], *suggest_models(said["model"])):
        known = find_model(name)
        if known is None or (start and start[0] not in known.name.lower()):
            continue  # MPT-125m is like opt-125m in name and sizes alone
        if (known.layers, known.hidden) != (plain.layers, plain.hidden):
            continue
        if params and abs(build_model(known).count / params - 1) < _ALIKE:
            return known._replace(
                name=plain.name,
                vocab=plain.vocab if _number(said["vocab"]) else known.vocab,
                fused_qkv=plain.fused_qkv or known.fused_qkv,
                rotary=known.rotary if plain.rotary == "whole" else plain.rotary,
            )
    return plain


def _plain_shape(said: Mapping[str, str]) -> Architecture:
    hidden = _int(said["hidden"], 0)
    heads = _int(said["heads"], max(1, hidden // 128))
    gated = _is_yes(said["gated"])
    # MPT's layers have no biases; what is named for having no gate differs from Llama in that alone
    foundry = said["model"].startswith("MPT")
    plain = foundry or "no gate" in said["notes"]
    classic = not gated and not plain
    litgpt = "litgpt" in said["source"] + said["notes"]
    return Architecture(
        name=said["model"],
        layers=_int(said["layers"], 1),
        hidden=hidden,
        heads=heads,
        kv_heads=_int(said["kv_heads"], heads),
        head_dim=_int(said["head_dim"], hidden // heads),
        ffn=_int(said["ffn"], 4 * hidden),
        vocab=_int(said["vocab"], 51200),
        gated=gated,
        tied=not _is_no(said["tied"]),
        layer_norm=not gated and "no gate" not in said["notes"],
        norm_bias=classic,
        qkv_bias=classic,
        out_bias=classic,
        mlp_bias=classic,
        fused_qkv=litgpt,
        rotary=_get_rotary(said),
    )


def _get_rotary(said: Mapping[str, str]) -> Literal["whole", "part", ""]:
    if "litgpt" in said["source"] + said["notes"]:
        return "part"  # beside what is not rotated, of however many elements (litgpt/model.py)
    # MPT learns positions, unless it has ALiBi (llm-foundry, models/mpt/configuration_mpt.py)
    none = said["model"].startswith("MPT") or "ALiBi" in said["notes"]
    return "" if none else "whole"


def _recipe(said: Mapping[str, str], framework: str) -> Recipe:
    words = said["precision"]
    name = meaning(RECIPES, words, "mixed")
    if framework == "megatron" and name == "mixed" and "fp16 grads" not in words:
        name = "main-grads" if "bf16 grads" not in words else name
    found = get_recipe(name, meaning(OPTIMIZERS, said["optimizer"], "adamw"))
    if framework == "nanotron" and _int(said["dp"], 1) > 1:
        # DDP's buckets in bf16 beside the fp32 accumulators
        found = found._replace(grads=6)
    if "bf16 moments" in said["optimizer"]:
        # its fp32 parameters are then 16 bits more beside the bf16 ones (Megatron-LM,
        # core/optimizer/optimizer_config.py, ``store_param_remainders``)
        found = found._replace(master=2, moments=4)
    if re.search(r"fp8|float8", words, re.IGNORECASE):
        rows = "rowwise" in words + said["notes"] and "gw_hp" not in said["notes"]
        found = found._replace(name=f"{found.name}, fp8" + (" rowwise" if rows else ""))
    return found._replace(reduce=2) if "PURE" in words else found


def _recompute(said: Mapping[str, str]) -> str:
    words = said["recompute"]
    if words.startswith("none on 1 GPU"):
        return "none" if _int(said["n_gpus"], 1) == 1 else "full"
    if _recomputes_second(said):
        return "full"
    return meaning(RECOMPUTES, words, "none")


def _recomputes_second(said: Mapping[str, str]) -> bool:
    return "every second layer is recomputed whole" in said["notes"]


def _loss(said: Mapping[str, str], framework: str) -> str:
    """How logits become the loss. litgpt's takes 128 tokens at once; GPTQ's models compute in fp16,
    without autocast; Megatron's works in place; torchtitan compiles its since 2025."""
    notes, words = said["notes"], said["notes"] + said["source"]
    if "Hugging Face" in said["locator"]:  # a table that compares its own kernels with theirs
        words = notes
    pure = re.search(r"^(pure bf16|bf16-true)", said["precision"]) and "fp32 logits" not in notes
    titan = framework == "torchtitan"
    compiled = (
        titan and _is_yes(said["compile"]) and _is_recent(said, month=4)
    )  # pytorch/torchtitan, pull request 1033
    fused = re.search(
        r"(?<!no )fused[- ](linear[- ])?(ce\b|cross)|cut cross|liger|unsloth", words, re.IGNORECASE
    )
    chunked = re.search(r"(?<!not )(?<!no )chunked", notes) is not None
    kinds = {
        # its ChunkedLossWrapper puts the output layer into the chunks too (docs/chunked_loss.md)
        "fused": (bool(fused) and "no fused" not in notes) or (titan and chunked),
        "chunked": (framework == "litgpt" and "all logits at once" not in notes) or chunked,
        # nanotron's has an fp32 copy, and a shifted one that becomes its gradient: as many bytes
        "narrow": "gptq" in said["trainable"] or bool(pure) or framework == "nanotron",
        "in-place": framework in {"megatron", "megatron-deepspeed"} or "entropy in place" in notes,
        "compiled": compiled,
        "held": "keeps the logits" in notes,
    }
    return next((kind for kind, holds in kinds.items() if holds), "plain")


_RANK = re.compile(r"\br(?:ank)? ?=? ?(\d+)")
_FOUR_BITS = re.compile(r"QLoRA|nf4|fp4 base|int4|4-?bit", re.IGNORECASE)
_EIGHT_BITS = re.compile(r"int8|8-?bit", re.IGNORECASE)
_PREPARED = re.compile(r"/trl|\bSFT|/peft|kbit", re.IGNORECASE)
"""Sources whose quantized models peft prepares."""


_NO_AUTOCAST = re.compile(r"method_comparison|fms-acceleration")
"""Sources whose adapters on 16 bits are trained without autocast (peft, method_comparison/run.py,
``use_amp``; fms-acceleration, scripts/benchmarks/scenarios.yaml, without ``bf16``)."""


_FUSED_NORMS = re.compile(
    r"QwenLM/Qwen |\bliger\b|Transformer Engine|use_fused_rms_norm and", re.IGNORECASE
)
"""Runs whose norms and rotation are one kernel each: the first Qwen's own code takes both from
flash-attn, and Liger and Transformer Engine replace them."""
_OWN_KERNELS = "own kernels for dropout with norm, MLP"
"""Runs whose kernels join what a compiler would: flash-attention's training code (flash_attn/ops/
layer_norm.py and fused_dense.py)."""
_LIGER = re.compile(r"\bliger\b", re.IGNORECASE)
_NARROW = r"^(pure bf16|nf4 base \+ bf16)"
"""Precisions in which nothing is fp32."""


def _has_liger(said: Mapping[str, str]) -> bool:
    """Whether all kernels of Liger are in the model, so that its gated activation is one kernel too
    (Liger-Kernel, ops/swiglu.py): fms-acceleration takes its cross-entropy alone."""
    words = said["source"] + said["notes"]
    return _LIGER.search(words) is not None and "fms-acceleration" not in words


def _is_narrowed(said: Mapping[str, str]) -> bool:
    """Whether a program makes adapters 16 bits wide: trl leaves those of a model that ZeRO-3 shards
    as the base is stored (``autocast_adapter_dtype=False``)."""
    return re.search(r"model\.half\(\)|adapters stored as bf16", said["notes"]) is not None


def _adapters(said: Mapping[str, str]) -> Adapters | None:
    words = re.sub(r"\s*[,/+]\s*", ",", said["trainable"].lower().replace("_proj", ""))
    if "lora" not in words:
        return None
    rank = _RANK.search(words) or re.search(r"LoRA r ?=? ?(\d+)", said["notes"])
    nemo, automodel = _is_nemo(said), "Automodel" in said["source"]
    own = automodel or re.search("torchtune|litgpt", said["source"]) is not None
    targets = next((names for found, names in TARGETS if re.search(found, words)), ())
    if nemo and not targets:
        # their benchmarks' recipes: peft.target_modules = ["linear_qkv"]
        targets = ("q_proj", "k_proj", "v_proj", "qkv")
    whole = ("embedding", "head") if "emb" in words else ()
    stored = 32 if re.search(r"^fp32|fp32 params", said["precision"]) else 16
    base = said["trainable"] + said["precision"]
    bits = 4 if _FOUR_BITS.search(base) else 8 if _EIGHT_BITS.search(base) else stored
    prepared = bits in {4, 8} and _PREPARED.search(said["source"] + said["notes"]) is not None
    prepared = prepared and not re.search(r"FSDP|ZeRO-?3", said["strategy"], re.IGNORECASE)
    return Adapters(
        int(rank[1]) if rank else 8,
        targets,
        bits,
        whole,
        prepared=prepared,
        narrow_ends=prepared and _has_narrow_ends(said),
        nested=re.search("(without|no) double quant", said["notes"]) is None,
        # NeMo's and Megatron-Bridge's adapters have no dropout unless one is asked for, and
        # torchtune's recipes and peft's comparison ask for none
        dropout=not (nemo or re.search("Automodel|torchtune|method_comparison", said["source"])),
        fused="gptq" not in words,
        cast_back="without autocast" not in said["notes"],
        joined="rotation and LoRA" in said["notes"],
        # FSDP1 flattens a unit's parameters into one tensor, which has one type; adapters that are
        # not peft's are of the type of the weight beside them (nemo_automodel, components/_peft/
        # lora.py; torchtune, modules/peft/lora.py; litgpt/lora.py); model.half() makes all narrow
        width=2 if (stored == 16 and (own or _is_flattened(said))) or _is_narrowed(said) else 4,
        autocast=bits == 4 or _NO_AUTOCAST.search(said["source"]) is None,
    )


def _has_narrow_ends(said: Mapping[str, str]) -> bool:
    """Whether it is trl's SFTTrainer in bf16, of 2024 or later."""
    sft = re.search(r"/trl|\bSFT", said["source"] + said["notes"]) is not None
    return sft and "bf16" in said["precision"] and _is_recent(said, year=24)


def _is_flattened(said: Mapping[str, str]) -> bool:
    narrow = re.search(_NARROW, said["precision"])
    return "FSDP" in said["strategy"] and narrow is not None


def _strategy(said: Mapping[str, str]) -> str:
    """The strategy by its own column, else by that of ZeRO's stage or of the optimizer."""
    found = meaning(STRATEGIES, said["strategy"], "")
    if found in {"", "3d"} and "distributed" in said["optimizer"].lower():
        return "zero1"
    stage = re.match("[123]$", said["zero_stage"].strip())
    return found or (f"zero{stage[0]}" if stage else "ddp")


def _is_no(cell: str) -> bool:
    return cell.strip().lower() in {"0", "no", "none", "false", "off", "eager"}


def _is_yes(cell: str) -> bool:
    return bool(cell.strip()) and not _is_no(cell)


def _setup(said: Mapping[str, str]) -> Setup:
    strategy = _strategy(said)
    framework = named(said, strategy)
    tp, pp, cp, ep = (_int(said[key], 1) for key in ("tp", "pp", "cp", "ep"))
    data = _int(said["dp"], max(1, _int(said["n_gpus"], 1) // (tp * pp * cp)))
    shard = 1 if strategy in {"ddp", "3d", "fsdp-no-shard"} else data
    if strategy == "fsdp-hybrid":
        shard = min(data, _node_ranks(said))
    micro, gas = _batch(said, data, pp)
    native = framework in {"nanotron", "megatron", "megatron-deepspeed"}
    plain = re.search("legacy layers|no other fused operation", said["notes"]) is not None
    legacy = framework == "megatron-deepspeed" or plain
    shape = _shape(said)
    dropped = not native and "no dropout" not in said["notes"]
    return Setup(
        model=build_model(shape),
        strategy=strategy,
        mesh=Mesh(data // shard, shard, tp, pp, cp, ep, etp=_expert_tp(said, data * cp % ep == 0)),
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
        flash=not _is_no(said["flash_attn"]),
        tf32="TF32" in said["notes"],
        compiled=_is_yes(said["compile"]) or _OWN_KERNELS in said["notes"],
        loss=_loss(said, framework),  # type: ignore[arg-type]
        persistent_grads=native or (strategy == "ddp" and data > 1 and _keeps_grads(said)),
        copied_grads=strategy == "ddp" and data > 1 and _copies_grads(said),
        fused_step=_is_fused(said, framework),
        repeat_kv=legacy or framework in {"torchtitan", "torchtune", "litgpt", "thunder"},
        document=_document(said),
        loose=bool(re.search(r"variable-length|padded, not packed", said["notes"])),
        sequence_parallel=framework in {"torchtitan", "nanotron", "megatron"}
        and "no sequence parallelism" not in said["notes"],
        keeps_gathered=framework == "torchtitan"
        or "tp_linear_async_communication false" in said["notes"],
        overlap_tp=_overlaps_tp(said),
        overlap_reduce=_overlaps_data(said, framework),
        overlap_gather=_overlaps_data(said, framework),
        fused_dispatch=re.search("DeepEP|HybridEP", said["locator"] + said["notes"]) is not None,
        gathers_tokens="allgather dispatcher" in said["notes"],
        overlap_experts="overlap_moe_expert_parallel_comm" in said["notes"],
        graphed="CUDA graphs" in said["notes"] and "no CUDA graphs" not in said["notes"],
        chunks=max(1, _int(said["vpp"], 1)) if pp > 1 else 1,
        adapters=_adapters(said),
        step_in_backward="in bwd" in said["optimizer"],
        fused_norms=framework in {"megatron", "megatron-deepspeed"}
        or _FUSED_NORMS.search(said["source"] + said["notes"]) is not None,
        joined_norms=framework == "torchtitan" and _is_recent(said, month=9),
        wide_rotation="QwenLM/Qwen " in said["source"],
        fused_activation=(framework == "megatron" and not legacy) or _has_liger(said),
        vocab_divisor=1 if framework == "nanotron" else 128,
        fused_attention=(framework == "megatron" and not legacy) or _has_engine(said),
        legacy=legacy,
        hidden_dropout="hidden dropout" in said["notes"] or (dropped and shape.hidden_dropout),
        attention_dropout=dropped and shape.attention_dropout,
        reentrant=framework == "transformers"
        and not (_is_recent(said) or "not reentrant" in said["recompute"]),
        checkpoints_inside="inside FSDP's units" in said["recompute"],
        unsynced=framework == "automodel"
        or (framework == "transformers" and _is_unsynced(said, strategy)),
        reduce_bucket=_bucket(said, strategy, framework),
        step_copies=2 if _makes_two_copies(said) else 1,
        # its ``apply_fsdp`` since pull request 1094; a month before, torch's nightly builds already
        # let go of the root (pytorch/pytorch, pull request 154704)
        split_root=(framework == "torchtitan" and _is_recent(said, month=6))
        or "custom_sharded_layers" in said["notes"],
        expandable=_is_expandable(said, framework),
        lazy_modules=not _is_old(said),
        keeps_full_copy=_loads_all(said, framework, shard),
        channels=_count_channels(said),
        world_per_node=_node_ranks(said),
        nvlink_nodes=_NVL72_NODES if _is_nvl72(said) else 1,
    )


def _copies_grads(said: Mapping[str, str]) -> bool:
    """Whether DDP is torch's with ``gradient_as_bucket_view=False``, its default, which accelerate,
    the Trainer and Fabric leave as it is (lightning/fabric/strategies/ddp.py, ``setup_module``)."""
    return re.search("DeepSpeed-Chat|Megatron-LM", said["notes"]) is None


def _keeps_grads(said: Mapping[str, str]) -> bool:
    """Whether DDP's gradients keep their memory between steps: what lies beside the buckets does
    before torch 2.0, since which ``zero_grad`` sets it to None (its release notes)."""
    return not _copies_grads(said) or "torch 1." in said["notes"]


def _has_engine(said: Mapping[str, str]) -> bool:
    """Whether a program other than Megatron has Transformer Engine's attention, or FlashAttention 3
    or 4, which are as fast (``FUSED_FLASH``)."""
    found = re.search("Transformer Engine with its attention|flash attention [34]", said["notes"])
    return found is not None


def _loads_all(said: Mapping[str, str], framework: str, shard: int) -> bool:
    """Whether a GPU has the whole model in 16 bits before it is sharded or quantized."""
    litgpt = framework == "litgpt" and (shard > 1 or "QLoRA" in said["trainable"])
    return litgpt or "loaded whole on each GPU" in said["notes"]


def _is_fused(said: Mapping[str, str], framework: str) -> bool:
    """Whether the optimizer's step is one kernel, as its column says, or as its framework does:
    InternEvo steps with torch's own AdamW (train/training_internlm.py), and so did torchtitan until
    February 2025 (pull request 881)."""
    words = said["optimizer"]
    if "fused" in words or "foreach" in words:
        return "fused" in words
    return framework not in {"transformers", "internevo"}


_NVL72_NODES = 18
"""Of four GPUs each (NVIDIA, GB200 NVL72 datasheet)."""


def _is_nvl72(said: Mapping[str, str]) -> bool:
    return re.search(r"GB[23]00", said["gpu"]) is not None


_ONE_NODE = re.compile(r"one node of (\d+) GPUs")
"""Words of a node that has more than eight GPUs, as a DGX-2 has."""


def _node_gpus(said: Mapping[str, str]) -> int:
    large = _ONE_NODE.search(said["inter"])
    if large is not None:
        return int(large[1])
    return 4 if _is_nvl72(said) else 8


def _count_channels(said: Mapping[str, str]) -> int:
    if "NVLink" in said["intra"]:
        return NVLINK_CHANNELS
    return choose_channels(_gpu_or_usual(said).name)


def _node_ranks(said: Mapping[str, str]) -> int:
    return min(_node_gpus(said), _int(said["n_gpus"], 1))


def _expert_tp(said: Mapping[str, str], alone: bool) -> int:
    """Ranks of tp that share each expert, where its notes say so: one, where ep needs more ranks
    than data and cp have (``alone`` is false); else as many as tp."""
    found = re.search(r"\bETP (\d+)", said["notes"])
    if found is not None:
        return int(found[1])
    return 0 if alone else 1


def _overlaps_tp(said: Mapping[str, str]) -> bool:
    """NeMo's recipes set tp_comm_overlap, but for those that say otherwise, and Megatron-LM's table
    follows them, as it says; torchtitan's rows say which had asynchronous tp."""
    nemo = _is_nemo(said) and "without tp_comm_overlap" not in said["notes"]
    follows = "Megatron-LM examples/llama" in said["source"]
    return nemo or follows or said["notes"].startswith("async TP")


def _overlaps_data(said: Mapping[str, str], framework: str) -> bool:
    """Megatron-LM of 2021 had all gradients reduced after the last backward pass
    (megatron/training.py, ``train_step``)."""
    late = framework == "megatron" and _is_old(said)
    return not late and "without overlap of communication" not in said["notes"]


_OLD = re.compile(r"bigscience|april2021|SC21|blog pytorch-fsdp", re.IGNORECASE)
"""Sources of before 2023, whose torch was older than 1.13."""


def _is_expandable(said: Mapping[str, str], framework: str) -> bool:
    """Whether segments are expandable: torchtitan's ``run_train.sh`` says so since October 2024,
    axolotl itself since December (axolotl, utils/__init__.py, ``set_pytorch_cuda_alloc_conf``), and
    ROCm does not have them (torch, c10/cuda/CUDACachingAllocator.cpp)."""
    by_script = framework == "torchtitan" and "torchrun" not in said["notes"]
    by_itself = "axolotl" in said["source"] and not _is_dated_before(said, month=12, year=24)
    return (by_script or by_itself) and not said["gpu"].startswith("MI")


def _is_old(said: Mapping[str, str]) -> bool:
    return _OLD.search(said["source"]) is not None


def _is_recent(said: Mapping[str, str], month: int = 1, year: int = 25) -> bool:
    """Whether a source has this month of a year or a later one in its name, or the year alone."""
    date = _date(said)
    return date is not None and date >= (year, month)


def _is_dated_before(said: Mapping[str, str], month: int, year: int) -> bool:
    """Whether a source has an earlier month in its name."""
    date = _date(said)
    return date is not None and date < (year, month)


def _date(said: Mapping[str, str]) -> tuple[int, int] | None:
    """Year and month of a source, the last month where it names the year alone."""
    found = re.search(r"20(2\d)(?:-?([01]\d))?", said["source"])
    return (int(found[1]), int(found[2] or 12)) if found else None


def _is_nemo(said: Mapping[str, str]) -> bool:
    """Whether a run is of NeMo's on Megatron; its AutoModel is transformers' models and FSDP2."""
    return "NVIDIA-NeMo" in said["source"] and "Automodel" not in said["source"]


def _is_unsynced(said: Mapping[str, str], strategy: str) -> bool:
    """Whether accelerate has gradients reduced with the last micro-batch only: with FSDP2 it does
    since its release 1.11 (huggingface/accelerate, pull request 3762)."""
    return strategy != "fsdp2" or _is_recent(said, month=10)


def _makes_two_copies(said: Mapping[str, str]) -> bool:
    """Whether torch was older than 2.1, since which a step makes one temporary of all parameters
    (pytorch/pytorch, pull request 104898). The first Qwen's README names PyTorch 2.0.1."""
    found = re.search(r"torch (\d+)\.(\d+)", f"{said['source']} {said['notes']}")
    if found is not None:
        return (int(found[1]), int(found[2])) < (2, 1)
    return _is_old(said) or "QwenLM/Qwen " in said["source"]


def _bucket(said: Mapping[str, str], strategy: str, framework: str) -> int:
    """Elements of DeepSpeed's bucket, as its notes say: else 2e8 in transformers' configuration for
    ZeRO-2, and a matrix of the model in that for ZeRO-3 (tests/deepspeed), which published
    fine-tuning starts from; elsewhere DeepSpeed's default."""
    noted = re.search(r"\bbuckets? (?:of )?(\d+e\d+)", said["notes"])
    if noted is not None:
        return int(float(noted[1]))
    if framework not in {"deepspeed", "paddle"}:
        return 500_000_000
    return _int(said["hidden"], 0) ** 2 if strategy == "zero3" else 200_000_000


def _offload(words: str) -> Offloaded:
    """What is kept outside: all of it where only the place is said."""
    place = re.search(r"cpu|nvme", words, re.IGNORECASE)
    if not place:
        return Offloaded()
    only = re.search(r"optimizer|optim", words) and not re.search(r"param", words)
    to: Literal["cpu", "nvme"] = "nvme" if place[0].lower() == "nvme" else "cpu"
    return Offloaded(optimizer=True, params=not only, to=to)


_LOCAL_BATCH = re.compile(r"local batch (\d+) split")
"""What a rank has in a step, where each micro-batch is one sample."""
_WITHIN = re.compile(r"attention within samples of (\d+) tokens")
"""Tokens of a sample, where sequences are packed of many."""
_ALPACA = 1304
"""Tokens of Alpaca's longest sample, as litgpt's tables say."""


def _document(said: Mapping[str, str]) -> int:
    within = _WITHIN.search(said["notes"])
    return int(within[1]) if within else 0


def _length(said: Mapping[str, str]) -> int:
    seq = _int(said["seq"], 0)
    packed = re.search("(?<!not )packed", said["notes"]) is not None
    return min(seq, _ALPACA) if "alpaca" in said["notes"] and not packed else seq


def _batch(said: Mapping[str, str], data: int, pp: int) -> tuple[int, int]:
    """Samples of a micro-batch, and how many make a step."""
    local = _LOCAL_BATCH.search(said["notes"])
    if local:
        return 1, int(local[1])
    micro = _int(said["mbs"], 1)
    if pp > 1 and re.search(r"batch per DP", said["notes"]):
        return 1, micro
    gas = _int(said["gas"], 0) or max(1, _int(said["gbs"], micro * data) // (micro * data))
    return micro, gas


_H100_WATTS = 700
_LINKS = {"NVLink3": 300e9, "NVLink4": 450e9, "NVLink5": 900e9}


def _gpu(words: str, memory: float | None) -> GpuModel | None:
    """The GPU of the catalogue that these words name, ``4090`` as well as ``GeForce RTX 4090``: of
    several the one of the form that they name, with the nearest memory."""
    plain = re.sub(r"[_ ]", "-", words.split("(", maxsplit=1)[0]).upper()
    kinds = [(re.split(r"-(?:SXM|PCIE|NVL|\d+GB|TI)", name)[0].upper(), name) for name in gpus()]
    held = [kind for kind, _ in kinds if _name_pattern(kind).search(plain)]
    alike = [gpus()[name] for kind, name in kinds if kind == max(held, key=len, default="")]
    if not alike:
        return None
    form = re.search(r"SXM|PCIE|NVL", plain)
    formed = [gpu for gpu in alike if form and form[0] in gpu.name.upper()] or alike
    return min(formed, key=lambda gpu: abs(gpu.memory_gib - (memory or gpu.memory_gib)))


@cache
def _name_pattern(kind: str) -> re.Pattern[str]:
    """What a GPU's name is where no longer one is meant: an RTX A4000 is no A40."""
    return re.compile(rf"(?<!\d){kind.removeprefix('RTX-').replace('-', '-?')}(?!\d)")


def _gpu_or_usual(said: Mapping[str, str]) -> GpuModel:
    """The GPU of a row, or an A100 where none is known: memory hardly depends on it."""
    memory, words = _number(said["gpu_mem_gb"]), said["gpu"]
    if "PCIe" in said["intra"] and not re.search("SXM|PCIE|NVL", words, re.IGNORECASE):
        words = f"PCIe {words}"
    found = _gpu(words, memory) or _gpu("A100", memory)
    assert found is not None
    return found


def _machine(said: Mapping[str, str]) -> ClusterHardware:
    found = _gpu_or_usual(said)
    peak, bandwidth = found.bf16_tflops * 1e12, found.memory_gbs * 1e9
    watts = re.search(r"(\d+)W", said["gpu"])
    if watts and "HBM2e" in said["gpu"]:
        # torchtitan's own H100: 2.2 of 2.4 TB/s are reached (pytorch/ao, roofline_utils.py), and
        # its clock falls with the cube root of the power, as voltage falls with it
        peak = peak * (int(watts[1]) / _H100_WATTS) ** (1 / 3)
        bandwidth = 2.2e12 / rates.MEMORY["H100-SXM"]
    size = _number(said["gpu_mem_gb"]) or found.memory_gib
    memory = size / found.memory_gib * found.memory_mib * MIB
    link = _link(said["intra"])
    return ClusterHardware(
        gpu=found.name,
        memory=memory,
        peak=peak,
        bandwidth=bandwidth,
        link=link or found.link_gbs / 2 * 1e9,
        network=_network(said["inter"]),
        fabric="infiniband",
        host=get_host_rate(found),
        node_gpus=max(8, _node_gpus(said)),
        architecture=found.architecture,
        multiprocessors=found.multiprocessors,
        fast8=peak * NARROW.get(found.architecture, 0.0),
    )


def _link(words: str) -> float | None:
    """Bytes per second of what joins GPUs, in one direction: as it says, or by its generation."""
    stated = re.search(r"(\d+) GB/s", words)
    if stated:
        return int(stated[1]) / 2 * 1e9
    return next((speed for word, speed in _LINKS.items() if word in words), None)


def _network(words: str) -> float:
    """Bytes per second of one GPU's share, in one direction."""
    words = re.sub(r" ?Gb(?:ps|it/s)", " Gb/s", words.replace("\N{MULTIPLICATION SIGN}", "x"))
    node = re.search(r"(\d+) ?Gb/s per node", words) or re.search(r"^(\d+) Gb/s$", words)
    several = re.search(r"(\d+) ?x ?(\d+) ?Gb/s", words)
    each = re.search(r"(\d+) ?Gb/s (?:per GPU|IB$)", words)
    if several:
        return int(several[1]) * int(several[2]) / 8 / 8 * 1e9
    if each:
        return int(each[1]) / 8 * 1e9
    return int(node[1]) / 8 / 8 * 1e9 if node else 25e9


def _interconnect(said: Mapping[str, str]) -> bool:
    """Whether the GPUs are known and what joins them: inside a node, and beyond it where they need
    it; and that nothing unknown slows them down."""
    if "power limited" in said["notes"] or _gpu(said["gpu"], None) is None:
        return False
    count = _int(said["n_gpus"], 1)
    if count > 8:
        return bool(said["inter"]) and "not stated" not in said["inter"]
    return count == 1 or bool(said["intra"] or said["inter"])


_EACH = re.compile(r"per micro-?batch|each micro-?batch|s/it of a micro-?batch", re.IGNORECASE)


def _seconds(
    said: Mapping[str, str], setup: Setup | None, machine: ClusterHardware
) -> float | None:
    """Seconds of a step of a known batch: as printed, from tokens and their rate, or from MFU.

    Seconds of one micro-batch are recognised by words, or because a whole step in them would need
    more FLOPs than the GPU can do. None where even a micro-batch would: no training was timed.
    """
    batch = said["mbs"] or "local batch" in said["notes"]
    if setup is None or not batch or not (said["gas"] or said["gbs"] or "batch" in said["notes"]):
        return None
    mesh, steps = setup.mesh, setup.batch.accumulation
    rate, mfu = _number(said["tok_s_gpu"]), _number(said["mfu_pct"])
    work = count_flops(setup) * setup.batch.total * setup.seq / mesh.world
    found = _number(said["step_s"])
    if not found and rate:
        found = setup.batch.total * setup.seq / rate / mesh.world
    elif not found and mfu:
        found = work / machine.peak / mfu * 100
    if not found:
        return None
    least = work / max(machine.peak, machine.fast8)
    if _EACH.search(said["notes"]) or found <= least < found * steps:
        found *= steps
    return found if found > least else None

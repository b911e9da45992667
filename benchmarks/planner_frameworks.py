"""What the framework of a published run did at the time, as its code says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner_cells import is_dated_before, is_nemo, is_old, is_recent, is_yes, read_count


def find_loss(said: Mapping[str, str], framework: str) -> str:
    """How logits become the loss. litgpt's takes 128 tokens at once; GPTQ's models compute in fp16,
    under DeepSpeed without autocast; Megatron's works in place; torchtitan compiles its since 2025.
    """
    notes, words = said["notes"], said["notes"] + said["source"]
    if "Hugging Face" in said["locator"]:  # a table that compares its own kernels with theirs
        words = notes
    pure = re.search(r"^(pure bf16|bf16-true)", said["precision"]) and "fp32 logits" not in notes
    titan = framework == "torchtitan"
    compiled = (
        titan and is_yes(said["compile"]) and is_recent(said, month=4)
    )  # pytorch/torchtitan, pull request 1033
    fused = re.search(
        r"(?<!no )fused[- ](linear[- ])?(ce\b|cross)|cut cross|liger|unsloth", words, re.IGNORECASE
    )
    chunked = re.search(r"(?<!not )(?<!no )chunked", notes) is not None
    gptq, autocast = "gptq" in said["trainable"], "DeepSpeed" not in said["strategy"]
    kinds = {
        # its ChunkedLossWrapper puts the output layer into the chunks too (docs/chunked_loss.md)
        "fused": (bool(fused) and "no fused" not in notes) or (titan and chunked),
        "held-chunks": framework == "litgpt" and "all logits at once" not in notes,
        "chunked": chunked,
        # nanotron's has an fp32 copy, and a shifted one that becomes its gradient: as many bytes
        "narrow": (gptq and not autocast) or bool(pure) or framework == "nanotron",
        "in-place": framework in {"megatron", "megatron-deepspeed"} or "entropy in place" in notes,
        "compiled": compiled,
        "held": "keeps the logits" in notes,
    }
    return next((kind for kind, holds in kinds.items() if holds), "plain")


FUSED_NORMS = re.compile(
    r"QwenLM/Qwen |\bliger\b|Transformer Engine|use_fused_rms_norm and", re.IGNORECASE
)
"""Runs whose norms and rotation are one kernel each: the first Qwen's own code takes both from
flash-attn, and Liger and Transformer Engine replace them."""
OWN_KERNELS = "own kernels for dropout with norm, MLP"
"""Runs whose kernels join what a compiler would: flash-attention's training code (flash_attn/ops/
layer_norm.py and fused_dense.py)."""
_LIGER = re.compile(r"\bliger\b", re.IGNORECASE)


def has_liger(said: Mapping[str, str]) -> bool:
    """Whether all kernels of Liger are in the model, so that its gated activation is one kernel too
    (Liger-Kernel, ops/swiglu.py): fms-acceleration takes its cross-entropy alone."""
    words = said["source"] + said["notes"]
    return _LIGER.search(words) is not None and "fms-acceleration" not in words


def copies_grads(said: Mapping[str, str]) -> bool:
    """Whether DDP is torch's with ``gradient_as_bucket_view=False``, its default, which accelerate,
    the Trainer and Fabric leave as it is (lightning/fabric/strategies/ddp.py, ``setup_module``)."""
    return re.search("DeepSpeed-Chat|Megatron-LM", said["notes"]) is None


def keeps_grads(said: Mapping[str, str]) -> bool:
    """Whether DDP's gradients keep their memory between steps: what lies beside the buckets does
    before torch 2.0, since which ``zero_grad`` sets it to None (its release notes)."""
    return not copies_grads(said) or "torch 1." in said["notes"]


def has_engine(said: Mapping[str, str]) -> bool:
    """Whether a program other than Megatron has Transformer Engine's attention, or FlashAttention 3
    or 4, which are as fast (``FUSED_FLASH``)."""
    found = re.search("Transformer Engine with its attention|flash attention [34]", said["notes"])
    return found is not None


def lacks_cudnn(said: Mapping[str, str]) -> bool:
    """Whether Transformer Engine had FlashAttention 2 instead of cuDNN's attention: NeMo's launcher
    turned that off until its release 24.07 (NVIDIA/NeMo-Framework-Launcher, tags 24.03.01 to 24.07,
    launcher_scripts/conf/config.yaml, ``NVTE_FUSED_ATTN: 0``), for GPT-3 of 175B until the day
    before (commit 95c77b59, "Enable cuDNN FlashAtt only for 175B")."""
    old = re.search(r"NeMo 2(?:3\.\d\d|4\.0[1-7])", said["source"]) is not None
    return old and not ("24.07" in said["source"] and "175B" in said["model"])


def loads_all(said: Mapping[str, str]) -> bool:
    """Whether a GPU has the whole model in 16 bits before it is sharded."""
    return "loaded whole on each GPU" in said["notes"]


def has_fused_step(said: Mapping[str, str], framework: str) -> bool:
    """Whether the optimizer's step is one kernel, as its column says, or as its framework does:
    InternEvo steps with torch's own AdamW (train/training_internlm.py), and so did torchtitan until
    February 2025 (pull request 881)."""
    words = said["optimizer"]
    if "fused" in words or "foreach" in words:
        return "fused" in words
    return framework not in {"transformers", "internevo"}


def count_expert_tp(said: Mapping[str, str], alone: bool) -> int:
    """Ranks of tp that share each expert, where its notes say so: one, where ep needs more ranks
    than data and cp have (``alone`` is false); else as many as tp."""
    found = re.search(r"\bETP (\d+)", said["notes"])
    if found is not None:
        return int(found[1])
    return 0 if alone else 1


def overlaps_tp(said: Mapping[str, str]) -> bool:
    """NeMo's recipes set tp_comm_overlap, but for those that say otherwise, and Megatron-LM's table
    follows them, as it says; torchtitan's rows say which had asynchronous tp."""
    nemo = is_nemo(said) and "without tp_comm_overlap" not in said["notes"]
    follows = "Megatron-LM examples/llama" in said["source"]
    return nemo or follows or said["notes"].startswith("async TP")


def overlaps_data(said: Mapping[str, str], framework: str) -> bool:
    """Megatron-LM of 2021 had all gradients reduced after the last backward pass
    (megatron/training.py, ``train_step``)."""
    late = framework == "megatron" and is_old(said)
    return not late and "without overlap of communication" not in said["notes"]


def is_expandable(said: Mapping[str, str], framework: str) -> bool:
    """Whether segments are expandable: torchtitan's ``run_train.sh`` says so since October 2024,
    axolotl itself since December (axolotl, utils/__init__.py, ``set_pytorch_cuda_alloc_conf``), and
    ROCm does not have them (torch, c10/cuda/CUDACachingAllocator.cpp)."""
    by_script = framework == "torchtitan" and "torchrun" not in said["notes"]
    by_itself = "axolotl" in said["source"] and not is_dated_before(said, month=12, year=24)
    return (by_script or by_itself) and not said["gpu"].startswith("MI")


def is_unsynced(said: Mapping[str, str], strategy: str, framework: str) -> bool:
    """Whether gradients are reduced with the last micro-batch only: NeMo AutoModel's and litgpt's
    are (litgpt/finetune/full.py, ``no_backward_sync``), and accelerate's, with FSDP2 since its
    release 1.11 (huggingface/accelerate, pull request 3762)."""
    by_accelerate = framework == "transformers" and (
        strategy != "fsdp2" or is_recent(said, month=10)
    )
    return framework in {"automodel", "litgpt"} or by_accelerate


def count_samples(said: Mapping[str, str], framework: str, data: int) -> int:
    """Samples of a step that litgpt takes where its row has no number: 128 on each GPU in its table
    of 2023 (finetune/lora.py, ``batch_size``), 16 on all since (litgpt/finetune/lora.py,
    ``TrainArgs``). 0 where it is not litgpt."""
    if framework != "litgpt":
        return 0
    return 128 * data if "resource-tables" in said["source"] else 16


def is_longest_first(said: Mapping[str, str], framework: str) -> bool:
    """Whether the longest sample of all is in the first micro-batch, as litgpt puts it there
    (litgpt/finetune/lora.py, ``longest_seq_ix``). Of a subset that is truncated, many are as long;
    and moments, of which full training has many bytes, are there from the second step on."""
    words = said["notes"].lower()
    lora = "lora" in said["trainable"].lower()
    return framework == "litgpt" and lora and "alpaca" in words and "truncates" not in words


def makes_two_copies(said: Mapping[str, str]) -> bool:
    """Whether torch was older than 2.1, since which a step makes one temporary of all parameters
    (pytorch/pytorch, pull request 104898). The first Qwen's README names PyTorch 2.0.1."""
    found = re.search(r"torch (\d+)\.(\d+)", f"{said['source']} {said['notes']}")
    if found is not None:
        return (int(found[1]), int(found[2])) < (2, 1)
    return is_old(said) or "QwenLM/Qwen " in said["source"]


def count_bucket(said: Mapping[str, str], strategy: str, framework: str) -> int:
    """Elements of DeepSpeed's bucket, as its notes say: else 2e8 in transformers' configuration for
    ZeRO-2, and a matrix of the model in that for ZeRO-3 (tests/deepspeed), which published
    fine-tuning starts from; elsewhere DeepSpeed's default."""
    noted = re.search(r"\bbuckets? (?:of )?(\d+e\d+)", said["notes"])
    if noted is not None:
        return int(float(noted[1]))
    if framework not in {"deepspeed", "paddle"}:
        return 500_000_000
    return read_count(said["hidden"], 0) ** 2 if strategy == "zero3" else 200_000_000

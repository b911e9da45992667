"""What Megatron-LM's loss allocates and its gated activation keeps, and how many parts of the model
its stages run ahead: JSON."""

from __future__ import annotations

import json

import torch
from megatron.core import parallel_state
from megatron.core.fusions.fused_bias_swiglu import bias_swiglu_impl
from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches
from megatron.core.tensor_parallel.cross_entropy import VocabParallelCrossEntropy

MANY = 64
CASES = [(4, 1), (4, 2), (8, 3)]
"""Stages, and interleaved parts of each."""


def measure_loss() -> dict[str, object]:
    """Bytes of each logit, and whether the exponential lies where the fp32 copy does."""
    narrow = torch.randn(3, 2, 64, dtype=torch.bfloat16)
    wide, most = VocabParallelCrossEntropy.calculate_logits_max(narrow)
    target = torch.zeros(3, 2, dtype=torch.long)
    found = VocabParallelCrossEntropy.calculate_predicted_logits(wide, target, most, 0, 64)
    held = {each.data_ptr(): each.nbytes for each in (narrow, wide, found[-1])}
    return {"bytes": sum(held.values()) / narrow.numel()}


def measure_activation() -> dict[str, object]:
    """Tensors of the feed-forward's width that SwiGLU keeps: gate and up are one."""
    torch.compiler.set_stance("force_eager")
    both = torch.randn(3, 2, 128, dtype=torch.bfloat16, requires_grad=True)
    held: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        product = bias_swiglu_impl(both, None)
    return {"kept": sum(held.values()) / product.nbytes}


def count_warm(stages: int, chunks: int, rank: int) -> int:
    """Parts that a stage runs forward before its first backward pass."""
    parallel_state.get_pipeline_model_parallel_world_size = lambda: stages
    parallel_state.get_pipeline_model_parallel_rank = lambda: rank
    many = chunks if chunks > 1 else None
    parallel_state.get_virtual_pipeline_model_parallel_world_size = lambda: many
    warm: int = get_pp_rank_microbatches(MANY, chunks, stages)[2]
    return warm


def main() -> None:
    """The loss, the activation, and the first and the last stage of each case."""
    print(json.dumps(measure_loss()))
    print(json.dumps(measure_activation()))
    for stages, chunks in CASES:
        warm = [count_warm(stages, chunks, rank) for rank in (0, stages - 1)]
        print(json.dumps({"stages": stages, "chunks": chunks, "warm": warm}))


if __name__ == "__main__":
    main()

"""What Megatron-LM's loss allocates, and how many parts of the model its stages run ahead: JSON."""

from __future__ import annotations

import json

import torch
from megatron.core import parallel_state
from megatron.core.fusions.fused_bias_swiglu import SwiGLUFunction
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


def measure_glu() -> dict[str, object]:
    """Bytes that a fused SwiGLU keeps of each element of its output."""
    kept: list[int] = []
    gates = torch.randn(3, 2, 64, dtype=torch.bfloat16, requires_grad=True)

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = SwiGLUFunction.apply(gates, None, None)
    return {"kept": sum(kept) / out.numel()}


def count_warm(stages: int, chunks: int, rank: int) -> int:
    """Parts that a stage runs forward before its first backward pass."""
    parallel_state.get_pipeline_model_parallel_world_size = lambda: stages
    parallel_state.get_pipeline_model_parallel_rank = lambda: rank
    many = chunks if chunks > 1 else None
    parallel_state.get_virtual_pipeline_model_parallel_world_size = lambda: many
    warm: int = get_pp_rank_microbatches(MANY, chunks, stages)[2]
    return warm


def main() -> None:
    """The loss, and the first and the last stage of each case."""
    print(json.dumps(measure_loss()))
    print(json.dumps(measure_glu()))
    for stages, chunks in CASES:
        warm = [count_warm(stages, chunks, rank) for rank in (0, stages - 1)]
        print(json.dumps({"stages": stages, "chunks": chunks, "warm": warm}))


if __name__ == "__main__":
    main()

"""Start Megatron's parallel groups and describe a model for them."""

from __future__ import annotations

import argparse

import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.transformer import TransformerConfig

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensor-model-parallel-size", type=int, default=2)
    parser.add_argument("--num-attention-heads", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    size = args.tensor_model_parallel_size
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=size)
    config = TransformerConfig(
        num_layers=2,
        hidden_size=96,
        num_attention_heads=args.num_attention_heads,
        tensor_model_parallel_size=size,
    )
    print(config, flush=True)

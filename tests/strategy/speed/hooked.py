"""What ZeRO-3's hooks ask of Python around one module, beside a layer of a Llama, as JSON:
``hooked.py FEW MANY``, from models of so many modules.

Calls of Python and C functions: they cost time on the host, and no machine makes more or fewer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from dispatched import build_llama
from torch import Tensor, nn

WIDTH = 8
_HERE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


def count(run: Callable[[], object]) -> int:
    """The calls of a run, after those that only record what comes in which order."""
    for _ in range(3):
        run()
    calls = 0

    def trace(_frame: Any, event: str, _value: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def build_sharded(modules: int) -> Callable[[], Tensor]:
    """The loss of so many modules, each gathered before it and released after it."""
    import deepspeed

    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(modules)))
    engine, *_ = deepspeed.initialize(
        model=model.to(torch.bfloat16),
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 100,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
            "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
            "zero_force_ds_cpu_optimizer": False,
        },
    )
    words = torch.randn(4, WIDTH, dtype=torch.bfloat16)
    return lambda: engine(words).float().sum()


def compare(build: Callable[[int], Callable[[], object]], few: int, many: int) -> float:
    """Calls for one of what is built, from two numbers of it."""
    return (count(build(many)) - count(build(few))) / (many - few)


if __name__ == "__main__":
    os.environ.update(_HERE | _ALONE)
    few, many = map(int, sys.argv[1:])
    modules = compare(build_sharded, few, many)
    print(json.dumps({"module": modules, "layer": compare(build_llama, 1, 2)}))
    torch.distributed.destroy_process_group()

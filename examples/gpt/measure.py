"""What a rank has seen and what it holds, measured in the process and said in one line at the end.

Bytes are those of storages: what the allocator was asked for, so with the padding that a library
adds to make shards even. A storage that several tensors share is counted once. Of gradients,
``grad_shard_bytes`` says besides what this rank keeps of them: DeepSpeed's shards below stage 3 may
begin or end inside a parameter, whose gradient then stays whole until the step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from gpt import Block
from run import Progress, World
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class Report:
    """Losses, norms and bytes of this rank. The line is ``report {...}``."""

    def __init__(self, world: World, strategy: str, model: nn.Module, at: Progress) -> None:
        self.world, self.model = world, model
        self.said: dict[str, Any] = {
            "rank": world.rank,
            "world": world.size,
            "strategy": strategy,
            "resumed_from": at.step,
            "steps": at.step,
            "losses": [],
            "norms": [],
            "block_runs": 0,
            "param_bytes": 0,
            "grad_bytes": 0,
            "grad_shard_bytes": 0,
            "optim_bytes": 0,
            "counter_bytes": 0,
        }
        for block in (m for m in model.modules() if isinstance(m, Block)):
            block.register_forward_pre_hook(self._ran)

    def _ran(self, *_: object) -> None:
        self.said["block_runs"] += 1

    def gradients(self, more: Iterable[Tensor | None] = ()) -> None:
        """Measure what there is of gradients, between the last backward and the optimizer."""
        found = [g for g in (*(p.grad for p in self.model.parameters()), *more) if g is not None]
        self.said["grad_bytes"] = max(self.said["grad_bytes"], held(found))
        shards = sum(local(g).numel() * g.element_size() for g in found)
        self.said["grad_shard_bytes"] = max(self.said["grad_shard_bytes"], shards)

    def step(self, loss: float, norm: float | None = None) -> None:
        """Say the loss, of all ranks together, before this step changed the weights."""
        self.said["steps"] += 1
        self.said["losses"].append(loss)
        if norm is not None:
            self.said["norms"].append(norm)
        self.world.say(f"step {self.said['steps']} loss {loss:.6f}")

    def end(self, optimizer: torch.optim.Optimizer, masters: Iterable[Tensor] = ()) -> None:
        """Measure what stays from step to step, and say everything."""
        weights = list(parameters(self.model))
        states = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
        own = [s for s in states if s.dim()]
        self.said["param_bytes"] = held(weights)
        self.said["optim_bytes"] = held([*weights, *masters, *own]) - held(weights)
        # AdamW counts its steps in a tensor for each parameter
        self.said["counter_bytes"] = held(s for s in states if not s.dim())
        print("report " + json.dumps(self.said), flush=True)


def parameters(model: nn.Module) -> Iterator[Tensor]:
    """Every tensor that holds a part of the parameters on this rank."""
    for module in model.modules():
        handle = getattr(module, "_handle", None)  # FSDP1: the flat parameter of a unit
        if handle is not None:
            yield handle.flat_param
    for parameter in model.parameters():
        yield parameter
        shard = getattr(parameter, "ds_tensor", None)  # ZeRO-3: the shard of a freed parameter
        if shard is not None:
            yield shard


def zero_gradients(engine: Any) -> list[Tensor | None]:
    """The shards of the gradients that a DeepSpeed engine holds beside the parameters, if any."""
    optimizer = getattr(engine, "optimizer", None)
    averaged = getattr(optimizer, "averaged_gradients", None) or {}
    found = [g for group in averaged.values() for g in group or ()]
    # offloaded, they are on the CPU already, beside what they will change
    return found or [m.grad for m in zero_masters(engine)]


def zero_masters(engine: Any) -> list[Tensor]:
    """What DeepSpeed's optimizer updates: the shards of its fp32 copy of the parameters."""
    optimizer = getattr(engine, "optimizer", None)
    third = getattr(optimizer, "fp32_partitioned_groups_flat", None)
    return list(third or getattr(optimizer, "single_partition_of_fp32_groups", ()))


def held(tensors: Iterable[Tensor]) -> int:
    """The bytes of the storages of this rank's part of these tensors."""
    storages = (local(tensor).untyped_storage() for tensor in tensors)
    found = {storage.data_ptr(): storage.nbytes() for storage in storages}
    found.pop(0, None)  # empty
    return sum(found.values())


def local(tensor: Tensor) -> Tensor:
    """What this rank has of it."""
    return tensor.detach().to_local() if isinstance(tensor, DTensor) else tensor

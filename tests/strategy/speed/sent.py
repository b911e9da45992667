"""The bytes of all collectives of a step, a line of JSON for each case: ``sent.py RANKS``."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch._dynamo  # optimizers import it: here, once for all ranks
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from tests.extensions import ENGINE_IMPORT
from tests.strategy.forked import run_ranks

HIDDEN, INNER, WORDS, BLOCKS, ACCUMULATION = 16, 32, 64, 4, 2
KINDS = {"allreduce": "all-reduce", "allgather": "all-gather", "reduce_scatter": "reduce-scatter"}


class Block(nn.Module):
    """A layer that is sharded by itself; every size is a multiple of the ranks: no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        out: Tensor = x + self.down(torch.relu(self.up(x)))
        return out


class Net(nn.Module):
    """Some of them, and a root unit around."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the words."""
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(x)
        return out


def size(value: Any) -> int:
    """Bytes of all tensors in it."""
    if torch.is_tensor(value):
        return value.numel() * value.element_size()
    return sum(map(size, value)) if isinstance(value, list | tuple) else 0


class Sent(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums up the payloads of all collectives: the larger of what goes in and what comes out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: dict[str, int] = defaultdict(int)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Called for every operation."""
        name = str(func)
        for word, kind in KINDS.items():
            if name.startswith("c10d") and word in name:
                self.bytes[kind] += max(size(arg) for arg in args)
        return func(*args, **(kwargs or {}))


def told(case: str, build: Callable[[nn.Module], Any]) -> None:
    """Run one step of two micro-batches and print what was sent."""
    torch.manual_seed(0)
    module = build(Net())
    with Sent() as sent:
        for index in range(ACCUMULATION):
            waits = case == "ddp" and index + 1 < ACCUMULATION
            with module.no_sync() if waits else nullcontext():
                module(torch.randint(WORDS, (2, 8))).sum().backward()
    if dist.get_rank() == 0:
        print(json.dumps({"case": case, "bytes": sent.bytes}), flush=True)


def tell_zero(stage: int) -> None:
    """The same of DeepSpeed's ZeRO in bf16, whose step gathers the parameters."""
    import deepspeed

    torch.manual_seed(0)
    net = Net()
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": ACCUMULATION,
        "zero_optimization": {"stage": stage},
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(net.parameters())
    engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=config)
    with Sent() as sent:
        for _ in range(ACCUMULATION):
            engine.backward(engine(torch.randint(WORDS, (2, 8))).float().sum())
            engine.step()
    if dist.get_rank() == 0:
        print(json.dumps({"case": f"zero{stage}", "bytes": sent.bytes}), flush=True)


def flat(strategy: ShardingStrategy, mesh: DeviceMesh) -> Callable[[nn.Module], Any]:
    """FSDP1, each block a unit."""
    wrap, cpu = ModuleWrapPolicy({Block}), torch.device("cpu")
    return lambda module: FullyShardedDataParallel(
        module, sharding_strategy=strategy, auto_wrap_policy=wrap, device_id=cpu, device_mesh=mesh
    )


def rows(reshard: bool | int, mesh: DeviceMesh) -> Callable[[nn.Module], Any]:
    """FSDP2, each block a unit."""

    def build(module: nn.Module) -> Any:
        for block in module.blocks:  # type: ignore[union-attr]
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        return fully_shard(module, mesh=mesh, reshard_after_forward=reshard)

    return build


def main() -> None:
    """All cases, one after the other."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    two = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
    told("ddp", DistributedDataParallel)
    told("fsdp", flat(ShardingStrategy.FULL_SHARD, mesh))
    told("fsdp-grad-op", flat(ShardingStrategy.SHARD_GRAD_OP, mesh))
    told("fsdp-hybrid", flat(ShardingStrategy.HYBRID_SHARD, two))
    told("fsdp2", rows(True, mesh))  # noqa: FBT003
    told("fsdp2 kept", rows(False, mesh))  # noqa: FBT003
    told("fsdp2 by 2", rows(2, mesh))
    tell_zero(1)
    tell_zero(2)
    dist.barrier()


if __name__ == "__main__":
    importlib.import_module(ENGINE_IMPORT)
    sys.exit(run_ranks(int(sys.argv[1]), main))

"""What the libraries really hold, a line of JSON for each case: ``measure.py RANKS LIBRARY``."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch._dynamo  # optimizers import it: here, once for all ranks
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

from tests.extensions import ENGINE_IMPORT
from tests.strategy.forked import run_ranks

HIDDEN, INNER, WORDS = 13, 37, 51  # no size divides another, so that every kind of padding is seen


class Block(nn.Module):
    """A layer that is sharded by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class Net(nn.Module):
    """Two of them, and a root unit around."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the words."""
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x))
        return out


def local(tensor: Tensor) -> Tensor:
    """This rank's part of it."""
    return getattr(tensor, "_local_tensor", tensor)


def stored(tensors: Iterable[Tensor]) -> int:
    """Bytes of the memory behind them, each piece of it once: padding counts."""
    memory = (local(t).untyped_storage() for t in tensors)
    return sum({m.data_ptr(): m.nbytes() for m in memory if m.nbytes()}.values())


def filled(tensors: Iterable[Tensor]) -> int:
    """Bytes of their elements."""
    return sum(local(t).numel() * local(t).element_size() for t in tensors)


def optimizer_of(module: nn.Module) -> torch.optim.Optimizer:
    """AdamW over all of it."""
    return torch.optim.AdamW(module.parameters(), lr=1e-3)


def kept(optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Its moments and its step counters."""
    found = [v for each in optimizer.state.values() for v in each.values() if torch.is_tensor(v)]
    return {
        "moments": filled(t for t in found if local(t).dim()),
        "steps": filled(t for t in found if not local(t).dim()),
    }


def by_torch(module: nn.Module) -> dict[str, int]:
    """Two steps of training, and what is held after the second one's backward pass."""
    optimizer = optimizer_of(module)
    for _ in range(2):
        optimizer.zero_grad()
        module(WORD).square().mean().backward()
        grads = stored(p.grad for p in module.parameters() if p.grad is not None)
        optimizer.step()
    return {"params": stored(module.parameters()), "grads": grads, "master": 0, **kept(optimizer)}


def fsdp1(name: str) -> nn.Module:
    """The network under one of FSDP1's strategies."""
    strategy = getattr(ShardingStrategy, name)
    ranks = dist.get_world_size()
    mesh = (2, ranks // 2) if name == "HYBRID_SHARD" else (ranks,)
    return FullyShardedDataParallel(
        Net(),
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        use_orig_params=True,
        device_id=torch.device("cpu"),
        device_mesh=init_device_mesh("cpu", mesh, mesh_dim_names=("copy", "shard")[-len(mesh) :]),
    )


def fsdp2(*mesh: int, reshard: bool | int = True) -> nn.Module:
    """The network under FSDP2."""
    net = Net()
    devices = init_device_mesh("cpu", mesh, mesh_dim_names=("copy", "shard")[-len(mesh) :])
    for block in net.blocks:
        fully_shard(block, mesh=devices, reshard_after_forward=reshard)
    fully_shard(net, mesh=devices, reshard_after_forward=reshard)
    return net


def by_deepspeed(stage: int, precision: str) -> dict[str, int]:
    """The same under ZeRO."""
    import deepspeed

    net = Net()
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": stage},
    }
    if precision != "fp32":
        config[precision] = {"enabled": True}
    engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer_of(net), config=config)
    zero = engine.optimizer
    for _ in range(2):
        engine.backward(engine(WORD).float().square().mean())
        grads = filled(g for group in zero.averaged_gradients.values() for g in group or ())
        engine.step()
    third = stage == 3
    return {
        "params": stored(p.ds_tensor for p in net.parameters())
        if third
        else stored(net.parameters()),
        "grads": grads,
        "master": filled(
            zero.fp32_partitioned_groups_flat if third else zero.single_partition_of_fp32_groups
        ),
        **kept(zero.optimizer),
    }


WORD = torch.arange(24).reshape(2, 12) % WORDS
TORCH: dict[str, Callable[[], nn.Module]] = {
    "ddp": lambda: DistributedDataParallel(Net(), gradient_as_bucket_view=True),
    "fsdp": lambda: fsdp1("FULL_SHARD"),
    "fsdp-grad-op": lambda: fsdp1("SHARD_GRAD_OP"),
    "fsdp-no-shard": lambda: fsdp1("NO_SHARD"),
    "fsdp-hybrid": lambda: fsdp1("HYBRID_SHARD"),
    "fsdp2": lambda: fsdp2(dist.get_world_size()),
    "fsdp2 kept": lambda: fsdp2(dist.get_world_size(), reshard=False),
    "fsdp2 by 2": lambda: fsdp2(dist.get_world_size(), reshard=2),
    "fsdp2 shard 2": lambda: fsdp2(2, dist.get_world_size() // 2),
}
DEEPSPEED = (("zero1", "bf16"), ("zero2", "bf16"), ("zero2", "fp32"), ("zero3", "bf16"))


def main(library: str) -> None:
    """All cases of a library."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    if library == "torch":
        for case, make in TORCH.items():
            tell(case, by_torch(make()))
    else:
        for strategy, precision in DEEPSPEED:
            tell(f"{strategy} {precision}", by_deepspeed(int(strategy[-1]), precision))
    dist.barrier()


def tell(case: str, held: dict[str, int]) -> None:
    """A line of JSON, by rank 0, of what every rank holds."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, held)
    if dist.get_rank() == 0:
        print(json.dumps({"case": case, "held": everyone}), flush=True)


if __name__ == "__main__":
    _, ranks, named = sys.argv
    importlib.import_module(named if named == "torch" else ENGINE_IMPORT)
    sys.exit(run_ranks(int(ranks), partial(main, named)))

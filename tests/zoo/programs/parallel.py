"""Train a small transformer with FSDP2 and tensor parallelism over a device mesh."""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, parts: int) -> None:
        super().__init__()
        self.dim, self.heads, self.parts = dim, heads, parts
        self.qkv = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.qkv(x).view(batch, length, self.heads // self.parts, self.dim // self.heads)
        q = q.transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(q, q, q)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, parts: int) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, parts)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.down(torch.relu(self.up(x)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fsdp1", choices=("auto", "cpu"), help="FSDP1 on this device")
    return parser.parse_args()


PLAN = {
    "attention.qkv": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}


def main() -> None:
    args = parse()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (world // args.tp, args.tp), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(
        *(Block(args.dim, args.heads, args.tp) for _ in range(args.layers))
    )
    if args.fsdp1:
        from torch.distributed.fsdp import FullyShardedDataParallel

        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        device = torch.device("cpu") if args.fsdp1 == "cpu" else None
        model = FullyShardedDataParallel(model, device_id=device)
        state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        print(f"optimizer state: {len(state)}", flush=True)
    else:
        for block in model:
            parallelize_module(block, mesh["tp"], PLAN)
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        loss = model(torch.randn(4, 8, args.dim)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

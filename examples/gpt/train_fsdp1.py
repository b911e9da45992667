"""FSDP1 (FullyShardedDataParallel): parameters, gradients and optimizer state are shared out.

Each block is a unit: its parameters lie in one flat tensor, of which every rank holds a part. The
unit is gathered before it is used and freed behind it. Four strategies, and what is sharded
between two steps and inside one:

=============  ==========================  ===============================================
FULL_SHARD     parameters, gradients,      freed after forward, gathered again in backward
               optimizer state
SHARD_GRAD_OP  the same                    kept from forward to the end of backward
HYBRID_SHARD   the same, inside a group    as FULL_SHARD; the groups are copies
NO_SHARD       nothing                     nothing is gathered: DDP, in FSDP's words
=============  ==========================  ===============================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from gpt import GPT, Block, Order, Windows, loss_of, micro_batches, recompute
from measure import Report
from run import Batches, Checkpoints, Plan, Progress, World, arguments, join, sizes, training
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

KNOWN = ("fsdp", "fsdp-grad-op", "fsdp-no-shard", "fsdp-hybrid")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    plan = Plan.read(KNOWN, args, world.size)
    torch.manual_seed(args.seed + world.rank)  # for dropout: each rank drops something else
    model = divided(GPT(sizes(args, plan.seq_len), args.seed), plan, world)
    recompute(model, plan.activation_checkpointing)  # each block inside its unit
    # after the wrapping: the optimizer is to hold the shards, not what was there before
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    # an overflow that one rank sees in its shard must skip the step on all
    scaler = ShardedGradScaler(world.device.type, enabled=plan.precision == "fp16")
    sharded = Sharded(model, optimizer, scaler)
    checkpoints = Checkpoints(world, sharded.save, sharded.load, args.fail)
    at = checkpoints.load()
    order = Order(Windows(plan.seq_len, args.windows), world.size, world.rank, args.seed)

    def epoch(at: Progress) -> Iterator[Batches]:
        order.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return micro_batches(order, plan.micro_batch, plan.gradient_accumulation)

    report = Report(world, plan.strategy, model, at)
    for batches in training(at, args, checkpoints, epoch, plan.samples):
        loss = backward(model, batches, scaler, world.device)
        scaler.unscale_(optimizer)  # before the norm is taken
        report.gradients()
        # FSDP's own: no rank has all of a gradient, so torch's function would clip by a part
        norm = model.clip_grad_norm_(plan.gradient_clipping or inf)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        report.step(world.mean(loss), norm.item())
    report.end(optimizer)
    dist.destroy_process_group()


def divided(model: nn.Module, plan: Plan, world: World) -> FullyShardedDataParallel:
    """The model, its blocks shared out over the ranks; what is in no block is the root's unit."""
    strategy = ShardingStrategy[plan.own.get("sharding_strategy", "FULL_SHARD")]
    shape, names = (world.size,), ("dp_shard",)
    if strategy is ShardingStrategy.HYBRID_SHARD:  # copies, each shared by the ranks of a node
        shape, names = (plan.mesh["dp_replicate"], plan.mesh["dp_shard"]), ("dp_replicate", *names)
    dtype = DTYPES.get(plan.precision)
    return FullyShardedDataParallel(
        model,
        # says for each module whether it is a unit: a function that FSDP calls, so with the
        # layer's class bound and the rest left open
        auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
        sharding_strategy=strategy,
        device_mesh=init_device_mesh(world.device.type, shape, mesh_dim_names=names),
        # shards stay fp32, and so does the optimizer; what is gathered and computed is 16 bits
        mixed_precision=MixedPrecision(param_dtype=dtype, reduce_dtype=dtype) if dtype else None,
        # pins the memory, for which there must be a GPU; without one all is in the CPU's anyway
        cpu_offload=CPUOffload(plan.offload == "cpu" and world.device.type == "cuda"),
        device_id=world.device,
        use_orig_params=True,  # the optimizer sees the parameters by their names
    )


def backward(
    model: FullyShardedDataParallel,
    batches: Batches,
    scaler: ShardedGradScaler,
    device: torch.device,
) -> Tensor:
    """Add up the gradients of all micro-batches; the mean loss of this rank's samples."""
    total = torch.zeros((), device=device)
    for number, (x, y) in enumerate(batches, start=1):
        # saves the network and costs memory: until the last micro-batch whole gradients are kept
        last = number == len(batches)
        with nullcontext() if last else model.no_sync():
            # the sum of the micro-batches' gradients is to be their mean
            loss = loss_of(model(x.to(device)), y.to(device)) / len(batches)
            scaler.scale(loss).backward()
        total += loss.detach()
    return total


class Sharded(NamedTuple):
    """A checkpoint that every rank writes its shards of, and any number of ranks can read."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: ShardedGradScaler

    def save(self, folder: Path, _: Progress) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "scaler": self.scaler.state_dict()}
        dcp.save(state, checkpoint_id=folder / "shards")

    def load(self, folder: Path, _: Progress) -> None:
        # torch.distributed.checkpoint reads into what is there, as it is divided now
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "scaler": self.scaler.state_dict()}
        dcp.load(state, checkpoint_id=folder / "shards")
        set_state_dict(
            self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer
        )
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


if __name__ == "__main__":
    main()

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

import torch
from gpt import GPT, Block, Order, Windows, loss_of, micro_batches, recompute
from measure import Report
from run import Batches, Checkpoints, Plan, Progress, World, arguments, join, leave, sizes, training
from state import Sharded
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

KNOWN = ("fsdp", "fsdp-grad-op", "fsdp-no-shard", "fsdp-hybrid")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    plan = Plan.read(KNOWN, args, world.size)
    torch.manual_seed(args.seed + world.rank)  # for dropout: each rank drops something else
    model = divided(GPT(sizes(args, plan.seq_len), args.seed), plan, world)
    recompute(model, plan.activation_checkpointing)  # each block inside its unit
    # after the wrapping: the optimizer is to hold the shards, not what was there before
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=plan.fused_optimizer)
    # an overflow that one rank sees in its shard must skip the step on all
    scaler = ShardedGradScaler(world.device.type, enabled=plan.precision == "fp16")
    parts = Sharded(model, optimizer, plan.full_state_dict, scaler)
    checkpoints = Checkpoints(world, parts.save, parts.load, args.fail)
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
    leave()


def divided(model: nn.Module, plan: Plan, world: World) -> FullyShardedDataParallel:
    """The model, its blocks shared out over the ranks; what is in no block is the root's unit."""
    strategy = ShardingStrategy[plan.own.get("sharding_strategy", "FULL_SHARD")]
    shape, names = (world.size,), ("dp_shard",)
    if strategy is ShardingStrategy.HYBRID_SHARD:  # copies, each shared by the ranks of a node
        shape, names = (plan.mesh["dp_replicate"], plan.mesh["dp_shard"]), ("dp_replicate", *names)
    # shards stay fp32, and so does the optimizer; what is gathered and computed is 16 bits
    precision = MixedPrecision(
        DTYPES.get(plan.precision),
        DTYPES.get(plan.reduce_dtype or plan.precision),
        DTYPES.get(plan.buffer_dtype or ""),
    )
    # says for each module whether it is a unit: a function that FSDP calls, so with the layer's
    # class bound and the rest left open
    units = partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    if plan.wrap_min_params:
        units = partial(size_based_auto_wrap_policy, min_num_params=plan.wrap_min_params)
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=units,
        sharding_strategy=strategy,
        device_mesh=init_device_mesh(world.device.type, shape, mesh_dim_names=names),
        mixed_precision=precision,
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


if __name__ == "__main__":
    main()

"""Distributed data parallel: every rank holds the whole model and sees its part of every batch.

The gradients are averaged over the ranks while ``backward`` runs, bucket after bucket, so that the
network works while the GPU still computes. ``optimizer.step()`` then does the same on every rank.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from math import inf
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from gpt import GPT, Order, Windows, loss_of, micro_batches, recompute
from measure import Report
from run import Batches, Checkpoints, Plan, Progress, World, arguments, join, sizes, training
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

HOOKS = {"bf16": default_hooks.bf16_compress_hook, "fp16": default_hooks.fp16_compress_hook}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    # DDP is freed when train returns. Were it freed after the process group, it would end gloo's
    # threads itself and hold Python's lock, which a thread that frees a tensor waits for: a hang
    train(args, world)
    dist.destroy_process_group()


def train(args: Namespace, world: World) -> None:
    """All epochs, from where the last start of this job left off."""
    plan = Plan.read(("ddp",), args, world.size)
    torch.manual_seed(args.seed + world.rank)  # for dropout: each rank drops something else
    model = GPT(sizes(args, plan.seq_len), args.seed).to(world.device)
    recompute(model, plan.activation_checkpointing)
    parallel = divided(model, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=plan.fused_optimizer)
    # only fp16 needs one, whose small gradients would be zero; bf16 has the range of fp32
    scaler = GradScaler(world.device.type, enabled=plan.precision == "fp16")
    whole = Whole(model, optimizer, scaler, world)
    checkpoints = Checkpoints(world, whole.save, whole.load, args.fail)
    at = checkpoints.load()
    order = Order(Windows(plan.seq_len, args.windows), world.size, world.rank, args.seed)

    def epoch(at: Progress) -> Iterator[Batches]:
        order.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return micro_batches(order, plan.micro_batch, plan.gradient_accumulation)

    report = Report(world, plan.strategy, model, at)
    learning = plan.own.get("static_graph", False)
    steps = training(at, args, checkpoints, epoch, plan.samples, lambda: exposed(parallel))
    for batches in steps:
        loss = backward(parallel, batches, plan, scaler, always=learning)
        learning = False
        scaler.unscale_(optimizer)  # before the norm is taken
        report.gradients()
        norm = clip_grad_norm_(model.parameters(), plan.gradient_clipping or inf)
        scaler.step(optimizer)  # skipped where fp16 has overflowed
        scaler.update()
        optimizer.zero_grad()
        report.step(world.mean(loss), norm.item())
    report.end(optimizer)


def divided(model: nn.Module, plan: Plan) -> DistributedDataParallel:
    """The model with its gradients averaged over all ranks."""
    parallel = DistributedDataParallel(
        model,
        bucket_cap_mb=plan.own.get("bucket_cap_mb", 25),
        # gradients live in the buckets: without it they are held twice
        gradient_as_bucket_view=plan.own.get("gradient_as_bucket_view", True),
        # looks through the graph of every step for parameters that get no gradient
        find_unused_parameters=plan.own.get("find_unused_parameters", False),
        # rank 0's buffers, such as a batch norm's mean, for all before every forward pass
        broadcast_buffers=plan.own.get("broadcast_buffers", True),
        # the same parameters in every step: allows more with activation checkpointing
        static_graph=plan.own.get("static_graph", False),
    )
    parallel._set_ddp_runtime_logging_sample_rate(1)  # for what a step waits for
    hook = plan.own.get("hook", "none")
    # gradients travel in 16 bits, and are fp32 before and after. They need NCCL: gloo has no bf16,
    # and stood still with fp16 now and then
    if hook != "none" and torch.cuda.is_available():
        parallel.register_comm_hook(None, HOOKS[hook])
    return parallel


def exposed(parallel: DistributedDataParallel) -> float | None:
    """Seconds of a step in which gradients travel and nothing is computed beside it, as DDP's own
    log of its runtime has it; None where this torch keeps none."""
    said = parallel._get_ddp_logging_data()
    sent = said.get("avg_backward_comm_time")
    beside = said.get("avg_backward_compute_comm_overlap_time")
    return max(sent - beside, 0) / 1e9 if sent and beside is not None else None


def backward(
    parallel: DistributedDataParallel,
    batches: Batches,
    plan: Plan,
    scaler: GradScaler,
    *,
    always: bool,
) -> Tensor:
    """Add up the gradients of all micro-batches; the mean loss of this rank's samples.

    ``always``: reduce them behind every micro-batch. It is the same sum, with more traffic. DDP
    learns a static graph from its first backward, and fails an assertion where that is silent.
    """
    device = next(parallel.parameters()).device
    dtype = DTYPES.get(plan.precision, torch.float32)
    total = torch.zeros((), device=device)
    for number, (x, y) in enumerate(batches, start=1):
        # the network is needed once a step, for the last micro-batch, which carries the sum
        last = number == len(batches)
        with nullcontext() if last or always else parallel.no_sync():
            with torch.autocast(device.type, dtype, enabled=plan.precision != "fp32"):
                scores = parallel(x.to(device))
            # the sum of the micro-batches' gradients is to be their mean
            loss = loss_of(scores, y.to(device)) / len(batches)
            scaler.scale(loss).backward()  # here the gradients are averaged, not in step()
        total += loss.detach()
    return total


class Whole(NamedTuple):
    """A checkpoint in one file: all ranks hold the same, so rank 0 writes it for all."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: GradScaler
    world: World

    def save(self, folder: Path, _: Progress) -> None:
        if self.world.rank == 0:
            parts = {k: v.state_dict() for k, v in self._asdict().items() if k != "world"}
            torch.save(parts, folder / "training.pt")

    def load(self, folder: Path, _: Progress) -> None:
        found = torch.load(folder / "training.pt", map_location="cpu", weights_only=True)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        if found["scaler"]:
            self.scaler.load_state_dict(found["scaler"])


if __name__ == "__main__":
    main()

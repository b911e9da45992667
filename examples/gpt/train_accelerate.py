"""Hugging Face accelerate: one program for DDP, FSDP, FSDP2 and DeepSpeed.

Which of them it is stands in the file that ``accelerate launch --config_file`` reads: ``prepare``
divides the model as it says. The program keeps to what accelerate has for all of them: its own
``accumulate``, ``backward``, ``clip_grad_norm_``, ``save_state`` and ``load_state``.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import torch
from accelerate import (
    Accelerator,
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
    PartialState,
)
from accelerate.utils import DistributedType, GradientAccumulationPlugin
from gpt import GPT, Order, Windows, loss_of, recompute
from measure import Report, zero_gradients, zero_masters
from run import (
    Batches,
    Checkpoints,
    Plan,
    Progress,
    World,
    arguments,
    decided,
    join,
    leave,
    sizes,
    training,
)
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.utils.data import DataLoader

KNOWN = ("ddp", "fsdp", "fsdp-grad-op", "fsdp-no-shard", "fsdp-hybrid", "fsdp2")
ZERO = ("zero1", "zero2", "zero3")


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()  # torch's process group, which accelerate finds and uses
    # DDP is freed when train returns. Were it freed after the process group, it would end gloo's
    # threads itself and hold Python's lock, which a thread that frees a tensor waits for: a hang
    train(args, world)
    leave()


def train(args: Namespace, world: World) -> None:
    """All epochs, from where the last start of this job left off."""
    plan = Plan.read((*KNOWN, *ZERO), args, world.size)
    accelerator = accelerated(plan)
    torch.manual_seed(args.seed + world.rank)  # for dropout: each rank drops something else
    model = GPT(sizes(args, plan.seq_len), args.seed)
    if accelerator.distributed_type is not DistributedType.FSDP:  # its file says it, to accelerate
        recompute(model, plan.activation_checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=plan.fused_optimizer)
    # the order of all samples: accelerate deals out the batches, one to each rank in turn
    order = Order(Windows(plan.seq_len, args.windows), 1, 0, args.seed)
    own = torch.Generator()  # a loader draws a number whenever it begins, see gpt.py
    loader = DataLoader(
        order.dataset, plan.micro_batch, sampler=order, drop_last=True, generator=own
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    def load(folder: Path, _: Progress) -> None:
        if accelerator.distributed_type is DistributedType.FSDP:
            # accelerate 1.15 reads into what state the optimizer has. Under FSDP1 a new one has
            # none, and goes on without its moments and without a word: this gives it some
            get_optimizer_state_dict(model, optimizer.optimizer)
        accelerator.load_state(str(folder / "state"))

    checkpoints = Checkpoints(
        world,
        # in the way of each strategy: whole by rank 0, or every rank its shards
        save=lambda folder, _: accelerator.save_state(str(folder / "state")),
        load=load,
        fail=args.fail,
    )
    at = checkpoints.load()

    def epoch(at: Progress) -> Iterator[Batches]:
        loader.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return zip(*[iter(loader)] * plan.gradient_accumulation, strict=False)

    report = Report(world, plan.strategy, model, at)
    engine = accelerator.deepspeed_engine_wrapped.engine if plan.strategy in ZERO else None
    inner = engine.optimizer.optimizer if engine else optimizer.optimizer
    inner.register_step_pre_hook(lambda *_: report.gradients(zero_gradients(engine)))
    for batches in training(at, args, checkpoints, epoch, plan.samples):
        loss, norm = step(accelerator, model, optimizer, batches, plan)
        report.step(world.mean(loss), norm)
    report.end(inner, zero_masters(engine))


def accelerated(plan: Plan) -> Accelerator:
    """What ``accelerate launch`` has put into the environment, and what has no place there."""
    if not torch.cuda.is_available():
        if plan.strategy in ZERO:
            from train_deepspeed import operators

            operators("ShareMemCommBuilder")  # before accelerate has DeepSpeed load it
        # joins ranks on CPUs, where accelerate would leave each alone; and says that they are
        # several devices, without which it has no FSDP
        state = PartialState(cpu=True)
        if plan.strategy.startswith("fsdp"):
            state.distributed_type = DistributedType.MULTI_GPU
    handlers: list[Any] = []
    if plan.strategy == "ddp":
        kept = {k: v for k, v in plan.own.items() if k != "hook"}
        handlers = [DistributedDataParallelKwargs(**kept)]
    if longest := decided().get("timeout_seconds"):
        handlers.append(InitProcessGroupKwargs(timeout=timedelta(seconds=longest)))
    return Accelerator(
        kwargs_handlers=handlers,
        # left to itself it would end an accumulation early at the end of the loader
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=plan.gradient_accumulation, sync_with_dataloader=False
        ),
    )


def step(
    accelerator: Accelerator,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    plan: Plan,
) -> tuple[Tensor, float | None]:
    """One step of the optimizer: the mean loss of this rank's samples, the gradient's norm."""
    total, norm = torch.zeros((), device=accelerator.device), None
    for x, y in batches:  # the loader has put them on the device
        with accelerator.accumulate(model):  # silent but for the last
            loss = loss_of(model(x), y)
            accelerator.backward(loss)  # divides the loss by the accumulation itself
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(
                    model.parameters(), plan.gradient_clipping or inf
                )
            # both do something behind the last micro-batch only
            optimizer.step()
            optimizer.zero_grad()
        total += loss.detach() / len(batches)
    return total, float(norm) if norm is not None else None


if __name__ == "__main__":
    main()

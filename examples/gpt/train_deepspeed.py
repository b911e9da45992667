"""DeepSpeed's ZeRO: what data-parallel ranks hold alike is shared out instead, in three stages.

Stage 1 shares out the optimizer's state (and its fp32 copy of the parameters), stage 2 the
gradients too, stage 3 the parameters too. Which stage it is, the batch, precision, clipping and
offload stand in ``ds_config.json`` alone: the engine does what it says, and the program asks it.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from deepspeed import DeepSpeedEngine
from deepspeed.accelerator import get_accelerator
from gpt import GPT, Order, Windows, loss_of, micro_batches, recompute
from measure import Report, zero_gradients, zero_masters
from run import Batches, Checkpoints, Plan, Progress, World, arguments, join, leave, sizes, training
from torch import Tensor, nn
from torch.utils.cpp_extension import _get_build_directory

TAG, UNIVERSAL = "engine", "universal"
MISSING = {
    "AsyncIOBuilder": "offload to NVMe needs a C++ compiler and libaio's headers on every node: "
    "apt-get install g++ libaio-dev, or dnf install gcc-c++ libaio-devel"
}
"""Builder of an operator → what to say where it cannot be built."""


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    plan = Plan.read(("zero3", "zero2", "zero1", "ddp"), args, world.size)
    torch.manual_seed(args.seed + world.rank)  # for dropout: each rank drops something else
    # one that does not fit into the memory of a rank is built under deepspeed.zero.Init
    model = GPT(sizes(args, plan.seq_len), args.seed)
    recompute(model, plan.activation_checkpointing)

    def save(folder: Path, _: Progress) -> None:
        # all ranks call it: each writes its shards. DeepSpeed's own mark of the newest is not
        # asked for, since rank 0 writes it when rank 0 is done, and the others may not be
        engine.save_checkpoint(str(folder), tag=TAG, save_latest=False)

    def load(folder: Path, at: Progress) -> None:
        tag = TAG
        if at.ranks != world.size:
            tag = UNIVERSAL
            if world.rank == 0:
                convert(folder)
            dist.barrier()
        prime(engine, at.step)
        engine.load_checkpoint(str(folder), tag=tag)

    checkpoints = Checkpoints(world, save, load, args.fail)
    engine = started(model, args.lr, config(checkpoints, world))
    at = checkpoints.load()
    order = Order(Windows(plan.seq_len, args.windows), world.size, world.rank, args.seed)
    micro, accumulation = (
        engine.train_micro_batch_size_per_gpu(),
        engine.gradient_accumulation_steps(),
    )

    def epoch(at: Progress) -> Iterator[Batches]:
        order.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return micro_batches(order, micro, accumulation)

    report = Report(world, plan.strategy, engine.module, at)
    for batches in training(at, args, checkpoints, epoch, micro * accumulation * world.size):
        loss = step(engine, batches, report)
        report.step(world.mean(loss), float(engine.get_global_grad_norm() or 0))
    report.end(engine.optimizer.optimizer, zero_masters(engine))
    leave()


def config(checkpoints: Checkpoints, world: World) -> dict[str, Any]:
    """What jobgen has written. Shards of another number of ranks are read from another format."""
    file = os.environ.get("JOBGEN_DEEPSPEED_CONFIG")
    if not file:
        raise SystemExit("JOBGEN_DEEPSPEED_CONFIG is to name a ds_config.json")
    said: dict[str, Any] = json.loads(Path(file).read_text())
    operators(*needed(said))
    found = checkpoints.newest()
    if found and found[1].ranks != world.size:
        said["checkpoint"] = {**said.get("checkpoint", {}), "load_universal": True}
        # the batch stays the same over the ranks that there are; DeepSpeed checks the product
        micro = said["train_micro_batch_size_per_gpu"]
        said["gradient_accumulation_steps"] = said["train_batch_size"] // (micro * world.size)
    return said


def operators(*names: str) -> None:
    """Load what DeepSpeed compiles on a node when it is first used, by the names of its builders.

    torch guards the folder by a file, and a rank that is killed meanwhile leaves it: every later
    start would wait for ever. So ours wait for a lock that ends with its holder, and remove that.
    """
    builders = {name: get_accelerator().create_op_builder(name) for name in names}
    for name, builder in builders.items():  # all of them, before minutes go into the first
        if not builder.is_compatible(verbose=False):
            raise SystemExit(MISSING.get(name, f"DeepSpeed cannot compile its {builder.NAME} here"))
    for builder in builders.values():
        folder = Path(_get_build_directory(builder.NAME, verbose=False))
        with (folder / "in-use").open("w") as ours:
            with suppress(OSError):  # not every file system has such locks
                fcntl.flock(ours, fcntl.LOCK_EX)
                (folder / "lock").unlink(missing_ok=True)
            builder.load(verbose=False)


def needed(said: dict[str, Any]) -> Iterator[str]:
    """The operators that a ds_config.json asks for, with an optimizer of torch's."""
    if not torch.cuda.is_available():
        yield "ShareMemCommBuilder"  # reduces between ranks on one node
    if "nvme" in places(said):
        yield from ("PinMemoryBuilder", "AsyncIOBuilder")


def places(said: dict[str, Any]) -> set[str]:
    """Where a ds_config.json offloads to."""
    zero = said.get("zero_optimization", {})
    keys = [key for key in ("offload_optimizer", "offload_param") if key in zero]
    return {zero[key].get("device", "none") for key in keys}


def prime(engine: DeepSpeedEngine, steps: int) -> None:
    """Give an optimizer on NVMe the state that it will have, before a checkpoint is read.

    DeepSpeed 0.19 copies all of it back to the disk, and reads what the optimizer has: a new one
    has no moments yet, and would go on without them and without a word.
    """
    if not engine.zero_nvme_offload_optimizer():
        return
    zero, names = engine.optimizer, set[str]()
    for number, flat in enumerate(zero.fp32_partitioned_groups_flat):
        if not zero._swappable_optimizer_subgroup(number):
            raise SystemExit(
                "a rank has less than a MiB of parameters: DeepSpeed keeps their optimizer in "
                "memory, and does not bring it back from a checkpoint. Offload to the CPU"
            )
        zero._prepare_sub_group(number, names)  # from the disk
        moments = {key: torch.zeros_like(flat) for key in ("exp_avg", "exp_avg_sq")}
        zero.optimizer.state[flat] = {"step": torch.tensor(float(steps)), **moments}
        zero._release_sub_group(number, names)  # and back, with the moments


def started(model: nn.Module, lr: float, said: dict[str, Any]) -> DeepSpeedEngine:
    """The engine: the model, divided as the configuration says, and its optimizer."""
    if "nvme" in places(said) and not said.get("bf16", {}).get("enabled"):
        # DeepSpeed 0.19 divides it itself, and then fp32 lies on the disk as bf16 where the CPU has
        # no fp16; asked for beforehand, it goes by the configuration
        deepspeed.init_distributed(dist_init_required=False)  # the group that join() has made
        deepspeed.zero.Init(module=model, config_dict_or_path=said)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        # one of torch's: DeepSpeed's own are compiled when they are first used
        optimizer=torch.optim.AdamW(model.parameters(), lr=lr),
        config=said,
        # the group that join() has made is taken; left out, DeepSpeed would ask for its default
        dist_init_required=False,
    )
    return engine


def step(engine: DeepSpeedEngine, batches: Batches, report: Report) -> Tensor:
    """One step of the optimizer; the mean loss of this rank's samples."""
    device = engine.device
    total = torch.zeros((), device=device)
    for x, y in batches:
        loss = loss_of(engine(x.to(device)), y.to(device))
        engine.backward(loss)  # divides the loss by the accumulation itself
        if engine.is_gradient_accumulation_boundary():
            report.gradients(zero_gradients(engine))
        engine.step()  # after every micro-batch: it counts them, and acts on the last
        total += loss.detach() / len(batches)
    return total


def convert(folder: Path) -> None:
    """A checkpoint's shards as whole parameters, which any number of ranks can read."""
    if (folder / UNIVERSAL).exists():
        return
    # a job that was killed may have left some, and its converter may still be at work
    part = folder / f"{UNIVERSAL}.{time.time_ns()}.part"
    program = (sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal")
    words = ("--input_folder", folder / TAG, "--output_folder", part, "--inject_missing_state")
    subprocess.run([*program, *map(str, words)], check=True)
    part.rename(folder / UNIVERSAL)


if __name__ == "__main__":
    main()

"""Three dimensions at once: tensor, pipeline and data parallel.

The mesh is pipeline x data x tensor, the last the innermost: ranks of a tensor-parallel group wait
for each other in every layer, so they are neighbours on one node. A pipeline stage sends little,
and may be far away. Each rank builds the blocks of its stage, takes its part of their columns, and
averages what is left with the ranks that have the same stage and part.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from gpt import GPT, Order, Windows, loss_of, micro_batches, recompute
from measure import Report
from run import Batches, Checkpoints, Plan, Progress, World, arguments, join, leave, sizes, training
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

AXES = ("pp", "dp_replicate", "dp_shard", "tp")
TENSOR_PARALLEL = {
    # the first layer of a pair gives each rank a part of the columns, the second takes it as it
    # is and adds up: one reduction for two layers, and nothing is gathered between them
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}
# the names of one stage are not those of another: the optimizer's state goes by them, not by number
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    plan = Plan.read(("3d",), args, world.size)
    if plan.precision == "fp16":
        raise SystemExit("fp16 needs a scaler that all stages share: use bf16")
    mesh = init_device_mesh(
        world.device.type, tuple(plan.mesh[axis] for axis in AXES), mesh_dim_names=AXES
    )
    stage_of, replica, shard, _ = mesh.get_coordinate()
    data = replica * plan.mesh["dp_shard"] + shard
    # ranks of one tensor-parallel group see the same samples, and must drop the same of them
    torch.manual_seed(args.seed + data + 1000 * stage_of)
    model = divided(args, plan, mesh, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=plan.fused_optimizer)
    sharded = Sharded(model, optimizer)
    checkpoints = Checkpoints(world, sharded.save, sharded.load, args.fail)
    at = checkpoints.load()
    order = Order(Windows(plan.seq_len, args.windows), plan.data, data, args.seed)
    pipeline = Pipeline(model, plan, mesh, world)

    def epoch(at: Progress) -> Iterator[Batches]:
        order.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return micro_batches(order, plan.micro_batch, plan.gradient_accumulation)

    report = Report(world, plan.strategy, model, at)
    for batches in training(at, args, checkpoints, epoch, plan.samples):
        loss = pipeline.step(batches)
        report.gradients()
        norm = clip(list(model.parameters()), plan.gradient_clipping or inf, mesh)
        optimizer.step()
        optimizer.zero_grad()
        # only the last stage has a loss: its ranks' mean is the sum over all, by their number
        mean = world.sum(loss).item() / (world.size / plan.mesh["pp"])
        report.step(mean, norm.item())
    report.end(optimizer)
    leave()


def divided(args: Namespace, plan: Plan, mesh: DeviceMesh, world: World) -> FSDPModule:
    """This rank's stage: its blocks, their columns over tp, what is left over the data ranks."""
    shape = sizes(args, plan.seq_len)
    each, left = divmod(shape.layers, plan.mesh["pp"])
    if left:
        raise SystemExit(f"{shape.layers} layers are no multiple of {plan.mesh['pp']} stages")
    first = mesh.get_local_rank("pp") * each
    model = GPT(shape, args.seed, range(first, first + each)).to(world.device)
    if plan.mesh["tp"] > 1:
        for block in model.blocks.values():
            parallelize_module(block, mesh["tp"], TENSOR_PARALLEL)
    recompute(model, plan.activation_checkpointing)
    # over two dimensions: copies, and shards of a copy. With shards over one rank it is what DDP
    # does. (DDP itself takes no DTensors, which tensor parallel makes of the parameters.)
    bf16 = plan.precision == "bf16"
    return fully_shard(
        model,
        mesh=mesh["dp_replicate", "dp_shard"],
        # gathered once a step, not once for each micro-batch that passes
        reshard_after_forward=False,
        mp_policy=MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
        if bf16
        else MixedPrecisionPolicy(),
    )


class Pipeline:
    """The stage of this rank among the others.

    1F1B: when a stage has sent its first micro-batches on, it does one backward for each forward,
    so it keeps the activations of as many micro-batches as there are stages behind it, not of all.
    """

    def __init__(self, model: FSDPModule, plan: Plan, mesh: DeviceMesh, world: World) -> None:
        if plan.gradient_accumulation < plan.mesh["pp"]:
            raise SystemExit(
                f"{plan.gradient_accumulation} micro-batches cannot fill {plan.mesh['pp']} stages: "
                "gradient_accumulation has to be as many, better some times as many"
            )
        self.device = world.device
        self.stage = PipelineStage(
            model,
            mesh.get_local_rank("pp"),
            plan.mesh["pp"],
            world.device,
            group=mesh.get_group("pp"),
        )
        # divides the gradients by the number of micro-batches, and has them averaged over the
        # data ranks behind the last one only
        self.schedule = Schedule1F1B(self.stage, plan.gradient_accumulation, loss_fn=loss_of)

    def step(self, batches: Batches) -> Tensor:
        """Forward and backward of all micro-batches; the mean loss, on other stages 0."""
        x, y = (torch.cat(parts).to(self.device) for parts in zip(*batches, strict=True))
        losses: list[Tensor] = []
        self.schedule.step(
            *((x,) if self.stage.is_first else ()),
            **({"target": y, "losses": losses} if self.stage.is_last else {}),
        )
        return torch.stack(losses).mean() if losses else torch.zeros((), device=self.device)


def clip(weights: list[nn.Parameter], most: float, mesh: DeviceMesh) -> Tensor:
    """Clip by the norm of the whole model's gradient.

    Parameters that tensor parallel has divided lie on another mesh than those it has not, and a
    norm is taken over one kind at a time; the other stages have the rest of the model.
    """
    kinds: dict[DeviceMesh, list[nn.Parameter]] = {}
    for weight in weights:
        kinds.setdefault(weight.device_mesh, []).append(weight)
    square = torch.zeros((), device=mesh.device_type)
    for kind in kinds.values():
        norm = get_total_norm([w.grad for w in kind if w.grad is not None])
        square += (norm.full_tensor() if isinstance(norm, DTensor) else norm) ** 2
    dist.all_reduce(square, group=mesh.get_group("pp"))
    total = square.sqrt()
    for kind in kinds.values():
        clip_grads_with_norm_(kind, most, total)
    return total


class Sharded(NamedTuple):
    """A checkpoint that every rank writes its shards of, and another mesh can read."""

    model: nn.Module
    optimizer: torch.optim.Optimizer

    def save(self, folder: Path, _: Progress) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer, options=FLAT)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder / "shards")

    def load(self, folder: Path, _: Progress) -> None:
        # torch.distributed.checkpoint reads into what is there, as it is divided now
        model, optimizer = get_state_dict(self.model, self.optimizer, options=FLAT)
        dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=folder / "shards")
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=model,
            optim_state_dict=optimizer,
            options=FLAT,
        )


if __name__ == "__main__":
    main()

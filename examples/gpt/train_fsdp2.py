"""FSDP2 (fully_shard): each parameter is a DTensor, sharded over a dimension of a device mesh.

``fully_shard`` is called on every block and then on the whole; what it is told holds for that call
only, so each call gets everything. The mesh has two dimensions for data: copies of the model, and
the ranks that one copy is sharded over. With a third, ``tp``, the layers themselves are divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import torch
from gpt import GPT, Order, Windows, loss_of, micro_batches, recompute
from measure import Report
from run import Batches, Checkpoints, Plan, Progress, arguments, join, leave, sizes, training
from state import Sharded
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
AXES = ("dp_replicate", "dp_shard", "tp")
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


def main() -> None:
    """Meet the other processes, train, part."""
    args = arguments(__doc__)
    world = join()
    plan = Plan.read(("fsdp2",), args, world.size)
    if plan.mesh["pp"] * plan.mesh["cp"] > 1:
        raise SystemExit("this program knows tp; for pp see train_3d.py")
    if plan.precision == "fp16":
        raise SystemExit("fp16 needs a scaler that knows of shards, and FSDP2 has none: use bf16")
    mesh = init_device_mesh(
        world.device.type, tuple(plan.mesh[axis] for axis in AXES), mesh_dim_names=AXES
    )
    # ranks of one tensor-parallel group see the same samples, and must drop the same of them
    data = world.rank // plan.mesh["tp"]
    torch.manual_seed(args.seed + data)
    model = GPT(sizes(args, plan.seq_len), args.seed).to(world.device)
    model = divided(model, plan, mesh)
    # after the sharding: the optimizer is to hold the shards, not what was there before
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=plan.fused_optimizer)
    parts = Sharded(model, optimizer, plan.full_state_dict)
    checkpoints = Checkpoints(world, parts.save, parts.load, args.fail)
    at = checkpoints.load()
    order = Order(Windows(plan.seq_len, args.windows), plan.data, data, args.seed)

    def epoch(at: Progress) -> Iterator[Batches]:
        order.set_epoch(at.epoch)  # a new order every epoch, the same order after a restart
        order.seen = at.seen
        return micro_batches(order, plan.micro_batch, plan.gradient_accumulation)

    report = Report(world, plan.strategy, model, at)
    for batches in training(at, args, checkpoints, epoch, plan.samples):
        loss = backward(model, batches, world.device)
        report.gradients()
        norm = clip(model.parameters(), plan.gradient_clipping or inf)
        optimizer.step()
        optimizer.zero_grad()
        report.step(world.mean(loss), norm.item())
    report.end(optimizer)
    leave()


def divided(model: GPT, plan: Plan, mesh: DeviceMesh) -> FSDPModule:
    """The model: first its layers over tp, then what each rank has of them over the data ranks."""
    if plan.mesh["tp"] > 1:
        for block in model.blocks.values():
            parallelize_module(block, mesh["tp"], TENSOR_PARALLEL)
    recompute(model, plan.activation_checkpointing)
    # shards stay fp32, and so does the optimizer; gradients are added up in fp32, unless asked
    computed = DTYPES[plan.precision]
    reduced = DTYPES[plan.reduce_dtype or "fp32"]
    copies = plan.mesh["dp_replicate"] > 1
    options: dict[str, Any] = {
        "mesh": mesh["dp_replicate", "dp_shard"] if copies else mesh["dp_shard"],
        "reshard_after_forward": plan.own.get("reshard_after_forward", True),
        "mp_policy": MixedPrecisionPolicy(computed, reduce_dtype=reduced),
        "offload_policy": CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
        if plan.offload == "cpu"
        else OffloadPolicy(),
    }
    units = list(model.blocks.values())
    if plan.wrap_min_params:
        units = [u for u in units if sum(p.numel() for p in u.parameters()) >= plan.wrap_min_params]
    for block in units:
        fully_shard(block, **options)
    return fully_shard(model, **options)  # the embeddings and the head, which are in no block


def backward(model: FSDPModule, batches: Batches, device: torch.device) -> Tensor:
    """Add up the gradients of all micro-batches; the mean loss of this rank's samples."""
    total = torch.zeros((), device=device)
    for number, (x, y) in enumerate(batches, start=1):
        # saves the network and costs memory: until the last micro-batch whole gradients are kept
        model.set_requires_gradient_sync(number == len(batches))
        # the sum of the micro-batches' gradients is to be their mean
        loss = loss_of(model(x.to(device)), y.to(device)) / len(batches)
        loss.backward()
        total += loss.detach()
    return total


def clip(weights: Iterable[nn.Parameter], most: float) -> Tensor:
    """Clip by the norm of the whole gradient, of which each rank holds a part.

    A norm of DTensors is a DTensor: ``full_tensor`` adds up what the ranks have. With tensor
    parallel some parameters lie on one dimension of the mesh more than others, and a norm is
    taken over one kind at a time.
    """
    kinds: dict[object, list[nn.Parameter]] = {}
    for weight in weights:
        kinds.setdefault(weight.device_mesh if isinstance(weight, DTensor) else None, []).append(
            weight
        )
    norms = []
    for kind in kinds.values():
        norm = get_total_norm([w.grad for w in kind if w.grad is not None])
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    total = torch.linalg.vector_norm(torch.stack(norms))
    for kind in kinds.values():
        clip_grads_with_norm_(kind, most, total)
    return total


if __name__ == "__main__":
    main()

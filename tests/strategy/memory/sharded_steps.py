"""A real step under FSDP2 on two ranks: ``sharded_steps.py NAME RECOMPUTE`` writes its peak, in
bytes, as rank 0's FSDPMemTracker counts it on real CPU tensors."""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import partial

import torch
import torch._dynamo  # optimizers import it: here, once for all ranks
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from jobgen.payload.measure_model.memory_points import spare_frozen
from jobgen.payload.measure_model.model_units import find_units, list_tensors
from jobgen.payload.measure_model.training_step import checkpoint_unit
from tests.strategy.forked import run_ranks
from tests.strategy.memory.measured_steps import WORDS

RANKS = 2


def step(name: str, recompute: str) -> None:
    """One step, after one that made the optimizer's states."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    module = importlib.import_module(f"tests.strategy.memory.own_models.{name}")
    model, batch = module.build_model(), module.example_batch(**WORDS)
    mesh = init_device_mesh("cpu", (RANKS,))
    for _, unit in find_units(torch, model, [], None):
        if recompute == "full":
            checkpoint_unit(unit)
        fully_shard(unit, mesh=mesh)
    fully_shard(model, mesh=mesh)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    for each in trained:
        each.grad = torch.zeros_like(each)
    optimizer.step()
    optimizer.zero_grad()
    tracker = FSDPMemTracker(model, optimizer)
    spare_frozen(tracker, model)
    tracker.track_inputs(tuple(list_tensors(torch, batch)))
    with tracker:
        loss = model(**batch) if isinstance(batch, dict) else model(batch)
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        peak = tracker.get_tracker_snapshot("peak")
        print(sum(each["Total"] for each in peak.values()), flush=True)
    dist.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run_ranks(RANKS, partial(step, *sys.argv[1:])))

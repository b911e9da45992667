"""Real steps of torch's 1F1B pipeline on two ranks: ``piped_steps.py NAME COUNT RECOMPUTE…`` writes
a line for each recompute, with COUNT micro-batches: the peak of each rank, in bytes, as MemTracker
counts it on CPU tensors."""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import partial
from typing import Any

import torch
import torch._dynamo  # optimizers import it: here, once for all ranks
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from jobgen.payload.measure_model.memory_points import spare_frozen
from jobgen.payload.measure_model.training_step import checkpoint_unit
from tests.strategy.forked import run_ranks
from tests.strategy.memory.measured_steps import WORDS

RANKS = 2


class NoModules:
    """Stands for torch's tracker of modules, which may not be called for several micro-batches."""

    parents = frozenset[str]()
    is_bw = False

    def register_user_hooks(self, *_: Any) -> None:
        """Nothing."""

    clear_user_hooks = __enter__ = __exit__ = register_user_hooks


class Stage(nn.Module):
    """Half of the layers, with what comes before or after all."""

    def __init__(self, model: nn.Module, rank: int) -> None:
        super().__init__()
        half = -(-len(model.layers) // RANKS)  # type: ignore[arg-type]
        layers = list(model.layers)  # type: ignore[arg-type]
        self.layers = nn.ModuleList(layers[:half] if rank == 0 else layers[half:])
        self.embed = getattr(model, "embed", None) if rank == 0 else None
        self.norm = getattr(model, "norm", None) if rank else None
        self.head = getattr(model, "head", None) if rank else None

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """What the next stage gets, or the loss."""
        x = x if self.embed is None else self.embed(x)
        for layer in self.layers:
            x = layer(x)
        x = x if self.norm is None else self.norm(x)
        if self.head is None:
            return x
        scores = self.head(x if self.norm is not None else x.mean(1))
        if scores.dim() == 3:
            scores, labels = scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return nn.functional.cross_entropy(scores, labels)


def step(name: str, recompute: str, micro: int) -> None:
    """One step, after one that made the optimizer's states."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    module = importlib.import_module(f"tests.strategy.memory.own_models.{name}")
    rank = dist.get_rank()
    part = Stage(module.build_model(), rank)
    for layer in part.layers if recompute == "full" else ():
        checkpoint_unit(layer)
    trained = [each for each in part.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=True)
    for each in trained:
        each.grad = torch.zeros_like(each)
    optimizer.step()
    optimizer.zero_grad()
    batch = module.example_batch(**{**WORDS, "micro_batch": WORDS["micro_batch"] * micro})
    inputs, labels = batch.values() if isinstance(batch, dict) else (batch, batch)
    stage = PipelineStage(part, rank, RANKS, torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro, loss_fn=lambda loss, _: loss)
    tracker: Any = MemTracker()
    tracker._mod_tracker = NoModules()
    spare_frozen(tracker, part)
    tracker.track_external(part, optimizer)
    with tracker:
        if rank == 0:
            schedule.step(inputs, labels=labels, return_outputs=False)
        else:
            schedule.step(target=labels, labels=labels, return_outputs=False)
        optimizer.step()
    peak = tracker.get_tracker_snapshot("peak")
    most = sum(sizes["Total"] for device, sizes in peak.items() if device.type == "cpu")
    found: list[Any] = [None] * RANKS
    dist.all_gather_object(found, most)
    if rank == 0:
        print(found, flush=True)
    dist.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    _, name, count, *recomputes = sys.argv
    steps = (partial(step, name, recompute, int(count)) for recompute in recomputes)
    sys.exit(any(run_ranks(RANKS, each) for each in steps))

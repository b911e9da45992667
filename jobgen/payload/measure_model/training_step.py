"""A step of training on fake tensors: of the whole model, or of a rank's shard."""

from __future__ import annotations

import contextlib
from typing import Any

from .attention_kernel import AttentionKernel
from .memory_points import make_tracker, select_points, spare_frozen
from .model_units import find_units, find_width, hold, list_tensors, total
from .operation_costs import list_segments, make_counter
from .unit_chain import UnitChain
from .user_program import Failed, blame, check_call, choose_words

CACHES = {"use_cache": False, "past_key_values": None, "layer_past": None}
MISLABELLED = 0.02
"""Part of all gradients by which MemTracker's count may differ from the model's."""


@contextlib.contextmanager
def fake_group(torch: Any, ranks: int) -> Any:
    """The mesh of so many ranks, of which only this one exists."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (ranks,))
    finally:
        torch.distributed.destroy_process_group()


class TrainingStep:
    """The model on fake tensors, and a step of its training."""

    def __init__(self, torch: Any, request: dict[str, Any], functions: Any, mode: str) -> None:
        self.torch, self.request, self.mode = torch, request, mode
        self.attention = AttentionKernel(torch)
        with blame(request, request["model"]):
            self.model = functions[0]()
        if not isinstance(self.model, torch.nn.Module):
            what = type(self.model).__name__
            raise Failed("type", f"{request['model']} returned {what}, not a torch.nn.Module")
        self.model.train()
        with blame(request, request["batch"]):
            self.batch = functions[1](
                **choose_words(functions[1], request["words"], request["batch"])
            )
        self.tensors = list_tensors(torch, self.batch)
        if not isinstance(self.batch, (torch.Tensor, tuple, list, dict)) or not self.tensors:
            what = type(self.batch).__name__
            message = f"{request['batch']} returned {what} without tensors"
            message += "; a tensor, a tuple or a dict of tensors is expected"
            raise Failed("type", message, key="batch")
        self.width = find_width(self.model)
        self.units = find_units(torch, self.model, request["classes"], request["min_params"])
        if mode == "16-bit":
            self.cast_to_16_bits()

    def cast_to_16_bits(self) -> None:
        """Make parameters, buffers and inputs 16 bits wide."""
        self.model.bfloat16()
        self.batch = self.torch.utils._pytree.tree_map_only(
            self.torch.Tensor,
            lambda t: t.bfloat16() if t.is_floating_point() else t,
            self.batch,
        )
        self.tensors = list_tensors(self.torch, self.batch)

    def describe(self) -> dict[str, Any]:
        """Sizes of the model and of the batch. Elements, and bytes of buffers."""
        inside: set[int] = set()
        units = []
        for name, unit in self.units:
            own = [p for p in unit.parameters() if id(p) not in inside]
            inside |= {id(p) for p in own}
            size = {"params": total(own), "trained": total(p for p in own if p.requires_grad)}
            units.append({"name": name, "type": type(unit).__name__, **size})
        every = list(self.model.parameters())
        first = self.tensors[0]
        return {
            "params": total(every),
            "trained": total(p for p in every if p.requires_grad),
            "width": self.width,
            "frozen_bytes": hold(p for p in every if not p.requires_grad),
            "buffers": hold(self.model.buffers()),
            "units": units,
            "micro": first.shape[0] if first.dim() else 1,
        }

    def step(self) -> Any:
        """The loss of the batch."""
        torch = self.torch
        wide = self.mode != "autocast"
        amp = contextlib.nullcontext() if wide else torch.autocast("cpu", torch.bfloat16)
        with amp, blame(self.request, "the forward pass", step=True):
            args, words = split_batch(self.batch)
            try:
                return find_loss(torch, self.model(*args, **words))
            except TypeError:
                check_call(self.model, args, words, self.request["batch"])
                raise

    def trace(self, recompute: str) -> dict[str, Any]:
        """The memory of a forward and a backward pass, without states. Bytes."""
        if recompute == "full":
            for _, unit in self.units:
                checkpoint_unit(unit)
        chain = UnitChain(self.torch, self.model, self.units)
        tracker, counter = make_tracker(chain.count), make_counter(chain)
        chain.watch(lambda segment: tracker.segments.begin(segment, tracker.read()["rest"]))
        spare_frozen(tracker, self.model)
        tracker.track_external(self.model, *self.tensors)
        with tracker, counter, self.attention.watch(), counter.recomputation.watch():
            chain.begin(0)
            loss = self.step()
            kept = tracker.read()
            chain.end_forward()
            tracker.forward, counter.backward = False, True
            with blame(self.request, "the backward pass", step=True):
                loss.backward()
            after = tracker.read()
        grads = hold(p.grad for p in self.model.parameters() if p.grad is not None)
        if abs(after["grads"] - grads) > MISLABELLED * max(grads, 1):
            message = f"MemTracker counts {after['grads']} B of gradients; the model has {grads} B"
            raise Failed("labels", message)
        points = select_points(tracker.backward.find_most())
        return {
            "kept": kept["rest"],
            "forward": tracker.highest,
            "points": [list_point(grads, *point) for point in points],
            "after": after["rest"],
            "segments": tracker.segments.list_rows(kept["rest"]),
            "costs": list_segments(counter, chain.count),
            "chain": {
                "broken": chain.broken,
                "sent": chain.sent,
                "parameters": chain.count_parameters(),
            },
        }

    def trace_sharded(self, mesh: Any) -> dict[str, Any]:
        """The peak of a step under FSDP2 on one of many ranks, the optimizer's included. Bytes."""
        from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        torch = self.torch
        if self.request["recompute"] == "full":
            for _, unit in self.units:
                checkpoint_unit(unit)
        mixed = self.request["mixed_precision"]
        words = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if mixed else {}
        policy = MixedPrecisionPolicy(**words)
        for _, unit in self.units:
            fully_shard(unit, mesh=mesh, mp_policy=policy)
        fully_shard(self.model, mesh=mesh, mp_policy=policy)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained)
        for parameter in trained:  # so that states exist, as in every step but the first
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        tracker: Any = FSDPMemTracker(self.model, optimizer)
        spare_frozen(tracker, self.model)
        tracker.track_inputs(tuple(self.tensors))
        with tracker:
            loss = self.step()
            with blame(self.request, "the backward pass under FSDP2", step=True):
                loss.backward()
            optimizer.step()
        peak = tracker.get_tracker_snapshot("peak")
        most = sum(each["Total"] for each in peak.values())
        return {"ranks": mesh.size(), "recompute": self.request["recompute"], "peak": most}


def split_batch(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and the keyword arguments of the model."""
    if isinstance(batch, dict):
        return (), batch
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,), {}


def list_point(grads: int, there: int, rest: tuple[int, int]) -> list[float]:
    """The part of all gradients that is there, activations and temporary tensors. Bytes.

    Of a gradient whose layout is not its parameter's autograd makes a copy; while both are there,
    MemTracker counts two gradients.
    """
    return [min(there / max(grads, 1), 1.0), rest[0], rest[1] + max(there - grads, 0)]


def find_loss(torch: Any, output: Any) -> Any:
    """The loss that the model returns; else the mean of what it returns."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    found = [output if loss is None else loss]
    found = [t for t in list_tensors(torch, found) if t.requires_grad]
    if not found:
        raise Failed("loss", "the model returned nothing that has a gradient")
    return sum(t if not t.dim() else t.mean() for t in found)


def checkpoint_unit(unit: Any) -> None:
    """Compute a unit again in the backward pass, without a cache of keys and values as in
    transformers (modeling_layers.py, GradientCheckpointingLayer): it would grow once more."""
    from torch.utils.checkpoint import checkpoint

    inner = unit.forward

    def forward(*args: Any, **words: Any) -> Any:
        uncached = {name: CACHES.get(name, value) for name, value in words.items()}
        return checkpoint(inner, *args, use_reentrant=False, **uncached)

    unit.forward = forward

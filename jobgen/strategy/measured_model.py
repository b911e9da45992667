"""A model of the user's own, as ``plan --measure`` has measured it on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.shapes.architecture import Architecture, Layer, Model, Tensor

T = TypeVar("T")
MOST = 1 << 60
"""No size of a report may be larger: what is, was not written by jobgen."""


class ModelUnit(NamedTuple):
    """A module that is sharded and recomputed by itself."""

    name: str
    type: str
    params: int


class MemoryPoint(NamedTuple):
    """A moment of the backward pass. Bytes, without states."""

    grads: float
    """Part of all gradients that exist."""
    activations: float
    temporary: float


class StepTrace(NamedTuple):
    """Memory beside states in one forward and backward pass. Bytes."""

    mode: str
    """fp32; autocast; or narrow, with parameters and activations in 16 bits."""
    recompute: str
    kept: float
    """When the loss is known."""
    forward: float
    """The most in the forward pass."""
    points: tuple[MemoryPoint, ...]
    after: float
    """What stays until the optimizer's step: the batch and the loss."""


class ShardedStep(NamedTuple):
    """A step of one rank under FSDP2, in a process group whose other ranks are fake."""

    ranks: int
    recompute: str
    peak: float
    """The most that it allocates. Bytes."""


class MeasuredModel(NamedTuple):
    """Parameters by unit, and what steps of one micro-batch need."""

    name: str
    params: int
    trained: int
    width: int
    """Bytes of an element of most parameters, as the model is built."""
    buffers: int
    """Bytes."""
    units: tuple[ModelUnit, ...]
    micro: int
    """Samples of the measured batch."""
    traces: tuple[StepTrace, ...]
    torch: str
    sharded: ShardedStep | None = None
    unmeasured: str = ""
    """Why steps with parameters in 16 bits could not be measured; those under autocast were."""
    node: str = ""
    """Where a job measured it; empty if it was measured on this machine."""
    cluster: str = ""

    def find_trace(self, mode: str, recompute: str) -> StepTrace | None:
        """The trace of this kind of step, if it was measured."""
        found = (t for t in self.traces if (t.mode, t.recompute) == (mode, recompute))
        return next(found, None)


def choose_modes(precision: str, *, pure: bool) -> tuple[str, ...]:
    """The kinds of steps that strategies of this precision take: autocast under DDP, parameters in
    16 bits where they are gathered or kept so."""
    if precision == "fp32":
        return ("fp32",)
    return ("narrow",) if pure else ("autocast", "narrow")


def build_measured(measured: MeasuredModel) -> Model:
    """The parameters as the planner counts them: a layer for each unit. Its widths say nothing."""
    units = measured.units or (ModelUnit("", "", 0),)
    layers = tuple(Layer((Tensor(u.name, "mlp", (u.params,)),), 1) for u in units)
    inside = sum(unit.params for unit in units)
    root = (Tensor("outside of units", "head", (max(measured.params - inside, 0),)),)
    sizes = Architecture(
        measured.name, len(units), hidden=1, heads=1, kv_heads=1, head_dim=1, ffn=1, vocab=1
    )
    return Model(sizes, layers, root)


def read_measured(name: str, report: object) -> MeasuredModel:
    """The model of a report. Raises ValueError or TypeError for what is none."""
    data = _mapping(report)
    return MeasuredModel(
        name,
        _size(data.get("params")),
        _size(data.get("trained")),
        _size(data.get("width")),
        _size(data.get("buffers")),
        _list(data.get("units"), _read_unit),
        max(_size(data.get("micro")), 1),
        _list(data.get("traces"), _read_trace),
        str(data.get("torch"))[:40],
        _read_sharded(data.get("sharded")),
        str(data.get("unmeasured") or "")[:400],
        str(data.get("node") or "")[:100],
        str(data.get("cluster") or "")[:100],
    )


def _read_unit(data: object) -> ModelUnit:
    unit = _mapping(data)
    return ModelUnit(str(unit.get("name")), str(unit.get("type")), _size(unit.get("params")))


def _read_sharded(data: object) -> ShardedStep | None:
    if data is None:
        return None
    step = _mapping(data)
    return ShardedStep(
        _size(step.get("ranks")), str(step.get("recompute")), _size(step.get("peak"))
    )


def _read_trace(data: object) -> StepTrace:
    trace = _mapping(data)
    return StepTrace(
        str(trace.get("mode")),
        str(trace.get("recompute")),
        _size(trace.get("kept")),
        _size(trace.get("forward")),
        _list(trace.get("points"), _read_point),
        _size(trace.get("after")),
    )


def _read_point(data: object) -> MemoryPoint:
    if not isinstance(data, list) or len(data) != len(MemoryPoint._fields):
        raise TypeError("no point")
    if not isinstance(data[0], (int, float)) or not 0 <= data[0] <= 1:
        raise ValueError("no part of gradients")
    return MemoryPoint(data[0], _size(data[1]), _size(data[2]))


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("no mapping")
    return data


def _list(data: object, read: Callable[[object], T]) -> tuple[T, ...]:
    if not isinstance(data, list):
        raise TypeError("no list")
    return tuple(read(each) for each in data)


def _size(data: object) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= MOST:
        raise ValueError("no size")
    return data

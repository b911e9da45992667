"""A model of the user's own, as ``plan --measure`` has measured it on fake tensors."""

from __future__ import annotations

import itertools
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
    trained: int


class SegmentMemory(NamedTuple):
    """What a segment of a step holds beside states and what earlier ones keep. Bytes."""

    kept: float
    """From its forward pass to its backward pass, with what it passes on."""
    forward: float
    """The most in its forward pass."""
    backward: float
    """The most in its backward pass, with what it keeps."""


class SentActivations(NamedTuple):
    """What a segment passes on to the next. Bytes."""

    size: int
    freed: int
    """Of them, what no operation keeps for the backward pass; a stage of a pipeline does."""


class SegmentParameters(NamedTuple):
    """What a segment uses. Elements; and bytes of those that are frozen, as they are built."""

    params: int
    trained: int
    frozen_bytes: int


class OperationCost(NamedTuple):
    """Operations of one kind and size in one pass. FLOPs and bytes of each."""

    kind: str
    """product, attention, or other: then the sums of all that only read and write."""
    width: int
    """Bytes of an operand's element."""
    flops: float
    read: float
    written: float
    times: int


class SegmentCosts(NamedTuple):
    """What a segment computes in one micro-batch."""

    forward: tuple[OperationCost, ...]
    backward: tuple[OperationCost, ...]
    """With what is computed again."""


class MemoryPoint(NamedTuple):
    """A moment of the backward pass. Bytes, without states."""

    grads: float
    """Part of all gradients that exist."""
    activations: float
    temporary: float


class StepTrace(NamedTuple):
    """Memory beside states in one forward and backward pass. Bytes."""

    mode: str
    """fp32; autocast; or 16-bit, with parameters and activations in 16 bits."""
    recompute: str
    kept: float
    """When the loss is known."""
    forward: float
    """The most in the forward pass."""
    points: tuple[MemoryPoint, ...]
    after: float
    """What stays until the optimizer's step: the batch and the loss."""
    segments: tuple[SegmentMemory, ...] = ()
    """What comes before the units, each unit, and what comes after the last; one without units."""
    costs: tuple[SegmentCosts, ...] = ()
    """Of each segment; empty in reports of older versions."""
    uncounted: tuple[str, ...] = ()
    """Operations whose FLOPs are not known."""
    sent: tuple[SentActivations, ...] = ()
    """What each segment passes on."""
    parameters: tuple[SegmentParameters, ...] = ()
    broken: str = ""
    """Why the units are no chain, of which a pipeline could be made."""
    recomputed: float = 0.0
    """FLOPs of the backward pass that compute a part of the forward pass again: by checkpointing,
    of the program's own too, or by attention's kernel."""
    flash: bool = False
    """Attention with dropout keeps no scores, as on a GPU; else as on a CPU."""


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
    frozen_bytes: int
    """Of parameters that are not trained, as they are built."""
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

    @property
    def keeps_scores(self) -> bool:
        """Whether attention keeps scores on a CPU that it does not need on a GPU."""
        return any(trace.flash for trace in self.traces)

    def find_trace(self, mode: str, recompute: str, *, flash: bool) -> StepTrace | None:
        """The trace of this kind of step, if it was measured."""
        asked = mode, recompute, flash and self.keeps_scores
        return next((t for t in self.traces if (t.mode, t.recompute, t.flash) == asked), None)

    def list_parameters(self, segments: range) -> tuple[SegmentParameters, ...]:
        """Parameters by segment; those of the whole model where it is not divided."""
        rows = self.traces[0].parameters if self.traces else ()
        if len(rows) > len(segments):
            return rows[segments.start : segments.stop]
        return (SegmentParameters(self.params, self.trained, self.frozen_bytes),)


def split_units(count: int, stages: int) -> list[range]:
    """The units of each stage of a pipeline: as many each, the first have one more."""
    each, more = divmod(count, stages)
    starts = [number * each + min(number, more) for number in range(stages + 1)]
    return [range(*pair) for pair in itertools.pairwise(starts)]


def get_segments(units: range, count: int, stage: int, stages: int) -> range:
    """The segments of a stage: those of its units; the first and the last have what comes before
    all ``count`` units, and after them."""
    first = units.start + (stage > 0)
    last = units.stop + (stage == stages - 1) * (1 if count else 0)
    return range(first, last + 1)


def choose_modes(precision: str, *, pure: bool) -> tuple[str, ...]:
    """The kinds of steps that strategies of this precision take: autocast under DDP, parameters in
    16 bits where they are gathered or kept so."""
    if precision == "fp32":
        return ("fp32",)
    return ("16-bit",) if pure else ("autocast", "16-bit")


def build_measured(measured: MeasuredModel) -> Model:
    """The parameters as the planner counts them: a layer for each unit. Its widths say nothing."""
    units = measured.units or (ModelUnit("", "", 0, 0),)
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
    params, trained, width = (_size(data.get(key)) for key in ("params", "trained", "width"))
    return MeasuredModel(
        name,
        params,
        trained,
        width,
        _size(data.get("buffers")),
        _list(data.get("units"), _read_unit),
        _size(data.get("frozen_bytes", (params - trained) * width)),
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
    params = _size(unit.get("params"))
    trained = _size(unit.get("trained", params))
    return ModelUnit(str(unit.get("name")), str(unit.get("type")), params, trained)


def _read_sharded(data: object) -> ShardedStep | None:
    if data is None:
        return None
    step = _mapping(data)
    return ShardedStep(
        _size(step.get("ranks")), str(step.get("recompute")), _size(step.get("peak"))
    )


def _read_trace(data: object) -> StepTrace:
    trace = _mapping(data)
    costs, chain = _mapping(trace.get("costs", {})), _mapping(trace.get("chain", {}))
    kinds = _list(costs.get("kinds", []), _read_costs)
    return StepTrace(
        str(trace.get("mode")),
        str(trace.get("recompute")),
        _size(trace.get("kept")),
        _size(trace.get("forward")),
        _list(trace.get("points"), _read_point),
        _size(trace.get("after")),
        _list(trace.get("segments", []), lambda row: SegmentMemory(*_sizes(row, 3))),
        _list(costs.get("order", []), lambda place: _pick(kinds, place)),
        _list(costs.get("uncounted", []), lambda name: str(name)[:80]),
        _list(chain.get("sent", []), lambda row: SentActivations(*_sizes(row, 2))),
        _list(chain.get("parameters", []), lambda row: SegmentParameters(*_sizes(row, 3))),
        str(chain.get("broken") or "")[:200],
        _size(costs.get("recomputed", 0)),
        trace.get("flash") is True,
    )


def _read_costs(data: object) -> SegmentCosts:
    forward, backward = _list(data, lambda rows: _list(rows, _read_cost))
    return SegmentCosts(forward, backward)


def _read_cost(data: object) -> OperationCost:
    kind, *rest = _list(data, lambda value: value)
    return OperationCost(str(kind), *_sizes(rest, 5))


def _pick(kinds: tuple[T, ...], place: object) -> T:
    if _size(place) >= len(kinds):
        raise ValueError("no such kind")
    return kinds[_size(place)]


def _sizes(data: object, count: int) -> tuple[int, ...]:
    found = _list(data, _size)
    if len(found) != count:
        raise ValueError(f"not {count} sizes")
    return found


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

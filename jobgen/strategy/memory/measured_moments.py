"""The moments that can be the peak of the user's own model, which was measured on fake tensors.

Its activations and temporary tensors are measured; states, gathered parameters and buckets are
those of the strategy, as for every model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import Moment
from jobgen.strategy.measured_model import (
    SegmentMemory,
    SegmentParameters,
    SentActivations,
    StepTrace,
    get_segments,
    split_units,
)
from jobgen.strategy.memory.gpu_parts import Parts
from jobgen.strategy.memory.layer import FP32, has_autocast
from jobgen.strategy.memory.memory_states import GpuStates, PipelineStage
from jobgen.strategy.memory.transient import Transient
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Batch


def choose_mode(setup: Setup) -> str:
    """The kind of step that this setup takes: fp32, autocast or 16-bit."""
    if setup.recipe.compute == FP32:
        return "fp32"
    return "autocast" if has_autocast(setup) else "16-bit"


def find_trace(setup: Setup) -> StepTrace | None:
    """The measured step of this setup; under autocast, which holds more, where 16 bits fail."""
    measured = setup.measured
    if measured is None:
        return None
    modes = choose_mode(setup), "autocast"
    every = (measured.find_trace(mode, setup.recompute, flash=setup.flash) for mode in modes)
    return next((trace for trace in every if trace is not None), None)


def list_measured_moments(
    setup: Setup,
    states: GpuStates,
    before: GpuStates,
    extra: Transient,
    idle: tuple[float, float],
) -> Iterator[Parts]:
    """Each moment at which most may be held. ``before`` are the states when the backward pass
    begins; ``idle`` are bytes of gradients and of pools that are freed by then and stay reserved.
    Raises ValueError where this kind of step was not measured.
    """
    trace, measured = find_trace(setup), setup.measured
    if trace is None or measured is None:
        raise ValueError(f"{setup.recompute} activation checkpointing was not measured")
    size = setup.batch.micro / measured.micro
    grads, pools = idle
    gathered = extra.forward if extra.returning is None else extra.returning
    buckets = extra.buckets - pools
    kept, over = trace.kept * size, max(trace.forward - trace.kept, 0.0) * size
    yield Parts("forward", *before, gathered, buckets, kept, 0.0, over, grads + pools)
    for point in trace.points:
        there = max(before.grads, point.grads * states.grads)
        yield Parts(
            "backward",
            *states._replace(grads=there),
            extra.backward if point.grads else gathered,
            extra.reduced,
            point.activations * size,
            0.0,
            point.temporary * size,
            max(before.grads + grads - there, 0.0),
        )
    after, free = trace.after * size, extra.pool + pools
    yield Parts("step", *states, 0.0, buckets, after, 0.0, extra.step, free)


def list_staged_moments(
    setup: Setup, stage: PipelineStage, states: GpuStates, extra: Transient
) -> Iterator[Parts]:
    """The moments of one stage of a pipeline: micro-batches whose backward pass is still to come,
    and the busiest moment of one. Raises ValueError where stages were not measured.

    torch's stages have a buffer for what they receive of every micro-batch, either way (torch 2.13,
    distributed/pipelining/stage.py, ``_setup_forward_recv_info``, ``_create_grad_recv_info``). They
    hold their output while it goes backward (``backward_one_chunk``), and what was sent last and
    at the end of the warm-up (schedules.py, ``Schedule1F1B``).
    """
    trace, measured = find_trace(setup), setup.measured
    if trace is None or measured is None or trace.broken:
        raise ValueError("stages of a pipeline were not measured")
    batch, pp = setup.batch, setup.mesh.pp
    size, count = batch.micro / measured.micro, len(measured.units)
    place = get_segments(split_units(count, pp)[stage.number], count, stage.number, pp)
    none = SentActivations(0, 0)
    inputs = none if stage.first else trace.sent[place.start - 1]
    outputs = none if stage.last else trace.sent[place.stop - 1]
    each = inputs.size + outputs.size + (trace.after if stage.first else 0)
    received = extra.buckets + (each * batch.accumulation + inputs.size) * size
    rows = trace.segments[place.start : place.stop]
    parts = _list_learned(measured.list_parameters(place), len(rows))
    for turn in _list_turns(rows, (inputs.freed, outputs.size), pp - stage.number, batch):
        new = turn.first and not setup.persistent_grads
        held = states._replace(grads=states.grads * (parts[turn.row] if new else 1.0))
        gathered = extra.forward if turn.moment == "forward" else extra.backward
        kept, most = turn.kept * size, turn.most * size
        yield Parts(turn.moment, *held, gathered, received, kept, 0.0, most)
    yield Parts("step", *states, extra.pool, received, trace.after * size, 0.0, extra.step)


class _Turn(NamedTuple):
    """A segment of a stage at work. Bytes."""

    moment: Moment
    row: int
    first: bool
    """Whether no gradients of earlier micro-batches exist."""
    kept: float
    most: float


def _list_turns(
    rows: Sequence[SegmentMemory], ends: tuple[float, float], depth: int, batch: Batch
) -> Iterator[_Turn]:
    """Each segment in the first backward pass, when as many micro-batches wait as ever, and in
    later ones. ``ends`` are what the stage keeps of its input beside its segments, and its output;
    ``depth`` are the stages from this one on."""
    freed, output = ends
    waiting = freed + sum(row.kept for row in rows)
    for first in (True, False):
        flight = min(depth, batch.accumulation if first else batch.accumulation - 1)
        kept = (flight - 1) * waiting + freed + (0.0 if first else output)
        for number, row in enumerate(rows if flight else ()):
            # the gradient of the output is in its buffer
            own = output if number < len(rows) - 1 else 0.0
            yield _Turn("forward", number, first, kept, row.forward)
            yield _Turn("backward", number, first, kept + own, row.backward)
            kept += row.kept


def _list_learned(rows: Sequence[SegmentParameters], count: int) -> list[float]:
    """Of each segment, the part of the gradients that later ones have computed before it."""
    if len(rows) != count:
        return [1.0] * count
    total = max(sum(row.trained for row in rows), 1)
    return [sum(row.trained for row in rows[place + 1 :]) / total for place in range(count)]

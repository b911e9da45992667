"""Seconds that a GPU computes in one micro-batch of a measured model, operation by operation."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.measured_model import (
    MeasuredModel,
    OperationCost,
    StepTrace,
    get_segments,
    split_units,
)
from jobgen.strategy.memory.measured_moments import find_trace
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed import rates
from jobgen.strategy.speed.attention_rates import get_attention_rate
from jobgen.strategy.speed.compute import LayerTimes


def find_timed_trace(setup: Setup) -> StepTrace | None:
    """The trace whose operations are known; None where no time can be estimated."""
    trace = find_trace(setup)
    return trace if trace is not None and trace.costs and not trace.uncounted else None


def compute_stages(setup: Setup, machine: ClusterHardware) -> list[LayerTimes]:
    """Times of each stage of the pipeline. Raises ValueError where operations are not known."""
    trace, measured = find_timed_trace(setup), setup.measured
    if trace is None or measured is None:
        raise ValueError("the cost of operations was not measured")
    count, pp = len(measured.units), setup.mesh.pp
    stages = []
    for number, held in enumerate(split_units(count, pp)):
        place = get_segments(held, count, number, pp)
        costs = trace.costs[place.start : place.stop]
        ahead = [row for cost in costs for row in cost.forward]
        back = [row for cost in costs for row in cost.backward]
        stages.append(_time_passes(setup, machine, ahead, back))
    return stages


def _time_passes(
    setup: Setup, machine: ClusterHardware, ahead: list[OperationCost], back: list[OperationCost]
) -> LayerTimes:
    scale = _scale(setup)
    return LayerTimes(
        scale * sum(_time(row, setup, machine) for row in ahead),
        scale * sum(_time(row, setup, machine) for row in back),
        scale * sum(_time(row, setup, machine) for row in ahead if row.kind == "attention"),
        calls=rates.DISPATCHED * sum(row.times for row in ahead),
    )


def _scale(setup: Setup) -> float:
    """Samples of a micro-batch for each one that was measured."""
    return setup.batch.micro / setup.measured.micro if setup.measured else 1.0


def _time(row: OperationCost, setup: Setup, machine: ClusterHardware) -> float:
    """Seconds of all operations of a row: products as ``products.compute_product`` has them, and
    everything else by its bytes."""
    speed = rates.get_memory_rate(machine)
    if row.kind == "other":
        return (row.read + row.written) / speed
    work = row.flops / _choose_rate(row, setup, machine)
    return row.times * (max(work, row.read / speed) + row.written / speed)


def _choose_rate(row: OperationCost, setup: Setup, machine: ClusterHardware) -> float:
    if row.width >= rates.FP32:
        return rates.get_vector_rate(machine)
    if row.kind == "attention":
        return get_attention_rate(machine, setup.framework, fused=setup.fused_attention)
    return rates.get_matmul_rate(machine)


def count_measured_flops(setup: Setup) -> float:
    """Model FLOPs of one micro-batch, forward and backward, without what is computed again: by
    checkpointing, of the program's own too, or by attention's kernel."""
    trace = find_timed_trace(setup._replace(recompute="none")) or find_timed_trace(setup)
    if trace is None:
        return 0.0
    rows = (row for cost in trace.costs for row in (*cost.forward, *cost.backward))
    return _scale(setup) * (_sum_flops(rows) - trace.recomputed)


def _sum_flops(rows: Iterable[OperationCost]) -> float:
    return sum(row.flops * row.times for row in rows)


def count_sent(setup: Setup, measured: MeasuredModel) -> float:
    """Bytes that one stage passes on in one micro-batch: the most of all."""
    trace, count, pp = find_trace(setup), len(measured.units), setup.mesh.pp
    if trace is None or not trace.sent:
        return 0.0
    ends = (
        get_segments(held, count, number, pp).stop
        for number, held in enumerate(split_units(count, pp)[:-1])
    )
    return _scale(setup) * max((trace.sent[end - 1].size for end in ends), default=0)

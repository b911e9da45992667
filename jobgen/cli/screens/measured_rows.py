"""A user's own model, as it was measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jobgen.strategy.estimate import GIB
from jobgen.strategy.measured_model import MeasuredModel, ShardedStep
from jobgen.strategy.setup import Setup
from jobgen.wording import count, join_words


def describe_measured(setup: Setup) -> list[str]:
    """Sentences for a plan; none if the model is not measured."""
    measured = setup.measured
    if measured is None:
        return []
    params = f"{measured.params:,} parameters"
    if measured.trained < measured.params:
        params += f" ({measured.trained:,} trained)"
    where = f" on {measured.node} of {measured.cluster}" if measured.cluster else ""
    source = f"measured on fake tensors with torch {measured.torch}{where}"
    told = [f"{measured.name}: {params}, {describe_units(measured)}, {source}"]
    sharded = measured.sharded
    same = sharded and (setup.strategy, setup.recompute) == ("fsdp2", sharded.recompute)
    if sharded and same and setup.mesh.shard == sharded.ranks:
        peak = f"{sharded.peak / GIB:.1f} GiB allocated"
        told.append(f"a rank of FSDP2 over {sharded.ranks} fake ranks: {peak}, measured")
    return told


def describe_units(measured: MeasuredModel) -> str:
    """``24 units (24 Block)``."""
    kinds = Counter(unit.type for unit in measured.units)
    if not kinds:
        return "one unit"
    names = join_words([f"{number} {name}" for name, number in kinds.most_common(3)], "and")
    return f"{count(len(measured.units), 'unit')} ({names})"


def dump_measured(setup: Setup) -> dict[str, Any] | None:
    """The model as plain data; None if it is not measured."""
    measured = setup.measured
    if measured is None:
        return None
    return {
        "name": measured.name,
        "params": measured.params,
        "trained": measured.trained,
        "buffers_bytes": measured.buffers,
        "micro_batch": measured.micro,
        "torch": measured.torch,
        "node": measured.node or None,
        "cluster": measured.cluster or None,
        "units": [unit._asdict() for unit in measured.units],
        "sharded_step": dump_sharded(measured.sharded),
    }


def dump_sharded(step: ShardedStep | None) -> dict[str, Any] | None:
    """A step of one rank under FSDP2 as plain data."""
    if step is None:
        return None
    return {"ranks": step.ranks, "recompute": step.recompute, "peak_bytes": step.peak}

"""The published run that is most like a setup: what its memory was, beside what is estimated."""

from __future__ import annotations

from functools import cache
from math import log2

from jobgen.data import rows
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import Metric
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS

FAR = 3.0
"""Distance beyond which a run is no neighbour: parameters, tokens and shards together differ by a
factor of eight."""
_OTHERWISE = 1.0
"""What another strategy of the family, or other checkpointing, counts: as a factor of two."""


class MeasuredRun(NamedTuple):
    """A published run, as far as its memory depends on it."""

    model: str
    params: float
    strategy: str
    trained: str
    """full, LoRA or QLoRA."""
    gpus: int
    shards: int
    """GPUs that the states of a layer are divided over."""
    seq: int
    micro: int
    recompute: str
    metric: Metric
    gib: float
    source: str


def find_nearest(setup: Setup) -> MeasuredRun | None:
    """The run with the least distance among those that train the same part of the model under the
    same family of strategies; None where none is near."""
    if setup.measured is not None:
        return None
    alike = [
        (measure_distance(setup, run), run)
        for run in list_measured()
        if run.trained == name_trained(setup)
        and _name_family(run.strategy) == _name_family(setup.strategy)
    ]
    distance, nearest = min(alike, key=lambda each: each[0], default=(FAR, None))
    return nearest if distance <= FAR else None


def _name_family(strategy: str) -> str:
    """FSDP1 and FSDP2 divide alike."""
    return TRAITS[strategy].family.removesuffix("2")


def measure_distance(setup: Setup, run: MeasuredRun) -> float:
    """Factors of two between parameters, tokens and shards, and what else is not alike."""
    factors = (
        setup.model.count / run.params,
        setup.batch.micro * setup.seq / (run.micro * run.seq),
        count_divided(setup) / run.shards,
    )
    others = (setup.recompute != run.recompute) + (setup.strategy != run.strategy)
    return sum(abs(log2(factor)) for factor in factors) + _OTHERWISE * others


def count_divided(setup: Setup) -> int:
    """GPUs that the states of a layer are divided over."""
    mesh = setup.mesh
    return mesh.shard * mesh.cp * mesh.tp * mesh.pp


def name_trained(setup: Setup) -> str:
    """What is trained: full, LoRA or QLoRA."""
    if setup.adapters is None:
        return "full"
    return "QLoRA" if setup.adapters.bits == 4 else "LoRA"


@cache
def list_measured() -> tuple[MeasuredRun, ...]:
    """The runs that the planner is scored on."""
    return tuple(_read(row) for row in rows("measured_runs.csv"))


def _read(row: dict[str, str]) -> MeasuredRun:
    numbers = {name: int(row[name]) for name in ("params", "gpus", "shards", "seq", "micro")}
    words = {name: row[name] for name in ("model", "strategy", "trained", "recompute", "source")}
    metric: Metric = row["metric"]  # type: ignore[assignment]
    return MeasuredRun(**words, **numbers, metric=metric, gib=float(row["gib"]))  # type: ignore[arg-type]

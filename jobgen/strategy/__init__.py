"""How the training is divided over the ranks: what the job asks for → one decided Strategy.

``decide`` and ``faults`` are arithmetic on values. ``configure`` turns the decision into the words
of the framework that the program uses; each framework is a module of ``frameworks``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.model.launchers import get_facts
from jobgen.strategy import batch, mesh, rules
from jobgen.strategy.spec import (
    TRAITS,
    ModelSizes,
    Note,
    Offloaded,
    RankLayout,
    Strategy,
    TrainDiagnostic,
)

if TYPE_CHECKING:
    from jobgen.model.train import Train

__all__ = [
    "ModelSizes",
    "Note",
    "RankLayout",
    "Strategy",
    "TrainDiagnostic",
    "decide",
    "faults",
    "framework",
]


def framework(train: Train, launcher: str = "") -> str:
    """What the program reads: as the job says, else what goes with the launcher or strategy."""
    if train.framework:
        return train.framework
    trait = TRAITS[train.strategy.type]
    own = get_facts(launcher).framework
    if own in trait.frameworks:
        return own
    return "deepspeed" if trait.family == "zero" else "torch"


def faults(
    train: Train, sizes: ModelSizes, world: RankLayout | None, *, launcher: str = ""
) -> Iterator[TrainDiagnostic]:
    """What cannot work, once for each key; without a world, what is wrong in every world."""
    chosen = framework(train, launcher)
    found = [*rules.faults(train, chosen), *(rules.launcher(chosen, launcher) if launcher else ())]
    divided = list(mesh.faults(train, sizes, world))
    found += divided
    if world is not None and not divided:
        found += batch.faults(train, mesh.mesh(train, world).data)
    said: set[tuple[str, ...]] = set()
    for fault in found:
        if fault.path not in said:
            said.add(fault.path)
            yield fault


def decide(
    train: Train,
    sizes: ModelSizes,
    world: RankLayout,
    *,
    launcher: str,
    config: bytes | None = None,
) -> Strategy:
    """The strategy in this world. ``faults`` has been asked before, and has said nothing."""
    asked = train.strategy
    divided = mesh.mesh(train, world)
    return Strategy(
        name=asked.type,
        trait=TRAITS[asked.type],
        framework=framework(train, launcher),
        mesh=divided,
        batch=batch.batch(train, divided.data),
        precision=train.precision,
        seq_len=train.seq_len,
        recompute=train.activation_checkpointing,
        clipping=train.gradient_clipping,
        offload=Offloaded(
            optimizer=train.offload.what in {"optimizer", "both"},
            params=train.offload.what in {"params", "both"},
            to=train.offload.to,
            path=train.offload.path or "",
        ),
        reshard=asked.reshard_after_forward,
        bucket_mb=asked.bucket_mb,
        static_graph=asked.static_graph,
        hook=asked.hook,
        wrap=train.wrap,
        sizes=sizes,
        config=config,
        config_name=train.config or "",
    )

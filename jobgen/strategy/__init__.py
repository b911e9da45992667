"""How the training is divided over the ranks: what the job asks for → one decided Strategy.

``decide`` and ``check_batch`` are arithmetic on values. ``configure`` turns the decision into the
words of the framework that the program uses; each framework is a module of ``frameworks``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from jobgen.strategy import batch, mesh, rules
from jobgen.strategy.framework_choice import choose_framework
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
    "check_train",
    "choose_framework",
    "decide",
    "list_faults",
    "list_framework_faults",
]


def replace_auto(train: Train, launcher: str) -> Train:
    """The job with a strategy in place of ``auto``: the first that divides the model as the job
    says, so that what is wrong with it is wrong with all; DDP where none does."""
    simple = train.replace(strategy="ddp")
    chosen = choose_framework(simple, launcher)
    asked = {axis for axis in mesh.NAMES if getattr(train, axis) > 1}
    able = (
        name
        for name, trait in TRAITS.items()
        if chosen in trait.frameworks and asked <= {*trait.axes}
    )
    return train.replace(strategy=next(able, "ddp")) if asked else simple


def check_train(
    train: Train, sizes: ModelSizes, world: RankLayout | None, *, launcher: str = ""
) -> Iterator[TrainDiagnostic]:
    """What cannot work, once for each key; without a world, what is wrong in every world.

    A hint proposes no value that another check refuses.
    """
    found = list(list_faults(train, sizes, world, launcher=launcher))
    bare = tuple(fault for fault in found if not fault.hint)
    if not bare:
        yield from found
        return
    from jobgen.strategy import proposals

    list_paths = partial(_list_paths, sizes=sizes, world=world, launcher=launcher)
    rejected = proposals.RejectedJob(train, bare, sizes, world, list_paths)
    hinted = {fault.path: fault for fault in proposals.propose_values(rejected)}
    yield from (hinted.get(fault.path, fault) for fault in found)


def list_faults(
    train: Train, sizes: ModelSizes, world: RankLayout | None, *, launcher: str = ""
) -> Iterator[TrainDiagnostic]:
    """What ``check_train`` reports; hints that need a search are empty."""
    chosen = choose_framework(train, launcher)
    found = [
        *rules.check_rules(train, chosen),
        *rules.check_length(train, sizes),
        *(rules.check_launcher(chosen, launcher) if launcher else ()),
    ]
    divided = list(mesh.check_mesh(train, sizes, world, launcher))
    found += divided
    if world is not None and not divided:
        found += batch.check_batch(train, mesh.build_mesh(train, world).data)
    said: set[tuple[str, ...]] = set()
    for fault in found:
        if fault.path not in said:
            said.add(fault.path)
            yield fault


def _list_paths(
    train: Train, sizes: ModelSizes, world: RankLayout | None, launcher: str
) -> frozenset[tuple[str, ...]]:
    """The keys at which a job is refused, by its framework as well if nothing else refuses it."""
    faults = list(list_faults(train, sizes, world, launcher=launcher))
    if world is not None and not faults and train.config is None:
        faults = list_framework_faults(train, sizes, world, launcher=launcher)
    return frozenset(fault.path for fault in faults)


def list_framework_faults(
    train: Train,
    sizes: ModelSizes,
    world: RankLayout,
    *,
    launcher: str = "",
    config: bytes | None = None,
) -> list[TrainDiagnostic]:
    """What the framework has no configuration for, or the user's own contradicts."""
    from jobgen.strategy.frameworks import FrameworkRequest, configure

    decided = decide(train, sizes, world, launcher=launcher, config=config)
    request = FrameworkRequest(decided, world.nodes, world.ranks_per_node, gpus=world.gpus)
    return list(configure(request).faults)


def decide(
    train: Train,
    sizes: ModelSizes,
    world: RankLayout,
    *,
    launcher: str,
    config: bytes | None = None,
) -> Strategy:
    """The strategy in this world. ``check_batch`` has been asked before, and has said nothing."""
    asked = train.strategy
    divided = mesh.build_mesh(train, world)
    return Strategy(
        name=asked.type,
        trait=TRAITS[asked.type],
        framework=choose_framework(train, launcher),
        mesh=divided,
        batch=batch.compute_batch(train, divided.data),
        precision=train.precision,
        settings=asked,
        seq_len=train.seq_len,
        recompute=train.activation_checkpointing,
        clipping=train.gradient_clipping,
        offload=Offloaded(
            optimizer=train.offload.what in {"optimizer", "both"},
            params=train.offload.what in {"params", "both"},
            to=train.offload.to,
            path=train.offload.path or "",
        ),
        wrap=train.wrap.classes,
        min_params=train.wrap.min_params,
        timeout=train.timeout and train.timeout.seconds,
        fused=train.fused,
        pure=train.pure and train.precision != "fp32",
        optimizer=train.optimizer,
        loss=train.loss,
        compiled=train.compiled,
        profile=train.profile,
        sizes=sizes,
        config=config,
        config_name=train.config or "",
    )

"""Keys of ``train`` that the job leaves open and the program's own arguments set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.launch.distributed import forms_group
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.arguments import FoundArgument, read_arguments
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import RankLayout

_BATCH = ("micro_batch", "gradient_accumulation", "global_batch")
_COUNTS = (*_BATCH, "seq_len")
_MOST = 1_000_000
"""No batch and no sequence is longer; what is, was not meant."""
_OPTIONS = (
    "gradient_checkpointing",
    "activation_checkpointing",
    "optim",
    "torch_compile",
    "use_liger_kernel",
)
"""Options of the Trainer that stand for one value of a key, whatever else is set."""
_READ_BY = ("hf-trainer", "none")
"""Frameworks for which they are taken: others are passed activation checkpointing of their own,
which would come on top of the program's."""


class AdoptedTrain(NamedTuple):
    """``train`` with what ``run:`` sets, and the keys that came from there."""

    train: Train
    keys: frozenset[str] = frozenset()


def adopt_arguments(look: Inputs, launcher: str, train: Train, world: RankLayout) -> AdoptedTrain:
    """``train`` with the batch, the length of a sequence and the Trainer's options of ``run:``.

    What the job writes itself stays, and so does the batch that follows from it. Of several
    programs none speaks for the others.
    """
    programs = look.spec.programs
    if len(programs) != 1 or not _is_trained(look, launcher):
        return AdoptedTrain(train)
    from jobgen import strategy

    named = train.replace(strategy="ddp") if train.strategy.type == "auto" else train
    framework = strategy.choose_framework(named, launcher)
    closed = _list_closed(look, train)
    arguments = read_arguments(look, programs[0], framework)
    # of two alike, programs take the last
    changes = {
        found.row.key: value
        for found in arguments
        if found.row.key not in closed and (value := _read_value(found, framework)) is not None
    }
    if "global_batch" in closed and _is_uneven(named.replace(**changes), world):
        changes.pop("micro_batch", None)
    return AdoptedTrain(train.replace(**changes), frozenset(changes))


def _list_closed(look: Inputs, train: Train) -> set[str]:
    """Keys that the job sets, and those that follow from them."""
    closed = {key for key in train.keys if look.has_written("train", key)}
    if "global_batch" in closed:
        closed.add("gradient_accumulation")
    if train.config is not None:
        closed.update(_BATCH, ("optimizer",))
    return closed


def _read_value(found: FoundArgument, framework: str) -> Any:
    """The value of its key that an argument stands for; None if it is not taken."""
    value = found.values[0]
    if found.row.key in _COUNTS:
        return int(value) if value.isdecimal() and 0 < int(value) <= _MOST else None
    if found.row.name in _OPTIONS and framework in _READ_BY:
        return value == "true" if found.row.key == "compiled" else value
    return None


def _is_uneven(train: Train, world: RankLayout) -> bool:
    """Whether the global batch is no multiple of the samples of a forward pass on all ranks."""
    from jobgen.strategy.batch import check_batch
    from jobgen.strategy.mesh import build_mesh

    return any(check_batch(train, build_mesh(train, world).data))


def _is_trained(look: Inputs, launcher: str) -> bool:
    program = look.spec.programs[0].program
    return program.launcher is not None or forms_group(program, launcher)

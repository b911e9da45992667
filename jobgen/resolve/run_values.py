"""Keys of ``train`` that the job leaves open and the program's own arguments set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.launch.distributed import forms_group
from jobgen.resolve.arguments import read_arguments
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.model.train import Train

_BATCH = ("micro_batch", "gradient_accumulation", "global_batch")
_ADOPTED = (*_BATCH, "seq_len")
_MOST = 1_000_000
"""No batch and no sequence is longer; what is, was not meant."""


def adopt_arguments(look: Inputs, launcher: str, train: Train) -> Train:
    """``train`` with the batch and the length of a sequence that ``run:`` sets.

    What the job writes itself stays, and so does the batch that follows from it. Of several
    programs none speaks for the others.
    """
    programs = look.spec.programs
    if len(programs) != 1 or not _is_trained(look, launcher):
        return train
    from jobgen import strategy

    named = train.replace(strategy="ddp") if train.strategy.type == "auto" else train
    framework = strategy.choose_framework(named, launcher)
    closed = {key for key in _ADOPTED if look.has_written("train", key)}
    if "global_batch" in closed or train.config is not None:
        closed.update(_BATCH)
    changes: dict[str, int] = {}
    for found in read_arguments(look, programs[0], framework):
        key, value = found.row.key, found.values[0]
        is_open = key in _ADOPTED and key not in closed
        if is_open and value.isdecimal() and 0 < int(value) <= _MOST:
            changes[key] = int(value)  # of two alike, programs take the last
    return train.replace(**changes) if changes else train


def _is_trained(look: Inputs, launcher: str) -> bool:
    program = look.spec.programs[0].program
    return program.launcher is not None or forms_group(program, launcher)

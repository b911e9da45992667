"""Which framework a program uses, where the job does not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.model.launchers import get_facts
from jobgen.strategy.spec import TRAITS

if TYPE_CHECKING:
    from jobgen.model.train import Train


def choose_framework(train: Train, launcher: str = "") -> str:
    """What the program reads: as the job says, else what goes with the launcher or strategy."""
    if train.framework:
        return train.framework
    trait = TRAITS[train.strategy.type]
    own = get_facts(launcher).framework
    if own in trait.frameworks:
        return own
    return "deepspeed" if trait.family == "zero" else "torch"

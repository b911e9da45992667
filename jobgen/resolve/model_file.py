"""The config.json that ``train.model`` names: sizes in it that no model has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded


def check_model_file(spec: Loaded[JobSpec], texts: Mapping[str, bytes]) -> Iterator[Diagnostic]:
    """A problem at each line of the file with such a size, which is named as the job's file is."""
    train = spec.value.train
    if train is None:
        return
    from jobgen.strategy.model_sizes import check_config_sizes

    folder = PurePosixPath(spec.label).parent / spec.value.workdir.path
    also = (spec.find_place("train", "model"),)
    for fault in check_config_sizes(train, texts):
        place = fault.place and fault.place._replace(file=str(folder / fault.place.file))
        yield Diagnostic(fault.code, fault.message, place, fault.hint, also=also)

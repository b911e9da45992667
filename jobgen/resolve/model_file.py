"""The model that ``train.model`` names: sizes that no model has, and layers that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.model.decision import PlanCheck

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


def check_layer_classes(spec: Loaded[JobSpec], texts: Mapping[str, bytes]) -> Iterator[PlanCheck]:
    """A warning for a class in ``wrap`` that FSDP would not find in the model."""
    train = spec.value.train
    if train is None or not train.wrap.classes:
        return
    from jobgen.strategy.model_sizes import find_type
    from jobgen.strategy.shapes.layer_classes import find_unlikely_class

    kind = find_type(train, texts)
    unlikely = find_unlikely_class(kind, train.wrap.classes)
    if unlikely is None:
        return
    message = f"train.wrap: {unlikely.name} is no layer of {train.model}"
    message += f", but of model_type {unlikely.type}" if unlikely.type else ""
    place = spec.find_place("train", "wrap")
    yield PlanCheck("warn", message, "J236", f"set wrap: {unlikely.layer}", place)

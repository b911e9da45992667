"""What ``plan --measure`` keeps of a user's own model, and whether it still holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.app.world import World, read_regular, replace_file
from jobgen.model.facts import ModelMeasurement
from jobgen.model.trained import is_function
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.train import Train

FOLDER = "measured"
MOST_BYTES = 64 << 20
"""Of a file that the model has read; a larger one counts as changed."""


class OwnModel(NamedTuple):
    """A model that functions of the workdir build, and how it is measured."""

    name: str
    request: Mapping[str, Any]
    path: Path
    """Where its report is kept."""


def list_own_models(world: World, job: JobSpec, workdir: Path) -> Iterator[OwnModel]:
    """Those that the programs of a job train, each once."""
    trains = [each.train for each in job.list_programs()]
    known = set()
    for train in trains:
        if train is None or train.batch is None or not is_function(train.model):
            continue
        model = _describe(world, train, workdir)
        if model.path not in known:
            known.add(model.path)
            yield model


def _describe(world: World, train: Train, workdir: Path) -> OwnModel:
    """The request, and the place of its report: both follow from the job alone."""
    from jobgen.strategy.measured_model import choose_modes

    sizes = {"micro_batch": train.micro_batch, "seq_len": train.seq_len}
    request = {
        "workdir": str(workdir),
        "model": train.model,
        "batch": train.batch,
        "words": {name: size for name, size in sizes.items() if size is not None},
        "modes": choose_modes(train.precision, pure=train.pure),
        "classes": list(train.wrap.classes),
        "min_params": train.wrap.min_params,
    }
    # one folder for each model, so that other settings of it are found
    folder = _digest([str(workdir), train.model, train.batch])
    path = world.state / FOLDER / folder / f"{_digest(request)}.json"
    return OwnModel(str(train.model), request, path)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def find_measurements(world: World, job: JobSpec, workdir: Path) -> dict[str, ModelMeasurement]:
    """``train.model`` → what is kept of it, and whether it still holds."""
    return {
        model.name: _find_measurement(model, workdir)
        for model in list_own_models(world, job, workdir)
    }


def _find_measurement(model: OwnModel, workdir: Path) -> ModelMeasurement:
    try:
        report = json.loads(read_regular(model.path))
        files = dict(report["files"])
    except (OSError, ValueError, TypeError, KeyError):
        others = model.path.parent.is_dir() and any(model.path.parent.iterdir())
        if not others:
            return ModelMeasurement()
        settings = "this precision, micro_batch, seq_len and wrap"
        return ModelMeasurement(outdated=f"{model.name} is not measured with {settings}")
    for name, digest in files.items():
        if _digest_file(workdir / name) != digest:
            changed = f"{name} has changed since {model.name} was measured"
            return ModelMeasurement(outdated=changed)
    return ModelMeasurement(report)


def _digest_file(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, MOST_BYTES)).hexdigest()
    except OSError:
        return ""


def keep_report(model: OwnModel, report: Mapping[str, Any]) -> None:
    """Keep a report for later plans; no reader sees half of it. Raises OSError."""
    model.path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(model.path, json.dumps(report))

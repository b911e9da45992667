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
from jobgen.wording import join_words

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
        others = sorted(model.path.parent.iterdir()) if model.path.parent.is_dir() else []
        if not others:
            return ModelMeasurement()
        differing = min((_list_differing(model, other) for other in others), key=len)
        settings = join_words(differing, "and")
        return ModelMeasurement(outdated=f"{model.name} is not measured with this {settings}")
    for name, digest in files.items():
        if _digest_file(workdir / name) != digest:
            changed = f"{name} has changed since {model.name} was measured"
            return ModelMeasurement(outdated=changed)
    return ModelMeasurement(report)


_SETTINGS = {
    "precision": ("modes",),
    "micro_batch": ("words", "micro_batch"),
    "seq_len": ("words", "seq_len"),
    "wrap": ("classes",),
    "wrap.min_params": ("min_params",),
}
"""Key of ``train`` → where a request has it."""


def _list_differing(model: OwnModel, other: Path) -> list[str]:
    """The keys of ``train`` that another measurement of the model was made with other values of;
    all that it depends on where its report does not have them."""
    try:
        request = json.loads(read_regular(other))["request"]
        differing = [
            key
            for key, path in _SETTINGS.items()
            if _get(request, path) != _get(model.request, path)
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        differing = []
    return differing or [key for key in _SETTINGS if "." not in key]


def _get(request: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = request
    for name in path:
        value = value.get(name)
    return list(value) if isinstance(value, tuple) else value


def _digest_file(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, MOST_BYTES)).hexdigest()
    except OSError:
        return ""


def keep_report(model: OwnModel, report: Mapping[str, Any]) -> None:
    """Keep a report for later plans, with what it was asked for; no reader sees half of it. Raises
    OSError."""
    model.path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(model.path, json.dumps({**report, "request": model.request}))

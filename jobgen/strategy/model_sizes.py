"""The sizes of a transformer: from job.yaml's own mapping, a config.json, or an id of the Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobgen.errors import Place
from jobgen.model.trained import is_function
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.json_lines import index_lines
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.config_keys import EXPERTS, KEYS
from jobgen.strategy.shapes.read import list_impossible, read
from jobgen.strategy.shapes.table import find_config, find_model, suggest_models
from jobgen.strategy.shapes.written import complete_shape
from jobgen.strategy.spec import ModelSizes, TrainDiagnostic

if TYPE_CHECKING:
    from jobgen.model.train import Train

_NAMES = {size: KEYS[size] for size in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")}
"""Size → its keys, for a file that does not say enough for an Architecture."""


def read_sizes(
    train: Train, texts: Mapping[str, bytes]
) -> tuple[ModelSizes, list[TrainDiagnostic]]:
    """The sizes as far as they are known. ``texts`` are files of the workdir that app has read."""
    if train.model is None:
        return ModelSizes(), []
    if not isinstance(train.model, str):
        return _of(complete_shape(train.model)), []
    content = texts.get(train.model)
    if content is None:
        arch = find_model(train.model)
        return (_of(arch, train.model) if arch else ModelSizes(train.model)), []
    data = _mapping(train.model, content)
    if isinstance(data, TrainDiagnostic):
        return ModelSizes(train.model), [data]
    arch, doubt = read(data, train.model)
    return (_of(arch, train.model) if arch and not doubt else _part(train.model, data)), []


def check_config_sizes(train: Train, texts: Mapping[str, bytes]) -> list[TrainDiagnostic]:
    """Sizes in the model's config.json that no model has, each with its line; nothing where the
    file cannot be read."""
    content = texts.get(train.model) if isinstance(train.model, str) else None
    if content is None or not isinstance(train.model, str):
        return []
    data = _mapping(train.model, content)
    faults = [] if isinstance(data, TrainDiagnostic) else list_impossible(data)
    text = content.decode("utf-8", "replace")
    return [
        TrainDiagnostic(
            "J138",
            fault.message,
            ("model",),
            fault.hint,
            _find_key(text, fault.keys[-1])._replace(file=train.model),
        )
        for fault in faults
    ]


def find_type(train: Train, texts: Mapping[str, bytes]) -> str:
    """The ``model_type`` of the model, of its part about text; empty where it is not known."""
    if not isinstance(train.model, str):
        return ""
    content = texts.get(train.model)
    data = find_config(train.model) or {} if content is None else _mapping(train.model, content)
    if isinstance(data, TrainDiagnostic):
        return ""
    inner = data.get("text_config")
    kinds = (part.get("model_type") for part in (inner, data) if isinstance(part, dict))
    return next((kind for kind in kinds if isinstance(kind, str)), "")


def _find_key(text: str, key: str) -> Place:
    """The place of a key in a config.json, in its part about text if it has one, or in a block
    such as ``rope_parameters``."""
    lines = index_lines(text)
    nested = next((line for path, line in lines.items() if path[-1] == key), 0)
    line = lines.get(("text_config", key)) or lines.get((key,)) or nested
    col = text.split("\n")[line - 1].find(f'"{key}"') + 1 if line else 0
    return Place("", line, col, col + len(key) + 2 if col else 0)


def read_architecture(train: Train, texts: Mapping[str, bytes]) -> tuple[Architecture | None, str]:
    """All sizes of the model, and in words what is missing or in doubt; empty where all is known.

    Unlike ``read_sizes`` it has all or nothing, and says nothing of a file that cannot be read.
    """
    if train.model is None:
        return None, "train.model is not set"
    if not isinstance(train.model, str):
        shape = complete_shape(train.model)
        return shape, "" if shape.vocab else "without vocab, embeddings and logits are not counted"
    content = texts.get(train.model)
    if content is not None:
        data = _mapping(train.model, content)
        return (
            (None, data.message) if isinstance(data, TrainDiagnostic) else read(data, train.model)
        )
    arch = find_model(train.model)
    if arch is not None:
        return arch, ""
    near = next(iter(suggest_models(train.model)), "")
    like = f"; did you mean {near}?" if near else ""
    return None, f"unknown sizes of '{clip(train.model, 80)}'{like}"


class UnknownModel(NamedTuple):
    """A model whose sizes are not known."""

    name: str
    near: str
    """The known id that resembles it most; empty where none does."""

    @property
    def hint(self) -> str:
        """What to write instead."""
        other = "set model: to a config.json in the workdir, or to sizes"
        return f"did you mean {self.near}? Otherwise {other}" if self.near else other


def find_unknown_model(train: Train) -> UnknownModel | None:
    """The model that the job names, if neither the table nor a file has its sizes."""
    name = train.model
    if not isinstance(name, str) or name.endswith(".json") or is_function(name):
        return None
    if find_model(name) is not None:
        return None
    return UnknownModel(clip(name, 80), next(iter(suggest_models(name)), ""))


def find_architecture(train: Train, texts: Mapping[str, bytes]) -> Architecture | None:
    """The model if nothing about it is in doubt. A mapping may leave its vocabulary open."""
    arch, doubt = read_architecture(train, texts)
    written_down = train.model is not None and not isinstance(train.model, str)
    return arch if written_down or not doubt else None


def _mapping(name: str, content: bytes) -> dict[str, Any] | TrainDiagnostic:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        message = f"{name} is not valid JSON: {error}"
        return TrainDiagnostic("J237", message, ("model",), "a model's config.json")
    if not isinstance(data, dict):
        return TrainDiagnostic(
            "J237", f"{name} must contain a mapping", ("model",), "a model's config.json"
        )
    return data


def _of(arch: Architecture, name: str = "") -> ModelSizes:
    return ModelSizes(
        name,
        layers=arch.layers,
        hidden=arch.hidden,
        heads=arch.heads,
        kv_heads=arch.kv_heads,
        ffn=arch.ffn,
        vocab=arch.vocab or None,
        experts=arch.experts.count if arch.experts else 0,
        positions=arch.positions or None,
    )


def _part(name: str, data: Mapping[str, Any]) -> ModelSizes:
    """What a file says that does not say everything."""
    inner = data.get("text_config")  # of a model that also sees or hears
    data = inner if isinstance(inner, dict) else data
    found = {size: _first(data, keys) for size, keys in _NAMES.items()}
    if found["kv_heads"] is None:
        found["kv_heads"] = 1 if data.get("multi_query") is True else found["heads"]
    return ModelSizes(name, **found, experts=_first(data, EXPERTS["count"]))


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    values = (data.get(key) for key in keys)
    found = (v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0)
    return next(found, None)

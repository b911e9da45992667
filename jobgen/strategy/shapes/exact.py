"""The parameters of a model as transformers itself builds it. Needs torch and transformers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from jobgen.model.units import clip

_NOT_SHAPE = ("model_type", "auto_map", "quantization_config", "transformers_version")
"""What says nothing of the sizes, or asks for code and libraries that are not wanted here."""


class NotBuilt(Exception):
    """The model could not be built: the message says why, and what would help."""


def count_exactly(config: Mapping[str, object]) -> int:
    """The parameters of the model of this config.json, each once, built on torch's meta device.

    No weights are made, no code of the Hub is run, and nothing is asked of the network. Takes
    seconds, most of them the imports. Raises NotBuilt where torch or transformers is missing, or
    transformers cannot build this configuration.
    """
    absent = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if absent:
        hint = "install them beside jobgen, or omit --exact"
        raise NotBuilt(f"exact counts need {' and '.join(absent)}: {hint}")
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise NotBuilt("the configuration has no model_type")
    said = {key: value for key, value in config.items() if key not in _NOT_SHAPE}
    try:  # a configuration can break transformers in any way
        return _count(kind, said)
    except Exception as error:
        why = clip(" ".join(str(error).split()), 200)
        raise NotBuilt(f"transformers cannot build model_type '{clip(kind)}': {why}") from error


def _count(kind: str, said: Mapping[str, object]) -> int:
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    config = transformers.AutoConfig.for_model(kind, **said)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in built.parameters())

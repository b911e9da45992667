"""DeepSpeed's configuration of a strategy: made whole, or the user's own checked and completed.

Three readers: ``deepspeed`` (the program calls deepspeed.initialize), ``accelerate`` and
``hf-trainer``. The last two fill in ``auto``; DeepSpeed itself does not. Read: DeepSpeed 0.19.8,
accelerate 1.15, transformers 5.23.
"""

from __future__ import annotations

import json

from jobgen.model.bundle import BundleFile
from jobgen.model.decision import Setting, cite_rule
from jobgen.strategy.dsconfig import generate, user_config
from jobgen.strategy.dsconfig.chosen import Written, get, write_keys
from jobgen.strategy.frameworks import FrameworkRequest

__all__ = ["FILE", "Written", "build_config", "build_file", "explain_choices"]

FILE = "ds_config.json"


def build_config(request: FrameworkRequest, reader: str) -> Written:
    """What ds_config.json holds, why, and what cannot work."""
    asked = tuple(generate.choose_keys(request, reader))
    faults = tuple(generate.check_request(request, reader))
    if request.strategy.config is not None:
        found = user_config.merge_config(request, reader, asked)
        return found._replace(faults=(*faults, *found.faults))
    if faults or (fault := generate.check_batch(request, reader)) is None:
        return write_keys(asked, faults)
    return write_keys(asked, (fault,))


def explain_choices(found: Written) -> dict[str, Setting]:
    """What jobgen chose in a configuration: key with its blocks → value, with the reason."""
    values = ((key, get(found.values, tuple(key.split(".")))) for key in found.why)
    return {
        f"{FILE}: {key}": Setting(json.dumps(value), found.why[key], cite_rule("train"))
        for key, value in values
    }


def build_file(found: Written) -> BundleFile:
    """``ds_config.json``."""
    return BundleFile(FILE, (json.dumps(found.values, indent=2) + "\n").encode())

"""DeepSpeed's configuration of a strategy: made whole, or the user's own checked and completed.

Three readers: ``deepspeed`` (the program calls deepspeed.initialize), ``accelerate`` and
``hf-trainer``. The last two fill in ``auto``; DeepSpeed itself does not. Read: DeepSpeed 0.19.8,
accelerate 1.15, transformers 5.23.
"""

from __future__ import annotations

import json

from jobgen.model.bundle import BundleFile
from jobgen.model.plan import Setting, by_rule
from jobgen.strategy.dsconfig import generate, user_config
from jobgen.strategy.dsconfig.chosen import Written, get, refused
from jobgen.strategy.frameworks import FrameworkRequest

__all__ = ["FILE", "Written", "explained", "file", "written"]

FILE = "ds_config.json"


def written(request: FrameworkRequest, reader: str) -> Written:
    """What ds_config.json holds, why, and what cannot work."""
    asked = tuple(generate.chosen(request, reader))
    faults = tuple(generate.faults(request, reader))
    if request.strategy.config is not None:
        found = user_config.merged(request, reader, asked)
        return found._replace(faults=(*faults, *found.faults))
    if faults or (fault := generate.no_batch(request, reader)) is None:
        return refused(asked, faults)
    return refused(asked, (fault,))


def explained(found: Written) -> dict[str, Setting]:
    """What jobgen chose in a configuration: key with its blocks → value, with the reason."""
    values = ((key, get(found.values, tuple(key.split(".")))) for key in found.why)
    return {
        f"{FILE}: {key}": Setting(json.dumps(value), found.why[key], by_rule("train"))
        for key, value in values
    }


def file(found: Written) -> BundleFile:
    """``ds_config.json``."""
    return BundleFile(FILE, (json.dumps(found.values, indent=2) + "\n").encode())

"""Single files of other projects' checkouts as modules, without the packages around them."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType


def load_file(checkout: Path, path: str, name: str) -> ModuleType:
    """The file as the module ``name``. Ends the program where it is not there."""
    file = checkout / path
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        sys.exit(f"{file}: not found")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def stand_in(name: str, values: Mapping[str, object]) -> None:
    """Let imports of the module ``name``, whose own file needs a GPU, find these values."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:end]))
        package.__path__ = []
        sys.modules.setdefault(package.__name__, package)
    vars(sys.modules[name]).update(values)

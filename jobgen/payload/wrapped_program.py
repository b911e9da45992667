"""Become another Python program, and extend modules right after it has imported them.

It runs under the program's Python, 3.8 or later.
"""

from __future__ import annotations

import importlib.machinery
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Extension = Callable[[Any], None]


class Finder:
    """Extends these modules when the program imports them, and imports nothing itself."""

    def __init__(self, extended: Mapping[str, Extension]) -> None:
        self.extended = extended

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> Any:
        """The module's usual spec, with a loader that extends the module."""
        extend = self.extended.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if extend else None
        if extend and spec and spec.loader:
            setattr(spec.loader, "exec_module", _then(spec.loader.exec_module, extend))  # noqa: B010
        return spec


def _then(load: Extension, extend: Extension) -> Extension:
    def both(module: Any) -> None:
        load(module)
        extend(module)

    return both


def become(extended: Mapping[str, Extension]) -> None:
    """Become the program: its arguments, its folder first on the path, its name ``__main__``."""
    sys.meta_path.insert(0, Finder(extended))
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")

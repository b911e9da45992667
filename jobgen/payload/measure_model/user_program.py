"""The user's functions, and whose fault an error is."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
import traceback
from pathlib import Path
from typing import Any

SIZES = ("micro_batch", "seq_len")
"""Parameters of the function for the batch that get values of the job."""
OLDEST = (2, 6)
"""The release of torch whose trackers are known to work."""


class Failed(Exception):
    """The measurement cannot be made: a kind, what is wrong, and where in the user's program."""

    def __init__(
        self, kind: str, message: str, place: tuple[str, int] | None = None, key: str = "model"
    ) -> None:
        super().__init__(message)
        self.kind, self.place, self.key = kind, place, key
        self.known: list[str] = []
        """Functions that there are, where one is missing."""


def import_torch() -> Any:
    """torch, if it is there and new enough, with ``torch.compile`` off: a compiled model calls no
    hook that shows which gradient is whose."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    try:
        import torch
    except Exception as error:  # a broken library raises anything
        raise Failed("torch", f"torch cannot be imported: {describe(error)}") from error
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if release < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise Failed("torch", f"torch is {torch.__version__}; {needed} or later is needed")
    return torch


def describe(error: BaseException) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def load_function(request: dict[str, Any], key: str) -> Any:
    """The function that this key of the request names, as ``FILE.py:NAME``."""
    path, _, name = request[key].rpartition(":")
    file = path
    stem = Path(path).stem
    path = str(Path(request["workdir"], path))
    if getattr(sys.modules.get(stem), "__file__", None) != path:
        sys.path[:0] = [str(Path(path).parent), request["workdir"]]
        spec = importlib.util.spec_from_file_location(stem, path)
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise Failed("file", f"{file} does not exist in the workdir", key=key)
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        with blame(request, f"importing {stem}.py"):
            spec.loader.exec_module(module)
    found = getattr(sys.modules[stem], name, None)
    if not callable(found):
        failure = Failed("function", f"{file} has no function '{name}'", key=key)
        known = vars(sys.modules[stem]).items()
        failure.known = [each for each, value in known if inspect.isfunction(value)]
        raise failure
    return found


@contextlib.contextmanager
def blame(request: dict[str, Any], doing: str) -> Any:
    """Turn an error of the user's code into a failure at its last line there."""
    try:
        yield
    except Failed:
        raise
    except (Exception, SystemExit) as error:
        frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):  # of a file that was being read: no frame has it
            frames.append((error.filename or "", error.lineno))
        folder = f"{request['workdir']}/"
        places = [(os.path.realpath(file), line or 0) for file, line in frames]
        inside = [row for row in places if row[0].startswith(folder)]
        place = (
            (os.path.relpath(inside[-1][0], request["workdir"]), inside[-1][1]) if inside else None
        )
        kind = "data" if is_data_dependent(error) else "program"
        kind = "import" if isinstance(error, ImportError) else kind
        raise Failed(kind, f"{doing}: {describe(error)}", place) from error


def is_data_dependent(error: BaseException) -> bool:
    """Whether the model asks fake tensors for values that they do not have."""
    names = {each.__name__ for each in type(error).__mro__}
    known = {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
    }
    return bool(names & known) or "data_ptr" in str(error) or "FakeTensor" in str(error)


def choose_words(function: Any, words: dict[str, int], named: str) -> dict[str, int]:
    """Those of the job's sizes that the function has a parameter for; ``named`` is its name in the
    job. Raises Failed where it has others without a default."""
    known = inspect.signature(function).parameters
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for name, parameter in known.items():
        if name not in words and parameter.kind in plain and parameter.default is parameter.empty:
            message, kind = f"{named} needs {name}, which the job does not set", "parameter"
            raise Failed("size" if name in SIZES else kind, message, key="batch")
    return {name: value for name, value in words.items() if name in known}

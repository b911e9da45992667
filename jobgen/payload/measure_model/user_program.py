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
        self, kind: str, message: str, place: list[Any] | None = None, key: str = "model"
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
        failure.known = [
            each for each, value in known if callable(value) and value.__module__ == stem
        ]
        raise failure
    return found


@contextlib.contextmanager
def blame(request: dict[str, Any], doing: str, *, step: bool = False) -> Any:
    """Turn an error of the user's code into a failure at its last line there; ``step`` while the
    model runs."""
    try:
        yield
    except Failed:
        raise
    except (Exception, SystemExit) as error:
        raise Failed(
            choose_kind(error, step=step), f"{doing}: {describe(error)}", find_place(error, request)
        ) from error


def find_place(error: BaseException, request: dict[str, Any]) -> list[Any] | None:
    """The last line of the workdir that the error came through: its path there, the line, and its
    columns from 1, 0 where Python does not say them (before 3.11)."""
    frames: list[tuple[str, int | None, int, int]] = [
        (frame.filename, frame.lineno, *get_columns(frame))
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError):  # of a file that was being read: no frame has it
        columns = error.offset or 0, getattr(error, "end_offset", 0) or 0
        frames.append((error.filename or "", error.lineno, *columns))
    found = None
    for file, line, first, end in frames:
        path = os.path.realpath(file)
        # a frozen module such as os has no file
        if path.startswith(f"{request['workdir']}/") and is_own(path):
            found = [os.path.relpath(path, request["workdir"]), line or 0, first, end]
    return found


def is_own(path: str) -> bool:
    """Whether it is a file of the user's, and not of an environment in the workdir."""
    return Path(path).is_file() and "site-packages" not in Path(path).parts


def get_columns(frame: Any) -> tuple[int, int]:
    """Where the expression of a frame begins, and ends if it does on that line; counted from 1."""
    first = getattr(frame, "colno", None)
    if first is None:
        return 0, 0
    same = frame.end_lineno == frame.lineno and frame.end_colno is not None
    return first + 1, frame.end_colno + 1 if same else 0


def choose_kind(error: BaseException, *, step: bool) -> str:
    """Whose fault an error is; ``step`` if it was raised while the model ran."""
    known = next((kind for kind, is_it in _KINDS.items() if is_it(error)), "")
    if known or not step:
        return known or "program"
    return "line" if isinstance(error, (AttributeError, NameError, TypeError)) else "step"


def is_unset_variable(error: BaseException) -> bool:
    """Whether ``os.environ`` lacks what the program reads of it."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename if frames else ""
    return isinstance(error, KeyError) and last in {"<frozen os>", os.__file__}


def needs_gpu(error: BaseException) -> bool:
    """Whether the program, or torch for it, demands a GPU: by the message, or by the line of an
    assertion, which need not have a message."""
    if not isinstance(error, (AssertionError, RuntimeError, ValueError, SystemExit)):
        return False
    words = "cuda", "nvidia", "gpu", "accelerator device"
    frames = traceback.extract_tb(error.__traceback__)
    text = str(error)
    if isinstance(error, AssertionError) and frames:
        text += f" {frames[-1].line}"
    return any(word in text.lower() for word in words)


def is_data_dependent(error: BaseException) -> bool:
    """Whether the model asks fake tensors for values that they do not have."""
    names = {each.__name__ for each in type(error).__mro__}
    known = {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
    }
    named = "FakeTensor" in str(error) and not isinstance(error, TypeError)  # of an operand
    return bool(names & known) or "data_ptr" in str(error) or named


_KINDS = {
    "import": lambda error: isinstance(error, ImportError),
    "syntax": lambda error: isinstance(error, SyntaxError),
    "data": is_data_dependent,
    "variable": is_unset_variable,
    "gpu": needs_gpu,
}
"""Kind → whether an error is of it; the first counts."""


def check_call(model: Any, args: tuple[Any, ...], words: dict[str, Any], named: str) -> None:
    """Raise Failed where the model does not take these arguments; ``named`` is the function that
    returned them, as the job names it."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # compiled code has none
        return
    try:
        signature.bind(*args, **words)
    except TypeError as error:
        message = f"forward cannot be called with what {named} returns: {error}"
        failure = Failed("call", message, key="batch")
        failure.known = list(signature.parameters)
        raise failure from error


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

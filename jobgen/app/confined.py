"""The child process in which templates that are not jobgen's own are laid out, with limits.

A sandbox keeps a template from what it should not reach, and not from a loop without an end or a
text without a bound; the limits of a process do. It gets pickled values from the process that
started it, and answers in JSON, which cannot make anything happen there.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import resource
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from math import ceil
from types import FrameType, TracebackType
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError

from jobgen.errors import Invalid
from jobgen.render import lay_out

SECONDS = 1
"""Of the processor. The shipped templates take two hundredths of one."""
MEMORY = 256 << 20
"""Bytes of address space, this process included."""
OUTPUT = 1 << 20
"""Bytes of all files together."""
FAULTS = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TemplateError,
    TypeError, ValueError,
)  # fmt: skip
"""What an expression in a template can raise."""


class EndlessError(Exception):
    """The time is up."""


def main() -> None:
    """Lay out what comes on standard input; the files, or what is wrong, on standard output."""
    templates, names, view = pickle.load(sys.stdin.buffer)  # noqa: S301 - from who started us
    _confine()
    try:
        files = _unwrapped(templates, names, view)
        if sum(len(text) for text in files.values()) > OUTPUT:
            answer: dict[str, Any] = {"message": f"it makes more than {OUTPUT >> 20} MiB of text"}
        else:
            answer = {"files": files}
    except (*FAULTS, EndlessError) as error:
        name, line = _place(error, templates)
        answer = {"message": _words(error), "name": name, "line": line}
    sys.stdout.write(json.dumps(answer))


def _unwrapped(
    templates: Mapping[str, str], names: list[str], view: Mapping[str, object]
) -> Mapping[str, str]:
    try:
        return lay_out(templates, names, view)
    except Invalid as error:
        raise error.__cause__ or error from None


def _confine() -> None:
    """Limits from here on; what is imported later needs a file or two."""
    # the alarm is told with its place in the template; where no bytecode runs, the limit ends it
    signal.signal(signal.SIGPROF, _endless)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    for limit, most in (
        (resource.RLIMIT_CPU, ceil(time.process_time() + SECONDS)),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 16),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # not every system has every limit, and one may be lower already
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def _endless(_number: int, _frame: FrameType | None) -> NoReturn:
    raise EndlessError


def _words(error: Exception) -> str:
    if isinstance(error, EndlessError):
        return f"it takes more than {SECONDS} s of the processor: is there a loop without an end?"
    if isinstance(error, MemoryError):
        return f"it needs more than {MEMORY >> 20} MiB of memory"
    if isinstance(error, TemplateNotFound):
        return f"there is no template '{error.name}'"
    if isinstance(error, TemplateError):
        return error.message or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _place(error: Exception, templates: Iterable[str]) -> tuple[str, int]:
    """The innermost template and line; Jinja puts them into the traceback."""
    if isinstance(error, TemplateSyntaxError):
        return error.name or "", error.lineno
    found, at = ("", 0), error.__traceback__
    names = frozenset(templates)
    while isinstance(at, TracebackType):
        if at.tb_frame.f_code.co_filename in names:
            found = (at.tb_frame.f_code.co_filename, at.tb_lineno)
        at = at.tb_next
    return found

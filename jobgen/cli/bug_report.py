"""What is said of jobgen itself: its version, and what to do about a bug in it."""

from __future__ import annotations

import os
import platform
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen import __version__
from jobgen.data.secret_rules import MASK, mask_tokens
from jobgen.errors import Exit, JobgenError

if TYPE_CHECKING:
    from jobgen.cli.call import Call

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.I)


def describe_version() -> str:
    """Version, Python, platform and install path, a line each."""
    return (
        f"jobgen {__version__}\n"
        f"Python {platform.python_version()} ({sys.executable})\n"
        f"{platform.platform()}\n"
        f"{Path(__file__).resolve().parents[1]}\n"
    )


def report_bug(call: Call, error: Exception, words: Sequence[str]) -> Exit:
    """Keep a report of the bug where it can be kept, and say two lines about it."""
    text = "".join(traceback.format_exception(error))
    hidden = _Mask([*call.masked, *_secrets(os.environ.items())])
    called = f"{describe_version()}\n    jobgen {' '.join(words)}"
    report = hidden(f"# A bug in jobgen\n\n{called}\n\n```\n{text}```\n")
    where, name = _keep(report), f"{type(error).__name__}: {error}"
    if call.flags.debug:
        call.output.say(hidden(text), level=3)
    failure = JobgenError(
        f"a bug in jobgen: {hidden(name)[:300]}",
        hint=f"report: {where}" if where else "run it again with --debug to see where",
    )
    if call.flags.json:
        call.write_envelope(None, error=failure)
    call.complain(failure.problems)
    return Exit.BUG


def _keep(report: str) -> str:
    """The path of the report; empty where no file can be written."""
    from jobgen.app.world import World

    world = World.here()
    path = world.state / "bugs" / f"{int(world.now())}-{os.getpid()}.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(report)
    except OSError:
        return ""
    return str(path)


def _secrets(variables: Iterable[tuple[str, str]]) -> list[str]:
    """Values of variables whose names say that they are secret."""
    return [v for name, v in variables if _SECRET_NAME.search(name) and len(v) >= 8]


class _Mask:
    """Replaces every secret by stars, whether it is known or only looks like one."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted({v for v in values if v}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            for form in (value, repr(value)[1:-1]):
                text = text.replace(form, MASK)
        return mask_tokens(text)

"""The release of the NVIDIA driver, and the names that ``module`` prints."""

from __future__ import annotations

import re

from jobgen.survey.hardware.text import clean_lines

_MOST = 4096
_VERSION = r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}"
_DRIVER = re.compile(rf"(?:NVRM version:.{{0,80}}? |Driver Version: *|^)({_VERSION})(?: |$)")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,80}(/[A-Za-z0-9_.+-]{1,80}){0,6}/?")


def parse_driver(text: str) -> str:
    """The driver's release, of /proc/driver/nvidia/version, nvidia-smi, or its bare number."""
    found = (_DRIVER.search(line.strip()) for line in clean_lines(text))
    return next((match[1] for match in found if match), "")


def parse_modules(text: str) -> tuple[str, ...]:
    """The names of ``module -t avail`` and of ``module spider``, without (default) and folders."""
    found: dict[str, None] = {}
    for line in clean_lines(text):
        head, colon, rest = line.strip().partition(": ")
        names = rest.split(",") if colon else [head.partition("(")[0]]
        for name in map(str.strip, names):
            own = not colon or name.startswith(f"{head}/")
            if own and len(found) < _MOST and _MODULE.fullmatch(name) and not name.endswith("/"):
                found[name] = None
    return tuple(found)

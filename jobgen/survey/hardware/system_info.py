"""Short answers: /proc/meminfo, ``df -Pk``, ``ethtool``, ``nvcc``, the driver, ``module``."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import fields, first_number, lines, parse_integer

_MOST = 4096
_VERSION = r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}"
_NVCC = re.compile(rf"release ({_VERSION})")
_DRIVER = re.compile(rf"(?:NVRM version:.{{0,80}}? |Driver Version: *|^)({_VERSION})(?: |$)")
_SMI_CUDA = re.compile(rf"CUDA Version *: *({_VERSION})")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,80}(/[A-Za-z0-9_.+-]{1,80}){0,6}/?")


class FileSystem(NamedTuple):
    """One file system, in KiB."""

    source: str
    total: int
    used: int
    free: int
    mount: str


class Nic(NamedTuple):
    """What ``ethtool`` says of an interface; ``gbps`` None where the speed is unknown."""

    name: str
    gbps: float | None = None
    link: bool | None = None


def memory(text: str) -> int | None:
    """Bytes of memory, of /proc/meminfo's MemTotal."""
    for name, value in fields(text):
        kib, _, unit = value.partition(" ")
        if (
            name == "MemTotal"
            and unit.strip() == "kB"
            and (number := parse_integer(kib)) is not None
        ):
            return number * 1024
    return None


def disks(text: str) -> tuple[FileSystem, ...]:
    """The file systems of ``df -Pk``, ``df -PkT`` too; a long name may break the line."""
    found: list[FileSystem] = []
    broken = ""
    for line in lines(text):
        source, *words = f"{broken} {line}".split(None, 6) or [""]
        broken = source if source and not words else ""
        words = words[1:] if words and parse_integer(words[0]) is None else words
        total, used, free = ([parse_integer(word) for word in words[:3]] + [None] * 3)[:3]
        if total is None or used is None or free is None or len(words) < 5:
            continue
        if len(found) < _MOST:
            found.append(FileSystem(source, total, used, free, " ".join(words[4:])))
    return tuple(found)


def ethernet(text: str) -> tuple[Nic, ...]:
    """The interfaces that ``ethtool NAME`` described, one answer after the other."""
    found: list[Nic] = []
    for name, value in fields(text):
        if name.startswith("Settings for ") and len(found) < _MOST:
            found.append(Nic(name.removeprefix("Settings for ")[:64]))
        elif found and name == "Speed" and value.endswith("Mb/s"):
            mbps = first_number(value.removesuffix("Mb/s"))
            found[-1] = found[-1]._replace(gbps=mbps / 1000 if mbps else None)
        elif found and name == "Link detected":
            found[-1] = found[-1]._replace(link=value.startswith("yes"))
    return tuple(found)


def cuda(text: str) -> str:
    """The release of CUDA that ``nvcc --version`` or the head of ``nvidia-smi`` names, or ''."""
    return _first(text, _NVCC) or _first(text, _SMI_CUDA)


def driver(text: str) -> str:
    """The driver's release, of /proc/driver/nvidia/version, nvidia-smi, or its bare number."""
    return _first(text, _DRIVER)


def _first(text: str, pattern: re.Pattern[str]) -> str:
    found = (pattern.search(line.strip()) for line in lines(text))
    return next((match[1] for match in found if match), "")


def modules(text: str) -> tuple[str, ...]:
    """The names of ``module -t avail`` and of ``module spider``, without (default) and folders."""
    found: dict[str, None] = {}
    for line in lines(text):
        head, colon, rest = line.strip().partition(": ")
        names = rest.split(",") if colon else [head.partition("(")[0]]
        for name in map(str.strip, names):
            own = not colon or name.startswith(f"{head}/")
            if own and len(found) < _MOST and _MODULE.fullmatch(name) and not name.endswith("/"):
                found[name] = None
    return tuple(found)

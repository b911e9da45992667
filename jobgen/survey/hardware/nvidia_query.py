"""``nvidia-smi -q``: the health of each GPU. Xids are not in it; see ``xid``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobgen.survey.hardware.query import reading
from jobgen.survey.hardware.text import lines, parse_integer

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_DEPTH = 8
MOST = 64
"""GPUs that are read."""
HARMLESS = frozenset(
    {"Idle", "Applications Clocks Setting", "SW Power Cap", "Display Clock Setting"}
)
"""Reasons for a lower clock that are no fault: nothing to do, as told, or at the power limit."""

Tree = Mapping[tuple[str, ...], str]


class Health(NamedTuple):
    """One GPU. None and '' where it says nothing. Degrees Celsius, W, MHz, MiB.

    ``reasons`` are the active ones that lower the clocks; ``corrected`` and ``uncorrected`` are ECC
    errors since the driver was loaded, ``lifetime`` the uncorrected ones of the card's life;
    ``remapped`` rows, of correctable and uncorrectable errors; ``pending`` what waits for a reset.
    """

    bus: str
    name: str = ""
    uuid: str = ""
    persistence: str = ""
    mig: str = ""
    ecc: str = ""
    corrected: int | None = None
    uncorrected: int | None = None
    lifetime: int | None = None
    remapped: tuple[int, int] | None = None
    pending: bool = False
    remap_failed: bool = False
    reset_required: bool = False
    reasons: tuple[str, ...] = ()
    temperature: float | None = None
    slowdown: float | None = None
    shutdown: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    sm_clock_max: float | None = None
    memory_total: float | None = None
    memory_used: float | None = None
    fabric: str = ""

    @property
    def throttled(self) -> tuple[str, ...]:
        """The reasons that are a fault: heat, power brake, hardware slowdown."""
        return tuple(r for r in self.reasons if r not in HARMLESS)


class GpuAnswer(NamedTuple):
    """The whole answer."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Health, ...] = ()


def parse(text: str) -> GpuAnswer:
    """What ``nvidia-smi -q`` said of the driver and of each GPU."""
    head: Tree = {}
    gpus = []
    for bus, tree in _sections(text):
        if bus:
            gpus.append(_health(bus, tree))
        else:
            head = tree
    driver, cuda = head.get(("Driver Version",), ""), head.get(("CUDA Version",), "")
    return GpuAnswer(driver[:32], cuda[:32], tuple(gpus))


def _sections(text: str) -> Iterator[tuple[str, Tree]]:
    """What stands before the first GPU, then each GPU: its bus address, and path → value."""
    bus = ""
    tree: dict[tuple[str, ...], str] = {}
    path: list[tuple[int, str]] = []
    found = 0
    for line in lines(text):
        words = line.strip()
        if match := _GPU.fullmatch(line):
            yield bus, tree
            bus, tree, path, found = match[1], {}, [], found + 1
            if found > MOST:
                return
        elif words:
            name, colon, value = words.partition(" : ")
            indent = len(line) - len(words)
            path = [step for step in path if step[0] < indent][:_DEPTH]
            path.append((indent, name.strip()))
            if colon:
                tree.setdefault(tuple(step[1] for step in path), value.strip())
    yield bus, tree


def _health(bus: str, tree: Tree) -> Health:
    total, used = ("FB Memory Usage", "Total"), ("FB Memory Usage", "Used")
    remapped = [parse_integer(tree.get(("Remapped Rows", k), "")) for k in _REMAPPED]
    return Health(
        bus,
        tree.get(("Product Name",), ""),
        tree.get(("GPU UUID",), ""),
        _word(tree, "Persistence Mode"),
        _word(tree, "MIG Mode", "Current"),
        _word(tree, "ECC Mode", "Current") or _word(tree, "Ecc Mode", "Current"),
        _errors(tree, "Volatile", _CORRECTED),
        _errors(tree, "Volatile", _UNCORRECTED),
        _errors(tree, "Aggregate", _UNCORRECTED),
        (remapped[0] or 0, remapped[1] or 0) if any(r is not None for r in remapped) else None,
        _word(tree, "Remapped Rows", "Pending") == "Yes"
        or _word(tree, "Retired Pages", "Pending Page Blacklist") == "Yes",
        _word(tree, "Remapped Rows", "Remapping Failure Occurred") == "Yes",
        _word(tree, "GPU Reset Status", "Reset Required") == "Yes",
        tuple(dict.fromkeys(_reasons(tree))),
        _number(tree, "Temperature", "GPU Current Temp"),
        _number(tree, "Temperature", "GPU Slowdown Temp"),
        _number(tree, "Temperature", "GPU Shutdown Temp"),
        _power(tree, ("Power Draw", "Average Power Draw", "Instantaneous Power Draw")),
        _power(tree, ("Current Power Limit", "Enforced Power Limit", "Power Limit")),
        _number(tree, "Clocks", "SM"),
        _number(tree, "Max Clocks", "SM"),
        _number(tree, *total),
        _number(tree, *used),
        _word(tree, "Fabric", "State"),
    )


_REMAPPED = ("Correctable Error", "Uncorrectable Error")
_CORRECTED = re.compile(r"(SRAM|DRAM) Correctable|Single Bit")
_UNCORRECTED = re.compile(r"(SRAM|DRAM) Uncorrectable.{0,12}|Double Bit")


def _word(tree: Tree, *path: str) -> str:
    value = tree.get(path, "")
    return "" if value.strip("[]") in ("N/A", "Not Supported") else value


def _number(tree: Tree, *path: str) -> float | None:
    return reading(tree.get(path, "")).number


def _power(tree: Tree, names: tuple[str, ...]) -> float | None:
    """Drivers before 535 call the section Power Readings."""
    found = (_number(tree, s, n) for s in ("GPU Power Readings", "Power Readings") for n in names)
    return next((value for value in found if value is not None), None)


def _reasons(tree: Tree) -> Iterator[str]:
    """The reasons that are active. Drivers before 535 call them Clocks Throttle Reasons."""
    for path, value in tree.items():
        if path[0] in ("Clocks Event Reasons", "Clocks Throttle Reasons") and value == "Active":
            yield path[-1]


def _errors(tree: Tree, when: str, which: re.Pattern[str]) -> int | None:
    """The sum of these counters; a Total where the older layout has one. None: it counts none."""
    found: dict[str, int] = {}
    for path, value in tree.items():
        kind = next((step for step in path[2:] if which.fullmatch(step)), "")
        if (
            path[:2] == ("ECC Errors", when)
            and kind
            and (count := parse_integer(value)) is not None
        ):
            found[path[-1]] = count
    return found.get("Total", sum(found.values())) if found else None

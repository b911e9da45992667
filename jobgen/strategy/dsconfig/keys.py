"""Every key of a configuration against DeepSpeed's own catalogue, at whatever depth it stands.

DeepSpeed stops at an unknown key in most blocks, and silently ignores one at the top and in the
others (0.19: all whose settings are read one by one).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.data import DeepSpeedKey, deepspeed_keys
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.dsconfig.chosen import Path


class KeyDiagnostic(NamedTuple):
    """What is wrong with a key, and what to write."""

    path: Path
    message: str
    hint: str


def check_keys(values: Mapping[str, Any], *, auto: bool) -> Iterator[KeyDiagnostic]:
    """What DeepSpeed would not read as it is meant. ``auto``: somebody fills that word in."""
    yield from _inside(values, (), auto=auto)


def _inside(values: Mapping[str, Any], path: Path, *, auto: bool) -> Iterator[KeyDiagnostic]:
    for name, value in values.items():
        here = (*path, name)
        known = _known(here)
        if known is None:
            yield KeyDiagnostic(here, *_unknown(here))
        elif known.status == "removed":
            message = f"{'.'.join(here)} was removed from DeepSpeed, and 0.19 rejects it"
            yield KeyDiagnostic(here, message, "remove it")
        elif known.status == "deprecated":
            message = f"{'.'.join(here)} is an old name that DeepSpeed no longer reads"
            yield KeyDiagnostic(here, message, f"use {known.instead}")
        else:
            yield from _value(known, value, here, auto=auto)


def _value(known: DeepSpeedKey, value: Any, path: Path, *, auto: bool) -> Iterator[KeyDiagnostic]:
    name = ".".join(path)
    if known.kind == "block" and isinstance(value, dict):
        yield from _inside(value, path, auto=auto)
    elif known.kind == "block" and value is not None:
        yield KeyDiagnostic(path, f"{name} must be a mapping", f"such as {_example(path)}")
    elif known.kind == "free" and isinstance(value, dict) and path[-1] == "params" and not auto:
        for inner, held in value.items():
            if held == "auto":
                yield _auto((*path, inner))
    elif value == "auto" and known.kind == "value" and not auto:
        yield _auto(path)


def _auto(path: Path) -> KeyDiagnostic:
    message = f'{".".join(path)} is "auto", which only accelerate and the Trainer fill in'
    return KeyDiagnostic(path, message, "set a value, or remove it")


def _known(path: Path) -> DeepSpeedKey | None:
    known = deepspeed_keys()
    dotted = ".".join(path)
    return known.get(dotted) or known.get(".".join((*path[:-1], "*"))) or _any_name(path)


def _any_name(path: Path) -> DeepSpeedKey | None:
    """Below a block whose keys are names of the user's own."""
    known = deepspeed_keys()
    starred = [key for key in known if "*" in key and key.count(".") == len(path) - 1]
    for key in starred:
        if all(a in {"*", b} for a, b in zip(key.split("."), path, strict=True)):
            return known[key]
    return None


def _unknown(path: Path) -> tuple[str, str]:
    block, name = path[:-1], path[-1]
    strict = any(key.strict for key in _siblings(block))
    fate = "DeepSpeed rejects it" if strict else "DeepSpeed silently ignores it"
    message = f"unknown DeepSpeed key {'.'.join(path)}; {fate}"
    return message, _guess(block, name)


def _guess(block: Path, name: str) -> str:
    names = [key.path.rpartition(".")[2] for key in _siblings(block)]
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"did you mean '{near[0]}'?"
    elsewhere = [k for k, key in deepspeed_keys().items() if k.endswith(f".{name}") and key.current]
    if elsewhere:
        return f"it belongs in {elsewhere[0].rpartition('.')[0]}"
    return "remove it"


def _siblings(block: Path) -> list[DeepSpeedKey]:
    above = ".".join(block)
    known = deepspeed_keys()
    return [key for path, key in known.items() if path.rpartition(".")[0] == above and key.current]


def _example(path: Path) -> str:
    first = next((key.path.rpartition(".")[2] for key in _siblings(path)), "enabled")
    first = {"zero_optimization": "stage"}.get(path[-1], first)
    return f'"{path[-1]}": {{"{first}": …}}'

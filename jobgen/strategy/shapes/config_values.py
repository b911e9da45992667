"""Values of a config.json, each checked as it is read, with a fault for what no model has."""

from __future__ import annotations

import json
from collections.abc import Mapping

from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.shapes.config_keys import Keys
from jobgen.strategy.shapes.families import FIXED_HEADS
from jobgen.strategy.shapes.size_rules import list_conflicts

MOST = 1 << 30
"""No size of a model is larger; what is, was not meant."""
_WORDS = ("true", "false")


class SizeFault(NamedTuple):
    """Why a config.json makes no model."""

    message: str
    keys: tuple[str, ...] = ()
    """Of the file, the last of which is to be changed; none where a key is missing."""
    hint: str = ""


class ConfigValues:
    """A config.json, and what is wrong with it."""

    def __init__(self, data: Mapping[str, object]) -> None:
        self.data = data
        self.faults: list[SizeFault] = []

    def size(self, keys: tuple[str, ...], default: int | None = None, least: int = 1) -> int | None:
        """The first of these keys that has a value; a fault where that is no size."""
        for key in keys:
            value = self.data.get(key)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST:
                return value
            self.refuse(key, value, f"an integer from {least} to {MOST}")
            return None
        return default

    def refuse(self, key: str, value: object, wanted: str) -> None:
        """A fault of a value that is not what it must be; a number or a word in quotes, or a whole
        number with a point, has a hint."""
        text = clip(json.dumps(value, default=str))
        whole = isinstance(value, float) and value.is_integer() and 0 < value <= MOST
        right = str(int(value)) if isinstance(value, float) and whole else ""
        if isinstance(value, str) and (_read_number(value) is not None or value.lower() in _WORDS):
            right = value.strip().lower()
        hint = f"write {right}" if right else ""
        self.faults.append(SizeFault(f"{key} must be {wanted}, not {text}", (key,), hint))

    def need(self, keys: tuple[str, ...], default: int | None = None) -> int:
        """The first of these keys that has a value; a fault where none has, or it is no size."""
        before = len(self.faults)
        value = self.size(keys, default)
        if value is None and len(self.faults) == before:
            self.faults.append(SizeFault(f"{keys[0]} is missing"))
        return value or 1

    def name(self, keys: tuple[str, ...]) -> str:
        """The first of these keys that has a value."""
        return next((key for key in keys if self.data.get(key) is not None), "".join(keys[:1]))

    def add_conflicts(self, sizes: Mapping[str, int | None], keys: Keys) -> None:
        """A fault for each two of these sizes that do not go together."""
        names = {size: self.name(each) for size, each in keys.items()}
        found = list_conflicts(sizes, names)
        self.faults += (SizeFault(each.message, each.keys, each.hint) for each in found)

    def check_head_dim(self, kind: str, sizes: Mapping[str, int | None], keys: Keys) -> None:
        """A fault of a head_dim that models of this type do not read."""
        hidden, heads, dim = (sizes[size] for size in ("hidden", "heads", "head_dim"))
        if kind not in FIXED_HEADS or not (hidden and heads and dim) or hidden // heads == dim:
            return
        width, count, key = (self.name(keys[size]) for size in ("hidden", "heads", "head_dim"))
        right = hidden // heads
        message = f"{key} {dim}, but models of type {kind} have {width} {hidden} / {count} {heads}"
        hint = f"set {key}: {right}, or remove it"
        self.faults.append(SizeFault(f"{message} = {right}", (width, count, key), hint))

    def has_wrong_number(self, fault: SizeFault) -> bool:
        """Whether the fault is a number, with quotes or without, that is no size of any model."""
        value = self.data.get(fault.keys[-1]) if len(fault.keys) == 1 else None
        if isinstance(value, str):
            return _read_number(value) is not None
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def flag(self, key: str, default: bool = False) -> bool:
        """Whether it says true; the default where it says nothing, a fault where it says neither
        true nor false."""
        value = self.data.get(key)
        if (
            value is not None
            and not isinstance(value, bool)
            and (key,) not in (fault.keys for fault in self.faults)
        ):
            self.refuse(key, value, "true or false")
        return value if isinstance(value, bool) else default


def _read_number(text: str) -> float | None:
    """The number in quotes; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None

"""A config.json of the Hub, read key by key; what is wrong with it is collected."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.shapes.config_keys import Keys
from jobgen.strategy.shapes.size_rules import list_conflicts

MOST = 1 << 30
"""No size of a model is larger; what is, was not meant."""


class SizeFault(NamedTuple):
    """Why a config.json makes no model."""

    message: str
    keys: tuple[str, ...] = ()
    """Of the file, the last of which is to be changed; none where a key is missing."""
    hint: str = ""


class HubConfig:
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
            message = f"{key} must be an integer from {least} to {MOST}, not {clip(str(value))}"
            self.faults.append(SizeFault(message, (key,)))
            return None
        return default

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

    def has_wrong_integer(self, fault: SizeFault) -> bool:
        """Whether the fault is a number that is no size of any model."""
        value = self.data.get(fault.keys[-1]) if len(fault.keys) == 1 else None
        return isinstance(value, int) and not isinstance(value, bool)

    def flag(self, key: str, default: bool = False) -> bool:
        """Whether it says true; the default where it says neither true nor false."""
        value = self.data.get(key)
        return value if isinstance(value, bool) else default

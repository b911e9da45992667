"""Sizes of a transformer that no model has together, whatever file they are written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt

from jobgen.named_tuple import NamedTuple


class SizeConflict(NamedTuple):
    """Two sizes that do not go together."""

    keys: tuple[str, str]
    """As the file writes them; the last is to be changed."""
    message: str
    hint: str
    changes: Mapping[str, int]
    """What the hint sets; hints of other conflicts go with it."""


def list_conflicts(
    sizes: Mapping[str, int | None], names: Mapping[str, str]
) -> Iterator[SizeConflict]:
    """Conflicts of ``hidden``, ``heads``, ``kv_heads``, ``head_dim``, ``experts`` and
    ``experts_active``, each of which may be missing. ``names`` are their keys in the file."""
    hidden, heads, kv_heads = (sizes.get(size) for size in ("hidden", "heads", "kv_heads"))
    nearest = heads
    if hidden and heads and hidden % heads and not sizes.get("head_dim"):
        keys = (names["hidden"], names["heads"])
        message = f"{keys[1]} {heads} does not divide {keys[0]} {hidden}, and head_dim is not set"
        nearest = _find_divisor(hidden, heads, kv_heads or 1)
        changes = {"heads": nearest}
        if kv_heads and heads % kv_heads == 0 and nearest % kv_heads:
            changes["kv_heads"] = _find_divisor(nearest, kv_heads)
        hint = " and ".join(f"{names[size]}: {value}" for size, value in changes.items())
        yield SizeConflict(keys, message, f"set {hint}, or head_dim", changes)
    if heads and kv_heads and nearest and heads % kv_heads:
        keys = (names["heads"], names["kv_heads"])
        message = f"{keys[1]} {kv_heads} does not divide {keys[0]} {heads}"
        other = _find_divisor(nearest, kv_heads)
        yield SizeConflict(keys, message, f"set {keys[1]}: {other}", {"kv_heads": other})
    experts, active = sizes.get("experts"), sizes.get("experts_active")
    if experts and active and active > experts:
        keys = (names["experts"], names["experts_active"])
        message = f"{keys[1]} {active} is more than {keys[0]} {experts}"
        hint = f"set {keys[1]}: {experts} or less"
        yield SizeConflict(keys, message, hint, {"experts_active": experts})


def _find_divisor(number: int, near: int, multiple: int = 1) -> int:
    """The divisor of a number that is nearest to another number; a multiple of a third number if
    there is one."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    divisors = (*small, *(number // n for n in small))
    return min(divisors, key=lambda divisor: (divisor % multiple > 0, abs(divisor - near)))

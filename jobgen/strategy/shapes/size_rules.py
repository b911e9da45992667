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


def list_conflicts(
    sizes: Mapping[str, int | None], names: Mapping[str, str]
) -> Iterator[SizeConflict]:
    """Conflicts of ``hidden``, ``heads``, ``kv_heads``, ``head_dim``, ``experts`` and
    ``experts_active``, each of which may be missing. ``names`` are their keys in the file."""
    hidden, heads, kv_heads = (sizes.get(size) for size in ("hidden", "heads", "kv_heads"))
    if hidden and heads and hidden % heads and not sizes.get("head_dim"):
        keys = (names["hidden"], names["heads"])
        message = f"{keys[1]} {heads} does not divide {keys[0]} {hidden}, and head_dim is not set"
        hint = f"set {keys[1]}: {_find_divisor(hidden, heads)}, or head_dim"
        yield SizeConflict(keys, message, hint)
    if heads and kv_heads and heads % kv_heads:
        keys = (names["heads"], names["kv_heads"])
        message = f"{keys[1]} {kv_heads} does not divide {keys[0]} {heads}"
        yield SizeConflict(keys, message, f"set {keys[1]}: {_find_divisor(heads, kv_heads)}")
    experts, active = sizes.get("experts"), sizes.get("experts_active")
    if experts and active and active > experts:
        keys = (names["experts"], names["experts_active"])
        message = f"{keys[1]} {active} is more than {keys[0]} {experts}"
        yield SizeConflict(keys, message, f"set {keys[1]}: {experts} or less")


def _find_divisor(number: int, near: int) -> int:
    """The divisor of a number that is nearest to another number."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return min((*small, *(number // n for n in small)), key=lambda divisor: abs(divisor - near))

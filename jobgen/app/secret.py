"""Secrets by reference: where each one is found, and the one file that delivers their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.world import World, read_regular
from jobgen.errors import CheckFailed, Diagnostic
from jobgen.model.bundle import SECRETS_FILE, BundleFile
from jobgen.shell import quote

if TYPE_CHECKING:
    from jobgen.model.job import SecretRef

LIMIT = 64 * 1024


def locate_secrets(world: World, refs: Sequence[SecretRef], base: Path) -> dict[str, str]:
    """Name → where its value was seen, for those that are there. No value is kept."""
    return {ref.name: _origin(ref) for ref in refs if _value(world, ref, base) is not None}


def build_delivery(world: World, refs: Sequence[SecretRef], base: Path) -> BundleFile | None:
    """The 0600 file of exports with all values; None without secrets.

    Raises CheckFailed with every secret that is missing. The values are added to
    ``world.masked``.
    """
    if not refs:
        return None
    values = {ref.name: _value(world, ref, base) for ref in refs}
    missing = [ref for ref in refs if values[ref.name] is None]
    if missing:
        raise CheckFailed(*(_missing(ref) for ref in missing))
    world.masked.update(v for v in values.values() if v)
    lines = [f"export {name}={quote(value)}\n" for name, value in values.items() if value]
    return BundleFile(SECRETS_FILE, "".join(lines).encode("utf-8", "surrogateescape"), 0o600)


def _missing(ref: SecretRef) -> Diagnostic:
    where = _origin(ref)
    hint = (
        f"set it before you submit: read -rs {ref.ref} && export {ref.ref}"
        if ref.source == "env"
        else f"put the value into that file, readable by you alone: chmod 600 {ref.ref}"
    )
    return Diagnostic("J152", f"secret {ref.name}: nothing found in {where}", hint=hint)


def _origin(ref: SecretRef) -> str:
    return f"your environment, ${ref.ref}" if ref.source == "env" else f"file {ref.ref}"


def get_path(world: World, ref: SecretRef, base: Path) -> Path:
    """The file that a secret's value is read from."""
    return base / Path(ref.ref.replace("~/", f"{world.home}/", 1))


def _value(world: World, ref: SecretRef, base: Path) -> str | None:
    """The value, without the newline that an editor leaves at a file's end; None if not there."""
    if ref.source == "env":
        return world.environ.get(ref.ref) or None
    try:
        raw = read_regular(get_path(world, ref, base), LIMIT)
    except OSError:
        return None
    return raw.decode("utf-8", "surrogateescape").removesuffix("\n") or None

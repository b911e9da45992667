"""What to type for a ``--set`` that names neither a variable nor a key of the job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobgen.load.faults import translate_key
from jobgen.load.tree import format_scalar
from jobgen.model.fields import find_nearest
from jobgen.shell import quote
from jobgen.source import resolve_scalar, scan

_EXAMPLES = frozenset({"run", "setup"})
"""Keys that a hint shows with an example, which must not replace what the file has."""


def suggest_set(name: str, value: str, variables: Sequence[str]) -> str:
    """The nearest variable or key, what another tool's word is here, or how to declare it."""
    near = find_nearest(name, variables, 0.7)
    if near:
        return f"did you mean '{near}'?"
    first, dot, _ = name.partition(".")
    hint = translate_key(first, resolve_scalar(value) if value and not dot else None)
    if hint:
        return _format_options(hint) or hint
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        text = value if re.fullmatch(r"[\w.+-]{1,60}", value, re.ASCII) else "VALUE"
        return f"declare it in the job file first: vars: {{{name}: {text}}}"
    return "expected a variable from vars:, or a key such as launcher.type"


def _format_options(hint: str) -> str:
    """``write slurm: {partition: gpu}`` → ``use --set slurm.partition=gpu``; else empty."""
    end = hint.partition(", ")[0] if "{" not in hint else hint[: hint.rfind("}") + 1]
    remark = hint[len(end) :]
    source = scan(end.removeprefix("write "), "hint")
    if not hint.startswith("write ") or source.problems or not isinstance(source.data, Mapping):
        return ""
    leaves = list(_list_leaves(source.data, ()))
    if not leaves or any("…" in text or path in _EXAMPLES for path, text in leaves):
        return ""
    options = " ".join(f"--set {quote(f'{path}={text}')}" for path, text in leaves)
    return f"use {options}{remark}"


def _list_leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _list_leaves(each, (*path, name))
    elif not isinstance(value, list):
        yield ".".join(path), format_scalar(value)

"""Lines of bash that several files share: the setup, and what wins over it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from jobgen.model.decision import NOWHERE, Decision, SelfEvident, Setting
from jobgen.model.plan import Precedence
from jobgen.shell import Raw, quote_expandable

_WIDTH = 96


def format_setup(setup: Sequence[Setting]) -> list[Raw]:
    """Lines of setup, with a comment where the place changes."""
    lines: list[Raw] = []
    last = NOWHERE
    for setting in setup:
        if setting.place != last:
            lines.append(Raw(f"# {format_comment(str(setting.place))}"))
            last = setting.place
        lines.append(Raw(setting.value))
    return lines


def format_site_setup(setup: Sequence[Setting], precedence: Precedence) -> list[Raw]:
    """Lines of the site or of a vendor, between those that keep the job's environment."""
    if not setup:
        return []
    kept = " ".join((*precedence.gpus, *precedence.names))
    begin = "jobgen_env=$(declare -p "
    saved = textwrap.wrap(
        kept, _WIDTH, initial_indent=begin, subsequent_indent="    ", break_on_hyphens=False
    )
    return [
        Raw("# The lines before eval do not override variables of Slurm, jobgen and the job."),
        Raw(" \\\n".join(saved) + " 2>/dev/null) || true"),
        *format_setup(setup),
        *([Raw(f"unset -v {' '.join(precedence.gpus)}")] if precedence.gpus else []),
        Raw('eval "$jobgen_env"'),
        *(Raw(f"export {name}={quote_value(s.value)}") for name, s in precedence.again.items()),
    ]


def format_exports(folders: Mapping[str, str]) -> Raw:
    """Variables that name folders below ``$caches``, in one command."""
    words = ("export", *(f"{name}=$caches/{folder}" for name, folder in folders.items()))
    return Raw(" \\\n    ".join(textwrap.wrap(" ".join(words), _WIDTH, break_on_hyphens=False)))


def quote_value(value: str) -> str:
    """A value after ``NAME=``; a second = reads as a comparison, so it is quoted."""
    text = quote_expandable(value)
    return f"'{text}'" if text.startswith("=") else text


def format_comment(text: str) -> Raw:
    """Text that stays a comment, whatever it holds."""
    return Raw("".join(c if c.isprintable() else " " for c in text))


def explain_setting(setting: Decision[Any]) -> Raw:
    """The reason and the place of a setting, as a comment."""
    if isinstance(setting.why, SelfEvident):
        return format_comment(str(setting.place))
    place = "" if setting.place.kind == "rule" else f" ({setting.place})"
    return format_comment(setting.why + place)

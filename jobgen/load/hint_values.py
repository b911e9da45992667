"""What a hint tells to write, with the value that stands in the file where it fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.load.aliases import get_form
from jobgen.load.tree import format_scalar
from jobgen.model.form import Form, Refusal

_SLOT = r"<([^<>]*)>"
_LONGEST = 60


def fill(write: str, word: str, value: object, form: type[Form]) -> str:
    """The YAML of a table with the user's value in its slot, else with the slot's example.

    A slot is ``<example>``; a key alone has one behind it. The value is put in only where the form
    accepts the result, so that a hint never leads to the next refusal.
    """
    text = _read_plain(word, value)
    for candidate in _put_in(write, text) if text else ():
        if _fits(candidate, text, form):
            return candidate
    return re.sub(_SLOT, lambda match: match[1], write)


def rewrite(forms: Mapping[str, str], word: str, value: object) -> str:
    """What to write for a value of a known shape, from ``pattern → YAML``; empty if none fits."""
    text = _read_plain(word, value)
    for pattern, write in forms.items():
        match = re.fullmatch(pattern, text) if text else None
        if match:
            return match.expand(write)
    return ""


def accepts(form: type[Form], name: str, value: object) -> bool:
    """Whether the value is right for this key of a form."""
    return _is_right(form, name, value)


def _read_plain(word: str, value: object) -> str:
    """The value as it is written; empty if it is long, not one line, or perhaps a secret."""
    from jobgen.data.secret_rules import has_token
    from jobgen.load.env_rules import is_sensitive

    if value is None or isinstance(value, (Mapping, list)):
        return ""
    text = format_scalar(value)
    shown = text.isprintable() and 0 < len(text) <= _LONGEST and text.isascii()
    return text if shown and not is_sensitive(word) and not has_token(text) else ""


def _put_in(write: str, text: str) -> Iterator[str]:
    """The YAML with this value, as it stands and quoted."""
    quoted = "'" + text.replace("'", "''") + "'"
    for form in (text, quoted):
        if re.search(_SLOT, write):
            yield re.sub(_SLOT, lambda _, form=form: form, write)  # type: ignore[misc]
        elif re.fullmatch(r"\w+", write):
            yield f"{write}: {form}"


def _fits(yaml: str, text: str, form: type[Form]) -> bool:
    from jobgen.source import scan

    source = scan(yaml, "hint")
    if source.problems or len(source.data) != 1:
        return False
    [(name, value)] = source.data.items()
    return any(text in leaf for leaf in _list_leaves(value)) and _is_right(form, name, value)


def _list_leaves(value: Any) -> list[str]:
    """Every scalar of a value as it is written."""
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _list_leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _list_leaves(each)]
    return [format_scalar(value)]


def _is_right(form: type[Form], name: str, value: Any) -> bool:
    """Whether a key takes this value. Keys that it lacks besides do not count."""
    key = form.keys.get(name)
    if key is None:
        return False
    if key.check.schema.get("form") == "slurm":
        return isinstance(value, Mapping) and all(_is_option(n, v) for n, v in value.items())
    inner = get_form(key)
    if inner is not None and isinstance(value, Mapping):
        return all(_is_right(inner, n, v) for n, v in value.items())
    try:
        key.check(value)
    except Refusal as refusal:
        return all(fault.code == "J116" for fault in refusal.faults)
    return True


def _is_option(name: str, value: Any) -> bool:
    """Whether sbatch's option takes this value."""
    from jobgen.data import sbatch_options
    from jobgen.load.sbatch_values import Bad, check_value, find_unsafe

    option, flag = sbatch_options().get(name), getattr(value, "flag", value)
    if option is None or isinstance(value, (Mapping, list)) or value is None:
        return False
    if isinstance(flag, bool):
        return option.takes != "required"
    try:
        check_value(option, format_scalar(value))
    except Bad:
        return False
    return option.takes != "no" and not find_unsafe(format_scalar(value))

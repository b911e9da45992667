"""Every key of job.yaml and cluster.yaml with its values, default and example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobgen.load.aliases import get_form, get_item_form
from jobgen.load.tree import format_scalar
from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import Form, Key
from jobgen.model.job import JobSpec
from jobgen.model.units import Walltime, format_size
from jobgen.named_tuple import NamedTuple

SBATCH_OPTIONS = "long options of sbatch"
_FILES: Mapping[str, type[Form]] = {"job.yaml": JobSpec, "cluster.yaml": ClusterProfile}
_FORMS = {"slurm": SBATCH_OPTIONS, "gpu": "a name of the GPU catalogue"}


class KeyEntry(NamedTuple):
    """A key of one of the two files."""

    file: str
    path: str
    """With dots: ``train.micro_batch``."""
    meaning: str
    values: str
    """What may be written, in a few words."""
    default: str
    """Empty where leaving the key out is its own meaning."""
    needed: bool
    example: str
    """A line of YAML; empty where none is known."""
    inner: bool
    """Whether it has keys of its own."""


def list_keys() -> Iterator[KeyEntry]:
    """Every key, those of job.yaml first, each before the keys inside it."""
    for file, form in _FILES.items():
        yield from _list_form(file, form, ())


def _list_form(file: str, form: type[Form], above: tuple[str, ...]) -> Iterator[KeyEntry]:
    for name, key in form.keys.items():
        if key.hidden:
            continue
        path, inner = (*above, name), get_inner_form(key, above)
        yield KeyEntry(
            file,
            ".".join(path),
            key.doc,
            describe_values(key.check.schema),
            describe_default(key),
            key.needed,
            _find_example(key, path),
            inner is not None,
        )
        if inner is not None:
            yield from _list_form(file, inner, path)


def get_inner_form(key: Key, above: Sequence[str]) -> type[Form] | None:
    """The form whose keys stand below this one; None for a key of a step or a group that is
    described where the job has it."""
    inner = get_item_form(key) or get_form(key)
    is_jobs = inner in [get_form(each) for each in JobSpec.keys.values()]
    return None if is_jobs and [*above[:1]] in (["steps"], ["groups"]) else inner


_OPENED = {"steps": ("steps: [", "]"), "groups": ("groups: {NAME: ", "}")}
"""Keys of a job that hold several mappings → what stands around one of them."""


def _find_example(key: Key, path: tuple[str, ...]) -> str:
    """One value in its place: the key's own, else one that its schema lists."""
    value = key.example
    for schema in (key.check.schema, *key.check.schema.get("anyOf", ())):
        words = [*schema.get("examples", ()), *schema.get("enum", ())]
        chosen = next((word for word in words if word != key.default), "")
        value = value or format_scalar(chosen)
    *above, name = path
    line = f"{name}: {value}"
    for section in reversed(above):
        start, end = _OPENED.get(section, (f"{section}: ", ""))
        line = f"{start}{{{line}}}{end}"
    return line if value else ""


def describe_values(schema: Mapping[str, Any]) -> str:
    """What may be written, in a few words of Markdown."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(describe_values(each) for each in schema["anyOf"]))
    known: Mapping[str, Callable[[Any], str]] = {
        "form": lambda form: (
            _FORMS.get(form, "a mapping") if isinstance(form, str) else "a mapping"
        ),
        "enum": _quote_all,
        "examples": lambda examples: "such as " + _quote_all(examples[:3]),
        "const": _quote,
        "title": str,
        "pattern": lambda _: "MIN:MAX",
    }
    for name, describe in known.items():
        if name in schema:
            return describe(schema[name])
    return _describe_type(schema)


def _describe_type(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", "string")
    if types == "integer":
        return f"a whole number from {schema.get('minimum', 0)}"
    if types == "object":
        return "NAME: value, one a line"
    if types == "array" and "items" in schema:
        return f"a list of {describe_values(schema['items'])}"
    table = {"boolean": "`true` or `false`", "number": "a number"}
    if isinstance(types, list):
        return "text or a list of lines" if "array" in types else "text"
    return table.get(types, "text")


def describe_default(key: Key) -> str:
    """The default as it would be written, in Markdown; empty if there is none to write."""
    value = key.default
    if key.needed or value in (None, "", (), {}) or isinstance(value, Form):
        return ""
    if isinstance(value, Walltime):
        return _quote(value.format_short())
    if isinstance(value, tuple):
        return _quote_all(value)
    if isinstance(value, bool):
        return _quote(str(value).lower())
    size = isinstance(value, int) and value >= 2**20
    return _quote(format_size(value).replace(" ", "") if size else value)


def _quote(value: object) -> str:
    return f"`{value}`"


def _quote_all(values: Iterable[object]) -> str:
    return ", ".join(map(_quote, values))

"""JSON Schema of the two files, for editors; and the reference of every key, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobgen.data import gpus, sbatch_options
from jobgen.load.aliases import get_form
from jobgen.model.form import Form

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALAR = {"type": ["string", "number", "boolean"]}


def build_form_schema(kind: type[Form], title: str) -> dict[str, Any]:
    """The JSON Schema of what may be written in this form's file."""
    found: dict[str, Any] = {}
    top = _form(kind, found)
    if "extends" in kind.keys:
        top = _completed(kind, top, found)
    return {"$schema": _DRAFT, "title": title, **top, "$defs": dict(sorted(found.items()))}


def _completed(
    kind: type[Form], top: Mapping[str, Any], found: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The schema of a file that another one may complete: what is needed, only if none does."""
    inner = {name: form for name, key in kind.keys.items() if (form := get_form(key))}
    needed = {
        name: {"required": rule}
        for name, form in inner.items()
        if (rule := found[form.__name__].pop("required", None))
    }
    whole = {"required": top["required"], "properties": needed}
    rest = {name: rule for name, rule in top.items() if name != "required"}
    return rest | {"if": {"required": ["extends"]}, "then": {"required": ["name"]}, "else": whole}


def _form(kind: type[Form], found: dict[str, Any]) -> dict[str, Any]:
    keys = {n: k for n, k in kind.keys.items() if not k.hidden}
    properties = {
        n: _value(k.check.schema, found) | {"description": k.doc} for n, k in keys.items()
    }
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schema["description"] = (kind.__doc__ or "").strip()
    schema["properties"] = properties
    needed = [n for n, k in keys.items() if k.needed and not k.instead and n not in kind.derived]
    schema |= {"required": needed} if needed else {}
    for name, key in keys.items():
        if key.instead:
            schema["oneOf"] = [{"required": [each]} for each in (name, *key.instead)]
    return schema


def _value(schema: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A check's schema, with what stands for a form or a catalogue put in."""
    kind = schema.get("form")
    if isinstance(kind, type):
        found.setdefault(kind.__name__, None)
        if found[kind.__name__] is None:
            found[kind.__name__] = _form(kind, found)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if kind == "slurm":
        return _options()
    if kind == "gpu":
        return {"enum": [name for g in gpus().values() for name in (g.name, *g.aliases)]}
    one = dict(schema)
    if "anyOf" in one:
        one["anyOf"] = [_value(s, found) for s in one["anyOf"]]
    for inner in ("items", "additionalProperties"):
        if isinstance(one.get(inner), Mapping):
            one[inner] = _value(one[inner], found)
    return one


def _options() -> dict[str, Any]:
    """Options of sbatch that may stand under ``slurm:``, in both spellings."""
    extra = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {"extra": extra | {"description": "Options of site plug-ins."}}
    for name, option in sbatch_options().items():
        if option.rule == "refuse" or (option.removed and not option.old):
            continue
        kinds: dict[str, dict[str, Any]] = {
            "no": {"type": "boolean"},
            "optional": _SCALAR,
            "required": _SCALAR,
        }
        one = kinds[option.takes] | {"description": f"{option.meaning} ({option.form})"}
        if option.takes != "no":
            one = {"anyOf": [one, {"type": "array", "items": {"type": "string"}}]}
        for spelling in {name: None, name.replace("-", "_"): None}:
            if spelling != "extra":
                properties[spelling] = one
    return {"type": "object", "additionalProperties": False, "properties": properties}

"""Checks of single values of job.yaml: nodes, arrays, variables and variants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from jobgen.model.array import ARRAY_FORM, measure_array
from jobgen.model.fields import TEXT, check_integer, check_text, describe_value
from jobgen.model.form import Check, refuse
from jobgen.model.units import UnitError

MOST_NODES = 65_536

SPAN = "([0-9]{1,6}):([0-9]{1,6})"


def check_version(value: object) -> Literal[1]:
    """The version of the format: 1."""
    if check_integer(1, 1_000_000)(value) != 1:
        message = f"unknown version {describe_value(value)}"
        raise refuse("J117", message, "this jobgen supports version 1")
    return 1


def check_options(value: object) -> Mapping[str, str | None]:
    """Options of sbatch, already in one form: name without dashes → value, '' for a flag."""
    if not isinstance(value, Mapping):
        message = f"expected a mapping, got {describe_value(value)}"
        raise refuse("J120", message, "write option: value, one per line")
    return dict(value)


OPTIONS = Check(check_options, {"form": "slurm"})


def check_nodes(value: object) -> int:
    """A number of nodes. ``MIN:MAX`` was taken apart before; one that is left is backwards."""
    span = re.fullmatch(SPAN, value) if isinstance(value, str) else None
    if span and int(span.group(1)) > int(span.group(2)):
        message = f"'{value}' is reversed: {span.group(1)} is greater than {span.group(2)}"
        raise refuse("J122", message, f"write {span.group(2)}:{span.group(1)}")
    odd = re.fullmatch(r"([1-9]\d{0,5})\s*(?:-|\.\.|,|to)\s*([1-9]\d{0,5})", str(value))
    if isinstance(value, str) and odd:
        least, most = sorted(map(int, odd.groups()))
        message = f"expected an integer, got {describe_value(value)}"
        raise refuse("J121", message, f"write {least}:{most} for an elastic job")
    return check_integer(1, MOST_NODES, more="MIN:MAX for an elastic job")(value)


NODES = Check(
    check_nodes,
    {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MOST_NODES},
            {"type": "string", "pattern": "^[0-9]+:[0-9]+$"},
        ]
    },
)


def check_array(value: object) -> str:
    """Indexes as ``sbatch --array`` takes them."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refuse("J143", f"expected array indexes, got {describe_value(value)}", ARRAY_FORM)
    try:
        measure_array(str(value))
    except UnitError as error:
        raise refuse(error.code, error.message, error.hint) from error
    return str(value)


ARRAY = Check(check_array, {"type": ["string", "integer"]})


def is_required(value: Mapping[str, Any]) -> bool:
    """Whether this says that a variable has no default: ``{required: what it is}``."""
    return list(value) == ["required"] and isinstance(value["required"], str)


def check_variable(value: object) -> str:
    """The value of a variable."""
    if isinstance(value, Mapping):
        message = f"expected a value, got {describe_value(value)}"
        raise refuse("J120", message, "a variable without a default is {required: 'what it is'}")
    return check_text(value)


VARIABLE = Check(
    check_variable,
    {
        "type": [*TEXT.schema["type"], "object"],
        "properties": {"required": {"type": "string"}},
        "required": ["required"],
        "additionalProperties": False,
    },
)


def check_variant(value: object) -> Mapping[str, Any]:
    """A variant that was not chosen; its values are read when it is."""
    if not isinstance(value, Mapping):
        raise refuse("J120", f"expected a mapping, got {describe_value(value)}")
    return value


VARIANT = Check(check_variant, {"type": "object"})

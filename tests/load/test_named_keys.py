"""Every key, option and command that a message names is one that can be written today."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import jobgen
from jobgen.cli.main import ROOT as PROGRAM
from jobgen.data import sbatch_options
from jobgen.data.message_codes import codes
from jobgen.load.aliases import get_form
from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import Form, Key
from jobgen.model.job import JobSpec
from jobgen.source import scan

FILES: tuple[type[Form], ...] = (JobSpec, ClusterProfile)
TOP: Mapping[str, Key] = {**ClusterProfile.keys, **JobSpec.keys}
FREE = {"slurm", "env", "vars", "labels", "variants", "secrets"}
"""Mappings whose keys are the user's, or Slurm's."""


def forms(name: str) -> list[type[Form]]:
    """What a mapping of that name is, in either file."""
    found = (get_form(each.keys[name]) for each in FILES if name in each.keys)
    return [each for each in found if each is not None]


def is_key(path: str, tops: tuple[type[Form], ...] = FILES) -> bool:
    """Whether ``a.b.c`` can be written in a job or a profile."""
    first, _, rest = path.partition(".")
    if not any(first in top.keys for top in tops):
        return False
    return not rest or first in FREE or is_key(rest, tuple(forms_in(first, tops)))


def forms_in(name: str, tops: tuple[type[Form], ...]) -> Iterator[type[Form]]:
    for top in tops:
        if name in top.keys and (inner := get_form(top.keys[name])) is not None:
            yield inner


def unknown(form: type[Form], data: Mapping[str, Any]) -> list[str]:
    """The keys of a mapping that the form does not have."""
    found = [name for name in data if name not in form.keys]
    for name, value in data.items():
        inner = get_form(form.keys[name]) if name in form.keys else None
        if inner is not None and isinstance(value, dict):
            found += [f"{name}.{each}" for each in unknown(inner, value)]
    return found


def check_command(text: str) -> None:
    """``jobgen VERB --flag`` has that verb, with that flag."""
    verb, *words = re.sub(r"[.,:;].*", "", text.removeprefix("jobgen ")).split()
    command = PROGRAM.get_command(click.Context(PROGRAM), verb)
    assert command is not None, text
    flags = {name for each in command.params for name in each.opts}
    assert {word for word in words if word.startswith("-")} <= flags, text


@pytest.mark.parametrize(
    "option", [o for o in sbatch_options().values() if o.key], ids=lambda o: o.name
)
def test_a_managed_option_names_keys_or_commands_that_there_are(option: Any) -> None:
    if option.key.startswith("jobgen "):
        check_command(option.key)
        return
    for name in re.split(" and | or ", option.key):
        assert is_key(name.partition(":")[0], (JobSpec,)), option


FILE_CODES = [code for code in codes().values() if not code.code.startswith("J5")]
"""Codes whose examples may be lines of a file: what to do after a failure is told in sentences."""


@pytest.mark.parametrize("code", FILE_CODES, ids=lambda code: code.code)
def test_the_right_way_of_a_code_has_keys_that_there_are(code: Any) -> None:
    try:
        right = yaml.safe_load(code.right)
    except yaml.YAMLError:
        return
    if isinstance(right, dict) and not code.right.startswith("{"):
        assert [] in [unknown(form, right) for form in FILES]


def names(form: type[Form]) -> set[str]:
    """The keys of a form, and of all forms below it."""
    below = [inner for key in form.keys.values() if (inner := get_form(key)) is not None]
    return set(form.keys).union(*map(names, below))


EVERY = names(JobSpec) | names(ClusterProfile)
MAPPINGS = "|".join(name for name in TOP if forms(name))
DOTTED = re.compile(rf"(?<![\w./'-])((?:{MAPPINGS})\.[a-z_]+(?:\.[a-z_]+)*)(?![\w(/])")
TOLD = re.compile(r"(?:use the key '|\b(?:add|write|set|under) )([a-z_]+): ?(?=[\w{\[]|$)")
PLACEHOLDERS = {"instead", "it", "key", "one", "option"}


def texts() -> Iterator[tuple[str, str]]:
    """(where, text) of every message of the program and the catalogue; names alone are no text."""
    for code in codes().values():
        yield code.code, f"{code.title}\n{code.why}"
    for path in sorted(Path(jobgen.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if id(node) not in alone and not DOTTED.fullmatch(text):
                    yield f"{path.name}:{node.lineno}", text


def test_messages_name_keys_that_there_are() -> None:
    named = 0
    for where, text in texts():
        for name in DOTTED.findall(text):
            if name.endswith((".py", ".sh")):
                continue
            named += 1
            assert is_key(name), f"{where}: {name}: {text}"
        for name in set(TOLD.findall(text)) - PLACEHOLDERS:
            named += 1
            option = name.replace("_", "-") in sbatch_options()
            assert name in EVERY or option, f"{where}: {name}: {text}"
    assert named > 100


def list_needed(form: type[Form]) -> Iterator[tuple[str, Key]]:
    for name, key in form.keys.items():
        if key.needed:
            yield name, key
        inner = get_form(key)
        yield from list_needed(inner) if inner is not None else ()


@pytest.mark.parametrize("form", FILES)
def test_a_key_that_is_needed_has_an_example_that_is_right(form: type[Form]) -> None:
    for name, key in list_needed(form):
        assert key.example, name
        key.check(scan(f"{name}: {key.example}", "example").data[name])

"""``variants:``: settings that are chosen together by one name, and replace those of the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobgen.errors import Place
from jobgen.load.tree import Path, Tree, change, format_scalar
from jobgen.model.fields import suggest
from jobgen.model.form import expand_short
from jobgen.model.job import JobSpec
from jobgen.model.units import clip


def list_names(data: Mapping[str, Any]) -> list[str]:
    """The names of the variants that a job file has."""
    variants = data.get("variants")
    return list(variants) if isinstance(variants, Mapping) else []


def apply(tree: Tree, sets: Sequence[str]) -> frozenset[str]:
    """Put the values of the chosen variant into the tree; gives what any of them may use.

    ``--set variant=NAME`` chooses it, else ``variant:``. Values replace values, lists are replaced
    whole, and a mapping keeps the keys that the variant does not have.
    """
    names = list_names(tree.data)
    asked = [word.partition("=")[2] for word in sets if word.startswith("variant=")]
    name = asked[-1] if asked else tree.get("variant")
    used = _list_used(tree) if names else frozenset()
    if name in names:
        _merge(tree, ("variants", str(name)), ())
    elif isinstance(name, str):
        place = Place(f"--variant {clip(name)}", kind="option") if asked else None
        hint = suggest(name, names, "declared") if names else "declare it under variants:"
        tree.say("J166", f"unknown variant '{clip(name)}'", ("variant",), hint, place=place)
    if names:
        values = tree.get_table("variants").items()
        tree.data["variants"] = {each: {} if isinstance(v, dict) else v for each, v in values}
    return used


def _list_used(tree: Tree) -> frozenset[str]:
    """The variables that stand anywhere, so that one which another variant needs is not unused."""
    texts = (format_scalar(value) for path, value in tree.list_scalars() if path[0] != "vars")
    return frozenset(name for text in texts for name in re.findall(r"\$\{(\w+)\}", text))


def _merge(tree: Tree, source: Path, target: Path) -> None:
    """Put what stands at one path of the tree at another one, with its places."""
    if target[:1] in {("variant",), ("variants",)}:
        tree.say("J166", f"a variant cannot set {target[0]}", source, "choose one by --variant")
        return
    value = tree.get(*source)
    if not target and not value:
        return  # a variant that changes nothing: the job as it stands
    if not isinstance(value, dict) or not value:
        _replace(tree, source, target)
        return
    before = tree.get(*target) if target else tree.data
    if not isinstance(before, dict):
        change(tree, target, {} if before is None else expand_short(JobSpec, target, before))
    if target:
        _copy_places(tree, source, target, below=False)
    for key in value:
        _merge(tree, (*source, key), (*target, key))


def _replace(tree: Tree, source: Path, target: Path) -> None:
    change(tree, target, tree.get(*source))
    tree.spoiled = {path for path in tree.spoiled if path[: len(target)] != target}
    _copy_places(tree, source, target, below=True)


def _copy_places(tree: Tree, source: Path, target: Path, *, below: bool) -> None:
    """Let values at ``target`` stand where those at ``source`` stand."""
    size = len(source)
    for table in (tree.places, tree.values):
        for path in [path for path in table if path[:size] == source]:
            if below or len(path) == size:
                table[(*target, *path[size:])] = table[path]

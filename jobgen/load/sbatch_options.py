"""Options of sbatch under ``slurm:``: known or not, ours or theirs, and put into one form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobgen.load.sbatch_values import Bad, check_value, find_unsafe
from jobgen.load.tree import Path, Tree, format_scalar, join_path
from jobgen.model.fields import describe_value, suggest
from jobgen.model.units import clip

if TYPE_CHECKING:
    from jobgen.data import SbatchOption

_UNEXPANDED = "write the value itself: no shell expands #SBATCH lines"
_OURS = (
    (
        {"gres", "tres-per-task"},
        r"(^|[,/:])gpu\b",
        "GPUs",
        "use the key 'gpus_per_node'; gpu_request and gpu_type of the cluster set the rest",
    ),
    (
        {"tres-per-task"},
        r"(^|,)cpu\b",
        "CPUs",
        "use the key 'cpus_per_task', which counts per rank",
    ),
)
"""Options, a pattern in their values, what it asks for, and the key of a job to write instead."""
_FREE = {"comment", "extra"}
"""Options whose value is free text, spaces and all."""


def _catalogue() -> Mapping[str, SbatchOption]:
    from jobgen.data import sbatch_options

    return sbatch_options()


def settle(tree: Tree, path: Path) -> None:
    """Check the options at this path, and put them into one form: name → value, '' for a flag."""
    given = tree.get(*path)
    if not isinstance(given, dict):
        return
    settled: dict[str, Any] = {}
    for word, value in list(given.items()):
        if word == "extra":
            continue
        name = word.replace("_", "-")
        option = _known(tree, (*path, word), name)
        if option is None:
            continue
        if name in settled:
            tree.contradict(
                f"{join_path((*path, word))} is set twice", [(*path, word)], "keep one of the two"
            )
            continue
        settled[name] = _value(tree, (*path, word), option, value)
        _move(tree, (*path, word), (*path, name))
    words = _extra(tree, (*path, "extra"), given.get("extra"), settled)
    if words:
        settled["extra"] = words
    given.clear()
    given.update(settled)


def _known(tree: Tree, path: Path, name: str) -> SbatchOption | None:
    """The option, where it may stand here; None where it may not, which has been said."""
    options = _catalogue()
    option = options.get(name)
    if option is None:
        if not tree.has_enough("J140"):
            _unknown(tree, path, name)
    elif option.rule == "refuse":
        _managed(tree, path, option)
    elif option.removed and not option.old:
        message = f"{join_path(path)}: --{name} was removed in Slurm {option.removed}"
        tree.say(
            "J142", message, path, explain_removed(option), place=tree.find_place(path, of_key=True)
        )
    else:
        if option.removed:
            message = f"{join_path(path)}: --{name} was removed after Slurm {option.removed}"
            tree.note("J142", message, path, option.meaning)
        return option
    return None


_RENAMED = {"mem_bind": "mem-bind", "share": "oversubscribe", "workdir": "chdir"}


def explain_removed(option: SbatchOption) -> str:
    """What to write instead of an option that is gone."""
    successor = _catalogue().get(_RENAMED.get(option.name, ""))
    if successor is None:
        return option.meaning
    return f"use {_instead(successor)}" if successor.key else f"use {successor.name}"


def _instead(option: SbatchOption) -> str:
    """The key or the command that does what an option does."""
    return option.key if option.key.startswith("jobgen ") else f"the key '{option.key}'"


def _managed(tree: Tree, path: Path, option: SbatchOption) -> None:
    place = tree.find_place(path, of_key=True)
    if option.key:
        message = f"{join_path(path)}: --{option.name} is set by jobgen"
        command = option.key.startswith("jobgen ")
        hint = (
            f"{option.why}; use: {option.key}"
            if command
            else f"use {_instead(option)}: {option.why}"
        )
        tree.say("J141", message, path, hint, place=place)
    else:
        message = f"{join_path(path)}: --{option.name} cannot be used in a job"
        tree.say("J144", message, path, option.why, place=place)


def _unknown(tree: Tree, path: Path, name: str) -> None:
    options = _catalogue()
    shorts = {o.short: o.name for o in options.values() if o.short and not o.removed}
    bare = name.lstrip("-")
    hint = suggest(bare, [n for n, o in options.items() if not o.removed or o.old])
    if bare in shorts:
        hint = f"use the long name: {shorts[bare]}"
    elif bare in options:
        hint = f"write it without dashes: {bare}"
    hint = hint or "options of site plug-ins go under extra: ['--name=value']"
    message = f"{join_path(path)}: sbatch has no option '{clip(name)}'"
    tree.say("J140", message, path, hint, place=tree.find_place(path, of_key=True))


def _value(tree: Tree, path: Path, option: SbatchOption, value: Any) -> str | None:
    """The value as Slurm reads it; '' for a flag, None where it is switched off."""
    name = join_path(path)
    flag = getattr(value, "flag", value)
    if isinstance(value, (dict, list)) or value is None:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return _checked(tree, path, option, ",".join(value))
        hint = "set true for a flag" if option.takes != "required" else option.form
        tree.say("J143", f"{name}: expected a word, got {describe_value(value)}", path, hint)
        return ""
    if isinstance(flag, bool):
        return _flag(tree, path, option, on=flag)
    if option.takes == "no":
        tree.say("J143", f"{name} takes no value", path, "set true or false")
        return ""
    return _checked(tree, path, option, format_scalar(value))


def _flag(tree: Tree, path: Path, option: SbatchOption, *, on: bool) -> str | None:
    if option.takes != "required":
        return "" if on else None
    words = {"yes/no": ("no", "yes"), "0/1": ("0", "1")}.get(option.form)
    if words:
        return words[on]
    message = f"{join_path(path)}: expected a value, got {str(on).lower()}"
    tree.say("J143", message, path, f"its value is {option.form}")
    return ""


def _checked(tree: Tree, path: Path, option: SbatchOption, value: str) -> str:
    wrong = find_unsafe(value, free=option.name in _FREE)
    if wrong:
        tree.say("J145", f"{join_path(path)}: {wrong}", path, _UNEXPANDED)
        return ""
    for names, pattern, what, hint in _OURS:
        if option.name in names and re.search(pattern, value):
            tree.say("J141", f"{join_path(path)}: jobgen requests the {what} itself", path, hint)
            return ""
    try:
        return check_value(option, value)
    except Bad as bad:
        what, hint = bad.args
        shown = "" if f"'{value}'" in what else f", got '{clip(value)}'"
        tree.say("J143", f"{join_path(path)}: {what}{shown}", path, hint)
        return ""


def _extra(tree: Tree, path: Path, given: Any, settled: dict[str, Any]) -> list[str]:
    """Words for site plug-ins; an option that sbatch itself knows joins the others."""
    if given is None:
        return []
    if not isinstance(given, list):
        tree.say("J146", f"{join_path(path)}: expected a list", path, "write ['--name=value']")
        return []
    words = []
    for index, item in enumerate(given):
        here = (*path, index)
        word = format_scalar(item) if not isinstance(item, (dict, list)) else ""
        name, _, value = word.removeprefix("--").partition("=")
        if not re.match(r"--[A-Za-z][A-Za-z0-9_-]*(=|$)", word, re.ASCII):
            hint = "write '--name' or '--name=value'"
            tree.say("J146", f"{join_path(here)}: '{clip(word)}' is not a long option", here, hint)
        elif name in _catalogue():
            option = _known(tree, here, name)
            if option is not None and name not in settled:
                settled[name] = _checked(tree, here, option, value) if value else ""
        elif wrong := find_unsafe(value or "x", free=True):
            tree.say("J145", f"{join_path(here)}: {wrong}", here, _UNEXPANDED)
        else:
            words.append(word)
    return words


def _move(tree: Tree, old: Path, new: Path) -> None:
    """Let the settled name have the place of the written one."""
    for table in (tree.places, tree.values):
        if old in table:
            table[new] = table[old]

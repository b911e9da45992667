"""The faults that a form finds in a file → problems with their places and hints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from unicodedata import name as character

from jobgen.load.aliases import (
    REFUSED_SSH,
    explain_absence,
    find_section,
    find_sibling,
    get_form,
    get_item_form,
    normalize_key,
    translate,
)
from jobgen.load.hint_values import accepts, fill, rewrite
from jobgen.load.sbatch_options import explain_removed
from jobgen.load.tree import Path, Tree, join_path, suggest_space
from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import Form, ValueDiagnostic
from jobgen.model.job import JobSpec
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.data import SbatchOption


def tell(tree: Tree, top: type[Form], faults: Sequence[ValueDiagnostic]) -> None:
    """Add every fault to the tree."""
    meant = set()
    for fault in faults:
        if fault.code == "J102" and not tree.has_enough("J102"):
            meant.add(_unknown(tree, top, _written(fault.path)))
    for fault in faults:
        path = _written(fault.path)
        if fault.code == "J102":
            continue
        if fault.code == "J116":
            if meant.isdisjoint({path, *((key,) for key in _INSTEAD.get(str(path[-1]), ()))}):
                _missing(tree, path, fault)
        else:
            place = tree.find_place(path, of_key=fault.about_key)
            tree.say(
                fault.code, f"{join_path(path)}: {fault.message}", path, fault.hint, place=place
            )
    # rules that come later need not complain about what follows from a refused key
    tree.spoiled |= meant | {_written(fault.path) for fault in faults}


def _written(path: Path) -> Path:
    """The path as it stands in the file."""
    spelled: list[str | int] = []
    for step in path:
        spelled += _SPREAD.get(step, [step])
    return tuple(spelled)


_INSTEAD = {"run": ("steps", "groups"), "nodes": ("groups",)}
"""Keys of a job that must be there → those that stand in their place."""
_SPREAD: Mapping[str | int, Sequence[str | int]] = {
    "slurm_extra": ["slurm", "extra"],
    "setup_scopes": ["setup"],
}
"""Hidden keys of a form → the keys that are written."""


def _missing(tree: Tree, path: Path, fault: ValueDiagnostic) -> None:
    if any(path[:n] in tree.spoiled for n in range(1, len(path) + 1)):
        return
    place = tree.find_place(path[:-1], of_key=True) if path[:-1] else tree.find_place(())
    hint = f"add name: {clip(tree.called)}" if path == ("name",) and tree.called else fault.hint
    tree.say("J116", f"{join_path(path)} is missing", path, hint, place=place)


def _unknown(tree: Tree, top: type[Form], path: Path) -> Path:
    """Say of a key that it is unknown; gives the path that was probably meant."""
    name, place = str(path[-1]), tree.find_place(path, of_key=True)
    if path[:1] == ("ssh",) and normalize_key(name) in REFUSED_SSH:
        message = f"'{join_path(path)}' is not allowed: {REFUSED_SSH[normalize_key(name)]}"
        tree.say("J170", message, path, "remove it", place=place)
        return path
    siblings = _form_at(top, path[:-1]).keys
    close = find_sibling(path, siblings)
    word = translate(_file(top), path).partition(":")[0].partition(" ")[0].strip(",")
    if word in siblings:
        close = word
    odd = next((c for c in name if not c.isascii()), "")
    remark = f" (contains U+{ord(odd):04X}, {character(odd)})" if odd else ""
    message = f"unknown key '{join_path(path)}'{remark}"
    hint = _hint(Unknown(top, path, tree.get(*path)), close)
    tree.say("J102", message, path, hint, place=place)
    return (*path[:-1], close)


def _file(top: type[Form]) -> str:
    return "job" if top is JobSpec else "cluster"


class Unknown(NamedTuple):
    """A key that the file's form does not have."""

    top: type[Form]
    path: Path
    value: object
    """What the user wrote behind it."""

    @property
    def file(self) -> str:
        """``job`` or ``cluster``."""
        return _file(self.top)

    @property
    def word(self) -> str:
        """The key without its dialect."""
        return normalize_key(str(self.path[-1]))


def translate_key(name: str, value: object) -> str:
    """What to write for a key at the top of a job file; empty if nothing is near."""
    key = Unknown(JobSpec, (name,), value)
    hint = _hint(key, find_sibling(key.path, JobSpec.keys))
    return "" if hint == _known(key.top, key.path) else hint


def _hint(key: Unknown, close: str) -> str:
    """What may have been meant: the first of several guesses that has an answer."""
    if write := _rewrite(key) or translate(key.file, key.path):
        return _write(key, write)
    if why := explain_absence(key.file, key.path):
        return f"jobgen has no such key; {why}"
    if close and close != key.word:  # a name that is exactly right elsewhere comes first
        close = "" if _stands_elsewhere(key) else close
    if close:
        if key.word.startswith(f"{close}:") and (hint := suggest_space(key.word)):
            return hint
        return f"did you mean '{close}'?"
    guesses = _guess_inside if len(key.path) > 1 else _guess_at_top
    return guesses(key) or _known(key.top, key.path)


def _rewrite(key: Unknown) -> str:
    """What to write for a value of a known shape."""
    from jobgen.load.foreign_keys import REWRITES

    write = rewrite(REWRITES.get(key.word, {}), key.word, key.value) if key.file == "job" else ""
    section = re.fullmatch(rf"{key.path[0]}: {{(.*)}}", write) if len(key.path) > 1 else None
    if len(key.path) == 1:
        return write
    return section[1] if section else ""


def _stands_elsewhere(key: Unknown) -> bool:
    """Whether it is an option of sbatch, or a key of a section that takes this value."""
    if len(key.path) > 1:
        return False
    if _find_option(str(key.path[-1]), letters=False) is not None:
        return True
    home = find_section(key.word, key.top)
    return bool(home) and accepts(key.top, home, {key.word: key.value})


def _write(key: Unknown, text: str, where: str = "", form: type[Form] | None = None) -> str:
    """``write KEY: VALUE``, where that is, and the remark behind its comma."""
    yaml, comma, remark = _split_remark(text.removeprefix("^"))
    place = " at the top of the file" if text.startswith("^") else where
    inside = form or (key.top if place else _form_at(key.top, key.path[:-1]))
    return f"write {fill(yaml, key.word, key.value, inside)}{place}{comma}{remark}"


def _split_remark(text: str) -> tuple[str, str, str]:
    """YAML, and a remark behind a comma that stands outside brackets."""
    end = _find_end(text)
    yaml, comma, remark = text[end:].partition(",")
    return text[:end] + yaml, comma, remark


def _find_end(text: str) -> int:
    """Where the YAML at the start of a text ends at the latest; 0 if it has no end of its own."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if depth == 0 and sign in "},":
            return at + (sign == "}")
    return 0


def _guess_inside(key: Unknown) -> str:
    """A word inside a section that would be right at the top of the file."""
    if key.word in key.top.keys and not key.top.keys[key.word].hidden:
        return _write(key, key.word, " at the top of the file")
    name = (str(key.path[-1]),)
    if write := translate(key.file, name):
        beside = write.partition(":")[0] in _form_at(key.top, key.path[:-1]).keys
        return _write(key, write, "" if beside else " at the top of the file")
    if why := explain_absence(key.file, name):
        return f"jobgen has no such key; {why}"
    return _option(key, name[0])


def _guess_at_top(key: Unknown) -> str:
    """A word at the top of a file that would be right in a section, or in the other file."""
    home = find_section(key.word, key.top)
    inner = _write(key, f"{home}: {{{key.word}: <…>}}") if home else ""
    theirs = _theirs(key)
    # ssh stands in a job by mistake for a profile's; time in a profile for limits.time
    guesses = (theirs, inner) if key.top is JobSpec else (inner, theirs)
    return guesses[0] or guesses[1] or _option(key, str(key.path[-1])) or _prefixed(key)


def _theirs(key: Unknown) -> str:
    """What to write in the other file, if it has such a key or knows such a word."""
    file, other, where = (
        ("cluster", ClusterProfile, " in the cluster's profile")
        if key.top is JobSpec
        else ("job", JobSpec, " in job.yaml")
    )
    if key.word in other.keys and not other.keys[key.word].hidden:
        return _write(key, key.word, where, other)
    write = translate(file, (key.word,))
    return _write(key, write, where, other) if write else ""


def _prefixed(key: Unknown) -> str:
    """submitit's way to write an option of sbatch: ``slurm_partition``."""
    rest = key.word.removeprefix("slurm_").removeprefix("sbatch_")
    if rest == key.word or key.top is not JobSpec:
        return ""
    bare = key._replace(path=(rest,))
    if rest in key.top.keys and not key.top.keys[rest].hidden:
        return _write(bare, rest)
    write = _rewrite(bare) or translate("job", (rest,))
    return _write(bare, write) if write else _option(bare, rest)


def _find_option(name: str, *, letters: bool) -> SbatchOption | None:
    """An option of sbatch by its long name, or by its letter."""
    from jobgen.data import sbatch_options

    options = sbatch_options()
    short = {o.short: o for o in options.values() if o.short and not o.removed} if letters else {}
    return options.get(name.replace("_", "-")) or options.get(name) or short.get(name)


def _option(key: Unknown, name: str) -> str:
    """What to write for an option of sbatch, by its long name or its letter."""
    option = _find_option(name, letters=True)
    if option is None:
        return ""
    if option.removed and not option.old:
        gone = f"--{option.name} was removed after Slurm {option.removed}"
        return f"jobgen has no such key; {gone}: {explain_removed(option)}"
    home = "slurm: {%s: <…>}" if key.top is JobSpec else "defaults: {slurm: {%s: <…>}}"
    if option.rule != "refuse":
        where = " at the top of the file" if len(key.path) > 1 else ""
        return _write(key, home % option.name, where)
    if not option.key:
        return f"jobgen has no such key; {option.why}"
    if option.key.startswith("jobgen "):
        return f"jobgen has no such key; {option.why}; use: {option.key}"
    return f"write {option.key}{'' if key.top is JobSpec else ' in job.yaml'}; {option.why}"


def _known(top: type[Form], path: Path) -> str:
    keys = [n for n, k in _form_at(top, path[:-1]).keys.items() if not k.hidden]
    which = "job" if top is JobSpec else "cluster"
    return (
        f"keys: {', '.join(keys)}"
        if len(keys) <= 12
        else f"list all keys with: jobgen schema {which}"
    )


def _form_at(top: type[Form], path: Path) -> type[Form]:
    """The form whose keys stand below this path."""
    here, is_item = top, False
    for step in path:
        key = None if is_item else here.keys.get(str(step))
        inner = get_item_form(key) if key else None
        is_item = inner is not None
        here = inner or (get_form(key) if key else None) or here
    return here

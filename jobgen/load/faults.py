"""What a form said of the data → problems with their places, and what may have been meant."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import name as character

from jobgen.load.aliases import (
    LATER,
    REFUSED_SSH,
    WholeHint,
    find_section,
    find_sibling,
    get_form,
    normalize_key,
    translate,
)
from jobgen.load.tree import Path, Tree, join_path
from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import Form, ValueDiagnostic
from jobgen.model.job import JobSpec


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
            if path not in meant:
                _missing(tree, path, fault)
        else:
            place = tree.find_place(path, of_key=fault.about_key)
            tree.say(
                fault.code, f"{join_path(path)}: {fault.message}", path, fault.hint, place=place
            )


def _written(path: Path) -> Path:
    """The path as it stands in the file."""
    spelled: list[str | int] = []
    for step in path:
        spelled += ["slurm", "extra"] if step == "slurm_extra" else [step]
    return tuple(spelled)


def _missing(tree: Tree, path: Path, fault: ValueDiagnostic) -> None:
    if any(path[:n] in tree.spoiled for n in range(1, len(path) + 1)):
        return
    place = tree.find_place(path[:-1], of_key=True) if path[:-1] else tree.find_place(())
    tree.say("J116", f"{join_path(path)} is missing", path, fault.hint, place=place)


def _unknown(tree: Tree, top: type[Form], path: Path) -> Path:
    """Say of a key that it is unknown; gives the path that was probably meant."""
    name, place = str(path[-1]), tree.find_place(path, of_key=True)
    later = LATER.get(tuple(map(str, path)))
    if later:
        message = f"'{join_path(path)}' is not supported by this version of jobgen"
        tree.say("J117", message, path, f"instead: {later}", place=place)
        return path
    if path[:1] == ("ssh",) and normalize_key(name) in REFUSED_SSH:
        message = f"'{join_path(path)}' is not allowed: {REFUSED_SSH[normalize_key(name)]}"
        tree.say("J170", message, path, "remove it", place=place)
        return path
    siblings = _form_at(top, path[:-1]).keys
    close = find_sibling(path, siblings)
    word = translate(path).partition(":")[0].partition(" ")[0].strip(",")
    if word in siblings:
        close = word
    odd = next((c for c in name if not c.isascii()), "")
    remark = f" (contains U+{ord(odd):04X}, {character(odd)})" if odd else ""
    message = f"unknown key '{join_path(path)}'{remark}"
    tree.say("J102", message, path, _hint(top, path, close), place=place)
    return (*path[:-1], close)


def _hint(top: type[Form], path: Path, close: str) -> str:
    """What may have been meant: the first of several guesses that has an answer."""
    word = normalize_key(str(path[-1]))
    other = translate(path)
    if isinstance(other, WholeHint):
        return other
    if other:
        away = len(path) == 1 and other not in top.keys
        home = find_section(other, top) if away else ""
        return f"write {home}: {{{other}: …}}" if home else f"write {other}"
    if close:
        return f"did you mean '{close}'?"
    if len(path) > 1:
        top_key = f"'{word}' is a top-level key" if word in top.keys else ""
        return top_key or _option(top, str(path[-1])) or _known(top, path)
    home = find_section(word, top)
    inner = f"it is a key of {home}: write {home}: {{{word}: …}}" if home else ""
    theirs = _theirs(top, word)
    # ssh stands in a job by mistake for a profile's; time in a profile for limits.time
    guesses = (theirs, inner) if top is JobSpec else (inner, theirs)
    return guesses[0] or guesses[1] or _option(top, str(path[-1])) or _known(top, path)


def _theirs(top: type[Form], word: str) -> str:
    """Whether the other file has such a key."""
    if top is JobSpec:
        return "it is a key of cluster profiles" if word in ClusterProfile.keys else ""
    return "it is a key of jobs" if word in JobSpec.keys else ""


def _option(top: type[Form], name: str) -> str:
    """Whether sbatch has such an option."""
    from jobgen.data import sbatch_options

    if name.replace("_", "-") not in sbatch_options():
        return ""
    return (
        "it is an sbatch option: write it under "
        f"{('slurm' if top is JobSpec else 'defaults: slurm')}:"
    )


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
    here = top
    for step in path:
        key = here.keys.get(str(step))
        here = (get_form(key) if key else None) or here
    return here

"""The faults that a form finds in a file → problems with their places and hints."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import name as character

from jobgen.load.aliases import (
    LATER,
    REFUSED_SSH,
    explain_absence,
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
    later = LATER.get(tuple(map(str, path))) if top is JobSpec else ""
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
    word = translate(_file(top), path).partition(":")[0].partition(" ")[0].strip(",")
    if word in siblings:
        close = word
    odd = next((c for c in name if not c.isascii()), "")
    remark = f" (contains U+{ord(odd):04X}, {character(odd)})" if odd else ""
    message = f"unknown key '{join_path(path)}'{remark}"
    tree.say("J102", message, path, _hint(top, path, close), place=place)
    return (*path[:-1], close)


def _file(top: type[Form]) -> str:
    return "job" if top is JobSpec else "cluster"


def _hint(top: type[Form], path: Path, close: str) -> str:
    """What may have been meant: the first of several guesses that has an answer."""
    file = _file(top)
    if write := translate(file, path):
        return _write(write)
    if why := explain_absence(file, path):
        return f"jobgen has no such key; {why}"
    if close:
        return f"did you mean '{close}'?"
    guesses = _guess_inside if len(path) > 1 else _guess_at_top
    return guesses(top, path) or _known(top, path)


def _write(text: str, where: str = "") -> str:
    """``write KEY: VALUE``, where that is, and the remark behind its comma."""
    yaml, comma, remark = _split_remark(text.removeprefix("^"))
    place = " at the top of the file" if text.startswith("^") else where
    return f"write {yaml}{place}{comma}{remark}"


def _split_remark(text: str) -> tuple[str, str, str]:
    """YAML, and a remark behind a comma that stands outside brackets."""
    end = text.rfind("}") + 1
    yaml, comma, remark = text[end:].partition(",")
    return text[:end] + yaml, comma, remark


def _guess_inside(top: type[Form], path: Path) -> str:
    """A word inside a section that would be right at the top of the file."""
    file, name = _file(top), str(path[-1])
    word = normalize_key(name)
    if word in top.keys and not top.keys[word].hidden:
        return f"write {word} at the top of the file"
    if write := translate(file, (name,)):
        return _write(write, " at the top of the file")
    if why := explain_absence(file, (name,)):
        return f"jobgen has no such key; {why}"
    return _option(top, name)


def _guess_at_top(top: type[Form], path: Path) -> str:
    """A word at the top of a file that would be right in a section, or in the other file."""
    name = str(path[-1])
    word = normalize_key(name)
    home = find_section(word, top)
    inner = f"write {home}: {{{word}: …}}" if home else ""
    theirs = _theirs(top, word)
    # ssh stands in a job by mistake for a profile's; time in a profile for limits.time
    guesses = (theirs, inner) if top is JobSpec else (inner, theirs)
    return guesses[0] or guesses[1] or _option(top, name) or _prefixed(top, word)


def _theirs(top: type[Form], word: str) -> str:
    """What to write in the other file, if it has such a key or knows such a word."""
    file, other, where = (
        ("cluster", ClusterProfile, " in the cluster's profile")
        if top is JobSpec
        else ("job", JobSpec, " in job.yaml")
    )
    if word in other.keys and not other.keys[word].hidden:
        return f"write {word}{where}"
    write = translate(file, (word,))
    return _write(write, where) if write else ""


def _prefixed(top: type[Form], word: str) -> str:
    """submitit's way to write an option of sbatch: ``slurm_partition``."""
    rest = word.removeprefix("slurm_").removeprefix("sbatch_")
    if rest == word or top is not JobSpec:
        return ""
    if rest in top.keys and not top.keys[rest].hidden:
        return f"write {rest}"
    write = translate("job", (rest,))
    return _write(write) if write else _option(top, rest)


def _option(top: type[Form], name: str) -> str:
    """What to write for an option of sbatch, by its long name or its letter."""
    from jobgen.data import sbatch_options

    options = sbatch_options()
    letters = {o.short: o for o in options.values() if o.short and not o.removed}
    option = options.get(name.replace("_", "-")) or letters.get(name)
    if option is None or (option.removed and not option.old):
        return ""
    home = "slurm: {%s: …}" if top is JobSpec else "defaults: {slurm: {%s: …}}"
    if option.rule != "refuse":
        return f"write {home % option.name}"
    if not option.key:
        return f"jobgen has no such key; {option.why}"
    if option.key.startswith("jobgen "):
        return f"jobgen has no such key; use {option.key}: {option.why}"
    return f"write {option.key}{'' if top is JobSpec else ' in job.yaml'}"


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

"""``${X}``: jobgen's variables, put into the parsed tree; and ``--set``.

A value that is one variable and nothing else takes the variable's own kind, so ``nodes: ${N}`` is
a number. Numbers are put in as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from jobgen.errors import Place
from jobgen.load.tree import Path, Tree, change, dotted, written
from jobgen.model.fields import suggest
from jobgen.model.job import JobSpec
from jobgen.source import resolved, scan

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_USE = re.compile(r"\$\$|\$\{(" + _NAME + r")\}|(\$\{|\$\()")
_SHELL_USE = re.compile(r"\$\$\{|\$\{(" + _NAME + r")\}")
_ASSIGNED = re.compile(
    r"(?:^|[;&|(\s])(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?(" + _NAME + r")=|"
    r"\bfor\s+(" + _NAME + r")\s+in\b|\bread\s+(?:-\w+\s+)*(" + _NAME + r")\b|"
    r"\bmapfile\s+(?:-\w+\s+)*(" + _NAME + r")\b",
    re.MULTILINE,
)

# What a shell on a cluster has by itself, so that ${HOME} in run or setup is the shell's.
_SHELLS = re.compile(
    r"(HOME|USER|LOGNAME|PATH|PWD|OLDPWD|HOSTNAME|SHELL|TERM|TMPDIR|LANG|UID|EUID|RANDOM|SECONDS"
    r"|BASH\w*|IFS|PYTHONPATH|LD_LIBRARY_PATH|SCRATCH|WORK|PROJECT|STORE|DATA|LOCAL_SCRATCH"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|CONDA_PREFIX|VIRTUAL_ENV"
    r"|(SLURM|SLURMD|SBATCH|SRUN|JOBGEN|CUDA|NCCL|NVIDIA|OMP|PMI|PMIX|MODULE|LMOD)_\w+)"
)
_SHORT = {"launcher": "type", "workdir": "path", "container": "image"}
_SHELL_FIELDS = {"run", "setup"}


def settle(tree: Tree, sets: Sequence[str]) -> frozenset[str]:
    """Carry out ``--set``, then put in the variables; gives the names that were used."""
    for word in sets:
        _set(tree, word)
    declared = {n: v for n, v in tree.table("vars").items() if not isinstance(v, (dict, list))}
    for name, value in declared.items():
        if "${" in written(value):
            message = f"vars.{name}: the value of a variable is literal"
            tree.say("J161", message, ("vars", name), "write it out, or use two variables")
    used: set[str] = set()
    for path, value in list(tree.scalars()):
        if isinstance(value, str) and "$" in value and path[0] != "vars":
            change(tree, path, substitute(tree, path, value, declared, used))
    return frozenset(used)


def substitute(
    tree: Tree, path: Path, value: str, declared: Mapping[str, Any], used: set[str]
) -> Any:
    """The value with its variables put in; what cannot be is said in the tree."""
    shell = path[0] in _SHELL_FIELDS or path[:2] == ("defaults", "setup")
    whole = re.fullmatch(r"\$\{(" + _NAME + r")\}", value)
    if whole and whole.group(1) in declared:
        used.add(whole.group(1))
        own = declared[whole.group(1)]
        return own if not isinstance(own, str) else resolved(own) if own else own
    wrong = _wrong_in_shell if shell else _wrong

    def put(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in declared:
            used.add(name)
            return written(declared[name])
        if match.group() == "$${":
            return "${"
        if match.group() != "$$":
            wrong(tree, path, match, declared)
        return match.group()

    return (_SHELL_USE if shell else _USE).sub(put, value)


def _wrong(tree: Tree, path: Path, match: re.Match[str], declared: Mapping[str, Any]) -> None:
    """``${X}`` that is not declared, or the shell's syntax where no shell reads."""
    name = match.group(1)
    place = tree.inside(path, match.start(), len(match.group()))
    if name:
        _undeclared(tree, path, name, declared, place)
    elif match.group() == "${":
        hint = "a variable is ${NAME}; $NAME is expanded on the cluster; $$ is a dollar"
        message = f"{dotted(path)}: the shell's ${{…}} has no meaning here"
        tree.say("J161", message, path, hint, place=place)
    elif "env" in path:
        message = f"{dotted(path)}: '$(' arrives as written; no shell reads this value"
        tree.note("J161", message, path, "export it under setup: to have the shell run it")


def _wrong_in_shell(
    tree: Tree, path: Path, match: re.Match[str], declared: Mapping[str, Any]
) -> None:
    """``${X}`` that is neither declared nor known to be one of the shell's."""
    name = match.group(1)
    theirs = {*tree.table("env"), *tree.table("nccl", "env"), *tree.table("secrets")}
    listed = tree.get("secrets")
    theirs |= (
        {written(s) for s in listed if isinstance(s, str)} if isinstance(listed, list) else set()
    )
    text = "\n".join(written(v) for field in _SHELL_FIELDS for _, v in tree.scalars(field))
    assigned = {g for m in _ASSIGNED.finditer(text) for g in m.groups() if g}
    if name in theirs | assigned or _SHELLS.fullmatch(name):
        return
    place = tree.inside(path, match.start(), len(match.group()))
    _undeclared(tree, path, name, declared, place)


def _undeclared(
    tree: Tree, path: Path, name: str, declared: Mapping[str, Any], place: Place | None
) -> None:
    near = suggest(name, list(declared), "declared") if declared else "declare it under vars:"
    hint = f"{near}; the shell's own is ${name}" if near else f"the shell's own is ${name}"
    message = f"{dotted(path)}: the variable ${{{name}}} is not declared"
    tree.say("J160", message, path, hint, place=place)


def _set(tree: Tree, word: str) -> None:
    """One ``--set K=V``: a declared variable, else a dotted path of the spec."""
    name, equals, value = word.partition("=")
    label = f"--set {name}"
    place = Place(label)
    if not equals or not name.strip():
        tree.say(
            "J162", f"'--set {word[:60]}' has no '='", (), "write --set NAME=VALUE", place=place
        )
        return
    variables = tree.table("vars")
    path: Path = tuple(int(p) if p.isdigit() else p for p in name.split("."))
    known = path[0] in JobSpec.keys and not JobSpec.keys[str(path[0])].hidden
    if name in variables and known:
        message = f"'{name}' is a variable and a key of the job"
        hint = f"rename the variable, or say --set vars.{name}=…"
        tree.say("J162", message, (), hint, place=place)
    elif name in variables:
        tree.data["vars"][name] = value
        tree.overrides["vars", name] = label
    elif not known:
        words = [*variables, *(n for n, k in JobSpec.keys.items() if not k.hidden)]
        hint = suggest(name, words) or "a variable of vars:, or a key such as launcher.type"
        tree.say("J162", f"'{name}' is no variable and no key of the job", (), hint, place=place)
    else:
        _put(tree, path, _value(tree, value, place), label)


def _value(tree: Tree, value: str, place: Place) -> Any:
    if value[:1] not in {"[", "{"}:
        return resolved(value) if value else value
    source = scan(f"value: {value}", place.file)
    for problem in source.problems:
        tree.say(problem.code, problem.message, (), problem.hint, place=place)
    return source.data.get("value", "")


def _put(tree: Tree, path: Path, value: Any, label: str) -> None:
    """Put a value at a path that need not exist yet."""
    here: Any = tree.data
    for step, below in pairwise(path):
        inner = here.get(step) if isinstance(here, dict) else None
        if isinstance(here, list) and isinstance(step, int) and step < len(here):
            inner = here[step]
        if not isinstance(inner, (dict, list)):
            short = _SHORT.get(str(step))
            inner = {} if inner is None or short in {None, below} else {short: inner}
            if not isinstance(here, dict):
                break
            here[step] = inner
        here = inner
    last = path[-1]
    if isinstance(here, list) and (not isinstance(last, int) or last >= len(here)):
        message = f"'{dotted(path)}' is no item of the list"
        tree.say("J162", message, (), "items count from 0", place=Place(label))
        return
    here[last if isinstance(here, list) else str(last)] = value
    tree.overrides[path] = label
    tree.spoiled -= {p for p in tree.spoiled if p[: len(path)] == path}

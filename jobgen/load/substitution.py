"""``${X}``: jobgen's variables, put into the parsed tree; and ``--set``.

A value that is one variable and nothing else takes the variable's own kind, so ``nodes: ${N}`` is
a number. Numbers are put in as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from jobgen.errors import Place
from jobgen.load.sweep_rules import find_variables
from jobgen.load.tree import Path, Tree, change, format_scalar, join_path
from jobgen.model.fields import suggest
from jobgen.model.form import expand_short
from jobgen.model.job import JobSpec
from jobgen.model.job_checks import is_required
from jobgen.model.units import clip
from jobgen.shell.script_variables import find_assignments
from jobgen.source import LIMIT, resolve_scalar, scan

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_USE = re.compile(r"\$\$|\$\{(" + _NAME + r")\}|(\$\{|\$\()")
_SHELL_USE = re.compile(r"\$\$\{|\$\{(" + _NAME + r")\}")

# What a shell on a cluster has by itself, so that ${HOME} in run or setup is the shell's. Compiled
# when a name is met that nobody declared.
_SHELLS = (
    r"(HOME|USER|LOGNAME|PATH|PWD|OLDPWD|HOSTNAME|SHELL|TERM|TMPDIR|LANG|UID|EUID|RANDOM|SECONDS"
    r"|BASH\w*|IFS|PYTHONPATH|LD_LIBRARY_PATH|SCRATCH|WORK|PROJECT|STORE|DATA|LOCAL_SCRATCH"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|CONDA_PREFIX|VIRTUAL_ENV"
    r"|(SLURM|SLURMD|SBATCH|SRUN|JOBGEN|CUDA|NCCL|NVIDIA|OMP|PMI|PMIX|MODULE|LMOD)_\w+)"
)
UNGIVEN = "J167"
"""The code of a required variable without a value."""
_SHELL_FIELDS = {"run", "setup", "before", "finally"}


def _is_shell(path: Path) -> bool:
    """Whether a shell reads what stands here."""
    of_part = path[0] in {"steps", "groups"} and path[2:3] == ("run",)
    return path[0] in _SHELL_FIELDS or of_part or path[2:4] == ("ready", "command")


def carry_out(tree: Tree, sets: Sequence[str]) -> None:
    """Put into the tree what ``--set`` says."""
    for word in sets:
        _set(tree, word)


def settle(tree: Tree, *, complete: bool = True) -> frozenset[str]:
    """Put in the variables; gives the names that were used.

    A ``complete`` job has values for the variables that are required; else they stay unknown.
    """
    scope = Scope(tree)
    for name, purpose in scope.required.items():
        del tree.data["vars"][name]
        say = tree.say if complete else partial(tree.note, severity="note")
        say(UNGIVEN, f"{name} is not set: {purpose}", ("vars", name), f"add --set {name}=VALUE")
    for name, value in scope.declared.items():
        if "${" in format_scalar(value):
            message = f"vars.{name} must not refer to other variables"
            tree.say("J161", message, ("vars", name), "write the value, or use two variables")
    for path, value in list(tree.list_scalars()):
        if isinstance(value, str) and "$" in value and path[0] != "vars":
            change(tree, path, scope.put(path, value))
    return frozenset(scope.used)


def refuse(tree: Tree) -> None:
    """Say of every ``${`` outside shell text that it means nothing in a profile."""
    for path, value in tree.list_scalars():
        if isinstance(value, str) and "${" in value.replace("$$", "") and "setup" not in path:
            message = f"{join_path(path)}: profiles have no variables"
            hint = "use $NAME, which is expanded on the cluster; $$ is a dollar sign"
            tree.say("J161", message, path, hint)
            tree.spoiled.add(path)


class Scope:
    """The variables that a job declares, and what becomes of each ``${…}``."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        variables = tree.get_table("vars")
        self.required: Mapping[str, str] = {
            name: format_scalar(value["required"])
            for name, value in variables.items()
            if isinstance(value, dict) and is_required(value)
        }
        """Variables without a value → what the file says of them."""
        self.declared: Mapping[str, Any] = {
            **{n: v for n, v in variables.items() if not isinstance(v, (dict, list))},
            **dict.fromkeys(self.required, "VALUE"),
        }
        self.used: set[str] = set()
        self.swept = frozenset(find_variables(tree))

    def put(self, path: Path, value: str) -> Any:
        """The value with its variables put in; what cannot be is said in the tree."""
        shell = _is_shell(path)
        self._leave_open(path, value)
        whole = re.fullmatch(r"\$\{(" + _NAME + r")\}", value)
        if whole and whole.group(1) in self.declared:
            self.used.add(whole.group(1))
            own = self.declared[whole.group(1)]
            meant = resolve_scalar(own) if isinstance(own, str) else own
            return own if meant is None else meant
        room = LIMIT

        def put(match: re.Match[str]) -> str:
            nonlocal room
            name = match.group(1)
            if name in self.swept:
                return match.group() if shell else self._vary(path, match)
            if name in self.declared:
                self.used.add(name)
                text = format_scalar(self.declared[name])
                room -= len(text)
                return text if room > 0 else ""
            if match.group() == "$${":
                return "${"
            if match.group() != "$$":
                (self._unknown_to_shell if shell else self._unknown)(path, match)
            return match.group()

        text = (_SHELL_USE if shell else _USE).sub(put, value)
        if room <= 0:
            message = f"{join_path(path)} exceeds 1 MiB after substitution"
            self.tree.say("J111", message, path, "put the data into a file in the workdir")
        return text

    def _leave_open(self, path: Path, value: str) -> None:
        """Let no rule judge a value that is not known yet; a shell's text can be read all the
        same."""
        if not _is_shell(path) and any(f"${{{n}}}" in value for n in self.required):
            self.tree.spoiled.add(path)

    @cached_property
    def theirs(self) -> frozenset[str]:
        """Names that the shell of run and setup knows, because the job sets them."""
        tree = self.tree
        listed = tree.get("secrets")
        secrets = listed if isinstance(listed, list) else list(tree.get_table("secrets"))
        text = "\n".join(
            format_scalar(value) for path, value in tree.list_scalars() if _is_shell(path)
        )
        assigned = (name for name, _ in find_assignments(text))
        named = (s for s in secrets if isinstance(s, str))
        return frozenset(
            [*tree.get_table("env"), *tree.get_table("nccl", "env"), *named, *assigned]
        )

    def _unknown(self, path: Path, match: re.Match[str]) -> None:
        """``${X}`` that is not declared, or the shell's syntax where no shell reads."""
        tree, name = self.tree, match.group(1)
        if name:
            self._undeclared(path, name, match)
        elif match.group() == "${":
            place = tree.locate_part(path, match.start(), 2)
            hint = (
                "write ${NAME} for a variable; $NAME is expanded on the cluster; $$ is a "
                "dollar sign"
            )
            message = f"{join_path(path)}: shell syntax ${{…}} is not supported here"
            tree.say("J161", message, path, hint, place=place)
        elif not {"env", "args", "srun_args"}.isdisjoint(path):
            message = f"{join_path(path)}: '$(' is passed on unchanged; no shell reads this value"
            hint = "to run the command, export a variable under setup:"
            hint += "" if "env" in path else ", and write $NAME here"
            tree.note("J161", message, path, hint)

    def _vary(self, path: Path, match: re.Match[str]) -> str:
        """A variable of the sweep outside shell text: the element's own shell expands it."""
        name = f"${match.group(1)}"
        if path[0] == "env" or path[:2] == ("checkpoint", "dir"):
            if not re.match(r"\w", match.string[match.end() :], re.ASCII):
                return name
            hint = f"put a character other than a letter, a digit or _ behind {match.group()}"
            message = f"{join_path(path)}: {match.group()} ends where the shell's {name} does not"
        else:
            hint = "run, setup, env and checkpoint.dir may vary; submit once for each other value"
            message = (
                f"{join_path(path)}: {match.group()} differs between elements; {path[0]} cannot"
            )
        place = self.tree.locate_part(path, match.start(), len(match.group()))
        self.tree.say("J149", message, path, hint, place=place)
        self.tree.spoiled.add(path)
        return match.group()

    def _unknown_to_shell(self, path: Path, match: re.Match[str]) -> None:
        """``${X}`` that is neither declared nor known to be one of the shell's."""
        name = match.group(1)
        if name not in self.theirs and not re.fullmatch(_SHELLS, name):
            self._undeclared(path, name, match)

    def _undeclared(self, path: Path, name: str, match: re.Match[str]) -> None:
        if self.tree.has_enough("J160"):
            return
        words = [*self.declared, *sorted(self.swept)]
        near = suggest(name, words, "declared") if words else "declare it under vars:"
        hint = (
            f"{near}; for a shell variable write ${name}"
            if near
            else f"for a shell variable write ${name}"
        )
        message = f"{join_path(path)}: undeclared variable ${{{name}}}"
        place = self.tree.locate_part(path, match.start(), len(match.group()))
        self.tree.say("J160", message, path, hint, place=place)


_SHORTCUTS = {"race": "--race"}
"""Keys that have an option of their own, which errors name."""


def _set(tree: Tree, word: str) -> None:
    """One ``--set K=V``: a declared variable, else a dotted path of the spec."""
    name, equals, value = word.partition("=")
    place = Place(_SHORTCUTS.get(name, f"--set {name}"), kind="option")
    if not equals or not name.strip():
        tree.say(
            "J162", f"'--set {word[:60]}' has no '='", (), "write --set NAME=VALUE", place=place
        )
        return
    variables = tree.get_table("vars")
    path: Path = tuple(int(p) if p.isdigit() else p for p in name.split("."))
    known = path[0] in JobSpec.keys and not JobSpec.keys[str(path[0])].hidden
    if name in variables and known:
        message = f"'{name}' is both a variable and a key of the job"
        hint = f"rename the variable, or use --set vars.{name}=…"
        tree.say("J162", message, (), hint, place=place)
    elif name in variables:
        tree.overrides["vars", name] = place
        own = variables[name]
        if value.strip() or not (isinstance(own, dict) and is_required(own)):
            tree.data["vars"][name] = value
    elif path[0] == "variants":
        # the chosen one is in its place already
        message = f"'{clip(name)}': --set does not change variants"
        tree.say("J162", message, (), "set the key itself: --set KEY=VALUE", place=place)
    elif not known:
        from jobgen.load.set_hints import suggest_set

        message = f"'{clip(name)}' is neither a variable nor a key of the job"
        tree.say("J162", message, (), suggest_set(name, value, tuple(variables)), place=place)
    else:
        _put(tree, path, _value(tree, value, place), place)


def _value(tree: Tree, value: str, place: Place) -> Any:
    if value[:1] not in {"[", "{"}:
        return resolve_scalar(value) if value else value
    source = scan(f"value: {value}", place.file)
    for problem in source.problems:
        tree.say(problem.code, problem.message, (), problem.hint, place=place)
    return source.data.get("value", "")


def _put(tree: Tree, path: Path, value: Any, place: Place) -> None:
    """Put a value at a path that need not exist yet."""
    here: Any = tree.data
    for depth, (step, below) in enumerate(pairwise(path), 1):
        inner = here.get(step) if isinstance(here, dict) else None
        if isinstance(here, list) and isinstance(step, int) and step < len(here):
            inner = here[step]
        if not isinstance(inner, list if isinstance(below, int) else dict):
            kept = {} if inner is None else expand_short(JobSpec, path[:depth], inner)
            inner = kept or (inner if isinstance(inner, (list, dict)) else {})
            if not isinstance(here, dict):
                break
            here[step] = inner
        here = inner
    last = path[-1]
    if isinstance(here, list) and (not isinstance(last, int) or last >= len(here)):
        message = f"'{join_path(path)}' is not an item of the list"
        tree.say("J162", message, (), "items are counted from 0", place=place)
        return
    here[last if isinstance(here, list) else str(last)] = value
    tree.overrides[path] = place
    tree.spoiled -= {p for p in tree.spoiled if p[: len(path)] == path}

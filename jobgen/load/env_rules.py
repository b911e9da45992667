"""Variables of the environment: names that jobgen or bash need, and secrets written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jobgen.load.tree import Path, Tree, change, format_scalar, join_path
from jobgen.model.units import clip

# Names that change what bash or Python runs, so that no line of the script would mean itself.
_HOOKS = {
    "BASH_ENV": "bash would run that file before every script",
    "ENV": "sh would run that file before every script",
    "PROMPT_COMMAND": "bash would run it as a command",
    "PYTHONSTARTUP": "Python would run that file",
    "SHELLOPTS": "it changes how bash reads every script",
    "BASHOPTS": "it changes how bash reads every script",
    "IFS": "it changes how bash splits words",
    "PS4": "bash expands it before every traced line",
}
_LAUNCHERS = {
    "RANK": "the launcher sets it",
    "LOCAL_RANK": "the launcher sets it",
    "GROUP_RANK": "the launcher sets it",
    "NODE_RANK": "the launcher sets it",
    "WORLD_SIZE": "the launcher sets it",
    "LOCAL_WORLD_SIZE": "the launcher sets it",
    "MASTER_ADDR": "jobgen derives it from the allocation",
    "MASTER_PORT": "jobgen derives it from the job ID",
    "RDZV_ID": "jobgen derives it from the job ID",
    **dict.fromkeys(("UID", "EUID", "PPID"), "bash sets it"),
}
_SCRIPTS = (
    "_|after|alive|all_caches|before|begun|bundle|caches?|changed|checked|claim|code"
    "|commit|converted|count|cpus|diff|early|echoes|ends?|ends_with|events|expect|failed"
    "|failed_group|file_before|files|findings|finished|first|forwards|gpus?|grace_over|HOSTS|ids?"
    "|ignored|index|jobgen_env|lasting|latest|left|link|live|logs?|mine|minors|monitor|monitored|name|node"
    "|notices|old|pids?|prepared|program|rank|rc|record|recorder|recording|reporter|restart|running"
    "|signals|silence|since|sizes|src|step_index|step_nodes|steps|stopping|stream|sum|task"
    "|track_id|unfinished|unfit|value|visible|waiting|webhook|who|why|words"
)
"""Variables that job.sbatch, node.sh and rank.sh set for themselves."""
_SRUN_OPTIONS = {
    "SLURM_CPU_BIND": "cpu-bind",
    "SLURM_DISTRIBUTION": "distribution",
    "SLURM_GPU_BIND": "gpu-bind",
    "SLURM_HINT": "hint",
    "SLURM_MEM_BIND": "mem-bind",
    "SLURM_MPI_TYPE": "mpi",
    "SLURM_NETWORK": "network",
}
"""Variables that srun reads as defaults of options."""
# Compiled when a file has an environment.
_MANAGED = r"(?a)(SLURM|SLURMD|SBATCH|JOBGEN)_\w*"
_SENSITIVE = (
    r"(?ai)(\w*_)?(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY(_ID)?|PRIVATE_KEY"
    r"|SECRET_?KEY|CREDENTIALS?)"
)
_KEY_NAME = r"(?ai)\w*_KEY"
_HARMLESS = r"(?i)(true|false|yes|no|none|null|on|off|\d{1,4}|<[^>]*>|/.*|\./.*|\$.*|)"
_PLACES: tuple[Path, ...] = (("env",), ("nccl", "env"), ("defaults", "env"), ("network", "env"))
_HINT = "list the name under secrets: [NAME]; its value is read at submit time and never shown"


def check(tree: Tree) -> None:
    """Say what is wrong with the variables of a file, and with secrets anywhere in it."""
    from jobgen.data.secret_rules import has_token

    for path in (*_PLACES, *((*step, "env") for step in tree.list_steps())):
        for name, value in list(tree.get_table(*path).items()):
            check_name(tree, (*path, name), name)
            _inline(tree, (*path, name), name, value)
    values = [(p, value) for p, value in tree.list_scalars() if isinstance(value, str)]
    keys = [(path, str(path[-1])) for path in _keys(tree.data, ())]
    # all at once first: a file without tokens is the rule
    if has_token("\n".join(text for _, text in (*values, *keys))):
        for path in (path for path, value in values if has_token(value)):
            _leaked(tree, path, f"{join_path(path)} looks like a secret")
        for path in (path for path, key in keys if has_token(key)):
            _leaked(tree, path, "a key looks like a secret")
    for name in list_secrets(tree):
        check_name(tree, ("secrets",), name, f"secrets: {name}")
    _twice(tree)


def check_name(tree: Tree, path: Path, name: str, shown: str = "") -> None:
    """Say of a variable that jobgen, Slurm or the shell sets that it cannot be set."""
    place, shown = tree.find_place(path, of_key=True), shown or join_path(path)
    if name in _HOOKS:
        message = f"{shown} cannot be set: {_HOOKS[name]}"
        tree.say("J126", message, path, "put commands under setup:", place=place)
    elif name in _LAUNCHERS:
        message = f"{shown} cannot be set: {_LAUNCHERS[name]}"
        tree.say("J126", message, path, "remove it", place=place)
    elif re.fullmatch(_MANAGED, name):
        owner = "jobgen" if name.startswith("JOBGEN") else "Slurm"
        hint = _suggest_option(name, tree.get_text(*path))
        tree.say(
            "J126", f"{shown} cannot be set: it is reserved for {owner}", path, hint, place=place
        )
    else:
        _refuse_names_of_scripts(tree, path, shown, name)


def _suggest_option(name: str, value: str) -> str:
    """The option of srun that does what this variable does; else that it has to go."""
    words = f"--{_SRUN_OPTIONS.get(name)}={clip(value) or 'VALUE'}"
    if name == "SLURM_HOSTFILE":
        words = "--distribution=arbitrary, --nodelist=FILE"
    elif name not in _SRUN_OPTIONS:
        return "remove it; sbatch options go under slurm:"
    return f"srun takes it as an option: launcher: {{type: srun, args: [{words}]}}"


def _refuse_names_of_scripts(tree: Tree, path: Path, shown: str, name: str) -> None:
    if not re.fullmatch(_SCRIPTS, name):
        return
    message = f"{shown} cannot be set: jobgen's scripts use '{name}'"
    hint = "choose another name, or export it in run:"
    tree.say("J126", message, path, hint, place=tree.find_place(path, of_key=True))


def _inline(tree: Tree, path: Path, name: str, value: Any) -> None:
    """A value that stands where only a name should."""
    if isinstance(value, dict) and "value" in value:
        path, value = (*path, "value"), value["value"]
    text = format_scalar(value) if not isinstance(value, (dict, list)) else ""
    variable = re.fullmatch(r"\$\{(\w+)\}", text)
    if variable and variable[1] in tree.get_table("vars"):
        path = ("vars", variable[1])
        text = format_scalar(tree.get_table("vars")[variable[1]])
    if re.fullmatch(_HARMLESS, text):
        return
    a_key = len(text) >= 8 and re.fullmatch(_KEY_NAME, name)
    if a_key or is_sensitive(name):
        _leaked(tree, path, f"{join_path(path)} contains the value of a secret")


def is_sensitive(name: str) -> bool:
    """Whether a value of this name is a secret, as ``hf_token``."""
    return bool(re.fullmatch(_SENSITIVE, name))


def _leaked(tree: Tree, path: Path, message: str) -> None:
    """Say so without the value, and take it out: another message might show it."""
    tree.problems = [p for p in tree.problems if p.place != tree.find_place(path)]
    tree.say("J150", message, path, _HINT, place=tree.find_place(path, of_key=True))
    tree.spoiled.add(path)
    if not isinstance(tree.get(*path), (dict, list)):
        change(tree, path, "secret")


def _twice(tree: Tree) -> None:
    tables: list[Path] = [("env",), *((*step, "env") for step in tree.list_steps())]
    for name in list_secrets(tree):
        for table in tables:
            if name in tree.get_table(*table):
                message = f"'{name}' is listed under secrets and {join_path(table)}"
                tree.contradict(message, [("secrets",), (*table, name)], "keep one of the two")
    for name in tree.get_table("nccl", "env"):
        if name in tree.get_table("env"):
            message = f"'{name}' is set under env and nccl.env"
            tree.contradict(message, [("env", name), ("nccl", "env", name)], "keep one of the two")


def list_secrets(tree: Tree) -> list[str]:
    """The names under ``secrets``, in either of its forms."""
    secrets = tree.get("secrets")
    names = secrets if isinstance(secrets, list) else list(tree.get_table("secrets"))
    return [name for name in names if isinstance(name, str)]


def _keys(value: Any, path: Path) -> Mapping[Path, None]:
    found: dict[Path, None] = {}
    if isinstance(value, dict):
        for name, item in value.items():
            found[*path, name] = None
            found |= _keys(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found |= _keys(item, (*path, index))
    return found

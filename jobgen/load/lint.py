"""Rules about files that are valid: habits that cost time, or give a secret away."""

from __future__ import annotations

import re
from collections.abc import Callable

from jobgen.load.tree import Path, Tree, dotted, written
from jobgen.model.fields import close

_XTRACE = r"(?m)(^|[;&|\n])\s*set\s+(-[a-wyzA-Z]*x|-o\s+xtrace)"
_STARTERS = re.compile(
    r"(^|[;&|\n])\s*(?:exec\s+)?(srun|torchrun|deepspeed|mpirun|mpiexec"
    r"|accelerate\s+launch|python[0-9.]*\s+-m\s+torch\.distributed\.(?:run|launch))\b",
    re.MULTILINE,
)
_SUBMITS = re.compile(r"(^|[;&|\n])\s*(?:#SBATCH\b|sbatch\b)", re.MULTILINE)
_ENV: tuple[Path, ...] = (("env",), ("nccl", "env"), ("network", "env"), ("defaults", "env"))


def job(tree: Tree, used: frozenset[str]) -> None:
    """What the rules find in a job."""
    for rule in (_name, _preload, _xtrace, _starter, _submits, _debug, variables):
        rule(tree)
    for name in tree.table("vars"):
        if name not in used:
            message = f"vars.{name} is used nowhere"
            tree.note("J163", message, ("vars", name), f"write ${{{name}}} where it belongs")


def cluster(tree: Tree) -> None:
    """What the rules find in a profile."""
    variables(tree)
    _preload(tree)


def variables(tree: Tree) -> None:
    """Variables of NCCL that nothing reads."""
    if not any(tree.table(*path) for path in _ENV):
        return
    wrong = _folklore()
    for path in _ENV:
        for name, value in tree.table(*path).items():
            here = (*path, name)
            plain = value.get("value", "") if isinstance(value, dict) else value
            text = written(plain) if not isinstance(plain, (dict, list)) else ""
            if (name, text) in wrong or (name, "") in wrong:
                why, instead = wrong.get((name, text)) or wrong[name, ""]
                shown = f"{name}={text}" if (name, text) in wrong else name
                tree.note("J304", f"{shown}: {why}", here, f"write instead: {instead}")
            elif name.startswith(("NCCL_", "TORCH_NCCL_")) and not tree.enough("J303"):
                _variable(tree, here, name)


def _variable(tree: Tree, path: Path, name: str) -> None:
    from jobgen.data import nccl_variables

    known = nccl_variables()
    if name not in known:
        near = close(name, list(known), 0.8)
        hint = f"did you mean '{near}'?" if near else "no release of NCCL has had it"
        tree.note("J303", f"nothing reads {name}", path, hint)
    elif known[name].until:
        hint = known[name].successor or "remove it"
        message = f"{name} is read by nothing since NCCL {known[name].until}"
        tree.note("J303", message, path, hint)


def _folklore() -> dict[tuple[str, str], tuple[str, str]]:
    """(name, value or '') → why, and what to write instead."""
    from jobgen.data import nccl_folklore

    found = {}
    for entry, advice in nccl_folklore().items():
        for word in entry.split(" / "):
            name, _, values = word.partition(" ")[0].partition("=")
            for value in values.split("|"):
                found[name, value] = advice
    return found


def _name(tree: Tree) -> None:
    if tree.text("name") in {"bash", "interactive"}:
        message = f"name '{tree.text('name')}' switches off Lightning's detection of Slurm"
        tree.note("J301", message, ("name",), "choose another name")


def _preload(tree: Tree) -> None:
    for path in _ENV:
        if "LD_PRELOAD" in tree.table(*path):
            message = f"{dotted((*path, 'LD_PRELOAD'))} loads a library into every program"
            hint = "also into srun's and the launcher's; set it in run for the training only"
            tree.note("J302", message, (*path, "LD_PRELOAD"), hint, "note")


def _xtrace(tree: Tree) -> None:
    secrets = tree.get("secrets")
    if not secrets:
        return
    for path in (("run",), ("setup",)):
        if re.search(_XTRACE, _block(tree, path)):
            message = f"{path[0]}: set -x writes every command into the log, secrets and all"
            tree.note("J305", message, path, "remove it, or the secrets", "error")


def _starter(tree: Tree) -> None:
    kind = tree.text("launcher", "type") or tree.text("launcher")
    found = _STARTERS.search(tree.text("run"))
    if found and kind not in {"plain", "none"}:
        word = " ".join(found.group(2).split())
        message = f"run: '{word}' is a launcher of its own, and jobgen starts one already"
        hint = "write the program alone, as run: train.py …; or launcher: plain"
        tree.note("J306", message, ("run",), hint)


def _submits(tree: Tree) -> None:
    for path in (("run",), ("setup",)):
        if _SUBMITS.search(_block(tree, path)):
            message = f"{path[0]}: #SBATCH lines and sbatch do nothing inside a job"
            tree.note("J307", message, path, "options of sbatch stand under slurm:")


def _debug(tree: Tree) -> None:
    for path in (("env",), ("nccl", "env")):
        for name in ("NCCL_DEBUG", "CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG"):
            value = tree.text(*path, name).upper()
            if value in {"INFO", "TRACE", "DETAIL"} or (name.startswith("CUDA") and value == "1"):
                message = (
                    f"{dotted((*path, name))} is for looking for a fault, and slows every step"
                )
                tree.note(
                    "J308", message, (*path, name), "remove it when you have found it", "note"
                )


def _block(tree: Tree, path: Path) -> str:
    """A field of shell text as one text."""
    return "\n".join(written(v) for _, v in tree.scalars(*path))


Rule = Callable[[Tree], None]

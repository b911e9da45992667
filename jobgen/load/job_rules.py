"""Rules of a job beyond its form: keys that do not go together."""

from __future__ import annotations

import re

from jobgen.load.env_rules import list_secrets
from jobgen.load.tree import Path, Tree, join_path
from jobgen.model.launchers import ALIASES, find_launchers, find_takers, get_facts
from jobgen.model.notify import SECRET
from jobgen.model.race import OPTIONS, SHAPE
from jobgen.model.settings import Launcher
from jobgen.model.units import UnitError, Walltime
from jobgen.wording import join_words

# Two ways to ask for one thing: jobgen's key, then sbatch's option.
_DOUBLED = {
    ("mem", "mem-per-cpu"): "both request memory; Slurm uses only one of them",
    ("mem", "mem-per-gpu"): "both request memory; Slurm uses only one of them",
}
_OPTIONS = {
    ("exclusive", "oversubscribe"): "a node is either exclusive or shared",
    ("mem-per-cpu", "mem-per-gpu"): "both request memory; Slurm uses only one of them",
}


def check(tree: Tree) -> None:
    """Say what is wrong with a job as a whole."""
    _launcher(tree)
    for step in tree.list_steps():
        _settings(tree, step)
    _checkpoint(tree)
    for above in ((), *tree.list_groups()):
        _options(tree, above)
    _workdir(tree)
    _race(tree)
    _chain(tree)
    _notify(tree)


def read_launcher(tree: Tree, above: Path = ()) -> str:
    """The launcher that the job, or the step at this path, names; empty if it names none."""
    name = tree.get_text(*above, "launcher", "type") or tree.get_text(*above, "launcher")
    return ALIASES.get(name, name)


def _options(tree: Tree, above: Path) -> None:
    """Two ways to ask for one thing, in the job or in what a group makes of it."""
    for pair, why in (*_DOUBLED.items(), *_OPTIONS.items()):
        ours = ("slurm",) if pair in _OPTIONS else ()
        one = _find_written(tree, above, (*ours, pair[0]))
        other = _find_written(tree, above, ("slurm", pair[1]))
        if one and other and above in (one[: len(above)], other[: len(above)]):
            message = f"{join_path(one)} and {join_path(other)}: {why}"
            tree.contradict(message, [one, other], "keep one of the two")


def _find_written(tree: Tree, above: Path, key: Path) -> Path:
    """Where a key is set that holds for this group: in it, or in the job; empty if nowhere."""
    for path in dict.fromkeys(((*above, *key), key)):
        if key[-1] in tree.get_table(*path[:-1]):
            return path if tree.get(*path) is not None else ()
    return ()


def _workdir(tree: Tree) -> None:
    """Say which keys need an upload, where the code stays on the cluster."""
    if "at" not in tree.get_table("workdir"):
        return
    at: Path = ("workdir", "at")
    for name in ("path", "ignore", "ignore_file", "max_size"):
        if name in tree.get_table("workdir"):
            message = f"workdir.{name} is about the upload, but workdir.at uploads nothing"
            tree.contradict(message, [at, ("workdir", name)], "keep one of the two")
    for above in ((), *tree.list_steps()):
        for path in ((*above, "launcher", "config"), (*above, "train", "config")):
            _refuse_file(tree, at, path, "name it in run: alone")
        model: Path = (*above, "train", "model")
        if tree.get_text(*model).endswith(".json"):
            _refuse_file(tree, at, model, "set its Hub id, or a mapping of sizes")


def _refuse_file(tree: Tree, at: Path, path: Path, hint: str) -> None:
    if tree.get(*path) is not None:
        message = f"{join_path(path)} is read from the upload, but workdir.at uploads nothing"
        tree.contradict(message, [at, path], hint)


def _race(tree: Tree) -> None:
    if tree.get("race") is None:
        return
    for key in ("array", "sweep"):
        if tree.get(key) is not None:
            message = f"race and {key} exclude each other: a race has one run"
            tree.contradict(message, [(key,), ("race",)], "keep one of the two")
    entries = tree.get("race")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        shape = [name for name in SHAPE if isinstance(entry, dict) and name in entry]
        if shape and tree.get("groups") is not None:
            message = "the entries of a race cannot differ in nodes or GPUs: groups set them"
            paths: list[Path] = [("race", number, shape[0]), ("groups",)]
            tree.contradict(message, paths, f"what may differ: {', '.join(OPTIONS)}")


def _notify(tree: Tree) -> None:
    settings, options = tree.get_table("notify"), tree.get_table("slurm")
    if not settings:
        return
    ways = [name for name in ("mail", "webhook", "command") if name in settings]
    if not ways:
        hint = "add mail: me@example.org, webhook: $NAME or command: PROGRAM"
        tree.say("J116", "notify needs mail, webhook or command", ("notify",), hint)
    for option in ("mail-user", "mail-type"):
        if "mail" in ways and options.get(option) is not None:
            message = f"notify.mail and slurm.{option}: both set Slurm's mail"
            paths: list[Path] = [("notify", "mail"), ("slurm", option)]
            tree.contradict(message, paths, "keep one of the two")
    secret = SECRET.fullmatch(tree.get_text("notify", "webhook"))
    if secret and secret[1] not in list_secrets(tree):
        hint = f"add secrets: [{secret[1]}]"
        message = f"'{secret[1]}' is not listed under secrets"
        tree.say("J153", message, ("notify", "webhook"), hint)
    events = settings.get("on")
    timed = "time_limit" in (events if isinstance(events, list) else [events])
    if timed and ways and ways != ["mail"] and "checkpoint" not in tree.data:
        message = "notify.on: time_limit needs the pre-timeout signal of checkpoint"
        tree.say("J138", message, ("notify", "on"), "add checkpoint: {grace: 5m}")


def _settings(tree: Tree, above: Path = ()) -> None:
    """Say which settings of a launcher have no effect."""
    top = (*above, "launcher")
    settings, kind = tree.get_table(*top), read_launcher(tree, above)
    for name in Launcher.keys:
        takers = find_takers(name) if name != "args" else []  # resolve checks args (J215)
        if name in settings and kind and takers and name not in get_facts(kind).settings:
            message = f"{join_path((*top, name))} has no effect with {kind}, only with "
            message += join_words(takers, "and")
            tree.contradict(message, [(*top, "type"), (*top, name)], "remove it")


def _launcher(tree: Tree) -> None:
    _settings(tree)
    kind = read_launcher(tree)
    facts = get_facts(kind)
    span = re.fullmatch(r"(\d{1,6}):(\d{1,6})", tree.get_text("nodes"))
    if span is None:
        _restarts(tree)
        return
    low, high = int(span.group(1)), int(span.group(2))
    fixed = (kind and not facts.elastic) or tree.get_text("launcher", "rdzv") == "static"
    if low < high and fixed:
        elastic = join_words(find_launchers(lambda row: row.elastic), "or")
        message = f"nodes: MIN:MAX needs {elastic} with its c10d rendezvous"
        tree.contradict(message, [("launcher",), ("nodes",)], f"set nodes: {high}")


def _restarts(tree: Tree) -> None:
    """Tried with torch 2.13: each agent starts its own ranks again whenever they fail, with no word
    to the others, so that ranks of different starts wait for each other."""
    several = tree.get_text("nodes") not in {"", "0", "1"}
    again = tree.get_text("launcher", "max_restarts") not in {"", "0"}
    if several and again and tree.get_text("launcher", "rdzv") == "static":
        message = "launcher.max_restarts with rdzv: static on several nodes: a node that restarts "
        message += "its ranks waits forever for the other nodes"
        paths: list[Path] = [("nodes",), ("launcher", "rdzv"), ("launcher", "max_restarts")]
        tree.contradict(message, paths, "set rdzv: c10d, or max_restarts: 0")


def _checkpoint(tree: Tree) -> None:
    time, grace = _time(tree, ("time",)), _time(tree, ("checkpoint", "grace"))
    if time and grace and grace >= time:
        short, limit = grace.format_short(), time.format_short()
        message = f"checkpoint.grace {short} is not shorter than time {limit}"
        tree.contradict(
            message,
            [("time",), ("checkpoint", "grace")],
            "the pre-timeout signal must come before the end",
        )


def _chain(tree: Tree) -> None:
    """Say what a chain of jobs does not go with."""
    path: Path = ("checkpoint", "chain")
    if tree.get(*path) is None:
        return
    for key in ("array", "sweep"):
        if tree.get(key) is not None:
            message = f"checkpoint.chain and {key} exclude each other: a chain has one run"
            hint = "set checkpoint: {requeue: true}, or submit a chain per element with --set"
            tree.contradict(message, [(key,), path], hint)
    if tree.get("race") is not None:
        message = "checkpoint.chain and race exclude each other: one partition starts all its jobs"
        hint = "set checkpoint: {requeue: true}, or slurm: {partition: 'a,b'} instead of race"
        tree.contradict(message, [("race",), path], hint)
    for name in ("requeue", "max_requeues"):
        if tree.get("checkpoint", name) not in (None, False):
            message = f"checkpoint.chain and checkpoint.{name} exclude each other"
            hint = "keep requeue if the site allows it: one job waits in the queue, not several"
            tree.contradict(message, [("checkpoint", name), path], hint)


def _time(tree: Tree, path: Path) -> Walltime | None:
    text = tree.get_text(*path)
    try:
        return Walltime.parse(text) if text else None
    except UnitError:
        return None

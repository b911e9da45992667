"""Commands and options of other tools, and what to type here instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.errors import Usage

_ALIKE: Mapping[str, Sequence[str]] = {
    "use `jobgen submit`": (
        *("run", "launch", "start", "sbatch", "srun", "apply", "exec", "up", "train"),
        *("deploy", "queue-job", "resubmit", "retry", "resume", "requeue", "torchrun"),
    ),
    "use `jobgen show ID`, or `jobgen ls` for all jobs": (
        *("status", "stat", "info", "describe", "inspect", "get", "sacct", "seff", "jobinfo"),
    ),
    "use `jobgen ls`": ("top", "queue", "squeue", "list", "jobs", "history", "qstat", "runs"),
    "use `jobgen cancel ID`": (
        *("kill", "stop", "scancel", "delete", "rm", "abort", "terminate", "down"),
    ),
    "use `jobgen logs ID -f`": ("tail", "follow", "watch", "attach", "log", "output", "stream"),
    "use `jobgen logs ID --stderr`, or `jobgen show ID` for the cause": (
        *("errors", "why", "debug"),
    ),
    "use `jobgen lint`": ("validate", "check", "verify", "test"),
    "use `jobgen plan`": ("estimate", "preview", "dry-run", "dryrun", "diff", "what-if"),
    "use `jobgen render`": ("generate", "template", "script", "export", "compile"),
    "use `jobgen doctor -c NAME` to check the login; to log in, use ssh": ("login", "ssh"),
    "use `jobgen pull ID`": (*("cp", "fetch", "download", "get-files", "rsync", "scp"),),
    "use `jobgen submit`, which uploads the folder": ("push", "upload", "sync"),
    "use `jobgen show ID --gpus` for a job with `monitor:`": (
        *("gpus", "monitor", "nvidia-smi", "usage", "stats"),
    ),
    "use `jobgen cluster ls`": ("clusters", "profiles", "partitions", "sinfo", "nodes"),
    "use `jobgen cluster add NAME`": ("configure", "add"),
    "use `jobgen init`": ("new", "create", "quickstart", "setup", "wizard"),
    "use `jobgen --version`": ("version",),
}
"""What to use instead → the commands that people try."""
ADVICE = {name: advice for advice, names in _ALIKE.items() for name in names}

_FILE = "name the job file without an option: `jobgen {verb} job.yaml`"
_KEY = "use `--set {key}=VALUE`, or the key `{key}` in job.yaml"
_KEYS: Mapping[str, Sequence[str]] = {
    "nodes": ("--nodes", "-N", "--num-nodes", "--nnodes"),
    "procs_per_node": ("--ntasks-per-node",),
    "cpus_per_task": ("--cpus-per-task",),
    "slurm.constraint": ("--constraint", "-C"),
    "slurm.reservation": ("--reservation",),
    "gpus_per_node": ("--gpus", "--gpus-per-node", "--gres", "-G", "--nproc-per-node"),
    "time": ("--time", "-t", "--timeout"),
    "name": ("--name", "--job-name", "-J"),
    "mem": ("--mem",),
    "slurm.partition": ("--partition", "-p"),
    "slurm.account": ("--account", "-A"),
    "slurm.qos": ("--qos",),
}
_RANKS = "for nodes: `--set nodes=VALUE`; for ranks: `--set gpus_per_node=VALUE`"
_OPTIONS = {option: _KEY.format(key=key) for key, options in _KEYS.items() for option in options}
_OPTIONS |= dict.fromkeys(("-f", "--file", "--config", "--job"), _FILE)
_OPTIONS |= dict.fromkeys(("-n", "--ntasks"), _RANKS)
_OF_JOBS = frozenset({"plan", "submit", "render", "lint"})
"""Verbs that take a job file."""


def refuse_verb(name: str) -> Usage | None:
    """The error for a command that other tools have; None if it is not known."""
    advice = ADVICE.get(name.lower())
    return Usage(f"no command '{name}'", hint=advice) if advice else None


def refuse_option(verb: str, option: str) -> Usage | None:
    """The error for an option that other tools have; None if it is not known."""
    advice = _OPTIONS.get(option.partition("=")[0]) if verb in _OF_JOBS else None
    hint = advice.format(verb=verb) if advice else ""
    return Usage(f"{verb} has no option {option.partition('=')[0]}", hint=hint) if advice else None

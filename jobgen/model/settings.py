"""The mappings inside job.yaml: workdir, launcher, secrets, checkpoint, nccl."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from jobgen.model.chain import LEAST, MOST
from jobgen.model.fields import (
    DURATION,
    ENVIRONMENT,
    LINE,
    RELATIVE,
    REMOTE,
    SIZE,
    WORD,
    WORDS,
    YES,
    check_choice,
    check_env_name,
    check_integer,
    check_line,
    check_relative_path,
    check_remote_path,
    check_text,
)
from jobgen.model.form import Check, Form, Refusal, ValueDiagnostic, key, nest_fault, refuse
from jobgen.model.launchers import ALIASES, DEFAULT, LAUNCHERS
from jobgen.model.units import Walltime, clip
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_words

_NAMES = join_words([f"{n} ({f.note})" if f.note else n for n, f in LAUNCHERS.items()], "or")
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP", "CONT", "URG", "WINCH")
DEBUG = ("VERSION", "WARN", "INFO", "TRACE")


def check_place(value: object) -> str:
    """A directory: absolute on the cluster, or relative to the run directory."""
    word = check_line(value)
    return (
        check_remote_path(word) if word.startswith(("/", "$", "~")) else check_relative_path(word)
    )


def check_signal(value: object) -> str:
    """A signal that a program can catch, without ``SIG``."""
    word = check_text(value).upper().removeprefix("SIG")
    if word in {"KILL", "STOP", "9", "19"}:
        message = f"signal '{clip(word)}' cannot be caught, so that nothing could be saved"
        raise refuse("J123", message, "use USR1")
    found: str = check_choice("signal", SIGNALS)(word)
    return found


def check_monitor(value: object) -> Walltime | None:
    """How often a job writes down what its GPUs do; ``off`` is never."""
    if isinstance(value, str) and value == "off":
        return None
    if isinstance(getattr(value, "flag", value), bool):
        message = f"expected a duration, got {check_text(value)}"
        raise refuse("J265", message, "set an interval, such as monitor: 30s, or monitor: off")
    every = DURATION(value)
    if every.seconds > LONGEST_MONITOR:
        raise refuse("J265", f"{every} is out of range", "use 1s to 1h")
    return every


LONGEST_MONITOR = 3600
"""Seconds: what is looked at more seldom than once an hour tells nothing of a job."""
MONITOR = Check(check_monitor, {"type": "string", "examples": ["30s", "1m", "off"]})


class SecretRef(NamedTuple):
    """A secret's name in the job, and where its value is read at submit time."""

    name: str
    source: Literal["env", "file"] = "env"
    ref: str = ""


def check_secrets(value: object) -> tuple[SecretRef, ...]:
    """``[NAME, …]``, or ``NAME: {env: OTHER}`` and ``NAME: {file: PATH}``."""
    if isinstance(value, Mapping):
        items = [(name, name, where) for name, where in value.items()]
    else:
        listed = value if isinstance(value, (list, tuple)) else [value]
        items = [(index, name, None) for index, name in enumerate(listed)]
    found: list[SecretRef] = []
    faults: list[ValueDiagnostic] = []
    for step, name, where in items:
        try:
            found.append(name if isinstance(name, SecretRef) else _secret(name, where))
        except Refusal as refusal:
            faults += [nest_fault(f, step) for f in refusal.faults]
    if faults:
        raise Refusal(faults)
    return tuple(found)


def _secret(name: object, where: object) -> SecretRef:
    if isinstance(name, Mapping):
        raise refuse(
            "J151", "expected a name, got a mapping", "write secrets: {NAME: {file: PATH}}"
        )
    word = check_env_name(name)
    if where is None:
        return SecretRef(word, "env", word)
    pairs = list(where.items()) if isinstance(where, Mapping) else []
    if len(pairs) != 1 or pairs[0][0] not in {"env", "file"}:
        hint = "set {env: OTHER_NAME} or {file: PATH}; values are not allowed in this file"
        raise refuse("J151", "no source for its value", hint)
    kind, ref = pairs[0]
    return SecretRef(word, kind, check_env_name(ref) if kind == "env" else check_line(ref))


_WHERE = {
    "type": "object",
    "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
SECRETS = Check(
    check_secrets,
    {
        "anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"anyOf": [_WHERE, {"type": "null"}]}},
        ]
    },
)


class Workdir(Form):
    """The directory that the program runs in: one that is uploaded, or one of the cluster."""

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """``ignore: .jobgenignore`` names the file of patterns, as everybody would think."""
        ignore = data.get("ignore")
        if isinstance(ignore, str) and re.fullmatch(r"\.\w+ignore", ignore):
            rest = {k: v for k, v in data.items() if k != "ignore"}
            return {"ignore_file": ignore, **rest}
        return data

    at: str | None = key(
        REMOTE,
        default=None,
        doc=(
            "Directory on the cluster that the program runs in; nothing is uploaded, and the job "
            "records its commit. $NAME is expanded on the cluster."
        ),
        example="/scratch/$USER/Megatron-LM",
    )
    path: str = key(
        LINE, default=".", doc="Directory to upload, relative to this file or starting with ~/."
    )
    ignore: tuple[str, ...] = key(
        WORDS, default=(), doc="Patterns of files to exclude from the upload, as in .gitignore."
    )
    ignore_file: str | None = key(
        RELATIVE,
        default=None,
        doc="File with such patterns; default: .jobgenignore, else .gitignore.",
    )
    max_size: int = key(SIZE, default=500 * 1024**2, doc="Maximum upload size; default: 500MiB.")


def check_arguments(value: object) -> tuple[str, ...]:
    """Words of a command line, as a list or as a shell reads them."""
    if isinstance(value, str):
        import shlex

        try:
            value = shlex.split(check_line(value))
        except ValueError as error:
            raise refuse("J120", f"cannot be split into words: {error}") from error
    words = WORDS(value)
    faults = [
        ValueDiagnostic("J120", f"'{clip(word)}' is one word", _APART, (index,))
        for index, word in enumerate(words)
        if re.match(r"--?[\w-]+\s", word)
    ]
    if faults:
        raise Refusal(faults)
    return words


def check_command_words(value: object) -> tuple[str, ...]:
    """The words of a command, as a list or as a shell reads them."""
    words = check_arguments(value)
    if not words or words[0].startswith("-"):
        raise refuse("J120", "expected a command", "for example uv run torchrun")
    return words


_APART = "write a list with a word each, or one text in place of the list"
COMMAND = Check(check_command_words, {"type": ["string", "array"], "items": {"type": "string"}})
ARGUMENTS = Check(check_arguments, WORDS.schema)


class Launcher(Form):
    """What starts the ranks."""

    type: str | None = key(
        check_choice("launcher", [*LAUNCHERS], aliases=ALIASES),
        default=None,
        doc=f"{_NAMES}; default: {DEFAULT} for a .py file or -m module.",
    )
    rdzv: Literal["c10d", "static"] = key(
        check_choice("rendezvous", ("c10d", "static")),
        default="c10d",
        doc="Rendezvous backend of torchrun.",
    )
    max_restarts: int = key(
        check_integer(0, 1000),
        default=0,
        doc="How often torchrun restarts the ranks after a failure.",
    )
    args: tuple[str, ...] = key(
        ARGUMENTS, default=(), doc="Extra arguments for the launcher, passed unchanged."
    )
    command: tuple[str, ...] = key(
        COMMAND,
        default=(),
        doc=(
            "Words to start the launcher with, in place of its name: uv run torchrun, or a path. "
            "jobgen adds the options."
        ),
        example="uv run torchrun",
    )
    srun_args: tuple[str, ...] = key(
        ARGUMENTS,
        default=(),
        doc="Extra options of the srun that starts the launcher on every node.",
        example="[--auto-resume=1]",
    )
    ssh: Literal["none", "pdsh"] = key(
        check_choice("ssh", ("none", "pdsh")),
        default="none",
        doc="deepspeed only: none (srun starts a launcher on every node) or pdsh.",
    )
    config: str | None = key(
        RELATIVE,
        default=None,
        doc="DeepSpeed or accelerate configuration: a file in the workdir.",
    )


class Checkpoint(Form):
    """What happens when time runs out."""

    dir: str | None = key(
        Check(check_place, {"type": "string"}),
        default=None,
        doc="Checkpoint directory of the program: $JOBGEN_CHECKPOINT_DIR.",
    )
    signal: str = key(
        Check(check_signal, WORD),
        default="USR1",
        doc="Pre-timeout signal: Slurm sends it to the batch shell.",
    )
    to: Literal["file", "ranks"] | None = key(
        check_choice("target", ("file", "ranks")),
        default=None,
        doc=(
            "How to ask the program to save: file (it checks for $JOBGEN_STOP_FILE between "
            "steps) or ranks (each rank's program gets the signal, too). Default: ranks with "
            "train.framework: megatron, else file."
        ),
    )
    grace: Walltime = key(
        DURATION,
        default=Walltime(300),
        doc="How long before the end to send the pre-timeout signal; default: 5m.",
    )
    requeue: bool = key(
        YES,
        default=False,
        doc="Requeue the job after it has saved because of that signal.",
    )
    max_requeues: int = key(
        check_integer(0, 1000),
        default=10,
        doc="Maximum number of requeues; the job starts once more than that.",
    )
    chain: int | None = key(
        check_integer(LEAST, MOST),
        default=None,
        doc=(
            "Where requeueing is not allowed: submit this many jobs, each of which waits for the "
            "end of the one before and resumes. When training ends, the rest do not run."
        ),
        example="3",
    )


class Nccl(Form):
    """NCCL's settings beside those that the cluster's network needs."""

    debug: str = key(check_choice("debug level", DEBUG), default="WARN", doc="NCCL_DEBUG.")
    env: Mapping[str, str] = key(
        ENVIRONMENT, default={}, doc="Extra variables; they override derived ones."
    )

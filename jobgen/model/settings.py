"""The mappings inside job.yaml: workdir, launcher, secrets, checkpoint, nccl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from jobgen.model.fields import (
    Environment,
    Line,
    Model,
    RelativePath,
    Size,
    Time,
    Words,
    Yes,
    env_name,
    line,
    one_of,
    relative_path,
    remote_path,
    text,
    whole,
    words,
    wrong,
)
from jobgen.model.units import Walltime, clip

LAUNCHERS = ("torchrun", "srun", "deepspeed", "accelerate", "plain")
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP", "CONT", "URG", "WINCH")
DEBUG = ("VERSION", "WARN", "INFO", "TRACE")


def place(value: object) -> str:
    """A directory: absolute on the cluster, or relative to the run directory."""
    word = line(value)
    return remote_path(word) if word.startswith(("/", "$", "~")) else relative_path(word)


def signal(value: object) -> str:
    word = text(value).upper().removeprefix("SIG")
    if word in {"KILL", "STOP", "9", "19"}:
        raise wrong(
            "J123",
            f"signal '{clip(word)}' cannot be caught, so nothing could be saved",
            "write USR1",
        )
    return one_of("signal", SIGNALS)(word)


Signal = Annotated[str, BeforeValidator(signal), WithJsonSchema({"type": "string"})]


class Workdir(Model):
    """The directory that is uploaded, and in which the program runs."""

    path: Line = Field(".", description="The directory, relative to this file.")
    ignore: Annotated[
        tuple[str, ...], BeforeValidator(words(line)), WithJsonSchema({"type": ["array", "string"]})
    ] = Field((), description="Patterns, as in .gitignore, of what is not uploaded.")
    ignore_file: RelativePath | None = Field(
        None, description="A file of such patterns; .jobgenignore, else .gitignore, by default."
    )
    max_size: Size = Field(
        500 * 1024**2, description="The most that may be uploaded; 500MiB by default."
    )


class Launcher(Model):
    """What starts the ranks."""

    type: (
        Annotated[
            Literal["torchrun", "srun", "deepspeed", "accelerate", "plain"],
            BeforeValidator(one_of("launcher", LAUNCHERS, aliases={"none": "plain"})),
        ]
        | None
    ) = Field(
        None,
        description="torchrun, srun (one task a rank), deepspeed, accelerate or plain (the command "
        "as it is); left out, torchrun starts a .py file or -m module.",
    )
    rdzv: Annotated[
        Literal["c10d", "static"], BeforeValidator(one_of("rendezvous", ("c10d", "static")))
    ] = Field("c10d", description="How torchrun's agents find each other.")
    max_restarts: Annotated[int, BeforeValidator(whole(0, 1000))] = Field(
        0, description="How often torchrun starts the ranks again after a failure."
    )
    args: Words = Field((), description="More words for the launcher's command line, as they are.")
    ssh: Annotated[Literal["none", "pdsh"], BeforeValidator(one_of("ssh", ("none", "pdsh")))] = (
        Field(
            "none",
            description="deepspeed only: none (srun starts a launcher on every node) or pdsh.",
        )
    )
    config: RelativePath | None = Field(
        None,
        description="The DeepSpeed configuration (deepspeed) or the accelerate configuration "
        "(accelerate): a file in the workdir.",
    )


class SecretRef(NamedTuple):
    """A secret's name in the job, and where its value is read at submit time."""

    name: str
    source: Literal["env", "file"] = "env"
    ref: str = ""


class Checkpoint(Model):
    """What happens when time runs out."""

    dir: Annotated[str, BeforeValidator(place)] | None = Field(
        None, description="Where the program keeps its checkpoints: $JOBGEN_CHECKPOINT_DIR."
    )
    signal: Signal = Field(
        "USR1", description="The early warning's signal, sent to the job's batch shell only."
    )
    grace: Time = Field(
        Walltime(300), description="How long before the end the early warning comes; 5m by default."
    )
    requeue: Yes = Field(
        default=False,
        description="Put the job back in the queue when it has saved because of the warning.",
    )
    max_requeues: Annotated[int, BeforeValidator(whole(0, 1000))] = Field(
        10, description="How often at most."
    )


class Nccl(Model):
    """NCCL's settings beside those that the cluster's network needs."""

    debug: Annotated[
        str, BeforeValidator(one_of("debug level", DEBUG)), WithJsonSchema({"enum": list(DEBUG)})
    ] = Field("WARN", description="NCCL_DEBUG.")
    env: Environment = Field(
        default_factory=dict, description="Variables that win over those jobgen derives."
    )


def secrets(value: object) -> tuple[SecretRef, ...]:
    """``[NAME, …]``, or ``NAME: {env: OTHER}`` and ``NAME: {file: PATH}``."""
    if isinstance(value, Mapping):
        return tuple(_secret(name, where) for name, where in value.items())
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(v if isinstance(v, SecretRef) else _secret(v, None) for v in items)


def _secret(name: object, where: object) -> SecretRef:
    word = env_name(name)
    if where is None:
        return SecretRef(word, "env", word)
    pairs = list(where.items()) if isinstance(where, Mapping) else []
    if len(pairs) != 1 or pairs[0][0] not in {"env", "file"}:
        hint = "write {env: OTHER_NAME} or {file: PATH}; a value never stands in this file"
        raise wrong("J151", f"'{word}' does not say where its value is read", hint)
    kind, ref = pairs[0]
    return SecretRef(word, kind, env_name(ref) if kind == "env" else line(ref))


Secrets = Annotated[tuple[SecretRef, ...], BeforeValidator(secrets)]

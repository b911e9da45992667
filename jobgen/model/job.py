"""A job as the user wrote it down: job.yaml, in one form.

What may be written in several ways (a word or a mapping, a block or a list) has one form here.
Nothing that depends on the cluster is decided yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from jobgen.model.container import Container
from jobgen.model.fields import (
    Environment,
    Labels,
    Line,
    Lines,
    Model,
    Name,
    Names,
    NodeMemory,
    Patterns,
    RunText,
    Time,
    Variables,
    Words,
    described,
    line,
    split_extra,
    text,
    whole,
    wrong,
)
from jobgen.model.settings import (
    LAUNCHERS,
    Checkpoint,
    Launcher,
    Nccl,
    SecretRef,
    Secrets,
    Workdir,
)

__all__ = [
    "LAUNCHERS",
    "Checkpoint",
    "Container",
    "JobSpec",
    "Launcher",
    "Nccl",
    "SecretRef",
    "Workdir",
]

MOST_NODES = 65_536

_SPAN = re.compile(r"(\d{1,6}):(\d{1,6})", re.ASCII)


class JobSpec(Model):
    """What to run, and how much of the cluster it needs."""

    name: Name = Field(description="The job's name.")
    run: RunText = Field(
        description="The command. A .py file or -m module goes through the launcher; any other "
        "command with more than one rank must name its launcher."
    )
    nodes: Annotated[
        int,
        BeforeValidator(whole(1, MOST_NODES, more="MIN:MAX for an elastic job")),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": MOST_NODES},
                    {"type": "string", "pattern": "^[0-9]+:[0-9]+$"},
                ]
            }
        ),
    ] = Field(description="Number of nodes, or MIN:MAX for a job that goes on with fewer.")
    time: Time = Field(description="The time limit: 4h, 90m, 1d12h, 04:00:00 or 1-12:00:00.")
    version: Annotated[Literal[1], BeforeValidator(lambda v: _version(v))] = Field(
        1, description="The version of this format."
    )
    cluster: Line | None = Field(None, description="The cluster, where -c does not name one.")
    min_nodes: Annotated[int, BeforeValidator(whole(1, MOST_NODES))] | None = Field(
        None, description="MIN of nodes: MIN:MAX.", json_schema_extra={"hidden": True}
    )
    gpus_per_node: Annotated[int, BeforeValidator(whole(0, 1024))] | None = Field(
        None, description="GPUs on each node, one rank for each; left out, all that a node has."
    )
    procs_per_node: Annotated[int, BeforeValidator(whole(1, 1024))] | None = Field(
        None, description="Ranks on each node where nodes have no GPUs."
    )
    cpus_per_task: Annotated[int, BeforeValidator(whole(1, 4096))] | None = Field(
        None, description="CPU cores for each rank."
    )
    mem: NodeMemory | None = Field(
        None, description="Memory of each node: 64G, 500MiB; 0 means all of it."
    )
    workdir: Annotated[
        Workdir,
        BeforeValidator(lambda v: v if isinstance(v, (Mapping, Workdir)) else {"path": line(v)}),
    ] = Field(
        Workdir(), description="The directory that is uploaded; the job file's own by default."
    )
    launcher: Annotated[
        Launcher,
        BeforeValidator(lambda v: v if isinstance(v, (Mapping, Launcher)) else {"type": text(v)}),
    ] = Field(
        Launcher(), description="What starts the ranks: a word, or a mapping with its settings."
    )
    setup: Lines = Field(
        (), description="Lines of bash run on every node before the launcher, in the same shell."
    )
    env: Environment = Field(
        default_factory=dict,
        description="Environment of every rank. $NAME is expanded on the cluster, $$ is a dollar.",
    )
    secrets: Secrets = Field(
        (),
        description="Names of secrets. Their values come from your environment, or from a file as "
        "{file: PATH}, when you submit; never from this file.",
        json_schema_extra={"form": "secrets"},
    )
    vars: Variables = Field(
        default_factory=dict, description="Variables for ${NAME} in this file; --set changes them."
    )
    outputs: Patterns = Field((), description="Patterns of the files that the job leaves behind.")
    checkpoint: Checkpoint | None = Field(
        None, description="The early warning, and whether the job is put back in the queue."
    )
    nccl: Nccl = Field(Nccl(), description="NCCL's debug level and more of its variables.")
    container: (
        Annotated[
            Container,
            BeforeValidator(
                lambda v: v if isinstance(v, (Mapping, Container)) else {"image": text(v)}
            ),
        ]
        | None
    ) = Field(None, description="The container: an image, or a mapping with its settings.")
    slurm: Mapping[str, str | None] = Field(
        default_factory=dict,
        description="Any option of sbatch by its long name; extra: holds options of site plug-ins.",
        json_schema_extra={"form": "slurm"},
    )
    slurm_extra: Words = Field(
        (), description="slurm.extra, word by word.", json_schema_extra={"hidden": True}
    )
    labels: Labels = Field(
        default_factory=dict, description="Words for your own use, kept with the run."
    )
    after: Names = Field(
        (), description="Names of jobs that must have ended well before this starts."
    )

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, data: Any) -> Any:
        """``nodes: MIN:MAX`` and ``slurm: {extra: …}`` are two values each."""
        if not isinstance(data, Mapping):
            return data
        data = dict(data)
        span = _SPAN.fullmatch(data["nodes"]) if isinstance(data.get("nodes"), str) else None
        if span and 1 <= int(span.group(1)) <= int(span.group(2)) <= MOST_NODES:
            least, most = int(span.group(1)), int(span.group(2))
            data["nodes"] = most
            if least < most:
                data["min_nodes"] = least
        return split_extra(data)


def _version(value: object) -> int:
    if whole(1, 1_000_000)(value) != 1:
        raise wrong(
            "J117", f"version {described(value)} is not known", "this jobgen reads version 1"
        )
    return 1

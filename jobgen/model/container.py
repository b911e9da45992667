"""The container that a job runs in; a key of the job, and of a profile's defaults."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from jobgen.model.fields import (
    Model,
    RemotePath,
    line,
    one_of,
    shell_text,
    words,
    wrong,
)
from jobgen.model.units import clip

RUNTIMES = ("pyxis", "apptainer", "docker")
_MOUNT = re.compile(r"(/|\$[A-Za-z_])[^:]*:/[^:]*(:(ro|rw))?")


def image(value: object) -> str:
    """An image: a path, or a name in a registry; one word."""
    word = line(value)
    if word.startswith("-") or re.search(r"\s", word):
        raise wrong(
            "J126", f"'{clip(word)}' is not an image", "such as nvcr.io/nvidia/pytorch:25.09-py3"
        )
    return word


def mount(value: object) -> str:
    """``src:dst`` or ``src:dst:ro``; a path alone is mounted at the same place."""
    word = shell_text(line(value))
    if ":" not in word:
        word = f"{word}:{word}"
    paths = word.split(":")[:2]
    if not _MOUNT.fullmatch(word) or any(".." in p.split("/") for p in paths) or "," in word:
        message = f"'{clip(word)}' is not SOURCE:TARGET[:ro] with absolute paths"
        raise wrong("J137", message, "such as /scratch:/scratch or /data:/data:ro")
    return word


Image = Annotated[str, BeforeValidator(image)]


class Container(Model):
    """The container that every rank runs in."""

    image: Image = Field(
        description="The image: a name in a registry (nvcr.io/nvidia/pytorch:25.09-py3), or a path "
        "on the cluster to a .sqsh (pyxis) or .sif (apptainer) file."
    )
    runtime: Annotated[
        Literal["pyxis", "apptainer", "docker"],
        BeforeValidator(
            one_of(
                "container runtime",
                RUNTIMES,
                aliases={"singularity": "apptainer", "enroot": "pyxis"},
            )
        ),
    ] = Field("pyxis", description="The program that starts it. singularity means apptainer.")
    mounts: Annotated[
        tuple[str, ...],
        BeforeValidator(words(mount)),
        WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}}),
    ] = Field(
        (),
        description="Paths of the node made visible inside, as source:target or source:target:ro.",
    )
    args: Annotated[
        tuple[str, ...],
        BeforeValidator(words(line)),
        WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}}),
    ] = Field((), description="More words for the runtime's command line, as they are.")
    workdir: RemotePath | None = Field(
        None,
        description="The directory inside in which the program starts; the job's own by default.",
    )

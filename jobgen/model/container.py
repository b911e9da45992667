"""The container that a job runs in; a key of the job, and of a profile's defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from jobgen.model.fields import (
    LINE,
    REMOTE,
    check_choice,
    check_env_name,
    check_line,
    check_shell_text,
)
from jobgen.model.form import Check, Form, check_form, check_list, key, refuse
from jobgen.model.units import clip

RUNTIMES = ("pyxis", "apptainer", "docker", "shifter", "edf")
BY_SRUN = frozenset({"pyxis", "edf"})
"""Runtimes whose container srun enters, before any script runs."""
_MOUNT = r"(/|\$[A-Za-z_])[^:,]*:(/|\$[A-Za-z_])[^:,]*(:(ro|rw))?"
_STARTS = ((r"\.(?=[:/]|$)", "$JOBGEN_WORK_DIR"), (r"~(?=[:/]|$)", "$HOME"))
"""What a path may begin with → how a script on the cluster writes it."""


def check_image(value: object) -> str:
    """An image: a path, or a name in a registry; one word."""
    word = check_line(value)
    if word.startswith("-") or re.search(r"\s", word):
        example = "for example nvcr.io/nvidia/pytorch:25.09-py3"
        raise refuse("J126", f"'{clip(word)}' is not an image", example)
    return check_shell_text(word)


def check_part_image(value: object) -> str:
    """The image of a step or a group, which has all else of its container from the job."""
    if isinstance(value, Mapping):
        message = "a step or a group names only the image of its container: runtime, mounts and "
        message += "login are those of the job"
        raise refuse("J120", message, "write container: IMAGE here, and the rest at the top")
    return check_image(value)


PART_IMAGE = Check(check_part_image, {"type": "string"})


def check_mount(value: object) -> str:
    """``src:dst`` or ``src:dst:ro``; a path alone is both source and target.

    A source may begin with ``.``, the workdir on the cluster, or with ``~``.
    """
    word = check_shell_text(check_line(value))
    for start, written in _STARTS:
        if match := re.match(start, word):
            word = written + word[match.end() :]
    if ":" not in word:
        word = f"{word}:{word}"
    if not re.fullmatch(_MOUNT, word) or any(".." in p.split("/") for p in word.split(":")):
        message = f"'{clip(word)}' is not SOURCE:TARGET[:ro] with absolute paths"
        raise refuse("J137", message, "for example $SCRATCH, /data:/data:ro or ./conf:/conf")
    return word


def check_module(value: object) -> str:
    """The name of a module or a hook, and perhaps its variant."""
    word = check_line(value)
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(=[\w.-]+)?", word, re.ASCII):
        raise refuse("J120", f"'{clip(word)}' is not the name of a module", "for example gpu")
    return word


RUNTIME = check_choice(
    "container runtime", RUNTIMES, aliases={"singularity": "apptainer", "enroot": "pyxis"}
)


class RegistryLogin(Form):
    """A login at the registry of the image."""

    user: str = key(LINE, doc="User name; of nvcr.io it is $oauthtoken.", example="me")
    secret: str = key(
        Check(check_env_name, {"type": "string"}),
        doc="Name under secrets whose value is the password or token.",
        example="NGC_API_KEY",
    )


class Container(Form):
    """The container that every rank runs in."""

    image: str = key(
        Check(check_image, {"type": "string"}),
        doc=(
            "Image: a registry name (nvcr.io/nvidia/pytorch:25.09-py3), or the path of a .sqsh "
            "(pyxis), .sif (apptainer) or .toml (edf) file on the cluster."
        ),
        example="nvcr.io/nvidia/pytorch:25.09-py3",
    )
    runtime: Literal["pyxis", "apptainer", "docker", "shifter", "edf"] = key(
        RUNTIME,
        default="pyxis",
        doc=(
            "Container runtime. singularity means apptainer; edf is the container engine of CSCS "
            "(srun --environment)."
        ),
    )
    modules: tuple[str, ...] = key(
        check_list(Check(check_module, {"type": "string"})),
        default=(),
        doc=(
            "With shifter, modules such as gpu and nccl-plugin; with edf, hooks to enable, such as "
            "aws_ofi_nccl, or aws_ofi_nccl=cuda12 for a variant."
        ),
        example="[gpu, nccl-plugin]",
    )
    mounts: tuple[str, ...] = key(
        check_list(Check(check_mount, {"type": "string"})),
        default=(),
        doc=(
            "Paths of the node to mount in the container: source:target or source:target:ro. "
            "A source may be . (the workdir) or ./FOLDER, and $NAME is expanded on the cluster."
        ),
    )
    login: RegistryLogin | None = key(
        check_form(RegistryLogin),
        default=None,
        doc="Login at the image's registry: user, and the name of a secret.",
        example="{user: $oauthtoken, secret: NGC_API_KEY}",
    )
    args: tuple[str, ...] = key(
        check_list(LINE), default=(), doc="Extra arguments for the runtime, passed unchanged."
    )
    workdir: str | None = key(
        REMOTE,
        default=None,
        doc="Working directory inside the container; default: that of the job.",
    )

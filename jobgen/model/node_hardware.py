"""The nodes and what is installed on them, as a profile describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from jobgen.model.fields import RELEASE, SIZE, YES, check_choice, check_integer, check_text, suggest
from jobgen.model.form import Check, Form, check_list, key, refuse
from jobgen.model.units import Release, clip
from jobgen.wording import join_words

INTRA = ("nvswitch", "nvlink", "infinity-fabric", "pcie")
_CPUS = r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*"
_LIST = "jobgen cluster ls --all"
UNKNOWN = "unknown"
"""What `cluster add` writes for a GPU or a fabric that nobody has looked at yet."""


def check_gpu(value: object) -> str | None:
    """A GPU of the catalogue, by its name or one of its other names; None where it is unknown."""
    from jobgen.data import gpus

    word = check_text(value)
    if word == UNKNOWN:
        return None
    known = gpus()
    found = next((g.name for g in known.values() if word in (g.name, *g.aliases)), None)
    if found is None:
        raise refuse("J176", f"unknown GPU '{clip(word)}'", _suggest_gpu(word, list(known)))
    return found


def _suggest_gpu(word: str, known: Sequence[str]) -> str:
    """The GPUs that a word is part of (A6000 of RTX-A6000-48GB), else the nearest, else a few."""
    parts = [name for name in known if word.lower() in name.lower()]
    if parts:
        return f"did you mean {join_words(parts[:6], 'or')}?"
    family = [n for n in known if n.lower().startswith(word.lower()[:8])] or known
    few = ", ".join(family[:6])
    return suggest(word, known) or f"for example {few}; clusters and their GPUs: {_LIST}"


def check_cpu_list(value: object) -> str:
    """A list of CPUs as the kernel writes it."""
    word = check_text(value)
    if not re.fullmatch(_CPUS, word, re.ASCII):
        raise refuse("J186", f"'{clip(word)}' is not a list of CPUs", "for example 48-55,112-119")
    return word


class Nodes(Form):
    """The nodes, which are alike."""

    count: int = key(check_integer(1, 65_536), doc="Number of nodes.", example="2")
    gpus_per_node: int = key(check_integer(0, 1024), default=0, doc="GPUs per node.")
    gpu: str | None = key(
        Check(check_gpu, {"anyOf": [{"form": "gpu"}, {"const": UNKNOWN}]}),
        default=None,
        doc="GPU model; jobgen cluster ls --all lists those of the profiles.",
    )
    cpus: int | None = key(
        check_integer(1, 65_536),
        default=None,
        doc="CPUs per node as Slurm counts them (sinfo -o %c): cores or threads.",
    )
    gpu_cpus: tuple[str, ...] = key(
        check_list(
            Check(
                check_cpu_list, {"title": "a CPU list", "type": "string", "pattern": f"^{_CPUS}$"}
            )
        ),
        default=(),
        doc=(
            "CPUs closest to each GPU, such as '48-55,112-119', in GPU order; if omitted, jobs "
            "detect them on the node."
        ),
    )
    mem: int | None = key(SIZE, default=None, doc="Memory per node, such as 1TiB.")
    intra: Literal["nvswitch", "nvlink", "infinity-fabric", "pcie"] | None = key(
        check_choice("link", INTRA, aliases={"xgmi": "infinity-fabric"}),
        default=None,
        doc="Link between the GPUs of a node: nvswitch, nvlink, infinity-fabric (AMD) or pcie.",
    )
    peer_access: bool | None = key(
        YES,
        default=None,
        doc="false: the GPUs have no peer access, even if the driver reports it.",
    )
    nvlink_nodes: int | None = key(
        check_integer(2, 1024),
        default=None,
        doc="Nodes in one NVLink domain, for example 18 in a GB200 NVL72 rack.",
    )


def _versions(program: str) -> Any:
    return key(RELEASE, default=None, doc=f"Release of {program}.")


class Versions(Form):
    """What is installed there, where it matters: only what is written here is relied on."""

    nccl: Release | None = _versions("the NCCL used by the programs")
    rccl: Release | None = _versions("RCCL, on AMD GPUs")
    cuda: Release | None = _versions("CUDA")
    driver: Release | None = _versions("the GPU driver")
    libfabric: Release | None = _versions("libfabric")
    ofi_nccl: Release | None = _versions("the aws-ofi-nccl plug-in")
    torch: Release | None = _versions("PyTorch")

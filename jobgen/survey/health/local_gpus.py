"""The GPUs that a profile of this machine has, against its driver and torch."""

from __future__ import annotations

import re

from jobgen.named_tuple import NamedTuple
from jobgen.survey.health import MISSING, Answer, CheckRow, Verdict, succeed, warn

_LISTED = re.compile(r"^GPU \d+: (.+?)(?: \(UUID.*)?$", re.MULTILINE)
"""A line of ``nvidia-smi -L``; those of MIG devices below it are indented."""
_CODE = "J437"


class LocalGpus(NamedTuple):
    """The GPUs of a profile, and what this machine has of them."""

    gpus: int
    """How many the profile has; at least 1."""
    name: str
    """Their model in the profile; empty if unknown."""
    place: str
    """Where the profile sets them."""
    listed: Answer
    """``nvidia-smi -L``."""
    build: Answer
    """The CUDA that torch is built for, empty if it is built without; exit 1 if there is none."""


def _gpus(case: LocalGpus) -> Verdict:
    names = _LISTED.findall(case.listed.out) if case.listed.ok else []
    if len(names) >= case.gpus:
        return succeed(_format(len(names), names[0]))
    profile = f"the profile has {_format(case.gpus, case.name or 'GPU')}"
    fix = f"install the NVIDIA driver, or correct gpus_per_node ({case.place})"
    return warn(f"{profile}, but {_explain(case.listed, names)}", fix, _CODE)


def _explain(listed: Answer, names: list[str]) -> str:
    """Why there are not as many."""
    if listed.code in MISSING:
        return "nvidia-smi is not installed"
    if listed.late:
        return "nvidia-smi did not answer in time"
    if not listed.ok:
        return f"nvidia-smi: {listed.summarize or f'exit code {listed.code}'}"
    return f"nvidia-smi lists {_format(len(names), names[0]) if names else 'no GPU'}"


def _format(number: int, name: str) -> str:
    return f"{number} x {name}"


def _build(case: LocalGpus) -> Verdict | None:
    if not case.build.ok:
        return None
    if not (release := case.build.out.strip()):
        fix = "activate an environment with torch for CUDA here, or under setup: in job.yaml"
        return warn("torch is a CPU build, without CUDA, but the profile has GPUs", fix, _CODE)
    return succeed(f"torch is built for CUDA {release[:20]}")


ROWS: tuple[CheckRow[LocalGpus], ...] = (
    CheckRow("local.gpus", "the profile's GPUs are on this machine", _gpus),
    CheckRow("local.build", "torch is built for CUDA", _build),
)

"""What a job runs on its nodes before its program: setup by scope, and data for their own disks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.model.fields import LINES, check_remote_path, describe_value
from jobgen.model.form import Check, Form, Refusal, ValueDiagnostic, key, nest_fault, refuse
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple

_SHARED = re.compile(r"/?|/[^/]+|/(var/tmp|dev/shm)|\$HOME|/(home|users|Users)/[^/]+")
"""Directories that other programs, or other jobs, write to."""


class SetupScopes(Form):
    """Lines of bash, by where they run."""

    node: tuple[str, ...] = key(
        LINES,
        default=(),
        doc=(
            "Once per node, before the launcher, in its shell: exports reach every rank. With "
            "srun, which starts each rank by itself, in a shell of their own: they reach none."
        ),
        example="pip install -e .",
    )
    rank: tuple[str, ...] = key(
        LINES,
        default=(),
        doc="In every rank, before its program: exports reach it alone.",
        example="export MY_CACHE=/tmp/cache-$LOCAL_RANK",
    )
    outside: tuple[str, ...] = key(
        LINES,
        default=(),
        doc=(
            "Outside the container, before it is entered: on each node, with srun for each rank. "
            "With pyxis, once per node in a shell of their own."
        ),
        example="module load apptainer",
    )


SETUP = {
    "type": ["string", "array", "object"],
    "items": {"type": "string"},
    "anyOf": [dict(LINES.schema), {"form": SetupScopes, "expand": lambda lines: {"node": lines}}],
}
"""The schema of ``setup``: lines of bash, or those of each scope."""


class StagedData(NamedTuple):
    """Data that is brought to a directory of each node."""

    source: str
    """A file, archive or directory that every node sees."""
    folder: str
    """The directory of the node that holds its content."""

    @property
    def names(self) -> frozenset[str]:
        """Variables of the cluster in the two paths."""
        return frozenset(re.findall(r"\$(\w+)", f"{self.source} {self.folder}"))


def check_stage(value: object) -> tuple[StagedData, ...]:
    """``SOURCE: DIRECTORY`` of each, in order."""
    if isinstance(value, tuple) and all(isinstance(each, StagedData) for each in value):
        return value  # a job that is copied with other keys
    if not isinstance(value, Mapping) or not value:
        message = f"expected a mapping, got {describe_value(value)}"
        raise refuse("J120", message, "write {/data/x.tar.gz: $SLURM_TMPDIR/data}")
    staged: list[StagedData] = []
    faults: list[ValueDiagnostic] = []
    for source, folder in value.items():
        try:
            staged.append(StagedData(check_remote_path(source), _check_folder(folder)))
        except Refusal as refusal:
            faults += [nest_fault(fault, str(source)) for fault in refusal.faults]
    if faults:
        raise Refusal(faults)
    return tuple(staged)


def _check_folder(value: object) -> str:
    """A directory that holds nothing but the job's data."""
    word = check_remote_path(value)
    folder = re.sub(r"/\.?(?=/|$)", "", word)
    if _SHARED.fullmatch(folder):
        hint = f"use a directory of the job's own: {folder or '/scratch'}/$SLURM_JOB_ID"
        raise refuse("J135", f"'{clip(word)}' also holds files of other programs", hint)
    return word


STAGE = Check(check_stage, {"type": "object", "additionalProperties": {"type": "string"}})

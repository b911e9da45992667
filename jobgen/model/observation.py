"""What a scheduler says of a job."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Literal

from jobgen.model.record import JobId, JobState


def format_mark(token: str) -> str:
    """What the comment of a run's jobs holds, which every user of the cluster can read.

    26 characters of lower-case base32 of the token's sha256: the token cannot be found from it.
    """
    digest = hashlib.sha256(f"jobgen comment {token}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:26]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a scheduler (or the job's own marker) said of one job, once."""

    job: JobId
    state: JobState
    raw: str = ""
    reason: str = ""
    nodes: str = ""
    elapsed: int | None = None
    """Seconds running."""
    left: int | None = None
    """Seconds to the time limit."""
    start: str = ""
    """When it started, or is expected to; the scheduler's own text."""
    exit: str = ""
    """``code:signal`` as Slurm writes it."""
    comment: str = ""
    restarts: int = 0
    source: Literal["squeue", "sacct", "scontrol", "marker", "local"] = "squeue"
    workdir: str = ""
    """The directory it was started in: the run directory, whose name ends in the token's head."""

    def belongs_to(self, token: str) -> bool:
        """Whether this is a job of the run with this token: ids are given out twice, tokens not."""
        marks = (f"jobgen:{mark}:" for mark in (format_mark(token), token))
        return any(m in self.comment for m in marks) or self.workdir.endswith("-" + token[:8])

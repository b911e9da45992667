"""What a scheduler says of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jobgen.model.record import JobId, JobState


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

    def of(self, token: str) -> bool:
        """Whether this is a job of the run with this token: ids are given out twice, tokens not."""
        return f"jobgen:{token}:" in self.comment or self.workdir.endswith("-" + token[:8])

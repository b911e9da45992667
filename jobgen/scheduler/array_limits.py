"""How many elements a job array and how many jobs an account may have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.scheduler.allowances import name_owners, read_records

MAX_ARRAY_SIZE = 1001
"""Slurm's default; an index is below it."""


class JobLimit(NamedTuple):
    """A limit on jobs, pending ones too, each element of an array counted."""

    owner: str
    """``account nlp``, ``ada in account nlp``, ``QOS long``, or ``the cluster``."""
    name: str
    """The field of Slurm: MaxSubmitJobs and its like."""
    most: int
    used: int = 0

    @property
    def left(self) -> int:
        """At least 0."""
        return max(self.most - self.used, 0)


class ArrayLimits(NamedTuple):
    """What a cluster allows to a large sweep."""

    array_size: int = MAX_ARRAY_SIZE
    jobs: tuple[JobLimit, ...] = ()

    def find_tightest(self) -> JobLimit | None:
        """The limit on jobs that leaves the fewest."""
        return min(self.jobs, key=lambda limit: limit.left, default=None)


def parse_array_limits(config: str, limits: str) -> ArrayLimits:
    """The limits in ``scontrol show config`` and in records of ``scontrol show assoc_mgr``."""
    settings = dict(re.findall(r"^(MaxArraySize|MaxJobCount)\s*=\s*(\d{1,9})\s*$", config, re.M))
    count = settings.get("MaxJobCount")
    cluster = (JobLimit("the cluster", "MaxJobCount", int(count)),) if count else ()
    size = int(settings.get("MaxArraySize", MAX_ARRAY_SIZE))
    return ArrayLimits(max(size, 1), (*cluster, *_list_job_limits(limits)))


def _list_job_limits(text: str) -> Iterator[JobLimit]:
    for record in read_records(text):
        for owner in name_owners(record):
            for name in ("MaxSubmitJobs", "MaxSubmitJobsPU", "MaxSubmitJobsPA", "GrpSubmitJobs"):
                found = re.fullmatch(r"(\d{1,9})(?:\((\d{1,9})\))?", record.get(name, ""))
                if found:
                    yield JobLimit(owner, name, int(found[1]), int(found[2] or 0))

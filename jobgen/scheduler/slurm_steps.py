"""Steps of a Slurm job: each element of a packed sweep is one, named ``eELEMENT.ATTEMPT``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.shell import Command, Result

if TYPE_CHECKING:
    from jobgen.model.record import JobId


def list_steps(job: JobId) -> Command:
    """The id and the name of each running step of a job."""
    return Command(
        ("squeue", *_on(job), "--steps", "--noheader", f"--jobs={job.job}", "--format=%i %j")
    )


def parse_steps(job: JobId, result: Result) -> Mapping[int, tuple[str, ...]]:
    """The ids of the steps of each element, of this job only."""
    steps: dict[int, tuple[str, ...]] = {}
    row = rf"^\s*({job.job}\.\d{{1,9}}) e(\d{{1,9}})\.\d{{1,9}}\s*$"
    for step, element in re.findall(row, result.text, re.ASCII | re.MULTILINE):
        steps[int(element)] = (*steps.get(int(element), ()), step)
    return steps


def signal_steps(job: JobId, steps: Sequence[str], signal: str = "") -> Command:
    """scancel for these steps: with this signal, else to end them at once."""
    extra = (f"--signal={signal}",) if signal else ()
    return Command(("scancel", *_on(job), *extra, *steps))


def _on(job: JobId) -> tuple[str, ...]:
    return (f"--clusters={job.cluster}",) if job.cluster else ()

"""What several versions of Slurm printed, and what is read in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobgen import scheduler
from jobgen.model.observation import Observation
from jobgen.model.record import JobId
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Result

FACTS = sorted((Path(__file__).parents[1] / "facts" / "slurm").glob("*.json"))


@pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
def test_what_slurm_said_is_read_as_written_down(path: Path) -> None:
    fact = json.loads(path.read_text(encoding="utf-8"))
    said = Result(fact["code"], fact["out"].encode(), fact["err"].encode())
    read = getattr(SlurmScheduler(), fact["method"])(said)
    assert _plain(read) == fact["expect"], fact["title"]


def test_three_generations_of_slurm_were_asked() -> None:
    versions = {json.loads(path.read_text(encoding="utf-8"))["slurm"] for path in FACTS}
    assert {"22.05.8", "24.11.5", "26.05.5"} <= versions


def _plain(read: object) -> Any:
    """What was read, as a fact file writes it."""
    if isinstance(read, Mapping):
        return {str(job): _line(seen) for job, seen in read.items()}
    if isinstance(read, tuple) and not isinstance(read, JobId):
        return [
            f"{f.job} {f.mark or f.workdir} {f.attempt}"
            for f in read
            if isinstance(f, scheduler.OwnJob)
        ]
    if isinstance(read, scheduler.SchedulerSettings):
        names = ("ttl", "min_job_age", "message_timeout", "accounting", "version")
        return {name: getattr(read, name) for name in names}
    if isinstance(read, scheduler.Tested):
        return {"ok": read.ok, "start": read.start}
    return read if read is None or isinstance(read, bool) else str(read)


def _line(seen: Observation) -> str:
    words = [seen.state.value, seen.raw, seen.reason, seen.nodes, seen.elapsed, seen.left]
    return " | ".join([*(str(word) for word in words), seen.exit])

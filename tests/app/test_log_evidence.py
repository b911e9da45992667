"""What the newest start of a run left on the cluster."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobgen.app.log_evidence import gather_run
from jobgen.cli.output import Ink
from jobgen.cli.screens.failure import draw_cause
from jobgen.diagnose import find_cause
from jobgen.diagnose.remedies import list_remedies
from jobgen.model.cause import FailureCause
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from jobgen.transport.this_machine import LocalTransport

RECORDED = Path(__file__).parents[1] / "zoo" / "recorded"
ENDED = 1795582631.666302
"""When the last rank of the recorded job ended."""


def judge(folder: Path, silent: dict[str, float], state: JobState) -> FailureCause:
    """The cause of a job whose files were last written to so many seconds before its end."""
    shutil.copytree(RECORDED / "time-limit", folder)
    for path in folder.rglob("logs/**/*.*"):
        seconds = silent.get(path.name, silent[""])
        os.utime(path, (ENDED - seconds, ENDED - seconds))
    site = Site("here", "slurm", Login("local"), str(folder.parent))
    shape = {"nodes": 2, "ranks_per_node": 2}
    record = RunRecord(
        "t" * 26, "llama-1", "llama", site, "0", 1.0, str(folder), JobId(12), state, shape=shape
    )
    with LocalTransport() as transport:
        evidence = gather_run(transport, record)
    assert evidence is not None
    cause = find_cause(evidence)
    assert cause is not None
    assert cause.kind == "time_limit"
    return cause


def test_a_job_that_was_silent_until_its_time_limit_may_have_hung(tmp_path: Path) -> None:
    """Launchers and Slurm write of the end itself: only what ranks wrote counts."""
    cause = judge(tmp_path / "run", {"": 11_540, "job-12.out": 0}, JobState.TIMEOUT)
    shown = draw_cause(cause, Ink(colour=False, width=80))
    assert "         no rank wrote anything in the last 3h 12m, so it may have hung" in shown
    assert list_remedies(cause)[0].text.startswith("before you raise the time, ")


@pytest.mark.parametrize("silent", [{"": 11_540.0, "n2.3.err": 60.0}, {"": 900.0}])
def test_a_job_that_went_on_until_its_time_limit_has_not_hung(
    tmp_path: Path, silent: dict[str, float]
) -> None:
    assert judge(tmp_path / "run", silent, JobState.TIMEOUT).says == ""

"""The commands for a run inside an allocation; its job is never cancelled."""

from __future__ import annotations

from jobgen.model.observation import format_mark
from jobgen.model.record import JobId, JobState, Login, Site
from jobgen.scheduler import Attempt, get_scheduler
from jobgen.scheduler.allocation_steps import AllocationScheduler
from jobgen.scheduler.slurm_format import SEPARATOR
from jobgen.shell import Result

TOKEN = "a" * 26
NAME = f"jobgen:{format_mark(TOKEN)}:1"
SCHEDULER = AllocationScheduler(inside="47", nodes=2)


def answer(*rows: tuple[str, ...], code: int = 0, err: str = "") -> Result:
    text = "".join(SEPARATOR.join(row) + "\n" for row in rows)
    return Result(code, text.encode(), err.encode())


STEPS = answer(
    ("47.batch", "n1", "1:00", "batch"),
    ("47.3", "n[1-2]", "0:20", NAME),
    ("47.4", "n[1-2]", "0:19", "bash"),
)


def test_a_site_with_an_allocation_starts_steps() -> None:
    site = Site("here", "slurm", Login("local"), "/s", inside="47", nodes=2)
    assert get_scheduler(site) == SCHEDULER
    assert Site.from_data(site.data()) == site
    words = SCHEDULER.submit(Attempt(("bundle/job.sbatch", "digest"), "/s/run", TOKEN, 1)).words
    assert {"--jobid=47", "--nodes=2", f"--job-name={NAME}", "digest"} <= {*map(str, words)}
    assert "sbatch" not in words


def test_only_steps_of_jobgen_are_seen() -> None:
    seen = SCHEDULER.parse_query(STEPS)
    assert seen is not None
    ((job, step),) = seen.items()
    assert (job, step.state, step.elapsed) == (JobId(47, component=3), JobState.RUNNING, 20)
    assert step.belongs_to(TOKEN)
    assert SCHEDULER.parse_query(answer(code=1, err="Invalid job id specified")) == {}
    assert SCHEDULER.parse_query(answer(code=1, err="timed out")) is None


def test_the_allocation_is_never_cancelled() -> None:
    (mine,) = SCHEDULER.parse_own_jobs(STEPS) or ()
    assert mine.belongs_to(TOKEN)
    assert str(SCHEDULER.cancel([mine.job])) == "scancel --signal=TERM 47.3"
    assert str(SCHEDULER.cancel([JobId(47)])) == "true"
    assert str(SCHEDULER.cancel([])) == "true"


def test_an_end_before_the_claim_is_a_refusal() -> None:
    assert SCHEDULER.is_refusal(answer(code=1, err="srun: error: Invalid job id"))
    assert not SCHEDULER.is_refusal(Result(1, b"47\n", b""))
    assert not SCHEDULER.is_refusal(answer(code=255))

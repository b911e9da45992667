"""Steps of the elements of a packed sweep, as squeue lists them."""

from __future__ import annotations

from jobgen.model.record import JobId
from jobgen.scheduler.slurm_steps import list_steps, parse_steps, signal_steps
from jobgen.shell import Result

ROWS = """\
42.batch batch
42.3 e7.0
42.4 e17.1
42.5 e7.1
421.3 e7.0
42.6 e7.0; rm -rf /
42.x e8.0
"""


def test_the_steps_of_an_element_are_found_by_their_name() -> None:
    assert parse_steps(JobId(42), Result(0, ROWS.encode(), b"")) == {
        7: ("42.3", "42.5"),
        17: ("42.4",),
    }


def test_commands_name_the_job_and_the_steps() -> None:
    job = JobId(42, cluster="west")
    assert list_steps(job).words[1:] == (
        *("--clusters=west", "--steps", "--noheader", "--jobs=42", "--format=%i %j"),
    )
    assert signal_steps(JobId(42), ["42.3"], "TERM").words == ("scancel", "--signal=TERM", "42.3")
    assert signal_steps(JobId(42), ["42.3", "42.5"]).words == ("scancel", "42.3", "42.5")

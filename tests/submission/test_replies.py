"""Answers of the scripts, good ones, refusals, and noise of a login shell."""

from __future__ import annotations

import pytest

from jobgen.model.record import JobId, Login, Site
from jobgen.scheduler import get_scheduler
from jobgen.shell import Result
from jobgen.submission.replies import FailedReply, read_resolve, read_stage, read_start
from jobgen.submission.states import Report, Resolved, RunDirectoryMissing, Staged

SLURM = get_scheduler(Site("big", "slurm", Login("paramiko", "big"), "/scratch"))


def reply(**frames: str) -> Result:
    """What a script printed."""
    return Result(0, "".join(f"{k} {len(v)}\n{v}\n" for k, v in frames.items()).encode())


def test_a_staged_directory_is_read() -> None:
    answer = reply(staged="", directory="/scratch/demo-x", now="17")
    assert read_stage(answer) == Staged("/scratch/demo-x", 17.0, "")


@pytest.mark.parametrize(
    ("frames", "text", "hint"),
    [
        (
            {"failed": "No space left on device", "free": "/dev/sda 9 8 2048 99% /scratch"},
            "the remote disk is full: No space left on device; free: 2 MiB",
            "free some space on /scratch",
        ),
        (
            {"failed": "$WORK is not set there", "hint": "see paths.root"},
            "$WORK is not set there",
            "see paths.root",
        ),
        ({"failed": ""}, "the request failed on the cluster", ""),
    ],
)
def test_a_failed_upload_names_the_cause_and_what_to_do(
    frames: dict[str, str], text: str, hint: str
) -> None:
    failed = read_stage(reply(**frames))
    assert isinstance(failed, FailedReply)
    assert failed.text == text
    assert hint in failed.hint


def test_noise_instead_of_an_answer_is_quoted_and_concludes_nothing() -> None:
    noise = Result(1, b"Welcome!\nLicence expired\n")
    failed = read_stage(noise)
    assert isinstance(failed, FailedReply)
    assert failed.text.endswith("(exit code 1): Licence expired")
    assert read_start(noise, SLURM, 1) == Report(1, 0.0)
    assert read_resolve(noise, SLURM, 1, "t") == Resolved(Report(1, 0.0), alive=True)


def test_a_missing_run_directory_is_told_from_silence() -> None:
    assert read_start(reply(missing=""), SLURM, 1) == RunDirectoryMissing()
    assert read_resolve(reply(missing=""), SLURM, 1, "t") == RunDirectoryMissing()


def test_an_accepted_attempt_has_its_id() -> None:
    answer = reply(now="20", host="login1", attempt="login1.77.19", rc="0", out="4711\n")
    report = read_start(answer, SLURM, 1)
    assert isinstance(report, Report)
    assert (report.printed, report.code) == (JobId(4711), 0)
    assert report.mark is not None
    assert (report.mark.host, report.mark.time) == ("login1", 19.0)

"""Of a job with several programs, the step that ran last is looked at."""

from __future__ import annotations

import pytest

from jobgen.diagnose import LogText, find_cause
from jobgen.diagnose.folders import build_evidence
from jobgen.model.cause import CauseKind

JOB = """\
v=1 time=10.0 kind=step step=train nodes=1 world=1
v=1 time=20.0 kind=step step=train code=0
v=1 time=21.0 kind=step step=eval nodes=1 world=1
v=1 time=30.0 kind=step step=eval code=1
"""
RANK = """\
v=1 time=11.0 kind=start node=n1 rank=0 local=0 world=1 step=train
v=1 time=19.0 kind=exit node=n1 rank=0 code=0 signal=0 step=train
v=1 time=22.0 kind=start node=n1 rank=0 local=0 world=1 step=eval
v=1 time=29.0 kind=exit node=n1 rank=0 code=1 signal=0 step=eval
"""
ERROR = 'Traceback (most recent call last):\n  File "{0}.py", line 1\nValueError: of {0}\n'


def test_what_an_earlier_step_wrote_is_no_cause() -> None:
    files = [
        LogText("state/0/events/0.n1.job", JOB),
        LogText("state/0/events/0.n1.0", RANK),
        LogText("logs/0/0/train/n1.0.err", ERROR.format("train")),
        LogText("logs/0/0/eval/n1.0.err", ERROR.format("eval")),
    ]
    cause = find_cause(build_evidence(files))
    assert cause is not None
    assert (cause.text, cause.rank, cause.code) == ("ValueError: of eval", 0, 1)
    assert cause.file == "logs/0/0/eval/n1.0.err"


GROUPS = """\
v=1 time=10.0 kind=step step=serve nodes=1 world=1
v=1 time=11.0 kind=step step=train nodes=1 world=1
v=1 time=20.0 kind=step step=train code=0
v=1 time=21.0 kind=step step=serve code=0 stopped=1
"""
STOPPED = """\
v=1 time=10.5 kind=start node=n2 rank=0 local=0 world=1 step=serve
v=1 time=20.5 kind=exit node=n2 rank=0 code=143 signal=15 step=serve
"""
AFTER = """\
jobgen: stopping group serve
srun: error: n2: task 0: Terminated
{0}jobgen: finally failed with exit code 3
"""


@pytest.mark.parametrize("command", ["", "jobgen: n1: finally failed: cp out /archive\n"])
def test_after_groups_that_ended_well_a_failing_finally_is_the_cause(command: str) -> None:
    files = [
        LogText("state/0/events/0.n1.job", GROUPS),
        LogText("state/0/events/0.n2.0", STOPPED),
        LogText("logs/job-7.out", AFTER.format(command)),
    ]
    cause = find_cause(build_evidence(files, "FAILED"))
    assert cause is not None
    text = "finally failed: cp out /archive" if command else "finally failed with exit code 3"
    assert (cause.kind, cause.text, cause.rank) == (CauseKind.SETUP, text, None)


def test_after_ranks_that_ended_well_a_failing_finally_is_the_cause() -> None:
    rank = STOPPED.replace("143 signal=15", "0 signal=0").replace(" step=serve", "")
    log = AFTER.format("").splitlines(keepends=True)[-1]
    files = [LogText("state/0/events/0.n2.0", rank), LogText("logs/job-7.out", log)]
    cause = find_cause(build_evidence(files, "FAILED"))
    assert cause is not None
    assert (cause.kind, cause.text) == (CauseKind.SETUP, "finally failed with exit code 3")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("srun: unrecognized option '--gpus-per-rank=1'", "launcher"),
        ("srun: option '--gpus' requires an argument", "launcher"),
        ("srun: invalid option -- 'Y'", "launcher"),
        ("sbatch: unrecognized option '--gpu=8'", "site_request"),
    ],
)
def test_an_option_that_slurm_rejects_is_a_cause(line: str, kind: str) -> None:
    log = f'{line}\nTry "srun --help" for more information\n'
    cause = find_cause(build_evidence([LogText("logs/job-7.out", log)], "FAILED"))
    assert cause is not None
    assert (cause.kind, cause.text) == (kind, line)

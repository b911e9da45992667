"""Of a job with several programs, the step that ran last is looked at."""

from __future__ import annotations

from jobgen.diagnose import LogText, find_cause
from jobgen.diagnose.folders import build_evidence

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

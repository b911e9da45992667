"""The end of ``submit --follow`` shows what was recorded: the cause and the rank, in 15 lines."""

from __future__ import annotations

import pytest

from jobgen.cli.output import Ink
from jobgen.cli.screens.jobs import draw_ended
from jobgen.diagnose import LogText, find_cause
from jobgen.diagnose.folders import build_evidence, is_log
from jobgen.model.cause import FailureCause
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from tests.zoo.cases import Case, read_cases
from tests.zoo.judge import ZOO

LAST = 15
"""Lines that a person sees without scrolling."""
SITE = Site("testbed", "slurm", Login("local"), "/runs")
CASES = [case for case in read_cases(ZOO / "recorded") if case.cause != "none"]


def end_run(cause: FailureCause) -> str:
    record = RunRecord("t" * 26, "llama-3", "llama", SITE, "0", 1.0, "/runs/llama", JobId(7))
    ended = {"state": JobState.FAILED, "ended": True, "exit": "1:0", "elapsed": 72, "nodes": "n1"}
    ended["submission"] = {"cause": list(cause)}
    return draw_ended(record._replace(**ended), Ink(colour=False, width=80))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cause_and_first_bad_rank_stand_in_the_last_lines(case: Case) -> None:
    texts = [
        LogText(name, path.read_text("utf-8", "backslashreplace"))
        for name, path in zip(case.truth["files"], case.files, strict=True)
        if is_log(name)
    ]
    cause = find_cause(build_evidence(texts))
    assert cause is not None
    lines = end_run(cause).rstrip("\n").split("\n")[-LAST:]
    assert any(line.startswith("  why") for line in lines), "\n".join(lines)
    if cause.bad_rank is not None:
        assert any(f"rank {cause.bad_rank}" in line for line in lines)

"""What ``scontrol show job --details`` says of an allocation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.record import JobState
from jobgen.scheduler.allocation_facts import AllocationFacts, parse_job

HEAD = "JobId=1 JobName=sbatch UserId=ann(64042) GroupId=ann(64042) JobState={} Reason=None "
NODES = (
    "JOB_GRES=gpu:a100:16   Nodes=n[1-2] CPU_IDs=0-63 Mem=0 GRES=gpu:a100:8(IDX:0-7) "
    "MinCPUsNode=1 MinMemoryNode=0 TresPerNode=gres:gpu:8"
)
"""Slurm 22.05 of a job on two whole nodes."""
MIXED = "Nodes=n1 CPU_IDs=0-3,8 Mem=0 GRES=gpu:2(IDX:0-1)   Nodes=n[2-3] CPU_IDs=0-1 Mem=0 GRES= "


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (NODES, AllocationFacts(JobState.RUNNING, "ann", 2, 64, 8)),
        (f"  {MIXED}", AllocationFacts(JobState.RUNNING, "ann", 3, 2, 0)),
        ("NumNodes=2", AllocationFacts(JobState.RUNNING, "ann", 0, 0, 0)),
    ],
)
def test_the_least_of_all_nodes_counts(text: str, facts: AllocationFacts) -> None:
    assert parse_job(HEAD.format("RUNNING") + text) == facts


def test_a_text_of_no_job_has_no_facts() -> None:
    assert parse_job("slurm_load_jobs error: Invalid job id specified") is None
    unknown = parse_job(HEAD.format("DREAMING"))
    assert unknown is not None
    assert unknown.state is JobState.UNKNOWN


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_job(text)
    parse_job(f"JobState=RUNNING   Nodes={text} CPU_IDs=0-{text} Mem=1 GRES=gpu:{text}")

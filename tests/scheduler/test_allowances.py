"""What scontrol prints of the limits of accounts and QOS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.scheduler.allowances import Allowance, GpuLimit, parse_allowances

# scontrol -o show assoc_mgr of Slurm 22.05.8, less fields
USER = (
    "ClusterName=hpc Account=nlp UserName=ada(1001) Partition= ParentAccount= DefAssoc=Yes "
    "GrpTRES=cpu=N(0),gres/gpu=8(4) GrpTRESMins=cpu=N(0),gres/gpu=N(900) MaxTRESPJ="
)
ACCOUNT = (
    "ClusterName=hpc Account=nlp UserName= Partition= ParentAccount=root(1) "
    "GrpTRES=cpu=N(0),gres/gpu=N(4) GrpTRESMins=cpu=N(0),gres/gpu=6000(1200),license/x=3(0)"
)
ROOT = "ClusterName=hpc Account=root UserName= GrpTRES=gres/gpu=N(4) GrpTRESMins=gres/gpu=N(9)"
QOS = "QOS=long(3) UsageRaw=0.0 GrpTRES=cpu=64(0),gres/gpu=32(16) GrpTRESMins=gres/gpu=60(90)"


def test_limits_on_gpus_are_read() -> None:
    assert parse_allowances(f"{USER}\n{ACCOUNT}\n{ROOT}\n{QOS}") == [
        Allowance("ada in account nlp", None, GpuLimit(8, 4)),
        Allowance("account nlp", GpuLimit(100, 20), None),
        Allowance("QOS long", GpuLimit(1, 1.5), GpuLimit(32, 16)),
    ]


def test_more_used_than_allowed_leaves_nothing() -> None:
    assert GpuLimit(1, 1.5).left == 0


@pytest.mark.parametrize(
    ("hours", "gpus", "short"), [(80, 8, False), (80.1, 8, True), (1, 9, True)]
)
def test_what_a_job_is_short_of(hours: float, gpus: int, short: bool) -> None:
    assert (
        Allowance("account nlp", GpuLimit(100, 20), GpuLimit(8, 4)).is_short_of(hours, gpus)
        is short
    )


@given(st.text() | st.text("QOSAcountName=()gres/gpu0123456789NTRsMi, \n"))
def test_any_text_is_read(text: str) -> None:
    for allowance in parse_allowances(text):
        assert allowance.hours or allowance.gpus

"""The one remark on a job that ended well."""

from __future__ import annotations

import pytest

from jobgen.diagnose.evidence import read_record
from jobgen.diagnose.remarks import find_remark
from jobgen.model.events import read_events


def start(rank: int, seconds: float) -> str:
    return f"v=1 time={1795268400 + seconds} kind=start node=n{rank // 2} rank={rank} world=4\n"


@pytest.mark.parametrize(
    ("last", "remark"),
    [(59.0, ""), (130.0, "rank 3 on n1 started 128 s later than most ranks")],
)
def test_a_rank_that_started_long_after_the_others_is_named(last: float, remark: str) -> None:
    lines = "".join(start(rank, at) for rank, at in enumerate((0.0, 2.0, 3.0, last)))
    assert find_remark(read_record(read_events(lines))) == remark


def test_a_rank_that_started_again_is_not_late() -> None:
    lines = "".join(start(rank, 0.0) for rank in range(4)) + start(3, 900.0)
    assert find_remark(read_record(read_events(lines))) == ""

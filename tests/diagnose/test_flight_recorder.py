"""Dumps of PyTorch's flight recorder tell which rank did not join; nothing in them can run.

The facts were dumped by PyTorch 2.13 on two CPU ranks, of which rank 1 slept while rank 0 waited.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from jobgen.diagnose import Evidence, LogText, RankEnd, find_cause
from jobgen.diagnose.flight_recorder import LastCollective, read_dump, read_dumps

FACTS = Path(__file__).parents[1] / "facts" / "flight_recorder"
DUMPS = tuple((rank, (FACTS / f"nccl_trace_rank_{rank}").read_bytes()) for rank in (0, 1))


def test_the_last_collective_of_each_rank_is_read() -> None:
    assert read_dumps(DUMPS) == {
        0: LastCollective(4, "all_reduce"),
        1: LastCollective(3, "all_reduce"),
    }


def test_the_rank_that_began_fewer_collectives_did_not_join() -> None:
    waits = "Timed out waiting 4000ms for recv operation to complete\n"
    logs = tuple(
        LogText(f"0/0/n1.{rank}.err", f'Traceback (most recent call last):\n  File "t.py", line 1\n'
                f"RuntimeError: {waits}")
        for rank in (0, 1)
    )  # fmt: skip
    ends = (RankEnd(1.0, "n1", 0, 1), RankEnd(1.1, "n1", 1, 1))
    cause = find_cause(Evidence("FAILED", ends, logs, world=2, dumps=DUMPS))
    assert cause is not None
    assert (cause.kind, cause.bad_rank) == ("collective_timeout", 1)
    assert cause.says == "rank 1 did not join collective 4 (all_reduce)"


class Hostile:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("owned",)


def test_nothing_that_could_run_is_unpickled(tmp_path: Path) -> None:
    data = pickle.dumps({"entries": [Hostile()]})
    os.chdir(tmp_path)
    assert read_dump(data) is None
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_passed_over(data: bytes) -> None:
    assert read_dump(data) is None

"""The steps or groups of a run: their ranks, and which of them a name means."""

from __future__ import annotations

import pytest

from jobgen.app.program_parts import (
    count_most_ranks,
    count_part_ranks,
    describe_missing_rank,
    require_parts,
)
from jobgen.errors import Usage
from jobgen.model.record import Login, RunRecord, Site


def make_record(kind: str = "groups", **ranks: int) -> RunRecord:
    record = RunRecord("t", "a-1", "a", Site("c", "slurm", Login("local"), "/r"), "0", 1.0)
    parts = {kind: [*ranks], "part_ranks": ranks} if ranks else {}
    return record._replace(shape={"nodes": 3, "ranks_per_node": 8, **parts})


def test_groups_have_their_ranks_at_once_and_steps_one_after_another() -> None:
    groups = make_record(train=16, serve=1)
    assert [count_part_ranks(groups, parts) for parts in ((), ["serve"])] == [17, 1]
    assert count_most_ranks(groups) == 16
    steps = make_record("steps", train=16, evaluate=4)
    assert (count_part_ranks(steps), count_most_ranks(steps, ["evaluate"])) == (16, 4)
    assert count_part_ranks(make_record()) == count_most_ranks(make_record()) == 24


@pytest.mark.parametrize(
    ("rank", "parts", "missing"),
    [
        (15, (), ""),
        (16, (), "rank 16: a-1 has ranks 0-15"),
        (1, ("serve",), "rank 1: group serve of a-1 has only rank 0"),
    ],
)
def test_a_rank_that_no_group_has_is_explained(
    rank: int, parts: tuple[str, ...], missing: str
) -> None:
    assert describe_missing_rank(make_record(train=16, serve=1), rank, parts) == missing


def test_the_name_of_a_step_means_all_its_rounds() -> None:
    record = make_record("steps", **{"train-1": 4, "train-2": 4})
    assert require_parts(record, "train") == ("train-1", "train-2")
    assert require_parts(record, "train-2") == ("train-2",)
    with pytest.raises(Usage, match="step trai: a-1 has no such step"):
        require_parts(record, "trai")

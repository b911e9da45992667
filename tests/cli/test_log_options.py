"""What the options of ``logs`` ask for."""

from typing import Any

import pytest

from jobgen.cli.call import Call
from jobgen.cli.log_options import LogsOptions, check_ranks, select_lines, select_steps
from jobgen.cli.output import Output
from jobgen.errors import Usage
from jobgen.model.record import Login, RunRecord, Site

UNCHOSEN: dict[str, Any] = {
    **dict.fromkeys(("follow", "stderr", "stdout", "no_collapse", "no_prefix", "raw"), False),
    **dict.fromkeys(("exit_status", "timestamps"), False),
    **dict.fromkeys(("lines", "ranks", "task", "restart", "since"), None),
    "nodes": (),
    "files": (),
    "grep": "",
}


@pytest.fixture
def call() -> Call:
    return Call(Output({"TERM": "xterm"}))


def make_group_record(kind: str = "groups", **ranks: int) -> RunRecord:
    record = RunRecord("t", "a-1", "a", Site("c", "slurm", Login("local"), "/r"), "0", 1.0)
    shape = {"nodes": 3, "ranks_per_node": 8, kind: [*ranks], "part_ranks": ranks}
    return record._replace(shape=shape)


def test_ranks_are_counted_for_the_groups_that_are_shown(call: Call) -> None:
    record = make_group_record(train=16, serve=1)
    for steps, brief in (((), True), (("train",), True), (("serve",), False)):
        options = LogsOptions(**{**UNCHOSEN, "steps": steps})
        assert select_lines(call, options, record).brief is brief
    with pytest.raises(Usage, match="rank 1: group serve of a-1 has only rank 0"):
        check_ranks(
            LogsOptions(**{**UNCHOSEN, "steps": ("serve",), "ranks": (range(1, 2),)}), record
        )


def test_the_name_of_a_step_selects_all_its_rounds() -> None:
    ranks = {"note-1": 1, "train-1": 4, "note-2": 1, "train-2": 4}
    record = make_group_record("steps", **ranks)
    for name, runs in (("train", ("train-1", "train-2")), ("train-2", ("train-2",))):
        options = LogsOptions(**{**UNCHOSEN, "steps": (name,)})
        assert select_steps(options, record).steps == runs
    with pytest.raises(Usage, match="step trai: a-1 has no such step"):
        select_steps(LogsOptions(**{**UNCHOSEN, "steps": ("trai",)}), record)


@pytest.mark.parametrize(
    ("changes", "nodes", "brief"),
    [
        ({}, 1, False),
        ({}, 2, True),
        ({"ranks": ()}, 2, False),
        ({"ranks": (range(9, 10),)}, 2, False),
        ({"nodes": ("n2",)}, 2, False),
        ({"files": ("n2.9.out",)}, 2, False),
        ({"stdout": True}, 2, False),
        ({"grep": "loss"}, 2, False),
        ({"raw": True}, 2, False),
    ],
)
def test_of_more_than_eight_ranks_the_default_is_brief(
    call: Call, changes: dict[str, Any], nodes: int, brief: bool
) -> None:
    record = RunRecord("t", "a-1", "a", Site("c", "slurm", Login("local"), "/r"), "0", 1.0)
    record = record._replace(shape={"nodes": nodes, "ranks_per_node": 8})
    options = LogsOptions(**{**UNCHOSEN, **changes})
    view = select_lines(call, options, record)
    assert view.brief is brief
    assert view.ranks == (changes.get("ranks") or None)
    assert view.fold is ("raw" not in changes)


@pytest.mark.parametrize(
    ("ranks", "nodes", "known"),
    [((range(9, 10),), 1, "rank 9: a-1 has ranks 0-7"), ((range(1), range(8, 20)), 1, "rank 8")],
)
def test_a_rank_that_the_job_does_not_have_is_an_error(
    ranks: tuple[range, ...], nodes: int, known: str
) -> None:
    record = RunRecord("t", "a-1", "a", Site("c", "slurm", Login("local"), "/r"), "0", 1.0)
    record = record._replace(shape={"nodes": nodes, "ranks_per_node": 8})
    options = LogsOptions(**{**UNCHOSEN, "ranks": ranks})
    with pytest.raises(Usage, match=known):
        check_ranks(options, record)
    check_ranks(options, record._replace(shape={"nodes": 4, "ranks_per_node": 8}))
    check_ranks(options, record._replace(shape={}))

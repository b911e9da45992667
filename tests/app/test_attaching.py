"""Which node of a run is meant, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.app.attaching import (
    NodeChoice,
    StartedRank,
    choose_node,
    find_runtime,
    list_ranks,
    require_one,
    require_running,
)
from jobgen.errors import JobgenError, Usage
from jobgen.model.record import JobState, Login, RunRecord, Site
from jobgen.transport.this_machine import LocalTransport

SITE = Site("here", "slurm", Login("local"), "/runs")
SHAPE = {"nodes": 3, "ranks_per_node": 2}
RUN = RunRecord("t" * 26, "llama-1", "llama", SITE, "0", 1.0, "/runs/llama", shape=SHAPE)
NODES = ["n1", "n2", "n3"]
RANKS = [
    StartedRank(node, rank)
    for node, rank in (("n2", 4), ("n2", 5), ("n1", 0), ("n1", 1), ("n3", 2), ("n3", 3))
]
"""torchrun decides which node has which ranks."""


@pytest.mark.parametrize(
    ("node", "rank", "expected"),
    [
        ("", None, ("n1", 0)),
        ("n3", None, ("n3", 2)),
        ("", 5, ("n2", 5)),
        ("", 2, ("n3", 2)),
    ],
)
def test_a_node_is_the_first_one_or_named_or_that_of_a_rank(
    node: str, rank: int | None, expected: tuple[str, int]
) -> None:
    home, beside = choose_node(RUN, NODES, RANKS, NodeChoice("llama-1", node, rank))
    assert (home, beside and beside.rank) == expected


def test_before_its_ranks_a_node_can_be_entered_already() -> None:
    assert choose_node(RUN, NODES, [], NodeChoice("llama-1", "n2")) == ("n2", None)


def test_a_rank_that_has_moved_is_where_it_started_last() -> None:
    moved = [StartedRank(node, 0) for node in ("n2", "n1", "n9")]
    assert choose_node(RUN, NODES, moved, NodeChoice("llama-1", rank=0)) == ("n2", moved[0])
    gone = [StartedRank(node, 0) for node in ("n9", "n1")]
    assert choose_node(RUN, NODES, gone, NodeChoice("llama-1", rank=0)) == ("n1", gone[1])


GROUPS = RUN._replace(
    shape={"nodes": 3, "groups": ["train", "serve"], "part_ranks": {"train": 4, "serve": 1}}
)
OF_GROUPS = [
    *(StartedRank(node, rank, "train") for node, rank in (("n2", 2), ("n1", 0), ("n1", 1))),
    StartedRank("n1", 0, "serve"),
]
"""A server beside the training on n1; rank 3 has not started."""


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (NodeChoice("llama-1", group="serve"), OF_GROUPS[3]),
        (NodeChoice("llama-1", group="train"), OF_GROUPS[1]),
        (NodeChoice("llama-1", "n2", group="train"), OF_GROUPS[0]),
        (NodeChoice("llama-1", rank=0, group="serve"), OF_GROUPS[3]),
        (NodeChoice("llama-1", rank=1), OF_GROUPS[2]),
    ],
)
def test_a_group_has_ranks_of_its_own(choice: NodeChoice, expected: StartedRank) -> None:
    assert choose_node(GROUPS, NODES, OF_GROUPS, choice) == (expected.node, expected)


@pytest.mark.parametrize(
    ("choice", "kind", "message"),
    [
        (NodeChoice("llama-1", rank=0), Usage, "rank 0 of llama-1 is in several groups: train, se"),
        (NodeChoice("llama-1", group="eval"), Usage, "group eval: llama-1 has no such group"),
        (
            NodeChoice("llama-1", rank=1, group="serve"),
            Usage,
            "group serve of llama-1 has only ran",
        ),
        (NodeChoice("llama-1", rank=3), JobgenError, "rank 3 of llama-1 has not started yet"),
        (NodeChoice("llama-1", "n3", group="serve"), JobgenError, "has not started on n3"),
    ],
)
def test_what_no_group_has_or_several_have_is_refused(
    choice: NodeChoice, kind: type[JobgenError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        choose_node(GROUPS, NODES, OF_GROUPS, choice)


def test_of_steps_the_rank_of_the_newest_is_meant() -> None:
    steps = RUN._replace(shape={"nodes": 3, "steps": ["train", "eval"]})
    ranks = [StartedRank("n2", 0, "eval"), StartedRank("n1", 0, "train")]
    assert choose_node(steps, NODES, ranks, NodeChoice("llama-1", rank=0)) == ("n2", ranks[0])


@pytest.mark.parametrize(
    ("choice", "kind", "message"),
    [
        (NodeChoice("llama-1", "n7"), Usage, "n7 is not a node of llama-1"),
        (NodeChoice("llama-1", rank=6), Usage, "rank 6: llama-1 has ranks 0-5"),
        (NodeChoice("llama-1", rank=3), JobgenError, "rank 3 of llama-1 has not started yet"),
        (NodeChoice("llama-1", "n2", 0), Usage, "rank 0 of llama-1 is on n1, not on n2"),
    ],
)
def test_what_the_run_does_not_have_is_refused(
    choice: NodeChoice, kind: type[JobgenError], message: str
) -> None:
    ranks = [] if choice.rank == 3 else RANKS
    with pytest.raises(kind, match=message):
        choose_node(RUN, NODES, ranks, choice)


def test_of_many_nodes_an_error_names_three() -> None:
    nodes = [f"n{number}" for number in range(50)]
    with pytest.raises(Usage) as caught:
        choose_node(RUN, nodes, [], NodeChoice("llama-1", "x"))
    assert caught.value.problems[0].hint == "its nodes: n0, n1, n2 and 47 more"


def test_files_of_ranks_are_read_newest_first_and_others_passed_over(tmp_path: Path) -> None:
    for age, name in enumerate(
        ("n2.1", "n1.0", "-x.3", "n1.new", "n 1.2", "$(id).4", "a.b.7", "eval@n1.0", "@n1.0")
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    with LocalTransport() as transport:
        assert list_ranks(transport, str(tmp_path)) == [
            StartedRank("n2", 1),
            StartedRank("n1", 0),
            StartedRank("a.b", 7),
            StartedRank("n1", 0, "eval"),
        ]
        assert list_ranks(transport, str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (JobState.PENDING, "llama-1 does not run: PENDING"),
        (JobState.SUSPENDED, "llama-1 does not run: SUSPENDED"),
        (JobState.COMPLETED, "llama-1 has ended: COMPLETED"),
    ],
)
def test_a_run_without_nodes_is_refused(state: JobState, message: str) -> None:
    with pytest.raises(JobgenError, match=message):
        require_running(RUN._replace(state=state, ended=state.final))
    require_running(RUN._replace(state=JobState.RUNNING))


def test_of_an_array_one_element_has_to_be_named() -> None:
    array = RUN._replace(shape={**SHAPE, "elements": 3, "array": "3-5%2"})
    for elements in ((), (3, 4)):
        with pytest.raises(Usage, match="name one element") as caught:
            require_one(array, elements)
        assert caught.value.problems[0].hint == "its elements: 3-5"
    require_one(array, (3,))
    require_one(RUN, ())


@pytest.mark.parametrize(
    ("plan", "runtime"),
    [
        (b'{"container": {"runtime": "pyxis"}}', "pyxis"),
        (b'{"container": null}', ""),
        (b"{}", ""),
        (b"no json", ""),
        (b"[]", ""),
    ],
)
def test_the_runtime_of_the_containers_is_in_the_plan(plan: bytes, runtime: str) -> None:
    assert find_runtime({"plan.json": plan}) == runtime
    assert find_runtime({}) == ""

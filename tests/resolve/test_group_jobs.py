"""Each group is decided like a job of its own; the job has the nodes of all."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, GPUS, job, plan

TRAIN = "train: {nodes: 1, run: train.py}"
SERVE = "serve: {nodes: 1, launcher: plain, run: ./serve, until: train, ready: {port: 8000}}"


def groups(*each: str, cluster: str = GPUS, **keys: str) -> Plan:
    text = "\n".join(line for line in job(run="", **keys).split("\n") if line[:6] != "nodes:")
    return plan(f"{text}\ngroups: {{{', '.join(each)}}}\n", cluster)


def join_start(made: Plan, index: int) -> str:
    return " ".join(str(word) for line in made.programs[index].plan.start for word in line)


def test_each_group_has_nodes_a_shape_and_a_launcher_of_its_own() -> None:
    made = groups(TRAIN, SERVE)
    shapes = {p.name: (p.plan.shape.world, p.plan.launcher.value) for p in made.programs}
    assert shapes == {"train": (8, "torchrun"), "serve": (1, "plain")}
    assert made.shape.nodes == 2
    assert made.directives["nodes"].value == "2"
    firsts = {p.name: p.group.first for p in made.programs if p.group}
    assert firsts == {"train": 0, "serve": 1}, "nodes are those of the file's order"
    assert "--relative=1" in join_start(made, 0)
    assert "--relative=0" in join_start(made, 1)


def test_a_group_starts_before_the_one_that_it_runs_until() -> None:
    def order(*each: str) -> list[str]:
        return [program.name for program in groups(*each).programs]

    assert order(TRAIN, SERVE) == ["serve", "train"]
    third = "watch: {on: serve, run: ./watch, until: serve}"
    assert order(TRAIN, SERVE, third) == ["watch", "serve", "train"]
    assert order("a: {nodes: 1, run: a.py}", "b: {nodes: 1, run: b.py}") == ["a", "b"]


def test_a_group_beside_another_one_shares_its_node_and_takes_no_gpus() -> None:
    made = groups(TRAIN, "driver: {on: train, run: ./drive}")
    driver = made.programs[1]
    assert made.shape.nodes == 1
    assert (driver.plan.shape.nodes, driver.plan.shape.gpus_per_node) == (1, 0)
    assert "--relative=0 --overlap" in join_start(made, 1)
    assert "gpus" not in join_start(made, 1)
    assert '--cpus-per-task="$cpus"' in join_start(made, 1), "all CPUs of a whole node"


def test_groups_of_one_rank_each_bring_the_preflight_of_all_nodes() -> None:
    made = groups("a: {nodes: 1, run: ./a}", "b: {nodes: 1, run: ./b}", cluster=CPUS)
    assert made.preflight is not None
    assert "preflight.sh" in {file.path for file in made.files}


def test_a_group_may_use_fewer_gpus_than_the_job_requests() -> None:
    made = groups(TRAIN, "small: {nodes: 1, run: small.py, gpus_per_node: 2}")
    assert made.directives["gpus-per-node"].value == "8"
    assert "--gpus-per-node=2" in join_start(made, 1)
    assert made.programs[1].plan.shape.whole_nodes
    assert made.programs[1].plan.shape.world == 2


def test_only_what_all_groups_share_is_exported_for_all() -> None:
    made = groups(TRAIN, "b: {nodes: 1, run: b.py, env: {MODE: b}}", env="{MODE: a, A: 1}")
    assert made.env["A"].value == "1"
    assert "MODE" not in made.env
    assert [p.plan.env["MODE"].value for p in made.programs] == ["a", "b"]


def test_a_reason_names_the_line_of_the_group() -> None:
    text = "name: a\ntime: 1h\ngroups:\n  one:\n    nodes: 1\n    run: a.py\n    launcher: srun\n"
    made = plan(text)
    assert str(made.programs[0].place) == "job.yaml:4"
    assert str(made.programs[0].plan.launcher.place) == "job.yaml:7"
    assert str(made.directives["nodes"].place) == "job.yaml:3"


def test_more_nodes_than_the_cluster_has_are_refused_once() -> None:
    with pytest.raises(Invalid, match=r"nodes: \d+, but big has \d+"):
        groups("a: {nodes: 900, run: a.py}", "b: {nodes: 900, run: b.py}")


def test_two_hostfiles_of_deepspeed_have_two_names() -> None:
    made = groups(*(f"{name}: {{nodes: 1, run: a.py, launcher: deepspeed}}" for name in "ab"))
    texts = [step.text for p in made.programs for step in p.plan.steps if step.name == "hostfile"]
    assert ["hostfile.a" in texts[0], "hostfile.b" in texts[1]] == [True, True]


def test_scripts_that_only_the_whole_job_needs_are_rendered() -> None:
    """One node without GPUs needs no check of its own, the nodes of all groups do."""
    made = groups(
        "a: {nodes: 1, run: ./a, launcher: plain}", "b: {nodes: 1, run: b.py}", cluster=CPUS
    )
    assert made.preflight is not None
    assert "preflight.sh" in [file.path for file in made.files]


def test_the_network_between_groups_of_one_node_is_that_of_the_job() -> None:
    made = groups(TRAIN, SERVE, "driver: {on: train, run: ./drive}")
    train, serve, driver = (
        next(each.plan for each in made.programs if each.name == name)
        for name in ("train", "serve", "driver")
    )
    assert train.env["NCCL_NET"] == serve.env["NCCL_NET"] == plan().env["NCCL_NET"]
    assert "NCCL_NET" in groups(TRAIN, SERVE).env
    assert "NCCL_NET" not in driver.env, "it has no GPUs"
    alone = groups(TRAIN, "driver: {on: train, run: ./drive}")
    assert "NCCL_NET" not in alone.programs[0].plan.env


def test_one_rank_of_a_group_may_leave_traces_of_nccl() -> None:
    made = groups(TRAIN.replace("1", "1, gpus_per_node: 1"), SERVE)
    assert "PYTHONFAULTHANDLER" in made.programs[1].plan.env
    assert "NCCL_DEBUG" in made.programs[1].plan.env


def test_an_unknown_network_is_noted_of_groups_of_one_node() -> None:
    made = groups(TRAIN, SERVE, cluster=GPUS.replace("infiniband", "unknown"))
    assert [note.code for note in made.notes].count("J229") == 1
    assert made.programs[0].plan.env["NCCL_DEBUG"].value == "INFO"


def test_a_container_of_a_group_of_one_node_sees_the_hcas() -> None:
    image = "{image: nvcr.io/nvidia/pytorch:24.07-py3, runtime: pyxis}"
    made = groups(TRAIN, SERVE, container=image)
    assert made.programs[0].plan.env["MELLANOX_VISIBLE_DEVICES"].value == "all"


def test_groups_with_too_many_nodes_together_are_not_told_to_set_nodes() -> None:
    with pytest.raises(Invalid, match="the groups have 9 nodes, but big has 8") as caught:
        groups("a: {nodes: 5, run: a.py}", "b: {nodes: 4, run: b.py}")
    assert caught.value.problems[0].hint == "let them have 8 or fewer together"


def test_a_container_of_a_group_gets_each_variable_once() -> None:
    made = groups(TRAIN, SERVE, container="{image: x, runtime: docker}")
    container = made.programs[0].plan.container
    assert container is not None
    words = [str(word) for line in container.enter for word in line]
    variables = [word for word in words if word.startswith("--env=")]
    assert "--env=JOBGEN_GUARD" in variables
    assert sorted(variables) == sorted(set(variables))

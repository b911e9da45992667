"""Groups that need different nodes: the components of one heterogeneous job."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_cluster
from jobgen.model.plan import Plan
from tests.resolve.made import GPUS, LOCAL, job, plan

TRAIN = "train: {nodes: 2, run: train.py, slurm: {partition: gpu}}"
EVAL = "eval: {nodes: 1, run: eval.py, slurm: {partition: gpu}}"
SERVE = "{nodes: 1, launcher: plain, run: ./serve, gpus_per_node: 0, cpus_per_task: 4, mem: 8G"
CPU = f"serve: {SERVE}, until: train, slurm: {{partition: cpu}}}}"


H100 = """\
name: big-h100
scheduler: slurm
paths: {root: /scratch/jobgen}
nodes: {count: 2, gpus_per_node: 4, gpu: H100-SXM5-80GB, cpus: 96, mem: 1TiB}
gpu_request: gres-typed
gpu_type: h100
network: {fabric: infiniband}
defaults: {slurm: {partition: h100}}
"""
OTHER = "serve: {nodes: 2, run: serve.py, until: train, cluster: big-h100}"


def groups(*each: str, cluster: str = GPUS, **keys: str) -> Plan:
    return resolve_groups(each, cluster, {}, **keys)


def resolve_groups(
    each: tuple[str, ...], cluster: str, profiles: dict[str, str], **keys: str
) -> Plan:
    text = "\n".join(line for line in job(run="", **keys).split("\n") if line[:6] != "nodes:")
    others = {name: load_cluster(text, f"{name}.yaml") for name, text in profiles.items()}
    return plan(f"{text}\ngroups: {{{', '.join(each)}}}\n", cluster, profiles=others)


def complain(*each: str, **keys: str) -> list[str]:
    with pytest.raises(Invalid) as caught:
        groups(*each, **keys)
    assert {problem.code for problem in caught.value.problems} == {"J299"}
    return [problem.message for problem in caught.value.problems]


def list_values(made: Plan, number: int, *names: str) -> list[str | None]:
    directives = made.components[number].directives
    return [directives[name].value if name in directives else None for name in names]


def join_start(made: Plan, group: str) -> str:
    program = next(each for each in made.programs if each.name == group)
    return " ".join(str(word) for line in program.plan.start for word in line)


def test_each_kind_of_nodes_is_a_component() -> None:
    made = groups(TRAIN, CPU, EVAL)
    names = ("partition", "nodes", "gpus-per-node", "cpus-per-task", "mem", "job-name", "time")
    assert list_values(made, 0, *names) == ["gpu", "3", "8", None, "0", "demo", "02:00:00"]
    assert list_values(made, 1, *names) == ["cpu", "1", None, "4", "8G", None, None]
    assert made.shape.nodes == 4
    assert [each.first for each in made.components] == [0, 3]


def test_a_group_names_its_component_and_its_nodes_there() -> None:
    made = groups(TRAIN, CPU, EVAL)
    assert "--het-group=0 --relative=0" in join_start(made, "train")
    assert "--het-group=0 --relative=2" in join_start(made, "eval")
    assert "--het-group=1 --relative=0" in join_start(made, "serve")
    firsts = {each.name: each.group.first for each in made.programs if each.group}
    assert firsts == {"train": 0, "eval": 2, "serve": 3}, "HOSTS has component after component"


def test_a_group_beside_another_one_is_in_its_component() -> None:
    made = groups(TRAIN, CPU, "watch: {on: serve, run: ./watch, until: train}")
    assert len(made.components) == 2
    assert "--het-group=1 --relative=0 --overlap" in join_start(made, "watch")


def test_nodes_of_one_kind_are_one_job_as_before() -> None:
    made = groups("a: {nodes: 1, run: a.py, mem: 8G}", "b: {nodes: 1, run: b.py}", mem="8G")
    assert made.components == ()
    assert made.directives["nodes"].value == "2"
    assert "het-group" not in join_start(made, "a")


def test_simulated_nodes_are_of_one_kind() -> None:
    each = "slurm: {partition: %s}}"
    first = "a: {nodes: 1, run: a.py, procs_per_node: 1, " + each % "x"
    second = "b: {nodes: 1, run: b.py, procs_per_node: 1, " + each % "y"
    assert groups(first, second, cluster=LOCAL).components == ()


def test_what_runs_on_all_nodes_runs_once_in_each_component() -> None:
    made = groups(TRAIN, CPU, monitor="10s")
    assert made.monitor is not None
    assert made.monitor.start[0][:4] == (
        *("bash", '"$JOBGEN_BUNDLE_DIR/components.sh"', "gpus", "--overlap"),
    )
    words = [" ".join(map(str, each.gpus)) for each in made.components]
    assert words == ["--gpus-per-node=8 --gpu-bind=none", ""]


def test_a_group_is_planned_for_the_nodes_of_its_own_profile() -> None:
    made = resolve_groups((TRAIN, OTHER), GPUS, {"big-h100": H100})
    assert list_values(made, 1, "partition", "gres", "nodes") == ["h100", "gpu:h100:4", "2"]
    assert [each.shape.gpu for each in made.components] == ["A100-SXM4-80GB", "H100-SXM5-80GB"]
    assert made.programs[0].plan.shape.world == 8
    assert made.cluster == "big"
    assert {"cluster big", "cluster big-h100"} <= {*made.sources}
    assert made.gpu_hours == (2 * 8 + 2 * 4) * 2


def test_the_profile_of_the_first_group_does_not_name_the_cluster() -> None:
    made = resolve_groups((OTHER, TRAIN), GPUS, {"big-h100": H100})
    assert made.cluster == "big"
    assert list_values(made, 0, "partition") == ["h100"]


def test_all_groups_are_on_one_cluster() -> None:
    elsewhere = H100.replace("/scratch/jobgen", "/elsewhere/jobgen")
    with pytest.raises(Invalid) as caught:
        resolve_groups((TRAIN, OTHER), GPUS, {"big-h100": elsewhere})
    (problem,) = caught.value.problems
    assert problem.message.startswith("big-h100 is not a profile of the same cluster as big")


def test_only_the_gpus_that_are_there_cost_something() -> None:
    assert groups(TRAIN, CPU).gpu_hours == 2 * 8 * 2


def test_each_component_is_checked_for_what_its_own_nodes_have() -> None:
    first, second = groups(TRAIN, CPU.replace("nodes: 1", "nodes: 2")).components
    assert first.preflight is not None
    assert second.preflight is not None
    checks = [[each.value for each in part.preflight.expect] for part in (first, second)]
    assert "gpus=8" in checks[0]
    assert "srun=--het-group=0 --gpus-per-node=8 --gpu-bind=none" in checks[0]
    assert not [value for value in checks[1] if value.startswith("gpus=")]
    assert "srun=--het-group=1" in checks[1]


def test_an_option_that_sbatch_hands_on_is_set_in_all_later_components() -> None:
    without = CPU.replace(", mem: 8G", "")
    assert complain(TRAIN, without) == [
        "group train takes all memory of its nodes, and sbatch would give serve the same"
    ]
    high = TRAIN.replace("partition: gpu", "partition: gpu, qos: high")
    assert complain(high, CPU) == [
        "slurm.qos is set for group train but not for serve, to which sbatch would give it, too"
    ]
    assert groups(high, CPU, slurm="{qos: normal}").components
    assert groups(without, TRAIN).components, "nothing comes after the group with all memory"


@pytest.mark.parametrize(
    ("key", "value"),
    [("array", "0-3"), ("race", "[{qos: a}, {qos: b}]"), ("sweep", "{grid: {X: [1, 2]}}")],
)
def test_what_needs_nodes_of_one_kind_is_refused(key: str, value: str) -> None:
    (message,) = complain(TRAIN, CPU, **{key: value})
    assert message.startswith(f"{key} and groups with different nodes exclude each other")

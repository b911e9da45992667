"""Benches as library functions: the job they make, the chain of sizes, what the planner takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobgen.app import jobs
from jobgen.app.advising import advise_job
from jobgen.app.benching import allreduce, run_scaling
from jobgen.app.calibrating import find_benches, find_cluster_measurements
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submit import rehearse_submit, submit
from jobgen.app.world import World
from jobgen.errors import Missing, Usage
from jobgen.model.record import JobId

Job = Callable[..., Path]


@pytest.mark.parametrize(
    ("cluster", "wanted", "nodes", "limit"),
    [
        ("here", allreduce.AllreduceRequest(), 2, None),
        ("a100x16", allreduce.AllreduceRequest(), 2, 200e9),
        ("a100x16", allreduce.AllreduceRequest(nodes=1), 1, 300e9),
        ("dgx-h100", allreduce.AllreduceRequest(pairs=True, tests=True), 4, 400e9),
    ],
)
def test_the_job_is_one_like_any_other(
    world: World, cluster: str, wanted: allreduce.AllreduceRequest, nodes: int, limit: float | None
) -> None:
    with allreduce.prepare_job(world, wanted, cluster) as made:
        shape = made.plan.shape
        assert min(shape.nodes, made.profile.value.nodes.count) == min(nodes, shape.nodes)
        sent = {file.path for file in made.manifest.files} if made.manifest else set()
        assert {"job.yaml", "bench_collectives/__main__.py"} <= sent
        assert all(check.status == "ok" for check in made.plan.checks), made.plan.checks
        assert [step.title for step in rehearse_submit(made).steps] == [
            "connect",
            "upload",
            "submit",
        ]
        about = allreduce.record_bench(made)[allreduce.KEY]
    assert (about["limit"] or {}).get("rate") == limit
    json.dumps(about)


def test_it_takes_over_what_its_pytorch_needs(world: World, job: Job) -> None:
    like = job("train.py", "setup: [. venv/bin/activate]", "env: {A: b}", "cluster: here")
    with allreduce.prepare_job(world, allreduce.AllreduceRequest(like=like), None) as made:
        assert [line.value for line in made.plan.setup] == [". venv/bin/activate"]
        assert made.plan.env["A"].value == "b"
        assert made.plan.name == "bench-allreduce"


def test_a_job_that_is_no_bench_has_no_result(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("true"), "here"))
    with pytest.raises(Usage, match="not an all-reduce bench"):
        allreduce.read(world, record.alias)


def test_a_bench_that_measured_nothing_says_where_to_look(world: World, job: Job) -> None:
    made = prepare(world, job("true"), "here")
    record = submit(world, made, about=allreduce.record_bench(made))
    jobs.wait(world, [record.alias])
    with pytest.raises(Missing, match="no measurements"):
        allreduce.read(world, record.alias)


RESULT = [
    {"kind": "world", "ranks": 16, "hosts": ["n1", "n2"], "backend": "nccl", "device": "A100"},
    *(
        {
            "kind": "point",
            "op": "all_reduce",
            "bytes": size,
            "median": 1e-4 + size / 50e9,
            "p10": 1e-4 + size / 51e9,
            "p90": 1e-4 + size / 49e9,
            "repeats": 9,
        }
        for size in (1 << 20, 1 << 26, 1 << 30)
    ),
    {"kind": "end", "faults": 0},
]


@pytest.fixture
def machine(world: World, job: Job) -> PreparedJob:
    """A job that trains on the nodes of a cluster with GPUs, as far as a plan goes."""
    here = world.config / "clusters" / "here.yaml"
    text = here.read_text().replace("procs_per_node: 1\n", "")
    text = text.replace("{count: 2}", "{count: 2, gpus_per_node: 8, gpu: A100-80GB}")
    network = "network: {fabric: infiniband, nics: 8, nic_gbps: 200}\n"
    here.write_text(text + "gpu_request: none\n" + network)
    train = "train: {model: meta-llama/Llama-3.1-8B, strategy: fsdp2, seq_len: 2048}"
    path = job("train.py", train, "gpus_per_node: 8")
    return prepare(world, path, "here", ["nodes=2"], with_upload=False)


def measured(world: World, job: Job, machine: PreparedJob, result: list[dict[str, Any]]) -> None:
    """A bench on that cluster, whose job writes this result; read back."""
    lines = "".join(json.dumps(line) + "\n" for line in result)
    (job("true").parent / "result").write_text(lines)
    path = job("cp result $JOBGEN_STATE_DIR/bench.jsonl", "gpus_per_node: 1")
    made = prepare(world, path, "here", ["name=bench-allreduce"])
    told = {**allreduce.record_bench(machine)[allreduce.KEY]}
    record = submit(world, made, about={allreduce.KEY: told})
    jobs.wait(world, [record.alias])
    assert allreduce.read(world, record.alias).bench.points


def test_the_planner_counts_with_measured_links(
    world: World, job: Job, machine: PreparedJob
) -> None:
    assert find_benches(world, machine) == ()
    measured(world, job, machine, RESULT)
    (found,) = find_benches(world, machine)
    assert (found.nodes, found.ranks) == (2, 16)
    assert found.busbw == pytest.approx(50e9 * 1.875, rel=0.01)
    assert found.alpha == pytest.approx(1e-4, rel=0.05)
    measurements = find_cluster_measurements(world, machine)
    assert measurements.links == (found,)
    plain, known = (
        advise_job(machine, known=measurements, calibrated=on).advice for on in (False, True)
    )
    assert plain is not None
    assert known is not None
    one, two = (advice.first_option.step for advice in (plain, known) if advice.first_option)
    assert one is not None
    assert two is not None
    sent = [sum(v.seconds for v in step.volumes if v.link == "network") for step in (one, two)]
    assert sent[1] > 1.5 * sent[0]
    assert any("measured by bench allreduce on here" in line for line in two.why)


@pytest.mark.parametrize(
    "other",
    [
        [{**RESULT[0], "backend": "gloo"}, *RESULT[1:]],
        [RESULT[0], {**RESULT[1], "wrong": [1]}, *RESULT[2:]],
        RESULT[:-1],
    ],
)
def test_gloo_wrong_sums_and_half_a_bench_calibrate_nothing(
    world: World, job: Job, machine: PreparedJob, other: list[dict[str, Any]]
) -> None:
    measured(world, job, machine, other)
    assert find_benches(world, machine) == ()


def test_another_network_is_another_machine(world: World, job: Job, machine: PreparedJob) -> None:
    measured(world, job, machine, RESULT)
    here = world.config / "clusters" / "here.yaml"
    here.write_text(here.read_text().replace("nic_gbps: 200", "nic_gbps: 400"))
    path = job("train.py", "gpus_per_node: 8")
    assert find_benches(world, prepare(world, path, "here", with_upload=False)) == ()


def test_sizes_run_one_after_the_other_and_are_read(world: World, job: Job) -> None:
    told = '{"step_s": [9, 1, 1, 1], "samples_per_step": %d}'
    run = f"printf '{told}' $((8 * JOBGEN_WORLD_SIZE)) >$JOBGEN_REPORT_FILE"
    path = job(run)
    made = run_scaling.prepare_sizes(world, run_scaling.ScalingRequest(path, (2, 1)), "here")
    assert [one.plan.shape.nodes for one in made] == [1, 2]
    sent: list[str] = []
    records = run_scaling.chain(world, made, lambda record: sent.append(record.alias))
    assert sent == [record.alias for record in records]
    first, second = jobs.wait(world, sent)
    assert second.started >= first.started
    found, _ = run_scaling.read(world, sent)
    assert found.kind == "weak"
    assert [row.rate for row in found.rows] == [8, 16]
    assert [row.efficiency for row in found.rows] == [1, 1]


def test_sizes_may_be_gpus_of_one_node(world: World, job: Job) -> None:
    asked = run_scaling.ScalingRequest(job("train.py"), (1, 4, 2), gpus=True)
    made = run_scaling.prepare_sizes(world, asked, "here")
    shapes = [one.plan.shape for one in made]
    assert [(shape.nodes, shape.ranks_per_node) for shape in shapes] == [(1, 1), (1, 2), (1, 4)]


@pytest.mark.parametrize("own", ["procs_per_node: 2", "gpus_per_node: 2"])
def test_sizes_in_gpus_replace_the_jobs_own_number_of_ranks(
    world: World, job: Job, machine: PreparedJob, own: str
) -> None:
    """With GPUs or without, whichever of the two keys the job has."""
    asked = run_scaling.ScalingRequest(job("true", own), (1, 4), gpus=True)
    for cluster, gpus in {"here": [1, 4], "a100x16": [1, 4], "local": [0, 0]}.items():
        shapes = [one.plan.shape for one in run_scaling.prepare_sizes(world, asked, cluster)]
        assert [(shape.nodes, shape.ranks_per_node) for shape in shapes] == [(1, 1), (1, 4)]
        assert [shape.gpus_per_node for shape in shapes] == gpus


def test_a_dependency_of_the_jobs_own_is_kept(world: World, job: Job) -> None:
    plain = prepare(world, job("true"), "here")
    assert run_scaling.add_dependency(plain, None) is plain
    assert run_scaling.add_dependency(plain, JobId(7)).plan.submit_options == (
        "--dependency=afterany:7",
    )
    own = prepare(world, job("true", "slurm: {dependency: singleton}"), "here")
    assert run_scaling.add_dependency(own, JobId(7)).plan.submit_options == (
        "--dependency=singleton,afterany:7",
    )


def test_the_global_batch_grows_or_stays(world: World, job: Job) -> None:
    train = "train: {strategy: ddp, micro_batch: 1, global_batch: 8}"
    path = job("train.py", train)

    def batches(kind: run_scaling.Kind) -> list[int | None]:
        made = run_scaling.prepare_sizes(
            world, run_scaling.ScalingRequest(path, (1, 2), kind), "here"
        )
        return [one.job.value.train.global_batch for one in made if one.job.value.train]

    assert batches("weak") == [8, 16]
    assert batches("strong") == [8, 8]
    with pytest.raises(Usage, match="global_batch"):
        run_scaling.prepare_sizes(
            world, run_scaling.ScalingRequest(job("true"), (1, 2), "strong"), "here"
        )

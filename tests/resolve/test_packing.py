"""A packed sweep: what its job asks of Slurm, what an element gets, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.errors import Invalid
from jobgen.render import render
from jobgen.shell import quote
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, job, plan

SWEEP = "{{grid: {{LR: [1, 2, 3, 4, 5]}}, pack: {{gpus: {gpus}}}}}"


def pack(gpus: int, **keys: str) -> str:
    return job(**{"nodes": "2", "sweep": SWEEP.format(gpus=gpus), "run": "train.py", **keys})


def get_start(gpus: int, **keys: str) -> str:
    start = plan(pack(gpus, **keys)).start
    return " ".join(quote(word) for line in start for word in line)


def test_the_job_has_all_workers_and_a_step_one_element() -> None:
    made = plan(pack(2))
    asked = {name: setting.value for name, setting in made.directives.items()}
    assert "array" not in asked
    assert (asked["nodes"], asked["gpus-per-node"], asked["ntasks-per-node"]) == ("2", "8", "4")
    assert (asked["cpus-per-task"], asked["mem"], asked["output"]) == ("32", "0", "logs/job-%j.out")
    assert "requeue" in asked
    assert (made.shape.nodes, made.shape.gpus_per_node, made.shape.world) == (1, 2, 2)
    assert (made.shape.elements, made.shape.gpu_hours) == (5, 16 * made.shape.seconds / 3600)
    start = get_start(2)
    for word in ("--nodes=1", "--ntasks=1", "--gpus-per-node=2", "--cpus-per-task=32", "--exact"):
        assert f" {word} " in start
    assert '--nodelist="$SLURM_JOB_NODELIST"' in start


def test_without_gpus_the_number_counts_ranks() -> None:
    made = plan(pack(2, procs_per_node="4", launcher="srun"), CPUS)
    assert made.directives["ntasks-per-node"].value == "4"
    assert made.shape.packing is not None
    assert (made.shape.packing.slots, made.shape.world) == (4, 2)


@pytest.mark.parametrize(
    ("gpus", "keys", "says"),
    [
        (3, {}, "sweep.pack.gpus: 3 does not divide the 8 GPUs per node"),
        (16, {}, "sweep.pack.gpus: 16, but the job has 8 GPUs per node"),
        (1, {"nodes": '"1:2"', "launcher": "torchrun"}, "a packed sweep needs a fixed number"),
    ],
)
def test_what_does_not_fit_is_refused(gpus: int, keys: dict[str, str], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(pack(gpus, **keys))
    problem = next(problem for problem in caught.value.problems if problem.code == "J297")
    assert problem.message.startswith(says)
    assert problem.place is not None
    assert problem.place.line


def test_only_the_chosen_elements_run() -> None:
    sweep = SWEEP.format(gpus=1).removesuffix("}") + ', only: "1,3-4"}'
    bundle = render(plan(job(sweep=sweep, run="train.py", nodes="1")), templates())
    assert b"\nrun_workers 8 1 1,3-4 " in bundle["job.sbatch"].content


def test_standalone_scripts_need_nothing_of_a_submission(tmp_path: Path) -> None:
    bundle = render(plan(pack(1)), templates(), standalone=True)
    script = bundle["job.sbatch"].content
    for word in (b"TOKEN", b"claim", b"sha256sum"):
        assert word not in script
    assert b"started.$" in bundle["element.sh"].content


def test_gpus_are_named_in_the_style_of_the_site() -> None:
    cluster = GPUS + "gpu_request: gres\n"
    made = plan(pack(1), cluster)
    assert made.directives["gres"].value == "gpu:8"
    assert "--gres=gpu:1" in " ".join(quote(word) for line in made.start for word in line)

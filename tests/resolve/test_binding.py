"""Which jobs bind their ranks to CPUs, and what the plan says of it."""

from __future__ import annotations

import pytest

from jobgen.load import check
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve.binding import VARIABLE
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan

CELLS = '["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"]'
KNOWN = GPUS.replace("mem: 1TiB", f"mem: 1TiB, gpu_cpus: {CELLS}")


def binds(made: Plan) -> bool:
    """Whether rank.sh binds its rank."""
    return b"taskset" in render(made, templates())["rank.sh"].content


def srun(made: Plan) -> str:
    return " ".join(str(word) for line in made.start for word in line)


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "deepspeed", "accelerate"])
def test_a_job_with_several_gpus_a_node_binds_its_ranks(launcher: str) -> None:
    made = plan(job(launcher=launcher))
    assert binds(made)
    assert made.other["bind"].value == "auto"
    assert "--cpu-bind=none" in srun(made)


@pytest.mark.parametrize(
    ("keys", "why", "place"),
    [
        ({"bind": "off"}, "set in the job", "job.yaml:6"),
        (
            {"launcher": "{type: srun, args: [--cpu-bind=sockets]}"},
            "--cpu-bind already binds the ranks",
            "job.yaml:5",
        ),
        (
            {"launcher": "{type: torchrun, args: [--numa-binding=node]}"},
            "--numa-binding already binds the ranks",
            "job.yaml:5",
        ),
        ({"run": "numactl -N $LOCAL_RANK python train.py"}, "numactl already binds", "job.yaml:4"),
    ],
)
def test_what_binds_ranks_itself_turns_it_off(keys: dict[str, str], why: str, place: str) -> None:
    made = plan(job(**{"launcher": "torchrun", **keys}))
    assert not binds(made)
    decision = made.other["bind"]
    assert decision.value == "off"
    assert why in decision.why
    assert str(decision.place) == place


def test_the_name_of_such_a_program_alone_turns_nothing_off() -> None:
    made = plan(job(launcher="torchrun", run="python train.py --binder numactl"))
    assert made.other["bind"].value == "auto"


@pytest.mark.parametrize(
    ("keys", "cluster"),
    [
        ({"gpus_per_node": "1"}, GPUS),
        ({"launcher": "plain"}, GPUS),
        ({"gpus_per_node": "0", "procs_per_node": "4"}, GPUS),
        ({"procs_per_node": "4"}, CPUS),
        ({}, LOCAL),
    ],
)
def test_a_job_that_needs_none_carries_none(keys: dict[str, str], cluster: str) -> None:
    made = plan(job(**keys), cluster)
    assert "bind" not in made.other
    assert not binds(made)


def test_ranks_without_gpus_get_cores_from_slurm() -> None:
    keys = {"launcher": "srun", "procs_per_node": "4"}
    assert "--cpu-bind=cores" in srun(plan(job(**keys), CPUS))
    assert "--cpu-bind=none" in srun(plan(job(**keys, bind="off"), CPUS))


def test_the_profile_names_the_cpus_of_a_whole_node() -> None:
    made = plan(job(), KNOWN)
    assert made.env[VARIABLE].value.split()[:2] == ["0-1", "2-3"]
    assert str(made.other["bind"].place) == "cluster big:4"
    assert VARIABLE not in plan(job(gpus_per_node="4"), KNOWN).env
    assert VARIABLE not in plan(job(env='{CUDA_VISIBLE_DEVICES: "1,0"}'), KNOWN).env
    assert VARIABLE not in plan(job(bind="off"), KNOWN).env


@pytest.mark.parametrize(
    "cells", ['["0-1"]', "0-1", CELLS.replace("0-1", "0x3", 1), CELLS.replace("2-3", "2-")]
)
def test_lists_of_cpus_that_do_not_fit_are_refused(cells: str) -> None:
    text = GPUS.replace("mem: 1TiB", f"mem: 1TiB, gpu_cpus: {cells}")
    assert [problem.code for problem in check(text, "big.yaml").problems] == ["J186"]

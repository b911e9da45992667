"""What a job asks of its nodes: all of them or a share, and how each srun names it."""

from __future__ import annotations

import pytest

from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan

UNKNOWN = GPUS.replace(", cpus: 128", "")
"""A profile that does not say how many CPUs its nodes have, as 12 of the shipped ones."""


def asked(found: Plan) -> dict[str, str]:
    """What sbatch is asked for of CPUs, memory and nodes of its own."""
    names = ("exclusive", "mem", "cpus-per-task")
    return {name: found.directives[name].value for name in names if name in found.directives}


def words(found: Plan) -> str:
    """The command that starts the program."""
    return " ".join(str(word) for line in found.start for word in line)


def expected(found: Plan) -> str:
    """What the preflight is told."""
    return " ".join(setting.value for setting in found.preflight.expect) if found.preflight else ""


@pytest.mark.parametrize(
    ("release", "known"), [("20.11.9", False), ("21.08", True), ("23.11.4", True), ("", True)]
)
def test_gpus_are_unbound_only_where_srun_knows_how(release: str, known: bool) -> None:
    """Before 21.08 srun ends at --gpu-bind=none."""
    found = plan(job(), f'{GPUS}slurm_version: "{release}"\n' if release else GPUS)
    assert ("--gpu-bind=none" in words(found)) == known
    assert ("--gpu-bind=none" in expected(found)) == known
    assert "--gpus-per-node=8" in words(found)
    assert "srun=--gpus-per-node=8" in expected(found)


def codes(found: Plan) -> list[str]:
    return [note.code for note in found.notes]


# ---- whole nodes


@pytest.mark.parametrize("cluster", [GPUS, UNKNOWN])
@pytest.mark.parametrize("gpus", ["", "8"])
def test_a_job_that_takes_all_gpus_takes_the_whole_node(cluster: str, gpus: str) -> None:
    found = plan(job(gpus_per_node=gpus), cluster)
    assert asked(found) == {"exclusive": "", "mem": "0"}
    assert found.shape.whole_nodes
    assert found.shape.cpus_per_task is None
    assert '--cpus-per-task="$cpus"' in words(found)
    assert found.env["OMP_NUM_THREADS"].value == "$JOBGEN_CPUS_PER_RANK"


def test_ranks_that_srun_starts_share_the_cpus_of_the_node() -> None:
    assert '--cpus-per-task="$JOBGEN_CPUS_PER_RANK"' in words(plan(job(launcher="srun"), UNKNOWN))


def test_a_single_rank_on_its_node_keeps_the_threads_that_its_libraries_take() -> None:
    one = GPUS.replace("gpus_per_node: 8", "gpus_per_node: 1")
    found = plan(job(nodes="1"), one)
    assert asked(found) == {"exclusive": "", "mem": "0"}
    assert "OMP_NUM_THREADS" not in found.env


def test_nodes_without_gpus_are_taken_whole_unless_a_share_is_asked_for() -> None:
    for cluster in (CPUS, CPUS.replace(", cpus: 64", "")):
        assert asked(plan(job(procs_per_node="4"), cluster)) == {"exclusive": "", "mem": "0"}
        share = plan(job(procs_per_node="4", cpus_per_task="2"), cluster)
        assert asked(share) == {"cpus-per-task": "8"}


def test_the_local_cluster_is_asked_for_nothing() -> None:
    assert asked(plan(job(), LOCAL)) == {}


# ---- what the user and the site say wins


def test_a_share_of_the_gpus_gets_a_share_of_the_cpus() -> None:
    assert asked(plan(job(gpus_per_node="4"))) == {"cpus-per-task": "64"}


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"mem": "200G"}, {"exclusive": "", "mem": "200G"}),
        ({"cpus_per_task": "4"}, {"exclusive": "", "mem": "0", "cpus-per-task": "32"}),
        ({"slurm": "{mem-per-cpu: 2G}"}, {"exclusive": ""}),
        ({"slurm": "{mem-per-gpu: 100G}"}, {"exclusive": ""}),
        ({"slurm": "{exclusive: false}"}, {"cpus-per-task": "128"}),
        ({"slurm": "{oversubscribe: true}"}, {"cpus-per-task": "128"}),
        ({"slurm": "{exclusive: user}"}, {"exclusive": "user", "cpus-per-task": "128"}),
        ({"slurm": "{exclusive: topo}"}, {"exclusive": "topo", "mem": "0"}),
        ({"gpus_per_node": "2", "slurm": "{exclusive: true}"}, {"exclusive": "", "mem": "0"}),
    ],
)
def test_what_the_job_says_wins(keys: dict[str, str], wanted: dict[str, str]) -> None:
    assert asked(plan(job(**keys))) == wanted


def test_what_the_profile_says_of_every_job_wins() -> None:
    shared = GPUS + "defaults: {slurm: {exclusive: false}}\n"
    assert asked(plan(job(), shared)) == {"cpus-per-task": "128"}
    assert asked(plan(job(slurm="{exclusive: true}"), shared)) == {"exclusive": "", "mem": "0"}


@pytest.mark.parametrize(
    ("refuses", "wanted"),
    [
        ("[exclusive]", {"mem": "0", "cpus-per-task": "128"}),
        ("[mem]", {"exclusive": ""}),
        ("[exclusive, mem]", {"cpus-per-task": "128"}),
    ],
)
def test_a_site_is_not_asked_for_what_it_refuses(refuses: str, wanted: dict[str, str]) -> None:
    assert asked(plan(job(), f"{GPUS}refuses: {refuses}\n")) == wanted


@pytest.mark.parametrize(
    ("keys", "cluster"),
    [
        ({"gpus_per_node": "4"}, UNKNOWN),
        ({}, UNKNOWN + "refuses: [exclusive]\n"),
        ({"gpus_per_node": "0", "procs_per_node": "4"}, GPUS),
    ],
)
def test_a_share_that_nobody_knows_is_one_cpu_a_rank_and_said(
    keys: dict[str, str], cluster: str
) -> None:
    found = plan(job(**keys), cluster)
    assert found.directives["cpus-per-task"].value == str(found.shape.ranks_per_node)
    assert "J226" in codes(found)


def test_nothing_is_said_of_cpus_where_they_are_known_or_asked_for() -> None:
    for keys in ({}, {"gpus_per_node": "4"}, {"cpus_per_task": "2"}):
        assert "J226" not in codes(plan(job(**keys)))


# ---- GPUs, named on every srun

STYLES = {
    "gpus-per-node": "--gpus-per-node=8",
    "gres": "--gres=gpu:8",
    "gres-typed\ngpu_type: a100": "--gres=gpu:a100:8",
    "none": "${SLURM_GPUS_ON_NODE:+--gpus-per-node=8}",
}


def steps(found: Plan) -> list[str]:
    """The GPUs that the program's, the monitor's and the preflight's srun name."""
    assert found.monitor is not None
    assert found.preflight is not None
    monitor = " ".join(str(word) for line in found.monitor.start for word in line)
    (check,) = [s.value for s in found.preflight.expect if "srun=" in s.value]
    return [words(found), monitor, check]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("launcher", ["torchrun", "srun", "deepspeed", "accelerate", "plain"])
def test_every_srun_names_the_gpus_in_the_style_of_the_site(style: str, launcher: str) -> None:
    found = plan(job(launcher=launcher, monitor="30s"), f"{GPUS}gpu_request: {style}\n")
    for step in steps(found):
        assert STYLES[style] in step
        assert ("--gres" in step) != ("--gpus-per-node" in step)


def test_a_gres_of_the_jobs_own_is_named_with_the_gpus() -> None:
    for style, wanted in (
        ("gpus-per-node", "--gres=lscratch:100 --gpus-per-node=8"),
        ("gres", "--gres=gpu:8,lscratch:100"),
    ):
        keys = {"slurm": "{gres: 'lscratch:100'}", "monitor": "30s"}
        found = plan(job(**keys, preflight="off"), f"{GPUS}gpu_request: {style}\n")
        assert wanted in words(found)


def test_a_job_without_gpus_names_none() -> None:
    for keys, cluster in (({"gpus_per_node": "0"}, GPUS), ({}, CPUS), ({}, LOCAL)):
        found = words(plan(job(procs_per_node="2", **keys), cluster))
        assert "gpu" not in found
        assert "gres" not in found


def test_several_tasks_of_a_node_are_never_told_to_bind_no_gpu() -> None:
    """Up to Slurm 23.02 --gpu-bind=none takes CUDA_VISIBLE_DEVICES away from each of them."""
    assert "--gpu-bind" not in words(plan(job(launcher="srun")))
    for launcher in ("torchrun", "deepspeed", "accelerate", "plain"):
        assert "--gpu-bind=none" in words(plan(job(launcher=launcher)))


def warned_of_memory(found: Plan) -> bool:
    return "J222" in [check.code for check in found.checks]


def test_missing_memory_is_warned_of_only_where_none_is_asked_for() -> None:
    refusing = f"{GPUS}refuses: [exclusive, mem]\n"
    assert not warned_of_memory(plan(job(), GPUS))
    assert warned_of_memory(plan(job(), refusing))
    assert not warned_of_memory(plan(job(mem="100GiB"), refusing))
    assert not warned_of_memory(plan(job(slurm="{mem-per-gpu: 100G}"), refusing))

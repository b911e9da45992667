"""``ranks_per_gpu``: how many ranks, on which CPUs, with what memory, and what NCCL refuses."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import check
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve.binding import VARIABLE as GPU_CPUS
from jobgen.resolve.gpu_sharing import VARIABLE
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan

SHARED = {"gpus_per_node": "4", "ranks_per_gpu": "2"}
ALLOWED = {"nccl": "{env: {NCCL_MULTI_RANK_GPU_ENABLE: 1}}"}
TRAIN = "{strategy: ddp, model: {layers: 12, hidden: 768, heads: 12, vocab: 50257}}"


def refused(text: str, cluster: str = GPUS) -> list[tuple[str, int]]:
    with pytest.raises(Invalid) as caught:
        plan(text, cluster)
    return [(p.code, p.place.line if p.place else 0) for p in caught.value.problems]


def codes(made: Plan) -> list[str]:
    """Codes of its notes about ranks."""
    about = {"J227", "J260", "J261", "J262", "J263"}
    return [note.code for note in made.notes if note.code in about]


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "deepspeed", "accelerate", "composer"])
def test_a_node_runs_so_many_ranks_on_each_gpu(launcher: str) -> None:
    made = plan(job(**SHARED, launcher=launcher))
    assert (made.shape.gpus_per_node, made.shape.ranks_per_node, made.shape.world) == (4, 8, 16)
    assert made.env[VARIABLE].value == "2"
    assert str(made.other["ranks_per_node"].place) == "job.yaml:6"
    assert made.other["bind"].value == "auto"


def test_its_ranks_divide_the_cpus_of_its_gpus() -> None:
    made = plan(job(**SHARED, launcher="srun"))
    assert (made.shape.cpus_per_task, made.shape.tasks_per_node) == (128 * 4 // 8 // 8, 8)
    cells = "[a, b, c, d, e, f, g, h]".translate({ord("a") + i: str(i) for i in range(8)})
    known = GPUS.replace("mem: 1TiB", f"mem: 1TiB, gpu_cpus: {cells}")
    near = plan(job(ranks_per_gpu="2"), known).env[GPU_CPUS].value.split()
    assert near == [str(gpu) for gpu in range(8) for _ in range(2)]


def test_without_it_nothing_is_shared() -> None:
    for made in (plan(job()), plan(job(ranks_per_gpu="1"))):
        assert VARIABLE not in made.env
        assert b"LOCAL_RANK /" not in render(made, templates())["rank.sh"].content
        assert codes(made) == []


def test_elsewhere_ranks_stand_for_the_gpus() -> None:
    made = plan(job(**SHARED), LOCAL)
    assert (made.shape.gpus_per_node, made.shape.ranks_per_node) == (0, 8)
    assert plan(job(**SHARED, procs_per_node="3"), CPUS).shape.ranks_per_node == 3


def test_another_number_of_processes_is_refused() -> None:
    assert refused(job(**SHARED, procs_per_node="4")) == [("J260", 7)]
    assert "J227" not in codes(plan(job(**SHARED, procs_per_node="8")))


def test_a_training_over_nccl_is_refused_and_other_ranks_are_noted() -> None:
    assert refused(job(**SHARED, train=TRAIN)) == [("J261", 6)]
    assert codes(plan(job(**SHARED))) == ["J261"]
    for keys in (ALLOWED, {"env": ALLOWED["nccl"][6:-1]}):
        assert codes(plan(job(**SHARED, train=TRAIN, **keys))) == ["J263"]


def test_an_all_reduce_before_the_program_is_refused() -> None:
    assert refused(job(**SHARED, preflight="full")) == [("J260", 7)]


def test_a_command_that_starts_its_own_ranks_gets_all_gpus_and_a_warning() -> None:
    made = plan(job(**SHARED, launcher="plain"))
    assert made.shape.ranks_per_node == 1
    assert VARIABLE not in made.env
    assert codes(made) == ["J262"]


def test_a_rank_has_its_share_of_the_memory() -> None:
    alone = plan(job(gpus_per_node="4", train=TRAIN)).estimate
    made = plan(job(**SHARED, train=TRAIN, **ALLOWED))
    assert alone is not None
    assert made.estimate is not None
    assert made.estimate.limit == alone.limit / 2
    assert "for each of a GPU's 2 ranks" in made.checks[0].message


def test_elements_of_a_packed_sweep_share_the_gpus_of_their_part() -> None:
    sweep = "{grid: {LR: [1, 2, 3, 4]}, pack: {gpus: 2}}"
    made = plan(job(**SHARED, nodes="1", sweep=sweep, run="train.py --lr ${LR}"))
    assert (made.shape.gpus_per_node, made.shape.ranks_per_node) == (2, 4)
    assert (made.shape.allocated.gpus_per_node, made.shape.allocated.ranks_per_node) == (4, 8)


def test_steps_and_groups_may_differ() -> None:
    steps = "[{run: train.py}, {name: eval, run: eval.py, ranks_per_gpu: 2}]"
    made = plan(job(run="", gpus_per_node="4", steps=steps))
    assert [each.plan.shape.ranks_per_node for each in made.programs] == [4, 8]
    groups = "{a: {nodes: 1, run: a.py}, b: {nodes: 1, run: b.py, ranks_per_gpu: 2}}"
    made = plan(job(run="", nodes="", gpus_per_node="4", groups=groups))
    assert [each.plan.shape.ranks_per_node for each in made.programs] == [4, 8]


def test_a_word_of_slurm_leads_to_it() -> None:
    found = check(job(ntasks_per_gpu="2"), "job.yaml").problems
    assert "ranks_per_gpu" in found[0].hint

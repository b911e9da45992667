"""mpirun starts all nodes from the first one: what follows from that, and what it excludes."""

from __future__ import annotations

import pytest

from jobgen.errors import Diagnostic, Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import GPUS, LOCAL, job, plan


def refuse(cluster: str = GPUS, **keys: str) -> Diagnostic:
    with pytest.raises(Invalid) as error:
        plan(job(launcher="mpirun", **keys), cluster)
    (problem,) = error.value.problems
    return problem


def get_launch(made: Plan) -> tuple[str, str]:
    (step,) = [step for step in made.steps if step.name == "launch"]
    return step.scope, step.text


def test_one_mpirun_starts_the_ranks_of_two_nodes() -> None:
    scope, text = get_launch(plan(job(launcher="mpirun")))
    assert scope == "once"
    assert "exec mpirun -np 16 " in text
    assert "OMPI_MCA_plm=slurm" in text


def test_on_one_node_srun_starts_it_as_any_agent() -> None:
    made = plan(job(launcher="mpirun", nodes="1", container="{image: a.sif, runtime: apptainer}"))
    scope, text = get_launch(made)
    assert scope == "node"
    assert "exec mpirun -np 8 " in text
    assert "plm" not in text


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        (
            {"container": "{image: a.sif, runtime: apptainer}"},
            "mpirun starts the ranks of other nodes outside the container",
            "launcher: srun",
        ),
        ({"setup": "{node: [date]}"}, "mpirun runs scripts on the first node", "launcher: srun"),
    ],
)
def test_what_needs_a_script_on_every_node_is_refused(
    keys: dict[str, str], message: str, hint: str
) -> None:
    problem = refuse(**keys)
    assert message in problem.message
    assert hint in problem.hint


def test_the_local_cluster_has_no_srun_for_its_daemons() -> None:
    problem = refuse(LOCAL)
    assert "which the local cluster does not have" in problem.message
    assert "nodes: 1" in problem.hint
    assert plan(job(launcher="mpirun", nodes="1"), LOCAL).launcher.value == "mpirun"


@pytest.mark.parametrize("launcher", ["mpirun", "{type: mpirun}"])
def test_a_group_may_not_have_the_first_node(launcher: str) -> None:
    group = f"{{nodes: 1, run: a.py, launcher: {launcher}}}"
    groups = f"{{a: {{nodes: 1, run: b.py}}, b: {group}}}"
    with pytest.raises(Invalid, match="mpirun starts from the job's first node, not the group's"):
        plan(job(run="", nodes="", groups=groups))


def test_compiler_caches_stay_where_they_are() -> None:
    assert plan(job(launcher="mpirun")).caches is None
    assert plan(job(launcher="mpirun", nodes="1")).caches is not None

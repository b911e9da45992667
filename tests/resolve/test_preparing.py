"""Setup by scope, and staged data: where each runs, with each launcher and container."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.part_plans import Mount
from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, job, plan

SCOPES = "setup: {node: echo node, rank: echo rank}\n"
OUTSIDE = "setup: {outside: module load runtime}\n"
APPTAINER = "container: {image: /a.sif, runtime: apptainer}\n"


def list_lines(found: Plan) -> dict[str, list[str]]:
    scopes = {"launcher": found.setup, "node": found.node_setup, "rank": found.rank_setup}
    return {name: [line.value for line in lines] for name, lines in scopes.items()}


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed"])
def test_the_shell_of_an_agent_runs_the_lines_of_its_node(launcher: str) -> None:
    found = plan(job(launcher=launcher) + SCOPES)
    assert list_lines(found) == {"launcher": ["echo node"], "node": [], "rank": ["echo rank"]}


def test_under_srun_one_rank_runs_the_lines_of_its_node() -> None:
    found = plan(job(launcher="srun") + SCOPES)
    assert list_lines(found) == {"launcher": [], "node": ["echo node"], "rank": ["echo rank"]}


def test_a_list_stays_in_the_shell_of_the_launcher() -> None:
    for launcher in ("torchrun", "srun"):
        found = plan(job(launcher=launcher) + "setup: [echo one]\n")
        assert list_lines(found) == {"launcher": ["echo one"], "node": [], "rank": []}
        assert found.prepare is None


def test_lines_outside_run_before_the_container_is_entered() -> None:
    found = plan(job() + APPTAINER + OUTSIDE)
    assert found.container is not None
    assert [line.value for line in found.container.setup] == ["module load runtime"]
    assert found.prepare is None


def test_under_pyxis_lines_outside_have_a_step_of_their_own() -> None:
    found = plan(job() + "container: /a.sqsh\n" + OUTSIDE)
    assert found.container is not None
    assert found.container.setup == ()
    assert found.prepare is not None
    assert [line.value for line in found.prepare.outside] == ["module load runtime"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job() + OUTSIDE, "setup.outside runs outside the container, but the job has no container"),
        (
            job(launcher="{type: deepspeed, ssh: pdsh}") + SCOPES,
            "setup.node runs on every node, but pdsh runs scripts on the first node alone",
        ),
    ],
)
def test_a_scope_that_the_job_lacks_is_an_error(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(text)
    assert [(p.code, p.message) for p in caught.value.problems] == [("J216", message)]


def test_only_lines_of_the_launchers_shell_may_bring_it() -> None:
    def has_note(text: str) -> bool:
        return any(note.code == "J259" for note in plan(job() + text).notes)

    assert has_note("setup: {rank: source env}\n")
    assert not has_note("setup: {node: source env}\n")


def test_staged_data_is_visible_in_the_container() -> None:
    stage = "stage: {/data/x.tar: $SLURM_TMPDIR/x, /data/y: $SLURM_TMPDIR/x}\n"
    found = plan(job() + APPTAINER + stage, CPUS)
    assert found.container is not None
    assert found.container.mounts == (Mount("$SLURM_TMPDIR/x", "$SLURM_TMPDIR/x"),)
    assert found.prepare is not None
    assert [tuple(each) for each in found.prepare.staged] == [
        ("/data/x.tar", "$SLURM_TMPDIR/x"),
        ("/data/y", "$SLURM_TMPDIR/x"),
    ]


@pytest.mark.parametrize(
    ("stage", "code"),
    [("[a]", "J120"), ("{}", "J120"), ("{data: /tmp/x}", "J135"), ("{/data: tmp/x}", "J135")],
)
def test_both_paths_of_staged_data_are_absolute(stage: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(job() + f"stage: {stage}\n")
    assert [problem.code for problem in caught.value.problems] == [code]


def test_each_of_several_steps_has_setup_and_the_job_stages_once() -> None:
    steps = "steps: [{run: a.py}, {run: b.py, launcher: srun}]\n"
    found = plan(job(run="") + steps + SCOPES + "stage: {/data/x: /tmp/x}\n")
    assert found.prepare is not None
    assert [list_lines(each.plan)["node"] for each in found.programs] == [[], ["echo node"]]

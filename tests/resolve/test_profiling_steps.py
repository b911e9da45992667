"""``train.profile``: what it adds to a job, and where it cannot be."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import job, plan


def files(made: Plan) -> dict[str, str]:
    return {file.path: file.content.decode() for file in render(made, templates()).files}


def profiled(profile: str, **keys: str) -> Plan:
    return plan(job(train=f"{{strategy: ddp, profile: {profile}}}", **keys))


def test_the_program_is_started_by_the_script_that_traces() -> None:
    rendered = files(profiled("10-12"))
    started = 'exec python -u "$JOBGEN_BUNDLE_DIR/profile_steps.py" train.py'
    assert started in rendered["program.sh"]
    assert "export JOBGEN_PROFILE_STEPS=10-12 " in rendered["job.sbatch"]
    assert "export JOBGEN_PROFILE_RANKS=0 " in rendered["job.sbatch"]
    assert {"profile_steps.py", "wrapped_program.py"} <= rendered.keys()
    assert "profile_steps.py" not in files(plan(job(train="{strategy: ddp}")))


def test_a_program_that_is_asked_to_save_is_traced_too() -> None:
    train = "{framework: hf-trainer, strategy: ddp, profile: {steps: 7, ranks: [0, 8]}}"
    made = plan(job(train=train, checkpoint="{requeue: true}"), stop_file_named=False)
    rendered = files(made)
    both = ("save_on_stop.py", "profile_steps.py")
    assert all(f'"$JOBGEN_BUNDLE_DIR/{name}"' in rendered["program.sh"] for name in both)
    assert "export JOBGEN_PROFILE_STEPS=7-7 " in rendered["job.sbatch"]
    assert "export JOBGEN_PROFILE_RANKS=0,8 " in rendered["job.sbatch"]


def test_ranks_that_the_job_has_not_and_programs_of_another_kind_are_refused() -> None:
    beyond = profiled("{steps: 10, ranks: [0, 16]}")
    assert [c.message for c in beyond.checks if c.status == "fail"] == [
        "train.profile.ranks: there is no rank 16, only 0 to 15"
    ]
    shell = profiled("10", run="bash train.sh", launcher="plain", procs_per_node="1")
    assert [c.message for c in shell.checks if c.status == "fail"] == [
        "train.profile needs a single Python program in run:"
    ]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("12-10", "12-10 is backwards"),
        ("1-3", "step 1 cannot be traced"),
        ("soon", "expected steps such as 10-12, got the text 'soon'"),
        ("true", "expected steps such as 10-12, got true"),
    ],
)
def test_steps_that_cannot_be_traced_are_refused(steps: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        profiled(steps)
    assert message in str(refused.value)

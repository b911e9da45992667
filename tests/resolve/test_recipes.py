"""torchtune and axolotl: torchrun on each node, and in each rank the tool with its recipe."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import job, plan

RECIPES = {
    "torchtune": ("lora --config x lr=1", "exec tune run lora --config x lr=1"),
    "axolotl": ("sft.yaml --lr=1", "exec python -u -m axolotl.cli.train sft.yaml --lr=1"),
}


def read_step(found: Plan, name: str) -> str:
    return next(step.text for step in found.steps if step.name == name)


@pytest.mark.parametrize("launcher", RECIPES)
def test_each_rank_runs_the_tool_below_the_same_agent_as_torchrun(launcher: str) -> None:
    run, program = RECIPES[launcher]
    found = plan(job(launcher=launcher, run=run))
    assert read_step(found, "program") == program
    assert read_step(found, "launch") == read_step(plan(job(launcher="torchrun")), "launch")


@pytest.mark.parametrize("launcher", RECIPES)
def test_settings_are_those_of_torchrun(launcher: str) -> None:
    asked = f"{{type: {launcher}, rdzv: static, args: [--tee=3]}}"
    text = read_step(plan(job(launcher=asked, run=RECIPES[launcher][0])), "launch")
    assert "--node-rank=" in text
    assert "--tee=3" in text
    with pytest.raises(Invalid, match="--nnodes of torchrun is set by jobgen"):
        plan(job(launcher=f"{{type: {launcher}, args: [--nnodes=3]}}", run="x.yaml"))


@pytest.mark.parametrize(
    ("launcher", "run", "code", "message"),
    [
        ("torchtune", "tune run lora --config x", "J247", "'tune' is not part of"),
        ("torchtune", "python train.py", "J247", "'python' is not part of"),
        ("axolotl", "sft.yaml --launcher torchrun", "J247", "'--launcher' is not part of"),
        ("axolotl", "sft.yaml -- --nnodes=2", "J247", "'--' is not part of"),
        ("axolotl", "sft.yaml | tee log", "J247", "takes one command"),
        ("axolotl", "axolotl train sft.yaml", "J306", "write 'sft.yaml'; axolotl starts"),
        ("torchrun", "axolotl train sft.yaml", "J306", "set launcher: axolotl"),
        ("torchrun", "tune run --nproc_per_node 8 lora --config x", "J306", "launcher: torchtune"),
    ],
)
def test_what_would_start_a_launcher_in_each_rank_is_refused(
    launcher: str, run: str, code: str, message: str
) -> None:
    with pytest.raises(Invalid) as error:
        plan(job(launcher=launcher, run=run))
    (problem,) = error.value.problems
    assert problem.code == code
    assert message in f"{problem.message} {problem.hint}"


def test_no_hint_calls_them_a_way_to_run_a_command_once_per_rank() -> None:
    with pytest.raises(Invalid) as error:
        plan(job(run="./train.sh"))
    (problem,) = error.value.problems
    assert "torchrun" in problem.hint
    assert "axolotl" not in problem.hint

"""Options of a launcher that jobgen writes itself are refused with the key that sets them."""

from __future__ import annotations

import re

import pytest

from jobgen.data import launcher_options
from jobgen.errors import Diagnostic, Invalid
from jobgen.load import load_job
from jobgen.model.launchers import LAUNCHERS, name_agent
from tests.resolve.made import job, plan


def refuse(launcher: str) -> list[Diagnostic]:
    with pytest.raises(Invalid) as error:
        plan(job(launcher=launcher))
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("launcher", "message", "hint"),
    [
        ("{args: [--nnodes, '4']}", "args: --nnodes of torchrun", "set nodes instead"),
        ("{args: [--nproc_per_node=4]}", "args: --nproc-per-node", "set gpus_per_node or procs"),
        ("{args: [--rdzv_conf=a=1]}", "args: --rdzv-conf of torchrun", "remove it"),
        ("{type: srun, args: [-N2]}", "args: -N of srun", "set nodes instead"),
        ("{type: srun, args: [-n, '2']}", "args: -n of srun", "set nodes and gpus_per_node"),
        ("{type: deepspeed, args: [-H, x]}", "args: -H of deepspeed", "remove it"),
        ("{type: accelerate, args: [--config_file=x]}", "--config-file", "set launcher.config"),
        ("{type: mpirun, args: [-np, '4']}", "args: --np of mpirun", "set nodes and gpus_per"),
        ("{type: mpirun, args: [-x, A]}", "args: -x of mpirun", "set env instead"),
        ("{srun_args: ['--export=ALL,A=1']}", "srun_args: --export of srun", "set env instead"),
        ("{type: plain, srun_args: [-c, '4']}", "srun_args: -c of srun", "cpus_per_task"),
        ("{type: plain, srun_args: '--label -c 4'}", "srun_args: -c of srun", "cpus_per_task"),
        ("{srun_args: [--kill-on-bad-exit=0]}", "srun_args: --kill-on-bad-exit", "remove it"),
        ("{srun_args: [-W, '60']}", "srun_args: -W of srun", "remove it"),
        ("{type: torchrun, command: torchrun --nnodes=4}", "command: --nnodes of", "set nodes"),
        (
            "{type: torchrun, command: [python, -m, torch.distributed.run, --nnodes=4]}",
            "command: --nnodes of torchrun",
            "set nodes",
        ),
        ("{type: accelerate, command: uv run -m x /a/accelerate launch -m}", "-m of", "set run"),
    ],
)
def test_an_option_of_jobgens_is_refused(launcher: str, message: str, hint: str) -> None:
    (problem,) = refuse(launcher)
    assert problem.code == "J246"
    assert message in problem.message
    assert hint in problem.hint
    assert problem.place.line == 5


@pytest.mark.parametrize(
    "launcher",
    [
        "{type: srun, args: [--mpi=pmix, --gpu-bind=closest, --network=x, -v]}",
        "{type: srun, args: [--distribution=arbitrary, --nodelist=./hosts]}",
        "{type: accelerate, args: [--use_deepspeed, --deepspeed_multinode_launcher=standard]}",
        "{args: [--tee=3, -r, '3', --local-ranks-filter=0]}",
        "{type: deepspeed, args: [--bind_cores_to_rank], srun_args: [--nice=3]}",
        "{type: torchrun, command: uv run -m tool torchrun --log-dir=a}",
        "{type: torchrun, command: ./my-torchrun --nnodes=4}",
    ],
)
def test_other_options_are_passed_on(launcher: str) -> None:
    assert plan(job(launcher=launcher)).launcher.value


_OVERRIDABLE = {"multi-gpu", "mixed-precision", "dynamo-backend"}
"""Options of accelerate that only state a default."""


@pytest.mark.parametrize("name", LAUNCHERS)
def test_every_option_that_jobgen_writes_is_in_the_table(name: str) -> None:
    step = next(step for step in plan(job(launcher=name)).steps if step.name == "launch")
    written = {option.replace("_", "-") for option in re.findall(r" --(\w[\w-]*)", step.text)}
    assert written - _OVERRIDABLE <= launcher_options().get(name_agent(name), {}).keys()


@pytest.mark.parametrize("setting", ["args", "srun_args"])
def test_text_is_split_as_a_shell_would(setting: str) -> None:
    text = job(launcher=f"{{type: torchrun, {setting}: '--label --comment=\"a b\"'}}")
    launcher = load_job(text, "job.yaml").value.launcher
    assert getattr(launcher, setting) == ("--label", "--comment=a b")


def test_two_words_in_one_item_of_a_list_are_refused() -> None:
    (problem,) = refuse("{srun_args: [--label, '--comment a b']}")
    assert problem.code == "J120"
    assert "'--comment a b' is one word" in problem.message

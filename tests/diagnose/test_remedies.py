"""What a diagnosis proposes, with the names of the run filled in."""

from __future__ import annotations

import pytest

from jobgen.diagnose.remedies import Remedy, list_remedies
from jobgen.model.cause import FailureCause

FRAMES = (
    '  File "train.py", line 8, in <module>',
    "    y = net(x).sum()",
    '  File "/envs/a/site-packages/torch/nn/modules/linear.py", line 134, in forward',
    "    return F.linear(input, self.weight, self.bias)",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
)


@pytest.mark.parametrize(
    ("lines", "place"),
    [(FRAMES, "train.py:8"), (FRAMES[2:], "the line of your program that is shown")],
)
def test_of_an_exception_the_innermost_line_of_ones_own_code_is_to_fix(
    lines: tuple[str, ...], place: str
) -> None:
    remedies = list_remedies(FailureCause("exception", lines=lines))
    assert remedies == [Remedy(f"fix {place} and submit again")]


def test_a_command_that_needs_a_run_is_said_in_words_without_one() -> None:
    cause = FailureCause("collective_timeout", rank=3, node="n2")
    commands = [remedy.command for remedy in list_remedies(cause, "llama-3")]
    assert any(command.startswith("jobgen logs llama-3 --rank 3") for command in commands)
    assert not any("logs" in remedy.command for remedy in list_remedies(cause))
    assert Remedy("read what the missing rank did last") in list_remedies(cause)


def test_logs_of_a_group_are_those_of_its_ranks() -> None:
    cause = FailureCause("exit_code", rank=1)
    commands = [each.command for each in list_remedies(cause, "ray-2", "", ("--group", "head"))]
    assert any("logs ray-2 --group head --rank 1" in command for command in commands)


def test_a_command_of_slurm_names_the_job_if_it_is_known() -> None:
    cause = FailureCause(kind="signal", says="killed")
    assert "sacct -j 812 -o" in list_remedies(cause, "train", job="812")[0].text
    assert "sacct -j JOB -o" in list_remedies(cause, "train")[0].text


def test_a_plan_is_proposed_only_for_a_known_cluster() -> None:
    cause = FailureCause("gpu_memory")
    assert list_remedies(cause, "a-1", "a100x16")[0].command == (
        "jobgen plan job.yaml -c a100x16 --section memory"
    )
    assert not any("plan" in r.command or "would help" in r.text for r in list_remedies(cause))

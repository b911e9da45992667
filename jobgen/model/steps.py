"""``steps:`` of a job: programs that run one after another in its allocation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from jobgen.model.fields import RUN, WORD, check_integer, describe_value
from jobgen.model.form import Check, Form, Refusal, ValueDiagnostic, check_form, key, refuse
from jobgen.model.program_keys import (
    PROCS_PER_NODE,
    PROGRAM_ENVIRONMENT,
    PROGRAM_IMAGE,
    PROGRAM_LAUNCHER,
    PROGRAM_TRAIN,
    RANKS_PER_GPU,
)
from jobgen.model.settings import Launcher
from jobgen.model.train import Train

MOST_STEPS = 16
MOST_RUNS = 64
"""Of steps, in all rounds together: the start and the end of each stand in the first 16 KiB of the
batch shell's events, which is what a client reads."""
_LONGEST = 32
_NAME = rf"[A-Za-z][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}"
_HINT = "write a list: [{run: train.py}, {run: eval.py, nodes: 1}]"


def is_step_name(value: object) -> bool:
    """Whether this can be the name of a step."""
    return isinstance(value, str) and re.fullmatch(_NAME, value) is not None


def name_runs(names: Sequence[str], rounds: int) -> list[str]:
    """The names under which the steps run, in order.

    >>> name_runs(["prepare", "train"], 2)
    ['prepare-1', 'train-1', 'prepare-2', 'train-2']
    """
    if rounds == 1:
        return list(names)
    return [f"{name}-{index}" for index in range(1, rounds + 1) for name in names]


def check_step_name(value: object) -> str:
    """The name of a step, which begins with a letter: folders of starts are numbers."""
    return check_part_name(value, "step")


def check_part_name(value: object, kind: Literal["step", "group"]) -> str:
    """The name of a step or a group."""
    if not isinstance(value, str) or not is_step_name(value):
        message = f"expected the name of a {kind}, got {describe_value(value)}"
        raise refuse("J120", message, "letters, digits, - and _, at most 32, a letter first")
    return value


class JobStep(Form):
    """One program of several: what differs from the job's own keys."""

    name: str = key(
        Check(check_step_name, WORD),
        doc="Name of the step; default: step1, step2, and so on.",
        default="",
    )
    run: str = key(RUN, doc="The command, as run at the top of the file.", example="eval.py")
    nodes: int | None = key(
        check_integer(1, 65_536), default=None, doc="The first so many nodes; default: all."
    )
    procs_per_node: int | None = PROCS_PER_NODE
    ranks_per_gpu: int | None = RANKS_PER_GPU
    launcher: Launcher | None = PROGRAM_LAUNCHER
    container: str | None = PROGRAM_IMAGE
    env: Mapping[str, str] = PROGRAM_ENVIRONMENT
    train: Train | None = PROGRAM_TRAIN


def check_steps(value: object) -> tuple[JobStep, ...]:
    """The steps in their order, each with a name of its own."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        got = "an empty list" if value == [] else describe_value(value)
        raise refuse("J120", f"expected a list of steps, got {got}", _HINT)
    if len(value) > MOST_STEPS:
        raise refuse("J120", f"{len(value)} steps, but at most {MOST_STEPS} are supported")
    steps: list[JobStep] = []
    faults: list[ValueDiagnostic] = []
    form = check_form(JobStep)
    for index, each in enumerate(value):
        try:
            step = form(each)
        except Refusal as refusal:
            faults += [f._replace(path=(index, *f.path)) for f in refusal.faults]
            continue
        step = step.replace(name=step.name or f"step{index + 1}")
        if step.name in [other.name for other in steps]:
            message = f"a second step is called '{step.name}'"
            faults.append(ValueDiagnostic("J120", message, "give it another name", (index, "name")))
        steps.append(step)
    if faults:
        raise Refusal(faults)
    return tuple(steps)


STEPS = Check(check_steps, {"type": "array", "items": {"form": JobStep}})

"""Where a job keeps its checkpoints; each element of an array needs a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.model.decision import PlanCheck, SelfEvident, Setting, cite_rule
from jobgen.model.plan import Shape
from jobgen.resolve.inputs import Inputs
from jobgen.shell.script_variables import find_assignments

CODE = "J258"
_ELEMENT = "SLURM_ARRAY_TASK_ID"
_DIFFERING = r"\$\{?(?:SLURM_ARRAY_TASK_ID|SLURM_JOB_ID|JOBGEN_STATE_DIR|JOBGEN_CHECKPOINT_DIR)\b"
"""Variables that differ from element to element. SLURM_ARRAY_JOB_ID does not."""
_OPTIONS = {
    "hf-trainer": ("--output_dir", "--output-dir"),
    "lightning": ("--trainer.default_root_dir",),
    "megatron": ("--save",),
    "torchtitan": ("--checkpoint.folder",),
}
"""Framework → options that name where it saves. Elements may well load from one folder."""


def choose_folder(look: Inputs, shape: Shape) -> Setting:
    """JOBGEN_CHECKPOINT_DIR: what the job names, or a folder of the run, or of the element."""
    folder = look.job.checkpoint.dir if look.job.checkpoint else None
    if folder is None:
        why = "default checkpoint directory"
        element = f"/${_ELEMENT}" if shape.elements is not None else ""
        if look.job.workdir.at is not None:
            why = "in the run directory: other runs use workdir.at, too"
            return Setting(
                f"$JOBGEN_RUN_DIR/src/checkpoints{element}", why, look.cite_job("workdir")
            )
        return Setting(f"$JOBGEN_WORK_DIR/checkpoints{element}", why, cite_rule("checkpoints"))
    within = "" if folder.startswith(("/", "$")) else "$JOBGEN_WORK_DIR/"
    return Setting(within + folder, SelfEvident.AS_ASKED, look.cite_job("checkpoint", "dir"))


def check_folder(look: Inputs, shape: Shape) -> Iterator[PlanCheck]:
    """A warning if all elements of an array share ``checkpoint.dir``."""
    folder = look.job.checkpoint.dir if look.job.checkpoint else None
    if shape.elements is None or folder is None or _differs(look, folder):
        return
    message = f"checkpoint.dir: all {shape.elements:,} array elements save to {folder}"
    hint = f"write {folder.rstrip('/')}/${_ELEMENT}, unless each element continues the previous one"
    yield PlanCheck("warn", message, CODE, hint, look.spec.find_place("checkpoint", "dir"))


def check_options(
    look: Inputs, shape: Shape, framework: str, words: tuple[str, ...]
) -> Iterator[PlanCheck]:
    """A warning for each option of ``run`` that names one folder for all elements of an array."""
    from jobgen.strategy.frameworks.program_options import read_values

    values = read_values(words)
    for option in _OPTIONS.get(framework, ()) if shape.elements is not None else ():
        folder = values.get(option)
        if not folder or _differs(look, folder):
            continue
        message = f"run: {option} {folder}: all {shape.elements:,} array elements save there"
        hint = f"write {option} {folder.rstrip('/')}/${_ELEMENT}"
        yield PlanCheck("warn", message, CODE, hint, look.spec.find_place("run"))


def _differs(look: Inputs, folder: str) -> bool:
    """Whether the path differs between elements, by itself or by a variable that the job sets."""
    if re.search(_DIFFERING, folder):
        return True
    script = "\n".join((*look.job.list_setup(), look.job.run))
    values = (*look.job.env.items(), *find_assignments(script))
    names = re.findall(r"\$\{?(\w+)", folder)
    return any(name in names and re.search(_DIFFERING, value) for name, value in values)

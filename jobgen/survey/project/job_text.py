"""The job.yaml that ``jobgen init`` writes. Its commented-out keys are valid, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.detect import Project
from jobgen.survey.project.environment_advice import advise_environment
from jobgen.survey.project.init_questions import ALL, LOCAL, JobAnswers
from jobgen.survey.project.training_programs import TrainingProgram

SCHEMA = "job.schema.json"
"""The file that the first line names, for editors."""
_COLUMN = 26
_WIDTH = 90
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_PLAIN_OPTION = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)


class LauncherChoice(NamedTuple):
    """How the program is started: the value of ``launcher:``, why, and the words of ``run:``."""

    value: str
    why: str
    run: str


def write_job(project: Project, answers: JobAnswers) -> str:
    """The file's text."""
    program = project.find_program(answers.program)
    launcher = choose_launcher(project, program, answers)
    lines = [
        f"# yaml-language-server: $schema=./{SCHEMA}",
        *(f"# {line}" for line in _list_remarks(program)),
        f"name: {project.name}",
        *_list_resources(answers),
    ]
    if launcher.value:
        lines.append(_comment(f"launcher: {launcher.value}", launcher.why))
    lines.append(_comment(f"run: {launcher.run}", "runs in an uploaded copy of this folder"))
    lines += [*_list_upload(project), "", *_list_environment(project, program, answers)]
    return "\n".join(lines) + "\n"


def choose_launcher(
    project: Project, program: TrainingProgram, answers: JobAnswers
) -> LauncherChoice:
    """The launcher that suits the program and the configurations beside it."""
    kind, title, path = program.kind, program.traits.title, program.path
    config = project.files.get("accelerate_config", "")
    if config and kind in ("accelerate", "hf-trainer"):
        value = f"{{type: accelerate, config: {config}}}"
        return LauncherChoice(value, "accelerate launch, one per node", path)
    config = project.files.get("deepspeed_config", "")
    if config and kind == "deepspeed":
        value = f"{{type: deepspeed, config: {config}}}"
        return LauncherChoice(value, "deepspeed, one per node", _add_config(program))
    if config and kind == "hf-trainer" and program.facts.uses("transformers.HfArgumentParser"):
        return LauncherChoice("torchrun", "one process per GPU", f"{path} --deepspeed {config}")
    if program.traits.distributed or answers.gpus != "1" or answers.nodes != "1":
        return LauncherChoice("torchrun", f"one process per GPU ({title})", path)
    return LauncherChoice("", "", path)


def _add_config(program: TrainingProgram) -> str:
    """The program's words: the configuration is passed if it has DeepSpeed's own option."""
    known = "--deepspeed_config" in program.facts.options
    if known or program.facts.uses("deepspeed.add_config_arguments"):
        return f"{program.path} --deepspeed_config $JOBGEN_DEEPSPEED_CONFIG"
    return program.path


def _list_remarks(program: TrainingProgram) -> Iterator[str]:
    """What to know of the program, above the keys."""
    if not program.traits.distributed:
        yield f"{program.path} does not use torch.distributed: each process trains alone, on one"
        yield "GPU. Before you ask for more GPUs, use DistributedDataParallel, FSDP or a Trainer."
    if program.traits.note:
        yield program.traits.note
    if program.facts.required:
        names = ", ".join(name for name in program.facts.required if _PLAIN_OPTION.fullmatch(name))
        yield f"{program.path} requires arguments; add them to run: {names}"


def _list_resources(answers: JobAnswers) -> Iterator[str]:
    here = "this machine, simulated nodes" if answers.cluster == LOCAL else "default"
    yield _comment(f"cluster: {_quote(answers.cluster)}", f"{here}; -c NAME chooses another")
    yield f"nodes: {answers.nodes}"
    if answers.gpus == ALL and answers.cluster == LOCAL:
        yield _comment("# procs_per_node: 2", "ranks per node; with GPUs, one rank per GPU")
    elif answers.gpus == ALL:
        yield _comment("# gpus_per_node: 8", "default: all GPUs of each node")
    else:
        yield f"gpus_per_node: {answers.gpus}"
    yield _comment(f"time: {_quote(answers.time)}", "time limit")


def _list_upload(project: Project) -> Iterator[str]:
    """What must not be uploaded: environments of this machine and images."""
    ignored = [f"{name}/" for name in project.listing.venvs]
    if "image" in project.files:
        ignored.append(project.files["image"])
    if ignored:
        yield _comment(f"workdir: {{ignore: [{', '.join(ignored)}]}}", "not uploaded")


def _list_environment(
    project: Project, program: TrainingProgram, answers: JobAnswers
) -> Iterator[str]:
    """How the environment gets onto a cluster, and the options that a site may need."""
    advice = advise_environment(project)
    if answers.cluster == LOCAL:
        yield "# On local, jobs use the environment that is active in your shell."
    yield f"# A cluster does not have this machine's packages. {advice.where}:"
    yield from (f"#   $ {command}" for command in advice.commands)
    yield "# Then uncomment:"
    yield from (f"# {line}" for line in advice.keys)
    yield _comment("# slurm: {partition: gpu, account: NAME}", "options of sbatch, if needed")
    train = f"# train: {{model: meta-llama/Llama-3.1-8B{_name_framework(program)}}}"
    yield _comment(train, "your model: plan estimates memory")


def _name_framework(program: TrainingProgram) -> str:
    """The framework of a program that reads the Trainer's arguments: the Trainer has a batch of
    its own where the job sets none."""
    reads = program.facts.uses("transformers.HfArgumentParser", "trl.TrlParser")
    return ", framework: hf-trainer" if program.kind == "hf-trainer" and reads else ""


def _comment(left: str, comment: str) -> str:
    """A line with its comment, if there is room for it."""
    line = f"{left.ljust(_COLUMN)}  # {comment}"
    return line if len(line) <= _WIDTH else left


def _quote(value: str) -> str:
    """A value as YAML reads it back as text."""
    plain = re.fullmatch(r"\d+[a-z][\da-z]*", value) or _PLAIN.fullmatch(value)
    return value if plain else json.dumps(value)

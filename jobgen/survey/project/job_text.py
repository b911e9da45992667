"""The job.yaml that ``jobgen init`` writes. Its commented-out keys are valid, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.detect import Project
from jobgen.survey.project.environment_advice import advise_environment
from jobgen.survey.project.init_questions import ALL, LOCAL, ChosenCluster, JobAnswers
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


def write_job(project: Project, answers: JobAnswers, cluster: ChosenCluster | None = None) -> str:
    """The file's text; ``cluster`` is read from the profile."""
    cluster = cluster or ChosenCluster(is_here=answers.cluster == LOCAL)
    program = project.find_program(answers.program)
    launcher = choose_launcher(project, program, answers)
    lines = [
        f"# yaml-language-server: $schema=./{SCHEMA}",
        *(f"# {line}" for line in _list_remarks(program)),
        f"name: {project.name}",
        *_list_resources(answers, cluster),
    ]
    if launcher.value:
        lines.append(_comment(f"launcher: {launcher.value}", launcher.why))
    lines.append(_comment(f"run: {launcher.run}", "runs in an uploaded copy of this folder"))
    lines += [*_list_upload(project), "", *_list_environment(project, program, answers, cluster)]
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


def _list_resources(answers: JobAnswers, cluster: ChosenCluster) -> Iterator[str]:
    here = cluster.is_here
    where = "this machine" if here else "default"
    where += ", simulated nodes" * (answers.cluster == LOCAL)
    yield _comment(f"cluster: {_quote(answers.cluster)}", f"{where}; -c NAME chooses another")
    yield f"nodes: {answers.nodes}"
    if answers.gpus == ALL and here and not cluster.gpus_per_node:
        yield _comment("# procs_per_node: 2", "ranks per node; with GPUs, one rank per GPU")
    elif answers.gpus == ALL:
        where = "this machine" if here else "each node"
        gpus = f"# gpus_per_node: {cluster.gpus_per_node or 8}"
        yield _comment(gpus, f"default: all GPUs of {where}")
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
    project: Project, program: TrainingProgram, answers: JobAnswers, cluster: ChosenCluster
) -> Iterator[str]:
    """How the environment gets onto a cluster, and the options that a site may need."""
    if cluster.is_here:
        yield f"# On {answers.cluster}, jobs use the environment that is active in your shell."
    if answers.cluster == LOCAL or not cluster.is_here:
        yield from _advise_cluster(project)
    model = _quote(program.facts.model or "meta-llama/Llama-3.1-8B")
    train = f"# train: {{model: {model}{_name_framework(program)}}}"
    yield _comment(train, "your model: plan estimates memory")


def _advise_cluster(project: Project) -> Iterator[str]:
    """How the environment gets onto a cluster, and the options of its sbatch."""
    advice = advise_environment(project)
    yield f"# A cluster does not have this machine's packages. {advice.where}:"
    yield from (f"#   $ {command}" for command in advice.commands)
    yield "# Then uncomment:"
    yield from (f"# {line}" for line in advice.keys)
    yield _comment("# slurm: {partition: gpu, account: NAME}", "options of sbatch, if needed")


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

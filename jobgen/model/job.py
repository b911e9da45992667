"""A job as the user wrote it down: job.yaml, in one form.

What may be written in several ways (a word or a mapping, a block or a list) has one form here.
Nothing that depends on the cluster is decided yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from jobgen.model.container import Container
from jobgen.model.fields import (
    ENV_NAME,
    ENVIRONMENT,
    JOB_NAME,
    LINE,
    LINES,
    MEMORY,
    NAME,
    RELATIVE,
    RUN,
    TIME,
    WORDS,
    check_choice,
    check_integer,
    check_lines,
    split_extra,
)
from jobgen.model.form import Check, Form, check_form, check_list, check_table, key
from jobgen.model.groups import GROUPS, JobGroup, count_nodes
from jobgen.model.job_checks import (
    ARRAY,
    MOST_NODES,
    NODES,
    OPTIONS,
    SPAN,
    VARIABLE,
    VARIANT,
    check_version,
)
from jobgen.model.notify import Notify
from jobgen.model.preparation import SETUP, STAGE, SetupScopes, StagedData
from jobgen.model.program_keys import LAUNCHER
from jobgen.model.race import RACE
from jobgen.model.settings import (
    MONITOR,
    SECRETS,
    Checkpoint,
    Launcher,
    Nccl,
    SecretRef,
    Workdir,
)
from jobgen.model.steps import MOST_RUNS, STEPS, JobStep
from jobgen.model.sweep import Sweep
from jobgen.model.tracking import TRACK, Track
from jobgen.model.train import Train
from jobgen.model.units import Memory, Walltime

__all__ = [
    "Checkpoint",
    "Container",
    "JobSpec",
    "Launcher",
    "Nccl",
    "SecretRef",
    "Workdir",
]


class JobSpec(Form):
    """What to run, and how much of the cluster it needs."""

    derived: ClassVar[frozenset[str]] = frozenset({"nodes"})
    name: str = key(JOB_NAME, doc="Name of the job.", example="llama8b-sft")
    run: str = key(
        RUN,
        doc=(
            "The command: one distributed program, without a launcher. A .py file or -m module "
            "is started by the launcher; for any other command with several ranks, set "
            "launcher. Several programs: steps, one after another; groups, at the same time."
        ),
        example="train.py",
        instead=("steps", "groups"),
    )
    nodes: int = key(
        NODES,
        doc=(
            "Number of nodes, or MIN:MAX for a job that can continue with fewer. With groups, it "
            "is their sum, and may be left out."
        ),
        example="2",
    )
    time: Walltime | None = key(
        TIME,
        default=None,
        doc=(
            "Time limit: 4h, 90m, 1d12h, 04:00:00 or 1-12:00:00; default: that of the partition, "
            "where the profile states it (limits.default_time)."
        ),
        example="4h",
    )
    gpus_per_node: int | None = key(
        check_integer(0, 1024),
        default=None,
        doc="GPUs per node, with one rank each (see ranks_per_gpu); default: all GPUs of a node.",
        example="8",
    )
    version: Literal[1] = key(
        Check(check_version, {"const": 1}), default=1, doc="Version of this format."
    )
    cluster: str | None = key(
        LINE, default=None, doc="Cluster to use without -c.", example="a100x16"
    )
    min_nodes: int | None = key(
        check_integer(1, MOST_NODES), default=None, doc="MIN of nodes: MIN:MAX.", hidden=True
    )
    procs_per_node: int | None = key(
        check_integer(1, 1024),
        default=None,
        doc="Ranks per node where nodes have no GPUs; gpus_per_node may be set too.",
        example="2",
    )
    ranks_per_gpu: int | None = key(
        check_integer(1, 64),
        default=None,
        doc=(
            "Ranks that share each GPU, for independent ranks, gloo or MPI: NCCL refuses two ranks "
            "of a communicator on one GPU. Each rank sees only its GPU; default: 1."
        ),
        example="2",
    )
    cpus_per_task: int | None = key(
        check_integer(1, 4096),
        default=None,
        doc="CPU cores per rank; with `launcher: plain`, per node.",
        example="8",
    )
    array: str | None = key(
        ARRAY,
        default=None,
        doc=(
            "Job array, as sbatch takes it: 0-35%4 runs the job 36 times, at most 4 at once. "
            "Each element has its own nodes and logs, and reads $SLURM_ARRAY_TASK_ID."
        ),
        example="0-35%4",
    )
    sweep: Sweep | None = key(
        check_form(Sweep),
        default=None,
        doc=(
            "Runs the job once for each set of values, as one job array. ${NAME} in run, setup, "
            "env and checkpoint.dir is the value of the element."
        ),
    )
    mem: Memory | None = key(
        MEMORY, default=None, doc="Memory per node: 64G, 500MiB; 0 means all of it."
    )
    workdir: Workdir = key(
        check_form(Workdir, short="path"),
        default=Workdir(),
        doc="Directory to upload; default: the directory of the job file.",
        example="{path: ., ignore: [data/]}",
    )
    launcher: Launcher = key(
        LAUNCHER,
        default=Launcher(),
        doc="What starts the ranks: a word, or a mapping with its settings.",
    )
    setup: tuple[str, ...] = key(
        Check(check_lines, SETUP),
        default=(),
        doc=(
            "Lines of bash that run before the launcher, in its shell, so that exports reach "
            "every rank: once per node; per rank with srun; on the first node with ssh: pdsh "
            "or with mpirun. "
            "A mapping says where: {node: …, rank: …, outside: …}."
        ),
        example="source .venv/bin/activate",
    )
    setup_scopes: SetupScopes = key(
        check_form(SetupScopes), default=SetupScopes(), doc="Setup by scope.", hidden=True
    )
    stage: tuple[StagedData, ...] = key(
        STAGE,
        default=(),
        doc=(
            "Data that is brought to a directory of each node before the program starts: archives "
            "(tar.*, zip) are unpacked into it, files and directories copied. What is there from "
            "an earlier start is not brought again."
        ),
        example="{/data/corpus.tar.gz: $SLURM_TMPDIR/corpus}",
    )
    before: tuple[str, ...] = key(
        LINES,
        default=(),
        doc=(
            "Commands that run once per start, on the first node, before the program: after "
            "setup, or outside the container. A failing one ends the job with its exit code."
        ),
        example="python prepare.py",
    )
    finally_: tuple[str, ...] = key(
        LINES,
        default=(),
        doc=(
            "Commands that run once on the first node when the job ends, also after a failure, "
            "cancel or time limit, but not before a requeue. $JOBGEN_EXIT_CODE is the job's exit "
            "code; a failing command changes it only if it is 0."
        ),
        example="cp -r out /archive",
    )
    steps: tuple[JobStep, ...] = key(
        STEPS,
        default=(),
        doc=(
            "Instead of run: programs that run one after another, each with ranks of its own. "
            "A step has run, and may have name, nodes (the first so many), procs_per_node, "
            "ranks_per_gpu, launcher, env and train. The first failure ends the job; after a "
            "requeue, steps that have succeeded do not run again."
        ),
        example="[{name: train, run: train.py}, {name: eval, run: eval.py, nodes: 1}]",
    )
    repeat: int = key(
        check_integer(1, MOST_RUNS),
        default=1,
        doc=(
            "With steps: how many rounds of all steps run, one after another. $JOBGEN_ROUND is the "
            "round, from 1, and the steps of round 2 are called NAME-2."
        ),
        example="10",
    )
    groups: tuple[JobGroup, ...] = key(
        GROUPS,
        default=(),
        doc=(
            "Instead of run: programs that run at the same time, each on nodes of its own, by "
            "name. A group has run and nodes, and may have on, until, ready, gpus_per_node, "
            "procs_per_node, ranks_per_gpu, cpus_per_task, launcher, env and train. When one "
            "fails, all end. All see the nodes of a group in $JOBGEN_HOSTS_NAME, the first in "
            "$JOBGEN_HOST_NAME."
        ),
        example="{train: {nodes: 2, run: train.py}, serve: {nodes: 1, run: serve, until: train}}",
    )
    env: Mapping[str, str] = key(
        ENVIRONMENT,
        default={},
        doc="Environment of every rank. $NAME is expanded on the cluster, $$ is a dollar sign.",
        example="{OMP_NUM_THREADS: 4}",
    )
    bind: Literal["auto", "off"] = key(
        check_choice("binding", ("auto", "off")),
        default="auto",
        doc=(
            "auto: run each rank on the CPUs closest to its GPU if the job uses several GPUs "
            "of a node and nothing else binds its ranks (numactl, --cpu-bind), and on separate "
            "cores in a job without GPUs under srun. off: let every rank run on all CPUs of "
            "the job."
        ),
    )
    caches: Literal["node", "keep"] = key(
        check_choice("place for caches", ("node", "keep")),
        default="node",
        doc=(
            "Where Triton, Inductor, PyTorch extensions and MIOpen cache compiled GPU code: "
            "node, in a directory of this job on each node; keep, in their default location."
        ),
    )
    secrets: tuple[SecretRef, ...] = key(
        SECRETS,
        default=(),
        doc=(
            "Names of secrets. Their values are read from your environment, or from a file "
            "with {file: PATH}, at submit time; never from this file."
        ),
        example="[HF_TOKEN]",
    )
    vars: Mapping[str, str] = key(
        check_table(ENV_NAME, VARIABLE),
        default={},
        doc=(
            "Variables for ${NAME} in this file; override them with --set. "
            "{required: 'what it is'} is one without a default: --set must give its value."
        ),
        example="{LR: 1e-4}",
    )
    variant: str | None = key(
        NAME,
        default=None,
        doc="The variant to use without --variant.",
        example="h100",
    )
    variants: Mapping[str, Mapping[str, Any]] = key(
        check_table(NAME, VARIANT),
        default={},
        doc=(
            "Settings that are chosen together by --variant NAME: each replaces the job's own; "
            "lists are replaced whole."
        ),
        example="{gb200: {nodes: 4, vars: {DEPTH: 48}}}",
    )
    outputs: tuple[str, ...] = key(
        check_list(RELATIVE),
        default=(),
        doc="Patterns of the job's output files.",
        example="['*.csv']",
    )
    checkpoint: Checkpoint | None = key(
        check_form(Checkpoint),
        default=None,
        doc="Pre-timeout signal, and whether to requeue the job.",
        example="{grace: 5m, requeue: true}",
    )
    train: Train | None = key(
        check_form(Train),
        default=None,
        doc=(
            "Training setup: strategy, parallel sizes, batch, precision, and the configuration "
            "format of the program."
        ),
        example="{model: meta-llama/Llama-3.1-8B, strategy: fsdp2, seq_len: 4096, micro_batch: 1}",
    )
    preflight: Literal["auto", "off", "full"] = key(
        check_choice("preflight", ("auto", "off", "full")),
        default="auto",
        doc=(
            "Check each node before launch: off; auto, which takes about a second, and is off "
            "on the local cluster and for one GPU, one rank or one node without GPUs; or full, "
            "with deeper checks and a short all-reduce. A bad node ends the job with exit code "
            "95, or is excluded if checkpoint.requeue requeues the job."
        ),
    )
    monitor: Walltime | None = key(
        MONITOR,
        default=None,
        doc=(
            "Sampling interval for GPUs, load and network of each node, such as 30s; default: "
            "off. See the summary with jobgen show."
        ),
    )
    notify: Notify | None = key(
        check_form(Notify),
        default=None,
        doc="Messages when the job starts, fails or ends: mail, a webhook or a command.",
        example="{webhook: $SLACK_URL, on: [start, end]}",
    )
    track: Track | None = key(
        TRACK,
        default=None,
        doc=(
            "Trackers that the program logs to: wandb, mlflow, tensorboard, or a mapping with "
            "their settings. All starts of a run continue one run of the tracker."
        ),
        example="{wandb: {project: llama}}",
    )
    nccl: Nccl = key(
        check_form(Nccl),
        default=Nccl(),
        doc="NCCL debug level and extra variables.",
        example="{debug: INFO}",
    )
    container: Container | None = key(
        check_form(Container, short="image"),
        default=None,
        doc="Container: an image, or a mapping with its settings.",
        example="nvcr.io/nvidia/pytorch:25.09-py3",
    )
    slurm: Mapping[str, str | None] = key(
        OPTIONS,
        default={},
        doc="Any sbatch option by its long name; extra: is for options of site plug-ins.",
        example="{mail-type: END, reservation: course}",
    )
    race: tuple[Mapping[str, str], ...] = key(
        RACE,
        default=(),
        doc=(
            "Options of 2 to 4 jobs that wait for the same run: partition, qos, account, "
            "constraint, reservation, time, nodes, gpus_per_node or procs_per_node. The first job "
            "to start runs it and withdraws the others."
        ),
        example="[{partition: short}, {partition: long}]",
    )
    slurm_extra: tuple[str, ...] = key(WORDS, default=(), doc="Words of slurm.extra.", hidden=True)
    labels: Mapping[str, str] = key(
        check_table(NAME, LINE),
        default={},
        doc="Labels of your own, stored with the run.",
        example="{team: nlp}",
    )
    after: tuple[str, ...] = key(
        check_list(JOB_NAME),
        default=(),
        doc="Jobs that must have succeeded before this one starts.",
        example="[prepare]",
    )

    def list_programs(self) -> tuple[JobSpec | JobStep | JobGroup, ...]:
        """What has a ``run``: the job itself, or each of its steps or groups."""
        return self.steps or self.groups or (self,)

    def list_setup(self) -> tuple[str, ...]:
        """The lines of setup, wherever they run."""
        scopes = self.setup_scopes
        return (*self.setup, *scopes.outside, *scopes.node, *scopes.rank)

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """``nodes: MIN:MAX`` and ``slurm: {extra: …}`` are two values each; ``setup`` has two
        forms; groups have a sum."""
        if isinstance(data.get("setup"), Mapping):
            rest = {name: value for name, value in data.items() if name != "setup"}
            data = {**rest, "setup_scopes": data["setup"]}
        if data.get("groups") and "nodes" not in data:
            data = {**data, "nodes": count_nodes(data["groups"]) or 1}
        nodes = data.get("nodes")
        span = re.fullmatch(SPAN, nodes) if isinstance(nodes, str) else None
        if span and 1 <= int(span.group(1)) <= int(span.group(2)) <= MOST_NODES:
            least, most = int(span.group(1)), int(span.group(2))
            data = {**data, "nodes": most, "min_nodes": least if least < most else None}
        return split_extra(data)

"""srun: start the tasks of a step, carry their output and our signals, end them together."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from . import options, processes
from .errors import CommandError, invalid
from .hostlist import expand
from .layout import StepLayout, layout
from .records import Job
from .step import StepRun
from .store import Store


def main(store: Store, words: Sequence[str]) -> int:
    """Run a command on the nodes of the job we are in; the highest exit code of its tasks."""
    wanted, command = options.parse("srun", options.SRUN, words)
    if "version" in wanted:
        print(options.VERSION)
        return 0
    if not command:
        raise invalid("srun", "No command given to execute.")
    job = _job(store)
    hosts = expand(os.environ.get("SLURM_JOB_NODELIST", ""))
    step, warnings = layout(wanted, command, hosts, os.environ)
    for warning in warnings:
        print(f"srun: {warning}", file=sys.stderr)
    return StepRun(store, job, _registered(store, job, step), _environment(wanted)).run()


def _job(store: Store) -> Job:
    text = os.environ.get("SLURM_JOB_ID", "")
    job = store.job(int(text)) if text.isdigit() else None
    if job is None:
        raise CommandError("srun: error: the local cluster's srun works inside a job only")
    if job.status.ended:
        raise CommandError(f"srun: error: Unable to create step for job {text}: Job has finished")
    return job


def _registered(store: Store, job: Job, step: StepLayout) -> StepLayout:
    """The step with a number of its own; who runs it is written down, for the supervisor."""
    me = processes.process(os.getpid())
    folder = store.folder(job.request.id) / "steps"
    number = 0
    while True:
        try:
            with (folder / str(number)).open("x") as file:
                file.write(f"{os.getpid()} {me.start if me else ''}")
        except FileExistsError:
            number += 1
            continue
        return step.numbered(number)


def _environment(wanted: Mapping[str, str]) -> dict[str, str]:
    """What ``--export`` lets through: everything, or nothing but Slurm's own and the named."""
    export = wanted.get("export", os.environ.get("SLURM_EXPORT_ENV", "ALL")) or "ALL"
    words = [word for word in export.split(",") if word]
    given = {w.partition("=")[0]: w.partition("=")[2] for w in words if "=" in w}
    if "ALL" in words or not [w for w in words if "=" not in w]:
        return {**os.environ, **given}
    named = {w: os.environ[w] for w in words if w in os.environ}
    ours = {
        k: v
        for k, v in os.environ.items()
        if k.startswith(("SLURM", "JOBGEN_LOCAL_")) or k == "CUDA_VISIBLE_DEVICES"
    }
    return {**ours, **named, **given}

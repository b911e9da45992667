"""Commands that a diagnosis proposes, tried on the job file before they are shown."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.program_settings import (
    describe_batch,
    describe_setting,
    find_framework,
    is_of_program,
    is_other,
    is_set,
    list_programs,
    name_passed,
)
from jobgen.diagnose.remedies import Remedy
from jobgen.errors import JobgenError
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobgen.app.prepare import PreparedJob
    from jobgen.app.world import World
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.plan import Estimate
    from jobgen.model.record import RunRecord


class FailedJob(NamedTuple):
    """A job that commands are tried on before they are shown."""

    file: Path
    profile: str
    """The cluster, or the path of its profile."""
    cluster: str
    """The cluster, as the job file may name it."""
    sets: tuple[str, ...] = ()
    """The values of ``--set`` that it was submitted with."""
    lines: tuple[str, ...] = ()
    """Of its log, those that show the failure."""


_SUBMIT = "jobgen submit job.yaml"
_PLAN = "jobgen plan job.yaml"
_MEMORY = "--section memory"
_MOST = 20
"""Files beside which a job file is looked for."""
_GIB = 1 << 30


def find_job_file(world: World, record: RunRecord) -> Path | None:
    """The job file that a run was submitted from, else one of the current folder; None if none has
    its name."""
    name = re.compile(rf"^name: *[\"']?{re.escape(record.name)}[\"']? *(?:#.*)?$", re.MULTILINE)
    recorded = [_shorten(Path(record.job_file))] if record.job_file else []
    paths = [
        *recorded,
        Path("job.yaml"),
        *sorted((*Path().glob("*.yaml"), *Path().glob("*.yml")))[:_MOST],
    ]
    for path in paths:
        try:
            text = world.read(path, str(path)) if path.is_file() else ""
        except JobgenError:
            continue
        if name.search(text):
            return path
    return None


def _shorten(path: Path) -> Path:
    """The path from the current folder, of a file below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def check_fixes(world: World, record: RunRecord, remedies: Sequence[Remedy]) -> list[Remedy]:
    """The remedies that this job accepts, with what the planner says of each.

    Without its job file, those that change the job are shown as they are. A setting that changes
    nothing in this job is one of the program.
    """
    file = find_job_file(world, record)
    if file is None:
        return list(remedies)
    lines = record.cause.lines if record.cause else ()
    job = FailedJob(file, record.profile, record.site.cluster, record.sets, lines)
    return try_fixes(world, job, remedies)


def try_fixes(world: World, job: FailedJob, remedies: Sequence[Remedy]) -> list[Remedy]:
    """The remedies that a job accepts, as ``check_fixes`` has them."""
    checked = (_check(world, job, remedy) for remedy in remedies)
    return [remedy for remedy in checked if remedy is not None]


def find_logged_job(
    world: World, texts: Iterable[str], framework: str = ""
) -> Loaded[JobSpec] | None:
    """The job file of the current folder, if these logs name a program that it starts, and it
    trains with no other framework than they show."""
    from jobgen.app.prepare import JobFile, open_job

    path = Path("job.yaml")
    if not path.is_file():
        return None
    try:
        text = world.read(path, str(path))
        job = open_job(world, JobFile(text, str(path), Path.cwd(), Path.cwd())).read.loaded
    except JobgenError:
        return None
    if job is None or (job.value.train and is_other(job.value.train.framework, framework)):
        return None
    names = "|".join(re.escape(Path(file).name) for file in list_programs(job))
    pattern = re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])")
    return job if names and any(pattern.search(text) for text in texts) else None


def find_logged_cluster(world: World, job: Loaded[JobSpec], asked: str) -> str:
    """The cluster that is asked for, else the one that a job file names, if it has a profile and
    the job can be planned there; else empty."""
    name = asked or job.value.cluster or ""
    ready = _prepare(world, FailedJob(Path("job.yaml"), name, name), ()) if name else None
    return name if ready is not None else ""


def generalize(
    remedies: Sequence[Remedy], framework: str = "", job: Loaded[JobSpec] | None = None
) -> list[Remedy]:
    """The remedies for a job that jobgen did not submit: settings of its framework, or options of
    the job file, instead of commands, and no plan."""
    general = (
        _name_setting(remedy, framework, job) if remedy.command.startswith(_SUBMIT) else remedy
        for remedy in remedies
        if not remedy.command.startswith(_PLAN)
    )
    return [remedy for remedy in general if remedy.text or remedy.command]


def _check(world: World, job: FailedJob, remedy: Remedy) -> Remedy | None:
    if remedy.command.startswith(_SUBMIT):
        return _check_submit(world, job, remedy)
    if remedy.command.startswith(_PLAN):
        return _check_plan(world, job, remedy)
    named = re.sub(r"\bjob\.yaml\b", lambda _: shlex.quote(str(job.file)), remedy.command)
    return remedy._replace(command=named)


def _check_submit(world: World, job: FailedJob, remedy: Remedy) -> Remedy | None:
    proposed = _read_sets(remedy.command)
    before = _prepare(world, job, job.sets)
    sets = [value for value in proposed if before is None or not is_set(value, before)]
    if proposed and not sets:
        return None
    trains = bool(sets) and all(value.startswith("train.") for value in sets)
    if before is not None and trains and before.job.value.train is None:
        return _name_own(remedy, before, job)
    # whether a setting of train is read, the program shows: it is among the files to upload
    after = _prepare(world, job, (*job.sets, *sets), with_upload=trains)
    if after is None:
        return None
    if sets and (_changes_nothing(before, after) or (trains and _is_unread(after))):
        return _name_own(remedy, before or after, job)
    if _is_too_much(after):
        return None if trains else _name_own(remedy, after, job)
    return _propose(remedy, job, sets, after)


def _propose(
    remedy: Remedy, job: FailedJob, sets: Sequence[str], after: PreparedJob
) -> Remedy | None:
    """The command that submits the changed job, or the option that the program has to have."""
    if any(is_of_program(value, after) for value in sets):
        named = _name_own(remedy, after, job)
        return named and named._replace(text=_join(named.text, after.plan.estimate))
    words = _list_sets(job.sets, sets)
    if after.job.value.cluster != job.cluster:
        words += ["-c", job.profile]
    command = shlex.join(["jobgen", "submit", str(job.file), *words])
    text = "; ".join(part for part in (name_passed(sets, after), remedy.text) if part)
    return Remedy(_join(text, after.plan.estimate), command)


def _check_plan(world: World, job: FailedJob, remedy: Remedy) -> Remedy:
    """The plan of the job as it was submitted; without a model, what it needs for an estimate."""
    words = shlex.join(["jobgen", "plan", str(job.file), *_list_sets(job.sets)])
    ready = _prepare(world, job, job.sets)
    command = remedy.command.replace(_PLAN, words, 1)
    if _MEMORY not in remedy.command or ready is None or ready.plan.estimate is not None:
        return remedy._replace(command=command)
    return Remedy(f"{remedy.text}; needs train.model in {job.file}", command)


def _list_sets(*settings: Sequence[str]) -> list[str]:
    return [word for value in itertools.chain(*settings) for word in ("--set", value)]


def _name_own(remedy: Remedy, ready: PreparedJob, job: FailedJob) -> Remedy | None:
    """A setting of the program, in its framework's words; None if that cannot have it."""
    framework = find_framework(ready, job.lines)
    named = _name_setting(remedy, framework, ready.job)
    return named if named.text else None


def _prepare(
    world: World, job: FailedJob, sets: Sequence[str], *, with_upload: bool = False
) -> PreparedJob | None:
    from jobgen.app.prepare import prepare

    try:
        return prepare(world, job.file, job.profile, sets, with_upload=with_upload)
    except JobgenError:
        return None


def _changes_nothing(before: PreparedJob | None, after: PreparedJob) -> bool:
    return before is not None and _list_scripts(before) == _list_scripts(after)


def _is_too_much(ready: PreparedJob) -> bool:
    """Whether ``submit`` refuses the job because the planner's memory does not fit."""
    return ready.plan.estimate is not None and ready.plan.estimate.verdict == "no"


def _is_unread(ready: PreparedJob) -> bool:
    """Whether settings of ``train`` stand in a file that the program does not read."""
    from jobgen.resolve.unread import is_unread

    framework, launcher = ready.plan.other.get("framework"), ready.plan.launcher.value
    return framework is not None and is_unread(
        ready.job, ready.facts, launcher, str(framework.value)
    )


def _list_scripts(ready: PreparedJob) -> list[tuple[str, bytes]]:
    """What runs on the cluster; plan.json only describes it."""
    return [(file.path, file.content) for file in ready.bundle.files if file.path != "plan.json"]


def _name_setting(
    remedy: Remedy, framework: str = "", job: Loaded[JobSpec] | None = None
) -> Remedy:
    """A command in words, for those who do not start the job by it."""
    sets = _read_sets(remedy.command)
    named = [text for value in sets if (text := describe_setting(value, framework, job))]
    if sets and not named:
        return Remedy("")
    what = f"set {', '.join(named)}" if sets else "submit again"
    if remedy.text.startswith("if "):
        return Remedy(f"{remedy.text}: {what}")
    batch = next((text for value in sets if (text := describe_batch(value, framework, job))), "")
    return Remedy(": ".join(part for part in (what, batch or remedy.text) if part))


def _read_sets(command: str) -> list[str]:
    words = shlex.split(command.removeprefix(_SUBMIT))
    return [value for flag, value in itertools.pairwise(words) if flag == "--set"]


def _join(text: str, estimate: Estimate | None) -> str:
    if estimate is None or not estimate.limit:
        return text
    memory = f"{estimate.needed / _GIB:.1f} of {estimate.limit / _GIB:.1f} GiB"
    return "; ".join(part for part in (text, f"planner: {memory}") if part)

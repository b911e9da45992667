"""Commands that a diagnosis proposes, tried on the job file before they are shown."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.program_settings import describe_setting, find_framework, name_passed
from jobgen.diagnose.remedies import Remedy
from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.prepare import PreparedJob
    from jobgen.app.world import World
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.plan import Estimate
    from jobgen.model.record import RunRecord

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
    job = find_job_file(world, record)
    if job is None:
        return list(remedies)
    checked = (_check(world, record, job, remedy) for remedy in remedies)
    return [remedy for remedy in checked if remedy is not None]


def generalize(remedies: Sequence[Remedy], framework: str = "") -> list[Remedy]:
    """The remedies for a job that jobgen did not submit: settings of its framework instead of
    commands, and no plan."""
    general = (
        _name_setting(remedy, framework) if remedy.command.startswith(_SUBMIT) else remedy
        for remedy in remedies
        if not remedy.command.startswith(_PLAN)
    )
    return [remedy for remedy in general if remedy.text or remedy.command]


def _check(world: World, record: RunRecord, job: Path, remedy: Remedy) -> Remedy | None:
    if remedy.command.startswith(_SUBMIT):
        return _check_submit(world, record, job, remedy)
    if remedy.command.startswith(_PLAN):
        return _check_plan(world, record, job, remedy)
    named = re.sub(r"\bjob\.yaml\b", lambda _: shlex.quote(str(job)), remedy.command)
    return remedy._replace(command=named)


def _check_submit(world: World, record: RunRecord, job: Path, remedy: Remedy) -> Remedy | None:
    proposed = _read_sets(remedy.command)
    before = _prepare(world, record, job, record.sets)
    monitored = before is not None and before.plan.monitor is not None
    # what a monitor shows is there already: another period shows no more
    sets = [value for value in proposed if not (monitored and value.startswith("monitor="))]
    if proposed and not sets:
        return None
    trains = bool(sets) and all(value.startswith("train.") for value in sets)
    if before is not None and trains and before.job.value.train is None:
        return _name_own(remedy, before, record)
    # whether a setting of train is read, the program shows: it is among the files to upload
    after = _prepare(world, record, job, (*record.sets, *sets), with_upload=trains)
    if after is None:
        return None
    if sets and (_changes_nothing(before, after) or (trains and _is_unread(after))):
        return _name_own(remedy, before or after, record)
    if trains and _is_too_much(after):
        return None
    words = _list_sets(record.sets, sets)
    if after.job.value.cluster != record.site.cluster:
        words += ["-c", record.profile]
    command = shlex.join(["jobgen", "submit", str(job), *words])
    text = "; ".join(part for part in (name_passed(sets, after), remedy.text) if part)
    return Remedy(_join(text, after.plan.estimate), command)


def _check_plan(world: World, record: RunRecord, job: Path, remedy: Remedy) -> Remedy:
    """The plan of the job as it was submitted; without a model, what it needs for an estimate."""
    words = shlex.join(["jobgen", "plan", str(job), *_list_sets(record.sets)])
    ready = _prepare(world, record, job, record.sets)
    command = remedy.command.replace(_PLAN, words, 1)
    if _MEMORY not in remedy.command or ready is None or ready.plan.estimate is not None:
        return remedy._replace(command=command)
    return Remedy(f"{remedy.text}; needs train.model in {job}", command)


def _list_sets(*settings: Sequence[str]) -> list[str]:
    return [word for value in itertools.chain(*settings) for word in ("--set", value)]


def _name_own(remedy: Remedy, ready: PreparedJob, record: RunRecord) -> Remedy | None:
    """A setting of the program, in its framework's words; None if that cannot have it."""
    framework = find_framework(ready, record.cause.lines if record.cause else ())
    named = _name_setting(remedy, framework, ready.job)
    return named if named.text else None


def _prepare(
    world: World,
    record: RunRecord,
    job: Path,
    sets: Sequence[str],
    *,
    with_upload: bool = False,
) -> PreparedJob | None:
    from jobgen.app.prepare import prepare

    try:
        return prepare(world, job, record.profile, sets, with_upload=with_upload)
    except JobgenError:
        return None


def _changes_nothing(before: PreparedJob | None, after: PreparedJob) -> bool:
    return before is not None and _list_scripts(before) == _list_scripts(after)


def _is_too_much(ready: PreparedJob) -> bool:
    """Whether the planner's memory makes ``submit`` refuse the job."""
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
    return Remedy(": ".join(part for part in (what, remedy.text) if part))


def _read_sets(command: str) -> list[str]:
    words = shlex.split(command.removeprefix(_SUBMIT))
    return [value for flag, value in itertools.pairwise(words) if flag == "--set"]


def _join(text: str, estimate: Estimate | None) -> str:
    if estimate is None or not estimate.limit:
        return text
    memory = f"{estimate.needed / _GIB:.1f} of {estimate.limit / _GIB:.1f} GiB"
    return "; ".join(part for part in (text, f"planner: {memory}") if part)

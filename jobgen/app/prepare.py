"""From the words of a command to a plan and its files: read, gather facts, decide, render."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jobgen.app import clusters
from jobgen.app.clusters import Profile
from jobgen.app.gathering import Gathered, gather
from jobgen.app.plan_problems import arrange, drop_known, judge
from jobgen.app.world import World
from jobgen.errors import Diagnostic, Invalid, Missing
from jobgen.model.record import Site
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.code_changes import CodeChanges
    from jobgen.catalog import Catalog, ClusterFile
    from jobgen.load import Read
    from jobgen.model.bundle import Bundle
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.decision import PlanCheck
    from jobgen.model.facts import Facts
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.plan import Plan
    from jobgen.resolve.planner_request import PlannerRequest
    from jobgen.upload import Manifest


class PreparedJob(NamedTuple):
    """All that is decided before anything happens."""

    job: Loaded[JobSpec]
    profile: Loaded[ClusterProfile]
    cluster_file: ClusterFile
    plan: Plan
    bundle: Bundle
    site: Site
    base: Path
    """The folder of the job file."""
    workdir: Path
    facts: Facts
    manifest: Manifest | None = None
    """What would be uploaded; None where nobody asked."""
    planner_request: PlannerRequest | None = None
    """What the planner is asked about other strategies; None without ``train``."""
    sets: tuple[str, ...] = ()
    """The values of ``--set``."""
    text: str = ""
    """The job file."""
    label: str = ""
    """How places name the job file."""
    changes: CodeChanges | None = None
    """The commit and changes of code that was restored; None for a working directory of git's."""


class GeneratedJob(NamedTuple):
    """A job file that jobgen wrote itself, in a folder that places must not name."""

    label: str
    """How places name it."""
    beside: Path
    """The folder whose profiles it may name."""


class JobFile(NamedTuple):
    """A job file that was read: a pipe can be read only once."""

    text: str
    label: str
    """How places name it."""
    base: Path
    """The folder that paths in it start from."""
    beside: Path
    """The folder whose profiles it may name."""


class OpenedJob(NamedTuple):
    """A job file that was read, for as many clusters as it is planned on."""

    file: JobFile
    sets: tuple[str, ...]
    catalog: Catalog
    read: Read[JobSpec]


class ExaminedJob(NamedTuple):
    """Everything that is known of a job on a cluster before it is submitted."""

    ready: PreparedJob | None
    """None if an error leaves nothing to submit."""
    problems: tuple[Diagnostic, ...]
    """Of both files and of what follows from them, in the order of the lines."""
    checks: tuple[PlanCheck, ...]
    """Good news too."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems, and the checks that are not ok."""
        return arrange((*self.problems, *(judge(c) for c in self.checks if c.status != "ok")))


def prepare(
    world: World,
    job: Path,
    cluster: str | None,
    sets: Sequence[str] = (),
    *,
    with_upload: bool = True,
    made: GeneratedJob | None = None,
) -> PreparedJob:
    """The plan of a job on a cluster, its files, and what would be uploaded. Touches nothing.

    Raises Invalid with every problem and failed check, and Missing for an unknown cluster.
    """
    opened = open_job(world, _read_file(world, job, made), sets)
    return _refuse_invalid(examine_opened(world, opened, cluster, with_upload=with_upload))


def prepare_each(
    world: World, job: Path, clusters: Iterable[str], sets: Sequence[str] = ()
) -> Iterator[PreparedJob]:
    """The plan of a job on each cluster, without files and upload. Raises like ``prepare``."""
    opened = open_job(world, _read_file(world, job, None), sets)
    for name in clusters:
        examined = examine_opened(world, opened, name, with_upload=False, with_files=False)
        yield _refuse_invalid(examined)


def _refuse_invalid(examined: ExaminedJob) -> PreparedJob:
    if examined.ready is None:
        raise Invalid(*examined.diagnostics)
    return examined.ready


def _read_file(world: World, job: Path, made: GeneratedJob | None) -> JobFile:
    label = made.label if made else world.format_path(job)
    text = world.read(job, label)
    base = job.resolve().parent
    return JobFile(text, label, base, made.beside if made else base)


def examine(
    world: World,
    file: JobFile,
    cluster: str | None,
    sets: Sequence[str] = (),
    *,
    with_upload: bool = True,
) -> ExaminedJob:
    """Every check that comes before a connection, whatever the others find. Touches nothing.

    Raises Missing if nothing but the cluster is wrong.
    """
    return examine_opened(world, open_job(world, file, sets), cluster, with_upload=with_upload)


def open_job(world: World, file: JobFile, sets: Sequence[str] = ()) -> OpenedJob:
    """The job as it is read for every cluster."""
    from jobgen.load import read_job

    read = read_job(file.text, file.label, sets=sets)
    return OpenedJob(file, tuple(sets), world.open_catalog(beside=file.beside), read)


def examine_opened(
    world: World,
    opened: OpenedJob,
    cluster: str | None,
    *,
    with_upload: bool = True,
    with_files: bool = True,
) -> ExaminedJob:
    """As ``examine``, of a job that was read; without files its bundle is empty."""
    from jobgen.load import read_job

    file, sets, catalog, read = opened
    spec = read.loaded or read.partial
    named = cluster or (spec.value.cluster if spec else None)
    problems = list(read.problems)
    profile = None
    try:
        if named or read.loaded:
            profile = clusters.find(world, named, catalog)
    except Missing as error:
        if not problems:
            raise
        problems += error.problems
    except Invalid as error:
        problems += error.problems
    if spec is None or profile is None:
        return ExaminedJob(None, arrange((*problems, *read.notes)), ())
    target = profile.loaded.value if with_upload else None
    gathered = gather(world, spec, file.base, target)
    others = clusters.find_for_groups(world, spec, profile.loaded.value, catalog)
    problems += others.problems
    gathered = gathered._replace(facts=gathered.facts._replace(profiles=others.profiles))
    command = _name_plan_command(file.label, cluster, sets)
    where = catalog if with_files else None
    files = _Files(profile, file, where, command, tuple(sets))
    problems += gathered.problems
    examined = _decide(world, gathered, files, problems)
    if read.loaded is None:
        examined = _keep_independent(examined, problems)
    if examined.ready is None:
        judged = read_job(file.text, file.label, sets=sets, cluster=profile.loaded.value).notes
        more = tuple(drop_known(judged, examined.problems))
        examined = examined._replace(problems=arrange((*examined.problems, *more)))
    return examined


_INDEPENDENT = frozenset({"J201", "J202", "J203", "J206", "J207", "J209", "J220", "J221", "J305"})
"""Codes that follow from one key of the job, whatever is wrong with the others."""


def _keep_independent(examined: ExaminedJob, known: Sequence[Diagnostic]) -> ExaminedJob:
    """What also holds when the keys that are wrong are mended."""
    problems = (p for p in examined.problems if p in known or p.code in _INDEPENDENT)
    checks = tuple(check for check in examined.checks if check.code in _INDEPENDENT)
    return ExaminedJob(None, tuple(problems), checks)


class _Files(NamedTuple):
    profile: Profile
    job: JobFile
    catalog: Catalog | None
    """Where the templates are; None if nothing is rendered."""
    plan_command: str
    """What plans this very job."""
    sets: tuple[str, ...]


def _name_plan_command(label: str, cluster: str | None, sets: Sequence[str]) -> str:
    from jobgen.shell import join

    where = ("-c", cluster) if cluster else ()
    changed = [word for one in sets for word in ("--set", one)]
    return join(["jobgen", "plan", label, *where, *changed])


Hinted = TypeVar("Hinted", "PlanCheck", "Diagnostic")


def _name_command(check: Hinted, command: str) -> Hinted:
    """The check of memory with the command that its hint lacks; every other as it is."""
    from jobgen.resolve.measured import UNMEASURED
    from jobgen.resolve.planner_checks import UNFIT

    option = {UNFIT: "--section memory", UNMEASURED: "--measure"}.get(check.code)
    if option is None or not check.hint:
        return check
    return check._replace(hint=f"{check.hint}: {command} {option}")


def _decide(
    world: World, gathered: Gathered, files: _Files, problems: list[Diagnostic]
) -> ExaminedJob:
    """The plan and its files; with errors, what else is wrong."""
    from jobgen import resolve
    from jobgen.model.bundle import Bundle

    profile = files.profile.loaded
    found = resolve.examine(gathered.job, profile, gathered.facts)
    if problems or found.plan is None:
        more = drop_known(found.problems, problems)
        every = (*problems, *(_name_command(each, files.plan_command) for each in more))
        checks = (_name_command(check, files.plan_command) for check in found.checks)
        return ExaminedJob(None, arrange(every), tuple(checks))
    notes = (*clusters.note_hidden(files.profile.file), *found.plan.notes)
    checks = (_name_command(check, files.plan_command) for check in found.plan.checks)
    decided = found.plan._replace(notes=notes, checks=tuple(checks))
    plan, bundle = decided, Bundle(())
    if files.catalog is not None:
        plan, bundle = _render(world, files.catalog, decided)
    ready = PreparedJob(
        gathered.job,
        profile,
        files.profile.file,
        plan,
        bundle,
        files.profile.site,
        files.job.base,
        gathered.workdir,
        gathered.facts,
        gathered.manifest,
        found.planner_request,
        files.sets,
        files.job.text,
        files.job.label,
    )
    return ExaminedJob(ready, arrange(plan.notes), plan.checks)


def make_standalone(world: World, ready: PreparedJob) -> PreparedJob:
    """A prepared job with files for a person who keeps them, without what a submission needs."""
    catalog = world.open_catalog(beside=ready.base)
    return ready._replace(bundle=_render(world, catalog, ready.plan, standalone=True)[1])


def _render(
    world: World, catalog: Catalog, plan: Plan, *, standalone: bool = False
) -> tuple[Plan, Bundle]:
    templates = catalog.read_templates(plan.scheduler)
    if own := catalog.list_overrides(templates):
        from jobgen.app.overriding import override_templates

        return override_templates(world, plan, templates, own, standalone=standalone)
    from jobgen.render import render
    from jobgen.render.shipped_templates import fill_shipped

    return plan, render(plan, templates, fill_shipped, standalone=standalone)


def read_cluster_name(world: World, job: Path, sets: Sequence[str] = ()) -> str | None:
    """The cluster that the job itself names. Raises Invalid if the file cannot be read."""
    from jobgen.load import read_job

    file = _read_file(world, job, None)
    read = read_job(file.text, file.label, sets=sets)
    spec = read.loaded or read.partial
    return spec.value.cluster if spec else None

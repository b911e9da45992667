"""From the words of a command to a plan and its files: read, gather facts, decide, render."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobgen.app import secret
from jobgen.app.world import World
from jobgen.errors import Invalid, Missing, Problem
from jobgen.model.facts import Facts
from jobgen.model.record import JobId, Login, Site

if TYPE_CHECKING:
    from jobgen.catalog import Catalog
    from jobgen.model.bundle import Bundle
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.plan import Plan
    from jobgen.upload import Manifest


class Ready(NamedTuple):
    """All that is decided before anything happens."""

    job: Loaded[JobSpec]
    profile: Loaded[ClusterProfile]
    plan: Plan
    bundle: Bundle
    site: Site
    base: Path
    """The folder of the job file."""
    workdir: Path
    facts: Facts
    manifest: Manifest | None = None
    """What would be uploaded; None where nobody asked."""


class Made(NamedTuple):
    """A job file that jobgen wrote itself, somewhere that says nothing to anybody."""

    label: str
    """How places name it."""
    beside: Path
    """The folder whose profiles it may name."""


def prepare(
    world: World,
    job: Path,
    cluster: str | None,
    sets: Sequence[str] = (),
    *,
    with_upload: bool = True,
    made: Made | None = None,
) -> Ready:
    """The plan of a job on a cluster, its files, and what would be uploaded. Touches nothing.

    Raises Invalid with every problem of both files, and Missing for an unknown cluster.
    """
    from jobgen.load import load_job
    from jobgen.render import render
    from jobgen.resolve import resolve

    label = made.label if made else world.label(job)
    spec = load_job(world.read(job, label), label, sets=sets)
    base = job.resolve().parent
    catalog = world.catalog(beside=made.beside if made else base)
    profile = profile_of(world, catalog, cluster or spec.value.cluster)
    workdir = _workdir(world, spec, base)
    facts = _facts(world, spec, base, workdir)
    manifest = None
    if with_upload:
        from jobgen.upload import scan

        manifest = scan(workdir, spec.value.workdir)
        facts = facts._replace(
            workdir_files=frozenset(f.path for f in manifest.files),
            after=_after(world, spec, profile.value.name),
        )
    plan = resolve(spec, profile, facts)
    templates = catalog.templates(profile.value.scheduler)
    if own := catalog.own_templates(templates):
        from jobgen.app.overriding import overridden

        plan, bundle = overridden(world, plan, templates, own)
    else:
        bundle = render(plan, templates)
    return Ready(
        spec, profile, plan, bundle, site_of(profile.value), base, workdir, facts, manifest
    )


def site_of(profile: ClusterProfile) -> Site:
    """What later verbs need of a profile."""
    login = Login("local")
    if profile.ssh:
        ssh = profile.ssh
        login = Login(ssh.backend, ssh.host, ssh.user, ssh.port, ssh.fingerprint, ssh.auth)
    return Site(profile.name, profile.scheduler, login, profile.paths.root, profile.accounting)


def profile_of(world: World, catalog: Catalog, name: str | None) -> Loaded[ClusterProfile]:
    """A profile by name or path. Raises Missing and Invalid."""
    from jobgen.load import load_cluster

    if not name:
        known = ", ".join(file.name for file in catalog.clusters())
        raise Missing(
            "no cluster is named",
            hint=f"add -c NAME, or cluster: NAME to the job file; known: {known}",
        )
    file = catalog.cluster(name)
    world.texts.update(file.texts)
    return load_cluster(file.text, file.label, parent=file.parent)


def _workdir(world: World, spec: Loaded[JobSpec], base: Path) -> Path:
    """The directory that is uploaded. Raises Invalid where there is none."""
    named = spec.value.workdir.path
    start, _, rest = named.partition("/")
    workdir = (world.home / rest if start == "~" else base / named).resolve()
    if not workdir.is_dir():
        hint = "it is taken relative to the job file"
        if start.startswith("~"):
            hint = "~/ is your home on this machine; other homes are written out"
        place = spec.at("workdir", "path") if ("workdir", "path") in spec.places else None
        raise Invalid(
            Problem(
                "J180",
                f"workdir '{named}' is no directory",
                place or spec.at("workdir"),
                hint,
            )
        )
    return workdir


def _facts(world: World, spec: Loaded[JobSpec], base: Path, workdir: Path) -> Facts:
    texts = {name: _copied(spec, workdir, name, path) for path, name in _named(spec.value)}
    return Facts(
        secrets=secret.origins(world, spec.value.secrets, base),
        texts=texts,
        job_label=spec.label,
    )


def _named(job: JobSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Files of the working directory that the plan reads: key of job.yaml, and path."""
    train = job.train
    if job.launcher.config:
        yield ("launcher", "config"), job.launcher.config
    if train and isinstance(train.model, str) and train.model.endswith(".json"):
        yield ("train", "model"), train.model
    if train and train.config:
        yield ("train", "config"), train.config


def _copied(spec: Loaded[JobSpec], workdir: Path, name: str, path: tuple[str, ...]) -> bytes:
    from jobgen.app.world import read_limited

    try:
        return read_limited(workdir / name)
    except OSError as error:
        raise Invalid(
            Problem(
                "J181",
                f"{'.'.join(path)} '{name}' cannot be read: {error.strerror}",
                spec.at(*path),
                "it is taken relative to the workdir",
            )
        ) from error


def _after(world: World, spec: Loaded[JobSpec], cluster: str) -> dict[str, str]:
    """Name in ``after:`` → the id of its newest run on this cluster, for those that have one."""
    ids = {}
    for name in spec.value.after:
        record = world.ledger.last(name, cluster=cluster)
        if record and record.job:
            ids[name] = str(JobId(record.job.job))
    return ids

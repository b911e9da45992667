"""What a plan depends on beside its two files: the workdir, secrets, runs of other jobs."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app import secret
from jobgen.app.measurements import find_measurements
from jobgen.app.program_sources import read_sources
from jobgen.app.upload_safety import find_leaks, refuse_workdir
from jobgen.app.workdir_files import find_word
from jobgen.app.world import World, read_regular
from jobgen.errors import Diagnostic, Invalid, Place
from jobgen.model.chain import read_chain
from jobgen.model.facts import Facts
from jobgen.model.race import is_undecided
from jobgen.model.record import JobId, RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.groups import JobGroup
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.loaded import Path as KeyPath
    from jobgen.model.steps import JobStep
    from jobgen.upload import Manifest


class Gathered(NamedTuple):
    """What lies outside the two files, as far as it could be read."""

    job: Loaded[JobSpec]
    """Without the part that needs files which cannot be read."""
    workdir: Path
    facts: Facts
    manifest: Manifest | None
    problems: tuple[Diagnostic, ...]


def gather(
    world: World, spec: Loaded[JobSpec], base: Path, cluster: ClusterProfile | None
) -> Gathered:
    """The facts of a job; with a cluster, its upload and the runs that it waits for, too."""
    workdir, manifest = locate_workdir(world, spec, base), None
    facts = Facts(secrets=secret.locate_secrets(world, spec.value.secrets, base))
    if cluster is not None:
        local = cluster.scheduler == "local"
        missing = find_missing_launchers(world) if local else frozenset[str]()
        after = _find_awaited(world, spec, cluster.name)
        facts = facts._replace(
            after={name: _choose_end(record) for name, record in after.items()},
            chains=frozenset(n for n, record in after.items() if read_chain(record.shape)),
            steps=frozenset(n for n, record in after.items() if record.site.inside),
            missing_launchers=missing,
        )
    if spec.value.workdir.at is not None or not workdir.is_dir():
        return _gather_nothing(spec, workdir, facts)
    texts, problems = _read_named(world, spec, workdir)
    job = _without_files(spec) if problems else spec
    facts = facts._replace(texts=texts, measured=find_measurements(world, spec.value, workdir))
    if cluster is not None:
        from jobgen.upload import scan

        if refused := refuse_workdir(world, workdir, _place_of_workdir(spec)):
            problems.append(refused)
            return Gathered(job, workdir, facts, None, tuple(problems))
        try:
            manifest = scan(workdir, spec.value.workdir)
            facts = _read_files(facts, spec, manifest)
            problems += find_leaks(world, manifest, texts)
        except Invalid as error:
            problems += error.problems
    return Gathered(job, workdir, facts, manifest, tuple(problems))


def _gather_nothing(spec: Loaded[JobSpec], workdir: Path, facts: Facts) -> Gathered:
    """Of a job without an upload, where its code stays on the cluster or is not there."""
    if spec.value.workdir.at is not None:
        return Gathered(spec, workdir, facts, None, ())
    return Gathered(_without_files(spec), workdir, facts, None, (_no_workdir(spec),))


def gather_files(world: World, spec: Loaded[JobSpec], base: Path) -> Facts:
    """The facts that the workdir alone gives; none if it cannot be uploaded."""
    from jobgen.upload import scan

    if spec.value.workdir.at is not None:
        return Facts()
    workdir = locate_workdir(world, spec, base)
    try:
        manifest = scan(workdir, spec.value.workdir)
    except Invalid:
        return Facts()
    return _read_files(Facts(texts=_read_named(world, spec, workdir)[0]), spec, manifest)


def find_missing_launchers(world: World) -> frozenset[str]:
    """Launchers that a job on the local cluster does not find on its PATH, before its setup."""
    import shutil

    from jobgen.model.launchers import LAUNCHERS
    from jobgen.payload.localslurm.environment import path

    folders = path("NONE", world.environ)
    agents = {facts.agent or name for name, facts in LAUNCHERS.items() if facts.task == "agent"}
    return frozenset(name for name in agents if not shutil.which(name, path=folders))


def _read_files(facts: Facts, spec: Loaded[JobSpec], manifest: Manifest) -> Facts:
    """The facts with what the program's files mention, so far as a check of the job needs it."""
    job = spec.value
    files = frozenset(f.path for f in manifest.files)
    sources = read_sources(spec, manifest) if _is_judged(job) else None
    named = find_word(manifest, b"JOBGEN_STOP_FILE") if job.checkpoint else None
    return facts._replace(workdir_files=files, sources=sources, stop_file_named=named)


def _is_judged(job: JobSpec) -> bool:
    """Whether a check looks into the program."""
    programs = job.list_programs()
    trained = job.launcher.config or any(each.train for each in programs)
    named = any(each.launcher and each.launcher.config for each in programs)
    return bool(trained) or named or any("--deepspeed" in each.run for each in programs)


def _read_named(
    world: World, spec: Loaded[JobSpec], workdir: Path
) -> tuple[dict[str, bytes], list[Diagnostic]]:
    """The files of the workdir that keys of the job name, and which cannot be read."""
    texts: dict[str, bytes] = {}
    problems = []
    for path, name in _named(spec.value):
        try:
            texts[name] = _read_inside(workdir, name)
        except OSError as error:
            problems.append(_unread(spec, name, path, error))
        else:
            label = world.format_path(workdir / name)
            world.texts.setdefault(label, texts[name].decode("utf-8", "replace"))
    return texts | _read_inner(spec.value, workdir, texts), problems


def _read_inner(job: JobSpec, workdir: Path, texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """The DeepSpeed configuration that the launcher's own configuration names, if it is there."""
    launchers = (job.launcher, *(each.launcher for each in job.list_programs()))
    configs = [launcher.config for launcher in launchers if launcher]
    found: dict[str, bytes] = {}
    for config in filter(None, configs):
        from jobgen.launch.accelerate import name_deepspeed_file

        name = name_deepspeed_file(texts.get(config, b""))
        with suppress(OSError):
            found |= {name: _read_inside(workdir, name)} if name else {}
    return found


def _read_inside(workdir: Path, name: str) -> bytes:
    """A file of the working directory. Raises OSError, also for a link that leads outside."""
    path = Path(realpath(workdir / name))
    if not path.is_relative_to(workdir):
        raise OSError(errno.EXDEV, "it lies outside the working directory")
    return read_regular(path)


def _without_files(spec: Loaded[JobSpec]) -> Loaded[JobSpec]:
    """The job without what it takes from files: nothing can be decided from those."""
    job = spec.value
    if not any(path[-2] == "train" for path, _ in _named(job)):
        return spec
    steps = tuple(step.replace(train=None) for step in job.steps)
    groups = tuple(group.replace(train=None) for group in job.groups)
    return spec._replace(value=job.replace(train=None, steps=steps, groups=groups))


def locate_workdir(world: World, spec: Loaded[JobSpec], base: Path) -> Path:
    """The directory that is uploaded, whether it is there or not; the job file's own where the
    code stays on the cluster."""
    named = spec.value.workdir.path
    start, _, rest = named.partition("/")
    return Path(realpath(world.home / rest if start == "~" else base / named))


def _no_workdir(spec: Loaded[JobSpec]) -> Diagnostic:
    named = spec.value.workdir.path
    hint = "it is relative to the job file"
    if named.startswith("~"):
        hint = "~/ is your home on this machine; other homes are written out"
    message = f"workdir '{named}' is not a directory"
    return Diagnostic("J180", message, _place_of_workdir(spec), hint)


def _place_of_workdir(spec: Loaded[JobSpec]) -> Place:
    path = ("workdir", "path")
    return spec.find_place(*path) if path in spec.places else spec.find_place("workdir")


def _named(job: JobSpec) -> Iterator[tuple[KeyPath, str]]:
    """Files of the working directory that the plan reads: key of job.yaml, and path."""
    yield from _list_files(job, ())
    for index, step in enumerate(job.steps):
        yield from _list_files(step, ("steps", index))
    for group in job.groups:
        yield from _list_files(group, ("groups", group.name))


def _list_files(job: JobSpec | JobStep | JobGroup, above: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The files that one program's keys name."""
    train = job.train
    if job.launcher and job.launcher.config:
        yield (*above, "launcher", "config"), job.launcher.config
    if train and isinstance(train.model, str) and train.model.endswith(".json"):
        yield (*above, "train", "model"), train.model
    if train and train.config:
        yield (*above, "train", "config"), train.config


def _unread(spec: Loaded[JobSpec], name: str, path: KeyPath, error: OSError) -> Diagnostic:
    message = f"{'.'.join(map(str, path))} '{name}' cannot be read: {error.strerror}"
    return Diagnostic("J181", message, spec.find_place(*path), "it is relative to the workdir")


def _find_awaited(world: World, spec: Loaded[JobSpec], cluster: str) -> dict[str, RunRecord]:
    """Name in ``after:`` → its newest run on this cluster, for those that have a job."""
    runs = {name: world.ledger.find_last(name, cluster=cluster) for name in spec.value.after}
    return {name: record for name, record in runs.items() if record and record.job}


def _choose_end(record: RunRecord) -> str:
    """The id of the job whose end is that of the run; empty for a race of which no job has started,
    for a chain that has not ended, and for a run inside an allocation."""
    unknown = is_undecided(record) or (read_chain(record.shape) and not record.ended)
    unknown = unknown or bool(record.site.inside)
    return "" if unknown or record.job is None else str(JobId(record.job.job))

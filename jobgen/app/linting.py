"""Every problem of files, without stopping at the first and without touching a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app import clusters
from jobgen.app.world import World
from jobgen.errors import Diagnostic, Invalid, Place, Severity
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.prepare import JobFile
    from jobgen.catalog import Parent
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.decision import PlanCheck
    from jobgen.model.facts import Facts
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded


_CLUSTER = re.compile(r"^cluster:[ \t]+([\w./-]+)[ \t]*(?:#.*)?$", re.MULTILINE)
_VARIANTS = re.compile(r"^variants:", re.MULTILINE)
_SAVE_THEMSELVES = frozenset({"hf-trainer", "lightning", "megatron", "torchtitan"})
"""Values of ``train.framework`` with which the program need not look for the stop file."""


class LintedFile(NamedTuple):
    """One file: how it is called, what it is, its text for excerpts, what is wrong with it."""

    label: str
    kind: str
    text: str
    problems: tuple[Diagnostic, ...]
    valid: bool
    """Whether it could be used; rules may still find errors in a valid file."""
    partial: bool = False
    """Whether it is a job that did not get the checks which need a cluster."""
    passed: tuple[str, ...] = ()
    """What was checked and is well, or could not be checked."""


def lint(
    world: World, files: Sequence[Path], cluster: str | None = None, sets: Sequence[str] = ()
) -> tuple[LintedFile, ...]:
    """Each file with all its problems, in the order given.

    On a cluster that is named, here or by the job, a job gets every check of ``submit``; that there
    is none of the name in the job is a warning. Without ``cluster``, the one profile among the
    files goes before: jobs and scripts are judged on it. Raises Missing if there is no cluster
    ``cluster``, Invalid if its profile is wrong.
    """
    texts = [(path, _read(world, path)) for path in files]
    if cluster is None:
        where = _cluster(world, texts)
        return tuple(_lint(world, path, text, where, sets) for path, text in texts)
    jobs = {path for path, text in texts if isinstance(text, str) and _is_job(path, text)}
    where = _named(world, cluster) if len(jobs) < len(texts) else None
    return tuple(
        _examine(world, path, text, cluster, sets)
        if path in jobs and isinstance(text, str)
        else _lint(world, path, text, where)
        for path, text in texts
    )


def _is_job(path: Path, text: str) -> bool:
    from jobgen.load import detect_kind, is_script

    return not is_script(text, path.name) and detect_kind(text, path.name) == "job"


def _examine(
    world: World, path: Path, text: str, cluster: str | None, sets: Sequence[str]
) -> LintedFile:
    from jobgen.app.prepare import JobFile, examine

    label, base = world.format_path(path), path.resolve().parent
    job = JobFile(text, label, base, base)
    found = examine(world, job, cluster, sets)
    passed = tuple(check.message for check in found.checks if check.status == "ok")
    valid = found.ready is not None
    linted = LintedFile(label, "job", text, found.diagnostics, valid=valid, passed=passed)
    if not _VARIANTS.search(text):
        return linted
    return _add_variants(linted, tuple(_examine_variants(world, job, cluster, sets)))


def _examine_variants(
    world: World, job: JobFile, cluster: str | None, sets: Sequence[str]
) -> Iterator[LintedFile]:
    """The job with each of its variants; what stands on no line names the variant."""
    from jobgen.app.prepare import examine
    from jobgen.errors import Missing
    from jobgen.load import list_variants

    for chosen in list_variants(job.text, job.label, sets):
        try:
            found = examine(world, job, cluster, chosen)
            problems, valid = found.diagnostics, found.ready is not None
        except Missing as missing:
            problems, valid = missing.problems, False
        name = chosen[-1].removeprefix("variant=")
        named = tuple(
            problem if problem.place else problem._replace(message=f"{name}: {problem.message}")
            for problem in problems
        )
        yield _excuse(LintedFile(job.label, "job", job.text, named, valid=valid))


def _add_variants(linted: LintedFile, variants: Sequence[LintedFile]) -> LintedFile:
    """The file with what is wrong with its variants alone."""
    known = {(each.code, each.place, each.message) for each in linted.problems}
    problems = [*linted.problems]
    for variant in variants:
        for each in variant.problems:
            if (each.code, each.place, each.message) not in known and each not in problems:
                problems.append(each)
    valid = linted.valid and all(variant.valid for variant in variants)
    return linted._replace(problems=tuple(problems), valid=valid)


def _excuse(linted: LintedFile) -> LintedFile:
    """What only a person who submits can give, as warnings and notes: files are also checked where
    nobody may submit."""
    from jobgen.load.substitution import UNGIVEN
    from jobgen.resolve.checks import UNSET

    lighter: Mapping[str, Severity] = {UNSET: "warning", UNGIVEN: "note"}
    problems = tuple(
        problem._replace(severity=lighter.get(problem.code, problem.severity))
        for problem in linted.problems
    )
    valid = not any(problem.severity == "error" for problem in problems)
    return linted._replace(problems=problems, valid=linted.valid or valid)


def _named(world: World, name: str) -> ClusterProfile:
    return clusters.find(world, name).loaded.value


def _read(world: World, path: Path) -> str | Invalid:
    try:
        return world.read(path)
    except Invalid as error:
        return error


def _lint(
    world: World,
    path: Path,
    text: str | Invalid,
    where: ClusterProfile | None,
    sets: Sequence[str] = (),
) -> LintedFile:
    from jobgen.app.plan_problems import judge
    from jobgen.load import check

    label = world.format_path(path)
    if isinstance(text, Invalid):
        return LintedFile(label, "file", "", text.problems, valid=False)
    unknown: tuple[Diagnostic, ...] = ()
    if where is None and (named := _CLUSTER.search(text)) and _is_job(path, text):
        unknown = _check_named(world, path, text, named)
        if not unknown:
            return _excuse(_examine(world, path, text, None, sets))
    checked = check(text, label, parent=_parent(world, path, text), cluster=where, sets=sets)
    problems = (*checked.problems, *unknown)
    partial = checked.kind == "job"
    found: tuple[PlanCheck, ...] = ()
    if partial and checked.valid:
        found = tuple(_check_files(world, path, text, sets))
    problems = (*problems, *map(judge, (check for check in found if check.status != "ok")))
    passed = tuple(check.message for check in found if check.status == "ok")
    return LintedFile(label, checked.kind, text, problems, checked.valid, partial, passed)


def _check_files(world: World, path: Path, text: str, sets: Sequence[str]) -> Iterator[PlanCheck]:
    """Whether the program's files are there and mention what they should: the checks of ``submit``
    that need no cluster."""
    from jobgen.app.gathering import gather_files
    from jobgen.load import read_job
    from jobgen.resolve.run_files import check_scripts

    spec = read_job(text, world.format_path(path), sets=sets, complete=False).loaded
    if spec is None:
        return
    facts = gather_files(world, spec, path.resolve().parent)
    yield from check_scripts(spec, facts.workdir_files)
    yield from (*_check_readers(spec, facts), *_check_stop_file(spec, facts))
    yield from _check_model(spec, facts)


def _check_model(spec: Loaded[JobSpec], facts: Facts) -> Iterator[PlanCheck]:
    """Sizes in the model's config.json that no model has, and layers that the model lacks."""
    from jobgen.model.decision import PlanCheck
    from jobgen.resolve.model_file import check_layer_classes, check_model_file

    for found in check_model_file(spec, facts.texts):
        yield PlanCheck("fail", found.message, found.code, found.hint, found.place)
    yield from check_layer_classes(spec, facts.texts)


def _check_readers(spec: Loaded[JobSpec], facts: Facts) -> Iterator[PlanCheck]:
    """A strategy that no file of the program reads."""
    train, launcher = spec.value.train, spec.value.launcher.type or ""
    if train is None or train.strategy.type == "auto":
        return
    from jobgen import strategy
    from jobgen.resolve.unread import check_readers

    reads = strategy.choose_framework(train, launcher)
    yield from check_readers(spec, facts, launcher, reads)


def _check_stop_file(spec: Loaded[JobSpec], facts: Facts) -> Iterator[PlanCheck]:
    """A stop file that nothing names, if the program itself has to look for it."""
    checkpoint, train = spec.value.checkpoint, spec.value.train
    if checkpoint is None or checkpoint.to == "ranks":
        return
    if train is not None and train.framework in _SAVE_THEMSELVES:
        return
    from jobgen.resolve.saving import check_mention

    yield from check_mention(spec, facts.stop_file_named)


def _check_named(
    world: World, path: Path, text: str, named: re.Match[str]
) -> tuple[Diagnostic, ...]:
    """A warning where there is no cluster of this name here."""
    from jobgen.errors import Missing

    catalog = world.open_catalog(beside=path.resolve().parent)
    try:
        catalog.find_cluster(named.group(1))
    except Missing as error:
        line = text.count("\n", 0, named.start()) + 1
        start, end = (at - named.start() + 1 for at in named.span(1))
        place = Place(world.format_path(path), line, start, end)
        return tuple(one._replace(place=place, severity="warning") for one in error.problems)
    except Invalid:
        pass
    return ()


def _cluster(world: World, texts: Sequence[tuple[Path, str | Invalid]]) -> ClusterProfile | None:
    """The one profile among several files, if it is valid."""
    if len(texts) < 2:
        return None
    from jobgen.load import detect_kind, is_script, load_cluster

    found = [
        (path, text)
        for path, text in texts
        if isinstance(text, str)
        and not is_script(text, path.name)
        and detect_kind(text, path.name) == "cluster"
    ]
    if len(found) != 1:
        return None
    path, text = found[0]
    try:
        return load_cluster(text, path.name, parent=_parent(world, path, text)).value
    except Invalid:
        return None


def _parent(world: World, path: Path, text: str) -> Parent | None:
    """The profile that this file extends, where it is one and there is such a profile."""
    from jobgen.errors import Missing

    try:
        return world.open_catalog(beside=path.resolve().parent).find_parent(path, text)
    except (Missing, Invalid):
        return None
